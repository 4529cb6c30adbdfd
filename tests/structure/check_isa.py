#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No object compiled for a larger instruction set defines a function that the linker may choose for everybody.

    check_isa.py NM ARCHIVE...

An inline function that is left out of line is a weak symbol: of its copies the linker takes the first, and were that the
one made with AVX2, a machine without it would stop there. Objects are named after their instruction set
(`panel_dot_avx2.cc.o`). Prints each weak function; exit 1 if there is one, or if no such object was found.
"""

import re
import subprocess
import sys

LARGER = re.compile(r"_(avx\w*|neon\w*|sve\w*)\.cc\.o$")


def main() -> int:
    nm, *archives = sys.argv[1:]
    seen, weak = 0, 0
    for archive in archives:
        listed = subprocess.run([nm, "--defined-only", "--demangle", archive], capture_output=True, text=True, check=True)
        member = ""
        for line in listed.stdout.splitlines():
            if line.endswith(".o:"):
                member = line[:-1]
                seen += bool(LARGER.search(member))
            elif LARGER.search(member) and (found := re.match(r"[0-9a-f]+ [WwVvu] (.*)", line)):
                print(f"{member}: {found[1]} is weak, want it inlined or in an anonymous namespace")
                weak += 1
    if not seen:
        print(f"no object of a larger instruction set in {', '.join(archives)}")
    return 1 if weak or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
