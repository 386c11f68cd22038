#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# schema.sh -- every kind of report that kv-bench writes is as its schema in docs/reference says: no member is missing, and none is there that is not written down.
. "$(dirname "$0")/lib.bash"
plan 16
r=$scratch/r.json
wrote() { # wrote [VERB] ARGS... -- kv-bench ends well, and its report is as the schema says
	local verb=()
	[[ $1 = -* ]] || { verb=("$1") && shift; }
	rm -f "$r"
	status 0 timeout -k 5 120 "$build/kv-bench" "${verb[@]}" --json "$r" "$@" && tests/integration/schema.py "$r"
}
base=(--num-workers 4 --num-clients 2 --num-threads 1 --buffer-mb 16 --log-level warn "${over[@]}")
run=("${base[@]}" --num-keys 200)
trace=$scratch/trace.jsonl
for i in $(seq 0 39); do echo "{\"timestamp\": $((i * 5)), \"input_length\": 1024, \"output_length\": 8, \"hash_ids\": [$((i % 7)), $((i % 7 + 10)), $((i + 100))]}"; done >"$trace"

check "a run, by phases, mixed and in windows" wrote "${run[@]}" --breakdown --verify --mixed --duration 0.3 --interval 100ms
check "repeated runs of a mix, warmed up" wrote "${run[@]}" --mix 80:10:10 --repeat-runs 2 --repeat-reads 2 --warmup-steady 90
check "an open loop" wrote "${run[@]}" --rate 5000 --arrivals poisson --duration 0.2
check "a search of the rate" wrote "${run[@]}" --slo p99=500ms --arrivals poisson --duration 0.05
check "beside the roofline" wrote "${run[@]}" --roofline --repeat-reads 5
check "in tokens" wrote "${run[@]}" --num-keys 20 --model llama-3-8b --block-tokens 16 --prefill-rate 8000
start_server given || exit 1
check "a run that keeps going" wrote "${run[@]}" --server "$server" --keep-going --duration 0.2
check "a trace, and what was done to a server meanwhile" wrote "${base[@]}" --trace "$trace" --trace-speed 1 --servers 2 --value-size 16KB --event 'stop 2 at 50ms' --event 'cont 2 at 60ms'
check "a sweep" wrote sweep "${run[@]}" -w 1,2 -c 1,2 --num-keys 20 --repeat-runs 2
# Figures of all these have their conditions beside them, as a run's have.
conditions='(lambda c: c["provider"] and c["wait"] in ("poll", "fd") and c["libfabric"] and c["cores"] > 0 and len(c["excluded"]) >= 2)(j["conditions"])'
conditioned() { wrote "$@" && json_is "$r" "$conditions"; }
check "kv-bench scale" conditioned scale --provider "$provider" --clients 3 --messages 2
check "kv-bench fabric" conditioned fabric --provider "$provider" --sizes 1,4KB --time 20ms
check "and says who else took the processors' time" json_is "$r" '(lambda c: c["others_cores"] >= 0 and c["steal_share"] >= 0 and c["shared_machine"] == (c["others_cores"] >= 0.25))(j["conditions"])'
check "as its text does" says 'conditions .* core.* stolen .* of the processors. time; other processes took .* left out' "$build/kv-bench" fabric --provider "$provider" --sizes 1,4KB --time 20ms
check "kv-bench versus" conditioned versus --targets "kvrail,kvrail://$server" --num-workers 2 --num-keys 100 --seed 7 --duration 50ms --rounds 1 --mixed -- --num-threads 1 "${over[@]}"
if [ "$provider" = shm ]; then
	skip "kv-bench capacity" "it counts the files and memory of sockets"
else
	check "kv-bench capacity" conditioned capacity --provider "$provider" --steps 1,2 --max-sessions 2
fi
check "kv-bench hits" wrote hits --trace "$trace" --capacity 10,20
finish
