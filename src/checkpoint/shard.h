// SPDX-License-Identifier: Apache-2.0
// A rank's part of a layer: `tp` cuts I (rows of gate and up, columns of down), `ep` cuts E. A cut inside a scale block is
// exact: both sides keep the block's scale (layouts::WeightView::first_col). docs/checkpoints.md section 7.
#pragma once

#include "checkpoint/model.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

constexpr int64_t kMinSliceColumns = 16;  // of the narrowest tensor-parallel slice

// Whether a whole layer can be cut so: "intermediate 2304 is not a multiple of tp 5".
Status check_shard(const LayerSpec& whole, const Shard& shard);

// The spec and tensors of the rank from those of the whole layer; check_shard was ok.
LayerSpec shard_spec(const LayerSpec& whole, const Shard& shard);
layouts::ExpertWeights shard_expert(const layouts::ExpertWeights& whole, const Shard& shard);
void apply_shard(LayerTensors& layer, const Shard& shard);

}  // namespace octet::checkpoint
