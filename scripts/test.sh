#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds, passes the tests. CI runs it with --cuda, and nothing else.
#
#   scripts/test.sh               format; g++ without a warning, each header alone; where nvcc is, every CUDA file, too; clang without
#                                 a warning, the tests under its sanitizers, 75 s of fuzzing; the tests, with nvcc also the kernels'
#   scripts/test.sh --cuda        the same, with nvcc from PyPI in build/nvcc where there is none
#   scripts/test.sh --quick       the g++ build and its tests alone
#   scripts/test.sh --mutations   as --quick, and each mutation of tests/mutation: a build and some cases each; where nvcc is, each of
#                                 the simulated kernels' PTX
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

quick=
cuda=
mutations=
for arg in "$@"; do
  case $arg in
    --cuda) cuda=1 ;;
    --quick) quick=1 ;;
    --mutations) quick=1 mutations=1 ;;
    -h | --help) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: no option '$arg', want --cuda, --quick or --mutations" >&2; exit 2 ;;
  esac
done
jobs=$(nproc)
started=$SECONDS
step() { say "$1  (minute $(((SECONDS - started) / 60)))"; }

# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES $TEST_PACKAGES
if [ -z "$quick" ]; then
  # shellcheck disable=SC2086
  need_packages $LINT_PACKAGES
  step "format"
  git ls-files '*.h' '*.hpp' '*.cc' '*.c' '*.cu' '*.cuh' | xargs clang-format-14 --dry-run --Werror
fi

nvcc=
if [ -z "$quick" ]; then
  nvcc=$(find_nvcc)
  [ -z "$cuda" ] || nvcc=$(need_nvcc)
fi
preset=cpu with=(-DCMAKE_CXX_COMPILER=g++ -DCMAKE_C_COMPILER=gcc)
[ -z "$nvcc" ] || preset=cuda with+=("-DCMAKE_CUDA_COMPILER=$nvcc")

step "build with g++${nvcc:+, every CUDA file with $nvcc}"
cmake --preset "$preset" "${with[@]}" >build.log 2>&1 || { cat build.log; exit 1; }
rm build.log
cmake --build --preset "$preset" -j "$jobs"
cmake --build --preset "$preset" -j "$jobs" --target all_verify_interface_header_sets

if [ -z "$quick" ]; then
  step "build with clang and both sanitizers"
  configure_clang
  cmake --build build/clang -j "$jobs"
  step "tests under the sanitizers"
  ctest --test-dir build/clang -j "$jobs" --output-on-failure --no-tests=error --label-exclude 'needs_gpu|nightly' \
    >build/clang/ctest.log || { grep -v -e ' Passed ' -e '^ *Start ' build/clang/ctest.log; exit 1; }
  tail -n 2 build/clang/ctest.log
  step "fuzz"
  scripts/fuzz.sh "${OCTET_FUZZ_SECONDS:-15}"
fi

step "tests"
ctest --preset "$preset" -j "$jobs"
[ -n "$mutations" ] || exit 0

step "mutations"
ctest --preset mutations
nvcc=$(find_nvcc)
[ -n "$nvcc" ] || exit 0
step "mutations of the kernels' PTX"
cmake --preset cuda -DCMAKE_CUDA_COMPILER="$nvcc" >/dev/null
cmake --build --preset cuda -j "$jobs" --target octet_cuda_all
ctest --preset nightly -R '^mutation[.]every_ptx'
