// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-512, VNNI and VBMI: vpermb looks up by six bits of a byte, so that a table that
// stands four times takes nibbles with whatever lies above them, and nothing is masked.
#include "cpu/avx512_lanes.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {
namespace {

struct Avx512Vbmi : avx512::VnniLanes {
  static OCTET_INLINE Weights decode(const uint8_t* line) {
    const Ints v = _mm512_loadu_si512(line);
    return {_mm512_permutexvar_epi8(v, table()),
            _mm512_permutexvar_epi8(_mm512_srli_epi16(v, 4), table())};
  }
};

}  // namespace

extern constinit const IntegerDots kDigitDotsAvx512Vbmi = digits::digit_dots<Avx512Vbmi>();

}  // namespace octet::cpu
