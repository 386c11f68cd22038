#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# trace.sh -- replay of KV-cache request traces: hits must be exactly what a short reference program computes from the file.
. "$(dirname "$0")/lib.bash"
if short; then plan 21; else plan 24; fi
trace=${KVRAIL_TRACE:-../shared/data/conversation_trace.jsonl}

replay() { # replay TRACE
	timeout -k 5 280 "$build/kv-bench" --log-level warn "${over[@]}" --quiet --trace "$1" --value-size 4KB --num-workers 16 --num-clients 2 --num-threads 2 \
		--buffer-mb 16 --verify --json "$scratch/trace.json" || return 1
	python3 tests/kvbench/reference_trace.py "$1" >"$scratch/reference.json" || return 1
	python3 - "$scratch/trace.json" "$scratch/reference.json" <<'P'
import json, sys
got, want = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
t = got["trace"]
print(t, want)
ok = all(t[k] == want[k] for k in ("requests", "blocks", "block_hits")) and abs(t["hit_ratio"] - want["hit_ratio"]) < 1e-9
sys.exit(0 if ok and got["verify"]["wrong"] == 0 else 1)
P
}

# One worker and one shard, so that the order of requests is the file's; values of this size leave room for exactly so many blocks.
bounded() { # bounded TRACE POLICY BLOCKS MIB SIZE DIFFERENCE
	timeout -k 5 280 "$build/kv-bench" --log-level warn "${over[@]}" --quiet --trace "$1" --num-workers 1 --num-clients 1 --num-threads 1 --server-threads 1 --ttl 0 \
		--eviction "$2" --memory-mb "$4" --value-size "$5" --json "$scratch/trace.json" || return 1
	python3 tests/kvbench/reference_trace.py "$1" "$2" "$3" >"$scratch/reference.json" || return 1
	python3 - "$scratch/trace.json" "$scratch/reference.json" "$6" <<'P'
import json, sys
got, want = json.load(open(sys.argv[1]))["trace"], json.load(open(sys.argv[2]))
print(got, want)
sys.exit(0 if abs(got["hit_ratio"] - want["hit_ratio"]) <= float(sys.argv[3]) else 1)
P
}

python3 - "$scratch/small.jsonl" "${KVRAIL_SEED:-$RANDOM}" <<'P'
import json, random, sys
seed = int(sys.argv[2])
print("# seed", seed)
r = random.Random(seed)
with open(sys.argv[1], "w") as f:
    for i in range(400):
        root = r.randrange(6)
        ids = [root * 1000 + k for k in range(r.randrange(1, 12))]
        if r.random() < 0.5:
            ids += [100000 + i * 20 + k for k in range(r.randrange(0, 8))]
        f.write(json.dumps({"timestamp": i * 10, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}) + "\n")
P
check "a made trace with much sharing: strict order gives the reference's hits" replay "$scratch/small.jsonl"
for policy in lru sieve; do
	check "the same with room for 100 blocks and $policy: exactly the reference's hits" bounded "$scratch/small.jsonl" $policy 100 1 10432 1e-9
done
for policy in clock2g clock; do
	check "the same with room for 100 blocks and $policy: nearly the textbook's hits" bounded "$scratch/small.jsonl" $policy 100 1 10432 0.03
done
alone() { # alone TRACE POLICY BLOCKS -- kv-bench hits, without a server
	"$build/kv-bench" hits --trace "$1" --policy "$2" --capacity "$3" --json "$scratch/hits.json" || return 1
	python3 tests/kvbench/reference_trace.py "$1" "$2" "$3" >"$scratch/reference.json" || return 1
	python3 - "$scratch/hits.json" "$scratch/reference.json" <<'P'
import json, sys
got, want = json.load(open(sys.argv[1]))["runs"][0], json.load(open(sys.argv[2]))
sys.exit(0 if got["prefix_hits"] == want["block_hits"] else 1)
P
}
check "kv-bench hits has exactly the reference's with lru and sieve" eval 'alone "$scratch/small.jsonl" lru 100 && alone "$scratch/small.jsonl" sieve 100'
check "s3fifo takes part" timeout -k 5 60 "$build/kv-bench" --log-level warn "${over[@]}" --quiet --trace "$scratch/small.jsonl" --eviction s3fifo --memory-mb 1 --value-size 10432
# The same requests as other programs write them: hits stay. Turns of a session stand together, their order is in the delays.
python3 - "$scratch/small.jsonl" "$scratch" <<'P'
import gzip, hashlib, json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
def write(name, form, change, rows=rows):
    with form(f"{sys.argv[2]}/{name}", "wt") as f:
        f.writelines(json.dumps(change(dict(r))) + "\n" for r in rows)
def ids(r, of):
    r["hash_ids"] = [of(i) for i in r["hash_ids"]]
    return r
digest = lambda i: hashlib.sha256(b"%d" % i).hexdigest()
write("unsigned.jsonl.gz", gzip.open, lambda r: ids(r, lambda i: int(digest(i)[:16], 16) | 1 << 63))
write("signed.jsonl", open, lambda r: ids(r, lambda i: (int(digest(i)[:16], 16) | 1 << 63) - (1 << 64)))
write("text.jsonl", lambda n, m: open(n, m, encoding="utf-8-sig"), lambda r: ids(r, digest))
write("bare.jsonl", open, lambda r: {"hash_ids": [float(i) for i in r["hash_ids"]], "output_length": float("nan")})
def session(r):
    i = r.pop("timestamp") // 10
    return dict(r, session_id=f"s{i % 7}", **({"timestamp": i * 10} if i < 7 else {"delay": 70.0}))
write("sessions.jsonl", open, session, sorted(rows, key=lambda r: (r["timestamp"] // 10 % 7, r["timestamp"])))
P
odd() { # odd FILE [OPTION...] -- its hits are those of small.jsonl, replayed and computed
	timeout -k 5 280 "$build/kv-bench" --log-level warn "${over[@]}" --quiet --trace "$scratch/$1" --value-size 4KB --verify --json "$scratch/trace.json" "${@:2}" || return 1
	"$build/kv-bench" hits --trace "$scratch/$1" --policy lru --capacity 100 --json "$scratch/hits.json" || return 1
	python3 tests/kvbench/reference_trace.py "$scratch/small.jsonl" >"$scratch/reference.json"
	python3 tests/kvbench/reference_trace.py "$scratch/small.jsonl" lru 100 >"$scratch/reference_lru.json"
	python3 - "$scratch"/{trace,hits,reference,reference_lru}.json <<'P'
import json, sys
t, h, want, lru = (json.load(open(n)) for n in sys.argv[1:])
print(t["trace"], h["runs"], want, lru)
sys.exit(0 if t["trace"]["block_hits"] == want["block_hits"] and h["runs"][0]["prefix_hits"] == lru["block_hits"] and t["verify"]["wrong"] == 0 else 1)
P
}
check "ids of 64 bits, in gzip" odd unsigned.jsonl.gz
check "negative ids" odd signed.jsonl
check "hexadecimal digests, after a byte order mark" odd text.jsonl
check "floats, NaN, and no time stamps" odd bare.jsonl
check "turns of sessions with delays, at their times" odd sessions.jsonl --trace-speed 100
check "a trace without time stamps has no speed" says 'bare.jsonl has no time stamps: drop --trace-speed' "$build/kv-bench" --trace "$scratch/bare.jsonl" --trace-speed 2
printf "Timestamp,Model\n5,a\n6,b\n" >"$scratch/times.csv"
check "CSV of times has no blocks" says 'has no request with a block .*--arrivals trace:FILE' "$build/kv-bench" --trace "$scratch/times.csv"
if short; then
	: # a made trace is compared above; this one takes most of a minute
elif [ -r "$trace" ] && [ "${MODE:-release}" = release ]; then
	check "the conversation trace: strict order gives the reference's hits" replay "$trace"
	known() { "$build/kv-bench" hits --trace "$trace" --policy lru,belady --capacity 5859 --json "$scratch/known.json" && tests/integration/schema.py "$scratch/known.json" && json_is "$scratch/known.json" 'all(abs(r["prefix_hit_ratio"] - {"lru": .1355, "belady": .3532}[r["policy"]]) < 0.002 for r in j["runs"])'; }
	check "kv-bench hits has the ratios that others computed" known
	check "the conversation trace with room for 1,000 blocks and clock2g: within 0.005 of the textbook's hits" bounded "$trace" clock2g 1000 8 8384 0.005
else
	tap_n=$((tap_n + 3))
	echo "ok $((tap_n - 2)) - kv-bench hits of the conversation trace # SKIP the trace is not beside the project, or this is not a release build"
	echo "ok $((tap_n - 1)) - the conversation trace # SKIP the trace is not beside the project, or this is not a release build"
	echo "ok $tap_n - the conversation trace with room for 1,000 blocks # SKIP the trace is not beside the project, or this is not a release build (it takes minutes under a sanitizer)"
fi
printf '{"timestamp": 0, "hash_ids": [1, 2]}\nnot json\n' >"$scratch/bad.jsonl"
seq -s, 0 59999 | sed 's/.*/{"timestamp": 0, "hash_ids": [&]}/' >"$scratch/large.jsonl"
check "blocks that no memory holds are a property of the trace" says 'for 60000 blocks of 16 MiB each of 2 servers needs .* use a smaller --value-size, fewer --servers, or --memory-mb N' "$build/kv-bench" --trace "$scratch/large.jsonl" --value-size 16MB --servers 2
check "a report that would take the place of the trace is refused" says 'the JSON report would take the place of .*small.jsonl, which --trace reads' "$build/kv-bench" --trace "$scratch/small.jsonl" --json "$scratch/small.jsonl"
check "also of hits" status 2 "$build/kv-bench" hits --trace "$scratch/small.jsonl" --json "$scratch/../${scratch##*/}/small.jsonl"
for i in 0 1 2 3 4; do echo "{\"timestamp\": $((i * 500)), \"hash_ids\": [7, $i]}"; done >"$scratch/slow.jsonl"
outlived() { timeout -k 5 60 "$build/kv-bench" --log-level warn "${over[@]}" --trace "$scratch/slow.jsonl" --trace-speed 1 --value-size 4KB --ttl 1 --json "$scratch/slow.json" >"$scratch/slow" 2>&1 && json_is "$scratch/slow.json" 'j["trace"]["block_hits"] < 4'; }
check "a trace that outlives its values has fewer hits, and does not fail" outlived
check "which it says before and behind" eval 'tr -s "[:space:]" " " <"$scratch/slow" | grep -q "at this speed the trace is not shorter than --ttl.*values lived for --ttl 1 s, and the replay took longer: --ttl 0 keeps them"'
check "and how late a start was" json_is "$scratch/slow.json" 'j["trace"]["latest_start_ns"] >= 0'
check "a bad line is named by its number" says ':2|line 2' "$build/kv-bench" --log-level warn --trace "$scratch/bad.jsonl" --value-size 4KB
finish
