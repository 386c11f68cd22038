#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# efa-acceptance.sh -- does KVRail work on this fabric? It runs on two instances with EFA, or on two hosts with
# InfiniBand or RoCE; docs/guide/efa.md has the rest.
# usage: efa-acceptance.sh server [OPTION...]                  on the first instance; it says what to run on the second
#        efa-acceptance.sh client HOST KEY [OPTION...]         on the second
#        efa-acceptance.sh self [OPTION...]                    both on this machine, over loopback
#   --provider P   efa (default), efa-direct, verbs, tcp or shm: everything runs on it or fails
#   --listen HOST  server: the address that the other instance reaches (default: this host's first)
#   --port N       first of five control ports, the same on both (default 18600)
#   --rails N      NICs of one client in the test of several rails (default: all RDMA devices, 8 at most; 2 without any)
#   --seconds N    of the runs with a time: kills, latency (default 30)
#   --clients N    the most clients of the capacity test (default 1000)
#   --hours N      server: how long it waits for the client (default 2)
#   --quick        small runs: to see that everything starts
#   --without LIST leave parts out (commas between): doctor, conformance, bench, pull, rails, kills, figures, capacity
#   --out DIR      where results go (default: ./kvrail-acceptance)
# It needs a build (make) with its tests (make tests), or says what it skips. It installs nothing, sends nothing
# anywhere, and needs no root. Each role ends with `N passed, M failed, K skipped` and one .tar.gz of all output: send
# us both. Exit status: 0 when nothing failed, 2 usage. The tests on one instance alone (environment, kv-doctor,
# conformance, capacity) run on the client's.
set -u
self=$(readlink -f "${BASH_SOURCE[0]}") || exit 2
root=$(dirname "$(dirname "$self")")
build=${KVRAIL_BUILD:-$root/build/release}
[[ $build == /* ]] || build=$PWD/$build
sys_infiniband=${KVRAIL_SYS_INFINIBAND:-/sys/class/infiniband}

say() { printf 'acceptance: %s\n' "$*" >&2; }
usage() {
	sed -n '5,23s/^# \{0,1\}//p' "$self"
	exit "$1"
}

provider=efa listen='' port=18600 rails=0 seconds=30 clients=1000 hours=2 quick=0 without='' out=$PWD/kvrail-acceptance
role=${1:-}
case $role in
server | self) shift ;;
client)
	[ $# -ge 3 ] || usage 2 >&2
	server_host=$2 key=$3
	shift 3
	;;
-h | --help) usage 0 ;;
*) usage 2 >&2 ;;
esac
while [ $# -gt 0 ]; do
	case $1 in
	--quick) quick=1 ;;
	-h | --help) usage 0 ;;
	--provider | --listen | --port | --rails | --seconds | --clients | --hours | --without | --out)
		[ $# -ge 2 ] || {
			say "$1 needs a value"
			exit 2
		}
		declare "${1#--}=$2"
		shift
		;;
	*)
		say "there is no option '$1' (try --help)"
		exit 2
		;;
	esac
	shift
done
case $provider in
efa | efa-direct | verbs | tcp | shm) ;;
*)
	say "there is no provider '$provider': use efa, efa-direct, verbs, tcp or shm"
	exit 2
	;;
esac
for number in "$port" "$rails" "$seconds" "$clients" "$hours"; do
	[[ $number =~ ^[0-9]+$ ]] || {
		say "'$number' is not a number (try --help)"
		exit 2
	}
done
for program in kv-server kv-bench kv-client; do
	[ -x "$build/$program" ] || {
		say "there is no $build/$program: run make in $root, or name the folder in KVRAIL_BUILD"
		exit 2
	}
done
command -v python3 >/dev/null || {
	say "python3 is needed, to read reports"
	exit 2
}
mkdir -p "$out" || exit 2
out=$(readlink -f "$out")
results=$out/results.txt
: >"$results"
host=$(uname -n)
pids=()

stop_all() {
	local pid
	for pid in ${pids[@]+"${pids[@]}"}; do kill -TERM "$pid" 2>/dev/null; done
	for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null; done
	pids=()
	rm -f "$out/key"
}
# The provider's own warnings are in the logs.
export FI_LOG_LEVEL=${FI_LOG_LEVEL:-warn}
trap 'stop_all; exit 130' INT TERM
trap stop_all EXIT

# ---- tests ----

passed=0 failed=0 skipped=0
note() { printf '%s\n' "$*" | tee -a "$results"; }
pass() {
	passed=$((passed + 1))
	note "ok - $1"
}
fail() { # fail NAME FILE -- with the end of what it said
	failed=$((failed + 1))
	note "not ok - $1 (all of it: ${2#"$out/"})"
	tail -n 12 "$2" | sed 's/^/#   /' | tee -a "$results"
}
skip() {
	skipped=$((skipped + 1))
	note "ok - $1 # SKIP $2"
}

# run NAME FILE SECONDS COMMAND... -- a test: the command's exit status, its output in FILE; killed after SECONDS.
run() {
	local name=$1 file=$out/$2.log limit=$3 rc
	shift 3
	printf '$ %s\n' "$*" >"$file"
	timeout -k 10 "$limit" "$@" >>"$file" 2>&1 </dev/null
	rc=$?
	if [ $rc -eq 0 ]; then
		pass "$name"
	else
		printf 'exit status %d%s\n' $rc "$([ $rc -eq 124 ] && echo ": it took longer than $limit s")" >>"$file"
		fail "$name" "$file"
	fi
	return $rc
}

# json_is NAME FILE EXPRESSION -- a test: of a report, as j.
json_is() {
	local file=$out/json-check.log
	if [ ! -s "$out/$2.json" ]; then
		skip "$1" "there is no report $2.json"
		return
	fi
	if python3 - "$out/$2.json" "$3" >"$file" 2>&1 <<'P'; then
import json, sys
j = json.load(open(sys.argv[1]))
print("expected:", sys.argv[2])
for name in ("provider", "verify", "phases", "keep_going"):
    print(name, "=", json.dumps(j.get(name))[:600])
sys.exit(0 if eval(sys.argv[2]) else 1)
P
		pass "$1"
	else
		fail "$1" "$file"
	fi
}

# ---- hardware counters ----

# Of all devices together; EFA's driver has them per port, older ones per device. Empty: nobody counts.
counter() {
	local f sum=0 found=0 v
	for f in "$sys_infiniband"/*/ports/*/hw_counters/"$1" "$sys_infiniband"/*/hw_counters/"$1"; do
		[ -r "$f" ] || continue
		read -r v <"$f" && sum=$((sum + v)) && found=1
	done
	[ $found = 1 ] && echo $sum
}
# Each device's, one a line: to see that several NICs were used.
counter_devices() {
	local d f v sum found
	for d in "$sys_infiniband"/*; do
		sum=0 found=0
		for f in "$d"/ports/*/hw_counters/"$1" "$d"/hw_counters/"$1"; do
			[ -r "$f" ] && read -r v <"$f" && sum=$((sum + v)) && found=1
		done
		[ $found = 1 ] && echo "${d##*/} $sum"
	done
}
counters_save() {
	local d f
	for d in "$sys_infiniband"/*; do
		for f in "$d"/ports/*/hw_counters/* "$d"/hw_counters/*; do
			[ -r "$f" ] && printf '%s %s\n' "${f#"$sys_infiniband/"}" "$(cat "$f" 2>/dev/null)"
		done
	done >"$out/$1.counters"
}
# rose NAME COUNTER BEFORE BYTES -- a test: the devices themselves moved so many bytes since.
rose() {
	local now hint file=$out/counter-check.log
	now=$(counter "$2")
	if [ -z "$now" ] || [ -z "$3" ]; then
		skip "$1" "no RDMA device here counts $2"
	elif [ $((now - $3)) -ge "$4" ]; then
		pass "$1: $2 rose by $((now - $3))"
	else
		printf '%s rose by %d, at least %d were expected: libfabric emulates the operation with messages %s\n' \
			"$2" $((now - $3)) "$4" '(docs/guide/efa.md, "Is it RDMA?")' >"$file"
		hint="for programs built with headers before 1.18 libfabric emulates; build with those of the EFA installer"
		grep -hoE -m 1 'built against 1\.1[0-7]' "$out/push.log" 2>/dev/null | sed "s/\$/: $hint/" >>"$file"
		fail "$1" "$file"
	fi
}

# ---- what this machine is ----

environment() {
	{
		date -u
		uname -a
		echo "role $role, provider $provider, host $host"
		cat /etc/os-release 2>/dev/null
		echo "instance type: $(cat /sys/devices/virtual/dmi/id/product_name 2>/dev/null)"
		"$build/kv-bench" --version
		git -C "$root" log -1 --format='commit %H' 2>/dev/null
		echo "--- limits"
		ulimit -a
		echo "--- memory and huge pages"
		grep -E '^(MemTotal|MemAvailable|Huge)' /proc/meminfo
		cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null
		echo "--- processors"
		lscpu 2>/dev/null | head -n 30
		echo "--- environment"
		env | grep -E '^(FI_|IBV_|RDMAV_|NCCL_|LD_|KVRAIL_|IPATH|HFI)' | sort
		echo "--- RDMA devices"
		for d in "$sys_infiniband"/*; do
			[ -e "$d" ] && printf '%s fw %s state %s vendor %s device %s numa %s\n' "${d##*/}" \
				"$(cat "$d/fw_ver" 2>/dev/null)" "$(cat "$d"/ports/1/state 2>/dev/null)" \
				"$(cat "$d/device/vendor" 2>/dev/null)" "$(cat "$d/device/device" 2>/dev/null)" \
				"$(cat "$d/device/numa_node" 2>/dev/null)"
		done
		ls -l /dev/infiniband 2>/dev/null
		lsmod 2>/dev/null | grep -E '^(efa|ib_|mlx|rdma|gdrdrv|nvidia)'
		modinfo efa 2>/dev/null | head -n 5
		cat /sys/module/efa/version 2>/dev/null
		timeout 10 rdma resource show 2>/dev/null
		dmesg 2>/dev/null | grep -iE 'efa|infiniband|hugetlb|iommu' | tail -n 40
		{ dpkg -l 2>/dev/null || rpm -qa 2>/dev/null; } | grep -iE 'libfabric|rdma-core|ibverbs|efa' | head -n 20
		cat /opt/amazon/efa_installed_packages 2>/dev/null
		echo "--- libraries"
		ldd "$build/kv-bench"
		echo "--- container"
		cat /proc/1/cgroup 2>/dev/null
		cat /proc/sys/kernel/io_uring_disabled 2>/dev/null
		grep -E '^(Seccomp|CapEff|NoNewPrivs)' /proc/self/status
		echo "--- fi_info, ibv_devinfo"
		timeout 60 "$(command -v /opt/amazon/efa/bin/fi_info || command -v fi_info || echo true)" -p "${provider%%-*}" -v
		timeout 60 "$(command -v ibv_devinfo || echo true)" -v
		echo "--- numa"
		lspci 2>/dev/null | grep -iE 'efa|mellanox|infiniband'
	} >"$out/environment.txt" 2>&1
	counters_save before
}

# A report in one line.
in_words='
import json, sys
j = json.load(open(sys.argv[1]))
def bench():
    p, r, roof = j.get("provider", {}), j["phases"].get("read", {}), j.get("roofline")
    l = r.get("latency_ns", {})
    text = "%s/%s %s, mode %s, wait %s, libfabric %s: %.2f GB/s, p50 %.0f us, p99 %.0f us, max %.1f ms" % (
        p.get("name"), p.get("fabric"), p.get("domain"), p.get("mode"), p.get("wait"), p.get("libfabric"),
        r.get("bytes_per_s", 0) / 1e9, l.get("p50", 0) / 1e3, l.get("p99", 0) / 1e3, l.get("max", 0) / 1e6)
    if roof:
        text += "; bare writes %.2f GB/s, GET is %.2f of that" % (roof["bytes_per_s"] / 1e9, roof["efficiency"])
    return text
def capacity():
    last = [m["steps"][-1] for m in j["models"].values() if m.get("steps")][0]
    return "%s clients, %s verified; ended by %s; first error: %s" % (
        last["clients"], last["verified"], last["ended_by"] or "nothing", last["first_error"] or "none")
print(capacity() if "models" in j else bench())
'
figures_of() { # NAME FILE -- where there is such a report
	[ ! -s "$out/$2.json" ] || note "# $1: $(python3 -c "$in_words" "$out/$2.json" 2>&1 | tail -n 1)"
}

# What somebody who cannot log in here asks first.
summary() {
	local warnings
	note "# $(uname -r), $(cat /sys/devices/virtual/dmi/id/product_name 2>/dev/null), $(nproc) processors," \
		"RDMA devices: $(ls "$sys_infiniband" 2>/dev/null | tr '\n' ' ')"
	figures_of "64 KiB, 32 workers, push" push
	figures_of "64 KiB, 32 workers, pull" pull
	figures_of "64 KiB, auto" auto
	figures_of "several rails, 4 MiB" rails
	figures_of "roofline" roofline
	figures_of "one worker" latency
	figures_of "while the server was killed" mortal
	figures_of "an endpoint for each client" capacity-endpoints
	figures_of "all on four engines" capacity-pooled
	warnings=$(cat "$out"/*.log 2>/dev/null | grep -aE '^libfabric:[0-9]+:' |
		sed -E 's/^libfabric:[0-9]+:[0-9]*::?//; s/0x[0-9a-f]+/0x…/g; s/[0-9]{4,}/N/g' |
		sort | uniq -c | sort -rn | head -n 15)
	[ -z "$warnings" ] || note "# what libfabric warned of, and how often:"$'\n'"$(sed 's/^/#   /' <<<"$warnings")"
}

# ---- the server's side ----

ports=(push pull rails mortal) # what listens on port, port + 1, ...

start_server() { # start_server INDEX ARGS...; its process is $!
	local index=$1
	shift
	"$build/kv-server" --listen-addr "$listen:$((port + index))" --provider "$provider" \
		--memory-mb $((quick ? 2048 : 8192)) --psk-file "$out/key" "$@" \
		>>"$out/server-${ports[index]}.log" 2>&1 &
}

# It dies in the middle of whatever it does, and comes back, for as long as this lasts.
mortal() {
	local victim=
	trap 'kill -TERM "$victim" 2>/dev/null; wait; exit 0' TERM
	while :; do
		start_server 3 --memory-mb 512
		victim=$!
		# Its life begins when it serves: a busy machine takes long to open it.
		for _ in $(seq 10); do client_ready "$listen:$((port + 3))" && break || sleep 0.5; done
		sleep $((quick ? 5 : 10)) &
		wait $!
		kill -KILL "$victim" 2>/dev/null
		wait "$victim" 2>/dev/null
		sleep 1 &
		wait $!
	done
}

rails_wanted() {
	local n=0 d
	for d in "$sys_infiniband"/*; do [ -e "$d" ] && n=$((n + 1)); done
	[ "$rails" -gt 0 ] && n=$rails
	[ $n -eq 0 ] && n=2
	echo $((n > 8 ? 8 : n))
}

servers_up() {
	local key_text
	key_text=acceptance:$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
	(umask 077 && printf '%s\n' "$key_text" >"$out/key")
	key=$key_text
	start_server 0
	pids+=($!)
	start_server 1 --allow-pull
	pids+=($!)
	# shellcheck disable=SC2046 # a word or none; EFA devices that do not write are read from
	start_server 2 --rails "$(rails_wanted)" $([[ $provider == efa* ]] && echo --allow-pull)
	pids+=($!)
	mortal &
	pids+=($!)
	"$build/kv-bench" fabric --listen "$listen:$((port + 4))" --provider "$provider" --psk-file "$out/key" \
		>"$out/fabric-listen.log" 2>&1 &
	pids+=($!)
}

client() { # client SERVER SECONDS ARGS... -- kv-client, silent
	timeout "$2" "$build/kv-client" --server "$1" --provider "$provider" --psk-file "$out/key" "${@:3}" >/dev/null 2>&1
}
client_ready() { client "$1" 20 --timeout 10 ping; }

serve() {
	local until
	[ -n "$listen" ] || listen=$(hostname -I 2>/dev/null | awk '{ print $1 }')
	[ -n "$listen" ] || {
		say "this host's address is not known: name it with --listen"
		exit 2
	}
	environment
	servers_up
	sleep 3
	if client_ready "$listen:$port"; then
		pass "the server answers this instance"
	else
		fail "the server answers this instance" "$out/server-push.log"
	fi
	counters_save serving
	note "# on the other instance, with the same build: tests/efa-acceptance.sh client $listen $key --provider" \
		"$provider --port $port"
	until=$((SECONDS + hours * 3600))
	while [ $SECONDS -lt $until ] && ! client "$listen:$port" 30 get acceptance/done; do
		sleep 5
	done
	if [ $SECONDS -lt $until ]; then
		pass "the client went through"
	else
		skip "the client went through" "it did not come within $hours hours"
	fi
	counters_save after
	for index in 0 1 2; do
		if kill -0 "${pids[index]}" 2>/dev/null; then
			pass "server '${ports[index]}' is alive at the end"
		elif [ "$provider" = tcp ] && grep -q 'cannot read over' "$out/server-${ports[index]}.log"; then
			skip "server '${ports[index]}' is alive at the end" "this libfabric's tcp cannot be read from safely"
		else
			fail "server '${ports[index]}' is alive at the end" "$out/server-${ports[index]}.log"
		fi
	done
}

# ---- the client's side ----

bench() { # bench NAME FILE PORT-INDEX ARGS... -- a run that verifies every byte
	local name=$1 file=$2 index=$3
	shift 3
	run "$name" "$file" $((seconds * 4 + 300)) "$build/kv-bench" --local off --server "$server_host:$((port + index))" \
		--psk-file "$out/key" --provider "$provider" \
		--timeout 30 --verify --json "$out/$file.json" "$@"
}

keys=2000 repeat=20 emulated=0
doctor() {
	run "kv-doctor: this machine can run it" doctor 300 "$build/kv-doctor" --provider "$provider" --json "$out/doctor.json"
}

conformance() {
	local program
	for program in test_conform test_process; do
		if [ -x "$build/tests/engine/$program" ]; then
			run "$program: the engine's rules hold on $provider" "$program" 1200 env CMOCKA_MESSAGE_OUTPUT=tap \
				KVRAIL_TEST_PROVIDERS="$provider" "$build/tests/engine/$program"
		else
			skip "$program: the engine's rules hold on $provider" "not built: make tests"
		fi
	done
}

# Small values travel inside messages: what proves RDMA are large ones.
moving() {
	local size before_w before_r bytes=$((keys * 65536)) got=$((keys * repeat * 65536))
	run "kv-bench with its own server on this instance" own $((seconds * 4 + 300)) "$build/kv-bench" --local off \
		--provider "$provider" --verify --num-keys 500 --repeat-reads 4 --json "$out/own.json"
	before_w=$(counter rdma_write_recv_bytes) before_r=$(counter rdma_read_resp_bytes)
	bench "PUT and GET of 64 KiB, push" push 0 --mode push --num-workers 32 --num-keys $keys --repeat-reads $repeat
	json_is "the provider is the one demanded" push "j['provider']['name'].split(';')[0] == '${provider%%-*}'"
	json_is "every GET hit, none failed, no byte was wrong" push "(j['verify']['wrong'] == 0 and
		(lambda r: r['hits'] == $keys * $repeat and r['misses'] == 0 and r['errors'] == {})(j['phases']['read']))"
	grep -q 'RMA writes are emulated' "$out/push.log" && emulated=1
	if [ $emulated = 1 ] && ! grep -qE 'built against 1\.1[0-7]\)' "$out/push.log"; then
		skip "GET, push: the server's NIC wrote into this instance" \
			"libfabric says that these devices do not write (p4d does not): --mode auto pulls"
	else
		rose "GET, push: the server's NIC wrote into this instance" rdma_write_recv_bytes "$before_w" "$got"
	fi
	rose "PUT: the server's NIC read from this instance" rdma_read_resp_bytes "$before_r" "$bytes"
	for size in 1 3000 4KB 256KB 1MB 16MB; do
		bench "PUT and GET of $size" "size-$size" 0 --mode push --value-size "$size" --num-keys 20 \
			--repeat-reads $((quick ? 2 : 20)) --num-workers 8 --buffer-mb 64
	done
	bench "batch GET of 16 blocks of 64 KiB" batch 0 --mode push --batch 16 --num-keys 1000 --repeat-reads 5
	bench "batch GET of 64 blocks of 4 KiB" batch-small 0 --mode push --batch 64 --value-size 4KB --num-keys 2000 \
		--repeat-reads 5
}

# libfabric's tcp before 1.22 cannot be read from safely, and KVRail refuses: on tcp alone that is no failure.
pulling() {
	local before_read index=1
	if [ "$provider" = tcp ] && "$build/kv-bench" --server "$server_host:$port" --psk-file "$out/key" --provider tcp \
		--mode pull --num-keys 1 2>&1 | grep -q 'cannot read over'; then
		skip "GET of 64 KiB, pull" "this libfabric's tcp cannot be read from safely"
		index=0
	else
		before_read=$(counter rdma_read_bytes)
		bench "GET of 64 KiB, pull" pull 1 --mode pull --num-workers 32 --num-keys $keys --repeat-reads $repeat
		rose "GET, pull: this instance's NIC read from the server" rdma_read_bytes "$before_read" $((keys * repeat * 65536))
	fi
	bench "GET of 64 KiB, auto: the better of the two for this hardware" auto $index --mode auto --num-keys 500 \
		--repeat-reads 5
}

several_rails() {
	local n before after mode=push counter=rdma_write_recv_bytes
	n=$(rails_wanted)
	[ $emulated = 0 ] || mode=pull counter=rdma_read_bytes
	before=$(counter_devices $counter)
	bench "one client on $n rails, blocks of 4 MiB" rails 2 --mode $mode --rails "$n" --value-size 4MB --num-keys 64 \
		--repeat-reads 20 --num-clients 1 --buffer-mb 256
	after=$(counter_devices $counter)
	printf '%s\n--- after\n%s\n' "$before" "$after" >"$out/rails.counters"
	if [ -z "$before" ]; then
		skip "every NIC of them moved bytes" "no RDMA device here counts $counter"
	elif [ "$(paste -d' ' <(printf '%s\n' "$before") <(printf '%s\n' "$after") | awk '$4 > $2' | wc -l)" -ge "$n" ]; then
		pass "every NIC of them moved bytes"
	else
		fail "every NIC of them moved bytes" "$out/rails.counters"
	fi
}

# Errors while it is dead are to be expected; a run that found it dead at its start is tried again.
killing() {
	local file=$out/mortal.log rc=3 tries
	for _ in $(seq 12); do
		tries=0
		until client_ready "$server_host:$((port + 3))" || [ $((tries += 1)) -gt 20 ]; do sleep 1; done
		timeout -k 10 $((seconds + 300)) "$build/kv-bench" --local off --server "$server_host:$((port + 3))" --psk-file "$out/key" \
			--provider "$provider" --keep-going \
			--duration "$seconds" --num-keys 200 --verify --json "$out/mortal.json" --timeout 2 >"$file" 2>&1 </dev/null
		rc=$?
		if [ $rc -lt 2 ] || [ -s "$out/mortal.json" ]; then break; fi
	done
	echo "exit status $rc" >>"$file"
	if [ $rc -lt 2 ]; then
		pass "reading on while the server is killed and restarted, again and again"
	else
		fail "reading on while the server is killed and restarted, again and again" "$file"
	fi
	json_is "no byte was wrong, and no call was late" mortal \
		"j['verify']['wrong'] == 0 and j['keep_going']['overdue'] == 0"
	json_is "it went on after each restart" mortal "(j['phases']['read']['hits'] > 0 and
		j['keep_going']['outages_count'] > j['keep_going']['outages_open'])"
}

figures() {
	run "the bare fabric, 64 KiB" fabric 300 "$build/kv-bench" fabric --connect "$server_host:$((port + 4))" \
		--psk-file "$out/key" --provider "$provider" --sizes 64KB --depth 32 --span 64MB --time 1s --json "$out/fabric.json"
	run "roofline: GET beside bare writes" roofline $((seconds * 4 + 300)) "$build/kv-bench" --local off \
		--server "$server_host:$port" --psk-file "$out/key" --provider "$provider" --mode push --num-workers 32 \
		--num-keys $keys --repeat-reads $repeat --roofline-file "$out/fabric.json" --json "$out/roofline.json"
	run "latency of one worker, 64 KiB" latency $((seconds * 4 + 300)) "$build/kv-bench" --local off --server "$server_host:$port" \
		--psk-file "$out/key" --provider "$provider" \
		--num-workers 1 --num-clients 1 --num-keys 100 --duration "$seconds" --breakdown --json "$out/latency.json"
}

capacity() {
	run "capacity: an endpoint for each client" capacity-endpoints 3600 "$build/kv-bench" capacity --model endpoints \
		--provider "$provider" --max-clients "$clients" \
		--steps "$([ $quick = 1 ] && echo 3,10 || echo '10,100,200,300,400,450,500,...')" \
		--json "$out/capacity-endpoints.json"
	run "capacity: all on four engines" capacity-pooled 3600 "$build/kv-bench" capacity --model pooled \
		--provider "$provider" --max-clients 1000 --max-sessions "$([ $quick = 1 ] && echo 20 || echo 20000)" \
		--steps "$([ $quick = 1 ] && echo 3,10 || echo '100,500,1000')" --json "$out/capacity-pooled.json"
	if [ -n "$(ls /dev/infiniband/uverbs* 2>/dev/null)" ]; then
		run "capacity: bare queue pairs" capacity-verbs 1800 "$build/kv-bench" capacity --model verbs \
			--max-clients "$clients" --json "$out/capacity-verbs.json"
	else
		skip "capacity: bare queue pairs" "no RDMA device is here"
	fi
}

# part NAME FUNCTION -- unless it is left out.
part() { [[ ,$without, == *,$1,* ]] || "$2"; }

tell_done() {
	run "kv-client: PUT of the word that it is over" finished 60 "$build/kv-client" --server "$server_host:$port" \
		--psk-file "$out/key" --provider "$provider" put acceptance/done yes
}

be_client() {
	if [ $quick = 1 ]; then keys=200 repeat=5 seconds=$((seconds > 12 ? 12 : seconds)); fi
	if [ "$role" = client ]; then
		environment
		(umask 077 && printf '%s\n' "$key" >"$out/key")
	fi
	for _ in $(seq 30); do client_ready "$server_host:$port" && break; done
	part doctor doctor
	part conformance conformance
	part bench moving
	part pull pulling
	part rails several_rails
	part kills killing
	part figures figures
	part capacity capacity
	tell_done
	counters_save after
	summary
}

# ---- all of it ----

finish() {
	local tar
	stop_all
	tar=$(dirname "$out")/kvrail-acceptance-$role-$host-$(date -u +%Y%m%dT%H%M%S).tar.gz
	note "$passed passed, $failed failed, $skipped skipped"
	tar -C "$(dirname "$out")" -czf "$tar" "$(basename "$out")" && say "all output: $tar"
	[ "$failed" -eq 0 ]
}

case $role in
server) serve ;;
client) be_client ;;
self)
	listen=127.0.0.1 server_host=127.0.0.1
	environment
	servers_up
	be_client
	;;
esac
finish
