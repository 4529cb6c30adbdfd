#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line ptxsim: a kernel runs, its memory is written, a trace names each line; what is wrong exits with 1 or 2.

    cli_test.py PTXSIM FILE.ptx     FILE.ptx: double.ptx of this folder
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*arguments):
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True)


def main():
    ptxsim, ptx = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x.bin").write_bytes(struct.pack("<32i", *range(32)))
        call = {
            "kernel": "twice", "grid": [1], "block": [32],
            "buffers": {"x": {"file": str(folder / "x.bin"), "is_read_only": True}, "y": {"bytes": 128}},
            "parameters": [{"struct": [{"buffer": "x"}, {"buffer": "y"}, {"i32": 5}]}],
            "write": {"y": str(folder / "y.bin")},
        }
        path = folder / "run.json"
        path.write_text(json.dumps(call))
        done = run(ptxsim, ptx, path, "--time", "late", "--trace")
        assert done.returncode == 0, done.stderr
        assert struct.unpack("<32i", (folder / "y.bin").read_bytes()) == tuple(2 * i + 5 for i in range(32))
        assert "block 0 warp 0 lanes ffffffff line 16: ld.global.u32 %r2, [%rd4];" in done.stdout, done.stdout
        assert "instructions 11  lanes 352" in done.stdout, done.stdout
        assert "global bytes read 128, written 128" in done.stdout, done.stdout
        done = run(ptxsim, ptx, path, "--json", "--sms", "3")
        counts = json.loads(done.stdout)
        assert counts["kernel"] == "twice" and counts["waves"] == 1 and counts["blocks_per_sm"] == 32, counts
        assert counts["all"] == counts["most_of_a_block"] and counts["all"]["lane_instructions"] == 352, counts
        assert counts["read_bytes"] == {"x": 128} and counts["most_bytes_in_flight"] == 0, counts
        assert run(ptxsim, ptx, "--list").stdout == "twice\n"

        call["block"] = [64]
        path.write_text(json.dumps(call))
        done = run(ptxsim, ptx, path)
        assert done.returncode == 1 and "'x' has 128 bytes, these begin at its byte 128" in done.stderr, done.stderr
        call["grids"] = [1]
        path.write_text(json.dumps(call))
        done = run(ptxsim, ptx, path)
        assert done.returncode == 1 and "'grids' is not known" in done.stderr, done.stderr
        path.write_text("{")
        assert "not JSON" in run(ptxsim, ptx, path).stderr
        assert run(ptxsim, ptx).returncode == 2
        assert run(ptxsim, ptx, path, "--time", "never").returncode == 2
        assert run(ptxsim, folder / "none.ptx", path).returncode == 1


if __name__ == "__main__":
    main()
