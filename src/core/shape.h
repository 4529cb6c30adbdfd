// SPDX-License-Identifier: Apache-2.0
// The letters of every comment, and what a layer is made of.
//
//   T tokens (rows)   H hidden   I intermediate of this rank   Ip  I padded to 128   E experts
//   k experts a token (top_k)    slots = T * k                 G   elements a scale  tile = 8 rows
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace octet {

constexpr int64_t kTileRows = 8;
constexpr int64_t kMxBlock = 32;  // elements a scale in MXFP4 and MXFP8
constexpr int64_t kNvBlock = 16;  // elements a scale in NVFP4

constexpr int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }
constexpr int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

enum class WeightFormat : uint8_t { kMxfp4, kNvfp4 };
enum class Activations : uint8_t { kBf16, kMxfp8 };          // W4A16, W4A8
enum class Precision : uint8_t { kFast, kExact };            // semantics.md section 9
enum class ScaleLayout : uint8_t { kLinear, k128x4, k8x4 };  // semantics.md section 2
enum class RouterKind : uint8_t { kDsv4, kHash, kDeepseekV3, kSoftmax, kFlint };

constexpr int64_t scale_block(WeightFormat format) {
  return format == WeightFormat::kMxfp4 ? kMxBlock : kNvBlock;
}
constexpr std::string_view name_of(WeightFormat f) {
  return f == WeightFormat::kMxfp4 ? "mxfp4" : "nvfp4";
}
constexpr std::string_view name_of(Activations a) {
  return a == Activations::kBf16 ? "bf16" : "mxfp8";
}
constexpr std::string_view name_of(Precision p) { return p == Precision::kFast ? "fast" : "exact"; }
constexpr std::string_view name_of(ScaleLayout l) {
  return l == ScaleLayout::kLinear ? "linear" : l == ScaleLayout::k128x4 ? "128x4" : "8x4";
}
// As `--set router=` spells them.
constexpr std::string_view name_of(RouterKind r) {
  constexpr std::string_view kNames[] = {"dsv4", "hash", "deepseek_v3", "softmax", "flint"};
  return kNames[static_cast<int>(r)];
}

// h = (up' + beta) * gate' * sigmoid(alpha * gate'), gate' = min(gate, limit), up' = clamp(up, +-limit).
// semantics.md sections 7 and 9. No limit: the largest finite float.
struct Swiglu {
  float limit = std::numeric_limits<float>::max();
  float alpha = 1.0F;
  float beta = 0.0F;
};

// How ids and weights come from logits. semantics.md sections 4 and 11.
struct RouterSpec {
  RouterKind kind = RouterKind::kDsv4;
  int64_t top_k = 6;
  float scale = 1.0F;  // the routed scaling factor, applied to the weights
  int64_t groups = 1;  // kDeepseekV3: groups of experts, of which the best `groups_kept` stay
  int64_t groups_kept = 1;
  int64_t image_sentinel_lo = 0;  // first of the five image token ids; <= 0: no row is an image
};

// One MoE layer as this rank runs it.
struct LayerSpec {
  int64_t hidden = 0;        // H, a multiple of 32
  int64_t intermediate = 0;  // I of this rank
  int64_t experts = 0;       // E of the whole layer: ids and logits count these
  int64_t first_expert =
      0;  // this rank's experts are first_expert ... first_expert + local_experts - 1
  int64_t local_experts = 0;
  WeightFormat weights = WeightFormat::kMxfp4;
  Activations activations = Activations::kBf16;
  Precision precision = Precision::kFast;
  Swiglu swiglu;
  RouterSpec router;
  bool has_shared_experts = false;  // the checkpoint has shared experts, which are not in y
};

}  // namespace octet
