// SPDX-License-Identifier: Apache-2.0
#include "reference/swiglu.h"

#include <gtest/gtest.h>

namespace octet::reference {
namespace {

Span around(double v) { return {v, v - 1e-6 * std::fabs(v), v + 1e-6 * std::fabs(v)}; }

TEST(SwigluSpan, HoldsZeroWhereAStepMayFlush) {
  const Swiglu plain;
  // h = 1.5 * silu(2) far from 0; then a subnormal up, gate, silu and product.
  EXPECT_GT(swiglu(around(1.5), around(2), plain).lo, 2.6);
  for (const auto& [up, gate] :
       {std::pair{-1e-39, 4.0}, {3.0, 1e-39}, {1.0, 0x1.8p-126}, {-1e-20, 1e-20}}) {
    const Span h = swiglu(around(up), around(gate), plain);
    EXPECT_TRUE(is_inside(0.0, h)) << up << " " << gate;
    EXPECT_TRUE(is_inside(h.value, h)) << up << " " << gate;
  }
  EXPECT_FALSE(is_inside(0.0, swiglu(around(1e-18), around(1e-18), plain)));
}

}  // namespace
}  // namespace octet::reference
