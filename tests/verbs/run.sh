#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh -- the suite on real verbs: boots a virtual machine (vm.sh) and runs guest.sh's scenarios in it. Speaks TAP.
#
# usage: run.sh [SCENARIO...]
#   KVRAIL_BUILD: where the programs are (default build/release). KVRAIL_VERBS_ACCEL=tcg or kvm: not what works.
# A guest that breaks (panic, hang) fails the scenario that it was in, and the next guest goes on with the others. What is missing on this host is
# one skipped test that says so.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${KVRAIL_BUILD:-build/release}
out=$(mktemp "${TMPDIR:-/tmp}/kvrail-verbs.XXXXXX") || exit 2
trap 'rm -f "$out"' EXIT
trap 'exit 130' INT TERM HUP
failed=0
# Under its real name: what lies in /tmp or /var/tmp is not there in the guest.
trace=$(readlink -e "${KVRAIL_TRACE:-../shared/data/conversation_trace.jsonl}")

# guest DEVICES SECONDS SCENARIO...
guest() {
	local devices=$1 limit=$2 rc now
	shift 2
	while [ $# -gt 0 ]; do
		tests/verbs/vm.sh --devices "$devices" --timeout "$limit" --memory 3072 env "KVRAIL_BUILD=$build" ${trace:+"KVRAIL_TRACE=$trace"} \
			tests/verbs/guest.sh "$@" 2>"$out.err" | tee "$out"
		rc=${PIPESTATUS[0]}
		if [ $rc -eq 77 ]; then
			echo "1..1"
			echo "ok - real verbs in a virtual machine # SKIP $(tail -n 1 "$out.err")"
			rm -f "$out.err"
			exit 0
		fi
		grep -q '^not ok' "$out" && failed=1
		[ $rc -ne 0 ] || { rm -f "$out.err" && return; }
		# The scenario in which it ended, and those behind it.
		now=$(sed -n 's/^# begin //p' "$out" | tail -n 1)
		failed=1
		echo "1..1"
		echo "not ok - ${now:-the guest}: the guest ended with status $rc"
		sed 's/^/# /' "$out.err" | tail -n 60
		rm -f "$out.err"
		while [ $# -gt 0 ] && [ -n "$now" ] && [ "$1" != "$now" ]; do
			shift
		done
		[ -n "$now" ] && shift || return
	done
}

if [ $# -gt 0 ]; then
	guest 4 1200 "$@"
else
	guest 3 900 engine_small conform
	guest 2 900 get_put sizes batch rails trace doctor
	guest 2 900 kill_server kill_client cable
	guest 2 900 put_kill_server put_kill_client
	guest 4 600 rail_cut
fi
exit $failed
