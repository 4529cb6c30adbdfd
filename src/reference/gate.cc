// SPDX-License-Identifier: Apache-2.0
// The gate in float64. semantics.md section 11.
#include <cmath>
#include <limits>

#include "formats/bf16.h"
#include "reference/product.h"
#include "reference/routing.h"

namespace octet::reference {
namespace {

constexpr double kGreatestF32 = std::numeric_limits<float>::max();
constexpr double kLeastF32 = std::numeric_limits<float>::denorm_min();

double number_at(const TensorView& t, int64_t i) {
  return t.dtype == Dtype::kBf16 ? formats::bf16_to_f32(t.as<Bf16>()[i]) : t.as<float>()[i];
}

Span logit(const GateArgs& a, int64_t t, int64_t e) {
  double sum = 0;
  double mass = 0;
  for (int64_t i = 0; i < a.hidden; ++i) {
    const double p = static_cast<double>(formats::bf16_to_f32(a.x[t * a.hidden + i])) *
                     number_at(a.weight, e * a.hidden + i);
    sum += p;
    mass += std::fabs(p);
  }
  // A product of two BF16 numbers is exact in binary32, one with an F32 weight is rounded first.
  const double roundings =
      sum_error(a.hidden) + (a.weight.dtype == Dtype::kBf16 ? 0 : kUnitRoundoff);
  const double eps = roundings * mass + static_cast<double>(a.hidden) * kLeastF32;
  Span s = exact_if_odd({sum, sum - eps, sum + eps});
  // Whether binary32 overflows on the way depends on the order of the sum.
  if (std::isfinite(mass) && mass > kGreatestF32) s.lo = s.hi = std::nan("");
  if (a.logit_bias.data != nullptr) s = shifted(s, number_at(a.logit_bias, e));
  return a.round_to_bf16 ? bf16_round(s) : s;
}

}  // namespace

std::vector<Span> gate_logits(const GateArgs& args) {
  std::vector<Span> logits;
  for (int64_t t = 0; t < args.tokens; ++t) {
    for (int64_t e = 0; e < args.experts; ++e) logits.push_back(logit(args, t, e));
  }
  return logits;
}

}  // namespace octet::reference
