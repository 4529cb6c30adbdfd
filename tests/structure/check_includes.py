#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes point left only: a folder of src/ may include itself and what stands before it in the README's line; ptxsim has
a line of its own, and nothing outside of it includes it.

    check_includes.py SOURCE_DIR     prints each include that points the wrong way; exit 1 if there is one

docs/architecture.md has the same lines.
"""

import re
import sys
from pathlib import Path

LINE = re.compile(r"core < [a-z0-9 ,<]*< tools")
SIMULATOR = re.compile(r"core < ptxsim\b")


def main() -> int:
    root = Path(sys.argv[1])
    orders = {m[0] for page in ("README.md", "docs/architecture.md") for m in LINE.finditer((root / page).read_text())}
    if len(orders) != 1:
        print(f"README.md and docs/architecture.md have {len(orders)} orders of folders, want one: {orders}")
        return 1
    order = orders.pop()
    for page in ("README.md", "docs/architecture.md"):
        if not SIMULATOR.search((root / page).read_text()):
            print(f"{page} does not have the line core < ptxsim")
            return 1
    rank = {folder.strip(): at for at, group in enumerate(order.split("<")) for folder in group.split(",")}
    for folder in sorted(p.name for p in (root / "src").iterdir()):
        if folder not in rank and (root / "src" / folder).is_dir():
            print(f"src/{folder} is not in the order: {order}")
            return 1
    files = [(p, p.relative_to(root / "src").parts[0]) for p in sorted((root / "src").rglob("*.*"))]
    # tools/ptxsim is the simulator's own: it includes what ptxsim does.
    files += [(p, "ptxsim" if "ptxsim" in p.parts else "tools") for p in sorted((root / "tools").rglob("*.*"))]
    files += [(p, "ptxsim") for p in sorted((root / "ptxsim").rglob("*.*"))]
    wrong = 0
    for path, folder in files:
        if path.suffix not in {".h", ".cc", ".cu", ".cuh", ".inc"}:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'#include "([a-z0-9_]+)/', line)
            if not found or found[1] == "octet":  # the public headers
                continue
            if "ptxsim" in (folder, found[1]):
                if folder != "ptxsim" or (found[1] in rank and found[1] != "core"):
                    print(f"{path.relative_to(root)}:{number}: {folder} includes {found[1]}, want: core < ptxsim")
                    wrong += 1
                continue
            if found[1] not in rank:
                continue  # a file of the including folder's own
            same_rank = rank[found[1]] == rank[folder] and found[1] != folder
            if rank[found[1]] > rank[folder] or same_rank:
                print(f"{path.relative_to(root)}:{number}: {folder} includes {found[1]}, want: {order}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
