// SPDX-License-Identifier: Apache-2.0
#include "cpu/panel_dot.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "formats/bf16.h"
#include "layouts/panel.h"

namespace octet::cpu {
namespace {

using layouts::kPanelRows;

// One panel of 16 rows, its activations, and where they came from.
struct Case {
  WeightFormat format;
  int64_t blocks;
  std::vector<uint8_t> codes, scales, panel;
  std::vector<std::vector<float>> x;
  layouts::ExpertWeights expert;

  Case(WeightFormat f, int64_t num_blocks, unsigned seed) : format(f), blocks(num_blocks) {
    std::mt19937 rng(seed);
    const bool mx = f == WeightFormat::kMxfp4;
    codes.resize(static_cast<size_t>(kPanelRows * width() / 2));
    scales.resize(static_cast<size_t>(kPanelRows * blocks));
    for (auto& c : codes) c = static_cast<uint8_t>(rng());
    for (auto& s : scales) s = static_cast<uint8_t>(mx ? 118 + rng() % 8 : 0x28 + rng() % 32);
    std::normal_distribution<float> normal;
    x.resize(kMostFloatRows);
    for (auto& row : x) {
      for (int64_t k = 0; k < width(); ++k)
        row.push_back(formats::bf16_to_f32(formats::bf16_from_f32(normal(rng))));
    }
  }
  int64_t width() const { return blocks * scale_block(format); }
  uint8_t& scale(int64_t row, int64_t block) {
    return scales[static_cast<size_t>(row * blocks + block)];
  }
  void set_code(int64_t row, int64_t k, int code) {
    uint8_t& pair = codes[static_cast<size_t>(row * (width() / 2) + k / 2)];
    pair = static_cast<uint8_t>(k % 2 == 0 ? (pair & 0xF0) | code : (pair & 15) | code << 4);
  }
  // Bytes behind the panel's last one are 0xFF: a code or scale read from there is NaN or 6 times something.
  void pack() {
    expert.down = {.format = format,
                   .codes = codes.data(),
                   .scales = scales.data(),
                   .code_stride = width() / 2,
                   .scale_stride = blocks,
                   .rows = kPanelRows,
                   .cols = width()};
    panel.assign(static_cast<size_t>(layouts::panel_bytes(format, blocks)), 0);
    layouts::pack_down_panel(expert, 0, panel.data());
    panel.resize(panel.size() + 64, 0xFF);
    std::fill(panel.begin() + layouts::panel_payload_bytes(format, blocks), panel.end(), 0xFF);
  }
  std::vector<float> run(const PanelDot& dot, int first, int rows) {
    const float* pointers[kMostFloatRows] = {};
    for (int r = 0; r < rows; ++r) pointers[r] = x[static_cast<size_t>(first + r)].data();
    std::vector<float> out(kMostFloatRows * kPanelRows, std::nanf(""));
    dot.of(format, 2).floats.dot(panel.data(), blocks, pointers, rows, out.data());
    out.resize(static_cast<size_t>(rows * kPanelRows));
    return out;
  }
  // NaN where the exact sum is, infinite where it is, within (K + 1) 2^-24 sum |w x| elsewhere.
  void expect_right(const std::vector<float>& got, int first) const {
    for (size_t i = 0; i < got.size(); ++i) {
      const auto& row = x[static_cast<size_t>(first) + i / kPanelRows];
      const auto lane = static_cast<int64_t>(i % kPanelRows);
      double sum = 0, mass = 0;
      for (int64_t k = 0; k < width(); ++k) {
        const double p = static_cast<double>(expert.down.value(lane, k)) *
                         static_cast<double>(row[static_cast<size_t>(k)]);
        sum += p;
        mass += std::fabs(p);
      }
      const auto v = static_cast<double>(got[i]);
      if (std::isfinite(sum)) {
        EXPECT_NEAR(v, sum, static_cast<double>(width() + 1) * 0x1p-24 * mass)
            << name_of(format) << " blocks " << blocks << " lane " << lane << " row " << first;
      } else {
        EXPECT_EQ(std::isnan(v), std::isnan(sum))
            << "lane " << lane << ": " << v << ", want " << sum;
        if (std::isinf(sum)) {
          EXPECT_EQ(v, sum) << "lane " << lane;
        }
      }
    }
  }
};

// Each instruction set that this machine has.
std::vector<const PanelDot*> kernels() {
  std::vector<const PanelDot*> all = {&kPanelDotPortable};
  if (has_avx2()) all.push_back(&kPanelDotAvx2);
  return all;
}

constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};

TEST(PanelDot, IsWithinTheBoundForEveryNumberOfBlocksAndRows) {
  for (const PanelDot* dot : kernels()) {
    for (const WeightFormat format : kFormats) {
      for (const int64_t blocks : {1, 2, 3, 4, 5, 6, 7, 8, 18, 160}) {
        Case c(format, blocks, static_cast<unsigned>(blocks));
        c.pack();
        for (int rows = 1; rows <= kMostFloatRows; ++rows) c.expect_right(c.run(*dot, 0, rows), 0);
      }
    }
  }
}

TEST(PanelDot, GivesARowTheSameBytesAloneAndAmongOthers) {
  for (const PanelDot* dot : kernels()) {
    for (const WeightFormat format : kFormats) {
      Case c(format, 18, 7);
      c.pack();
      for (int row = 0; row < kMostFloatRows; ++row) {
        const auto alone = c.run(*dot, row, 1);
        for (int first = 0; first <= row; ++first) {
          for (int rows = row - first + 1; first + rows <= kMostFloatRows; ++rows) {
            const auto all = c.run(*dot, first, rows);
            EXPECT_EQ(std::memcmp(alone.data(), all.data() + (row - first) * kPanelRows,
                                  sizeof(float) * kPanelRows),
                      0)
                << "row " << row << " of " << first << " + " << rows;
          }
        }
      }
    }
  }
}

TEST(PanelDot, DecodesEveryCodeUnderEveryScale) {
  for (const PanelDot* dot : kernels()) {
    for (const WeightFormat format : kFormats) {
      const int64_t block = scale_block(format);
      for (int first = 0; first < 256; first += kPanelRows) {  // a scale a lane
        Case c(format, 1, 3);
        for (int64_t lane = 0; lane < kPanelRows; ++lane) {
          c.scale(lane, 0) = static_cast<uint8_t>(first + lane);
          for (int64_t k = 0; k < block; ++k) c.set_code(lane, k, static_cast<int>(k % 16));
        }
        c.pack();
        for (int64_t k = 0; k < 16; ++k) {  // one code at a time; an infinite one times 0 is NaN
          for (auto& v : c.x[0]) v = 0.0F;
          c.x[0][static_cast<size_t>(k)] = 1.0F;
          c.expect_right(c.run(*dot, 0, 1), 0);
        }
      }
    }
  }
}

TEST(PanelDot, OverflowsWeightsOneByOne) {
  for (const PanelDot* dot : kernels()) {
    Case c(WeightFormat::kMxfp4, 1, 3);
    for (auto& code : c.codes) code = 0;
    for (auto& v : c.x[0]) v = 0x1p-40F;
    c.scale(0, 0) = 253, c.set_code(0, 5, 6);   // 4 * 2^126: infinite
    c.scale(1, 0) = 253, c.set_code(1, 5, 13);  // -3 * 2^126
    c.scale(2, 0) = 254, c.set_code(2, 5, 3);   // 1.5 * 2^127
    c.scale(3, 0) = 254, c.set_code(3, 5, 12);  // -2 * 2^127: -infinite
    c.scale(4, 0) = 255;                        // NaN, all codes zero
    c.scale(5, 0) = 0, c.set_code(5, 5, 1);     // 0.5 * 2^-127
    c.pack();
    const auto got = c.run(*dot, 0, 1);
    EXPECT_EQ(got[0], std::numeric_limits<float>::infinity());
    EXPECT_EQ(got[1], -0x1.8p87F);
    EXPECT_EQ(got[2], 0x1.8p87F);
    EXPECT_EQ(got[3], -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(got[4]));
    c.x[0][5] = 0.0F;  // infinity times 0
    EXPECT_TRUE(std::isnan(c.run(*dot, 0, 1)[0]));
    c.x[0][5] = 1.0F;
    EXPECT_EQ(c.run(*dot, 0, 1)[5], 0x1p-128F);
  }
}

TEST(PanelDot, TakesOddE4m3Scales) {
  for (const PanelDot* dot : kernels()) {
    Case c(WeightFormat::kNvfp4, 2, 3);
    for (auto& code : c.codes) code = 0;
    for (auto& s : c.scales) s = 0x38;
    const int odd[] = {0x00, 0x7F, 0x80, 0xB8, 0xFF, 0x01, 0x81, 0x7E};
    for (int64_t lane = 0; lane < 8; ++lane) {
      c.scale(lane, 1) = static_cast<uint8_t>(odd[lane]);
      c.set_code(lane, 20, 7);
    }
    c.pack();
    c.x[0][20] = 1.0F;
    const auto got = c.run(*dot, 0, 1);
    const float want[] = {0.0F, NAN, 0.0F, -6.0F, NAN, 6 * 0x1p-9F, -6 * 0x1p-9F, 2688.0F};
    for (size_t lane = 0; lane < 8; ++lane) {
      if (std::isnan(want[lane])) {
        EXPECT_TRUE(std::isnan(got[lane])) << lane;
      } else {
        EXPECT_EQ(got[lane], want[lane]) << lane;
      }
    }
  }
}

TEST(PanelDot, HoldsActivationsOfAnySize) {
  for (const PanelDot* dot : kernels()) {
    for (const float size : {1e-6F, 1e7F}) {
      Case c(WeightFormat::kMxfp4, 4, 5);
      for (auto& v : c.x[1]) v = formats::bf16_to_f32(formats::bf16_from_f32(v * size));
      c.pack();
      c.expect_right(c.run(*dot, 0, 3), 0);
    }
  }
}

// The least held number beside the largest one: `exact` keeps both (quantize.h, Hold::kExact).
TEST(PanelDot, ExactKeepsTheSmallestActivationsUnderLargeScales) {
  for (const PanelDot* dot : kernels()) {
    for (const WeightFormat format : kFormats) {
      const bool mx = format == WeightFormat::kMxfp4;
      Case c(format, 5, 6);
      for (auto& s : c.scales) s = static_cast<uint8_t>(mx ? 246 : 0x7E);
      for (int64_t r = 0; r < kPanelRows; ++r) {
        for (int64_t k = 0; k < c.width(); ++k) c.set_code(r, k, k == 0 ? 0 : mx ? 1 : 5);
      }
      std::fill(c.x[0].begin(), c.x[0].end(), 0x1p-144F);
      c.x[0][0] = 0x1.Cp127F;
      c.pack();
      const float* x = c.x[0].data();
      std::vector<float> got(kPanelRows, std::nanf(""));
      dot->of(format, 2).floats.exact(c.panel.data(), 5, &x, 1, got.data());
      const double weight = mx ? 0x1p118 : 3.0 * 448.0;
      for (const float v : got) {
        EXPECT_EQ(static_cast<double>(v), 0x1p-144 * weight * static_cast<double>(c.width() - 1));
      }
    }
  }
}

TEST(PanelDot, KeepsTheLargestActivationsFiniteUnderSmallScales) {
  for (const PanelDot* dot : kernels()) {
    for (const WeightFormat format : kFormats) {
      Case c(format, 3, 5);
      for (auto& code : c.codes) code = 0x77;  // 6
      for (auto& s : c.scales) s = static_cast<uint8_t>(format == WeightFormat::kMxfp4 ? 90 : 0x01);
      for (auto& v : c.x[0]) v = 0x1.FEp127F;
      c.pack();
      const auto got = c.run(*dot, 0, 1);
      EXPECT_TRUE(std::isfinite(got[0]));
      c.expect_right(got, 0);
    }
  }
}

}  // namespace
}  // namespace octet::cpu
