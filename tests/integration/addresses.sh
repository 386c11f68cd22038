#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# addresses.sh -- machines with several addresses, in network namespaces of our own: which one the fabric takes, both families, and addresses that change.
# Here are a host with eth0 and docker0 (the servers') and another one (the clients', by `there`), which has a docker0 with the same address, as hosts with containers do.
. "$(dirname "$0")/lib.bash"
count=20
if [ "${1:-}" != --inside ]; then
	unshare -n ip link add probe0 type veth peer name probe1 2>/dev/null || {
		plan $count
		skip_all $count "no network of its own may be made here"
	}
	exec unshare -n bash "$0" --inside
fi
plan $count

unshare -n sleep 600 &
other=$!
pids+=("$other")
there() { nsenter -t "$other" -n "$@"; }
soon there ip link set lo up
ip link set lo up
ip link add eth0 type veth peer name ceth0 netns "$other"
ip addr add 10.0.0.5/24 dev eth0
ip -6 addr add fd00::5/64 dev eth0 nodad
ip link set eth0 up
there ip addr add 10.0.0.6/24 dev ceth0
there ip -6 addr add fd00::6/64 dev ceth0 nodad
there ip link set ceth0 up
for at in "" there; do
	$at ip link add docker0 type veth peer name peer0
	$at ip addr add 172.17.0.1/16 dev docker0
	$at ip link set docker0 up
	$at ip link set peer0 up
done
[ "$(cat /proc/sys/net/ipv6/bindv6only 2>/dev/null)" = "" ] || echo 1 >/proc/sys/net/ipv6/bindv6only

serve() { # serve NAME ARGS... -- a server on port 7500; its first lines are $scratch/NAME.out, its log NAME.err
	local name=$1
	shift
	start_server "$name" --insecure --memory-mb 32 --worker-threads 1 --landing-mb 4 --log-level info "$@"
}
end() { stop_server "$server_pid"; }
ready_says() { grep -qF "$2" "$scratch/$1.out" || { cat "$scratch/$1.out"; return 1; }; }
logged() { grep -qE "$2" "$scratch/$1.err" || { cat "$scratch/$1.err"; return 1; }; }
not_logged() { ! logged "$@" >/dev/null; }
puts() { there timeout -k 5 60 "$build/kv-client" "${over[@]}" --server "$@" put k v; }

# ---- which address the fabric has ----

ip route add default via 10.0.0.6
serve route --listen-addr 0.0.0.0:7500
check "0.0.0.0: the fabric is where the default route leads" ready_says route "device eth0 10.0.0.5 (by the default route)"
check "another host uses it" puts 10.0.0.5:7500
check "nothing was unsure" not_logged route fabric_address_unsure
end
serve both --listen-addr '[::]:7500'
check "[::] is both families, and the fabric IPv4" ready_says both "device eth0 10.0.0.5 (by the default route)"
check "a client comes over IPv4" puts 10.0.0.5:7500
check "and over IPv6, with the fabric over IPv4" puts '[fd00::5]:7500' --nic 10.0.0.6
check "its address is written as IPv4" logged both 'client 10\.0\.0\.6:[0-9]+ .*client_in'
end
ip route del default
serve unsure --listen-addr 0.0.0.0:7500
check "several addresses and nothing decides: the first, and that is said" ready_says unsure "device eth0 10.0.0.5 (the first of several)"
check "with all of them" logged unsure 'WARN .*eth0 10\.0\.0\.5, docker0 172\.17\.0\.1.*--advertise.*event=fabric_address_unsure'
end
serve advertised --listen-addr 0.0.0.0:7500 --advertise '[fd00::5]:0'
check "--advertise decides" ready_says advertised "device eth0 fd00::5 (by --advertise)"
end
serve bridge --listen-addr 0.0.0.0:7500 --nic docker0
check "--nic decides" ready_says bridge "device docker0 172.17.0.1 (by --nic)"
unreached() {
	puts 10.0.0.5:7500 >"$scratch/unreached" 2>&1
	grep -qE "the control connection to 10.0.0.5:7500 works.*over the fabric at 172.17.0.1:[0-9]+.*--advertise" "$scratch/unreached" || { cat "$scratch/unreached"; return 1; }
}
check "a client that does not reach the fabric says where it was, and the likely cause" unreached
end
check "a link-local address is refused by a server" says "link-local" "$build/kv-server" --insecure --listen-addr '[fe80::1%eth0]:7500'
check "and as --advertise" says "--advertise: .*link-local" "$build/kv-server" --insecure --listen-addr '[::]:7500' --advertise '[fe80::1%eth0]:7500'
check "and by a client" says "link-local" "$build/kv-client" --server 'a=10.0.0.5:7500+[fe80::1%eth0]:7500' ping

# ---- addresses that change ----

# load NAME SERVER SECONDS -- reads of the server NAME by the other host; sets $load_pid. ended_well: the last two whole seconds had reads.
load() {
	local name=$1 before
	before=$(grep -c event=client_in "$scratch/$name.err")
	shift
	there timeout -k 5 120 "$build/kv-bench" "${over[@]}" --server "$1" --num-keys 50 --num-clients 1 --num-threads 1 --value-size 4KB --duration "$2" --rate 40 \
		--keep-going --interval 1 --csv "$scratch/load.csv" --log-level info >"$scratch/load.out" 2>"$scratch/load.err" &
	load_pid=$!
	pids+=("$load_pid")
	soon come "$name" "$before"
	sleep 2 # a second of reads
}
come() { [ "$(grep -c event=client_in "$scratch/$1.err")" -gt "$2" ]; }
ended_well() {
	wait "$load_pid"
	awk -F, '/^read/ { n[NR] = $4; last = NR } END { exit !(n[last - 1] > 20 && n[last - 2] > 20) }' "$scratch/load.csv" || {
		cat "$scratch/load.csv" "$scratch/load.out" "$scratch/load.err"
		return 1
	}
}
load_said() { grep -qE "$1" "$scratch/load.out" "$scratch/load.err" || { cat "$scratch/load.err"; return 1; }; }

serve here --listen-addr 10.0.0.5:7500
load here 10.0.0.5:7500 9
there ip addr del 10.0.0.6/24 dev ceth0
there ip addr add 10.0.0.7/24 dev ceth0
check "a client whose address changes goes on" ended_well
check "and says so" load_said 'event=rail_moved rail=0 was="ceth0 10\.0\.0\.6" device="ceth0 10\.0\.0\.7"'
load here 10.0.0.5:7500 9
ip link add eth1 type veth peer name ceth1 netns "$other"
ip addr add 10.1.0.5/24 dev eth1
ip link set eth1 up
there ip link set ceth1 up
there ip addr del 10.0.0.7/24 dev ceth0
there ip addr add 10.1.0.6/24 dev ceth1
there ip route add 10.0.0.0/24 via 10.1.0.5
check "a client whose way leads over another interface goes on" ended_well
end
there ip route del 10.0.0.0/24
there ip addr add 10.0.0.6/24 dev ceth0

serve moves --listen-addr 0.0.0.0:7500 --advertise 10.0.0.5:7500
load moves a=10.0.0.5:7500+10.0.0.9:7500 10
ip addr del 10.0.0.5/24 dev eth0
ip addr add 10.0.0.9/24 dev eth0
check "a server whose address changes is found at its other one" ended_well
check "and says so" logged moves 'event=rail_stranded rail=0 device="eth0 10\.0\.0\.5"'
end
finish
