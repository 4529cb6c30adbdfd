#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# octet beside ggml and ik_llama.cpp: builds all three, runs them in the same rounds, writes reports and a plot.
#
#   bench/baselines/run.sh --ggml PATH --ik PATH --out DIR [OPTIONS OF octet bench]
#
# PATH: their sources, folders or (bare) git repositories. DIR gets one report for each weight format and thread count,
# mxfp4-1t.json and so on, and peers.png. Default options: --shape v4.1-tp4 --experts 96 --activations bf16 --rows 1,2,4,6,8
# --repeats 40 --quiet-only; options given replace all of them but --weights, --threads and --json.
#
# OCTET: the program; default: build/release/bin/octet, built first. THREADS: default "1 2". PYTHON: default /usr/bin/python3.
# JOBS: as build.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/sources.sh"
take_sources "$@"
set -- "${rest[@]}"
if [ -z "$ggml" ] || [ -z "$ik" ] || [ -z "$out" ]; then fail "want --ggml PATH, --ik PATH and --out DIR" 2; fi
[ $# -gt 0 ] || set -- --shape v4.1-tp4 --experts 96 --activations bf16 --rows 1,2,4,6,8 --repeats 40 --quiet-only
# Debian's packages are Debian's Python's.
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import matplotlib' 2>/dev/null || fail "$python has no matplotlib, want Debian's python3-matplotlib"
mkdir -p "$out"
peers=$root/build/baselines

"$here/build.sh" --ggml "$ggml" --ik "$ik" --out "$peers"
if [ -z "${OCTET:-}" ]; then
  cmake -S "$root" -B "$root/build/release" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null
  cmake --build "$root/build/release" -j "${JOBS:-$(nproc)}" --target octet_cli
  OCTET=$root/build/release/bin/octet
fi

# The peers' threads (OpenMP's) each on a processor of its own: stopped and continued, the system else puts several on one.
export OMP_PROC_BIND=${OMP_PROC_BIND:-true} OMP_PLACES=${OMP_PLACES:-cores}

# Found there, so that reports name no folder of this machine.
export PATH=$peers:$PATH
ggml_name="ggml $(cat "$peers/ggml.revision")"
ik_name="ik_llama.cpp $(cat "$peers/ik.revision")"
reports=()
for threads in ${THREADS:-1 2}; do
  for weights in mxfp4 nvfp4; do
    report=$out/$weights-${threads}t.json
    case $weights in
      mxfp4) set -- "$@" --peer "$ggml_name repacked=ggml_peer repack" --peer "$ik_name R8=ik_peer r8" ;;
      nvfp4) set -- "$@" --peer "$ggml_name=ggml_peer plain" ;;
    esac
    echo "$report"
    "$OCTET" bench "$@" --weights "$weights" --threads "$threads" --json >"$report.new"
    mv "$report.new" "$report"
    reports+=("$report")
    # Takes this format's peers off again.
    case $weights in
      mxfp4) set -- "${@:1:$#-4}" ;;
      nvfp4) set -- "${@:1:$#-2}" ;;
    esac
  done
done
"$python" "$here/plot.py" "$out/peers.png" "${reports[@]}"
echo "$out/peers.png"
