// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_store.h"

#include <cstring>
#include <string>

#include "checkpoint/model_testing.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

// Writes a shard with one byte a name.
void write_shard(const fs::path& path, std::initializer_list<const char*> names) {
  Tensor one(Dtype::kU8, {1});
  NamedViews views;
  for (const char* name : names) views.emplace(name, one.view());
  ASSERT_TRUE(save_safetensors(path, views).ok());
}

Status open_with_index(const fs::path& folder, const std::string& weight_map) {
  write_text(folder / "model.safetensors.index.json", "{\"weight_map\":" + weight_map + "}");
  return TensorStore::open(folder).status();
}

TEST(TensorStore, JoinsShardsByIndex) {
  const TestFolder folder;
  write_shard(folder.path() / "a.safetensors", {"x.1.w", "x.12.w"});
  write_shard(folder.path() / "b.safetensors", {"x.3.w", "y"});
  write_shard(folder.path() / "stranger.safetensors", {"y"});  // not in the index
  ASSERT_TRUE(open_with_index(folder.path(), R"({"x.1.w":"a.safetensors","x.12.w":"a.safetensors",
                                               "x.3.w":"b.safetensors","y":"b.safetensors"})")
                  .ok());
  const auto store = TensorStore::open(folder.path());
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->files().size(), 2U);
  EXPECT_NE(store->find("y"), nullptr);
  EXPECT_EQ(store->find("z"), nullptr);
  EXPECT_EQ(store->numbers("x.", ".w"), (std::vector<int64_t>{1, 3, 12}));
  EXPECT_TRUE(store->has_prefix("x.3"));
  EXPECT_FALSE(store->has_prefix("x.4"));
}

TEST(TensorStore, TakesEveryFileWithoutIndex) {
  const TestFolder folder;
  write_shard(folder.path() / "b.safetensors", {"q"});
  write_shard(folder.path() / "a.safetensors", {"x.01.w", "x.w", "x.1", "x.5.v", "x.1234567890.w"});
  const auto store = TensorStore::open(folder.path());
  ASSERT_TRUE(store.ok()) << store.status().why;
  EXPECT_EQ(store->tensors().size(), 6U);
  EXPECT_TRUE(store->numbers("x.", ".w").empty());
  EXPECT_TRUE(store->config().is_absent());
}

TEST(TensorStore, RefusesIndexEntriesThatLie) {
  const TestFolder folder;
  const fs::path inner = folder.path() / "inner";
  fs::create_directory(inner);
  write_shard(folder.path() / "out.safetensors", {"x"});
  write_shard(inner / "a.safetensors", {"x"});
  EXPECT_SAYS(open_with_index(inner, R"({"x":"../out.safetensors"})"),
              "tensor x: file \"../out.safetensors\", wanted a name in the folder itself");
  for (const char* bad :
       {"\"/etc/passwd\"", "\"\"", "\"..\"", "\".\"", "\"a/b\"", "\"a\\u0000b\""}) {
    EXPECT_SAYS(open_with_index(inner, fmt::format("{{\"x\":{}}}", bad)),
                "wanted a name in the folder");
  }
  EXPECT_SAYS(open_with_index(inner, R"({"x":3})"), "tensor x: number, wanted a file name");
  EXPECT_SAYS(open_with_index(inner, R"({"x":"none.safetensors"})"),
              "none.safetensors: No such file");
  EXPECT_SAYS(open_with_index(inner, R"({"x":"a.safetensors","y":"a.safetensors"})"),
              "tensor y is not in a.safetensors");
  EXPECT_SAYS(open_with_index(inner, R"({"x":"a.safetensors","x":"a.safetensors"})"),
              "the key \"x\" occurs twice");
  EXPECT_SAYS(open_with_index(inner, "[]"), "no object weight_map");
}

TEST(TensorStore, RefusesTensorsThatStandTwice) {
  const TestFolder folder;
  write_shard(folder.path() / "a.safetensors", {"x"});
  write_shard(folder.path() / "b.safetensors", {"x", "y"});
  EXPECT_SAYS(TensorStore::open(folder.path()).status(), "tensor x stands in two files");
  EXPECT_SAYS(open_with_index(folder.path(), R"({"x":"a.safetensors","y":"b.safetensors"})"),
              "tensor x stands in two files");
}

TEST(TensorStore, RefusesFoldersWithoutTensors) {
  const TestFolder folder;
  EXPECT_SAYS(TensorStore::open(folder.path()).status(), "no *.safetensors");
}

TEST(Config, ReadsTypedValues) {
  const auto c =
      Config::parse(R"({"i":3,"f":2.5,"b":true,"s":"t","n":null,"o":{"i":4},"big":1e300})", "c");
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->integer("i", {0, 9}).value(), 3);
  EXPECT_EQ(c->integer("none", {0, 9}, 7).value(), 7);
  EXPECT_EQ(c->number("f").value(), 2.5);
  EXPECT_EQ(c->number("i").value(), 3.0);
  EXPECT_TRUE(c->boolean("b").value());
  EXPECT_EQ(c->text("s").value(), "t");
  EXPECT_FALSE(c->has("n"));
  EXPECT_EQ(c->text("n", "null is absent").value(), "null is absent");
  EXPECT_EQ(c->object("o").integer("i", {0, 9}).value(), 4);
  EXPECT_TRUE(c->object("i").is_absent());
  EXPECT_SAYS(c->integer("i", {4, 9}).status(), "c: i 3, wanted an integer in 4 ... 9");
  EXPECT_SAYS(c->integer("f", {0, 9}).status(), "c: f 2.5, wanted an integer");
  EXPECT_SAYS(c->integer("none", {0, 9}).status(), "c: none is missing");
  EXPECT_SAYS(c->object("o").boolean("i").status(), "c: o: i 4, wanted true or false");
  EXPECT_SAYS(c->text("b").status(), "c: b true, wanted a string");
}

TEST(Config, RefusesWhatIsNoObject) {
  EXPECT_SAYS(Config::parse("[]", "c").status(), "c: array, wanted an object");
  EXPECT_SAYS(Config::parse("{\"a\":1,\"a\":2}", "c").status(), "\"a\" occurs twice");
  EXPECT_SAYS(
      Config::parse("{\"i\":18446744073709551615}", "c")->integer("i", {0, INT64_MAX}).status(),
      "wanted an integer");
  EXPECT_SAYS(Config::parse(std::string((16 << 20) + 1, ' '), "c").status(), "wanted at most");
}

}  // namespace
}  // namespace octet::checkpoint
