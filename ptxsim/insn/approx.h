// SPDX-License-Identifier: Apache-2.0
// The functions that PTX gives as approximations: f32 bits to f32 bits.
//
// PTX bounds their errors (9.7.3.18 rcp, 9.7.3.20 sqrt, 9.7.3.22 rsqrt, ex2, lg2, tanh); what a device gives inside of the bound is its
// own. Each is here the correctly rounded result, changed where a table of a device's results is loaded: use_approx_tables.
#pragma once

#include <cstdint>
#include <string>

#include "octet/status.hpp"

namespace octet::ptxsim::insn {

uint32_t ex2_approx(uint32_t a);      // keeps subnormals: ex2.ftz(a / 2) squared below 2^-126
uint32_t ex2_approx_ftz(uint32_t a);  // flushes its argument and its result
uint32_t rcp_approx(uint32_t a);
uint32_t sqrt_approx(uint32_t a);
uint32_t rsqrt_approx(uint32_t a);
uint32_t lg2_approx(uint32_t a);
uint32_t tanh_approx(uint32_t a);

// div.approx and, with kIsFull, div.full: a * rcp.approx.ftz(c). Without .ftz both are multiplied by 2^24 first where c is subnormal, and by
// 1/4 for .full where c is beyond 2^126; .approx has 0 there (PTX ISA 9.7.3.8).
template <bool kFtz, bool kIsFull>
uint32_t div_approx(uint32_t a, uint32_t c);

// Tables of int8: what a device's result is away from the rounded one, in units of its last place, for every mantissa of
// [1, 2) (ex2 of the fraction, rcp) or of [1, 4) (sqrt). Files ex2.i8, rcp.i8, sqrt.i8 in this folder: 8 MiB, 8 MiB, 16 MiB.
Status use_approx_tables(const std::string& folder);

}  // namespace octet::ptxsim::insn
