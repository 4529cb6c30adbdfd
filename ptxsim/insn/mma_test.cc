// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ptxsim/insn/tensor_test.h"
#include "ptxsim/machine/random.h"
#include "ptxsim/matrix/format.h"

namespace octet::ptxsim::insn {
namespace {

using matrix::Format;

// One warp. p0: a's registers [4][lane], p1: b's [2][lane], p2: c's [4][lane], p3: scales [a, b][lane], p4: d [4][lane].
const char kProduct[] = R"(
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<12>;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd9, %r1, 4;
  ld.param.u64 %rd1, [p0]; add.u64 %rd1, %rd1, %rd9;
  ld.global.u32 %r2, [%rd1]; ld.global.u32 %r3, [%rd1+128]; ld.global.u32 %r4, [%rd1+256]; ld.global.u32 %r5, [%rd1+384];
  ld.param.u64 %rd1, [p1]; add.u64 %rd1, %rd1, %rd9;
  ld.global.u32 %r6, [%rd1]; ld.global.u32 %r7, [%rd1+128];
  ld.param.u64 %rd1, [p2]; add.u64 %rd1, %rd1, %rd9;
  ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+128]; ld.global.f32 %f3, [%rd1+256]; ld.global.f32 %f4, [%rd1+384];
  ld.param.u64 %rd1, [p3]; add.u64 %rd1, %rd1, %rd9;
  ld.global.u32 %r8, [%rd1]; ld.global.u32 %r9, [%rd1+128];
  MMA
  ld.param.u64 %rd1, [p4]; add.u64 %rd1, %rd1, %rd9;
  st.global.f32 [%rd1], %f1; st.global.f32 [%rd1+128], %f2; st.global.f32 [%rd1+256], %f3; st.global.f32 [%rd1+384], %f4;
)";

struct Shape {
  const char* instruction;
  uint32_t k, bits;  // bits of a container
  Format a, b;
  uint32_t (*pack)(Format, uint32_t code);  // into its container
  bool is_scaled;
};

uint32_t as_it_is(Format, uint32_t code) { return code; }
// PTX ISA 9.7.14.5.14: e2m1 in the central four bits, the 6-bit formats in the lower six; padding is anything.
uint32_t in_container(Format format, uint32_t code) {
  if (format == Format::kE2m1) return code << 2 | 0xC2;
  return matrix::format_bits(format) == 6 ? code | 0x80 : code;
}

// Small numbers, exact in any order of summation.
uint32_t small_code(Format format, machine::Random& random) {
  for (;;) {
    const auto code =
        static_cast<uint32_t>(random.next() & ((1U << matrix::format_bits(format)) - 1));
    const double value = value_of(format, code);
    if (std::fabs(value) <= 4 && std::floor(4 * value) == 4 * value) return code;
  }
}

void check(const Shape& shape) {
  machine::Random random(9);
  std::vector<uint32_t> a(16 * shape.k), b(8 * shape.k);
  for (uint32_t& code : a) code = small_code(shape.a, random);
  for (uint32_t& code : b) code = small_code(shape.b, random);
  const uint32_t elements = 32 / shape.bits;
  const auto word = [&](const std::vector<uint32_t>& codes, Format format, uint32_t line,
                        uint32_t k) {
    uint32_t out = 0;
    for (uint32_t i = 0; i < elements; ++i)
      out |= shape.pack(format, codes[line * shape.k + k + i]) << (shape.bits * i);
    return out;
  };
  std::vector<uint32_t> a_registers(128), b_registers(64), scales(64);
  std::vector<float> c(128);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t reg = 0; reg < 4; ++reg) {
      c[reg * 32 + lane] = static_cast<float>(random.below(64));
      if (4 * elements * (reg / 2) < shape.k)
        a_registers[reg * 32 + lane] =
            word(a, shape.a, g + 8 * (reg % 2), elements * t + 4 * elements * (reg / 2));
    }
    for (uint32_t reg = 0; reg < 2; ++reg)
      if (4 * elements * reg < shape.k)
        b_registers[reg * 32 + lane] = word(b, shape.b, g, elements * t + 4 * elements * reg);
    scales[lane] = static_cast<uint32_t>(random.below(4)) * 0x01010101U + 0x7D7C7E7DU;
    scales[32 + lane] = static_cast<uint32_t>(random.below(4)) * 0x01010101U + 0x7C7D7D7EU;
  }
  TensorTest test("sm_120a", 32, 16, 5, kProduct);
  test = test.with("MMA", shape.instruction);
  test.input(bytes_of(a_registers));
  test.input(bytes_of(b_registers));
  test.input(bytes_of(c));
  test.input(bytes_of(scales));
  test.output(512);
  const Status status = test.run(machine::Time::kEager, 1);
  ASSERT_TRUE(status.ok()) << status.why;
  const auto got = test.values<float>(4);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t reg = 0; reg < 4; ++reg) {
      const uint32_t row = lane / 4 + 8 * (reg / 2), column = lane % 4 * 2 + reg % 2;
      double want = 0;
      for (uint32_t k = 0; k < shape.k; ++k)
        want +=
            value_of(shape.a, a[row * shape.k + k]) * value_of(shape.b, b[column * shape.k + k]);
      if (shape.is_scaled) {
        // byte-id-a 2, thread-id-a 1: lanes 4 g + 2 and 4 g + 3; byte-id-b 1, thread-id-b 3.
        const uint32_t a_scale = scales[row % 8 * 4 + 2 + row / 8] >> 16 & 0xFF;
        const uint32_t b_scale = scales[32 + column * 4 + 3] >> 8 & 0xFF;
        want *= std::ldexp(1, static_cast<int>(a_scale + b_scale) - 254);
      }
      EXPECT_EQ(got[reg * 32 + lane],
                static_cast<float>(want + static_cast<double>(c[reg * 32 + lane])))
          << shape.instruction << " " << row << " " << column;
    }
  }
}

TEST(Mma, EveryShape) {
  check(
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r2, %r3, %r4, "
       "%r5}, {%r6, %r7}, {%f1, %f2, %f3, %f4};",
       16, 16, Format::kBf16, Format::kBf16, as_it_is, false});
  check(
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r2, %r3, %r4, "
       "%r5}, {%r6, %r7}, {%f1, %f2, %f3, %f4};",
       16, 16, Format::kF16, Format::kF16, as_it_is, false});
  check(
      {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r2, %r3}, "
       "{%r6}, {%f1, %f2, %f3, %f4};",
       8, 16, Format::kBf16, Format::kBf16, as_it_is, false});
  check(
      {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1, %f2, %f3, %f4}, {%r2, %r3, %r4, "
       "%r5}, {%r6, %r7}, {%f1, %f2, %f3, %f4};",
       32, 8, Format::kE4m3, Format::kE5m2, as_it_is, false});
  check(
      {"mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e3m2.e2m3.f32 {%f1, %f2, %f3, %f4}, "
       "{%r2, %r3, %r4, %r5}, {%r6, %r7}, {%f1, %f2, %f3, %f4};",
       32, 8, Format::kE3m2, Format::kE2m3, in_container, false});
  check(
      {"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e4m3."
       "f32.ue8m0 {%f1, %f2, %f3, %f4}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%f1, %f2, %f3, %f4}, "
       "{%r8}, {2, 1}, {%r9}, {1, 3};",
       32, 8, Format::kE2m1, Format::kE4m3, in_container, true});
}

}  // namespace
}  // namespace octet::ptxsim::insn
