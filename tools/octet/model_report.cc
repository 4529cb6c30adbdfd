// SPDX-License-Identifier: Apache-2.0
#include "model_report.h"

#include <fmt/format.h>
#include <utility>

#include "console.h"
#include "core/printable.h"
#include "report.h"

namespace octet::tools {
namespace {

bool is_plain(const LayerRow& row) { return row.name == fmt::format("layers.{}", row.index); }

std::string layer_text(const LayerRow& row) {
  return fmt::format("{}, {}{}{}", describe(row.spec), human_bytes(row.bytes),
                     row.has_gate ? "" : ", no gate",
                     row.spec.has_shared_experts ? ", shared experts beside" : "");
}

// Consecutive layers with the same words share a line.
void print_layers(const std::vector<LayerRow>& rows) {
  for (size_t first = 0; first < rows.size();) {
    const std::string text = layer_text(rows[first]);
    size_t last = first;
    while (is_plain(rows[first]) && last + 1 < rows.size() && is_plain(rows[last + 1]) &&
           layer_text(rows[last + 1]) == text) {
      ++last;
    }
    std::string range =
        first == last ? fmt::format("layer {}", rows[first].index)
                      : fmt::format("layers {}..{}, each", rows[first].index, rows[last].index);
    if (!is_plain(rows[first])) range += fmt::format(" ({})", rows[first].name);
    print_out("  {}: {}\n", printable(range), text);
    first = last + 1;
  }
}

Json layer_json(const LayerRow& row) {
  Json refused = Json::array();
  for (const dispatch::Refusal& r : row.selection.refused) {
    refused.push_back({{"kernel", r.kernel->name}, {"why", r.why}});
  }
  Json json = {{"layer", row.index}, {"name", row.name}};
  json.update(spec_json(row.spec));
  json["gate"] = row.has_gate;
  json["bytes"] = row.bytes;
  const dispatch::Kernel* kernel = row.selection.kernel;
  json["kernel"] = kernel == nullptr ? Json() : Json(kernel->name);
  json["refused"] = std::move(refused);
  return json;
}

std::vector<std::string> kernel_lines(const ModelReport& report) {
  dispatch::ReasonCounts reasons;
  for (const LayerRow& row : report.layers) reasons.add(row.selection);
  return reasons.lines();
}

}  // namespace

int64_t ModelReport::bytes() const {
  int64_t sum = 0;
  for (const LayerRow& row : layers) sum += row.bytes;
  return sum;
}

Result<ModelReport> read_model(const std::string& path, const checkpoint::LoadOptions& load,
                               const dispatch::LayerOptions& options, BrokenLayers broken) {
  OCTET_ASSIGN_OR_RETURN(const checkpoint::Model model, checkpoint::Model::open(path));
  ModelReport report{path, std::string(model.format()), std::string(model.model_type()), {}};
  for (const int64_t index : model.layers()) {
    const auto layer = model.layer(index, load);
    if (!layer.ok() && broken == BrokenLayers::kFail) return layer.status();
    if (!layer.ok()) continue;
    report.layers.push_back({index, model.layer_name(index), layer->spec,
                             layer->gate.weight.data != nullptr, layer->weight_bytes(),
                             dispatch::select(dispatch::problem_of(*layer, options))});
  }
  return report;
}

void print(const ModelReport& report) {
  print_out("{}: {} ({}), {}, {} of expert weights\n", report.path, report.format,
            shown(report.model_type),
            count_text(static_cast<int64_t>(report.layers.size()), "MoE layer"),
            human_bytes(report.bytes()));
  print_layers(report.layers);
  print_out("kernels:\n");
  for (const std::string& line : kernel_lines(report)) print_out("  {}\n", line);
}

Json to_json(const ModelReport& report) {
  Json layers = Json::array();
  for (const LayerRow& row : report.layers) layers.push_back(layer_json(row));
  return {
      {"model", report.path},    {"format", report.format},     {"model_type", report.model_type},
      {"bytes", report.bytes()}, {"layers", std::move(layers)}, {"kernels", kernel_lines(report)}};
}

}  // namespace octet::tools
