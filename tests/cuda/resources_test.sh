#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# resources_test.sh BUILD [--update]: each kernel takes at most what resources.txt says, as ptxas said when it compiled BUILD's objects,
# the most of a kernel's variants; and none spills. Static shared memory; what a launch adds is in docs/kernels.
set -euo pipefail
table="$(dirname "$0")/resources.txt"
measured=$(mktemp)
trap 'rm -f "$measured"' EXIT

# Of objects that there are.
mapfile -t said < <(find "$1" -name '*.ptxas' -path '*/src/*' | while read -r file; do [ ! -e "${file%.ptxas}" ] || echo "$file"; done)
[ ${#said[@]} -gt 0 ] || { echo "no kernel of $1/src said what it takes: build octet_cuda_all" >&2; exit 1; }
# Remarks such as "(C7510) Potential Performance Loss".
if grep -H '(C[0-9]*)' "${said[@]}" >&2; then exit 1; fi
awk 'NF != 0 && !/^#/ && !/^[^ ]+ sm_[0-9a-z]+ [0-9]+ [0-9]+ [0-9]+ [0-9]+$/ { print "resources.txt: " $0 ", want kernel, architecture, four numbers"; bad = 1 }
  END { exit bad }' "$table" >&2

cat "${said[@]}" | awk '
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
  }' | c++filt | sed -e 's/(anonymous namespace):://g; :again; s/<[^<>]*>//; t again; s/([^()]*) \(sm_\)/ \1/; s/^void //; s/octet:://g' | awk '
  { key = $1 " " $2; for (i = 3; i <= 6; ++i) if (!((key, i) in most) || $i > most[key, i]) most[key, i] = $i; keys[key] = 1 }
  END { for (key in keys) print key, most[key, 3], most[key, 4], most[key, 5], most[key, 6] }' | LC_ALL=C sort >"$measured"

awk '$NF != 0 { print "spills: " $0; bad = 1 } END { exit bad }' "$measured" >&2
if [ "${2:-}" = --update ]; then
  { sed -n '/^#/p' "$table"; cat "$measured"; } >"$table.new"
  mv "$table.new" "$table"
else
  awk '
    /^#/ || NF == 0 { next }
    { key = $1 " " $2 }
    FNR == NR { registers[key] = $3; shared[key] = $4; stack[key] = $5; next }
    { seen[key] = 1 }
    !(key in registers) { print "not in resources.txt: " $0; bad = 1; next }
    $3 > registers[key] { print key ": " $3 " registers, want at most " registers[key]; bad = 1 }
    $5 > stack[key] { print key ": stack of " $5 " bytes, want at most " stack[key]; bad = 1 }
    $4 > shared[key] { print key ": " $4 " bytes of shared memory, want at most " shared[key]; bad = 1 }
    END { for (key in registers) if (!(key in seen)) { print "not built: " key; bad = 1 } exit bad }
  ' "$table" "$measured" >&2
fi
