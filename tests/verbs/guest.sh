#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# guest.sh -- what `make check-verbs` runs inside the virtual machine. usage: guest.sh SCENARIO...
#
# Speaks TAP. Programs that do so themselves are passed through; every other scenario is one test. A line "# end SCENARIO" follows each, so that run.sh
# knows what is left when the guest breaks. Time is emulated here: nothing is judged by it, and every wait is generous.
. "$(dirname "$0")/../integration/lib.bash"
export KVRAIL_TEST_PROVIDERS=verbs CMOCKA_MESSAGE_OUTPUT=tap KVRAIL_TEST_WAIT_S=100
bench_args=(--provider verbs --verify --num-keys 64 --repeat-reads 4 --warmup 8 --local off --num-workers 8 --timeout 30 --peer-timeout 20 --log-level warn)

server_pid=

# suite NAME... -- test programs of tests/engine, as they are. One that is not there, or takes no verbs device, has failed.
suite() {
	local name out=$scratch/suite.out rc
	for name in "$@"; do
		timeout -k 5 400 "$build/tests/engine/$name" >"$out" 2>&1
		rc=$?
		cat "$out"
		if ! grep -qE '^(ok|not ok) ' "$out" || { [ $rc -ne 0 ] && ! grep -q '^not ok ' "$out"; }; then
			echo "1..1"
			echo "not ok - $name ended with status $rc, and no test of it failed or ran"
		fi
	done
}

# one NAME COMMAND... -- a scenario that is one test. The command may print lines "#: ..." for the reader.
one() {
	local name=$1 rc
	shift
	"$@" >"$scratch/one.out" 2>&1
	rc=$?
	echo "1..1"
	if [ $rc -eq 77 ]; then
		echo "ok - $name # SKIP $(tail -n 1 "$scratch/one.out")"
	elif [ $rc -eq 0 ]; then
		echo "ok - $name"
		grep '^#: ' "$scratch/one.out"
	else
		echo "not ok - $name"
		sed 's/^/# /' "$scratch/one.out" | tail -n 80
		[ -z "$server_pid" ] || kill -0 "$server_pid" 2>/dev/null || echo "# the server is gone"
		sed 's/^/# server: /' "$scratch/server.out" 2>/dev/null | tail -n 20
	fi
	server_pid=
	rm -f "$scratch/server.out"
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	pids=()
}

# serve ADDRESS ARGS... -- a kv-server over verbs; $server is its address, $server_pid its process.
serve() {
	local address=$1 ready=$scratch/ready
	shift
	: >"$ready"
	"$build/kv-server" --listen-addr "$address" --insecure --provider verbs --memory-mb 64 --worker-threads 2 --log-level warn --ready-fd 3 "$@" \
		3>"$ready" >>"$scratch/server.out" 2>&1 &
	server_pid=$!
	server_wait verbs "$ready" 600 "$scratch/server.out"
}

# serve_end -- it must still be there, and end well.
serve_end() {
	kill -TERM "$server_pid" && wait "$server_pid" || {
		echo "the server ended with status $?"
		tail -n 20 "$scratch/server.out"
		return 1
	}
}

bench() { timeout -k 5 200 "$build/kv-bench" "${bench_args[@]}" "$@"; }

# verified LEAST FILE -- the report says that at least so many values were compared, over verbs, and none was wrong.
verified() {
	python3 -c 'import json, sys
r = json.load(open(sys.argv[2]))
v = r["verify"]
print("#: %s" % v)
assert v["wrong"] == 0 and v["checked"] >= int(sys.argv[1]), v
assert "verbs" in json.dumps(r["provider"]), r["provider"]' "$1" "$2"
}

get_put() { # a server of kv-bench's own, on loopback: clients and shards are spread over both devices
	bench --json "$scratch/b.json" && verified 256 "$scratch/b.json"
}
sizes() { # inline values, one chunk, several chunks
	local size
	serve 10.9.0.1:0 || return
	for size in 64 4KB 40KB 3MB; do
		bench --server "$server" --value-size "$size" --num-keys 12 --repeat-reads 3 || return
	done
	serve_end
}
batch() { serve 10.9.0.1:0 && bench --server "$server" --batch 8 && serve_end; }
rails() { # two devices are two rails, of server and client
	serve 127.0.0.1:0 --rails 2 || return
	bench --server "$server" --rails 2 --value-size 3MB --num-keys 8 && bench --server "$server" --rails 2 --batch 4 || return
	# Unequal: a client with one.
	bench --server "$server" --rails 1 --num-keys 16 && serve_end
}
trace() {
	local file=${KVRAIL_TRACE:-../shared/data/conversation_trace.jsonl}
	[ -r "$file" ] || {
		echo "there is no trace $file (KVRAIL_TRACE names one)"
		return 77
	}
	head -n 12 "$file" >"$scratch/trace.jsonl"
	serve 10.9.0.1:0 --memory-mb 256 || return
	timeout -k 5 200 "$build/kv-bench" --provider verbs --local off --verify --timeout 30 --peer-timeout 20 --log-level warn --server "$server" --trace "$scratch/trace.jsonl" --value-size 4KB && serve_end
}
doctor() {
	[ -x "$build/kv-doctor" ] || {
		echo "there is no $build/kv-doctor"
		return 77
	}
	timeout -k 5 60 "$build/kv-doctor" --provider verbs || return
	timeout -k 5 60 "$build/kv-doctor" --provider verbs --json - 2>/dev/null | python3 -c 'import json, sys; text = json.dumps(json.load(sys.stdin)); assert "rxe0" in text, text' || return
	# What cannot run is said, with the way out.
	FI_UNIVERSE_SIZE=1000000 timeout -k 5 60 "$build/kv-doctor" --provider verbs >"$scratch/doctor.out"
	[ $? -eq 1 ] && grep -q 'FI_UNIVERSE_SIZE=' "$scratch/doctor.out" || {
		cat "$scratch/doctor.out"
		return 1
	}
}

# reads_start ARGS... -- kv-bench that reads on through errors, in the background; $bench_pid. Returns when its reads go on.
reads_start() {
	local i
	"$build/kv-bench" --provider verbs --local off --verify --keep-going --duration 3600 --rate 40 --num-keys 40 --num-clients 2 --num-workers 8 --value-size 40KB --warmup 0 \
		--timeout 5 --log-level warn "$@" --json "$scratch/reads.json" >"$scratch/reads.out" 2>&1 &
	bench_pid=$!
	pids+=("$bench_pid")
	for ((i = 0; i < 600; i++)); do
		grep -qs '^\[1/4\]' "$scratch/reads.out" && sleep 2 && return 0
		kill -0 "$bench_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "kv-bench did not begin to read:"
	tail -n 20 "$scratch/reads.out"
	return 1
}

# reads_end -- it must be alive, and have seen no wrong byte. That reads work again is asked of a second kv-bench.
reads_end() {
	kill -INT "$bench_pid" || {
		echo "kv-bench is gone"
		cat "$scratch/reads.out"
		return 1
	}
	wait "$bench_pid"
	local rc=$?
	tail -n 40 "$scratch/reads.out"
	verified 20 "$scratch/reads.json" || return
	# 1: calls past their deadline are counted against a run, and emulated time makes some.
	[ $rc -le 1 ]
}

# again -- reads come back by themselves: the same kv-bench, whose connections broke, reads without an error for a while.
again() {
	local before after i
	for ((i = 0; i < 30; i++)); do
		before=$(stat_gets)
		sleep 1
		after=$(stat_gets)
		[ "${after:-0}" -gt "$((${before:-0} + 5))" ] && return 0
	done
	echo "no GETs arrive any more ($before, $after)"
	tail -n 20 "$scratch/reads.out" "$scratch/server.out"
	return 1
}
stat_nic= # whose cable is whole
stat_gets() { timeout -k 5 20 "$build/kv-client" --server "$server" --provider verbs ${stat_nic:+--nic "$stat_nic"} --timeout 15 stat 2>/dev/null | awk '$1 == "gets" { n = $2 } END { print n }'; }

kill_server() { # kill -9 under load, and again on the same port
	local k
	serve 10.9.0.1:0 && reads_start --server "$server" || return
	for k in 1 2 3; do
		kill -KILL "$server_pid"
		wait "$server_pid" 2>/dev/null
		sleep 1
		serve "$server" && again || return
	done
	reads_end && serve_end
}
kill_client() { # the server goes on for the others
	local k
	serve 10.9.0.1:0 && reads_start --server "$server" || return
	for k in 1 2 3; do
		"$build/kv-bench" "${bench_args[@]}" --server "$server" --duration 100 >"$scratch/victim.out" 2>&1 &
		pids+=($!)
		sleep $((4 + k))
		kill -KILL $!
		wait $! 2>/dev/null
		again || return
	done
	reads_end && serve_end
}

# Calls of which most are PUTs: in packs, to landing areas, in ranges, by sessions (tests/chaos/load.c).
load=("$build/tests/chaos/load" --provider verbs --puts 80 --max-bytes 3000000 --keys 100 --buffer-mb 16 --clients 2 --threads 0 --timeout-ms 5000 --short-ms 500)
writes_start() {
	"${load[@]}" --server "$server" --seed 7 --workers 8 --pace-us 20000 --seconds 3600 --marks "$scratch/marks" >"$scratch/writes.json" 2>"$scratch/writes.out" &
	writes_pid=$!
	pids+=("$writes_pid")
}
stat_puts() { timeout -k 5 20 "$build/kv-client" --server "$server" --provider verbs --timeout 15 stat 2>/dev/null | awk '$1 == "puts" { n = $2 } END { print n }'; }
writes_go_on() {
	local before after i
	for ((i = 0; i < 60; i++)); do
		before=$(stat_puts)
		sleep 1
		after=$(stat_puts)
		[ "${after:-0}" -gt "$((${before:-0} + 3))" ] && return 0
		kill -0 "$writes_pid" || break
	done
	echo "no PUTs arrive any more ($before, $after)"
	tail -n 20 "$scratch/writes.out" "$scratch/server.out"
	return 1
}
# No wrong and no late byte, no code that a dead server does not explain. Then every value that is there is right. That a call is late is not judged here.
writes_end() {
	echo stop >"$scratch/marks"
	wait "$writes_pid"
	python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
print("#: %d calls, %d ok, errors %s, %d reconnects, %d fences" % (r["calls"], r["ok"], r["errors"], r["reconnects"], r["fences"]))
assert r["end"] == "done", r
assert r["ok"] > 50 and not (r["wrong_bytes"] or r["late_bytes"] or r["unexpected"]), r' "$scratch/writes.json" || {
		tail -n 20 "$scratch/writes.out"
		return 1
	}
	timeout -k 5 200 "${load[@]}" --server "$server" --seed 7 --timeout-ms 50000 --short-ms 50000 --check >"$scratch/calm.json" 2>"$scratch/calm.out" || {
		cat "$scratch/calm.json" "$scratch/calm.out"
		return 1
	}
}
put_kill_server() { # kill -9 while values go to the server, and again on the same port
	local k
	[ -p "$scratch/marks" ] || mkfifo "$scratch/marks"
	serve 10.9.0.1:0 && writes_start && writes_go_on || return
	for k in 1 2 3 4 5; do
		kill -KILL "$server_pid"
		wait "$server_pid" 2>/dev/null
		sleep 1
		serve "$server" && writes_go_on || return
	done
	writes_end && serve_end
}
put_kill_client() { # clients are killed while their values go to the server: others are served, and nothing is held for the dead
	local k
	[ -p "$scratch/marks" ] || mkfifo "$scratch/marks"
	serve 10.9.0.1:0 && writes_start && writes_go_on || return
	for k in 1 2 3 4 5; do
		"${load[@]}" --server "$server" --seed 7 --workers 8 --pace-us 0 --log 0 --seconds 3600 >/dev/null 2>&1 &
		pids+=($!)
		sleep $((2 + k))
		kill -KILL $!
		wait $! 2>/dev/null
		writes_go_on || return
	done
	writes_end && serve_end
}
cable() { # the port of the client's device goes down until its queue pairs give up, and comes back
	serve 10.9.1.1:0 && reads_start --server "$server" --nic rxe0 || return
	stat_nic=rxe1
	ip link set p0 down
	sleep 20
	ip link set p0 up
	again && reads_end && serve_end
}

# said COUNT TEXT -- until kv-bench has said so, so often.
said() {
	local i
	for ((i = 0; i < 900; i++)); do
		[ "$(grep -cE -- "$2" "$scratch/reads.out")" -ge "$1" ] && return 0
		kill -0 "$bench_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "kv-bench did not say '$2' $1 times:"
	tail -n 40 "$scratch/reads.out"
	return 1
}
rail_cut() { # two rails; the far end of one goes dark under load, then the near end: no call fails, and each comes back
	local out back=0 port
	serve 10.9.0.1:0 --nic rxe0,rxe1 && reads_start --server "$server" --nic rxe2,rxe3 --timeout 100 --peer-timeout 10 --log-level info || return
	stat_nic=rxe0
	for port in p1 p3; do
		out=$(grep -c 'links do not answer over the fabric' "$scratch/reads.out")
		back=$(grep -c 'answers again' "$scratch/reads.out")
		ip link set $port down
		said $((out + 1)) 'links do not answer over the fabric.*continues without them' || return
		# As if the host had been gone for so long that nobody remembers where it was.
		ip neigh flush all
		again || return
		ip link set $port up
		said $((back + 1)) 'answers again' || return
	done
	again || return
	kill -INT "$bench_pid" && wait "$bench_pid" || {
		echo "kv-bench ended with status $?"
		tail -n 60 "$scratch/reads.out"
		return 1
	}
	rails_used || {
		grep -E ' (INFO|WARN|ERROR) ' "$scratch/reads.out" | cut -c 1-240 | tail -n 80 # what happened to whom, from the start
		tail -n 60 "$scratch/reads.out" | grep -vE ' (INFO|WARN|ERROR) '
		return 1
	}
	verified 100 "$scratch/reads.json" && serve_end
}
# No error, each connection was lost and made anew, and both rails carried data.
rails_used() {
	python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
read, lost = r["phases"]["read"], r["counters"]["connections"]["lost_connections"]
print("#: %d reads, errors %s, %d connections lost, immediates by rail %s" % (read["ops"], read["errors"], lost, [x["immediates"] for x in r["rails"]]))
assert read["errors"] == {} and lost >= 2 and len(r["rails"]) == 2 and all(x["immediates"] > 20 for x in r["rails"])' "$scratch/reads.json"
}

for scenario in "$@"; do
	echo "# begin $scenario"
	case $scenario in
	engine_small) suite test_verbs test_env test_attach test_process ;;
	conform) suite test_conform ;;
	*) one "$scenario" "$scenario" ;;
	esac
	echo "# end $scenario"
done
