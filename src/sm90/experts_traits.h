// SPDX-License-Identifier: Apache-2.0
// What tells the experts' kernels apart: the formats of activations and weights. All that does not depend on them is written once.
#pragma once

#include "core/dtype.h"
#include "core/shape.h"
#include "layouts/stream_fp4.h"
#include "sm90/activation_record.h"

namespace octet::sm90 {

constexpr int kMostTokens = 8, kMostTopK = 8, kMostCtas = 1024;
constexpr int kMostTiles = kMostTokens * kMostTopK;

// Products on the FP8 unit, scales in binary32. x is quantised once, by whoever comes first, and handed over in records.
struct Mxfp8Mxfp4 {
  static constexpr const char* kName = "experts_mxfp8_mxfp4_sm90";
  using Record = ActivationRecord;
  static constexpr Activations kActivations = Activations::kMxfp8;
  static constexpr WeightFormat kWeights = WeightFormat::kMxfp4;
  static constexpr layouts::StreamOrder kOrder = layouts::StreamOrder::kE4m3;
  static constexpr int kWeightRecordBytes =
      static_cast<int>(layouts::stream_record_bytes(kWeights));
  static constexpr bool kHandsXOver = true;
  static constexpr int kFewestSlots = 6;  // of the ring
  struct SharedMore {};
};

// Products in BF16, weights with their scales in them (cuda/stream_codes.cuh). x is read where it is, by every CTA.
template <WeightFormat format>
struct Bf16Fp4 {
  static constexpr const char* kName =
      format == WeightFormat::kMxfp4 ? "experts_bf16_mxfp4_sm90" : "experts_bf16_nvfp4_sm90";
  using Record = Bf16Record;
  static constexpr Activations kActivations = Activations::kBf16;
  static constexpr WeightFormat kWeights = format;
  static constexpr layouts::StreamOrder kOrder = layouts::StreamOrder::kBf16;
  static constexpr int kWeightRecordBytes =
      static_cast<int>(layouts::stream_record_bytes(kWeights));
  static constexpr bool kHandsXOver = false;
  static constexpr int kMostXElems =
      14 * 8 * 512;  // that the threads of kMultiply hold at once: 8 rows of 7168
  static constexpr int kFewestSlots = 4;  // x has most of the room at 8 rows
  struct SharedMore {
    // What sums of a tile's expert are multiplied by: its factors, and what decoded weights lack.
    float gate_factor[kMostTiles], up_factor[kMostTiles], down_factor[kMostTiles];
  };
};

}  // namespace octet::sm90
