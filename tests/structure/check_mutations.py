#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each mutation of tests/mutation still has its line: the sources move, and the mutations run on demand only.

    check_mutations.py SOURCE_DIR     prints each whose `find` does not stand in its file exactly once; exit 1 if there is one
"""

import json
import sys
from pathlib import Path


def main() -> int:
    root = Path(sys.argv[1])
    table = json.loads((root / "tests/mutation/mutations.json").read_text())
    wrong = 0
    for row in table:
        count = (root / row["file"]).read_text().count(row["find"])
        if count != 1 or row["find"] == row["replace"]:
            print(f"{row['operation']}: {row['file']} holds {row['find']!r} {count} times, want once")
            wrong += 1
    return 1 if wrong or not table else 0


if __name__ == "__main__":
    sys.exit(main())
