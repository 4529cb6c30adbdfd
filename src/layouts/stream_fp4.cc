// SPDX-License-Identifier: Apache-2.0
#include "layouts/stream_fp4.h"

#include <algorithm>
#include <cstring>

namespace octet::layouts {
namespace {

// Which row of which view a row of a strip is; `row` is -1 beyond the view's last.
struct StripRow {
  const WeightView* view;
  int64_t row;
};

// 4 codes of a row from element k on (counted from the first block's first element), element j in bits 4 j; zero outside the
// view's columns.
uint32_t four_codes(const StripRow& r, int64_t k) {
  if (r.row < 0) return 0;
  const WeightView& w = *r.view;
  const int64_t first = k - w.start_in_block();
  if ((w.first_col + first) % 2 == 0 && first >= 0 && first + 4 <= w.cols) {
    uint16_t v = 0;
    std::memcpy(&v, w.codes + r.row * w.code_stride + (w.first_col + first) / 2, sizeof v);
    return v;
  }
  uint32_t v = 0;
  for (int64_t j = 0; j < 4; ++j) {
    const int64_t col = first + j;
    if (col >= 0 && col < w.cols) v |= static_cast<uint32_t>(w.code(r.row, col)) << (4 * j);
  }
  return v;
}

uint8_t block_scale(const StripRow& r, int64_t block) {
  if (r.row < 0 || block >= r.view->num_blocks()) return 0;
  const WeightView& w = *r.view;
  return w.scales[r.row * w.scale_stride + w.first_col / w.block() + block];
}

bool is_zero_block(const StripRow& r, int64_t block) {
  for (int64_t k = block * r.view->block(); k < (block + 1) * r.view->block(); k += 4) {
    if ((four_codes(r, k) & 0x7777U) != 0) return false;
  }
  return true;
}

// The scales of blocks `first` ... + count - 1 of a row, in bytes from the low one; `most` learns of them.
uint32_t row_scales(const StripRow& r, int64_t first, int64_t count, StreamScale& most) {
  uint32_t scales = 0;
  for (int64_t c = 0; c < count; ++c) {
    const uint8_t s = block_scale(r, first + c);
    scales |= static_cast<uint32_t>(s) << (8 * c);
    const WeightFormat format = r.view->format;
    most = std::max(most, stream_scale(format, s, s != 0 || is_zero_block(r, first + c)));
  }
  return scales;
}

// stream_code_word() of two codes at a time: 256 words for each byte of the eight codes.
using WordTable = std::array<std::array<uint32_t, 256>, 4>;
WordTable word_table(StreamOrder order) {
  WordTable table{};
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t b = 0; b < 256; ++b) table[i][b] = stream_code_word(order, b << (8 * i));
  }
  return table;
}
uint32_t code_word(StreamOrder order, uint32_t nibbles) {
  static const std::array<WordTable, 2> kTables = {word_table(StreamOrder::kBf16),
                                                   word_table(StreamOrder::kE4m3)};
  const WordTable& t = kTables[static_cast<size_t>(order)];
  return t[0][nibbles & 0xFFU] | t[1][nibbles >> 8 & 0xFFU] | t[2][nibbles >> 16 & 0xFFU] |
         t[3][nibbles >> 24];
}

void put(uint8_t* out, uint32_t word) { std::memcpy(out, &word, sizeof word); }

StreamScale pack_record(const std::array<StripRow, kStreamStripRows>& rows, StreamOrder order,
                        int64_t pair, uint8_t* out) {
  auto most = StreamScale::kFast;
  for (size_t g = 0; g < 8; ++g) {
    for (int64_t t = 0; t < 4; ++t) {
      for (size_t w = 0; w < 4; ++w) {
        const int64_t k = pair * kStreamPairElems + static_cast<int64_t>(w / 2) * 32 + 4 * t;
        const StripRow& r = rows[g + w % 2 * 8];
        put(out + (4 * static_cast<int64_t>(g) + t) * 16 + static_cast<int64_t>(w) * 4,
            code_word(order, four_codes(r, k) | four_codes(r, k + 16) << 16));
      }
    }
    uint8_t* scales = out + kStreamCodeBytes;
    if (rows[g].view->format == WeightFormat::kMxfp4) {
      const uint32_t low = row_scales(rows[g], 2 * pair, 2, most);
      const uint32_t high = row_scales(rows[g + 8], 2 * pair, 2, most);
      put(scales + 4 * g, stream_mx_scale_word((low & 0xFFU) | (high & 0xFFU) << 8 |
                                               (low & 0xFF00U) << 8 | (high & 0xFF00U) << 16));
    } else {
      for (size_t half = 0; half < 2; ++half) {
        put(scales + 8 * g + 4 * half,
            stream_nv_scale_word(row_scales(rows[g + 8 * half], 4 * pair, 4, most)));
      }
    }
  }
  return most;
}

StreamScale pack_strip(const StreamMatrix& m, const std::array<StripRow, kStreamStripRows>& rows,
                       StreamOrder order, int64_t strip, uint8_t* matrix) {
  auto most = StreamScale::kFast;
  for (int64_t pair = 0; pair < m.pairs; ++pair)
    most = std::max(most, pack_record(rows, order, pair, matrix + m.record_offset(strip, pair)));
  if (strip == m.strips - 1) {
    std::memset(matrix + m.payload_bytes(), 0, static_cast<size_t>(m.bytes() - m.payload_bytes()));
  }
  return most;
}

StreamMatrix matrix_of(const WeightView& w, int64_t strips) {
  const int64_t pairs = ceil_div(w.start_in_block() + w.cols, kStreamPairElems);
  return {w.format, strips, pairs, stream_stage_pairs(pairs)};
}

}  // namespace

StreamWord stream_word(const StreamMatrix& m, int64_t offset) {
  if (offset >= m.payload_bytes()) return {.is_padding = true};
  const int64_t record = offset / m.record_bytes();
  const int64_t group = record / (kStreamGroupStrips * m.pairs);
  const int64_t in_group = record % (kStreamGroupStrips * m.pairs);
  const int64_t strips = m.strips_in_group(group);
  const int64_t stage = in_group / (strips * m.stage_pairs);
  const int64_t in_stage = in_group - strips * stage * m.stage_pairs;
  const int64_t stage_pairs = m.pairs_in_stage(stage);
  const int64_t pair = stage * m.stage_pairs + in_stage % stage_pairs;
  StreamWord word{.strip = group * kStreamGroupStrips + in_stage / stage_pairs,
                  .k = pair * kStreamPairElems};
  const int64_t at = offset % m.record_bytes();
  if (at >= kStreamCodeBytes) {
    word.is_scale = true;
    const int64_t index = (at - kStreamCodeBytes) / 4;
    word.row = m.format == WeightFormat::kMxfp4 ? index : index / 2 + index % 2 * 8;
    return word;
  }
  const int64_t lane = at / 16, w = at % 16 / 4;
  word.row = lane / 4 + w % 2 * 8;
  word.k += w / 2 * 32 + lane % 4 * 4;
  return word;
}

StreamSizes stream_sizes(const ExpertWeights& e) {
  return {.w13 = matrix_of(e.gate, ceil_div(e.gate.rows, kStreamStripRows / 2)),
          .w2 = matrix_of(e.down, ceil_div(e.down.rows, kStreamStripRows)),
          .down_start = e.down.start_in_block()};
}

StreamScale pack_gate_up_strip(const ExpertWeights& e, StreamOrder order, int64_t strip,
                               uint8_t* matrix) {
  std::array<StripRow, kStreamStripRows> rows{};
  for (int64_t r = 0; r < kStreamStripRows; ++r) {
    const WeightView& view = r < 8 ? e.gate : e.up;
    const int64_t row = 8 * strip + r % 8;
    rows[static_cast<size_t>(r)] = {&view, row < view.rows ? row : -1};
  }
  return pack_strip(stream_sizes(e).w13, rows, order, strip, matrix);
}

StreamScale pack_down_strip(const ExpertWeights& e, StreamOrder order, int64_t strip,
                            uint8_t* matrix) {
  std::array<StripRow, kStreamStripRows> rows{};
  for (int64_t r = 0; r < kStreamStripRows; ++r) {
    const int64_t row = kStreamStripRows * strip + stream_down_row(r);
    rows[static_cast<size_t>(r)] = {&e.down, row < e.down.rows ? row : -1};
  }
  return pack_strip(stream_sizes(e).w2, rows, order, strip, matrix);
}

StreamScale pack_stream_expert(const ExpertWeights& e, StreamOrder order, uint8_t* out) {
  const StreamSizes sizes = stream_sizes(e);
  auto most = StreamScale::kFast;
  for (int64_t s = 0; s < sizes.w13.strips; ++s)
    most = std::max(most, pack_gate_up_strip(e, order, s, out));
  for (int64_t s = 0; s < sizes.w2.strips; ++s)
    most = std::max(most, pack_down_strip(e, order, s, out + sizes.w2_offset()));
  return most;
}

}  // namespace octet::layouts
