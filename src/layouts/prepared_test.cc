// SPDX-License-Identifier: Apache-2.0
#include "layouts/prepared.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "core/test_threads.h"
#include "layouts/scale_layout.h"

namespace octet::layouts {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes poisoned(int64_t bytes) { return Bytes(static_cast<size_t>(bytes), 0xFF); }
// No byte is 0, so that padding shows.
Bytes random_bytes(int64_t bytes, unsigned seed) {
  std::mt19937 rng(seed);
  Bytes b(static_cast<size_t>(bytes));
  for (uint8_t& v : b) v = static_cast<uint8_t>(rng() % 255 + 1);
  return b;
}

struct Shape {
  int64_t experts, hidden, intermediate;
  int64_t padded() const { return padded_intermediate(intermediate); }
};

struct Checkpoint {
  Bytes gate, up, gate_scale, up_scale, down, down_scale;
  static Checkpoint sized(const Shape& s, const std::function<Bytes(int64_t)>& make) {
    const int64_t w13 = s.experts * s.intermediate * s.hidden;
    return {make(w13 / 2),  make(w13 / 2), make(w13 / 32),
            make(w13 / 32), make(w13 / 2), make(w13 / 32)};
  }
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

struct Prepared {
  Shape shape;
  Bytes w13, w13_scale, w2, w2_scale;
  std::vector<float> clamp;
};

Checkpoint random_checkpoint(const Shape& s) {
  unsigned seed = 0;
  return Checkpoint::sized(s, [&](int64_t bytes) { return random_bytes(bytes, ++seed); });
}

Prepared prepare_poisoned(const Shape& s, const Checkpoint& c, float limit, Executor& executor) {
  const int64_t elems = s.experts * s.padded() * s.hidden;
  Prepared p{s,
             poisoned(elems),
             poisoned(elems / 16),
             poisoned(elems / 2),
             poisoned(elems / 32),
             std::vector<float>(static_cast<size_t>(s.experts), -1.0F)};
  prepare({c.gate.data(), c.up.data(), c.gate_scale.data(), c.up_scale.data(), c.down.data(),
           c.down_scale.data(), limit, s.experts, s.hidden, s.intermediate, p.w13.data(),
           p.w13_scale.data(), p.w2.data(), p.w2_scale.data(), p.clamp.data()},
          executor);
  return p;
}

Checkpoint unprepare_poisoned(const Prepared& p, Executor& executor) {
  const Shape& s = p.shape;
  Checkpoint back = Checkpoint::sized(s, poisoned);
  unprepare({p.w13.data(), p.w13_scale.data(), p.w2.data(), p.w2_scale.data(), s.experts, s.hidden,
             s.padded(), s.intermediate, back.gate.data(), back.up.data(), back.gate_scale.data(),
             back.up_scale.data(), back.down.data(), back.down_scale.data()},
            executor);
  return back;
}

constexpr Shape kShapes[] = {
    {0, 128, 64}, {2, 128, 32}, {1, 256, 96}, {3, 128, 160}, {1, 128, 576}};

// ---- index functions

// semantics.md section 6, worded from the stored side.
TEST(Prepared, StoredRowIsWhatTheSpecificationSays) {
  for (int64_t n = 0; n < 1280; ++n) {
    const int64_t b = n / 32, q = n % 32 / 8, r = n % 8;
    EXPECT_EQ(w13_logical_row(n), (W13Row{16 * b + 2 * r + q / 2, q % 2 == 1})) << n;
    EXPECT_EQ(unshuffled_row(n), 32 * b + 4 * r + q) << n;
  }
}

TEST(Prepared, RowFunctionsAreInverses) {
  for (int64_t row = 0; row < 1280; ++row) {
    EXPECT_EQ(unshuffled_row(shuffled_row(row)), row);
    EXPECT_EQ(shuffled_row(unshuffled_row(row)), row);
    EXPECT_EQ(w13_stored_row(w13_logical_row(row)), row);
  }
}

TEST(Prepared, RowsEightApartAreAnUpGatePair) {
  for (int64_t n = 0; n < 1280; ++n) {
    if (n % 16 >= 8) continue;
    const W13Row up = w13_logical_row(n), gate = w13_logical_row(n + 8);
    EXPECT_FALSE(up.is_gate);
    EXPECT_TRUE(gate.is_gate);
    EXPECT_EQ(up.column, gate.column);
    EXPECT_EQ(up.column / 64, n / 128);  // a 128-row block is 64 columns of h
  }
}

TEST(Prepared, ScalesOfHNeverShareAByte) {
  for (const int64_t padded : {128, 640}) {
    constexpr int64_t kTiles = 5;
    std::vector<int> seen(static_cast<size_t>(kTiles * padded * 4), 0);
    for (int64_t row = 0; row < kTiles * kTileRows; ++row) {
      for (int64_t block = 0; block < padded / 32; ++block)
        EXPECT_EQ(seen.at(static_cast<size_t>(h_scale_offset(row, block, padded)))++, 0);
    }
  }
  EXPECT_EQ(h_scale_offset(8 + 3, 6, 640), 640 * 4 + 512 + 3 * 16 + 2);
}

// ---- prepare and back

TEST(Prepared, HoldsEachRowAndScaleWhereItBelongs) {
  InlineExecutor executor;
  for (const Shape& s : kShapes) {
    const Checkpoint c = random_checkpoint(s);
    const Prepared p = prepare_poisoned(s, c, 10.0F, executor);
    const int64_t half_h = s.hidden / 2, cols = s.hidden / 32;
    for (int64_t e = 0; e < s.experts; ++e) {
      for (int64_t n = 0; n < 2 * s.padded(); ++n) {
        const W13Row row = w13_logical_row(n);
        const bool pad = row.column >= s.intermediate;
        const int64_t from = e * s.intermediate + row.column;
        const Bytes& codes = row.is_gate ? c.gate : c.up;
        const Bytes& scales = row.is_gate ? c.gate_scale : c.up_scale;
        for (int64_t b = 0; b < half_h; ++b)
          ASSERT_EQ(p.w13.at((e * 2 * s.padded() + n) * half_h + b),
                    pad ? 0 : codes.at(from * half_h + b));
        for (int64_t k = 0; k < cols; ++k)
          ASSERT_EQ(p.w13_scale.at(e * 2 * s.padded() * cols +
                                   scale_offset(ScaleLayout::k128x4, cols, n, k)),
                    pad ? 0 : scales.at(from * cols + k));
      }
    }
    EXPECT_EQ(p.clamp, std::vector<float>(static_cast<size_t>(s.experts), 10.0F));
  }
}

TEST(Prepared, HoldsEachDownRowWithItsPadding) {
  InlineExecutor executor;
  for (const Shape& s : kShapes) {
    const Checkpoint c = random_checkpoint(s);
    const Prepared p = prepare_poisoned(s, c, 10.0F, executor);
    const int64_t bytes = s.padded() / 2, cols = s.padded() / 32;
    for (int64_t e = 0; e < s.experts; ++e) {
      for (int64_t n = 0; n < s.hidden; ++n) {
        const int64_t from = e * s.hidden + unshuffled_row(n);
        for (int64_t b = 0; b < bytes; ++b)
          ASSERT_EQ(p.w2.at((e * s.hidden + n) * bytes + b),
                    b < s.intermediate / 2 ? c.down.at(from * s.intermediate / 2 + b) : 0);
        for (int64_t k = 0; k < cols; ++k)
          ASSERT_EQ(
              p.w2_scale.at(e * s.hidden * cols + scale_offset(ScaleLayout::k128x4, cols, n, k)),
              k < s.intermediate / 32 ? c.down_scale.at(from * s.intermediate / 32 + k) : 0);
      }
    }
  }
}

TEST(Prepared, UsesEveryThreadAndGivesTheSameBytes) {
  constexpr Shape kFive{5, 128, 96};
  const Checkpoint c = random_checkpoint(kFive);
  InlineExecutor one;
  const Prepared want = prepare_poisoned(kFive, c, 10.0F, one);
  for (const int num_threads : {1, 2, 3}) {
    TestThreads threads(num_threads);
    const Prepared got = prepare_poisoned(kFive, c, 10.0F, threads);
    EXPECT_EQ(threads.most_tasks, num_threads);
    EXPECT_EQ(got.w13, want.w13);
    EXPECT_EQ(got.w13_scale, want.w13_scale);
    EXPECT_EQ(got.w2, want.w2);
    EXPECT_EQ(got.w2_scale, want.w2_scale);
    EXPECT_EQ(got.clamp, want.clamp);
    threads.most_tasks = 0;
    EXPECT_EQ(unprepare_poisoned(got, threads), c);
    EXPECT_EQ(threads.most_tasks, num_threads);
  }
}

TEST(Prepared, UnprepareGivesTheCheckpointBack) {
  InlineExecutor executor;
  for (const Shape& s : kShapes) {
    const Checkpoint c = random_checkpoint(s);
    const Prepared p = prepare_poisoned(s, c, 10.0F, executor);
    EXPECT_EQ(unprepare_poisoned(p, executor), c)
        << s.experts << " " << s.hidden << " " << s.intermediate;
  }
}

// ---- check_weights

// Zeroed tensors of one accepted problem, and what to change before asking.
struct Weights {
  static constexpr int64_t kExperts = 32, kHidden = 128, kIntermediate = 96, kPadded = 128;
  Tensor w13{Dtype::kU8, {kExperts, 2 * kPadded, kHidden / 2}};
  Tensor w13_scale{Dtype::kU8, {kExperts, 2 * kPadded, kHidden / 32}};
  Tensor w2{Dtype::kU8, {kExperts, kHidden, kPadded / 2}};
  Tensor w2_scale{Dtype::kU8, {kExperts, kHidden, kPadded / 32}};
  Tensor clamp{Dtype::kF32, {kExperts}};
  PreparedTensors views() const {
    return {w13.view(), w13_scale.view(), w2.view(), w2_scale.view(), clamp.view()};
  }
};

TEST(CheckWeights, AcceptsPreparedTensors) {
  Weights w;
  const Status s = check_weights(w.views(), 6, Weights::kIntermediate);
  EXPECT_TRUE(s.ok()) << s.why;
  // Weights that are not padding may have any value, padding scales too.
  w.w13.as<uint8_t>()[w13_stored_row({95, true}) * 64] = 0x12;
  w.w2.as<uint8_t>()[47] = 0x34;
  std::fill_n(w.w13_scale.as<uint8_t>(), w.w13_scale.num_bytes(), uint8_t{0xFF});
  EXPECT_TRUE(check_weights(w.views(), 8, Weights::kIntermediate).ok());
}

TEST(CheckWeights, RefusesWithTheTensorTheValueFoundAndTheValueWanted) {
  Weights w;
  struct Case {
    const char* why;  // part of the sentence
    std::function<void(PreparedTensors&)> edit;
  };
  const Case kCases[] = {
      {"w13: missing", [](auto& t) { t.w13.data = nullptr; }},
      {"w2: missing", [](auto& t) { t.w2 = {}; }},
      {"w13: 2 dimensions, want 3",
       [](auto& t) {
         t.w13.dims = {32, 16384};
       }},
      {"w2: 1 dimensions, want 3", [](auto& t) { t.w2.dims = {32}; }},
      {"w13: shape [32, 255, 64], want [32, 256, 64]", [](auto& t) { t.w13.dims[1] = 255; }},
      {"w13_scale: shape [32, 256, 3], want [32, 256, 4]",
       [](auto& t) { t.w13_scale.dims[2] = 3; }},
      {"w13_scale: missing", [](auto& t) { t.w13_scale.data = nullptr; }},
      {"w2: shape [32, 127, 64], want [32, 128, 64]", [](auto& t) { t.w2.dims[1] = 127; }},
      {"w2_scale: shape [32, 128, 5], want [32, 128, 4]", [](auto& t) { t.w2_scale.dims[2] = 5; }},
      {"w2_scale: dtype BF16, want 1-byte elements",
       [](auto& t) { t.w2_scale.dtype = Dtype::kBf16; }},
      {"w13: address is 16 past a multiple of 32", [](auto& t) { t.w13.data += 16; }},
      {"w2: address is 1 past a multiple of 32", [](auto& t) { t.w2.data += 1; }},
      {"w13_scale: address is 8 past a multiple of 16", [](auto& t) { t.w13_scale.data += 8; }},
      {"w2_scale: address is 4 past a multiple of 16", [](auto& t) { t.w2_scale.data += 4; }},
      {"experts 31, want a multiple of 32 in 32..384",
       [](auto& t) {
         for (TensorView* v : {&t.w13, &t.w13_scale, &t.w2, &t.w2_scale}) v->dims[0] = 31;
       }},
      {"experts 416, want a multiple of 32 in 32..384",
       [](auto& t) {
         for (TensorView* v : {&t.w13, &t.w13_scale, &t.w2, &t.w2_scale}) v->dims[0] = 416;
       }},
      {"experts 0, want a multiple of 32 in 32..384",
       [](auto& t) {
         for (TensorView* v : {&t.w13, &t.w13_scale, &t.w2, &t.w2_scale}) v->dims[0] = 0;
       }},
      {"clamp: missing", [](auto& t) { t.clamp = {}; }},
      {"clamp: BF16 [32], want F32 [32]", [](auto& t) { t.clamp.dtype = Dtype::kBf16; }},
      {"clamp: F32 [31], want F32 [32]", [](auto& t) { t.clamp.dims = {31}; }},
  };
  for (const Case& c : kCases) {
    PreparedTensors t = w.views();
    c.edit(t);
    const Status s = check_weights(t, 6, Weights::kIntermediate);
    EXPECT_EQ(s.code, Code::kInvalidArgument);
    EXPECT_NE(s.why.find(c.why), std::string::npos) << "want: " << c.why << "\ngot:  " << s.why;
  }
}

TEST(CheckWeights, RefusesSettingsOutsideTheirRange) {
  Weights w;
  for (const int64_t top_k : {-1, 0, 9}) {
    const Status s = check_weights(w.views(), top_k, Weights::kIntermediate);
    EXPECT_EQ(s.why, "top_k " + std::to_string(top_k) + ", want 1..8");
  }
  EXPECT_EQ(check_weights(w.views(), 6, 0).why, "intermediate 0, want above 0");
  EXPECT_FALSE(check_weights(w.views(), 6, 129).ok());  // Ip 256 is not the tensors'
}

TEST(CheckWeights, RefusesEveryNonZeroPaddingByteByItsPlace) {
  for (const int64_t expert : {0, 31}) {
    for (const bool is_gate : {false, true}) {
      for (const int64_t column : {96, 127}) {
        Weights w;
        const int64_t row = w13_stored_row({column, is_gate});
        w.w13.as<uint8_t>()[(expert * 256 + row) * 64 + 63] = 7;
        EXPECT_EQ(check_weights(w.views(), 6, 96).why,
                  "w13: padding byte [" + std::to_string(expert) + ", " + std::to_string(row) +
                      ", 63] is 7, want 0");
      }
    }
    for (const int64_t byte : {48, 63}) {
      Weights w;
      w.w2.as<uint8_t>()[(expert * 128 + 127) * 64 + byte] = 0x10;
      EXPECT_EQ(check_weights(w.views(), 6, 96).why, "w2: padding byte [" + std::to_string(expert) +
                                                         ", 127, " + std::to_string(byte) +
                                                         "] is 16, want 0");
    }
  }
}

}  // namespace
}  // namespace octet::layouts
