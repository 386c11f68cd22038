#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh -- real faults against real programs: what is promised must hold (DESIGN 10), and everything must work again afterwards.
#
# usage: run.sh [-t SECONDS] [-k] [SCENARIO...]
#   -t: scenarios that have not begun by then are skipped (default 480). -k: keep the scratch folder. CHAOS_KILLS=100: how often `kills` kills (default 10).
#   CHAOS_GETS=10000000: how many GETs `leased` compares (default 200,000). CHAOS_LOG=3: what the load says of its connections. KVRAIL_SHIM=MACHINE,...: on an imitated machine (tests/shim/README.md).
#   KVRAIL_BUILD: where the programs are (default build/release). KVRAIL_SEED: the load's seed. KVRAIL_TEST_PROVIDER: over which provider (tcp).
# Every scenario runs load.c (what it checks is written there) while something is broken, and where servers are killed or cut off `kv-bench --verify --keep-going`
# beside it. Each prints how many calls were made, how many of them ended by their deadline + 100 ms (kv-bench, with the default grace: 250 ms), wrong bytes, and the time from the server's being whole again to the
# first success. Traffic stays on loopback and in namespaces made here. Processes, namespaces and control groups go away at the end, also when this script is
# killed: a janitor waits for that.
limit=480 keep=
while getopts t:k o; do
	case $o in
	t) limit=$OPTARG ;;
	k) keep=1 ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
. "$(dirname "$0")/../integration/lib.bash"
load=$build/tests/chaos/load
kills=${CHAOS_KILLS:-10}
made="$scratch/made" # what has to go away again: lines "space NAME", "cgroup FOLDER"
: >"$made"

undo_made() {
	local kind name pid
	[ -e "$made" ] || return 0
	while read -r kind name; do
		if [ "$kind" = space ]; then
			for pid in $(ip netns pids "$name" 2>/dev/null); do
				kill -KILL "$pid" 2>/dev/null
			done
			ip netns del "$name" 2>/dev/null
		elif [ "$kind" = cgroup ] && [ -d "$name" ]; then
			for pid in $(cat "$name/cgroup.procs"); do
				kill -KILL "$pid" 2>/dev/null
			done
			rmdir "$name" 2>/dev/null || { sleep 0.5 && rmdir "$name"; }
		fi
	done <"$made"
	: >"$made"
}

undo() {
	local pid
	for pid in "${pids[@]}"; do
		kill -CONT "$pid" 2>/dev/null
	done
	[ -n "$keep" ] && cp -r "$scratch" "$scratch.kept" && echo "# kept: $scratch.kept"
	undo_made
	cleanup
}
trap undo EXIT
trap 'exit 130' INT TERM HUP

# When this script is gone and its scratch folder is not, it was killed: every process that has the folder in its environment goes too.
janitor() {
	local pid parent=$1
	while kill -0 "$parent" 2>/dev/null; do
		sleep 1
		[ -d "$scratch" ] || exit 0
	done
	for pid in /proc/[0-9]*; do
		tr '\0' '\n' <"$pid/environ" 2>/dev/null | grep -qxF "KVRAIL_CHAOS=$scratch" && kill -KILL "${pid#/proc/}" 2>/dev/null
	done
	undo_made
	rm -rf "$scratch"
}
(
	trap - EXIT
	trap '' INT TERM HUP
	janitor $$
) </dev/null >/dev/null 2>&1 &
disown
export KVRAIL_CHAOS=$scratch

programs=("$build/kv-server" "$build/kv-client" "$build/kv-bench" "$load" "$build/tests/chaos/lossy_link")
make --no-print-directory "${programs[@]#"$PWD/"}" >"$scratch/make.out" 2>&1 || {
	echo "1..1"
	echo "not ok 1 - building the programs"
	sed 's/^/# /' "$scratch/make.out"
	exit 1
}

# On an imitated machine every program is preloaded with the shim; this shell is not.
shim_wrap() {
	local program real=$build
	build="$scratch/shim"
	mkdir -p "$build/tests/chaos"
	for program in kv-server kv-client kv-bench tests/chaos/load; do
		printf '#!/bin/sh\nKVRAIL_SHIM=%s KVRAIL_SHIM_QUIET=1 LD_PRELOAD=%s exec %s "$@"\n' "$1" "$real/tests/shim/shim.so" "$real/$program" >"$build/$program"
		chmod +x "$build/$program"
	done
	load=$build/tests/chaos/load
}
[ -z "${KVRAIL_SHIM:-}" ] || {
	make --no-print-directory "${build#"$PWD/"}/tests/shim/shim.so" >"$scratch/make.out" 2>&1 || {
		cat "$scratch/make.out"
		exit 1
	}
	shim=$KVRAIL_SHIM
	unset KVRAIL_SHIM
	shim_wrap "$shim"
}

# ---- servers ----

in_space=() # a command before the programs: ip netns exec NAME
way=()      # arguments of every server: --local off

# serve NAME ADDRESS ARGS... -- a kv-server in the background; $server is its address, $server_pid its process. Fails if it is not ready in 30 s. One that
# is to be started again has a port of free_ports: port 0 is one that a connection could have meanwhile.
serve() {
	local name=$1 address=$2 ready="$scratch/$1.ready"
	shift 2
	: >"$ready"
	"${in_space[@]}" "$build/kv-server" --listen-addr "$address" --memory-mb 128 --worker-threads 2 --provider "$provider" --log-level warn \
		--ready-fd 3 "${way[@]}" "$@" 3>"$ready" >>"$scratch/$name.out" 2>>"$scratch/$name.err" &
	server_pid=$!
	server_wait "$name" "$ready" 300 "$scratch/$name.err"
}

# gone PID -- wait until a process that we started is no more; at most 20 s. Its exit status.
gone() {
	local i
	for ((i = 0; i < 200; i++)); do
		if ! kill -0 "$1" 2>/dev/null || [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)" = Z ]; then
			wait "$1"
			return
		fi
		sleep 0.1
	done
	echo "process $1 is still there after 20 s"
	ls -l "/proc/$1/exe"
	return 99
}

# both_ways SCENARIO -- over the fabric, and through memory that server and clients share: SCENARIO fabric, SCENARIO local.
both_ways() {
	way=(--local off)
	"$1" fabric || return
	way=()
	"$1" local
}

# serve_stop -- SIGTERM to the server must end it, with status 0.
serve_stop() {
	local rc
	kill -TERM "${1:-$server_pid}"
	gone "${1:-$server_pid}"
	rc=$?
	[ $rc -eq 0 ] || echo "the server ended with status $rc"
	return $rc
}

stat_of() { timeout -k 5 30 "${in_space[@]}" "$build/kv-client" --server "$server" --provider "$provider" --timeout 20 stat; }

# idle -- nothing may be left of clients that are gone: within 30 s the one session is that of kv-client itself, and nothing is held for anybody. Landing areas
# rest for 10 s, so they may be no more than kv-client has alone only then.
landing_alone=0 # what it had at a server that had served nobody
idle() {
	local i
	for ((i = 0; i < 60; i++)); do
		stat_of >"$scratch/stat.out" 2>&1 &&
			awk -v alone="$landing_alone" '
				BEGIN { n = split("inflight queued held active hashing stages staged_bytes leased_bytes pinned_bytes quarantined_bytes ending_sessions further_sessions", name)
					for (i = 1; i <= n; i++) none[name[i]] = 1 }
				$1 == "sessions" && $2 > 1 || $1 in none && $2 || $1 == "landing_bytes" && alone && $2 > alone { bad = 1 } END { exit bad }' "$scratch/stat.out" && return 0
		sleep 0.5
	done
	echo "the server still holds something for clients that are gone:"
	cat "$scratch/stat.out"
	return 1
}

# ---- the load ----

fence=() # where closing an endpoint waits for operations to a process that is dead, a call over its caller's memory waits for that (kvclient.h, "Deadlines")
case $provider in efa*) fence=(--fence-ms 4000) ;; esac

# load_start NAME ARGS... -- in the background; $load_pid. Returns when its calls have begun.
load_start() {
	load_name=$1
	shift
	mkfifo "$scratch/$load_name.marks"
	: >"$scratch/$load_name.times"
	"${in_space[@]}" "$load" --marks "$scratch/$load_name.marks" --seconds 600 --timeout-ms 1500 --pace-us 8000 --threads 2 --log ${CHAOS_LOG:-2} "${fence[@]}" "$@" \
		>"$scratch/$load_name.json" 2>"$scratch/$load_name.log" &
	load_pid=$!
	pids+=("$load_pid")
	for ((i = 0; i < 200; i++)); do
		grep -qs '^load: running' "$scratch/$load_name.log" && return 0
		kill -0 "$load_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "the load did not begin:"
	tail -n 20 "$scratch/$load_name.log"
	return 1
}

# Marks are read by a program that may stand still: never wait for it. With their times they are kept for kv-bench's outages.
mark() {
	echo "$1 $(date +%s%N)" >>"$scratch/$load_name.times"
	mark_send "$1"
}
mark_send() { timeout 2 bash -c 'echo "$1" >"$2"' - "$1" "$scratch/$load_name.marks"; }

field() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" "$scratch/$load_name.json"; }

# load_end [LEAST] -- stop the load and judge it: its own verdict, that it recovered from everything, and that at least LEAST calls succeeded.
load_end() {
	local rc least=${1:-1} i
	mark_send stop
	for ((i = 0; i < 900; i++)); do
		kill -0 "$load_pid" 2>/dev/null || break
		[ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$load_pid/status" 2>/dev/null)" = Z ] && break
		sleep 0.1
	done
	[ "$i" -lt 900 ] || {
		echo "the load did not end within 90 s"
		gdb -p "$load_pid" -batch -ex 'thread apply all bt' 2>/dev/null | tail -n 80
		return 1
	}
	wait "$load_pid"
	rc=$?
	bench_end || return
	say "calls $(field calls), ok $(field ok), misses $(field misses), failed $(field failed) ($(sed -n 's/.*"errors": {\([^}]*\)}.*/\1/p' "$scratch/$load_name.json" | tr -d '"'))," \
		"by deadline + 100 ms $(($(field calls) - $(field overdue)))/$(field calls) (worst $(awk -v n="$(field longest_over_ns)" 'BEGIN { printf "%.0f", n / 1e6 }') ms over," \
		"$(awk -v n="$(field longest_net_ns)" 'BEGIN { printf "%.0f", n / 1e6 }') net)," \
		"wrong bytes $(field wrong_bytes), late bytes $(field late_bytes), fences $(field fences), reconnects $(field reconnects)," \
		"recovery ms [$(sed -n 's/.*"recovery_ms": \[\([^]]*\)\].*/\1/p' "$scratch/$load_name.json")], rss $(($(field rss_start_kib) / 1024))->$(($(field rss_kib) / 1024)) MiB, fds $(field fds_start)->$(field fds)"
	if [ $rc -ne 0 ]; then
		echo "the load ended with status $rc"
		grep -E 'load: [A-Z]' "$scratch/$load_name.log" | head -n 30
		tail -n 5 "$scratch/$load_name.log"
		cat "$scratch/$load_name.json"
		[ -z "$keep" ] && echo "-k keeps the logs; the servers' last words:" && tail -qn 15 "$scratch"/*.err
		return 1
	fi
	[ "$(field unrecovered)" = 0 ] || {
		echo "no success after $(field unrecovered) of the recoveries"
		return 1
	}
	[ "$(field ok)" -ge "$least" ] || {
		echo "only $(field ok) calls succeeded, at least $least should have"
		return 1
	}
	# With one server a broken connection is fenced and nothing stays. With several, what a dead one may still write to stays in quarantine until the next fence:
	# at most a quarter of the buffers (2 clients of 16 MiB).
	[ "$(field quarantined_bytes)" -le "${quarantine_max:-0}" ] || {
		echo "the client still has $(field quarantined_bytes) bytes in quarantine"
		return 1
	}
	[ "$(field fds)" -le "$(field fds_start)" ] || {
		echo "descriptors: $(field fds_start) at first, $(field fds) at the end"
		return 1
	}
}

# bench_start ARGS... -- kv-bench --verify beside the load, over the fabric, while the load shares the servers' memory; returns when its reads have begun. load_end ends
# and judges it.
bench_start() {
	local i
	"${in_space[@]}" "$build/kv-bench" --provider "$provider" --verify --keep-going --duration 3600 --rate 400 --timeout 1.5 --num-clients 2 --num-threads 2 \
		--num-keys 200 --value-size 64KB --buffer-mb 16 --warmup 0 --log-level error --local off "$@" --json "$scratch/$load_name.bench.json" >"$scratch/$load_name.bench.out" 2>&1 &
	bench_pid=$!
	pids+=("$bench_pid")
	for ((i = 0; i < 200; i++)); do
		grep -qs '^\[1/4\]' "$scratch/$load_name.bench.out" && return 0
		kill -0 "$bench_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "kv-bench did not begin:"
	tail -n 20 "$scratch/$load_name.bench.out"
	return 1
}
bench_pid=

# bench_end -- its own verdict (a wrong value, an overdue call), and that of outages.py.
bench_end() {
	local rc pid=$bench_pid line
	[ -n "$pid" ] || return 0
	bench_pid=
	kill -INT "$pid"
	gone "$pid"
	rc=$?
	[ $rc -eq 0 ] || {
		echo "kv-bench ended with status $rc"
		tail -n 30 "$scratch/$load_name.bench.out"
		return 1
	}
	python3 tests/chaos/outages.py "$scratch/$load_name.bench.json" "$scratch/$load_name.times" >"$scratch/bench.said" 2>&1
	rc=$?
	while read -r line; do
		say "$line"
	done <"$scratch/bench.said"
	[ $rc -eq 0 ] || cat "$scratch/bench.said"
	return $rc
}

say() { echo "# $current: $*" >>"$scratch/said"; }
random_below() { echo $(($(od -An -N2 -tu2 /dev/urandom) % $1)); }
pause_ms() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

# sentence COMMAND... -- the program may work or refuse, but must not die of a signal, and a refusal says why.
sentence() {
	local rc
	if [ "$(type -t "$1")" = function ]; then # what it runs ends by itself
		"$@" >"$scratch/sentence.out" 2>&1 </dev/null
	else
		timeout -k 5 30 "$@" >"$scratch/sentence.out" 2>&1 </dev/null
	fi
	rc=$?
	[ $rc -eq 124 ] && return 0 # it was still serving
	if [ $rc -ge 125 ]; then
		echo "status $rc: $*"
		cat "$scratch/sentence.out"
		return 1
	fi
	if [ $rc -ne 0 ] && ! grep -qE '[a-z]{3}.* [a-z]{2}' "$scratch/sentence.out"; then
		echo "status $rc without a sentence: $*"
		cat "$scratch/sentence.out"
		return 1
	fi
	[ $rc -eq 0 ] || tail -n 1 "$scratch/sentence.out" >"$scratch/sentence.last"
	return 0
}

# ---- scenarios ----

steady() { # nothing is broken: the load itself is sound
	serve steady 127.0.0.1:0 || return
	load_start steady --server "$server" || return
	sleep 4
	load_end 500 && [ "$(field failed)" -lt 50 ] && idle && serve_stop
}

kills() { # kill -9 under load, again on the same port
	local k address
	serve kills "127.0.0.1:$(free_ports 1)" || return
	address=$server
	load_start kills --server "$address" && bench_start --server "$address" || return
	for ((k = 0; k < kills; k++)); do
		pause_ms $((300 + $(random_below 700)))
		mark down
		kill -KILL "$server_pid"
		wait "$server_pid" 2>/dev/null
		pause_ms "$(random_below 400)"
		serve kills "$address" || return
		mark ready
		pause_ms 1000
	done
	sleep 2
	load_end 300 && idle && serve_stop
}

kills_rapid() { # killed again while the clients are still connecting
	local k address
	serve rapid "127.0.0.1:$(free_ports 1)" || return
	address=$server
	load_start rapid --server "$address" || return
	for ((k = 0; k < 2 * kills; k++)); do
		mark down
		kill -KILL "$server_pid"
		wait "$server_pid" 2>/dev/null
		serve rapid "$address" || return
		pause_ms "$(random_below 150)"
	done
	mark ready
	sleep 4
	load_end 50 && idle && serve_stop
}

drain() { # SIGTERM under load: the server ends in good order, with status 0
	local k address
	serve drain "127.0.0.1:$(free_ports 1)" || return
	address=$server
	load_start drain --server "$address" --pace-us 2000 || return
	for k in 1 2 3; do
		sleep 1
		mark down
		serve_stop || return
		serve drain "$address" || return
		mark ready
	done
	sleep 2
	load_end 200 && idle && serve_stop
}

# Connections that the server has, but for those in `listen` state: torn down with a reset to both ends, as a firewall would.
sockets_cut() {
	ss -tnpH state established 2>/dev/null | awk -v p="pid=$server_pid," 'index($0, p) { print $3, $4 }' | {
		[ "${1:-all}" = all ] && cat || grep -v "^$server "
	} | shuf | head -n "${2:-99}" | while read -r a b; do
		ss -K -tnH src "$a" dst "$b" >/dev/null 2>&1
	done
}

reset_sockets() { # connections are reset while both programs live: those of the fabric alone, one of them, all of them
	local k
	serve reset 127.0.0.1:0 || return
	load_start reset --server "$server" --pace-us 2000 || return
	for k in 1 2 3; do
		sleep 1
		mark down
		sockets_cut fabric 1
		mark ready
		sleep 1.5
		mark down
		sockets_cut fabric
		mark ready
		sleep 1.5
		mark down
		sockets_cut all
		mark ready
	done
	sleep 3
	load_end 100 && idle && serve_stop
}

close_stopped() { # a pool is closed while its server stands still, and while it is gone
	local how began
	for how in STOP KILL; do
		serve "close$how" 127.0.0.1:0 || return
		load_start "close$how" --server "$server" || return
		sleep 1
		kill "-$how" "$server_pid"
		began=$SECONDS
		load_end 50 || return
		say "closed after SIG$how in at most $((SECONDS - began + 1)) s"
		[ $((SECONDS - began)) -le 15 ] || {
			echo "closing took $((SECONDS - began)) s"
			return 1
		}
		kill -CONT "$server_pid" 2>/dev/null
		[ $how = KILL ] || { idle && serve_stop; } || return
	done
}

stop_server_short() { # a server that stands still for half a second: only short calls fail
	local k
	serve short 127.0.0.1:0 || return
	load_start short --server "$server" && bench_start --server "$server" || return
	for k in 1 2 3; do
		sleep 0.7
		mark down
		kill -STOP "$server_pid"
		sleep 0.5
		kill -CONT "$server_pid"
		mark ready
	done
	sleep 1.5
	load_end 300 && idle && serve_stop
}

stop_server_long() { # longer than every limit
	serve long 127.0.0.1:0 || return
	load_start long --server "$server" && bench_start --server "$server" || return
	sleep 1
	mark down
	kill -STOP "$server_pid"
	sleep 6
	kill -CONT "$server_pid"
	mark ready
	sleep 4
	load_end 100 && idle && serve_stop
}

stop_client() { # the client stands still, briefly and for long; the server waits for nobody
	local other
	serve cstop 127.0.0.1:0 || return
	load_start cstop --server "$server" || return
	sleep 1
	kill -STOP "$load_pid"
	sleep 0.5
	kill -CONT "$load_pid"
	sleep 1
	kill -STOP "$load_pid"
	sleep 3
	timeout 20 "$build/kv-client" --server "$server" --provider "$provider" ping >"$scratch/ping.out" 2>&1 || {
		kill -CONT "$load_pid"
		echo "another client got no answer while the first stood still:"
		cat "$scratch/ping.out"
		return 1
	}
	sleep 3
	kill -CONT "$load_pid"
	sleep 3
	load_end 100 && idle && serve_stop
}

one_of_two() { # one_of_two [NAME ARGS...] -- while a server is killed three times no call on a key fails: the other stands in
	local a a_pid b b_pid k quarantine_max=${quarantine_max:-$((2 * 4 << 20))} name=${1:-two}
	serve "$name-a" 127.0.0.1:0 || return
	a=$server a_pid=$server_pid
	serve "$name-b" "127.0.0.1:$(free_ports 1)" || return
	b=$server b_pid=$server_pid
	load_start "$name" --server "$a" --server "$b" --timeout-ms 3000 "${@:2}" && bench_start --server "$a" --server "$b" || return
	for k in 1 2 3; do
		sleep 1
		mark down
		kill -KILL "$b_pid"
		wait "$b_pid" 2>/dev/null
		sleep 1.5
		mark rising
		sleep 0.3 # it is read by a program that may be short of processor time
		serve "$name-b" "$b" || return
		b_pid=$server_pid
		mark ready
		sleep 1
	done
	sleep 1
	load_end 300 || return
	say "keys that went on: $(field keys_alive), failures of keys: $(field collateral)"
	[ "$(field keys_alive)" -gt 20 ] || {
		echo "while one server was down, only $(field keys_alive) keys answered"
		return 1
	}
	server=$a && idle && server=$b && idle && serve_stop "$a_pid" && serve_stop "$b_pid"
}

stop_one_of_two() { # one of two stands still, longer than the limits
	local a a_pid b b_pid quarantine_max=$((2 * 4 << 20))
	serve still-a 127.0.0.1:0 || return
	a=$server a_pid=$server_pid
	serve still-b 127.0.0.1:0 || return
	b=$server b_pid=$server_pid
	load_start still --server "$a" --server "$b" --timeout-ms 3000 || return
	sleep 1
	mark down
	kill -STOP "$b_pid"
	sleep 7
	mark rising
	sleep 0.3
	kill -CONT "$b_pid"
	mark ready
	sleep 4
	load_end 100 || return
	say "keys that went on: $(field keys_alive), failures of keys: $(field collateral)"
	server=$a && idle && server=$b && idle && serve_stop "$a_pid" && serve_stop "$b_pid"
}

kill_client() { # what a dead client held is free again
	local k
	serve ckill 127.0.0.1:0 || return
	for k in 1 2 3; do
		load_start "ckill$k" --server "$server" --pace-us 500 || return
		pause_ms $((700 + $(random_below 500)))
		kill -KILL "$load_pid"
		wait "$load_pid" 2>/dev/null
	done
	idle || return
	say "after kill -9 of 3 clients: $(awk '$1 ~ /^(sessions|inflight|quarantined_bytes|fences|bytes_used)$/ { printf "%s %s, ", $1, $2 }' "$scratch/stat.out")"
	load_start ckill4 --server "$server" && sleep 1.5 && load_end 100 && idle && serve_stop
}

# ---- kills under PUTs ----

storm=(--puts 80 --max-bytes 6000000 --keys 400 --buffer-mb 32)
landing_learn() { stat_of >"$scratch/stat.out" 2>&1 && landing_alone=$(awk '$1 == "landing_bytes" { print $2 }' "$scratch/stat.out"); }

# storm_over SEED -- PUTs work at once, then every value that is still there is right.
storm_over() {
	local rc calm=("$load" --server "$server" --seed "$1" "${storm[@]}" --threads 0 --timeout-ms 5000 --short-ms 5000 --log 2)
	load_name=calm
	timeout -k 5 60 "${calm[@]}" --puts 100 --seconds 1 --workers 8 >"$scratch/calm.json" 2>"$scratch/calm.log" && [ "$(field failed)" = 0 ] && [ "$(field ok)" -gt 0 ] || {
		echo "PUTs after the storm do not all succeed:"
		cat "$scratch/calm.json" "$scratch/calm.log"
		return 1
	}
	timeout -k 5 60 "${calm[@]}" --check >"$scratch/calm.json" 2>"$scratch/calm.log"
	rc=$?
	say "afterwards: $(field ok) values are right, $(field misses) are missing, failed $(field failed), wrong bytes $(field wrong_bytes)"
	[ $rc -eq 0 ] && [ "$(field ok)" -gt 0 ] || {
		echo "reading all keys after the storm: status $rc"
		cat "$scratch/calm.json" "$scratch/calm.log"
		return 1
	}
}

# stop_for_a_while PID -- every third process stands still before it is killed: what was written to it, or by it, ends in the middle.
stop_for_a_while() {
	[ "$(random_below 3)" = 0 ] || return 0
	kill -STOP "$1"
	pause_ms "$(random_below 800)"
}

# load_served N -- wait until the load has recovered from N kills; at most 10 s.
load_served() {
	local i
	for ((i = 0; i < 100; i++)); do
		[ "$(grep -c '^load: recovered' "$scratch/$load_name.log")" -ge "$1" ] && return 0
		sleep 0.1
	done
	echo "no call succeeded in the 10 s after kill $1"
	tail -n 20 "$scratch/$load_name.log"
	return 1
}

# landed WAY -- values have come to landing areas, where the provider has them, and through channels if WAY is local, and only then.
landed() {
	stat_of >"$scratch/stat.out" 2>&1 &&
		awk -v way="$1" -v areas="$landing_alone" '
			$1 == "puts_landed" { puts = $2 }
			$1 == "local_frames" { frames = $2 }
			END { exit !((puts || !areas) && (way == "local") == (frames > 0)) }' "$scratch/stat.out" && return 0
	echo "no value has come to a landing area of the server, or not by way of $1:"
	cat "$scratch/stat.out"
	return 1
}

put_kills() { both_ways put_kills_by; } # the server is killed while values go to it in packs, to landing areas, in ranges

put_kills_by() { # WAY
	local k address seed name=pkills-$1
	seed=${KVRAIL_SEED:-$(random_below 60000)}
	serve "$name" "127.0.0.1:$(free_ports 1)" || return
	address=$server
	landing_learn
	load_start "$name" --server "$address" --seed "$seed" "${storm[@]}" --pace-us 1000 || return
	for ((k = 0; k < (kills + 1) / 2; k++)); do
		pause_ms $((100 + $(random_below 400)))
		mark down
		stop_for_a_while "$server_pid"
		kill -KILL "$server_pid"
		wait "$server_pid" 2>/dev/null
		pause_ms "$(random_below 300)"
		serve "$name" "$address" || return
		mark ready
		load_served $((k + 1)) || return
		pause_ms "$(random_below 800)"
	done
	sleep 2
	load_end 200 && storm_over "$seed" && landed "$1" && idle && serve_stop
}

put_one_of_two() { both_ways put_one_of_two_by; } # packs and landing areas at a server that is killed leave those at the other alone

put_one_of_two_by() { # WAY
	local quarantine_max=$((2 * 8 << 20))
	one_of_two "puttwo-$1" "${storm[@]}" --pace-us 4000
}

server_lives() {
	kill -0 "$server_pid" 2>/dev/null && [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$server_pid/status")" != Z ] && return 0
	wait "$server_pid"
	echo "the server died with status $?"
	tail -n 20 "$scratch/$1.err"
	return 1
}

put_kill_client() { both_ways put_kill_client_by; } # clients are killed while their values go to a server; others are served, and nothing is held for the dead

put_kill_client_by() { # WAY
	local k seed victim i size=0 fds=0 dead=$(((kills + 1) / 2))
	seed=${KVRAIL_SEED:-$(random_below 60000)}
	serve "pckill-$1" 127.0.0.1:0 || return
	landing_learn
	load_start "pcbeside-$1" --server "$server" --seed "$seed" "${storm[@]}" --short-ms 1500 --pace-us 4000 || return
	for ((k = 0; k < dead; k++)); do
		"$load" --server "$server" --seed "$seed" "${storm[@]}" --threads 1 --puts 95 --pace-us 0 --log 0 --seconds 60 >/dev/null 2>"$scratch/victim.log" &
		victim=$!
		pids+=("$victim")
		for ((i = 0; i < 200; i++)); do
			grep -qs '^load: running' "$scratch/victim.log" && break
			sleep 0.05
		done
		pause_ms $((20 + $(random_below 500)))
		kill -0 "$victim" || {
			echo "client $k died by itself:"
			cat "$scratch/victim.log"
			return 1
		}
		stop_for_a_while "$victim"
		kill -KILL "$victim"
		wait "$victim" 2>/dev/null
		grep -E 'load: [A-Z]' "$scratch/victim.log" && return 1
		server_lives "pckill-$1" || return
		[ "$k" -ne $((dead / 3)) ] || size=$(server_size) fds=$(server_fds)
	done
	storm_over "$seed" && landed "$1" || return
	say "server: descriptors $fds -> $(server_fds), rss $size -> $(server_size) KiB since a third of $dead kills"
	load_name=pcbeside-$1
	load_end 100 && idle || return
	say "after kill -9 of $dead clients: $(awk '$1 ~ /^(sessions|stages|landing_bytes|quarantined_bytes|fences)$/ { printf "%s %s, ", $1, $2 }' "$scratch/stat.out")"
	[ "$(server_fds)" -le $((fds + 2)) ] && [ "$(server_size)" -le $((size + 32768)) ] || {
		echo "the server grew: descriptors $fds -> $(server_fds), rss $size -> $(server_size) KiB"
		return 1
	}
	serve_stop
}

space_add() { echo "space $1" >>"$made" && ip netns add "$1"; }

# space_pair NAME -- two namespaces NAME-s and NAME-c with addresses 10.77.0.1 and 10.77.0.2, joined by a veth pair.
space_pair() {
	local s=$1-s c=$1-c
	space_add "$s" && space_add "$c" &&
		ip -n "$s" link add v0 type veth peer name v0 netns "$c" &&
		ip -n "$s" addr add 10.77.0.1/24 dev v0 && ip -n "$c" addr add 10.77.0.2/24 dev v0 &&
		ip -n "$s" link set v0 up && ip -n "$c" link set v0 up && ip -n "$s" link set lo up && ip -n "$c" link set lo up
}

can_space() {
	local ns="kvrail-try-$$"
	ip netns add "$ns" 2>/dev/null && ip -n "$ns" link add v0 type veth peer name v1 2>/dev/null
	local rc=$?
	ip netns del "$ns" 2>/dev/null
	return $rc
}

# serve_space NAME -- a server at 10.77.0.1 in namespace NAME-s, and what follows runs in NAME-c. Beyond loopback a key is asked for: there is none.
serve_space() {
	in_space=(ip netns exec "$1-s")
	serve "$1" 10.77.0.1:0 --insecure
	local rc=$?
	in_space=(ip netns exec "$1-c")
	return $rc
}

cable() { # the cable is pulled, for 1 s and for 8 s
	local ns="kvrail-$$" t
	space_pair "$ns" && serve_space "$ns" || return
	load_start cable --server "$server" && bench_start --server "$server" || return
	for t in 1 8; do
		sleep 1
		mark down
		ip -n "$ns-s" link set v0 down
		sleep "$t"
		ip -n "$ns-s" link set v0 up
		mark ready
		sleep 5
	done
	load_end 100 && idle && serve_stop
}

one_way() { # what the server sends gets lost, what the client sends arrives
	local ns="kvrail-$$-o" t
	space_pair "$ns" && serve_space "$ns" || return
	load_start oneway --server "$server" || return
	for t in 1 8; do
		sleep 1
		mark down
		ip -n "$ns-s" route add blackhole 10.77.0.2/32
		sleep "$t"
		ip -n "$ns-s" route del blackhole 10.77.0.2/32
		mark ready
		sleep 5
	done
	load_end 100 && idle && serve_stop
}

# bad_cable NAME -- 5 % loss and 50 ms in each direction: by the kernel if it can, else by lossy_link.
bad_cable() {
	local s=$1-s c=$1-c i
	if [ "$bad_cable_by" = netem ]; then
		space_pair "$1" && ip netns exec "$s" tc qdisc add dev v0 root netem delay 50ms loss 5% && ip netns exec "$c" tc qdisc add dev v0 root netem delay 50ms loss 5%
		return
	fi
	space_add "$s" && space_add "$c" || return
	"$build/tests/chaos/lossy_link" "$s" "$c" 50 5 >"$scratch/link.out" 2>"$scratch/link.err" &
	pids+=("$!")
	for ((i = 0; i < 50; i++)); do
		grep -q ready "$scratch/link.out" && break
		sleep 0.1
	done
	ip -n "$s" addr add 10.77.0.1/24 dev v0 && ip -n "$c" addr add 10.77.0.2/24 dev v0 &&
		ip -n "$s" link set v0 up && ip -n "$c" link set v0 up && ip -n "$s" link set lo up && ip -n "$c" link set lo up || {
		cat "$scratch/link.err"
		return 1
	}
}

lossy() { # 5 % of the packets lost, 50 ms on the way
	local ns="kvrail-$$-l"
	bad_cable "$ns" && serve_space "$ns" || return
	say "loss and delay by $bad_cable_by"
	load_start lossy --server "$server" --timeout-ms 5000 --short-ms 150 --connect-ms 20000 --max-bytes 65536 --pace-us 200000 || return
	sleep 10
	load_end 20 && idle && serve_stop
}

# with LIMIT COMMAND... -- run under `ulimit LIMIT`.
with() {
	local l=$1
	shift
	bash -c "ulimit $l && exec \"\$@\"" - "$@"
}

few_fds() { # a server and clients that may open few files
	local n refused=0 worked=0
	for n in 8 12 24 40 64; do
		sentence timeout -k 5 2 bash -c "ulimit -n $n && exec \"\$@\"" - "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --worker-threads 2 --provider "$provider" ||
			return
		[ -s "$scratch/sentence.last" ] && refused=$((refused + 1)) && say "server with $n files: $(cut -c 1-220 "$scratch/sentence.last")"
		rm -f "$scratch/sentence.last"
	done
	serve fds 127.0.0.1:0 || return
	for n in 8 12 24 40 64; do
		sentence bash -c "ulimit -n $n && exec \"\$@\"" - "$load" --server "$server" --seconds 1 --workers 4 --clients 2 --connect-ms 1500 || return
		[ -s "$scratch/sentence.last" ] && say "client with $n files: $(cut -c 1-220 "$scratch/sentence.last")" || worked=$((worked + 1))
		rm -f "$scratch/sentence.last"
	done
	[ $worked -gt 0 ] || {
		echo "no client worked with 64 files"
		return 1
	}
	idle && serve_stop && few_fds_kept
}

few_fds_kept() { # clients whose files suffice for the connections of all, not for shared memory as well, come back to a server of many threads
	local address
	serve wide "127.0.0.1:$(free_ports 1)" --worker-threads 16 || return
	address=$server
	in_space=(bash -c 'ulimit -n 72 && exec "$@"' -)
	load_start wide --server "$address" --clients 2 || return
	in_space=()
	sleep 1
	mark down
	kill -KILL "$server_pid"
	wait "$server_pid" 2>/dev/null
	serve wide "$address" --worker-threads 16 || return
	mark ready
	sleep 2
	load_end 100 || return
	[ "$(field reconnects)" = 2 ] && idle && serve_stop && return
	echo "$(field reconnects) of 2 clients came back"
	tail -n 20 "$scratch/wide.log"
	return 1
}

fd_storm() { # more clients than a server has descriptors for: those who are in go on, and when the others are gone a new one gets in
	local k fifo="$scratch/storm.ready" line= storm=()
	mkfifo "$fifo"
	(ulimit -n 72 && exec "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --worker-threads 2 --provider "$provider" --log-level warn --ready-fd 3) \
		3<>"$fifo" >"$scratch/storm.out" 2>"$scratch/storm.err" &
	server_pid=$!
	pids+=("$server_pid")
	read -r -t 20 line <>"$fifo"
	server=${line#READY }
	load_start storm --server "$server" --clients 1 --workers 4 --threads 0 || return
	for ((k = 0; k < 24; k++)); do
		"$load" --server "$server" --clients 1 --workers 2 --buffer-mb 4 --max-bytes 65536 --seconds 3 --pace-us 50000 --connect-ms 3000 >>"$scratch/storm-more.out" 2>&1 &
		storm+=("$!")
	done
	for k in "${storm[@]}"; do
		gone "$k"
		[ $? -lt 125 ] || return 1
	done
	kill -0 "$server_pid" || {
		echo "the server died"
		tail "$scratch/storm.err"
		return 1
	}
	say "of 24 more clients $(grep -c '"end"' "$scratch/storm-more.out") got in; the rest: $(grep -m1 'load: KV_' "$scratch/storm-more.out" | cut -c 1-220)"
	say "the server: $(tail -n 1 "$scratch/storm.err" | cut -c 1-220)"
	load_end 100 && idle && serve_stop
}

# Root may lock what it likes, unless it gives that up.
locked_out() {
	if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
		setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"
	else
		"$@"
	fi
}

small_memlock() { # memory that may not be locked; tcp locks none, so with it both work
	local n
	for n in 0 64; do
		sentence locked_out timeout -k 5 2 bash -c "ulimit -l $n && exec \"\$@\"" - "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --worker-threads 2 --provider "$provider" ||
			return
		[ -s "$scratch/sentence.last" ] && say "server with $n KiB: $(cut -c 1-220 "$scratch/sentence.last")"
		rm -f "$scratch/sentence.last"
	done
	serve memlock 127.0.0.1:0 || return
	for n in 0 64; do
		sentence locked_out bash -c "ulimit -l $n && exec \"\$@\"" - "$load" --server "$server" --seconds 1 --workers 4 || return
		[ -s "$scratch/sentence.last" ] && say "client with $n KiB: $(cut -c 1-220 "$scratch/sentence.last")"
		rm -f "$scratch/sentence.last"
	done
	idle && serve_stop
}

small_memory() { # address space is short, at the start or later
	local n worked=0
	for n in 300 1200 1300 1400 2000; do
		sentence timeout -k 5 2 bash -c "ulimit -v $((n * 1024)) && exec \"\$@\"" - "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 128 --worker-threads 2 --provider "$provider" ||
			return
		[ -s "$scratch/sentence.last" ] && say "server with $n MiB: $(cut -c 1-220 "$scratch/sentence.last")"
		rm -f "$scratch/sentence.last"
	done
	serve memory 127.0.0.1:0 || return
	for n in 300 1200 1300 1500 2000 3000 4000; do
		sentence bash -c "ulimit -v $((n * 1024)) && exec \"\$@\"" - "$load" --server "$server" --seconds 1 --workers 8 || return
		[ -s "$scratch/sentence.last" ] && say "client with $n MiB: $(cut -c 1-220 "$scratch/sentence.last")" || worked=$((worked + 1))
		rm -f "$scratch/sentence.last"
	done
	[ $worked -gt 0 ] || {
		echo "no client worked with 4000 MiB"
		return 1
	}
	idle && serve_stop
}

little_room() { # a server with less memory than is stored: it drops the old, nothing wrong comes out
	serve little 127.0.0.1:0 --memory-mb 24 || return
	load_start little --server "$server" --keys 1024 --pace-us 1000 || return
	sleep 6
	stat_of >"$scratch/stat.out"
	load_end 200 || return
	say "a server of 24 MiB: $(awk '$1 ~ /^(evictions|evicted|blocks|bytes_used|bytes_total)$/ { printf "%s %s, ", $1, $2 }' "$scratch/stat.out")"
	idle && serve_stop
}

# leased_run ARGS... -- the program of that name; prints its line.
leased_run() {
	"$build/tests/chaos/leased" --server "$server" "$@" >"$scratch/leased.json" 2>"$scratch/leased.err" || {
		cat "$scratch/leased.json" "$scratch/leased.err"
		return 1
	}
	say "$(cat "$scratch/leased.json")"
}

leased() { # values are read in place while they are evicted and deleted, every byte compared (CHAOS_GETS); a client dies with 10,000 leases
	serve leased 127.0.0.1:0 --memory-mb 64 || return
	leased_run --gets "${CHAOS_GETS:-200000}" --seed "${KVRAIL_SEED:-$RANDOM}" || return
	idle && serve_stop || return
	serve leased 127.0.0.1:0 --memory-mb 512 && leased_run --kill 10000 --pid "$server_pid" && idle && serve_stop
}

# cgroup_make NAME MIB -- a control group for memory, version 1 or 2; prints its folder.
cgroup_make() {
	local root=/sys/fs/cgroup/memory file=memory.limit_in_bytes
	[ -e /sys/fs/cgroup/cgroup.controllers ] && root=/sys/fs/cgroup file=memory.max
	echo "cgroup $root/$1" >>"$made"
	mkdir "$root/$1" 2>/dev/null && echo $(($2 << 20)) >"$root/$1/$file" && echo "$root/$1" || return
	[ $file = memory.max ] && echo 0 >"$root/$1/memory.swap.max" 2>/dev/null
	return 0
}

killed_for_memory() { # the machine's memory is short: the kernel kills the server while it fills up; another one takes its place
	local group address i
	group=$(cgroup_make "kvrail-$$" 24) || return
	serve oom "127.0.0.1:$(free_ports 1)" --prefault off --memory-mb 1024 || return # so its memory grows with the values, and for long
	address=$server
	load_start oom --server "$address" --keys 8192 && bench_start --server "$address" --num-keys 50 || return
	echo "$server_pid" >"$group/cgroup.procs" || return # what it takes from now on counts
	for ((i = 0; i < 300; i++)); do
		kill -0 "$server_pid" 2>/dev/null && [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$server_pid/status" 2>/dev/null)" != Z ] || break
		sleep 0.1
	done
	mark down
	[ "$i" -lt 300 ] || {
		echo "the server lives on: $(grep VmRSS "/proc/$server_pid/status")"
		return 1
	}
	wait "$server_pid" 2>/dev/null
	say "the kernel killed the server (status $?) after $((i / 10)) s"
	sleep 0.3
	serve oom "$address" || return
	mark ready
	sleep 3
	load_end 100 && idle && serve_stop
}

# refused_for_space COMMAND... -- it must end by itself, not by a signal, with a status that is not 0, and say that there is no space.
refused_for_space() {
	local rc
	timeout -k 5 60 "$@" >"$scratch/refused.out" 2>&1 </dev/null
	rc=$?
	[ $rc -gt 0 ] && [ $rc -lt 124 ] && grep -q 'No space left' "$scratch/refused.out" && return 0
	echo "status $rc, or no word of the space: $*"
	tail -n 5 "$scratch/refused.out"
	return 1
}

full_disk() { # no room for logs and reports: a server serves on, and a report that is lost is said to be
	server=
	mkfifo "$scratch/full.fifo"
	"$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --worker-threads 2 --provider "$provider" --log-level debug --ready-fd 3 \
		3<>"$scratch/full.fifo" >/dev/full 2>/dev/full &
	server_pid=$!
	pids+=("$server_pid")
	read -r -t 20 server <>"$scratch/full.fifo"
	server=${server#READY }
	[ -n "$server" ] || {
		echo "a server that cannot log did not become ready"
		return 1
	}
	load_start full --server "$server" || return
	sleep 2
	load_end 100 || return
	head -c 100000 /dev/urandom >"$scratch/value"
	"$build/kv-client" --server "$server" put full -f "$scratch/value" || return
	refused_for_space "$build/kv-client" --server "$server" get full -o /dev/full || return
	say "a value to a full disk: $(tail -n 1 "$scratch/refused.out" | cut -c 1-200)"
	refused_for_space "$build/kv-bench" --server "$server" --num-keys 20 --quiet --log-level off --json /dev/full || return
	if unshare -m true 2>/dev/null; then # a folder of 16 KiB that is full: the report must not be there in part
		mkdir "$scratch/disk"
		refused_for_space unshare -m bash -c 'mount -t tmpfs -o size=16k none "$1" && dd if=/dev/zero of="$1/fill" bs=1k 2>/dev/null
			"$2" --server "$3" --num-keys 20 --quiet --log-level off --json "$1/report.json"
			rc=$?
			[ "$(ls "$1")" = fill ] || { echo "left behind: $(ls "$1")" && exit 125; }
			exit $rc' - "$scratch/disk" "$build/kv-bench" "$server" || return
	fi
	say "a report to a full disk: $(tail -n 1 "$scratch/refused.out" | cut -c 1-200)"
	idle && serve_stop
}

server_size() { awk '/^VmRSS/ { print $2 }' "/proc/$server_pid/status"; }
server_fds() { find "/proc/$server_pid/fd" -mindepth 1 | wc -l; }

churn() { # many connections, in good order and not; neither side may grow
	local fds rss k
	serve churn 127.0.0.1:0 || return
	"$load" --server "$server" --churn 5 --keys 64 >/dev/null 2>&1
	idle || return
	fds=$(server_fds) rss=$(server_size)
	load_name=churn
	timeout -k 5 120 "$load" --server "$server" --churn 60 --keys 64 --clients 3 >"$scratch/churn.json" 2>"$scratch/churn.log" || {
		echo "status $? of the load"
		tail -n 5 "$scratch/churn.log"
		cat "$scratch/churn.json"
		return 1
	}
	say "60 pools of 3 clients: calls $(field calls), wrong bytes $(field wrong_bytes), client rss $(field rss_start_kib) -> $(field rss_kib) KiB"
	for ((k = 0; k < 20; k++)); do # these break off in the middle of the handshake or just after it
		timeout -s KILL "0.0$((1 + k % 9))" "$load" --server "$server" --seconds 5 >/dev/null 2>&1
	done
	for ((k = 0; k < 20; k++)); do # no handshake at all
		(exec 5<>"/dev/tcp/${server%:*}/${server#*:}" && head -c $((k * 100)) /dev/urandom >&5) 2>/dev/null
	done
	idle || return
	say "server: descriptors $fds -> $(server_fds), rss $rss -> $(server_size) KiB"
	[ "$(server_fds)" -le $((fds + 2)) ] || {
		echo "the server has $(server_fds) descriptors open, $fds before"
		ls -l "/proc/$server_pid/fd"
		return 1
	}
	[ "$(server_size)" -le $((rss + 32768)) ] || {
		echo "the server grew from $rss to $(server_size) KiB"
		return 1
	}
	serve_stop
}

# ---- all of them ----

all="steady kills kills_rapid drain reset_sockets close_stopped stop_server_short stop_server_long stop_client one_of_two stop_one_of_two kill_client put_kills put_one_of_two put_kill_client cable one_way lossy few_fds fd_storm small_memlock small_memory little_room leased killed_for_memory full_disk churn"
[ $# -gt 0 ] && all=$*

skip() {
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1 # SKIP $2"
}

has_netem() {
	local ns="kvrail-try-$$" rc
	ip netns add "$ns" 2>/dev/null && ip -n "$ns" link set lo up && ip netns exec "$ns" tc qdisc add dev lo root netem delay 1ms 2>/dev/null
	rc=$?
	ip netns del "$ns" 2>/dev/null
	return $rc
}
bad_cable_by=lossy_link
has_netem && bad_cable_by=netem

why_not() { # why_not SCENARIO -- prints why it cannot run here
	case $1 in
	cable | one_way | lossy) can_space || {
		echo "network namespaces cannot be made here (ip netns add)"
		return
	} ;;&
	killed_for_memory)
		local group
		group=$(cgroup_make "kvrail-try-$$" 64) || echo "memory control groups cannot be made here"
		[ -d "$group" ] && rmdir "$group"
		;;
	reset_sockets) ss -K -tnH src 127.0.0.9 >/dev/null 2>&1 || echo "ss -K cannot close sockets here (iproute2 and CONFIG_INET_DIAG_DESTROY)" ;;
	lossy) [ $bad_cable_by = netem ] || [ -c /dev/net/tun ] || echo "the kernel has no netem, and there is no /dev/net/tun for lossy_link" ;;
	esac
}

# shellcheck disable=SC2086
plan "$(echo $all | wc -w)"
for current in $all; do
	in_space=() way=() landing_alone=0
	why=$(why_not "$current")
	if [ -n "$why" ]; then
		skip "$current" "$why"
	elif [ $SECONDS -ge "$limit" ]; then
		skip "$current" "out of time: $limit s are over"
	else
		: >"$scratch/said"
		began=$SECONDS
		check "$current" "$current"
		cat "$scratch/said"
		echo "# $current: $((SECONDS - began)) s"
	fi
	for pid in "${pids[@]}"; do
		kill -CONT "$pid" 2>/dev/null
		kill -KILL "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	pids=() bench_pid=
	undo_made
done
finish
