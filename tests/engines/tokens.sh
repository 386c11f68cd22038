#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tokens.sh -- small random models of transformers on kvrail.hf: the same tokens with and without it, in two processes.
# tokens_checks.py has the tests. The packages are 230 MB to download, with torch's build for CPUs.
. "$(dirname "$0")/lib.bash"
plan 1
venv tokens tests/engines/tokens.txt || skip_all 1 "$why"
check "tokens: the package kvrail can be installed" our_package
export OMP_NUM_THREADS=1 # bitwise equality needs the same threads
[ "$tap_failed" = 1 ] || timeout -k 10 900 "$python" -W ignore tests/engines/tokens_checks.py 2>&1 </dev/null || tap_failed=1
finish
