// SPDX-License-Identifier: Apache-2.0
// octet inspect: the MoE layers of a checkpoint, and which kernels take them.
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model.h"
#include "command.h"
#include "dispatch/select.h"
#include "layer_flags.h"
#include "report.h"

namespace octet::tools {
namespace {

struct InspectFlags {
  std::string model;
  LayerFlags layer_flags;
  bool json = false;
};

struct LayerRow {
  int64_t index;
  LayerSpec spec;
  bool has_gate;
  dispatch::Selection selection;
};

Result<std::vector<LayerRow>> read_layers(const checkpoint::Model& model,
                                          const InspectFlags& flags) {
  OCTET_ASSIGN_OR_RETURN(const checkpoint::LoadOptions load, load_options(flags.layer_flags));
  OCTET_ASSIGN_OR_RETURN(const dispatch::LayerOptions options, layer_options(flags.layer_flags));
  std::vector<LayerRow> rows;
  for (const int64_t index : model.layers()) {
    OCTET_ASSIGN_OR_RETURN(const checkpoint::LayerTensors layer, model.layer(index, load));
    dispatch::Selection selection =
        dispatch::select({layer.spec, 0, options.backend, options.kernel});
    rows.push_back({index, layer.spec, layer.gate.weight.data != nullptr, std::move(selection)});
  }
  return rows;
}

std::string layer_text(const LayerRow& row) {
  return fmt::format("{}, {}{}{}", describe(row.spec), human_bytes(weight_bytes(row.spec)),
                     row.has_gate ? "" : ", no gate",
                     row.spec.has_shared_experts ? ", shared experts beside" : "");
}

// Consecutive layers with the same words share a line.
void print_layers(const std::vector<LayerRow>& rows) {
  for (size_t first = 0; first < rows.size();) {
    const std::string text = layer_text(rows[first]);
    size_t last = first;
    while (last + 1 < rows.size() && layer_text(rows[last + 1]) == text) ++last;
    const std::string range =
        first == last ? fmt::format("layer {}", rows[first].index)
                      : fmt::format("layers {}..{}, each", rows[first].index, rows[last].index);
    fmt::print("  {}: {}\n", range, text);
    first = last + 1;
  }
}

Json layers_json(const std::vector<LayerRow>& rows) {
  Json all = Json::array();
  for (const LayerRow& row : rows) {
    Json refused = Json::array();
    for (const dispatch::Refusal& r : row.selection.refused) {
      refused.push_back({{"kernel", r.kernel->name}, {"why", r.why}});
    }
    Json json = {{"layer", row.index}};
    json.update(spec_json(row.spec));
    json["gate"] = row.has_gate;
    json["bytes"] = weight_bytes(row.spec);
    const dispatch::Kernel* kernel = row.selection.kernel;
    json["kernel"] = kernel == nullptr ? Json() : Json(kernel->name);
    json["refused"] = std::move(refused);
    all.push_back(std::move(json));
  }
  return all;
}

Status inspect(const InspectFlags& flags) {
  OCTET_ASSIGN_OR_RETURN(const checkpoint::Model model, checkpoint::Model::open(flags.model));
  OCTET_ASSIGN_OR_RETURN(const std::vector<LayerRow> rows, read_layers(model, flags));
  dispatch::ReasonCounts reasons;
  int64_t bytes = 0;
  for (const LayerRow& row : rows) {
    reasons.add(row.selection);
    bytes += weight_bytes(row.spec);
  }
  if (flags.json) {
    print_json({{"model", flags.model},
                {"format", model.format()},
                {"model_type", model.model_type()},
                {"bytes", bytes},
                {"layers", layers_json(rows)},
                {"kernels", reasons.lines()}});
    return {};
  }
  fmt::print("{}: {} ({}), {} MoE layers, {} of expert weights\n", flags.model, model.format(),
             model.model_type(), rows.size(), human_bytes(bytes));
  print_layers(rows);
  fmt::print("kernels:\n");
  for (const std::string& line : reasons.lines()) fmt::print("  {}\n", line);
  return {};
}

}  // namespace

int inspect_verb(const Args& args) {
  InspectFlags flags;
  CLI::App app;
  describe_verb(
      app, "inspect",
      "Lists the MoE layers of a checkpoint: format, shapes, router, bytes; and which kernels\n"
      "take them, with the reasons of those that do not, counted over the layers. No weight is\n"
      "read: octet validate does that.",
      "octet inspect ckpt --tp 0/4");
  app.add_option("model", flags.model, "checkpoint folder, safetensors file or packed file")
      ->required();
  add_shard_flags(app, flags.layer_flags);
  add_backend_flag(app, flags.layer_flags);
  app.add_flag("--json", flags.json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  return finish(inspect(flags), "inspect");
}

}  // namespace octet::tools
