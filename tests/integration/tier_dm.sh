#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tier_dm.sh -- kv-server --tier on a disk of the device mapper (as root, over a loop device) that fails (dm-flakey), stalls (dm-delay), or forgets
# writes: misses and an event meanwhile, the right bytes afterwards.
. "$(dirname "$0")/lib.bash"
plan 10
without() { skip_all 10 "$1"; }
[ "$(id -u)" = 0 ] || without "only root can make a disk"
command -v dmsetup >/dev/null || without "there is no dmsetup (Debian: dmsetup)"
modprobe -q dm-flakey 2>/dev/null
modprobe -q dm-delay 2>/dev/null
targets=$(dmsetup targets 2>/dev/null)
grep -q '^flakey ' <<<"$targets" && grep -q '^delay ' <<<"$targets" || without "the kernel has no dm-flakey or no dm-delay (CONFIG_DM_FLAKEY, CONFIG_DM_DELAY)"
image=$scratch/disk.img
truncate -s 192M "$image"
disk=$(losetup -f --show "$image" 2>/dev/null) || without "no loop device can be made here"
name=kvrail-test-$$
sectors=$(blockdev --getsz "$disk")
disk_end() {
	dmsetup resume "$name" 2>/dev/null
	dmsetup remove --force "$name" 2>/dev/null
	losetup -d "$disk"
	cleanup
}
trap disk_end EXIT
dmsetup create "$name" --table "0 $sectors linear $disk 0" || without "dmsetup cannot make a disk here"
becomes() { # becomes TARGET ARGUMENTS... -- from now on the disk is this target
	dmsetup suspend --noflush "$name" && dmsetup reload "$name" --table "0 $sectors $*"
	dmsetup resume "$name"
}
healthy() { becomes linear "$disk" 0; }

port=$(free_ports 1)
serve() {
	start_server "$1" --listen-addr "127.0.0.1:$port" --memory-mb 8 --worker-threads 1 --landing-mb 8 --log-level info --tier "/dev/mapper/$name" --tier-segment 4M
}
client() { limited "$build/kv-client" --server "127.0.0.1:$port" "${over[@]}" "$@"; }
logged() { [ "$(grep -c "event=$2 .*device=/dev/mapper/$name" "$scratch/$1.err")" -ge "$3" ]; } # logged SERVER EVENT TIMES
count() { client stat --all | awk -v name="$1" '$1 == name { print $2 }'; }
filled() { # filled FIRST LAST -- values that begin with their number
	local i
	for ((i = $1; i <= $2; i++)); do { printf '%08d' "$i" && cat "$scratch/random"; } >"$scratch/value-$i" && echo "put key-$i -f $scratch/value-$i"; done | client
}
right() { # right FIRST LAST LEAST -- each value has its bytes or is a miss, and so many are there
	local i n=0
	rm -f "$scratch"/back-*
	for ((i = $1; i <= $2; i++)); do echo "get key-$i -o $scratch/back-$i"; done | client >"$scratch/get.out" 2>&1
	for ((i = $1; i <= $2; i++)); do
		[ -e "$scratch/back-$i" ] || continue
		cmp "$scratch/value-$i" "$scratch/back-$i" || return 1
		n=$((n + 1))
	done
	echo "$n values"
	[ "$n" -ge "$3" ]
}
enough() { [ "$(count tier_records)" -gt 100 ]; }
head -c 60000 /dev/urandom >"$scratch/random"
serve first || exit 1
check "values reach the disk" eval 'filled 1 300 && soon enough'
check "and are read from it" right 1 300 200

# ---- errors ----
becomes flakey "$disk" 0 0 3600
check "a disk that fails: no wrong byte" right 1 300 0
check "the event names it" soon logged first tier_down 1
check "memory still serves" eval 'client put small "$scratch/random" && client get small'
healthy
check "a disk that works again has its values" eval 'soon logged first tier_up 2 && right 1 300 50'

# ---- a stall ----
becomes delay "$disk" 0 9000
check "a disk that stalls: no wrong byte, and the event" eval 'right 1 300 0 && soon logged first tier_down 2'
healthy
check "it works again" eval 'sleep 10; soon logged first tier_up 3 && right 1 300 0'

# ---- forgotten writes ----
becomes flakey "$disk" 0 0 3600 1 drop_writes
filled 301 500 >/dev/null
sleep 1
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null
healthy
check "after writes that the disk forgot, and SIGKILL, the next server starts" serve second
check "each value has its bytes or is a miss" eval 'soon logged second tier_up 1 && right 1 500 0'
finish
