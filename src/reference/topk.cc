// SPDX-License-Identifier: Apache-2.0
// topk: ids and weights from logits, every router. semantics.md sections 4 and 11.
//
// dsv4 and hash round each step to binary32, as the specification does; the others are float64 with one rounding of the
// weight at the end.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "formats/bf16.h"
#include "reference/reference.h"

namespace octet::reference {
namespace {

struct Choice {
  std::vector<int64_t> ids;
  std::vector<float> weights;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNanRank = -1e30F;

float to_f32(double v) { return static_cast<float>(v); }

double rank(double key) { return std::isnan(key) ? kNanRank : key; }

// The k largest keys in falling order, the lowest index among equals, no index twice.
std::vector<int64_t> select(const std::vector<double>& keys, int64_t k) {
  std::vector<int64_t> ids;
  std::vector<bool> taken(keys.size(), false);
  while (static_cast<int64_t>(ids.size()) < k) {
    int64_t best = -1;
    for (size_t e = 0; e < keys.size(); ++e) {
      if (!taken[e] && (best < 0 || keys[e] > keys[best])) best = static_cast<int64_t>(e);
    }
    taken[best] = true;
    ids.push_back(best);
  }
  return ids;
}

// ---- dsv4 and hash: section 4

// The log of a rounded sum, not log1p: below about -16.64 it is exactly 0.
float dsv4_score(float logit) {
  constexpr float kLog2e = 1.44269504F;
  if (logit > 20) return std::sqrt(logit);
  const float exp = to_f32(std::exp2(static_cast<double>(logit * kLog2e)));
  return std::sqrt(to_f32(std::log(static_cast<double>(1.0F + exp))));
}

std::vector<float> dsv4_weights(const std::vector<float>& raw, float scale) {
  std::array<float, 8> w{};
  for (size_t j = 0; j < raw.size(); ++j) w[j] = raw[j];
  const float sum = ((w[0] + w[4]) + (w[2] + w[6])) + ((w[1] + w[5]) + (w[3] + w[7]));
  const float factor = scale / (sum > 0 ? sum : 1.0F);
  std::vector<float> out;
  for (const float r : raw) out.push_back(r * factor);
  return out;
}

bool is_image(const TopkArgs& args, int64_t t) {
  const int64_t lo = args.router.image_sentinel_lo;
  if (args.bias_vl == nullptr || lo <= 0) return false;
  const int64_t id = args.input_ids[t];
  return id >= lo && id - lo < 5;
}

Choice dsv4(const TopkArgs& args, const float* logits, int64_t t) {
  const float* bias = is_image(args, t) ? args.bias_vl : args.bias;  // replaced, not added
  std::vector<double> keys;
  for (int64_t e = 0; e < args.experts; ++e) keys.push_back(rank(dsv4_score(logits[e]) + bias[e]));
  Choice c{select(keys, args.router.top_k), {}};
  std::vector<float> raw;
  for (const int64_t id : c.ids) raw.push_back(dsv4_score(logits[id]));
  c.weights = dsv4_weights(raw, args.router.scale);
  return c;
}

Choice hash(const TopkArgs& args, const float* logits, int64_t t) {
  if (is_image(args, t)) return dsv4(args, logits, t);  // by bias_vl; the table has no row for it
  Choice c;
  std::vector<float> raw;
  for (int64_t j = 0; j < args.router.top_k; ++j) {
    c.ids.push_back(args.table[args.input_ids[t] * args.router.top_k + j]);
    raw.push_back(dsv4_score(logits[c.ids.back()]));
  }
  c.weights = dsv4_weights(raw, args.router.scale);
  return c;
}

// ---- the others: section 11

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// score_j / (sum of the chosen + 1e-20) * scale, in float64.
std::vector<double> renormalised(const std::vector<double>& chosen, double scale) {
  double sum = 1e-20;
  for (const double s : chosen) sum += s;
  std::vector<double> out;
  for (const double s : chosen) out.push_back(s / sum * scale);
  return out;
}

// Keys outside the best groups become -inf. A group's rank is the sum of its two best keys.
void keep_best_groups(std::vector<double>& keys, int64_t groups, int64_t kept) {
  const int64_t size = static_cast<int64_t>(keys.size()) / groups;
  std::vector<double> ranks;
  for (int64_t g = 0; g < groups; ++g) {
    const std::vector<double> group(keys.begin() + g * size, keys.begin() + (g + 1) * size);
    double sum = 0;
    for (const int64_t e : select(group, size < 2 ? size : 2)) sum += group[e];
    ranks.push_back(sum);
  }
  std::vector<bool> keep(groups, false);
  for (const int64_t g : select(ranks, kept)) keep[g] = true;
  for (size_t e = 0; e < keys.size(); ++e) {
    if (!keep[static_cast<int64_t>(e) / size]) keys[e] = -kInfinity;
  }
}

Choice deepseek_v3(const TopkArgs& args, const float* logits) {
  std::vector<double> keys;
  for (int64_t e = 0; e < args.experts; ++e)
    keys.push_back(rank(sigmoid(logits[e]) + args.bias[e]));
  keep_best_groups(keys, args.router.groups, args.router.groups_kept);
  Choice c{select(keys, args.router.top_k), {}};
  std::vector<double> chosen;
  for (const int64_t id : c.ids) chosen.push_back(sigmoid(logits[id]));
  for (const double w : renormalised(chosen, args.router.scale)) c.weights.push_back(to_f32(w));
  return c;
}

Choice softmax(const TopkArgs& args, const float* logits) {
  std::vector<double> keys;
  for (int64_t e = 0; e < args.experts; ++e) keys.push_back(rank(logits[e]));
  Choice c{select(keys, args.router.top_k), {}};
  std::vector<double> p;
  double sum = 0;
  for (const int64_t id : c.ids) {
    p.push_back(std::exp(static_cast<double>(logits[id]) - logits[c.ids[0]]));
    sum += p.back();
  }
  for (const double e : p) c.weights.push_back(to_f32(e / sum * args.router.scale));
  return c;
}

Choice flint(const TopkArgs& args, const float* logits) {
  std::vector<double> rounded;
  std::vector<double> keys;
  for (int64_t e = 0; e < args.experts; ++e) {
    rounded.push_back(formats::bf16_to_f32(formats::bf16_from_f32(logits[e])));
    keys.push_back(rank(rounded.back()));
  }
  Choice c{select(keys, args.router.top_k), {}};
  std::vector<double> chosen;
  for (const int64_t id : c.ids) chosen.push_back(sigmoid(rounded[id]));
  for (const double w : renormalised(chosen, 1)) {  // rounded to BF16, then scaled
    c.weights.push_back(formats::bf16_to_f32(formats::bf16_from_f64(w)) * args.router.scale);
  }
  return c;
}

Choice choose(const TopkArgs& args, int64_t t) {
  const float* logits = args.logits + t * args.experts;
  switch (args.router.kind) {
    case RouterKind::kDsv4:
      return dsv4(args, logits, t);
    case RouterKind::kHash:
      return hash(args, logits, t);
    case RouterKind::kDeepseekV3:
      return deepseek_v3(args, logits);
    case RouterKind::kSoftmax:
      return softmax(args, logits);
    case RouterKind::kFlint:
      return flint(args, logits);
  }
  return {};
}

}  // namespace

void topk(const TopkArgs& args) {
  for (int64_t t = 0; t < args.tokens; ++t) {
    const Choice c = choose(args, t);
    for (int64_t j = 0; j < args.router.top_k; ++j) {
      args.topk_ids[t * args.router.top_k + j] = static_cast<int32_t>(c.ids[j]);
      args.topk_weights[t * args.router.top_k + j] = c.weights[j];
    }
  }
}

}  // namespace octet::reference
