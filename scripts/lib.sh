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

# Where nvcc is, or nothing.
find_nvcc() {
  command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; } || true
}

# The clang build: every target without a warning, under both sanitizers, with libFuzzer's targets.
configure_clang() {
  cmake -S . -B build/clang -G Ninja -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
    -DOCTET_WERROR=ON -DOCTET_TESTS=ON -DOCTET_BENCH=ON -DOCTET_FUZZ=ON -DOCTET_SANITIZE=address,undefined >/dev/null
}
