// SPDX-License-Identifier: Apache-2.0
// The sums of a block in int32, for a row and a vector (digit_dot.h): two ways that several instruction sets share. `Isa`
// gives add(), shifted<bits>() of int32 numbers and first(): what a sum begins with, the record's offset or 0.
#pragma once

#include <cstdint>

#include "cpu/unroll.h"

namespace octet::cpu::digits {

// Sets that multiply and add in int32 at once: a sum a plane, which meet at the end of the block. Isa::add_eights() adds the
// products of eight digits of `plane` and of those that lie beside them in the register.
template <class Isa, int kPlanes>
struct PlaneSums {
  using Ints = typename Isa::Ints;
  Ints planes[kPlanes];
  OCTET_INLINE void start(const uint8_t* offset) {
    planes[0] = Isa::first(offset);
    OCTET_UNROLL
    for (int plane = 1; plane < kPlanes; ++plane) planes[plane] = Isa::no_ints();
  }
  OCTET_INLINE void add(const typename Isa::Weights& w, const typename Isa::Digits& x, int plane,
                        int /*line*/) {
    Isa::add_eights(planes, w, x, plane);
  }
  OCTET_INLINE Ints total() const {
    Ints sum = Isa::add(planes[0], Isa::template shifted<8>(planes[1]));
    if constexpr (kPlanes == 3) sum = Isa::add(sum, Isa::template shifted<16>(planes[2]));
    return sum;
  }
};

// Sets that multiply bytes to pairs in int16: of two lines, at most 4 * 6144 = 24576, then widened. Isa::four() is a line's
// pairs of low and of high nibbles together, Isa::add_words() adds int16 numbers, Isa::widened() pairs of them times a factor.
template <class Isa, int kPlanes>
struct PairSums {
  using Ints = typename Isa::Ints;
  Ints sum, pairs[kPlanes];
  OCTET_INLINE void start(const uint8_t* offset) { sum = Isa::first(offset); }
  OCTET_INLINE void add(const typename Isa::Weights& w, const typename Isa::Digits& x, int plane,
                        int line) {
    const Ints four = Isa::four(w, x);
    pairs[plane] = line % 2 == 0 ? four : Isa::add_words(pairs[plane], four);
    if (line % 2 == 1 && plane == kPlanes - 1) widen();
  }
  OCTET_INLINE void widen() {
    Ints words = Isa::add(Isa::widened(pairs[0], 1), Isa::widened(pairs[1], 256));
    if constexpr (kPlanes == 3)
      words = Isa::add(words, Isa::template shifted<16>(Isa::widened(pairs[2], 1)));
    sum = Isa::add(sum, words);
  }
  OCTET_INLINE Ints total() const { return sum; }
};

}  // namespace octet::cpu::digits
