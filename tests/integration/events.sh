#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# events.sh -- several servers of kv-bench's own, and what --event does to them: in plain runs and in replays, by the trace's time.
. "$(dirname "$0")/lib.bash"
plan 35
trace=${KVRAIL_TRACE:-../shared/data/conversation_trace.jsonl}
j=$scratch/e.json
run() { timeout -k 5 280 "$build/kv-bench" --log-level warn "${over[@]}" --num-workers 8 --num-clients "${clients:-2}" --num-threads 1 --buffer-mb 16 --json "$j" "$@"; }
schema() { tests/integration/schema.py "$j"; }

check "several servers" run --servers 3 --num-keys 300 --value-size 4KB --verify
check "share the keys, and none is missed" json_is "$j" 'j["phases"]["read"]["misses"] == 0 and j["config"]["servers"] == 3'
hot=(--num-keys 50 --value-size 4KB --keys-pattern hot:0.04:0.9 --duration 2 --copies hot --verify)
check "values that are hot have a second copy" run --servers 3 "${hot[@]}"
check "which the report counts, and no value is missed" json_is "$j" '(lambda c, r: 0 < c["copies"] <= 50 and c["copy_bytes"] == 4096 * c["copies"] and c["copies_dropped"] == 0 and r["misses"] == 0 and r["errors"] == {} and j["config"]["copies"] == "hot")(j["counters"]["cluster"], j["phases"]["read"])'
check "the report is as its schema says" schema
check "one of them killed while it reads is no failure" run --servers 3 --num-keys 300 --value-size 4KB --verify --duration 3 --interval 100ms \
	--event 'kill 2 at 500ms' --csv "$scratch/e.csv" --report "$scratch/e.html"
check "the report is as its schema says" schema
check "and says when it was killed" json_is "$j" 'len(j["events"]) == 1 and j["events"][0]["event"] == "kill 2" and j["events"][0]["at_s"] == 0.5 and j["events"][0]["done_s"] >= 0.5 and j["verdict"]["ok"]'
check "its keys are missed, the others are not" json_is "$j" '0 < j["phases"]["read"]["misses"] and 0 < j["phases"]["read"]["hits"]'
check "misses have a latency of their own, and hits theirs" json_is "$j" '(lambda r: set(r["missed_ns"]) == set(r["latency_ns"]) and sum(r["histogram"]["count"]) == r["hits"] and "missed_ns" not in j["phases"]["write"])(j["phases"]["read"])'
check "the time series has the event" grep -qE '^event kill 2,[0-9.]+,,,,,,,$' "$scratch/e.csv"
check "the page, too" grep -q 'Red lines are what --event did' "$scratch/e.html"
check "which has the command line as a shell takes it" grep -qF "<span>&#39;kill 2 at 500ms&#39;</span>" "$scratch/e.html"
check "where the first server is late, the heading says so" says 'server-1 is started later memory|server-1 is started later fabric' run --servers 2 --num-keys 100 --value-size 4KB --duration 1 --event 'start 1 at 300ms'
check "a server that is stopped and goes on" run --servers 2 --num-keys 100 --value-size 4KB --duration 1500ms --event 'stop 2 at 200ms' --event 'cont 2 at 500ms'
check "both events are there, in order" json_is "$j" '[e["event"] for e in j["events"]] == ["stop 2", "cont 2"] and all("done_s" in e for e in j["events"])'
check "a server that is still stopped at the end is ended all the same" run --servers 2 --num-keys 100 --value-size 4KB --duration 1 --event 'stop 1 at 900ms'
check "an event after the end did not happen, and fails the run" status 1 run --servers 2 --num-keys 100 --value-size 4KB --event 'kill 1 at 1h' --quiet
check "and is said to" says "FAILED: the run was over before the event 'kill 1 at 3600 s': give it a longer --duration" run --servers 2 --num-keys 100 --value-size 4KB --event 'kill 1 at 1h'

check "a server that joins" run --servers 3 --num-keys 300 --value-size 4KB --verify --duration 4 --event 'start 3 at 500ms'
check "is a member then, and no value is missed" json_is "$j" 'j["phases"]["read"]["misses"] == 0 and j["counters"]["cluster"]["members"] == 3 and j["counters"]["cluster"]["settle_hits"] > 0 and j["events"][0]["done_s"] >= 0.5'
check "one that was killed is started again, empty" run --servers 2 --num-keys 300 --value-size 4KB --verify --duration 4 --event 'kill 2 at 300ms' --event 'start 2 at 600ms'
check "and takes its keys back" json_is "$j" 'j["verdict"]["ok"] and [e["event"] for e in j["events"]] == ["kill 2", "start 2"] and all("done_s" in e for e in j["events"]) and j["counters"]["connections"]["lost_connections"] > 0 and j["phases"]["read"]["misses"] > 0'
check "what cannot happen is refused" says "'stop 2': it does not run then" "$build/kv-bench" --servers 2 --event 'stop 2 at 2m' --event 'kill 2 at 1m'

python3 - "$scratch/small.jsonl" <<'P'
import json, sys
# Twenty minutes: each minute asks for the same blocks, and for some of its own.
with open(sys.argv[1], "w") as f:
    for i in range(400):
        ids = [k for k in range(12)] + [1000 + i * 2, 1001 + i * 2]
        f.write(json.dumps({"timestamp": i * 3000, "input_length": 1, "output_length": 1, "hash_ids": ids}) + "\n")
P
check "a replay with an event by its own time" run --trace "$scratch/small.jsonl" --value-size 4KB --verify --servers 3 --event 'kill 2 at 10m'
# What is under way at the kill, at most a request for each worker, may be of the minutes before it.
check "before it all that was stored is found, later again; the parts and minutes add up" json_is "$j" \
	'(lambda t: t["before"]["requests"] == 200 and t["five_minutes"]["requests"] == 100 and 199 * 12 - 8 * 12 <= t["before"]["block_hits"] <= 199 * 12 and t["later"]["block_hits"] == 100 * 12 and len(t["intervals"]) == 20 and all(sum(p[k] for p in t["intervals"]) == t[k] == sum(t[n][k] for n in ("before", "five_minutes", "later")) for k in ("requests", "blocks", "block_hits")))(j["trace"])'
check "as its schema says" schema
check "each part has its longest call, at least as long as its lookups that missed" json_is "$j" '(lambda t: all(t[n]["longest_ns"] >= t[n].get("get_p50_ns", 0) // 16 > 0 for n in ("before", "five_minutes", "later")) and max(t[n]["longest_ns"] for n in ("before", "five_minutes", "later")) == max(p["longest_ns"] for p in t["intervals"]) >= j["phases"]["read"]["missed_ns"]["max"] > 0)(j["trace"])'
check "compare looks at the parts" says 'five minutes after it hit ratio: no difference .* later longest call: no difference' "$build/kv-bench" compare "$j" "$j"

# One client: of several one may know of a change before another one, and miss what that puts for as long.
joined() { clients=1 run --quiet --trace "$scratch/small.jsonl" --value-size 4KB --verify --servers 3 --event 'start 3 at 10m' "$@"; }
check "a replay in which a server joins" joined
check "has every hit that the trace has, for the former server is asked" json_is "$j" 'j["trace"]["block_hits"] == 399 * 12 and j["counters"]["cluster"]["settle_hits"] > 0'
forgets() { joined --settle 0 && json_is "$j" '191 * 12 <= j["trace"]["before"]["block_hits"] and j["trace"]["block_hits"] < 399 * 12 and j["trace"]["later"]["block_hits"] == 100 * 12'; }
check "and fewer when it is not asked, until all is stored again" forgets

# The published figures are means over which server it is (operations.md of the project's facts): 4 servers, .211 in five minutes and .373 later.
# ThreadSanitizer takes a minute and a half for each, and sees these threads above.
if [ -r "$trace" ] && [ "${MODE:-release}" != tsan ]; then
	published() {
		run --quiet --trace "$trace" --value-size 512 --ttl 0 --servers 4 --event 'kill 2 at 30m' && json_is "$j" \
			'[print({n: j["trace"][n]["hit_ratio"] for n in ("before", "five_minutes", "later")}), j["trace"]["five_minutes"]["hit_ratio"] >= 0.211 - 0.02 and j["trace"]["later"]["hit_ratio"] >= 0.373 - 0.02][1]'
	}
	check "the conversation trace, a server of four killed at minute 30: hits as in the model" published
	# With two copies the same kill costs nothing: .376 and .396, as without it.
	kept_twice() {
		run --quiet --trace "$trace" --value-size 512 --ttl 0 --servers 4 --copies 2 --event 'kill 2 at 30m' && json_is "$j" \
			'[print({n: j["trace"][n]["hit_ratio"] for n in ("five_minutes", "later")}, j["counters"]["cluster"]), j["trace"]["five_minutes"]["hit_ratio"] >= 0.376 - 0.02 and j["trace"]["later"]["hit_ratio"] >= 0.396 - 0.02][1]'
	}
	check "with two copies of each value: hits as without the kill" kept_twice
	# The first 35 minutes, 150 times as fast; requests that are late for that are only late.
	python3 -c 'import json, sys; [sys.stdout.write(l) for l in open(sys.argv[1]) if json.loads(l)["timestamp"] < 2100000]' "$trace" >"$scratch/part.jsonl"
	unharmed() {
		clients=1 run --quiet --trace "$scratch/part.jsonl" --trace-speed 150 --value-size 512 --ttl 0 --servers 4 --event 'start 4 at 28m' && python3 tests/kvbench/reference_trace.py "$scratch/part.jsonl" >"$scratch/reference.json" &&
			json_is "$j" 'j["trace"]["block_hits"] == json.load(open("'"$scratch"'/reference.json"))["block_hits"] and j["counters"]["cluster"]["members"] == 4'
	}
	check "by its own times, the fourth server joins: no hit is lost" unharmed
else
	tap_n=$((tap_n + 3)) why="$trace is not here"
	[ ! -r "$trace" ] || why="it takes minutes under ThreadSanitizer"
	echo "ok $((tap_n - 2)) - the conversation trace, a server of four killed at minute 30 # SKIP $why"
	echo "ok $((tap_n - 1)) - with two copies of each value # SKIP $why"
	echo "ok $tap_n - by its own times, the fourth server joins # SKIP $why"
fi
finish
