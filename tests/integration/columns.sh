#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# columns.sh -- what programs print for people fits 80 columns: every --help, and the tables of a small run.
. "$(dirname "$0")/lib.bash"
plan 37
# fits COMMAND... -- nothing that it prints is wider, but words that are wider by themselves (paths, lists of addresses).
fits() {
	"$@" >"$scratch/text" 2>/dev/null </dev/null
	[ -s "$scratch/text" ] || { echo "it printed nothing"; return 1; }
	python3 - "$scratch/text" <<'P'
import sys
wide = [line for line in open(sys.argv[1], encoding="utf-8").read().split("\n")
        if len(line) > 80 and len(line.split()) > 1 or len(line) > 100]
print(*(f"{len(line)}: {line}" for line in wide), sep="\n")
sys.exit(1 if wide else 0)
P
}
base=(--num-workers 8 --num-clients 2 --num-threads 2 --buffer-mb 16 --log-level error "${over[@]}")
small=("${base[@]}" --num-keys 200 --repeat-reads 5)
check "kv-server --help" fits "$build/kv-server" --help
check "kv-bench --help" fits "$build/kv-bench" --help
check "kv-bench capacity --help" fits "$build/kv-bench" capacity --help
check "kv-bench help all" fits "$build/kv-bench" help all
for command in compare fabric hits models plot scale sweep versus; do
	check "kv-bench $command --help" fits "$build/kv-bench" $command --help
done
check "kv-client --help" fits "$build/kv-client" --help
check "kv-doctor --help" fits "$build/kv-doctor" --help
straight() { # "  -s, --server=": glibc leaves a gap where its buffer ends, and the text begins the line
	local words
	for words in kv-server kv-bench "kv-bench capacity" "kv-bench fabric" "kv-bench hits" "kv-bench models" kv-client kv-doctor; do
		# shellcheck disable=SC2086
		"$build"/$words --help | grep -A1 -E '^  -.,  ' && return 1
	done
	return 0
}
check "no letter stands far from its name" straight
check "run-with-rdma.sh --help" fits ./run-with-rdma.sh --help
check "install-deps.sh --help" fits scripts/install-deps.sh --help
check "a report of kv-bench" fits "$build/kv-bench" "${small[@]}" --breakdown --roofline --verify --rate 1000000
printf '%s\n' '{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [0, 1]}' '{"timestamp": 1, "input_length": 1024, "output_length": 1, "hash_ids": [0, 2]}' >"$scratch/trace"
check "of a replay" fits "$build/kv-bench" "${base[@]}" --trace "$scratch/trace" --value-size 4KB
check "of a replay with events" fits "$build/kv-bench" "${base[@]}" --trace "$scratch/trace" --trace-speed 1 --servers 2 --value-size 4KB --event 'stop 2 at 500us' --event 'cont 2 at 600us'
check "of a model" fits "$build/kv-bench" "${small[@]}" --model qwen3-0.6b --tp 8 --block-tokens 1 --prefill-rate 10
check "of kv-bench models, also of what cannot be divided" fits "$build/kv-bench" models --tp 3
check "of kv-bench capacity" fits "$build/kv-bench" capacity --steps 1,2 --max-sessions 5 "${over[@]}"
check "of kv-bench fabric" fits "$build/kv-bench" fabric --sizes 1,1MB --time 1ms "${over[@]}"
check "of kv-bench sweep" fits "$build/kv-bench" sweep -w 1,2 -c 1,2 --num-keys 20 --repeat-reads 2 --buffer-mb 4 --repeat-runs 2 "${over[@]}"
check "of kv-bench scale" fits "$build/kv-bench" scale --clients 2 "${over[@]}"
check "of a mix, in runs" fits "$build/kv-bench" "${small[@]}" --mix 80:10:10 --repeat-runs 2
check "of kv-bench versus" fits "$build/kv-bench" versus --targets kvrail --num-workers 2 --num-keys 100 --duration 50ms --rounds 1 --mixed -- --num-threads 1 "${over[@]}"
compared() { timeout 60 "$build/kv-bench" "${small[@]}" -q --json "$scratch/a-result-of-kv-bench-with-a-long-name.json" && fits "$build/kv-bench" compare "$scratch"/a-result*.json "$scratch"/a-result*.json; }
check "of kv-bench compare" compared
moved() { # what compare does not judge, for cores were farther apart
	python3 -c 'import json, sys
for name, far, part in (("near", 60, 1), ("far", 300, 0.5)):
    j = json.load(open(sys.argv[1]))
    j["phases"]["read"].update(ops_per_s=1000 * part, seconds=1)
    j["runs"] = {"count": 3, "ops_per_s": {"each": [1000 * part] * 3}} # fewer say nothing of noise
    j["conditions"].update(core_distance_before_ns=60, core_distance_after_ns=far)
    json.dump(j, open(sys.argv[2] + "/" + name + ".json", "w"))' "$scratch"/a-result*.json "$scratch"
	fits "$build/kv-bench" compare "$scratch/near.json" "$scratch/far.json" && grep -q 'distance of two cores' "$scratch/text"
}
check "also where it does not judge" moved
check "of kv-bench hits" fits "$build/kv-bench" hits --trace "$scratch/trace" --capacity 1,1000000
check "of kv-bench models" fits "$build/kv-bench" models --tp 16
check "of kv-doctor" fits "$build/kv-doctor"
start_server main || exit 1
kv() { timeout -k 5 60 "$build/kv-client" --server "$server" "${over[@]}" "$@"; }
kv put key value
check "kv-client stat" fits kv --all --shards stat
helps() { local c; for c in get put delete exists touch ttl pin unpin stat top cluster namespaces tenants leases clear drain events ping make-seal-key help; do fits kv help "$c" && cmp "$scratch/text" <("$build/kv-client" "$c" --help) || return 1; done; }
check "kv-client help COMMAND, which COMMAND --help prints as well" helps
check "kv-client ping" fits kv ping
check "README's sample is as wide" eval '! sed -n "/^kv-bench   0/,/^peak resident/p" README.md | grep -E "^.{81}"'
finish
