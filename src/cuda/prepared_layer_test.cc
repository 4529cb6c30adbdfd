// SPDX-License-Identifier: Apache-2.0
#include "cuda/prepared_layer.h"

#include <gtest/gtest.h>
#include <utility>
#include <vector>

#include "cuda/no_gemms.h"
#include "routing/record.h"

namespace octet::cuda {
namespace {

using cuda::decode_workspace;
using cuda::DecodeArgs;
using cuda::DecodeWorkspace;

DecodeArgs decode_args() {
  DecodeArgs a;
  a.weights = {.w13 = address<uint8_t>(0x4000),
               .w13_scale = address<uint8_t>(0x5000),
               .w2 = address<uint8_t>(0x9000),
               .w2_scale = address<uint8_t>(0xA000),
               .clamp = address<float>(0x6000),
               .experts = 96,
               .hidden = 5120,
               .padded = 640,
               .intermediate = 576};
  a.topk.tokens = 8;
  a.topk.experts = 96;
  a.topk.router.top_k = 6;
  a.workspace = address<void>(0x100000);
  a.workspace_bytes = int64_t{1} << 30;
  a.ctas = 148;
  return a;
}

TEST(PreparedDecodeWorkspace, HasRoomForEachPieceAndNoOverlap) {
  const DecodeArgs a = decode_args();
  const DecodeWorkspace w = decode_workspace(a.weights, 8, 6, a.workspace);
  constexpr int64_t kTiles = 48;
  ASSERT_EQ(routing::max_ctas(8, 6, 96), kTiles);
  const auto at = [](const auto* p) { return reinterpret_cast<uintptr_t>(p); };
  const std::vector<std::pair<uintptr_t, int64_t>> pieces = {
      {at(w.x_quant), 8 * 5120},           {at(w.x_scale), 8 * 160},
      {at(w.topk_ids), 8 * 6 * 4},         {at(w.permuted), 8 * 6 * 4},
      {at(w.topk_weights), 8 * 6 * 4},     {at(w.record), routing::record_words(kTiles) * 4},
      {at(w.h_values), 8 * kTiles * 640},  {at(w.h_scales), kTiles * 640 * 4},
      {at(w.rows), 8 * kTiles * 5120 * 2},
  };
  uintptr_t end = at(a.workspace);
  for (const auto& [begin, bytes] : pieces) {
    EXPECT_GE(begin, end);
    EXPECT_EQ(begin % 256, 0U);
    end = begin + static_cast<uintptr_t>(bytes);
  }
  EXPECT_LE(end, at(a.workspace) + static_cast<uintptr_t>(w.bytes));
  EXPECT_EQ(decode_workspace(a.weights, 8, 6, nullptr).bytes, w.bytes);
}

TEST(PreparedCheckDecode, SaysWhatItFoundAndWhatItWants) {
  const auto why = [](auto change) {
    DecodeArgs a = decode_args();
    change(a);
    return check_decode(kNoGemms, a).why;
  };
  EXPECT_EQ(why([](DecodeArgs&) {}), "");
  EXPECT_EQ(why([](DecodeArgs& a) { a.topk.experts = 95; }),
            "experts 95, want those of the weights, 96");
  EXPECT_EQ(why([](DecodeArgs& a) { a.topk.tokens = 9; }), "T 9, want 0 to 8");
  EXPECT_EQ(why([](DecodeArgs& a) { a.workspace = address<void>(0x100010); }),
            "workspace: address not a multiple of 256");
  EXPECT_EQ(why([](DecodeArgs& a) { a.ctas = 0; }), "CTAs 0, want at least 1");
  EXPECT_EQ(why([](DecodeArgs& a) { a.weights.w2 = address<uint8_t>(0x9010); }),
            "w2: address not a multiple of 32");
  const int64_t bytes = decode_workspace(decode_args().weights, 8, 6, nullptr).bytes;
  EXPECT_EQ(why([&](DecodeArgs& a) { a.workspace_bytes = bytes; }), "");
  EXPECT_EQ(
      why([&](DecodeArgs& a) { a.workspace_bytes = bytes - 1; }),
      "workspace bytes " + std::to_string(bytes - 1) + ", want at least " + std::to_string(bytes));
}

}  // namespace
}  // namespace octet::cuda
