// SPDX-License-Identifier: Apache-2.0
// What decode refuses, with line and column; names and their scopes; where parameters and shared variables are.
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

// Of statements that begin on line 6.
std::string refusal(const std::string& statements) {
  const auto program = decoded(kernel_text(statements));
  return program.ok() ? "" : program.status().why;
}

TEST(Decode, RefusesNamesThatNobodyDeclared) {
  EXPECT_EQ(refusal("add.s32 %r0, %x1, 1;"),
            "line 6, column 14: 'add.s32 %r0, %x1, 1;': '%x1' is not declared here");
  EXPECT_EQ(refusal("add.s32 %r64, %r1, 1;"),
            "line 6, column 9: 'add.s32 %r64, %r1, 1;': '%r64' is not declared as a register here");
  EXPECT_NE(refusal("add.s32 %r07, %r1, 1;"), "");
  EXPECT_EQ(refusal("@%p9 add.s32 %r0, %r1, 1;"), "line 6, column 1: '%p9' is no predicate here");
  EXPECT_EQ(refusal("@%r1 add.s32 %r0, %r1, 1;"), "line 6, column 1: '%r1' is no predicate here");
  EXPECT_EQ(refusal("bra NOWHERE;"), "line 6, column 5: no label 'NOWHERE' here");
  EXPECT_NE(refusal("{ A: ret; } bra A;").find("no label 'A' here"), std::string::npos);
  EXPECT_EQ(refusal("{ .reg .b32 x; bra A; } A: ret;"), "");
}

TEST(Decode, RefusesNamesDeclaredTwice) {
  EXPECT_NE(refusal("A: A: ret;").find("'A' is declared twice"), std::string::npos);
  EXPECT_NE(refusal(".reg .b32 x; .reg .b32 x;").find("'x' is declared twice"), std::string::npos);
  EXPECT_NE(refusal(".reg .b32 %x<2>; .reg .b32 %x<3>;").find("'%x<' is declared twice"),
            std::string::npos);
}

TEST(Decode, InnerScopesHideOuterOnes) {
  EXPECT_EQ(word_of(".reg .b32 x; mov.u32 x, 1; { .reg .b32 x; mov.u32 x, 2; } mov.u32 %r0, x;"),
            1u);
  EXPECT_EQ(word_of("mov.u32 %r1, 1; { .reg .b32 %r<2>; mov.u32 %r1, 2; } mov.u32 %r0, %r1;"), 1u);
}

TEST(Decode, RefusesWidthsAndKindsThatDoNotFit) {
  EXPECT_EQ(refusal("add.s32 %r0, %rd1, 1;"),
            "line 6, column 14: 'add.s32 %r0, %rd1, 1;': '%rd1' has 64 bits, want 32");
  EXPECT_NE(refusal("add.s32 %r0, %f1, 1;").find("'%f1' is .f32, want .s32"), std::string::npos);
  EXPECT_NE(refusal("add.f32 %f0, %f1, 1;").find("the literal is no value of .f32"),
            std::string::npos);
  EXPECT_EQ(refusal("add.f32 %f0, %f1, 1.5;"), "");
  EXPECT_NE(refusal("mov.b128 %rq0, 1;").find("the literal is no value of .b128"),
            std::string::npos);
  EXPECT_NE(refusal("add.s32 %r0, !%r1, 1;").find("'!' stands before predicates alone"),
            std::string::npos);
  EXPECT_NE(refusal("ld.global.u64 %r0, [%in];").find("want 64 or more"), std::string::npos);
  EXPECT_NE(refusal("ld.global.u32 %r0, [%rs1];").find("an address has 32 or 64"),
            std::string::npos);
  EXPECT_NE(refusal("ld.global.v4.u32 {%r0, %r1}, [%in];").find("want a vector of 4"),
            std::string::npos);
  EXPECT_NE(refusal("setp.ltu.s32 %p0, %r0, %r1;").find("one of floats"), std::string::npos);
}

TEST(Decode, RefusesWrongCountsAndModifiers) {
  EXPECT_EQ(refusal("add.s32 %r0, %r1;"),
            "line 6, column 1: 'add.s32 %r0, %r1;': 2 operands, want 3");
  EXPECT_NE(refusal("add.s32.ca %r0, %r1, 1;").find("the modifier '.ca' is not known here"),
            std::string::npos);
  EXPECT_NE(refusal("mul.s32 %r0, %r1, 1;").find("want one of the modifiers .lo .hi .wide"),
            std::string::npos);
  EXPECT_NE(refusal("lop3.b32 %r0, %r1, %r2, %r3, 256;").find("want a table of 8 bits"),
            std::string::npos);
  EXPECT_NE(refusal("cvt.s32.f32 %r0, %f1;").find("want .rni, .rzi, .rmi or .rpi"),
            std::string::npos);
  EXPECT_NE(refusal("cp.async.cg.shared.global [%r1], [%in], 8;").find("want 16 bytes"),
            std::string::npos);
}

TEST(Decode, RefusesWhatIsNotModelledAsUnsupported) {
  for (const char* statement :
       {"brkpt;", "call foo;", "add.rz.f32 %f0, %f1, %f2;", "mul24.lo.s32 %r0, %r1, %r2;",
        "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd1, {%f4, %f5}];"}) {
    const auto program = decoded(kernel_text(statement));
    ASSERT_FALSE(program.ok()) << statement;
    EXPECT_EQ(program.status().code, Code::kUnsupported) << program.status().why;
    EXPECT_EQ(program.status().why.find("line 6, column 1: "), 0u);
  }
}

TEST(Decode, FindsAKernelByAPartOfItsName) {
  const auto module = text::parse(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.entry first_a() { ret; }\n.entry first_b() "
      "{ ret; }\n");
  ASSERT_TRUE(module.ok());
  EXPECT_TRUE(decode(*module, "_b").ok());
  const auto two = decode(*module, "first");
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.status().why, "2 kernels are named 'first', want one of:\n  first_a\n  first_b");
}

TEST(Decode, PlacesParametersAndSharedVariables) {
  const auto module = text::parse(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 "
      "dynamic[];\n.shared .align 4 .b8 unused[64];\n"
      ".entry k(.param .u8 a, .param .align 64 .b8 b[128], .param .u64 c) .maxntid 128, 1, 1 "
      ".reqnctapercluster 2, 1, 1 {\n"
      ".reg .b32 %r<2>; .shared .b8 x[3]; .shared .u32 y; mov.u32 %r0, dynamic; mov.u32 %r1, y; "
      "ret; }\n");
  ASSERT_TRUE(module.ok()) << module.status().why;
  const auto program = decode(*module, "k");
  ASSERT_TRUE(program.ok()) << program.status().why;
  EXPECT_EQ(program->parameters[1].offset, 64u);
  EXPECT_EQ(program->parameters[2].offset, 192u);
  EXPECT_EQ(program->parameter_bytes, 200u);
  EXPECT_EQ(program->most_threads[0], 128u);
  EXPECT_EQ(program->cluster[0], 2u);
  ASSERT_EQ(program->shared.size(), 3u);
  EXPECT_EQ(program->shared[1].offset, 1028u);
  EXPECT_EQ(program->static_shared_bytes, 2048u);  // where `dynamic` begins
}

}  // namespace
}  // namespace octet::ptxsim::insn
