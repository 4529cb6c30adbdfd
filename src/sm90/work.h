// SPDX-License-Identifier: Apache-2.0
// Who computes what, and in which order sums are added: both fixed by the shape and the grid, never by timing.
//
//   K of a weight row ──► stages of up to 640 ──► leaves, at most 8: a leaf's stages sum in order, from zero, in one warpgroup
//   p[j] = leaf[j] + leaf[j + 4], missing leaves -0.0, the neutral element;   sum = (p[0] + p[1]) + (p[2] + p[3])
//
// A unit, 64 weight rows with all of K, is one CTA's. Units are handed out by a counter, in an order in which each one needs only earlier
// ones: all tiles' first matrices, then all tiles' second ones, in chunks. Which CTA takes which changes nothing.
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

// What a ticket stands for.
struct Work {
  enum class Kind : uint8_t { kUp, kDown, kNone };
  Kind kind;
  int tile, first, count;  // units first ... first + count - 1 of the tile's matrix
};
OCTET_BOTH constexpr Work work_of(int ticket, int num_tiles, int up_units, int down_units,
                                  int chunk) {
  const int num_up = num_tiles * up_units;
  if (ticket < num_up) return {Work::Kind::kUp, ticket / up_units, ticket % up_units, 1};
  const int chunks = (down_units + chunk - 1) / chunk, t = ticket - num_up;
  if (t >= num_tiles * chunks) return {Work::Kind::kNone, 0, 0, 0};
  const int first = t % chunks * chunk;
  return {Work::Kind::kDown, t / chunks, first,
          down_units - first < chunk ? down_units - first : chunk};
}

}  // namespace octet::sm90
