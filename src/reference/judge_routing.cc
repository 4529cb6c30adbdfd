// SPDX-License-Identifier: Apache-2.0
// Ids and weights against the intervals of keys and scores: semantics.md sections 4, 11 and 12.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/reference.h"
#include "reference/routing.h"

namespace octet::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastNormal = 0x1p-126;  // below it weights may be flushed
constexpr double kNanRank = -1e30F;
// exp, log, sqrt and division of any backend: relative, section 4. exp has |x| 2^-23 more for its argument.
constexpr double kStep = 0x1p-22;

// ---- scores

Span widened(const Span& s, double relative) {
  return exact_if_odd(
      {s.value, s.lo - std::fabs(s.lo) * relative, s.hi + std::fabs(s.hi) * relative});
}

Span exp_of(double x) {
  const double e = std::exp(x);
  return widened({e, e, e}, std::isfinite(x) ? std::fabs(x) * 0x1p-23 + kStep : 0);
}

// sqrt(log(1 + exp(l))), where binary32 rounds the sum: below about -16.64 the score is 0.
Span dsv4_score(double logit) {
  if (logit > 20)
    return widened(map(Span{logit, logit, logit}, [](double v) { return std::sqrt(v); }), kStep);
  const Span sum =
      map(exp_of(logit), [](double e) { return static_cast<double>(static_cast<float>(1 + e)); });
  const Span log = widened(map(sum, [](double v) { return std::log(v); }), kStep);
  return widened(map(log, [](double v) { return std::sqrt(std::max(v, 0.0)); }), kStep);
}

Span sigmoid(double logit) {
  const Span e = exp_of(-logit);
  return widened({1 / (1 + e.value), 1 / (1 + e.hi), 1 / (1 + e.lo)}, 2 * kStep);
}

bool is_dsv4(const RouterSpec& router) {
  return router.kind == RouterKind::kDsv4 || router.kind == RouterKind::kHash;
}

// What the weight of an expert is made from; for softmax its power, counted from the row's first choice.
Span score(const RouterSpec& router, double logit, double first) {
  if (is_dsv4(router)) return dsv4_score(logit);
  if (router.kind == RouterKind::kSoftmax) return exp_of(logit - first);
  if (router.kind == RouterKind::kFlint) return sigmoid(bf16_round(logit));
  return sigmoid(logit);
}

// ---- the choice

struct Key {
  Span rank;
  double logit, bias;  // equal ones make equal keys
};

struct Row {
  const TopkArgs& args;
  int64_t token;
  double logit(int64_t e) const { return args.logits[token * args.experts + e]; }
  int32_t id(int64_t j) const { return args.topk_ids[token * args.router.top_k + j]; }
  float weight(int64_t j) const { return args.topk_weights[token * args.router.top_k + j]; }
  bool is_image() const {
    const int64_t lo = args.router.image_sentinel_lo;
    if (args.bias_vl == nullptr || lo <= 0) return false;
    return args.input_ids[token] >= lo && args.input_ids[token] - lo < 5;
  }
};

Key key_of(const Row& row, int64_t e) {
  const RouterSpec& router = row.args.router;
  const bool has_bias = is_dsv4(router) || router.kind == RouterKind::kDeepseekV3;
  const double logit = row.logit(e);
  Key key{{logit, logit, logit}, logit, 0};
  if (has_bias) {
    key.bias = row.is_image() ? row.args.bias_vl[e] : row.args.bias[e];
    key.rank = shifted(score(router, logit, 0), key.bias);
  } else if (router.kind == RouterKind::kFlint) {
    key.logit = bf16_round(logit);
    key.rank = {key.logit, key.logit, key.logit};
  }
  if (std::isnan(key.rank.value)) key.rank = {kNanRank, kNanRank, kNanRank};
  return key;
}

// Whether a ranks before b in every right answer; equal keys go by index.
bool surely_before(const std::vector<Key>& keys, int64_t a, int64_t b) {
  const Key& x = keys[a];
  const Key& y = keys[b];
  if (x.rank.lo > y.rank.hi) return true;
  if (a > b) return false;
  return x.rank.lo == y.rank.hi || (x.logit == y.logit && x.bias == y.bias);
}

// The sum of the two best of a group's keys, as an interval.
Span group_rank(const std::vector<Key>& keys, int64_t first, int64_t size) {
  const auto best_two = [&](double Span::*end) {
    double best = -kInfinity;
    double second = -kInfinity;
    for (int64_t e = first; e < first + size; ++e) {
      second = std::max(second, std::min(best, keys[e].rank.*end));
      best = std::max(best, keys[e].rank.*end);
    }
    return size > 1 ? best + second : best;
  };
  const Span rank = {best_two(&Span::value), best_two(&Span::lo), best_two(&Span::hi)};
  return std::isnan(rank.value) ? Span{kNanRank, kNanRank, kNanRank} : exact_if_odd(rank);
}

// Groups that stay in some right answer, and those that do in every one.
struct Groups {
  int64_t size;
  std::vector<bool> may_stay, must_stay;

  Groups(const Row& row, const std::vector<Key>& keys) {
    const bool grouped = row.args.router.kind == RouterKind::kDeepseekV3;
    const int64_t n = grouped ? row.args.router.groups : 1;
    const int64_t kept = grouped ? row.args.router.groups_kept : 1;
    size = row.args.experts / n;
    std::vector<Key> ranks;
    for (int64_t g = 0; g < n; ++g)
      ranks.push_back({group_rank(keys, g * size, size), kInfinity, static_cast<double>(g)});
    for (int64_t g = 0; g < n; ++g) {
      int64_t surely_better = 0;
      int64_t surely_worse = 0;
      for (int64_t o = 0; o < n; ++o) {
        surely_better += o != g && surely_before(ranks, o, g) ? 1 : 0;
        surely_worse += o != g && surely_before(ranks, g, o) ? 1 : 0;
      }
      may_stay.push_back(surely_better < kept);
      must_stay.push_back(n - 1 - surely_worse < kept);
    }
  }
};

// The slot of the first id that no right answer has there, or -1.
int64_t wrong_choice(const Row& row) {
  const int64_t k = row.args.router.top_k;
  std::vector<Key> keys;
  for (int64_t e = 0; e < row.args.experts; ++e) keys.push_back(key_of(row, e));
  const Groups groups(row, keys);
  std::vector<bool> taken(keys.size());
  for (int64_t j = 0; j < k; ++j) {
    const int64_t id = row.id(j);
    if (id < 0 || id >= row.args.experts || taken[id] || !groups.may_stay[id / groups.size])
      return j;
    taken[id] = true;
    for (int64_t e = 0; e < row.args.experts; ++e) {
      const bool competes = !taken[e] && groups.must_stay[e / groups.size];
      if (competes && surely_before(keys, e, id)) return j;
    }
  }
  return -1;
}

int64_t wrong_table_choice(const Row& row) {
  const int64_t k = row.args.router.top_k;
  const int32_t* want = row.args.table + row.args.input_ids[row.token] * k;
  for (int64_t j = 0; j < k; ++j) {
    if (row.id(j) != want[j]) return j;
  }
  return -1;
}

// ---- the weights

// The weights of the row's ids: a sum, a division, a factor.
std::vector<Span> weights_of(const Row& row) {
  const RouterSpec& router = row.args.router;
  std::vector<Span> raw;
  Span sum{};
  for (int64_t j = 0; j < router.top_k; ++j) {
    raw.push_back(score(router, row.logit(row.id(j)), row.logit(row.id(0))));
    sum = {sum.value + raw.back().value, sum.lo + raw.back().lo, sum.hi + raw.back().hi};
  }
  const bool by_sum = !is_dsv4(router) || sum.value > 0;  // else the divisor is 1
  const bool in_doubt = !by_sum && sum.hi > 0;
  const double least_sum = is_dsv4(router) || router.kind == RouterKind::kSoftmax ? 0 : 1e-20;
  const double rounding = static_cast<double>(router.top_k + 3) * kUnitRoundoff + kStep;
  for (Span& w : raw) {
    if (by_sum) {
      w = {w.value / (sum.value + least_sum), w.lo / (sum.hi + least_sum),
           w.hi / (sum.lo + least_sum)};
    }
    w = widened(w, rounding);
    if (router.kind == RouterKind::kFlint) w = bf16_round(w);
    w = scaled(w, router.scale);
    w = exact_if_odd({w.value, w.lo - kLeastNormal, w.hi + kLeastNormal});
    if (in_doubt) w.lo = w.hi = std::nan("");
  }
  return raw;
}

void judge_weights(const Row& row, RoutingVerdict& verdict) {
  const std::vector<Span> want = weights_of(row);
  for (int64_t j = 0; j < row.args.router.top_k; ++j) {
    const double got = row.weight(j);
    if (is_inside(got, closed(want[j]))) continue;
    if (verdict.num_weights_outside++ == 0) verdict.weight = {row.token, j, got, want[j]};
  }
}

// ---- all of it

// What the reference's router makes of its own logits, or of those given.
std::vector<int32_t> own_ids(const std::vector<Span>& logits, TopkArgs topk) {
  std::vector<float> values;
  for (const Span& s : logits) values.push_back(static_cast<float>(s.value));
  std::vector<int32_t> ids(topk.tokens * topk.router.top_k);
  std::vector<float> weights(ids.size());
  if (!values.empty()) topk.logits = values.data();
  topk.topk_ids = ids.data();
  topk.topk_weights = weights.data();
  reference::topk(topk);
  return ids;
}

void judge_logits(const std::vector<Span>& want, const TopkArgs& topk, RoutingVerdict& verdict) {
  for (size_t i = 0; i < want.size(); ++i) {
    const double got = topk.logits[i];
    const Span s = closed(want[i]);
    const double bound = got > s.value ? s.hi - s.value : s.value - s.lo;
    if (got != s.value && bound > 0) {
      verdict.worst_logit = std::fmax(verdict.worst_logit, std::fabs(got - s.value) / bound);
    }
    if (is_inside(got, s)) continue;
    const auto at = static_cast<int64_t>(i);
    if (verdict.num_logits_outside++ == 0) {
      verdict.logit = {at / topk.experts, at % topk.experts, got, s};
    }
  }
  verdict.num_logits = static_cast<int64_t>(want.size());
}

}  // namespace

RoutingVerdict judge_routing(const GateArgs& gate, const TopkArgs& topk) {
  RoutingVerdict verdict;
  std::vector<Span> logits;
  if (gate.weight.data != nullptr) logits = gate_logits(gate);
  judge_logits(logits, topk, verdict);
  const std::vector<int32_t> own = own_ids(logits, topk);
  const int64_t k = topk.router.top_k;
  for (int64_t t = 0; t < topk.tokens; ++t) {
    const Row row{topk, t};
    const bool by_table = topk.router.kind == RouterKind::kHash && !row.is_image();
    const int64_t wrong = by_table ? wrong_table_choice(row) : wrong_choice(row);
    verdict.num_slots += k;
    if (wrong >= 0) {
      const double want = own[t * k + wrong];
      const auto got = static_cast<double>(row.id(wrong));
      if (verdict.num_ids_wrong++ == 0) verdict.id = {t, wrong, got, {want, want, want}};
      continue;  // the weights are those of other experts
    }
    for (int64_t j = 0; j < k; ++j) verdict.num_ties += row.id(j) != own[t * k + j] ? 1 : 0;
    judge_weights(row, verdict);
  }
  return verdict;
}

}  // namespace octet::reference
