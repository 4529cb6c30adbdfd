// SPDX-License-Identifier: Apache-2.0
// gpt-oss as published on the hub: MXFP4, all experts in one tensor, gate and up rows in turn (even gate), biases.
// docs/checkpoints.md section 2; activation and router: semantics.md sections 9 and 11.
//
//   model.layers.L.mlp.experts.gate_up_proj_blocks U8 [E, 2 I, H/32, 16], _scales U8 [E, 2 I, H/32], _bias BF16 [E, 2 I]
//   model.layers.L.mlp.experts.down_proj_blocks    U8 [E, H, I/32, 16],   _scales U8 [E, H, I/32],   _bias BF16 [E, H]
//   model.layers.L.mlp.router.weight BF16 [E, H], .bias BF16 [E]
#pragma once

#include <memory>

#include "checkpoint/format.h"

namespace octet::checkpoint {

Result<std::unique_ptr<const Format>> gpt_oss_format(const Config& config);

}  // namespace octet::checkpoint
