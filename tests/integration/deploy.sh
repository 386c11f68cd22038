#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy.sh -- the manifests of deploy/kubernetes (scripts/check-deploy.py), and its seccomp profile around real programs.
. "$(dirname "$0")/lib.bash"
plan 4
profile=deploy/kubernetes/components/seccomp/kvrail.json

# The profile lets kv-server, kv-bench and their exits through, io_uring included, and stops what they never do.
# (LeakSanitizer wants ptrace, which programs do not.)
confined() { ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout -k 5 100 /usr/bin/python3 tests/integration/seccomp_run.py "$profile" "$@" >"$scratch/confined.out" 2>&1; }
confined true
if [ $? -eq 77 ] || ! [ -x /usr/bin/python3 ]; then
	for name in "kv-bench and its server run under the seccomp profile" "io_uring, too" "what they never do is refused"; do
		skip "$name" "python3-seccomp is not installed"
	done
else
	check "kv-bench and its server run under the seccomp profile" confined "$build/kv-bench" --num-keys 50 --quiet --log-level info
	check "and io_uring is not what they had to do without" sh -c "! grep -i 'io_uring' '$scratch/confined.out'"
	check "what they never do is refused" sh -c "! /usr/bin/python3 tests/integration/seccomp_run.py $profile unshare -U true"
fi
KVRAIL_BUILD=$build scripts/check-deploy.py >"$scratch/deploy.out"
rc=$?
check "scripts/check-deploy.py finds nothing" sh -c "cat '$scratch/deploy.out' >&2; exit $rc"
finish
