# SPDX-License-Identifier: Apache-2.0
"""The routed experts of an `octet synth deepseek-v4.1-flash` checkpoint as torch tensors on the device, and float64 from them."""

import json
import re
from pathlib import Path

import numpy
import torch

E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
NAME = re.compile(r"layers\.(\d+)\.ffn\.experts\.(\d+)\.(w[123])\.(weight|scale)$")


class Layer:
    """w13 [E, 2I, H/2] (gate rows, then up rows), s13 [E, 2I, H/32], w2 [E, H, I/2], s2 [E, H, I/32]: uint8."""

    def __init__(self, parts: dict):
        stack = lambda m, what: torch.stack([parts[e][m, what] for e in sorted(parts)])  # noqa: E731
        self.w13 = torch.cat([stack("w1", "weight"), stack("w3", "weight")], 1)
        self.s13 = torch.cat([stack("w1", "scale"), stack("w3", "scale")], 1)
        self.w2, self.s2 = stack("w2", "weight"), stack("w2", "scale")
        self.experts, self.hidden, self.intermediate = len(parts), self.w2.shape[1], self.w2.shape[2] * 2


def load(folder: Path) -> list[Layer]:
    """Every layer; a file at a time goes to the device whole."""
    layers: dict = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8))
        length = int.from_bytes(bytes(data[:8].tolist()), "little")
        header = json.loads(bytes(data[8:8 + length].numpy()))
        data = data[8 + length:].cuda()
        for name, tensor in header.items():
            if (found := NAME.search(name)) is None:
                continue
            begin, end = tensor["data_offsets"]
            rows = tensor["shape"][0]
            layers.setdefault(int(found[1]), {}).setdefault(int(found[2]), {})[found[3], found[4]] = data[begin:end].view(rows, -1)
    if not layers:
        raise RuntimeError(f"{folder}: no tensor named like layers.0.ffn.experts.0.w1.weight")
    return [Layer(layers[i]) for i in sorted(layers)]


def _decoded(codes, scales):
    lut = torch.tensor(E2M1 + tuple(-v for v in E2M1), dtype=torch.float64, device=codes.device)
    pairs = torch.stack([lut[(codes & 15).long()], lut[(codes >> 4).long()]], -1).flatten(-2)
    return pairs * torch.exp2(scales.double() - 127).repeat_interleave(32, -1)


def through_mxfp8(v):
    """Rounded to E4M3 with a power of two for 32 (semantics.md sections 3 and 7), for ordinary values."""
    blocks = v.view(-1, 32)
    unit = torch.exp2(torch.ceil(torch.log2(blocks.abs().amax(1, keepdim=True) / 448)))
    return ((blocks / unit).float().to(torch.float8_e4m3fn).double() * unit).view(v.shape)


def float64(layer: Layer, x, ids, weights, limit: float, rounded=lambda v: v):
    """The layer in float64: x [T, H] bf16, ids and weights [T, k]. `rounded`: of x and h, else nothing is."""
    x = rounded(x.double())
    y = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for e in ids.unique().tolist():
        w13, w2 = _decoded(layer.w13[e], layer.s13[e]), _decoded(layer.w2[e], layer.s2[e])
        for row, slot in (ids == e).nonzero().tolist():
            gate, up = (w13 @ x[row]).split(layer.intermediate)
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
            y[row] += weights[row, slot].double() * (w2 @ rounded(gate * torch.sigmoid(gate) * up))
    return y


def nmse(found, want) -> float:
    return float((found.double() - want).square().sum() / want.square().sum())
