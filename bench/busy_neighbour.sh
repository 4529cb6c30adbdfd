#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How a layer slows beside programs that take its processors: octet bench alone and with 1 ... all processors taken by a busy
# loop each, and pinned to one processor with as many threads as there are processors.
#
#   bench/busy_neighbour.sh OCTET [NAME] [ROUNDS]   OCTET the program; NAME the device in the result's file name (default: from
#                                                   octet bench); ROUNDS (default 3) of all cases in turn, of which each case
#                                                   keeps the one with the lowest median: other load only slows
#
# Prints a table and writes bench/results/DATE-NAME-busy-neighbour.json. `fair`: what a case takes if everybody on a processor
# gets the same share of it and each thread keeps its part of the work. Exit 1 where a median is 5 times the one alone.
set -euo pipefail
case ${1:-} in
  -h | --help | '') sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
octet=$(realpath "$1")
name=${2:-}
rounds=${3:-3}
case $rounds in
  *[!0-9]* | '' | 0) echo "busy_neighbour.sh: rounds '$rounds', want a whole number above 0" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."

# The processors that this process may use, one a line.
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
threads=${#cpus[@]}
words=(bench --shape v4.1-tp4 --experts 96 --weights mxfp4 --activations bf16 --rows "1,2,4,8")
folder=$(mktemp -d)
loops=()
stop_loops() {
  [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null || true
  loops=()
}
trap 'stop_loops; rm -rf "$folder"' EXIT

# measure FILE NUM_BUSY COMMAND...: the command's report, beside that many busy loops on the first processors.
measure() {
  local file=$1 busy=$2
  shift 2
  for cpu in "${cpus[@]:0:busy}"; do
    taskset -c "$cpu" bash -c 'while :; do :; done' &
    loops+=($!)
  done
  "$@" --json >"$folder/$file.json" 2>/dev/null
  stop_loops
  wait 2>/dev/null || true
}

for ((round = 0; round < rounds; ++round)); do
  for ((busy = 0; busy <= threads; ++busy)); do
    measure "busy-$busy-$round" "$busy" "$octet" "${words[@]}" --threads "$threads"
  done
  measure "pinned-1-$round" 0 taskset -c "${cpus[0]}" "$octet" "${words[@]}" --threads 1
  measure "pinned-$threads-$round" 0 taskset -c "${cpus[0]}" "$octet" "${words[@]}" --threads "$threads"
done

FOLDER=$folder NAME=$name THREADS=$threads ROUNDS=$rounds COMMAND="octet ${words[*]}" python3 - <<'END'
import glob, json, os, re, sys

folder, threads = os.environ["FOLDER"], int(os.environ["THREADS"])
FIELDS = ("min_us", "median_us", "p99_us", "repeats")


def best(case):
    """Of each number of rows the round with the lowest median, and a report's head."""
    rows, head = {}, None
    for path in sorted(glob.glob(f"{folder}/{case}-*.json")):
        head = json.load(open(path))
        for r in head["results"]:
            if r["rows"] not in rows or r["median_us"] < rows[r["rows"]]["median_us"]:
                rows[r["rows"]] = r
    return rows, head


def results(cases, base, labels):
    out = []
    for case, label in zip(cases, labels):
        for rows, r in best(case)[0].items():
            out.append({"rows": rows, **label, **{k: r[k] for k in FIELDS},
                        "ratio": r["median_us"] / base[rows]["median_us"]})
    return sorted(out, key=lambda r: r["rows"])


alone, head = best("busy-0")
busy = results([f"busy-{b}" for b in range(threads + 1)], alone,
               [{"busy": b, "fair": 2.0 if b else 1.0} for b in range(threads + 1)])
one, _ = best("pinned-1")
counts = sorted({1, threads})
pinned = results([f"pinned-{n}" for n in counts], one, [{"threads": n, "cpus": 1} for n in counts])

print(f"{'rows':>4} {'busy':>4} {'min us':>9} {'median us':>9} {'p99 us':>9} {'of alone':>8} {'fair':>5}")
for r in busy:
    print(f"{r['rows']:4} {r['busy']:4} {r['min_us']:9.0f} {r['median_us']:9.0f} {r['p99_us']:9.0f} {r['ratio']:8.2f} {r['fair']:5.1f}")
print(f"\n{'rows':>4} {'threads on one processor':>24} {'median us':>9} {'of one thread':>13}")
for r in pinned:
    print(f"{r['rows']:4} {r['threads']:24} {r['median_us']:9.0f} {r['ratio']:13.2f}")

report = {"what": "busy_neighbour", "device": head["device"], "clock_mhz": head["clock_mhz"], "threads": threads,
          "rounds": int(os.environ["ROUNDS"]), "git": head["git"], "date": head["date"],
          "kernel": head["results"][0]["kernel"], "command": os.environ["COMMAND"], "results": busy, "pinned": pinned}
name = os.environ["NAME"] or re.sub("[^a-z0-9]+", "-", head["device"].lower()) + f"-{threads}t"
path = f"bench/results/{head['date'][:10]}-{name}-busy-neighbour.json"
with open(path, "w") as file:
    json.dump(report, file, indent=1)
    file.write("\n")
print(f"\nwritten {path}")
slow = [r for r in busy if r["ratio"] >= 5]
sys.exit(f"{slow[0]['rows']} rows, {slow[0]['busy']} busy: {slow[0]['ratio']:.1f} times, want below 5" if slow else 0)
END
