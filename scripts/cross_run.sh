#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cross-run: the same PTX on a Hopper device and in the simulator, memory compared byte by byte (docs/ptxsim.md).
#
#   scripts/cross_run.sh REPORT.json            builds ptxsim_cross, runs its cases on the device and in the simulator, writes the report
#     --program FILE      this program instead of a build (REPORT.json beside it from where the script is called)
#     --tables FOLDER     the device's ex2.i8, rcp.i8 and sqrt.i8 for the approximations
#     --differing FILE    the device's bytes of the cases that differ
#   scripts/cross_run.sh --deepgemm FOLDER --cutlass FOLDER
#                                               needs no device: compiles the FP8 x FP4 kernel of this checkout of DeepGEMM to PTX with these
#                                               headers of CUTLASS, and says which of its instructions the simulator does not know
# Exit: 77 where there is no Hopper device, with a sentence.
set -euo pipefail
called_from=$PWD
cd "$(dirname "$0")/.."
. scripts/lib.sh

program= report= deepgemm= cutlass=
options=() kept=()
from_caller() { case $1 in /*) echo "$1" ;; *) echo "$called_from/$1" ;; esac; }
while [ $# -gt 0 ]; do
  case $1 in
    --program) program=$(from_caller "$2"); shift ;;
    --tables) options=(--tables "$(from_caller "$2")"); shift ;;
    --differing) kept=(--differing "$(from_caller "$2")"); shift ;;
    --deepgemm) deepgemm=$(from_caller "$2"); shift ;;
    --cutlass) cutlass=$(from_caller "$2"); shift ;;
    -h | --help) sed -n '3,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "cross_run.sh: no option '$1'" >&2; exit 2 ;;
    *) report=$(from_caller "$1") ;;
  esac
  shift
done

build() {
  local nvcc
  # shellcheck disable=SC2086
  need_packages $BUILD_PACKAGES $TEST_PACKAGES
  nvcc=$(need_nvcc)
  cmake -S . -B build/cross -G Ninja -DCMAKE_BUILD_TYPE=Release -DOCTET_TESTS=ON -DOCTET_SM90=ON -DCMAKE_CUDA_COMPILER="$nvcc" >/dev/null
  cmake --build build/cross --target ptxsim_cross
  program=$PWD/build/cross/bin/ptxsim_cross
}

# One instance of the kernel: E4M3 activations, E2M1 weights unpacked by the copies, 128 x 128 x 128 blocks.
deepgemm_ptx() {
  cat >"$1/kernel.cu" <<'KERNEL'
#include <deep_gemm/impls/sm100_fp8_fp4_gemm_1d1d.cuh>
using namespace deep_gemm;
void* instantiate() {
  return reinterpret_cast<void*>(&sm100_fp8_fp4_gemm_1d1d_impl<
      cute::UMMA::Major::K, cute::UMMA::Major::K, 32, 32, 128, 0, 4096, 7168, 128, 128, 128, 1, 128, 128, 128, 4, 128, 128, 1, false, 132,
      false, false, GemmType::Normal, false, cutlass::float_e4m3_t, cutlass::detail::float_e2m1_unpacksmem_t, cutlass::bfloat16_t,
      epilogue::transform::EpilogueIdentity>);
}
KERNEL
  "$(need_nvcc)" -std=c++20 -arch=sm_100a --expt-relaxed-constexpr --expt-extended-lambda -diag-suppress 39,161,174,177,186,940 \
    -I"$deepgemm/deep_gemm/include" -I"$cutlass/include" -ptx "$1/kernel.cu" -o "$1/kernel.ptx"
}

[ -n "$program" ] || build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$deepgemm" ]; then
  if [ ! -e "$deepgemm/deep_gemm/include/deep_gemm/impls/sm100_fp8_fp4_gemm_1d1d.cuh" ] || [ ! -d "$cutlass/include/cute" ]; then
    echo "cross_run.sh: DeepGEMM's FP8 x FP4 kernel or CUTLASS's headers are not there: nothing is said of them" >&2
    exit 1
  fi
  deepgemm_ptx "$work"
  "$program" reads "$work/kernel.ptx"
  exit
fi
[ -n "$report" ] || { echo "cross_run.sh: want a REPORT.json to write" >&2; exit 2; }
"$program" device "$work/outcomes"
"$program" --threads "$(nproc)" "${options[@]}" compare "$work/outcomes" "$report" --date "$(date +%F)" "${kept[@]}"
