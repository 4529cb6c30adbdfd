// SPDX-License-Identifier: Apache-2.0
// Writes the corpora that the tests replay and fuzzing starts from: make_corpus tests/fuzz/corpus
// Right inputs small enough to be changed by a few bytes, and wrong ones of every kind that the readers refuse.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model.h"
#include "checkpoint/packed.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synth.h"
#include "core/executor.h"
#include "dispatch/operations.h"
#include "fuzz_target.h"
#include "op_input.h"
#include "ptx_corpus.h"

namespace {

namespace fs = std::filesystem;
using namespace octet;
using fuzz::Scratch;

fs::path root;

void put(const char* target, const std::string& name, const std::string& bytes) {
  fs::create_directories(root / target);
  std::ofstream(root / target / name, std::ios::binary) << bytes;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.why.c_str());
  std::exit(1);
}

std::string repeat(std::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// ---- safetensors

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}
std::string file_of(const std::string& header, size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, 'd'));
}

void safetensors_corpus() {
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"a":{"dtype":")") + dtype + R"(","shape":)" + shape +
           R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::string b = R"("b":{"dtype":"F32","shape":[],"data_offsets":[4,8]})";
  const std::pair<const char*, std::string> files[] = {
      {"good", file_of("{\"__metadata__\":{\"format\":\"pt\"}," + a + "," + b + "}", 8)},
      {"no_tensors", file_of("{}", 0)},
      {"no_rows", file_of(one("BF16", "[0,4096]", "[0,0]"), 0)},
      {"empty", ""},
      {"seven_bytes", "1234567"},
      {"length_only", with_length(2, "")},
      {"length_past_the_end", with_length(1000, "{}")},
      {"length_of_63_bits", with_length(uint64_t{1} << 63, "{}")},
      {"length_of_all_bits", with_length(~uint64_t{0}, "{}")},
      {"not_json", file_of("hello", 0)},
      {"not_an_object", file_of("[1,2]", 0)},
      {"deep", file_of(repeat("[", 5000), 0)},
      {"deep_object", file_of(repeat("{\"a\":", 3000), 0)},
      {"not_utf8", file_of("{\"\xff\xfe\":1}", 0)},
      {"zero_byte_in_name",
       file_of(R"({"a\u0000b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4)},
      {"duplicate", file_of("{" + a + "," + a + "}", 8)},
      {"overlap", file_of("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 8)},
      {"past_the_data", file_of(one("U8", "[4]", "[0,4]"), 3)},
      {"bytes_do_not_match", file_of(one("F32", "[4]", "[0,4]"), 4)},
      {"backwards", file_of(one("U8", "[4]", "[4,0]"), 4)},
      {"negative", file_of(one("U8", "[-4]", "[-4,0]"), 4)},
      {"fraction", file_of(one("U8", "[4.5]", "[0,4]"), 4)},
      {"shape_overflows", file_of(one("F64", "[4294967296,4294967296]", "[0,0]"), 0)},
      {"zero_times_overflow", file_of(one("U8", "[0,9223372036854775807,9]", "[0,0]"), 0)},
      {"beyond_64_bits", file_of(one("U8", "[99999999999999999999]", "[0,4]"), 4)},
      {"rank_9", file_of(one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1)},
      {"unknown_dtype", file_of(one("F4", "[4]", "[0,4]"), 4)},
      {"three_offsets", file_of(one("U8", "[4]", "[0,2,4]"), 4)},
      {"no_offsets", file_of(R"({"a":{"dtype":"U8","shape":[4]}})", 4)},
      {"null_entry", file_of(R"({"a":null})", 4)},
      {"metadata_of_numbers", file_of(R"({"__metadata__":{"a":1}})", 0)},
      {"metadata_is_text", file_of(R"({"__metadata__":"a"})", 0)},
      {"unaligned",
       file_of("{" + b + R"(,"c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 9)},
  };
  for (const auto& [name, bytes] : files) put("safetensors", name, bytes);
}

// ---- config

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) {
    std::fprintf(stderr, "no %s in the configuration\n", from.c_str());
    std::exit(1);
  }
  return text.replace(at, from.size(), to);
}

checkpoint::SynthOptions tiny(const char* preset, const fs::path& path) {
  checkpoint::SynthOptions options;
  options.preset = preset;
  options.output = path;
  options.experts = 6;
  options.hidden = options.intermediate = 32;
  return options;
}

void config_corpus(const Scratch& scratch) {
  const auto text_of = [&](const char* preset, const char* file) {
    must(checkpoint::synth(tiny(preset, scratch.path() / preset)));
    return read_file(scratch.path() / preset / file);
  };
  const std::string v41 = text_of("deepseek-v4.1-flash", "config.json");
  const std::string zero(1, '\0');
  const auto config = [&](const char* name, const std::string& from, const std::string& to) {
    put("config", name, changed(v41, from, to));
  };
  put("config", "v41", v41);
  put("config", "v4", text_of("deepseek-v4-flash", "config.json"));
  put("config", "gpt_oss", text_of("gpt-oss-20b", "config.json"));
  put("config", "modelopt",
      text_of("flint-modelopt", "config.json") + zero + zero +
          text_of("flint-modelopt", "hf_quant_config.json"));
  put("config", "empty", "");
  put("config", "not_json", "config");
  put("config", "deep", repeat("{\"text_config\":", 300));
  put("config", "cut", v41.substr(0, v41.size() / 2));
  config("hidden_0", "\"hidden_size\": 32", "\"hidden_size\": 0");
  config("hidden_negative", "\"hidden_size\": 32", "\"hidden_size\": -32");
  config("hidden_fraction", "\"hidden_size\": 32", "\"hidden_size\": 32.5");
  config("hidden_64_bits", "\"hidden_size\": 32", "\"hidden_size\": 18446744073709551615");
  config("hidden_text", "\"hidden_size\": 32", "\"hidden_size\": \"32\"");
  config("hidden_null", "\"hidden_size\": 32", "\"hidden_size\": null");
  config("experts_many", "\"n_routed_experts\": 6", "\"n_routed_experts\": 16384");
  config("top_k_above_experts", "\"num_experts_per_tok\": 6", "\"num_experts_per_tok\": 7");
  config("limit_huge", "\"swiglu_limit\": 10.0", "\"swiglu_limit\": 1e300");
  config("hash_layers", "\"num_hash_layers\": 0", "\"num_hash_layers\": 3");
  config("no_vision", "\"num_hidden_layers\": 24", "\"num_hidden_layers\": 0");
  config("text_config_is_list", "\"text_config\": {", "\"text_config\": [], \"other\": {");
  config("duplicate_key", "\"model_type\"", "\"model_type\": \"gpt_oss\", \"model_type\"");
  const auto index = [&](const char* name, const std::string& text) {
    put("config", std::string("index_") + name, v41 + zero + text);
  };
  const std::string gate = R"({"weight_map":{"layers.0.ffn.gate.bias":)";
  index("good", gate + "\"model.safetensors\"}}");
  index("empty_map", R"({"metadata":{"total_size":0},"weight_map":{}})");
  index("no_map", "{}");
  index("map_is_list", R"({"weight_map":["model.safetensors"]})");
  index("number", gate + "1}}");
  index("above", gate + "\"../model.safetensors\"}}");
  index("absolute", gate + "\"/etc/passwd\"}}");
  index("the_folder", gate + "\".\"}}");
  index("no_shard", gate + "\"other.safetensors\"}}");
  index("itself", gate + "\"model.safetensors.index.json\"}}");
  index("no_tensor", R"({"weight_map":{"x":"model.safetensors"}})");
  index("zero_byte", gate + R"("a\u0000b"}})");
}

// ---- packed

void packed_corpus(const Scratch& scratch) {
  const auto packed = [&](const char* preset) {
    must(checkpoint::synth(tiny(preset, scratch.path() / preset)));
    const auto model = checkpoint::Model::open(scratch.path() / preset);
    if (!model.ok()) must(model.status());
    checkpoint::PackOptions options;
    options.output = scratch.path() / "packed";
    must(checkpoint::pack(*model, options));
    return read_file(options.output);
  };
  put("packed", "deepseek", packed("deepseek-v4.1-flash"));
  put("packed", "modelopt", packed("flint-modelopt"));
  const std::string good = packed("gpt-oss-20b");
  put("packed", "gpt_oss", good);
  put("packed", "empty", "");
  put("packed", "cut_in_half", good.substr(0, good.size() / 2));
  put("packed", "last_byte_missing", good.substr(0, good.size() - 1));
  std::string flipped = good;
  flipped[flipped.size() - 1] ^= 1;
  put("packed", "flipped_bit", flipped);
  // The same lengths, so that the file stays one: only what the header says is wrong.
  const std::pair<const char*, std::pair<const char*, const char*>> edits[] = {
      {"version_1", {"\"octet_pack_version\":\"2\"", "\"octet_pack_version\":\"1\""}},
      {"no_version", {"octet_pack_version", "octet_pack_Version"}},
      {"experts_1", {"[6,", "[1,"}},
      {"no_params", {"layers.0.params", "layers.1.params"}},
      {"no_layer", {"\"layer.0\"", "\"layer.x\""}},
  };
  for (const auto& [name, edit] : edits)
    put("packed", name, changed(good, edit.first, edit.second));
  put("packed", "plain_safetensors", file_of("{}", 0));
}

// ---- op

// `picks`: for each setting of the operation, in its order, which of op_input.h's values.
void op_file(const Scratch& scratch, const std::string& operation, const std::string& picks,
             const NamedViews& tensors) {
  const auto operations = dispatch::operations();
  char idx = 0;
  for (size_t i = 0; i < operations.size(); ++i)
    if (operations[i].name == operation) idx = static_cast<char>(i);
  const auto path = scratch.path() / "op.safetensors";
  must(checkpoint::save_safetensors(path, tensors));
  put("op", operation, idx + picks + read_file(path));
}

// Inputs and outputs of one operation after another.
struct Pool {
  NamedTensors tensors;
  void add(const char* name, Dtype dtype, const Dims& dims, uint8_t fill = 0) {
    Tensor t(dtype, dims);
    for (size_t i = 0; i < t.num_bytes(); ++i)
      t.data()[i] = static_cast<std::byte>(fill == 1 ? i * 37 % 256 : fill);
    tensors.insert_or_assign(name, std::move(t));
  }
  void add_floats(const char* name, Dtype dtype, const Dims& dims) {
    Tensor t(dtype, dims);
    const size_t step = dtype_bytes(dtype);
    for (size_t i = 0; i < t.num_bytes() / step; ++i) {
      const float v = static_cast<float>(i % 7) * 0.5F - 1.0F;
      uint32_t bits = 0;
      std::memcpy(&bits, &v, 4);
      bits >>= dtype == Dtype::kBf16 ? 16 : 0;
      std::memcpy(t.data() + i * step, &bits, step);
    }
    tensors.insert_or_assign(name, std::move(t));
  }
  NamedViews reads(const dispatch::OperationInfo& info) const {
    NamedViews views;
    for (std::string_view name : info.reads) {
      if (name.ends_with('?')) name.remove_suffix(1);
      const auto found = tensors.find(name);
      if (found != tensors.end()) views.emplace(name, found->second.view());
    }
    return views;
  }
};

// A file of each operation of `steps` = (name, picks); their outputs feed the next ones.
void op_chain(const Scratch& scratch, Pool& pool,
              const std::vector<std::pair<const char*, std::string>>& steps) {
  InlineExecutor executor;
  for (const auto& [name, picks] : steps) {
    for (const dispatch::OperationInfo& info : dispatch::operations()) {
      if (info.name != name) continue;
      dispatch::Settings settings;
      for (size_t i = 0; i < info.settings.size(); ++i) {
        const auto value = fuzz::setting_value(info.settings[i], static_cast<uint8_t>(picks[i]));
        if (!value.empty()) settings.emplace(info.settings[i], value);
      }
      const NamedViews inputs = pool.reads(info);
      op_file(scratch, name, picks, inputs);
      auto outputs = dispatch::run_operation(name, inputs, settings, Backend::kCpu, executor);
      if (!outputs.ok()) {
        std::fprintf(stderr, "%s: ", name);
        must(outputs.status());
      }
      NamedTensors made = std::move(outputs).value();
      for (auto& [key, tensor] : made) pool.tensors.insert_or_assign(key, std::move(tensor));
    }
  }
}

void op_corpus(const Scratch& scratch) {
  const std::string zero(1, '\0'), one(1, '\1'), two(1, '\2'), three(1, '\3'), four(1, '\4');
  Pool layer;  // T 2, H 128, I 32, E 1, k 1
  layer.add_floats("x", Dtype::kBf16, {2, 128});
  layer.add_floats("logits", Dtype::kF32, {2, 1});
  layer.add_floats("bias", Dtype::kF32, {1});
  for (const char* name : {"gate", "up"}) layer.add(name, Dtype::kU8, {1, 32, 64}, 1);
  for (const char* name : {"gate_scale", "up_scale"}) layer.add(name, Dtype::kU8, {1, 32, 4}, 120);
  layer.add("down", Dtype::kU8, {1, 128, 16}, 1);
  layer.add("down_scale", Dtype::kU8, {1, 128, 1}, 120);
  const std::string router = zero + two + one + zero + zero + zero;  // top_k 1, scale 1.5
  op_chain(scratch, layer,
           {{"mxfp8_quantize", zero},
            {"topk", router},
            {"route", three},
            {"front", router},
            {"prepare", zero},
            {"gemm1", zero},
            {"gemm2", ""},
            {"finalize", one},
            {"unprepare", zero}});
  op_file(scratch, "check_weights", two + zero, {});
  Pool grouped;  // T 2, H 16, I 64, E 1
  grouped.add_floats("x", Dtype::kBf16, {2, 16});
  grouped.add("topk_ids", Dtype::kI32, {2, 1});
  grouped.add_floats("topk_weights", Dtype::kF32, {2, 1});
  grouped.add("w1", Dtype::kU8, {1, 128, 8}, 1);
  grouped.add("w1_sf", Dtype::kU8, {1, 512}, 0x38);
  grouped.add("w2", Dtype::kU8, {1, 16, 32}, 1);
  grouped.add("w2_sf", Dtype::kU8, {1, 512}, 0x38);
  grouped.add_floats("w1_alpha", Dtype::kF32, {1});
  grouped.add_floats("w2_alpha", Dtype::kF32, {1});
  op_chain(
      scratch, grouped,
      {{"moe_sort", three + zero + zero + zero}, {"moe_permute", two + zero}, {"grouped_moe", ""}});
  Pool weights;
  weights.add("weight", Dtype::kU8, {2, 32}, 1);
  weights.add("scale", Dtype::kU8, {2, 2}, 120);
  op_chain(scratch, weights, {{"dequantize", zero}, {"quantize_weight", one}});
  // The reference on the same inputs, a wrong pick of every kind, and what is not a file.
  for (const auto& entry : fs::directory_iterator(root / "op")) {
    std::string bytes = read_file(entry.path());
    if (bytes.size() > 4096) continue;
    bytes[0] = static_cast<char>(bytes[0] | 0x80);
    put("op_reference", entry.path().filename().string(), bytes);
  }
  for (const auto& entry : fs::directory_iterator(root / "op_reference"))
    fs::rename(entry.path(), root / "op" / ("reference_" + entry.path().filename().string()));
  fs::remove(root / "op_reference");
  put("op", "empty", "");
  put("op", "operation_alone", one);
  put("op", "no_tensors", one + router + file_of("{}", 0));
  put("op", "no_rows",
      zero + zero + file_of(R"({"x":{"dtype":"BF16","shape":[0,32],"data_offsets":[0,0]}})", 0));
  put("op", "rows_without_columns",
      zero + zero +
          file_of(R"({"x":{"dtype":"BF16","shape":[1099511627776,0],"data_offsets":[0,0]}})", 0));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "make_corpus FOLDER\n");
    return 2;
  }
  root = argv[1];
  for (const char* target : {"safetensors", "config", "packed", "op", "ptx"})
    fs::remove_all(root / target);
  const Scratch scratch;
  safetensors_corpus();
  config_corpus(scratch);
  packed_corpus(scratch);
  op_corpus(scratch);
  fuzz::ptx_corpus([](const char* name, const std::string& text) { put("ptx", name, text); });
  return 0;
}
