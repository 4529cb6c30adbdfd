// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/packed_file.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <xxhash.h>

#include "checkpoint/bind.h"
#include "checkpoint/packed.h"

namespace octet::checkpoint {
namespace {

using layouts::ExpertWeights;

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Takes a layer's tensors from the file and checks each.
class LayerReader {
 public:
  LayerReader(const SafetensorsFile& file, int64_t index, const PackedLayer& packed)
      : file_(file), index_(index), packed_(packed) {
    layer_.spec = packed.spec;
    layer_.keep = file.file();
    layer_.files = {file.file()->bytes()};
    layer_.experts.assign(static_cast<size_t>(packed.spec.local_experts), packed_expert(packed));
  }

  Result<LayerTensors> run() {
    OCTET_RETURN_IF_ERROR(experts());
    OCTET_RETURN_IF_ERROR(params());
    OCTET_RETURN_IF_ERROR(biases());
    OCTET_RETURN_IF_ERROR(gate());
    return std::move(layer_);
  }

 private:
  struct Wanted {
    std::string_view name;
    std::vector<Dtype> dtypes;
    Dims dims;
    bool optional = false;
  };
  // Null: optional and not there.
  Result<const TensorView*> take(const Wanted& wanted) const {
    const TensorPlan plan{.name = packed_name(index_, wanted.name),
                          .part = Part::kCodes,
                          .dtypes = wanted.dtypes,
                          .dims = wanted.dims};
    const auto at = file_.tensors().find(plan.name);
    if (at == file_.tensors().end()) {
      if (wanted.optional) return nullptr;
      return invalid_argument(fmt::format("tensor {} is missing", plan.name));
    }
    OCTET_RETURN_IF_ERROR(check_dtype(plan, at->second));
    OCTET_RETURN_IF_ERROR(check_shape(plan, at->second));
    // The writer aligns every tensor to its elements; without that a pointer to them is of no use.
    if (reinterpret_cast<uintptr_t>(at->second.data) % dtype_bytes(at->second.dtype) != 0) {
      return invalid_argument(fmt::format("tensor {} is not aligned to its elements", plan.name));
    }
    return &at->second;
  }

  Status experts() {
    OCTET_ASSIGN_OR_RETURN(const TensorView* panels,
                           take({.name = kPackedExperts,
                                 .dtypes = {Dtype::kU8},
                                 .dims = {local(), packed_.sizes.expert_bytes()}}));
    if (reinterpret_cast<uintptr_t>(panels->data) % layouts::kPanelAlignment != 0) {
      return invalid_argument(fmt::format("tensor {} is not aligned to {} bytes",
                                          packed_name(index_, kPackedExperts),
                                          layouts::kPanelAlignment));
    }
    layer_.packed = {.base = panels->as<uint8_t>(),
                     .expert_stride = packed_.sizes.expert_bytes(),
                     .sizes = packed_.sizes};
    return {};
  }

  Status params() {
    OCTET_ASSIGN_OR_RETURN(const TensorView* params, take({.name = kPackedParams,
                                                           .dtypes = {Dtype::kF32},
                                                           .dims = {local(), kPackedParamCount}}));
    const auto* p = params->as<float>();
    for (int64_t i = 0; i < num_elems(params->dims); ++i) {
      if (!std::isfinite(p[i]) || p[i] <= 0) {
        return invalid_argument(
            fmt::format("tensor {}: {} at row {}, column {}, wanted a finite positive number",
                        packed_name(index_, kPackedParams), p[i], i / kPackedParamCount,
                        i % kPackedParamCount));
      }
    }
    for (ExpertWeights& e : layer_.experts) {
      e.gate_alpha = p[0];
      e.up_alpha = p[1];
      e.down_alpha = p[2];
      e.limit = p[3];
      p += kPackedParamCount;
    }
    return {};
  }

  Status biases() {
    OCTET_RETURN_IF_ERROR(bias("gate_bias", spec().intermediate, &ExpertWeights::gate_bias));
    OCTET_RETURN_IF_ERROR(bias("up_bias", spec().intermediate, &ExpertWeights::up_bias));
    return bias("down_bias", spec().hidden, &ExpertWeights::down_bias);
  }
  Status bias(std::string_view name, int64_t width, layouts::BiasView ExpertWeights::*field) {
    OCTET_ASSIGN_OR_RETURN(
        const TensorView* found,
        take({.name = name, .dtypes = {Dtype::kBf16}, .dims = {local(), width}, .optional = true}));
    if (found == nullptr) return {};
    const auto* row = found->as<Bf16>();
    for (ExpertWeights& e : layer_.experts) {
      e.*field = {row, 1};
      row += width;
    }
    return {};
  }

  Status gate() {
    const RouterKind kind = spec().router.kind;
    const bool is_hash = kind == RouterKind::kHash;
    const bool has_bias = kind == RouterKind::kDsv4 || kind == RouterKind::kDeepseekV3;
    const std::vector<Dtype> number = {Dtype::kBf16, Dtype::kF32};
    Gate& g = layer_.gate;
    const int64_t e = spec().experts;
    OCTET_RETURN_IF_ERROR(field(g.weight, {"gate.weight", number, {e, spec().hidden}}));
    OCTET_RETURN_IF_ERROR(field(g.logit_bias, {"gate.logit_bias", number, {e}, true}));
    OCTET_RETURN_IF_ERROR(field(g.bias, {"gate.bias", {Dtype::kF32}, {e}, !has_bias}));
    OCTET_RETURN_IF_ERROR(field(g.bias_vl, {"gate.bias_vl", {Dtype::kF32}, {e}, true}));
    OCTET_RETURN_IF_ERROR(
        field(g.table, {"gate.table", {Dtype::kI32}, {-1, spec().router.top_k}, !is_hash}));
    return check_table(packed_name(index_, "gate.table"), g.table, e);
  }
  Status field(TensorView& to, const Wanted& wanted) {
    OCTET_ASSIGN_OR_RETURN(const TensorView* found, take(wanted));
    if (found != nullptr) to = *found;
    return {};
  }

  const LayerSpec& spec() const { return packed_.spec; }
  int64_t local() const { return packed_.spec.local_experts; }

  const SafetensorsFile& file_;
  int64_t index_;
  const PackedLayer& packed_;
  LayerTensors layer_;
};

std::string to_text(const Shard& s) {
  return fmt::format("tp {}/{} ep {}/{}", s.tp_rank, s.tp_ranks, s.ep_rank, s.ep_ranks);
}

}  // namespace

// A quote inside a JSON string stands behind a backslash, so that only a key looks like this.
size_t header_checksum_place(std::string_view header) {
  const std::string key = fmt::format("\"{}\":\"", kPackHeaderKey);
  const size_t at = header.find(key);
  const bool has_room =
      at != std::string_view::npos && header.size() - at - key.size() >= kChecksumDigits;
  return has_room ? at + key.size() : std::string_view::npos;
}

std::string header_checksum(std::string header) {
  const size_t at = header_checksum_place(header);
  if (at != std::string::npos) header.replace(at, kChecksumDigits, kChecksumDigits, '0');
  return fmt::format("{:016x}", XXH3_64bits(header.data(), header.size()));
}

std::string packed_name(int64_t layer, std::string_view tensor) {
  return fmt::format("layers.{}.{}", layer, tensor);
}

ExpertWeights packed_expert(const PackedLayer& layer) {
  const LayerSpec& s = layer.spec;
  ExpertWeights e;
  e.gate = e.up = whole_matrix(s.weights, s.intermediate, s.hidden);
  e.down = whole_matrix(s.weights, s.hidden, s.intermediate * layer.shard.tp_ranks)
               .slice_cols(s.intermediate * layer.shard.tp_rank, s.intermediate);
  return e;
}

Result<std::unique_ptr<const PackedFile>> PackedFile::open_if_packed(
    const std::filesystem::path& path) {
  OCTET_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  if (!file.header().metadata.contains(std::string(kPackVersionKey))) {
    return std::unique_ptr<const PackedFile>();
  }
  auto packed = std::make_unique<PackedFile>();
  packed->where_ = path.string();
  packed->file_ = std::move(file);
  OCTET_RETURN_IF_ERROR(packed->read());
  return std::unique_ptr<const PackedFile>(std::move(packed));
}

Status PackedFile::check_header() const {
  const auto& metadata = file_.header().metadata;
  const auto wanted = metadata.find(std::string(kPackHeaderKey));
  if (wanted == metadata.end()) {
    return invalid_argument(fmt::format("{}: metadata {} is missing", where_, kPackHeaderKey));
  }
  const std::string found = header_checksum(std::string(file_.header().text));
  if (found != wanted->second) {
    return invalid_argument(fmt::format("{}: {}: {}, wanted {}: the header has been changed",
                                        where_, kPackHeaderKey, found, wanted->second));
  }
  if (file_.header().others.empty()) return {};
  const auto& [name, other] = *file_.header().others.begin();
  return invalid_argument(fmt::format("{}: tensor {}: dtype {}, wanted one that pack writes",
                                      where_, name, other.dtype));
}

Status PackedFile::read() {
  const auto& metadata = file_.header().metadata;
  const std::string& version = metadata.at(std::string(kPackVersionKey));
  if (version != std::to_string(kPackVersion)) {
    return unsupported(fmt::format("{}: {} {}, wanted {}: pack the checkpoint again", where_,
                                   kPackVersionKey, version, kPackVersion));
  }
  OCTET_RETURN_IF_ERROR(check_header());
  for (const std::string_view key : {kPackSourceKey, kPackDigestKey}) {
    if (!metadata.contains(std::string(key))) {
      return invalid_argument(fmt::format("{}: metadata {} is missing", where_, key));
    }
  }
  for (const auto& [key, text] : metadata) {
    if (!key.starts_with(kPackLayerKey)) continue;
    const auto index = parse_number(std::string_view(key).substr(kPackLayerKey.size()));
    if (!index)
      return invalid_argument(fmt::format("{}: metadata {}, wanted layer.N", where_, key));
    OCTET_ASSIGN_OR_RETURN(PackedLayer layer,
                           packed_layer_from_json(text, fmt::format("{}: {}", where_, key)));
    layers_.emplace(*index, std::move(layer));
  }
  if (layers_.empty()) return invalid_argument(fmt::format("{}: no packed layers", where_));
  for (const auto& [index, layer] : layers_) {
    OCTET_RETURN_IF_ERROR(bind_layer(index).status());  // refused now, not at the first use
  }
  return {};
}

std::vector<int64_t> PackedFile::layers() const {
  std::vector<int64_t> found;
  for (const auto& [index, layer] : layers_) found.push_back(index);
  return found;
}

Result<LayerTensors> PackedFile::bind_layer(int64_t index) const {
  auto layer = LayerReader(file_, index, layers_.at(index)).run();
  if (layer.ok()) return layer;
  return invalid_argument(fmt::format("{}: {}", where_, layer.status().why));
}

Result<LayerTensors> PackedFile::layer(int64_t index, const Shard& shard) const {
  const Shard& packed = layers_.at(index).shard;
  if (shard != Shard{} && shard != packed) {
    return invalid_argument(
        fmt::format("{}: packed for {}, asked {}", where_, to_text(packed), to_text(shard)));
  }
  return bind_layer(index);
}

}  // namespace octet::checkpoint
