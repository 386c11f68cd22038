#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tier.sh -- kv-server --tier with a real file: values that left memory come back with the right bytes, also after a restart and after SIGKILL; deleted and
# expired ones do not; what cannot be a tier is refused with a sentence.
. "$(dirname "$0")/lib.bash"
plan 47
file=$scratch/tier.img
args=(--memory-mb 8 --worker-threads 2 --landing-mb 8 --tier "$file:128M" --tier-segment 4M --log-level info "${over[@]}")
client() { limited "$build/kv-client" --server "$server" "${over[@]}" "$@"; }
python3 - "$scratch" 500 <<'END' # values of 60 KB, more of them than memory holds
import random, sys
for n in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/value-{n}", "wb") as f:
        f.write(random.Random(n).randbytes(60000 + n))
END
put_all() { # put_all FROM TO
	local i
	for ((i = $1; i < $2; i++)); do echo "put key-$i -f $scratch/value-$i"; done | client
}
right=0 missing=0
get_all() { # get_all FROM TO -- counts right values and misses; fails with wrong bytes
	local i
	right=0 missing=0
	rm -f "$scratch"/back-*
	for ((i = $1; i < $2; i++)); do echo "get key-$i -o $scratch/back-$i"; done | client >/dev/null 2>&1
	for ((i = $1; i < $2; i++)); do
		if [ ! -s "$scratch/back-$i" ]; then
			missing=$((missing + 1))
		else
			cmp "$scratch/value-$i" "$scratch/back-$i" || return 1
			right=$((right + 1))
		fi
	done
	echo "$right right, $missing missing"
}
all_right() { get_all "$1" "$2" && [ "$missing" -le "${3:-0}" ]; }
gone() { ! client get "$1" -o "$scratch/gone" 2>/dev/null; }
stat_above() { client stat --all | grep -E "^$1 +[0-9]+" | awk -v least="$2" '{ print; ok = $2 > least } END { exit !ok }'; }

start_server first "${args[@]}" || exit 1
check "400 values are stored in memory for 130" put_all 0 400
where() { client exists "key-$1" | grep -qx "$2 key-$1"; }
check "EXISTS says that an old one is on the tier alone" where 0 2
check "and that a new one is in memory" where 399 1
check "all are read" all_right 0 400
check "an old one that was just read is in memory" bash -c '"$@" get key-0 -o /dev/null && "$@" exists key-0 | grep -qx "1 key-0"' x "$build/kv-client" --server "$server" "${over[@]}"
check "most of them from the tier" stat_above tier_hits 200
check "their GETs are hits that it served" stat_above tier_served 200
check "the tier was written" stat_above tier_values 200
check "a second server is refused the file" says "used by another server" "$build/kv-server" --listen-addr 127.0.0.1:0 "${args[@]}"
check "a key is deleted" client delete key-7
check "a deleted key is missing" gone key-7
with_ttl() { client put short --ttl 4s -f "$scratch/value-1" && put_all 400 500; }
check "a value with a short life leaves memory" with_ttl
stop_server "$server_pid"

start_server second "${args[@]}" || exit 1
ready() { [ "$(grep -c "tier on .* is ready" "$scratch/$1.err")" -ge "${2:-2}" ]; } # ready LOG [THREADS] -- each has read its part
check "the footers are read" soon ready second
check "after a restart values are there" all_right 8 500 250
check "many of them" [ "$right" -gt 200 ]
check "the deleted one is not" gone key-7
sleep 4
check "the expired one is not" gone short
check "another key is deleted" client delete key-20
one() { client --namespace one "$@"; }
two() { client --namespace two "$@"; }
put_named() { # put_named FUNCTION -- the same keys in a namespace, more than memory holds
	local i
	for ((i = 0; i < 200; i++)); do echo "put key-$i -f $scratch/value-$((i + $2))"; done | "$1"
}
found_named() { # found_named FUNCTION OFFSET -- counts; fails with wrong bytes
	local i
	right=0
	rm -f "$scratch"/back-*
	for ((i = 0; i < 200; i++)); do echo "get key-$i -o $scratch/back-$i"; done | "$1" >/dev/null 2>&1
	for ((i = 0; i < 200; i++)); do
		[ -s "$scratch/back-$i" ] || continue
		cmp "$scratch/value-$((i + $2))" "$scratch/back-$i" || return 1
		right=$((right + 1))
	done
	echo "$right right"
}
none_named() { found_named "$@" && [ "$right" -eq 0 ]; }
many_named() { found_named "$@" && [ "$right" -gt 50 ]; }
check "a namespace is filled with the same keys" put_named one 100
check "and another one" put_named two 200
check "each has its own values" many_named one 100
check "both" many_named two 200
check "the first is cleared" one clear
check "nothing of it is found" none_named one 100
check "the other one has its values" many_named two 200
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null

start_server third "${args[@]}" || exit 1
soon ready third
check "after SIGKILL bytes are right" get_all 21 500
check "many are there" [ "$right" -gt 200 ]
both_gone() { gone key-7 && gone key-20; }
check "both deleted ones are not" both_gone
check "nothing of the cleared namespace is found" none_named one 100
check "the other one has values" many_named two 200
new_values() { put_named one 250 && many_named one 250; }
check "the cleared one takes new values" new_values
stop_server "$server_pid"

check "other contents are left alone" says "has other contents" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/value-1"
grown() { says "has other contents" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/value-1:64M" && [ "$(stat -c %s "$scratch/value-1")" = 60001 ]; }
check "and not made larger" grown
truncate -s 64M "$scratch/btrfs" && printf _BHRfS_M | dd of="$scratch/btrfs" bs=1 seek=65600 conv=notrunc status=none
check "so are those that begin with zeros, as file systems and disks of a RAID do" says "has other contents" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/btrfs"
check "no file and no size" says "there is no such file; give a size" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/none"
check "a full disk" says "has no room for" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/huge:900T"
no_disk=$(unshare -m bash -c 'truncate -s 16M "$0.img" && PATH=$PATH:/sbin mkfs.ext4 -qF "$0.img" && mkdir "$0" && mount -o loop "$0.img" "$0"' "$scratch/disk" 2>&1) && no_disk=
filled() { # the kernel reserves what there is, then fails
	unshare -m bash -c 'mount -o loop "$1.img" "$1" && { "${@:2}" 2>&1 || [ "$(stat -c %s "$1/tier")" -eq 0 ]; }' x "$scratch/disk" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/disk/tier:64M" &&
		! grep -q "only 0 B more" "$scratch/check.out"
}
skip_or_check "${no_disk:+no file system can be made here}" "a full disk has its room again" filled
check "no folder for a file with a size" says "its folder does not exist" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/none/tier:1G"
check "a folder" says "is a folder; give a file in it" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch"
check "one file twice" says "is listed twice" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/twice:64M,$scratch/twice:64M"
check "its options without --tier" says "goes with --tier" "$build/kv-server" --tier-day 1G
check "too small" says "need .* at least" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/small:100M" --worker-threads 1
check "an odd segment" says "multiple of 1 MiB" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --tier "$scratch/small:1G" --tier-segment 1500K
damaged() {
	dd if=/dev/urandom of="$file" bs=4096 seek=1 count=12000 conv=notrunc status=none
	start_server fourth "${args[@]}" && soon ready fourth && get_all 0 500 && stop_server "$server_pid"
}
check "bytes written over: right values or misses" damaged
other_shape() { start_server fifth "${args[@]}" --worker-threads 1 && soon ready fifth 1 && put_all 0 10 && all_right 0 10 && grep -q "another number of worker threads" "$scratch/fifth.err"; }
check "another number of worker threads starts empty" other_shape
cut_start() { stop_server "$server_pid" && dd if=/dev/zero of="$file" bs=4096 count=1 conv=notrunc status=none && start_server sixth "${args[@]}" && soon ready sixth; }
check "a first start that was cut is repeated" cut_start
stop_server "$server_pid"
several() { # given one by one, and as a list
	start_server seventh --memory-mb 8 --worker-threads 1 --landing-mb 8 --tier "$scratch/a:64M" --tier "$scratch/b:64M,$scratch/c:64M" --tier-segment 4M \
		--log-level info "${over[@]}" && soon stat_above tier_bytes $((3 * 64000000 - 1)) && stop_server "$server_pid"
}
check "--tier is repeatable" several
finish
