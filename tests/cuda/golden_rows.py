#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the router's golden rows as octet_cuda_test reads them.

    golden_rows.py FOLDER OUT

FOLDER has gen.py (the inputs) and router_gold.npz (ids and weight bits of the original kernel on an H200). OUT, little-endian:
for each group of rows i64 E, T, lo, has_vl; f32 scale, 0; f32 logits [T, E], bias [E], bias_vl [E] if it has; i64 token ids [T]; i32
ids [T, 6]; u32 weight bits [T, 6]. Rows that the original marks as padding, and rows with fewer than six experts above
-Inf, where it repeats an id, are left out.
"""

import sys
from pathlib import Path

import numpy as np


def main() -> int:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(folder))
    import gen  # noqa: PLC0415

    gold = np.load(folder / "router_gold.npz")
    kept = 0
    with out.open("wb") as f:
        for experts in (384, 256):
            at = 0
            for g in gen.groups(experts):
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
    print(f"{kept} rows")
    return 0


sys.exit(main())
