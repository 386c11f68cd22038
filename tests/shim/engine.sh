#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# engine.sh -- the engine's own tests on every imitated machine, each of which is asked for every promise. SHIM_QUICK=1: the short ones on a p5.
cd "$(dirname "$0")/../.." || exit 2
build=${KVRAIL_BUILD:-build/release}
rc=0
on() { KVRAIL_SHIM=$1 KVRAIL_TEST_PROVIDERS=$2 timeout -k 5 250 "$build/tests/shim/$3" || rc=1; }
if [ -n "${SHIM_QUICK:-}" ]; then
	on efa efa conform
	on efa efa-direct conform
	exit $rc
fi
for pair in efa:efa efa:efa-direct efa-p4d:efa verbs:verbs; do
	for program in conform process attach; do on "${pair%:*}" "${pair#*:}" $program; done
	# Queues of 16 entries that refuse every third post, and much kept back.
	on "${pair%:*},tx=16,rx=16,eagain=3,delay=3" "${pair#*:}" conform
done
# No RMA by the device at all; and completion queues that can be waited for.
on efa,rdma=0 efa conform
on efa,wait_fd=1 efa conform
on efa,wait_fd=1 efa attach
on efa,wait_fd=1 efa-direct attach
exit $rc
