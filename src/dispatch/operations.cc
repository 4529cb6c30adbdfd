// SPDX-License-Identifier: Apache-2.0
#include "dispatch/operations.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/float_environment.h"
#include "core/nearest.h"
#include "dispatch/op_input.h"

namespace octet::dispatch {
namespace {

struct Row {
  OperationInfo info;
  Status (*run)(OpCall& call);
};

const std::vector<std::string_view> router_settings = {
    "router", "top_k", "scale", "image_sentinel_lo", "groups", "groups_kept"};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {{"mxfp8_quantize",
        "activations to E4M3 with a power of two for each 32",
        {"x"},
        {"layout"},
        {"x_quant", "x_scale"}},
       op_mxfp8_quantize},
      {{"topk",
        "experts and weights of each row from its logits",
        {"logits", "bias?", "bias_vl?", "input_ids?", "table?"},
        router_settings,
        {"topk_ids", "topk_weights"}},
       op_topk},
      {{"route",
        "slots to rows: the record that the GEMMs read",
        {"topk_ids"},
        {"experts"},
        {"permuted", "record"}},
       op_route},
      {{"front",
        "topk, mxfp8_quantize and route in one, the same bytes",
        {"x", "logits", "bias?", "bias_vl?", "input_ids?", "table?"},
        router_settings,
        {"x_quant", "x_scale", "topk_ids", "topk_weights", "permuted", "record"}},
       op_front},
      {{"gemm1",
        "first expert product and SwiGLU, quantised to MXFP8",
        {"x_quant", "x_scale", "record", "topk_ids", "w13", "w13_scale", "clamp"},
        {"intermediate"},
        {"h_values", "h_scales"}},
       op_gemm1},
      {{"gemm2",
        "second expert product, unweighted rows",
        {"h_values", "h_scales", "record", "permuted", "w2", "w2_scale"},
        {},
        {"gemm2_rows"}},
       op_gemm2},
      {{"finalize",
        "weighted sum of the rows, back in token order",
        {"gemm2_rows", "topk_weights", "permuted", "shared?"},
        {"scale"},
        {"y"}},
       op_finalize},
      {{"prepare",
        "checkpoint weights to the padded, shuffled, swizzled tensors",
        {"gate", "up", "gate_scale", "up_scale", "down", "down_scale"},
        {"limit"},
        {"w13", "w13_scale", "w2", "w2_scale", "clamp"}},
       op_prepare},
      {{"unprepare",
        "the way back from prepared weights",
        {"w13", "w13_scale", "w2", "w2_scale"},
        {"intermediate"},
        {"gate", "up", "gate_scale", "up_scale", "down", "down_scale"}},
       op_unprepare},
      {{"check_weights",
        "whether prepared weights can be used, and if not, why",
        {"w13", "w13_scale", "w2", "w2_scale", "clamp"},
        {"top_k", "intermediate"},
        {}},
       op_check_weights},
      {{"moe_sort",
        "slots sorted by expert, each padded to a tile",
        {"topk_ids"},
        {"experts", "tile", "local_offset", "local_experts"},
        {"tile_to_expert", "tile_to_mn_limit", "expanded_to_permuted", "permuted_to_expanded",
         "num_tiles"}},
       op_moe_sort},
      {{"moe_permute",
        "rows of x in sorted order",
        {"x", "permuted_to_expanded", "tile_to_mn_limit", "num_tiles"},
        {"top_k", "tile"},
        {"permuted_x"}},
       op_moe_permute},
      {{"grouped_moe",
        "NVFP4 experts on BF16 rows, any number of tokens",
        {"x", "topk_ids", "topk_weights", "w1", "w1_sf", "w1_alpha", "w2", "w2_sf", "w2_alpha"},
        {},
        {"y", "expanded_to_permuted"}},
       op_grouped_moe},
      {{"dequantize",
        "4-bit weights to binary32",
        {"weight", "scale", "global_scale?"},
        {"format"},
        {"value"}},
       op_dequantize},
      {{"quantize_weight",
        "numbers to 4-bit weights",
        {"value"},
        {"format"},
        {"weight", "scale", "global_scale"}},
       op_quantize_weight},
  };
  return rows;
}

Status check_settings(const OperationInfo& info, const Settings& settings) {
  for (const auto& [key, value] : settings) {
    if (std::find(info.settings.begin(), info.settings.end(), key) != info.settings.end()) continue;
    std::string hint = did_you_mean(key, info.settings);
    if (hint.empty() && !info.settings.empty())
      hint = fmt::format("; it has {}", fmt::join(info.settings, ", "));
    return misuse(fmt::format("{} has no setting {}{}", info.name, key, hint));
  }
  return {};
}

}  // namespace

std::span<const OperationInfo> operations() {
  static const std::vector<OperationInfo> infos = [] {
    std::vector<OperationInfo> made;
    for (const Row& row : table()) made.push_back(row.info);
    return made;
  }();
  return infos;
}

Result<NamedTensors> run_operation(std::string_view name, const NamedViews& inputs,
                                   const Settings& settings, Backend backend, Executor& executor) {
  const auto row = std::find_if(table().begin(), table().end(),
                                [&](const Row& r) { return r.info.name == name; });
  if (row == table().end()) {
    std::vector<std::string_view> names;
    for (const Row& r : table()) names.push_back(r.info.name);
    return misuse(fmt::format("no operation {}{}", name, did_you_mean(name, names)));
  }
  OCTET_RETURN_IF_ERROR(check_settings(row->info, settings));
  if (backend == Backend::kCuda) {
    return unsupported(
        "backend cuda is not built for single operations: want auto, cpu or reference");
  }
  const FloatEnvironment environment;
  OpCall call(row->info, inputs, settings, backend, executor);
  OCTET_RETURN_IF_ERROR(row->run(call));
  return std::move(call).take_outputs();
}

}  // namespace octet::dispatch
