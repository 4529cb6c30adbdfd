#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the peers of `octet bench --peer` from their own sources, wherever you have them: folders or (bare) git repositories.
#
#   bench/baselines/build.sh [--ggml PATH] [--ik PATH] [--out DIR]
#
# --ggml  ggml-org/ggml              makes DIR/ggml_peer
# --ik    ikawrakow/ik_llama.cpp     makes DIR/ik_peer
# --out   where to build; default: build/baselines
#
# Their sources are copied to DIR and built there, for this machine's processor (GGML_NATIVE), without attention in ik_llama.cpp,
# which takes most of its time. Of a commit that DIR has already only the peer is linked again: remove DIR to build anew.
# JOBS: how many compilers at once, default: all cores.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/sources.sh"
take_sources "$@"
[ ${#rest[@]} -eq 0 ] || fail "no option '${rest[0]}', want --ggml, --ik or --out" 2
out=${out:-$here/../../build/baselines}
[ -n "$ggml$ik" ] || fail "no sources, want --ggml PATH or --ik PATH" 2
jobs=${JOBS:-$(nproc)}
cxx=${CXX:-c++}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# copy_sources FROM FOLDER TO: that folder of a work tree or of a repository's HEAD.
copy_sources() {
  local from=$1 folder=$2 to=$3
  [ -d "$from" ] || fail "$from: no such folder"
  rm -rf "$to"
  mkdir -p "$to"
  if [ -f "$from/$folder/CMakeLists.txt" ]; then
    tar -C "$from/$folder" --exclude=./.git --exclude=./build -c . | tar -C "$to" -x
  else
    git --git-dir="$from" rev-parse -q --verify HEAD >/dev/null 2>&1 ||
      fail "$from: found no $folder/CMakeLists.txt and no git repository, want either"
    # HEAD:FOLDER reads that tree alone: the rest of a partial clone may be absent.
    git --git-dir="$from" archive "HEAD:${folder#.}" | tar -C "$to" -x
  fi
  [ -f "$to/include/ggml.h" ] || fail "$from: found no include/ggml.h in $folder, want the sources of ggml"
}

# The commit, for the report; nothing for sources without one.
revision_of() {
  if [ -e "$1/.git" ] || [ -f "$1/HEAD" ]; then git -C "$1" rev-parse --short=8 HEAD; fi
}

# is_built SOURCES FILE: whether FILE names their commit.
is_built() {
  local revision
  revision=$(revision_of "$1")
  [ -n "$revision" ] && [ -f "$2" ] && [ "$(cat "$2")" = "$revision" ]
}

# build_ggml SOURCES BUILD FLAGS...
build_ggml() {
  local sources=$1 build=$2
  shift 2
  cmake -S "$sources" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
    -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF "$@" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
  cmake --build "$build" -j "$jobs" --target ggml >>"$build.log" 2>&1 || { tail -n 40 "$build.log" >&2; exit 1; }
}

# link NAME SOURCES LIBRARIES...
link() {
  local name=$1 sources=$2
  shift 2
  "$cxx" -std=c++20 -O2 -Wall -Wextra -isystem "$sources/include" -o "$out/$name" "$here/$name.cc" "$@" \
    -fopenmp -lpthread -ldl
  echo "$out/$name"
}

if [ -n "$ggml" ]; then
  if ! is_built "$ggml" "$out/ggml.revision"; then
    copy_sources "$ggml" . "$out/ggml"
    build_ggml "$out/ggml" "$out/ggml-build"
    revision_of "$ggml" >"$out/ggml.revision"
  fi
  libraries=$out/ggml-build/src
  link ggml_peer "$out/ggml" "$libraries/libggml.a" "$libraries/libggml-cpu.a" "$libraries/libggml-base.a"
fi
if [ -n "$ik" ]; then
  if ! is_built "$ik" "$out/ik.revision"; then
    copy_sources "$ik" ggml "$out/ik"
    # Its CMakeLists.txt names these as parts of the whole repository.
    [ -f "$out/ik/ggml.pc.in" ] || : >"$out/ik/ggml.pc.in"
    for folder in examples tests; do
      mkdir -p "$out/ik/$folder"
      [ -f "$out/ik/$folder/CMakeLists.txt" ] || : >"$out/ik/$folder/CMakeLists.txt"
    done
    build_ggml "$out/ik" "$out/ik-build" -DGGML_IQK_FLASH_ATTENTION=OFF -DCMAKE_CXX_STANDARD=20
    revision_of "$ik" >"$out/ik.revision"
  fi
  link ik_peer "$out/ik" "$out/ik-build/src/libggml.a"
fi
