// SPDX-License-Identifier: Apache-2.0
// Everything within a function's braces.
#include "ptxsim/text/test_parse.h"

namespace octet::ptxsim::text {
namespace {

using Kind = Operand::Kind;

Instruction instruction(const std::string& text) { return statement_of<Instruction>(text); }
Operand operand(const std::string& text) { return instruction("op " + text + ";").operands.at(0); }

TEST(ParseBody, ReadsAnInstruction) {
  const Instruction node = instruction("  ld.global.L2::128B.v2.u32 {%r1, %r2}, [%rd1+8];");
  EXPECT_EQ(node.opcode, "ld");
  EXPECT_EQ(node.modifiers, (std::vector<std::string>{"global", "L2::128B", "v2", "u32"}));
  EXPECT_EQ(node.place.line, 5);
  EXPECT_EQ(node.place.column, 3);
  EXPECT_FALSE(node.guard);
  ASSERT_EQ(node.operands.size(), 2U);
  EXPECT_EQ(node.operands[1].place.column, 41);
  EXPECT_TRUE(instruction("ret;").operands.empty());
  EXPECT_EQ(instruction("griddepcontrol.wait;").modifiers, std::vector<std::string>{"wait"});
}

TEST(ParseBody, ReadsGuards) {
  const Instruction node = instruction("@!%p1 bra.uni $L__BB0_1;");
  EXPECT_EQ(node.guard->name, "%p1");
  EXPECT_TRUE(node.guard->is_negated);
  EXPECT_EQ(node.guard->place.column, 1);
  EXPECT_EQ(node.place.column, 7);
  EXPECT_FALSE(instruction("@p exit;").guard->is_negated);
}

TEST(ParseBody, ReadsNames) {
  EXPECT_EQ(operand("%r1").kind, Kind::kName);
  EXPECT_EQ(operand("%r1").name, "%r1");
  EXPECT_EQ(operand("%tid.x").name, "%tid");
  EXPECT_EQ(operand("%tid.x").component, "x");
  EXPECT_EQ(operand("%clock64").component, "");
  EXPECT_EQ(operand("symbol+8").offset, 8);
  EXPECT_TRUE(operand("!%p1").is_negated);
  EXPECT_EQ(operand("!%p1").place.column, 4);
  EXPECT_EQ(operand("_").kind, Kind::kSink);
  EXPECT_EQ(operand("_x").kind, Kind::kName);
}

TEST(ParseBody, ReadsNumbers) {
  EXPECT_EQ(operand("-1").number.bits, ~uint64_t{0});
  EXPECT_EQ(operand("-1").number.place.column, 4);
  EXPECT_EQ(operand("0xFFFFFFFF").number.bits, 0xFFFFFFFFU);
  EXPECT_EQ(operand("0f3F800000").number.kind, Number::Kind::kF32);
  EXPECT_EQ(operand("017").number.bits, 15U);
  EXPECT_EQ(operand("0b11").number.bits, 3U);
  EXPECT_EQ(operand("5U").kind, Kind::kNumber);
}

TEST(ParseBody, ReadsAddresses) {
  const auto part = [](const std::string& text) { return operand(text).parts.at(0); };
  EXPECT_EQ(operand("[%rd1]").kind, Kind::kAddress);
  EXPECT_EQ(part("[%rd1]").offset, 0);
  EXPECT_EQ(part("[%rd1+16]").offset, 16);
  EXPECT_EQ(part("[%rd1+-16]").offset, -16);
  EXPECT_EQ(part("[ smem + 0x10 ]").offset, 16);
  EXPECT_EQ(part("[smem+4]").name, "smem");
  EXPECT_EQ(part("[64]").number.bits, 64U);
}

TEST(ParseBody, ReadsTensorCoordinates) {
  const Operand tensor = operand("[%rd1, {%r2, -1, %r3}]");
  EXPECT_EQ(tensor.kind, Kind::kAddress);
  ASSERT_EQ(tensor.parts.size(), 2U);
  EXPECT_EQ(tensor.parts[0].name, "%rd1");
  EXPECT_EQ(tensor.parts[1].kind, Kind::kVector);
  ASSERT_EQ(tensor.parts[1].parts.size(), 3U);
  EXPECT_EQ(tensor.parts[1].parts[1].number.bits, ~uint64_t{0});
  EXPECT_EQ(tensor.parts[1].parts[2].name, "%r3");
}

TEST(ParseBody, ReadsVectorsAndPairs) {
  const Operand vector = operand("{%r1, _, 0, %v.x}");
  EXPECT_EQ(vector.kind, Kind::kVector);
  ASSERT_EQ(vector.parts.size(), 4U);
  EXPECT_EQ(vector.parts[1].kind, Kind::kSink);
  EXPECT_EQ(vector.parts[3].component, "x");
  const Operand pair = operand("_|%p1");
  EXPECT_EQ(pair.kind, Kind::kPair);
  ASSERT_EQ(pair.parts.size(), 2U);
  EXPECT_EQ(pair.parts[0].kind, Kind::kSink);
  EXPECT_EQ(pair.parts[1].name, "%p1");
  EXPECT_EQ(operand("%r1|%p1").parts[0].name, "%r1");
  EXPECT_EQ(operand("%p1|_").parts[1].kind, Kind::kSink);
}

TEST(ParseBody, ReadsCalls) {
  const Instruction node = instruction("call.uni (r), f, (a, 1), proto;");
  ASSERT_EQ(node.operands.size(), 4U);
  EXPECT_EQ(node.operands[0].kind, Kind::kList);
  EXPECT_EQ(node.operands[0].parts.size(), 1U);
  EXPECT_EQ(node.operands[1].name, "f");
  EXPECT_EQ(node.operands[2].parts.size(), 2U);
  EXPECT_EQ(node.operands[3].name, "proto");
  EXPECT_TRUE(operand("()").parts.empty());
}

TEST(ParseBody, ReadsLabelsAndTheirLists) {
  EXPECT_EQ(statement_of<Label>("$L__BB0_1:\nret;").name, "$L__BB0_1");
  EXPECT_EQ(statement_of<Label>("a: b: ret;", 1).name, "b");
  const TargetList branches = statement_of<TargetList>("ts: .branchtargets a, b;");
  EXPECT_EQ(branches.name, "ts");
  EXPECT_FALSE(branches.is_calls);
  EXPECT_EQ(branches.targets, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(statement_of<TargetList>("ts: .calltargets f;").is_calls);
}

TEST(ParseBody, ReadsPrototypes) {
  const CallPrototype node = statement_of<CallPrototype>(
      "prototype_0 : .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16], .param .b64 a) "
      ".noreturn;");
  EXPECT_EQ(node.name, "prototype_0");
  EXPECT_EQ(node.results[0].name, "_");
  EXPECT_EQ(node.parameters[0].dims, std::vector<uint64_t>{16});
  EXPECT_EQ(node.parameters[1].name, "a");
  EXPECT_TRUE(node.is_noreturn);
  EXPECT_TRUE(statement_of<CallPrototype>("p: .callprototype _;").parameters.empty());
}

TEST(ParseBody, ReadsDeclarations) {
  const Declaration numbered = statement_of<Declaration>(".reg .b32 %r<196>;");
  EXPECT_EQ(numbered.space, Space::kReg);
  EXPECT_EQ(numbered.name, "%r");
  EXPECT_EQ(numbered.count, 196U);
  const std::string list = ".reg .pred p, q<2>, %SP;";
  EXPECT_FALSE(statement_of<Declaration>(list, 0).count);
  EXPECT_EQ(statement_of<Declaration>(list, 1).count, 2U);
  EXPECT_EQ(statement_of<Declaration>(list, 2).name, "%SP");
  EXPECT_EQ(statement_of<Declaration>(list, 2).type, Type::kPred);
  EXPECT_EQ(statement_of<Declaration>(".reg .v4 .f32 v;").vector_elems, 4);
  EXPECT_EQ(statement_of<Declaration>(".reg .v2 .b64 v;").vector_elems, 2);
  EXPECT_EQ(statement_of<Declaration>(".local .align 8 .b8 d[8];").space, Space::kLocal);
  EXPECT_EQ(statement_of<Declaration>(".shared .align 8 .b8 d[136];").align_bytes, 8U);
  EXPECT_EQ(statement_of<Declaration>(".param .b32 retval0;").space, Space::kParam);
}

TEST(ParseBody, ReadsEveryType) {
  for (const char* type : {"pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64",
                           "s8", "s16", "s32", "s64", "f16", "f16x2", "f32", "f64"}) {
    const Declaration node = statement_of<Declaration>(".reg ." + std::string(type) + " a;");
    EXPECT_EQ(type_name(node.type), type);
  }
  EXPECT_EQ(type_bits(Type::kF16x2), 32);
  EXPECT_EQ(type_bits(Type::kB128), 128);
}

TEST(ParseBody, KeepsScopesApart) {
  const std::string text = ".reg .pred p;\n{ .reg .pred p;\n a: { } @p bra a; }\nret;";
  const Scope scope = statement_of<Scope>(text, 1);
  EXPECT_EQ(scope.place.line, 6);
  ASSERT_EQ(scope.statements.size(), 4U);
  EXPECT_EQ(std::get<Declaration>(scope.statements[0].node).name, "p");
  EXPECT_EQ(std::get<Label>(scope.statements[1].node).name, "a");
  EXPECT_TRUE(std::get<Scope>(scope.statements[2].node).statements.empty());
  EXPECT_EQ(statement_of<Instruction>(text, 2).opcode, "ret");
}

TEST(ParseBody, ReadsLocationsAndPragmas) {
  const Location plain = statement_of<Location>(".loc\t1 26 0");
  EXPECT_EQ(plain.at.file, 1U);
  EXPECT_EQ(plain.at.line, 26U);
  EXPECT_FALSE(plain.inlined);
  const Location inlined =
      statement_of<Location>(".loc 2 28 77, function_name $L__info_string0+4, inlined_at 1 49 3");
  EXPECT_EQ(inlined.inlined->function, "$L__info_string0");
  EXPECT_EQ(inlined.inlined->offset, 4U);
  EXPECT_EQ(inlined.inlined->at.line, 49U);
  EXPECT_EQ(statement_of<Location>(".loc 1 2 3, function_name f, inlined_at 4 5 6").inlined->offset,
            0U);
  EXPECT_EQ(statement_of<Pragma>(".pragma \"used_bytes_mask 15\";").strings[0],
            "used_bytes_mask 15");
}

TEST(ParseBody, PrintsAnInstructionInOneLine) {
  for (const char* text :
       {"ret;", "@!%p1 bra.uni $L__BB0_1;", "ld.param.v2.u32 {%r1, _}, [p+-8];",
        "shfl.sync.idx.b32 %r2|%p1, %r25, 0, 31, -1;", "mov.u32 %r1, %tid.x;",
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], "
        "[%rd1, {%r2, %r3}], [%r4];",
        "setp.lt.and.s32 %p1|%p2, %r1, 5, !%p3;", "call (r), f, (a, b), p;",
        "mov.f32 %f1, 0f3F800000;"}) {
    EXPECT_EQ(print(instruction(text)), text);
  }
}

TEST(ParseBody, TellsTreesApart) {
  const auto tree = [](const std::string& text) { return tree_of(body_text(text)); };
  const Module one = tree("add.s32 a, b, 1;");
  EXPECT_TRUE(one == tree("\n\tadd.s32 a , b,0x1;  // elsewhere"));
  for (const char* other :
       {"add.u32 a, b, 1;", "add.s32 a, b, 2;", "add.s32 a, c, 1;", "add.s32 a, b;",
        "@p add.s32 a, b, 1;", "add.s32 a, !b, 1;", "{ add.s32 a, b, 1; }", "add.s32 a, b+4, 1;",
        "add.s32 a, [b], 1;", "x: add.s32 a, b, 1;"}) {
    EXPECT_FALSE(one == tree(other)) << other;
  }
}

}  // namespace
}  // namespace octet::ptxsim::text
