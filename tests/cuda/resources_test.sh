#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# resources_test.sh BUILD [--update]: what each kernel takes of a processor, as ptxas said when it compiled BUILD's objects, is what
# resources.txt says, or fewer registers; and no kernel spills. Static shared memory; what a launch adds is in docs/kernels.
set -euo pipefail
table="$(dirname "$0")/resources.txt"
measured=$(mktemp)
trap 'rm -f "$measured"' EXIT

find "$1" -name '*.ptxas' -path '*/src/*' -print0 | xargs -0 --no-run-if-empty cat | awk '
  /Compiling entry function/ { split($0, part, "\x27"); name = part[2]; arch = part[4] }
  /bytes stack frame/ && name != "" { stack = $1; spilled = $5 + $9 }
  /Used [0-9]+ registers/ && name != "" {
    shared = 0
    for (i = 1; i <= NF; ++i) {
      if ($i == "registers,") registers = $(i - 1)
      if ($i ~ /^smem,?$/) shared = $(i - 2)
    }
    print name, arch, registers, shared, stack, spilled
    name = ""
  }' | c++filt | sed -e 's/([^)]*)$//; s/(anonymous namespace):://g; s/octet:://g; s/^void //; s/([^()]*) \(sm_\)/ \1/' | LC_ALL=C sort -u >"$measured"

[ -s "$measured" ] || { echo "no kernel of $1/src said what it takes: build octet_cuda_all" >&2; exit 1; }
awk '$NF != 0 { print "spills: " $0; bad = 1 } END { exit bad }' "$measured" >&2
if [ "${2:-}" = --update ]; then
  { sed -n '/^#/p' "$table"; cat "$measured"; } >"$table.new"
  mv "$table.new" "$table"
else
  # The numbers are the last four words; a kernel's name may have spaces.
  awk '
    /^#/ { next }
    { key = $1; for (i = 2; i <= NF - 4; ++i) key = key " " $i }
    FNR == NR { most[key] = $(NF - 3); shared[key] = $(NF - 2); next }
    { seen[key] = 1 }
    !(key in most) { print "not in resources.txt: " $0; bad = 1; next }
    $(NF - 3) > most[key] { print key ": " $(NF - 3) " registers, want at most " most[key]; bad = 1 }
    $(NF - 2) != shared[key] { print key ": " $(NF - 2) " bytes of shared memory, want " shared[key]; bad = 1 }
    END { for (key in most) if (!(key in seen)) { print "not built: " key; bad = 1 } exit bad }
  ' "$table" "$measured" >&2
fi
