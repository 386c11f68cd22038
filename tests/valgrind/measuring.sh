#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# measuring.sh -- what kv-bench itself costs a GET that it measures: at most 2 % of the instructions of both sides from 64 KiB on, and of the few that a GET of
# 4 KiB takes at most 4.5 %.
. "$(dirname "$0")/../integration/lib.bash"
plan 2
command -v valgrind >/dev/null && [ -e "$build/tests/valgrind/uring.so" ] || skip_all 2 "valgrind is not installed"
check "at most 2 % of the instructions of a GET of 64 KiB" timeout 400 tests/bench/instructions.py --limit 2 64KB
check "at most 4.5 % of one of 4 KiB" timeout 400 tests/bench/instructions.py --limit 4.5 4KB
finish
