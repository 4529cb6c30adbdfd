#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the mutation table of a suite as Markdown, from what replay.py --results has written.

    table.py RESULTS.json EXPLAINED.json > docs/kernels/mutations_NAME.md
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path

MODES = ("eager", "random", "late")
LETTERS = {"value": "v", "order": "o", "rule": "r", "hang": "h", "endless": "e", "decode": "d", "crash": "c", "": "-"}


def is_caught(result: dict) -> bool:
    return any(result["caught"].values())


def row(cells: list) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def heading(cells: list) -> list[str]:
    return [row(cells), "|" + "---|" * len(cells)]


def summary(results: list[dict]) -> list[str]:
    """A row a class and kernel: how many, in which time caught, by what first, how many not."""
    lines = heading(["kernel", "class", "mutants", *MODES, "first noticed by", "not caught"])
    key = lambda r: (r["name"].split("/")[0], r["kind"])
    for (kernel, kind), group in groupby(sorted(results, key=key), key):
        rows = list(group)
        by = Counter(next((b for b in r["caught"].values() if b), "") for r in rows)
        first = ", ".join(f"{how} {count}" for how, count in by.most_common() if how)
        modes = [sum(bool(r["caught"].get(mode)) for r in rows) for mode in MODES]
        lines.append(row([f"`{kernel}`", kind, len(rows), *modes, first, by[""] or "–"]))
    total = [sum(bool(r["caught"].get(mode)) for r in results) for mode in MODES]
    lines.append(row(["all", "", len(results), *total, "", sum(not is_caught(r) for r in results)]))
    return lines


def survivors(results: list[dict], explained: list[dict]) -> list[str]:
    lines = []
    for entry in explained:
        count = sum(any(fnmatchcase(r["name"], p) for p in entry["mutants"]) for r in results)
        if count:
            lines.append("- " + ", ".join(f"`{pattern}`" for pattern in entry["mutants"]) + f" ({count}): {entry['why']}.")
    return lines


def sites(results: list[dict]) -> list[str]:
    """A row a site: each change with a letter for eager, random and late."""
    lines = heading(["site", "line", "changes"])
    for site, group in groupby(results, lambda r: r["name"].rsplit("/", 1)[0]):
        rows = list(group)
        changes = []
        for r in rows:
            letters = "".join(LETTERS[r["caught"].get(mode, "")] for mode in MODES)
            text = f"{r['name'].rsplit('/', 1)[1]} {letters}"
            changes.append(text if is_caught(r) else f"**{text}**")
        lines.append(row([f"`{site}`", rows[0]["where"], "; ".join(changes)]))
    return lines


def main() -> int:
    results = json.loads(Path(sys.argv[1]).read_text())
    explained = json.loads(Path(sys.argv[2]).read_text())
    print(f"# Mutants of {', '.join(dict.fromkeys(r['name'].split('/')[0] for r in results))}\n")
    print("Printed by `tests/mutation/ptx/table.py`; [what the words mean](mutations.md).\n")
    print("\n".join(summary(results)))
    print("\n## Not caught, and why\n")
    print("\n".join(survivors(results, explained)))
    letters = ", ".join(f"{letter} {how or 'not noticed'}" for how, letter in LETTERS.items())
    print(f"\n## Every site\n\nA letter each for {', '.join(MODES)}: {letters}. Not caught: **bold**.\n")
    print("\n".join(sites(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
