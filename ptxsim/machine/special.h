// SPDX-License-Identifier: Apache-2.0
// The special registers that are known, in their order of special.inc: those that don't change while a warp lives are in its register
// file from the start (Preset), the others are read by an instruction of their own.
// Source: PTX ISA 10.
#pragma once

namespace octet::ptxsim::machine {

enum class SpecialRegister {
#define OCTET_PTX_SPECIAL(text, name, bits) k##name,
#include "ptxsim/machine/special.inc"
#undef OCTET_PTX_SPECIAL
};

}  // namespace octet::ptxsim::machine
