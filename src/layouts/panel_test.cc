// SPDX-License-Identifier: Apache-2.0
#include "layouts/panel.h"

#include <gtest/gtest.h>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

namespace octet::layouts {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};

// A stored tensor [rows, cols] with `row_gap` bytes of 0xFF behind the codes and the scales of each row: whatever a
// panel has of them was read past the tensor.
struct Stored {
  WeightFormat format;
  int64_t rows, cols, row_gap;
  std::vector<uint8_t> codes, scales;

  int64_t code_stride() const { return cols / 2 + row_gap; }
  int64_t scale_stride() const { return cols / scale_block(format) + row_gap; }

  Stored(WeightFormat f, int64_t num_rows, int64_t num_cols, int64_t gap, unsigned seed)
      : format(f), rows(num_rows), cols(num_cols), row_gap(gap) {
    std::mt19937 rng(seed);
    codes.assign(static_cast<size_t>(rows * code_stride()), 0xFF);
    scales.assign(static_cast<size_t>(rows * scale_stride()), 0xFF);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t b = 0; b < cols / 2; ++b)
        codes[static_cast<size_t>(r * code_stride() + b)] = static_cast<uint8_t>(rng());
      for (int64_t b = 0; b < cols / scale_block(format); ++b)
        scales[static_cast<size_t>(r * scale_stride() + b)] = static_cast<uint8_t>(rng() % 255 + 1);
    }
  }
  uint8_t code(int64_t row, int64_t col) const {
    const uint8_t pair = codes.at(static_cast<size_t>(row * code_stride() + col / 2));
    return static_cast<uint8_t>(col % 2 == 0 ? pair & 15 : pair >> 4);
  }
  uint8_t scale(int64_t row, int64_t col) const {
    return scales.at(static_cast<size_t>(row * scale_stride() + col / scale_block(format)));
  }
};

// Rows first_row, first_row + row_step, ... and columns first_col ... of a stored tensor.
struct Cut {
  int64_t first_row, row_step, rows, first_col, cols;
  friend std::ostream& operator<<(std::ostream& os, const Cut& c) {
    return os << "rows " << c.first_row << " + " << c.row_step << " i, " << c.rows << "; cols "
              << c.first_col << " + " << c.cols;
  }
};

WeightView view_of(const Stored& s, const Cut& c) {
  const WeightView whole{.format = s.format,
                         .codes = s.codes.data() + c.first_row * s.code_stride(),
                         .scales = s.scales.data() + c.first_row * s.scale_stride(),
                         .code_stride = c.row_step * s.code_stride(),
                         .scale_stride = c.row_step * s.scale_stride(),
                         .rows = c.rows,
                         .cols = s.cols};
  return whole.slice_cols(c.first_col, c.cols);
}

// One lane of a panel: row `row` of a cut, or nothing.
struct Lane {
  const Stored* stored = nullptr;
  Cut cut{};
  int64_t row = 0;
};

// The panel that 16 lanes make, byte for byte, through the index functions alone.
std::vector<uint8_t> expected_panel(WeightFormat format, int64_t num_blocks,
                                    const std::vector<Lane>& lanes) {
  std::vector<uint8_t> out(static_cast<size_t>(panel_bytes(format, num_blocks)), 0);
  const int64_t block = scale_block(format);
  for (int64_t lane = 0; lane < kPanelRows; ++lane) {
    const auto& [stored, cut, row] = lanes.at(static_cast<size_t>(lane));
    if (stored == nullptr) continue;
    const int64_t stored_row = cut.first_row + row * cut.row_step;
    const int64_t start = cut.first_col % block;
    for (int64_t k = 0; k < num_blocks * block; ++k) {
      const int64_t col = k - start;
      out.at(static_cast<size_t>(panel_scale_position(format, lane, k / block))) =
          stored->scale(stored_row, cut.first_col - start + k);
      if (col < 0 || col >= cut.cols) continue;
      const NibblePosition at = panel_code_position(format, num_blocks, lane, k);
      out.at(static_cast<size_t>(at.byte)) |=
          static_cast<uint8_t>(stored->code(stored_row, cut.first_col + col) << at.shift);
    }
  }
  return out;
}

std::vector<Lane> down_lanes(const Stored& s, const Cut& c, int64_t panel) {
  std::vector<Lane> lanes(kPanelRows);
  for (int64_t r = 0; r < kPanelRows && panel * kPanelRows + r < c.rows; ++r)
    lanes[static_cast<size_t>(r)] = {&s, c, panel * kPanelRows + r};
  return lanes;
}

void expect_down_panels(const Stored& s, const Cut& c) {
  SCOPED_TRACE(testing::Message() << name_of(s.format) << " " << c);
  ExpertWeights e;
  e.down = view_of(s, c);
  const int64_t blocks = e.down.num_blocks();
  for (int64_t p = 0; p * kPanelRows < c.rows; ++p) {
    std::vector<uint8_t> got(static_cast<size_t>(panel_bytes(s.format, blocks)), 0xFF);
    pack_down_panel(e, p, got.data());
    ASSERT_EQ(got, expected_panel(s.format, blocks, down_lanes(s, c, p))) << "panel " << p;
  }
}

// ---- index functions

TEST(Panel, StandsAsTheFigureSays) {
  // Block 5 is the second of the second group, which has 2 blocks of 6 in all; element 13 = line 1, byte 1, high nibble.
  EXPECT_EQ(panel_code_position(WeightFormat::kMxfp4, 6, 3, 5 * 32 + 13),
            (NibblePosition{1088 + 2 * 16 + 256 + 64 + 3 * 4 + 1, 4}));
  EXPECT_EQ(panel_scale_position(WeightFormat::kMxfp4, 3, 5), 1088 + 16 + 3);
  EXPECT_EQ(panel_code_position(WeightFormat::kNvfp4, 6, 15, 5 * 16 + 3),
            (NibblePosition{576 + 2 * 16 + 128 + 15 * 4 + 3, 0}));
}

TEST(Panel, IndexFunctionsAreABijectionOverThePayload) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t blocks : {1, 3, 4, 5, 18, 20}) {
      std::vector<int> nibbles(static_cast<size_t>(2 * panel_payload_bytes(format, blocks)), 0);
      for (int64_t lane = 0; lane < kPanelRows; ++lane) {
        for (int64_t b = 0; b < blocks; ++b) {
          const int64_t at = panel_scale_position(format, lane, b);
          nibbles.at(static_cast<size_t>(2 * at))++;
          nibbles.at(static_cast<size_t>(2 * at + 1))++;
          const PanelByte back = panel_byte(format, blocks, at);
          ASSERT_TRUE(back.is_scale && back.lane == lane && back.block == b);
        }
        for (int64_t k = 0; k < blocks * scale_block(format); ++k) {
          const NibblePosition at = panel_code_position(format, blocks, lane, k);
          nibbles.at(static_cast<size_t>(2 * at.byte + at.shift / 4))++;
          const PanelByte back = panel_byte(format, blocks, at.byte);
          ASSERT_TRUE(!back.is_scale && back.lane == lane && back.block == k / scale_block(format));
          ASSERT_EQ(back.k + at.shift, k);  // the high nibble is 4 elements on
        }
      }
      EXPECT_EQ(nibbles, std::vector<int>(nibbles.size(), 1)) << name_of(format) << " " << blocks;
    }
  }
}

// ---- packing

TEST(Panel, PacksWholeRows) {
  for (const WeightFormat format : kFormats) {
    const Stored s(format, 37, 576, 0, 1);
    expect_down_panels(s, {0, 1, 37, 0, 576});  // three panels, the last of 5 rows
    expect_down_panels(s, {0, 1, 16, 0, 96});
    expect_down_panels(s, {4, 1, 16, 64, 320});
  }
}

TEST(Panel, PacksEverySecondRow) {
  for (const WeightFormat format : kFormats) {
    const Stored s(format, 40, 160, 0, 2);
    expect_down_panels(s, {0, 2, 20, 0, 160});
    expect_down_panels(s, {1, 2, 20, 32, 96});
  }
}

TEST(Panel, PacksCutsInsideABlock) {
  for (const WeightFormat format : kFormats) {
    const Stored s(format, 17, 192, 0, 3);
    for (int64_t first = 0; first <= 70; ++first) {
      for (const int64_t width : {16, 17, 24, 33, 45, 64, 80})
        expect_down_panels(s, {0, 1, 17, first, width});
    }
    expect_down_panels(s, {0, 1, 17, 191, 1});
    expect_down_panels(s, {0, 1, 17, 176, 16});
  }
}

// Rows end at K = 96; the bytes behind codes and scales are 0xFF and must not be seen.
TEST(Panel, ReadsNothingPastTheTensor) {
  for (const WeightFormat format : kFormats) {
    const Stored s(format, 16, 96, 3, 4);
    expect_down_panels(s, {0, 1, 16, 0, 96});
    expect_down_panels(s, {0, 1, 16, 83, 13});
  }
}

TEST(Panel, PutsGateInLanes0To7AndUpInLanes8To15) {
  for (const WeightFormat format : kFormats) {
    const Stored s(format, 42, 128, 0, 5);  // gpt-oss: gate rows even, up rows odd
    const Cut gate{0, 2, 21, 0, 128}, up{1, 2, 21, 0, 128};
    ExpertWeights e;
    e.gate = view_of(s, gate);
    e.up = view_of(s, up);
    const int64_t blocks = e.gate.num_blocks();
    for (int64_t p = 0; p < 3; ++p) {
      std::vector<Lane> lanes(kPanelRows);
      for (int64_t r = 0; r < 8 && 8 * p + r < 21; ++r) {
        lanes[static_cast<size_t>(r)] = {&s, gate, 8 * p + r};
        lanes[static_cast<size_t>(8 + r)] = {&s, up, 8 * p + r};
      }
      std::vector<uint8_t> got(static_cast<size_t>(panel_bytes(format, blocks)), 0xFF);
      pack_gate_up_panel(e, p, got.data());
      EXPECT_EQ(got, expected_panel(format, blocks, lanes)) << name_of(format) << " panel " << p;
    }
  }
}

TEST(Panel, ExpertIsItsPanelsOneAfterAnother) {
  for (const WeightFormat format : kFormats) {
    const Stored w13(format, 80, 96, 0, 6), w2(format, 96, 96, 0, 7);
    ExpertWeights e;
    e.gate = view_of(w13, {0, 1, 40, 0, 96});
    e.up = view_of(w13, {40, 1, 40, 0, 96});
    e.down = view_of(w2, {0, 1, 96, 40, 40});  // begins and ends inside a block
    const PanelSizes sizes = panel_sizes(e);
    EXPECT_EQ(sizes.gate_up_panels, 5);
    EXPECT_EQ(sizes.down_panels, 6);
    EXPECT_EQ(sizes.down_start, 40 % scale_block(format));
    std::vector<uint8_t> got(static_cast<size_t>(sizes.expert_bytes()), 0xFF);
    pack_expert(e, got.data());
    std::vector<uint8_t> want;
    for (int64_t p = 0; p < sizes.gate_up_panels; ++p) {
      std::vector<uint8_t> panel(static_cast<size_t>(sizes.gate_up_panel_bytes()));
      pack_gate_up_panel(e, p, panel.data());
      want.insert(want.end(), panel.begin(), panel.end());
    }
    for (int64_t p = 0; p < sizes.down_panels; ++p) {
      std::vector<uint8_t> panel(static_cast<size_t>(sizes.down_panel_bytes()));
      pack_down_panel(e, p, panel.data());
      want.insert(want.end(), panel.begin(), panel.end());
    }
    EXPECT_EQ(got, want);
  }
}

// Out of its panels an expert has every code and scale again, also one that begins inside a scale block.
TEST(Panel, UnpackedIsWhatWasPacked) {
  for (const WeightFormat format : kFormats) {
    const int64_t start = scale_block(format) / 2;
    const Stored w13(format, 42, 96, 0, 1), w2(format, 96, 64, 0, 3);
    ExpertWeights e;
    e.gate = view_of(w13, {0, 2, 21, 0, 96});
    e.up = view_of(w13, {1, 2, 21, 0, 96});
    e.down = view_of(w2, {0, 1, 96, start, 21});
    std::vector<uint8_t> panels(static_cast<size_t>(panel_sizes(e).expert_bytes()));
    pack_expert(e, panels.data());
    const UnpackedExpert got = unpack_expert(panel_sizes(e), panels.data(), 96, 21);
    for (const auto& [have, want] :
         {std::pair{&got.gate, &e.gate}, {&got.up, &e.up}, {&got.down, &e.down}}) {
      ASSERT_EQ(have->view.rows, want->rows);
      ASSERT_EQ(have->view.cols, want->cols);
      for (int64_t r = 0; r < want->rows; ++r) {
        for (int64_t c = 0; c < want->cols; ++c) {
          ASSERT_EQ(have->view.code(r, c), want->code(r, c)) << r << ", " << c;
          ASSERT_EQ(have->view.scale(r, c), want->scale(r, c)) << r << ", " << c;
        }
      }
    }
  }
}

// ---- sizes

// 16 rows by whole blocks have the checkpoint's bytes; a panel adds what fills its last 64-byte line.
TEST(Panel, HasTheCheckpointsBytes) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t cols : {96, 576, 640, 2048, 5120}) {
      const int64_t blocks = cols / scale_block(format);
      const int64_t checkpoint = kPanelRows * (cols / 2 + cols / scale_block(format));
      EXPECT_EQ(panel_payload_bytes(format, blocks), checkpoint);
      EXPECT_LT(panel_bytes(format, blocks) - checkpoint, kPanelAlignment);
    }
  }
  // An expert of the V4.1 TP4 slice: design.md's 4,700,160 bytes.
  ExpertWeights e;
  e.gate = {.rows = 576, .cols = 5120};
  e.up = e.gate;
  e.down = {.rows = 5120, .cols = 576};
  const PanelSizes sizes = panel_sizes(e);
  const int64_t payload =
      sizes.gate_up_panels * panel_payload_bytes(WeightFormat::kMxfp4, sizes.gate_up_blocks) +
      sizes.down_panels * panel_payload_bytes(WeightFormat::kMxfp4, sizes.down_blocks);
  EXPECT_EQ(payload, 4700160);
  EXPECT_LE(sizes.expert_bytes(), payload + 63 * (sizes.gate_up_panels + sizes.down_panels));
}

}  // namespace
}  // namespace octet::layouts
