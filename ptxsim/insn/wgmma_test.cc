// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ptxsim/insn/tensor_test.h"
#include "ptxsim/machine/random.h"
#include "ptxsim/matrix/format.h"
#include "ptxsim/matrix/swizzle.h"

namespace octet::ptxsim::insn {
namespace {

using matrix::Format;

// Four warps. p0: a's registers [warp][register][lane], p1: 256 bytes of b, p2: d [thread][register]. d = 2 a b.
const char kRegisters[] = R"(
  .reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<8>;
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31;
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
  mul.wide.u32 %rd3, %r2, 512; add.u64 %rd1, %rd1, %rd3;
  mul.wide.u32 %rd3, %r3, 4; add.u64 %rd1, %rd1, %rd3;
  ld.global.u32 %r4, [%rd1]; ld.global.u32 %r5, [%rd1+128]; ld.global.u32 %r6, [%rd1+256]; ld.global.u32 %r7, [%rd1+384];
  mov.u32 %r8, s;
  setp.lt.u32 %p1, %r1, 64;
  mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3;
  @%p1 ld.global.u32 %r9, [%rd2];
  shl.b32 %r10, %r1, 2; add.u32 %r10, %r8, %r10;
  @%p1 st.shared.u32 [%r10], %r9;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r11, %r8, 4; cvt.u64.u32 %rd4, %r11; or.b64 %rd4, %rd4, 0x0000000800080000;
  setp.eq.u32 %p2, %r1, 1000;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, {%r4, %r5, %r6, %r7}, %rd4, %p2, 1, 1;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, {%r4, %r5, %r6, %r7}, %rd4, 1, 1, 1;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %rd5, [p2];
  mul.wide.u32 %rd6, %r1, 16; add.u64 %rd5, %rd5, %rd6;
  st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4};
)";

struct Fp8 {
  std::vector<uint8_t> a = std::vector<uint8_t>(64 * 32), b = std::vector<uint8_t>(8 * 32);
  explicit Fp8(uint64_t seed) {
    machine::Random random(seed);
    constexpr uint8_t kCodes[] = {0x00, 0x30, 0x38, 0x3C, 0x40, 0x44, 0xB8, 0xC4};
    for (uint8_t& code : a) code = kCodes[random.below(8)];
    for (uint8_t& code : b) code = kCodes[random.below(8)];
  }
  float dot(size_t row, size_t n) const {
    double sum = 0;
    for (size_t k = 0; k < 32; ++k)
      sum += value_of(Format::kE4m3, a[row * 32 + k]) * value_of(Format::kE4m3, b[n * 32 + k]);
    return static_cast<float>(sum);
  }
  // Lane 4 g + t of warp w: row 16 w + g + 8 (reg % 2), k 4 t + 16 (reg / 2).
  std::vector<uint8_t> registers() const {
    std::vector<uint8_t> out;
    for (size_t w = 0; w < 4; ++w) {
      for (size_t reg = 0; reg < 4; ++reg) {
        for (size_t lane = 0; lane < 32; ++lane) {
          const size_t row = 16 * w + lane / 4 + 8 * (reg % 2), k = lane % 4 * 4 + 16 * (reg / 2);
          for (size_t i = 0; i < 4; ++i) out.push_back(a[row * 32 + k + i]);
        }
      }
    }
    return out;
  }
  // 16 bytes of k of 8 columns, then the next 16.
  std::vector<uint8_t> shared() const {
    std::vector<uint8_t> out;
    for (size_t half = 0; half < 2; ++half) {
      for (size_t n = 0; n < 8; ++n) {
        for (size_t k = 0; k < 16; ++k) out.push_back(b[n * 32 + half * 16 + k]);
      }
    }
    return out;
  }
};

TensorTest registers_test(const Fp8& problem) {
  TensorTest test("sm_90a", 128, 256, 3, kRegisters);
  test.input(problem.registers());
  test.input(problem.shared());
  test.output(128 * 16);
  return test;
}

bool is_right(const TensorTest& test, const Fp8& problem) {
  const auto got = test.values<float>(2);
  bool right = true;
  for (size_t t = 0; t < 128; ++t) {
    for (size_t reg = 0; reg < 4; ++reg) {
      const size_t lane = t % 32, row = t / 32 * 16 + lane / 4 + 8 * (reg / 2);
      right &= got[t * 4 + reg] == 2 * problem.dot(row, lane % 4 * 2 + reg % 2);
    }
  }
  return right;
}

TEST(Wgmma, AFromRegisters) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Fp8 problem(seed);
    for (const auto time : kTimes) {
      for (const auto arithmetic : {machine::Arithmetic::kExact, machine::Arithmetic::kTruncated}) {
        TensorTest test = registers_test(problem);
        machine::Settings settings;
        settings.time = time;
        settings.seed = seed;
        settings.arithmetic = arithmetic;
        const Status status = test.run(settings);
        ASSERT_TRUE(status.ok()) << status.why;
        EXPECT_TRUE(is_right(test, problem)) << seed;
      }
    }
  }
}

TEST(Wgmma, BrokenKernels) {
  const Fp8 problem(1);
  const TensorTest right = registers_test(problem);
  const auto outcome = [&](const std::string& find, const std::string& replace) {
    TensorTest test = right.with(find, replace);
    const Status status = test.run(machine::Time::kLate, 5);
    if (!status.ok()) return status.why;
    return std::string(is_right(test, problem) ? "right" : "other values");
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(contains(outcome("wgmma.fence.sync.aligned;", ""), "no wgmma.fence before it"));
  EXPECT_TRUE(contains(
      outcome("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned; xor.b32 %r5, %r5, 1;"),
      "has changed in warp"));
  EXPECT_EQ(outcome("wgmma.fence.sync.aligned;", "xor.b32 %r5, %r5, 0; wgmma.fence.sync.aligned;"),
            "right");
  EXPECT_EQ(
      outcome("{%f1, %f2, %f3, %f4}, {%r4, %r5, %r6, %r7}, %rd4, 1, 1, 1;",
              "{_, _, %f3, _}, {%r4, %r5, %r6, %r7}, %rd4, 1, 1, 1;")
              .find("registers of d belong to a product of another shape") != std::string::npos,
      true);
  EXPECT_NE(outcome("wgmma.wait_group.sync.aligned 0;", ""), "right");
  EXPECT_NE(outcome("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"),
            "right");
  EXPECT_NE(outcome("wgmma.commit_group.sync.aligned;", ""), "right");
  EXPECT_NE(outcome("wgmma.commit_group.sync.aligned;",
                    "wgmma.commit_group.sync.aligned; mov.b32 %r5, 0;"),
            "right")
      << "a register of a is read when the product is performed";
  EXPECT_EQ(outcome("fence.proxy.async.shared::cta;", ""), "other values") << "NaN";
  EXPECT_NE(outcome("wgmma.commit_group.sync.aligned;",
                    "wgmma.commit_group.sync.aligned; @%p1 st.shared.u32 [%r10], %r9;"),
            "right")
      << "an operand that a product under way reads";
  EXPECT_EQ(outcome("0x0000000800080000", "0x0000000800000000"), "other values");
  EXPECT_TRUE(
      contains(outcome("0x0000000800080000", "0x0000400800080000"), "bits 46-48 are 1, want 0"));
  EXPECT_TRUE(contains(outcome("%rd4, %p2, 1, 1;", "%rd4, %p2, 1, 2;"), "want 1 or -1"));
  EXPECT_EQ(outcome("%rd4, %p2, 1, 1;", "%rd4, %p2, -1, 1;"), "other values");
}

// a [64, 16] and b [16, 16] bf16 in shared memory, p0 and p1 as they shall lie; d [thread][8].
const char kShared[] = R"(
  .reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<20>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [p0];
  mov.u32 %r2, 0; mov.u32 %r8, s;
COPY:
  shl.b32 %r3, %r2, 9; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;
  cvt.u64.u32 %rd2, %r3; add.u64 %rd2, %rd1, %rd2;
  ld.global.u32 %r5, [%rd2];
  add.u32 %r6, %r8, %r3;
  st.shared.u32 [%r6], %r5;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 24;
  @%p1 bra COPY;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r11, %r8, 4; cvt.u64.u32 %rd4, %r11;
  add.u64 %rd5, %rd4, BSTART;
  or.b64 %rd4, %rd4, ADESC; or.b64 %rd5, %rd5, BDESC;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, %rd4, %rd5, 0, 1, 1, TRANSA, TRANSB;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %rd7, [p1];
  mul.wide.u32 %rd6, %r1, 32; add.u64 %rd7, %rd7, %rd6;
  st.global.v4.f32 [%rd7], {%f1, %f2, %f3, %f4};
  st.global.v4.f32 [%rd7+16], {%f5, %f6, %f7, %f8};
)";

// How a matrix of 16-bit elements lies: element by element from the ISA's canonical layouts, T = 8.
struct Lying {
  const char* name;
  uint64_t descriptor;
  bool is_transposed;
  uint32_t (*element)(uint32_t row, uint32_t k);  // bytes from the start, before the swizzle
  matrix::Swizzle swizzle;
};

uint64_t strides(uint64_t leading, uint64_t stride, uint64_t code) {
  return leading >> 4 << 16 | stride >> 4 << 32 | code << 62;
}

TEST(Wgmma, EverySwizzleInBothMajors) {
  using matrix::Swizzle;
  const Lying cases[] = {
      {"K none", strides(1024, 128, 0), false,
       [](uint32_t row, uint32_t k) {
         return row % 8 * 16 + row / 8 * 128 + k % 8 * 2 + k / 8 * 1024;
       },
       Swizzle::kNone},
      {"K 32", strides(16, 256, 3), false,
       [](uint32_t row, uint32_t k) { return row % 8 * 32 + row / 8 * 256 + k * 2; }, Swizzle::k32},
      {"K 64", strides(16, 512, 2), false,
       [](uint32_t row, uint32_t k) { return row % 8 * 64 + row / 8 * 512 + k * 2; }, Swizzle::k64},
      {"K 128", strides(16, 1024, 1), false,
       [](uint32_t row, uint32_t k) { return row % 8 * 128 + row / 8 * 1024 + k * 2; },
       Swizzle::k128},
      {"MN none", strides(1024, 128, 0), true,
       [](uint32_t row, uint32_t k) {
         return row % 8 * 2 + row / 8 * 128 + k % 8 * 16 + k / 8 * 1024;
       },
       Swizzle::kNone},
      {"MN 32", strides(512, 256, 3), true,
       [](uint32_t row, uint32_t k) {
         return row % 16 * 2 + row / 16 * 512 + k % 8 * 32 + k / 8 * 256;
       },
       Swizzle::k32},
      {"MN 64", strides(1024, 512, 2), true,
       [](uint32_t row, uint32_t k) {
         return row % 32 * 2 + row / 32 * 1024 + k % 8 * 64 + k / 8 * 512;
       },
       Swizzle::k64},
      {"MN 128", strides(2048, 1024, 1), true,
       [](uint32_t row, uint32_t k) { return row % 64 * 2 + k % 8 * 128 + k / 8 * 1024; },
       Swizzle::k128}};
  constexpr uint32_t kBAt = 8192;
  const auto a_value = [](uint32_t row, uint32_t k) { return static_cast<int>(row % 7 + k) - 5; };
  const auto b_value = [](uint32_t n, uint32_t k) {
    return static_cast<int>(n * 3 + k * 5) % 9 - 4;
  };
  for (const Lying& c : cases) {
    std::vector<uint16_t> shared(6144);
    const auto put = [&](uint32_t at, int value) {
      uint32_t bits;
      const auto f = static_cast<float>(value);
      std::memcpy(&bits, &f, 4);
      shared[swizzled(c.swizzle, at) / 2] = static_cast<uint16_t>(bits >> 16);
    };
    for (uint32_t k = 0; k < 16; ++k) {
      for (uint32_t row = 0; row < 64; ++row) put(c.element(row, k), a_value(row, k));
      for (uint32_t n = 0; n < 16; ++n) put(kBAt + c.element(n, k), b_value(n, k));
    }
    TensorTest test("sm_90a", 128, 12288, 2, kShared);
    test.input(bytes_of(shared));
    test.output(128 * 32);
    test = test.with("BSTART", std::to_string(kBAt >> 4))
               .with("ADESC", std::to_string(c.descriptor))
               .with("BDESC", std::to_string(c.descriptor))
               .with("TRANSA", c.is_transposed ? "1" : "0")
               .with("TRANSB", c.is_transposed ? "1" : "0");
    const Status status = test.run(machine::Time::kRandom, 1);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.why;
    const auto got = test.values<float>(1);
    for (uint32_t t = 0; t < 128; ++t) {
      for (uint32_t reg = 0; reg < 8; ++reg) {
        const uint32_t row = t / 32 * 16 + t % 32 / 4 + 8 * (reg / 2 % 2);
        const uint32_t n = t % 4 * 2 + reg % 2 + 8 * (reg / 4);
        int want = 0;
        for (uint32_t k = 0; k < 16; ++k) want += a_value(row, k) * b_value(n, k);
        EXPECT_EQ(got[t * 8 + reg], static_cast<float>(want)) << c.name << " " << row << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace octet::ptxsim::insn
