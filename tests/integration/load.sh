#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# load.sh -- kv-bench's loads: key patterns, sizes, mixes, slices, open loop, repeated runs, warm-up until steady, and the search for a rate. Counts are exact; no time is compared with a figure.
. "$(dirname "$0")/lib.bash"
patterns=(shuffled sequential uniform zipf:0.99 zipf:1.3 hot:0.1:0.9)
plan $((57 + ${#patterns[@]}))
run() { timeout -k 5 120 "$build/kv-bench" --log-level warn "${over[@]}" "$@"; }
small=(--num-workers 8 --num-clients 2 --num-threads 2 --num-keys 200 --repeat-reads 5 --buffer-mb 16)
run_is() { # run_is EXPRESSION OPTIONS... -- a run that succeeds, and what its JSON has
	local what=$1
	shift
	run "${small[@]}" "$@" --json "$scratch/load.json" && json_is "$scratch/load.json" "$what"
}
hits='(lambda r: r["ops"] == r["hits"] == 1000 and r["misses"] == 0 and r["errors"] == {})(j["phases"]["read"])'

for p in "${patterns[@]}"; do
	check "$p: every read hits the right value" run_is "$hits"' and j["verify"] == {"checked": 1000, "wrong": 0} and j["config"]["keys_pattern"] == "'"$p"'"' --keys-pattern "$p" --verify
done

# Of every 10 keys 5 have 3000 bytes, 4 have 10000, 1 has 100000.
check "sizes by weight: bytes are exact, every byte is right" run_is "$hits"' and j["phases"]["write"]["bytes"] == 20 * (5 * 3000 + 4 * 10000 + 100000) and j["phases"]["read"]["bytes"] == 5 * j["phases"]["write"]["bytes"] and j["verify"]["wrong"] == 0 and j["config"]["value_sizes"] == "3000:5,10000:4,100000:1" and j["config"]["value_size"] == 100000' \
	--value-sizes 3000:5,10000:4,100000:1 --verify
check "also in batches" run_is 'j["phases"]["read"]["hits"] == 143 * 7 and j["phases"]["write"]["bytes"] == 20 * (5 * 3000 + 4 * 10000 + 100000) and j["verify"] == {"checked": 1001, "wrong": 0}' \
	--value-sizes 3000:5,10000:4,100000:1 --verify --batch 7
check "through a queue" run_is "$hits"' and j["verify"] == {"checked": 1000, "wrong": 0}' --value-sizes 3000:5,10000:4,100000:1 --verify --async
check "and log-normal" run_is "$hits"' and j["verify"] == {"checked": 1000, "wrong": 0}' --value-sizes lognormal:16KB:1 --verify

mixed='(lambda p: p["read"]["hits"] == p["read"]["ops"] == 700 and p["mix"]["put"]["ops"] == 250 and p["mix"]["put"]["bytes"] == 250 * 65536 and p["mix"]["exists"]["hits"] == p["mix"]["exists"]["ops"] == 50 and all(x["errors"] == {} for x in (p["read"], p["mix"]["put"], p["mix"]["exists"])))(j["phases"])'
check "a mix has its parts exactly" run_is "$mixed"' and j["verify"] == {"checked": 700, "wrong": 0}' --mix 70:25:5 --verify
start_server mixes --memory-mb 64 || exit 1
check "and on a running server" run_is "$mixed" --mix 70:25:5 --server "$server"
check "where its PUTs are gone afterwards: the same again stores them again" run_is "$mixed"' and j["counters"]["calls"]["put_conflicts"] == 0' --mix 70:25:5 --server "$server"
listed() { timeout 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" stat >"$scratch/stat" && grep -Eq '^ *(keys|values|blocks|entries)[ :=]+200\b' "$scratch/stat" || { cat "$scratch/stat"; return 1; }; }
check "only the keys of the run are left" listed
# 1,000 reads of 7 keys each are 143 batches, of which 100 are 70 GETs, 25 PUTs and 5 EXISTS.
mixed_batches='(lambda g, p, e: g["hits"] == g["ops"] and p["put_conflicts"] == 0 and e["hits"] == e["ops"] and g["ops"] + p["ops"] + e["ops"] == 143 * 7 and all(x["ops"] % 7 == 0 and x["errors"] == {} for x in (g, p, e)) and g["ops"] >= 490 and p["ops"] >= 175 and p["bytes"] == p["ops"] * 65536 and e["ops"] >= 35 and sum(p["histogram"]["count"]) * 7 == p["ops"])(j["phases"]["read"], j["phases"]["mix"]["put"], j["phases"]["mix"]["exists"])'
check "a mix of batches" run_is "$mixed_batches"' and j["verify"]["wrong"] == 0' --mix 70:25:5 --batch 7 --verify --server "$server"
check "whose PUTs are gone afterwards, too" listed
check "and of values in slices, of several sizes" run_is 'j["phases"]["read"]["hits"] == j["phases"]["read"]["ops"] > 0 and j["phases"]["mix"]["put"]["ops"] > 0 and j["verify"]["wrong"] == 0' --mix 2:1:1 --slices 8 --batch 3 --value-sizes 4KB,64KB --verify
check "in parts of sizes and patterns" run_is 'j["phases"]["mix"]["put"]["ops"] == 100 and j["phases"]["read"]["hits"] == 900 and j["verify"] == {"checked": 900, "wrong": 0}' --mix 9:1:0 --value-sizes 3000:5,10000:4,100000:1 --keys-pattern zipf:0.9 --verify

open='(lambda r: r["ops"] == r["hits"] == 1000 and set(r["service_ns"]) == set(r["latency_ns"]) and r["service_ns"]["min"] > 0 and all(r["service_ns"][k] <= r["latency_ns"][k] for k in ("min", "mean", "p50", "p99", "max")))(j["phases"]["read"])'
# As the user of a cache does: what a GET misses is stored again, so the memory is full of values that are read.
again='(lambda g, p: g["misses"] > 0 and g["stored_again"] == g["misses"] and g["errors"] == {} == p["errors"] and g["put_conflicts"] == 0 and g["ops"] + p["ops"] == 1001 and j["verdict"]["ok"])(j["phases"]["read"], j["phases"]["mix"]["put"])'
check "what a mix misses is stored again" run_is "${again/1001/1000}" --mix 9:1:0 --memory-mb 8 --server-threads 1 --keys-pattern zipf:1
check "in batches, too" run_is "$again" --mix 9:1:0 --memory-mb 8 --server-threads 1 --batch 7
mixes=$server
start_server few --memory-mb 8 --worker-threads 1 || exit 1
check "with --keep-going every call of a mix is watched" run_is '(lambda p, k: p["read"]["stored_again"] == p["read"]["misses"] > 0 and k["calls"] == p["read"]["ops"] + p["mix"]["put"]["ops"] + p["mix"]["exists"]["ops"] + k["stored_again"] and k["overdue"] == 0 and k["stored_again"] == p["read"]["stored_again"] and p["mix"]["put"]["ops"] > 0 and j["verdict"]["ok"])(j["phases"], j["keep_going"])' --mix 7:2:1 --keep-going --duration 0.5 --server "$server"
check "the memory of both sides is in the report" run_is 'j["resources"]["server_peak_rss_bytes"] > 8 << 20 and j["resources"]["peak_rss_bytes"] > 0' --memory-mb 16
server=$mixes
check "of a server that runs elsewhere it is not known" run_is '"server_peak_rss_bytes" not in j["resources"]' --server "$server" --mix 1:1:0
check "poisson arrivals: service time is beside the latency and not above it" run_is "$open"' and j["config"]["arrivals"] == "poisson" and j["rate"]["offered_per_s"] == 2000' --rate 2000 --arrivals poisson
check "uniform arrivals, too" run_is "$open"' and j["config"]["arrivals"] == "uniform"' --rate 2000
# 1,000 reads of two bursts a round: the rate is the file's, a round of 500 takes half a second.
{ echo "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type" && for i in $(seq 0 499); do echo "$((i / 250 * 249)).$((i % 250 + 100)),ChatGPT,1,2,3,API log"; done; } | gzip >"$scratch/bursts.csv.gz"
check "recorded arrivals" run_is "$open"' and j["config"]["arrivals"].startswith("trace:") and j["rate"]["offered_per_s"] == 1000 and 400 < j["rate"]["planned_per_s"] < 2000' --rate 1000 --arrivals "trace:$scratch/bursts.csv.gz"
check "as the schema has it" tests/integration/schema.py "$scratch/load.json"
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:00.010930+00:00,2399,6\n' >"$scratch/azure.csv"
check "without --rate they come as fast as they did" run_is "$open"' and abs(j["rate"]["offered_per_s"] - 1000) < 1' --arrivals "trace:$scratch/azure.csv"
echo x,1,2 >>"$scratch/azure.csv"
check "a bad row is named" says 'azure.csv line 4: the time .x. is neither a number of seconds nor a date' run "${small[@]}" --arrivals "trace:$scratch/azure.csv"
check "a closed loop has no service time" run_is '"service_ns" not in j["phases"]["read"] and "rate" not in j'

# 1,000 are due in two seconds. The server stands still from 600 ms on, past the end: what could not start is as late as it is old, up to 1.4 s.
stalled='(lambda r, c: c["due"] == r["due"] == 1000 == r["ops"] + c["never_started"] and c["never_started"] == r["never_started"] > 100 and sum(r["histogram"]["count"]) == 1000 and r["latency_ns"]["p95"] > 200e6 and r["errors"] == {} and len(r["series"]["windows"]) > 4 and j["verdict"]["ok"])(j["phases"]["read"], j["rate"])'
check "what is due and cannot start counts with its age at the end" run_is "$stalled" --rate 500 --duration 2 --interval 100ms --peer-timeout 20s --event 'stop 1 at 600ms' --event 'cont 1 at 2200ms' --report "$scratch/stalled.html"
check "and is said" says '[0-9]+ of the 1,000 operations due had not started when the time was over' run "${small[@]}" --rate 500 --duration 2 --peer-timeout 20s --event 'stop 1 at 600ms' --event 'cont 1 at 2200ms'
check "as the schema has it" tests/integration/schema.py "$scratch/load.json"
check "of poisson arrivals, in a mix" run_is '(lambda k, c: c["due"] == sum(x["due"] for x in k) and c["never_started"] == sum(x["never_started"] for x in k) > 100 and all(x["due"] == x["ops"] + x["never_started"] == sum(x["histogram"]["count"]) for x in k) and 800 < c["due"] < 1200 and abs(2 * c["planned_per_s"] - c["due"]) < 1)([j["phases"]["read"], j["phases"]["mix"]["put"], j["phases"]["mix"]["exists"]], j["rate"])' --mix 2:1:1 --rate 500 --arrivals poisson --duration 2 --peer-timeout 20s --event 'stop 1 at 600ms' --event 'cont 1 at 2200ms'
check "nothing is late where nothing is due any more: the time of the phase is its duration" run_is '(lambda r, c: c["due"] == r["ops"] + c["never_started"] == 20 and r["seconds"] >= 1 and c["never_started"] == 0)(j["phases"]["read"], j["rate"])' --rate 20 --duration 1
check "in a mix the rate is of all operations" run_is 'j["phases"]["read"]["ops"] + j["phases"]["mix"]["put"]["ops"] == 1000 and min(j["phases"]["read"]["ops"], j["phases"]["mix"]["put"]["ops"]) > 400 and abs(j["rate"]["achieved_per_s"] * j["phases"]["read"]["seconds"] - 1000) < 1' --rate 2000 --arrivals poisson --mix 1:1:0

ramp='(lambda w, s: len(w) > 4 and w[0]["ops"] < w[len(w) // 2]["ops"] and j["phases"]["read"]["ops"] == 1000 and j["rate"]["planned_per_s"] < 0.8 * j["rate"]["offered_per_s"])(j["phases"]["read"]["series"]["windows"], j)'
check "a ramp: few reads at first, all in the end" run_is "$ramp" --rate 2000 --ramp 500ms --interval 100ms
check "of poisson arrivals, too" run_is "$ramp" --rate 2000 --ramp 500ms --interval 100ms --arrivals poisson
check "as the schema has it" tests/integration/schema.py "$scratch/load.json"
run "${small[@]}" --mix 2:1:1 --json "$scratch/mix.json" >/dev/null 2>&1
check "compare knows the PUTs and EXISTS of a mix" says 'mix exists p99: no difference' "$build/kv-bench" compare "$scratch/mix.json" "$scratch/mix.json"
# What does not fit is evicted: a batch with a miss counts there, and not as a latency of reads.
apart='(lambda r: r["misses"] > 0 and r["missed_ns"]["min"] > 0 and sum(r["histogram"]["count"]) * N < r["ops"] and "failed_ns" not in r)(j["phases"]["read"])'
for batch in 1 7; do
	check "misses are apart from reads: batches of $batch" run_is "${apart//N/$batch}" --memory-mb 8 --server-threads 1 --batch $batch
done
check "through a queue, too" run_is "${apart//N/1}" --memory-mb 8 --server-threads 1 --async
check "runs are repeated" run_is '(lambda r: j["phases"]["read"]["ops"] == j["phases"]["read"]["hits"] == 3000 and r["count"] == 3 and all(len(f["each"]) == 3 and f["min"] == min(f["each"]) and f["max"] == max(f["each"]) and f["median"] == sorted(f["each"])[1] for k, f in r.items() if k != "count") and set(r) == {"count", "ops_per_s", "bytes_per_s", "p50_ns", "p99_ns"})(j["runs"])' --repeat-runs 3
check "and their median and range are printed" says 'runs +median +min +max +spread +\(of 3 runs\)' run "${small[@]}" --repeat-runs 3
check "one run has no spread" run_is '"runs" not in j'

check "a warm-up that may differ by all is steady after four windows" run_is 'j["warmup"]["steady"] and j["warmup"]["windows"] >= 4 and j["warmup"]["within"] == 1 and j["warmup"]["seconds"] > 0 and '"$hits" --warmup-steady 100
check "and says how that was decided" says 'steady after [0-9]+ windows of 250 ms: the last 4 are [0-9.]+ % apart, 100 % are allowed' run "${small[@]}" --warmup-steady 100

check "the highest rate that keeps a percentile" run_is '(lambda s, r: s["rate_per_s"] > 0 and s["quantile"] == 0.5 and s["limit_ns"] == 10 ** 10 and s["rate_per_s"] == max(t["offered_per_s"] for t in s["trials"] if t["why"] == "kept") and all(t["latency_ns"] <= 10 ** 10 for t in s["trials"] if t["why"] == "kept") and r["ops"] == r["hits"] and r["ops"] in [t["ops"] for t in s["trials"]] and j["verify"]["wrong"] == 0)(j["slo"], j["phases"]["read"])' --slo p50=10s --duration 0.05 --arrivals poisson --verify
check "what no rate keeps is a failure that says so" says 'FAILED: no tried rate keeps p50 within 1 ns' run "${small[@]}" --slo p50=1ns --duration 0.05
check "with exit status 1" status 1 run "${small[@]}" --slo p50=1ns --duration 0.05 --json "$scratch/none.json"
check "and no rate in the report" json_is "$scratch/none.json" 'j["slo"]["rate_per_s"] is None and len(j["slo"]["trials"]) > 1 and all(t["why"] != "kept" for t in j["slo"]["trials"])'

check "values in 16 slices: gathered and scattered, every byte is right" run_is "$hits"' and j["verify"] == {"checked": 1000, "wrong": 0} and j["phases"]["write"]["bytes"] == 200 * 65536 and j["config"]["slices"] == 16 and j["config"]["batch"] == 1' --slices 16 --verify
check "slices long enough to be moved where they lie, in batches" run_is 'j["phases"]["read"]["hits"] == 143 * 7 and j["verify"] == {"checked": 1001, "wrong": 0}' --slices 4 --value-size 256KB --batch 7 --verify
check "through a queue, of several sizes" run_is "$hits"' and j["verify"] == {"checked": 1000, "wrong": 0}' --slices 8 --value-sizes 4KB,64KB,256KB --async --verify
sliced_first() { run_is "$hits" --seed 5 --slices 16 --server "$server" && run_is "$hits"' and j["verify"] == {"checked": 1000, "wrong": 0}' --seed 5 --no-write --verify --server "$server"; }
check "what was written in slices is read in one piece" sliced_first
check "and the other way round" run_is "$hits"' and j["verify"] == {"checked": 1000, "wrong": 0}' --no-write --slices 32 --verify --server "$server"

# Ctrl-C in the third of many runs: the report is of what was done.
interrupted() {
	local pid i
	"$build/kv-bench" --log-level warn "${over[@]}" "${small[@]}" --mix 8:1:1 --repeat-runs 1000 --duration 100 --json "$scratch/cut.json" >"$scratch/cut" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 600; i++)); do
		grep -q '^\[2/4\]' "$scratch/cut" && break
		sleep 0.1
	done
	kill -INT "$pid"
	wait "$pid"
	[ $? -eq 130 ] || { cat "$scratch/cut"; return 1; }
}
check "Ctrl-C ends repeated runs" interrupted
check "with a report of what was done" json_is "$scratch/cut.json" 'j["run"]["interrupted"] == 2 and j["phases"]["read"]["errors"] == {} and "runs" not in j'
dies() {
	local pid i
	"$build/kv-bench" --log-level off "${over[@]}" "${small[@]}" --slo p99=10s --duration 100 >"$scratch/dies" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 600; i++)); do
		grep -q '^\[2/4\]' "$scratch/dies" && break
		sleep 0.1
	done
	kill -KILL "$(sed -n 's/.*started by kv-bench (pid \([0-9]*\).*/\1/p' "$scratch/dies")"
	wait "$pid"
	[ $? -eq 1 ] && grep -q 'the server died during the read phase' "$scratch/dies" || { cat "$scratch/dies"; return 1; }
}
check "a search whose server dies ends and says so" dies
# A server that ends takes its values with it, and the run says so. Told to stop, it says goodbye: GETs then are misses.
leaves() {
	local pid i
	start_server leaves || return 1
	"$build/kv-bench" --log-level off "${over[@]}" --server "$server" --num-keys 64 --num-workers 4 --num-clients 1 \
		--rate 200 --duration 6 >"$scratch/leaves" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 600; i++)); do
		grep -q '^\[2/[0-9]*\]' "$scratch/leaves" && break
		sleep 0.1
	done
	stop_server "$server_pid"
	[ "$1" = ended ] || start_server leaves2 --listen-addr "$server" || return 1
	wait "$pid"
	[ $? -eq 1 ] && grep -q "$2" "$scratch/leaves" && ! grep -q 'was evicted' "$scratch/leaves" || {
		cat "$scratch/leaves"
		return 1
	}
}
check "misses after a server's restart name it" leaves restarted "that had been written: server .* was restarted"
check "and after its end" leaves ended "that had been written: server .* shut down"
check "an impossible load names the way out" says 'drop --rate' run --slo p99=2ms --rate 5
finish
