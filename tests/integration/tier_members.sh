#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tier_members.sh -- what is deleted at other servers while a server is away does not come back from its NVMe tier.
. "$(dirname "$0")/lib.bash"
plan 5
port=$(free_ports 2)
members=(--members "list:a=127.0.0.1:$port,b=127.0.0.1:$((port + 1))")
client() { limited "$build/kv-client" --server "127.0.0.1:$port" --server "127.0.0.1:$((port + 1))" "${over[@]}" "$@"; }
start_a() { # start_a NAME
	start_server "$1" --listen-addr "127.0.0.1:$port" --node-id a "${members[@]}" --memory-mb 8 --worker-threads 2 --landing-mb 8 \
		--tier "$scratch/a.img:128M" --tier-segment 4M --log-level info && pid_a=$server_pid
}
all() { # all COMMAND FROM TO [MORE...] -- for each of these keys
	local i
	for ((i = $2; i < $3; i++)); do echo "$1 key-$i ${*:4}"; done | client
}
there() { all exists "$1" "$2" | grep -c '^[12] key-'; } # there FROM TO -- counts the keys that exist
head -c 100000 /dev/urandom >"$scratch/value"

start_server b --listen-addr "127.0.0.1:$((port + 1))" --node-id b "${members[@]}" || exit 1
start_a a-first || exit 1
filled() { all put "$@" && [ "$(there 0 300)" -gt 150 ]; }
check "values go to two servers" filled 0 300 -f "$scratch/value"
tier_has() { limited "$build/kv-client" --server "127.0.0.1:$port" stat --all | awk '$1 == "tier_records" { ok = $2 > 20 } END { exit !ok }'; }
check "one of them has some on its tier" soon tier_has
kill -KILL "$pid_a"
wait "$pid_a" 2>/dev/null
all delete 0 300 >"$scratch/deleted" 2>&1
start_a a-second || exit 1
ready() { grep -q "tier on .* is ready" "$scratch/a-second.err"; }
check "it returns" soon ready
nothing_there() { [ "$(there 0 300)" -eq 0 ]; }
stays_away() {
	local i
	for ((i = 0; i < 10; i++)); do nothing_there || return 1; sleep 1; done
}
check "what was deleted while it was away stays deleted" stays_away
again() { all put 0 100 -f "$scratch/value" && [ "$(there 0 100)" -eq 100 ]; }
check "it takes values again" again
finish
