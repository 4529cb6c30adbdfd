// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/synth.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sys/resource.h>

#include "checkpoint/model.h"
#include "checkpoint/synth_fill.h"
#include "checkpoint/synthetic_testing.h"
#include "checkpoint/tensor_store.h"
#include "checkpoint/validate.h"
#include "formats/bf16.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> files_of(const fs::path& path) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    files.emplace(entry.path().filename().string(), read_text(entry.path()));
  return files;
}

// Root mean square of a matrix of the first expert, decoded.
double weight_rms(const layouts::WeightView& w) {
  double squares = 0;
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t c = 0; c < w.cols; ++c)
      squares += static_cast<double>(w.value(r, c)) * static_cast<double>(w.value(r, c));
  return std::sqrt(squares / static_cast<double>(w.rows * w.cols));
}

TEST(Synth, TheSameSeedGivesTheSameBytesAnotherSeedOthers) {
  for (const std::string_view preset : synth_presets()) {
    TestFolder a, b, c;
    SynthOptions options = small_synth(std::string(preset), a.path());
    ASSERT_TRUE(synth(options).ok());
    options.output = b.path();
    ASSERT_TRUE(synth(options).ok());
    options.output = c.path();
    options.seed = 1;
    ASSERT_TRUE(synth(options).ok());
    EXPECT_EQ(files_of(a.path()), files_of(b.path())) << preset;
    const auto first = files_of(a.path()), other = files_of(c.path());
    EXPECT_EQ(first.at("config.json"), other.at("config.json")) << preset;
    EXPECT_NE(first.at("model.safetensors"), other.at("model.safetensors")) << preset;
  }
}

TEST(Synth, TheBytesOfASeedAreTheseOnEveryMachine) {
  SynthTensor tensor{"t", Dtype::kU8, {16}, {}, {}};
  std::byte bytes[16];
  fill_bytes(tensor, synth_key(7, "t"), 0, bytes);
  uint64_t words[2];
  std::memcpy(words, bytes, 16);
  // SplitMix64 of the key, computed by an independent program.
  EXPECT_EQ(words[0], 0x199BE261BDA9679BU);
  EXPECT_EQ(words[1], 0x79F014757855FE5DU);
}

TEST(Synth, AnyPartOfATensorIsThatPartOfTheWhole) {
  const SynthTensor tensors[] = {
      {"codes", Dtype::kU8, {1000}, {}, {}},
      {"numbers", Dtype::kBf16, {500}, {.kind = Fill::Kind::kNormal, .spread = 1}, {}},
      {"ids", Dtype::kI32, {50, 5}, {.kind = Fill::Kind::kIds, .below = 7}, {}}};
  for (const SynthTensor& t : tensors) {
    std::vector<std::byte> whole(1000), part(300);
    fill_bytes(t, 3, 0, whole);
    fill_bytes(t, 3, 640, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 640)) << t.name;
  }
}

TEST(Synth, EveryPresetLoadsAndValidatesClean) {
  for (const std::string_view preset : synth_presets()) {
    TestFolder folder;
    SynthOptions options = small_synth(std::string(preset), folder.path());
    options.layers = 4;
    ASSERT_TRUE(synth(options).ok());
    const auto model = Model::open(folder.path());
    ASSERT_TRUE(model.ok()) << preset << ": " << model.status().why;
    ASSERT_EQ(model->layers(), (std::vector<int64_t>{0, 1, 2, 3})) << preset;
    for (const int64_t n : model->layers()) {
      const auto layer = model->layer(n, {});
      ASSERT_TRUE(layer.ok()) << preset << ": " << layer.status().why;
      EXPECT_EQ(layer->spec.hidden, 64);
      EXPECT_EQ(layer->experts.size(), 8U);
    }
    const ValidateReport report = validate(folder.path());
    EXPECT_TRUE(report.findings.empty())
        << preset << ": " << report.findings.front().rule << " " << report.findings.front().tensor;
    EXPECT_EQ(report.layers, 4);
    EXPECT_GT(report.tensors_read, 0);
  }
}

TEST(Synth, WeightsHaveTheSizeOfOneOverTheRootOfTheWidth) {
  for (const std::string_view preset : synth_presets()) {
    TestFolder folder;
    SynthOptions options = small_synth(std::string(preset), folder.path());
    options.hidden = 256;
    ASSERT_TRUE(synth(options).ok());
    const auto model = Model::open(folder.path());
    ASSERT_TRUE(model.ok()) << model.status().why;
    const auto layer = model->layer(0, {});
    ASSERT_TRUE(layer.ok()) << layer.status().why;
    const layouts::ExpertWeights& e = layer->experts.front();
    for (const auto& [view, alpha] : {std::pair(e.gate, e.gate_alpha), std::pair(e.up, e.up_alpha),
                                      std::pair(e.down, e.down_alpha)}) {
      const double size =
          weight_rms(view) * static_cast<double>(alpha) * std::sqrt(static_cast<double>(view.cols));
      EXPECT_GT(size, 0.4) << preset;
      EXPECT_LT(size, 1.4) << preset;
    }
  }
}

TEST(Synth, V41HasBiasesForImagesAndASharedExpertIn32x32Blocks) {
  TestFolder folder;
  ASSERT_TRUE(synth(small_synth("deepseek-v4.1-flash", folder.path())).ok());
  const auto store = TensorStore::open(folder.path());
  ASSERT_TRUE(store.ok());
  const auto is = [&](const char* name, Dtype dtype, const Dims& dims) {
    const TensorView* view = store->find(name);
    return view != nullptr && view->dtype == dtype && view->dims == dims;
  };
  EXPECT_TRUE(is("layers.0.ffn.gate.weight", Dtype::kBf16, {8, 64}));
  EXPECT_TRUE(is("layers.0.ffn.gate.bias", Dtype::kF32, {8}));
  EXPECT_TRUE(is("layers.0.ffn.gate.bias_vl", Dtype::kF32, {8}));
  EXPECT_TRUE(is("layers.0.ffn.experts.7.w2.weight", Dtype::kI8, {64, 32}));
  EXPECT_TRUE(is("layers.0.ffn.experts.7.w2.scale", Dtype::kUe8m0, {64, 2}));
  EXPECT_TRUE(is("layers.0.ffn.shared_experts.w1.weight", Dtype::kE4m3, {64, 64}));
  EXPECT_TRUE(is("layers.0.ffn.shared_experts.w1.scale", Dtype::kUe8m0, {2, 2}));
}

TEST(Synth, V4TakesIdsFromATableInItsFirstThreeLayersOnly) {
  TestFolder folder;
  SynthOptions options = small_synth("deepseek-v4-flash", folder.path());
  options.layers = 4;
  ASSERT_TRUE(synth(options).ok());
  const auto store = TensorStore::open(folder.path());
  ASSERT_TRUE(store.ok());
  for (int layer = 0; layer < 4; ++layer) {
    const std::string gate = "layers." + std::to_string(layer) + ".ffn.gate.";
    EXPECT_EQ(store->find(gate + "tid2eid") != nullptr, layer < 3);
    EXPECT_EQ(store->find(gate + "bias") != nullptr, layer == 3);
    EXPECT_EQ(store->find(gate + "bias_vl"), nullptr);
  }
  const TensorView* table = store->find("layers.2.ffn.gate.tid2eid");
  ASSERT_EQ(table->dims, (Dims{129280, 6}));
  const Tensor aligned = copy_of(*table);
  for (int64_t row = 0; row < 129280; row += 997) {
    const int32_t* ids = aligned.as<int32_t>() + row * 6;
    EXPECT_EQ(std::set<int32_t>(ids, ids + 6).size(), 6U) << row;
  }
}

TEST(Synth, LargerModelsAreSplitWithAnIndexAndReadTheSame) {
  TestFolder one, many;
  SynthOptions options = small_synth("flint-modelopt", one.path());
  ASSERT_TRUE(synth(options).ok());
  options.output = many.path();
  options.shard_bytes = 10000;
  ASSERT_TRUE(synth(options).ok());
  EXPECT_FALSE(fs::exists(many.path() / "model.safetensors"));
  EXPECT_TRUE(fs::exists(many.path() / "model.safetensors.index.json"));
  const std::string index = read_text(many.path() / "model.safetensors.index.json");
  EXPECT_NE(index.find("\"model-00002-of-000"), std::string::npos);
  EXPECT_GT(files_of(many.path()).size(), 4U);
  const auto a = TensorStore::open(one.path()), b = TensorStore::open(many.path());
  ASSERT_TRUE(a.ok());
  ASSERT_TRUE(b.ok()) << b.status().why;
  ASSERT_EQ(a->tensors().size(), b->tensors().size());
  for (const auto& [name, view] : a->tensors()) {
    const TensorView* other = b->find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(std::memcmp(view.data, other->data, view.num_bytes()), 0) << name;
  }
}

TEST(Synth, WritesOverItsOwnCheckpointAndNothingElse) {
  TestFolder folder;
  SynthOptions options = small_synth("flint-modelopt", folder.path());
  options.shard_bytes = 10000;
  ASSERT_TRUE(synth(options).ok());
  options = small_synth("gpt-oss-20b", folder.path());
  ASSERT_TRUE(synth(options).ok());
  const auto files = files_of(folder.path());
  EXPECT_EQ(files.size(), 2U);  // config.json and model.safetensors: nothing of the old one
  write_text(folder.path() / "notes.txt", "mine");
  const Status refused = synth(options);
  EXPECT_EQ(refused.code, Code::kInvalidArgument);
  EXPECT_NE(refused.why.find("notes.txt"), std::string::npos) << refused.why;
  EXPECT_EQ(files_of(folder.path()).size(), 3U);
}

TEST(Synth, KeepsAModelThatItDidNotMake) {
  TestFolder folder;
  SynthOptions options = small_synth("gpt-oss-20b", folder.path());
  ASSERT_TRUE(synth(options).ok());
  edit_tensors(folder.path(), [](NamedTensors&) {});  // saved without the mark
  EXPECT_EQ(synth(options).code, Code::kInvalidArgument);
  EXPECT_TRUE(fs::exists(folder.path() / "model.safetensors"));
}

TEST(Synth, RefusesSizesWithTheValueFoundAndTheValueWanted) {
  TestFolder folder;
  const auto why = [&](auto change) {
    SynthOptions options = small_synth("deepseek-v4.1-flash", folder.path() / "new");
    change(options);
    const Status status = synth(options);
    EXPECT_EQ(status.code, Code::kInvalidArgument);
    EXPECT_FALSE(fs::exists(folder.path() / "new"));
    return status.why;
  };
  EXPECT_EQ(why([](auto& o) { o.hidden = 100; }), "hidden 100 is not a multiple of 32");
  EXPECT_EQ(why([](auto& o) { o.intermediate = 48; }), "intermediate 48 is not a multiple of 32");
  EXPECT_EQ(why([](auto& o) { o.experts = 5; }),
            "experts 5 is not in 6 ... 1024 for deepseek-v4.1-flash");
  EXPECT_EQ(why([](auto& o) { o.layers = 0; }),
            "layers 0 is not in 1 ... 128 for deepseek-v4.1-flash");
}

TEST(Synth, NamesThatAreNotBuiltOrUnknownAreToldApart) {
  TestFolder folder;
  SynthOptions options = small_synth("flint-ct", folder.path());
  EXPECT_EQ(synth(options).code, Code::kUnsupported);
  options.preset = "flint-modelop";
  const Status unknown = synth(options);
  EXPECT_EQ(unknown.code, Code::kMisuse);
  EXPECT_NE(unknown.why.find("did you mean flint-modelopt?"), std::string::npos) << unknown.why;
}

TEST(Synth, AFolderThatCannotBeWrittenIsAnIoErrorAndLeavesNothing) {
  TestFolder folder;
  write_text(folder.path() / "file", "");
  const Status status = synth(small_synth("gpt-oss-20b", folder.path() / "file" / "model"));
  EXPECT_EQ(status.code, Code::kIo);
  EXPECT_EQ(files_of(folder.path()).size(), 1U);
  // More than any disk has.
  SynthOptions huge = small_synth("gpt-oss-20b", folder.path() / "huge");
  huge.hidden = huge.intermediate = 1 << 20;
  huge.experts = 1024;
  const Status full = synth(huge);
  EXPECT_EQ(full.code, Code::kIo);
  EXPECT_NE(full.why.find("are needed"), std::string::npos) << full.why;
  EXPECT_FALSE(fs::exists(folder.path() / "huge"));
}

TEST(Synth, ADiskThatFillsUpWhileWritingLeavesNothing) {
  TestFolder folder;
  SynthOptions options = small_synth("gpt-oss-20b", folder.path() / "model");
  options.shard_bytes = 10000;  // the router is a file of its own; the next one passes the limit
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 20000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // writing past the limit is an error then
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = synth(options);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code, Code::kIo) << status.why;
  EXPECT_TRUE(files_of(folder.path()).empty());
}

}  // namespace
}  // namespace octet::checkpoint
