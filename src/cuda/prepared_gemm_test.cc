// SPDX-License-Identifier: Apache-2.0
#include "cuda/prepared_gemm.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "cuda/no_gemms.h"

namespace octet::cuda {
namespace {

struct Encoded {
  CUtensorMapDataType type;
  const void* data;
  std::vector<uint64_t> sizes, strides;
  std::vector<uint32_t> box;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};
std::vector<Encoded> encoded;

CUresult record_encoding(CUtensorMap*, CUtensorMapDataType type, cuuint32_t rank, void* data,
                         const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                         const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  encoded.push_back({type,
                     data,
                     {sizes, sizes + rank},
                     {strides, strides + rank - 1},
                     {box, box + rank},
                     swizzle,
                     fill});
  return CUDA_SUCCESS;
}
CUresult refuse_encoding(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                         const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                         CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                         CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_INVALID_VALUE;
}

Gemm1Args gemm1_args() {
  return {.x_quant = address<uint8_t>(0x1000),
          .x_scale = address<uint8_t>(0x2000),
          .record = address<int32_t>(0x3000),
          .w13 = address<uint8_t>(0x4000),
          .w13_scale = address<uint8_t>(0x5000),
          .clamp = address<float>(0x6000),
          .tokens = 6,
          .top_k = 6,
          .experts = 96,
          .hidden = 5120,
          .padded = 640,
          .intermediate = 576,
          .h_values = address<uint8_t>(0x7000),
          .h_scales = address<uint8_t>(0x8000)};
}
Gemm2Args gemm2_args() {
  return {.h_values = address<uint8_t>(0x7000),
          .h_scales = address<uint8_t>(0x8000),
          .record = address<int32_t>(0x3000),
          .w2 = address<uint8_t>(0x9000),
          .w2_scale = address<uint8_t>(0xA000),
          .tokens = 6,
          .top_k = 6,
          .experts = 96,
          .hidden = 5120,
          .padded = 640,
          .gemm2_rows = address<Bf16>(0xB000)};
}

TEST(PreparedMakeGemm1, MapsTheTensorsAsTheyLie) {
  encoded.clear();
  GemmLaunch<Gemm1KernelArgs> launch;
  const Status status = make_gemm1(kNoGemms, gemm1_args(), record_encoding, launch);
  ASSERT_TRUE(status.ok()) << status.why;
  ASSERT_EQ(encoded.size(), 2U);
  EXPECT_EQ(encoded[0].type, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B);
  EXPECT_EQ(encoded[0].data, address<void>(0x4000));
  EXPECT_EQ(encoded[0].sizes, (std::vector<uint64_t>{5120, 96 * 1280}));
  EXPECT_EQ(encoded[0].strides, std::vector<uint64_t>{2560});
  EXPECT_EQ(encoded[0].box, (std::vector<uint32_t>{128, 128}));
  EXPECT_EQ(encoded[1].type, CU_TENSOR_MAP_DATA_TYPE_UINT8);
  EXPECT_EQ(encoded[1].sizes, (std::vector<uint64_t>{5120, 6})) << "rows beyond T are zeros";
  EXPECT_EQ(encoded[1].strides, std::vector<uint64_t>{5120});
  EXPECT_EQ(encoded[1].box, (std::vector<uint32_t>{128, 8}));
  for (const Encoded& e : encoded) {
    EXPECT_EQ(e.swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
    EXPECT_EQ(e.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  const Gemm1KernelArgs& a = launch.args;
  EXPECT_EQ(a.gemm.most_tiles, 36);
  EXPECT_EQ(a.gemm.expert_rows, 1280);
  EXPECT_EQ(a.gemm.blocks, 9);
  EXPECT_EQ(a.gemm.chunks, 40);
  EXPECT_EQ(a.gemm.stages, 4);
  EXPECT_EQ(a.tokens, 6);
  EXPECT_EQ(a.intermediate, 576);
  EXPECT_EQ(a.padded, 640);
}

TEST(PreparedMakeGemm2, MapsTheTensorsAsTheyLie) {
  encoded.clear();
  GemmLaunch<Gemm2KernelArgs> launch;
  const Status status = make_gemm2(kNoGemms, gemm2_args(), record_encoding, launch);
  ASSERT_TRUE(status.ok()) << status.why;
  ASSERT_EQ(encoded.size(), 2U);
  EXPECT_EQ(encoded[0].sizes, (std::vector<uint64_t>{640, 96 * 5120}));
  EXPECT_EQ(encoded[0].strides, std::vector<uint64_t>{320});
  EXPECT_EQ(encoded[1].data, address<void>(0x7000));
  EXPECT_EQ(encoded[1].sizes, (std::vector<uint64_t>{640, 8 * 36}));
  EXPECT_EQ(launch.args.gemm.expert_rows, 5120);
  EXPECT_EQ(launch.args.gemm.blocks, 40);
  EXPECT_EQ(launch.args.gemm.chunks, 5);
  EXPECT_EQ(launch.args.hidden, 5120);
}

TEST(PreparedMakeGemm1, SaysWhatItFoundAndWhatItWants) {
  const auto why = [](auto change) {
    Gemm1Args a = gemm1_args();
    change(a);
    return check_gemm1(kNoGemms, a).why;
  };
  EXPECT_EQ(why([](Gemm1Args&) {}), "");
  EXPECT_EQ(why([](Gemm1Args& a) { a.tokens = 9; }), "T 9, want 0 to 8");
  EXPECT_EQ(why([](Gemm1Args& a) { a.top_k = 9; }), "k 9, want 1 to 8");
  EXPECT_EQ(why([](Gemm1Args& a) { a.experts = 385; }), "experts 385, want 1 to 384");
  EXPECT_EQ(why([](Gemm1Args& a) { a.hidden = 5184; }), "hidden 5184, want a multiple of 128");
  EXPECT_EQ(why([](Gemm1Args& a) { a.padded = 576; }),
            "padded intermediate 576, want a multiple of 128");
  EXPECT_EQ(why([](Gemm1Args& a) { a.intermediate = 641; }), "intermediate 641, want 1 to 640");
  EXPECT_EQ(why([](Gemm1Args& a) { a.hidden = 32'896; }),
            "hidden 32896, want so little that two stages fit into shared memory");
  EXPECT_EQ(why([](Gemm1Args& a) { a.w13 = address<uint8_t>(0x4010); }),
            "w13: address not a multiple of 32");
  EXPECT_EQ(why([](Gemm1Args& a) { a.w13_scale = address<uint8_t>(0x5008); }),
            "w13_scale: address not a multiple of 16");
  EXPECT_EQ(why([](Gemm1Args& a) { a.clamp = nullptr; }), "clamp is missing");
}
TEST(PreparedMakeGemm2, SaysWhatItFoundAndWhatItWants) {
  Gemm2Args a = gemm2_args();
  EXPECT_TRUE(check_gemm2(kNoGemms, a).ok());
  a.gemm2_rows = address<Bf16>(0xB008);
  EXPECT_EQ(check_gemm2(kNoGemms, a).why, "gemm2_rows: address not a multiple of 16");
  a = gemm2_args();
  a.hidden = int64_t{1} << 25;
  EXPECT_EQ(check_gemm2(kNoGemms, a).why,
            "rows of all experts' weights 3221225472, want less than 2^31");
}

TEST(PreparedMakeGemm1, SaysWhichMapTheDriverRefuses) {
  GemmLaunch<Gemm1KernelArgs> launch;
  EXPECT_EQ(make_gemm1(kNoGemms, gemm1_args(), refuse_encoding, launch).why,
            "cuTensorMapEncodeTiled refuses w13 [122880, 5120]: error 1");
}

TEST(PreparedMakeGemm1, EncodesNothingOfNoTokens) {
  Gemm1Args a = gemm1_args();
  a.tokens = 0;
  GemmLaunch<Gemm1KernelArgs> launch;
  EXPECT_TRUE(make_gemm1(kNoGemms, a, refuse_encoding, launch).ok());
  EXPECT_EQ(launch.args.gemm.most_tiles, 0) << "launching does nothing";
}

}  // namespace
}  // namespace octet::cuda
