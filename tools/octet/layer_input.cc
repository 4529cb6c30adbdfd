// SPDX-License-Identifier: Apache-2.0
// The tensors of a layer's input file: each by its name, dtype and shape, copied so that every row is aligned.
#include <fmt/format.h>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/nearest.h"
#include "layer_session.h"

namespace octet::tools {
namespace {

constexpr int64_t kAny = -1;  // a dimension that may have any size

std::string describe(std::initializer_list<Dtype> dtypes, const std::vector<int64_t>& dims) {
  std::string text;
  for (const Dtype d : dtypes) text += fmt::format("{}{}", text.empty() ? "" : "/", dtype_name(d));
  text += " [";
  for (size_t i = 0; i < dims.size(); ++i) {
    const std::string size = dims[i] == kAny ? (i == 0 ? "T" : "k") : std::to_string(dims[i]);
    text += fmt::format("{}{}", i == 0 ? "" : ", ", size);
  }
  return text + "]";
}

// The tensors of one file, with a message that names file, tensor, what was found and what is wanted.
class InputFile {
 public:
  InputFile(std::string path, const NamedViews& tensors)
      : path_(std::move(path)), tensors_(tensors) {}

  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  Status refuse(std::string_view name, std::string_view why) const {
    return invalid_argument(fmt::format("{}: {}: {}", path_, name, why));
  }

  // `dims` may hold kAny.
  Result<TensorView> get(std::string_view name, std::initializer_list<Dtype> dtypes,
                         const std::vector<int64_t>& dims) const {
    const std::string want = describe(dtypes, dims);
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      std::vector<std::string_view> names;
      for (const auto& [key, view] : tensors_) names.push_back(key);
      return refuse(name, fmt::format("missing, want {}{}", want, did_you_mean(name, names)));
    }
    const TensorView& view = found->second;
    bool right = view.dims.size() == dims.size();
    for (size_t i = 0; right && i < dims.size(); ++i) {
      right = dims[i] == kAny || dims[i] == view.dims[i];
    }
    bool right_dtype = false;
    for (const Dtype d : dtypes) right_dtype |= d == view.dtype;
    if (!right || !right_dtype) {
      return refuse(name, fmt::format("found {} {}, want {}", dtype_name(view.dtype),
                                      to_string(view.dims), want));
    }
    return view;
  }

 private:
  std::string path_;
  const NamedViews& tensors_;
};

// Ids as `To`. An I64 id that I32 cannot hold names no expert: it becomes -1, which says the same.
template <class To>
Tensor copy_ids(const TensorView& view, Dtype to) {
  const Tensor from = copy_of(view);
  Tensor ids(to, view.dims);
  const int64_t n = num_elems(view.dims);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id =
        view.dtype == Dtype::kI64 ? from.as<int64_t>()[i] : int64_t{from.as<int32_t>()[i]};
    const bool fits = id >= std::numeric_limits<To>::min() && id <= std::numeric_limits<To>::max();
    ids.as<To>()[i] = fits ? static_cast<To>(id) : To{-1};
  }
  return ids;
}

Status read_given_ids(const InputFile& file, LayerInput& input) {
  for (const std::string_view name : {"topk_ids", "topk_weights"}) {
    const std::string_view other = name == "topk_ids" ? "topk_weights" : "topk_ids";
    if (!file.has(name)) {
      return file.refuse(name, fmt::format("missing, want it with {}", other));
    }
  }
  const int64_t tokens = input.tokens();
  OCTET_ASSIGN_OR_RETURN(const TensorView ids,
                         file.get("topk_ids", {Dtype::kI32, Dtype::kI64}, {tokens, kAny}));
  // Without rows a file may name any number of experts a row.
  constexpr int64_t kMostOfARow = int64_t{1} << 20;
  if (ids.dims[1] < 1 || ids.dims[1] > kMostOfARow) {
    return file.refuse("topk_ids", fmt::format("found {}, want 1..{} experts a row",
                                               to_string(ids.dims), kMostOfARow));
  }
  OCTET_ASSIGN_OR_RETURN(const TensorView weights,
                         file.get("topk_weights", {Dtype::kF32}, {tokens, ids.dims[1]}));
  input.topk_ids = copy_ids<int32_t>(ids, Dtype::kI32);
  input.topk_weights = copy_of(weights);
  return {};
}

}  // namespace

Status check_router_input(const LayerInput& input, const checkpoint::LayerTensors& layer) {
  if (input.has(input.topk_ids)) return {};
  if (!input.has(input.logits) && layer.gate.weight.data == nullptr) {
    return invalid_argument(
        fmt::format("logits: missing, want F32 [{}, {}]: the layer has no gate of its own",
                    input.tokens(), layer.spec.experts));
  }
  if (input.has(input.input_ids)) return {};
  const std::string missing =
      fmt::format("input_ids: missing, want I32/I64 [{}]: ", input.tokens());
  if (layer.spec.router.kind == RouterKind::kHash) {
    return invalid_argument(missing + "the layer takes its experts from a table by token id");
  }
  if (layer.gate.bias_vl.data != nullptr && layer.spec.router.image_sentinel_lo > 0) {
    return invalid_argument(missing +
                            "image tokens have a bias of their own (--image-sentinel-lo 0: no row "
                            "is an image)");
  }
  return {};
}

Result<LayerInput> read_layer_input(const std::filesystem::path& path,
                                    const checkpoint::LayerTensors& layer) {
  OCTET_ASSIGN_OR_RETURN(const checkpoint::SafetensorsFile opened,
                         checkpoint::SafetensorsFile::open(path));
  const InputFile file(path.string(), opened.tensors());
  LayerInput input;
  OCTET_ASSIGN_OR_RETURN(const TensorView x,
                         file.get("x", {Dtype::kBf16}, {kAny, layer.spec.hidden}));
  input.x = copy_of(x);
  const int64_t tokens = input.tokens();
  if (file.has("topk_ids") || file.has("topk_weights")) {
    OCTET_RETURN_IF_ERROR(read_given_ids(file, input));
  } else if (file.has("logits")) {
    OCTET_ASSIGN_OR_RETURN(const TensorView logits,
                           file.get("logits", {Dtype::kF32}, {tokens, layer.spec.experts}));
    input.logits = copy_of(logits);
  }
  if (file.has("input_ids")) {
    OCTET_ASSIGN_OR_RETURN(const TensorView ids,
                           file.get("input_ids", {Dtype::kI32, Dtype::kI64}, {tokens}));
    input.input_ids = copy_ids<int64_t>(ids, Dtype::kI64);
  }
  const Status router = check_router_input(input, layer);
  if (!router.ok()) return Status{router.code, fmt::format("{}: {}", path.string(), router.why)};
  return input;
}

}  // namespace octet::tools
