// SPDX-License-Identifier: Apache-2.0
// A result against its intervals.
#include <cmath>
#include <limits>

#include "formats/bf16.h"
#include "reference/layer.h"

namespace octet::reference {
namespace {

// The error as a share of the bound on its side: at most 1 inside, above 1 outside. The bound counts as at least half of
// the smaller BF16 step beside the value, so that one step off a bound of 0 is no infinite share.
double share_of(double got, const Span& s) {
  const double off = std::fabs(got - s.value);
  const double bound = got > s.value ? s.hi - s.value : s.value - s.lo;
  const double share = off / std::fmax(bound, 0.5 * bf16_half_ulp(s.value));
  if (is_inside(got, s)) return share <= 1 ? share : 0;  // not a number where nothing is known
  return share > 1 ? share : std::numeric_limits<double>::infinity();
}

}  // namespace

Worst compare(const std::vector<Span>& want, const Bf16* got, int64_t tokens, int64_t hidden) {
  Worst worst;
  for (int64_t i = 0; i < tokens * hidden; ++i) {
    const double g = formats::bf16_to_f32(got[i]);
    const Span s = closed(want[i]);
    const double share = share_of(g, s);
    if (!is_inside(g, s)) ++worst.num_outside;
    if (i == 0 || share > worst.share) {
      worst.share = share;
      worst.token = i / hidden;
      worst.column = i % hidden;
      worst.got = g;
      worst.want = s;
    }
  }
  return worst;
}

}  // namespace octet::reference
