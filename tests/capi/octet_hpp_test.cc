// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <gtest/gtest.h>
#include <type_traits>
#include <vector>

#include "octet/octet.hpp"

namespace octet::api {
namespace {

static_assert(!std::is_copy_constructible_v<Layer> && std::is_nothrow_move_constructible_v<Layer>);
static_assert(!std::is_copy_constructible_v<Model> && !std::is_copy_constructible_v<Pool>);

TEST(OctetHpp, GivesTheSentenceOfARefusal) {
  const Result<Model> model = Model::open("no/such/checkpoint");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code, Code::kIo);
  EXPECT_NE(model.status().why.find("no/such/checkpoint"), std::string::npos);
  EXPECT_TRUE(to_status(OCTET_OK).ok());
  EXPECT_TRUE(to_status(OCTET_OK).why.empty());
}

TEST(OctetHpp, RunsAnOperationOnItsPool) {
  Result<Pool> made = Pool::create(2);
  ASSERT_TRUE(made.ok());
  const Pool pool = std::move(made).value();
  EXPECT_EQ(pool.num_threads(), 2);
  const std::vector<int32_t> ids = {1, 0, 1, 3};
  const octet_tensor inputs[] = {tensor("topk_ids", OCTET_I32, {2, 2}, ids.data())};
  const octet_setting settings[] = {{"experts", "4"}};
  const Result<Tensors> results = op("route", inputs, settings, "cpu", pool.executor());
  ASSERT_TRUE(results.ok()) << results.status().why;
  ASSERT_EQ(results->size(), 2U);
  EXPECT_STREQ((*results)[0].name, "permuted");
  const octet_tensor permuted = results->find("permuted");
  ASSERT_EQ(permuted.dtype, OCTET_I32);
  const auto* rows = static_cast<const int32_t*>(permuted.data);
  EXPECT_EQ(std::vector<int32_t>(rows, rows + 4), (std::vector<int32_t>{8, 0, 9, 16}));
  EXPECT_EQ(results->find("nothing").data, nullptr);
}

TEST(OctetHpp, RefusesMoreDimensionsThanATensorHas) {
  const octet_tensor t = tensor("x", OCTET_U8, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "");
  const Result<Tensors> results = op("mxfp8_quantize", {&t, 1});
  ASSERT_FALSE(results.ok());
  EXPECT_EQ(results.status().why, "x: rank 9, want 0 ... 8");
}

// weights of 0: y is 0 and the layer is a real one.
TEST(OctetHpp, BindsAndRunsALayer) {
  constexpr int64_t kExperts = 32, kHidden = 128, kPadded = 128;
  const size_t bytes = kExperts * 2 * kPadded * kHidden / 2;
  Workspace zeros(bytes);
  std::memset(zeros.data(), 0, bytes);
  const std::vector<float> clamp(kExperts, 10.0F);
  PreparedWeights weights;
  weights.w13 = tensor("w13", OCTET_U8, {kExperts, 2 * kPadded, kHidden / 2}, zeros.data());
  weights.w13_scale =
      tensor("w13_scale", OCTET_U8, {kExperts, 2 * kPadded, kHidden / 32}, zeros.data());
  weights.w2 = tensor("w2", OCTET_U8, {kExperts, kHidden, kPadded / 2}, zeros.data());
  weights.w2_scale = tensor("w2_scale", OCTET_U8, {kExperts, kHidden, kPadded / 32}, zeros.data());
  weights.clamp = tensor("clamp", OCTET_F32, {kExperts}, clamp.data());
  weights.intermediate = 64;
  weights.top_k = 2;
  Result<Layer> made = Layer::bind(weights);
  ASSERT_TRUE(made.ok()) << made.status().why;
  const Layer layer = std::move(made).value();
  EXPECT_EQ(layer.info().hidden, kHidden);
  EXPECT_EQ(layer.info().top_k, 2);
  EXPECT_EQ(layer.explain().find(layer.info().kernel), 0U);
  EXPECT_EQ(layer.explain().back(), '\n');

  const std::vector<int32_t> ids = {3, 7};
  const std::vector<float> factors = {1.0F, 1.0F};
  alignas(16) octet_bf16 x[kHidden];
  octet_bf16 y[kHidden];
  std::fill_n(x, kHidden, octet_bf16{0x3F80});
  std::fill_n(y, kHidden, octet_bf16{0xFFFF});
  Call call;
  call.tokens = 1;
  call.x = x;
  call.topk_ids = ids.data();
  call.topk_weights = factors.data();
  call.y = y;
  const Result<size_t> need = layer.workspace_bytes(1);
  ASSERT_TRUE(need.ok());
  const Workspace workspace(*need);
  EXPECT_TRUE(layer.accepts(tensor("x", OCTET_BF16, {1, kHidden}, x)).ok());
  const Status status = layer.run(call, workspace);
  ASSERT_TRUE(status.ok()) << status.why;
  for (const octet_bf16 bits : y) EXPECT_EQ(bits & 0x7FFF, 0);
}

TEST(OctetHpp, NamesTheKernels) {
  ASSERT_FALSE(kernel_names().empty());
  EXPECT_EQ(kernel_names().size(), static_cast<size_t>(octet_kernel_count()));
}

}  // namespace
}  // namespace octet::api
