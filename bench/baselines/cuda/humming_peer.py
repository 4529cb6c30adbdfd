# SPDX-License-Identifier: Apache-2.0
"""Humming's W4A16 MoE layer in vLLM's order: align, GEMM1, activation, GEMM2, weighted sum. From ids and weights; no router."""

import json

import torch

import wheel_modules

LIMITS = (8, 16, 24, 40, 48)  # most slots of a set of tiles


def _tiles(block, warp, stream_k, stages, ctas):
    return dict(use_f16_accum=False, use_tma_a=False, use_tma_c=False, use_tma_as=False, use_tma_as2=False, mma_type="mma",
                use_warp_spec=False, use_tma=False, block_shape=block, warp_shape=warp, use_stream_k=stream_k,
                num_stages=stages, num_ctas_per_sm=ctas)


# The best of a sweep on an H200 at H 5120, I 576, for each of LIMITS: GEMM1, GEMM2.
_DOWN_64, _DOWN_128 = _tiles((8, 64, 64), (8, 32, 32), False, 6, 4), _tiles((8, 128, 64), (8, 64, 32), False, 6, 4)
BEST = (
    (_tiles((8, 64, 128), (8, 32, 64), True, 4, 2), _DOWN_64),
    (_tiles((8, 128, 128), (8, 64, 64), True, 4, 2), _DOWN_64),
    (_tiles((8, 128, 64), (8, 64, 32), True, 4, 4), _DOWN_128),
    (_tiles((8, 128, 128), (8, 64, 64), True, 4, 4), _DOWN_64),
    (_tiles((8, 128, 128), (8, 64, 64), True, 4, 4), _DOWN_128),
)


class Humming:
    def __init__(self, site, layers, tiles: str, limit: float):
        """`tiles`: "best", or "tuner", what Humming's own heuristics choose."""
        wheel_modules.install(site)
        import vllm._custom_ops  # noqa: F401
        import vllm.model_executor.layers.fused_moe.moe_align_block_size as align
        import vllm.model_executor.layers.fused_moe.moe_fused_mul_sum as mul_sum
        from humming import forward, schema, transform, tune
        from vllm.model_executor.layers.fused_moe.activation import ApplyMoEActivationConfig, MoEActivation
        from vllm.model_executor.layers.quantization.utils.humming.activation import get_humming_activation

        wheel_modules.load_libraries(site)
        self.name = f"Humming, {tiles} tiles"
        self.forward, self.align, self.mul_sum = forward, align.moe_align_block_size, mul_sum.moe_fused_mul_sum
        self.activation = get_humming_activation(MoEActivation.SILU, ApplyMoEActivationConfig(clamp_limit=limit))
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.locks = torch.zeros(sms * 8, dtype=torch.int32, device="cuda")
        self.compute = json.dumps(dict(use_batch_invariant=False, use_f16_accum=False, gemm_type="indexed"))
        self.experts, self.hidden, self.intermediate = layers[0].experts, layers[0].hidden, layers[0].intermediate
        own = schema.Mxfp4WeightSchema().to_humming_schema(torch.bfloat16)

        def prepared(codes, scales, n, k):
            tensors = {"weight": codes.clone().view(torch.int32), "weight_scale": scales.clone().view(torch.float8_e8m0fnu)}
            return transform.prepare_and_transform_humming_tensors(
                tensors=tensors, shape_n=n, shape_k=k, weight_schema=own, num_experts=self.experts, pad_n_to_multiple=1,
                pad_k_to_multiple=1, torch_dtype=torch.bfloat16)

        self.weights = []
        for layer in layers:
            (self.config1, first) = prepared(layer.w13, layer.s13, 2 * self.intermediate, self.hidden)
            (self.config2, second) = prepared(layer.w2, layer.s2, self.hidden, self.intermediate)
            self.weights.append((first, second))

        def sets(which, config):
            chosen = [BEST[i][which] if tiles == "best" else
                      tune.get_heuristics_config(layer_config=config, shape_m=most, gemm_type="indexed") for i, most in enumerate(LIMITS)]
            return [[low, most, tiles_] for low, most, tiles_ in zip((0,) + LIMITS, LIMITS, chosen)]

        self.sets = sets(0, self.config1), sets(1, self.config2)
        self.sets_text = [json.dumps(s) for s in self.sets]

    def _product(self, which, config, tensors, x, out, aligned, slots, top_k):
        self.forward.humming_forward(
            config, inputs=x, weight=tensors["weight"], weight_scale=tensors["weight_scale"],
            weight_scale_2=tensors.get("weight_scale_2"), outputs=out, locks=self.locks, sorted_ids=aligned[0], expert_ids=aligned[1],
            num_tokens_padded=aligned[2], top_k=top_k, valid_shape_m=slots, compute_config=self.compute,
            tuning_config=self.sets_text[which])

    def run(self, layer: int, x, ids, weights, y) -> None:
        rows, top_k = ids.shape
        slots = rows * top_k
        first, second = self.weights[layer]
        tile = [next(t["block_shape"][0] for low, most, t in s if low < slots <= most) for s in self.sets]
        aligned = self.align(ids, tile[0], self.experts, None, ignore_invalid_experts=True)
        again = aligned if tile[0] == tile[1] else self.align(ids, tile[1], self.experts, None, ignore_invalid_experts=True)
        empty = lambda width: torch.empty(slots, width, dtype=torch.bfloat16, device="cuda")  # noqa: E731
        gate_up, h, down = empty(2 * self.intermediate), empty(self.intermediate), empty(self.hidden)
        self._product(0, self.config1, first, x, gate_up, aligned, slots, top_k)
        self.forward.may_process_input(self.config2, inputs=gate_up, outputs=h, **self.activation)
        self._product(1, self.config2, second, h, down, again, slots, 1)
        self.mul_sum(inputs=down.view(rows, top_k, self.hidden), topk_weights=weights, topk_ids=ids, outputs=y)
