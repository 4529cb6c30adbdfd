#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what an H200 gave as the tests read it.

    make.py OUT

OUT/router.bin, little-endian: for each group of rows i64 E, T, lo, has_vl; f32 scale, 0; f32 logits [T, E], bias [E], bias_vl [E] if it
has; i64 token ids [T]; i32 ids [T, 6]; u32 weight bits [T, 6]. Inputs are router_inputs.py's; ids and bits those of vLLM's Triton kernel
dsv4_topk (0.33.0, Triton 3.6.0) in router_h200.npz. Left out are rows that it marks as padding, and rows with fewer than six experts
above -Inf, where it repeats an id.
OUT/ex2.i8, rcp.i8, sqrt.i8: the tables of ptxsim/insn/approx.h.
"""

import lzma
import sys
from pathlib import Path

import numpy as np
from router_inputs import groups

HERE = Path(__file__).parent


def write_router(out: Path) -> int:
    gold = np.load(HERE / "router_h200.npz")
    kept = 0
    with out.open("wb") as f:
        for experts in (384, 256):
            at = 0
            for g in groups(experts):
                rows = len(g["logits"])
                ids = gold[f"ids{experts}"][at : at + rows].astype(np.int32)
                bits = gold[f"wbits{experts}"][at : at + rows].astype(np.uint32)
                at += rows
                distinct = np.array([len(set(r)) == 6 for r in ids.tolist()])
                keep = distinct & ~np.asarray(g.get("pad", np.zeros(rows, bool)), bool)
                kept += int(keep.sum())
                vl = g.get("bias_vl")
                tokens = np.asarray(g.get("ids", np.zeros(rows)), np.int64)
                f.write(np.array([experts, keep.sum(), g.get("lo", 0), vl is not None], np.int64).tobytes())
                f.write(np.array([g["scale"], 0], np.float32).tobytes())
                f.write(np.ascontiguousarray(g["logits"][keep], np.float32).tobytes())
                f.write(np.ascontiguousarray(g["bias"], np.float32).tobytes())
                if vl is not None:
                    f.write(np.ascontiguousarray(vl, np.float32).tobytes())
                f.write(tokens[keep].tobytes() + ids[keep].tobytes() + bits[keep].tobytes())
    return kept


def main() -> int:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    print(f"{write_router(out / 'router.bin')} rows")
    for name in ("ex2", "rcp", "sqrt"):
        (out / f"{name}.i8").write_bytes(lzma.decompress((HERE / f"{name}_h200.xz").read_bytes()))
    return 0


sys.exit(main())
