#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_tools.sh -- the tools of `make bench`: they give figures, notice wrong data, and the driver writes what it may write. No figure is judged.
. "$(dirname "$0")/lib.bash"
plan 20
tools=$build/tests/bench
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # they end without giving anything back

figures() { # figures COMMAND...: one line of JSON with GETs in it
	timeout -k 5 60 "$@" >"$scratch/out" && python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
print(r)
sys.exit(0 if r["gets"] > 0 and r["bytes_per_s"] > 0 and 0 < r["p50_ns"] <= r["p99_ns"] else 1)' "$scratch/out"
}
fake() { # fake PROTOCOL FAULT: sets $port
	local fifo="$scratch/fake.$1.$2"
	mkfifo "$fifo"
	python3 tests/bench/fake_server.py "$1" "$2" >"$fifo" &
	pids+=("$!")
	read -r -t 30 port <"$fifo"
}
replayed() { # replayed PROTOCOL FAULT OPTIONS...: a small trace, whose hits are known
	local port='' protocol=$1 fault=$2
	shift 2
	fake "$protocol" "$fault"
	for ids in '1,2,3' '1,2,3,4' '9,2' '' '1,2,7' '1,2,7,8'; do
		echo "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [$ids]}"
	done >"$scratch/trace"
	timeout -k 5 60 "$tools/kvreplay" -p "$protocol" -a "127.0.0.1:$port" --trace "$scratch/trace" --value-size 3000 --conns 3 "$@" >"$scratch/out" 2>&1
}
hits() { # hits OPTIONS...: 0, 3, 0, 0, 2 and 3 blocks were there
	replayed "$@" && python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
print(r)
sys.exit((r["requests"], r["blocks"], r["hits"], r["lost"], r["complete"]) != (6, 16, 8, 0, True))' "$scratch/out"
}
unlike() { # unlike TEXT PROTOCOL FAULT: kvreplay must fail, and say TEXT
	local text=$1
	shift
	! replayed "$@" && grep -q "$text" "$scratch/out"
}
c2c() { timeout 20 "$tools/c2c" | python3 -c 'import json, sys; ns = json.load(sys.stdin)["c2c_ns"]; sys.exit(0 if ns is None or ns >= 0 else 1)'; }

check "lfget: tcp" figures "$tools/lfget" --blocks 64 --depth 4 --conns 2 --duration 0.05
check "lfget: tcp, data and immediate apart" figures "$tools/lfget" --blocks 64 --depth 4 --duration 0.05 --split
check "lfget: shm" figures "$tools/lfget" --provider shm --blocks 64 --depth 4 --duration 0.05
check "lfget: a provider that is not here ends it" status 1 "$tools/lfget" --provider efa --duration 0.05
check "rawtcp" figures "$tools/rawtcp" --blocks 64 --depth 5 --duration 0.05
check "c2c gives a distance" c2c
check "kvreplay: redis, and the hits of strict order" hits redis none --verify
check "kvreplay: memcached, and the hits of strict order" hits memcached none --verify
check "kvreplay: redis, large values" hits redis none --value-size 3000000 --verify
check "kvreplay: a wrong last byte" unlike 'not what was stored' redis flip
check "kvreplay: a short value" unlike 'another length' memcached short
check "kvreplay: a PUT that is refused" unlike 'did not store' redis full
check "kvreplay: a trace that is not there" status 1 "$tools/kvreplay" --trace "$scratch/nothing"
check "run.py lists what it compares" says '^redis ' tests/bench/run.py --list
check "run.py: an unknown name is refused" says "no comparison 'nothing'" tests/bench/run.py nothing
check "side_by_side.py: the table of ratios, and where it is written" timeout 60 python3 tests/bench/test_side_by_side.py
check "stock_clients.py: what each client is asked, and says" timeout 60 python3 tests/bench/test_stock_clients.py
check "README's table of ratios is that of the results in docs/runs" tests/bench/side_by_side.py --check README.md docs/runs/2026-11-versus/64KB.json docs/runs/2026-11-versus/1MB.json
check "the results are what their schema says" tests/integration/schema.py docs/runs/2026-11-versus/64KB.json docs/runs/2026-11-versus/1MB.json
check "run.py: tables, summaries, and only the marked block of a document" timeout 60 python3 tests/bench/test_run.py
finish
