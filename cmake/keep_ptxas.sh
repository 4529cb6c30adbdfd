#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# keep_ptxas.sh OBJECT COMMAND...: compiles, and keeps what ptxas says of the kernels in OBJECT.ptxas (tests/cuda/resources_test.sh).
object=$1
shift
"$@" 2>"$object.stderr"
status=$?
grep '^ptxas info\|bytes stack frame' "$object.stderr" >"$object.ptxas"
grep -v '^ptxas info\|bytes stack frame\|^$' "$object.stderr" >&2
rm "$object.stderr"
exit $status
