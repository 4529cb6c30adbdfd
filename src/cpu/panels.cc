// SPDX-License-Identifier: Apache-2.0
#include "cpu/experts.h"
#include "cpu/gather_panel.h"

namespace octet::cpu {
namespace {

StoredRows w13_rows(const PreparedPanels::Tensors& t) {
  return {WeightFormat::kMxfp4, t.hidden, t.hidden};
}
StoredRows w2_rows(const PreparedPanels::Tensors& t) {
  return {WeightFormat::kMxfp4, t.intermediate, t.padded};
}

// Expert e's tensors; those that are missing stay null.
layouts::PreparedExpert expert_of(const PreparedPanels::Tensors& t, int64_t e) {
  const int64_t w13 = e * 2 * t.padded * t.hidden;  // elements before it
  const int64_t w2 = e * t.hidden * t.padded;
  const auto at = [](const uint8_t* base, int64_t bytes) {
    return base == nullptr ? nullptr : base + bytes;
  };
  return {at(t.w13, w13 / 2), at(t.w13_scale, w13 / kMxBlock),
          at(t.w2, w2 / 2),   at(t.w2_scale, w2 / kMxBlock),
          t.hidden,           t.padded};
}

}  // namespace

PreparedPanels::PreparedPanels(const Tensors& tensors)
    : t_(tensors), sizes_(gathered_sizes(w13_rows(tensors), w2_rows(tensors))) {}

ExpertParams PreparedPanels::params(int64_t local_expert) const {
  ExpertParams p;
  if (t_.clamp != nullptr) p.limit = t_.clamp[local_expert];
  return p;
}

int64_t PreparedPanels::scratch_bytes() const {
  return std::max(w13_rows(t_).scratch_bytes(), w2_rows(t_).scratch_bytes());
}

const uint8_t* PreparedPanels::gate_up_panel(int64_t local_expert, int64_t panel,
                                             uint8_t* scratch) const {
  const layouts::PreparedExpert expert = expert_of(t_, local_expert);
  return gather_gate_up(
      w13_rows(t_), t_.intermediate, panel, scratch,
      [&](layouts::W13Row row, uint8_t* scales) { return layouts::w13_row(expert, row, scales); });
}

const uint8_t* PreparedPanels::down_panel(int64_t local_expert, int64_t panel,
                                          uint8_t* scratch) const {
  const layouts::PreparedExpert expert = expert_of(t_, local_expert);
  return gather_down(w2_rows(t_), t_.hidden, panel, scratch, [&](int64_t channel, uint8_t* scales) {
    return layouts::w2_row(expert, channel, scales);
  });
}

}  // namespace octet::cpu
