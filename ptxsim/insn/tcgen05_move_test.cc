// SPDX-License-Identifier: Apache-2.0
// tcgen05.ld and st in every shape, allocation, and the rules of both.
#include "ptxsim/insn/tcgen05_test.h"

namespace octet::ptxsim::insn {
namespace {

// Thread t stores 100 t + i to column i; what a load of another shape gives follows from the shape's own text.
const char kStore[] = R"(
  mul.lo.u32 %r3, %me, 100;
  add.u32 %r4, %r3, 1; add.u32 %r5, %r3, 2; add.u32 %r6, %r3, 3;
  add.u32 %r7, %r3, 4; add.u32 %r8, %r3, 5; add.u32 %r9, %r3, 6; add.u32 %r10, %r3, 7;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r2], {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10};
  tcgen05.wait::st.sync.aligned;
)";
const char kLoad[] = R"(
  tcgen05.ld.sync.aligned.SHAPE.b32 {%r11, %r12, %r13, %r14}, [%r2+LANE];
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 %rd1, [p0];
  mul.wide.u32 %rd2, %me, 16;
  add.u64 %rd1, %rd1, %rd2;
  st.global.v4.u32 [%rd1], {%r11, %r12, %r13, %r14};
)";

TensorTest store_and_load(const std::string& shape, bool is_upper) {
  TensorTest test("sm_100a", 128, 16, 1, with_tensor_memory(std::string(kStore) + kLoad));
  test.output(128 * 16);
  return test.with("SHAPE", shape).with("LANE", is_upper ? "1048576" : "0");
}

TEST(Tcgen05Move, StoreAndLoadInEveryShape) {
  struct Case {
    const char* shape;
    bool is_upper;
    uint32_t (*want)(uint32_t lane, uint32_t i);  // 100 * row + column
  };
  const Case cases[] = {
      {"32x32b.x4", false, [](uint32_t l, uint32_t i) { return 100 * l + i; }},
      {"16x64b.x4", false,
       [](uint32_t l, uint32_t i) { return 100 * (l / 4 + 8 * (l % 2)) + 2 * i + l / 2 % 2; }},
      {"16x128b.x2", true,
       [](uint32_t l, uint32_t i) {
         return 100 * (16 + l / 4 + 8 * (i % 2)) + 4 * (i / 2) + l % 4;
       }},
      {"16x256b.x1", false,
       [](uint32_t l, uint32_t i) { return 100 * (l / 4 + 8 * (i / 2)) + 2 * (l % 4) + i % 2; }},
      {"16x256b.x1", true, [](uint32_t l, uint32_t i) {
         return 100 * (16 + l / 4 + 8 * (i / 2)) + 2 * (l % 4) + i % 2;
       }}};
  for (const Case& c : cases) {
    for (const auto time : kTimes) {
      TensorTest test = store_and_load(c.shape, c.is_upper);
      const Status status = test.run(time, 7);
      ASSERT_TRUE(status.ok()) << c.shape << ": " << status.why;
      const auto got = test.values<uint32_t>(0);
      for (uint32_t t = 0; t < 128; ++t) {
        for (uint32_t i = 0; i < 4; ++i)
          EXPECT_EQ(got[t * 4 + i], 3200 * (t / 32) + c.want(t % 32, i)) << c.shape << " " << t;
      }
    }
  }
}

std::string late_error(const TensorTest& test) {
  TensorTest copy = test;
  return copy.run(machine::Time::kLate, 3).why;
}

TEST(Tcgen05Move, RulesOfLoadsAndStores) {
  const TensorTest right = store_and_load("32x32b.x4", false);
  EXPECT_EQ(late_error(right), "");
  EXPECT_TRUE(contains(late_error(right.with("tcgen05.wait::st.sync.aligned;", "")),
                       "tcgen05.ld reads tensor memory that tcgen05.st"))
      << late_error(right.with("tcgen05.wait::st.sync.aligned;", ""));
  EXPECT_TRUE(contains(late_error(right.with("tcgen05.wait::ld.sync.aligned;", "")),
                       "no tcgen05.wait::ld has waited for"))
      << late_error(right.with("tcgen05.wait::ld.sync.aligned;", ""));
  EXPECT_TRUE(contains(
      late_error(right.with("bar.sync 0;\n  tcgen05.fence::after_thread_sync;", "bar.sync 0;")),
      "no tcgen05.fence::after_thread_sync since the last wait"));
  EXPECT_TRUE(
      contains(late_error(right.with("[%r2+0]", "[%taddr]")), "lane 0 of tensor memory, warp "))
      << late_error(right.with("[%r2+0]", "[%taddr]"));
  EXPECT_TRUE(contains(late_error(right.with("[%r2+0]", "[%r2+32]")), "is not allocated"));
  EXPECT_TRUE(contains(late_error(right.with("[%r2+0]", "[%r2+8]")), "has no value"));
  EXPECT_TRUE(contains(
      late_error(right.with("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, 32;", "")),
      "32 columns of tensor memory are not deallocated"));
  EXPECT_TRUE(
      contains(late_error(right.with("[%slot], 32", "[%slot], 48")), "want a power of two"));
  EXPECT_TRUE(contains(late_error(right.with("cta_group::1", "cta_group::2")), "not modelled"));
}

// Without fence::before_thread_sync the barrier signals nothing about tensor memory (R2).
TEST(Tcgen05Move, ABarrierNeedsTheFenceBefore) {
  const TensorTest right = store_and_load("32x32b.x4", false);
  const std::string tail =
      "tcgen05.fence::before_thread_sync;\n  bar.sync 0;\n  @!%first bra FREED;";
  EXPECT_TRUE(contains(late_error(right.with(tail, "bar.sync 0;\n  @!%first bra FREED;")),
                       "no tcgen05.fence::before_thread_sync"));
}

}  // namespace
}  // namespace octet::ptxsim::insn
