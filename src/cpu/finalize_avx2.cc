// SPDX-License-Identifier: Apache-2.0
// Compiled with AVX2 and FMA: the compiler makes eight columns an instruction of the loops.
#define OCTET_FINALIZE_COLUMNS finalize_columns_avx2
#include "cpu/finalize_columns.inc"
