// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/matrix/instruction_descriptor.h"

#include <gtest/gtest.h>

namespace octet::ptxsim::matrix {
namespace {

std::string why(MmaKind kind, uint32_t descriptor) {
  const auto decoded = decode_instruction_descriptor(kind, descriptor);
  return decoded.ok() ? "" : decoded.status().why;
}

// Constants that the layout oracle made of another library's own descriptor types.
TEST(InstructionDescriptor, E2m1TimesE4m3) {
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t b = 0; b < 4; ++b) {
      const auto d =
          decode_instruction_descriptor(MmaKind::kMxf8f6f4, 0x08820280U | a << 29 | b << 4);
      ASSERT_TRUE(d.ok()) << d.status().why;
      EXPECT_EQ(d->a_format, Format::kE2m1);
      EXPECT_EQ(d->b_format, Format::kE4m3);
      EXPECT_EQ(d->m, 128);
      EXPECT_EQ(d->n, 8);
      EXPECT_EQ(d->k, 32);
      EXPECT_EQ(d->a_scale_id, static_cast<int>(a));
      EXPECT_EQ(d->b_scale_id, static_cast<int>(b));
      EXPECT_EQ(d->a_major, Major::kK);
      EXPECT_FALSE(d->a_is_negated || d->b_is_negated);
    }
  }
}

TEST(InstructionDescriptor, Bf16) {
  const auto d = decode_instruction_descriptor(MmaKind::kF16, 0x08040490);
  ASSERT_TRUE(d.ok()) << d.status().why;
  EXPECT_EQ(d->a_format, Format::kBf16);
  EXPECT_EQ(d->b_format, Format::kBf16);
  EXPECT_EQ(d->m, 128);
  EXPECT_EQ(d->n, 16);
  EXPECT_EQ(d->k, 16);
  const auto flags =
      decode_instruction_descriptor(MmaKind::kF16, 0x08040490U | 1U << 13 | 1U << 16);
  EXPECT_TRUE(flags->a_is_negated);
  EXPECT_FALSE(flags->b_is_negated);
  EXPECT_EQ(flags->a_major, Major::kK);
  EXPECT_EQ(flags->b_major, Major::kMn);
}

TEST(InstructionDescriptor, Formats) {
  const Format want[] = {Format::kE4m3, Format::kE5m2, Format::kE4m3,
                         Format::kE2m3, Format::kE3m2, Format::kE2m1};
  for (uint32_t code = 0; code < 8; ++code) {
    const auto d =
        decode_instruction_descriptor(MmaKind::kMxf8f6f4, 0x08820000U | code << 7 | code << 10);
    EXPECT_EQ(d.ok(), code < 6 && code != 2) << code;
    if (!d.ok()) continue;
    EXPECT_EQ(d->a_format, want[code]);
    EXPECT_EQ(d->b_format, want[code]);
  }
  EXPECT_EQ(why(MmaKind::kF16, 0x08040510),
            "instruction descriptor 0x08040510: kind::f16 has no format 2");
}

TEST(InstructionDescriptor, Refusals) {
  const uint32_t mx = 0x08820280, f16 = 0x08040490;
  for (const int bit : {0, 1, 2, 3, 6, 23, 24, 25, 26, 27, 28, 31})
    EXPECT_NE(why(MmaKind::kMxf8f6f4, mx ^ 1U << bit), "") << bit;
  for (const int bit : {0, 1, 2, 3, 4, 5, 6, 23, 24, 25, 26, 28, 29, 30, 31})
    EXPECT_NE(why(MmaKind::kF16, f16 ^ 1U << bit), "") << bit;
  EXPECT_EQ(why(MmaKind::kMxf8f6f4, 0x10820280),
            "instruction descriptor 0x10820280: m is 256, want 128 for kind::mxf8f6f4, "
            "cta_group::1");
  EXPECT_EQ(why(MmaKind::kMxf8f6f4, 0x08800280),
            "instruction descriptor 0x08800280: n is 0, want a multiple of 8 in 8 ... 256");
  EXPECT_EQ(why(MmaKind::kMxf8f6f4, 0x08820280U | 1U << 15),
            "instruction descriptor 0x08828280: a is transposed, which e2m1 cannot be");
  EXPECT_EQ(why(MmaKind::kMxf8f6f4, 0x08820280U | 1U << 16),
            "instruction descriptor 0x08830280: n is 8, want a multiple of 16 in 16 ... 256");
  EXPECT_EQ(decode_instruction_descriptor(MmaKind::kF16, f16 ^ 1U << 4).status().code,
            Code::kUnsupported);
}

TEST(InstructionDescriptor, LargestN) {
  const auto d = decode_instruction_descriptor(MmaKind::kF16, 0x08000490U | 32U << 17);
  ASSERT_TRUE(d.ok()) << d.status().why;
  EXPECT_EQ(d->n, 256);
  EXPECT_NE(why(MmaKind::kF16, 0x08000490U | 33U << 17), "");
}

}  // namespace
}  // namespace octet::ptxsim::matrix
