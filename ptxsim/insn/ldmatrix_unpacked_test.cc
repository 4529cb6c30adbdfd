// SPDX-License-Identifier: Apache-2.0
#include "ptxsim/insn/tensor_test.h"

namespace octet::ptxsim::insn {
namespace {

// One warp copies p0's 512 bytes, 16 a lane, to shared memory and loads four matrices of them to p1 [register][lane].
const char kUnpack[] = R"(
  .reg .b32 %r<20>; .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
  mul.wide.u32 %rd3, %r1, 16; add.u64 %rd1, %rd1, %rd3;
  ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];
  mov.u32 %r6, s; shl.b32 %r7, %r1, 4; add.u32 %r6, %r6, %r7;
  st.shared.v4.u32 [%r6], {%r2, %r3, %r4, %r5};
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.FORMAT {%r8, %r9, %r10, %r11}, [%r6];
  mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd2], %r8; st.global.u32 [%rd2+128], %r9; st.global.u32 [%rd2+256], %r10; st.global.u32 [%rd2+384], %r11;
)";

TEST(LdmatrixUnpacked, FourAndSixBitsBecomeBytes) {
  for (const uint32_t bits : {4U, 6U}) {
    std::vector<uint8_t> rows(512);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i * 37 + 11);
    TensorTest test("sm_120a", 32, 512, 2, kUnpack);
    test = test.with("FORMAT", bits == 4 ? "b4x16_p64" : "b6x16_p32");
    test.input(rows);
    test.output(512);
    const Status status = test.run(machine::Time::kEager, 1);
    ASSERT_TRUE(status.ok()) << status.why;
    const auto got = test.values<uint8_t>(1);
    for (uint32_t m = 0; m < 4; ++m) {
      for (uint32_t row = 0; row < 8; ++row) {
        for (uint32_t e = 0; e < 16; ++e) {
          uint32_t want = 0;
          for (uint32_t bit = 0; bit < bits; ++bit) {
            const uint32_t at = bits * e + bit;
            want |= (rows[(m * 8 + row) * 16 + at / 8] >> at % 8 & 1U) << bit;
          }
          EXPECT_EQ(got[m * 128 + (row * 4 + e / 4) * 4 + e % 4], want) << m << row << e;
        }
      }
    }
  }
}

}  // namespace
}  // namespace octet::ptxsim::insn
