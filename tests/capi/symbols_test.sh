#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports what octet.h declares and nothing else, and the C test uses every one of them.
#   symbols_test.sh HEADER LIBRARY C_TEST
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n 's/^OCTET_API [a-z0-9_ ]*[ *]\{1,2\}\(octet_[a-z0-9_]*\)(.*/\1/p' "$1" | LC_ALL=C sort > "$work/declared"
nm -D --defined-only "$2" | awk '{print $3}' | LC_ALL=C sort > "$work/exported"
nm --undefined-only "$3" | awk '$2 ~ /^octet_/ {print $2}' | LC_ALL=C sort > "$work/called"

[ "$(grep -c '^OCTET_API' "$1")" -eq "$(wc -l < "$work/declared")" ] || { echo "a declaration of $1 was not understood"; exit 1; }
diff "$work/declared" "$work/exported" || { echo "< declared in octet.h, > exported by the library"; exit 1; }
diff "$work/declared" "$work/called" || { echo "< declared in octet.h, > called by the C test"; exit 1; }
echo "$(wc -l < "$work/declared") symbols"
