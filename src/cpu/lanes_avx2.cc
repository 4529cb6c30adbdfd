// SPDX-License-Identifier: Apache-2.0
// Compiled with AVX2 and FMA.
#define OCTET_LANES kLanesAvx2
#include "cpu/lanes.inc"
