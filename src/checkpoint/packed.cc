// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/packed.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <xxhash.h>

#include "checkpoint/model_impl.h"
#include "checkpoint/packed_file.h"
#include "checkpoint/safetensors.h"
#include "layouts/panel.h"

namespace octet::checkpoint {
namespace {

using layouts::ExpertWeights;
using Metadata = std::map<std::string, std::string>;
using Bytes = std::span<const std::byte>;

std::string key_of(std::string_view prefix, std::string_view rest) {
  return fmt::format("{}{}", prefix, rest);
}

// XXH3 over pieces.
class Hash {
 public:
  explicit Hash(bool is_128) : is_128_(is_128), state_(XXH3_createState()) {
    is_128 ? XXH3_128bits_reset(state_.get()) : XXH3_64bits_reset(state_.get());
  }
  void add(Bytes bytes) {
    is_128_ ? XXH3_128bits_update(state_.get(), bytes.data(), bytes.size())
            : XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::string hex() const {
    if (!is_128_) return fmt::format("{:016x}", XXH3_64bits_digest(state_.get()));
    const XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", h.high64, h.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  bool is_128_;
  std::unique_ptr<XXH3_state_t, Free> state_;
};

std::string checksum(Bytes bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

// BF16 [local experts, width] of what may be strided; no data: the model has none.
Tensor gather_bias(const std::vector<ExpertWeights>& experts,
                   layouts::BiasView ExpertWeights::*field, int64_t width) {
  if (experts.empty() || (experts[0].*field).data == nullptr) return {};
  Tensor out(Dtype::kBf16, {static_cast<int64_t>(experts.size()), width});
  auto* to = out.as<Bf16>();
  for (const ExpertWeights& e : experts) {
    const layouts::BiasView& bias = e.*field;
    for (int64_t i = 0; i < width; ++i) *to++ = bias.data[i * bias.stride];
  }
  return out;
}

Tensor gather_params(const std::vector<ExpertWeights>& experts) {
  Tensor out(Dtype::kF32, {static_cast<int64_t>(experts.size()), kPackedParamCount});
  auto* to = out.as<float>();
  for (const ExpertWeights& e : experts) {
    for (const float v : {e.gate_alpha, e.up_alpha, e.down_alpha, e.limit}) *to++ = v;
  }
  return out;
}

class Packer {
 public:
  Packer(const Model& model, const PackOptions& options, const Progress& progress)
      : model_(model), options_(options), progress_(progress) {}

  Status run() {
    if (model_.impl().packed) return invalid_argument("the model is packed already");
    OCTET_RETURN_IF_ERROR(load());
    OCTET_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                           SafetensorsWriter::create(options_.output, entries_, metadata_));
    metadata_[std::string(kPackDigestKey)] = source_digest();
    for (const Item& item : layers_) OCTET_RETURN_IF_ERROR(write_experts(item, writer));
    for (const Small& small : small_) {
      const Bytes bytes{small.view.data, small.view.num_bytes()};
      metadata_[key_of(kPackChecksumKey, small.name)] = checksum(bytes);
      OCTET_RETURN_IF_ERROR(writer.write(bytes));
    }
    OCTET_RETURN_IF_ERROR(writer.set_metadata(metadata_));
    metadata_[std::string(kPackHeaderKey)] = header_checksum(writer.header());
    OCTET_RETURN_IF_ERROR(writer.set_metadata(metadata_));
    return writer.finish();
  }

 private:
  struct Item {
    int64_t index;
    LayerTensors tensors;
    layouts::PanelSizes sizes;
  };
  struct Small {
    std::string name;
    TensorView view;
  };

  // Every layer's pointers, the entries in the order written (panels, then the others, widest elements first), and the
  // metadata with zeros for hashes that are not known yet.
  Status load() {
    std::vector<int64_t> wanted = options_.layers.empty() ? model_.layers() : options_.layers;
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    metadata_ = {{std::string(kPackVersionKey), std::to_string(kPackVersion)},
                 {std::string(kPackSourceKey), source_name()},
                 {std::string(kPackDigestKey), std::string(32, '0')},
                 {std::string(kPackHeaderKey), std::string(kChecksumDigits, '0')}};
    for (const int64_t index : wanted) {
      OCTET_ASSIGN_OR_RETURN(LayerTensors layer, model_.layer(index, options_.load));
      const auto sizes = layouts::panel_sizes(layer.experts.front());
      const auto local = static_cast<int64_t>(layer.experts.size());
      add_entry({packed_name(index, kPackedExperts), Dtype::kU8, {local, sizes.expert_bytes()}});
      metadata_[key_of(kPackLayerKey, std::to_string(index))] =
          to_json(PackedLayer{.model_type = std::string(model_.model_type()),
                              .spec = layer.spec,
                              .shard = options_.load.shard,
                              .sizes = sizes});
      add_small(index, layer);
      total_ += 2 * local * sizes.expert_bytes();  // read for the digest, then packed
      layers_.push_back({index, std::move(layer), sizes});
    }
    std::stable_sort(small_.begin(), small_.end(), [](const Small& a, const Small& b) {
      return dtype_bytes(a.view.dtype) > dtype_bytes(b.view.dtype);
    });
    for (const Small& s : small_) add_entry({s.name, s.view.dtype, s.view.dims});
    return {};
  }

  // The last part of the path: a file should not tell its maker's folders.
  std::string source_name() const {
    std::error_code ignored;
    return std::filesystem::canonical(model_.impl().path, ignored).filename().string();
  }

  void add_entry(SafetensorsWriter::Entry entry) {
    metadata_[key_of(kPackChecksumKey, entry.name)] = std::string(kChecksumDigits, '0');
    entries_.push_back(std::move(entry));
  }

  void add_small(int64_t index, const LayerTensors& layer) {
    const LayerSpec& s = layer.spec;
    const auto own = [&](std::string_view name, Tensor tensor) {
      if (tensor.data() == nullptr) return;
      owned_.push_back(std::move(tensor));
      small_.push_back({packed_name(index, name), owned_.back().view()});
    };
    own(kPackedParams, gather_params(layer.experts));
    own("gate_bias", gather_bias(layer.experts, &ExpertWeights::gate_bias, s.intermediate));
    own("up_bias", gather_bias(layer.experts, &ExpertWeights::up_bias, s.intermediate));
    own("down_bias", gather_bias(layer.experts, &ExpertWeights::down_bias, s.hidden));
    const Gate& g = layer.gate;
    for (const auto& [name, view] :
         {std::pair("gate.weight", &g.weight), std::pair("gate.logit_bias", &g.logit_bias),
          std::pair("gate.bias", &g.bias), std::pair("gate.bias_vl", &g.bias_vl),
          std::pair("gate.table", &g.table)}) {
      if (view->data != nullptr) small_.push_back({packed_name(index, name), *view});
    }
  }

  // Over the layers' tensors as the source has them: the same for every shard.
  std::string source_digest() {
    Hash hash(true);
    const Model::Impl& m = model_.impl();
    for (const Item& item : layers_) {
      for (const TensorPlan& plan : m.format->plan(item.index, &m.store).tensors) {
        const TensorView& view = *m.store.find(plan.name);
        const Bytes bytes{view.data, view.num_bytes()};
        hash.add(
            fmt::format("{} {} {}\n", plan.name, dtype_name(view.dtype), to_string(view.dims)));
        hash.add(bytes);
        MappedFile::release(bytes);
      }
      advance(total_ / 2 / static_cast<int64_t>(layers_.size()));
    }
    done_ = total_ / 2;
    return hash.hex();
  }

  Status write_experts(const Item& item, SafetensorsWriter& writer) {
    const auto size = static_cast<size_t>(item.sizes.expert_bytes());
    Tensor panels(Dtype::kU8, {item.sizes.expert_bytes()});
    const Bytes bytes{panels.data(), size};
    Hash hash(false);
    for (const ExpertWeights& expert : item.tensors.experts) {
      layouts::pack_expert(expert, panels.as<uint8_t>());
      hash.add(bytes);
      OCTET_RETURN_IF_ERROR(writer.write(bytes));
      for (const layouts::WeightView* m : {&expert.gate, &expert.up, &expert.down}) release(*m);
      advance(item.sizes.expert_bytes());
    }
    metadata_[key_of(kPackChecksumKey, packed_name(item.index, kPackedExperts))] = hash.hex();
    return {};
  }

  // From the first row's codes to the last's end, not a byte more: pages of other mappings may follow.
  static void release(const layouts::WeightView& m) {
    const int64_t bytes = (m.rows - 1) * m.code_stride + (m.first_col + m.cols) / 2;
    MappedFile::release(std::as_bytes(std::span(m.codes, static_cast<size_t>(bytes))));
  }

  void advance(int64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(std::min(done_, total_), total_);
  }

  const Model& model_;
  const PackOptions& options_;
  const Progress& progress_;
  std::vector<Item> layers_;
  std::vector<Small> small_;
  std::vector<Tensor> owned_;  // what `small_` points to where the source has it in another form
  std::vector<SafetensorsWriter::Entry> entries_;
  Metadata metadata_;
  int64_t done_ = 0, total_ = 0;  // bytes
};

}  // namespace

Status pack(const Model& model, const PackOptions& options, const Progress& progress) {
  return Packer(model, options, progress).run();
}

Status verify_packed(const std::filesystem::path& path, const Progress& progress) {
  const std::string where = path.string();
  OCTET_ASSIGN_OR_RETURN(const auto packed, PackedFile::open_if_packed(path));
  if (!packed) {
    return invalid_argument(fmt::format("{}: not a packed file, no {}", where, kPackVersionKey));
  }
  const SafetensorsHeader& header = packed->header();
  int64_t total = 0, done = 0;
  for (const auto& [name, view] : header.tensors) total += static_cast<int64_t>(view.num_bytes());
  for (const auto& [name, view] : header.tensors) {
    const auto wanted = header.metadata.find(key_of(kPackChecksumKey, name));
    if (wanted == header.metadata.end()) {
      return invalid_argument(fmt::format("{}: tensor {} has no checksum", where, name));
    }
    const std::string found = checksum({view.data, view.num_bytes()});
    if (found != wanted->second) {
      return invalid_argument(
          fmt::format("{}: tensor {}: checksum {}, wanted {}", where, name, found, wanted->second));
    }
    MappedFile::release({view.data, view.num_bytes()});
    done += static_cast<int64_t>(view.num_bytes());
    if (progress) progress(done, total);
  }
  return {};
}

}  // namespace octet::checkpoint
