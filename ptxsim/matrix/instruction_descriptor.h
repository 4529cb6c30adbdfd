// SPDX-License-Identifier: Apache-2.0
// The 32-bit instruction descriptor of tcgen05.mma: shapes, formats and, with block scales, which byte of a word of them.
//
//   bits    kind::f16 (table 42)                      kind::mxf8f6f4 (table 43)
//   0-3     0 (dense)                                 0 (dense)
//   4-5     format of d: 1 f32                        id of b's scales: byte of the word
//   6       0                                         0
//   7-9     format of a: 0 f16, 1 bf16                0 e4m3, 1 e5m2, 3 e2m3, 4 e3m2, 5 e2m1
//   10-12   format of b                               format of b
//   13 14   a, b negated                              a, b negated
//   15 16   a, b transposed (MN-major)                a, b transposed
//   17-22   n >> 3                                    n >> 3
//   23      0                                         1: scales are ue8m0
//   24-28   m >> 4                                    24-26: 0; 27-28: m >> 7
//   29      0                                         29-30: id of a's scales
//   30-31   0 (no .ws)                                31: 0
//
// Refused as unsupported: sparsity, d in f16, every other kind. An error: a bit that must be 0, a format, m or n that table 39 lacks
// (cta_group::1: f16 64 or 128, mxf8f6f4 128; n a multiple of 8 in 8 ... 256; 16 for a transposed b of 8 bits), a transposed matrix of
// fewer than 8 bits (table 54).
// Source: PTX ISA 9.7.16.4.2, 9.7.16.2.1, 9.7.16.10.1, 9.7.16.10.3.
#pragma once

#include "octet/status.hpp"
#include "ptxsim/matrix/format.h"
#include "ptxsim/matrix/shared_layout.h"

namespace octet::ptxsim::matrix {

enum class MmaKind { kF16, kMxf8f6f4 };

struct InstructionDescriptor {
  MmaKind kind = MmaKind::kF16;
  Format a_format = Format::kF16, b_format = Format::kF16;
  bool a_is_negated = false, b_is_negated = false;
  Major a_major = Major::kK, b_major = Major::kK;
  int m = 0, n = 0, k = 0;
  int a_scale_id = 0, b_scale_id = 0;  // mxf8f6f4
};

Result<InstructionDescriptor> decode_instruction_descriptor(MmaKind kind, uint32_t descriptor);

}  // namespace octet::ptxsim::matrix
