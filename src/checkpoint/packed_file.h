// SPDX-License-Identifier: Apache-2.0
// Reading a packed file (packed.h): its metadata are checked against the tensors, the panels are used where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model.h"
#include "checkpoint/safetensors.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

// Metadata keys; per layer and per tensor with the number or name behind.
constexpr std::string_view kPackVersionKey = "octet_pack_version";
constexpr std::string_view kPackSourceKey = "source";
constexpr std::string_view kPackDigestKey = "source_digest";
constexpr std::string_view kPackLayerKey = "layer.";
constexpr std::string_view kPackChecksumKey = "checksum.";
constexpr std::string_view kPackHeaderKey = "header_checksum";
constexpr size_t kChecksumDigits = 16;

// Where the digits of the header's checksum stand in it; npos: nowhere.
size_t header_checksum_place(std::string_view header);
// XXH3 of a header (length and JSON) with zeros in that place.
std::string header_checksum(std::string header);

// What the metadata say of one layer. `spec` is the rank's.
struct PackedLayer {
  std::string model_type;
  LayerSpec spec;
  Shard shard;
  layouts::PanelSizes sizes;
};
std::string to_json(const PackedLayer& layer);
Result<PackedLayer> packed_layer_from_json(std::string_view text, std::string_view where);

// One expert of the layer without its weights: shapes, and where its columns begin in a scale block.
layouts::ExpertWeights packed_expert(const PackedLayer& layer);

// Names of a layer's tensors.
std::string packed_name(int64_t layer, std::string_view tensor);
// U8 [local experts, expert bytes] and so on: the tensors that every packed layer has.
constexpr std::string_view kPackedExperts = "experts";
constexpr std::string_view kPackedParams = "params";
constexpr int64_t kPackedParamCount = 4;  // gate, up, down factors, limit

class PackedFile {
 public:
  // Null: a safetensors file that is not packed.
  static Result<std::unique_ptr<const PackedFile>> open_if_packed(
      const std::filesystem::path& path);

  std::string_view model_type() const { return layers_.begin()->second.model_type; }
  std::vector<int64_t> layers() const;
  const SafetensorsHeader& header() const { return file_.header(); }
  // Shard{}: whatever is packed; another one than that is refused.
  Result<LayerTensors> layer(int64_t index, const Shard& shard) const;

 private:
  Status read();
  Status check_header() const;
  Result<LayerTensors> bind_layer(int64_t index) const;
  std::string where_;
  SafetensorsFile file_;
  std::map<int64_t, PackedLayer> layers_;
};

}  // namespace octet::checkpoint
