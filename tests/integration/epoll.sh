#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# epoll.sh -- where a seccomp filter forbids io_uring (as the default profiles of Docker and containerd do), loops, library and programs work all the same.
# The tests of loop/ run again under the filter here; those of all else in `make check-epoll`.
. "$(dirname "$0")/lib.bash"
loops=()
for t in tests/loop/test_*.c; do loops+=("$build/${t%.c}"); done
plan $((${#loops[@]} + 16))
no_uring() { python3 tests/integration/no_uring.py "$@"; }
off() { # The filter is really there: 425 is io_uring_setup, 1 EPERM.
	no_uring /usr/bin/env python3 -c 'import ctypes; libc = ctypes.CDLL(None, use_errno=True); assert libc.syscall(425, 4, ctypes.create_string_buffer(256)) == -1 and ctypes.get_errno() == 1'
}
check "the filter forbids io_uring" off
for t in "${loops[@]}"; do check "${t##*/} on epoll" limited no_uring "$t"; done

kinds() { find "/proc/$1/fd" -lname "anon_inode:*$2*" | wc -l; } # kinds PID WHAT -- how many such descriptors the process has
start_server uring --memory-mb 256 --worker-threads 2 --log-level info "${over[@]}" || exit 1
uring_files=$(find "/proc/$server_pid/fd" -mindepth 1 | wc -l)
no_uring_here=
[ "$(kinds "$server_pid" io_uring)" -gt 0 ] || no_uring_here="io_uring is forbidden here without a filter, too"
stop_server "$server_pid"
# start_server starts a program of this folder: it is kv-server under the filter.
real=$build build=$scratch
printf '#!/bin/sh\nexec python3 %q %q "$@"\n' "$PWD/tests/integration/no_uring.py" "$real/kv-server" >"$scratch/kv-server"
chmod +x "$scratch/kv-server"
start_server epoll --memory-mb 256 --worker-threads 2 --log-level info "${over[@]}" || exit 1
build=$real
epoll_files=$(find "/proc/$server_pid/fd" -mindepth 1 | wc -l)
check "kv-server has no ring" [ "$(kinds "$server_pid" io_uring)" -eq 0 ]
check "it says so once" [ "$(cat "$scratch"/epoll.* | grep -c 'loops use epoll')" -eq 1 ]
check "and names the way out" grep -q 'loops use epoll.*seccomp' "$scratch"/epoll.*
as_many() { echo "$uring_files with io_uring, $epoll_files with epoll"; [ "$uring_files" -eq "$epoll_files" ]; }
if [ -n "$no_uring_here" ]; then skip "it has as many descriptors" "$no_uring_here"; else check "it has as many descriptors" as_many; fi
put_and_get() {
	head -c 100000 /dev/urandom >"$scratch/value"
	no_uring "$build/kv-client" --server "$server" "${over[@]}" put k -f "$scratch/value" && "$build/kv-client" --server "$server" "${over[@]}" get k -o "$scratch/back" && cmp "$scratch/value" "$scratch/back"
}
check "a client on epoll writes, one on io_uring reads" put_and_get
check "kv-client says nothing about it" bash -c '[ "$(python3 tests/integration/no_uring.py "$@" 2>&1 | grep -c epoll)" -eq 0 ]' x "$build/kv-client" --server "$server" "${over[@]}" ping
check "kv-bench on epoll, with a server of its own" status 0 no_uring "$build/kv-bench" "${over[@]}" --num-workers 8 --num-keys 100 --buffer-mb 8 --quiet
check "an embedding program on epoll" status 0 no_uring "$build/tests/integration/embedder" "$server" "$provider" setup
# A filter that knows one of the calls: a ring can be made, and does nothing.
in_part() { python3 tests/integration/no_uring.py --call "$@"; }
doctor_tells() { in_part "$1" "$build/kv-doctor" --no-try --provider tcp | tr -s '[:space:]' ' ' | grep -q "machine: io_uring refused: a seccomp filter is on (io_uring_$1: "; }
for call in enter register; do
	check "io_uring_$call refused: kv-bench and its server work" status 0 in_part "$call" "$build/kv-bench" "${over[@]}" --num-workers 8 --num-keys 100 --buffer-mb 8 --quiet
	check "io_uring_$call refused: kv-client works" status 0 in_part "$call" "$build/kv-client" --server "$server" "${over[@]}" ping
	check "io_uring_$call refused: kv-doctor says so" doctor_tells "$call"
done
check "kv-server on epoll ends as it should" stop_server "$server_pid"

finish
