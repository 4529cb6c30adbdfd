// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format.h"

#include <algorithm>
#include <fmt/format.h>

#include "checkpoint/deepseek.h"
#include "checkpoint/gpt_oss.h"
#include "checkpoint/modelopt.h"
#include "routing/topk.h"

namespace octet::checkpoint {
namespace {

Status not_built(std::string_view what) {
  return unsupported(fmt::format("{} is not built yet; built: {}", what, kFormatsBuilt));
}

}  // namespace

std::string plain_layer_name(int64_t layer) { return fmt::format("layers.{}", layer); }

std::string Format::layer_name(int64_t layer, const TensorStore&) const {
  return plain_layer_name(layer);
}

std::string wanted_dtypes(const TensorPlan& plan) {
  std::string wanted;
  for (const Dtype d : plan.dtypes) {
    wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", dtype_name(d));
  }
  return wanted;
}

std::string wanted_dims(const TensorPlan& plan) {
  std::string text;
  for (const int64_t d : plan.dims) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", d < 0 ? "any" : std::to_string(d));
  }
  return fmt::format("[{}]", text);
}

Status wrong_dtype(const TensorPlan& plan, std::string_view found) {
  return invalid_argument(
      fmt::format("tensor {}: dtype {}, wanted {}", plan.name, found, wanted_dtypes(plan)));
}

Status check_dtype(const TensorPlan& plan, const TensorView& found) {
  if (std::find(plan.dtypes.begin(), plan.dtypes.end(), found.dtype) != plan.dtypes.end())
    return {};
  return wrong_dtype(plan, dtype_name(found.dtype));
}

Status check_shape(const TensorPlan& plan, const TensorView& found) {
  // A factor may be written as a scalar or as one element.
  if (plan.part == Part::kFactor && found.dims == Dims{1}) return {};
  const bool fits =
      std::equal(found.dims.begin(), found.dims.end(), plan.dims.begin(), plan.dims.end(),
                 [](int64_t n, int64_t w) { return w < 0 || n == w; });
  if (fits) return {};
  return invalid_argument(fmt::format("tensor {}: shape {}, wanted {}", plan.name,
                                      to_string(found.dims), wanted_dims(plan)));
}

Status check_spec(const LayerSpec& s) {
  const auto multiple = [](std::string_view what, int64_t value, int64_t of) -> Status {
    if (value > 0 && value % of == 0) return {};
    return invalid_argument(fmt::format("{} {} is not a multiple of {}", what, value, of));
  };
  OCTET_RETURN_IF_ERROR(multiple("hidden", s.hidden, kMxBlock));
  OCTET_RETURN_IF_ERROR(multiple("intermediate", s.intermediate, scale_block(s.weights)));
  const bool is_dsv4 = s.router.kind == RouterKind::kDsv4 || s.router.kind == RouterKind::kHash;
  const int64_t most = is_dsv4 ? routing::kMaxTopKDsv4 : routing::kMaxTopK;
  if (s.router.top_k < 1 || s.router.top_k > most) {
    return invalid_argument(
        fmt::format("{} experts a token, wanted 1 ... {}", s.router.top_k, most));
  }
  if (s.experts < s.router.top_k) {
    return invalid_argument(
        fmt::format("{} experts, wanted at least the {} of a token", s.experts, s.router.top_k));
  }
  if (is_dsv4 && s.experts > routing::kMaxExpertsDsv4) {
    return invalid_argument(fmt::format("{} experts, wanted at most {} for the router {}",
                                        s.experts, routing::kMaxExpertsDsv4,
                                        name_of(s.router.kind)));
  }
  const RouterSpec& r = s.router;
  if (r.groups < 1 || s.experts % r.groups != 0 || r.groups_kept < 1 || r.groups_kept > r.groups ||
      r.groups_kept * (s.experts / r.groups) < r.top_k) {
    return invalid_argument(fmt::format("{} of {} groups of {} experts, for {} a token",
                                        r.groups_kept, r.groups, s.experts, r.top_k));
  }
  return {};
}

Result<std::unique_ptr<const Format>> make_format(const Config& config, const Config& quant_config,
                                                  const TensorStore* store) {
  if (store != nullptr && !store->numbers("block.", ".mlp.").empty()) {
    return not_built("format gpt-oss with its original names (block.N.mlp)");
  }
  if (config.is_absent()) {
    return invalid_argument(
        fmt::format("{}: no config.json beside the tensors, wanted one",
                    store ? store->path().string() : std::string("config.json")));
  }
  OCTET_ASSIGN_OR_RETURN(const std::string model_type, config.text("model_type"));
  OCTET_ASSIGN_OR_RETURN(std::string method,
                         config.object("quantization_config").text("quant_method", ""));
  if (method.empty() && !quant_config.is_absent()) method = "modelopt";
  if (method == "compressed-tensors") return not_built("format compressed-tensors");
  if (model_type == "deepseek_v4" || model_type == "deepseek_v41") return deepseek_format(config);
  if (model_type == "gpt_oss" && method == "mxfp4") return gpt_oss_format(config);
  if (method.starts_with("modelopt")) return modelopt_format(config, quant_config);
  return not_built(fmt::format("format of model_type {} with quant_method {}", model_type,
                               method.empty() ? "none" : method));
}

}  // namespace octet::checkpoint
