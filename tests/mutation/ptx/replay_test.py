#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""replay.py must fail where a mutant is not caught or wrongly explained: on a suite whose mutator and test are two lines of Python.

    replay_test.py WORK_DIR

A module is a line "K: good"; its mutants replace the word. The test ends with 1 for "bad", never for "slow", and with 0 otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MUTATE = """#!/usr/bin/env python3
import sys
names = ["K/f/op#1/bad", "K/f/op#2/same", "K/f/op#3/hidden", "K/f/op#4/slow"]
if len(sys.argv) == 2:
    for name in names: print(name, "wait", "a.cu:1", "op;", sep="\\t")
else:
    text = open(sys.argv[1]).read()
    open(sys.argv[2], "w").write("K: " + sys.argv[3].split("/")[-1] if len(sys.argv) == 4 else text)
"""
TEST = """#!/usr/bin/env python3
import os, sys
text = open(sys.argv[1]).read()
while "slow" in text: pass
if "hidden" in text and os.environ["OCTET_SIM"] == "late 2": sys.exit("line 3, column 4: 'op;': order: shared byte 0 (block 0)")
sys.exit("bad" in text)
"""


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def main() -> int:
    work = Path(sys.argv[1])
    work.mkdir(parents=True, exist_ok=True)
    (work / "k.ptx").write_text("K: good\n")
    suite = {"mutate": script(work / "mutate.py", MUTATE), "ptx": [str(work / "k.ptx")], "mutated": ["k"],
             "tests": [[script(work / "test.py", TEST)]], "times": ["eager 1", "late 1", "late 2"],
             "seconds": 1, "explained": str(work / "explained.json")}
    replay = Path(__file__).with_name("replay.py")
    wrong = 0

    def expect(what: str, code: int, said: str, explained: list[dict], *options: str, ptx: str = "K: good\n") -> None:
        nonlocal wrong
        (work / "k.ptx").write_text(ptx)
        (work / "suite.json").write_text(json.dumps(suite))
        (work / "explained.json").write_text(json.dumps(explained))
        done = subprocess.run(["/usr/bin/python3", replay, work / "suite.json", work / "out", "--jobs", "2", *options],
                              capture_output=True, text=True, check=False)
        is_right = done.returncode == code and said in done.stdout
        wrong += not is_right
        print(f"{'ok  ' if is_right else 'FAIL'} {what}" + ("" if is_right else f"\n{done.stdout}{done.stderr}"))

    same = {"mutants": ["K/f/op#2/same"], "why": "it is the same"}
    expect("each caught or explained, what never ends among them", 0, "op#4/slow: eager endless, late endless\n4 passed, 0 failed", [same])
    expect("the time that it is caught in", 0, "op#3/hidden: late order", [], "--pattern", "K/f/op#3/*")
    expect("one neither caught nor explained", 1, "op#2/same: not caught, and nothing explains it", [], "--pattern", "K/f/op#[123]/*")
    expect("one explained and caught", 1, "op#1/bad: explained, but caught", [same, {"mutants": ["K/f/op#1/*"], "why": "?"}],
           "--pattern", "*bad")
    expect("an explanation of nothing", 1, "no such mutant: K/f/op#9/x", [same, {"mutants": ["K/f/op#9/x"], "why": "?"}])
    expect("kernels that fail as they are", 1, "without a mutation", [same], ptx="K: bad\n")
    (work / "only.txt").write_text("K/f/op#2/same\n")
    expect("an explained one in CI's list", 1, "not caught", [same], "--only", str(work / "only.txt"))
    (work / "only.txt").write_text("K/f/op#7/gone\n")
    expect("a name in CI's list that is no more", 1, "no such mutants", [same], "--only", str(work / "only.txt"))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
