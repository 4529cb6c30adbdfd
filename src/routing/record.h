// SPDX-License-Identifier: Apache-2.0
// The routing record: the tables that the prepared kernels read. semantics.md section 5.
//
//   word 0          8 * tiles (padded rows)           word 1   tiles            words 2, 3   0
//   4     ... 4+C   tile -> local expert
//   4+C   ... 4+2C  tile -> row limit: min((c + 1) * 8, first row + count), in permuted rows
//   4+2C  ...       padded row -> token
//
// Experts ascending, inside an expert tokens ascending, each expert's rows padded to 8; words not named are 0.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/op_args.h"
#include "core/shape.h"

namespace octet::routing {

// Kernels count in int32_t: these say so, f<int32_t>(...).
template <class Int>
using Same = std::type_identity_t<Int>;

// The most tiles any routing of T * k slots over E experts needs.
template <class Int = int64_t>
constexpr Int max_tiles(Same<Int> tokens, Same<Int> top_k, Same<Int> experts, Same<Int> tile) {
  const Int slots = tokens * top_k;
  const Int filled = experts < slots ? experts : slots;
  return filled + (slots - filled) / tile;
}
template <class Int = int64_t>
constexpr Int max_ctas(Same<Int> tokens, Same<Int> top_k, Same<Int> experts) {
  return max_tiles<Int>(tokens, top_k, experts, static_cast<Int>(kTileRows));
}
template <class Int = int64_t>
constexpr Int cta_words(Same<Int> ctas) {
  return (ctas + 3) / 4 * 4;
}
template <class Int = int64_t>
constexpr Int record_words(Same<Int> ctas) {
  return 4 + 2 * cta_words<Int>(ctas) + static_cast<Int>(kTileRows) * ctas;
}
constexpr int64_t kRouteMaxExperts = 512;

// A record taken apart; pointers into it.
struct RecordView {
  int64_t num_tiles;
  const int32_t* expert;  // [tiles]
  const int32_t* limit;   // [tiles]
  const int32_t* token;   // [8 * ctas]
  constexpr RecordView(const int32_t* record, int64_t ctas)
      : num_tiles(record[1]),
        expert(record + 4),
        limit(record + 4 + cta_words(ctas)),
        token(record + 4 + 2 * cta_words(ctas)) {}
};

// permuted and record from ids, every word. An id that occurs twice in a row gets the same permuted row in both slots.
// On the calling thread: 4096 rows of 8 ids over 512 experts take 0.3 ms.
void route(const RouteArgs& args);

}  // namespace octet::routing
