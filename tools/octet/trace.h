// SPDX-License-Identifier: Apache-2.0
// A layer's intermediates under the names, shapes and row orders of the operations, for `run --trace`.
//
//   logits, x_quant, x_scale                     as the layer has them; no logits when ids were given
//   permuted, record                             routing/record.h, of this rank's experts
//   h_values, h_scales  mxfp8                    semantics.md section 7: rows of the record, columns padded to 128
//   h                   bf16 [T k, I]            no operation has it: row t k + j is slot (t, j)
//   gemm2_rows          bf16 [T k 8, H]          rows of the record
//
// The record takes at most 512 experts and 8 a row; beyond that the tensors in its order are left out.
#pragma once

#include <string>

#include "core/shape.h"
#include "core/tensor.h"
#include "layer_session.h"

namespace octet::tools {

// Moves and rearranges what `run` filled into `tensors`. Returns why tensors were left out, or nothing.
std::string add_trace(const LayerSpec& spec, LayerOutput& output, NamedTensors& tensors);

}  // namespace octet::tools
