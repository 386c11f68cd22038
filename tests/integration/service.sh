#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# service.sh -- kv-server under a service manager: what it is told, and that a server which stands still is not said to be well.
. "$(dirname "$0")/lib.bash"
plan 10

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
finish
