// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V4 and V4.1 with FP4 experts: MXFP4, w1 gate, w3 up, w2 down. docs/checkpoints.md section 1, semantics.md section 4.
//
//   layers.L.ffn.experts.E.w{1,2,3}.weight I8 [N, K/2], .scale F8_E8M0 [N, K/32]
//   layers.L.ffn.gate.weight BF16 or F32 [E, H]   .bias F32 [E]   .bias_vl F32 [E], if the vision tower has layers
//   layers.L.ffn.gate.tid2eid (or tie2eid) I32 [vocab, k] instead of bias in the first num_hash_layers layers
//   mtp.M....                                                        the same, for multi-token prediction
//
// Layer mtp.M has the index num_hidden_layers + M (where the configuration does not say, after the last layer there is),
// the bias of any other layer, and bias_vl if it is there. One without a gate is none of ours.
// V4.1 nests its text keys under text_config. Refused by name: other scorings, weights that are not renormalised, FP8 experts.
#pragma once

#include <memory>

#include "checkpoint/format.h"

namespace octet::checkpoint {

Result<std::unique_ptr<const Format>> deepseek_format(const Config& config);

}  // namespace octet::checkpoint
