// SPDX-License-Identifier: Apache-2.0
// Divergence, what lanes do together, barriers.
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

// Each lane's %r0, of a block of `threads`.
std::vector<uint32_t> words_of(const std::string& statements, uint32_t threads = 32,
                               machine::Time time = machine::Time::kEager, uint64_t seed = 1) {
  RunOptions options{.block = {threads}, .out_bytes = 4 * threads};
  options.settings.time = time;
  options.settings.seed = seed;
  const Ran ran = run_statements(
      "mov.u32 %r10, %tid.x; mov.u32 %r11, %laneid; mov.u32 %r0, 0;\n" + statements +
          "\nmul.wide.u32 %rd1, %r10, 4; add.s64 %rd2, %out, %rd1; st.global.u32 [%rd2], %r0;",
      options);
  EXPECT_TRUE(ran.status.ok()) << ran.status.why;
  std::vector<uint32_t> words(threads);
  for (size_t i = 0; i < threads; ++i) words[i] = ran.at<uint32_t>(i);
  return words;
}

TEST(Warp, LanesThatPartMeetAgain) {
  const std::string statements =
      "and.b32 %r1, %r11, 3; setp.eq.s32 %p1, %r1, 0; @%p1 bra A; setp.eq.s32 %p2, %r1, 1; @%p2 "
      "bra B; mov.u32 %r2, 100; bra C;"
      "A: mov.u32 %r2, 200; bra C; B: mov.u32 %r2, 300; C: shfl.sync.idx.b32 %r0, %r2, 1, 31, -1;";
  for (uint64_t seed = 1; seed < 20; ++seed) {
    for (const uint32_t word : words_of(statements, 32, machine::Time::kRandom, seed))
      ASSERT_EQ(word, 300u);
  }
}

TEST(Warp, LoopsEndLaneByLane) {
  const auto words = words_of(
      "L: add.u32 %r0, %r0, 2; add.u32 %r1, %r0, 0; setp.lt.u32 %p1, %r0, %r11; @%p1 bra L;");
  for (uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(words[lane], std::max(2u, (lane + 1) / 2 * 2));
}

TEST(Warp, LanesMayExit) {
  RunOptions options{.block = {32}};
  const Ran ran = run_statements(
      "mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 30; @%p1 exit; vote.sync.ballot.b32 %r0, 1, -1; "
      "setp.eq.u32 %p2, %r1, 31; @%p2 st.global.u32 [%out], %r0;",
      options);
  ASSERT_TRUE(ran.status.ok()) << ran.status.why;
  EXPECT_EQ(ran.at<uint32_t>(0), 0xC0000000u);
}

TEST(Warp, Shuffles) {
  const auto up = words_of(
      "shfl.sync.up.b32 %r0|%p1, %r11, 1, 0, -1; selp.u32 %r1, 100, 0, %p1; add.u32 %r0, %r0, "
      "%r1;");
  EXPECT_EQ(up[0], 0u);
  EXPECT_EQ(up[5], 104u);
  const auto down = words_of(
      "shfl.sync.down.b32 %r0|%p1, %r11, 4, 31, -1; selp.u32 %r1, 100, 0, %p1; add.u32 %r0, %r0, "
      "%r1;");
  EXPECT_EQ(down[27], 131u);
  EXPECT_EQ(down[28], 28u);
  const auto bfly = words_of("shfl.sync.bfly.b32 %r0, %r11, 3, 31, -1;");
  EXPECT_EQ(bfly[5], 6u);
  // Segments of 8: c = 0x1807.
  const auto idx = words_of("shfl.sync.idx.b32 %r0, %r11, 2, 0x181f, -1;");
  EXPECT_EQ(idx[13], 10u);
}

TEST(Warp, VotesMatchesAndReduces) {
  EXPECT_EQ(words_of("setp.lt.u32 %p1, %r11, 4; vote.sync.ballot.b32 %r0, %p1, -1;")[9], 0xFu);
  EXPECT_EQ(
      words_of(
          "setp.lt.u32 %p1, %r11, 4; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r0, 1, 2, %p2;")[9],
      1u);
  EXPECT_EQ(
      words_of(
          "setp.lt.u32 %p1, %r11, 4; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r0, 1, 2, %p2;")[9],
      2u);
  EXPECT_EQ(
      words_of(
          "setp.lt.u32 %p1, %r11, 4; vote.sync.uni.pred %p2, !%p1, -1; selp.u32 %r0, 1, 2, %p2;")
          [9],
      2u);
  EXPECT_EQ(words_of("and.b32 %r1, %r11, 7; match.any.sync.b32 %r0, %r1, -1;")[9], 0x02020202u);
  EXPECT_EQ(words_of("match.all.sync.b32 %r0|%p1, 5, -1;")[9], 0xFFFFFFFFu);
  EXPECT_EQ(words_of("match.all.sync.b32 %r0|%p1, %r11, -1;")[9], 0u);
  EXPECT_EQ(words_of("redux.sync.add.u32 %r0, %r11, -1;")[9], 496u);
  EXPECT_EQ(words_of("neg.s32 %r1, %r11; redux.sync.min.s32 %r0, %r1, -1;")[9], uint32_t(-31));
  EXPECT_EQ(words_of("redux.sync.max.u32 %r0, %r11, -1;")[9], 31u);
  EXPECT_EQ(words_of("redux.sync.xor.b32 %r0, %r11, -1;")[9], 0u);
  EXPECT_EQ(words_of("redux.sync.or.b32 %r0, %r11, -1;")[9], 31u);
  EXPECT_EQ(
      words_of("cvt.rn.f32.u32 %f1, %r11; redux.sync.max.f32 %f0, %f1, -1; mov.b32 %r0, %f0;")[9],
      0x41F80000u);
  EXPECT_EQ(words_of("activemask.b32 %r0;")[9], 0xFFFFFFFFu);
}

TEST(Warp, GroupsOfAMembermaskGoTheirOwnWay) {
  const auto words = words_of(
      "setp.lt.u32 %p1, %r11, 16; @%p1 bra A; redux.sync.add.u32 %r0, %r11, 0xFFFF0000; bra B; A: "
      "redux.sync.add.u32 %r0, %r11, 0xFFFF; B: bar.warp.sync -1;");
  EXPECT_EQ(words[3], 120u);
  EXPECT_EQ(words[20], 376u);
}

TEST(Warp, ElectsOneAndTheSame) {
  for (uint64_t seed = 1; seed < 5; ++seed) {
    const auto words = words_of(
        "elect.sync %r1|%p1, -1; elect.sync %r2|%p2, -1; selp.u32 %r0, 1, 0, %p1; setp.ne.u32 %p3, "
        "%r1, %r2; @%p3 add.u32 %r0, %r0, 100;",
        32, machine::Time::kLate, seed);
    uint32_t sum = 0;
    for (const uint32_t word : words) sum += word;
    EXPECT_EQ(sum, 1u);
  }
}

TEST(Warp, RefusesWhatIsNotConverged) {
  EXPECT_NE(error_of("mov.u32 %r1, %laneid; setp.eq.s32 %p1, %r1, 0; @%p1 bar.sync 0;")
                .find("the guard does not hold for all lanes"),
            std::string::npos);
  EXPECT_NE(error_of("mov.u32 %r1, %laneid; setp.eq.s32 %p1, %r1, 0; @%p1 bra A; bar.sync 0; ret; "
                     "A: bar.sync 1; ")
                .find("nothing can go on"),
            std::string::npos);
  EXPECT_NE(error_of("mov.u32 %r1, %laneid; setp.eq.s32 %p1, %r1, 0; @%p1 bra.uni A; A: ret;")
                .find(".uni"),
            std::string::npos);
  EXPECT_NE(error_of("vote.sync.ballot.b32 %r0, 1, 2;").find("not in its own membermask"),
            std::string::npos);
  EXPECT_NE(
      error_of(
          "mov.u32 %r1, %laneid; setp.eq.s32 %p1, %r1, 0; @%p1 vote.sync.ballot.b32 %r0, 1, -1;")
          .find("nothing can go on"),
      std::string::npos);
}

TEST(Warp, KnowsTheGridOfALaunch) {
  const auto program = decoded(
      kernel_text("mov.u64 %rd0, %gridid; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 8; "
                  "add.s64 %rd1, %out, %rd1; st.global.u64 [%rd1], %rd0;"));
  ASSERT_TRUE(program.ok()) << program.status().why;
  machine::Machine machine(strict_settings());
  const uint64_t out = machine.memory().allocate("out", 16);
  std::vector<uint8_t> parameters(16);
  std::memcpy(parameters.data() + 8, &out, 8);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(machine.run(machine::Launch{&*program, {2}, {1}, {}, 0, parameters, false}).ok());
    const auto bytes = machine.memory().read(out, 16);
    ids.resize(ids.size() + 2);
    std::memcpy(&ids[ids.size() - 2], bytes->data(), 16);
  }
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[2], ids[3]);
  EXPECT_NE(ids[0], ids[2]);
}

TEST(Barrier, OrdersWarps) {
  // Warp w writes, all read what the next wrote.
  const std::string statements =
      ".shared .u32 s[64]; mov.u32 %r1, s; shl.b32 %r2, %r10, 2; add.u32 %r3, %r1, %r2; "
      "st.shared.u32 [%r3], %r10; bar.sync 0;"
      "xor.b32 %r4, %r2, 128; add.u32 %r5, %r1, %r4; ld.shared.u32 %r0, [%r5];";
  for (uint64_t seed = 1; seed < 10; ++seed) {
    const auto words = words_of(statements, 64, machine::Time::kRandom, seed);
    for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(words[i], i ^ 32u);
  }
}

TEST(Barrier, CountsThoseThatArriveAndThoseThatWait) {
  const std::string statements =
      ".shared .u32 s; setp.ge.u32 %p1, %r10, 32; @%p1 bra W; setp.eq.u32 %p2, %r10, 0; @%p2 "
      "st.shared.u32 [s], 9; bar.warp.sync -1; bar.arrive 3, 64; bra E;"
      "W: bar.sync 3, 64; ld.shared.u32 %r0, [s]; E: bar.warp.sync -1;";
  for (uint64_t seed = 1; seed < 10; ++seed)
    EXPECT_EQ(words_of(statements, 64, machine::Time::kRandom, seed)[40], 9u);
}

TEST(Barrier, Reduces) {
  EXPECT_EQ(words_of("setp.lt.u32 %p1, %r10, 40; bar.red.popc.u32 %r0, 0, %p1;", 64)[63], 40u);
  EXPECT_EQ(words_of("setp.lt.u32 %p1, %r10, 40; barrier.cta.red.and.aligned.pred %p2, 0, %p1; "
                     "selp.u32 %r0, 1, 2, %p2;",
                     64)[63],
            2u);
  EXPECT_EQ(
      words_of(
          "setp.lt.u32 %p1, %r10, 40; bar.red.or.pred %p2, 0, 64, %p1; selp.u32 %r0, 1, 2, %p2;",
          64)[63],
      1u);
}

TEST(Barrier, RefusesWrongCounts) {
  RunOptions two{.block = {64}};
  EXPECT_NE(error_of("bar.sync 16;").find("barrier 16, there are 16"), std::string::npos);
  EXPECT_NE(error_of("bar.sync 1, 33;").find("want a multiple of 32"), std::string::npos);
  EXPECT_NE(error_of("bar.sync 1, 96;", two).find("nothing can go on"), std::string::npos);
  EXPECT_NE(error_of("mov.u32 %r1, %warpid; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; bar.sync 1, 64; "
                     "A: bar.sync 1, 96;",
                     two)
                .find("those before said"),
            std::string::npos);
}

TEST(Cluster, BlocksMeetAndReadEachOther) {
  RunOptions options{.grid = {4}, .block = {32}, .cluster = {2}};
  options.settings.time = machine::Time::kRandom;
  for (options.settings.seed = 1; options.settings.seed < 10; ++options.settings.seed) {
    const Ran ran = run_statements(
        ".shared .u32 s; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %laneid; mov.u32 %r5, "
        "%cluster_ctarank; setp.eq.u32 %p1, %r2, 0; @%p1 st.shared.u32 [s], %r1;"
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; mov.u32 "
        "%r3, s; xor.b32 %r6, %r5, 1; mapa.shared::cluster.u32 %r4, %r3, %r6;"
        "ld.shared::cluster.u32 %r0, [%r4]; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %out, %rd1; "
        "@%p1 st.global.u32 [%rd2], %r0;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(ran.at<uint32_t>(i), i ^ 1u);
  }
  EXPECT_NE(error_of("mov.u32 %r1, 1024; mapa.shared::cluster.u32 %r2, %r1, 5;", options)
                .find("beyond the cluster's"),
            std::string::npos);
}

}  // namespace
}  // namespace octet::ptxsim::insn
