// SPDX-License-Identifier: Apache-2.0
// Every operation, slow and plain: float64 or exact integers, loops that read like semantics.md. The truth that every
// kernel is compared with. Shares nothing with the fast paths but formats/: index formulas, tables and routers are
// written again here, from the specification. (layer.h says with layouts/expert_weights.h where an expert's bytes lie; the
// loops that read them are its own.)
#pragma once

#include "core/op_args.h"
#include "core/tensor.h"
#include "octet/status.hpp"

namespace octet::reference {

void mxfp8_quantize(const QuantizeArgs& args);
void topk(const TopkArgs& args);
void route(const RouteArgs& args);
void front(const FrontArgs& args);
void gemm1(const Gemm1Args& args);
void gemm2(const Gemm2Args& args);
void finalize(const FinalizeArgs& args);
void prepare(const PrepareArgs& args);
void unprepare(const UnprepareArgs& args);
// Null data: missing.
struct CheckWeightsArgs {
  TensorView w13, w13_scale, w2, w2_scale, clamp;
  int64_t top_k = 0, intermediate = 0;
};
Status check_weights(const CheckWeightsArgs& args);  // the reason names tensor or setting
void moe_sort(const SortArgs& args);
void moe_permute(const PermuteArgs& args);
void grouped_moe(const GroupedMoeArgs& args);
void dequantize(const DequantizeArgs& args);
void quantize_weight(const QuantizeWeightArgs& args);

}  // namespace octet::reference
