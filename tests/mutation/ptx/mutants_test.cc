// SPDX-License-Identifier: Apache-2.0
#include "mutants.h"

#include <gtest/gtest.h>

#include "changes.h"
#include "ptxsim/text/parse.h"
#include "ptxsim/text/print.h"

namespace octet::mutation {
namespace {

using namespace ptxsim::text;  // NOLINT(google-build-using-namespace): the tree

// A wait and a copy by one thread of kernel k: the wait inlined from a header of instructions, which its caller take() is named for.
constexpr const char* kModule = R"(
.version 8.8
.target sm_90a
.address_size 64
.file 1 "/x/src/sm90/k.cu"
.file 2 "/x/src/sm90/ptx/mbarrier.cuh"
.visible .entry k(.param .u64 p)
{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<4>;
.loc 1 10 3
setp.ne.s32 %p1, %r1, 0;
@%p1 bra $after;
.loc 1 4 3, function_name $L__info_string0, inlined_at 1 10 3
.loc 2 7 3, function_name $L__info_string1, inlined_at 1 4 3
$again:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r3;
@!%p2 bra $again;
.loc 1 12 3
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 64, [%r2];
$after:
ret;
}
.section .debug_str
{
$L__info_string0:
.b8 95,90,78,49,97,52,116,97,107,101,69,118,0
$L__info_string1:
.b8 119,97,105,116,0
}
)";

std::vector<std::string> names_of(const std::vector<Mutant>& all) {
  std::vector<std::string> names;
  for (const Mutant& m : all) names.push_back(m.name);
  return names;
}

TEST(Mutants, AreNamedByTheFunctionThatTheyAreInlinedFrom) {
  const auto module = parse(kModule);
  ASSERT_TRUE(module.ok()) << module.status().why;
  const auto all = find_mutants(*module);
  const std::vector<std::string> want = {"k/k/bra#1/negated",
                                         "k/take/mbarrier.try_wait#1/passes at once",
                                         "k/take/mbarrier.try_wait#1/parity",
                                         "k/take/mbarrier.try_wait#1/relaxed",
                                         "k/take/bra#1/negated",
                                         "k/k/cp.async.bulk#1/removed",
                                         "k/k/cp.async.bulk#1/source +16",
                                         "k/k/cp.async.bulk#1/target +16",
                                         "k/k/cp.async.bulk#1/bytes -16",
                                         "k/k/cp.async.bulk#1/next barrier"};
  EXPECT_EQ(names_of(all), want);
  EXPECT_EQ(all[1].where, "k.cu:4");
  EXPECT_EQ(all[1].kind, "wait");
}

TEST(Mutants, ChangeOneInstructionOfATextThatCanBeReadAgain) {
  const auto module = parse(kModule);
  ASSERT_TRUE(module.ok()) << module.status().why;
  const std::string before = print(*module);
  for (const Mutant& m : find_mutants(*module)) {
    const std::string text = print(mutated(*module, m));
    EXPECT_NE(text, before) << m.name;
    EXPECT_TRUE(parse(text).ok()) << m.name << "\n" << text;
  }
}

TEST(Mutants, OfAWait) {
  const auto module = parse(kModule);
  ASSERT_TRUE(module.ok());
  const auto all = find_mutants(*module);
  const auto shown = [&](size_t i) { return print(mutated(*module, all[i])); };
  EXPECT_NE(shown(1).find("setp.eq.u32 %p2, 0, 0;"), std::string::npos);
  EXPECT_NE(shown(2).find("xor.b32 %mutated, %r3, 1;"), std::string::npos);
  EXPECT_NE(shown(3).find("mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64"),
            std::string::npos);
  EXPECT_NE(shown(4).find("@%p2 bra $again;"), std::string::npos);
  EXPECT_NE(shown(8).find("[%rd1], 48, [%r2];"), std::string::npos);
}

TEST(Changes, AreThoseOfTheLongestOpcode) {
  Instruction insn;
  insn.opcode = "cp";
  insn.modifiers = {"async", "bulk", "tensor", "2d"};
  EXPECT_EQ(site_of(insn).opcode, "cp.async.bulk.tensor");
  insn.modifiers = {"async", "cg"};
  EXPECT_EQ(site_of(insn).opcode, "cp.async");
  insn.opcode = "add";
  EXPECT_TRUE(site_of(insn).kind.empty());
}

}  // namespace
}  // namespace octet::mutation
