#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-tests.sh -- runs test programs one after another, and counts the results.
#
# usage: run-tests.sh [-t SECONDS] [-l LOGDIR] PROGRAM...
# Each program speaks TAP: cmocka because of CMOCKA_MESSAGE_OUTPUT, the shell tests by themselves. If a program dies or
# stops early, the rest of its plan counts as failed; a program that prints no test counts as a failure, too.
# Of a failed program the last 400 lines of output are shown; of one that passed, the lines that begin with "#: ". The
# last line is `N passed, M failed, K skipped`. The exit status is 0 when none failed.
set -u
limit=600
logs=build/test-logs
while getopts t:l: o; do
	case $o in
	t) limit=$OPTARG ;;
	l) logs=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
mkdir -p "$logs"
passed=0 failed=0 skipped=0
export CMOCKA_MESSAGE_OUTPUT=tap
for program in "$@"; do
	log=$logs/$(printf '%s' "$program" | tr '/' '_').log
	start=$SECONDS
	timeout -k 10 "$limit" "$program" >"$log" 2>&1 </dev/null
	rc=$?
	# A program may run several groups: add up all plans in the output.
	read -r plan ok bad skip <<<"$(awk '
		/^1\.\.[0-9]+/ { split($1, p, /\.\./); plan += p[2] }
		/^ok / { if (toupper($0) ~ /# *SKIP/) skip++; else ok++ }
		/^not ok / { if (toupper($0) ~ /# *SKIP/) skip++; else bad++ }
		END { print plan + 0, ok + 0, bad + 0, skip + 0 }' "$log")"
	missing=$((plan - ok - bad - skip))
	[ "$missing" -gt 0 ] && bad=$((bad + missing))
	if [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ] || [ $((ok + bad + skip)) -eq 0 ]; then
		bad=$((bad + 1))
	fi
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
	if [ "$bad" -gt 0 ]; then
		echo "FAIL $program ($ok passed, $bad failed, exit status $rc, $((SECONDS - start)) s)"
		sed 's/^/    /' "$log" | tail -n 400
	else
		echo "pass $program ($ok passed$([ "$skip" -gt 0 ] && echo ", $skip skipped"), $((SECONDS - start)) s)"
		# cmocka gives no reason in the line of a skip. The line before it is the reason, unless it is a test's.
		[ "$skip" -gt 0 ] && awk '
			tolower($0) ~ /# *skip/ { if (before != "") print "    " before; print "    " $0; before = ""; next }
			{ before = /^(ok|not ok|1\.\.)/ ? "" : $0 }' "$log"
		sed -n 's/^#: /    /p' "$log"
	fi
done
[ "$failed" -eq 0 ]
rc=$?
echo "$passed passed, $failed failed, $skipped skipped"
exit $rc
