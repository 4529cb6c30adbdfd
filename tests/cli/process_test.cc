// SPDX-License-Identifier: Apache-2.0
// Streams that take nothing, limits and signals: how the process ends, and what it leaves.
#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "program.h"

namespace octet::cli_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> run_words(const Folder& folder, const std::string& model, int64_t rows) {
  NamedTensors tensors;
  tensors["x"] = make_x(rows);
  return {"run",      model,       "--layer", "0", "--input", save(folder / "x", tensors),
          "--output", folder / "y"};
}

int64_t num_files(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(Process, AnErrorThatCannotBeWrittenKeepsItsExitStatus) {
  const Folder folder;
  for (const std::string nowhere : {"2>&-", "2>/dev/full"}) {
    EXPECT_EQ(octet_in_shell(":", {"inspect", folder / "nope"}, nowhere).exit, 1) << nowhere;
    EXPECT_EQ(octet_in_shell(":", {"inspect"}, nowhere).exit, 2) << nowhere;
    EXPECT_EQ(octet_in_shell(":", {"nope"}, nowhere).exit, 2) << nowhere;
  }
}

// The layer has shared experts: there is a note on stderr after the file is written, and none of it in the file.
TEST(Process, ANoteThatCannotBeWrittenChangesNothing) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "deepseek-v4.1-flash");
  std::vector<std::string> words = run_words(folder, model, 2);
  words[3] = last_layer(model);
  words.insert(words.end(), {"--image-sentinel-lo", "0"});
  const Finished noted = octet(words);
  ASSERT_EQ(noted.exit, 0) << noted.err;
  ASSERT_NE(noted.err.find("note"), std::string::npos);
  const std::string wanted = bytes_of(load(folder / "y")["y"]);
  for (const std::string nowhere : {"2>&-", "2>/dev/full", "<&- 2>&-"}) {
    EXPECT_EQ(octet_in_shell(":", words, nowhere).exit, 0) << nowhere;
    EXPECT_EQ(bytes_of(load(folder / "y")["y"]), wanted) << nowhere;
  }
}

TEST(Process, AReportThatCannotBeWrittenIsAFailure) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", model},
      {"inspect", model, "--json"},
      {"validate", model},
      {"check", model, "--layer", "0"},
      {"bench", "--model", model, "--layer", "0", "--rows", "1", "--repeats", "1"},
      {"list"},
      {"list", "--json"},
      {"explain"},
      {"op", "--list"},
      {"--help"},
      {"run", "--help"},
      {"--version"},
      run_words(folder, model, 2),
      {"pack", model, "--output", folder / "y"}};
  for (const std::vector<std::string>& words : commands) {
    const Finished full = octet_in_shell(":", words, ">/dev/full");
    EXPECT_EQ(full.exit, 1) << words[0];
    EXPECT_EQ(full.err, "octet: stdout: No space left on device\n") << words[0];
    const Finished closed = octet_in_shell(":", words, ">&-");
    EXPECT_EQ(closed.exit, 1) << words[0];
    EXPECT_EQ(closed.err, "octet: stdout: Bad file descriptor\n") << words[0];
    EXPECT_FALSE(fs::exists(folder / "y")) << words[0];
  }
}

#ifndef OCTET_SANITIZED
TEST(Process, ALimitOfItsMemoryIsASentence) {
  // 429 MB of weights under a limit of 205 MB.
  const Finished f = octet_in_shell("ulimit -v 200000", {"bench", "--shape", "flint", "--rows", "1",
                                                         "--repeats", "1", "--threads", "1"});
  EXPECT_EQ(f.exit, 1);
  EXPECT_NE(f.err.find("256 experts and the read ceiling's buffer: needs "), std::string::npos)
      << f.err;
  EXPECT_EQ(f.err_lines(), 1) << f.err;
  // On a device they take none of the host's memory, so what is said is about the device.
  const Finished device = octet_in_shell(
      "ulimit -v 3000000", {"bench", "--shape", "v4.1", "--activations", "mxfp8", "--kernel",
                            "experts_mxfp8_mxfp4_sm90", "--rows", "1", "--repeats", "1"});
  EXPECT_EQ(device.err.find("read ceiling's buffer"), std::string::npos) << device.err;
}

// Wherever the allocation fails that no check foresaw: from a process that cannot load its libraries to one that succeeds.
TEST(Process, AnAllocationThatFailsIsASentence) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  std::vector<std::string> words = run_words(folder, model, 4096);
  words.insert(words.end(), {"--threads", "2", "--trace"});
  int refused = 0;
  for (int64_t kilobytes = 20000; kilobytes <= 120000; kilobytes += 4000) {
    const std::string limit = "ulimit -v " + std::to_string(kilobytes);
    if (octet_in_shell(limit, {"--version"}).exit != 0) continue;  // it can't be loaded
    const Finished f = octet_in_shell(limit, words);
    if (f.exit == 0) continue;  // enough
    ++refused;
    EXPECT_EQ(f.exit, 1) << kilobytes << f.err;
    EXPECT_EQ(f.err_lines(), 1) << kilobytes << f.err;
    EXPECT_EQ(f.err.find("bad_alloc"), std::string::npos) << kilobytes << f.err;
    EXPECT_EQ(f.err.find("std::"), std::string::npos) << kilobytes << f.err;
  }
  EXPECT_GT(refused, 0);
}
#endif

TEST(Process, ALimitOfFileSizesIsAnErrorAndLeavesNothing) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  const std::vector<std::string> run = run_words(folder, model, 64);  // y: 16 kB
  const int64_t before = num_files(folder / "");
  const std::vector<std::vector<std::string>> commands = {
      run,
      {"pack", model, "--output", folder / "y"},
      {"synth", "gpt-oss-20b", "--output", folder / "s", "--experts", "8"}};
  for (const std::vector<std::string>& words : commands) {
    const Finished f = octet_in_shell("ulimit -f 10", words);
    EXPECT_EQ(f.exit, 1) << words[0];
    EXPECT_NE(f.err.find("File too large"), std::string::npos) << f.err;
    EXPECT_EQ(num_files(folder / ""), before) << words[0];
  }
}

// gpt-oss-20b whole: gigabytes, so that the signal comes while the file is written.
TEST(Process, ASignalRemovesTheFileThatIsBeingWritten) {
  const Folder folder;
  const std::string model = folder / "s";
  for (const std::string signal : {"INT", "TERM", "HUP"}) {
    const Finished f = octet_in_shell("me=$$; (for i in $(seq 500); do sleep 0.02; ls '" + model +
                                          "' 2>/dev/null | grep -q tmp && "
                                          "kill -" +
                                          signal + " $me && break; done) >/dev/null 2>&1 & :",
                                      {"synth", "gpt-oss-20b", "--layers", "1", "--output", model});
    EXPECT_GT(f.exit, 128) << signal << f.err;
    EXPECT_TRUE(!fs::exists(model) || num_files(model) == 0) << signal;
  }
}

}  // namespace
}  // namespace octet::cli_test
