// SPDX-License-Identifier: Apache-2.0
// The kernels on digits for x86-64 with AVX-512 and VNNI.
#include "cpu/avx512_lanes.h"
#include "cpu/digit_dot.h"

namespace octet::cpu {

extern constinit const IntegerDots kDigitDotsAvx512Vnni = digits::digit_dots<avx512::VnniLanes>();

}  // namespace octet::cpu
