#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lmcache.sh -- LMCache, the real one, built for CPUs, with our adapters of kvrail.lmcache.
. "$(dirname "$0")/lib.bash"
plan 1
venv lmcache tests/engines/lmcache.txt || skip_all 1 "$why"
check "LMCache can be imported" "$python" -c 'import lmcache'
finish
