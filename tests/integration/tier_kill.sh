#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tier_kill.sh -- kill -9 of a server with an NVMe tier under load, again and again: every byte of every GET is compared, and deleted keys stay deleted.
# KVRAIL_TIER_KILLS=100 kills that often (default 3). KVRAIL_TIER_GETS=1000000: so many GETs must have been compared (default 1000).
# KVRAIL_TIER_SECONDS: the load lasts so long at least. KVRAIL_SEED: of the pauses.
. "$(dirname "$0")/lib.bash"
plan 6
kills=${KVRAIL_TIER_KILLS:-3}
gets=${KVRAIL_TIER_GETS:-1000}
seconds=${KVRAIL_TIER_SECONDS:-0}
rate=()
[ "$gets" -gt 1000 ] || rate=(--rate 2000) # spares the processors of make check
seed=${KVRAIL_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "# seed $seed (KVRAIL_SEED), $kills kills"
RANDOM=$((seed % 32768))
port=$(free_ports 1)
tier=$scratch/tier

# The server of the tier, at the same port each time. Its memory holds a quarter of the values.
serve() { start_server tier --listen-addr "127.0.0.1:$port" --memory-mb 64 --tier "$tier:512MiB" --tier-segment 4MiB "$@"; }
client() { limited "$build/kv-client" "${over[@]}" --server "127.0.0.1:$port" "$@"; }
stat_of() { client stat | sed -n "s/^$1  *//p"; }

kill_it() {
	kill -KILL "$server_pid" && wait "$server_pid" 2>/dev/null
	pids=("${pids[@]/$server_pid/}")
}

served=0 # by the tier of servers that were killed
# A kill before the load is connected would end it; and one before anything is on the tier tests little.
load_reads() { [ "$(stat_of gets)" -gt 100 ]; }

killed_under_load() {
	local i status began=$SECONDS
	"$build/kv-bench" "${over[@]}" --server "127.0.0.1:$port" --num-keys 4000 --value-size 64KB --num-workers 16 --num-clients 2 --warmup 0 \
		--keep-going --verify --duration 7200 "${rate[@]}" --timeout 2 --json "$scratch/load.json" >"$scratch/load.out" 2>&1 &
	load=$!
	pids+=("$load")
	soon load_reads || return 1
	for ((i = 0; i < kills; i++)); do
		sleep "1.$((RANDOM % 10))"
		kill -0 "$load" 2>/dev/null || break
		served=$((served + $(stat_of tier_hits)))
		kill_it
		serve || return 1
	done
	sleep 2
	while [ $((SECONDS - began)) -lt "$seconds" ]; do sleep 1; done
	kill -TERM "$load" # with --keep-going a signal ends it in order
	wait "$load"
	status=$?
	[ "$status" -eq 0 ] || cat "$scratch/load.out"
	[ "$i" -eq "$kills" ] && return "$status"
}

check "a server with a tier starts" serve
printf 'kept until the end' >"$scratch/value"
check "a key is stored and deleted" eval 'client put doomed "$scratch/value" && client delete doomed'
check "the load goes on through $kills kills, and ends in order" killed_under_load
check "every byte was right, and $gets GETs were compared" json_is "$scratch/load.json" "j['verify']['wrong'] == 0 and j['verify']['checked'] >= $gets"
compared() { python3 -c 'import json, sys; print("# compared:", json.load(open(sys.argv[1]))["verify"])' "$scratch/load.json"; }
compared
check "the tier served values" eval '[ $((served + $(stat_of tier_hits))) -gt 0 ]'
check "the deleted key is still deleted" status 1 client get doomed
finish
