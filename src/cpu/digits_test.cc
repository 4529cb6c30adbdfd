// SPDX-License-Identifier: Apache-2.0
#include "cpu/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "cpu/words.h"
#include "formats/bf16.h"
#include "formats/e4m3.h"

namespace octet::cpu {
namespace {

template <class T>
T load(const uint8_t* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// A block in either form, taken apart.
struct Parts {
  bool is_there = false;
  std::vector<int32_t> integers;
  float scale = 0;
  int32_t offset = 0;
  uint32_t flag = 0;
  friend bool operator==(const Parts&, const Parts&) = default;
};

template <WeightFormat kWeights, int kNumPlanes>
struct Kind {
  static constexpr WeightFormat kFormat = kWeights;
  static constexpr int kPlanes = kNumPlanes;
  static constexpr int64_t kBlock = scale_block(kFormat);
  using Digits = DigitRecord<kBlock, kPlanes>;
  using Words = WordRecord<kBlock, kPlanes>;
  using Block = std::array<float, kBlock>;

  static Parts digits_of(const Block& v) {
    std::vector<uint8_t> record(Digits::kBytes, 0xEE);
    Parts p;
    p.is_there = digits::encode_block<kFormat, kPlanes>(v.data(), record.data());
    if (!p.is_there) return p;
    for (int64_t k = 0; k < kBlock; ++k) p.integers.push_back(Digits::value(record.data(), k));
    p.scale = load<float>(record.data() + Digits::kScale);
    p.offset = load<int32_t>(record.data() + Digits::kOffset);
    if constexpr (kPlanes == 3) {
      p.flag = load<uint32_t>(record.data() + Digits::kHasThird);
      if (p.flag == 0) expect_zeros(record.data() + Digits::kThird, kBlock);
    }
    return p;
  }
  // In the unit of the digits: without low words it may be 2^7 times theirs.
  static Parts words_of(const Block& v, const Parts& digits) {
    std::vector<uint8_t> record(Words::kBytes, 0xEE), low(Words::kLowBytes, 0xEE);
    Parts p;
    p.is_there = digits::encode_word_block<kFormat, kPlanes>(v.data(), record.data(), low.data());
    if (!p.is_there) return p;
    const auto factor = static_cast<int32_t>(Words::unit(record.data()) / digits.scale);
    p.scale = Words::unit(record.data()) / static_cast<float>(factor);
    for (int64_t k = 0; k < kBlock; ++k)
      p.integers.push_back(factor * Words::value(record.data(), low.data(), k));
    p.offset = factor * load<int32_t>(record.data() + Words::kOffset);
    p.flag = digits.flag;
    if constexpr (kPlanes == 3) {
      const uint32_t pairs = Words::low_pairs(record.data());
      for (size_t i = 0; i < kBlock / 2; ++i)
        EXPECT_EQ((pairs >> i & 1) != 0, load<uint32_t>(low.data() + 4 * i) != 0) << i;
      const auto low_offset = load<int32_t>(low.data() + Words::kLowOffset);
      if (pairs == 0) {
        EXPECT_EQ(low_offset, 0);
      } else {
        EXPECT_EQ(digits.flag, 1U);
        p.offset = (1 << kLowWordBits) * p.offset + low_offset;
      }
    }
    return p;
  }
  static void expect_zeros(const uint8_t* bytes, int64_t count) {
    EXPECT_TRUE(std::all_of(bytes, bytes + count, [](uint8_t b) { return b == 0; }));
  }
  // What digits.h says, in binary64.
  static Parts wanted(const Block& v) {
    double amax = 0;
    for (const float x : v) amax = std::max(amax, std::fabs(static_cast<double>(x)));
    const int exponent = amax == 0 ? 0 : std::ilogb(amax);
    int log_unit = exponent - 14;
    if (std::nearbyint(std::ldexp(amax, -log_unit)) > 32639) ++log_unit;
    const auto is_exact = [&](float x) {
      const double n = std::ldexp(static_cast<double>(x), -log_unit);
      return n == std::nearbyint(n);
    };
    Parts p;
    p.is_there = true;
    if (kPlanes == 3 && !std::all_of(v.begin(), v.end(), is_exact)) {
      p.flag = 1;
      log_unit = exponent - 21;
    }
    for (const float x : v) {
      p.integers.push_back(
          static_cast<int32_t>(std::nearbyint(std::ldexp(static_cast<double>(x), -log_unit))));
      p.offset -= 12 * p.integers.back();
    }
    p.scale = static_cast<float>(
        std::ldexp(kFormat == WeightFormat::kNvfp4 ? 0x1p60 : 1.0, log_unit - 1));
    return p;
  }
  // Both forms are what the words say; what they are.
  static Parts expect_right(const Block& v) {
    const Parts want = wanted(v), digits = digits_of(v);
    EXPECT_TRUE(digits.is_there);
    EXPECT_EQ(digits.integers, want.integers);
    EXPECT_EQ(digits.scale, want.scale);
    EXPECT_EQ(digits.offset, want.offset);
    EXPECT_EQ(digits.flag, want.flag);
    EXPECT_TRUE(words_of(v, digits) == digits) << "words differ from digits";
    return digits;
  }
  static void expect_none(const Block& v) {
    EXPECT_FALSE(digits_of(v).is_there);
    EXPECT_FALSE(words_of(v, {}).is_there);
  }
  static void expect_exact(const Block& v) {
    const Parts p = expect_right(v);
    const double unit =
        2.0 * static_cast<double>(p.scale) / static_cast<double>(digit_gain(kFormat));
    for (size_t k = 0; k < v.size(); ++k)
      EXPECT_EQ(p.integers[k] * unit, static_cast<double>(v[k])) << "element " << k;
  }
};

template <class K>
class Digits : public testing::Test {};
using Kinds = testing::Types<Kind<WeightFormat::kMxfp4, 2>, Kind<WeightFormat::kMxfp4, 3>,
                             Kind<WeightFormat::kNvfp4, 2>, Kind<WeightFormat::kNvfp4, 3>>;
TYPED_TEST_SUITE(Digits, Kinds);

TYPED_TEST(Digits, RandomBlocksAreWhatBinary64Says) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 500; ++trial) {
    typename TypeParam::Block v;
    // Unlike sizes inside a block, as a third digit wants; numbers of 24 bits.
    for (float& x : v) x = std::ldexp(normal(rng), static_cast<int>(rng() % 12) + trial % 105 - 60);
    v[rng() % v.size()] = std::ldexp(1.0F, trial % 105 - 47);  // so that the block is in range
    TypeParam::expect_right(v);
  }
}

TYPED_TEST(Digits, TheUnitGrowsWhereTheLargestIntegerWouldPass32639) {
  for (const float sign : {1.0F, -1.0F}) {
    for (const int exponent : {-46, 0, 40}) {
      for (const float largest : {16384.0F, 32512.0F, 32638.5F, 32639.0F, 32639.25F,
                                  std::nextafter(32639.5F, 0.0F), 32639.5F, 32640.0F, 32767.75F}) {
        typename TypeParam::Block v{};
        v[5] = sign * std::ldexp(largest, exponent);
        const Parts p = TypeParam::expect_right(v);
        if (p.flag == 0) {
          EXPECT_EQ(std::abs(p.integers[5]) > 16384, largest > 16384.0F && largest < 32639.5F)
              << largest;
          EXPECT_LE(std::abs(p.integers[5]), 32639);
        }
      }
    }
  }
}

TYPED_TEST(Digits, RoundsTiesToEven) {
  const float last = TypeParam::kPlanes == 2 ? 1.0F : 0x1p-7F;  // the unit of a largest of 2^14
  typename TypeParam::Block v{};
  v[0] = 0x1p14F;
  const float halves[] = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 1000.5F, -1001.5F};
  const int32_t even[] = {0, 2, 2, 0, -2, -2, 1000, -1002};
  for (int i = 0; i < 8; ++i) v[static_cast<size_t>(i + 1)] = halves[i] * last;
  const Parts p = TypeParam::expect_right(v);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(p.integers[static_cast<size_t>(i + 1)], even[i]) << i;
}

TYPED_TEST(Digits, TheLargestNumberIsBetween2ToTheMinus58And2ToThe60OrZero) {
  for (const float sign : {1.0F, -1.0F}) {
    for (const size_t at : {size_t{0}, size_t{TypeParam::kBlock - 1}}) {
      typename TypeParam::Block v{};
      for (const float amax : {0x1p-58F, std::nextafter(0x1p60F, 0.0F), 0x1p60F}) {
        v[at] = sign * amax;
        TypeParam::expect_right(v);
      }
      for (const float amax :
           {std::nextafter(0x1p-58F, 0.0F), 0x1p-126F, std::numeric_limits<float>::denorm_min(),
            std::nextafter(0x1p60F, 0x1p61F), std::numeric_limits<float>::max(),
            std::numeric_limits<float>::infinity(), std::nanf("")}) {
        v[at] = std::copysign(amax, sign);
        TypeParam::expect_none(v);
      }
    }
  }
}

TYPED_TEST(Digits, ANaNAmongOrdinaryNumbersHasNoRecord) {
  typename TypeParam::Block v;
  v.fill(1.0F);
  v[7] = std::copysign(std::nanf(""), -1.0F);
  TypeParam::expect_none(v);
}

TYPED_TEST(Digits, ZerosOfBothSignsAreZeros) {
  typename TypeParam::Block v{};
  v[3] = -0.0F;
  const Parts p = TypeParam::expect_right(v);
  EXPECT_EQ(p.integers, std::vector<int32_t>(TypeParam::kBlock, 0));
  EXPECT_EQ(p.offset, 0);
  EXPECT_EQ(p.flag, 0U);
}

TYPED_TEST(Digits, RowsStopAtTheFirstBlockWithoutARecord) {
  using Digit = typename TypeParam::Digits;
  constexpr int64_t kBlocks = 3;
  std::vector<float> v(kBlocks * TypeParam::kBlock, 1.0F);
  std::vector<uint8_t> out(kBlocks * Digit::kBytes);
  const auto encode = [&] {
    return digits::encode_row<TypeParam::kFormat, TypeParam::kPlanes>(v.data(), kBlocks,
                                                                      out.data());
  };
  v[2 * TypeParam::kBlock] = 3.0F;
  EXPECT_TRUE(encode());
  EXPECT_EQ(Digit::value(out.data() + Digit::kBytes, 0), 0x1p14);
  EXPECT_EQ(Digit::value(out.data() + 2 * Digit::kBytes, 0), 3 * 0x1p13);
  v.back() = 0x1p61F;
  EXPECT_FALSE(encode());
}

// Each element's place in a record is its own, and no other part's.
TYPED_TEST(Digits, PlacesAreABijection) {
  using Digit = typename TypeParam::Digits;
  using Word = typename TypeParam::Words;
  std::vector<int> digits(Digit::kBytes, 0), words(TypeParam::kBlock, 0);
  for (int64_t k = 0; k < TypeParam::kBlock; ++k) {
    for (int plane = 0; plane < TypeParam::kPlanes; ++plane) {
      const int64_t at = Digit::digit(plane, k);
      ++digits.at(static_cast<size_t>(at));
      EXPECT_EQ(Digit::element(at).plane, plane) << at;
      EXPECT_EQ(Digit::element(at).k, k) << at;
    }
    EXPECT_EQ(Word::word(Word::word(k)), k);  // its own inverse
    ++words.at(static_cast<size_t>(Word::word(k)));
  }
  const int64_t after = TypeParam::kPlanes == 3 ? Digit::kThird : Digit::kBytes;
  for (int64_t i = Digit::kScale; i < after; ++i) ++digits[static_cast<size_t>(i)];
  EXPECT_EQ(digits, std::vector<int>(Digit::kBytes, 1));
  EXPECT_EQ(words, std::vector<int>(TypeParam::kBlock, 1));
  // The order of a tile's bytes, which kernels rely on.
  EXPECT_EQ(Digit::digit(1, 9), 25);
  EXPECT_EQ(Word::word(5), 6);
  EXPECT_EQ(Word::word(6), 5);
}

// ---- three planes

template <class K>
class ThreePlanes : public testing::Test {};
using ThreePlaneKinds =
    testing::Types<Kind<WeightFormat::kMxfp4, 3>, Kind<WeightFormat::kNvfp4, 3>>;
TYPED_TEST_SUITE(ThreePlanes, ThreePlaneKinds);

TYPED_TEST(ThreePlanes, Mxfp8NumbersAreExact) {
  std::mt19937 rng(4);
  for (int trial = 0; trial < 500; ++trial) {
    typename TypeParam::Block v;
    for (float& x : v) {
      auto code = static_cast<uint8_t>(rng());
      if (formats::e4m3_is_nan(code)) code = 1;  // the least
      x = std::ldexp(formats::e4m3_to_f32(code), trial % 100 - 50);
    }
    TypeParam::expect_exact(v);
  }
  typename TypeParam::Block ends{};
  ends[0] = 448.0F;
  ends[1] = -0x1p-9F;
  TypeParam::expect_exact(ends);
}

TYPED_TEST(ThreePlanes, Bf16NumbersOf2ToTheMinus14OfTheLargestAreExactOthersWithin2ToTheMinus22) {
  std::mt19937 rng(5);
  for (int trial = 0; trial < 500; ++trial) {
    const int exponent = trial % 100 - 45;
    const auto bf16 = [&](int e) {
      const float v = std::ldexp(1.0F + static_cast<float>(rng() % 128) / 128.0F, e);
      return rng() % 2 == 0 ? v : -v;
    };
    typename TypeParam::Block v;
    for (float& x : v) x = bf16(exponent - static_cast<int>(rng() % 15));
    v[0] = bf16(exponent);
    v[1] = bf16(exponent - 14);
    TypeParam::expect_exact(v);
    v[2] = bf16(exponent - 15 - static_cast<int>(rng() % 10));
    const Parts p = TypeParam::expect_right(v);
    const double unit = 2.0 * static_cast<double>(p.scale / digit_gain(TypeParam::kFormat));
    EXPECT_NEAR(p.integers[2] * unit, static_cast<double>(v[2]), std::ldexp(1.0, exponent - 22));
  }
}

TYPED_TEST(ThreePlanes, AThirdDigitStandsOnlyWhereABlockNeedsIt) {
  typename TypeParam::Block v{};
  v[0] = 1.0F;
  v[1] = 0x1p-14F;
  EXPECT_EQ(TypeParam::expect_right(v).flag, 0U);
  v[1] = 0x1p-15F;
  EXPECT_EQ(TypeParam::expect_right(v).flag, 1U);
  v[1] = 0x1p-30F;  // nor does a third digit hold it
  EXPECT_EQ(TypeParam::expect_right(v).flag, 1U);
}

TYPED_TEST(ThreePlanes, LowWordsAreForNumbersFarBelowTheLargestAlone) {
  using Words = typename TypeParam::Words;
  uint8_t record[Words::kBytes], low[Words::kLowBytes];
  const auto pairs_of = [&](const typename TypeParam::Block& v) {
    EXPECT_TRUE((digits::encode_word_block<TypeParam::kFormat, 3>(v.data(), record, low)));
    TypeParam::expect_right(v);
    return Words::low_pairs(record);
  };
  typename TypeParam::Block v{};
  v[0] = 1.0F;
  v[5] = 0x1.FEp-7F;  // all of its 8 bits within 2^-14
  EXPECT_EQ(pairs_of(v), 0U);
  v[5] = 0x1.FEp-8F;
  EXPECT_EQ(pairs_of(v), 1U << Words::word(5) / 2);
  v[5] = 0;
  v[15] = -0x1.02p-12F;
  EXPECT_EQ(pairs_of(v), 1U << Words::word(15) / 2);
  v[14] = 0x1p-30F;  // too small for low words, too
  EXPECT_EQ(pairs_of(v), 1U << Words::word(15) / 2);
  // A largest number whose high part would be 2^15.
  v[0] = std::nextafter(2.0F, 0.0F);
  EXPECT_EQ(pairs_of(v) & 1, 1U);
  EXPECT_EQ(Words::value(record, low, 0), 1 << 22);
}

}  // namespace
}  // namespace octet::cpu
