// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/validate.h"

#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "checkpoint/model_testing.h"
#include "checkpoint/packed.h"
#include "checkpoint/synthetic_testing.h"
#include "checkpoint/tensor_store.h"
#include "checkpoint/validate_scan.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDeepseek = "deepseek-v4.1-flash";
constexpr const char* kModelopt = "flint-modelopt";
const std::string kExpert3 = "model.layers.0.mlp.experts.3.";

// What validate() says of a preset after `edit` of its tensors.
template <class Edit>
ValidateReport after(const char* preset, const Edit& edit) {
  TestFolder folder;
  const Status made = synth(small_synth(preset, folder.path()));
  EXPECT_TRUE(made.ok()) << made.why;
  edit_tensors(folder.path(), edit);
  return validate(folder.path());
}

// The report's only finding; an empty one with a failure if there are others.
Finding only(const ValidateReport& report) {
  EXPECT_EQ(report.findings.size(), 1U);
  for (const Finding& f : report.findings) SCOPED_TRACE(f.rule + " " + f.tensor + " " + f.found);
  return report.findings.empty() ? Finding{} : report.findings.front();
}

void put(NamedTensors& tensors, const std::string& name, int64_t at, uint8_t byte) {
  const auto found = tensors.find(name);
  ASSERT_NE(found, tensors.end()) << name;
  found->second.data()[at] = static_cast<std::byte>(byte);
}

void put_f32(NamedTensors& tensors, const std::string& name, int64_t at, float value) {
  const auto found = tensors.find(name);
  ASSERT_NE(found, tensors.end()) << name;
  found->second.as<float>()[at] = value;
}

TEST(Validate, NamesTensorExpertRowAndColumnOfANanScale) {
  const std::string name = "layers.0.ffn.experts.5.w3.scale";  // [64, 2]
  const auto report = after(kDeepseek, [&](auto& t) { put(t, name, 17 * 2 + 1, 0xFF); });
  const Finding f = only(report);
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(f.rule, "scale-nan");
  EXPECT_EQ(f.tensor, name);
  EXPECT_EQ(f.expert, 5);
  EXPECT_EQ(f.row, 17);
  EXPECT_EQ(f.column, 1);
  EXPECT_EQ(f.found, "0xFF");
  EXPECT_EQ(f.wanted, "a finite E8M0 scale");
}

TEST(Validate, CountsTheExpertsOfAStackedTensor) {
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj_scales";  // [8, 128, 2]
  const auto report =
      after("gpt-oss-20b", [&](auto& t) { put(t, name, (6 * 128 + 127) * 2, 0xFF); });
  const Finding f = only(report);
  EXPECT_EQ(f.expert, 6);
  EXPECT_EQ(f.row, 127);
  EXPECT_EQ(f.column, 0);
}

TEST(Validate, BothE4m3NansAreErrors) {
  const std::string name = kExpert3 + "down_proj.weight_scale";  // [64, 4]
  for (const uint8_t nan : {uint8_t{0x7F}, uint8_t{0xFF}}) {
    const auto report = after(kModelopt, [&](auto& t) { put(t, name, 63 * 4 + 3, nan); });
    const Finding f = only(report);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(f.rule, "scale-nan");
    EXPECT_EQ(f.found, nan == 0x7F ? "0x7F" : "0xFF");
    EXPECT_EQ(f.row, 63);
    EXPECT_EQ(f.column, 3);
  }
}

TEST(Validate, AZeroScaleOverCodesThatAreNotZeroIsAnError) {
  const std::string scale = kExpert3 + "up_proj.weight_scale", codes = kExpert3 + "up_proj.weight";
  for (const uint8_t zero : {uint8_t{0x00}, uint8_t{0x80}}) {
    // Block 9 of the tensor: row 2, column 1, codes 72 ... 79. Its last code alone is not zero.
    const auto plant = [&](uint8_t last) {
      return after(kModelopt, [&](auto& t) {
        put(t, scale, 9, zero);
        for (int64_t i = 72; i < 80; ++i) put(t, codes, i, 0x80);  // 0 and -0
        put(t, codes, 79, last);
      });
    };
    EXPECT_TRUE(plant(0x08).findings.empty());
    const Finding f = only(plant(0x10));
    EXPECT_TRUE(f.is_error);
    EXPECT_EQ(f.rule, "scale-zero-block");
    EXPECT_EQ(f.tensor, scale);
    EXPECT_EQ(f.row, 2);
    EXPECT_EQ(f.column, 1);
  }
}

TEST(Validate, CodeZeroOfE8m0IsAScale) {
  const auto report =
      after(kDeepseek, [&](auto& t) { put(t, "layers.0.ffn.experts.0.w1.scale", 0, 0x00); });
  EXPECT_TRUE(report.findings.empty());
}

TEST(Validate, ZeroCodesUnderAScaleAreFine) {
  const auto report = after(kModelopt, [&](auto& t) {
    Tensor& codes = t.find(kExpert3 + "up_proj.weight")->second;
    std::memset(codes.data(), 0, codes.num_bytes());
  });
  EXPECT_TRUE(report.findings.empty());
}

TEST(Validate, ANegativeScaleIsAWarning) {
  const std::string name = kExpert3 + "gate_proj.weight_scale";
  const auto report = after(kModelopt, [&](auto& t) { put(t, name, 5, 0xB8); });
  const Finding f = only(report);
  EXPECT_TRUE(report.ok());
  EXPECT_FALSE(f.is_error);
  EXPECT_EQ(f.rule, "scale-negative");
  EXPECT_EQ(f.found, "0xB8");
}

TEST(Validate, AFactorThatIsNotPositiveAndFiniteIsAnError) {
  const std::string name = kExpert3 + "down_proj.weight_scale_2";
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {0.0F, -1.0F, kInf, std::numeric_limits<float>::quiet_NaN()}) {
    const auto report = after(kModelopt, [&](auto& t) { put_f32(t, name, 0, bad); });
    const Finding f = only(report);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(f.rule, "global-scale-invalid");
    EXPECT_EQ(f.tensor, name);
    EXPECT_EQ(f.expert, 3);
    EXPECT_FALSE(f.found.empty());
  }
}

TEST(Validate, AReciprocalFactorIsAnError) {
  const std::string name = kExpert3 + "down_proj.weight_scale_2";
  const auto report = after(kModelopt, [&](auto& t) {
    float factor = 0;
    std::memcpy(&factor, t.find(name)->second.data(), 4);
    put_f32(t, name, 0, 1.0F / factor);
  });
  const Finding f = only(report);
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(f.rule, "global-scale-reciprocal");
  EXPECT_EQ(f.tensor, name);
}

TEST(Validate, GateAndUpWithFactors1And2AreAWarning) {
  const auto report = after(kModelopt, [&](auto& t) {
    put_f32(t, kExpert3 + "gate_proj.weight_scale_2", 0, 1.0F);
    put_f32(t, kExpert3 + "up_proj.weight_scale_2", 0, 2.0F);
  });
  const Finding f = only(report);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(f.rule, "gate-up-scales-differ");
  EXPECT_EQ(f.tensor, kExpert3 + "up_proj.weight_scale_2");
  EXPECT_EQ(f.expert, 3);
  EXPECT_EQ(f.found, "2");
}

TEST(Validate, ListsEveryMissingTensorByName) {
  const auto report = after(kDeepseek, [&](auto& t) {
    t.erase("layers.0.ffn.experts.2.w1.weight");
    t.erase("layers.0.ffn.experts.6.w2.scale");
    t.erase("layers.0.ffn.gate.bias");
  });
  ASSERT_EQ(report.findings.size(), 3U);
  EXPECT_EQ(report.findings[0].tensor, "layers.0.ffn.gate.bias");
  EXPECT_EQ(report.findings[1].tensor, "layers.0.ffn.experts.2.w1.weight");
  EXPECT_EQ(report.findings[1].expert, 2);
  EXPECT_EQ(report.findings[2].tensor, "layers.0.ffn.experts.6.w2.scale");
  for (const Finding& f : report.findings) EXPECT_EQ(f.rule, "missing-tensor");
}

TEST(Validate, NamesDtypeAndShapeFoundAndWanted) {
  const std::string weight = "layers.0.ffn.experts.1.w1.weight";
  const std::string scale = "layers.0.ffn.experts.1.w1.scale";
  const auto report = after(kDeepseek, [&](auto& t) {
    t.find(weight)->second = Tensor(Dtype::kBf16, {64, 32});
    t.find(scale)->second = Tensor(Dtype::kUe8m0, {64, 3});
  });
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].rule, "unexpected-dtype");
  EXPECT_EQ(report.findings[0].tensor, weight);
  EXPECT_EQ(report.findings[0].found, "BF16");
  EXPECT_EQ(report.findings[0].wanted, "I8");
  EXPECT_EQ(report.findings[1].rule, "unexpected-shape");
  EXPECT_EQ(report.findings[1].tensor, scale);
  EXPECT_EQ(report.findings[1].found, "[64, 3]");
  EXPECT_EQ(report.findings[1].wanted, "[64, 2]");
}

TEST(Validate, BiasAndTableValues) {
  const auto bias = after(kDeepseek, [&](auto& t) {
    put_f32(t, "layers.0.ffn.gate.bias", 4, std::numeric_limits<float>::quiet_NaN());
  });
  EXPECT_FALSE(bias.ok());
  EXPECT_EQ(only(bias).rule, "gate-not-finite");
  EXPECT_EQ(only(bias).column, 4);
  const auto table = after("deepseek-v4-flash", [&](auto& t) {
    t.find("layers.0.ffn.gate.tid2eid")->second.template as<int32_t>()[6 * 41 + 3] = 8;
  });
  EXPECT_FALSE(table.ok());
  EXPECT_EQ(only(table).rule, "table-id");
  EXPECT_EQ(only(table).row, 41);
  EXPECT_EQ(only(table).column, 3);
  EXPECT_EQ(only(table).found, "8");
  const auto repeat = after("deepseek-v4-flash", [&](auto& t) {
    auto* ids = t.find("layers.0.ffn.gate.tid2eid")->second.template as<int32_t>() + 6 * 41;
    ids[5] = ids[2];
  });
  EXPECT_TRUE(repeat.ok());
  EXPECT_EQ(only(repeat).rule, "table-repeat");
  EXPECT_EQ(only(repeat).row, 41);
  EXPECT_EQ(only(repeat).column, 5);
  const auto row_bias = after("gpt-oss-20b", [&](auto& t) {
    put(t, "model.layers.0.mlp.experts.down_proj_bias", 0, 0x80);
    put(t, "model.layers.0.mlp.experts.down_proj_bias", 1, 0x7F);
  });
  EXPECT_TRUE(row_bias.ok());
  EXPECT_EQ(only(row_bias).rule, "value-not-finite");
}

TEST(Validate, AGateWeightThatIsNotFiniteIsAnError) {
  const auto report = after(kDeepseek, [&](auto& t) {
    put(t, "layers.0.ffn.gate.weight", 2 * (3 * 64 + 7), 0x80);
    put(t, "layers.0.ffn.gate.weight", 2 * (3 * 64 + 7) + 1, 0xFF);  // -Inf
  });
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(only(report).rule, "gate-not-finite");
  EXPECT_EQ(only(report).row, 3);
  EXPECT_EQ(only(report).column, 7);
}

// ---- Layers

// A preset of four layers after those that begin with one of `gone` are taken away.
ValidateReport without_layers(const char* preset, const std::vector<std::string>& gone,
                              const std::string& more_config = "") {
  TestFolder folder;
  SynthOptions options = small_synth(preset, folder.path());
  options.layers = 4;
  const Status made = synth(options);
  EXPECT_TRUE(made.ok()) << made.why;
  edit_tensors(folder.path(), [&](auto& tensors) {
    for (const std::string& prefix : gone)
      std::erase_if(tensors, [&](const auto& t) { return t.first.starts_with(prefix); });
  });
  if (!more_config.empty()) {
    const std::string text = read_text(folder.path() / "config.json");
    write_text(folder.path() / "config.json", "{" + more_config + "," + text.substr(1));
  }
  return validate(folder.path());
}

TEST(Validate, NamesLayersThatAreNotThereAtAll) {
  for (const char* preset : {kDeepseek, "deepseek-v4-flash", "gpt-oss-20b", kModelopt}) {
    const auto whole = without_layers(preset, {});
    EXPECT_TRUE(whole.findings.empty()) << preset << whole.findings.front().tensor;
    EXPECT_EQ(whole.layers, 4);
  }
  EXPECT_TRUE(without_layers(kDeepseek, {"layers.0."}).findings.empty());  // an extract
  for (const int gone : {2, 3}) {
    const std::string prefix = "layers." + std::to_string(gone) + ".";
    const Finding deepseek = only(without_layers(kDeepseek, {prefix}));
    EXPECT_TRUE(deepseek.is_error);
    EXPECT_EQ(deepseek.rule, "missing-tensor");
    EXPECT_EQ(deepseek.tensor, prefix);
    EXPECT_EQ(deepseek.found, "none");
    EXPECT_EQ(deepseek.wanted, "4 MoE layers by config.json");
    EXPECT_EQ(only(without_layers("gpt-oss-20b", {"model." + prefix})).tensor, "model." + prefix);
  }
  EXPECT_EQ(without_layers(kDeepseek, {"layers.1.", "layers.2."}).findings.size(), 2U);
}

TEST(Validate, ModeloptLayersMayBeDense) {
  const std::string moe = "model.layers.2.mlp.";
  EXPECT_EQ(only(without_layers(kModelopt, {moe})).tensor, "model.layers.2.");
  EXPECT_TRUE(without_layers(kModelopt, {"model.layers.0.mlp."}).findings.empty());
  for (const char* dense : {"\"mlp_only_layers\":[2]", "\"decoder_sparse_step\":2"})
    EXPECT_TRUE(without_layers(kModelopt, {moe}, dense).findings.empty()) << dense;
  for (const char* none : {"\"mlp_only_layers\":[]", "\"decoder_sparse_step\":1"})
    EXPECT_FALSE(without_layers(kModelopt, {moe}, none).ok()) << none;
}

// ---- Other dtypes

TEST(Validate, TensorsOfOtherDtypesAreIgnoredUnlessTheyAreNamed) {
  TestFolder folder;
  ASSERT_TRUE(synth(small_synth(kDeepseek, folder.path())).ok());
  const fs::path file = folder.path() / "model.safetensors";
  const std::string good = read_text(file);
  // The gate's bias has another dtype of as many bytes; then another tensor has.
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    write_text(file, bad);
    return validate(folder.path());
  };
  const std::string at = "\"layers.0.ffn.gate.bias\":{\"data_offsets\":";
  const size_t dtype = good.find("\"dtype\":\"F32\"", good.find(at));
  ASSERT_NE(dtype, std::string::npos);
  const std::string entry = good.substr(good.find(at), dtype - good.find(at));
  const auto report = with(entry + "\"dtype\":\"F32\"", entry + "\"dtype\":\"U32\"");
  EXPECT_EQ(only(report).rule, "unexpected-dtype");
  EXPECT_EQ(only(report).found, "U32");
  EXPECT_EQ(only(report).wanted, "F32");
  EXPECT_SAYS(load_layer(folder.path(), 0).status(),
              "tensor layers.0.ffn.gate.bias: dtype U32, wanted F32");
  write_text(file, good);
  const std::string header = R"({"tokens":{"dtype":"U32","shape":[1],"data_offsets":[0,4]}})";
  const uint64_t length = header.size();
  write_text(folder.path() / "other.safetensors",
             std::string(reinterpret_cast<const char*>(&length), 8) + header + "0123");
  EXPECT_TRUE(validate(folder.path()).findings.empty());
}

TEST(Validate, KeepsTwentyFindingsARuleAndCountsTheRest) {
  const auto report = after(kDeepseek, [&](auto& t) {
    for (int64_t i = 0; i < 50; ++i) put(t, "layers.0.ffn.experts.0.w1.scale", i, 0xFF);
    t.erase("layers.0.ffn.gate.bias");
  });
  EXPECT_EQ(report.findings.size(), 21U);
  EXPECT_EQ(report.findings_left_out, 30);
}

TEST(Validate, FindsOddScalesAtEveryPlaceOfTheScan) {
  for (const auto format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    for (size_t size = 1; size < 200; size += 13) {
      std::vector<uint8_t> scales(size, 0x40);
      EXPECT_EQ(next_scale_fault(format, scales, 0), size);
      for (size_t at = 0; at < size; ++at) {
        scales[at] = 0xFF;
        EXPECT_EQ(next_scale_fault(format, scales, 0), at);
        EXPECT_EQ(next_scale_fault(format, scales, at + 1), size);
        scales[at] = 0x40;
      }
    }
  }
  for (int code = 0; code < 256; ++code) {
    const std::vector<uint8_t> chunk(64, static_cast<uint8_t>(code));
    const bool is_odd = code == 0 || code >= 0x7F;
    EXPECT_EQ(next_scale_fault(WeightFormat::kNvfp4, chunk, 0), is_odd ? 0U : 64U) << code;
    EXPECT_EQ(next_scale_fault(WeightFormat::kMxfp4, chunk, 0), code == 255 ? 0U : 64U) << code;
  }
}

// ---- Files

TEST(Validate, SaysAnyForADimensionThatMayHaveAnySize) {
  SmallCheckpoint c = small_deepseek({.layer = 0});
  c.config["num_hash_layers"] = 1;
  c.config.erase("vocab_size");
  c.tensors.erase("layers.0.ffn.gate.bias");
  c.add("layers.0.ffn.gate.tid2eid", Dtype::kI32, {20, 5});
  const TestFolder own;
  c.write(own.path());
  const Finding wrong = validate(own.path()).findings.at(0);  // made-up scales may be NaN: later
  EXPECT_EQ(wrong.rule, "unexpected-shape");
  EXPECT_EQ(wrong.wanted, "[any, 4]");
  c.tensors.erase("layers.0.ffn.gate.tid2eid");
  c.write(own.path());
  EXPECT_EQ(validate(own.path()).findings.at(0).wanted, "I32 [any, 4]");
}

TEST(Validate, NamesWhatIsNoCheckpoint) {
  TestFolder folder;
  EXPECT_EQ(only(validate(folder.path() / "none")).rule, "no-such-file");
  EXPECT_EQ(only(validate(folder.path())).rule, "missing-tensor");  // an empty folder
  write_text(folder.path() / "m.gguf", "GGUF\3 and more than eight bytes");
  for (const fs::path& path : {folder.path(), folder.path() / "m.gguf"}) {
    const Finding f = only(validate(path));
    EXPECT_EQ(f.rule, "unsupported-format");
    EXPECT_NE(f.found.find("format gguf is not built yet"), std::string::npos) << f.found;
  }
}

TEST(Validate, TruncatedFiles) {
  TestFolder folder;
  ASSERT_TRUE(synth(small_synth(kDeepseek, folder.path())).ok());
  const fs::path file = folder.path() / "model.safetensors";
  for (const uintmax_t size : {fs::file_size(file) - 1, uintmax_t{100}, uintmax_t{7}}) {
    fs::resize_file(file, size);
    const auto report = validate(folder.path());
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(only(report).rule, "truncated-file");
    EXPECT_NE(only(report).found.find("model.safetensors"), std::string::npos);
  }
}

TEST(Validate, AConfigurationThatDoesNotFit) {
  TestFolder folder;
  ASSERT_TRUE(synth(small_synth(kModelopt, folder.path())).ok());
  const fs::path path = folder.path() / "config.json";
  const std::string text = read_text(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    write_text(path, changed);
    return validate(folder.path());
  };
  EXPECT_EQ(only(with("\"hidden_size\": 64", "\"hidden_size\": 65")).rule, "config-mismatch");
  const Finding zero = only(with("\"hidden_size\": 64", "\"hidden_size\": 0"));
  EXPECT_EQ(zero.rule, "config-mismatch");
  EXPECT_EQ(zero.found, "hidden_size 0");
  EXPECT_EQ(zero.wanted, "an integer in 1 ... 1048576");
  EXPECT_EQ(only(with("{", "")).rule, "config-mismatch");
  write_text(path, "{}");
  EXPECT_EQ(only(validate(folder.path())).found, "model_type is missing");
  EXPECT_EQ(only(validate(folder.path())).wanted, "a string");
  EXPECT_EQ(only(with("\"modelopt\"", "\"other\"")).rule, "config-mismatch");
  const auto fewer = with("\"num_experts\": 8", "\"num_experts\": 7");
  ASSERT_EQ(fewer.findings.size(), 2U);  // the gate's rows, and expert 7
  EXPECT_EQ(fewer.findings[0].rule, "unexpected-shape");
  EXPECT_EQ(fewer.findings[1].rule, "config-mismatch");
  EXPECT_EQ(fewer.findings[1].expert, 7);
}

TEST(Validate, AnIndexThatPromisesATensorTooMany) {
  TestFolder folder;
  SynthOptions options = small_synth(kDeepseek, folder.path());
  options.shard_bytes = 20000;
  ASSERT_TRUE(synth(options).ok());
  const fs::path path = folder.path() / "model.safetensors.index.json";
  std::string text = read_text(path);
  const std::string gate = "\"layers.0.ffn.gate.bias\"";
  const size_t at = text.find(gate);
  const size_t end = text.find('\n', at);
  text.insert(end + 1, "\"layers.9" + text.substr(at + 9, end - at - 8));
  write_text(path, text);
  const Finding f = only(validate(folder.path()));
  EXPECT_EQ(f.rule, "missing-tensor");
  EXPECT_NE(f.found.find("layers.9.ffn.gate.bias"), std::string::npos) << f.found;
}

TEST(Validate, FilesThatCannotBeReadAndIndicesThatAreNone) {
  TestFolder folder;
  ASSERT_TRUE(synth(small_synth(kDeepseek, folder.path())).ok());
  const fs::path index = folder.path() / kIndexName;
  write_text(index, "{\"weight_map\": [");
  EXPECT_EQ(only(validate(folder.path())).rule, "bad-index");
  write_text(index, R"({"weight_map": {"x": "shard.safetensors"}})");
  EXPECT_EQ(only(validate(folder.path())).rule, "no-such-file");
  fs::create_symlink("shard.safetensors", folder.path() / "shard.safetensors");  // to itself
  EXPECT_EQ(only(validate(folder.path())).rule, "unreadable-file");
  fs::remove(folder.path() / "shard.safetensors");
  write_text(folder.path() / "shard.safetensors", std::string("\2\0\0\0\0\0\0\0[]", 10));
  EXPECT_EQ(only(validate(folder.path())).rule, "bad-header");
  EXPECT_EQ(only(validate(folder.path())).wanted, "an object");
}

TEST(Validate, ANestedConfigurationsValueIsFoundWithoutItsPlace) {
  SmallCheckpoint c = small_deepseek({.layer = 0});
  nlohmann::json text = c.config;
  text["hidden_size"] = "a: b";
  c.config = {{"model_type", "deepseek_v41"}, {"text_config", text}};
  const TestFolder own;
  c.write(own.path());
  EXPECT_EQ(only(validate(own.path())).found, "hidden_size \"a: b\"");
  EXPECT_EQ(only(validate(own.path())).wanted, "an integer in 1 ... 1048576");
}

TEST(Validate, AFileThatIsNotThere) {
  const auto report = validate("/nonexistent/model");
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.findings.size(), 1U);
}

TEST(Validate, ReportsProgressUpToTheTotal) {
  TestFolder folder;
  ASSERT_TRUE(synth(small_synth(kModelopt, folder.path())).ok());
  int64_t last = 0, total = 0;
  (void)validate(folder.path(), [&](int64_t done, int64_t of) {
    EXPECT_GE(done, last);
    last = done;
    total = of;
  });
  EXPECT_GT(total, 0);
  EXPECT_EQ(last, total);
}

TEST(Validate, PackedFilesAreReadInTheirPanels) {
  for (const char* preset : {kDeepseek, kModelopt}) {
    TestFolder folder;
    ASSERT_TRUE(synth(small_synth(preset, folder.path())).ok());
    const bool is_deepseek = preset == std::string(kDeepseek);
    const std::string scale =
        is_deepseek ? "layers.0.ffn.experts.5.w2.scale" : kExpert3 + "down_proj.weight_scale";
    const int64_t cols = is_deepseek ? 2 : 4;
    const auto report_of = [&](const fs::path& packed) {
      const auto model = Model::open(folder.path());
      EXPECT_TRUE(model.ok());
      PackOptions options;
      options.output = packed;
      const Status status = pack(*model, options);
      EXPECT_TRUE(status.ok()) << status.why;
      return validate(packed);
    };
    const auto good = report_of(folder.path() / "good.octet");
    EXPECT_TRUE(good.findings.empty()) << good.findings.front().found;
    EXPECT_EQ(good.format, "packed");
    edit_tensors(folder.path(), [&](auto& t) { put(t, scale, 21 * cols + 1, 0xFF); });
    const auto bad = report_of(folder.path() / "bad.octet");
    const Finding f = only(bad);
    EXPECT_EQ(f.rule, "scale-nan");
    EXPECT_EQ(f.tensor, "layers.0.experts (down)");
    EXPECT_EQ(f.expert, is_deepseek ? 5 : 3);
    EXPECT_EQ(f.row, 21);
    EXPECT_EQ(f.column, 1);
  }
}

TEST(Validate, APackedFileWhoseBytesChangedFailsItsChecksum) {
  TestFolder folder;
  ASSERT_TRUE(synth(small_synth(kDeepseek, folder.path())).ok());
  const auto model = Model::open(folder.path());
  ASSERT_TRUE(model.ok());
  PackOptions options;
  options.output = folder.path() / "packed.octet";
  ASSERT_TRUE(pack(*model, options).ok());
  std::string bytes = read_text(options.output);
  bytes[bytes.size() - 5] ^= 1;
  write_text(options.output, bytes);
  const auto report = validate(options.output);
  EXPECT_FALSE(report.ok());
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().rule, "checksum");
}

}  // namespace
}  // namespace octet::checkpoint
