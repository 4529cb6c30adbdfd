#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs the main job: one DeepSeek-V4.1-Flash layer from a checkpoint's files to its output rows.
#
#   scripts/demo.sh                    makes a layer at true sizes (H 5120, I 2304, 64 of the 384 experts, 1.2 GB) and runs it
#   scripts/demo.sh MODEL [LAYER]      runs a layer of your checkpoint (layer 3 if none is named)
#
# 6 rows from x to y on rank 0 of 4, by the checkpoint's own gate; every element is checked against the float64 reference.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
case ${1:-} in
  -h | --help) sed -n '3,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES

say "building octet"
cmake -S . -B build/demo -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null
cmake --build build/demo -j "$(nproc)" --target octet_cli octet_shared
octet=build/demo/bin/octet

model=${1:-build/demo/deepseek-v4.1-flash}
layer=${2:-3}
if [ $# -eq 0 ]; then
  layer=0
  if [ ! -e "$model/config.json" ]; then
    say "making a DeepSeek-V4.1-Flash layer at true sizes in $model (1.2 GB)"
    "$octet" synth deepseek-v4.1-flash --experts 64 --output "$model"
  fi
fi

say "what the checkpoint holds"
"$octet" inspect "$model"

say "layer $layer, 6 rows, rank 0 of 4, against the float64 reference"
"$octet" check "$model" --layer "$layer" --rows 6 --tp 0/4
