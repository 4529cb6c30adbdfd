// SPDX-License-Identifier: Apache-2.0
// What the machine counts of a grid (machine/counts.h), of kernels whose numbers are plain.
#include "ptxsim/insn/test_run.h"

namespace octet::ptxsim::insn {
namespace {

using machine::GridCounts;
using machine::Time;

GridCounts counts_of(const std::string& statements, const RunOptions& options) {
  const Ran ran = run_statements(statements, options);
  EXPECT_TRUE(ran.status.ok()) << ran.status.why;
  EXPECT_EQ(ran.grids.size(), 1U);
  return ran.grids.empty() ? GridCounts{} : ran.grids[0];
}

TEST(Counts, AreThoseOfEachBlockAndOfAll) {
  RunOptions options{.grid = {5}, .block = {64}};
  options.settings.num_sms = 2;
  options.settings.sm_threads = 128;
  // Block 0 has a load, a store and two instructions more in each of its warps.
  const GridCounts counts = counts_of(
      "mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, 0; @%p0 ret; ld.global.u32 %r1, [%in]; "
      "st.global.u8 [%out], %r1;",
      options);
  EXPECT_EQ(counts.kernel, "k");
  EXPECT_EQ(counts.blocks, 5U);
  EXPECT_EQ(counts.threads, 64U);
  EXPECT_EQ(counts.shared_bytes, 1024U);
  EXPECT_EQ(counts.blocks_per_sm, 2U);
  EXPECT_EQ(counts.waves, 2U);
  EXPECT_EQ(counts.all.instructions, 5U * 2 * 5 + 2 * 3);  // the last of them a ret
  EXPECT_EQ(counts.most.instructions, 2U * 8);
  EXPECT_EQ(counts.all.global_read_bytes, 64U * 4);
  EXPECT_EQ(counts.most.global_read_bytes, 64U * 4);
  EXPECT_EQ(counts.all.global_written_bytes, 64U);
  EXPECT_EQ(counts.all.copied_bytes, 0U);
  EXPECT_EQ(counts.read_bytes, (std::map<std::string, uint64_t>{{"in", 256}}));
}

// Two copies of 64 and of 16 bytes, one behind the other or both at once.
TEST(Counts, HaveTheCopiesThatAreInFlightTogether) {
  const std::string begin =
      ".shared .align 16 .b8 s[128]; mov.u32 %r1, s; add.u32 %r2, %r1, 96; "
      "mbarrier.init.shared.b64 [%r2], 1;";
  const auto copy = [](const std::string& at, const std::string& bytes) {
    return "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes " + at + ", " + bytes +
           ", [%r2];";
  };
  const auto expect = [](const std::string& bytes) {
    return "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], " + bytes + ";";
  };
  const auto wait = [](const std::string& name, const std::string& parity) {
    return name + ": mbarrier.try_wait.parity.shared.b64 %p2, [%r2], " + parity + "; @!%p2 bra " +
           name + ";";
  };
  const std::string first = copy("[%r1], [%in]", "64"), second = copy("[%r1+64], [%in+64]", "16");
  const std::string together = begin + expect("80") + first + second + wait("A", "0"),
                    apart = begin + expect("64") + first + wait("A", "0") + expect("16") + second +
                            wait("B", "1");
  for (const Time time : {Time::kEager, Time::kLate}) {
    RunOptions options{.block = {1}};
    options.settings.time = time;
    const GridCounts counts = counts_of(together, options);
    EXPECT_EQ(counts.most_bytes_in_flight, time == Time::kLate ? 80U : 0U);
    EXPECT_EQ(counts.all.copied_bytes, 80U);
    EXPECT_EQ(counts.all.global_read_bytes, 80U);
    EXPECT_EQ(counts_of(apart, options).most_bytes_in_flight, time == Time::kLate ? 64U : 0U);
  }
}

TEST(Counts, AreAnObjectOfOneLine) {
  GridCounts counts;
  counts.kernel = "k\"\n";
  counts.all.products = 7;
  counts.read_bytes = {{"a", 1}, {"b", 2}};
  const std::string text = json_of(counts);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_NE(text.find("\"kernel\": \"k__\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"products\": 7}, \"most_of_a_block\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"read_bytes\": {\"a\": 1, \"b\": 2}}"), std::string::npos) << text;
}

}  // namespace
}  // namespace octet::ptxsim::insn
