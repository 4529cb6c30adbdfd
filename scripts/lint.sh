#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over every source of the library and the program, by the list in .clang-tidy. Some twenty minutes on 2 cores.
#
#   scripts/lint.sh [PATTERN]      of the files whose path holds PATTERN
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES $LINT_PACKAGES
# Nothing is built: without precompiled headers clang-tidy needs the commands alone.
cmake -S . -B build/lint -G Ninja -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
run-clang-tidy-14 -quiet -j "$(nproc)" -p build/lint "^$PWD/(src|ptxsim|tools)/.*${1:-}.*\.cc$" >build/lint/clang-tidy.log 2>&1 ||
  { grep -E 'error|warning:' build/lint/clang-tidy.log; exit 1; }
