// SPDX-License-Identifier: Apache-2.0
// mbarriers and copies, in every time: what waits sees the bytes; what does not wait sees them eagerly and no other way.
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

using machine::Time;

std::vector<RunOptions> all_times(uint32_t threads) {
  std::vector<RunOptions> all;
  for (const Time time : {Time::kEager, Time::kRandom, Time::kLate}) {
    for (uint64_t seed = 1; seed < 6; ++seed) {
      RunOptions options{.block = {threads}};
      options.settings.time = time;
      options.settings.seed = seed;
      for (size_t i = 0; i < options.in.size(); ++i) options.in[i] = uint8_t(i + 1);
      all.push_back(options);
    }
  }
  return all;
}

const std::string kBarrier =
    ".shared .align 16 .b8 s[64]; .shared .align 8 .b64 bar; mov.u32 %r1, s; mov.u32 %r2, bar; "
    "mov.u32 %r3, %tid.x; setp.eq.u32 %p1, %r3, 0;\n";
const std::string kWait =
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r5; @!%p2 bra W;\n";

TEST(Mbarrier, PhasesEndWithTheLastArrival) {
  const std::string statements =
      kBarrier +
      "@%p1 mbarrier.init.shared.b64 [%r2], 64; bar.sync 0; mov.u32 %r5, 0; mov.u32 %r6, 0;\n"
      "L: mbarrier.arrive.shared.b64 %rd1, [%r2];\n"
      "V: mbarrier.test_wait.shared.b64 %p2, [%r2], %rd1; @!%p2 bra V; add.u32 %r6, %r6, 1; "
      "setp.lt.u32 %p3, %r6, 5; @%p3 bra L;\n" +
      "@%p1 st.global.u32 [%out], %r6;";
  for (const RunOptions& options : all_times(64)) {
    const Ran ran = run_statements(statements, options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    EXPECT_EQ(ran.at<uint32_t>(0), 5u);
  }
}

TEST(Mbarrier, FreshBarrierHasEndedParityOne) {
  EXPECT_EQ(word_of(kBarrier +
                    "mbarrier.init.shared.b64 [%r2], 1; mbarrier.test_wait.parity.shared.b64 %p3, "
                    "[%r2], 1; mbarrier.test_wait.parity.shared.b64 %p4, [%r2], 0;"
                    "selp.u32 %r6, 1, 0, %p3; selp.u32 %r7, 2, 0, %p4; add.u32 %r0, %r6, %r7;"),
            1u);
}

TEST(Mbarrier, RefusesMisuse) {
  const RunOptions one{.block = {1}};
  const auto refused = [&](const std::string& statements) {
    return error_of(kBarrier + statements, one);
  };
  EXPECT_NE(refused("mbarrier.arrive.shared.b64 _, [%r2];").find("no mbarrier at shared address"),
            std::string::npos);
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2], 0;").find("0 arrivals, want 1"),
            std::string::npos);
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2+4], 1;").find("not a multiple of 8"),
            std::string::npos);
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2], 1; mbarrier.init.shared.b64 [%r2], 1;")
                .find("mbarrier.inval must stand before"),
            std::string::npos);
  EXPECT_EQ(refused("mbarrier.init.shared.b64 [%r2], 1; mbarrier.inval.shared.b64 [%r2]; "
                    "mbarrier.init.shared.b64 [%r2], 1;"),
            "");
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.shared.b64 _, [%r2], 2;")
                .find("2 arrivals at an mbarrier"),
            std::string::npos);
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2], 1; ld.shared.u64 %rd1, [%r2];")
                .find("reads an mbarrier object"),
            std::string::npos);
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2], 1; st.shared.u32 [%r2+4], 0;")
                .find("writes an mbarrier object"),
            std::string::npos);
  EXPECT_NE(
      refused("mbarrier.init.shared.b64 [%r2], 1; mbarrier.expect_tx.shared.b64 [%r2], 1048576;")
          .find("at most 1048575"),
      std::string::npos);
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2], 1; mov.u32 %r5, 0;" + kWait)
                .find("nothing can go on"),
            std::string::npos);
  EXPECT_NE(refused("mbarrier.init.shared.b64 [%r2], 1; V: mbarrier.test_wait.parity.shared.b64 "
                    "%p2, [%r2], 0; @!%p2 bra V;")
                .find("nothing can go on"),
            std::string::npos);
}

const std::string kBulk =
    "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;\n"
    "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;\n"
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%in], 64, "
    "[%r2];\n";

TEST(BulkCopy, HasArrivedOnceTheBarrierSaysSo) {
  for (const RunOptions& options : all_times(64)) {
    const Ran ran = run_statements(kBarrier + kBulk + "mov.u32 %r5, 0;" + kWait +
                                       "ld.shared.u32 %r0, [%r1+60]; setp.eq.u32 %p3, %r3, 63; "
                                       "@%p3 st.global.u32 [%out], %r0;",
                                   options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    EXPECT_EQ(ran.at<uint32_t>(0), 0x403F3E3Du);
    EXPECT_EQ(ran.counts.global_read_bytes, 64u);
  }
}

TEST(BulkCopy, WithoutAWaitTheBytesArePoison) {
  for (const RunOptions& options : all_times(64)) {
    if (options.settings.time != Time::kLate) continue;
    EXPECT_NE(
        error_of(kBarrier + kBulk + "ld.shared.u32 %r0, [%r1+60]; mov.u32 %r5, 0;" + kWait, options)
            .find("have not been written"),
        std::string::npos);
  }
}

TEST(BulkCopy, ExitsWithWorkInFlightAreErrors) {
  for (const RunOptions& options : all_times(64)) {
    const std::string why = error_of(kBarrier + kBulk, options);
    if (options.settings.time == Time::kLate) {
      EXPECT_NE(why.find("the block has exited with 1 operations in flight"), std::string::npos);
    }
    if (options.settings.time == Time::kEager) {
      EXPECT_EQ(why, "");
    }
  }
}

TEST(BulkCopy, RefusesWhatIsNotAligned) {
  const auto refused = [](const std::string& copy) {
    return error_of(kBarrier +
                    "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 "
                    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes " +
                    copy + ", [%r2];");
  };
  EXPECT_NE(refused("[%r1], [%in], 60").find("not all multiples of 16"), std::string::npos);
  EXPECT_NE(refused("[%r1+8], [%in], 32").find("not all multiples of 16"), std::string::npos);
  EXPECT_NE(refused("[%r1], [%in+4], 32").find("not all multiples of 16"), std::string::npos);
  EXPECT_NE(refused("[%r1], [%in], 512").find("bytes at shared address"), std::string::npos);
}

TEST(BulkCopy, StoresReadTheirSourceLate) {
  const std::string fill =
      kBarrier +
      "@%p1 st.shared.v4.u32 [%r1], {1, 2, 3, 4}; @%p1 fence.proxy.async.shared::cta; @%p1 "
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16; @%p1 "
      "cp.async.bulk.commit_group;";
  const std::string waits = "@%p1 cp.async.bulk.wait_group.read 0;",
                    overwrites = "@%p1 st.shared.u32 [%r1], 9;",
                    ends = "@%p1 cp.async.bulk.wait_group 0;";
  for (const RunOptions& options : all_times(32)) {
    const Ran ran = run_statements(fill + waits + overwrites + ends, options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    EXPECT_EQ(ran.at<uint32_t>(0), 1u);
    EXPECT_EQ(ran.at<uint32_t>(3), 4u);
    EXPECT_NE(error_of(fill + overwrites + ends, options).find("order: shared byte 1024"),
              std::string::npos);
    RunOptions unchecked = options;
    unchecked.settings.order = machine::OrderCheck::kOff;
    if (options.settings.time == Time::kLate) {
      EXPECT_EQ(run_statements(fill + overwrites + ends, unchecked).at<uint32_t>(0), 9u);
    }
  }
}

TEST(BulkCopy, MulticastReachesTheRanks) {
  for (RunOptions options : all_times(32)) {
    options.grid = options.cluster = {2};
    const Ran ran = run_statements(
        kBarrier +
            "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; "
            "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
            "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 32; mov.u32 %r7, "
            "%cluster_ctarank; setp.eq.and.u32 %p4, %r7, 0, %p1; mov.b16 %rs1, 3;"
            "@%p4 "
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%r1], [%in], 32, [%r2], %rs1; mov.u32 %r5, 0;" +
            kWait +
            "ld.shared.u32 %r0, [%r1+28]; mul.wide.u32 %rd1, %r7, 4; add.s64 %rd2, %out, %rd1; "
            "@%p1 st.global.u32 [%rd2], %r0; barrier.cluster.arrive.aligned; "
            "barrier.cluster.wait.aligned;",
        options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    EXPECT_EQ(ran.at<uint32_t>(0), 0x201F1E1Du);
    EXPECT_EQ(ran.at<uint32_t>(1), 0x201F1E1Du);
  }
}

const std::string kCopies = kBarrier +
                            "shl.b32 %r4, %r3, 4; add.u32 %r6, %r1, %r4; cvt.u64.u32 %rd1, %r4; "
                            "add.s64 %rd2, %in, %rd1; setp.lt.u32 %p4, %r3, 4;\n";

TEST(CpAsync, GroupsAreWaitedFor) {
  const std::string statements =
      kCopies +
      ".shared .u32 t; mov.u32 %r8, t; @%p4 cp.async.cg.shared.global [%r6], [%rd2], 16; "
      "cp.async.commit_group; @%p1 cp.async.ca.shared.global [%r8], [%in], 4, 2; "
      "cp.async.commit_group; ";
  for (const RunOptions& options : all_times(32)) {
    const Ran ran = run_statements(statements +
                                       "cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r0, "
                                       "[%r1+52]; @%p1 st.global.u32 [%out], %r0;",
                                   options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    EXPECT_EQ(ran.at<uint32_t>(0), 0x38373635u);
    if (options.settings.time == Time::kLate) {
      EXPECT_NE(error_of(statements + "ld.shared.u32 %r0, [%r1+52]; cp.async.wait_all;", options),
                "");
    }
  }
}

TEST(CpAsync, BytesBeyondTheSourceAreZeros) {
  const Ran ran =
      run_statements(kCopies +
                         "@%p1 cp.async.ca.shared.global [%r1], [%in], 8, 3; cp.async.wait_all; "
                         "@%p1 ld.shared.u64 %rd3, [%r1]; @%p1 st.global.u64 [%out], %rd3;",
                     {.block = {32}, .in = std::vector<uint8_t>(256, 7)});
  ASSERT_TRUE(ran.status.ok()) << ran.status.why;
  EXPECT_EQ(ran.at<uint64_t>(0), 0x070707u);
}

TEST(CpAsync, ArrivesOnceItsCopiesAreThere) {
  for (const RunOptions& options : all_times(32)) {
    const Ran ran = run_statements(
        kCopies +
            "@%p1 mbarrier.init.shared.b64 [%r2], 32; bar.sync 0; @%p4 cp.async.cg.shared.global "
            "[%r6], [%rd2], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [%r2]; mov.u32 %r5, 0;" +
            kWait + "ld.shared.u32 %r0, [%r1+52]; @%p1 st.global.u32 [%out], %r0;",
        options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    EXPECT_EQ(ran.at<uint32_t>(0), 0x38373635u);
  }
}

TEST(Time, TryWaitGivesUpNowAndThen) {
  uint64_t gave_up = 0;
  RunOptions options{.block = {32}};
  options.settings.time = Time::kLate;
  for (options.settings.seed = 1; options.settings.seed < 60; ++options.settings.seed) {
    const Ran ran = run_statements(
        kBarrier + kBulk +
            "mov.u32 %r9, 0; W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;"
            "@!%p2 add.u32 %r9, %r9, 1; @!%p2 bra W; @%p1 st.global.u32 [%out], %r9;",
        options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.why;
    gave_up += ran.at<uint32_t>(0);
  }
  EXPECT_GT(gave_up, 0u);
}

}  // namespace
}  // namespace octet::ptxsim::insn
