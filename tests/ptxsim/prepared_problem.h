// SPDX-License-Identifier: Apache-2.0
// Random prepared tensors with rows that are routed to them, and the judge of what a kernel made of them: semantics.md sections 5 to 8, 12.
//
//   PreparedLayer ──┐
//   PreparedRows ───┴──► PreparedJudge ◄── h, scales of h, rows found
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/op_args.h"
#include "reference/product.h"
#include "reference/span.h"

namespace octet::sim {

struct PreparedShape {
  int64_t experts, hidden, intermediate, top_k;
  int64_t padded() const { return round_up(intermediate, 128); }
};
std::string shown(const PreparedShape& shape);

// kExactSums: few bits, so that every sum of gemm1 in binary32 is exact, in any order and with terms that are cut (2^21 units at most).
// kAny: codes and scales far apart.
enum class Values { kExactSums, kAny };

// How ids are drawn; all but kSame and kNone have rows that are alike in nothing.
enum class Ids {
  kRandom,      // k of E, none twice
  kFew,         // of as many experts as k
  kSame,        // every token the same k: experts with all rows
  kMasked,      // some are -1, some E or more
  kDuplicates,  // one occurs twice in a row
  kNone,        // none is an expert's
  kAll,         // one after the other, so that every expert has rows where there are slots enough
};

struct PreparedLayer {
  PreparedLayer(const PreparedShape& of, Values values, unsigned seed);

  PreparedShape shape;
  Values values;
  std::vector<uint8_t> w13, w13_scale, w2, w2_scale;  // layouts/prepared.h
  std::vector<float> clamp;                           // 10, 5, 3.3 ...
};

struct PreparedRows {
  // x as codes, ids by a pattern.
  PreparedRows(const PreparedLayer& layer, int64_t num_tokens, Ids pattern, unsigned seed);
  // What the CPU's front has made.
  PreparedRows(const PreparedShape& shape, std::vector<uint8_t> quant, std::vector<uint8_t> scale,
               std::vector<int32_t> topk_ids);

  int64_t tokens;
  std::vector<uint8_t> x_quant, x_scale;  // [T, H], [T, H/32]
  std::vector<int32_t> ids, permuted, record;
  int64_t most_tiles = 0;  // of the record
  int64_t tiles() const { return record[1]; }
};

Gemm1Args gemm1_args(const PreparedLayer& layer, const PreparedRows& in);
Gemm2Args gemm2_args(const PreparedLayer& layer, const PreparedRows& in);

// What kernels made, in buffers that were 0xFF before.
struct PreparedResult {
  std::vector<uint8_t> h_values, h_scales;  // [8 most_tiles, Ip], [most_tiles Ip 4]
  std::vector<Bf16> rows;                   // [8 most_tiles, H]
  friend bool operator==(const PreparedResult&, const PreparedResult&) = default;
};

// Reports by gtest what is outside section 12's bounds: h under each of its scales, rows from the h that was found, zeros behind I, and
// what was written that belongs to nobody.
class PreparedJudge {
 public:
  PreparedJudge(const PreparedLayer& layer, const PreparedRows& in);
  void judge(const PreparedResult& result);

 private:
  struct Row {
    int64_t tile, expert, row;  // row of `rows`
    std::vector<reference::Span> h;
    std::vector<reference::Span> out;  // of h_found
  };
  void make_h(Row& row) const;
  void judge_h(const PreparedResult& result, Row& row);
  void judge_out(const PreparedResult& result, const Row& row);
  void judge_untouched(const PreparedResult& result) const;

  const PreparedLayer& layer_;
  const PreparedRows& in_;
  std::vector<Row> rows_;
  std::vector<uint8_t> h_found_, scales_found_;  // that the rows' `out` follow from
};

}  // namespace octet::sim
