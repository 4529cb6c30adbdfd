#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Octet's decode layer beside vLLM's Marlin layer and Humming's, on one CUDA device, in the same rounds. ../README.md says how.

    peers.py --library liboctet.so --checkpoint DIR --site DIR --read-gb-s N --json OUT.json

Each side is a CUDA graph of 48 layer calls, the checkpoint's layers in turn, everybody with the same weights, rows, ids and weights of the
experts. A round is one replay of each, after 15 ms of idling, the first one another each time. Octet's calls begin at the router's logits; the
peers have no router. ratio: the median of the rounds' ratios, a peer's time over octet's.
"""

import argparse
import datetime
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import checkpoint
from octet_layer import Layers, Library

CALLS = 48
IDLE_S = 0.015
CASES = ((1, 0), (2, 0), (4, 0), (6, 0), (8, 0), (6, 22))  # rows, and how many distinct experts; 0: as the router likes
LIMIT = 10.0  # swiglu_limit of the checkpoint
MOST_NMSE = 0.01
PEERS = re.compile(r"marlin[1-9]\d*|humming-(best|tuner)")


class Inputs:
    """Rows and logits of each call; ids and weights as octet's router gives them."""

    def __init__(self, octet: Layers, rows: int, distinct: int, stream):
        draw = torch.Generator().manual_seed(1000 * rows + distinct)
        self.x = [torch.randn(rows, octet.hidden, generator=draw).bfloat16().cuda() for _ in range(4)]
        self.logits = [self._logits(octet, rows, distinct, draw) for _ in range(CALLS)]
        self.ids = [torch.empty(rows, octet.top_k, dtype=torch.int32, device="cuda") for _ in range(CALLS)]
        self.weights = [torch.empty(rows, octet.top_k, dtype=torch.float32, device="cuda") for _ in range(CALLS)]
        y = torch.empty_like(self.x[0])
        stream.wait_stream(torch.cuda.current_stream())
        for i in range(CALLS):
            octet.enqueue(i % len(octet.layers), self.x[i % 4], self.logits[i], y, stream, self.ids[i], self.weights[i])
        stream.synchronize()
        found = [len(ids.unique()) for ids in self.ids]
        if distinct and set(found) != {distinct}:
            raise RuntimeError(f"distinct experts {sorted(set(found))}, want {distinct}")
        self.experts = statistics.mean(found)

    @staticmethod
    def _logits(octet: Layers, rows: int, distinct: int, draw):
        logits = torch.randn(rows, octet.experts, generator=draw) * 1.5
        if distinct:  # slot i likes expert i % distinct of a random order best
            logits -= 6
            order = torch.randperm(octet.experts, generator=draw)
            for slot in range(rows * octet.top_k):
                logits[slot // octet.top_k, order[slot % distinct]] = 8 + 0.3 * torch.randn((), generator=draw)
        return logits.cuda()


class Side:
    """A graph of CALLS calls; call(i, y) enqueues call i on `stream`, which is the current one."""

    def __init__(self, call, y, stream):
        self.y, self.stream = y, stream
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            for i in range(2):  # what is compiled or loaded at a first call
                call(i, y)
            stream.synchronize()
            with torch.cuda.graph(self.graph, stream=stream):
                for i in range(CALLS):
                    call(i, y)
            self.graph.replay()
            stream.synchronize()
            y.fill_(float("nan"))
            call(0, y)
            stream.synchronize()
            self.first = y.clone()

    def replay_us(self) -> float:
        time.sleep(IDLE_S)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(self.stream):
            begin.record()
            self.graph.replay()
            end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / CALLS


def measure(octet: Layers, peers: list, layers: list, rows: int, distinct: int, rounds: int, stream) -> dict:
    inputs = Inputs(octet, rows, distinct, stream)
    first = layers[0], inputs.x[0], inputs.ids[0], inputs.weights[0], LIMIT
    want, contract = checkpoint.float64(*first), checkpoint.float64(*first, rounded=checkpoint.through_mxfp8)
    count = len(layers)

    def ours(i, y):
        octet.enqueue(i % count, inputs.x[i % 4], inputs.logits[i], y, stream)

    def theirs(peer):
        return lambda i, y: peer.run(i % count, inputs.x[i % 4], inputs.ids[i], inputs.weights[i], y)

    calls = [ours] + [theirs(p) for p in peers]
    sides = [Side(call, torch.empty_like(inputs.x[0]), stream) for call in calls]
    errors = [checkpoint.nmse(side.first, want) for side in sides]
    for name, error in zip(["octet"] + [p.name for p in peers], errors):
        if not error <= MOST_NMSE:
            raise RuntimeError(f"{name}, {rows} rows: NMSE {error:.3g}, want at most {MOST_NMSE}")
    times: list = [[] for _ in sides]
    for turn in range(rounds):
        for step in range(len(sides)):
            at = (turn + step) % len(sides)
            times[at].append(sides[at].replay_us())
    clock = int(device_state("clocks.sm")[0].split()[0])
    median = [statistics.median(t) for t in times]
    return {
        "rows": rows, "experts": round(inputs.experts, 2), "bytes": round(inputs.experts * octet.weight_bytes / octet.experts),
        "median_us": round(median[0], 2), "min_us": round(min(times[0]), 2), "nmse": errors[0],
        "nmse_of_mxfp8": checkpoint.nmse(sides[0].first, contract), "clock_mhz": clock,
        "peers": [{"name": p.name, "median_us": round(median[i], 2), "min_us": round(min(times[i]), 2),
                   "ratio": round(statistics.median(a / b for a, b in zip(times[i], times[0])), 3), "nmse": errors[i]}
                  for i, p in enumerate(peers, 1)],
    }


def device_state(fields: str) -> list[str]:
    """As nvidia-smi names them."""
    values = subprocess.check_output(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0"], text=True)
    return [v.strip() for v in values.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True, help="liboctet.so, built with CUDA")
    parser.add_argument("--checkpoint", type=Path, required=True, help="octet synth deepseek-v4.1-flash")
    parser.add_argument("--site", type=Path, required=True, help="folder with the unpacked wheels of vLLM and Humming")
    parser.add_argument("--peers", default="marlin640,marlin576,humming-best", help="also humming-tuner; '': octet alone")
    parser.add_argument("--kernel", help="octet's kernel; default: the best")
    parser.add_argument("--read-gb-s", type=float, required=True, help="read ceiling of the same run: what bench_read prints")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--git", default="", help="revision of the library")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    for name in filter(None, args.peers.split(",")):
        if not PEERS.fullmatch(name):
            parser.error(f"--peers: found '{name}', want marlinN, humming-best or humming-tuner")
    if args.rounds < 1:
        parser.error(f"--rounds: found {args.rounds}, want at least 1")
    if not args.read_gb_s > 0:
        parser.error(f"--read-gb-s: found {args.read_gb_s}, want more than 0")
    if not args.json.parent.is_dir():
        parser.error(f"--json: found no folder {args.json.parent}")

    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    octet = Layers(Library(args.library), args.checkpoint, max(rows for rows, _ in CASES), args.kernel)
    say(f"octet: {len(octet.layers)} layers of {octet.experts} experts, {octet.kernel}")
    layers = checkpoint.load(args.checkpoint)
    say(f"checkpoint: {len(layers)} layers")
    if len(layers) != len(octet.layers):
        raise RuntimeError(f"{len(layers)} layers read, want octet's {len(octet.layers)}")
    peers = []
    for name in filter(None, args.peers.split(",")):
        if name.startswith("marlin"):
            from marlin import Marlin

            peers.append(Marlin(args.site, layers, int(name.removeprefix("marlin")), LIMIT))
        else:
            from humming_peer import Humming

            peers.append(Humming(args.site, layers, name.removeprefix("humming-"), LIMIT))
        torch.cuda.synchronize()
        say(f"{peers[-1].name}: prepared")
    report = {
        "what": "peers", **dict(zip(("device", "driver", "most_clock", "power_limit"),
                                    device_state("name,driver_version,clocks.max.sm,power.limit"))),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "torch": torch.__version__, "octet": octet.lib.version, "git": args.git, "kernel": octet.kernel,
        "read_gb_s": args.read_gb_s, "calls": CALLS, "rounds": args.rounds, "idle_ms": IDLE_S * 1e3,
        "layers": len(layers), "experts": octet.experts, "top_k": octet.top_k, "hidden": octet.hidden, "intermediate": octet.intermediate,
        "results": [],
    }
    stream = torch.cuda.Stream()
    for rows, distinct in CASES:
        result = measure(octet, peers, layers, rows, distinct, args.rounds, stream)
        result["floor_us"] = round(result["bytes"] / args.read_gb_s / 1e3, 2)
        result["over_floor"] = round(result["median_us"] / result["floor_us"], 3)
        report["results"].append(result)
        beside = ", ".join(f"{p['name']} {p['median_us']} ({p['ratio']:.2f} x)" for p in result["peers"])
        say(f"{rows} rows, {result['experts']} experts: octet {result['median_us']} us ({result['over_floor']} floors), {beside}")
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
