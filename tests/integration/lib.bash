# SPDX-License-Identifier: Apache-2.0
# lib.bash -- what the integration tests share: TAP, a server with its address, a scratch folder that goes away.
# Source it, call `plan N`, then `check NAME COMMAND...` for each test. Everything a test starts is stopped at its end.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=${KVRAIL_BUILD:-build/release}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-test.XXXXXX")
pids=()
tap_n=0 tap_failed=0

cleanup() {
	local pid
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	rm -rf "$scratch"
}
trap cleanup EXIT

plan() { echo "1..$1"; }

# check NAME COMMAND... -- one test: the command's exit status. Its output is shown when it fails.
check() {
	local name=$1
	shift
	tap_n=$((tap_n + 1))
	if "$@" >"$scratch/check.out" 2>&1; then
		echo "ok $tap_n - $name"
	else
		echo "not ok $tap_n - $name"
		sed 's/^/# /' "$scratch/check.out" | tail -n 60
		tap_failed=1
	fi
}

# limited COMMAND... -- run a program, or a function of the test around one, for a minute at most.
limited() {
	if [ "$(type -t "$1")" = function ]; then
		"$@"
	else
		timeout -k 5 60 "$@"
	fi
}

# status WANTED COMMAND... -- succeeds if the command exits with exactly that status.
status() {
	local want=$1 got
	shift
	limited "$@"
	got=$?
	[ "$got" -eq "$want" ] || {
		echo "exit status $got, expected $want: $*"
		return 1
	}
}

# says TEXT COMMAND... -- succeeds if the command's output contains TEXT (an extended regular expression), whatever its status.
says() {
	local text=$1
	shift
	limited "$@" >"$scratch/says.out" 2>&1 </dev/null
	grep -qE -- "$text" "$scratch/says.out" || {
		echo "no '$text' in the output of: $*"
		cat "$scratch/says.out"
		return 1
	}
}

# start_server NAME ARGS... -- a kv-server on a port of its own; sets $server to its address and $server_pid.
start_server() {
	local name=$1 fifo="$scratch/$1.ready" line=
	shift
	mkfifo "$fifo"
	"$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 256 --worker-threads 2 --log-level warn --ready-fd 3 "$@" \
		3>"$fifo" >"$scratch/$name.out" 2>"$scratch/$name.err" &
	server_pid=$!
	pids+=("$server_pid")
	read -r -t 30 line <"$fifo"
	server=${line#READY }
	[ -n "$server" ] || {
		echo "# server $name did not become ready:"
		sed 's/^/# /' "$scratch/$name.err"
		return 1
	}
}

# stop_server PID -- SIGTERM, and wait until it is gone; its exit status is ours.
stop_server() {
	kill -TERM "$1" && wait "$1"
}

finish() { exit "$tap_failed"; }
