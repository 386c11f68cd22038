#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tier_disk.sh -- kv-server --tier with a disk (a loop device, as root): a new one is discarded, one with other contents refused, and a member of a
# cluster finds its values again, as on a file.
. "$(dirname "$0")/lib.bash"
plan 5
image=$scratch/disk.img
truncate -s 192M "$image"
[ "$(id -u)" = 0 ] && disk=$(losetup -f --show "$image" 2>/dev/null) || skip_all 5 "no loop device can be made here"
disk_end() {
	losetup -d "$disk"
	cleanup
}
trap disk_end EXIT
port=$(free_ports 1)
args=(--listen-addr "127.0.0.1:$port" --node-id a --members "list:a=127.0.0.1:$port" --memory-mb 8 --worker-threads 1 --landing-mb 8 --tier "$disk" --tier-segment 4M)
client() { limited "$build/kv-client" --server "127.0.0.1:$port" "${over[@]}" "$@"; }
server_says() { says "$1" "$build/kv-server" "${args[@]}"; }

printf other | dd of="$image" bs=64K seek=1 conv=notrunc status=none # where btrfs has its superblock
losetup -c "$disk" && blockdev --flushbufs "$disk"
check "contents behind the first pages are seen" server_says "has other contents"
dd if=/dev/zero of="$disk" bs=256K count=1 conv=fsync status=none
dd if=/dev/urandom of="$disk" bs=1M seek=100 count=80 conv=fsync status=none
blockdev --flushbufs "$disk"
start_server first "${args[@]}" || exit 1
discarded() { [ "$(du -k "$image" | cut -f1)" -lt 60000 ]; }
check "a new disk is discarded" soon discarded
head -c 60000 /dev/urandom >"$scratch/value"
filled() {
	local i
	for ((i = 0; i < 300; i++)); do echo "put key-$i -f $scratch/value"; done | client
	client stat --all | awk '$1 == "tier_records" { ok = $2 > 100 } END { exit !ok }'
}
check "values reach it" soon filled
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null
start_server second "${args[@]}" || exit 1
there() {
	local n
	n=$(for ((i = 0; i < 300; i++)); do echo "exists key-$i"; done | client 2>/dev/null | grep -c '^2 key-')
	echo "$n there"
	[ "$n" -gt 50 ]
}
check "they are found after SIGKILL" soon there
read_back() { client get "$(for ((i = 0; i < 300; i++)); do echo "exists key-$i"; done | client 2>/dev/null | sed -n 's/^2 //p' | head -1)" -o "$scratch/back" && cmp "$scratch/value" "$scratch/back"; }
check "with their bytes" read_back
finish
