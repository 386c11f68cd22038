#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# service.sh -- kv-server under a service manager: what it is told, and that a server which stands still is not said to be well.
. "$(dirname "$0")/lib.bash"
plan 15

# What the manager hears goes to $scratch/heard, a line for each line.
python3 - "$scratch/notify" >"$scratch/heard" <<'P' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    for line in s.recv(4096).decode().splitlines():
        print(line, flush=True)
P
pids+=($!)
heard() { # heard N TEXT -- in N lines
	[ "$(grep -c -- "$2" "$scratch/heard")" -ge "$1" ]
}
soon test -S "$scratch/notify" || exit 1
export NOTIFY_SOCKET=$scratch/notify WATCHDOG_USEC=600000
start_server watched --drain-sec 7 || exit 1
check "the manager hears that the server is ready" soon heard 1 '^READY=1$'
check "and where" heard 1 "^STATUS=serving on $server\$"
check "and twice per watchdog time that all threads answer" soon heard 4 '^WATCHDOG=1$'
told_while_stopped() { # a process that stands still says nothing
	local before
	stand_still "$server_pid" || return 1
	before=$(grep -c '^WATCHDOG=1$' "$scratch/heard")
	sleep 1.5
	[ "$(grep -c '^WATCHDOG=1$' "$scratch/heard")" -le $((before + 1)) ] && kill -CONT "$server_pid" && soon heard $((before + 3)) '^WATCHDOG=1$'
}
check "a server that is stopped is silent, and goes on when it does" told_while_stopped
check "the server ends at SIGTERM" stop_server "$server_pid"
check "the manager hears that, and how long it may take" soon heard 1 '^STOPPING=1$'
check "as long as the drain, and ten seconds" heard 1 '^EXTEND_TIMEOUT_USEC=17000000$'
# The unit names where packages put the program: here is a copy that names the one that was built.
unit() { sed "s|^ExecStart=/usr/bin/kv-server|ExecStart=$build/kv-server|" deploy/systemd/kv-server.service >"$scratch/kv-server.service"; }
verified() { unit && ! systemd-analyze verify "$scratch/kv-server.service" 2>&1 | grep 'kv-server.service' | grep -v 'man kv-server'; }
few_rights() { unit && systemd-analyze security --offline=true --threshold=20 "$scratch/kv-server.service"; } # in tenths
if systemd-analyze security --help 2>/dev/null | grep -q -- --offline; then
	check "systemd understands the unit" verified
	check "and gives its rights 2 of 10 at most" few_rights
else
	skip "systemd understands the unit" "there is no systemd-analyze with --offline"
	skip "and gives its rights 2 of 10 at most" "there is no systemd-analyze with --offline"
fi
alone() {
	NOTIFY_SOCKET=$scratch/nobody start_server alone && stop_server "$server_pid" &&
		grep -q 'cannot send READY=1 to the service manager: NOTIFY_SOCKET: No such file' "$scratch/alone.err"
}
check "a manager that is not there is warned of" alone

# A manager with a store of descriptors: the memory of --keep stays there.
managed() { # managed NAME MAX -- it keeps MAX descriptors
	: >"$scratch/$1.ready"
	python3 tests/integration/fdstore.py "$2" "$build/kv-server" --listen-addr "$at" --memory-mb 32 --worker-threads 2 --log-level info --ready-fd 9 "${over[@]}" \
		--keep "$scratch/$1.index" 9>"$scratch/$1.ready" 8>"$scratch/$1.names" >"$scratch/$1.out" 2>"$scratch/$1.err" &
	server_pid=$!
	server_wait "$1" "$scratch/$1.ready" 300 "$scratch/$1.err" >"$scratch/wait.out"
}
client() { timeout -k 5 60 "$build/kv-client" --server "$at" --timeout 20 "${over[@]}" "$@"; }
value() { [ "$(client get "$1")" = "$2" ]; }
times() { [ "$(grep -c READY "$scratch/$1.ready")" -ge "$2" ]; }
again() { # again NAME SIGNAL -- the manager starts the next process
	local before
	before=$(grep -c READY "$scratch/$1.ready")
	kill "-$2" "$server_pid" && soon times "$1" $((before + 1))
}
at=127.0.0.1:$(free_ports 1)
kept() { managed store 64 && client put a hello && again store USR1 && value a hello && grep -q 'keep_restored values=1 ' "$scratch/store.err"; }
check "values survive a restart in the manager's store of descriptors" kept
kept_again() { client put b more && again store USR1 && value a hello && value b more && [ "$(tail -n 1 "$scratch/store.names")" = "kvrail-arena-0 kvrail-arena-1" ]; }
check "and another one, and the store does not grow" kept_again
lost() { again store USR2 && status 1 client get a && client put a new && value a new; }
check "after kill -9 the memory is there, without its values" lost
check "the manager ends the server" stop_server "$server_pid"
refused() { managed full 1 && client put a hello && again full USR1 && status 1 client get a && grep -q 'no values are back: the memory is not as the index describes it' "$scratch/full.err" && stop_server "$server_pid"; }
check "a manager that keeps too few descriptors: an empty start that says why" refused
finish
