// SPDX-License-Identifier: Apache-2.0
// Words that are wrong, and what the program says about them.
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "program.h"

namespace octet::cli_test {
namespace {

const char* const kVerbs[] = {"run",  "op",    "inspect", "validate", "synth",
                              "pack", "check", "bench",   "list",     "explain"};

// Exit 2, at most two lines that hold each of `said`.
void expect_misuse(const std::vector<std::string>& words, const std::vector<std::string>& said) {
  const Finished f = octet(words);
  EXPECT_EQ(f.exit, 2) << f.err;
  EXPECT_GE(f.err_lines(), 1);
  EXPECT_LE(f.err_lines(), 2) << f.err;
  for (const std::string& text : said) EXPECT_NE(f.err.find(text), std::string::npos) << f.err;
}

// Exit 1, exactly one line that holds each of `said`.
void expect_refused(const std::vector<std::string>& words, const std::vector<std::string>& said) {
  const Finished f = octet(words);
  EXPECT_EQ(f.exit, 1) << f.err;
  EXPECT_EQ(f.err_lines(), 1) << f.err;
  for (const std::string& text : said) EXPECT_NE(f.err.find(text), std::string::npos) << f.err;
}

TEST(CommandLine, HelpAndVersionSucceed) {
  for (const char* word : {"--help", "--version"}) {
    const Finished f = octet({word});
    EXPECT_EQ(f.exit, 0);
    EXPECT_NE(f.out.find("octet"), std::string::npos);
    EXPECT_EQ(f.err, "");
  }
  const Finished help = octet({"--help"});
  for (const std::string verb : kVerbs) {
    EXPECT_NE(help.out.find("  " + verb), std::string::npos) << verb;
  }
}

TEST(CommandLine, EveryVerbHelpsWithAnExample) {
  for (const std::string verb : kVerbs) {
    const Finished f = octet({verb, "--help"});
    EXPECT_EQ(f.exit, 0) << verb;
    EXPECT_NE(f.out.find("Example:\n  octet " + verb), std::string::npos) << f.out;
  }
}

TEST(CommandLine, MistypedNamesGetTheNearest) {
  expect_misuse({}, {"octet"});
  expect_misuse({"rnu"}, {"no verb 'rnu', did you mean run?"});
  expect_misuse({"chekc", "ckpt"}, {"did you mean check?"});
  expect_misuse({"run", "ckpt", "--layr", "0"}, {"no option '--layr', did you mean --layer?"});
  expect_misuse({"op", "roote", "--input", "x", "--output", "y"}, {"'roote', did you mean route?"});
  expect_misuse({"bench", "--shape", "v4.1-tp3"}, {"did you mean v4.1-tp4?"});
  expect_misuse({"explain", "--activations", "mxfp9"}, {"did you mean mxfp8?"});
  expect_misuse({"explain", "model", "--layer", "0", "--hidden", "64"}, {"one of them"});
  expect_misuse({"bench", "--shape", "v4.1-tp4", "--pages", "large"},
                {"--pages: found 'large', want one of huge, small"});
  expect_misuse({"bench", "--shape", "v4.1-tp4", "--numa", "interleaved"},
                {"want one of first-touch, interleave, did you mean interleave?"});
  expect_misuse({"bench", "--shape", "v4.1-tp4", "--packed", "map"},
                {"want one of mmap, copy, did you mean mmap?"});
  expect_misuse({"check", "ckpt", "--layer", "x"}, {"--layer: found 'x', want a whole number"});
  expect_misuse({"synth", "foo", "--output", "y"}, {"there are deepseek-v4.1-flash"});
  expect_misuse({"explain", "--kernel", "wgmma"},
                {"found 'wgmma', want one of those of octet list"});
  expect_misuse({"explain", "--backend", "cqu"}, {"did you mean cpu?"});
  expect_misuse({"explain", "--kernel", "experts_bf16_mxfp4_avx"}, {"experts_bf16_mxfp4_avx2"});
}

TEST(CommandLine, NamesFromUsersComeOutPrintable) {
  expect_misuse({"r\nn\x1b[31mu"}, {"no verb 'r?n?[31mu'"});
  expect_misuse({"op", "ro\tute\x7f"}, {"'ro?ute?'"});
  expect_misuse({"list", "--a\nb"}, {"'--a; b'"});
  expect_refused({"inspect", "no\x1b]such\r\xc3\xa9\xff"}, {"no?]such?\xc3\xa9?"});
}

TEST(CommandLine, MissingAndMalformedWordsAreMisuse) {
  expect_misuse({"run", "ckpt"}, {"--layer", "octet run --help"});
  expect_misuse({"run"}, {"octet run --help"});
  expect_misuse({"op"}, {"octet op --list"});
  expect_misuse({"op", "route", "--input", "x", "--output", "y", "--set", "experts"},
                {"--set", "'experts'", "key=value"});
  expect_misuse({"op", "route", "--output", "y"}, {"--input"});
  expect_misuse({"list", "more"}, {"unexpected word 'more'"});
  expect_misuse({"run", "ckpt", "--layer", "first", "--input", "x", "--output", "y"}, {"first"});
  expect_misuse({"bench"}, {"--shape"});
  expect_misuse({"bench", "--model", "m", "--layer", "0", "--experts", "8"}, {"--experts"});
  expect_misuse({"bench", "--model", "m", "--layer", "0", "--weights", "nvfp4"}, {"--weights"});
  expect_misuse({"bench", "--shape", "flint", "--layer", "0"}, {"--layer"});
}

TEST(CommandLine, NumbersOutOfRangeAreRefusedWithTheRange) {
  const std::vector<std::string> run = {"run",     "ckpt", "--layer",  "0",
                                        "--input", "x",    "--output", "y"};
  const auto with = [&](const std::string& option, const std::string& value) {
    std::vector<std::string> words = run;
    words.insert(words.end(), {option, value});
    return words;
  };
  expect_refused(with("--tp", "5/4"), {"--tp", "rank 5 of 4", "0..3"});
  expect_refused(with("--tp", "half"), {"--tp", "'half'", "r/n"});
  expect_refused(with("--ep", "0/0"), {"--ep", "0/0"});
  expect_refused(with("--threads", "0"), {"--threads", "found 0"});
  expect_refused({"bench", "--shape", "flint", "--rows", "0"}, {"--rows", "found 0"});
  expect_refused({"check", "m", "--layer", "0", "--rows", "0"}, {"--rows", "found 0", "1.."});
  expect_refused({"bench", "--shape", "flint", "--experts", "5"}, {"--experts", "5", "6"});
  expect_refused({"bench", "--shape", "flint", "--experts", "8", "--rows", "1", "--distinct", "7"},
                 {"--distinct", "found 7", "6..6"});
}

TEST(CommandLine, NumbersWiderThanTheirTypeAreRefusedAsTyped) {
  const std::string above = "9223372036854775808";
  for (const char* option : {"--image-sentinel-lo", "--rows", "--threads"}) {
    expect_refused({"check", "m", "--layer", "0", option, above},
                   {option, "found " + above + ", want -9223372036854775808..9223372036854775807"});
  }
  for (const char* seed : {"-1", "18446744073709551616"}) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"synth", "flint-modelopt", "--output", "s"},
                                               {"check", "m", "--layer", "0"},
                                               {"bench", "--shape", "flint"}}) {
      std::vector<std::string> with = words;
      with.insert(with.end(), {"--seed", seed});
      expect_refused(with, {fmt::format("--seed: found {}, want 0..18446744073709551615", seed)});
    }
  }
}

TEST(CommandLine, EmptyValuesAreMisuse) {
  for (const char* option : {"--activations", "--threads", "--kernel", "--tp", "--seed"}) {
    expect_misuse({"bench", "--shape", "flint", option, ""}, {option, "found ''"});
  }
  expect_misuse({"explain", "", "--layer", "0"}, {"model", "found ''"});
  for (const char* rows : {"1,,2", ",1", "1,"}) {
    expect_misuse({"bench", "--shape", "flint", "--rows", rows}, {"--rows", rows});
    expect_misuse({"bench", "--shape", "flint", fmt::format("--rows={}", rows)}, {"--rows", rows});
  }
}

TEST(CommandLine, ExplainRefusesWhatLoadingRefuses) {
  expect_refused({"explain", "--top-k", "500"}, {"500 experts a token, wanted 1 ... 16"});
  expect_refused({"explain", "--experts", "4", "--top-k", "5"}, {"wanted at least the 5"});
  expect_refused({"explain", "--tp", "0/7"}, {"intermediate 2304 is not a multiple of tp 7"});
  expect_refused({"explain", "--ep", "0/7"}, {"experts 384 is not a multiple of ep 7"});
  EXPECT_EQ(octet({"explain", "--tp", "1/4", "--ep", "5/8"}).exit, 0);
}

TEST(CommandLine, OneLayerIsNoPlural) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "gpt-oss-20b");
  EXPECT_NE(octet({"inspect", model}).out.find(", 1 MoE layer, "), std::string::npos);
  EXPECT_NE(octet({"validate", model}).out.find(": 1 layer, "), std::string::npos);
  const Finished packed =
      octet({"pack", model, "--layer", "0", "--layer", "0", "--output", folder / "p"});
  EXPECT_NE(packed.out.find(": 1 layer, "), std::string::npos) << packed.out;
}

TEST(CommandLine, NumbersThatNoMemoryHoldsAreRefusedWithWhatIsWanted) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "deepseek-v4.1-flash");
  const std::string most = "9223372036854775807";
  const auto too_large = [&](std::vector<std::string> words, const std::string& option) {
    for (const std::string& value : {most, std::string("1000000000000000")}) {
      std::vector<std::string> with = words;
      with.insert(with.end(), {option, value});
      expect_refused(with, {option.substr(2), value, "want"});
    }
  };
  const std::vector<std::string> check = {"check", model, "--layer", "0"};
  const std::vector<std::string> bench = {"bench", "--shape", "flint"};
  for (const char* option : {"--rows", "--image-sentinel-lo", "--threads"}) {
    too_large(check, option);
  }
  for (const char* option : {"--experts", "--rows", "--repeats", "--threads"}) {
    too_large(bench, option);
  }
  for (const char* option : {"--tokens", "--hidden", "--intermediate", "--experts", "--top-k"}) {
    too_large({"explain"}, option);
  }
  for (const char* option : {"--layers", "--experts", "--hidden", "--intermediate"}) {
    const std::vector<std::string> synth = {"synth", "flint-modelopt", "--output", folder / "s"};
    std::vector<std::string> with = synth;
    with.insert(with.end(), {option, most});
    expect_refused(with, {std::string(option).substr(2), most, "is not in"});
  }
  expect_refused({"bench", "--shape", "v4-pro", "--experts", "16384"},
                 {"16384 experts", "needs", "want at most the", "available"});
  expect_refused({"check", model, "--layer", most}, {most, "wanted one of 0"});
}

TEST(CommandLine, AFileThatIsNotThereIsOneLine) {
  const Folder folder;
  const std::string missing = folder / "missing";
  expect_refused({"run", missing, "--layer", "0", "--input", "x", "--output", folder / "y"},
                 {missing});
  expect_refused({"op", "route", "--input", missing, "--output", folder / "y"}, {missing});
  expect_refused({"inspect", missing}, {missing});
  expect_refused({"check", missing, "--layer", "0"}, {missing});
  EXPECT_EQ(octet({"validate", missing}).exit, 1);
}

TEST(CommandLine, AnOutputFolderThatIsMissingIsRefusedBeforeTheWork) {
  const Folder folder;
  const std::string output = folder / "nowhere/y";
  // The model is missing too: the folder is named first, because nothing was read yet.
  expect_refused({"run", folder / "model", "--layer", "0", "--input", "x", "--output", output},
                 {output, "nowhere"});
  expect_refused({"op", "route", "--input", "x", "--output", output}, {output, "nowhere"});
  expect_refused({"pack", folder / "model", "--output", output}, {output, "nowhere"});
}

TEST(CommandLine, ListsAreJsonToo) {
  const Finished kernels = octet({"list", "--json"});
  EXPECT_EQ(kernels.exit, 0);
  EXPECT_GE(kernels.json().size(), 4U);
  EXPECT_EQ(kernels.json().back()["here"], true) << "the reference is everywhere";
  for (const auto& k : kernels.json()) EXPECT_EQ(k["here"] == true, k["why_not"] == "") << k;
  const Finished operations = octet({"op", "--list", "--json"});
  EXPECT_EQ(operations.exit, 0);
  EXPECT_EQ(operations.json().size(), 15U);
  EXPECT_EQ(octet({"list", "--markdown"}).out.substr(0, 1), "|");
}

TEST(CommandLine, ExplainAnswersForEveryKernel) {
  const Finished yes =
      octet({"explain", "--tokens", "4", "--hidden", "4096", "--weights", "mxfp4"});
  EXPECT_EQ(yes.exit, 0) << yes.err;
  EXPECT_NE(yes.out.find("chosen"), std::string::npos);
  const Finished no = octet({"explain", "--tokens", "4", "--hidden", "4100", "--json"});
  EXPECT_EQ(no.exit, 1);
  EXPECT_EQ(no.err_lines(), 1);
  for (const auto& kernel : no.json()) {
    EXPECT_FALSE(kernel["takes"].get<bool>());
    EXPECT_NE(kernel["why"].get<std::string>(), "");
  }
}

}  // namespace
}  // namespace octet::cli_test
