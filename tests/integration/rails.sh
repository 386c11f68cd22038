#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rails.sh -- several NICs: --nic and --rails mean the same everywhere, unequal numbers, counters; and two network
# namespaces joined by two cables, of which one is pulled under load: GETs go on, no byte is wrong, and it comes back.
. "$(dirname "$0")/lib.bash"
plan 15
case $provider in
tcp) full='tcp;ofi_rxm' ;;
tcp-native) full=tcp ;;
*) full=$provider ;;
esac
[ "$provider" != shm ] || skip_all 15 "shm has no NICs"
client() { "$build/kv-client" --server "$server" --provider "$provider" "$@"; }
# Values of a server on this host would use no rail.
bench() { timeout -k 5 100 "$build/kv-bench" --server "$server" --provider "$provider" --local off "$@"; }

two=127.0.0.2,127.0.0.3
start_server plain --provider "$provider" --nic $two || exit 1
check "kv-client uses the NICs that it is told" says "rail 1: [a-z]* 127\.0\.0\.5 \($full\), up" client --nic 127.0.0.4,127.0.0.5 --all stat
check "all links are up" says '8 of 8 links up' client --nic $two,127.0.0.4,127.0.0.5 --all stat
check "the server says what each of its rails has moved" says '^ *rails_up +4' client stat
check "an unknown NIC is answered with those there are" says "no NIC nix for provider $provider; there are: .*lo \(127" client --nic lo,nix ping
check "kv-server says the same" says 'no NIC nix here; there are: .*lo \(127' "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --nic nix
check "kv-bench too" says 'no NIC nix here; there are: .*lo \(127' "$build/kv-bench" --server "$server" --nic nix
for rails in "127.0.0.4 1" "127.0.0.4,127.0.0.5,127.0.0.6,127.0.0.7 4"; do
	check "${rails#* } rails to 2: every byte" status 0 bench --nic "${rails% *}" --verify --num-keys 60 \
		--value-size 3M --num-clients 1 --num-workers 4 --repeat-reads 3 --quiet --json "$scratch/unequal.json"
	check "... and each was used" json_is "$scratch/unequal.json" "len(j['rails']) == ${rails#* } and all(r['immediates'] > 20 for r in j['rails'])"
done
stop_server "$server_pid"

# ---- two namespaces, two cables ----

a=kvr-a$$ b=kvr-b$$
namespaces_end() {
	ip netns del "$a" 2>/dev/null
	ip netns del "$b" 2>/dev/null
	cleanup
}
cables() {
	ip netns add "$a" && ip netns add "$b" || return 1
	local i
	for i in 0 1; do
		ip link add "va$i" netns "$a" type veth peer name "vb$i" netns "$b" || return 1
		ip -n "$a" addr add "10.99.$i.1/24" dev "va$i"
		ip -n "$b" addr add "10.99.$i.2/24" dev "vb$i"
		ip -n "$a" link set "va$i" up
		ip -n "$b" link set "vb$i" up
	done
	ip -n "$a" link set lo up
	ip -n "$b" link set lo up
}
skip_rest() {
	while [ "$tap_n" -lt 15 ]; do
		tap_n=$((tap_n + 1))
		echo "ok $tap_n - # SKIP no network namespaces here: $1"
	done
	finish
}
trap namespaces_end EXIT
cables 2>"$scratch/netns.err" || skip_rest "$(tail -1 "$scratch/netns.err")"

# wait_for SECONDS TEXT FILE COUNT -- until the text is in the file so often.
wait_for() {
	local i
	for ((i = 0; i < $1 * 10; i++)); do
		[ "$(grep -cE -- "$2" "$3")" -ge "$4" ] && return 0
		sleep 0.1
	done
	echo "no '$2' within $1 s:"
	tail -20 "$3"
	return 1
}

mkfifo "$scratch/ready"
ip netns exec "$a" "$build/kv-server" --listen-addr 10.99.0.1:0 --insecure --memory-mb 256 --worker-threads 1 --provider "$provider" \
	--nic 10.99.0.1,10.99.1.1 --ready-fd 3 3>"$scratch/ready" >"$scratch/far.out" 2>&1 &
pids+=($!)
read -r -t 30 line <"$scratch/ready"
far=${line#READY }
ip netns exec "$b" "$build/kv-bench" --server "$far" --provider "$provider" --nic 10.99.0.2,10.99.1.2 --num-clients 2 --num-workers 8 \
	--num-keys 64 --value-size 300000 --duration 40 --keep-going --verify --warmup 0 --log-level info --json "$scratch/cut.json" >"$scratch/bench.out" 2>&1 &
bench_pid=$!
pids+=("$bench_pid")
check "load runs over both cables" wait_for 30 'read +[0-9]+ %' "$scratch/bench.out" 1
ip -n "$a" link set va1 down
check "the pulled cable is noticed, and the other one used" wait_for 15 'links do not answer over the fabric.*continues without them' "$scratch/bench.out" 2
sleep 3
ip -n "$a" link set va1 up
wait "$bench_pid"
bench_rc=$?
check "every call was a success, and no byte was wrong" json_is "$scratch/cut.json" \
	"$bench_rc == 0 and j['verify']['wrong'] == 0 and j['phases']['read']['errors'] == {} and j['phases']['read']['ops'] > 1000"
check "each client was connected anew once or twice" json_is "$scratch/cut.json" "2 <= j['counters']['connections']['lost_connections'] <= 4"
check "the cable is in use again" grep -q 'answers again' "$scratch/bench.out"
finish
