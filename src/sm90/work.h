// SPDX-License-Identifier: Apache-2.0
// Who computes what, and in which order sums are added: both fixed by the shape and the grid, never by timing.
//
//   K of a weight row ──► stages of up to 640 ──► leaves, at most 8: a leaf's stages sum in order, from zero, in one warpgroup
//   p[j] = leaf[j] + leaf[j + 4], missing leaves -0.0, the neutral element;   sum = (p[0] + p[1]) + (p[2] + p[3])
//
// A unit, 64 weight rows with all of K, is one CTA's, so no CTA waits for another, and a row's bytes depend neither on the grid nor on the
// other rows.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define OCTET_BOTH __host__ __device__ __forceinline__
#else
#define OCTET_BOTH inline
#endif

namespace octet::sm90 {

constexpr int kMostLeaves = 8;
constexpr int kPartials = 4;  // p[0..3]

// Of a weight row cut into `num_stages` stages.
struct Leaves {
  int stages_a_leaf, count;
};
OCTET_BOTH constexpr Leaves leaves_of(int num_stages) {
  const int stages = (num_stages + kMostLeaves - 1) / kMostLeaves;
  return {stages, (num_stages + stages - 1) / stages};
}

// Units first ... last - 1.
struct UnitRange {
  int first, last;
};
// Those of CTA `cta` among `num_ctas`: contiguous, in order, at most one more than any other's.
OCTET_BOTH constexpr UnitRange units_of(int cta, int num_ctas, int num_units) {
  const auto start = [=](int64_t z) { return static_cast<int>(z * num_units / num_ctas); };
  return {start(cta), start(int64_t{cta} + 1)};
}

}  // namespace octet::sm90
