// SPDX-License-Identifier: Apache-2.0
// Everything outside of a function's braces.
#include "ptxsim/text/test_parse.h"

namespace octet::ptxsim::text {
namespace {

Declaration variable(const std::string& text, size_t index = 0) {
  return item_of<Declaration>(text, index);
}

TEST(ParseModule, ReadsItsHead) {
  const Module module = tree_of(".version 8.7\n.target sm_90a, debug\n.address_size 64\n");
  EXPECT_EQ(module.version_major, 8);
  EXPECT_EQ(module.version_minor, 7);
  EXPECT_EQ(module.targets, (std::vector<std::string>{"sm_90a", "debug"}));
  EXPECT_EQ(module.address_bits, 64);
  EXPECT_TRUE(module.items.empty());
  EXPECT_EQ(tree_of(".version 9.0 .target sm_80").address_bits, 32);
}

TEST(ParseModule, ReadsVariables) {
  const Declaration shared = variable(".extern .shared .align 1024 .b8 smem[];");
  EXPECT_EQ(shared.linkage, Linkage::kExtern);
  EXPECT_EQ(shared.space, Space::kShared);
  EXPECT_EQ(shared.align_bytes, 1024U);
  EXPECT_EQ(shared.type, Type::kB8);
  EXPECT_EQ(shared.name, "smem");
  EXPECT_EQ(shared.dims, std::vector<uint64_t>{0});
  EXPECT_EQ(shared.place.line, 4);
  EXPECT_EQ(shared.place.column, 33);

  const Declaration managed = variable(".visible .global .attribute(.managed) .v4 .f32 m[2][3];");
  EXPECT_EQ(managed.linkage, Linkage::kVisible);
  EXPECT_TRUE(managed.is_managed);
  EXPECT_EQ(managed.vector_elems, 4);
  EXPECT_EQ(managed.dims, (std::vector<uint64_t>{2, 3}));
  EXPECT_FALSE(managed.initializer);

  EXPECT_EQ(variable(".weak .const .u16 a;").linkage, Linkage::kWeak);
  EXPECT_EQ(variable(".common .global .u16 a;").linkage, Linkage::kCommon);
}

TEST(ParseModule, MakesANodeOfEachNameOfAList) {
  const std::string text = ".global .align 4 .u32 a, b[2], c = 5;";
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(variable(text, i).align_bytes, 4U);
  EXPECT_EQ(variable(text, 0).name, "a");
  EXPECT_TRUE(variable(text, 0).dims.empty());
  EXPECT_EQ(variable(text, 1).dims, std::vector<uint64_t>{2});
  EXPECT_FALSE(variable(text, 1).initializer);
  EXPECT_EQ(variable(text, 2).initializer->number.bits, 5U);
  EXPECT_EQ(variable(text, 2).place.column, 32);
}

TEST(ParseModule, ReadsInitialisers) {
  EXPECT_EQ(variable(".global .s32 a = -5;").initializer->number.bits, ~uint64_t{4});
  EXPECT_EQ(variable(".const .f64 a = 0d7E37E43C8800759C;").initializer->number.bits,
            0x7E37E43C8800759CU);
  const Initializer bytes = *variable(".global .b8 a[16] = {1, 0, 254};").initializer;
  EXPECT_EQ(bytes.kind, Initializer::Kind::kList);
  ASSERT_EQ(bytes.items.size(), 3U);
  EXPECT_EQ(bytes.items[2].number.bits, 254U);
  EXPECT_EQ(bytes.items[2].place.column, 28);
  const Initializer nested = *variable(".global .b32 a[][2] = {{1, 2}, {3}, {}};").initializer;
  ASSERT_EQ(nested.items.size(), 3U);
  EXPECT_EQ(nested.items[1].items[0].number.bits, 3U);
  EXPECT_TRUE(nested.items[2].items.empty());
}

TEST(ParseModule, ReadsAddressesInInitialisers) {
  const Initializer list =
      *variable(".global .u64 a[4] = {f, b+8, generic($str)+-4, generic(c)};").initializer;
  ASSERT_EQ(list.items.size(), 4U);
  EXPECT_EQ(list.items[0].kind, Initializer::Kind::kAddress);
  EXPECT_EQ(list.items[0].symbol, "f");
  EXPECT_EQ(list.items[1].offset, 8);
  EXPECT_FALSE(list.items[1].is_generic);
  EXPECT_TRUE(list.items[2].is_generic);
  EXPECT_EQ(list.items[2].symbol, "$str");
  EXPECT_EQ(list.items[2].offset, -4);
  const Initializer bytes =
      *variable(".global .u8 a[3] = {0xFF(b), 0xFF00(generic(b)+2), 9};").initializer;
  EXPECT_EQ(bytes.items[0].mask, 0xFFU);
  EXPECT_EQ(bytes.items[1].mask, 0xFF00U);
  EXPECT_TRUE(bytes.items[1].is_generic);
  EXPECT_EQ(bytes.items[1].offset, 2);
  EXPECT_EQ(variable(".global .u64 generic = generic;").initializer->symbol, "generic");
}

TEST(ParseModule, ReadsAKernel) {
  const Function kernel = item_of<Function>(
      ".visible .entry k(\n.param .align 128 .b8 p0[128],\n.param .u64 .ptr .global .align 16 p1,\n"
      ".param .u64 .ptr p2,\n.param .f32 p3\n)\n.maxntid 256, 2\n.minnctapersm "
      "1\n.explicitcluster\n"
      ".reqnctapercluster 2, 1, 1\n{\nret;\n}");
  EXPECT_TRUE(kernel.is_entry);
  EXPECT_EQ(kernel.linkage, Linkage::kVisible);
  EXPECT_EQ(kernel.name, "k");
  EXPECT_EQ(kernel.place.column, 17);
  ASSERT_EQ(kernel.parameters.size(), 4U);
  EXPECT_EQ(kernel.parameters[0].space, Space::kParam);
  EXPECT_EQ(kernel.parameters[0].align_bytes, 128U);
  EXPECT_EQ(kernel.parameters[0].dims, std::vector<uint64_t>{128});
  EXPECT_EQ(kernel.parameters[1].pointee->space, Space::kGlobal);
  EXPECT_EQ(kernel.parameters[1].pointee->align_bytes, 16U);
  EXPECT_FALSE(kernel.parameters[2].pointee->space);
  EXPECT_EQ(kernel.parameters[2].pointee->align_bytes, 0U);
  EXPECT_EQ(kernel.parameters[3].type, Type::kF32);
  EXPECT_FALSE(kernel.parameters[3].pointee);
  ASSERT_EQ(kernel.directives.size(), 4U);
  EXPECT_EQ(kernel.directives[0].name, "maxntid");
  EXPECT_EQ(kernel.directives[0].values, (std::vector<uint64_t>{256, 2}));
  EXPECT_TRUE(kernel.directives[2].values.empty());
  EXPECT_EQ(kernel.directives[3].values, (std::vector<uint64_t>{2, 1, 1}));
  ASSERT_TRUE(kernel.body);
  EXPECT_EQ(kernel.body->statements.size(), 1U);
}

TEST(ParseModule, ReadsEveryDirective) {
  const Function kernel = item_of<Function>(
      ".entry k() .maxnreg 64 .reqntid 1,2,3 .maxnctapersm 2 .maxclusterrank 8 "
      ".blocksareclusters { }");
  EXPECT_EQ(kernel.directives.size(), 5U);
  const Function function =
      item_of<Function>(".func f() .noreturn .abi_preserve 8 .abi_preserve_control 2 { }");
  EXPECT_EQ(function.directives.size(), 3U);
}

TEST(ParseModule, ReadsDeviceFunctions) {
  const Function declared = item_of<Function>(
      ".extern .func (.param .b32 r) vprintf\n(\n.param .b64 a,\n.param .b64 b\n)\n;");
  EXPECT_FALSE(declared.is_entry);
  EXPECT_EQ(declared.linkage, Linkage::kExtern);
  EXPECT_FALSE(declared.body);
  EXPECT_EQ(declared.results.size(), 1U);
  EXPECT_EQ(declared.parameters.size(), 2U);
  const Function defined =
      item_of<Function>(".weak .func (.reg .b32 r) f(.reg .f64 a, .param .b8 b[]) { }");
  EXPECT_EQ(defined.linkage, Linkage::kWeak);
  EXPECT_EQ(defined.results[0].space, Space::kReg);
  EXPECT_EQ(defined.parameters[1].dims, std::vector<uint64_t>{0});
  EXPECT_TRUE(defined.body);
  EXPECT_TRUE(item_of<Function>(".entry k { }").parameters.empty());
}

TEST(ParseModule, ReadsFiles) {
  EXPECT_EQ(item_of<File>(".file 2 \"/a/b c.cu\"").path, "/a/b c.cu");
  const File file = item_of<File>(".file\t1 \"a\", 1700000000, 1234");
  EXPECT_EQ(file.index, 1U);
  EXPECT_EQ(file.stamp->time, 1700000000U);
  EXPECT_EQ(file.stamp->bytes, 1234U);
  EXPECT_EQ(item_of<Pragma>(".pragma \"a\", \"b\";").strings, (std::vector<std::string>{"a", "b"}));
}

TEST(ParseModule, ReadsSections) {
  const Section section = item_of<Section>(
      ".section .debug_info\n{\n$L__info:\n.b8 1,2\n.b8 -3\n.b32 .debug_abbrev\n.b64 $L__a+4\n"
      ".b32 $L__b-$L__a\n.b16 7\n}");
  EXPECT_EQ(section.name, ".debug_info");
  ASSERT_EQ(section.lines.size(), 7U);
  EXPECT_EQ(section.lines[0].label, "$L__info");
  EXPECT_EQ(section.lines[1].values.size(), 2U);
  EXPECT_EQ(section.lines[1].values[1].number.bits, 2U);
  EXPECT_EQ(section.lines[2].values[0].number.bits, ~uint64_t{2});
  EXPECT_EQ(section.lines[3].values[0].name, ".debug_abbrev");
  EXPECT_EQ(section.lines[4].values[0].offset, 4);
  EXPECT_EQ(section.lines[4].type, Type::kB64);
  EXPECT_EQ(section.lines[5].values[0].minus, "$L__a");
  EXPECT_EQ(section.lines[6].type, Type::kB16);
}

TEST(ParseModule, KeepsTheOrderOfItsItems) {
  const Module module =
      tree_of(module_text(".file 1 \"a\" .global .b8 v; .entry k() { } .section .s { }"));
  ASSERT_EQ(module.items.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<File>(module.items[0]));
  EXPECT_TRUE(std::holds_alternative<Declaration>(module.items[1]));
  EXPECT_TRUE(std::holds_alternative<Function>(module.items[2]));
  EXPECT_TRUE(std::holds_alternative<Section>(module.items[3]));
}

}  // namespace
}  // namespace octet::ptxsim::text
