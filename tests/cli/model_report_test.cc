// SPDX-License-Identifier: Apache-2.0
// What the verbs say of a model: inspect and validate alike, weights' bytes everywhere the same, other formats by name.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "program.h"

namespace octet::cli_test {
namespace {

// Every verb that takes a model, with the words that it wants besides.
std::vector<std::vector<std::string>> verbs_with(const Folder& folder, const std::string& model) {
  return {{"inspect", model},
          {"validate", model},
          {"run", model, "--layer", "0", "--input", folder / "x", "--output", folder / "y"},
          {"check", model, "--layer", "0"},
          {"pack", model, "--output", folder / "packed"},
          {"bench", "--model", model, "--layer", "0"},
          {"explain", model, "--layer", "0"}};
}

void expect_every_verb_says(const Folder& folder, const std::string& model,
                            const std::string& text) {
  for (const std::vector<std::string>& words : verbs_with(folder, model)) {
    const Finished f = octet(words);
    EXPECT_EQ(f.exit, 1) << words[0];
    EXPECT_EQ(f.err_lines(), 1) << f.err;
    EXPECT_NE(f.err.find(text), std::string::npos) << words[0] << ": " << f.err;
  }
}

TEST(ModelReport, OtherFormatsAndMissingFilesAreNamedByEveryVerb) {
  const Folder folder;
  std::ofstream(folder / "m.gguf") << "GGUF\3 and more than eight bytes";
  std::filesystem::create_directory(folder / "quantised");
  std::ofstream(folder / "quantised/m-00001-of-00002.gguf") << "GGUF\3";
  std::ofstream(folder / "m.pth") << "PK\3\4 and more than eight bytes";
  expect_every_verb_says(folder, folder / "m.gguf", "format gguf is not built yet");
  expect_every_verb_says(folder, folder / "quantised", "format gguf is not built yet");
  expect_every_verb_says(folder, folder / "m.pth", "format pytorch is not built yet");
  expect_every_verb_says(folder, folder / "nowhere", "no such file or folder");
  const auto rule = [&](const std::string& name) {
    return octet({"validate", folder / name, "--json"}).json()["findings"][0]["rule"];
  };
  EXPECT_EQ(rule("m.gguf"), "unsupported-format");
  EXPECT_EQ(rule("nowhere"), "no-such-file");
}

TEST(ModelReport, ValidatePrintsWhatInspectPrints) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "deepseek-v4.1-flash", {"--layers", "2"});
  const std::string inspected = octet({"inspect", model}).out;
  EXPECT_NE(inspected.find("H 128, I 64"), std::string::npos) << inspected;
  EXPECT_TRUE(octet({"validate", model}).out.starts_with(inspected));
  const auto json = octet({"validate", model, "--json"}).json();
  EXPECT_EQ(json["inspected"], octet({"inspect", model, "--json"}).json());
  EXPECT_EQ(json["layers"], 2);  // their number, as ever
}

// H 64, I 96, 4 experts.
std::string make_three_block_columns(const Folder& folder) {
  const std::string model = folder / "model";
  const Finished made = octet({"synth", "gpt-oss-20b", "--hidden", "64", "--intermediate", "96",
                               "--experts", "4", "--output", model});
  EXPECT_EQ(made.exit, 0) << made.err;
  return model;
}

// One scale serves a block: 16 of 96 columns are 8 bytes of codes and one scale a row of down.
TEST(ModelReport, ASlicesBytesAreTheSameInEveryReport) {
  const Folder folder;
  const std::string model = make_three_block_columns(folder);
  constexpr int64_t kBytes = 4 * (2 * 16 * (32 + 2) + 64 * (8 + 1));
  const auto inspected = octet({"inspect", model, "--tp", "1/6", "--json"}).json();
  EXPECT_EQ(inspected["layers"][0]["bytes"], kBytes);
  EXPECT_EQ(inspected["bytes"], kBytes);
  // Each of these rows reads all four experts.
  const auto checked = octet({"check", model, "--layer", "0", "--tp", "1/6", "--json"}).json();
  EXPECT_EQ(checked["bytes"], kBytes);
  const std::string packed = folder / "packed";
  ASSERT_EQ(octet({"pack", model, "--tp", "1/6", "--output", packed}).exit, 0);
  EXPECT_EQ(octet({"inspect", packed, "--json"}).json()["bytes"], kBytes);
}

// 48 columns from the middle of a block on touch the scales of two blocks, 24 of them too.
TEST(ModelReport, ASliceThatBeginsInABlockCountsTheScalesOnBothSides) {
  const Folder folder;
  const std::string model = make_three_block_columns(folder);
  const auto bytes = [&](const std::string& tp) {
    return octet({"inspect", model, "--tp", tp, "--json"}).json()["bytes"].get<int64_t>();
  };
  EXPECT_EQ(bytes("0/4"), 4 * (2 * 24 * (32 + 2) + 64 * (12 + 1)));
  EXPECT_EQ(bytes("1/4"), 4 * (2 * 24 * (32 + 2) + 64 * (12 + 2)));
  EXPECT_EQ(bytes("1/2"), 4 * (2 * 48 * (32 + 2) + 64 * (24 + 2)));
}

TEST(ModelReport, ABenchOfARankWithTooFewExpertsIsRefused) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "deepseek-v4.1-flash");
  const Finished f =
      octet({"bench", "--model", model, "--layer", "0", "--ep", "0/4", "--rows", "1"});
  EXPECT_EQ(f.exit, 1);
  EXPECT_EQ(f.err_lines(), 1) << f.err;
  EXPECT_NE(f.err.find("found 2 experts on this rank, want at least 6"), std::string::npos)
      << f.err;
}

}  // namespace
}  // namespace octet::cli_test
