// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "checkpoint/bind.h"
#include "checkpoint/model_impl.h"
#include "checkpoint/other_formats.h"
#include "checkpoint/shard.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

// "1, 3 ... 42"
std::string to_ranges(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format(" ... {}", numbers[last]);
    i = last + 1;
  }
  return text;
}

void apply_options(LayerSpec& spec, const LoadOptions& options) {
  spec.precision = options.precision;
  if (options.activations) spec.activations = *options.activations;
  if (options.image_sentinel_lo) spec.router.image_sentinel_lo = *options.image_sentinel_lo;
}

}  // namespace

Result<Model> Model::open(const fs::path& path) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  OCTET_RETURN_IF_ERROR(check_is_readable_format(path));
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    OCTET_ASSIGN_OR_RETURN(impl->packed, PackedFile::open_if_packed(path));
  }
  if (impl->packed) {
    impl->layers = impl->packed->layers();
  } else {
    OCTET_ASSIGN_OR_RETURN(impl->store, TensorStore::open(path));
    OCTET_ASSIGN_OR_RETURN(
        impl->format, make_format(impl->store.config(), impl->store.quant_config(), &impl->store));
    impl->layers = impl->format->layers(impl->store);
  }
  if (impl->layers.empty()) {
    return invalid_argument(fmt::format("{}: no tensors of routed experts", path.string()));
  }
  Model model;
  model.impl_ = std::move(impl);
  return model;
}

std::string_view Model::format() const { return impl_->packed ? "packed" : impl_->format->name(); }
std::string_view Model::model_type() const {
  return impl_->packed ? impl_->packed->model_type() : impl_->format->model_type();
}
const std::vector<int64_t>& Model::layers() const { return impl_->layers; }
std::string Model::layer_name(int64_t index) const {
  return impl_->packed ? plain_layer_name(index) : impl_->format->layer_name(index, impl_->store);
}

Result<LayerTensors> Model::layer(int64_t index, const LoadOptions& options) const {
  const Impl& m = *impl_;
  if (!std::binary_search(m.layers.begin(), m.layers.end(), index)) {
    return invalid_argument(fmt::format("{}: layer {} has no routed experts, wanted one of {}",
                                        m.path.string(), index, to_ranges(m.layers)));
  }
  LayerTensors layer;
  if (m.packed) {
    OCTET_ASSIGN_OR_RETURN(layer, m.packed->layer(index, options.shard));
  } else {
    const LayerPlan plan = m.format->plan(index, &m.store);
    OCTET_RETURN_IF_ERROR(check_shard(plan.spec, options.shard));
    OCTET_ASSIGN_OR_RETURN(layer, bind(plan, m.store));
    apply_shard(layer, options.shard);
  }
  apply_options(layer.spec, options);
  return layer;
}

}  // namespace octet::checkpoint
