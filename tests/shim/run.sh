#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [MACHINE:PROVIDER...], or SHIM_PAIRS=MACHINE:PROVIDER,... -- the unmodified programs on imitated machines (README.md): benchmark, small queues, failing operations, broken endpoints, servers
# and clients killed, and the integration tests on what `auto` takes there.
. "$(dirname "$0")/../integration/lib.bash"
real=$(cd "$build" && pwd)
report="$scratch/report"
export KVRAIL_SHIM_QUIET=1 KVRAIL_SHIM_REPORT="$report"

# wrap NAME CONFIG -- programs in $scratch/NAME that are preloaded with the shim. (The shell itself is not.)
wrap() {
	local program
	mkdir -p "$scratch/$1"
	for program in kv-server kv-bench kv-client; do
		printf '#!/bin/sh\nKVRAIL_SHIM=%s LD_PRELOAD=%s exec %s "$@"\n' "$2" "$real/tests/shim/shim.so" "$real/$program" >"$scratch/$1/$program"
		chmod +x "$scratch/$1/$program"
	done
	build="$scratch/$1"
	echo "# $1: KVRAIL_SHIM=$2"
}

seed=${KVRAIL_SEED:-$(($(od -An -N4 -tu4 /dev/urandom)))}
small=(--local off --num-workers 8 --num-clients 2 --num-threads 2 --num-keys 100 --repeat-reads 10 --buffer-mb 16 --timeout 20 --verify --log-level off)
bench() { timeout -k 5 120 "$build/kv-bench" --provider "$provider" "${small[@]}" --server-threads 2 "$@"; }

# told NAME TEST -- of what the programs' shims told at their ends: the sum over the word NAME.
told() {
	local sum
	sum=$(grep -oE "$1 [0-9]+" "$report" | awk '{ s += $NF } END { print s + 0 }')
	[ "$sum" "${@:2}" ] || {
		echo "$1: $sum, wanted $2 $3"
		cat "$report"
		return 1
	}
}

# counted NAME TEST -- COMMAND...: of that run alone, as told.
counted() {
	local want=("${@:1:3}") all=$report rc
	shift 4
	report=$scratch/report.one
	: >"$report"
	KVRAIL_SHIM_REPORT=$report "$@" && told "${want[@]}"
	rc=$?
	cat "$report" >>"$all"
	report=$all
	return $rc
}

no_violation() { ! grep -rl VIOLATION "$scratch" --include='*.err' --include='*.out' | grep . && told violations -eq 0; }

# Reads go on while the server is killed and comes back, twice.
server_is_killed() {
	local address pid i
	address=127.0.0.1:$(free_ports 1)
	start_server victim --provider "$provider" --listen-addr "$address" || return 1
	timeout -k 5 60 "$build/kv-bench" --provider "$provider" --server "$address" "${small[@]}" --keep-going --duration 6 --rate 300 --timeout 3 \
		--json "$scratch/killed.json" >"$scratch/killed.out" 2>"$scratch/killed.err" &
	pid=$!
	# One that dies before the run has begun ends it with status 3, as it should.
	soon grep -q '^\[2/4\]' "$scratch/killed.out" || { cat "$scratch/killed.err"; return 1; }
	for i in 1 2; do
		sleep 1.5
		kill -KILL "$server_pid" && wait "$server_pid" 2>/dev/null
		rm -f "$scratch/victim.ready"
		start_server victim --provider "$provider" --listen-addr "$address" || return 1
	done
	wait "$pid"
	stop_server "$server_pid"
	rm -f "$scratch/victim.ready"
	json_is "$scratch/killed.json" 'j["verify"]["wrong"] == 0 and j["phases"]["read"]["hits"] > 100'
}

# Clients are killed in the middle of their reads and writes; the server serves the next one.
client_is_killed() {
	local pid i
	start_server kept --provider "$provider" || return 1
	for i in 1 2 3; do
		"$build/kv-bench" --provider "$provider" --server "$server" "${small[@]}" --duration 30 --value-size 256k >"$scratch/client.out" 2>"$scratch/client.err" &
		pid=$!
		sleep "0.$((3 + i * 2))"
		kill -KILL "$pid" && wait "$pid" 2>/dev/null
	done
	timeout -k 5 60 "$build/kv-bench" --provider "$provider" --server "$server" "${small[@]}" --seed 7 --json "$scratch/after.json" &&
		json_is "$scratch/after.json" 'j["verify"]["wrong"] == 0 and j["phases"]["read"]["hits"] == 1000' && stop_server "$server_pid"
	i=$?
	rm -f "$scratch/kept.ready"
	return $i
}

integration() { KVRAIL_BUILD=$build timeout -k 5 200 bash "tests/integration/$1"; }

# A client's first PING is lost, and that is told just when the client, 250 ms later, looks at the control connection: it connects again. (Without that one of three fails.)
lost_pings() {
	local i
	machine=efa provider=efa
	wrap lost "efa,seed=$seed,nics=1"
	start_server lost --provider efa --worker-threads 1 || return 1
	for i in $(seq 20); do
		KVRAIL_SHIM="efa,seed=$seed,nics=1,eagain=0,delay=0,fail_at=1,fail_us=$((250000 + i * 60))" LD_PRELOAD="$real/tests/shim/shim.so" \
			timeout 20 "$real/kv-client" --provider efa --server "$server" ping || return 1
	done
	stop_server "$server_pid"
}

# In operations and bytes, since time means nothing here (docs/internals/providers.md). A little more is allowed, for a link that was asked whether it is there.
pull_costs() {
	KVRAIL_BUILD=$real tests/shim/pull.sh "$1" 64k >"$scratch/pull.out" && cat "$scratch/pull.out" &&
		awk '$2 == "push" && $4 >= 2 && $4 < 2.2 && $5 == 1 && $6 == 0 && $7 == 65536 { push = 1 } $2 == "pull" && $4 >= 2 && $4 < 2.2 && $5 == 0 && $6 == 1 && $7 == 0 { pull = 1 } END { exit !(push && pull) }' "$scratch/pull.out"
}

# client NAME -- one of the client library's tests, and the servers that it starts.
client() {
	KVRAIL_SHIM="$machine,seed=$seed,nics=1" LD_PRELOAD="$real/tests/shim/shim.so" KVRAIL_TEST_PROVIDER=$provider timeout -k 5 200 "$real/tests/kvclient/$1"
}

# What an EFA user runs on two instances, both its roles on this machine, with NICs that count.
acceptance() {
	local port program nic
	port=$(free_ports 4) || return 1
	mkdir -p "$build/tests/engine"
	for program in kv-doctor; do
		sed "s,/kv-bench ,/$program ," "$build/kv-bench" >"$build/$program" && chmod +x "$build/$program"
	done
	for nic in 79 80 81 82; do
		mkdir -p "$scratch/sys/rdmap${nic}s0/ports/1/hw_counters"
		for program in rdma_write_recv_bytes rdma_read_resp_bytes rdma_read_bytes; do echo 0 >"$scratch/sys/rdmap${nic}s0/ports/1/hw_counters/$program"; done
	done
	KVRAIL_SHIM_COUNTERS=$scratch/sys KVRAIL_SYS_INFINIBAND=$scratch/sys KVRAIL_BUILD=$build timeout -k 10 400 tests/efa-acceptance.sh self --provider "$provider" --quick --seconds 8 \
		--clients 5 --without conformance --port "$port" --out "$scratch/acceptance"
}

pairs=("$@")
[ $# -gt 0 ] || IFS=, read -r -a pairs <<<"${SHIM_PAIRS:-efa:efa,efa:efa-direct,efa-p4d:efa,verbs:verbs}"
tests=1
for pair in "${pairs[@]}"; do
	case $pair in efa:efa) tests=$((tests + 38)) ;; efa:*) tests=$((tests + 36)) ;; efa-p4d:*) tests=$((tests + 38)) ;; *) tests=$((tests + 35)) ;; esac
done
plan $tests
case ${MODE:-release}$real in *san*)
	# The sanitizers' own libraries have to be loaded first.
	for ((i = 1; i <= tests; i++)); do echo "ok $i - programs # SKIP nothing can be preloaded into a sanitizer's build"; done
	finish
	;;
esac
[ -e "$real/tests/shim/shim.so" ] || { echo "# $real/tests/shim/shim.so is not built"; exit 1; }
for pair in "${pairs[@]}"; do
	machine=${pair%:*} provider=${pair#*:} at=$(printf '%s' "$pair" | tr : -)
	: >"$report"
	wrap "$at" "$machine,seed=$seed"
	check "$pair: GET and PUT" bench --json "$scratch/plain.json"
	check "$pair: every byte is right" json_is "$scratch/plain.json" \
		'j["phases"]["read"]["hits"] == 1000 and j["phases"]["read"]["errors"] == {} and j["verify"]["wrong"] == 0 and j["provider"]["domain"][:4] in ("rdma", "mlx5")'
	check "$pair: batches of small values" bench --batch 16 --value-size 3000
	check "$pair: values of 3 MiB" bench --value-size 3m --num-keys 20 --repeat-reads 5 --buffer-mb 64
	check "$pair: three rails" bench --rails 3
	check "$pair: the client reads the bytes" bench --mode pull
	if [ "$machine" = efa-p4d ]; then
		check "$pair: auto lets it, since writes are emulated" json_is "$scratch/plain.json" 'j["provider"]["mode"] == "pull"'
		check "$pair: so that no byte goes through a CPU" counted emulated -eq 0 -- bench
		check "$pair: pushed on demand, by the CPU" counted emulated -gt 1000 -- bench --mode push
		check "$pair: pulled, a GET costs no CPU a byte, and no more messages" pull_costs "$pair"
	else
		check "$pair: auto lets the server write them" json_is "$scratch/plain.json" 'j["provider"]["mode"] == "push"'
		check "$pair: no byte goes through a CPU" counted emulated -eq 0 -- bench
		check "$pair: pushed on demand" bench --mode push
	fi
	if [ "$provider" = verbs ]; then
		check "$pair: posts were refused" told refused -gt 0
	else
		check "$pair: packets and completions overtook each other" told overtaken -gt 100
	fi
	wrap "$at-small" "$machine,seed=$seed,eagain=4,tx=32,rx=64,delay=4"
	check "$pair: small queues that refuse every fourth post" bench
	wrap "$at-fail" "$machine,seed=$seed,fail=150"
	check "$pair: one operation of 150 fails" bench
	check "$pair: the same, pulled" bench --mode pull
	check "$pair: some did" told failed -gt 3
	wrap "$at-first" "$machine,seed=$seed,fail_at=1"
	check "$pair: the first operation on every NIC fails" bench
	wrap "$at-eq" "$machine,seed=$seed,eq=700"
	check "$pair: endpoints break" bench
	check "$pair: the same, pulled" bench --mode pull
	wrap "$at-death" "$machine,seed=$seed"
	check "$pair: a server is killed and comes back" server_is_killed
	check "$pair: clients are killed" client_is_killed
	if [ "$provider" != efa-direct ]; then # not what auto takes
		check "$pair: kv-client" integration cli.sh
	else
		check "$pair: immediates use up receives" told immediates -gt 1000
	fi
	# Completion queues of 1024 entries, of programs that are kept from reading them for 0.3 s: what is not bounded overruns them. Unsolicited, where the machine can.
	wrap "$at-full" "$machine,seed=$seed,setopt=0,nics=1,cq_max=1024,stall=50,check=0"
	check "$pair: immediates stay within half of the queue" env FI_EFA_USE_UNSOLICITED_WRITE_RECV=1 timeout -k 5 120 "$build/kv-bench" --provider "$provider" "${small[@]}" --mode push \
		--value-size 4k --num-workers 4000 --num-clients 1 --num-keys 4000 --repeat-reads 3 --buffer-mb 128 --server-threads 8
	wrap "$at-few" "$machine,seed=$seed,nics=1,eps=3,einval=1"
	check "$pair: more clients than endpoints are refused in words" says 'client 3: fi_enable on (rdmap79s0-rdm|mlx5_0) .*with 3 endpoints of this process open' "$build/kv-bench" --local off --provider "$provider" --num-clients 6 --num-keys 10
	check "$pair: and counted" says 'ended at 6 clients, 3 open, 0 connected, by: provider' "$build/kv-bench" capacity --model endpoints --provider "$provider" --max-clients 9 --steps 2,6
	wrap "$at-parts" "$machine,seed=$seed,nics=2,mr_part_mb=16,sq_budget=3000"
	check "$pair: memory in parts, and queues halved" bench
	if [ "$pair" = efa:efa ]; then
		wrap "$at-acceptance" "$machine,seed=$seed"
		check "$pair: efa-acceptance.sh" acceptance
		cp "$scratch/check.out" "$scratch/acceptance.out"
		check "$pair: and it saw RDMA" grep -q "^ok - GET, push: the server's NIC wrote into this instance: rdma_write_recv_bytes rose by" "$scratch/acceptance.out"
	fi
	if [ "$machine" = efa ]; then
		wrap "$at-fd" "$machine,seed=$seed,wait_fd=1"
		check "$pair: with wait objects, as libfabric 2.5 has them" bench
	elif [ "$machine" = efa-p4d ]; then
		wrap "$at-none" "efa,seed=$seed,rdma=0"
		check "$pair: a device without any RDMA" bench --json "$scratch/none.json"
		check "$pair: there auto lets the server write" json_is "$scratch/none.json" 'j["provider"]["mode"] == "push" and j["phases"]["read"]["hits"] == 1000'
	fi
	wrap "$at" "$machine,seed=$seed"
	for program in test_get test_put test_batch test_borrowed test_memory test_small test_pool test_outage test_fence test_counters; do
		check "$pair: $program of the client library" client $program
	done
	check "$pair: no rule was broken" no_violation
done
check "a lost PING is no answer to whether a pool opens" lost_pings
finish
