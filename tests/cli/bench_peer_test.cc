// SPDX-License-Identifier: Apache-2.0
// `octet bench --peer` with peers that do as they are told (fake_peer/fake_peer.cc).
#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "program.h"

namespace octet::cli_test {
namespace {

class BenchPeer : public testing::Test {
 protected:
  Folder folder_;
  std::string model_;

  void SetUp() override { use("deepseek-v4.1-flash"); }
  void use(const std::string& preset) { model_ = make_checkpoint(folder_, preset); }

  Finished bench(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "bench",  "--model", model_,      "--layer", last_layer(model_), "--activations", "bf16",
        "--rows", "1,3",     "--repeats", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return octet(words);
  }
  static std::string peer(const std::string& name, const std::string& does) {
    return name + "='" OCTET_FAKE_PEER "' " + does;
  }
  // Exit 1 and one line that ends the report or stands alone.
  void expect_error(const std::string& does, const std::string& said) const {
    const Finished f = bench({"--peer", peer("fake", does)});
    EXPECT_EQ(f.exit, 1) << does;
    EXPECT_EQ(f.err_lines(), 1) << f.err;
    EXPECT_NE(f.err.find("octet: --peer fake" + said), std::string::npos) << f.err;
  }
  // A peer that computes in float64 from the file: what it made is our float64, rounded to binary32.
  void expect_right() const {
    const Finished f =
        bench({"--peer", peer("one", "right"), "--peer", peer("two", "right"), "--json"});
    ASSERT_EQ(f.exit, 0) << f.err;
    EXPECT_EQ(f.err, "");
    const nlohmann::json json = f.json();
    ASSERT_EQ(json["peers"].size(), 2U);
    EXPECT_EQ(json["peers"][0]["name"], "one");
    ASSERT_EQ(json["results"].size(), 2U);
    for (const auto& row : json["results"]) {
      EXPECT_EQ(row["repeats"], 2);
      EXPECT_LT(row["nmse"].get<double>(), 1e-4);
      EXPECT_LT(row["nmse_before_rounding"].get<double>(), row["nmse"].get<double>());
      EXPECT_FALSE(row.contains("rounds_dropped"));
      ASSERT_EQ(row["peers"].size(), 2U);
      for (const auto& p : row["peers"]) {
        EXPECT_LT(p["nmse"].get<double>(), 1e-12) << p.dump();
        EXPECT_GT(p["ratio"].get<double>(), 0) << p.dump();
        EXPECT_LE(p["min_us"].get<double>(), p["median_us"].get<double>()) << p.dump();
      }
    }
    EXPECT_EQ(json["results"][1]["peers"][1]["name"], "two");
  }
};

TEST_F(BenchPeer, GetsTheLayersMxfp4Weights) { expect_right(); }

TEST_F(BenchPeer, GetsTheLayersNvfp4Weights) {
  use("flint-modelopt");
  expect_right();
}

TEST_F(BenchPeer, GetsTheWeightsOfAPackedFile) {
  const std::string packed = folder_ / "packed";
  const Finished f = octet({"pack", model_, "--layer", "0", "--output", packed});
  ASSERT_EQ(f.exit, 0) << f.err;
  model_ = packed;
  expect_right();
}

TEST_F(BenchPeer, CountsExpertsOfARankFromZero) {
  model_ = folder_ / "wide";
  const Finished made = octet({"synth", "flint-modelopt", "--output", model_, "--experts", "16",
                               "--layers", "1", "--hidden", "128", "--intermediate", "64"});
  ASSERT_EQ(made.exit, 0) << made.err;
  const Finished f = bench({"--ep", "1/2", "--peer", peer("fake", "right"), "--json"});
  ASSERT_EQ(f.exit, 0) << f.err;
  EXPECT_EQ(f.json()["layer"]["first_expert"], 8);
  EXPECT_LT(f.json()["results"][1]["peers"][0]["nmse"].get<double>(), 1e-12);
}

TEST_F(BenchPeer, HasATableOfItsOwn) {
  const Finished f = bench({"--peer", peer("fake", "right")});
  ASSERT_EQ(f.exit, 0) << f.err;
  EXPECT_NE(f.out.find("ratio"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("\n3     fake "), std::string::npos) << f.out;
}

TEST_F(BenchPeer, DeathIsASentence) {
  expect_error("exit-at-load", ": it ended with exit status 3, want 'ready'");
  expect_error("exit-at-call", ": it ended with exit status 4, want 'done SECONDS'");
  expect_error("crash-at-call", ": it was ended by signal 9, want 'done SECONDS'");
}

// Whatever else it leaves open: nobody waits the ten minutes that an answer may take.
TEST_F(BenchPeer, DeathIsSeenBehindWhatItLeaves) {
  const std::pair<std::string, std::string> cases[] = {
      {"sh -c 'sleep 300 & exit 3'", "it ended with exit status 3, want 'ready'"},
      {"sh -c 'read l; echo ready; read c; sleep 300 & exit 4'",
       "it ended with exit status 4, want 'done SECONDS'"},
      {"sh -c 'exec >&-; sleep 300'", "it closed its stdout, want 'ready'"}};
  for (const auto& [command, said] : cases) {
    const auto start = std::chrono::steady_clock::now();
    const Finished f = bench({"--peer", "p=" + command});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << command;
    EXPECT_EQ(f.exit, 1) << command;
    EXPECT_NE(f.err.find("octet: --peer p: " + said), std::string::npos) << f.err;
  }
}

// A peer writes over its call's file: its own outputs are wrong then, and octet goes on.
TEST_F(BenchPeer, CannotTakeAFileAway) {
  const Finished f = bench({"--peer",
                            "p=sh -c 'read l; echo ready; while read w t r k p; do { true > "
                            "\"$p\"; } 2>&-; echo done 1e-9; done'"});
  EXPECT_EQ(f.exit, 1);
  EXPECT_NE(f.err.find("octet: --peer p, 1 row: found an NMSE of "), std::string::npos) << f.err;
}

TEST_F(BenchPeer, WrongAnswersAreSentences) {
  expect_error("refuse", ": it refuses the layer: no layer on Mondays");
  expect_error("babble-at-load", ": found 'loading, please wait', want 'ready'");
  expect_error("babble-at-call", ": found 'done soon', want 'done SECONDS'");
  expect_error("lie", ": found 1000000 s, want more than 0 and at most the ");
  expect_error("no-time", ": found 0 s, want more than 0");
}

TEST_F(BenchPeer, WrongOutputsFailAfterTheReport) {
  expect_error("wrong-output", ", 1 row: found an NMSE of ");
  expect_error("no-output", ", 1 row: found an NMSE of nan against float64, want at most 0.01");
  const Finished f = bench({"--peer", peer("fake", "wrong-output"), "--json"});
  EXPECT_EQ(f.exit, 1);
  EXPECT_GT(f.json()["results"][1]["peers"][0]["nmse"].get<double>(), 0.01);
}

TEST_F(BenchPeer, IsStoppedWhileOthersRun) {
  const Finished f = bench({"--peer", peer("busy", "spin"), "--peer", peer("slow", "sleep")});
  EXPECT_EQ(f.exit, 0) << f.err;
}

TEST_F(BenchPeer, ACommandThatIsNoneFails) {
  const Finished f = bench({"--peer", "none=/nonexistent/peer"});
  EXPECT_EQ(f.exit, 1);
  EXPECT_NE(f.err.find("octet: --peer none: it ended with exit status 127, want 'ready'"),
            std::string::npos)
      << f.err;
}

TEST_F(BenchPeer, WhatTheFileCannotHoldIsRefused) {
  const Finished cut = bench({"--tp", "1/4", "--peer", peer("fake", "right")});
  EXPECT_EQ(cut.exit, 1);
  EXPECT_EQ(cut.err, "octet: --peer: found columns 16..31 of a matrix, want whole blocks of 32\n");
  use("gpt-oss-20b");
  const Finished biased = bench({"--peer", peer("fake", "right")});
  EXPECT_EQ(biased.exit, 1);
  EXPECT_EQ(biased.err,
            "octet: --peer: the layer has biases, want one without: peers know of none\n");
}

TEST_F(BenchPeer, MisuseNamesTheWord) {
  for (const std::string word : {"fake", "=x", "fake="}) {
    const Finished f = bench({"--peer", word});
    EXPECT_EQ(f.exit, 2);
    EXPECT_NE(f.err.find("--peer: found '" + word + "', want NAME=COMMAND"), std::string::npos)
        << f.err;
  }
  const Finished twice = bench({"--peer", "a=x", "--peer", "a=y"});
  EXPECT_EQ(twice.exit, 2);
  EXPECT_NE(twice.err.find("--peer: found the name 'a' twice"), std::string::npos) << twice.err;
}

// Whether there is a device or not, and whatever asks for it.
TEST_F(BenchPeer, AndQuietOnlyAreOfTheHost) {
  for (const auto& device :
       {std::vector<std::string>{"--backend", "cuda"}, {"--kernel", "experts_mxfp8_mxfp4_sm90"}}) {
    for (const auto& [words, why] :
         {std::pair{std::vector<std::string>{"--quiet-only"}, "--quiet-only: looks at the host"},
          {{"--peer", "a=true"}, "--peer: runs on the host"}}) {
      std::vector<std::string> all{"bench", "--shape", "flint", "--experts", "8", "--rows", "1"};
      all.insert(all.end(), device.begin(), device.end());
      all.insert(all.end(), words.begin(), words.end());
      const Finished f = octet(all);
      EXPECT_EQ(f.exit, 2);
      EXPECT_NE(f.err.find(why), std::string::npos) << f.err;
    }
  }
}

// How busy the machine is nobody knows: it says so either way.
TEST_F(BenchPeer, QuietOnlyCountsWhatItDrops) {
  const Finished f = octet({"bench", "--model", model_, "--layer", last_layer(model_), "--rows",
                            "1", "--repeats", "1", "--quiet-only", "--json"});
  if (f.exit != 0) {
    EXPECT_NE(f.err.find("--quiet-only"), std::string::npos) << f.err;
    return;
  }
  for (const auto& row : f.json()["results"]) EXPECT_GE(row["rounds_dropped"].get<int64_t>(), 0);
}

}  // namespace
}  // namespace octet::cli_test
