// SPDX-License-Identifier: Apache-2.0
#include "routing/record.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace octet::routing {
namespace {

struct Routed {
  std::vector<int32_t> permuted, record;
  friend bool operator==(const Routed&, const Routed&) = default;
};

struct Problem {
  int64_t tokens, top_k, experts;
  int64_t ctas() const { return max_ctas(tokens, top_k, experts); }
};

Routed poisoned(const Problem& p) {
  return {std::vector<int32_t>(static_cast<size_t>(p.tokens * p.top_k), -7),
          std::vector<int32_t>(static_cast<size_t>(record_words(p.ctas())), -7)};
}

template <class Id>
Routed run(const Problem& p, const std::vector<int64_t>& ids) {
  const std::vector<Id> typed(ids.begin(), ids.end());
  Routed out = poisoned(p);
  route({{typed.data(), sizeof(Id) == 8},
         p.tokens,
         p.top_k,
         p.experts,
         out.permuted.data(),
         out.record.data()});
  return out;
}

// semantics.md section 5 word by word: every expert looks at every token.
Routed expected(const Problem& p, const std::vector<int64_t>& ids) {
  Routed out = poisoned(p);
  std::fill(out.record.begin(), out.record.end(), 0);
  std::fill(out.permuted.begin(), out.permuted.end(), -1);
  const int64_t words = round_up(p.ctas(), 4);
  int32_t tile = 0;
  for (int64_t e = 0; e < p.experts; ++e) {
    const int32_t first = tile * 8;
    int32_t count = 0;
    for (int64_t t = 0; t < p.tokens; ++t) {
      bool found = false;
      for (int64_t s = t * p.top_k; s < (t + 1) * p.top_k; ++s) {
        if (ids.at(static_cast<size_t>(s)) != e) continue;
        out.permuted.at(static_cast<size_t>(s)) = first + count;
        found = true;
      }
      if (!found) continue;
      out.record.at(static_cast<size_t>(4 + 2 * words + first + count)) = static_cast<int32_t>(t);
      ++count;
    }
    for (; tile * 8 < first + count; ++tile) {
      out.record.at(static_cast<size_t>(4 + tile)) = static_cast<int32_t>(e);
      out.record.at(static_cast<size_t>(4 + words + tile)) =
          std::min((tile + 1) * 8, first + count);
    }
  }
  out.record[0] = 8 * tile;
  out.record[1] = tile;
  return out;
}

void expect_both_types(const Problem& p, const std::vector<int64_t>& ids) {
  SCOPED_TRACE(testing::Message() << p.tokens << "x" << p.top_k << " of " << p.experts);
  const Routed want = expected(p, ids);
  EXPECT_EQ(run<int32_t>(p, ids), want);
  EXPECT_EQ(run<int64_t>(p, ids), want);
}

TEST(Route, SizesFollowTheSpecification) {
  EXPECT_EQ(max_ctas(8, 6, 384), 48);
  EXPECT_EQ(max_ctas(8, 6, 32), 32 + 16 / 8);
  EXPECT_EQ(max_ctas(0, 6, 32), 0);
  EXPECT_EQ(cta_words(48), 48);
  EXPECT_EQ(cta_words(1), 4);
  EXPECT_EQ(record_words(6), 4 + 2 * 8 + 48);
  EXPECT_EQ(record_words(0), 4);
}

TEST(Route, WritesTheRecordOfASmallCase) {
  // Tokens 0 and 2 take expert 3, token 1 takes experts 1 and 3; ctas 6, C 8.
  const Problem p{3, 2, 5};
  const Routed got = run<int32_t>(p, {3, -1, 1, 3, 3, 5});
  EXPECT_EQ(got.permuted, (std::vector<int32_t>{8, -1, 0, 9, 10, -1}));
  std::vector<int32_t> want(static_cast<size_t>(record_words(p.ctas())), 0);
  ASSERT_EQ(p.ctas(), 5);
  want[0] = 16;
  want[1] = 2;
  want[4] = 1, want[5] = 3;           // experts
  want[4 + 8] = 1, want[5 + 8] = 11;  // limits
  want[20] = 1;                       // tokens of rows 0 and 8 ... 10
  want[28] = 0, want[29] = 1, want[30] = 2;
  EXPECT_EQ(got.record, want);
}

TEST(Route, FillsManyTilesOfOneExpert) {
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < 19; ++t) ids.push_back(2);
  expect_both_types({19, 1, 4}, ids);
  EXPECT_EQ(run<int32_t>({19, 1, 4}, ids).record[1], 3);
}

TEST(Route, TakesAnyIds) {
  std::mt19937_64 rng(1);
  const Problem kProblems[] = {{1, 1, 1},  {1, 6, 32},  {8, 6, 384}, {8, 8, 32},
                               {9, 6, 64}, {100, 8, 3}, {33, 2, 512}};
  for (const Problem& p : kProblems) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<int64_t> ids;
      for (int64_t s = 0; s < p.tokens * p.top_k;
           ++s)  // -2 ... E + 1, duplicates in plenty where E is small
        ids.push_back(static_cast<int64_t>(rng() % static_cast<uint64_t>(p.experts + 4)) - 2);
      expect_both_types(p, ids);
    }
  }
}

// A rank of 4 experts from 6 on: the record of the ids less 6, and of no other.
TEST(Route, CountsFromTheRanksFirstExpert) {
  const Problem p{9, 4, 4};
  std::mt19937_64 rng(5);
  std::vector<int64_t> ids, less;
  for (int64_t s = 0; s < p.tokens * p.top_k; ++s) {
    ids.push_back(static_cast<int64_t>(rng() % 16));
    less.push_back(ids.back() - 6);
  }
  Routed got = poisoned(p);
  route({.topk_ids = {ids.data(), true},
         .tokens = p.tokens,
         .top_k = p.top_k,
         .experts = p.experts,
         .permuted = got.permuted.data(),
         .record = got.record.data(),
         .first_expert = 6});
  EXPECT_EQ(got, run<int64_t>(p, less));
}

TEST(Route, GivesADuplicateTheSameRow) {
  const Problem p{2, 3, 4};
  const Routed got = run<int32_t>(p, {2, 2, 1, 2, 0, 2});
  EXPECT_EQ(got.permuted[0], got.permuted[1]);
  EXPECT_EQ(got.permuted[3], got.permuted[5]);
  EXPECT_EQ(got.permuted[3], got.permuted[0] + 1);
  EXPECT_EQ(RecordView(got.record.data(), p.ctas()).limit[2],
            got.permuted[0] + 2);  // two rows, not four
  expect_both_types(p, {2, 2, 1, 2, 0, 2});
}

TEST(Route, LooksAtAllBitsOfAWideId) {
  const Problem p{1, 4, 8};
  const std::vector<int64_t> ids = {(int64_t{1} << 32) + 3, INT64_MIN, INT64_MAX, 3};
  EXPECT_EQ(run<int64_t>(p, ids).permuted, (std::vector<int32_t>{-1, -1, -1, 0}));
  EXPECT_EQ(run<int32_t>(p, {INT32_MIN, INT32_MAX, 3, 8}).permuted,
            (std::vector<int32_t>{-1, -1, 0, -1}));
}

TEST(Route, OfNothingIsFourZeroWords) {
  EXPECT_EQ(run<int32_t>({0, 6, 32}, {}).record, std::vector<int32_t>(4, 0));
  expect_both_types({3, 2, 4}, {-1, 4, -1, 9, -1, -1});  // no local id at all
}

}  // namespace
}  // namespace octet::routing
