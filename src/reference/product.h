// SPDX-License-Identifier: Apache-2.0
// The product of an activation row with a weight row in float64, and the interval of what a binary32 kernel may find.
// semantics.md sections 9 and 12.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/span.h"

namespace octet::reference {

// Errors of the elements of a row: each at most `most`, its mean square `square`. Through a product with w they come to
// min(sum of most |w|, 8 sqrt(sum of square w^2)): eight standard deviations, where they have nothing to do with w.
struct Room {
  std::vector<double> most, square;
};

struct Activation {
  std::vector<double> value;
  // BF16 activations may be held as block fixed point; a room for each place where blocks may begin, of which the larger
  // counts. Empty: the kernels read the exact values (MXFP8).
  std::vector<Room> fixed_point;
  Room spread;  // the values are known to within this; empty: exact
};

// What adds the products up: binary32, or Hopper's FP8 unit, which keeps 13 fraction bits in a sum of 32 (semantics.md section 12).
enum class Sums : uint8_t { kBinary32, kFp8Unit };

// Largest error of a binary32 sum of k exact products as a multiple of the sum of their magnitudes: k + 1 roundings for
// certain; for long sums 8 sqrt(k), and k / 8 for units that add 16 products at a time and truncate.
double sum_error(int64_t k);

// Rounding to the block's unit, at most half of it: 2^(e - 14) with 2^e <= amax < 2^(e + 1), twice that if amax is above
// 32639 such units. The row's first element is number `start` of its block.
Room fixed_point_room(const std::vector<double>& row, int64_t block, int64_t start);

// Blocks of BF16 activations count from the scale block or from the row's own first element.
void hold_as_fixed_point(Activation& a, int64_t block, int64_t start);

// Values that are intervals.
Activation activation_of(const std::vector<Span>& row);

// w has a.value.size() elements; blocks of 32 count from the first.
Span product(const Activation& a, const double* w, Sums sums = Sums::kBinary32);

}  // namespace octet::reference
