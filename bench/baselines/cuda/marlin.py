# SPDX-License-Identifier: Apache-2.0
"""vLLM's Marlin MXFP4 layer, BF16 activations: align, GEMM1, clamped SwiGLU, GEMM2, sum. From ids and weights; no router."""

import types

import torch
from torch.nn.functional import pad

import wheel_modules

ALIGN_ROWS = 8  # moe_block_size that vLLM takes for so few rows


class Marlin:
    def __init__(self, site, layers, stored: int, limit: float):
        """`stored`: I in memory, filled with zeros; 640 for 576 is what vLLM does."""
        wheel_modules.install(site)
        import vllm._custom_ops as ops
        import vllm.model_executor.layers.fused_moe.experts.marlin_moe as moe
        import vllm.model_executor.layers.quantization.utils.marlin_utils_fp4 as fp4
        from vllm.scalar_type import scalar_types

        wheel_modules.load_libraries(site)
        self.name = f"vLLM Marlin, I stored as {stored}"
        self.ops, self.moe, self.quant = ops, moe, scalar_types.float4_e2m1f.id
        self.config = moe.ApplyMoEActivationConfig(clamp_limit=limit)
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.workspace = torch.zeros(sms * 4, dtype=torch.int32, device="cuda")
        self.weights = []
        for layer in layers:
            e, i, more = layer.experts, layer.intermediate, stored - layer.intermediate

            def padded(w, e=e, i=i, more=more):  # gate and up apart
                return pad(w.view(e, 2, i, -1), (0, 0, 0, more)).reshape(e, 2 * (i + more), -1).contiguous()

            self.weights.append(fp4.prepare_moe_mxfp4_layer_for_marlin(
                types.SimpleNamespace(params_dtype=torch.bfloat16), padded(layer.w13), pad(layer.w2, (0, more // 2)).contiguous(),
                padded(layer.s13), pad(layer.s2, (0, more // 32)).contiguous(), None, None)[:4])

    def run(self, layer: int, x, ids, weights, y) -> None:
        w13, w2, s13, s2 = self.weights[layer]
        self.moe.fused_marlin_moe(
            hidden_states=x, w1=w13, w2=w2, bias1=None, bias2=None, w1_scale=s13, w2_scale=s2, topk_weights=weights, topk_ids=ids,
            quant_type_id=self.quant, activation=self.moe.MoEActivation.SILU, activation_config=self.config,
            workspace=self.workspace, output=y, moe_sum=lambda rows, out, t, m: (self.ops.moe_sum(rows, out, t, m), out)[1])
