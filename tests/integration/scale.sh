#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scale.sh -- kv-bench scale with few clients: that all succeed, what is counted, and what it says when descriptors, a process or patience run out.
. "$(dirname "$0")/lib.bash"
plan 22
scale() { timeout -k 5 200 "$build/kv-bench" scale "${over[@]}" "$@"; }
r=$scratch/r.json
steps() { json_is "$1" "(lambda s, t: $2)([x for x in j['steps'] if x['kind'] == 'sessions'], [x for x in j['steps'] if x['kind'] == 'tls'])"; }

check "sessions and connections with TLS" scale --clients 3,50,300 --messages 4 --json "$r"
cp "$scratch/check.out" "$scratch/table"
check "all succeed, with every message" steps "$r" 'len(s) == len(t) == 3 and all(x["success"] == 1.0 and x["succeeded"] == x["connected"] == x["clients"] and x["messages"] == 4 * x["clients"] and x["wrong"] == x["failed"] == 0 and x["complete"] for x in s + t)'
check "the JSON is as its schema says" tests/integration/schema.py "$r"
check "four event loops and the thread that waits" steps "$r" 'all(x["threads"] in (5, 6) for x in s)' # a sanitizer may have one of its own
check "a session opens no file, a connection one" steps "$r" 's[2]["files"] == s[1]["files"] and t[2]["files"] - t[1]["files"] == 250'
check "memory is counted, in all and for each" steps "$r" 'all(x["memory_bytes"] > 0 and x["bytes_per_client"] == x["memory_bytes"] // x["clients"] for x in s + t) and s[2]["bytes_per_further_client"] < s[2]["bytes_per_client"]'
check "no line is wider than a terminal" eval '! grep -nE "^.{81}" "$scratch/table"'
check "large messages are compared, too" scale --clients 20 --message-size 200KB --messages 2 --json "$scratch/large.json"
check "and come whole" steps "$scratch/large.json" 'all(x["messages"] == 40 for x in s + t) and len(s + t) == 2'
check "clients think between messages" scale --clients 10 --messages 3 --think-time 200ms --json "$scratch/think.json"
check "and send no more than that allows" steps "$scratch/think.json" 'all(x["messages"] == 30 and x["messages_per_s"] <= 30 / 0.4 for x in s + t)'
few_files() { (ulimit -n 160 && scale --clients 10,300 --engines 1 --json "$scratch/files.json"); }
if [ "$provider" = shm ]; then
	skip "descriptors end the connections with TLS, and not the sessions" "shm has other descriptors"
	skip "it says where and why" "shm has other descriptors"
else
	check "descriptors end the connections with TLS, and not the sessions" few_files
	check "it says where and why" steps "$scratch/files.json" 's[1]["success"] == 1.0 and t[0]["success"] == 1.0 and 0 < t[1]["connected"] < 160 and not t[1]["complete"] and "RLIMIT_NOFILE is 160" in t[1]["stopped"]'
fi
# A network of its own, with 101 ports for each pair of addresses.
few_ports() {
	unshare -n bash -c 'python3 -c "
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh\", b\"lo\", 0x41))" && echo "40000 40100" >/proc/sys/net/ipv4/ip_local_port_range && exec "$@"' x "$@"
}
if few_ports true 2>/dev/null; then
	few_are_enough() {
		few_ports timeout -k 5 200 "$build/kv-bench" scale "${over[@]}" --clients 300 --messages 1 --json "$scratch/ports.json" &&
			steps "$scratch/ports.json" 't[0]["success"] == 1.0'
	}
	check "few ports: further addresses are taken" few_are_enough
else
	skip "few ports: further addresses are taken" "no network of its own may be made here"
fi
check "without TLS it is left out" eval 'scale --clients 5 --no-tls --json - 2>/dev/null | json_is - "[x[\"kind\"] for x in j[\"steps\"]] == [\"sessions\"]"'

# Broken off; the size of messages marks the processes.
processes() {
	local p line
	for p in /proc/[0-9]*; do
		line=$(tr '\0' '|' <"$p/cmdline" 2>/dev/null) || continue
		[[ $line == *"--message-size|$1|"* && $line == *"$2"* ]] && echo "${p#/proc/}"
	done
	return 0
}
none_left() { [ -z "$(processes "$1" '')" ]; }
a_step() { [ -n "$(processes "$1" 'kv-bench-scale-step|')" ]; }
peers() { # the other end of TLS: a child of the step, with its arguments
	local p
	for p in $(processes "$1" 'kv-bench-scale-step|tls|'); do
		processes "$1" 'kv-bench-scale-step|tls|' | grep -qx "$(awk '/^PPid:/ { print $2 }' "/proc/$p/status")" && echo "$p"
	done
}
a_peer() { [ -n "$(peers "$1")" ]; }
broken() { # broken SIGNAL WHOM STATUS SIZE
	local pid got
	"$build/kv-bench" scale "${over[@]}" --clients 7,8 --messages 100000 --think-time 100ms --message-size "$4" --timeout 60 --json "$scratch/broken.json" >"$scratch/broken" 2>&1 &
	pid=$!
	pids+=("$pid")
	soon a_step "$4" || return 1
	if [ "$2" = step ]; then
		# shellcheck disable=SC2046
		kill "-$1" $(processes "$4" 'kv-bench-scale-step|')
		soon grep -q 'ended by signal' "$scratch/broken"
		kill -INT "$pid"
	else
		kill "-$1" "$pid"
	fi
	wait "$pid"
	got=$?
	soon none_left "$4" || { echo "processes stay: $(processes "$4" '')"; return 1; }
	[ "$got" -eq "$3" ] || { echo "exit status $got"; cat "$scratch/broken"; return 1; }
}
check "Ctrl-C: exit status 130" broken INT parent 130 1231
check "and the report says so" eval 'unfolded "$scratch/broken" | grep -q "interrupted by signal 2" && ! unfolded "$scratch/broken" | grep -q "signal 15" && json_is "$scratch/broken.json" "j[\"interrupted\"] is True and not j[\"steps\"][0][\"complete\"]"'
check "SIGKILL leaves no process" broken KILL parent 137 1232
check "a step that is killed is told, and the next one runs" broken KILL step 130 1233
peer_dies() { # the other end of the connections with TLS
	scale --clients 6 --messages 100000 --message-size 1234 --timeout 60 --json "$scratch/peer.json" --think-time 10us >"$scratch/peer" 2>&1 &
	pids+=("$!")
	soon a_peer 1234 || { cat "$scratch/peer"; return 1; }
	# shellcheck disable=SC2046
	kill -KILL $(peers 1234)
	wait "${pids[-1]}"
	soon none_left 1234 && steps "$scratch/peer.json" 'not t[0]["complete"] and t[0]["stopped"] != ""'
}
check "the other end of TLS dies: the step says so" peer_dies
check "standard output is full: exit status 1" status 1 bash -c '"$@" >/dev/full' x "$build/kv-bench" scale --clients 1 --no-tls
check "a provider that is not here: exit status 3" status 3 "$build/kv-bench" scale --provider efa --clients 1
finish
