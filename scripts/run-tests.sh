#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-tests.sh -- runs test programs one after another, others beside them in five lanes, and counts the results.
#
# usage: run-tests.sh [-t SECONDS] [-l LOGDIR] [-b "PROGRAM..."] PROGRAM...
# Programs of -b run at the same time as the others, in five niced lanes: each lane takes the next one that no lane has
# taken, so name the longest first. The result of a program is printed when the program has ended; that of a program of -b
# when those before it have ended, and the program of the first list that runs then. On a terminal the last line shows how
# many programs have ended, and which one runs.
#
# Each program speaks TAP: cmocka because of CMOCKA_MESSAGE_OUTPUT, the shell tests by themselves. If a program dies or
# stops early, the rest of its plan counts as failed; a program that prints no test, or more than it planned, counts as a
# failure, too.
# Of a failed program the last 400 lines of output are shown; of one that passed, the lines that begin with "#: ". "core-s"
# is the processor time of a program and its children in seconds. At the end a line has the sum, and the programs that
# took most of it. Then there is a line `failed: PROGRAM: TEST` for each failed test, or `failed: PROGRAM: WHY` where a
# program ended before its tests. The last line is `N passed, M failed, K skipped`. The exit status is 0 when none failed. A signal ends the programs, too.
set -u
LANES=5 # most of their programs wait most of the time
limit=600
logs=build/test-logs
beside=() lanes=()
while getopts t:l:b: o; do
	case $o in
	t) limit=$OPTARG ;;
	l) logs=$OPTARG ;;
	b) read -r -d '' -a beside <<<"$OPTARG" ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
mkdir -p "$logs"
passed=0 failed=0 skipped=0 names=
export CMOCKA_MESSAGE_OUTPUT=tap

# Where python3 is the script of a version manager (pyenv), which takes 0.1 s to find the real one, that one is taken.
script=$(type -P python3) && [ "$(head -c 2 "$script" | tr -d '\0')" = '#!' ] &&
	PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH
child=

# log_take PROGRAM -- sets $log. A program may be named twice, and two names may differ in / and _ alone: each run has a
# log of its own.
declare -A taken=()
log_take() {
	local n=1
	log=$logs/${1//\//_}.log
	while [ -n "${taken[$log]:-}" ]; do log=$logs/${1//\//_}.$((++n)).log; done
	taken[$log]=1
}

# A signal ends what this shell started. What was started in the background ignores Ctrl-C unless it is told otherwise,
# and bash attends to a signal only while it waits for such a child.
end() {
	[ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2>/dev/null
	for lane in "${lanes[@]}"; do { kill -TERM "$lane" && wait "$lane"; } 2>/dev/null; done
	exit 130
}
trap end INT TERM HUP

# failed_names PROGRAM LOG MISSING STATUS -- a line for each of its tests that failed, at most 50, and for those that were
# planned and never ended.
failed_names() {
	local names
	names=$(grep -a '^not ok ' "$2" | grep -a -v -i '# *skip' | sed -E 's/^not ok [0-9]+ *-? *//' | head -n 50)
	[ -z "$names" ] || printf '%s\n' "$names" | while IFS= read -r name; do echo "failed: $1: ${name:-a test without a name}"; done
	if [ "$3" -gt 0 ]; then
		echo "failed: $1: $3 of its tests did not end (exit status $4)"
	elif [ "$3" -lt 0 ]; then
		echo "failed: $1: it made more tests than it planned"
	elif [ -z "$names" ]; then
		echo "failed: $1: exit status $4, and no test failed"
	fi
}

# core_ms LOG -- sets $core_ms: the processor time of all children for which this shell has waited, and of theirs.
core_ms() {
	local times time seconds
	times >"$1.times"
	times=()
	while [ ${#times[@]} -lt 4 ]; do # a signal may interrupt the read
		read -r -d '' -a times <"$1.times"
	done
	core_ms=0
	for time in "${times[@]:${2:-2}}"; do # 0m1.234s
		seconds=${time#*m}
		core_ms=$((core_ms + 60000 * ${time%m*} + 10#${seconds//[!0-9]/}))
	done
}

# lanes_ended -- sets $lanes_ms: the time of the lanes for which this shell has waited. Each has noted its own.
lanes_ended() {
	local pid ms
	lanes_ms=0
	for pid in "${lanes[@]}"; do
		[ ! -e "/proc/$pid" ] && read -r ms <"${logs_beside[0]}.lane.$pid" && lanes_ms=$((lanes_ms + ms))
	done 2>/dev/null
}

# run PROGRAM LOG -- runs it. LOG.said is then what there is to say of it, LOG.count its counts.
run() {
	local program=$1 log=$2 start=$SECONDS rc plan ok bad skip missing core_ms lanes_ms before cost
	core_ms "$log"
	lanes_ended
	before=$((core_ms - lanes_ms))
	env --default-signal=INT,QUIT timeout -k 10 "$limit" "$program" >"$log" 2>&1 </dev/null &
	child=$!
	wait "$child"
	rc=$?
	child=
	core_ms "$log"
	lanes_ended
	core_ms=$((core_ms - lanes_ms - before))
	[ "$core_ms" -ge 0 ] || core_ms=0
	printf -v cost '%d s, %d.%d core-s' $((SECONDS - start)) $((core_ms / 1000)) $((core_ms % 1000 / 100))
	# A program may run several groups: add up all plans in the output. A plan of none with a reason is one skip.
	read -r plan ok bad skip <<<"$(awk '
		/^1\.\.[0-9]+/ { split($1, p, /\.\./); plan += p[2] }
		/^1\.\.0 *# *SKIP./ { plan++; skip++ }
		/^ok / { if (toupper($0) ~ /# *SKIP/) skip++; else ok++ }
		/^not ok / { if (toupper($0) ~ /# *SKIP/) skip++; else bad++ }
		END { print plan + 0, ok + 0, bad + 0, skip + 0 }' "$log")"
	missing=$((plan - ok - bad - skip))
	[ "$missing" -gt 0 ] && bad=$((bad + missing))
	if [ "$plan" -gt 0 ] && [ "$missing" -lt 0 ]; then
		echo "there were $((ok + bad + skip)) tests, and $plan were planned" >>"$log"
		bad=$((bad + 1))
	fi
	if [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ] || [ $((ok + bad + skip)) -eq 0 ]; then
		bad=$((bad + 1))
	fi
	# cmocka keeps its message to itself then, and what the program still had to print comes out.
	if [ "$rc" -eq 255 ] && [ "$missing" -gt 0 ]; then
		echo "exit status 255: an assertion failed, or there was a crash, in a thread that is not the test's;" \
			"CMOCKA_TEST_ABORT=1 makes it a core file" >>"$log"
	fi
	if [ "$bad" -gt 0 ]; then
		echo "FAIL $program ($ok passed, $bad failed, exit status $rc, $cost)"
		sed 's/^/    /' "$log" | tail -n 400
		failed_names "$program" "$log" "$missing" "$rc" >"$log.names"
	else
		echo "pass $program ($ok passed$([ "$skip" -gt 0 ] && echo ", $skip skipped"), $cost)"
		# cmocka gives no reason in the line of a skip. The line before it is the reason, unless it is a test's.
		[ "$skip" -gt 0 ] && awk '
			tolower($0) ~ /# *skip/ { if (before != "") print "    " before; print "    " $0; before = ""; next }
			{ before = /^(ok|not ok|1\.\.)/ ? "" : $0 }' "$log"
		sed -n 's/^#: /    /p' "$log"
	fi >"$log.said"
	rm -f "$log.times"
	echo "$ok $bad $skip $core_ms $program" >"$log.counting" && mv "$log.counting" "$log.count"
}

# progress [PROGRAM] -- shows on a terminal that it runs, in place of the line before; without PROGRAM clears that line.
total=0 ended=0 core_total=0 costs=()
progress() {
	[ -t 1 ] || return 0
	[ $# -eq 0 ] || set -- "$(printf '%d of %d, running %s' "$ended" "$total" "$1")"
	printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "${1:-}"
}

# tell LOG -- says and counts the program, if it has ended. One shell tells everything, so that no two reports mix.
tell() {
	local log=$1 ok bad skip ms program
	[ -e "$log.count" ] || return
	read -r ok bad skip ms program <"$log.count"
	core_total=$((core_total + ms)) costs+=("$ms $program")
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip)) ended=$((ended + 1))
	progress
	cat "$log.said"
	[ ! -e "$log.names" ] || names+=$(cat "$log.names")$'\n'
	rm -f "$log.said" "$log.count" "$log.names"
}

told=0
tell_beside() {
	while [ "$told" -lt ${#beside[@]} ] && tell "${logs_beside[told]}"; do told=$((told + 1)); done
}

logs_first=() logs_beside=()
for program in "$@"; do log_take "$program" && logs_first+=("$log"); done
for program in "${beside[@]}"; do log_take "$program" && logs_beside+=("$log"); done
for log in "${!taken[@]}"; do rm -rf "$log".{said,count,names,taken}; done
total=${#taken[@]}

# One lane: the programs of -b that the other lane has not taken. A folder can be made once: who makes it takes the program.
lane() {
	local i
	lanes=() limit=$((2 * limit)) # its programs have the processor that the others leave
	trap end INT TERM HUP
	renice -n $(($(nice) + 10)) "$BASHPID" >/dev/null
	for ((i = 0; i < ${#beside[@]}; i++)); do
		mkdir "${logs_beside[i]}.taken" 2>/dev/null && run "${beside[i]}" "${logs_beside[i]}"
	done
	core_ms "${logs_beside[0]}.lane.$BASHPID" 0
	rm -f "${logs_beside[0]}.lane.$BASHPID.times"
	echo "$core_ms" >"${logs_beside[0]}.lane.$BASHPID"
}
for ((i = 0; i < LANES && i < ${#beside[@]}; i++)); do
	lane &
	lanes+=($!)
done
for log in "${logs_first[@]}"; do
	progress "$1"
	run "$1" "$log"
	tell "$log"
	tell_beside
	shift
done
while [ "$told" -lt ${#beside[@]} ]; do
	kill -0 "${lanes[@]}" 2>/dev/null && running=1 || running=
	tell_beside
	[ "$told" -lt ${#beside[@]} ] || break
	progress "${beside[told]}"
	if [ -z "$running" ]; then
		progress
		echo "FAIL ${beside[told]} (it did not end: what runs beside the others was killed)"
		names+="failed: ${beside[told]}: it did not end"$'\n'
		failed=$((failed + 1)) told=$((told + 1)) ended=$((ended + 1))
	else
		sleep 0.2
	fi
done
progress
rm -rf "${logs_beside[@]/%/.taken}"
[ ${#logs_beside[@]} -eq 0 ] || rm -f "${logs_beside[0]}".lane.*
[ "$failed" -eq 0 ]
rc=$?
printf '%s\n' "${costs[@]}" | sort -rn | awk -v total="$core_total" -v wall="$SECONDS" '
	NR <= 12 && NF > 1 { sub(/^.*tests\//, "", $2); text = text sprintf("%s %s %.1f", NR > 1 ? "," : "", $2, $1 / 1000) }
	END { printf "%d core-seconds in %d s; most:%s\n", total / 1000, wall, text }'
printf '%s' "$names"
echo "$passed passed, $failed failed, $skipped skipped"
exit $rc
