#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints where nvcc is; where there is none, brings NVIDIA's compiler from PyPI into build/nvcc first.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_nvcc
