#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# repeat-check.sh [-n ROUNDS] [-l LOAD] [-o FOLDER] [PROGRAM...]
#   Runs every test of `make check` ROUNDS times (50) under load, and prints the names of those that failed, and how often.
#
# The load is LOAD processes that compute (one for each processor), so tests get about half of the machine. With PROGRAM
# only these tests run. Everything must be built: `make check-repeat N=50 T="tests/integration/cli.sh"` sees to it.
# A line tells of each round; logs are in FOLDER (build/repeat). It ends in a line `N rounds, K failures`, and before
# it one line `failed K of N rounds: PROGRAM: TEST` for each test. The exit status is 0 when none failed.
set -u
cd "$(dirname "$0")/.." || exit 2
rounds=50 load=$(nproc) logs=build/repeat
while getopts n:l:o: option; do
	case $option in
	n) rounds=$OPTARG ;;
	l) load=$OPTARG ;;
	o) logs=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
case $rounds$load in
*[!0-9]*)
	echo "repeat-check: rounds and load are numbers, not '$rounds' and '$load'" >&2
	exit 2
	;;
esac
mkdir -p "$logs"
rm -f "$logs"/round.*.log

# A signal ends the load and the tests: run-tests.sh, or make, ends what it has started.
busy=() child=
end() {
	[ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2>/dev/null
	[ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null
	busy=()
}
trap end EXIT
trap 'end; exit 130' INT TERM HUP
for ((i = 0; i < load; i++)); do
	(
		trap - EXIT INT TERM HUP
		while :; do :; done
	) &
	busy+=($!)
done

one_round() { # one_round LOG PROGRAM...
	local log=$1
	shift
	if [ $# -gt 0 ]; then
		scripts/run-tests.sh -t "${TEST_LIMIT:-1200}" -l "$logs/logs" "$@" >"$log" 2>&1 </dev/null &
	else
		make --no-print-directory check-run TEST_LIMIT="${TEST_LIMIT:-1200}" >"$log" 2>&1 </dev/null &
	fi
	child=$!
	wait "$child"
	status=$?
	child=
}

for ((round = 1; round <= rounds; round++)); do
	log=$logs/round.$round.log began=$SECONDS
	one_round "$log" "$@"
	[ "$status" -eq 0 ] || grep -q '^failed: ' "$log" || echo "failed: the round itself: exit status $status" >>"$log"
	echo "round $round of $rounds: $(grep -E '^[0-9]+ passed, ' "$log" | tail -n 1), in $((SECONDS - began)) s"
	sed -n 's/^failed: /    failed: /p' "$log"
done
failures=$(sed -n 's/^failed: //p' "$logs"/round.*.log | sort | uniq -c | sort -rn)
[ -z "$failures" ] || printf '%s\n' "$failures" | sed -E "s/^ *([0-9]+) (.*)/failed \1 of $rounds rounds: \2/"
count=$(sed -n '/^failed: /p' "$logs"/round.*.log | wc -l)
plural() { [ "$1" = 1 ] || echo s; }
echo "$rounds round$(plural "$rounds"), $count failure$(plural "$count")"
[ "$count" -eq 0 ]
