#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# one_host.sh -- clients on the server's host where the machine forbids something: each time one sentence, and the fabric instead.
. "$(dirname "$0")/lib.bash"
plan 11
kept() { python3 tests/integration/no_uring.py --call "$@"; } # kept CALL COMMAND... -- without that system call

# serve_by NAME COMMAND... -- start_server, by this command.
serve_by() {
	local name=$1 ready="$scratch/$1.ready"
	shift
	: >"$ready"
	"$@" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --worker-threads 1 --ready-fd 3 3>"$ready" >"$scratch/$name.out" 2>"$scratch/$name.err" &
	server_pid=$!
	server_wait "$name" "$ready" 300 "$scratch/$name.err"
}

# bench MODE [COMMAND...] -- kv-bench, by a command before it, sees this mode.
bench() {
	local mode=$1
	shift
	limited "$@" "$build/kv-bench" --server "$server" --num-workers 4 --num-clients 1 --num-keys 50 --duration 0.05 --quiet --verify --log-level info \
		--json "$scratch/bench.json" "${where[@]}" >"$scratch/bench.out" 2>&1 || { cat "$scratch/bench.out"; return 1; }
	json_is "$scratch/bench.json" "j['provider']['mode'] == '$mode' and j['verdict']['ok']"
}
where=()
log() { grep -qE -- "$2" "$scratch/$1" || { cat "$scratch/$1"; return 1; }; } # log FILE TEXT
once() { [ "$(grep -cE -- "$2" "$scratch/$1")" = 1 ] || { cat "$scratch/$1"; return 1; }; }

# ---- system calls that a seccomp profile forbids ----
check "a server without memfd_create starts" serve_by memfd kept memfd_create
check "it reports the cause and the way out" log memfd.err 'memfd_create is forbidden here.*allow it in the seccomp profile'
check "its clients use the fabric" bench push
stop_server "$server_pid"
start_server plain --memory-mb 64 || exit 1
check "a client needs no memfd_create" bench local kept memfd_create
stop_server "$server_pid"
case $build in
*tsan*) for text in "a server without madvise reports small pages" "and serves clients on its host"; do skip "$text" "ThreadSanitizer needs madvise"; done ;;
*)
	check "a server without madvise reports small pages" eval 'serve_by madvise kept madvise && log madvise.out "64 MiB in 4 KiB pages"'
	check "and serves clients on its host" bench local
	stop_server "$server_pid"
	;;
esac

# ---- containers ----
mkdir "$scratch/socket"
start_server socket --local-socket "$scratch/socket/local" || exit 1
check "a socket at a path" bench local
apart() { unshare -m bash -c 'mount -t tmpfs none "$0" && exec "$@"' "$scratch/socket" "$@"; } # a container without the mount
read_only() { unshare -m bash -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"' "$scratch/socket" "$@"; }
small_shm() { unshare -m bash -c 'mount -t tmpfs -o size=64k none /dev/shm && exec "$0" "$@"' "$@"; } # as docker --shm-size
if unshare -m true 2>/dev/null; then
	check "a container that mounts it read-only" bench local read_only
	check "a client that does not see it uses the fabric" bench push apart
	check "and reports once how to mount it" once bench.out 'Unix socket .*cannot be reached.*is it mounted in this container'
	stop_server "$server_pid"
	check "a small /dev/shm plays no role" eval 'serve_by shm small_shm && bench local'
else
	skip "a container that mounts it read-only" "unshare -m is not permitted here"
	skip "a client that does not see it uses the fabric" "unshare -m is not permitted here"
	skip "and reports once how to mount it" "unshare -m is not permitted here"
	skip "a small /dev/shm plays no role" "unshare -m is not permitted here"
fi
stop_server "$server_pid"
finish
