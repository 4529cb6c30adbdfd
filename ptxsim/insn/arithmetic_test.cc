// SPDX-License-Identifier: Apache-2.0
// Integers, bits, comparisons and moves against their definitions, written out by hand.
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

struct Case {
  const char* statements;
  uint64_t want;
};

// %r1 = 7, %r2 = -3, %r3 = 0x80000000, %r4 = 0x12345678, %rd1 = 2^40 + 5, %rd2 = -9, %rs1 = 0xFFFE, %rs2 = 3.
const std::string kValues =
    "mov.u32 %r1, 7; mov.u32 %r2, -3; mov.u32 %r3, 0x80000000; mov.u32 %r4, 0x12345678; mov.u64 "
    "%rd1, 0x10000000005; mov.u64 %rd2, -9; "
    "mov.u16 %rs1, 0xFFFE; mov.u16 %rs2, 3; mov.u32 %r0, 0; mov.u64 %rd0, 0;\n";

void expect_words(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(word_of(kValues + c.statements), c.want) << c.statements;
}
void expect_longs(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(long_of(kValues + c.statements), c.want) << c.statements;
}

TEST(Integer, AddsSubtractsAndWraps) {
  expect_words({{"add.s32 %r0, %r1, %r2;", 4},
                {"add.u32 %r0, %r3, %r3;", 0},
                {"sub.s32 %r0, %r2, %r1;", uint32_t(-10)},
                {"add.u16 %rs0, %rs1, %rs2; cvt.u32.u16 %r0, %rs0;", 1},
                {"sub.s16 %rs0, %rs2, %rs1; cvt.u32.u16 %r0, %rs0;", 5},
                {"neg.s32 %r0, %r3;", 0x80000000},
                {"abs.s32 %r0, %r2;", 3}});
  expect_longs({{"add.s64 %rd0, %rd1, %rd2;", 0xFFFFFFFFFC}, {"neg.s64 %rd0, %rd2;", 9}});
}

TEST(Integer, MultipliesLowHighAndWide) {
  expect_words({{"mul.lo.s32 %r0, %r1, %r2;", uint32_t(-21)},
                {"mul.hi.s32 %r0, %r3, %r1;", uint32_t(-4)},
                {"mul.hi.u32 %r0, %r3, %r1;", 3},
                {"mul.wide.u16 %r0, %rs1, %rs2;", 0x2FFFA},
                {"mul.wide.s16 %r0, %rs1, %rs2;", uint32_t(-6)},
                {"mad.lo.s32 %r0, %r1, %r2, %r1;", uint32_t(-14)}});
  expect_longs({{"mul.wide.s32 %rd0, %r2, %r1;", uint64_t(-21)},
                {"mul.wide.u32 %rd0, %r2, %r1;", 0x6FFFFFFEB},
                {"mad.wide.s32 %rd0, %r2, %r1, %rd1;", 0x10000000005 - 21},
                {"mul.hi.u64 %rd0, %rd1, %rd1;", 0x10000},
                {"mul.hi.s64 %rd0, %rd2, %rd1;", uint64_t(-1)},
                {"mul.lo.s64 %rd0, %rd2, %rd2;", 81}});
}

TEST(Integer, DividesTowardsZero) {
  expect_words({{"div.s32 %r0, %r2, 2;", uint32_t(-1)},
                {"rem.s32 %r0, %r2, 2;", uint32_t(-1)},
                {"div.u32 %r0, %r3, %r1;", 0x12492492},
                {"rem.u32 %r0, %r3, %r1;", 2},
                {"div.s32 %r0, %r3, -1;", 0x80000000}});
  expect_longs(
      {{"div.s64 %rd0, %rd2, 2;", uint64_t(-4)}, {"rem.s64 %rd0, %rd2, 2;", uint64_t(-1)}});
}

TEST(Integer, TakesTheLesserAndTheGreaterBySign) {
  expect_words({{"min.s32 %r0, %r1, %r2;", uint32_t(-3)},
                {"min.u32 %r0, %r1, %r2;", 7},
                {"max.s32 %r0, %r1, %r3;", 7},
                {"max.u32 %r0, %r1, %r3;", 0x80000000}});
  expect_longs(
      {{"min.s64 %rd0, %rd1, %rd2;", uint64_t(-9)}, {"max.u64 %rd0, %rd1, %rd2;", uint64_t(-9)}});
}

TEST(Bits, CombinesAndShifts) {
  expect_words({{"and.b32 %r0, %r4, 0xFF00;", 0x5600},
                {"or.b32 %r0, %r4, %r3;", 0x92345678},
                {"xor.b32 %r0, %r4, -1;", 0xEDCBA987},
                {"not.b32 %r0, %r4;", 0xEDCBA987},
                {"cnot.b32 %r0, 0;", 1},
                {"shl.b32 %r0, %r4, 4;", 0x23456780},
                {"shl.b32 %r0, %r4, 32;", 0},
                {"shr.u32 %r0, %r3, 31;", 1},
                {"shr.s32 %r0, %r3, 31;", 0xFFFFFFFF},
                {"shr.s32 %r0, %r3, 99;", 0xFFFFFFFF},
                {"shl.b16 %rs0, %rs1, 4; cvt.u32.u16 %r0, %rs0;", 0xFFE0},
                {"shr.s16 %rs0, %rs1, 1; cvt.u32.u16 %r0, %rs0;", 0xFFFF},
                {"shf.l.wrap.b32 %r0, %r4, %r1, 36;", 0x71},
                {"shf.l.clamp.b32 %r0, %r4, %r1, 36;", 0x12345678},
                {"shf.r.wrap.b32 %r0, %r4, %r1, 4;", 0x71234567},
                {"shf.r.clamp.b32 %r0, %r4, %r1, 40;", 7}});
  expect_longs({{"shl.b64 %rd0, %rd1, 20;", 0x1000000000500000},
                {"shr.s64 %rd0, %rd2, 2;", uint64_t(-3)},
                {"shl.b64 %rd0, %rd1, 64;", 0}});
}

TEST(Bits, LooksUpThreeInputs) {
  // 0xEA = (a & b) | c, 0x96 = a ^ b ^ c.
  expect_words({{"lop3.b32 %r0, %r4, 0xF0F0F0F0, 1, 0xEA;", 0x10305071},
                {"lop3.b32 %r0, 0xFF, 0xF0F, 0x3333, 0x96;", 0xFF ^ 0xF0F ^ 0x3333},
                {"lop3.b32 %r0, %r4, %r1, %r2, 0xF0;", 0x12345678}});
}

TEST(Bits, PermutesBytes) {
  expect_words({{"prmt.b32 %r0, %r4, 0xAABBCCDD, 0x7210;", 0xAA345678},
                {"prmt.b32 %r0, %r4, 0xAABBCCDD, 0x4567;", 0xDDCCBBAA},
                {"prmt.b32 %r0, %r4, 0xAABBCCDD, 0x8F8F;", 0x00FF00FF}});
}

TEST(Bits, ExtractsAndInserts) {
  expect_words({{"bfe.u32 %r0, %r4, 8, 8;", 0x56},
                {"bfe.s32 %r0, 0x0000F000, 12, 4;", 0xFFFFFFFF},
                {"bfe.s32 %r0, %r3, 28, 8;", 0xFFFFFFF8},
                {"bfe.u32 %r0, %r4, 8, 0;", 0},
                {"bfi.b32 %r0, 0xF, %r4, 8, 4;", 0x12345F78}});
  expect_longs(
      {{"bfi.b64 %rd0, %rd2, 0, 32, 32;", 0xFFFFFFF700000000}, {"bfe.u64 %rd0, %rd1, 40, 8;", 1}});
}

TEST(Bits, CountsAndFinds) {
  expect_words({{"clz.b32 %r0, %r4;", 3},
                {"clz.b32 %r0, 0;", 32},
                {"clz.b64 %r0, %rd1;", 23},
                {"popc.b32 %r0, %r4;", 13},
                {"popc.b64 %r0, %rd2;", 63},
                {"brev.b32 %r0, %r1;", 0xE0000000},
                {"bfind.u32 %r0, %r4;", 28},
                {"bfind.shiftamt.u32 %r0, %r4;", 3},
                {"bfind.u32 %r0, 0;", 0xFFFFFFFF},
                {"bfind.s32 %r0, %r2;", 1},
                {"fns.b32 %r0, 0xAAAAAAAA, 3, 1;", 3},
                {"fns.b32 %r0, 0xAAAAAAAA, 2, 2;", 5},
                {"fns.b32 %r0, 0xAAAAAAAA, 2, -1;", 1},
                {"fns.b32 %r0, 0xAAAAAAAA, 31, 2;", 0xFFFFFFFF},
                {"fns.b32 %r0, 0xAAAAAAAA, 3, 0;", 3},
                {"fns.b32 %r0, 0xAAAAAAAA, 2, 0;", 0xFFFFFFFF}});
  EXPECT_NE(error_of("fns.b32 %r0, 1, 32, 1;").find("want at most 31"), std::string::npos);
}

TEST(Compare, ComparesByTypeAndCombines) {
  const auto holds = [](const std::string& setp) {
    return word_of(kValues + setp + " selp.u32 %r0, 1, 2, %p0;");
  };
  EXPECT_EQ(holds("setp.lt.s32 %p0, %r2, %r1;"), 1u);
  EXPECT_EQ(holds("setp.lt.u32 %p0, %r2, %r1;"), 2u);
  EXPECT_EQ(holds("setp.hs.u32 %p0, %r2, %r1;"), 1u);
  EXPECT_EQ(holds("setp.gt.s64 %p0, %rd2, %rd1;"), 2u);
  EXPECT_EQ(holds("setp.eq.s16 %p0, %rs1, -2;"), 1u);
  EXPECT_EQ(holds("setp.ge.u16 %p0, %rs1, %rs2;"), 1u);
  EXPECT_EQ(holds("setp.ge.s16 %p0, %rs1, %rs2;"), 2u);
  EXPECT_EQ(holds("setp.eq.s32 %p1, 0, 0; setp.lt.and.s32 %p0, %r1, %r2, %p1;"), 2u);
  EXPECT_EQ(holds("setp.eq.s32 %p1, 0, 0; setp.lt.or.s32 %p0, %r1, %r2, %p1;"), 1u);
  EXPECT_EQ(holds("setp.lt.s32 %p1|%p0, %r1, %r2;"), 1u);
  EXPECT_EQ(holds("setp.eq.s32 %p1, 0, 0; setp.eq.and.s32 %p0, 1, 1, !%p1;"), 2u);
}

TEST(Compare, KnowsUnorderedFloats) {
  const auto holds = [](const std::string& comparison, const std::string& a) {
    return word_of("mov.f32 %f1, " + a + "; setp." + comparison +
                   ".f32 %p0, %f1, 0f3F800000; selp.u32 %r0, 1, 2, %p0;");
  };
  EXPECT_EQ(holds("lt", "0f00000000"), 1u);
  EXPECT_EQ(holds("lt", "0f7FC00000"), 2u);
  EXPECT_EQ(holds("ltu", "0f7FC00000"), 1u);
  EXPECT_EQ(holds("ne", "0f7FC00000"), 2u);
  EXPECT_EQ(holds("neu", "0f7FC00000"), 1u);
  EXPECT_EQ(holds("num", "0f7FC00000"), 2u);
  EXPECT_EQ(holds("nan", "0f7FC00000"), 1u);
}

TEST(Move, PacksAndUnpacks) {
  expect_longs({{"mov.b64 %rd0, {%r1, %r2};", 0xFFFFFFFD00000007}});
  expect_words({{"mov.b32 {%rs3, %rs4}, %r4; cvt.u32.u16 %r0, %rs4;", 0x1234},
                {"mov.b64 {_, %r0}, %rd1;", 0x100},
                {"mov.b32 %r0, {%rs1, %rs2};", 0x3FFFE},
                {"mov.b128 %rq0, {%rd1, %rd2}; mov.b128 {%rd3, %rd4}, %rq0; cvt.u32.u64 %r0, %rd4;",
                 uint32_t(-9)}});
}

TEST(Move, ChangesPredicates) {
  EXPECT_EQ(word_of("setp.eq.s32 %p1, 1, 1; not.pred %p2, %p1; or.pred %p0, %p1, %p2; xor.pred "
                    "%p3, %p0, %p1; selp.u32 %r0, 1, 2, %p3;"),
            2u);
}

// nvcc writes a constant true as -1.
TEST(Predicate, IsSetByALiteral) {
  for (const auto& [literal, want] : {std::pair{"-1", 7U}, {"1", 7U}, {"0", 9U}})
    EXPECT_EQ(word_of(std::string("mov.pred q, ") + literal + "; selp.u32 %r0, 7, 9, q;"), want);
  EXPECT_NE(error_of("mov.pred q, 2;").find("want a predicate"), std::string::npos);
}

}  // namespace
}  // namespace octet::ptxsim::insn
