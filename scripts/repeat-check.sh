#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# repeat-check.sh [-n ROUNDS] [-p AT_ONCE] [-l LOAD] [-o FOLDER] [PROGRAM...]
#   Runs every test of `make check` ROUNDS times (50) under load, and prints the names of those that failed, and how often.
#
# The load is LOAD processes that compute (one for each processor), and AT_ONCE rounds at the same time (1), each with a
# TMPDIR and a log folder of its own below FOLDER (build/repeat). With PROGRAM only these tests run. Planted bugs are left
# out: they are the same in each round. Everything must be built: `make check-repeat N=50 T="tests/integration/cli.sh"`
# sees to it.
#
# A line reports each round, and is appended to FOLDER.log, as time, commit, tests, round, passed, failed, and the names of
# failed tests, between tabs. So 50 rounds can be collected over several days: `make check-repeat N=5` adds five. The end
# is one line `failed K of N rounds: PROGRAM: TEST` for each test that failed, a line with the rounds of this commit and of
# others in FOLDER.log, and `N rounds, K failures`. The exit status is 0 when none failed.
set -u
cd "$(dirname "$0")/.." || exit 2
rounds=50 at_once=1 load=$(nproc) folder=build/repeat
while getopts n:p:l:o: option; do
	case $option in
	n) rounds=$OPTARG ;;
	p) at_once=$OPTARG ;;
	l) load=$OPTARG ;;
	o) folder=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
case $rounds$at_once$load in
*[!0-9]*)
	echo "repeat-check: rounds, rounds at once and load are numbers, not '$rounds', '$at_once' and '$load'" >&2
	exit 2
	;;
esac
[[ $folder = /* ]] || folder=$PWD/$folder
record=$folder.log
commit=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null) || commit=unknown
tests=${*:-check}
mkdir -p "$folder"
rm -rf "$folder"/round.*
touch "$record"

# A signal ends the load and the tests: run-tests.sh, or make, ends what it has started.
busy=() running=()
end() {
	[ ${#running[@]} -eq 0 ] || { kill -TERM "${running[@]}" && wait "${running[@]}"; } 2>/dev/null
	[ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null
	running=() busy=()
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

begin_round() { # begin_round ROUND PROGRAM... -- its process is the last one of $running
	local at=$folder/round.$1
	shift
	mkdir -p "$at/tmp"
	began[round]=$SECONDS
	if [ $# -gt 0 ]; then
		TMPDIR=$at/tmp scripts/run-tests.sh -t "${TEST_LIMIT:-1200}" -l "$at/logs" "$@" >"$at.log" 2>&1 </dev/null &
	else
		TMPDIR=$at/tmp make --no-print-directory check-run TEST_LIMIT="${TEST_LIMIT:-1200}" LOGS="$at/logs" MUTANTS= PLANTED= >"$at.log" 2>&1 </dev/null &
	fi
	running+=($!) round_of[$!]=$round
}

# end_round -- waits until a round has ended, and reports it.
end_round() {
	local pid status round log passed failed names i
	wait -n -p pid "${running[@]}"
	status=$?
	round=${round_of[pid]}
	for i in "${!running[@]}"; do [ "${running[i]}" != "$pid" ] || unset "running[i]"; done
	running=("${running[@]}")
	log=$folder/round.$round.log
	[ "$status" -eq 0 ] || grep -q '^failed: ' "$log" || echo "failed: the round itself: exit status $status" >>"$log"
	echo "round $round of $rounds: $(grep -E '^[0-9]+ passed, ' "$log" | tail -n 1), in $((SECONDS - began[round])) s"
	sed -n 's/^failed: /    failed: /p' "$log"
	read -r passed _ failed _ <<<"$(grep -E '^[0-9]+ passed, ' "$log" | tail -n 1)"
	names=$(sed -n 's/^failed: //p' "$log" | paste -sd ';')
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$commit" "$tests" "$round" "${passed:-0}" "${failed:-1}" "$names" >>"$record"
	[ "$status" -ne 0 ] || rm -rf "$folder/round.$round"
}

began=() round_of=()
for ((round = 1; round <= rounds; round++)); do
	begin_round "$round" "$@"
	[ ${#running[@]} -lt "$at_once" ] || end_round
done
while [ ${#running[@]} -gt 0 ]; do end_round; done

failures=$(sed -n 's/^failed: //p' "$folder"/round.*.log | sort | uniq -c | sort -rn)
[ -z "$failures" ] || printf '%s\n' "$failures" | sed -E "s/^ *([0-9]+) (.*)/failed \1 of $rounds rounds: \2/"
awk -F '\t' -v commit="$commit" -v tests="$tests" '
	$3 == tests { own = $2 == commit; n[own]++; good[own] += $6 == 0 && $7 == "" }
	END { printf "passed: %d of %d rounds of this commit (%s), %d of %d of others\n", good[1], n[1], commit, good[0], n[0] }' "$record"
count=$(sed -n '/^failed: /p' "$folder"/round.*.log | wc -l)
plural() { [ "$1" = 1 ] || echo s; }
echo "$rounds round$(plural "$rounds"), $count failure$(plural "$count")"
[ "$count" -eq 0 ]
