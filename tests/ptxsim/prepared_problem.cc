// SPDX-License-Identifier: Apache-2.0
#include "prepared_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

#include "formats/bf16.h"
#include "formats/e4m3.h"
#include "reference/decode.h"
#include "reference/hidden.h"
#include "reference/index.h"
#include "reference/swiglu.h"
#include "routing/record.h"
#include "routing/topk.h"

namespace octet::sim {
namespace {

using reference::Span;

size_t size_of(int64_t n) { return static_cast<size_t>(n); }

std::vector<uint8_t> random_bytes(int64_t count, std::mt19937& rng) {
  std::vector<uint8_t> all(size_of(round_up(count, 4)));
  for (size_t i = 0; i < all.size(); i += 4) {
    const auto word = static_cast<uint32_t>(rng());
    std::memcpy(all.data() + i, &word, 4);
  }
  all.resize(size_of(count));
  return all;
}

// `values` codes from `low` on.
std::vector<uint8_t> random_scales(int64_t count, int low, unsigned values, std::mt19937& rng) {
  std::vector<uint8_t> all(size_of(count));
  for (uint8_t& code : all) code = static_cast<uint8_t>(low + static_cast<int>(rng() % values));
  return all;
}

// Scale codes under which sums of k products of magnitudes `size` are of the size of 4.
int scale_low(int64_t k, double size) {
  return 127 +
         static_cast<int>(std::lround(2 - std::log2(size * std::sqrt(static_cast<double>(k)))));
}

std::vector<int32_t> draw_ids(const PreparedShape& s, int64_t tokens, Ids pattern,
                              std::mt19937& rng) {
  std::vector<int32_t> all(size_of(pattern == Ids::kFew ? s.top_k : s.experts)), ids;
  std::iota(all.begin(), all.end(), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    if (t == 0 || pattern != Ids::kSame) std::shuffle(all.begin(), all.end(), rng);
    const size_t first = ids.size();
    for (int64_t j = 0; j < s.top_k; ++j) {
      int32_t id = all[size_of(j)];
      if (pattern == Ids::kAll) id = static_cast<int32_t>((t * s.top_k + j) % s.experts);
      if (pattern == Ids::kNone || (pattern == Ids::kMasked && rng() % 3 == 0))
        id = rng() % 2 == 0 ? -1 - static_cast<int32_t>(rng() % 5)
                            : static_cast<int32_t>(s.experts + rng() % 9);
      ids.push_back(id);
    }
    if (pattern == Ids::kDuplicates && s.top_k > 1) ids.back() = ids[first];
  }
  return ids;
}

void route(const PreparedShape& s, PreparedRows& in) {
  in.most_tiles = routing::max_ctas(in.tokens, s.top_k, s.experts);
  in.permuted.resize(in.ids.size());
  in.record.resize(size_of(routing::record_words(in.most_tiles)));
  routing::route({{in.ids.data(), false},
                  in.tokens,
                  s.top_k,
                  s.experts,
                  in.permuted.data(),
                  in.record.data()});
}

// Stored row n of an expert as numbers.
std::vector<double> decoded(const std::vector<uint8_t>& codes, const std::vector<uint8_t>& scales,
                            int64_t expert, int64_t rows, int64_t n, int64_t cols) {
  std::vector<double> out(size_of(cols));
  const uint8_t* of_expert = scales.data() + expert * rows * (cols / kMxBlock);
  reference::decode_row(
      WeightFormat::kMxfp4, codes.data() + (expert * rows + n) * (cols / 2), 0, cols,
      [&](int64_t b) {
        return of_expert[reference::scale_index(ScaleLayout::k128x4, cols / kMxBlock, n, b)];
      },
      out.data());
  return out;
}

void report(const char* what, int64_t row, int64_t column, double got, const Span& want) {
  ADD_FAILURE() << what << ", row " << row << ", column " << column << ": got " << got << ", want "
                << want.lo << " ... " << want.hi;
}

}  // namespace

std::string shown(const PreparedShape& s) {
  return "E " + std::to_string(s.experts) + ", H " + std::to_string(s.hidden) + ", I " +
         std::to_string(s.intermediate) + ", k " + std::to_string(s.top_k);
}

PreparedLayer::PreparedLayer(const PreparedShape& of, Values kind, unsigned seed)
    : shape(of), values(kind) {
  std::mt19937 rng(seed);
  const int64_t e = shape.experts, h = shape.hidden, ip = shape.padded();
  const bool is_exact = values == Values::kExactSums;
  const unsigned num_scales = is_exact ? 2 : 6;
  // x is of the size of 5 or of 100; its own scales are 2^-2 and about.
  const int low = scale_low(h, (is_exact ? 5 : 100) * 2.5) + 2 - static_cast<int>(num_scales) / 3;
  w13 = random_bytes(e * ip * h, rng);
  w2 = random_bytes(e * h * ip / 2, rng);
  w13_scale = random_scales(e * 2 * ip * h / kMxBlock, low, num_scales, rng);
  w2_scale = random_scales(e * h * ip / kMxBlock, 120, 5, rng);
  for (int64_t row = 0; row < e * 2 * ip; ++row) {
    if (reference::w13_place(row % (2 * ip)).column < shape.intermediate) continue;
    std::fill_n(w13.begin() + row * (h / 2), h / 2, uint8_t{0});
  }
  for (int64_t row = 0; row < e * h; ++row)
    std::fill(w2.begin() + row * (ip / 2) + shape.intermediate / 2,
              w2.begin() + (row + 1) * (ip / 2), uint8_t{0});
  for (int64_t i = 0; i < e; ++i) clamp.push_back(10.0F / static_cast<float>(1 + i % 3));
}

PreparedRows::PreparedRows(const PreparedLayer& layer, int64_t num_tokens, Ids pattern,
                           unsigned seed)
    : tokens(num_tokens) {
  std::mt19937 rng(seed);
  const PreparedShape& s = layer.shape;
  std::normal_distribution<float> normal(0.0F, 100.0F);
  for (int64_t i = 0; i < tokens * s.hidden; ++i)
    x_quant.push_back(formats::e4m3_from_f32(
        layer.values == Values::kExactSums ? static_cast<float>(static_cast<int>(rng() % 17) - 8)
                                           : normal(rng)));
  x_scale = random_scales(tokens * s.hidden / kMxBlock, 125,
                          layer.values == Values::kExactSums ? 2 : 4, rng);
  ids = draw_ids(s, tokens, pattern, rng);
  route(s, *this);
}

PreparedRows::PreparedRows(const PreparedShape& shape, std::vector<uint8_t> quant,
                           std::vector<uint8_t> scale, std::vector<int32_t> topk_ids)
    : tokens(static_cast<int64_t>(quant.size()) / shape.hidden),
      x_quant(std::move(quant)),
      x_scale(std::move(scale)),
      ids(std::move(topk_ids)) {
  route(shape, *this);
}

Gemm1Args gemm1_args(const PreparedLayer& layer, const PreparedRows& in) {
  const PreparedShape& s = layer.shape;
  return {.x_quant = in.x_quant.data(),
          .x_scale = in.x_scale.data(),
          .record = in.record.data(),
          .w13 = layer.w13.data(),
          .w13_scale = layer.w13_scale.data(),
          .clamp = layer.clamp.data(),
          .tokens = in.tokens,
          .top_k = s.top_k,
          .experts = s.experts,
          .hidden = s.hidden,
          .padded = s.padded(),
          .intermediate = s.intermediate,
          .h_values = nullptr,
          .h_scales = nullptr};
}

Gemm2Args gemm2_args(const PreparedLayer& layer, const PreparedRows& in) {
  const PreparedShape& s = layer.shape;
  return {.h_values = nullptr,
          .h_scales = nullptr,
          .record = in.record.data(),
          .w2 = layer.w2.data(),
          .w2_scale = layer.w2_scale.data(),
          .tokens = in.tokens,
          .top_k = s.top_k,
          .experts = s.experts,
          .hidden = s.hidden,
          .padded = s.padded(),
          .gemm2_rows = nullptr};
}

PreparedJudge::PreparedJudge(const PreparedLayer& layer, const PreparedRows& in)
    : layer_(layer), in_(in) {
  const routing::RecordView record(in.record.data(), in.most_tiles);
  for (int64_t tile = 0; tile < in.tiles(); ++tile) {
    for (int64_t row = 8 * tile; row < record.limit[tile]; ++row)
      rows_.push_back({tile, record.expert[tile], row, {}, {}});
  }
  for (Row& row : rows_) make_h(row);
}

void PreparedJudge::make_h(Row& row) const {
  const PreparedShape& s = layer_.shape;
  const routing::RecordView record(in_.record.data(), in_.most_tiles);
  const int64_t token = record.token[row.row];
  reference::Activation x;
  for (int64_t k = 0; k < s.hidden; ++k)
    x.value.push_back(
        reference::mxfp8_value(in_.x_quant[size_of(token * s.hidden + k)],
                               in_.x_scale[size_of((token * s.hidden + k) / kMxBlock)]));
  const Swiglu act{.limit = layer_.clamp[size_of(row.expert)]};
  row.h.resize(size_of(s.intermediate));
  const auto sum = [&](int64_t n) {
    Span span = product(
        x, decoded(layer_.w13, layer_.w13_scale, row.expert, 2 * s.padded(), n, s.hidden).data());
    if (layer_.values == Values::kExactSums) span.lo = span.hi = span.value;
    return span;
  };
  for (int64_t n = 0; n < 2 * s.padded(); ++n) {
    const reference::W13Place at = reference::w13_place(n);
    if (at.is_gate || at.column >= s.intermediate) continue;
    row.h[size_of(at.column)] = reference::swiglu(sum(n), sum(n + 8), act);
  }
}

void PreparedJudge::judge_h(const PreparedResult& result, Row& row) {
  const PreparedShape& s = layer_.shape;
  const uint8_t* codes = result.h_values.data() + row.row * s.padded();
  std::vector<uint8_t> scales;
  for (int64_t block = 0; block < s.padded() / kMxBlock; ++block)
    scales.push_back(
        result.h_scales[size_of(reference::h_scale_index(row.row, block, s.padded()))]);
  std::vector<double> found =
      reference::judge_h_mxfp8(row.h, codes, scales.data(), [&](const reference::JudgedElement& j) {
        if (!j.right) report("h", row.row, j.column, j.got, j.want);
      });
  for (int64_t c = s.intermediate; c < s.padded(); ++c) {
    EXPECT_EQ(codes[c], 0) << "h, row " << row.row << ", column " << c << ", behind I";
    if (c % kMxBlock != 0) continue;
    EXPECT_EQ(scales[size_of(c / kMxBlock)], 127) << "row " << row.row << ", column " << c;
  }
  // Behind I are zeros, unless a weight's scale there is NaN.
  found.resize(size_of(s.padded()));
  reference::Activation h;
  h.value = std::move(found);
  row.out.resize(size_of(s.hidden));
  for (int64_t n = 0; n < s.hidden; ++n) {
    const Span sum =
        product(h, decoded(layer_.w2, layer_.w2_scale, row.expert, s.hidden, n, s.padded()).data());
    row.out[size_of(reference::w2_channel(n))] = reference::closed(reference::bf16_round(sum));
  }
}

void PreparedJudge::judge_out(const PreparedResult& result, const Row& row) {
  const int64_t hidden = layer_.shape.hidden;
  for (int64_t n = 0; n < hidden; ++n) {
    const double got = formats::bf16_to_f32(result.rows[size_of(row.row * hidden + n)]);
    const Span& want = row.out[size_of(n)];
    if (!reference::is_inside(got, want)) report("rows", row.row, n, got, want);
    if (testing::Test::HasNonfatalFailure()) return;  // one is enough
  }
}

// Rows that hold no token, and in scales the bytes between theirs.
void PreparedJudge::judge_untouched(const PreparedResult& result) const {
  const PreparedShape& s = layer_.shape;
  std::vector<bool> is_owned(size_of(8 * in_.most_tiles));
  std::vector<bool> is_scale(result.h_scales.size());
  for (const Row& row : rows_) {
    is_owned[size_of(row.row)] = true;
    for (int64_t block = 0; block < s.padded() / kMxBlock; ++block)
      is_scale[size_of(reference::h_scale_index(row.row, block, s.padded()))] = true;
  }
  int64_t num_touched = 0;
  for (int64_t row = 0; row < 8 * in_.most_tiles; ++row) {
    if (is_owned[size_of(row)]) continue;
    for (int64_t c = 0; c < s.padded(); ++c)
      num_touched += result.h_values[size_of(row * s.padded() + c)] != 0xFF ? 1 : 0;
    for (int64_t c = 0; c < s.hidden; ++c)
      num_touched += result.rows[size_of(row * s.hidden + c)].bits != 0xFFFF ? 1 : 0;
  }
  for (size_t i = 0; i < is_scale.size(); ++i)
    num_touched += !is_scale[i] && result.h_scales[i] != 0xFF ? 1 : 0;
  EXPECT_EQ(num_touched, 0) << "written, and belongs to nobody";
}

void PreparedJudge::judge(const PreparedResult& result) {
  if (h_found_ != result.h_values || scales_found_ != result.h_scales) {
    for (Row& row : rows_) {
      judge_h(result, row);
      if (testing::Test::HasNonfatalFailure()) return;
    }
    h_found_ = result.h_values;
    scales_found_ = result.h_scales;
  }
  for (const Row& row : rows_) judge_out(result, row);
  judge_untouched(result);
}

}  // namespace octet::sim
