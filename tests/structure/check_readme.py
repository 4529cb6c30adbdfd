#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's support table is what `octet list --markdown` prints.

    check_readme.py OCTET README     exit 1 if they differ
"""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    octet, readme = sys.argv[1:]
    table = subprocess.run([octet, "list", "--markdown"], capture_output=True, text=True, check=True).stdout.strip()
    if table in Path(readme).read_text():
        return 0
    print(f"{readme} does not hold what `octet list --markdown` prints; put this there:\n{table}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
