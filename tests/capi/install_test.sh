#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the build, moves the tree, builds the examples against it as a user would, with CMake and with pkg-config, and runs them.
#   install_test.sh BUILD SOURCE WORK CHECKPOINT       environment: CC, CXX
set -eu
build=$1 source=$2 work=$3 checkpoint=$4
prefix=$work/moved

rm -rf "$work"
cmake --install "$build" --prefix "$work/first" > /dev/null
mv "$work/first" "$prefix"
libdir=$(dirname "$(find "$prefix" -name liboctet.so)")
test -n "$(find "$prefix/share/doc" -name LICENSE)"
"$prefix/bin/octet" list > /dev/null

echo "find_package"
cmake -G Ninja -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
cmake --build "$work/examples" > /dev/null
"$work/examples/decode_step_c" "$checkpoint"
"$work/examples/decode_step_cpp" "$checkpoint"

echo "pkg-config"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
"$CC" "$source/examples/c/decode_step.c" -o "$work/c" $(pkg-config --cflags --libs octet) -pthread
"$CXX" -std=c++20 "$source/examples/cpp/decode_step.cpp" -o "$work/cpp" $(pkg-config --cflags --libs octet)
export LD_LIBRARY_PATH="$libdir"
"$work/c" "$checkpoint"
"$work/cpp" "$checkpoint"
