#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fabric.sh -- kv-bench fabric, hits and models: that they measure, count and say what is wrong, and that nothing stays behind.
. "$(dirname "$0")/lib.bash"
plan 26
wait_until() { # wait_until SECONDS COMMAND... -- asks it each 50 ms
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}
holds() { # holds FILE EXPRESSION
	python3 - "$1" "$2" <<'P'
import json, sys
j = json.load(open(sys.argv[1]))
rows = {(r["op"], r["size"]): r for r in j.get("rows", [])}
if not eval(sys.argv[2]):
    print(json.dumps(j)[:3000])
    sys.exit(1)
P
}
fabric() { timeout -k 5 120 "$build/kv-bench" fabric --provider "$provider" "$@"; }

check "some sizes are measured" fabric --sizes 1,4KB,64KB,3MB --time 5ms --json "$scratch/fabric.json"
check "messages end at 4 KiB, writes at the last size" holds "$scratch/fabric.json" \
	'j["schema"] == "kvbench-fabric/1" and j["complete"] and ("message", 4096) in rows and ("message", 65536) not in rows and rows["write", 3 << 20]["bytes_per_s"] > 0'
check "reads are measured, or left out with the reason" holds "$scratch/fabric.json" '(("read", 65536) in rows) == (j["no_read"] is None)'
check "samples, quantiles and histogram agree" holds "$scratch/fabric.json" \
	'all(l["samples"] >= 10 and l["samples"] == sum(n for _, n in l["histogram_from_ns"]) and l["min"] <= l["p50"] <= l["max"] and (l["p99.99"] is not None) == (l["samples"] >= 10000) for l in (r["latency_ns"] for r in j["rows"]))'
check "whether RDMA is in use, and how that was found out" holds "$scratch/fabric.json" 'j["rdma"]["in_use"] in (True, False) and "/sys/class/infiniband" in j["rdma"]["how"]'
check "the report to standard output is JSON alone" eval 'fabric --sizes 1 --time 1ms --json - 2>/dev/null | python3 -m json.tool >/dev/null'
check "a provider that is not here: exit status 3" status 3 timeout 60 "$build/kv-bench" fabric --provider efa
check "a wrong size is named" says "'65MB' is not a size from 1 byte to 64 MiB" fabric --sizes 1,65MB
check "standard output is full: exit status 1" status 1 bash -c '"$@" >/dev/full' x "$build/kv-bench" fabric --provider "$provider" --sizes 1 --time 1ms

# The responder dies, or a signal comes: the run says so, and no process stays.
child_of() { # without procps
	cat /proc/[0-9]*/status 2>/dev/null | awk -v parent="$1" '$1 == "Pid:" { pid = $2 } $1 == "PPid:" && $2 == parent { print pid }'
}
broken() { # broken SIGNAL WHOM STATUS PATTERN
	local pid child got
	rm -f "$scratch/broken" # else the table of the case before is taken for this one's
	"$build/kv-bench" fabric --provider tcp --sizes 1 --time 120s >"$scratch/broken" 2>&1 &
	pid=$!
	wait_until 30 grep -q '^message\|^op ' "$scratch/broken" 2>/dev/null || return 1
	child=$(child_of "$pid") && [ -n "$child" ] || return 1
	kill -"$1" "$([ "$2" = child ] && echo "$child" || echo "$pid")"
	wait "$pid"
	got=$?
	wait_until 30 not_running "$child" || { echo "the responder stays"; return 1; }
	[ "$got" -eq "$3" ] && unfolded "$scratch/broken" | grep -q "$4" || { echo "exit status $got"; cat "$scratch/broken"; return 1; }
}
not_running() { [ ! -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }
check "the responder is killed: exit status 1" broken KILL child 1 'the responder ended'
check "SIGINT: the report says that it is not whole" broken INT parent 130 'not all was measured'
check "SIGKILL of kv-bench ends the responder" broken KILL parent 137 ''

# Between two machines: a listener, which needs a key beyond loopback.
"$build/kv-server" --make-psk "$scratch/key" >/dev/null && "$build/kv-server" --make-psk "$scratch/other" >/dev/null
"$build/kv-bench" fabric --provider "$provider" --listen 127.0.0.1:0 --psk-file "$scratch/key" >"$scratch/listen" 2>&1 &
listener=$!
wait_until 30 grep -qs 'listening on port' "$scratch/listen"
port=$(sed -n 's/.*listening on port //p' "$scratch/listen")
check "two pairs measure with a listener" fabric --connect "127.0.0.1:$port" --psk-file "$scratch/key" --sizes 1,64KB --pairs 2 --depth 4 --time 20ms --json "$scratch/two.json"
check "their rates add up" holds "$scratch/two.json" 'j["complete"] and j["pairs"] == 2 and j["depth"] == 4 and j["connect"].startswith("127.0.0.1:") and rows["write", 65536]["bytes_per_s"] > 0'
check "another key is refused" says 'do both sides have the same --psk-file' fabric --connect "127.0.0.1:$port" --psk-file "$scratch/other" --sizes 1
check "beyond loopback a key is needed" says 'not on loopback and needs --psk-file' fabric --listen 0.0.0.0:0
ended() { kill -TERM "$listener" && wait "$listener" && [ "$(grep -c refused "$scratch/listen")" = 1 ]; }
check "SIGTERM ends the listener, which has named the refusal" ended

printf '%s\n' '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "output_length": 1, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}' \
	'{"chat_id": 2, "parent_chat_id": 1, "timestamp": 0.6, "input_length": 60, "output_length": 1, "type": "text", "turn": 2, "hash_ids": [1, 2, 3, 4]}' >"$scratch/bailian.jsonl"
check "hits of a trace of Bailian" "$build/kv-bench" hits --trace "$scratch/bailian.jsonl" --capacity 4,50% --json "$scratch/hits.json"
check "with room for all, three of seven are hit; with less, Belady has the most" holds "$scratch/hits.json" \
	'j["block_tokens"] == 16 and all(r["prefix_hits"] == 3 for r in j["runs"] if r["capacity_blocks"] == 4) and max((r for r in j["runs"] if r["capacity_blocks"] == 2), key=lambda r: r["block_hits"])["block_hits"] == [r for r in j["runs"] if r["policy"] == "belady"][1]["block_hits"] == 2'
check "the same is replayed" "$build/kv-bench" --log-level error "${over[@]}" --quiet --trace "$scratch/bailian.jsonl" --trace-speed 10 --value-size 4KB --verify
check "a trace is needed" status 2 "$build/kv-bench" hits
check "the models are listed" says 'deepseek-v3 .*MLA 512\+64 +70,272' "$build/kv-bench" models
printf '%s' '{"model_type": "tiny", "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 64}' >"$scratch/config.json"
check "a run in a model's blocks" "$build/kv-bench" --log-level error "${over[@]}" --model "$scratch/config.json" --prefill-rate 1000 --num-keys 50 --num-workers 4 --num-clients 1 --verify --json "$scratch/model.json"
check "it counts tokens" holds "$scratch/model.json" 'j["config"]["value_size"] == 16384 == j["model"]["block_bytes"] and j["model"]["tokens_per_s"] > 0 and j["model"]["break_even_tokens"] is not None and j["model"]["slices"] == 4'
check "a prefix is loaded layer by layer, of the blocks that are stored" holds "$scratch/model.json" \
	'j["model"]["by_layer"]["tokens"] == 800 and j["model"]["by_layer"]["loads"] >= 3 and 0 < j["model"]["by_layer"]["first_layer_s"] <= j["model"]["by_layer"]["all_layers_s"]'
echo "{}" >"$scratch/empty.json"
check "a configuration that lacks a field is named" says 'has no "num_hidden_layers": take the config.json' "$build/kv-bench" --model "$scratch/empty.json"
finish
