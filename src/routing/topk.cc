// SPDX-License-Identifier: Apache-2.0
#include "routing/topk.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "formats/bf16.h"

namespace octet::routing {
namespace {

constexpr float kLog2E = 1.44269504F;
constexpr double kLeastSum = 1e-20;  // added to a sum of sigmoids, so that it is never 0
constexpr double kNegativeInfinity = -std::numeric_limits<double>::infinity();

// One row's operands. `bias` is the row's own: bias_vl for an image.
struct Row {
  const float* logits;
  const float* bias;
  int32_t* ids;
  float* weights;
};

// NaN ranks above -Inf and below everything usual.
double ranked(double key) { return std::isnan(key) ? static_cast<double>(-1e30F) : key; }

// The k largest of key_of(0) ... key_of(experts - 1) in falling order, the lowest index first among equals: one pass
// that keeps the best so far sorted, a newcomer behind its equals. So no id repeats, whatever the keys.
template <class KeyOf>
void choose(int64_t experts, int64_t k, const KeyOf& key_of, int32_t* ids) {
  assert(k <= kMaxTopK);
  double keys[kMaxTopK] = {};
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const double key = ranked(key_of(e));
    if (count == k && !(key > keys[k - 1])) continue;
    int64_t at = count < k ? count++ : k - 1;
    for (; at > 0 && key > keys[at - 1]; --at) {
      keys[at] = keys[at - 1];
      ids[at] = ids[at - 1];
    }
    keys[at] = key;
    ids[at] = static_cast<int32_t>(e);
  }
}

// ---- dsv4 and hash, section 4: binary32, each step rounded once

float sqrt_softplus(float logit) {
  const float e = static_cast<float>(std::exp2(static_cast<double>(logit * kLog2E)));
  const float sum = 1.0F + e;  // the log of a rounded sum, not log1p
  return std::sqrt(logit > 20.0F ? logit : static_cast<float>(std::log(static_cast<double>(sum))));
}

void dsv4_weights(const Row& row, const RouterSpec& router) {
  float w[kMaxTopKDsv4] = {};
  for (int64_t j = 0; j < router.top_k; ++j) w[j] = sqrt_softplus(row.logits[row.ids[j]]);
  const float sum = ((w[0] + w[4]) + (w[2] + w[6])) + ((w[1] + w[5]) + (w[3] + w[7]));
  const float factor = router.scale / (sum > 0 ? sum : 1.0F);
  for (int64_t j = 0; j < router.top_k; ++j) row.weights[j] = w[j] * factor;
}

void dsv4_row(const Row& row, const TopkArgs& a) {
  const auto key_of = [&](int64_t e) {
    return static_cast<double>(sqrt_softplus(row.logits[e]) + row.bias[e]);
  };
  choose(a.experts, a.router.top_k, key_of, row.ids);
  dsv4_weights(row, a.router);
}

void hash_row(const Row& row, const TopkArgs& a, int64_t token_id) {
  std::copy_n(a.table + token_id * a.router.top_k, a.router.top_k, row.ids);
  dsv4_weights(row, a.router);
}

// ---- the other routers, section 11: double inside, each weight rounded once

double sigmoid(double logit) { return 1.0 / (1.0 + std::exp(-logit)); }

// Which groups stay: the best by the sum of their two best keys, the lowest group first among equals.
template <class KeyOf>
void keep_groups(const TopkArgs& a, const KeyOf& key_of, bool (&kept)[kMaxGroups]) {
  const int64_t size = a.experts / a.router.groups;
  double rank[kMaxGroups];
  for (int64_t g = 0; g < a.router.groups; ++g) {
    double best = kNegativeInfinity;
    double second = kNegativeInfinity;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      const double key = ranked(key_of(e));
      second = std::max(second, std::min(best, key));
      best = std::max(best, key);
    }
    rank[g] = ranked(size > 1 ? best + second : best);
  }
  for (int64_t g = 0; g < a.router.groups; ++g) {
    int64_t better = 0;
    for (int64_t o = 0; o < a.router.groups; ++o)
      better += rank[o] > rank[g] || (rank[o] == rank[g] && o < g) ? 1 : 0;
    kept[g] = better < a.router.groups_kept;
  }
}

void deepseek_v3_row(const Row& row, const TopkArgs& a) {
  const RouterSpec& r = a.router;
  const auto score_of = [&](int64_t e) { return sigmoid(static_cast<double>(row.logits[e])); };
  const auto key_of = [&](int64_t e) { return score_of(e) + static_cast<double>(row.bias[e]); };
  bool kept[kMaxGroups] = {};
  keep_groups(a, key_of, kept);
  const int64_t size = a.experts / r.groups;
  choose(
      a.experts, r.top_k, [&](int64_t e) { return kept[e / size] ? key_of(e) : kNegativeInfinity; },
      row.ids);
  double sum = 0;
  for (int64_t j = 0; j < r.top_k; ++j) sum += score_of(row.ids[j]);
  for (int64_t j = 0; j < r.top_k; ++j) {
    row.weights[j] =
        static_cast<float>(score_of(row.ids[j]) / (sum + kLeastSum) * static_cast<double>(r.scale));
  }
}

void softmax_row(const Row& row, const TopkArgs& a) {
  const auto logit = [&](int64_t e) { return static_cast<double>(row.logits[e]); };
  choose(a.experts, a.router.top_k, logit, row.ids);
  const auto power = [&](int64_t j) { return std::exp(logit(row.ids[j]) - logit(row.ids[0])); };
  double sum = 0;
  for (int64_t j = 0; j < a.router.top_k; ++j) sum += power(j);
  for (int64_t j = 0; j < a.router.top_k; ++j)
    row.weights[j] = static_cast<float>(power(j) / sum * static_cast<double>(a.router.scale));
}

// The scale multiplies the weight that BF16 has rounded; it is 1 in the model.
void flint_row(const Row& row, const TopkArgs& a) {
  const auto logit = [&](int64_t e) {
    return static_cast<double>(formats::bf16_to_f32(formats::bf16_from_f32(row.logits[e])));
  };
  choose(a.experts, a.router.top_k, logit, row.ids);
  double sum = 0;
  for (int64_t j = 0; j < a.router.top_k; ++j) sum += sigmoid(logit(row.ids[j]));
  for (int64_t j = 0; j < a.router.top_k; ++j) {
    const Bf16 share = formats::bf16_from_f64(sigmoid(logit(row.ids[j])) / (sum + kLeastSum));
    row.weights[j] = formats::bf16_to_f32(share) * a.router.scale;
  }
}

}  // namespace

void topk(const TopkArgs& a, int64_t first_token, int64_t num_tokens) {
  for (int64_t t = first_token; t < first_token + num_tokens; ++t) {
    const bool image = is_image(a, t);
    const Row row{a.logits + t * a.experts, image ? a.bias_vl : a.bias,
                  a.topk_ids + t * a.router.top_k, a.topk_weights + t * a.router.top_k};
    switch (a.router.kind) {
      case RouterKind::kDsv4:
        dsv4_row(row, a);
        break;
      case RouterKind::kHash:
        if (image) {
          dsv4_row(row, a);
        } else {
          hash_row(row, a, a.input_ids[t]);
        }
        break;
      case RouterKind::kDeepseekV3:
        deepseek_v3_row(row, a);
        break;
      case RouterKind::kSoftmax:
        softmax_row(row, a);
        break;
      case RouterKind::kFlint:
        flint_row(row, a);
        break;
    }
  }
}

}  // namespace octet::routing
