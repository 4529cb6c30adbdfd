# SPDX-License-Identifier: Apache-2.0
# What the scripts share: packages by name from Debian, one line a step. Sourced, not run.

# The one list of packages, by what they are for.
BUILD_PACKAGES="g++ cmake ninja-build pkg-config git libcli11-dev nlohmann-json3-dev libfmt-dev libxxhash-dev"
TEST_PACKAGES="libgtest-dev libbenchmark-dev python3-numpy qemu-user g++-aarch64-linux-gnu"
LINT_PACKAGES="clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev"

say() { printf '\n== %s\n' "$*" >&2; }

# Installs the packages of the list that are missing.
need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${missing[*]}"
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2
}

NVCC_PACKAGES="python3-pip"
# NVIDIA's compiler by name from PyPI: what nvcc needs to compile and link.
NVCC_WHEELS="nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*"
NVCC_FOLDER=build/nvcc

# Where nvcc is, or nothing.
find_nvcc() {
  local at
  for at in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$PWD/$NVCC_FOLDER/nvidia/cu13/bin/nvcc"; do
    [ -z "$at" ] || [ ! -x "$at" ] || { echo "$at"; return; }
  done
}

# The same; where there is none, NVIDIA's wheels come into build/nvcc first (270 MB). Beside the folder and then in its place, so that
# half of it is never found. Each step says whether it failed: callers take the output, and bash does not stop there by itself.
need_nvcc() {
  if [ -z "$(find_nvcc)" ]; then
    # shellcheck disable=SC2086
    need_packages $NVCC_PACKAGES || return 1
    say "bringing nvcc from PyPI into $NVCC_FOLDER"
    rm -rf "$NVCC_FOLDER.part" || return 1
    # shellcheck disable=SC2086
    /usr/bin/python3 -m pip install -q --no-deps --root-user-action=ignore --target "$NVCC_FOLDER.part" $NVCC_WHEELS >&2 || return 1
    # Where nvcc looks for what it links, and a name that CMake looks for.
    ln -s lib "$NVCC_FOLDER.part/nvidia/cu13/lib64" || return 1
    ln -s libcudart.so.13 "$NVCC_FOLDER.part/nvidia/cu13/lib/libcudart.so" || return 1
    rm -rf "$NVCC_FOLDER" || return 1
    mv "$NVCC_FOLDER.part" "$NVCC_FOLDER" || return 1
  fi
  find_nvcc | grep .
}

# The clang build: every target without a warning, under both sanitizers, with libFuzzer's targets.
configure_clang() {
  cmake -S . -B build/clang -G Ninja -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
    -DOCTET_WERROR=ON -DOCTET_TESTS=ON -DOCTET_BENCH=ON -DOCTET_FUZZ=ON -DOCTET_SANITIZE=address,undefined >/dev/null
}
