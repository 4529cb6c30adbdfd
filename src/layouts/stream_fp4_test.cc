// SPDX-License-Identifier: Apache-2.0
#include "layouts/stream_fp4.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <vector>

namespace octet::layouts {
namespace {

constexpr StreamOrder kOrders[] = {StreamOrder::kBf16, StreamOrder::kE4m3};
constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};

// Random codes and scales of a stored matrix.
struct Stored {
  int64_t rows, stored_cols;
  WeightFormat format;
  std::vector<uint8_t> codes, scales;
  Stored(WeightFormat f, int64_t num_rows, int64_t cols, unsigned seed)
      : rows(num_rows), stored_cols(round_up(cols, scale_block(f))), format(f) {
    std::mt19937 rng(seed);
    codes.resize(static_cast<size_t>(rows * stored_cols / 2));
    scales.resize(static_cast<size_t>(rows * stored_cols / scale_block(f)));
    for (uint8_t& c : codes) c = static_cast<uint8_t>(rng());
    for (uint8_t& s : scales) s = static_cast<uint8_t>(rng());
  }
  WeightView view(int64_t first_col, int64_t cols) const {
    const WeightView whole{.format = format,
                           .codes = codes.data(),
                           .scales = scales.data(),
                           .code_stride = stored_cols / 2,
                           .scale_stride = stored_cols / scale_block(format),
                           .rows = rows,
                           .cols = stored_cols};
    return whole.slice_cols(first_col, cols);
  }
};

struct Problem {
  int64_t hidden, intermediate, first_col;  // of down
};
constexpr Problem kProblems[] = {{32, 16, 0},   {64, 32, 0},  {96, 33, 0},  {160, 80, 16},
                                 {704, 72, 24}, {736, 65, 8}, {1376, 8, 31}};

uint32_t word_at(const std::vector<uint8_t>& bytes, int64_t at) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// Code and scale of (strip, row, k) through record_offset() and the words' functions alone.
uint8_t code_of(const StreamMatrix& m, StreamOrder order, const std::vector<uint8_t>& bytes,
                int64_t strip, int64_t row, int64_t k) {
  const int64_t in_block = k % 32, lane = row % 8 * 4 + in_block % 16 / 4;
  const int64_t at = m.record_offset(strip, k / kStreamPairElems) + lane * 16 +
                     (k % kStreamPairElems / 32 * 2 + row / 8) * 4;
  const int64_t index = in_block / 16 * 4 + k % 4;
  return static_cast<uint8_t>(stream_code_nibbles(order, word_at(bytes, at)) >> (4 * index) & 15U);
}
uint8_t scale_of(const StreamMatrix& m, const std::vector<uint8_t>& bytes, int64_t strip,
                 int64_t row, int64_t k) {
  const int64_t base = m.record_offset(strip, k / kStreamPairElems) + kStreamCodeBytes;
  const int64_t in_pair = k % kStreamPairElems;
  if (m.format == WeightFormat::kMxfp4) {
    const uint32_t s = stream_mx_scales(word_at(bytes, base + row % 8 * 4));
    return static_cast<uint8_t>(s >> (8 * (in_pair / 32 * 2 + row / 8)));
  }
  const uint32_t s = stream_nv_scales(word_at(bytes, base + row % 8 * 8 + row / 8 * 4));
  return static_cast<uint8_t>(s >> (8 * (in_pair / 16)));
}

struct StripRow {
  const WeightView* view;
  int64_t row;
};

// Every code and scale of the view that the rows belong to, and zeros around them.
template <class RowOf>
void expect_matrix(const StreamMatrix& m, StreamOrder order, const std::vector<uint8_t>& bytes,
                   const RowOf& row_of) {
  for (int64_t strip = 0; strip < m.strips; ++strip) {
    for (int64_t row = 0; row < kStreamStripRows; ++row) {
      const StripRow r = row_of(strip, row);
      const int64_t start = r.view->start_in_block();
      for (int64_t k = 0; k < m.pairs * kStreamPairElems; ++k) {
        const bool has_row = r.row < r.view->rows;
        const bool has_code = has_row && k >= start && k - start < r.view->cols;
        const bool has_scale = has_row && k / r.view->block() < r.view->num_blocks();
        const uint8_t code = has_code ? r.view->code(r.row, k - start) : 0;
        ASSERT_EQ(code_of(m, order, bytes, strip, row, k), code) << strip << " " << row << " " << k;
        const int64_t block = (r.view->first_col - start + k) / r.view->block();
        const uint8_t scale = has_scale ? r.view->scales[r.row * r.view->scale_stride + block] : 0;
        ASSERT_EQ(scale_of(m, bytes, strip, row, k), scale) << strip << " " << row << " " << k;
      }
    }
  }
}

void expect_round_trip(WeightFormat format, const Problem& p, StreamOrder order) {
  SCOPED_TRACE(testing::Message() << name_of(format) << " H " << p.hidden << " I " << p.intermediate
                                  << " from " << p.first_col);
  const Stored gate(format, p.intermediate, p.hidden, 1), up(format, p.intermediate, p.hidden, 2);
  const Stored down(format, p.hidden, p.first_col + p.intermediate, 3);
  ExpertWeights e;
  e.gate = gate.view(0, p.hidden);
  e.up = up.view(0, p.hidden);
  e.down = down.view(p.first_col, p.intermediate);
  const StreamSizes sizes = stream_sizes(e);
  std::vector<uint8_t> bytes(static_cast<size_t>(sizes.expert_bytes()), 0xFF);
  std::vector<uint8_t> over_zeros(bytes.size(), 0);
  pack_stream_expert(e, order, bytes.data());
  pack_stream_expert(e, order, over_zeros.data());
  EXPECT_EQ(bytes, over_zeros) << "a byte is not written";
  expect_matrix(sizes.w13, order, bytes, [&](int64_t strip, int64_t row) {
    return StripRow{row < 8 ? &e.gate : &e.up, 8 * strip + row % 8};
  });
  bytes.erase(bytes.begin(), bytes.begin() + sizes.w2_offset());
  expect_matrix(sizes.w2, order, bytes, [&](int64_t strip, int64_t row) {
    return StripRow{&e.down, 16 * strip + stream_down_row(row)};
  });
}

TEST(StreamFp4, NothingOfTheCheckpointIsLost) {
  for (const WeightFormat format : kFormats) {
    for (const Problem& p : kProblems) {
      for (const StreamOrder order : kOrders) expect_round_trip(format, p, order);
    }
  }
}

TEST(StreamFp4, WordsHoldEachBitOnce) {
  for (const StreamOrder order : kOrders) {
    for (uint32_t bit = 0; bit < 32; ++bit)
      EXPECT_EQ(stream_code_nibbles(order, stream_code_word(order, 1U << bit)), 1U << bit);
    EXPECT_EQ(stream_code_word(order, ~0U), ~0U);
  }
  for (uint32_t bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(stream_mx_scales(stream_mx_scale_word(1U << bit)), 1U << bit);
    EXPECT_EQ(stream_nv_scales(stream_nv_scale_word(1U << bit)), 1U << bit);
  }
  EXPECT_EQ(stream_nv_scale_word(~0U), ~0U);
}

// What the kernels' masks make of a word: e4m3 times 2^-6, bf16 times 2^-126.
TEST(StreamFp4, WordsDecodeByTheKernelsMasks) {
  for (uint32_t code = 0; code < 16; ++code) {
    const uint32_t sign = code >> 3, mag = code & 7;
    const uint32_t e4m3 = sign << 7 | mag << 2;
    const uint32_t bf16 = sign << 15 | mag << 6;
    for (int i = 0; i < 8; ++i) {
      const uint32_t q = stream_code_word(StreamOrder::kE4m3, code << (4 * i));
      const uint32_t low = q & 0x9C9C9C9CU, high = (q << 2 & 0x8C8C8C8CU) | (q >> 2 & 0x10101010U);
      EXPECT_EQ((uint64_t{high} << 32 | low), uint64_t{e4m3} << (8 * i));
      const uint32_t w = stream_code_word(StreamOrder::kBf16, code << (4 * i));
      constexpr uint32_t kMask = 0x81C081C0U;
      const uint32_t pairs[4] = {w & kMask, w << 4 & kMask, std::rotl(w, 10) & kMask,
                                 (w << 6 & 0x80C080C0U) | (w >> 2 & 0x01000100U)};
      for (int j = 0; j < 4; ++j) EXPECT_EQ(pairs[j], i / 2 == j ? bf16 << (i % 2 * 16) : 0U);
    }
  }
  const uint32_t nv = stream_nv_scale_word(0x7D3B2A19U);
  EXPECT_EQ(nv & 0x07F007F0U, 0x2AU << 20 | 0x19U << 4);
  EXPECT_EQ(std::rotr(nv, 7) & 0x07F007F0U, 0x7DU << 20 | 0x3BU << 4);
}

TEST(StreamFp4, WordIsTheInverseOfRecordOffset) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t pairs : {1, 9, 10, 13, 23}) {
      for (const int64_t strips : {1, 4, 6}) {
        const StreamMatrix m{format, strips, pairs, stream_stage_pairs(pairs)};
        int64_t words = 0;
        for (int64_t at = 0; at < m.payload_bytes(); at += 4, ++words) {
          const StreamWord w = stream_word(m, at);
          const int64_t record = m.record_offset(w.strip, w.k / kStreamPairElems);
          ASSERT_LE(record, at);
          ASSERT_LT(at - record, m.record_bytes());
          ASSERT_EQ(w.is_scale, at - record >= kStreamCodeBytes);
          if (w.is_scale) continue;
          const int64_t k = w.k % 64;
          ASSERT_EQ((w.row % 8 * 4 + k % 32 / 4) * 16 + (k / 32 * 2 + w.row / 8) * 4, at - record);
        }
        EXPECT_EQ(words * 4, strips * pairs * m.record_bytes());
      }
    }
  }
  std::set<int64_t> outputs;
  for (int64_t r = 0; r < 16; ++r) {
    outputs.insert(stream_down_row(r));
    EXPECT_EQ(stream_down_row_inverse(stream_down_row(r)), r);
  }
  EXPECT_EQ(outputs.size(), 16U);
}

// An expert of the V4.1 TP4 slice: the checkpoint's own bytes, stages of whole 128 bytes.
TEST(StreamFp4, NoPaddingInTheCommonShapes) {
  ExpertWeights e;
  e.gate = {.rows = 576, .cols = 5120};
  e.up = e.gate;
  e.down = {.rows = 5120, .cols = 576};
  const StreamSizes s = stream_sizes(e);
  EXPECT_EQ(s.expert_bytes(), 4700160);
  EXPECT_EQ(s.w13.stage_bytes(0, 0), 21760);
  EXPECT_EQ(s.w2.stage_bytes(79, 0), 19584);
  EXPECT_EQ(s.w13.stage_offset(1, 1) % 128, 0);
  EXPECT_EQ(stream_stage_pairs(112), 8);
  EXPECT_EQ(stream_stage_pairs(11), 6);
}

TEST(StreamFp4, WhatScalesAskForIsFound) {
  const auto most = [](WeightFormat format, uint8_t scale, uint8_t code) {
    Stored gate(format, 8, 64, 1), down(format, 64, 8, 2);
    for (Stored* s : {&gate, &down}) {
      std::fill(s->codes.begin(), s->codes.end(), uint8_t{0x11});
      std::fill(s->scales.begin(), s->scales.end(), uint8_t{100});
    }
    gate.scales.back() = scale;
    std::fill(gate.codes.end() - scale_block(format) / 2, gate.codes.end(), code);
    ExpertWeights e;
    e.gate = e.up = gate.view(0, 64);
    e.down = down.view(0, 8);
    std::vector<uint8_t> out(static_cast<size_t>(stream_sizes(e).expert_bytes()));
    return pack_stream_expert(e, StreamOrder::kBf16, out.data());
  };
  for (const uint8_t code : {uint8_t{0}, uint8_t{0x80}}) {
    EXPECT_EQ(most(WeightFormat::kMxfp4, 0, code), StreamScale::kFast);
    EXPECT_EQ(most(WeightFormat::kMxfp4, 255, code), StreamScale::kWide);
    EXPECT_EQ(most(WeightFormat::kNvfp4, 0x7F, code), StreamScale::kWide);
  }
  EXPECT_EQ(most(WeightFormat::kMxfp4, 0, 1), StreamScale::kWide);
  EXPECT_EQ(most(WeightFormat::kMxfp4, 132, 1), StreamScale::kFast);
  EXPECT_EQ(most(WeightFormat::kMxfp4, 133, 1), StreamScale::kWide);
  EXPECT_EQ(most(WeightFormat::kMxfp4, 252, 1), StreamScale::kWide);
  for (const uint8_t scale : {uint8_t{253}, uint8_t{254}})
    EXPECT_EQ(most(WeightFormat::kMxfp4, scale, 1), StreamScale::kInfinite);
  EXPECT_EQ(most(WeightFormat::kNvfp4, 0x80, 1), StreamScale::kWide);
  EXPECT_EQ(most(WeightFormat::kNvfp4, 0x7E, 1), StreamScale::kFast);
  EXPECT_EQ(most(WeightFormat::kNvfp4, 0, 1), StreamScale::kFast);
}

}  // namespace
}  // namespace octet::layouts
