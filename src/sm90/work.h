// SPDX-License-Identifier: Apache-2.0
// In which order work is handed out, and in which order sums are added: both fixed by the shape, never by timing.
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

// A quotient by a multiplication: exact where dividend * divisor is below 2^32.
struct Divisor {
  int divisor;
  uint32_t inverse;  // ceil(2^32 / divisor), 0 for 1
  OCTET_BOTH explicit constexpr Divisor(int by)
      : divisor(by), inverse(by == 1 ? 0 : 0xFFFFFFFFU / static_cast<uint32_t>(by) + 1) {}
  OCTET_BOTH constexpr int quotient(int v) const {
    return inverse == 0 ? v : static_cast<int>(uint64_t{static_cast<uint32_t>(v)} * inverse >> 32);
  }
};

// The order of all work. A CTA's scheduler looks tickets up with all lanes of its warp, between busy warps, at some ten cycles an instruction.
struct WorkOrder {
  int down_units, chunk;
  Divisor up_units, chunks;
  int num_up = 0, num_all = 0;
  OCTET_BOTH constexpr WorkOrder(int num_tiles, int up, int down, int of_a_chunk)
      : down_units(down),
        chunk(of_a_chunk),
        up_units(up),
        chunks((down + of_a_chunk - 1) / of_a_chunk) {
    set_tiles(num_tiles);
  }
  OCTET_BOTH constexpr void set_tiles(int num_tiles) {
    num_up = num_tiles * up_units.divisor;
    num_all = num_up + num_tiles * chunks.divisor;
  }
  OCTET_BOTH constexpr Work operator[](int ticket) const {
    if (ticket < num_up) {
      const int tile = up_units.quotient(ticket);
      return {Work::Kind::kUp, tile, ticket - tile * up_units.divisor, 1};
    }
    if (ticket >= num_all) return {Work::Kind::kNone, 0, 0, 0};
    const int t = ticket - num_up, tile = chunks.quotient(t);
    const int first = (t - tile * chunks.divisor) * chunk;
    return {Work::Kind::kDown, tile, first,
            down_units - first < chunk ? down_units - first : chunk};
  }
};

}  // namespace octet::sm90
