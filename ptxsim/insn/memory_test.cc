// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomics and spaces: values, bounds, alignment, bytes that nobody has written.
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

RunOptions one_thread() { return {.block = {1}}; }

TEST(LoadStore, ExtendsToTheRegister) {
  RunOptions options = one_thread();
  options.in[0] = 0xFE;
  options.in[1] = 0xFF;
  const auto loaded = [&](const std::string& load) {
    return run_statements(load + " st.global.u32 [%out], %r0;", options).at<uint32_t>(0);
  };
  EXPECT_EQ(loaded("ld.global.u8 %r0, [%in];"), 0xFEu);
  EXPECT_EQ(loaded("ld.global.s8 %r0, [%in];"), 0xFFFFFFFEu);
  EXPECT_EQ(loaded("ld.global.nc.s16 %r0, [%in];"), 0xFFFFFFFEu);
  EXPECT_EQ(loaded("ld.global.L1::no_allocate.L2::128B.u16 %r0, [%in];"), 0xFFFEu);
  EXPECT_EQ(loaded("ld.global.s8 %rs0, [%in+1]; cvt.u32.u16 %r0, %rs0;"), 0xFFFFu);
  EXPECT_EQ(loaded("ld.u8 %r0, [%in+1];"), 0xFFu);
}

TEST(LoadStore, MovesVectors) {
  RunOptions options = one_thread();
  for (size_t i = 0; i < 64; ++i) options.in[i] = uint8_t(i);
  const Ran ran = run_statements(
      "ld.global.v4.u32 {%r1, _, %r3, %r4}, [%in+16]; st.global.v2.u32 [%out], {%r4, %r1};"
      "ld.global.v2.u64 {%rd1, %rd2}, [%in+32]; st.global.v2.b64 [%out+16], {%rd2, %rd1};"
      "ld.global.b128 %rq0, [%in]; st.global.b128 [%out+32], %rq0;"
      "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%in+32]; st.global.u32 "
      "[%out+48], %r8;"
      "ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, [%in+4]; st.global.v2.u16 [%out+52], {%rs4, "
      "%rs1};",
      options);
  ASSERT_TRUE(ran.status.ok()) << ran.status.why;
  EXPECT_EQ(ran.at<uint32_t>(0), 0x1F1E1D1Cu);
  EXPECT_EQ(ran.at<uint32_t>(1), 0x13121110u);
  EXPECT_EQ(ran.at<uint64_t>(2), 0x2F2E2D2C2B2A2928u);
  EXPECT_EQ(ran.at<uint64_t>(5), 0x0F0E0D0C0B0A0908u);
  EXPECT_EQ(ran.at<uint32_t>(12), 0x3F3E3D3Cu);
  EXPECT_EQ(ran.at<uint32_t>(13), 0x00040007u);
}

TEST(LoadStore, SpacesAndGenericAddresses) {
  EXPECT_EQ(word_of(".shared .align 8 .b8 s[16]; mov.u32 %r1, s; st.shared.u32 [%r1+8], 42; "
                    "cvta.shared.u64 %rd1, %rd2; mov.u64 %rd2, s; "
                    "cvta.shared.u64 %rd1, %rd2; ld.u32 %r0, [%rd1+8];"),
            42u);
  EXPECT_EQ(word_of(".local .align 8 .b8 depot[16]; mov.u64 %rd1, depot; cvta.local.u64 %rd2, "
                    "%rd1; st.u32 [%rd2+4], 7; ld.local.u32 %r0, [depot+4];"),
            7u);
  EXPECT_EQ(long_of("mov.b64 %rd1, p_out; cvta.param.u64 %rd2, %rd1; ld.u64 %rd3, [%rd2]; sub.s64 "
                    "%rd0, %rd3, %out;"),
            0u);
  EXPECT_EQ(word_of("mov.u64 %rd1, p_in; cvta.param.u64 %rd2, %rd1; isspacep.global %p1, %out; "
                    "isspacep.shared %p2, %out; "
                    "selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; add.u32 %r0, %r1, %r2;"),
            1u);
}

TEST(LoadStore, ModulesHaveVariables) {
  const std::string before =
      ".global .align 4 .u32 table[3] = {5, 6, 7};\n.const .align 8 .u64 place = "
      "generic(table)+8;\n.global .u32 zero;\n";
  const auto module =
      text::parse(kernel_text("ld.const.u64 %rd1, [place]; ld.u32 %r1, [%rd1]; ld.global.u32 %r2, "
                              "[zero]; add.u32 %r3, %r1, %r2; st.global.u32 [%out], %r3;",
                              before));
  ASSERT_TRUE(module.ok()) << module.status().why;
  machine::Machine machine({});
  auto data = ModuleData::load(*module, machine.memory());
  ASSERT_TRUE(data.ok()) << data.status().why;
  const auto program = decode(*module, "k", *data);
  ASSERT_TRUE(program.ok()) << program.status().why;
  const uint64_t out = machine.memory().allocate("out", 4);
  std::vector<uint8_t> parameters(16);
  std::memcpy(parameters.data() + 8, &out, 8);
  const Status status = machine.run(machine::Launch{&*program, {}, {1}, {}, 0, parameters, false});
  ASSERT_TRUE(status.ok()) << status.why;
  EXPECT_EQ((*machine.memory().read(out, 4))[0], 7);
}

TEST(LoadStore, RefusesWhatIsNotThere) {
  EXPECT_EQ(error_of("ld.global.u32 %r0, [%out+2048];", one_thread()),
            "line 6, column 1: 'ld.global.u32 %r0, [%out+2048];': 4 bytes at 0x700000100900 are "
            "not in an allocation; 'out' has 2048 bytes, "
            "these begin at its byte 2048 (block 0, warp 0, lane 0)");
  EXPECT_NE(error_of("st.global.u32 [%out+2], %r0;").find("is not a multiple of 4"),
            std::string::npos);
  EXPECT_NE(error_of("ld.global.u32 %r0, [%out];").find("have not been written"),
            std::string::npos);
  EXPECT_NE(error_of("st.global.u32 [%in], 1;").find("'in', which is only read"),
            std::string::npos);
  EXPECT_NE(error_of("ld.shared.u32 %r0, [0];").find("have not been written"), std::string::npos);
  EXPECT_NE(error_of("st.shared.u32 [1024], 1;").find("there are 1024"), std::string::npos);
  EXPECT_NE(error_of("ld.param.u32 %r0, [p_out+8];").find("parameter byte 16, there are 16"),
            std::string::npos);
  EXPECT_NE(error_of("st.local.u32 [0], 1;").find("local address 0x0, there are 0"),
            std::string::npos);
}

TEST(LoadStore, ReadsThePoisonWhereItMay) {
  RunOptions options = one_thread();
  options.settings.refuses_unset_reads = false;
  const Ran ran =
      run_statements("ld.global.u32 %r0, [%out+64]; st.global.u32 [%out], %r0;", options);
  EXPECT_EQ(ran.at<uint32_t>(0), 0xFFFFFFFFu);
}

TEST(Atomic, DoesEachOperationOnce) {
  struct Case {
    const char* op;
    uint32_t before, operand, want;
  };
  for (const Case& c :
       {Case{"add.u32", 5, 0xFFFFFFFF, 4}, Case{"and.b32", 6, 3, 2}, Case{"or.b32", 6, 3, 7},
        Case{"xor.b32", 6, 3, 5}, Case{"exch.b32", 6, 3, 3},
        Case{"min.s32", 6, 0xFFFFFFFF, 0xFFFFFFFF}, Case{"max.u32", 6, 0xFFFFFFFF, 0xFFFFFFFF},
        Case{"inc.u32", 6, 6, 0}, Case{"inc.u32", 5, 6, 6}, Case{"dec.u32", 0, 6, 6},
        Case{"dec.u32", 3, 6, 2}, Case{"add.f32", 0x3F800000, 0x3F800000, 0x40000000}}) {
    const bool is_float = std::string(c.op) == "add.f32";
    const std::string r1 = is_float ? "%f1" : "%r1", r2 = is_float ? "%f2" : "%r2",
                      mov = is_float ? "mov.b32 %f1, %r1; mov.b32 %f3, %r3;" : "";
    const Ran ran = run_statements("st.global.u32 [%out], " + std::to_string(c.before) +
                                       "; mov.u32 %r1, " + std::to_string(c.operand) + ";" + mov +
                                       "atom.relaxed.gpu.global." + c.op + " " + r2 + ", [%out], " +
                                       r1 + "; st.global.b32 [%out+4], " + r2 + ";",
                                   one_thread());
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    EXPECT_EQ(ran.at<uint32_t>(0), c.want) << c.op;
    EXPECT_EQ(ran.at<uint32_t>(1), c.before) << c.op;
  }
  EXPECT_EQ(word_of("st.global.u32 [%out], 4; atom.global.cas.b32 %r1, [%out], 4, 9; "
                    "atom.global.cas.b32 %r2, [%out], 4, 8; ld.global.u32 %r0, [%out];"),
            9u);
}

TEST(Atomic, KnowsWordsOf64Bits) {
  // A word that carries from its lower half, then one that is swapped for another.
  const std::string word = "st.global.u64 [%out], 0xFFFFFFFF; ";
  EXPECT_EQ(long_of(word + "atom.global.add.u64 %rd1, [%out], 0x8000000000000001; "
                           "ld.global.u64 %rd0, [%out];"),
            0x8000000100000000u);
  EXPECT_EQ(long_of(word + "atom.global.add.u64 %rd0, [%out], 0x8000000000000001;"), 0xFFFFFFFFu);
  EXPECT_EQ(long_of(word + "atom.global.cas.b64 %rd1, [%out], 0x1FFFFFFFF, 9; "
                           "ld.global.u64 %rd0, [%out];"),
            0xFFFFFFFFu);
  EXPECT_EQ(long_of(word + "atom.global.cas.b64 %rd1, [%out], 0xFFFFFFFF, 0x900000000; "
                           "ld.global.u64 %rd0, [%out];"),
            0x900000000u);
}

TEST(Atomic, LanesAndWarpsAddUp) {
  RunOptions options{.grid = {3}, .block = {96}};
  options.settings.time = machine::Time::kRandom;
  const Ran ran = run_statements(
      ".shared .u32 n; mov.u32 %r1, %tid.x; setp.eq.s32 %p0, %r1, 0; @%p0 st.shared.u32 [n], 0; "
      "bar.sync 0; red.shared.add.u32 [n], 1; bar.sync 0;"
      "ld.shared.u32 %r0, [n]; mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd1, %r2, 4; add.s64 %rd2, "
      "%out, %rd1; @%p0 st.global.u32 [%rd2], %r0;",
      options);
  ASSERT_TRUE(ran.status.ok()) << ran.status.why;
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ran.at<uint32_t>(i), 96u);
}

}  // namespace
}  // namespace octet::ptxsim::insn
