#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sglang.sh -- SGLang itself, its storage interface of HiCache, on kvrail.sglang and tensors of the CPU. sglang_hicache.py
# has the tests.
. "$(dirname "$0")/lib.bash"
plan 1
venv sglang tests/engines/sglang.txt || skip_all 1 "$why"
check "sglang: the package kvrail can be installed" our_package
[ "$tap_failed" = 1 ] || timeout -k 10 400 "$python" -W ignore tests/engines/sglang_hicache.py 2>&1 </dev/null || tap_failed=1
finish
