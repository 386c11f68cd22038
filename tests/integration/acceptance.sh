#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# acceptance.sh -- tests/efa-acceptance.sh itself: both of its roles on this machine over tcp, and that it notices RDMA which is none.
. "$(dirname "$0")/lib.bash"
plan 14
script=$PWD/tests/efa-acceptance.sh
build=$(readlink -f "$build")
export KVRAIL_BUILD=$build

port=$(free_ports 8)
common=(--provider tcp --quick --port "$port")

: >"$scratch/server.out"
timeout -k 10 290 "$script" server --listen 127.0.0.1 "${common[@]}" --out "$scratch/server" >"$scratch/server.out" 2>&1 &
pid=$!
pids+=("$pid")
for _ in $(seq 300); do
	line=$(grep -o 'client 127.0.0.1 acceptance:[0-9a-f]*' "$scratch/server.out") && break
	sleep 0.2
done
read -r _ host key <<<"$line"
check "the server says what to run on the other instance" test "${#key}" -gt 64
check "the client passes" timeout -k 10 280 "$script" client "$host" "$key" "${common[@]}" --seconds 8 --clients 5 --without doctor,conformance,figures,capacity --out "$scratch/client"
cp "$scratch/check.out" "$scratch/client.out"
check "nothing failed, and what cannot be seen without RDMA is skipped" grep -qE '^[12][0-9] passed, 0 failed, [345] skipped$' "$scratch/client.out"
check "it read on through kills" grep -q '^ok - it went on after each restart' "$scratch/client.out"
check "the server ends by itself, and passes" wait "$pid"
check "with every server alive" grep -q '^[45] passed, 0 failed, [01] skipped$' "$scratch/server.out"
contents() { tar -tzf "$scratch"/kvrail-acceptance-client-*.tar.gz >"$scratch/list" && grep -q 'client/results.txt' "$scratch/list" && grep -q 'client/environment.txt' "$scratch/list" && grep -q 'client/push.json' "$scratch/list"; }
check "one file has the client's output" contents
no_key() { for f in "$scratch"/kvrail-acceptance-*.tar.gz; do tar -tzf "$f" | grep -q '/key$' && return 1; done; [ ! -e "$scratch/client/key" ] && [ ! -e "$scratch/server/key" ]; }
check "and not the key, which is gone" no_key

# Devices that count, and count nothing: whatever moved the bytes was not them.
for name in rdma_write_recv_bytes rdma_read_resp_bytes rdma_read_bytes; do
	mkdir -p "$scratch/sys/rdmap0/ports/1/hw_counters"
	echo 7 >"$scratch/sys/rdmap0/ports/1/hw_counters/$name"
done
emulated() { KVRAIL_SYS_INFINIBAND=$scratch/sys timeout -k 10 200 "$script" self "${common[@]}" --port $((port + 4)) --without doctor,conformance,pull,rails,kills,figures,capacity --out "$scratch/fake"; }
check "RDMA that the devices do not count is a failure" status 1 emulated
check "of both directions, and nothing else" grep -qE '^[0-9]+ passed, 2 failed, 0 skipped$' "$scratch/fake/results.txt"
check "and it is said what that means" grep -q 'libfabric emulates the operation' "$scratch/fake/counter-check.log"

check "a role is needed" status 2 "$script"
check "an unknown option is named" says "no option '--fast'" "$script" self --fast
check "a number must be one" says "'many' is not a number" "$script" self --rails many
finish
