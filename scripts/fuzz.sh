#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every target with clang's libFuzzer, AddressSanitizer and UBSan; a crash, a leak or a hang is exit 1.
#
#   scripts/fuzz.sh SECONDS [TARGET...]     SECONDS for each target (15 if not given); all targets if none is named
#
# Inputs that reach new code stay in build/fuzz/corpus; what crashed is in build/fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
seconds=${1:-15}
case $seconds in
  -h | --help) sed -n '3,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *[!0-9]* | '') echo "fuzz.sh: seconds '$seconds', want a whole number" >&2; exit 2 ;;
esac
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(safetensors config packed op ptx)

configure_clang
cmake --build build/clang -j "$(nproc)" --target "${targets[@]/#/fuzz_}"

mkdir -p build/fuzz/artifacts
status=0
for target in "${targets[@]}"; do
  say "fuzz_$target, $seconds s"
  mkdir -p "build/fuzz/corpus/$target"
  log=build/fuzz/$target.log
  # The corpus folder that grows comes first; the fixed one is only read.
  if ! "build/clang/bin/fuzz_$target" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix=build/fuzz/artifacts/"$target"- \
    "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    status=1
    grep -E 'ERROR|SUMMARY|runtime error' "$log" || tail -20 "$log"
  fi
  awk -v target="$target" '/number_of_executed_units/ { printf "%s: %d executions\n", target, $2 }' "$log"
done
exit $status
