// SPDX-License-Identifier: Apache-2.0
#include "bench_case.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <string>
#include <utility>

#include "core/nearest.h"
#include "report.h"

namespace octet::tools {
namespace {

constexpr Swiglu kDeepseekAct{10.0F};
constexpr Swiglu kGptOssAct{7.0F, 1.702F, 1.0F};
constexpr auto kMx = WeightFormat::kMxfp4;
constexpr auto kNv = WeightFormat::kNvfp4;

constexpr std::array kShapes = {
    // clang-format off
    //    name            sizes                           activation    weights  activations
    Shape{"v4.1-tp4",     checkpoint::kV41Flash.slice(4), kDeepseekAct, kMx, Activations::kMxfp8},
    Shape{"v4.1",         checkpoint::kV41Flash,          kDeepseekAct, kMx, Activations::kMxfp8},
    Shape{"v4-flash",     checkpoint::kV4Flash,           kDeepseekAct, kMx, Activations::kMxfp8},
    Shape{"v4-pro",       checkpoint::kV4Pro,             kDeepseekAct, kMx, Activations::kMxfp8},
    Shape{"gpt-oss-20b",  checkpoint::kGptOss20b,         kGptOssAct,   kMx, Activations::kBf16},
    Shape{"gpt-oss-120b", checkpoint::kGptOss120b,        kGptOssAct,   kMx, Activations::kBf16},
    Shape{"flint",        checkpoint::kFlint,             {},           kNv, Activations::kBf16},
    // clang-format on
};

constexpr int64_t kWindow = 64;  // bytes between two experts' windows

// Scale codes for which rows of unit variance give h and y of ordinary size.
uint8_t random_scale(WeightFormat format, Random& random) {
  constexpr int kMxLeast = 119;   // 2^-8 ... 2^-5
  constexpr int kNvLeast = 0x28;  // 0.25 ... 2, under a factor of 2^-6
  return format == kMx ? static_cast<uint8_t>(kMxLeast + random.below(4))
                       : static_cast<uint8_t>(kNvLeast + random.below(0x18));
}

// Matrices of one expert one after another from `codes` and `scales` on.
layouts::ExpertWeights expert_at(const LayerSpec& spec, const uint8_t* codes,
                                 const uint8_t* scales) {
  const auto take = [&](int64_t rows, int64_t cols) {
    const int64_t code_stride = cols / 2;
    const int64_t scale_stride = ceil_div(cols, scale_block(spec.weights));
    const layouts::WeightView view{spec.weights, codes, scales, code_stride,
                                   scale_stride, rows,  cols,   0};
    codes += rows * code_stride;
    scales += rows * scale_stride;
    return view;
  };
  layouts::ExpertWeights e;
  e.gate = take(spec.intermediate, spec.hidden);
  e.up = take(spec.intermediate, spec.hidden);
  e.down = take(spec.hidden, spec.intermediate);
  if (spec.weights == kNv) e.gate_alpha = e.up_alpha = e.down_alpha = 0x1p-6F;
  e.limit = spec.swiglu.limit;
  return e;
}

// Row `t` of a pattern of `distinct` labels: the labels not yet used first, then random ones, distinct within the row.
void fill_row(int64_t t, int64_t distinct, Random& random, Pattern& pattern) {
  int64_t* const row = pattern.labels.data() + t * pattern.top_k;
  int64_t filled = 0;
  for (int64_t label = t * pattern.top_k; label < distinct && filled < pattern.top_k; ++label) {
    row[filled++] = label;
  }
  for (const int64_t label : random.permutation(distinct)) {
    if (filled == pattern.top_k) break;
    if (std::find(row, row + filled, label) == row + filled) row[filled++] = label;
  }
}

// Labels 0, 1, ... in order of first appearance.
void compact_labels(Pattern& pattern) {
  std::map<int64_t, int64_t> label_of;
  for (int64_t& label : pattern.labels) {
    label = label_of.emplace(label, static_cast<int64_t>(label_of.size())).first->second;
  }
  pattern.num_labels = static_cast<int64_t>(label_of.size());
}

}  // namespace

std::span<const Shape> shapes() { return kShapes; }

Result<Shape> shape_from_name(std::string_view name) {
  std::vector<std::string_view> names;
  std::string all;
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return shape;
    names.push_back(shape.name);
    all += fmt::format("{}{}", all.empty() ? "" : ", ", shape.name);
  }
  return misuse(
      fmt::format("--shape: found '{}', want one of {}{}", name, all, did_you_mean(name, names)));
}

RandomLayer::RandomLayer(const LayerSpec& spec, uint64_t seed) {
  Random random(seed);
  const int64_t block = scale_block(spec.weights);
  const int64_t windows = spec.local_experts * kWindow;
  const int64_t elements = 3 * spec.hidden * spec.intermediate;
  const int64_t scale_bytes = 2 * spec.intermediate * ceil_div(spec.hidden, block) +
                              spec.hidden * ceil_div(spec.intermediate, block);
  codes_ = Tensor(Dtype::kU8, {round_up(elements / 2 + windows, 8)});
  scales_ = Tensor(Dtype::kU8, {scale_bytes + windows});
  for (int64_t i = 0; i < num_elems(codes_.dims()) / 8; ++i) {
    const uint64_t bits = random.bits();
    std::memcpy(codes_.data() + i * 8, &bits, 8);
  }
  for (int64_t i = 0; i < num_elems(scales_.dims()); ++i) {
    scales_.as<uint8_t>()[i] = random_scale(spec.weights, random);
  }
  tensors_.spec = spec;
  bias_ = Tensor(Dtype::kF32, {spec.experts});
  tensors_.gate.bias = bias_.view();
  for (int64_t e = 0; e < spec.local_experts; ++e) {
    tensors_.experts.push_back(
        expert_at(spec, codes_.as<uint8_t>() + e * kWindow, scales_.as<uint8_t>() + e * kWindow));
  }
}

Result<Pattern> make_pattern(int64_t tokens, int64_t top_k, int64_t experts,
                             std::optional<int64_t> distinct, Random& random) {
  if (experts < top_k) {
    return invalid_argument(fmt::format(
        "--ep: found {} experts on this rank, want at least {}, one for each of a row's", experts,
        top_k));
  }
  Pattern pattern{tokens, top_k, 0, std::vector<int64_t>(static_cast<size_t>(tokens * top_k))};
  if (!distinct) {
    for (int64_t t = 0; t < tokens; ++t) {
      const std::vector<int64_t> order = random.permutation(experts);
      std::copy_n(order.begin(), top_k, pattern.labels.begin() + t * top_k);
    }
    compact_labels(pattern);
    return pattern;
  }
  const int64_t most = std::min(tokens * top_k, experts);
  if (*distinct < top_k || *distinct > most) {
    return invalid_argument(fmt::format("--distinct: found {}, want {}..{} for {} of {}", *distinct,
                                        top_k, most, count_text(tokens, "row"),
                                        count_text(top_k, "expert")));
  }
  for (int64_t t = 0; t < tokens; ++t) fill_row(t, *distinct, random, pattern);
  pattern.num_labels = *distinct;
  return pattern;
}

}  // namespace octet::tools
