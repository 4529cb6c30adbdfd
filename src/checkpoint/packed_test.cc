// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/packed.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/model_testing.h"
#include "checkpoint/packed_file.h"
#include "checkpoint/safetensors.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

class Packed : public testing::Test {
 protected:
  fs::path source() const { return folder_.path() / "source"; }
  fs::path file() const { return folder_.path() / "layer.octet"; }

  void make(const SmallCheckpoint& c, const LoadOptions& load = {}) {
    fs::create_directory(source());
    c.write(source());
    const auto model = Model::open(source());
    ASSERT_TRUE(model.ok()) << model.status().why;
    const Status packed = pack(*model, {.layers = {}, .load = load, .output = file()});
    ASSERT_TRUE(packed.ok()) << packed.why;
  }

  // The file again after a change of its metadata or tensors.
  Status reopen(
      const std::function<void(std::map<std::string, std::string>&, NamedTensors&)>& edit) {
    std::map<std::string, std::string> metadata;
    NamedTensors tensors;
    {
      const auto old = SafetensorsFile::open(file());
      if (!old.ok()) return old.status();
      metadata = old->header().metadata;
      for (const auto& [name, view] : old->tensors()) tensors.emplace(name, copy_of(view));
    }
    edit(metadata, tensors);
    // Panels first, as pack writes them.
    std::vector<SafetensorsWriter::Entry> entries;
    for (const bool panels : {true, false}) {
      for (const auto& [name, tensor] : tensors) {
        if ((tensor.dtype() == Dtype::kU8) == panels)
          entries.push_back({name, tensor.dtype(), tensor.dims()});
      }
    }
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      const auto rank = [](Dtype d) { return d == Dtype::kU8 ? 9 : dtype_bytes(d); };
      return rank(a.dtype) > rank(b.dtype);
    });
    const fs::path other = folder_.path() / "edited.octet";
    auto writer = SafetensorsWriter::create(other, entries, metadata);
    if (!writer.ok()) return writer.status();
    for (const auto& e : entries) {
      const Tensor& t = tensors.at(e.name);
      OCTET_RETURN_IF_ERROR(writer->write({t.data(), t.num_bytes()}));
    }
    if (metadata.contains(std::string(kPackHeaderKey))) {
      metadata.at(std::string(kPackHeaderKey)) = header_checksum(writer->header());
      OCTET_RETURN_IF_ERROR(writer->set_metadata(metadata));
    }
    OCTET_RETURN_IF_ERROR(writer->finish());
    return Model::open(other).status();
  }
  Status reopen_layer(const std::function<void(nlohmann::json&)>& edit) {
    return reopen([&](auto& metadata, auto&) {
      auto layer = nlohmann::json::parse(metadata.at("layer.3"));
      edit(layer);
      metadata.at("layer.3") = layer.dump();
    });
  }

  TestFolder folder_;
};

bool same(const TensorView& a, const TensorView& b) {
  if (a.data == nullptr || b.data == nullptr) return a.data == b.data;
  return a.dtype == b.dtype && a.dims == b.dims && std::memcmp(a.data, b.data, a.num_bytes()) == 0;
}

void expect_same_bias(const layouts::BiasView& a, const layouts::BiasView& b, int64_t width) {
  ASSERT_EQ(a.data == nullptr, b.data == nullptr);
  for (int64_t i = 0; a.data != nullptr && i < width; ++i) {
    ASSERT_EQ(a.data[i * a.stride], b.data[i * b.stride]);
  }
}

// A packed layer against the same layer from its checkpoint.
void expect_same_layer(const LayerTensors& packed, const LayerTensors& loaded) {
  const LayerSpec &a = packed.spec, &b = loaded.spec;
  EXPECT_EQ(std::tuple(a.hidden, a.intermediate, a.experts, a.first_expert, a.local_experts,
                       a.weights, a.activations),
            std::tuple(b.hidden, b.intermediate, b.experts, b.first_expert, b.local_experts,
                       b.weights, b.activations));
  EXPECT_EQ(std::tuple(a.swiglu.limit, a.swiglu.alpha, a.swiglu.beta, a.router.kind, a.router.top_k,
                       a.router.scale, a.router.groups, a.router.groups_kept,
                       a.router.image_sentinel_lo, a.has_shared_experts),
            std::tuple(b.swiglu.limit, b.swiglu.alpha, b.swiglu.beta, b.router.kind, b.router.top_k,
                       b.router.scale, b.router.groups, b.router.groups_kept,
                       b.router.image_sentinel_lo, b.has_shared_experts));
  for (const auto field :
       {&Gate::weight, &Gate::logit_bias, &Gate::bias, &Gate::bias_vl, &Gate::table}) {
    EXPECT_TRUE(same(packed.gate.*field, loaded.gate.*field));
  }
  ASSERT_TRUE(packed.packed.has_value());
  ASSERT_EQ(packed.experts.size(), loaded.experts.size());
  const auto stride = static_cast<size_t>(packed.packed->expert_stride);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(packed.packed->base) % 64, 0U);
  for (size_t e = 0; e < packed.experts.size(); ++e) {
    const layouts::ExpertWeights &p = packed.experts[e], &l = loaded.experts[e];
    ASSERT_EQ(layouts::panel_sizes(l).expert_bytes(), packed.packed->expert_stride);
    std::vector<uint8_t> want(stride, 0xFF);
    layouts::pack_expert(l, want.data());
    EXPECT_EQ(std::memcmp(packed.packed->base + e * stride, want.data(), stride), 0) << e;
    EXPECT_EQ(std::tuple(p.gate_alpha, p.up_alpha, p.down_alpha, p.limit),
              std::tuple(l.gate_alpha, l.up_alpha, l.down_alpha, l.limit));
    EXPECT_EQ(p.gate.codes, nullptr);
    EXPECT_EQ(p.down.start_in_block(), l.down.start_in_block());
    expect_same_bias(p.gate_bias, l.gate_bias, a.intermediate);
    expect_same_bias(p.up_bias, l.up_bias, a.intermediate);
    expect_same_bias(p.down_bias, l.down_bias, a.hidden);
  }
}

class PackedFormats : public Packed, public testing::WithParamInterface<Shard> {
 protected:
  void round_trip(const SmallCheckpoint& c) {
    const LoadOptions load{.shard = GetParam()};
    make(c, load);
    const auto model = Model::open(file());
    ASSERT_TRUE(model.ok()) << model.status().why;
    EXPECT_EQ(model->format(), "packed");
    EXPECT_EQ(model->model_type(), c.config["model_type"].get<std::string>());
    EXPECT_EQ(model->layers(), std::vector<int64_t>{3});
    const auto want = load_layer(source(), 3, load);
    ASSERT_TRUE(want.ok());
    for (const LoadOptions& asked : {LoadOptions{}, load}) {
      const auto got = model->layer(3, asked);
      ASSERT_TRUE(got.ok()) << got.status().why;
      expect_same_layer(*got, *want);
    }
    EXPECT_TRUE(verify_packed(file()).ok());
  }
};

TEST_P(PackedFormats, HoldDeepseek) { round_trip(small_deepseek()); }
TEST_P(PackedFormats, HoldGptOss) { round_trip(small_gpt_oss()); }
TEST_P(PackedFormats, HoldModelopt) { round_trip(small_modelopt()); }
TEST_P(PackedFormats, HoldHashTablesAndImageBiases) {
  SmallCheckpoint c = small_deepseek();
  c.config["num_hash_layers"] = 4;
  c.config["vision_n_layers"] = 1;
  c.add("layers.3.ffn.gate.bias_vl", Dtype::kF32, {8});
  Tensor& table = c.add("layers.3.ffn.gate.tid2eid", Dtype::kI32, {20, 4});
  for (int i = 0; i < 80; ++i) table.as<int32_t>()[i] = i % 8;
  round_trip(c);
}
INSTANTIATE_TEST_SUITE_P(Shards, PackedFormats,
                         testing::Values(Shard{}, Shard{0, 2, 0, 1}, Shard{1, 2, 1, 4}));

TEST_F(Packed, HoldsSeveralLayersAndTheDigestOfTheirSource) {
  SmallCheckpoint c = small_deepseek();
  const SmallCheckpoint other = small_deepseek({.layer = 12});
  for (const auto& [name, tensor] : other.tensors) c.tensors.emplace(name, copy_of(tensor.view()));
  make(c, {.shard = {0, 2, 0, 1}});
  const auto digest = [&] {
    return SafetensorsFile::open(file())->header().metadata.at("source_digest");
  };
  const std::string first = digest();
  EXPECT_EQ(first.size(), 32U);
  EXPECT_NE(first, std::string(32, '0'));
  EXPECT_EQ(Model::open(file())->layers(), (std::vector<int64_t>{3, 12}));
  EXPECT_EQ(SafetensorsFile::open(file())->header().metadata.at("source"), "source");
  make(c, {.shard = {1, 2, 0, 1}});
  EXPECT_EQ(digest(), first);  // the source's, whatever part is taken
  c.tensors.at("layers.3.ffn.gate.weight").data()[5] ^= std::byte{1};
  make(c, {.shard = {1, 2, 0, 1}});
  EXPECT_NE(digest(), first);
}

TEST_F(Packed, RefusesAnotherShardThanWasPacked) {
  make(small_deepseek(), {.shard = {0, 2, 0, 1}});
  EXPECT_SAYS(load_layer(file(), 3, {.shard = {1, 2, 0, 1}}).status(),
              "packed for tp 0/2 ep 0/1, asked tp 1/2 ep 0/1");
  EXPECT_SAYS(load_layer(file(), 4).status(), "layer 4 has no routed experts, wanted one of 3");
  EXPECT_EQ(load_layer(file(), 3, {.activations = Activations::kBf16})->spec.activations,
            Activations::kBf16);
}

TEST_F(Packed, RefusesToPackTwiceOrWhatIsNotThere) {
  make(small_deepseek());
  const auto packed = Model::open(file());
  EXPECT_SAYS(pack(*packed, {.layers = {}, .load = {}, .output = folder_.path() / "x"}),
              "packed already");
  const auto model = Model::open(source());
  EXPECT_SAYS(pack(*model, {.layers = {9}, .load = {}, .output = folder_.path() / "x"}),
              "layer 9 has no routed");
  EXPECT_FALSE(fs::exists(folder_.path() / "x"));
}

TEST_F(Packed, VerifyFindsOneChangedByteAnywhere) {
  make(small_gpt_oss());
  const std::string good = read_text(file());
  std::vector<std::pair<std::string, size_t>> places;
  {
    const auto opened = SafetensorsFile::open(file());
    for (const auto& [name, view] : opened->tensors()) {
      places.emplace_back(name, static_cast<size_t>(view.data - opened->file()->bytes().data()) +
                                    view.num_bytes() - 1);
    }
  }
  EXPECT_EQ(places.size(), 7U);
  for (const auto& [name, at] : places) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write_text(file(), bad);
    EXPECT_SAYS(verify_packed(file()), "tensor " + name + ": checksum ");
  }
  EXPECT_SAYS(verify_packed(source() / "model.safetensors"), "not a packed file");
}

TEST_F(Packed, TellsItsProgress) {
  make(small_deepseek());
  int64_t last = 0, total = 0;
  ASSERT_TRUE(verify_packed(file(), [&](int64_t done, int64_t all) {
                EXPECT_GT(done, last);
                last = done;
                total = all;
              }).ok());
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 0);
}

TEST_F(Packed, RefusesTruncatedFiles) {
  make(small_deepseek());
  const std::string good = read_text(file());
  for (const size_t size : {good.size() - 1, good.size() / 2, size_t{100}, size_t{8}}) {
    write_text(file(), good.substr(0, size));
    EXPECT_FALSE(Model::open(file()).ok()) << size;
    EXPECT_FALSE(verify_packed(file()).ok()) << size;
  }
}

TEST_F(Packed, RefusesMetadataThatLie) {
  make(small_deepseek(), {.shard = {1, 2, 0, 1}});
  EXPECT_TRUE(reopen([](auto&, auto&) {}).ok());
  EXPECT_SAYS(reopen([](auto& m, auto&) { m.at("octet_pack_version") = "1"; }),
              "octet_pack_version 1, wanted 2: pack the checkpoint again");
  EXPECT_SAYS(reopen([](auto& m, auto&) { m.erase("header_checksum"); }),
              "metadata header_checksum is missing");
  EXPECT_SAYS(reopen([](auto& m, auto&) { m.erase("source_digest"); }),
              "metadata source_digest is missing");
  EXPECT_SAYS(reopen([](auto& m, auto&) { m.erase("layer.3"); }), "no packed layers");
  EXPECT_SAYS(reopen([](auto& m, auto&) { m["layer.x"] = "{}"; }),
              "metadata layer.x, wanted layer.N");
  EXPECT_SAYS(reopen([](auto& m, auto&) { m.at("layer.3") = "[]"; }),
              "layer.3: array, wanted an object");
  EXPECT_SAYS(reopen_layer([](auto& l) { l["panels"]["down_start"] = 0; }),
              "down_start 0, wanted 16");
  EXPECT_SAYS(reopen_layer([](auto& l) { l["panels"]["expert_bytes"] = 64; }),
              "expert_bytes 64, wanted ");
  EXPECT_SAYS(reopen_layer([](auto& l) { l["panels"].erase("down_panels"); }),
              "down_panels is missing");
  EXPECT_SAYS(reopen_layer([](auto& l) { l["spec"]["weights"] = "int4"; }),
              "weights int4, wanted mxfp4 or nvfp4");
  EXPECT_SAYS(reopen_layer([](auto& l) { l["spec"]["hidden"] = 96; }), "wanted");
  EXPECT_SAYS(reopen_layer([](auto& l) { l["spec"]["experts"] = 16; }),
              "tensor layers.3.experts: shape [8, ");
  EXPECT_SAYS(reopen_layer([](auto& l) { l["shard"]["tp_rank"] = 2; }),
              "tp rank 2, wanted 0 ... 1");
  EXPECT_SAYS(reopen_layer([](auto& l) {
                l["spec"]["top_k"] = l["spec"]["router"]["top_k"] = 8;
                l["spec"]["experts"] = 4;
              }),
              "4 experts, wanted at least the 8 of a token");
  const auto spec = [&](const char* object, const char* key, const nlohmann::json& value) {
    return reopen_layer([&](auto& l) { l["spec"][object][key] = value; });
  };
  EXPECT_SAYS(spec("router", "top_k", 3), "router top_k 3, wanted the spec's 4");
  EXPECT_SAYS(spec("router", "scale", 0), "scale 0, wanted above 0");
  EXPECT_SAYS(spec("router", "scale", -1), "scale -1, wanted above 0");
  EXPECT_SAYS(spec("router", "scale", 1e39), "scale 1e+39, wanted a binary32 number");
  EXPECT_SAYS(spec("router", "image_sentinel_lo", INT64_MAX),
              "image_sentinel_lo 9223372036854775807");
  EXPECT_SAYS(spec("swiglu", "alpha", 0), "alpha 0, wanted above 0");
  EXPECT_SAYS(spec("swiglu", "beta", -1), "beta -1, wanted 0 or above");
}

TEST_F(Packed, RefusesEveryFlippedBitOfItsHeader) {
  make(small_deepseek());
  const std::string good = read_text(file());
  const size_t size = SafetensorsFile::open(file())->header().text.size();
  ASSERT_LT(size, 10000U);
  for (size_t bit = 0; bit < 8 * size; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    write_text(file(), bad);
    ASSERT_FALSE(Model::open(file()).ok()) << "byte " << bit / 8 << " bit " << bit % 8;
  }
}

TEST_F(Packed, RefusesEditsThatAreInRange) {
  make(small_deepseek());
  const std::string good = read_text(file());
  for (const auto& [from, to] : {std::pair("dsv4", "hash"), std::pair("mxfp8", "bf16 "),
                                 std::pair("\\\"scale\\\":1.5", "\\\"scale\\\":2.5"),
                                 std::pair("layers.3.gate.weight\":", "layers.3.gate.Weight\":")}) {
    const size_t at = good.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::string bad = good;
    bad.replace(at, std::strlen(to), to);
    write_text(file(), bad);
    EXPECT_SAYS(Model::open(file()).status(), "header_checksum: ");
  }
}

TEST_F(Packed, RefusesTensorsThatDoNotFitTheSpec) {
  make(small_deepseek());
  EXPECT_SAYS(reopen([](auto&, auto& t) { t.erase("layers.3.experts"); }),
              "tensor layers.3.experts is missing");
  EXPECT_SAYS(reopen([](auto&, auto& t) { t.erase("layers.3.params"); }),
              "tensor layers.3.params is missing");
  EXPECT_SAYS(reopen([](auto&, auto& t) { t.erase("layers.3.gate.bias"); }),
              "tensor layers.3.gate.bias is missing");
  EXPECT_SAYS(reopen([](auto&, auto& t) { t.at("layers.3.params").template as<float>()[5] = 0; }),
              "tensor layers.3.params: 0 at row 1, column 1, wanted a finite positive number");
  EXPECT_SAYS(reopen([](auto&, auto& t) {
                t["layers.3.up_bias"] = Tensor(Dtype::kBf16, {8, 95});
              }),
              "tensor layers.3.up_bias: shape [8, 95], wanted [8, 96]");
}

}  // namespace
}  // namespace octet::checkpoint
