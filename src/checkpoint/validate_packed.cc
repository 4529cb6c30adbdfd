// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/validate_packed.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <utility>

#include "checkpoint/model.h"
#include "checkpoint/packed.h"
#include "checkpoint/packed_file.h"
#include "checkpoint/validate_scan.h"
#include "layouts/panel.h"

namespace octet::checkpoint {
namespace {

using layouts::kPanelGroup;
using layouts::kPanelRows;

// The panels of gate and up, or of down, of one expert.
struct PanelRun {
  WeightFormat format;
  const uint8_t* base;
  int64_t num_panels, num_blocks;
  bool is_down;
};

// Row and matrix of a panel's lane, in words where the row alone does not say it.
Finding place(const PanelRun& run, const Finding& expert, int64_t panel, int64_t lane,
              int64_t block) {
  Finding at = expert;
  const int64_t half = kPanelRows / 2;
  at.tensor += run.is_down ? " (down)" : lane < half ? " (gate)" : " (up)";
  at.row = run.is_down ? panel * kPanelRows + lane : panel * half + lane % half;
  at.column = block;
  return at;
}

bool codes_are_zero(const PanelRun& run, const uint8_t* panel, int64_t lane, int64_t block) {
  const int64_t width = scale_block(run.format);
  for (int64_t k = block * width; k < (block + 1) * width; ++k) {
    const auto at = layouts::panel_code_position(run.format, run.num_blocks, lane, k);
    if ((panel[at.byte] >> at.shift & 7) != 0) return false;
  }
  return true;
}

void scan_panel(const PanelRun& run, const Finding& expert, int64_t panel_idx, Findings& findings) {
  const uint8_t* panel = run.base + panel_idx * layouts::panel_bytes(run.format, run.num_blocks);
  for (int64_t first = 0; first < run.num_blocks; first += kPanelGroup) {
    const int64_t group = first / kPanelGroup;
    const auto num = layouts::panel_blocks_in_group(run.num_blocks, group) * kPanelRows;
    const std::span scales(panel + layouts::panel_group_offset(run.format, group),
                           static_cast<size_t>(num));
    for (size_t i = 0; (i = next_scale_fault(run.format, scales, i)) < scales.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t lane = at % kPanelRows, block = first + at / kPanelRows;
      report_scale(run.format, scales[i], codes_are_zero(run, panel, lane, block),
                   place(run, expert, panel_idx, lane, block), findings);
    }
  }
}

void scan_expert(const PackedPanels& packed, Finding at, int64_t local, Findings& findings) {
  const layouts::PanelSizes& s = packed.sizes;
  const uint8_t* base = packed.base + local * packed.expert_stride;
  const PanelRun runs[] = {
      {s.format, base, s.gate_up_panels, s.gate_up_blocks, false},
      {s.format, base + s.gate_up_bytes(), s.down_panels, s.down_blocks, true}};
  at.expert = local;
  for (const PanelRun& run : runs)
    for (int64_t panel = 0; panel < run.num_panels; ++panel) scan_panel(run, at, panel, findings);
}

void scan_gate(int64_t layer, const LayerTensors& tensors, Findings& findings) {
  const Gate& gate = tensors.gate;
  const std::pair<const char*, const TensorView*> numbers[] = {{"weight", &gate.weight},
                                                               {"logit_bias", &gate.logit_bias},
                                                               {"bias", &gate.bias},
                                                               {"bias_vl", &gate.bias_vl}};
  for (const auto& [name, view] : numbers) {
    if (view->data != nullptr)
      scan_numbers(fmt::format("layers.{}.gate.{}", layer, name), *view, true, findings);
  }
  if (gate.table.data != nullptr)
    scan_table(fmt::format("layers.{}.gate.table", layer), gate.table, tensors.spec.experts,
               findings);
}

}  // namespace

bool is_packed(const TensorStore& store) {
  return store.files().size() == 1 &&
         store.files().front().header().metadata.contains(std::string(kPackVersionKey));
}

void validate_packed(const std::filesystem::path& path, const TensorStore& store,
                     const Progress& progress, ValidateReport& report) {
  Findings findings(report);
  const auto refuse = [&](const char* rule, const Status& status) {
    Finding finding;
    finding.rule = rule;
    finding.found = status.why;
    finding.wanted = "a packed file as pack writes it";
    findings.error(std::move(finding));
  };
  report.format = "packed";
  const Result<Model> model = Model::open(path);
  if (!model.ok()) {
    const bool is_sum = model.status().why.find(kPackHeaderKey) != std::string::npos;
    return refuse(is_sum ? "checksum" : "config-mismatch", model.status());
  }
  report.layers = static_cast<int64_t>(model->layers().size());
  report.tensors_read = static_cast<int64_t>(store.tensors().size());
  if (const Status status = verify_packed(path, progress); !status.ok()) refuse("checksum", status);
  for (const int64_t n : model->layers()) {
    const Result<LayerTensors> layer = model->layer(n, {});
    if (!layer.ok()) {
      refuse("config-mismatch", layer.status());
      continue;
    }
    scan_gate(n, *layer, findings);
    if (!layer->packed) continue;
    Finding at;
    at.tensor = fmt::format("layers.{}.experts", n);
    for (int64_t e = 0; e < layer->spec.local_experts; ++e)
      scan_expert(*layer->packed, at, e, findings);
  }
}

}  // namespace octet::checkpoint
