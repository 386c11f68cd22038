#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# measuring.sh -- what kv-bench itself costs a GET that it measures: at most 2 % of the instructions of both sides.
. "$(dirname "$0")/../integration/lib.bash"
plan 1
command -v valgrind >/dev/null && [ -e "$build/tests/valgrind/uring.so" ] || skip_all 1 "valgrind is not installed"
check "at most 2 % of the instructions of a GET" timeout 800 tests/bench/instructions.py --limit 2 64KB
finish
