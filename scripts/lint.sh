#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over every source of the library and the program, by the list in .clang-tidy. Some twenty minutes on 2 cores.
#
#   scripts/lint.sh [PATTERN]      of the files whose path holds PATTERN
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES $TEST_PACKAGES $LINT_PACKAGES
configure_clang
cmake --build build/clang -j "$(nproc)" --target octet_cli  # its precompiled header is read too
run-clang-tidy-14 -quiet -j "$(nproc)" -p build/clang "^$PWD/(src|tools)/.*${1:-}.*\.cc$" >build/clang-tidy.log 2>&1 ||
  { grep -E 'error|warning' build/clang-tidy.log; exit 1; }
