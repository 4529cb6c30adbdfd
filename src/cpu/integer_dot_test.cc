// SPDX-License-Identifier: Apache-2.0
// The kernels on integers against plain code that follows digit_dot.h's tree: bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/digits.h"
#include "cpu/panel_dot.h"
#include "cpu/words.h"
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/ue8m0.h"
#include "layouts/panel.h"

namespace octet::cpu {
namespace {

using layouts::kPanelRows;

constexpr WeightFormat kFormats[] = {WeightFormat::kMxfp4, WeightFormat::kNvfp4};
constexpr int kNumRows = kMostCallRows;

// A row's blocks as integers times 2 * half_unit (digits.h; digits_test.cc).
struct Row {
  std::vector<int32_t> integers;
  std::vector<float> half_units;  // times digit_gain
};

// One panel in its own order, and rows.
struct Case {
  WeightFormat format;
  int planes;
  int64_t blocks;
  std::vector<uint8_t> panel;
  std::vector<std::vector<float>> x;
  std::vector<Row> rows;
  std::mt19937 rng;

  Case(WeightFormat f, int num_planes, int64_t num_blocks)
      : format(f), planes(num_planes), blocks(num_blocks), rng(static_cast<unsigned>(num_blocks)) {
    panel.resize(static_cast<size_t>(layouts::panel_bytes(format, blocks)));
    for (uint8_t& byte : panel) byte = static_cast<uint8_t>(rng());
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t lane = 0; lane < kPanelRows; ++lane)
        scale(lane, b) = static_cast<uint8_t>(is_mx() ? 110 + rng() % 20 : rng() % 0x7F);
    }
    for (int r = 0; r < kNumRows; ++r) x.push_back(random_row(r));
    for (const auto& v : x) rows.push_back(row_of(v));
  }
  bool is_mx() const { return format == WeightFormat::kMxfp4; }
  int64_t block() const { return scale_block(format); }
  uint8_t& scale(int64_t lane, int64_t b) {
    return panel[static_cast<size_t>(layouts::panel_scale_position(format, lane, b))];
  }
  uint8_t code(int64_t lane, int64_t k) const {
    const auto at = layouts::panel_code_position(format, blocks, lane, k);
    return static_cast<uint8_t>(panel[static_cast<size_t>(at.byte)] >> at.shift & 15);
  }

  // BF16 numbers; in every third block of some rows small ones too, so that some blocks have a third digit. Zeros, and one
  // row with the largest integers there are.
  std::vector<float> random_row(int r) {
    std::normal_distribution<float> normal;
    std::vector<float> v(static_cast<size_t>(blocks * block()));
    for (size_t k = 0; k < v.size(); ++k) {
      const auto b = static_cast<int64_t>(k) / block();
      float size = std::ldexp(1.0F, static_cast<int>(b * 7 % 30) - 15);
      if (r % 4 == 2 && b % 3 == 0 && rng() % 4 == 0) size *= 0x1p-16F;
      if (r == 5 && b % 2 == 0) size = 0;
      v[k] = r == 7 ? (rng() % 2 == 0 ? 1.0F : -1.0F) * 0x1.FDFCp14F
                    : formats::bf16_to_f32(formats::bf16_from_f32(size * normal(rng)));
    }
    return v;
  }
  Row row_of(const std::vector<float>& v) const {
    Row row;
    for (int64_t b = 0; b < blocks; ++b) {
      if (is_mx()) {
        planes == 2 ? take<WeightFormat::kMxfp4, 2>(v, b, row)
                    : take<WeightFormat::kMxfp4, 3>(v, b, row);
      } else {
        planes == 2 ? take<WeightFormat::kNvfp4, 2>(v, b, row)
                    : take<WeightFormat::kNvfp4, 3>(v, b, row);
      }
    }
    return row;
  }
  template <WeightFormat kFormat, int kPlanes>
  static void take(const std::vector<float>& v, int64_t b, Row& row) {
    constexpr int64_t kBlock = scale_block(kFormat);
    using Record = DigitRecord<kBlock, kPlanes>;
    uint8_t record[Record::kBytes];
    const bool is_there = digits::encode_block<kFormat, kPlanes>(v.data() + b * kBlock, record);
    EXPECT_TRUE(is_there);
    for (int64_t k = 0; k < kBlock; ++k) row.integers.push_back(Record::value(record, k));
    row.half_units.emplace_back();
    std::memcpy(&row.half_units.back(), record + Record::kScale, sizeof(float));
  }

  // What a lane is to give.
  float wanted(const Row& row, int64_t lane) {
    float acc = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      const float half_unit = row.half_units[static_cast<size_t>(b)];
      const int32_t* const a = row.integers.data() + b * block();
      const uint8_t s = scale(lane, b);
      if (is_mx() && s >= 253) {
        for (int64_t k = 0; k < block(); ++k) {
          const float weight =
              formats::e2m1_to_f32(code(lane, b * block() + k)) * formats::ue8m0_to_f32(s);
          acc = std::fma(static_cast<float>(a[k]) * (2.0F * half_unit), weight, acc);
        }
        continue;
      }
      int64_t sum = 0;
      for (int64_t k = 0; k < block(); ++k)
        sum += int64_t{a[k]} *
               static_cast<int64_t>(2.0F * formats::e2m1_to_f32(code(lane, b * block() + k)));
      const float scale = is_mx() ? formats::ue8m0_to_f32(s) : formats::e4m3_to_f32(s) * 0x1p-120F;
      acc = std::fma(static_cast<float>(sum) * half_unit, scale, acc);
    }
    return acc;
  }
  std::vector<float> wanted(int num_rows) {
    std::vector<float> all;
    for (int r = 0; r < num_rows; ++r) {
      for (int64_t lane = 0; lane < kPanelRows; ++lane)
        all.push_back(wanted(rows[static_cast<size_t>(r)], lane));
    }
    return all;
  }
};

// One kernel, and a case's rows as it reads them.
class Runner {
 public:
  Runner(const IntegerDot& dot, bool is_many, const Case& c) : dot_(dot), case_(c) {
    const int64_t bytes =
        is_many ? word_block_bytes(c.format, c.planes) : digit_record_bytes(c.format, c.planes);
    for (const auto& v : c.x) {
      std::vector<uint8_t> row(static_cast<size_t>(c.blocks * bytes + 64), 0xEE);
      EXPECT_TRUE(dot.encode(v.data(), c.blocks, row.data()));
      for (size_t i = row.size() - 64; i < row.size(); ++i) EXPECT_EQ(row[i], 0xEE);
      row.resize(row.size() - 64);
      row.shrink_to_fit();  // so that a sanitizer sees what is read behind it
      rows_.push_back(std::move(row));
    }
  }
  std::vector<float> run(int first, int num_rows) const {
    return run(first, num_rows,
               {{case_.panel.data(), {case_.panel.data() + (1 << 20), 0, 2048, true}}});
  }
  // [panels, num_rows, 16]
  std::vector<float> run(int first, int num_rows, const std::vector<PanelStream>& panels) const {
    std::vector<const uint8_t*> pointers;
    for (int r = 0; r < num_rows; ++r)
      pointers.push_back(rows_[static_cast<size_t>(first + r)].data());
    constexpr float kGuard = -12345;
    std::vector<float> out(panels.size() * static_cast<size_t>(num_rows * kPanelRows) + 16, kGuard);
    dot_.dot(panels, case_.blocks, pointers.data(), num_rows, out.data());
    for (size_t i = out.size() - 16; i < out.size(); ++i) EXPECT_EQ(out[i], kGuard);
    out.resize(out.size() - 16);
    return out;
  }

 private:
  const IntegerDot& dot_;
  const Case& case_;
  std::vector<std::vector<uint8_t>> rows_;
};

// The same bytes, but for which NaN.
bool are_same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::isnan(x) ? std::isnan(y) : std::memcmp(&x, &y, sizeof x) == 0;
  });
}

struct Kernel {
  std::string name;
  const IntegerDot* dot;
  bool is_many;
  std::vector<int> numbers_of_rows() const {
    std::vector<int> all;
    for (int rows = 1; rows <= std::min(dot->most_rows, is_many ? 9 : kNumRows); ++rows)
      all.push_back(rows);
    if (is_many) {
      for (const int rows : {31, 32}) {
        if (rows <= dot->most_rows) all.push_back(rows);
      }
    }
    return all;
  }
};
std::vector<Kernel> kernels(const Case& c) {
  std::vector<Kernel> all;
  for (const IsaInfo& isa : isas()) {
    if (!isa.is_here()) continue;
    const RowDot dot = isa.dot->of(c.format, c.planes);
    const std::string name = std::string(isa.runs_on) + ", " + std::string(name_of(c.format)) +
                             ", planes " + std::to_string(c.planes) + ", blocks " +
                             std::to_string(c.blocks);
    if (dot.few != nullptr) all.push_back({name + ", few", dot.few, false});
    if (dot.many != nullptr) all.push_back({name + ", many", dot.many, true});
  }
  return all;
}

void expect_wanted(Case& c) {
  const std::vector<float> all = c.wanted(kNumRows);
  for (const Kernel& kernel : kernels(c)) {
    const Runner runner(*kernel.dot, kernel.is_many, c);
    for (const int rows : kernel.numbers_of_rows()) {
      const std::vector<float> want(all.begin(), all.begin() + rows * kPanelRows);
      EXPECT_TRUE(are_same(runner.run(0, rows), want)) << kernel.name << ", rows " << rows;
    }
  }
}

template <class Fn>
void for_each_case(const Fn& fn) {
  for (const WeightFormat format : kFormats) {
    for (const int planes : {2, 3}) {
      for (const int64_t blocks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 18}) {
        Case c(format, planes, blocks);
        fn(c);
      }
    }
  }
}

TEST(IntegerDot, GivesTheBytesOfItsTree) { for_each_case(expect_wanted); }

TEST(IntegerDot, GivesTheBytesOfItsTreeUnderOddScales) {
  const std::vector<uint8_t> mx = {0, 1, 252, 253, 254, 255};
  const std::vector<uint8_t> nv = {0, 1, 7, 0x7E, 0x7F, 0x80, 0x81, 0xB8, 0xFE, 0xFF};
  for_each_case([&](Case& c) {
    const auto& odd = c.is_mx() ? mx : nv;
    for (int64_t lane = 1; lane < kPanelRows; lane += 1 + c.rng() % 3)
      c.scale(lane, c.rng() % c.blocks) = odd[c.rng() % odd.size()];
    expect_wanted(c);
  });
}

// Each odd scale alone, first and last lane, each block: those of a group, and of the shorter last one.
TEST(IntegerDot, FindsAnOddScaleWhereverItStands) {
  for (const WeightFormat format : kFormats) {
    Case c(format, 2, 6);
    const bool is_mx = c.is_mx();
    for (const int odd : is_mx ? std::vector{0, 253, 254, 255} : std::vector{0x7F, 0x80, 0xC0}) {
      for (int64_t b = 0; b < c.blocks; ++b) {
        for (const int64_t lane : {0, 7, 8, 15}) {
          const uint8_t was = c.scale(lane, b);
          c.scale(lane, b) = static_cast<uint8_t>(odd);
          const std::vector<float> want = c.wanted(1);
          for (const Kernel& kernel : kernels(c)) {
            EXPECT_TRUE(are_same(Runner(*kernel.dot, kernel.is_many, c).run(0, 1), want))
                << kernel.name << ", scale " << odd << ", block " << b << ", lane " << lane;
          }
          c.scale(lane, b) = was;
        }
      }
    }
  }
}

TEST(IntegerDot, GivesARowTheSameBytesAloneAndAmongOthers) {
  for (const WeightFormat format : kFormats) {
    for (const int planes : {2, 3}) {
      Case c(format, planes, 7);
      c.scale(3, 5) = 0xFE;
      for (const Kernel& kernel : kernels(c)) {
        const Runner runner(*kernel.dot, kernel.is_many, c);
        for (const int rows : kernel.numbers_of_rows()) {
          const int first = std::min(2, kNumRows - rows);
          const std::vector<float> all = runner.run(first, rows);
          for (int r = 0; r < rows; ++r) {
            const std::vector<float> among(all.begin() + r * kPanelRows,
                                           all.begin() + (r + 1) * kPanelRows);
            EXPECT_TRUE(are_same(runner.run(first + r, 1), among)) << kernel.name << ", row " << r;
          }
        }
      }
    }
  }
}

// Blocks at both ends of what integers hold, their largest number against a weight of 0, all others far smaller: what is left
// is right to binary32's roundings, for the smallest and largest scales too.
TEST(IntegerDot, LosesNothingAtTheEndsOfItsRange) {
  for (const WeightFormat format : kFormats) {
    for (const int planes : {2, 3}) {
      for (const float amax : {kLeastDigitAmax, kMostDigitAmax}) {
        for (const bool is_small : {false, true}) {
          Case c(format, planes, 5);
          const int scale = c.is_mx() ? (is_small ? 127 : 180) : (is_small ? 1 : 0x7E);
          auto& x = c.x[0];
          for (size_t k = 0; k < x.size(); ++k) {
            const auto small = static_cast<int>(k % 3) - (planes == 3 ? 21 : 14);
            x[k] = static_cast<int64_t>(k) % c.block() == 0 ? amax : std::ldexp(amax, small);
          }
          for (int64_t lane = 0; lane < kPanelRows; ++lane) {
            for (int64_t b = 0; b < c.blocks; ++b) {
              c.scale(lane, b) = static_cast<uint8_t>(scale);
              const auto at = layouts::panel_code_position(format, c.blocks, lane, b * c.block());
              c.panel[static_cast<size_t>(at.byte)] &= static_cast<uint8_t>(~(15 << at.shift));
            }
          }
          for (const Kernel& kernel : kernels(c)) {
            const std::vector<float> got = Runner(*kernel.dot, kernel.is_many, c).run(0, 1);
            for (int64_t lane = 0; lane < kPanelRows; ++lane) {
              double sum = 0, mass = 0;
              for (int64_t k = 0; k < c.blocks * c.block(); ++k) {
                const auto s = static_cast<uint8_t>(scale);
                const float w = c.is_mx() ? formats::ue8m0_to_f32(s) : formats::e4m3_to_f32(s);
                const double p = static_cast<double>(formats::e2m1_to_f32(c.code(lane, k))) *
                                 static_cast<double>(w) *
                                 static_cast<double>(x[static_cast<size_t>(k)]);
                sum += p;
                mass += std::fabs(p);
              }
              const double v = static_cast<double>(got[static_cast<size_t>(lane)]) *
                               static_cast<double>(digit_gain(format));
              EXPECT_NEAR(v, sum, 12 * 0x1p-24 * mass) << kernel.name << ", largest " << amax;
            }
          }
        }
      }
    }
  }
}

TEST(IntegerDot, WhatIsAheadDoesNotMatter) {
  for_each_case([](Case& c) {
    for (const Kernel& kernel : kernels(c)) {
      const Runner runner(*kernel.dot, kernel.is_many, c);
      const int rows = std::min(3, kernel.dot->most_rows);
      const std::vector<float> want = runner.run(0, rows);
      for (const std::ptrdiff_t jump :
           {std::ptrdiff_t{0}, std::ptrdiff_t{-1} << 40, std::ptrdiff_t{1} << 30}) {
        for (const std::ptrdiff_t end : {0, 1, 100, 7000}) {
          for (const bool into_first : {false, true}) {
            for (const int64_t bytes : {0, 64, 6144, 1 << 30}) {
              const uint8_t* const panel = c.panel.data();
              EXPECT_TRUE(are_same(
                  runner.run(0, rows, {{panel, {panel + end, jump, bytes, into_first}}}), want))
                  << kernel.name;
            }
          }
        }
      }
    }
  });
}

// Of panels read abreast, each gives what it gives alone; one of them has odd scales.
TEST(IntegerDot, GivesAPanelTheSameBytesAloneAndBesideAnother) {
  for_each_case([](Case& c) {
    Case other(c.format, c.planes, c.blocks);
    std::ranges::reverse(other.panel);
    other.scale(3, c.blocks - 1) = 0xFF;
    const auto stream = [](const Case& of) {
      return PanelStream{of.panel.data(), {of.panel.data() + of.panel.size(), 0, 2048, true}};
    };
    for (const Kernel& kernel : kernels(c)) {
      const Runner runner(*kernel.dot, kernel.is_many, c);
      for (const int rows : kernel.numbers_of_rows()) {
        std::vector<float> want = runner.run(0, rows, {stream(c)});
        const std::vector<float> second = runner.run(0, rows, {stream(other)});
        want.insert(want.end(), second.begin(), second.end());
        EXPECT_TRUE(are_same(runner.run(0, rows, {stream(c), stream(other)}), want)) << kernel.name;
      }
    }
  });
}

TEST(IntegerDot, RowsWithNumbersBeyondHaveNoIntegers) {
  for_each_case([](Case& c) {
    for (const Kernel& kernel : kernels(c)) {
      std::vector<uint8_t> out(static_cast<size_t>(c.blocks * word_block_bytes(c.format, 3)));
      std::vector<float> x = c.x[0];
      for (const float beyond : {0x1p61F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
        x.back() = beyond;
        EXPECT_FALSE(kernel.dot->encode(x.data(), c.blocks, out.data())) << kernel.name;
      }
    }
  });
}

}  // namespace
}  // namespace octet::cpu
