#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# async.sh -- kv-bench --async: exact counts whatever the number of submitters, errors and misses counted as those of workers, and how a run ends.
. "$(dirname "$0")/lib.bash"
submitters=(0 1 2 4 8)
plan $((24 + 2 * ${#submitters[@]}))
run() { timeout -k 5 120 "$build/kv-bench" --log-level warn "${over[@]}" "$@"; }
small=(--num-workers 8 --num-clients 2 --num-threads 2 --num-keys 200 --repeat-reads 5 --buffer-mb 16)

for n in "${submitters[@]}"; do
	check "$n submitters: run with --verify" run "${small[@]}" --async --submitters "$n" --verify --json "$scratch/$n.json"
	check "$n submitters: every key was written once and read five times, each a sample" json_is "$scratch/$n.json" \
		'j["run"]["driver"] == "queue" and j["config"]["async"] and j["config"]["submitters"] == '"$n"' and (lambda r, w: r["ops"] == r["hits"] == 1000 and r["bytes"] == 1000 * 65536 and r["misses"] == 0 and r["errors"] == w["errors"] == {} and w["ops"] == 200 and w["bytes"] == 200 * 65536)(j["phases"]["read"], j["phases"]["write"]) and j["verify"] == {"checked": 1000, "wrong": 0}'
done
check "no thread of the library: run with --verify" run --num-workers 8 --num-clients 2 --num-keys 200 --repeat-reads 5 --buffer-mb 16 --async --submitters 0 --no-threads --verify --json "$scratch/turned.json"
check "the same counts" json_is "$scratch/turned.json" \
	'j["config"]["no_threads"] and (lambda r, w: r["ops"] == r["hits"] == 1000 and r["errors"] == w["errors"] == {} and w["ops"] == 200)(j["phases"]["read"], j["phases"]["write"]) and j["verify"] == {"checked": 1000, "wrong": 0}'
check "the latency figures are ordered" json_is "$scratch/4.json" \
	'(lambda l: 0 < l["min"] <= l["p50"] <= l["p90"] <= l["p95"] <= l["p99"] <= l["p999"] <= l["max"])(j["phases"]["read"]["latency_ns"])'
check "the report says how it was driven" says '8 ids through a queue by 4 submitters on 2 clients' run "${small[@]}" --async --submitters 4
check "a batch per id" run "${small[@]}" --async --batch 7 --value-size 3000 --verify --json "$scratch/batch.json"
check "counts keys, not batches; the last PUT is short" json_is "$scratch/batch.json" \
	'(lambda r, w: r["ops"] == r["hits"] == 143 * 7 and r["bytes"] == 1001 * 3000 and w["ops"] == 200 and w["bytes"] == 200 * 3000 and r["errors"] == w["errors"] == {})(j["phases"]["read"], j["phases"]["write"]) and j["verify"] == {"checked": 1001, "wrong": 0}'
check "more ids than loops take at a time" run --num-workers 20000 --num-clients 2 --num-threads 1 --num-keys 5000 --repeat-reads 8 --value-size 100 --buffer-mb 16 --async --submitters 4 --verify --timeout 60 --json "$scratch/many.json"
check "all end well" json_is "$scratch/many.json" 'j["phases"]["read"]["hits"] == j["phases"]["read"]["ops"] == 40000 and j["phases"]["write"]["ops"] == 5000 and j["phases"]["read"]["errors"] == j["phases"]["write"]["errors"] == {}'

# The same against the same server, by workers and through a queue: what is counted is the same.
start_server same --memory-mb 64 || exit 1
counts='{n: {k: v for k, v in p.items() if k in ("ops", "bytes", "hits", "misses", "put_conflicts", "errors")} for n, p in j["phases"].items()}'
alike() { # alike NAME STATUS OPTIONS... -- the JSON of the queue is left in $scratch/NAME.json
	local name=$1 want=$2
	shift 2
	status "$want" run --server "$server" "$@" --json "$scratch/workers.json" || return 1
	status "$want" run --server "$server" "$@" --async --json "$scratch/$name.json" || return 1
	diff <(python3 -c "import json, sys; j = json.load(open(sys.argv[1])); print($counts)" "$scratch/workers.json") \
		<(python3 -c "import json, sys; j = json.load(open(sys.argv[1])); print($counts)" "$scratch/$name.json")
}
check "values that no server has room for are errors, as with workers" alike large 1 --num-workers 4 --num-clients 2 --num-keys 10 --value-size 70MB --buffer-mb 256 --warmup 0 --repeat-reads 1
check "each once" json_is "$scratch/large.json" '(lambda w: w["ops"] == 0 and list(w["errors"].values()) == [10])(j["phases"]["write"])'
check "keys that are not there are misses, as with workers" alike missing 1 "${small[@]}" --no-write --seed 7 --warmup 0
check "all of them" json_is "$scratch/missing.json" '(lambda r: r["ops"] == r["misses"] == 1000 and r["hits"] == 0 and r["errors"] == {})(j["phases"]["read"])'
# Somebody else has stored other bytes under three of the keys (bench.sh).
conflicting() {
	local i
	head -c 3000 /dev/urandom >"$scratch/other"
	for i in 0 1 2; do timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" put "kvbench3/77/bb8/$i" -f "$scratch/other" || return 1; done
	alike conflict 1 "${small[@]}" --seed 119 --value-size 3000
}
check "reads of put conflicts fail the run, as with workers" conflicting
check "and are counted" json_is "$scratch/conflict.json" '(lambda w: w["put_conflicts"] == 3 and w["ops"] == 200 and w["errors"] == {})(j["phases"]["write"])'
check "wrong bytes are found" status 1 run --server "$server" "${small[@]}" --seed 119 --value-size 3000 --no-write --async --verify --json "$scratch/wrong.json"
check "and counted" json_is "$scratch/wrong.json" 'j["verify"]["wrong"] == 3 * 5 and j["phases"]["read"]["hits"] == 1000'

# reading NAME OPTIONS... -- a run that has begun to read; its id in $run_pid. What it prints goes to $scratch/NAME.
reading() {
	local name=$1 i
	shift
	rm -f "$scratch/$name" # that of an earlier run would be found before the shell empties it
	"$build/kv-bench" --log-level off "${over[@]}" "${small[@]}" --async --duration 100 --json "$scratch/$name.json" "$@" >"$scratch/$name" 2>&1 &
	run_pid=$!
	pids+=("$run_pid")
	for ((i = 0; i < 600; i++)); do
		grep -qs '^\[2/4\]' "$scratch/$name" && return 0
		sleep 0.1
	done
	return 1
}
ends() { # ends NAME STATUS
	local got
	wait "$run_pid"
	got=$?
	[ "$got" -eq "$2" ] || { echo "exit status $got"; cat "$scratch/$1"; return 1; }
}
interrupted() { reading cut "$@" && kill -INT "$run_pid" && ends cut 130; }
check "Ctrl-C ends a run with status 130" interrupted
check "its report is of what was done" json_is "$scratch/cut.json" 'j["run"]["interrupted"] == 2 and j["phases"]["read"]["errors"] == {} and j["phases"]["write"]["ops"] == 200'
check "also without a submitter" interrupted --submitters 0
own_dies() {
	reading own && kill -KILL "$(sed -n 's/.*started by kv-bench (pid \([0-9]*\).*/\1/p' "$scratch/own")" && ends own 1
}
check "a run ends when its own server dies" own_dies
check "and says so" grep -q 'the server died during the read phase' "$scratch/own"
start_server dying --memory-mb 64 || exit 1
other_dies() { reading dying --server "$server" --timeout 5 --duration 2 && kill -KILL "$server_pid" && ends dying 1; }
check "of another server that dies every error counts, and the time ends the run" other_dies
check "by its code" json_is "$scratch/dying.json" 'sum(j["phases"]["read"]["errors"].values()) > 0 and j["run"]["interrupted"] is None'
check "it does not go with what changes reads otherwise" status 2 run --async --mixed --num-keys 1
finish
