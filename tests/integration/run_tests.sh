#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_tests.sh -- scripts/run-tests.sh: what it counts of good, bad, dead, silent and endless tests, what runs beside what, and how it ends. And which ports
# tests/ports.py gives.
. "$(dirname "$0")/lib.bash"
plan 32
cd "$scratch" || exit 2
runner=$OLDPWD/scripts/run-tests.sh

program() { # program NAME COMMANDS: a test of its own
	printf '#!/bin/bash\n%s\n' "$2" >"$1"
	chmod +x "$1"
}
program good 'echo 1..2; echo "ok 1 - a"; echo "#: seen"; echo "ok 2 - b"'
program bad 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 - b"; echo "# why it failed"'
program dies 'echo 1..3; echo "ok 1 - a"; kill -SEGV $$'
program short 'echo 1..3; echo "ok 1 - a"'
program long 'echo 1..1; echo "ok 1 - a"; echo "ok 2 - b"'
program silent ''
program unwell 'echo 1..1; echo "ok 1 - a"; exit 3'
program groups 'echo 1..1; echo "ok 1 - a"; echo 1..2; echo "ok 1 - b"; echo "ok 2 - c"'
program skips 'echo 1..2; echo "ok 1 - a # SKIP no such thing"; echo "the reason"; echo "not ok 2 # skip"'
program skips_all 'echo "1..0 # SKIP nothing here"'
program skips_some 'echo 1..1; echo "ok 1 - a"; echo "1..0 # SKIP nothing more here"'
program endless 'echo 1..2; echo "ok 1 - a"; sleep 1000'
program fed 'echo 1..2; [ "$CMOCKA_MESSAGE_OUTPUT" = tap ] && echo "ok 1 - a"; read -r line || echo "ok 2 - b"'

# gives STATUS LAST-LINE ARGS... -- the runner ends with that status, and with that line.
gives() {
	local want=$1 last=$2
	shift 2
	status "$want" "$runner" -l logs "$@" >out 2>&1 && [ "$(tail -n 1 out)" = "$last" ] && return 0
	cat out
	return 1
}
shown() { grep -qE -- "$1" out || { cat out && return 1; }; }

check "one that passes" gives 0 '2 passed, 0 failed, 0 skipped' ./good
check "is said, with what it has to tell" eval "shown '^pass ./good \(2 passed, [0-9]+ s, [0-9]+\.[0-9] core-s\)$' && shown '^    seen$' && ! shown '^    ok|running'"
check "one that fails" gives 1 '1 passed, 1 failed, 0 skipped' ./bad
check "is shown" eval "shown '^FAIL ./bad \(1 passed, 1 failed, exit status 0' && shown '^    # why it failed$'"
check "one that dies has failed in all that it did not say" gives 1 '1 passed, 2 failed, 0 skipped' ./dies
check "so has one that stops early" gives 1 '1 passed, 2 failed, 0 skipped' ./short
check "and one that makes more tests than it planned" gives 1 '2 passed, 1 failed, 0 skipped' ./long
check "and one that says nothing" gives 1 '0 passed, 1 failed, 0 skipped' ./silent
check "one that ends with an error, though all passed" gives 1 '1 passed, 1 failed, 0 skipped' ./unwell
check "one that is not there, or is no program" gives 1 '0 passed, 2 failed, 0 skipped' ./nowhere logs
check "one that does not end is ended" gives 1 '1 passed, 1 failed, 0 skipped' -t 1 ./endless
check "groups are added up" gives 0 '3 passed, 0 failed, 0 skipped' ./groups
check "skips are counted, with their reasons" eval "gives 0 '1 passed, 0 failed, 4 skipped' ./skips ./skips_all ./skips_some && shown '^    the reason$'"
check "a test has no input, and cmocka speaks TAP" gives 0 '2 passed, 0 failed, 0 skipped' ./fed
named() { [ "$(grep -c '^failed: ' out)" = "$1" ] && grep -qxF "failed: $2" out && [ "$(tail -n $(($1 + 1)) out | grep -c '^failed: ')" = "$1" ] || { cat out; return 1; }; }
check "the names of failed tests are last, before the counts" eval "gives 1 '5 passed, 1 failed, 0 skipped' ./bad ./good ./fed && named 1 './bad: b'"
check "so is a program that ends before its tests" eval "gives 1 '3 passed, 5 failed, 0 skipped' ./dies ./unwell ./short && named 3 './dies: 2 of its tests did not end (exit status 139)' && named 3 './unwell: exit status 3, and no test failed'"
check "one that is not there, and one with too many tests" eval "gives 1 '2 passed, 2 failed, 0 skipped' ./nowhere ./long && named 2 './nowhere: exit status 127, and no test failed' && named 2 './long: it made more tests than it planned'"
check "nothing is named where all passed" eval "gives 0 '2 passed, 0 failed, 0 skipped' ./good && ! shown '^failed'"
program flaky 'echo 1..1; echo x >>"$0.runs"; [ "$(wc -l <"$0.runs")" = 2 ] && echo "not ok 1 - at times" || echo "ok 1 - at times"'
again() { # again STATUS LAST-LINE ARGS...
	local want=$1 last=$2
	shift 2
	status "$want" "${runner%/*}/repeat-check.sh" -o "$scratch/repeat" -n 3 "$@" >out 2>&1 && [ "$(tail -n 1 out)" = "$last" ] && return 0
	cat out
	return 1
}
check "a test that fails at times is named, and how often" eval 'again 1 "3 rounds, 1 failure" -l 1 "$PWD/good" "$PWD/flaky" && shown "^round 2 of 3: 2 passed, 1 failed" && shown "^failed 1 of 3 rounds: .*/flaky: at times$"'
check "where none fails, none is" eval 'again 0 "3 rounds, 0 failures" -l 0 "$PWD/good" && ! shown "failed:"'
check "rounds at the same time each have a TMPDIR, and their record is continued" eval 'again 0 "3 rounds, 0 failures" -l 0 -p 3 "$PWD/good" && shown "^passed: 6 of 6 rounds of this commit" && [ "$(wc -l <"$scratch/repeat.log")" = 9 ]'
program together 'echo 1..1; touch "${TMPDIR%/*/tmp}/$$.here"; for i in {1..300}; do set -- "${TMPDIR%/*/tmp}"/*.here; [ $# = 3 ] && echo "ok 1 - met" && exit; sleep 0.1; done'
check "all of them run at once" again 0 "3 rounds, 0 failures" -l 0 -p 3 "$PWD/together"
check "all of several count" gives 1 '6 passed, 3 failed, 0 skipped' ./good ./dies ./unwell ./good

# Each of the three waits until the other two run.
meets='echo 1..1; touch "$0.here"; for i in {1..300}; do [ -e main.here ] && [ -e one.here ] && [ -e two.here ] && echo "ok 1 - met" && exit; sleep 0.1; done'
program main "$meets"
program one "$meets"
program two "$meets"
beside() {
	gives 1 '9 passed, 1 failed, 0 skipped' -b './one ./two ./bad ./groups' ./main ./good || return 1
	[ "$(grep -oE '^(pass|FAIL) ./[a-z]+' out | grep -E 'one|two|bad' | tr '\n' ' ')" = 'pass ./one pass ./two FAIL ./bad ' ]
}
check "two run beside the others, and are told in their order" beside
# Four lanes wait for the last program, which only the lane of the quick one can take.
program slow 'echo 1..1; for i in {1..300}; do [ -e last.here ] && echo "ok 1 - a" && exit; sleep 0.1; done'
for name in waiting waiting_2 waiting_3; do cp slow "$name"; done
program quick 'echo 1..1; echo "ok 1 - a"'
program last 'echo 1..1; touch last.here; echo "ok 1 - a"'
check "a lane that has ended takes what the others have not taken" gives 0 '8 passed, 0 failed, 0 skipped' -b './slow ./waiting ./waiting_2 ./waiting_3 ./quick ./last' ./good
program computes 'echo 1..1; for ((i = 0; i < 100000; i++)); do :; done; echo "ok 1 - a"'
cp computes computes_too
costs() {
	gives 0 '5 passed, 0 failed, 0 skipped' -b ./computes_too ./computes ./good ./quick || return 1
	local core='([1-9][0-9]*\.[0-9]|0\.[1-9])'
	shown "^pass ./computes \(1 passed, [0-9]+ s, $core core-s\)$" && shown "^pass ./computes_too \(1 passed, [0-9]+ s, $core core-s\)$" &&
		shown "^[0-9]+ core-seconds in [0-9]+ s; most: ./computes(_too)? $core, ./computes(_too)? $core, ./[a-z]+ 0"
}
check "the processor time of each is told, of children too, and which took most" costs
on_terminal() {
	python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) != 0)' "$runner" -l logs -b ./quick ./good ./fed >out </dev/null &&
		shown '0 of 3, running ./good' && shown '[12] of 3, running ./fed' && shown '5 passed, 0 failed, 0 skipped'
}
check_terminal "on a terminal a line shows how many have ended, and which one runs" on_terminal

# Each run of a program tells its own number. dir/twice and dir_twice would have one name of a log, too.
program twice 'echo 1..1; echo "ok 1 - a"; echo "#: run $(mktemp -u) of twice" | tee -a runs'
mkdir dir && cp twice dir/twice && cp twice dir_twice
twice() {
	local log
	rm -rf runs logs
	gives 0 '6 passed, 0 failed, 0 skipped' -b './twice ./dir/twice' ./twice ./twice ./dir_twice ./dir/twice || return 1
	[ "$(cat logs/._*.log | grep '^#: ' | sort)" = "$(sort runs)" ] || { echo "these runs have left no log:" && cat logs/._*.log | sort - runs | uniq -u && return 1; }
	[ "$(grep -c '^pass ' out)" = 6 ] && [ "$(grep '^    run ' out | sort -u | wc -l)" = 6 ]
}
check "a program that is named twice has a log for each run, and each is told" twice
check "the first of them has the plain name" test -e logs/._twice.log -a -e logs/._twice.2.log -a -e logs/._twice.3.log -a -e logs/._dir_twice.3.log

program killer 'echo 1..1; read -r _ _ _ lane _ <"/proc/$PPID/stat"; kill -KILL "$lane"; echo "ok 1 - a"'
check "a lane that is killed is a failure, not a wait for ever" eval "gives 1 '2 passed, 1 failed, 0 skipped' -b ./killer ./good && shown 'it did not end'"

program waits 'echo 1..1; echo $$ >"$0.pid"; exec sleep 1000'
cp waits waits_beside
signalled() {
	local pid got
	"$runner" -l logs -b ./waits_beside ./waits >out 2>&1 &
	pid=$!
	pids+=("$pid")
	soon test -s ./waits.pid -a -s ./waits_beside.pid || return 1
	pids+=("$(cat ./waits.pid)" "$(cat ./waits_beside.pid)")
	kill -TERM "$pid"
	wait "$pid"
	got=$?
	[ "$got" = 130 ] && ! kill -0 "$(cat ./waits.pid)" 2>/dev/null && ! kill -0 "$(cat ./waits_beside.pid)" 2>/dev/null
}
check "a signal ends it, and what it runs" signalled

check "ports for servers are none that a connection gets, and each is given once" python3 - "$OLDPWD/tests" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import ports
for low, high in (32768, 60999), (1024, 30000), (10000, 65535), (40000, 40100), (1024, 65535):
    among = ports.outside(low, high)
    assert len(among) >= ports.ENOUGH and among.stop <= 65536, (low, high, among)
    assert high - low > 55000 or not set(among) & set(range(low, high + 1)), (low, high, among)
given = [port for _ in range(100) for port in ports.free_ports(3)]
assert len(set(given)) == 300 and set(given) <= set(ports.ours()), given
P
finish
