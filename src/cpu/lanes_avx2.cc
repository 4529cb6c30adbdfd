// SPDX-License-Identifier: Apache-2.0
// Compiled with AVX2 and FMA.
#include "cpu/activation.h"
#include "cpu/lanes.h"
#include "formats/bf16.h"

namespace octet::cpu {
namespace {

#include "cpu/lanes.inc"

}  // namespace

const LaneFns kLanesAvx2{hidden, output};

}  // namespace octet::cpu
