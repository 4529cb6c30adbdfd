#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a suite's simulator tests on mutants of its kernels' PTX, one change each, and require every mutant to be caught or explained.

    replay.py SUITE.json WORK_DIR [--jobs N] [--only NAMES] [--pattern PATTERN] [--results RESULTS.json]

SUITE.json (written by CMake): `mutate` (the program ptx_mutate), `ptx` (every file of kernels), `mutated` (parts of the names of
those whose kernels are mutated), `kernels` (a pattern of their names), `names` (patterns of mutants: without them all), `tests` (commands, which take the files as arguments and in
OCTET_PTX), `times` (values of OCTET_SIM), `environment`, `maps` (whether the tests' tensor maps are mutated: OCTET_SIM_MAP),
`explained` (a file), `seeds` (how many more of each mode the kernels as they are run with). A command that ends with 0 and says nothing
of the ordering checker that it does not say of the kernels as they are has not noticed. What it says is told apart by its instructions,
not by its warps; what names an instruction that the mutant has altered does not count. Each time is run until a mutant is caught in it.

The explained file: a list of {"mutants": [patterns], "why"}. A mutant that nothing catches must be one of them; an explanation whose
mutant is caught, or is no more, is stale. --only: a file of names, each of which must be caught; --pattern: of names, nothing is stale.
The last line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

MEMORY_BYTES = 6 << 30
SECONDS = 2  # of a core, that a mutant may take; or ten times what the kernels as they are do


class Failed(Exception):
    pass


def judge(code: int, text: str) -> str:
    """How a run that was not right was noticed."""
    if code in (-24, -9, -6, -11):  # SIGXCPU, SIGKILL, SIGABRT, SIGSEGV
        return "endless" if code in (-24, -9) else "crash"
    if "nothing can go on" in text or "has not ended" in text:
        return "hang"
    found = re.search(r"line \d+, column \d+: .*", text)
    if not found:
        return "order" if "simulator: order" in text else "value"
    if not re.search(r"\(block \d+", found[0]):
        return "decode"
    return "order" if ": order: " in found[0] else "rule"


class Suite:
    def __init__(self, path: Path, work: Path):
        data = json.loads(path.read_text())
        self.name, self.times, self.tests = path.stem, data["times"], data["tests"]
        self.mutate, self.ptx, self.work = data["mutate"], data["ptx"], work
        self.environment = data.get("environment", {})
        self.maps = data.get("maps", False)
        self.explained = json.loads(Path(data["explained"]).read_text())
        self.sources = [p for p in self.ptx if any(part in Path(p).name for part in data["mutated"])]
        self.kernels, self.names = data.get("kernels", "*"), data.get("names") or ["*"]
        self.seeds = data.get("seeds", 0)
        self.least_seconds = self.seconds = data.get("seconds", SECONDS)
        self.known: set[str] = set()  # reports of the ordering checker about the kernels as they are
        self.text = ""  # these kernels

    def mutants(self) -> list[dict]:
        """name, kind, where, text and file (none: a tensor map's) of each."""
        found = []
        for source in self.sources:
            listed = subprocess.run([self.mutate, source], capture_output=True, text=True, check=True).stdout
            for line in listed.splitlines():
                name, kind, where, text = line.split("\t")
                if fnmatchcase(name.split("/")[0], self.kernels) and any(fnmatchcase(name, p) for p in self.names):
                    found.append({"name": name, "kind": kind, "where": where, "text": text, "file": source})
        for line in self.map_lines() if self.maps else []:
            name, change = line.rsplit("/", 1)
            found.append({"name": line, "kind": "tensor map", "where": "", "text": name, "change": change})
        if len({m["name"] for m in found}) != len(found):
            raise Failed("two mutants have one name")
        return found

    def map_lines(self) -> list[str]:
        """What the tests' stand-in for the driver says that it can change."""
        lines = []
        for test in self.tests:
            text = self.run(test, self.ptx, self.times[0], {"OCTET_SIM_MAP": "list"})[1]
            lines += [line[5:] for line in text.splitlines() if line.startswith("map: ")]
        return list(dict.fromkeys(lines))

    def run(self, test: list[str], files: list[str], time: str, extra: dict[str, str]) -> tuple[int, str]:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        environment = {**os.environ, **self.environment, **extra, "OCTET_SIM": time, "OCTET_PTX": ":".join(files)}
        done = subprocess.run([*test, *files], capture_output=True, text=True, errors="replace", env=environment,
                              preexec_fn=limit, check=False)
        return done.returncode, done.stdout + done.stderr

    @staticmethod
    def reports(text: str) -> set[str]:
        """The ordering checker's, without counts, lines and warps, which a mutant moves."""
        lines = (line for line in text.splitlines() if line.startswith("simulator: ") and " x line " in line)
        return {re.sub(r"(line|warp) \d+", r"\1", re.sub(r"^simulator: \d+ x ", "", line)) for line in lines}

    def is_of_kernels(self, report: str) -> bool:
        """Whether the instructions that it names are those of the kernels as they are."""
        return all(instruction in self.text for instruction in re.findall(r"'([a-z][^']*;)'", report))

    def verdict(self, test: list[str], files: list[str], time: str, extra: dict[str, str]) -> tuple[str, str]:
        """How a run shows that something is wrong, and its words; empty: it does not."""
        code, text = self.run(test, files, time, extra)
        if code:
            lines = [line for line in text.splitlines() if "line " in line or "Failure" in line or "nothing can" in line]
            return judge(code, text), (lines or text.splitlines() or [""])[0][:300]
        new = sorted(filter(self.is_of_kernels, self.reports(text) - self.known))
        return ("order", new[0]) if new else ("", "")

    def begin(self) -> None:
        """The kernels as they are, printed by ptx_mutate: they pass in every time."""
        files = self.replaced({source: None for source in self.sources}, self.work)
        self.text = "".join(Path(file).read_text() for file in files)
        more = [f"{mode} {100 + seed}" for mode in {time.split()[0] for time in self.times} for seed in range(self.seeds)]
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        longest = 0.0
        for time in [*self.times, *more]:
            for test in self.tests:
                self.seconds = 600
                code, text = self.run(test, files, time, {})
                now = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                longest, used = max(longest, now - used), now
                if code:
                    raise Failed(f"without a mutation, OCTET_SIM '{time}': {judge(code, text)}\n{text[-2000:]}")
                self.known |= self.reports(text)
        self.seconds = max(self.least_seconds, int(10 * longest) + 1)

    def replaced(self, mutants: dict[str, str | None], folder: Path) -> list[str]:
        """The suite's files with some of them mutated."""
        files = []
        for at, path in enumerate(self.ptx):
            if path in mutants:
                out = folder / f"{at}.ptx"
                name = mutants[path]
                subprocess.run([self.mutate, path, out, *([name] if name else [])], check=True)
                path = str(out)
            files.append(path)
        return files

    def replay(self, mutant: dict) -> dict:
        """With `caught`: for each time (eager, random, late) how, and `words` of the first."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            source = mutant.get("file")
            files = self.replaced({source: mutant["name"]}, Path(folder)) if source else self.ptx
            extra = {} if source else {"OCTET_SIM_MAP": mutant["name"]}
            caught, words = {}, ""
            for time in self.times:
                mode = time.split()[0]
                for test in self.tests:
                    if caught.get(mode):
                        break
                    caught[mode], said = self.verdict(test, files, time, extra)
                    words = words or said
        return {**mutant, "file": Path(source).name if source else "", "caught": caught, "words": words}


def why(suite: Suite, name: str) -> str | None:
    return next((e["why"] for e in suite.explained if any(fnmatchcase(name, p) for p in e["mutants"])), None)


def wrong_with(suite: Suite, result: dict, must_be_caught: bool) -> str | None:
    is_caught = any(result["caught"].values())
    reason = why(suite, result["name"])
    if is_caught:
        return f"explained, but caught: {result['words']}" if reason else None
    if must_be_caught:
        return "not caught"
    return None if reason else "not caught, and nothing explains it"


def stale(suite: Suite, results: list[dict]) -> list[str]:
    names = [r["name"] for r in results]
    return [p for e in suite.explained for p in e["mutants"] if not any(fnmatchcase(n, p) for n in names)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--pattern", default="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=Path)
    parser.add_argument("--results", type=Path)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    try:
        suite = Suite(args.suite, args.work)
        if args.only:  # each is caught by more than a report that some order of events has anyhow
            suite.seeds = 0
        suite.begin()
        mutants = suite.mutants()
        if args.only:
            names = [line for line in args.only.read_text().splitlines() if line and not line.startswith("#")]
            if missing := set(names) - {m["name"] for m in mutants}:
                raise Failed("no such mutants: " + ", ".join(sorted(missing)))
            mutants = [m for m in mutants if m["name"] in names]
        mutants = [m for m in mutants if fnmatchcase(m["name"], args.pattern)]
    except Failed as failure:
        print(failure)
        return 1
    failed, results = 0, []
    with ThreadPoolExecutor(args.jobs) as pool:
        for result in pool.map(suite.replay, mutants):
            results.append(result)
            how = ", ".join(f"{mode} {by}" for mode, by in result["caught"].items() if by) or "not caught"
            wrong = wrong_with(suite, result, args.only is not None)
            failed += wrong is not None
            print(f"{'FAIL' if wrong else 'ok  '} {result['name']}: {wrong or how}", flush=True)
    if not args.only and args.pattern == "*":
        for pattern in stale(suite, results):
            failed += 1
            print(f"FAIL explained, but there is no such mutant: {pattern}")
    if args.results:
        args.results.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{len(results) - failed} passed, {failed} failed")
    return 0 if results and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
