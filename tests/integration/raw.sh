#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# raw.sh -- kv-bench --raw: every operation of a run, from which a reader computes the report's figures again, to the sample.
. "$(dirname "$0")/lib.bash"
plan 22
r=$scratch/ops.raw
j=$scratch/ops.json
run() { timeout -k 5 120 "$build/kv-bench" --log-level warn "${over[@]}" --num-workers 8 --num-clients 2 --num-keys 200 --repeat-reads 5 --buffer-mb 16 --quiet "$@"; }
same() { # same OPTIONS...: a run, whose figures are those of its operations
	run --raw "$r" --json "$j" "$@" >"$scratch/run" 2>&1 || { cat "$scratch/run"; return 1; }
	tests/kvbench/raw_summary.py "$r" "$j"
}
records() { echo $((($(stat -c %s "$r") - 64) / 64)); }
check "writes and reads" same
check "all are there: of writes, warm-up and reads" test "$(records)" = 1300
check "of another pattern, of several sizes" same --keys-pattern zipf:0.99 --value-sizes 3000:5,10000:4,100000:1
check "batches, the last one short" same --batch 7
check "in slices" same --batch 7 --slices 8
check "through a queue" same --async
check "in batches, too" same --async --batch 7 --submitters 3
check "by one thread that does all" same --async --submitters 0 --no-threads
check "GETs and PUTs at once" same --mixed
check "a mix" same --mix 70:25:5
check "of which DELETEs are there, and in no figure" test "$(records)" = 1550
check "a mix of batches" same --mix 70:25:5 --batch 3
check "several runs" same --repeat-runs 3
check "the open loop, of a mix of independent users" same --mix 5:4:1 --rate 2000 --arrivals poisson
check "what was due and never started is there" same --rate 500 --duration 2 --peer-timeout 20s --event 'stop 1 at 600ms' --event 'cont 1 at 2200ms'
check "misses: memory for a part of the keys" same --memory-mb 8 --server-threads 1
check "in batches" same --memory-mb 8 --server-threads 1 --batch 7
python3 - "$scratch/trace.jsonl" <<'P'
import json, sys
with open(sys.argv[1], "w") as f:
    for i in range(200):
        f.write(json.dumps({"timestamp": i * 2, "input_length": 1, "output_length": 1, "hash_ids": list(range(i % 40)) + [1000 + i]}) + "\n")
P
replay() { # replay OPTIONS...: --num-keys is none of a replay
	timeout -k 5 120 "$build/kv-bench" --log-level warn "${over[@]}" --num-workers 8 --num-clients 2 --buffer-mb 16 --quiet --trace "$scratch/trace.jsonl" --value-size 4KB \
		--raw "$r" --json "$j" "$@" >"$scratch/run" 2>&1 || { cat "$scratch/run"; return 1; }
	tests/kvbench/raw_summary.py "$r" "$j"
}
check "a replay" replay
check "at the speed of its times" replay --trace-speed 1
broken() { # a disk that is full: the run fails, says why, and leaves no part of the file
	rm -f "$r"
	(ulimit -f 64; trap '' XFSZ; run --raw "$r" --repeat-reads 50) >"$scratch/full" 2>&1
	[ $? -eq 1 ] && grep -q "FAILED: the operations could not be written to $r: " "$scratch/full" && ! ls "$r"* 2>/dev/null || { cat "$scratch/full"; return 1; }
}
check "a file that cannot be written fails the run, and is not there" broken
check "a file that cannot be made fails it before it starts" status 3 run --raw "$scratch/none/ops.raw"
check "it goes to no standard output" says '--raw needs the name of a file' run --raw -
finish
