# SPDX-License-Identifier: Apache-2.0
# lib.bash -- what the integration tests share: TAP, a server with its address, a scratch folder that goes away.
# Source it, call `plan N`, then `check NAME COMMAND...` for each test. Everything a test starts is stopped at its end.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=${KVRAIL_BUILD:-build/release}
[[ $build = /* ]] || build=$PWD/$build
# KVRAIL_TEST_PROVIDER: everything goes over that one (make check-providers). Without it the programs choose; where a test must name one, it is tcp.
provider=${KVRAIL_TEST_PROVIDER:-tcp}
over=(${KVRAIL_TEST_PROVIDER:+--provider "$KVRAIL_TEST_PROVIDER" --local off}) # its bytes, not those of shared memory
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

# short -- whether `make check` runs this: a test that takes long makes its first part then, and check-long makes all of it.
short() { [ "${KVRAIL_TEST_SHORT:-0}" != 0 ]; }

# check NAME COMMAND... -- one test: the command's exit status. Its output is shown when it fails.
check() {
	local name=$1
	shift
	tap_n=$((tap_n + 1))
	if "$@" >"$scratch/check.out" 2>&1; then
		echo "ok $tap_n - $name"
	else
		echo "not ok $tap_n - $name"
		sed 's/^/# /' "$scratch/check.out" | tail -n 200
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

# says TEXT COMMAND... -- succeeds if the command's output contains TEXT (an extended regular expression), whatever its status. Where lines are broken (80
# columns) does not matter: a blank of TEXT may be a line's end.
says() {
	local text=$1
	shift
	limited "$@" >"$scratch/says.out" 2>&1 </dev/null
	grep -qE -- "$text" "$scratch/says.out" || tr -s '[:space:]' ' ' <"$scratch/says.out" | grep -qE -- "$text" || {
		echo "no '$text' in the output of: $*"
		cat "$scratch/says.out"
		return 1
	}
}

# unfolded FILE -- what a program has said, without the ends of lines: in 80 columns they are where the figures before them leave room.
unfolded() { tr -s '[:space:]' ' ' <"$1"; }

# json_is FILE EXPRESSION [STATUS] -- succeeds if the Python expression over the JSON of FILE (- is standard input) is true. It has j, all of it; m(NAME), a
# model of kv-bench capacity; f(ID), findings of kv-doctor; rc, STATUS. If it is not true the whole JSON is shown, an item to a line.
json_is() {
	python3 -c '
import json, sys, traceback
with sys.stdin if sys.argv[1] == "-" else open(sys.argv[1]) as file:
    text = file.read()
rc = int(sys.argv[3]) if len(sys.argv) > 3 else None
def m(name):
    return j["models"][name]
def f(id):
    return [x for x in j["findings"] if x["id"] == id]
def show(name, value, depth):
    if depth < 2 and isinstance(value, (dict, list)) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            show(name + "." + str(key), item, depth + 1)
    else:
        print(name, "=", json.dumps(value))
try:
    j = json.loads(text)
except ValueError as e:
    sys.exit("this is no JSON (%s): %s" % (e, text[:4000]))
try:
    if eval(sys.argv[2]):
        sys.exit(0)
except Exception:
    traceback.print_exc(file=sys.stdout)
print("not so:", sys.argv[2], "" if rc is None else "(rc %d)" % rc)
show("j", j, 0)
sys.exit(1)' "$@"
}

# skip NAME REASON -- a test that cannot be made here.
skip() {
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1 # SKIP $2"
}

# skip_or_check REASON NAME COMMAND... -- check, if REASON is empty.
skip_or_check() {
	if [ -n "$1" ]; then skip "$2" "$1"; else check "${@:2}"; fi
}

# skip_all COUNT REASON -- none of the tests can be made here.
skip_all() {
	local i
	for ((i = 0; i < $1; i++)); do skip "$(basename "$0" .sh)" "$2"; done
	finish
}

# terminal_missing -- says why there is no pseudo-terminal here; nothing if there is one.
terminal_missing() {
	python3 -c 'import os; os.openpty()' 2>/dev/null || echo "there is no pseudo-terminal here"
}

# check_terminal NAME COMMAND... -- check, of a test that needs a pseudo-terminal.
check_terminal() {
	local why
	why=$(terminal_missing)
	if [ -z "$why" ]; then check "$@"; else skip "$1" "$why"; fi
}

# server_wait NAME FILE TENTHS LOG... -- wait until a server that was started as $server_pid has written READY to FILE; sets $server. Its logs are shown if it does not.
server_wait() {
	local name=$1 file=$2 tenths=$3 i
	shift 3
	server=
	pids+=("$server_pid")
	for ((i = 0; i < 2 * tenths; i++)); do
		server=$(sed -n 's/^READY //p' "$file")
		[ -n "$server" ] && return 0
		kill -0 "$server_pid" 2>/dev/null || break
		sleep 0.05
	done
	kill -KILL "$server_pid" 2>/dev/null
	echo "server $name did not become ready:"
	tail -n 20 "$@"
	return 1
}

# start_server NAME ARGS... -- a kv-server on a port of its own; sets $server to its address and $server_pid. In `make
# check` only what it uses of its memory is made: clearing the rest takes longer than most tests.
start_server() {
	local name=$1 ready="$scratch/$1.ready" lazy=()
	! short || lazy=(--prefault off)
	shift
	: >"$ready"
	"$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 256 --worker-threads 2 --log-level warn --ready-fd 3 "${lazy[@]}" "${over[@]}" "$@" \
		3>"$ready" >"$scratch/$name.out" 2>"$scratch/$name.err" &
	server_pid=$!
	server_wait "$name" "$ready" 300 "$scratch/$name.err" >"$scratch/wait.out" && return 0
	sed 's/^/# /' "$scratch/wait.out"
	return 1
}

# stop_server PID -- SIGTERM, and wait until it is gone; its exit status is ours.
stop_server() {
	kill -TERM "$1" && wait "$1"
}

# free_ports N -- prints the first of N ports in a row that nobody has and no connection gets.
free_ports() { python3 tests/ports.py "$1"; }

soon() { # soon COMMAND... -- it succeeds within half a minute
	local i
	for ((i = 0; i < 300; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	return 1
}

# stand_still PID -- SIGSTOP, until all threads of the process are stopped: it stops only when the thread that the signal was given to gets a processor, and until then the others go on.
stopped() { ! grep -h '^State:' "/proc/$1"/task/*/status | grep -qv 'T (stopped)'; }
stand_still() { kill -STOP "$1" && soon stopped "$1"; }

finish() { exit "$tap_failed"; }
