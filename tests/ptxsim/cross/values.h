// SPDX-License-Identifier: Apache-2.0
// What instructions are given: numbers at the formats' edges in every pair, all codes where there are few, else numbers that meet.
//
//   letter  bits  what
//   F       32    f32: all exponents, ties and their neighbours for narrower formats; second and third operands near the others
//   D       64    f64, likewise
//   H B     16    f16, bf16: every code where there is one operand
//   P Q     32    pairs of f16, of bf16
//   z       16    pairs of 8-bit codes: all
//   h I L   16 32 64   integers: few bits set, edges, random
//   j J M   16 32 64   the same, never 0
//   n m     32    a count: mostly below 70; m: never beyond 255
#pragma once

#include <cstdint>

#include "case.h"

namespace octet::cross {

int letter_bits(char letter);

// Bits that depend on both numbers alone.
uint64_t hash(uint64_t a, uint64_t b = 0);

// Operand `position` of `operands` for item `item`, whose first operand is `first`'s format.
uint64_t value_of(char letter, int operands, int position, uint64_t item);

// `count` values of the letter one after the other.
Bytes values_of(char letter, int operands, int position, uint64_t count);

Bytes random_bytes(size_t count, uint64_t seed);

}  // namespace octet::cross
