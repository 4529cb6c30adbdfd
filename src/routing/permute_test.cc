// SPDX-License-Identifier: Apache-2.0
#include "routing/permute.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "core/test_threads.h"
#include "routing/record.h"

namespace octet::routing {
namespace {

struct Sorted {
  std::vector<int32_t> tile_to_expert, tile_to_mn_limit, expanded_to_permuted, permuted_to_expanded;
  std::vector<int32_t> num_tiles;
  friend bool operator==(const Sorted&, const Sorted&) = default;
};

struct Problem {
  int64_t tokens, top_k, tile, offset, local;
  int64_t slots() const { return tokens * top_k; }
  int64_t tiles() const { return max_tiles(tokens, top_k, local, tile); }
};

Sorted filled(const Problem& p, int32_t value) {
  const auto tiles = static_cast<size_t>(p.tiles());
  const auto make = [&](size_t n) { return std::vector<int32_t>(n, value); };
  return {make(tiles), make(tiles), make(static_cast<size_t>(p.slots())),
          make(tiles * static_cast<size_t>(p.tile)), make(1)};
}

template <class Id>
Sorted run(const Problem& p, const std::vector<int64_t>& ids) {
  const std::vector<Id> typed(ids.begin(), ids.end());
  Sorted out = filled(p, -7);
  sort({{typed.data(), sizeof(Id) == 8},
        p.tokens,
        p.top_k,
        p.tile,
        p.offset,
        p.local,
        out.tile_to_expert.data(),
        out.tile_to_mn_limit.data(),
        out.expanded_to_permuted.data(),
        out.permuted_to_expanded.data(),
        out.num_tiles.data()});
  return out;
}

// semantics.md section 10 word by word: every expert looks at every slot.
Sorted expected(const Problem& p, const std::vector<int64_t>& ids) {
  Sorted out = filled(p, 0);
  std::fill(out.expanded_to_permuted.begin(), out.expanded_to_permuted.end(), -1);
  std::fill(out.permuted_to_expanded.begin(), out.permuted_to_expanded.end(), -1);
  int64_t tile = 0;
  for (int64_t e = 0; e < p.local; ++e) {
    int64_t row = tile * p.tile;
    for (int64_t s = 0; s < p.slots(); ++s) {
      if (ids.at(static_cast<size_t>(s)) != p.offset + e) continue;
      out.expanded_to_permuted.at(static_cast<size_t>(s)) = static_cast<int32_t>(row);
      out.permuted_to_expanded.at(static_cast<size_t>(row++)) = static_cast<int32_t>(s);
    }
    for (; tile * p.tile < row; ++tile) {
      out.tile_to_expert.at(static_cast<size_t>(tile)) = static_cast<int32_t>(e);
      out.tile_to_mn_limit.at(static_cast<size_t>(tile)) =
          static_cast<int32_t>(std::min((tile + 1) * p.tile, row));
    }
  }
  out.num_tiles[0] = static_cast<int32_t>(tile);
  return out;
}

void expect_both_types(const Problem& p, const std::vector<int64_t>& ids) {
  SCOPED_TRACE(testing::Message() << p.tokens << "x" << p.top_k << " tile " << p.tile << " of "
                                  << p.offset << "+" << p.local);
  const Sorted want = expected(p, ids);
  EXPECT_EQ(run<int32_t>(p, ids), want);
  EXPECT_EQ(run<int64_t>(p, ids), want);
}

TEST(Sort, SizesFollowTheSpecification) {
  EXPECT_EQ(max_tiles(2, 6, 256, 8), 12);                      // slots <= E: a tile a slot
  EXPECT_EQ(max_tiles(64, 6, 8, 32), (64 * 6 + 31 * 8) / 32);  // else the formula
  EXPECT_EQ(max_tiles(4096, 6, 256, 128), (4096 * 6 + 127 * 256) / 128);
}

TEST(Sort, OrdersExpertsThenSlots) {
  // Experts 4 ... 6 are local; slots of expert 6: 1 and 4, of expert 4: 0 (3 is elsewhere).
  const Sorted got = run<int32_t>({3, 2, 2, 4, 3}, {4, 6, -1, 3, 6, 7});
  EXPECT_EQ(got.num_tiles, std::vector<int32_t>{2});
  EXPECT_EQ(got.tile_to_expert, (std::vector<int32_t>{0, 2, 0, 0}));
  EXPECT_EQ(got.tile_to_mn_limit, (std::vector<int32_t>{1, 4, 0, 0}));
  EXPECT_EQ(got.expanded_to_permuted, (std::vector<int32_t>{0, 2, -1, -1, 3, -1}));
  EXPECT_EQ(got.permuted_to_expanded, (std::vector<int32_t>{0, -1, 1, 4, -1, -1, -1, -1}));
}

TEST(Sort, TakesAnyIdsAndTiles) {
  std::mt19937_64 rng(2);
  for (const int64_t tile : {1, 2, 8, 16, 32, 64, 128, 192}) {
    for (const Problem& p : {Problem{1, 6, tile, 0, 256},
                             {40, 4, tile, 16, 24},
                             {50, 4, tile, 0, 6},
                             {17, 2, tile, 3, 1},
                             {9, 8, tile, 2, 5},
                             {1, 1, tile, 0, 1}}) {
      std::vector<int64_t> ids;  // some below and above the local range, duplicates in plenty
      for (int64_t s = 0; s < p.slots(); ++s)
        ids.push_back(static_cast<int64_t>(rng() % static_cast<uint64_t>(p.local + 6)) + p.offset -
                      3);
      expect_both_types(p, ids);
    }
  }
}

TEST(Sort, GivesADuplicateARowForEachSlot) {
  const Sorted got = run<int32_t>({1, 3, 8, 0, 4}, {2, 2, 2});
  EXPECT_EQ(got.expanded_to_permuted, (std::vector<int32_t>{0, 1, 2}));
}

TEST(Sort, LooksAtAllBitsOfAWideId) {
  const std::vector<int64_t> ids = {(int64_t{1} << 32) + 5, INT64_MIN, INT64_MAX, 5};
  expect_both_types({1, 4, 8, 4, 4}, {INT32_MIN, INT32_MAX, -4, 5});
  EXPECT_EQ(run<int64_t>({1, 4, 8, 4, 4}, ids).expanded_to_permuted,
            (std::vector<int32_t>{-1, -1, -1, 0}));
}

TEST(Sort, OfNothingIsEmpty) {
  expect_both_types({0, 6, 8, 0, 32}, {});
  expect_both_types({2, 2, 8, 8, 4}, {0, 12, -1, 7});  // no local id at all
}

TEST(Sort, TakesThousandsOfTokens) {
  std::mt19937_64 rng(3);
  std::vector<int64_t> ids(4096 * 6);
  for (int64_t& id : ids) id = static_cast<int64_t>(rng() % 256);
  expect_both_types({4096, 6, 128, 0, 256}, ids);
}

TEST(Permute, CopiesRowsAndZeroesTheRest) {
  InlineExecutor one;
  constexpr int64_t kHidden = 24;
  const Problem p{5, 2, 4, 1, 3};
  const std::vector<int64_t> ids = {1, 2, 3, 0, 3, 2, 9, 3, 3, 3};
  const Sorted s = run<int32_t>(p, ids);
  std::vector<Bf16> x;
  for (int64_t i = 0; i < p.tokens * kHidden; ++i) x.push_back({static_cast<uint16_t>(i + 1)});
  const int64_t rows = p.tiles() * p.tile;
  std::vector<Bf16> got(static_cast<size_t>(rows * kHidden), Bf16{0xFFFF});
  permute({x.data(), s.permuted_to_expanded.data(), s.tile_to_mn_limit.data(), s.num_tiles[0],
           p.top_k, p.tile, kHidden, rows, got.data()},
          one);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t slot = s.permuted_to_expanded[static_cast<size_t>(row)];
    for (int64_t c = 0; c < kHidden; ++c) {
      const Bf16 want = slot < 0 ? Bf16{0} : x[static_cast<size_t>(slot / p.top_k * kHidden + c)];
      ASSERT_EQ(got[static_cast<size_t>(row * kHidden + c)], want) << row << " " << c;
    }
  }
}

TEST(Permute, GivesTheSameBytesOnAnyThreadsAndCutsTheLastTile) {
  constexpr int64_t kHidden = 8, kRows = 21;  // tiles of 4, the last of one row
  std::vector<Bf16> x;
  for (int64_t i = 0; i < kRows * kHidden; ++i) x.push_back({static_cast<uint16_t>(i + 1)});
  std::vector<int32_t> slots, limits = {4, 5, 8, 16, 17, 21};
  for (int32_t i = 0; i < kRows; ++i) slots.push_back(i * 5 % static_cast<int32_t>(kRows));
  for (const int threads : {1, 2, 3}) {
    TestThreads executor(threads);
    std::vector<Bf16> got(kRows * kHidden, Bf16{0xFFFF});
    permute({x.data(), slots.data(), limits.data(), 6, 1, 4, kHidden, kRows, got.data()}, executor);
    EXPECT_EQ(executor.most_tasks, threads);
    for (int64_t i = 0; i < kRows * kHidden; ++i) {
      const int64_t row = i / kHidden;
      const bool is_used = row < limits[static_cast<size_t>(row / 4)];
      const Bf16 want =
          is_used ? x[static_cast<size_t>(slots[static_cast<size_t>(row)] * kHidden + i % kHidden)]
                  : Bf16{0};
      ASSERT_EQ(got[static_cast<size_t>(i)], want) << threads << " threads, row " << row;
    }
  }
}

TEST(Permute, DoesNotReadEntriesPastTheUsedRows) {
  InlineExecutor one;
  std::vector<int32_t> entries(16, 1 << 30);
  entries[0] = 1, entries[1] = 0;
  const std::vector<int32_t> limits = {2, 1 << 30, 1 << 30, 1 << 30};
  const std::vector<Bf16> x = {{0x1111}, {0x2222}};
  std::vector<Bf16> got(16, Bf16{0xFFFF});
  permute({x.data(), entries.data(), limits.data(), 1, 1, 4, 1, 16, got.data()}, one);
  std::vector<Bf16> want(16, Bf16{0});
  want[0] = {0x2222}, want[1] = {0x1111};
  EXPECT_EQ(got, want);
}

TEST(Permute, OfNothingWritesNothing) {
  Bf16 out{0xFFFF};
  InlineExecutor one;
  permute({nullptr, nullptr, nullptr, 0, 6, 8, 16, 0, &out}, one);
  EXPECT_EQ(out, Bf16{0xFFFF});
}

}  // namespace
}  // namespace octet::routing
