#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh -- kv-server, kv-client and kv-bench under valgrind: every call, a trace, a restart of the server. No error, and nothing lost.
#
# What is still reachable at the end is not a leak (libfabric and its providers keep tables). Nothing is suppressed. uring.c says why it is preloaded.
. "$(dirname "$0")/../integration/lib.bash"
command -v valgrind >/dev/null && [ -e "$build/tests/valgrind/uring.so" ] || {
	echo "1..1"
	echo "ok 1 - valgrind # SKIP valgrind with its headers is not installed (Debian: valgrind)"
	exit 0
}
plan 9

grind() { # grind NAME COMMAND... -- its report is $scratch/NAME.vg; status 99: it found something
	local name=$1
	shift
	LD_PRELOAD="$build/tests/valgrind/uring.so" exec valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect,possible \
		--errors-for-leak-kinds=definite,indirect,possible --error-exitcode=99 --num-callers=40 \
		--log-file="$scratch/$name.vg" "$@"
}

grind_server() { # grind_server NAME ADDRESS -- $server, $server_pid
	local name=$1 ready="$scratch/$1.ready"
	: >"$ready"
	grind "$name" "$build/kv-server" --listen-addr "$2" --memory-mb 32 --worker-threads 2 --provider tcp --log-level warn --ready-fd 3 \
		3>"$ready" >"$scratch/$name.out" 2>&1 &
	server_pid=$!
	server_wait "$name" "$ready" 600 "$scratch/$name.out" "$scratch/$name.vg"
}

# A server has slow clients and is slow itself: it gets a minute.
grind_server_stop() {
	local i
	kill -TERM "$server_pid"
	for ((i = 0; i < 600; i++)); do
		kill -0 "$server_pid" 2>/dev/null || break
		[ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$server_pid/status" 2>/dev/null)" = Z ] && break
		sleep 0.1
	done
	[ "$i" -lt 600 ] || return 1
	wait "$server_pid"
	verdict $? "$1"
}

verdict() { # verdict STATUS NAME
	[ "$1" -eq 0 ] && [ ! -s "$scratch/$2.vg" ] && return 0
	echo "status $1"
	head -n 50 "$scratch/$2.vg"
	return 1
}

n=0
kv() { # kv WANTED-STATUS ARGS...
	local want=$1 rc
	shift
	n=$((n + 1))
	(grind "client-$n" "$build/kv-client" --server "$server" --provider tcp --timeout 60 "$@") >"$scratch/kv.out" 2>&1
	rc=$?
	[ "$rc" -eq "$want" ] && verdict 0 "client-$n" && return 0
	cat "$scratch/kv.out"
	echo "exit status $rc, expected $want: $*"
	return 1
}

bench() { # bench NAME ARGS...
	local name=$1
	shift
	(grind "$name" "$build/kv-bench" --server "$server" --provider tcp --num-clients 2 --num-threads 2 --num-workers 8 --buffer-mb 4 --timeout 60 --verify \
		--log-level warn --json "$scratch/$name.json" "$@") >"$scratch/$name.out" 2>&1
	verdict $? "$name" || {
		cat "$scratch/$name.out"
		return 1
	}
}

values() { # of one message, of one range, of several ranges
	local bytes
	for bytes in 1 3073 200000 5000001; do
		head -c $bytes /dev/urandom >"$scratch/value"
		kv 0 put "v$bytes" -f "$scratch/value" && kv 0 get "v$bytes" -o "$scratch/copy" && cmp "$scratch/value" "$scratch/copy" || return
	done
}
lookups() { kv 0 exists v1 && kv 1 exists v1 v3073 nothing && kv 1 get nothing && kv 0 delete v1 && kv 1 exists v1 && kv 0 stat && kv 0 ping; }
repl() { (printf 'put r 42\nget r\nexists r x\nstat\nnonsense\ndelete r\nexit\n' | grind repl "$build/kv-client" --server "$server" --provider tcp --timeout 60) >"$scratch/repl.out" 2>&1; verdict 0 repl && grep -q 42 "$scratch/repl.out"; }
trace() {
	python3 - "$scratch/trace.jsonl" "${KVRAIL_SEED:-7}" <<'P'
import json, random, sys
r = random.Random(int(sys.argv[2]))
with open(sys.argv[1], "w") as f:
    for i in range(300):
        root = r.randrange(5)
        ids = [root * 1000 + k for k in range(r.randrange(1, 8))] + [100000 + i * 20 + k for k in range(r.randrange(0, 3))]
        f.write(json.dumps({"timestamp": i * 10, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}) + "\n")
P
	bench trace --trace "$scratch/trace.jsonl" --value-size 8KB
}

restart() { # the server goes and comes back while kv-bench reads
	local address=$server rc pid i
	(grind again "$build/kv-bench" --server "$server" --provider tcp --num-clients 2 --num-threads 2 --num-workers 4 --buffer-mb 4 --num-keys 40 --value-size 8KB \
		--verify --keep-going --duration 600 --rate 40 --timeout 3 --warmup 0 --log-level off) >"$scratch/again.out" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 300; i++)); do
		grep -q '^\[1/4\]' "$scratch/again.out" && break
		sleep 0.1
	done
	sleep 2
	grind_server_stop server || return
	grind_server second "$address" || return
	sleep 5
	kill -INT "$pid"
	wait "$pid"
	rc=$?
	# Calls under valgrind may be late: that is not what is asked here.
	[ $rc -ne 99 ] && grep -q 'kept going' "$scratch/again.out" && grep -q ' 0 wrong' "$scratch/again.out" && verdict 0 again && return 0
	cat "$scratch/again.out" "$scratch/again.vg"
	return 1
}

check "a server starts" grind_server server "127.0.0.1:$(free_ports 1)"
[ "$tap_failed" -eq 0 ] || exit 1
check "values of every kind of transfer, put and read" values
check "exists, delete, stat, ping, misses" lookups
check "commands from standard input" repl
check "write and read phases, borrowed pieces, verification" bench phases --num-keys 100 --repeat-reads 3 --warmup 10
check "values of several ranges" bench large --num-keys 4 --repeat-reads 2 --warmup 0 --value-size 1MB --num-workers 2
check "a trace: batches" trace
check "the server restarts under kv-bench; the old one ended clean" restart
check "the new one ends clean" grind_server_stop second
finish
