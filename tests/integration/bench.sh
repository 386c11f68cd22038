#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh -- kv-bench with its own server over each provider: exact counts, the JSON's names, verification, and refusals. `make check` makes the runs of the
# first user: one over each provider, and one with more clients than workers.
. "$(dirname "$0")/lib.bash"
read -ra all <<<"${KVRAIL_TEST_PROVIDER:-tcp shm}"
if short; then plan $((3 + 4 * ${#all[@]})); else plan $((51 + 4 * ${#all[@]})); fi
run() { timeout -k 5 120 "$build/kv-bench" --log-level warn "${over[@]}" "$@"; }
small=(--num-workers 8 --num-clients 2 --num-threads 2 --num-keys 200 --repeat-reads 5 --buffer-mb 16)

for provider in "${all[@]}"; do
	check "$provider: run with --verify" run --provider $provider "${small[@]}" --verify --json "$scratch/$provider.json"
	check "$provider: every GET hit, none failed, none wrong" json_is "$scratch/$provider.json" \
		'j["schema"] == "kvbench/1" and j["phases"]["read"]["ops"] == 1000 and j["phases"]["read"]["hits"] == 1000 and j["phases"]["read"]["misses"] == 0 and j["phases"]["read"]["errors"] == {} and j["verify"]["wrong"] == 0 and j["verify"]["checked"] >= 1000'
	check "$provider: bytes are counted exactly" json_is "$scratch/$provider.json" \
		'j["phases"]["read"]["bytes"] == 1000 * 65536 and j["phases"]["write"]["bytes"] == 200 * 65536 and j["phases"]["write"]["ops"] == 200'
	check "$provider: the latency figures are ordered" json_is "$scratch/$provider.json" \
		'(lambda l: l["min"] <= l["p50"] <= l["p90"] <= l["p95"] <= l["p99"] <= l["p999"] <= l["max"] and l["min"] > 0)(j["phases"]["read"]["latency_ns"])'
done
first=${all[0]}
check "$first: the provider is named" json_is "$scratch/$first.json" 'j["provider"]["name"].startswith("'"${first%%-*}"'") and all(k in j["provider"] for k in ("fabric", "domain", "wait", "libfabric"))'
check "$first: resources are those of the pooled model" json_is "$scratch/$first.json" 'j["resources"]["endpoints"] == 2 and j["resources"]["buffer_bytes"] == 2 * 16 << 20 and j["resources"]["peak_rss_bytes"] > 0'
check "$first: clients without a worker are noted, and only those" eval 'says "2 of 4 clients have no worker, but cost an endpoint and a buffer each" run --num-workers 2 --num-clients 4 --num-keys 20 --repeat-reads 1 --buffer-mb 4 && ! says "no worker" run "${small[@]}" >/dev/null'
if short; then finish; fi
roofed() { run "${small[@]}" --roofline --json "$scratch/roof.json" >"$scratch/roof.out"; }
check "roofline gives an efficiency" roofed
check "of more than nothing" json_is "$scratch/roof.json" 'j["roofline"]["efficiency"] > 0 and j["roofline"]["bytes_per_s"] > 0 and j["roofline"]["p50_ns"] > 0'
check "a batch GET per operation" run "${small[@]}" --batch 7 --value-size 3000 --verify --json "$scratch/batch.json"
check "counts keys, not batches" json_is "$scratch/batch.json" \
	'j["phases"]["read"]["ops"] == 143 * 7 == j["phases"]["read"]["hits"] and j["phases"]["read"]["bytes"] == 1001 * 3000 and j["phases"]["read"]["errors"] == {} and j["verify"]["wrong"] == 0 and j["verify"]["checked"] == 1001'
check "writes batches, too, the last one short" json_is "$scratch/batch.json" \
	'(lambda w: w["ops"] == 200 and w["bytes"] == 200 * 3000 and w["errors"] == {} and w["put_conflicts"] == 0)(j["phases"]["write"])'
check "GET and PUT at the same time" run "${small[@]}" --mixed --verify --json "$scratch/mixed.json"
check "as many of each, each right" json_is "$scratch/mixed.json" \
	'(lambda m: m["read"]["ops"] == m["read"]["hits"] == 200 == m["write"]["ops"] and m["write"]["errors"] == m["read"]["errors"] == {} and m["of_alone"] > 0)(j["phases"]["mixed"])'
check "also as batches" run "${small[@]}" --mixed --batch 16 --verify --json "$scratch/mixed.json"
check "of which the last PUT is short" json_is "$scratch/mixed.json" \
	'(lambda m: m["read"]["hits"] == 208 and m["write"]["ops"] == 200 and m["write"]["bytes"] == 200 * 65536)(j["phases"]["mixed"])'
hot=(--num-workers 1 --num-clients 1 --num-threads 1 --num-keys 1 --repeat-reads 500 --server-threads 1 --buffer-mb 16)
check "roofline of one pair with 64 writes in flight" run "${hot[@]}" --roofline --roofline-depth 64 --json "$scratch/hot.json"
check "has both sides and the range" json_is "$scratch/hot.json" \
	'(lambda r: r["bytes_per_s"] > 0 and r["get_bytes_per_s"] > 0 and r["depth"] == 64 and 0 < r["efficiency_min"] <= r["efficiency"] <= r["efficiency_max"])(j["roofline"])'
check "and a roofline of PUT" json_is "$scratch/roof.json" '(lambda r: r["bytes_per_s"] > 0 and r["put_bytes_per_s"] > 0 and r["p50_ns"] > 0 and 0 < r["efficiency_min"] <= r["efficiency"] <= r["efficiency_max"])(j["roofline_put"])'
start_server kept || exit 1
check "a server keeps what a run wrote" run --server "$server" "${small[@]}"
check "kv-bench fabric writes a limit" timeout 60 "$build/kv-bench" fabric --provider "$provider" --sizes 64KB --depth 8 --time 50ms --json "$scratch/limit.json"
check "with which a run with a server compares its phases" run --server "$server" "${small[@]}" --roofline-file "$scratch/limit.json" --json "$scratch/limited.json"
check "as one figure" json_is "$scratch/limited.json" '(lambda r, p: r["depth"] == 8 and 0 < r["efficiency_min"] == r["efficiency"] == r["efficiency_max"] and p["efficiency"] > 0)(j["roofline"], j["roofline_put"])'
check "a file without that size is refused" says 'has no writes of 4096 bytes: run kv-bench fabric --sizes 4096' run --server "$server" "${small[@]}" --value-size 4KB --roofline-file "$scratch/limit.json"
check "and a run that writes nothing reads it" run --server "$server" "${small[@]}" --no-write --verify --json "$scratch/kept.json"
check "writes nothing" json_is "$scratch/kept.json" \
	'j["phases"]["write"]["ops"] == 0 and j["phases"]["read"]["hits"] == 1000 and j["verify"]["wrong"] == 0'
check "two copies at one server: it is said that there is one" says 'there is one server: it has the only copy' run --server "$server" "${small[@]}" --no-write --copies 2
two_servers() { run "${small[@]}" --servers 2 --copies 2 >"$scratch/two" && ! unfolded "$scratch/two" | grep -q 'only copy'; }
check "and not where there are two" two_servers
check "nor can one server have copies of hot values" says '--copies hot, and there is one server' run --server "$server" "${small[@]}" --no-write --copies hot
# Somebody else has stored other bytes under three of the keys. Each is read five times.
conflicting() {
	local i
	head -c 3000 /dev/urandom >"$scratch/other"
	for i in 0 1 2; do timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" put "kvbench3/77/bb8/$i" -f "$scratch/other" || return 1; done
	run --server "$server" "${small[@]}" --seed 119 --value-size 3000 --json "$scratch/conflict.json" "$@"
}
check "other bytes under a key fail the run that reads them" status 1 conflicting
check "and it is said what to do" eval 'status 1 run --server "$server" "${small[@]}" --seed 119 --value-size 3000 >"$scratch/said" 2>&1 && grep -q "FAILED: the read phase read 15 values with other bytes than were written: keys had others before (put conflicts); another --seed has other keys" "$scratch/said"'
check "found at a glance, without --verify" json_is "$scratch/conflict.json" 'j["verify"] == {"checked": 0, "wrong": 15}'
check "and are counted as put conflicts, not as errors" json_is "$scratch/conflict.json" \
	'(lambda w: w["put_conflicts"] == 3 and w["ops"] == 200 and w["errors"] == {} and w["bytes"] == 197 * 3000)(j["phases"]["write"]) and j["phases"]["read"]["hits"] == 1000 and j["counters"]["calls"]["put_conflicts"] == 3'
printf '{"timestamp": 0, "hash_ids": [1, 2]}\n' >"$scratch/trace"
conflicting_trace() {
	timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" put "trace3/77/bb8/0000000000000002" -f "$scratch/other" &&
		run --server "$server" --trace "$scratch/trace" --value-size 3000 --seed 119 --json "$scratch/conflict.json"
}
check "nor do they fail a replay" conflicting_trace
check "which counts them, too" json_is "$scratch/conflict.json" '(lambda w: w["put_conflicts"] == 1 and w["ops"] == 2 and w["errors"] == {})(j["phases"]["write"])'
check "a provider that is not here is refused by name" says 'efa' run --provider efa --num-keys 1
check "a bad size names the option" says 'value-size' run --value-size potato
check "a directory as the report is refused before the run" status 2 run --json "$scratch" --num-keys 1
check "$first: the report says what makes runs comparable" json_is "$scratch/$first.json" \
	'j["run"]["version"] and j["run"]["time"].endswith("Z") and "--num-keys" in j["run"]["options"] and j["run"]["interrupted"] is None and j["host"]["cores"] > 0 and j["provider"]["chunk_bytes"] == 1 << 20 and j["provider"]["tx_depth"] > 0 and j["provider"]["credits"] > 0 and j["provider"]["security"] == "psk" and "congestion_control" in j["host"] and j["resources"]["numa"]'
check "$first: threads and bytes of a NIC are what they were" json_is "$scratch/$first.json" \
	'j["config"]["num_threads"] == j["resources"]["os_threads"] == 2 and j["config"]["memory_mb"] > 0 and j["rails"][0]["bytes"] == (200 + 100 + 1000) * 65536'
check "a warm-up is bounded, and said" says 'warm-up   16 ops .*|of 100: at most 1 GiB' run --num-workers 2 --num-clients 1 --buffer-mb 256 --value-size 64MB --num-keys 2 --repeat-reads 1
warmed() { grep -q 'warm-up   16 ops' "$scratch/says.out" && grep -q 'of 100: at most 1 GiB are read to warm up' "$scratch/says.out"; }
check "16 GETs of 64 MiB, not 100" warmed
# Ctrl-C in the middle of the reads: the report is of what was done until then. The wait is for the reads to have begun.
interrupted() {
	local pid i
	"$build/kv-bench" --log-level warn "${over[@]}" "${small[@]}" --duration 100 --json "$scratch/cut.json" >"$scratch/cut" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 600; i++)); do
		grep -q '^\[2/4\]' "$scratch/cut" && break
		sleep 0.1
	done
	sleep 1
	kill -INT "$pid"
	wait "$pid"
	[ $? -eq 130 ] || { cat "$scratch/cut"; return 1; }
}
check "Ctrl-C ends a run with status 130" interrupted
check "and its report is printed" grep -q '^read .* ops/s' "$scratch/cut"
check "with a line that says so" eval 'unfolded "$scratch/cut" | grep -q "interrupted by signal 2: these are figures of the run until then"'
check "and written, with the signal" json_is "$scratch/cut.json" 'j["run"]["interrupted"] == 2 and j["phases"]["read"]["ops"] > 0 and j["phases"]["write"]["ops"] == 200'
check "a rate that this machine does not reach says offered and achieved" says 'offered 900,000,000 per second, achieved [0-9,]+ \([0-9]+ %\): less' run "${small[@]}" --rate 900000000
# Of one run no read takes as long as a key lives, of both together they do.
expiring() { run "${small[@]}" --ttl 1 --duration 0.6 --repeat-runs 2 >"$scratch/ttl" 2>&1; }
check "runs that are longer than --ttl together may miss" expiring
check "which is told, and no memory is blamed" eval 'unfolded "$scratch/ttl" | grep -q "the reads of --duration and --repeat-runs are not shorter than --ttl" && ! unfolded "$scratch/ttl" | grep -q "memory is smaller"'
check "batches are told beside the load, and where their latency is" says 'in batches of 4 .*\(a latency is of a batch of 4 keys; ops are keys\)' run "${small[@]}" --batch 4
check "an unwritable report is found before the run" says 'cannot|Permission|No such' run --json /nonexistent/dir/out.json --num-keys 1
check "no server there: exit status 3" status 3 "$build/kv-bench" --server 127.0.0.1:1 --timeout 2
check "default options are the documented ones" says 'num.workers *= *16' "$build/kv-bench" --config
start_server again || exit 1
check "what a running server has already" run --server "$server" "${small[@]}" --json "$scratch/once.json"
check "is told, and counted" eval 'says "200 of the values were there already" run --server "$server" "${small[@]}" --json "$scratch/twice.json" && json_is "$scratch/once.json" "j[\"phases\"][\"write\"][\"duplicates\"] == 0" && json_is "$scratch/twice.json" "j[\"phases\"][\"write\"][\"duplicates\"] == 200"'
finish
