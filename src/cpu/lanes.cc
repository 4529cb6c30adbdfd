// SPDX-License-Identifier: Apache-2.0
#define OCTET_LANES kLanesPortable
#include "cpu/lanes.inc"
