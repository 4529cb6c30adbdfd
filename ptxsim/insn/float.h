// SPDX-License-Identifier: Apache-2.0
// The forms on floats of opcodes that integers have, too.
#pragma once

#include "ptxsim/insn/binder.h"

namespace octet::ptxsim::insn {

// One of .f16 .f16x2 .bf16 .bf16x2 .f32 .f32x2 .f64 is among the modifiers.
bool is_float_form(const Binder& b);

Status bind_float_add(Binder& b);
Status bind_float_sub(Binder& b);
Status bind_float_mul(Binder& b);
Status bind_float_div(Binder& b);
Status bind_float_abs(Binder& b);
Status bind_float_neg(Binder& b);
Status bind_float_min(Binder& b);
Status bind_float_max(Binder& b);

// packed.cc: .f16 .bf16 and pairs of them.
enum class Half { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs };
bool is_half_form(const Binder& b);
Status bind_half(Binder& b, Half op);

}  // namespace octet::ptxsim::insn
