#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Show that the tests can fail: alter one line of an operation at a time and require the oracle's cases to notice.

    mutate.py SOURCE_DIR VECTORS WORK_DIR [PATTERN]

A copy of the tree is built in WORK_DIR, once as it is (all cases named in the table must pass), then once for each row of
mutations.json with `find` replaced by `replace` in `file`. Rows: operation, file, find, replace, cases (a pattern of
check_op.py). The last line is `N passed, N failed`; a mutation that no case notices fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def run(*words: str | Path, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, **options)


def copy_tree(source: Path, tree: Path) -> None:
    """The files under version control (or all, outside a checkout), newer ones only."""
    listed = run("git", "-C", source, "ls-files", "--cached", "--others", "--exclude-standard").stdout.splitlines()
    for name in listed:
        if not (source / name).is_file():
            continue
        target = tree / name
        text = (source / name).read_bytes()
        if not target.exists() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)


def build(tree: Path) -> str:
    """Empty if the program builds, else the compiler's words."""
    binary = tree / "build"
    if not (binary / "build.ninja").exists():
        made = run("cmake", "-S", tree, "-B", binary, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        if made.returncode:
            return made.stdout + made.stderr
    made = run("cmake", "--build", binary, "--target", "octet_cli", "-j", os.cpu_count() or 1)
    return made.stdout + made.stderr if made.returncode else ""


def judge(tree: Path, vectors: Path, pattern: str) -> tuple[bool, str]:
    """Whether every case of a pattern passes, and the first that does not."""
    script = tree / "tests" / "oracle" / "check_op.py"
    done = run("/usr/bin/python3", script, "--octet", tree / "build" / "bin" / "octet", vectors, pattern)
    first = next((line for line in done.stdout.splitlines() if line.startswith("FAIL")), done.stdout.strip()[-200:])
    return done.returncode == 0, first


def main() -> int:
    source, vectors, work = (Path(p) for p in sys.argv[1:4])
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    tree = work / "tree"
    table = [m for m in json.loads((source / "tests/mutation/mutations.json").read_text()) if only in m["operation"]]
    copy_tree(source, tree)
    if words := build(tree):
        print(words)
        return 1
    for pattern in sorted({m["cases"] for m in table}):
        passed, first = judge(tree, vectors, pattern)
        if not passed:
            print(f"without a mutation, {pattern}: {first}")
            return 1
    caught = 0
    for m in table:
        path = tree / m["file"]
        text = path.read_text()
        if text.count(m["find"]) != 1:
            print(f"MISSED {m['operation']}: {m['file']} holds {m['find']!r} {text.count(m['find'])} times, want once")
            continue
        path.write_text(text.replace(m["find"], m["replace"]))
        words = build(tree)
        passed, first = (True, words[-400:]) if words else judge(tree, vectors, m["cases"])
        path.write_text(text)
        caught += not passed
        print(f"{'MISSED' if passed else 'caught'} {m['operation']}: {m['find']} -> {m['replace']}: {first}", flush=True)
    print(f"{caught} passed, {len(table) - caught} failed")
    return 0 if table and caught == len(table) else 1


if __name__ == "__main__":
    sys.exit(main())
