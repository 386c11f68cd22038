#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# versus.sh -- kv-bench versus: targets take turns, figures and ratios are there, and what is wrong at a target puts it out with a sentence. No figure is judged.
. "$(dirname "$0")/lib.bash"
plan 61
versus() { timeout -k 5 120 "$build/kv-bench" versus "$@"; }
small=(--num-workers 3 --num-clients 1 --num-keys 20 --value-size 3000 --duration 0.05 --warmup 6 --rounds 1)
schema() { tests/integration/schema.py "$@"; }
j=$scratch/v.json
fake() { # fake PROTOCOL FAULT: sets $url
	local fifo="$scratch/fake.$1.$2" port
	[ -p "$fifo" ] || mkfifo "$fifo"
	python3 tests/bench/fake_server.py "$1" "$2" >"$fifo" &
	pids+=("$!")
	read -r -t 30 port <"$fifo"
	url=$1://127.0.0.1:$port
}
good() { # good PROTOCOL OPTIONS...: a round of that target alone
	fake "$1" none
	versus --targets "$url" "${small[@]}" --json "$j" "${@:2}" && schema "$j" &&
		json_is "$j" 'all(t["ok"] and t[f]["ops_per_s"] > 0 and 0 < t[f]["p50_ns"] <= t[f].get("p99_ns", t[f]["p50_ns"]) for t in j["targets"] for f in ("put", "get"))'
}
bad() { # bad TEXT PROTOCOL FAULT OPTIONS...: the target fails, and says TEXT
	fake "$2" "$3"
	versus --targets "$url" "${small[@]}" --json "$j" "${@:4}" >"$scratch/bad" 2>&1
	[ $? -eq 1 ] && grep -q "kv-bench versus: $url failed: .*$1" "$scratch/bad" && schema "$j" && json_is "$j" 'not j["targets"][0]["ok"] and j["targets"][0]["failed"]' || {
		cat "$scratch/bad"
		return 1
	}
}
check "redis" good redis --verify
check "what the server says of itself is there" json_is "$j" '(j["targets"][0]["version"], j["targets"][0]["server_threads"], j["targets"][0]["client_threads"]) == ("0.fake", 1, 1)'
cpu_told='all(t[f]["cpu_ns"] > 0 for t in j["targets"] for f in ("put", "get"))'
check "and the processor time of both sides" json_is "$j" "$cpu_told"
check "cores used and page faults, too" json_is "$j" 'all(t[f]["cores"] > 0 and t[f]["page_faults"] >= 0 for t in j["targets"] for f in ("put", "get"))'
check "redis, pipelined, the last pipeline short" good redis --batch 6
check "which is told, since a latency is of one" eval 'versus --targets "$url" "${small[@]}" --batch 6 --rate 0 --json "$j" | grep -q "20 keys of 2.93 KiB, in batches of 6," && json_is "$j" "j[\"batch\"] == 6"'
check "redis, values larger than what a socket takes" good redis --value-size 3000000 --num-keys 5
check "memcached" good memcached --verify
check "its threads, too" json_is "$j" 'j["targets"][0]["server_threads"] == 3'
check "and its processor time" json_is "$j" "$cpu_told"
check "memcached, pipelined" good memcached --batch 5 --no-checksum
check "GETs and PUTs at once" good redis --mixed --verify
check "are in the report" json_is "$j" 'j["targets"][0]["mixed"]["ops_per_s"] > 0'
check "in pipelines" good memcached --mixed --batch 3
check "the open loop" good redis --rate 400 --arrivals poisson --duration 0.3
# So many are due in that time; more would be a closed loop.
check "makes no more GETs than are due" json_is "$j" '0 < j["targets"][0]["get"]["ops_per_s"] < 1000'
fake redis slow
left() { (exec -a kv-bench-drive "$build/kv-bench" --targets "$url" --num-workers 2 --num-keys 20 --value-size 3000 --warmup 0 --rate 400 --duration 0.5 >"$j") && json_is "$j" '(lambda g: 0 < g["ops"] <= 22 and g["ops"] + g["never_started"] == 200 and g["latency_ns"]["p50"] > 150e6)(j["phases"]["read"])'; }
check "what is due and finds no connection counts with its age at the end" left
check "another pattern" good redis --keys-pattern zipf:0.9
check "a PUT that is refused" bad 'did not store' redis full
check "in the server's own words" bad 'did not store a value: "-OOM" (has it memory' redis full
check "a password that is wanted" bad 'NOAUTH Authentication required." (kv-bench has no password' redis auth
check "a wrong last byte" bad 'differs from the stored one' redis flip
check "a wrong byte in the middle" bad 'differs from the stored one' memcached middle
check "a wrong byte in the middle, with --verify" bad 'differs from the stored one' redis middle --verify --no-checksum
check "a short value of redis" bad 'another length' redis short
check "a short value of memcached" bad 'another length' memcached short
check "a miss" bad 'missed a stored key' memcached miss
check "a connection that ends" bad 'closed the connection' redis close
# A program with a client library of its own: here one that stores files. It is told of values, which lie in memory that both map.
mkdir "$scratch/files"
program() { # program FAULT OPTIONS...
	KVBENCH_FILES=$scratch/files KVBENCH_FAULT=$1 versus --targets "program:$PWD/tests/bench/program.py" "${small[@]}" --json "$j" "${@:2}" >"$scratch/program" 2>&1
}
program_good() { program none "$@" && schema "$j" && json_is "$j" 'all(t["ok"] and t[f]["ops_per_s"] > 0 for t in j["targets"] for f in ("put", "get")) and j["targets"][0]["version"] == "files 1"' || { cat "$scratch/program"; return 1; }; }
program_bad() { # program_bad TEXT FAULT OPTIONS...
	program "${@:2}"
	[ $? -eq 1 ] && grep -q "program.py failed: .*$1" "$scratch/program" && schema "$j" || { cat "$scratch/program"; return 1; }
}
check "a program" program_good --verify
check "in batches, GETs and PUTs at once" program_good --batch 6 --mixed
check "at a rate" program_good --rate 300 --duration 0.3
check "and no value is left" test -z "$(ls "$scratch/files")"
check "a program that misses" program_bad 'missed a stored key' miss
check "that brings other bytes" program_bad 'differs from the stored one' flip
check "fewer bytes" program_bad 'another length' short
check "that says what went wrong" program_bad 'the disk is on fire' error
check "that ends" program_bad 'closed the connection' die
check "that ends at once" says 'failed: exit status 1: (send|recv): the server closed the connection' "$build/kv-bench" versus --targets program:/bin/true --num-workers 2 --num-keys 20 --rounds 1
check "that is none" says 'cannot be run' "$build/kv-bench" versus --targets "program:$scratch/none"
# The servers themselves, where they are installed.
real() { # real NAME OPTIONS OF THE SERVER...
	if ! command -v "$1" >/dev/null; then
		for _ in 1 2 3; do skip "$1" "it is not installed"; done
		return
	fi
	"$1" "${@:2}" >"$scratch/$1.log" 2>&1 &
	pids+=("$!")
	for ((i = 0; i < 200; i++)); do [ -S "$scratch/$1.sock" ] && break; sleep 0.05; done
	check "$1 itself, beside KVRail" versus --targets "kvrail,${1%-server}+unix://$scratch/$1.sock" "${small[@]}" --num-keys 200 --mixed --verify --batch 4 --json "$j" -- "${over[@]}" --buffer-mb 16
	case ${MODE:-release} in
	asan | tsan) skip "$1 has the pages of all values before the clock starts" "a sanitizer's shadow memory has pages of its own" ;;
	*) check "$1 has the pages of all values before the clock starts" touched "${1%-server}+unix://$scratch/$1.sock" ;;
	esac
	kill "${pids[-1]}"
	wait "${pids[-1]}"
	check "$1 sends with KVRail's congestion control, and its cores and faults are known" over_tcp "$@"
}
# Without that a PUT of 64 KiB takes 17 faults at redis, in each round.
touched() { # touched TARGET
	versus --targets "kvrail,$1" "${small[@]}" --rounds 2 --num-keys 1000 --value-size 64KB --json "$j" -- "${over[@]}" --buffer-mb 16 >"$scratch/touched" 2>&1 &&
		json_is "$j" 'all(r["runs"][t]["put"]["page_faults"] < 4 for r in j["rounds"] for t in (0, 1))' || { cat "$scratch/touched"; return 1; }
}
# The server's end of a connection is seen by root, and by its user where that may trace it.
over_tcp() { # over_tcp NAME OPTIONS OF THE SERVER...: the same without its socket
	local port address args=() text='j["targets"][1].get("congestion_control", "")' option
	port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
	[ "$1" = redis-server ] && args=(--port "$port" --bind 127.0.0.1 --save "" --daemonize no) || args=(-u "$(id -un)" -l 127.0.0.1 -p "$port" -m 64)
	"$1" "${args[@]}" >"$scratch/$1.log" 2>&1 &
	pids+=("$!")
	address=127.0.0.1:$port
	for ((i = 0; i < 200; i++)); do (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.05; done
	versus --targets "kvrail,${1%-server}://$address" "${small[@]}" --num-keys 1000 --duration 0.2 --json "$j" -- "${over[@]}" --buffer-mb 16 >"$scratch/tcp" 2>&1 && schema "$j" || { cat "$scratch/tcp"; return 1; }
	option='""'
	[ "$(id -u)" -ne 0 ] || option='"none"'
	json_is "$j" "(lambda mine, other: mine == '' or other in (mine, $option))(j['targets'][0].get('congestion_control', ''), $text) and all('cores' in j['targets'][1][f] and 'page_faults' in j['targets'][1][f] for f in ('get', 'put'))"
}
real redis-server --port 0 --unixsocket "$scratch/redis-server.sock" --save "" --daemonize no
real memcached -u "$(id -un)" -s "$scratch/memcached.sock" -m 256

nobody() { versus --targets "redis+unix://$scratch/no.sock" "${small[@]}" 2>&1 | grep -q "no.sock: No such file"; }
check "no server" nobody

fake redis none
one=$url
fake redis flip
both() {
	versus --targets "kvrail,$one" "${small[@]}" --rounds 2 --num-keys 200 --mixed --json "$j" --report "$scratch/v.html" -- "${over[@]}" --buffer-mb 16 && schema "$j" &&
		json_is "$j" 'len(j["rounds"]) >= 2 and all(t["ok"] for t in j["targets"]) and all(0 < j["targets"][1][f]["ratio"]["low"] <= j["targets"][1][f]["ratio"]["median"] <= j["targets"][1][f]["ratio"]["high"] for f in ("put", "get", "mixed")) and j["targets"][0]["server_threads"] >= 1'
}
check "beside KVRail, with ratios" both
check "and ratios by processor time, where it is told" json_is "$j" 'all("cpu_ns" not in f or f["cpu_ns"] > 0 for f in (j["targets"][0]["get"], j["targets"][0]["put"])) and "cpu_ns" in j["targets"][1]["get"] and j["targets"][1]["get"].get("cpu_ratio", {"median": 1})["median"] > 0'
check "each round has other keys, and its distances" json_is "$j" 'len({r["seed"] for r in j["rounds"]}) == len(j["rounds"]) and all(len(r["core_distance_ns"]) == 3 for r in j["rounds"]) and all(r["counts"] == (not j["steady"] or r["cpus"] != "changed") for r in j["rounds"])'
page() { grep -q 'kv-bench versus <span>--targets</span>' "$scratch/v.html" && grep -q "$one" "$scratch/v.html" && ! grep -qE '<(script|link|img)|https?://[^1w]' "$scratch/v.html"; }
check "the page has the targets, and loads nothing" page
check "the load, the servers' versions and threads" eval 'grep -q "3 in flight, 200 keys of 2.93 KiB, 50.0 ms of reads a round, checksums compared" "$scratch/v.html" && grep -q "redis is redis://.*, version 0.fake: server with 1 thread, client with 1" "$scratch/v.html"'
check "so has the JSON" json_is "$j" '(j["num_keys"], j["batch"], j["duration_s"]) == (200, 0, 0.05)'
one_out() { # a target that fails leaves the others in
	versus --targets "kvrail,$url,$one" "${small[@]}" --num-keys 200 --json "$j" -- "${over[@]}" --buffer-mb 16 >/dev/null 2>&1
	[ $? -eq 1 ] && schema "$j" && json_is "$j" '[t["ok"] for t in j["targets"]] == [True, False, True] and j["targets"][2]["get"]["ratio"]["median"] > 0'
}
check "a target that fails leaves the others in" one_out
fake redis none
interrupted() { # one signal: the rounds until then are reported, and no key is left
	rm -f "$j"
	"$build/kv-bench" versus --targets "$url" "${small[@]}" --rounds 99 --duration 0.2 --json "$j" --report "$scratch/cut.html" >"$scratch/cut" 2>"$scratch/cut.err" &
	local pid=$! rc
	pids+=("$pid")
	until grep -q '^round 1' "$scratch/cut"; do kill -0 "$pid" || return 1; sleep 0.02; done
	kill -INT "$pid"
	wait "$pid"
	rc=$?
	[ "$rc" -eq 130 ] && grep -q 'interrupted by signal 2' "$scratch/cut.err" && schema "$j" && grep -q '<strong>Interrupted' "$scratch/cut.html" && ! grep -q 'All well' "$scratch/cut.html" && json_is "$j" 'j["interrupted"] and 1 <= len(j["rounds"]) < 99'
}
check "an interrupted run reports the rounds until then" interrupted
empty() { python3 -c '
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1].rpartition(":")[2])))
s.sendall(b"*1\r\n$6\r\nDBSIZE\r\n")
assert s.recv(99) == b":0\r\n"' "$url"; }
check "and leaves no key" empty
stops() { # a server that is there and says nothing any more: the time of grace is over
	fake redis stall
	versus --targets "$url" "${small[@]}" >"$scratch/stops" 2>&1
	[ $? -eq 1 ] && grep -q 'no answer any more' "$scratch/stops"
}
check "a server that says nothing any more" stops
refused() { # refused TEXT OPTIONS BEHIND --...: before any round
	versus --targets "kvrail,$one" "${small[@]}" -- "${@:2}" >"$scratch/refused" 2>&1
	[ $? -eq 2 ] && grep -q -- "behind -- are options for KVRail alone, and none of the load: $1" "$scratch/refused" && ! grep -q '^round' "$scratch/refused"
}
check "another load for KVRail alone is refused" refused 'unknown option --value-size' --value-size 1MB
check "by its letter and short names, too" eval 'refused "unknown option -k" -k 7 && refused "unknown option --keys-pat" --keys-pat zipf:2'
check "as is what there is not" refused 'unknown option --no-such' --no-such
loses() { # KVRail's own run may miss what was evicted; here a missing value fails its target
	versus --targets "$one,kvrail" "${small[@]}" --num-keys 100 --value-size 256KB --json "$j" -- "${over[@]}" --memory-mb 8 >"$scratch/loses" 2>&1
	[ $? -eq 1 ] && grep -q 'kvrail failed: GETs missed keys' "$scratch/loses" && schema "$j" && json_is "$j" 'not j["targets"][1]["ok"]'
}
check "GETs that miss are no operations to compare" loses
dies() { # the client of KVRail says why
	versus --targets kvrail "${small[@]}" -- --nic no-such-device >"$scratch/dies" 2>&1
	[ $? -eq 1 ] && grep -q 'kvrail failed: .*no-such-device' "$scratch/dies"
}
check "why KVRail's run failed is said" dies
finish
