// SPDX-License-Identifier: Apache-2.0
// ModelOpt NVFP4: each matrix with E4M3 block scales and an fp32 factor, which gate and up need not share. docs/checkpoints.md section 3.
//
//   model.layers.L.mlp.experts.E.{gate,up,down}_proj.weight U8 [N, K/2], .weight_scale F8_E4M3 [N, K/16], .weight_scale_2 F32
//   model.layers.L.mlp.gate.weight BF16 or F32 [E, H], .e_score_correction_bias F32 [E] (sigmoid routers with a bias)
//
// quant_algo NVFP4, W4A16_NVFP4 or MIXED_PRECISION (of which the layers whose experts are NVFP4), in config.json's
// quantization_config or in hf_quant_config.json; groups of 16. Models: the table in modelopt.cc; others are refused by name.
#pragma once

#include <memory>

#include "checkpoint/format.h"

namespace octet::checkpoint {

Result<std::unique_ptr<const Format>> modelopt_format(const Config& config,
                                                      const Config& quant_config);

}  // namespace octet::checkpoint
