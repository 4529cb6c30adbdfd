// SPDX-License-Identifier: Apache-2.0
// Layers of made-up checkpoints through the program: run, pack, check, validate.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "formats/bf16.h"
#include "program.h"

namespace octet::cli_test {
namespace {

const char* const kPresets[] = {"deepseek-v4.1-flash", "deepseek-v4-flash", "gpt-oss-20b",
                                "flint-modelopt"};

// One checkpoint that the tests of a suite share, with a file of six rows.
class Layer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    model_ = make_checkpoint(*folder_, "deepseek-v4.1-flash");
    x_ = save(*folder_ / "x", with_x(6));
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static NamedTensors with_x(int64_t rows) {
    NamedTensors tensors;
    tensors["x"] = make_x(rows);
    tensors["input_ids"] = Tensor(Dtype::kI32, {rows});  // the checkpoint is a vision model's
    return tensors;
  }
  static Finished run(const std::string& model, const std::string& input, const std::string& output,
                      const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"run",     model, "--layer",  "0",
                                      "--input", input, "--output", *folder_ / output};
    words.insert(words.end(), more.begin(), more.end());
    return octet(words);
  }
  // The tensors of a run that must succeed.
  static NamedTensors result(const std::string& input, const std::vector<std::string>& more = {},
                             const std::string& model = model_) {
    const Finished f = run(model, input, "y", more);
    EXPECT_EQ(f.exit, 0) << f.err;
    return f.exit == 0 ? load(*folder_ / "y") : NamedTensors{};
  }
  static void expect_refused(const NamedTensors& input, const std::string& named) {
    const Finished f = run(model_, save(*folder_ / "bad", input), "none");
    EXPECT_EQ(f.exit, 1);
    EXPECT_EQ(f.err_lines(), 1) << f.err;
    EXPECT_NE(f.err.find(named), std::string::npos) << f.err;
    EXPECT_FALSE(std::filesystem::exists(*folder_ / "none"));
  }

  static inline Folder* folder_ = nullptr;
  static inline std::string model_, x_;
};

TEST_F(Layer, WritesRowsIdsAndWeights) {
  const NamedTensors out = result(x_);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out.at("y").dims(), (Dims{6, 128}));
  EXPECT_EQ(out.at("topk_ids").dims(), (Dims{6, 6}));
  EXPECT_EQ(out.at("topk_ids").dtype(), Dtype::kI32);
  EXPECT_EQ(out.at("topk_weights").dtype(), Dtype::kF32);
  bool any = false;
  for (int64_t i = 0; i < 6 * 128; ++i) any |= out.at("y").as<Bf16>()[i].bits != 0;
  EXPECT_TRUE(any);
}

TEST_F(Layer, SaysThatSharedExpertsAreNotInY) {
  const Finished f = run(model_, x_, "y");
  EXPECT_EQ(f.exit, 0);
  EXPECT_EQ(f.err_lines(), 1) << f.err;
  EXPECT_NE(f.err.find("shared experts"), std::string::npos) << f.err;
}

TEST_F(Layer, TakesNoRowsAndThousands) {
  const NamedTensors none = result(save(*folder_ / "x0", with_x(0)), {"--trace"});
  EXPECT_EQ(none.at("y").dims(), (Dims{0, 128}));
  EXPECT_EQ(none.at("record").dims(), (Dims{4}));
  const NamedTensors many = result(save(*folder_ / "x4096", with_x(4096)));
  EXPECT_EQ(many.at("y").dims(), (Dims{4096, 128}));
  // The first six rows are those of the six-row file: a row does not depend on the others.
  const std::string six = bytes_of(result(x_).at("y"));
  EXPECT_EQ(bytes_of(many.at("y")).substr(0, six.size()), six);
}

TEST_F(Layer, GivesTheSameBytesForAnyThreadCount) {
  const std::string one = bytes_of(result(x_, {"--threads", "1"}).at("y"));
  for (const char* threads : {"2", "3"}) {
    EXPECT_EQ(bytes_of(result(x_, {"--threads", threads}).at("y")), one) << threads;
  }
}

TEST_F(Layer, PartsOfTwoRanksSumToTheWhole) {
  const auto at = [](const NamedTensors& t, int64_t i) {
    return formats::bf16_to_f32(t.at("y").as<Bf16>()[i]);
  };
  for (const std::string cut : {"--tp", "--ep"}) {
    const NamedTensors whole = result(x_, {"--activations", "bf16"});
    const NamedTensors a = result(x_, {"--activations", "bf16", cut, "0/2"});
    const NamedTensors b = result(x_, {"--activations", "bf16", cut, "1/2"});
    float largest = 0;
    for (int64_t i = 0; i < 6 * 128; ++i) largest = std::max(largest, std::fabs(at(whole, i)));
    // Each slot's row is rounded to BF16 on each rank; the rows cancel in the sum, their roundings do not.
    const float room = largest * 0x1p-7F;
    for (int64_t i = 0; i < 6 * 128; ++i) {
      ASSERT_NEAR(at(a, i) + at(b, i), at(whole, i), room) << cut << " element " << i;
    }
    EXPECT_NE(bytes_of(a.at("y")), bytes_of(b.at("y")));
    EXPECT_EQ(bytes_of(a.at("topk_ids")), bytes_of(whole.at("topk_ids")));
  }
}

TEST_F(Layer, APackedFileGivesTheCheckpointsBytes) {
  const std::string packed = *folder_ / "packed";
  for (const std::vector<std::string>& part :
       {std::vector<std::string>{}, {"--tp", "1/4"}, {"--activations", "bf16"}}) {
    std::vector<std::string> words = {"pack",     model_, "--layer", "0",
                                      "--output", packed, "--verify"};
    words.insert(words.end(), part.begin(), part.end());
    const Finished f = octet(words);
    ASSERT_EQ(f.exit, 0) << f.err;
    const NamedTensors want = result(x_, part);
    const NamedTensors got = result(x_, {}, packed);
    for (const char* name : {"y", "topk_ids", "topk_weights"}) {
      EXPECT_EQ(bytes_of(got.at(name)), bytes_of(want.at(name))) << name;
    }
  }
  const Finished checked = octet({"check", packed, "--layer", "0"});
  EXPECT_EQ(checked.exit, 0) << checked.err;
  // The reference takes no panels: explain says so as check does.
  const std::string why = "reads a checkpoint's own order, the layer is packed";
  const Finished no = octet({"explain", packed, "--layer", "0", "--backend", "reference"});
  EXPECT_EQ(no.exit, 1);
  EXPECT_NE(no.out.find(why), std::string::npos) << no.out;
  EXPECT_EQ(no.out.find("chosen"), std::string::npos) << no.out;
  const Finished refused = octet({"check", packed, "--layer", "0", "--backend", "reference"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
}

TEST_F(Layer, IsTheSameWhereverItsMemoryLies) {
  const std::string packed = *folder_ / "packed_for_memory";
  ASSERT_EQ(octet({"pack", model_, "--layer", "0", "--output", packed}).exit, 0);
  const std::string want = bytes_of(result(x_).at("y"));
  const std::vector<std::string> words[] = {{},
                                            {"--pages", "huge"},
                                            {"--pages", "small"},
                                            {"--numa", "first-touch"},
                                            {"--pages", "small", "--numa", "interleave"}};
  for (std::vector<std::string> more : words) {
    const bool spread = !more.empty() && more.back() == "interleave";
    more.insert(more.end(), {"--packed", "copy"});
    for (const std::string& model : {model_, packed}) {
      const Finished f = run(model, x_, "y", more);
      if (spread && f.err.find("the system refuses") != std::string::npos) continue;
      ASSERT_EQ(f.exit, 0) << f.err;
      EXPECT_EQ(bytes_of(load(*folder_ / "y").at("y")), want) << model;
    }
  }
  EXPECT_EQ(octet({"check", packed, "--layer", "0", "--packed", "copy", "--pages", "small"}).exit,
            0);
  const Finished mapped = run(packed, x_, "none", {"--numa", "interleave"});
  EXPECT_EQ(mapped.exit, 1);
  EXPECT_NE(mapped.err.find("numa: found interleave, want first-touch: a mapped packed file"),
            std::string::npos)
      << mapped.err;
}

TEST_F(Layer, TheReferenceSaysBeforeItRunsThatItHasNoTrace) {
  const std::string why = "has y only, no rows and no intermediates";
  const Finished f = run(model_, x_, "none", {"--backend", "reference", "--trace"});
  EXPECT_EQ(f.exit, 1);
  EXPECT_NE(f.err.find(why), std::string::npos) << f.err;
  const Finished no =
      octet({"explain", model_, "--layer", "0", "--backend", "reference", "--trace"});
  EXPECT_EQ(no.exit, 1);
  EXPECT_NE(no.out.find(why), std::string::npos) << no.out;
  EXPECT_EQ(octet({"check", model_, "--layer", "0", "--backend", "reference"}).exit, 0);
}

TEST_F(Layer, GivenIdsAndWeightsComeOutAsGiven) {
  NamedTensors input = with_x(2);
  input["topk_ids"] = Tensor(Dtype::kI64, {2, 3});
  input["topk_weights"] = Tensor(Dtype::kF32, {2, 3});
  const int64_t ids[] = {7, -1, 7, int64_t{1} << 40, 0, 8};
  const int32_t want[] = {7, -1, 7, -1, 0, 8};  // what I32 cannot hold names no expert
  std::memcpy(input["topk_ids"].data(), ids, sizeof ids);
  for (int i = 0; i < 6; ++i) input["topk_weights"].as<float>()[i] = 0.25F * static_cast<float>(i);
  const NamedTensors out = result(save(*folder_ / "given", input));
  EXPECT_EQ(std::memcmp(out.at("topk_ids").data(), want, sizeof want), 0);
  EXPECT_EQ(bytes_of(out.at("topk_weights")), bytes_of(input["topk_weights"]));
}

TEST_F(Layer, GivenLogitsChoose) {
  NamedTensors input = with_x(1);
  input["logits"] = Tensor(Dtype::kF32, {1, 8});
  for (int e = 0; e < 8; ++e) input["logits"].as<float>()[e] = static_cast<float>(10 * e);
  const NamedTensors out = result(save(*folder_ / "logits", input));
  EXPECT_EQ(out.at("topk_ids").as<int32_t>()[0], 7);
}

TEST_F(Layer, BadInputIsOneLineAndNoFile) {
  expect_refused({}, "x");
  NamedTensors input;
  input["x"] = Tensor(Dtype::kF32, {2, 128});
  expect_refused(input, "x: found F32 [2, 128], want BF16 [T, 128]");
  input["x"] = Tensor(Dtype::kBf16, {2, 64});
  expect_refused(input, "x: found BF16 [2, 64], want BF16 [T, 128]");
  input = with_x(2);
  input["topk_ids"] = Tensor(Dtype::kI32, {2, 6});
  expect_refused(input, "topk_weights: missing");
  input["topk_weights"] = Tensor(Dtype::kF32, {2, 5});
  expect_refused(input, "topk_weights: found F32 [2, 5]");
  input = with_x(2);
  input["topk_weights"] = Tensor(Dtype::kF32, {2, 6});
  expect_refused(input, "topk_ids: missing");
  input = with_x(2);
  input["logits"] = Tensor(Dtype::kF32, {2, 9});
  expect_refused(input, "logits: found F32 [2, 9], want F32 [2, 8]");
  input.clear();
  input["xx"] = make_x(1);
  expect_refused(input, "did you mean xx?");
  input = with_x(2);
  input.erase("input_ids");
  expect_refused(input, "input_ids: missing, want I32/I64 [2]");
  input["input_ids"] = Tensor(Dtype::kI32, {3});
  expect_refused(input, "input_ids: found I32 [3], want I32/I64 [2]");
}

TEST_F(Layer, WithoutImagesNoTokenIdsAreNeeded) {
  NamedTensors input = with_x(6);
  input.erase("input_ids");
  const NamedTensors out = result(save(*folder_ / "text", input), {"--image-sentinel-lo", "0"});
  EXPECT_EQ(bytes_of(out.at("y")), bytes_of(result(x_).at("y")));
}

TEST_F(Layer, ALayerOrAPartThatIsNotThereIsRefused) {
  const std::string none = *folder_ / "none";
  const Finished layer = octet({"run", model_, "--layer", "9", "--input", x_, "--output", none});
  EXPECT_EQ(layer.exit, 1);
  EXPECT_EQ(layer.err_lines(), 1) << layer.err;
  const Finished part = run(model_, x_, "none", {"--tp", "0/3"});  // 64 columns
  EXPECT_EQ(part.exit, 1);
  EXPECT_EQ(part.err_lines(), 1) << part.err;
  EXPECT_FALSE(std::filesystem::exists(none));
}

TEST_F(Layer, TraceIsWhatTheOperationsMake) {
  const NamedTensors out = result(x_, {"--trace", "--activations", "mxfp8"});
  for (const char* name : {"logits", "x_quant", "x_scale", "permuted", "record", "h_values",
                           "h_scales", "gemm2_rows"}) {
    ASSERT_TRUE(out.contains(name)) << name;
  }
  // Each operation on the trace's own tensors gives the next ones.
  const std::string file = *folder_ / "y";
  const std::string made = *folder_ / "made";
  const auto same = [&](const std::vector<std::string>& words, const std::string& name) {
    std::vector<std::string> all = {"op", words[0], "--output", made};
    all.insert(all.end(), words.begin() + 1, words.end());
    const Finished f = octet(all);
    ASSERT_EQ(f.exit, 0) << f.err;
    EXPECT_EQ(bytes_of(load(made).at(name)), bytes_of(out.at(name))) << name;
  };
  same({"mxfp8_quantize", "--input", x_}, "x_quant");
  same({"mxfp8_quantize", "--input", x_}, "x_scale");
  same({"route", "--input", file, "--set", "experts=8"}, "record");
  same({"route", "--input", file, "--set", "experts=8"}, "permuted");
  same({"finalize", "--input", file}, "y");
}

TEST_F(Layer, TraceOfBf16ActivationsHasHAndNoQuantisedX) {
  const NamedTensors out = result(x_, {"--trace", "--activations", "bf16"});
  EXPECT_EQ(out.at("h").dims(), (Dims{36, 64}));
  EXPECT_EQ(out.at("gemm2_rows").dims(), (Dims{36 * 8, 128}));
  EXPECT_FALSE(out.contains("x_quant"));
}

TEST_F(Layer, ReportsAreJson) {
  const auto expect_json = [](const std::vector<std::string>& words) {
    const Finished f = octet(words);
    EXPECT_EQ(f.exit, 0) << f.err;
    EXPECT_FALSE(f.json().is_discarded()) << f.out;
    return f.json();
  };
  EXPECT_EQ(expect_json({"run", model_, "--layer", "0", "--input", x_, "--output", *folder_ / "y",
                         "--json"})["rows"],
            6);
  const auto inspected = expect_json({"inspect", model_, "--json"});
  EXPECT_EQ(inspected["layers"][0]["hidden"], 128);
  EXPECT_EQ(inspected["layers"][0]["bytes"], 8 * 3 * (128 * 64 / 2 + 128 * 64 / 32));
  const auto checked = expect_json({"check", model_, "--layer", "0", "--json"});
  EXPECT_TRUE(checked["ok"].get<bool>());
  EXPECT_LE(checked["max_error_over_bound"].get<double>(), 1.0);
  EXPECT_EQ(checked["logits_elements"], 6 * 8);
  EXPECT_EQ(checked["logits_outside"], 0);
  EXPECT_LE(checked["logits_max_error_over_bound"].get<double>(), 1.0);
  EXPECT_EQ(checked["routing_slots"], 6 * 6);
  EXPECT_EQ(checked["ids_wrong"], 0);
  EXPECT_EQ(checked["weights_outside"], 0);
  EXPECT_EQ(checked["routing_ties"], 0);
  const auto timed =
      expect_json({"bench", "--model", model_, "--layer", "0", "--rows", "1,2", "--distinct", "6",
                   "--repeats", "3", "--pages", "small", "--json"});
  EXPECT_EQ(timed["pages"], "small");
  EXPECT_EQ(timed["numa"], "first-touch");
  ASSERT_EQ(timed["results"].size(), 2U);
  EXPECT_EQ(timed["results"][1]["experts_read"], 6);
  EXPECT_EQ(timed["results"][1]["bytes"], 6 * 3 * (128 * 64 / 2 + 128 * 64 / 32));
  EXPECT_LE(timed["results"][1]["max_error_over_bound"].get<double>(), 1.0);
}

TEST_F(Layer, ValidateFindsAPlantedNan) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, "deepseek-v4.1-flash");
  const Finished good = octet({"validate", model, "--json"});
  EXPECT_EQ(good.exit, 0) << good.out << good.err;
  EXPECT_TRUE(good.json()["ok"].get<bool>());

  const std::string name = "layers.0.ffn.experts.3.w2.scale";
  bool planted = false;
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::streamoff at = -1;
    {
      const auto file = checkpoint::SafetensorsFile::open(entry.path());
      ASSERT_TRUE(file.ok());
      const auto found = (*file).tensors().find(name);
      if (found == (*file).tensors().end()) continue;
      at = found->second.data - (*file).file()->bytes().data();
    }
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at + 5);
    file.put('\xFF');
    planted = true;
  }
  ASSERT_TRUE(planted);
  const Finished bad = octet({"validate", model, "--json"});
  EXPECT_EQ(bad.exit, 1);
  EXPECT_EQ(bad.err_lines(), 1);
  const auto finding = bad.json()["findings"][0];
  EXPECT_EQ(finding["rule"], "scale-nan");
  EXPECT_EQ(finding["tensor"], name);
  EXPECT_EQ(finding["row"], 2);  // I 64: two scales a row
  EXPECT_EQ(finding["column"], 1);
  EXPECT_NE(octet({"validate", model}).out.find(name), std::string::npos);
}

class Preset : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Preset, testing::ValuesIn(kPresets),
                         [](const auto& preset) { return "p" + std::to_string(preset.index); });

std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_P(Preset, IsTheSameForTheSameSeed) {
  const Folder a;
  const Folder b;
  const Folder c;
  const std::string first = make_checkpoint(a, GetParam(), {"--seed", "5"});
  const std::string second = make_checkpoint(b, GetParam(), {"--seed", "5"});
  const std::string other = make_checkpoint(c, GetParam(), {"--seed", "6"});
  bool differs = false;
  for (const auto& entry : std::filesystem::directory_iterator(first)) {
    const auto name = entry.path().filename();
    EXPECT_EQ(file_bytes(entry.path()), file_bytes(std::filesystem::path(second) / name)) << name;
    differs |= file_bytes(entry.path()) != file_bytes(std::filesystem::path(other) / name);
  }
  EXPECT_TRUE(differs);
}

TEST_P(Preset, PassesCheckAndValidate) {
  const Folder folder;
  const std::string model = make_checkpoint(folder, GetParam(), {"--layers", "4"});
  const Finished validated = octet({"validate", model});
  EXPECT_EQ(validated.exit, 0) << validated.out << validated.err;
  // The first layer (a hash layer in V4) and the last.
  for (const std::string& layer : {std::string("0"), last_layer(model)}) {
    const Finished f = octet({"check", model, "--layer", layer, "--rows", "9"});
    EXPECT_EQ(f.exit, 0) << f.out << f.err;
    EXPECT_NE(f.out.find("result     ok"), std::string::npos) << f.out;
  }
}

}  // namespace
}  // namespace octet::cli_test
