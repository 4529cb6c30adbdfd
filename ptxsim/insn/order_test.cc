// SPDX-License-Identifier: Apache-2.0
// The ordering checker: each rule with a kernel that keeps it, and one that leaves out what it wants. Values are right in all of them.
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

using machine::Time;

const std::string kBegin =
    ".shared .align 16 .b8 s[64]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty; mov.u32 "
    "%r1, s; mov.u32 %r2, full; mov.u32 %r4, empty; "
    "mov.u32 %r3, %tid.x; setp.eq.u32 %p1, %r3, 0; setp.ge.u32 %p3, %r3, 32; mov.u32 %r0, 0;\n";

std::string error_in(const std::string& statements, Time time, uint64_t seed) {
  RunOptions options{.block = {64}};
  options.settings.time = time;
  options.settings.seed = seed;
  return error_of(kBegin + statements, options);
}

// Whether the first is silent for all times and seeds, and the second is refused for all of them, with these words.
void expect_needed(const std::string& right, const std::string& wrong, const std::string& words) {
  for (const Time time : {Time::kEager, Time::kRandom, Time::kLate}) {
    for (uint64_t seed = 1; seed < 8; ++seed) {
      EXPECT_EQ(error_in(right, time, seed), "");
      const std::string why = error_in(wrong, time, seed);
      EXPECT_NE(why.find(words), std::string::npos) << why;
    }
  }
}

// `text` without `part`, once.
std::string without(std::string text, const std::string& part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.erase(at, part.size());
}

TEST(Order, WritesAreKnownBehindABarrier) {
  const std::string text =
      "@%p1 st.shared.u32 [%r1], 7; bar.sync 0; @%p3 ld.shared.u32 %r0, [%r1];";
  for (uint64_t seed = 1; seed < 30; ++seed) {
    EXPECT_EQ(error_in(text, Time::kRandom, seed), "");
    const std::string why = error_in(without(text, "bar.sync 0;"), Time::kRandom, seed);
    const bool is_early = why.find("have not been written") != std::string::npos ||
                          why.find("read by warp 1") != std::string::npos;
    EXPECT_TRUE(is_early || why.find("written by warp 0 at line 7 ('@%p1 st.shared.u32 [%r1], "
                                     "7;'), with nothing that orders the two") != std::string::npos)
        << why;
  }
}

TEST(Order, ReadsAreDoneBeforeTheNextWrite) {
  const std::string text =
      "@%p1 st.shared.u32 [%r1], 7; bar.sync 0; @%p3 ld.shared.u32 %r0, [%r1]; bar.sync 1; @%p1 "
      "st.shared.u32 [%r1], 8;";
  const std::string wrong = without(text, "bar.sync 1;");
  for (uint64_t seed = 1; seed < 30; ++seed) {
    EXPECT_EQ(error_in(text, Time::kRandom, seed), "");
    EXPECT_NE(error_in(wrong, Time::kRandom, seed).find("with nothing that orders the two"),
              std::string::npos);
  }
}

TEST(Order, AMbarrierIsUsedBehindItsInit) {
  const std::string text =
      "@%p1 mbarrier.init.shared.b64 [%r2], 64; bar.sync 0; mbarrier.arrive.shared.b64 _, [%r2]; "
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;";
  for (uint64_t seed = 1; seed < 10; ++seed) {
    EXPECT_EQ(error_in(text, Time::kRandom, seed), "");
    EXPECT_NE(error_in(without(text, "bar.sync 0;"), Time::kRandom, seed), "");
  }
}

TEST(Order, AnMbarrierOrders) {
  const std::string text =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @%p3 bra R; @%p1 st.shared.u32 [%r1], "
      "7; @%p1 mbarrier.arrive.shared.b64 _, [%r2]; bra E;"
      "R: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra R; ld.shared.u32 %r0, "
      "[%r1]; E: bar.warp.sync -1;";
  const std::string wrong =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @%p3 bra R; @%p1 "
      "mbarrier.arrive.shared.b64 _, [%r2]; @%p1 st.shared.u32 [%r1], 7; bra E;"
      "R: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra R; nanosleep.u32 20; "
      "nanosleep.u32 20; ld.shared.u32 %r0, [%r1]; E: bar.warp.sync -1;";
  for (uint64_t seed = 1; seed < 20; ++seed) {
    EXPECT_EQ(error_in(text, Time::kRandom, seed), "");
    EXPECT_NE(error_in(wrong, Time::kRandom, seed), "");
  }
}

const std::string kLoad =
    "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r4], 32; bar.sync 0; "
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;\n"
    "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%in], 64, [%r2];\n";

TEST(Order, ACopyIsWaitedFor) {
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;";
  for (const Time time : {Time::kEager, Time::kRandom, Time::kLate}) {
    EXPECT_EQ(error_in(kLoad + wait + "ld.shared.u32 %r0, [%r1];", time, 1), "");
    EXPECT_NE(error_in(kLoad + "ld.shared.u32 %r0, [%r1];" + wait, time, 1), "");
  }
  const std::string why = error_in(kLoad + "ld.shared.u32 %r0, [%r1];" + wait, Time::kEager, 1);
  EXPECT_NE(why.find("written by the asynchronous operation of line 8"), std::string::npos) << why;
  EXPECT_NE(why.find("which has not been waited for"), std::string::npos) << why;
}

TEST(Order, ASlotIsFreeBeforeItIsFilledAgain) {
  const std::string read =
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W; @%p3 ld.shared.u32 %r0, "
      "[%r1]; @%p3 mbarrier.arrive.shared.b64 _, [%r4];";
  const std::string wait = "V: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra V;";
  const std::string again =
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64; @%p1 "
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%in], 64, [%r2]; "
      "X: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 1; @!%p2 bra X;";
  for (uint64_t seed = 1; seed < 20; ++seed) {
    EXPECT_EQ(error_in(kLoad + read + wait + again, Time::kRandom, seed), "");
    EXPECT_NE(error_in(kLoad + read + again, Time::kRandom, seed), "");
  }
}

TEST(Order, GenericWritesAreFencedForACopy) {
  const std::string text =
      "@%p1 st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async.shared::cta; bar.sync 0; "
      "setp.eq.u32 %p4, %r3, 32;"
      "@%p4 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16; @%p4 "
      "cp.async.bulk.commit_group; @%p4 cp.async.bulk.wait_group 0;";
  expect_needed(text, without(text, "fence.proxy.async.shared::cta;"),
                "with no fence.proxy.async behind it");
  // By the reader, behind the barrier, it does as well (PTX ISA 8.9.5: a fence along the way).
  const std::string fence = "fence.proxy.async.shared::cta; ", barrier = "bar.sync 0; ";
  std::string later = without(text, fence);
  later.insert(later.find(barrier) + barrier.size(), fence);
  for (uint64_t seed = 1; seed < 8; ++seed) EXPECT_EQ(error_in(later, Time::kRandom, seed), "");
}

TEST(Order, ASourceIsReadBeforeItIsOverwritten) {
  const std::string text =
      "@%p1 st.shared.v4.u32 [%r1], {1, 2, 3, 4}; @%p1 fence.proxy.async; @%p1 "
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16;"
      "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0; @%p1 st.shared.u32 "
      "[%r1], 9; @%p1 cp.async.bulk.wait_group 0;";
  expect_needed(text, without(text, "@%p1 cp.async.bulk.wait_group.read 0;"),
                "order: shared byte 1024");
}

TEST(Order, CopiesOfALaneAreWaitedFor) {
  const std::string text =
      "@%p1 cp.async.cg.shared.global [%r1], [%in], 16; cp.async.commit_group; cp.async.wait_group "
      "0; bar.sync 0; ld.shared.u32 %r0, [%r1];";
  EXPECT_EQ(error_in(text, Time::kLate, 1), "");
  EXPECT_NE(error_in(without(text, "cp.async.wait_group 0;"), Time::kEager, 1)
                .find("which has not been waited for"),
            std::string::npos);
  EXPECT_NE(error_in(without(text, "bar.sync 0;"), Time::kEager, 1), "");
}

TEST(Order, AtomicsAndFlagsOrder) {
  const std::string text =
      ".shared .u32 flag; @%p1 st.shared.u32 [flag], 0; bar.sync 0; @%p3 bra R; @%p1 st.shared.u32 "
      "[%r1], 7; @%p1 st.release.cta.shared.u32 [flag], 1; bra E;"
      "R: ld.acquire.cta.shared.u32 %r5, [flag]; setp.eq.u32 %p2, %r5, 0; @%p2 bra R; "
      "ld.shared.u32 %r0, [%r1]; E: bar.warp.sync -1; atom.shared.add.u32 %r6, [flag], 1;";
  for (uint64_t seed = 1; seed < 20; ++seed) EXPECT_EQ(error_in(text, Time::kRandom, seed), "");
}

TEST(Order, ARelaxedMbarrierOrdersByFences) {
  const std::string text =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @%p3 bra R; @%p1 st.shared.u32 [%r1], "
      "7; fence.acq_rel.cta; @%p1 mbarrier.arrive.relaxed.cta.shared.b64 _, [%r2]; bra E;"
      "R: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p2, [%r2], 0; @!%p2 bra R; "
      "fence.sc.cta; ld.shared.u32 %r0, [%r1]; E: bar.warp.sync -1;";
  expect_needed(text, without(text, "fence.acq_rel.cta;"), "with nothing that orders the two");
  expect_needed(text, without(text, "fence.sc.cta;"), "with nothing that orders the two");
}

TEST(Order, GenericWritesToGlobalMemoryAreFencedForACopy) {
  const std::string text =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 st.global.v4.u32 [%out+32], {1, 2, 3, 4}; "
      "@%p1 fence.proxy.async.global; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;\n"
      "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [FROM], 64, "
      "[%r2]; bar.sync 0; W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;";
  const auto from = [&](const std::string& address) {
    std::string all = text;
    return all.replace(all.find("FROM"), 4, address);
  };
  const std::string set =
      "@%p1 st.global.v4.u32 [%out], {0, 0, 0, 0}; "
      "@%p1 st.global.v4.u32 [%out+16], {0, 0, 0, 0}; "
      "@%p1 st.global.v4.u32 [%out+48], {0, 0, 0, 0}; ";
  expect_needed(set + from("%out"), set + without(from("%out"), "@%p1 fence.proxy.async.global;"),
                "order: 'out': written by the generic proxy");
  // What the host wrote needs none.
  EXPECT_EQ(error_in(without(from("%in"), "@%p1 fence.proxy.async.global;"), Time::kLate, 1), "");
}

// Two commits of one thread may arrive in either order (9.7.16.12), so each is waited for before the block ends.
TEST(Order, EachCommitIsWaitedFor) {
  const std::string text =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r4], 1; bar.sync 0;"
      "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];"
      "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];"
      "V: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra V;"
      "W: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 0; @!%p4 bra W;";
  for (const char* wait : {"V: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra V;",
                           "W: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 0; @!%p4 bra W;"}) {
    int num_found = 0;
    for (uint64_t seed = 1; seed < 20; ++seed) {
      EXPECT_EQ(error_in(text, Time::kLate, seed), "");
      const std::string why = error_in(without(text, wait), Time::kLate, seed);
      num_found += why.find("in flight") == std::string::npos ? 0 : 1;
    }
    EXPECT_GT(num_found, 0) << wait;
  }
}

}  // namespace
}  // namespace octet::ptxsim::insn
