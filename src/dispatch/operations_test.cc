// SPDX-License-Identifier: Apache-2.0
#include "dispatch/operations.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

#include "dispatch/test_inputs.h"

namespace octet::dispatch {
namespace {

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

TEST(Operations, AnswerOnTheCpuWhatTheReferenceAnswers) {
  Inputs chain = chain_inputs();
  Inputs sorted = sorted_inputs();
  Inputs raw = raw_weights();
  Inputs weights = weight_inputs();
  // Operations whose outputs are bytes (semantics.md section 12). The small GEMMs here may round apart from float64; they are
  // compared within bounds in src/cpu and tests/conformance.
  const std::tuple<const char*, Inputs*, Settings> exact[] = {
      {"mxfp8_quantize", &chain, {{"layout", "128x4"}}},
      {"route", &chain, {{"experts", "32"}}},
      {"prepare", &raw, {{"limit", "10"}}},
      {"unprepare", &chain, kI64},
      {"moe_sort", &sorted, {{"experts", "4"}, {"tile", "16"}}},
      {"moe_permute", &sorted, {{"top_k", "2"}, {"tile", "8"}}},
      {"dequantize", &weights, {{"format", "mxfp4"}}},
      {"quantize_weight", &weights, {{"format", "mxfp4"}}},
  };
  for (const auto& [op, in, settings] : exact) {
    auto cpu = in->run(op, settings, Backend::kCpu);
    auto reference = in->run(op, settings, Backend::kReference);
    ASSERT_TRUE(cpu.ok() && reference.ok()) << op << cpu.status().why << reference.status().why;
    ASSERT_EQ(cpu->size(), reference->size()) << op;
    for (const auto& [name, tensor] : *cpu) {
      EXPECT_TRUE(same_bytes(tensor, reference->at(name))) << op << " " << name;
    }
  }
}

TEST(Operations, WriteWhatTheTableSays) {
  const std::tuple<const char*, Inputs (*)(), Settings> calls[] = {
      {"mxfp8_quantize", front_inputs, {}},
      {"topk", front_inputs, kTop2},
      {"front", front_inputs, kTop2},
      {"gemm1", chain_inputs, kI64},
      {"gemm2", chain_inputs, {}},
      {"finalize", chain_inputs, {}},
      {"prepare", raw_weights, {{"limit", "10"}}},
      {"check_weights", chain_inputs, {{"top_k", "2"}, {"intermediate", "64"}}},
      {"moe_sort", sorted_inputs, {{"experts", "4"}, {"tile", "8"}}},
      {"grouped_moe", grouped_inputs, {}},
      {"quantize_weight", weight_inputs, {{"format", "nvfp4"}}},
  };
  for (const auto& [op, make, settings] : calls) {
    const Inputs in = make();
    for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
      auto out = in.run(op, settings, backend);
      ASSERT_TRUE(out.ok()) << op << ": " << out.status().why;
      const OperationInfo& info = info_of(op);
      std::vector<std::string_view> names;
      for (const auto& [name, tensor] : *out) names.push_back(name);
      std::vector<std::string_view> wanted = info.writes;
      std::sort(wanted.begin(), wanted.end());
      EXPECT_EQ(names, wanted) << op;
    }
  }
}

TEST(Operations, FrontIsItsThreeParts) {
  Inputs in = front_inputs();
  const NamedTensors front = in.run("front", kTop2).value();
  in.take(in.run("mxfp8_quantize").value());
  in.take(in.run("topk", kTop2).value());
  in.take(in.run("route", {{"experts", "32"}}).value());
  ASSERT_EQ(front.size(), 6U);
  for (const auto& [name, tensor] : front) EXPECT_TRUE(same_bytes(tensor, in[name])) << name;
}

TEST(Operations, TakeTensorsAtAnyAddress) {
  const Inputs in = chain_inputs();
  cpu::ThreadPool pool(2);
  const NamedTensors want = in.run("gemm1", kI64).value();
  std::vector<std::vector<std::byte>> crooked;
  NamedViews views = in.views();
  for (auto& [name, view] : views) {
    std::vector<std::byte>& bytes = crooked.emplace_back(view.num_bytes() + 1);
    std::memcpy(bytes.data() + 1, view.data, view.num_bytes());
    view.data = bytes.data() + 1;
  }
  auto got = run_operation("gemm1", views, kI64, Backend::kAuto, pool);
  ASSERT_TRUE(got.ok()) << got.status().why;
  for (const auto& [name, tensor] : want) EXPECT_TRUE(same_bytes(tensor, got->at(name))) << name;
  EXPECT_TRUE(
      run_operation("check_weights", views, {{"intermediate", "64"}}, Backend::kAuto, pool).ok());
}

TEST(Operations, TakeNoRows) {
  Inputs in;
  in.bf16("x", {0, 64});
  in.f32("logits", {0, 32});
  in.f32("bias", {32});
  in.i64("topk_ids", {0, 6}, {});
  const auto front = in.run("front");
  ASSERT_TRUE(front.ok()) << front.status().why;
  EXPECT_EQ(front->at("record").dims(), Dims{4});
  EXPECT_EQ(front->at("topk_weights").dims(), (Dims{0, 6}));
  const auto sort = in.run("moe_sort", {{"experts", "4"}, {"tile", "8"}});
  ASSERT_TRUE(sort.ok()) << sort.status().why;
  EXPECT_EQ(*sort->at("num_tiles").as<int32_t>(), 0);
}

TEST(Operations, TakeIdsOfEitherWidth) {
  Inputs in = sorted_inputs();
  const Settings settings = {{"experts", "4"}};
  const NamedTensors want = in.run("route", settings).value();
  in.i64("topk_ids", {kTokens, kTopK}, {0, 1, 3, 2, 1, int64_t{1} << 32});
  const NamedTensors got = in.run("route", settings).value();
  EXPECT_EQ(got.at("permuted").as<int32_t>()[0], want.at("permuted").as<int32_t>()[0]);
  EXPECT_EQ(got.at("permuted").as<int32_t>()[5], -1) << "2^32 is no expert 0";
}

TEST(Operations, HashRowsOfImagesGoByBiasVl) {
  Inputs in = front_inputs();
  in.i32("table", {3, 2}, {0, 1, 2, 3, 4, 5});
  in.f32("bias_vl", {kExperts});
  in["bias_vl"].as<float>()[31] = 90;
  in["bias_vl"].as<float>()[7] = 80;
  in.i32("input_ids", {kTokens}, {1, 102, 2});  // 102 is an image and no row of the table
  for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
    for (const char* op : {"topk", "front"}) {
      const auto out = in.run(op, {{"router", "hash"}, {"image_sentinel_lo", "100"}}, backend);
      ASSERT_TRUE(out.ok()) << out.status().why;
      const int32_t* ids = out->at("topk_ids").as<int32_t>();
      EXPECT_EQ(std::vector<int32_t>(ids, ids + 6), (std::vector<int32_t>{2, 3, 31, 7, 4, 5}));
    }
    // No row is an image: the table has no row 102.
    const auto none = in.run("topk", {{"router", "hash"}}, backend);
    EXPECT_EQ(none.status().why, "input_ids: row 1 is 102, want 0..2");
  }
}

}  // namespace
}  // namespace octet::dispatch
