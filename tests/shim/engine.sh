#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# engine.sh -- the engine's own tests on every imitated machine, each of which is asked for every promise. SHIM_QUICK=1: the short ones on a p5.
cd "$(dirname "$0")/../.." || exit 2
build=${KVRAIL_BUILD:-build/release}
pairs=(efa:efa efa:efa-direct efa-p4d:efa verbs:verbs)
programs=(conform process await)
if [ -n "${SHIM_QUICK:-}" ]; then
	pairs=(efa:efa efa:efa-direct) programs=(conform)
fi
rc=0
for pair in "${pairs[@]}"; do
	for program in "${programs[@]}"; do
		KVRAIL_SHIM=${pair%:*} KVRAIL_TEST_PROVIDERS=${pair#*:} timeout -k 5 250 "$build/tests/shim/$program" || rc=1
	done
	[ -z "${SHIM_QUICK:-}" ] || continue
	# Queues of 16 entries that refuse every third post, and much kept back.
	KVRAIL_SHIM=${pair%:*},tx=16,rx=16,eagain=3,delay=3 KVRAIL_TEST_PROVIDERS=${pair#*:} timeout -k 5 250 "$build/tests/shim/conform" || rc=1
done
exit $rc
