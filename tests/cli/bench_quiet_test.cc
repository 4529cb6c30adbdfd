// SPDX-License-Identifier: Apache-2.0
// The filter of `octet bench --quiet-only`, on a made-up /proc.
#include "bench_quiet.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "program.h"

namespace octet::cli_test {
namespace {

using tools::parse_schedstat;
using tools::QuietMeter;

void write_task(const Folder& proc, const std::string& pid, const std::string& task,
                const std::string& text) {
  const std::string folder = proc / (pid + "/task/" + task);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/schedstat") << text;
}

TEST(BenchQuiet, ParsesThreeNumbers) {
  const auto time = parse_schedstat("307227 119303 2\n");
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->run_ns, 307227);
  EXPECT_EQ(time->wait_ns, 119303);
  EXPECT_TRUE(parse_schedstat("9223372036854775807 0 0").has_value());
}

TEST(BenchQuiet, RefusesWhatIsNoSchedstat) {
  for (const char* text : {"", "\n", "1", "1 2", "1 2 3 4", "1 2 x", "a 2 3", "-1 2 3",
                           "9223372036854775808 0 0", "1 2 3.5", "1\n2\n3"}) {
    EXPECT_FALSE(parse_schedstat(text).has_value()) << text;
  }
}

TEST(BenchQuiet, SumsTheTasksOfOthersAndTheWaitingOfTheTested) {
  const Folder proc;
  write_task(proc, "10", "10", "1000 50 1\n");  // tested
  write_task(proc, "10", "11", "2000 60 1\n");
  write_task(proc, "20", "20", "400 7 1\n");  // a peer that is stopped
  write_task(proc, "30", "30", "500 7 1\n");  // foreign
  write_task(proc, "30", "31", "600 7 1\n");
  write_task(proc, "40", "40", "nonsense");
  write_task(proc, "sys", "1", "700 7 1\n");
  const QuietMeter meter({10, 20}, proc / "");
  const QuietMeter::Moment moment = meter.look(10);
  EXPECT_EQ(moment.waited_ns, 110);
  EXPECT_EQ(moment.foreign_run_ns, (std::map<pid_t, int64_t>{{30, 1100}, {40, 0}}));
}

TEST(BenchQuiet, DropsWhatOthersRanIn) {
  constexpr int64_t kMs = 1'000'000;
  const QuietMeter::Moment before{{{1, 10 * kMs}, {2, 10 * kMs}}, 5 * kMs};
  const auto quiet = [&](const std::map<pid_t, int64_t>& foreign, int64_t waited) {
    return QuietMeter::is_quiet(before, {foreign, waited}, 0.1);
  };
  EXPECT_TRUE(quiet({{1, 10 * kMs}, {2, 10 * kMs}}, 5 * kMs));
  EXPECT_TRUE(quiet({{1, 12 * kMs}, {2, 11 * kMs}}, 5 * kMs));  // 3 of 100 ms, less than 4 %
  EXPECT_FALSE(quiet({{1, 13 * kMs}, {2, 11 * kMs}}, 5 * kMs));
  EXPECT_FALSE(quiet({{1, 10 * kMs}, {2, 10 * kMs}, {3, 4 * kMs}}, 5 * kMs));  // a new one
  EXPECT_TRUE(quiet({{2, 10 * kMs}}, 5 * kMs));                                // one has ended
  EXPECT_TRUE(quiet({{1, 10 * kMs}}, 7 * kMs));  // waited 2 of 100 ms, less than 3 %
  EXPECT_FALSE(quiet({{1, 10 * kMs}}, 8 * kMs));
  // Of a millisecond 0.15 may be waited: threads that are woken.
  EXPECT_TRUE(QuietMeter::is_quiet(before, {{}, 5 * kMs + 150'000}, 1e-3));
  EXPECT_FALSE(QuietMeter::is_quiet(before, {{}, 5 * kMs + 200'000}, 1e-3));
  // The number of a process that ended was used again.
  EXPECT_TRUE(quiet({{1, 0}, {2, 10 * kMs}}, 5 * kMs));
}

TEST(BenchQuiet, SaysWhereItCannotRead) {
  const Folder proc;
  const Status missing = QuietMeter::check_readable(proc / "");
  EXPECT_FALSE(missing.ok());
  EXPECT_NE(missing.why.find("--quiet-only: cannot read " + (proc / "")), std::string::npos)
      << missing.why;
  std::filesystem::create_directories(proc / "self");
  std::ofstream(proc / "self/schedstat") << "0 0 0\n";
  EXPECT_NE(QuietMeter::check_readable(proc / "").why.find("never ran"), std::string::npos);
  std::ofstream(proc / "self/schedstat") << "5 0 1\n";
  EXPECT_TRUE(QuietMeter::check_readable(proc / "").ok());
}

}  // namespace
}  // namespace octet::cli_test
