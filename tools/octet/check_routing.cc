// SPDX-License-Identifier: Apache-2.0
#include "check_routing.h"

#include <fmt/format.h>

#include "report.h"

namespace octet::tools {
namespace {

using reference::Misfit;
using reference::RoutingVerdict;

template <class T>
const T* data_of(const TensorView& t) {
  return t.data == nullptr ? nullptr : t.as<T>();
}

std::string misfit_text(const Misfit& m) {
  return fmt::format("got {:.9g}, want {:.9g} in [{:.9g}, {:.9g}]", m.got, m.want.value, m.want.lo,
                     m.want.hi);
}

Status failure(const std::string& model, const char* what, const Misfit& m, int64_t wrong,
               int64_t all) {
  return invalid_argument(
      fmt::format("{}: {}[{}, {}]: found {:.9g}, want {:.9g}..{:.9g}; {} of {} elements outside",
                  model, what, m.token, m.column, m.got, m.want.lo, m.want.hi, wrong, all));
}

}  // namespace

RoutingVerdict check_routing(const checkpoint::LayerTensors& layer, const LayerInput& input,
                             LayerOutput& output) {
  if (input.has(input.topk_ids) || input.tokens() == 0) return {};
  const checkpoint::Gate& g = layer.gate;
  const LayerSpec& spec = layer.spec;
  // Checkpoints put tensors anywhere.
  Tensor weight, logit_bias, bias, bias_vl, table;
  const auto aligned = [](const TensorView& from, Tensor& to) {
    if (from.data == nullptr) return TensorView{};
    to = copy_of(from);
    return to.view();
  };
  GateArgs gate{.x = input.x.as<Bf16>(),
                .tokens = input.tokens(),
                .hidden = spec.hidden,
                .experts = spec.experts,
                .round_to_bf16 = spec.router.kind == RouterKind::kFlint};
  if (!input.has(input.logits)) {
    gate.weight = aligned(g.weight, weight);
    gate.logit_bias = aligned(g.logit_bias, logit_bias);
  }
  const bool has_images = spec.router.image_sentinel_lo > 0;
  const TopkArgs topk{
      .logits = output.logits.as<float>(),
      .tokens = input.tokens(),
      .experts = spec.experts,
      .router = spec.router,
      .bias = data_of<float>(aligned(g.bias, bias)),
      .bias_vl = has_images ? data_of<float>(aligned(g.bias_vl, bias_vl)) : nullptr,
      .input_ids = {input.has(input.input_ids) ? input.input_ids.data() : nullptr, true},
      .table = data_of<int32_t>(aligned(g.table, table)),
      .vocab = g.table.data == nullptr ? 0 : g.table.dim(0),
      .topk_ids = output.topk_ids.as<int32_t>(),
      .topk_weights = output.topk_weights.as<float>()};
  return reference::judge_routing(gate, topk);
}

std::string logits_text(const RoutingVerdict& v) {
  if (v.num_slots == 0) return "not judged: ids were given";
  if (v.num_logits == 0) return "given";
  if (v.num_logits_outside == 0) {
    return fmt::format("{} elements, all inside their bounds; the worst takes {:.0f} % of its own",
                       v.num_logits, v.worst_logit * 100);
  }
  return fmt::format("{} of {} elements OUTSIDE; row {}, expert {}: {}", v.num_logits_outside,
                     v.num_logits, v.logit.token, v.logit.column, misfit_text(v.logit));
}

std::string routing_text(const RoutingVerdict& v) {
  if (v.num_slots == 0) return "not judged: ids were given";
  if (v.num_ids_wrong > 0) {
    return fmt::format("{} with WRONG ids; row {}, slot {}: got {}, want {}",
                       count_text(v.num_ids_wrong, "row"), v.id.token, v.id.column, v.id.got,
                       v.id.want.value);
  }
  if (v.num_weights_outside > 0) {
    return fmt::format("{} of {} weights OUTSIDE; row {}, slot {}: {}", v.num_weights_outside,
                       v.num_slots, v.weight.token, v.weight.column, misfit_text(v.weight));
  }
  return fmt::format("{} ids and weights, all right; {} ties", v.num_slots, v.num_ties);
}

void add_routing(const RoutingVerdict& v, Json& report) {
  report["logits_elements"] = v.num_logits;
  report["logits_outside"] = v.num_logits_outside;
  report["logits_max_error_over_bound"] = v.worst_logit;
  report["routing_slots"] = v.num_slots;
  report["routing_ties"] = v.num_ties;
  report["ids_wrong"] = v.num_ids_wrong;
  report["weights_outside"] = v.num_weights_outside;
}

Status routing_status(const std::string& model, const RoutingVerdict& v) {
  if (v.num_logits_outside > 0) {
    return failure(model, "logits", v.logit, v.num_logits_outside, v.num_logits);
  }
  if (v.num_ids_wrong > 0) {
    return invalid_argument(fmt::format("{}: topk_ids[{}, {}]: found {}, want {}; {} wrong", model,
                                        v.id.token, v.id.column, v.id.got, v.id.want.value,
                                        count_text(v.num_ids_wrong, "row")));
  }
  if (v.num_weights_outside > 0) {
    return failure(model, "topk_weights", v.weight, v.num_weights_outside, v.num_slots);
  }
  return {};
}

}  // namespace octet::tools
