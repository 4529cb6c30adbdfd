// SPDX-License-Identifier: Apache-2.0
// Made-up values: word i of a tensor is a hash of (seed, tensor's key, i), so that the bytes are the same on every machine
// and any part of a tensor can be made alone. Integer arithmetic, and single correctly rounded products where numbers are
// made of it: no libm call, whose last bit differs between machines.
//
//   kBytes    (random byte & mask) + base, lane by lane: E2M1 pairs, scale codes, E4M3 weights
//   kNormal   BF16 or F32: mean 0, deviation `spread`; the sum of four uniform numbers, so at most 3.5 deviations
//   kUniform  F32: `centre` * [0.75, 1.25)
//   kIds      I32 [rows, k]: k different numbers below `below` a row
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/tensor.h"

namespace octet::checkpoint {

struct Fill {
  enum class Kind : uint8_t { kBytes, kNormal, kUniform, kIds };
  Kind kind = Kind::kBytes;
  uint8_t mask = 0xFF, base = 0;  // kBytes; no lane's sum carries into the next
  double spread = 0;              // kNormal
  double centre = 0;              // kUniform
  int64_t below = 0;              // kIds; at least k
};

struct SynthTensor {
  std::string name;
  Dtype dtype = Dtype::kU8;
  Dims dims;
  Fill fill;
  std::string key;  // tensors with one key have the same values; empty: the name
};

// Scale codes whose weights `code value * scale` have a deviation of 1 / sqrt(width), so that a row of unit numbers gives
// a sum of about 1. `code_rms` is that of the code values.
Fill ue8m0_fill(double code_rms, int64_t width);
// E4M3 block scales from 30 to 448, as amax / 2688 factors leave them, and the factor that goes with them.
Fill e4m3_scale_fill();
Fill e4m3_factor_fill(int64_t width);
// E4M3 weights of magnitude 0.25 to 3.75.
Fill e4m3_weight_fill();
inline constexpr double kE2m1Rms = 2.9261749776799064;  // of the 16 codes: sqrt(68.5 / 8)
inline constexpr double kE4m3WeightRms = 1.6891566607;  // of e4m3_weight_fill()

uint64_t synth_key(uint64_t seed, std::string_view name);
// Bytes first_byte ... of the tensor; first_byte is a multiple of 64.
void fill_bytes(const SynthTensor& tensor, uint64_t key, int64_t first_byte,
                std::span<std::byte> out);

}  // namespace octet::checkpoint
