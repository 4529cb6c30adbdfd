// SPDX-License-Identifier: Apache-2.0
// The library's own streaming file: a safetensors file whose expert weights lie in panels (layouts/panel.h), so that `run`
// maps it and loads nothing. Its metadata has the format's version, the source's digest, each layer's spec, a checksum of
// every tensor and one of the header itself (XXH3, 64 bits). The header's is compared whenever the file is opened: it takes no
// time, and no tensor's checksum tells that a spec has changed.
//
//   __metadata__  octet_pack_version "2", source, source_digest (XXH3-128 of the tensors read), layer.N (JSON: LayerSpec, shard,
//                 panel sizes, model_type), checksum.NAME, header_checksum (of the length and the JSON, with
//                 zeros for itself)
//   layers.N.experts           U8 [local experts, expert bytes]
//   layers.N.params            F32 [local experts, 4]: gate, up, down factors, limit
//   layers.N.{gate_bias,up_bias} BF16 [local experts, I], .down_bias BF16 [local experts, H]     where the model has them
//   layers.N.gate.{weight,logit_bias,bias,bias_vl,table}                                          as in Gate
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/model.h"
#include "core/progress.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

constexpr int kPackVersion = 2;  // 1 had no checksum of the header

struct PackOptions {
  std::vector<int64_t> layers;  // empty: all
  LoadOptions load;             // shard, activations
  std::filesystem::path output;
};
Status pack(const Model& model, const PackOptions& options, const Progress& progress = {});

// Compares every checksum; names the first tensor that differs.
Status verify_packed(const std::filesystem::path& path, const Progress& progress = {});

}  // namespace octet::checkpoint
