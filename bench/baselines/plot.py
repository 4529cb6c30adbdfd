#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GB/s by rows, ours and the peers', from reports of `octet bench --json`; the read ceiling as a line.

    plot.py OUT.png REPORT.json...     one panel for each report
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display
import matplotlib.pyplot as plt

COLUMNS = 2


def draw(axes, report: dict) -> None:
    results = report["results"]
    rows = [r["rows"] for r in results]
    first = results[0]
    axes.plot(rows, [r["gbs"] for r in results], marker="o", linewidth=2, color="black", label="octet")
    for at, peer in enumerate(report.get("peers", [])):
        speeds = [r["peers"][at]["gbs"] for r in results]
        ratios = [r["peers"][at]["ratio"] for r in results]
        label = f"{peer['name']}: octet {min(ratios):.2f}–{max(ratios):.2f} × as fast"
        axes.plot(rows, speeds, marker="s", label=label)
    ceiling = report["read_ceiling_gbs"]
    axes.axhline(ceiling, linestyle="--", color="grey", label=f"read ceiling {ceiling:.1f} GB/s")
    threads = report["threads"]
    axes.set_title(f"{first['weights']} × {first['activations']}, {threads} thread{'s' if threads != 1 else ''}")
    axes.set_xlabel("rows")
    axes.set_ylabel("weights read, GB/s")
    axes.set_xticks(rows)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower left")


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    out, paths = sys.argv[1], sys.argv[2:]
    reports = []
    for path in paths:
        report = json.loads(Path(path).read_text())
        if report.get("what") != "layer" or not report.get("results"):
            print(f"{path}: found no results, want a report of octet bench --json", file=sys.stderr)
            return 1
        reports.append(report)
    columns = min(COLUMNS, len(reports))
    lines = -(-len(reports) // columns)
    figure, grid = plt.subplots(lines, columns, figsize=(6.5 * columns, 4.5 * lines), squeeze=False)
    for axes in grid.flat[len(reports):]:
        axes.set_visible(False)
    for axes, report in zip(grid.flat, reports):
        draw(axes, report)
    layer = reports[0]["layer"]
    figure.suptitle(
        f"One layer, cold weights: H {layer['hidden']}, I {layer['intermediate']}, {layer['experts']} experts, "
        f"top-{layer['top_k']}\n{reports[0]['device']}, {reports[0]['date'][:10]}",
        fontsize="medium",
    )
    figure.tight_layout()
    figure.savefig(out, dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
