// SPDX-License-Identifier: Apache-2.0
// The operations on the CPU, by semantics.md. Arguments are checked by the caller (dispatch/op_*.cc). Each uses all
// of the executor's threads, but for the index work of routing/record.h and routing/permute.h; the bytes do not depend on how
// many there are.
#pragma once

#include "core/executor.h"
#include "core/op_args.h"
#include "cpu/panel_dot.h"

namespace octet::cpu {

void mxfp8_quantize(const QuantizeArgs& args, Executor& executor);
void topk(const TopkArgs& args, Executor& executor);
// topk, mxfp8_quantize and route in one: calls the same steps.
void front(const FrontArgs& args, Executor& executor);
void gemm1(const Gemm1Args& args, PanelDot dot, Executor& executor);
void gemm2(const Gemm2Args& args, PanelDot dot, Executor& executor);
void finalize(const FinalizeArgs& args, Executor& executor);
void grouped_moe(const GroupedMoeArgs& args, PanelDot dot, Executor& executor);
void dequantize(const DequantizeArgs& args, Executor& executor);
void quantize_weight(const QuantizeWeightArgs& args, Executor& executor);

}  // namespace octet::cpu
