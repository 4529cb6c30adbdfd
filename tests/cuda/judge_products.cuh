// SPDX-License-Identifier: Apache-2.0
// Products of a weight row with activations in float64, and the room that their sum on Hopper's tensor cores has.
//
// A decoded weight times an activation is exact in binary32 (semantics.md section 1), activations of either kind are binary32 numbers, and
// float64 adds them with errors 2^29 times smaller than the room. The room, u = 2^-24:
//
//   MXFP8   section 12: min(K + 1, 8 sqrt(K) + K/8) u Σ|w x|, and 32 2^-13 max|w x| for each block of 32
//   BF16    the lesser of that section's min(...) u Σ|w x| and what the kernel's own order (docs/kernels/experts_bf16_sm90.md, sm90/work.h)
//           can lose:
//             mma.sync   a step adds 16 exact products to the accumulator. All 17 are cut below 2^-25 of the largest, and their sum below 2^-23
//                        of itself: an H200's bits (ptxsim/matrix/dot.h, docs/ptxsim.md). An 18th pays for judging by exact accumulators.
//                        These begin at zero with each stage, one for the first and one for the second 16 of each block of 32.
//             binary32   a stage's two accumulators, stages of a leaf, leaves, (p0 + p1) + (p2 + p3): each stage's sum goes through `adds`
//                        roundings, so all of them lose at most adds u Σ|sum of a stage|.
//           No fixed point (section 9): this kernel has x and h as they are. At K 5120 the section's bound is as wide as a step of BF16; that
//           of the order, some hundredth of it, leaves a rounding to BF16 mostly one result.
//   factor  of an expert, if it is there: one rounding, u |sum factor|. What decoded weights lack is a power of two.
#pragma once

#include <cmath>
#include <cstdint>

#include "decode_layer.cuh"
#include "sm90/work.h"

namespace octet::sm90 {

// v >= 0 to the nearest number of `bits` significant bits, ties to even; below 2^least in steps of 2^(least - bits + 1).
__device__ inline double rounded(double v, int bits, int least) {
  if (v == 0) return 0;
  const int e = max(ilogb(v), least);
  return ldexp(rint(ldexp(v, bits - 1 - e)), e - bits + 1);
}
// Of any sign; the simulator has no copysign of binary64.
__device__ inline double to_e4m3(double v) {
  const double r = fmin(rounded(fabs(v), 4, -6), 448.0);
  return v < 0 ? -r : r;
}
__device__ inline double to_bf16(double v) {
  const double r = rounded(fabs(v), 8, -126);
  return v < 0 ? -r : r;
}
// E4M3 in units of 2^-9; false for NaN.
__device__ inline bool e4m3_units(uint8_t code, int& units) {
  const int e = code >> 3 & 15, m = code & 7;
  units = e == 0 ? m : (8 + m) << (e - 1);
  if ((code & 0x80) != 0) units = -units;
  return (code & 0x7F) != 0x7F;
}
// E2M1 in units of 1/2.
__device__ inline int e2m1_units(uint32_t code) {
  const auto magnitude = static_cast<int>(0xC8643210U >> (4 * (code & 7U)) & 15U);
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// How the launch adds up a row of one matrix.
struct SumOrder {
  double any;               // section 12's room, whatever the order, of Σ|w x|
  int width, stage_blocks;  // of 32
  int adds;                 // binary32 roundings that a stage's sum goes through at most
};
inline SumOrder sum_order(const layouts::StreamMatrix& m, int64_t width) {
  const Leaves leaves = leaves_of(static_cast<int>(m.num_stages()));
  constexpr int kAccumulators = 1, kLeavesOfAPartial = kMostLeaves / kPartials, kTree = 2;
  const auto k = static_cast<double>(width);
  return {std::fmin(k + 1, 8 * std::sqrt(k) + k / 8) * 0x1p-24, static_cast<int>(width),
          static_cast<int>(2 * m.stage_pairs),
          kAccumulators + leaves.stages_a_leaf + kLeavesOfAPartial + kTree};
}

// A row of an expert's matrix; its factor, null: 1.
struct WeightRow {
  const uint8_t *codes, *scales;
  const float* factor;
};
__device__ inline WeightRow weight_row(const Canonical& m, const float* factors, int expert,
                                       int64_t row) {
  return {m.codes + expert * m.code_bytes() + row * m.cols / 2,
          m.scales + expert * m.scale_bytes() + row * m.cols / scale_block(m.format),
          factors == nullptr ? nullptr : factors + expert};
}
// Half the scale of 16 codes, number `half` of their block of 32: what a unit of e2m1_units() is worth.
template <WeightFormat format>
__device__ inline double unit_of(const WeightRow& w, int block, int half) {
  if constexpr (format == WeightFormat::kMxfp4) {
    return ldexp(0.5, w.scales[block] - 127);
  } else {
    int units = 0;
    return e4m3_units(w.scales[2 * block + half], units) ? ldexp(0.5 * units, -9) : NAN;
  }
}

// Sixteen products.
struct Sixteen {
  double sum, mass, most;
};
__device__ inline Sixteen sixteen_products(uint2 codes, const float* x, double unit) {
  Sixteen s{};
  float most = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const uint32_t code = (i < 8 ? codes.x : codes.y) >> (i % 8 * 4);
    const float p = static_cast<float>(e2m1_units(code)) * x[i];
    s.sum += static_cast<double>(p);
    s.mass += static_cast<double>(fabsf(p));
    most = fmaxf(most, fabsf(p));
  }
  return {s.sum * unit, s.mass * unit, static_cast<double>(most) * unit};
}

// A lane's accumulator after its block, where lanes have neighbouring blocks and each stage begins at zero; `carry`: that of the block before
// lane 0's. A whole warp.
__device__ inline double accumulated(double own, int block, int stage_blocks, double& carry) {
  const int lane = static_cast<int>(threadIdx.x) % 32, before = block % stage_blocks;
  double sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const double other = __shfl_up_sync(~0U, sum, static_cast<unsigned>(step));
    if (lane >= step && before >= step) sum += other;
  }
  if (before > lane) sum += carry;
  carry = __shfl_sync(~0U, sum, 31);
  return sum;
}

struct Sum {
  double value, room;
};
__device__ inline double of_warp(double v) {
  for (int lane = 16; lane > 0; lane /= 2) v += __shfl_xor_sync(~0U, v, lane);
  return v;
}
// x [K/32][33] in shared memory (the 33rd keeps lanes on banks of their own), one warp; every lane has the result.
template <class Traits>
__device__ inline Sum product(const float* x, const WeightRow& w, const SumOrder& order) {
  constexpr double kU = 0x1p-24;
  const int lane = static_cast<int>(threadIdx.x) % 32, blocks = order.width / 32;
  double value = 0, mass = 0, lost = 0, carry[2] = {};
  for (int first = 0; first < blocks; first += 32) {
    const int block = first + lane;
    Sixteen s[2] = {};
    if (block < blocks) {
      const uint4 four = reinterpret_cast<const uint4*>(w.codes)[block];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        s[half] =
            sixteen_products(half == 0 ? make_uint2(four.x, four.y) : make_uint2(four.z, four.w),
                             x + block * 33 + 16 * half, unit_of<Traits::kWeights>(w, block, half));
    }
    value += s[0].sum + s[1].sum;
    mass += s[0].mass + s[1].mass;
    if constexpr (Traits::kActivations == Activations::kMxfp8) {
      lost += 32 * 0x1p-13 * fmax(s[0].most, s[1].most);
    } else {
      double stage = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const double after = accumulated(s[half].sum, block, order.stage_blocks, carry[half]);
        const double before = after - s[half].sum;
        if (block < blocks)
          lost += 18 * 0x1p-25 * fmax(fabs(before), s[half].most) + 0x1p-23 * fabs(after);
        stage += after;
      }
      if (block == blocks - 1 || (block < blocks && (block + 1) % order.stage_blocks == 0))
        lost += order.adds * kU * fabs(stage);
    }
  }
  value = of_warp(value);
  mass = of_warp(mass);
  lost = of_warp(lost);
  const double any_order = order.any * mass;
  const bool is_mxfp8 = Traits::kActivations == Activations::kMxfp8;
  Sum sum{value, is_mxfp8 ? any_order + lost : fmin(any_order, lost)};
  if (w.factor != nullptr) {
    const double factor = *w.factor;
    sum = {sum.value * factor, sum.room * factor};
    sum.room += kU * (fabs(sum.value) + sum.room);
  }
  return sum;
}
__device__ inline void to_shared(float* x, const float* from, int width) {
  for (auto i = static_cast<int>(threadIdx.x); i < width; i += static_cast<int>(blockDim.x))
    x[i / 32 * 33 + i % 32] = from[i];
  __syncthreads();
}

}  // namespace octet::sm90
