#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes point left only: a folder of src/ may include itself and what stands before it in this line.

    check_includes.py SOURCE_DIR     prints each include that points the wrong way; exit 1 if there is one
"""

import re
import sys
from pathlib import Path

ORDER = "core < formats < layouts < routing < reference < checkpoint < cpu , cuda < sm90 , sm100 < dispatch < capi < tools"
RANK = {folder.strip(): rank for rank, group in enumerate(ORDER.split("<")) for folder in group.split(",")}


def main() -> int:
    root = Path(sys.argv[1])
    files = [(p, p.relative_to(root / "src").parts[0]) for p in sorted((root / "src").rglob("*.*"))]
    files += [(p, "tools") for p in sorted((root / "tools").rglob("*.*"))]
    wrong = 0
    for path, folder in files:
        if path.suffix not in {".h", ".cc", ".cu", ".cuh", ".inc"}:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'#include "([a-z0-9_]+)/', line)
            if not found or found[1] == "octet":  # the public headers
                continue
            if found[1] not in RANK:
                continue  # a file of the including folder's own
            same_rank = RANK[found[1]] == RANK[folder] and found[1] != folder
            if RANK[found[1]] > RANK[folder] or same_rank:
                print(f"{path.relative_to(root)}:{number}: {folder} includes {found[1]}, want: {ORDER}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
