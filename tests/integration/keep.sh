#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# keep.sh -- values that outlive kv-server: a restart, a crash, and another process that takes a server's place, also when either side is killed on the way.
. "$(dirname "$0")/lib.bash"
memory=$(mktemp -d /dev/shm/kvrail-keep.XXXXXX 2>/dev/null) || { plan 1; skip_all 1 "there is no /dev/shm to write to"; }
tight=$scratch/tight
trap 'umount -l "$tight" 2>/dev/null; rm -rf "$memory"; cleanup' EXIT
if short; then plan 45; else plan 66; fi
index=$scratch/index
keep=(--keep "$index" --memory-mb 64 --worker-threads 2 --log-level info)
file=(--arena-file "$memory/arena")
client() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" "$@"; }
value() { [ "$(client get "$1")" = "$2" ]; }                    # value KEY VALUE
absent() { status 1 client get "$1"; }                          # absent KEY
log() { grep -qE -- "$2" "$scratch/$1.err" || { tail -n 20 "$scratch/$1.err"; return 1; }; } # log SERVER TEXT
gone() { ! kill -0 "$1"; }                                      # gone PID
ended() { soon gone "$1" && wait "$1"; }                        # ended PID -- its exit status is ours

killed() { kill -KILL "$server_pid" && wait "$server_pid"; true; }

# ---- a restart ----
start_server one "${keep[@]}" "${file[@]}" || exit 1
at=$server
head -c 1000000 /dev/urandom >"$scratch/large"
written() {
	client put a hello && client put long lived --ttl 1000 && client put deleted away && client delete deleted &&
		client put large -f "$scratch/large" && client put short lived --ttl 3
}
check "values are written" written
check "SIGTERM: the server ends, and the index is there" eval 'stop_server "$server_pid" && [ -s "$index" ] && log one "the index of [0-9]+ values"'
cp "$index" "$scratch/former"
sleep 3
start_server two --listen-addr "$at" "${keep[@]}" "${file[@]}" || exit 1
check "the next server has them again" log two 'keep_restored values=[34] dropped=[01]'
check "a value has its bytes" eval 'value a hello && client get large -o "$scratch/again" && cmp "$scratch/large" "$scratch/again"'
check "one that has expired meanwhile is a miss" absent short
check "one that has not is there" value long lived
check "a deleted key stays deleted" absent deleted
check "the index is used once" [ ! -e "$index" ]
check "a second server with the same --keep says so" says "another server uses $index .*--handover" "$build/kv-server" "${keep[@]}" --listen-addr 127.0.0.1:0
check "and one with the same --arena-file" says "another server uses $memory/arena " "$build/kv-server" --listen-addr 127.0.0.1:0 --keep "$scratch/other" "${file[@]}"
check "a port that is taken costs nothing: the values are there still" eval 'stop_server "$server_pid" && start_server port --memory-mb 16 --listen-addr "$at" &&
	status 3 "$build/kv-server" --listen-addr "$at" "${keep[@]}" "${file[@]}" && stop_server "$server_pid" &&
	start_server three --listen-addr "$at" "${keep[@]}" "${file[@]}" && value a hello'

# ---- what does not fit ----
cut_short() { stop_server "$server_pid" && truncate -s -100 "$index" && start_server "$1" --listen-addr "$at" "${keep[@]}" "${file[@]}"; }
check "a file that is cut: an empty start, and a sentence" eval 'cut_short cut && log cut "is not used: it is damaged" && client put b new && value b new'
check "the index of another time is not believed" eval 'stop_server "$server_pid" && cp "$scratch/former" "$index" &&
	start_server old --listen-addr "$at" "${keep[@]}" "${file[@]}" && log old "the memory is not as the index describes it" && absent a'
client put a hello >/dev/null
more() { start_server "$1" --listen-addr "$at" "${keep[@]}" --memory-mb 96 "${file[@]}" "${@:2}"; }
check "with more memory the values are there, also once more" eval 'stop_server "$server_pid" && cp "$index" "$scratch/small" && more more-1 && value a hello && log more-1 "keep_restored values=1" &&
	client put large -f "$scratch/large" && stop_server "$server_pid" && more more-2 && value a hello && client get large -o "$scratch/again" && cmp "$scratch/large" "$scratch/again"'
if ! short; then
	check "a start with more memory that fails costs nothing" eval 'stop_server "$server_pid" && start_server port-2 --memory-mb 16 --listen-addr "$at" &&
		status 3 "$build/kv-server" --listen-addr "$at" "${keep[@]}" --memory-mb 128 "${file[@]}" && stop_server "$server_pid" && more more-3 && value a hello'
	check "--recover may come and go" eval 'stop_server "$server_pid" && more noting --recover verify && value a hello && stop_server "$server_pid" && more noting-not && value a hello'
fi
moved() { log "$1" "keep_restored values=$2 dropped=0" && value a hello && client get large -o "$scratch/again" && cmp "$scratch/large" "$scratch/again" && [ "$(ls "$memory" | grep -c '\.new')" = 0 ]; }
check "with less memory the values move" eval 'stop_server "$server_pid" && start_server less --listen-addr "$at" "${keep[@]}" "${file[@]}" && moved less 2'
if ! short; then
	check "the index of the smaller memory is not believed afterwards" eval 'stop_server "$server_pid" && more more-4 && value a hello && stop_server "$server_pid" && cp "$scratch/small" "$index" &&
		start_server small --listen-addr "$at" "${keep[@]}" "${file[@]}" && log small "the memory is not as the index describes it" && absent a'
	client put a hello >/dev/null
fi
check "a file of memory that was shortened: an empty start, and a sentence" eval 'stop_server "$server_pid" && truncate -s 1M "$memory/arena.0" &&
	start_server short --listen-addr "$at" "${keep[@]}" "${file[@]}" && log short "arena.0 has 1 MiB, and the index describes at least .* shortened" && absent a && client put a hello'
shortened() { # the mark behind the values is touched a few times a second
	truncate -s 1M "$memory/arena.0"
	soon gone "$server_pid"
	wait "$server_pid" 2>/dev/null
	[ $? -eq $((128 + 7)) ] && log while "arena.0 is shorter than when this server mapped it"
}
check "the same while a server runs: it names the file, and ends" eval 'stop_server "$server_pid" && start_server while --listen-addr "$at" "${keep[@]}" "${file[@]}" && value a hello && shortened'
check "and the next one starts" eval 'start_server anew --listen-addr "$at" "${keep[@]}" "${file[@]}" && absent a'
client put a hello >/dev/null
client put large -f "$scratch/large" >/dev/null
threads() { start_server "$1" --listen-addr "$at" "${keep[@]}" "${file[@]}" --memory-mb 96 --worker-threads "$2" "${@:3}"; }
check "with more worker threads as well" eval 'stop_server "$server_pid" && threads threads-1 3 && moved threads-1 2 && [ -e "$memory/arena.2" ]'
if ! short; then
	check "a start with other worker threads that fails costs nothing" eval 'stop_server "$server_pid" && start_server port-3 --memory-mb 16 --listen-addr "$at" &&
		status 3 "$build/kv-server" --listen-addr "$at" "${keep[@]}" --worker-threads 1 "${file[@]}" && stop_server "$server_pid" && threads threads-2 3 --recover verify && moved threads-2 2'
	check "with fewer, and the values survive a crash then" eval 'stop_server "$server_pid" && threads threads-3 1 --recover verify && moved threads-3 2 && [ ! -e "$memory/arena.1" ] &&
		{ killed; threads threads-4 1 --recover verify; } && soon value a hello'
	check "and with three again" eval 'stop_server "$server_pid" && threads threads-5 3 && moved threads-5 2'
	killed_at() { # killed_at STEP THREADS -- a server that copies dies there
		KVRAIL_TEST_KILL_AT=$1 status 137 "$build/kv-server" --listen-addr "$at" "${keep[@]}" "${file[@]}" --memory-mb 96 --worker-threads "$2"
	}
	news() { find "$memory" -name '*.new' | wc -l; }
	arenas() { find "$memory" -name 'arena.[0-9]*' | wc -l; }
	copier_dies() { # copier_dies STEP THREADS -- the values are there or not; a second attempt starts as any
		stop_server "$server_pid"
		killed_at "$1" "$2" && threads "copier-$1" "$2" && { value a hello || { absent a && log "copier-$1" "keep_empty"; }; } && [ "$(news)" = 0 ] &&
			client put a hello && client put large -f "$scratch/large"
	}
	copied_dies() { # copied_dies STEP THREADS NEXT -- the new index is complete: a server with NEXT threads has the values
		stop_server "$server_pid"
		killed_at "$1" "$2" && [ "$(news)" -gt 0 ] && threads "$1-$2-$3" "$3" && moved "$1-$2-$3" 2 && [ "$(arenas)" = "$3" ]
	}
	indexless() { # the values of a complete copy are lost with their index, and their files go
		stop_server "$server_pid"
		killed_at committed 2 && [ "$(news)" = 2 ] && rm "$index" && threads indexless 3 && log indexless "keep_empty" && absent a && [ "$(news)" = 0 ] &&
			client put a hello && client put large -f "$scratch/large"
	}
	check "a server that dies while it copies leaves no wrong value" copier_dies copied 2
	check "nor does one that dies before the new index is complete" copier_dies saved 3
	check "one that dies after that loses no value" copied_dies committed 2 2
	check "nor between two new names" copied_dies renamed 3 3
	check "nor if the next server has other worker threads again" eval 'copied_dies committed 1 2 && copied_dies renamed 3 1 && copied_dies committed 3 3'
	check "without the index nothing stays of the copy" indexless
	reading() { # reading FILE -- as a local client of generation 1 does, which the lock of an open file shows (host/kept.c)
		python3 -c '
import fcntl, struct, sys, time
f = open(sys.argv[1], "rb")
fcntl.fcntl(f, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, (1 << 62) + 1, 1, 0))
print("reads", flush=True)
time.sleep(100)' "$1" >"$scratch/reading" &
		reader=$! && pids+=("$reader")
		soon grep -q reads "$scratch/reading"
	}
	reserved() { # all pages of the new files are there before anything is copied, since the former ones stay as they are
		stop_server "$server_pid"
		for i in 0 1 2; do reading "$memory/arena.$i" || return 1; done
		killed_at reserved 2 && stat -c %b "$memory"/arena.[01].new >"$scratch/blocks" || return 1
		for reader in "${pids[@]: -3}"; do kill "$reader" && wait "$reader"; done
		cat "$scratch/blocks"
		[ "$(sort -u "$scratch/blocks")" = $((50 * 2048)) ] && threads unread 3 && moved unread 2
	}
	check "if clients read the former files, all memory is there before the copy" reserved
	check "with another eviction policy the values are there" eval 'stop_server "$server_pid" &&
		start_server policy --listen-addr "$at" "${keep[@]}" --memory-mb 96 --worker-threads 3 --eviction lru "${file[@]}" && value a hello'
fi
check "a disk is refused with a sentence" eval '[ "$(stat -f -c %T "$PWD")" = tmpfs ] || says "is not in memory: give a path on tmpfs" "$build/kv-server" --listen-addr 127.0.0.1:0 --keep "$scratch/disk" --arena-file "$PWD/build/keep-arena"'
check "a folder as --keep is refused at the start" says "is no regular file: give the path of a file" "$build/kv-server" --listen-addr 127.0.0.1:0 --keep "$scratch"
check "and a file in no folder" says "its folder does not exist; make it first" "$build/kv-server" --listen-addr 127.0.0.1:0 --keep "$scratch/none/keep"
check "options without --keep are refused" eval 'says "goes with --keep" "$build/kv-server" --arena-file /dev/shm/x && says "goes with --keep" "$build/kv-server" --handover &&
	says "goes with --keep" "$build/kv-server" --recover verify && says "needs --arena shared" "$build/kv-server" --keep x --arena private'
stop_server "$server_pid"

# ---- a file system with room for one memory ----
tight() { start_server "$1" --listen-addr "$at" --keep "$scratch/index-tight" --arena-file "$tight/arena" --memory-mb "$2" --worker-threads "$3" --log-level info "${@:4}"; }
filled() {
	local i
	for ((i = 1; i <= 55; i++)); do { printf '%08d' "$i" && cat "$scratch/large"; } >"$scratch/number-$i" && echo "put number-$i -f $scratch/number-$i"; done | client
}
numbers() { # numbers FROM -- those from there on have their bytes, and the ones before are misses
	local i
	for ((i = $1; i <= 55; i++)); do echo "get number-$i -o $scratch/back-$i"; done | client || return 1
	for ((i = $1; i <= 55; i++)); do cmp "$scratch/number-$i" "$scratch/back-$i" || return 1; done
	rm -f "$scratch"/back-*
	[ "$(for ((i = 1; i < $1; i++)); do echo "exists number-$i"; done | client | grep -c '^0 number-')" -eq $(($1 - 1)) ]
}
# Former memory, the pages that it will not give back, and the slack: a part and the largest value of each former worker
# thread, and a page for each new one.
if mkdir "$tight" && mount -t tmpfs -o size=$((66 + 4 + 2 + 2))m,mode=700 tmpfs "$tight" 2>/dev/null; then
	sized() { mount -o "remount,size=$1k" "$tight"; }
	check "less memory, where both would not fit" eval 'tight tight-1 64 1 && filled && stop_server "$server_pid" &&
		tight tight-2 40 1 && log tight-2 "keep_moved dropped=14 " && log tight-2 "keep_restored values=41 dropped=14" && numbers 15'
	check "more memory and more worker threads, likewise" eval 'stop_server "$server_pid" && sized $(((42 + 2 * (34 - 20) + 4 + 2 + 2 * 2) * 1024)) &&
		tight tight-3 66 2 && log tight-3 "keep_moved dropped=0 " && numbers 15'
	check "with a page too little nothing is copied" eval 'stop_server "$server_pid" && sized $(((2 * 34 + 2 * 2 + 2 * 2 + 2 * 2) * 1024 - 4)) &&
		tight tight-4 40 2 && log tight-4 "keep_empty.*no room for a copy" && stop_server "$server_pid"'
	umount "$tight"
else
	for name in "less memory, where both would not fit" "more memory and more worker threads, likewise" "with a page too little nothing is copied"; do
		skip "$name" "no file system can be mounted here (root, mount -t tmpfs)"
	done
fi

# ---- pages of a pool ----
pool() { # prints a folder of hugetlbfs that has pages for 84 MiB
	while read -r _ folder kind _; do
		[ "$kind" = hugetlbfs ] && fallocate -l 84M "$folder/kvrail-probe-$$" 2>/dev/null && rm -f "$folder/kvrail-probe-$$" && echo "$folder" && return
		[ "$kind" != hugetlbfs ] || rm -f "$folder/kvrail-probe-$$"
	done </proc/mounts
	return 1
}
if huge=$(pool); then
	paged() { start_server "$1" --listen-addr "$at" --keep "$scratch/index-huge" --arena-file "$huge/kvrail-keep-$$" --memory-mb "$2" --worker-threads 1 --log-level info "${@:3}"; }
	check "values outlive a server on hugetlbfs, also with more memory" eval 'paged huge-1 40 && client put large -f "$scratch/large" && stop_server "$server_pid" &&
		paged huge-2 40 && client get large -o "$scratch/again" && cmp "$scratch/large" "$scratch/again" && client put a hello && stop_server "$server_pid" &&
		paged huge-3 60 --recover verify && value a hello && log huge-3 "keep_restored values=2"'
	check "and a crash" eval 'killed; paged huge-4 60 --recover verify && soon value a hello && stop_server "$server_pid"'
	rm -f "$huge/kvrail-keep-$$"*
else
	for name in "values outlive a server on hugetlbfs, also with more memory" "and a crash"; do
		skip "$name" "no hugetlbfs here has 84 MiB of free pages (vm.nr_hugepages, mount -t hugetlbfs)"
	done
fi

# ---- a crash ----
start_server crash --listen-addr "$at" "${keep[@]}" "${file[@]}" || exit 1
client put a hello >/dev/null
check "after kill -9 the next server is empty" eval 'killed; start_server after --listen-addr "$at" "${keep[@]}" "${file[@]}" && absent a'
stop_server "$server_pid"
start_server noted --listen-addr "$at" "${keep[@]}" "${file[@]}" --recover verify || exit 1
check "values are written" written
check "with --recover verify they come back" eval 'killed; sleep 3; start_server found --listen-addr "$at" "${keep[@]}" "${file[@]}" --recover verify && soon value a hello && value long lived'
check "with their bytes" eval 'soon client get large -o "$scratch/found" && cmp "$scratch/large" "$scratch/found"'
check "but not those that were deleted, or have expired" eval 'absent deleted && absent short'
check "the end after that is as any" eval 'stop_server "$server_pid" && start_server again --listen-addr "$at" "${keep[@]}" "${file[@]}" --recover verify && value a hello && stop_server "$server_pid"'

# ---- hand-over ----
printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/psk" && chmod 600 "$scratch/psk"
printf 'other:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/psk2" && chmod 600 "$scratch/psk2"
rm -f "$index"
first() { start_server "$1" --listen-addr "$at" "${keep[@]}"; } # first NAME -- in a memfd
next() { start_server "$1" --listen-addr "$at" "${keep[@]}" --handover; }
first h1 || exit 1
client put a hello >/dev/null
moved() { # moved NAME -- another process takes the place of this one, which ends with 0
	local before=$server_pid
	next "$1" && ended "$before" && value a hello
}
check "a process takes a server's place, with its memory" moved h2
short && rate=500 || rate=2000
load() { # two hand-overs under load: each value that is read has the right bytes
	timeout -k 5 100 "$build/kv-bench" --server "$server" "${over[@]}" --num-keys 400 --value-size 64K --duration 6 --rate "$rate" --verify >"$scratch/load.out" 2>&1 &
	local bench=$!
	pids+=("$bench")
	soon grep -q 'read ' "$scratch/load.out"
	moved h3 && sleep 1 && moved h4 || return 1
	wait "$bench"
	unfolded "$scratch/load.out" | grep -E 'compared byte by byte, 0 wrong'
}
check "under load, twice: no wrong byte" load
check "one with another geometry is refused, and the server serves on" eval 'says "the running server has 2 worker threads" "$build/kv-server" --listen-addr "$at" "${keep[@]}" --memory-mb 128 --recover verify --handover && value a hello'
old_dies() { # old_dies STEP -- the running server is killed there: the next one serves, with the value or without
	stop_server "$server_pid" && KVRAIL_TEST_KILL_AT=$1 first "old-$1" && client put a hello && next "new-$1" && { value a hello || absent a; } && client put a hello && value a hello
}
for step in memory ready index done; do
	check "the running server dies at '$step': the other serves" old_dies "$step"
done
new_dies() { # new_dies STEP -- the successor is killed there: the running server serves on, or again
	KVRAIL_TEST_KILL_AT=$1 status 137 "$build/kv-server" --listen-addr "$at" "${keep[@]}" --handover
	soon known && soon client put a hello && soon value a hello
}
known() { value a hello || absent a; } # a connection to the port of the dead one may still be accepted for a moment
for step in took made serving serving; do
	check "the successor dies at '$step' ($((++deaths))): the running server serves" new_dies "$step"
done

short && finish # the rest is for check-long

# ---- with a tier ----
stop_server "$server_pid"
both=(--keep "$scratch/index-2" --arena-file "$memory/arena-2" --memory-mb 16 --worker-threads 2 --log-level info --tier "$scratch/tier:128M" --tier-segment 4M)
head -c 120000 "$scratch/large" >"$scratch/part"
one() { client --namespace one "$@"; }
two() { client --namespace two "$@"; }
fill() { for ((i = 0; i < 200; i++)); do echo "put key-$i -f $scratch/part"; done | "$1"; } # more than memory holds
found() { # found FUNCTION -- prints how many of these values are there
	rm -f "$scratch"/back-*
	for ((i = 0; i < 200; i++)); do echo "get key-$i -o $scratch/back-$i"; done | "$1" >/dev/null 2>&1
	md5sum "$scratch/part" "$scratch"/back-* 2>/dev/null | awk 'NR == 1 { want = $1; next } $1 == want { n++ } END { print n + 0 }'
}
many() { [ "$(found "$1")" -gt 100 ]; }
none() { [ "$(found "$1")" -eq 0 ]; }
tiered() { start_server "$1" --listen-addr "$at" "${both[@]}" "${@:2}" && soon grep -q "tier on .* is ready" "$scratch/$1.err"; }
check "two namespaces in memory and on a tier" eval 'tiered tier-1 && fill one && fill two && many one && many two'
check "after a restart both are there" eval 'stop_server "$server_pid" && tiered tier-2 && many one && many two'
check "one is cleared, and gets one value" eval 'one clear && none one && one put new value'
check "after a restart it has this one alone" eval 'stop_server "$server_pid" && tiered tier-3 && none one && [ "$(one get new)" = value ] && many two'
check "and after a restart without the index none returns" eval 'stop_server "$server_pid" && rm -f "$scratch/index-2" && tiered tier-4 && none one && [ "$(found two)" -gt 50 ]'
replaced() { # a process takes the place of the server with the tier
	local before=$server_pid
	tiered tier-5 --handover && ended "$before" && many two
}
check "a process takes its place, with memory and tier" replaced
some() { [ "$(found two)" -gt 50 ]; }
returned() { # a successor dies that has memory and tier already
	KVRAIL_TEST_KILL_AT=serving status 137 "$build/kv-server" --listen-addr "$at" "${both[@]}" --handover
	soon some
}
check "a successor dies that has both: the running server serves again" returned
finish
