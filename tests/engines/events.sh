#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# events.sh -- the events that kv-server publishes over ZeroMQ, read by a subscriber with vLLM's own structures
# (events_checks.py), in both formats.
. "$(dirname "$0")/lib.bash"

plan 1
venv events tests/engines/events.txt || skip_all 1 "$why"
check "events: the package kvrail can be installed" our_package
[ "$tap_failed" = 1 ] || timeout -k 10 300 "$python" -W ignore tests/engines/events_checks.py 2>&1 </dev/null || tap_failed=1
finish
