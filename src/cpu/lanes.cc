// SPDX-License-Identifier: Apache-2.0
#include "cpu/lanes.h"

#include "cpu/activation.h"
#include "formats/bf16.h"

namespace octet::cpu {
namespace {

#include "cpu/lanes.inc"

}  // namespace

const LaneFns kLanesPortable{hidden, output};

}  // namespace octet::cpu
