#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memory.sh -- huge pages and NUMA for real: in the guest of vm.sh with two nodes, pages of 1 GiB and 2 MiB set aside, and a hugetlb cgroup. Speaks TAP.
#
# usage: memory.sh [FOLDER]   FOLDER: a build (default build/release) with tests/host/test_pages, tests/engine/test_transfers, kv-server and kv-bench.
# Exit status: 0, 1, or 77 with one sentence where no guest can be had.
set -u
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 2
build=${1:-${KVRAIL_BUILD:-build/release}}

tests/verbs/vm.sh --numa --memory 7000 --timeout 400 sh -c '
build=$1 n=0
result() { n=$((n + 1)); [ "$2" = 0 ] && echo "ok $n - $1" || { echo "not ok $n - $1"; sed "s/^/# /" /tmp/log | tail -n 40; }; }
# kv-bench folds its lines at 78 columns, and where depends on the figures in them.
unfolded() { tr -s "\n " "  " </tmp/log; }
node=/sys/devices/system/node
# 1 GiB pages first: they want memory that nobody has cut up yet.
for i in 1 0; do
	[ "$(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)" = 1 ] || echo 1 >$node/node$i/hugepages/hugepages-1048576kB/nr_hugepages
done
for i in 0 1; do echo 150 >$node/node$i/hugepages/hugepages-2048kB/nr_hugepages; done
echo "# nodes: $(cat $node/has_memory), pages of 1 GiB: $(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages), of 2 MiB: $(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages)"
export KVRAIL_TEST_PAGES=1
CMOCKA_MESSAGE_OUTPUT=STDOUT $build/tests/host/test_pages >/tmp/log 2>&1
result "areas on pages of 1 GiB and 2 MiB, on two nodes" $?
grep "SKIPPED\|skipped" /tmp/log | sed "s/^/# /"
$build/tests/host/test_memory >/tmp/log 2>&1 && $build/tests/host/test_numa >>/tmp/log 2>&1
result "the other tests of memory, on such a machine" $?
$build/tests/engine/test_transfers >/tmp/log 2>&1
result "an engine is on the node of its NICs" $?
mkdir -p /tmp/group && mount -t cgroup2 none /tmp/group && echo +hugetlb >/tmp/group/cgroup.subtree_control && mkdir /tmp/group/small &&
	echo 4194304 >/tmp/group/small/hugetlb.2MB.max
result "a hugetlb cgroup is made" $? 2>/dev/null
# Where a container would see it.
mkdir -p /sys/fs/cgroup 2>/dev/null; mount --bind /tmp/group /sys/fs/cgroup
sh -c "echo \$\$ >/sys/fs/cgroup/small/cgroup.procs; exec $build/tests/host/test_pages" >/tmp/log 2>&1
result "a hugetlb cgroup that is too small never kills" $?
grep "SKIPPED\|skipped" /tmp/log | sed "s/^/# /"
giga=$(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages)
timeout 60 $build/kv-server --provider verbs --listen-addr 127.0.0.1:0 --memory-mb 1400 --arena private --worker-threads 1 >/tmp/log 2>&1 &
i=0; while ! grep -q "memory for values" /tmp/log && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
if [ "$giga" = 1 ]; then grep -q "1 GiB in 1 GiB pages, 376 MiB in 2 MiB pages" /tmp/log; else grep -q "[0-9] MiB in 2 MiB pages, [0-9]* MiB in transparent huge pages" /tmp/log; fi
result "kv-server on verbs shows its pages" $?
sed "s/^/# /" /tmp/log; kill %1 2>/dev/null; wait
# A shared arena has pages of one size.
timeout 60 $build/kv-server --provider verbs --listen-addr 127.0.0.1:0 --memory-mb 400 --worker-threads 1 >/tmp/log 2>&1 &
i=0; while ! grep -q "memory for values" /tmp/log && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
grep -q "400 MiB in 2 MiB pages" /tmp/log
result "kv-server on verbs shares 2 MiB pages" $?
sed "s/^/# /" /tmp/log; kill %1 2>/dev/null; wait
timeout 100 $build/kv-bench --provider verbs --numa auto -w 4 -c 2 -k 32 -v 256KB -d 2 --verify >/tmp/log 2>&1
result "kv-bench on verbs from huge pages has right bytes" $?
grep "^memory\|verify" /tmp/log | sed "s/^/# /"
timeout 100 $build/kv-bench --provider verbs --batch 8 -w 4 -c 2 -k 64 -v 64KB -d 2 --verify >/tmp/log 2>&1
result "kv-bench on verbs registers its own memory beside running clients" $?
grep "^memory\|verify" /tmp/log | sed "s/^/# /"
# A network device on node 1, as far as sysfs knows: loopback.
mount -t tmpfs none /sys/class/net && mkdir -p /sys/class/net/lo/device && echo 1 >/sys/class/net/lo/device/numa_node
far=$(cat $node/node1/cpulist)
allowed() { for t in /proc/$1/task/*; do case $(cat $t/comm) in $2*) sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" $t/status ;; esac; done | sort -u | tr "\n" " "; }
# pages PID NODE -- in 4 KiB, of mappings of more than 64 MiB
pages() { awk -v n="N$2=" "{ k = 4; for (i = 1; i <= NF; i++) if (\$i ~ /^kernelpagesize_kB=/) k = substr(\$i, 19); for (i = 1; i <= NF; i++) if (index(\$i, n) == 1 && substr(\$i, length(n) + 1) * k > 65536) s += substr(\$i, length(n) + 1) * k / 4 } END { print s + 0 }" /proc/$1/numa_maps; }
for numa in auto off; do
	megas=256
	$build/kv-server --provider tcp --listen-addr 127.0.0.1:50077 --memory-mb $megas --prefault start --worker-threads 2 --numa $numa >/tmp/log 2>&1 &
	server=$! i=0; while ! grep -q "memory for values" /tmp/log && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
	echo "threads on CPUs $(allowed $server kv-shard), control on $(allowed $server kv-control), large mappings: $(pages $server 0) pages on node 0, $(pages $server 1) on node 1" >>/tmp/log
	if [ $numa = auto ]; then
		grep -q "NUMA: shards 0-1 on node 1; 2 of 2 threads bound to CPUs there" /tmp/log && [ "$(allowed $server kv-shard)" = "$far " ] &&
			[ "$(pages $server 0)" = 0 ] && [ "$(pages $server 1)" -ge 65536 ]
	else
		grep -q "NUMA: off" /tmp/log && [ "$(allowed $server kv-shard)" != "$far " ]
	fi
	result "kv-server --numa $numa, NIC on node 1" $?
	tail -n 2 /tmp/log | sed "s/^/# /"
	[ $numa = off ] || {
		timeout 60 $build/kv-bench --provider tcp -s 127.0.0.1:50077 -w 4 -c 2 --num-threads 2 -k 32 -v 64KB -d 1 --verify >/tmp/log 2>&1 &&
			unfolded | grep -q "NUMA: clients 0-1 on node 1; 2 of 2 threads bound to CPUs there"
		result "kv-bench is on the node of its NIC" $?
		grep "^memory" /tmp/log | sed "s/^/# /"
		timeout 60 taskset -c 0 $build/kv-bench --provider tcp -s 127.0.0.1:50077 -w 4 -c 2 -k 32 -v 64KB -d 1 --verify >/tmp/log 2>&1 &&
			unfolded | grep -q "this process may use no CPU there, its threads stay"
		result "a process that may not run there is left where it is" $?
	}
	kill $server; wait $server
done
$build/kv-server --provider tcp --listen-addr 127.0.0.1:50077 --memory-mb 512 --worker-threads 1 >/tmp/log 2>&1 &
i=0; while ! grep -q "memory for values" /tmp/log && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
grep -q "of a shard only [0-9]* % of the memory: the node has no more pages" /tmp/log
result "huge pages of the other node are told" $?
tail -n 1 /tmp/log | sed "s/^/# /"; kill $!; wait
umount /sys/class/net
echo 0 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages; echo 0 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
for numa in auto off; do
	timeout 60 $build/kv-server --provider verbs --listen-addr 127.0.0.1:0 --memory-mb 1024 --worker-threads 1 --numa $numa >/tmp/log 2>&1 &
	i=0; while ! grep -q "memory for values" /tmp/log && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
	grep "^memory for values" /tmp/log | sed "s/^/# without huge pages: /"; kill %% 2>/dev/null; wait
done
echo "1..$n"
' sh "$build" | tee "${TMPDIR:-/tmp}/kvrail-memory.$$"
status=${PIPESTATUS[0]}
grep -q "^not ok" "${TMPDIR:-/tmp}/kvrail-memory.$$" && status=1
rm -f "${TMPDIR:-/tmp}/kvrail-memory.$$"
exit "$status"
