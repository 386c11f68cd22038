#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# keep_long.sh -- what kept values are worth: the hits of a trace with a restart in its middle, and a rolling upgrade of four servers.
. "$(dirname "$0")/lib.bash"
memory=$(mktemp -d /dev/shm/kvrail-keep.XXXXXX 2>/dev/null) || { plan 1; skip_all 1 "there is no /dev/shm to write to"; }
trap 'rm -rf "$memory"; cleanup' EXIT
plan 6

# ---- a trace ----
# Sessions share prefixes, as conversations do, and come back after others.
python3 - "$scratch" "${KVRAIL_SEED:-$RANDOM}" <<'P'
import json, random, sys
seed = int(sys.argv[2])
print("# seed", seed)
r, rows, turns = random.Random(seed), [], {}
for i in range(4000):
    session = r.randrange(max(1, i // 8 - 60), i // 8 + 2)
    turns[session] = turns.get(session, 0) + 1 + r.randrange(3)
    ids = [session % 20 * 10 + k for k in range(3)] + [1000 + session * 100 + k for k in range(turns[session])]
    rows.append(json.dumps({"timestamp": i * 10, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}) + "\n")
for name, part in (("first", rows[:2000]), ("second", rows[2000:])):
    with open(f"{sys.argv[1]}/{name}.jsonl", "w") as f:
        f.writelines(part)
P
one=(--memory-mb 4 --worker-threads 1 --ttl 0 --log-level info)
half() { # half NAME RESULT
	timeout -k 5 280 "$build/kv-bench" --server "$server" --log-level warn "${over[@]}" --quiet --trace "$scratch/$1.jsonl" --num-workers 1 --num-clients 1 --num-threads 1 \
		--value-size 16KB --json "$scratch/$2.json"
}
whole() { start_server whole "${one[@]}" && half first whole-1 && half second whole-2 && stop_server "$server_pid"; }
kept=(--keep "$memory/index" --arena-file "$memory/arena")
cut() {
	start_server cut-1 "${one[@]}" "${kept[@]}" && half first cut-1 && stop_server "$server_pid" && start_server cut-2 "${one[@]}" "${kept[@]}" && half second cut-2 && stop_server "$server_pid"
}
check "a replay" whole
check "the same with a restart of the server in its middle" cut
alike() {
	python3 - "$scratch" <<'P'
import json, sys
def ratio(*names):
    t = [json.load(open(f"{sys.argv[1]}/{n}.json"))["trace"] for n in names]
    return sum(x["block_hits"] for x in t) / sum(x["blocks"] for x in t)
whole, cut = ratio("whole-1", "whole-2"), ratio("cut-1", "cut-2")
print(f"hit ratio {whole:.4f}, with a restart {cut:.4f}; of the second half alone {ratio('whole-2'):.4f}, {ratio('cut-2'):.4f}")
sys.exit(0 if 0.2 < whole < 0.95 and abs(whole - cut) <= 0.002 else 1)
P
}
check "has the same hit ratio within 0.002" alike

# ---- four servers ----
port=$(free_ports 4)
names=(a b c d)
list=list:
for i in 0 1 2 3; do list+="${names[i]}=127.0.0.1:$((port + i)),"; done
upgraded() { # upgraded I NAME -- start server I with its memory
	start_server "$2" --listen-addr "127.0.0.1:$((port + $1))" --node-id "${names[$1]}" --members "${list%,}" --memory-mb 16 --worker-threads 2 --log-level info \
		--keep "$memory/index-$1" --arena-file "$memory/arena-$1" && pid[$1]=$server_pid
}
client() { limited "$build/kv-client" --server "127.0.0.1:$port" "${over[@]}" "$@"; }
all() { for ((i = 0; i < 400; i++)); do echo "$1 key-$i ${*:2}"; done | client; }
there() { all exists | grep -c '^[0-9]* key-'; }
head -c 20000 /dev/urandom >"$scratch/value"
pid=()
for i in 0 1 2 3; do upgraded "$i" "${names[i]}-1" || exit 1; done
filled() { all put -f "$scratch/value" && [ "$(there)" -eq 400 ]; }
check "values on four servers" soon filled
rolled() {
	local i
	for i in 0 1 2 3; do
		stop_server "${pid[$i]}" && ! grep -q drain_push "$scratch/${names[i]}-1.err" && upgraded "$i" "${names[i]}-2" && grep -q keep_restored "$scratch/${names[i]}-2.err" || return 1
	done
	all_there() { [ "$(there)" -eq 400 ]; }
	soon all_there
}
check "an upgrade of one after the other loses none" rolled
still() { # the servers that are there now got no value from anybody, and sent none
	local i
	for i in 0 1 2 3; do
		limited "$build/kv-client" --server "127.0.0.1:$((port + i))" "${over[@]}" stat --all >"$scratch/stat-$i" || return 1
		awk '$1 == "keep_restored" { back = $2 } $1 ~ /^(puts|pushed|bytes_in|gets)$/ { moved += $2 } { all[$1] = $2 } END { print back, moved; exit !(back > 0 && moved == 0) }' "$scratch/stat-$i" || return 1
	done
}
check "and moves none over the network" still
finish
