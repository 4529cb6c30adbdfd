// SPDX-License-Identifier: Apache-2.0
// What is left when a command fails, and what a terminal shows while one runs.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "program.h"

namespace octet::cli_test {
namespace {

namespace fs = std::filesystem;

// A result from before.
std::string older(const Folder& folder) {
  NamedTensors tensors;
  tensors["x"] = make_x(2);
  const std::string path = folder / "older";
  const Finished f =
      octet({"op", "mxfp8_quantize", "--input", save(folder / "rows", tensors), "--output", path});
  EXPECT_EQ(f.exit, 0) << f.err;
  return path;
}

TEST(Output, OfAFailedCommandNoOlderFileIsLeft) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  const std::string wide = save(folder / "wide", [] {
    NamedTensors tensors;
    tensors["x"] = make_x(2, 64);  // H is 128
    return tensors;
  }());
  const std::vector<std::vector<std::string>> commands = {
      {"run", model, "--layer", "0", "--input", wide},
      {"run", model, "--layer", "0", "--input", folder / "missing"},
      {"run", folder / "missing", "--layer", "0", "--input", wide},
      {"op", "topk", "--input", wide},
      {"op", "topk", "--input", folder / "missing"},
      {"pack", model, "--layer", "7"},
      {"pack", folder / "missing"}};
  for (std::vector<std::string> words : commands) {
    const std::string output = older(folder);
    words.insert(words.end(), {"--output", output});
    const Finished f = octet(words);
    EXPECT_EQ(f.exit, 1) << f.err;
    EXPECT_EQ(f.err_lines(), 1) << f.err;
    EXPECT_FALSE(fs::exists(output)) << words[0] << ": " << f.err;
  }
}

TEST(Output, ThatIsNoResultStaysWhenACommandFails) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  const std::string text = folder / "notes.txt";
  std::ofstream(text) << "from before";
  const std::string other = save(folder / "other", [] {
    NamedTensors tensors;
    tensors["x"] = make_x(2, 64);
    return tensors;
  }());
  for (const std::string& output : {text, other}) {
    const auto size = fs::file_size(output);
    EXPECT_EQ(
        octet({"run", model, "--layer", "7", "--input", folder / "x", "--output", output}).exit, 1);
    EXPECT_EQ(octet({"pack", model, "--layer", "7", "--output", output}).exit, 1);
    EXPECT_EQ(octet({"op", "topk", "--input", folder / "x", "--output", output}).exit, 1);
    EXPECT_EQ(fs::file_size(output), size);
  }
}

TEST(Output, OfAMisusedCommandStays) {
  const Folder folder;
  const std::string output = older(folder);
  EXPECT_EQ(octet({"op", "topk", "--input", "x", "--output", output, "--set", "nothing=1"}).exit,
            1);
  const std::string again = older(folder);
  EXPECT_EQ(octet({"op", "tpok", "--input", "x", "--output", again}).exit, 2);
  EXPECT_TRUE(fs::exists(again));
}

// A link is followed, not replaced; one that leads to a device or a pipe is refused.
TEST(Output, ThatIsALinkIsWrittenWhereItLeads) {
  const Folder folder;
  NamedTensors tensors;
  tensors["x"] = make_x(2);
  const std::string input = save(folder / "x", tensors);
  fs::create_directory(folder / "there");
  const auto link = [&](const std::string& to) {
    const std::string path = folder / "link";
    fs::remove(path);
    fs::create_symlink(to, path);
    return path;
  };
  const auto quantize = [&](const std::string& output) {
    return octet({"op", "mxfp8_quantize", "--input", input, "--output", output});
  };
  for (int time = 0; time < 2; ++time) {  // the target is made, then replaced
    EXPECT_EQ(quantize(link("there/target")).exit, 0);
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    EXPECT_TRUE(load(folder / "there/target").contains("x_quant"));
  }
  EXPECT_EQ(octet({"op", "topk", "--input", input, "--output", link("there/target")}).exit, 1);
  EXPECT_FALSE(fs::exists(folder / "there/target")) << "of a failed command";
  EXPECT_EQ(quantize(link("/dev/null")).exit, 1);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(quantize(link("link")).exit, 1) << "a link to itself";
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

TEST(Output, ThatIsTheInputIsMisuseAndStays) {
  const Folder folder;
  NamedTensors tensors;
  tensors["x"] = make_x(2);
  const std::string file = save(folder / "x", tensors);
  for (const std::string& same : {file, folder / "./x"}) {
    const Finished f = octet({"op", "mxfp8_quantize", "--input", file, "--output", same});
    EXPECT_EQ(f.exit, 2);
    EXPECT_NE(f.err.find("is what the command reads"), std::string::npos) << f.err;
    EXPECT_TRUE(load(file).contains("x"));
  }
}

TEST(Output, InTheCheckpointThatIsReadIsMisuseAndNothingIsRemoved) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  const std::string link = folder / "link";
  fs::create_directory_symlink(model, link);
  NamedTensors tensors;
  tensors["x"] = make_x(2);
  const std::string input = save(folder / "x", tensors);
  const auto expect_refused = [&](std::vector<std::string> words, const std::string& output) {
    words.insert(words.end(), {"--output", output});
    const Finished f = octet(words);
    EXPECT_EQ(f.exit, 2) << output;
    EXPECT_NE(f.err.find("is in the checkpoint that the command reads"), std::string::npos)
        << f.err;
    EXPECT_TRUE(fs::exists(model + "/model.safetensors")) << words[0] << " " << output;
    EXPECT_TRUE(fs::exists(model + "/config.json")) << words[0] << " " << output;
    EXPECT_FALSE(fs::exists(model + "/new"));
  };
  for (const char* name : {"/model.safetensors", "/config.json", "/new", "/./config.json"}) {
    for (const std::string& reached : {model, link}) {
      for (const char* layer : {"0", "9"}) {  // 9: fails
        expect_refused({"run", reached, "--layer", layer, "--input", input}, model + name);
        expect_refused({"run", model, "--layer", layer, "--input", input}, reached + name);
        expect_refused({"pack", reached, "--layer", layer}, model + name);
      }
    }
  }
  // A folder of links, as download caches have them: what they lead to is read too.
  const std::string links = folder / "links";
  fs::create_directory(links);
  fs::create_symlink(model + "/model.safetensors", links + "/model.safetensors");
  fs::create_symlink(model + "/config.json", links + "/config.json");
  expect_refused({"pack", links, "--layer", "9"}, model + "/model.safetensors");
  // A single file has its configuration beside it.
  expect_refused({"pack", model + "/model.safetensors", "--layer", "9"}, model + "/config.json");
  EXPECT_EQ(octet({"pack", model, "--output", folder / "packed"}).exit, 0);
}

TEST(Output, OfAFailedSynthNoOlderCheckpointIsLeft) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  ASSERT_TRUE(fs::exists(model + "/model.safetensors"));
  EXPECT_EQ(octet({"synth", "gpt-oss-20b", "--hidden", "33", "--output", model}).exit, 1);
  EXPECT_FALSE(fs::exists(model + "/model.safetensors"));
  EXPECT_FALSE(fs::exists(model + "/config.json"));
}

TEST(Output, OfAFailedSynthWhatIsNotItsOwnStays) {
  const Folder folder;
  const std::string file = older(folder);
  EXPECT_EQ(octet({"synth", "gpt-oss-20b", "--hidden", "33", "--output", folder / ""}).exit, 1);
  EXPECT_TRUE(fs::exists(file));
}

// A kernel's call says nothing of how far it is: there is a bar as soon as it has lasted for a second.
TEST(Terminal, ShowsThatALongCallRuns) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  std::string seen;
  for (int64_t rows = 256; rows <= 65536 && seen.empty(); rows *= 2) {
    NamedTensors tensors;
    tensors["x"] = make_x(rows);
    const Finished f =
        octet_on_terminal({"run", model, "--layer", "0", "--input", save(folder / "x", tensors),
                           "--output", folder / "y", "--backend", "reference", "--json"});
    ASSERT_EQ(f.exit, 0) << f.err;
    seen = f.err;
    if (f.json()["run_us"].get<double>() > 2e6) {
      EXPECT_NE(seen, "") << "the call took longer than a second, and nothing was shown";
      break;
    }
  }
  EXPECT_NE(seen.find("running [####"), std::string::npos) << seen;
  EXPECT_TRUE(seen.ends_with("\r\x1b[K")) << seen;
}

}  // namespace
}  // namespace octet::cli_test
