#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage.sh -- a command line that is wrong ends every program at once with exit status 2 and one sentence; nothing was started, opened or measured.
. "$(dirname "$0")/lib.bash"
wrong=( # PROGRAM ARGS...
	'kv-server --no-such-option'
	'kv-server word'
	'kv-server --listen-addr :99999'
	'kv-server --listen-addr 0.0.0.0:0'
	'kv-server --cert x'
	'kv-server --cert a --key b --ca c --psk-file d'
	'kv-server --crl f'
	"kv-server --node-id ''"
	'kv-server --memory-mb 1 --worker-threads 32'
	'kv-server --numa sideways'
	'kv-server --log-level loud'
	'kv-server --ready-fd 77'
	'kv-server --make-psk /nonexistent/key --insecure'
	"kv-server --make-psk ''"
	'kv-server --http-addr 127.0.0.1:99999'
	'kv-server --http-addr 0.0.0.0:0'
	'kv-server --config /nonexistent/file'
	'kv-server --log-format loud'
	'kv-bench --no-such-option'
	'kv-bench word'
	"kv-bench --server ''"
	'kv-bench --json /'
	"kv-bench --json ''"
	'kv-bench --value-size potato'
	'kv-bench --trace-speed 2'
	'kv-bench capacity --steps x'
	'kv-bench capacity --json /'
	'kv-bench fabric --sizes 0'
	'kv-bench sweep --num-workers 1,2,4,...'
	'kv-bench sweep --num-workers 0'
	'kv-bench sweep --num-workers 1 --num-clients 2'
	'kv-bench sweep --value-size 2GB'
	'kv-bench sweep --trace x'
	'kv-bench sweep --value-size 4KB --model qwen3-0.6b'
	'kv-bench sweep --json x --report x'
	'kv-bench sweep --resume -'
	'kv-bench sweep --resume /'
	'kv-bench sweep word'
	'kv-bench scale --clients 2,1'
	'kv-bench scale --clients 200001'
	'kv-bench scale --message-size 0'
	'kv-bench scale --step-clients 3'
	'kv-bench scale word'
	'kv-bench fabric word'
	'kv-bench hits'
	'kv-bench hits --trace x --capacity 0'
	'kv-bench hits --trace x --policy fifo'
	'kv-bench models --tp 0'
	'kv-bench help nothing'
	'kv-bench help load trace'
	'kv-bench --servers 0'
	'kv-bench --servers 2 --server x:1'
	"kv-bench --event 'kill 2 at 30m'"
	"kv-bench --event 'kill 1 at soon'"
	"kv-bench --event 'burn 1 at 1s'"
	"kv-bench --event 'kill 0 at 1s'"
	"kv-bench --event 'kill 1 at 1s' --server x:1"
	'kv-bench versus'
	'kv-bench versus --targets kvrail,kvrail'
	'kv-bench versus --targets redis://'
	'kv-bench versus --targets redis+unix://x'
	'kv-bench versus --targets mooncake://x:1'
	'kv-bench versus --targets redis://x:1 -- --door on'
	'kv-bench versus --targets kvrail --drive'
	'kv-bench versus --targets kvrail --rate 5 --batch 2'
	'kv-bench models --model nothing'
	'kv-bench --model nothing'
	'kv-bench --tp 2'
	'kv-client frobnicate'
	'kv-client get'
	"kv-client get ''"
	'kv-client -f x get k'
	'kv-client --server :1 ping'
	'kv-client --server 127.0.0.1:0 ping'
	'kv-doctor --no-such-option'
	'kv-doctor word'
	'kv-doctor --json /'
	'kv-doctor --sysroot /nonexistent'
)
scripts=('./run-with-rdma.sh' './run-with-rdma.sh --no-such-option' './run-with-rdma.sh --provider' './run-with-rdma.sh --provider sand kv-bench' 'scripts/install-deps.sh nothing')
unable=('kv-bench --json /nonexistent/dir/x.json' 'kv-bench --trace /nonexistent' 'kv-bench capacity --json /nonexistent/dir/x.json' 'kv-bench fabric --json /nonexistent/dir/x.json' 'kv-bench sweep --json /nonexistent/dir/x.json' 'kv-bench sweep --report /nonexistent/dir/x.html' 'kv-bench scale --json /nonexistent/dir/x.json' 'kv-bench hits --trace /nonexistent' 'kv-server --psk-file /nonexistent'
	'kv-doctor --no-try --json /nonexistent/x.json')
early=('kv-server -l 127.0.0.1:27931 -m 64' 'kv-bench -k 100 -r 100000')
plan $((${#wrong[@]} + ${#scripts[@]} + ${#unable[@]} + ${#early[@]} + 1))

# ends WANTED COMMAND... -- the exit status, and nothing on standard output, where results stand.
ends() {
	local want=$1 got
	shift
	timeout -k 5 60 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
	got=$?
	[ "$got" -eq "$want" ] && [ -s "$scratch/err" ] && { [ "$want" -ne 2 ] || [ ! -s "$scratch/out" ]; } && return 0
	echo "exit status $got, expected $want"
	cat "$scratch/out" "$scratch/err"
	return 1
}
for line in "${wrong[@]}"; do
	eval "words=($line)"
	check "$line: usage" ends 2 "$build/${words[0]}" "${words[@]:1}"
done
for line in "${scripts[@]}"; do
	eval "words=($line)"
	check "$line: usage" ends 2 "${words[@]}"
done
for line in "${unable[@]}"; do
	eval "words=($line)"
	check "$line: it cannot start" ends 3 "$build/${words[0]}" "${words[@]:1}"
done
began() { [ "/proc/$1/exe" -ef "$2" ] || ! [ -e "/proc/$1/exe" ]; } # (or it has ended)
# ends_by_signal COMMAND... -- a signal in the first moments ends a program as signals do, or in good order; not with the status 1 of a handler that a library
# of libfabric's put in before main(). Moments: at some of them the libraries' constructors run. They begin with the program's first instruction: until then
# the process is bash's, which has handlers because of its trap, and what they have noted is forgotten with the exec. So one signal in 1,500 was lost.
ends_by_signal() {
	local pause pid got
	for pause in 0 0.01 0.02 0.04 0.08 0.16; do
		"$@" >/dev/null 2>&1 </dev/null &
		pid=$!
		soon began "$pid" "$1" || { echo "it did not begin"; return 1; }
		sleep "$pause"
		kill -TERM "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		got=$?
		[ "$got" -eq 143 ] || [ "$got" -eq 0 ] || { echo "SIGTERM after $pause s: exit status $got"; return 1; }
	done
}
for line in "${early[@]}"; do
	eval "words=($line)"
	check "$line: a signal at once" ends_by_signal "$build/${words[0]}" "${words[@]:1}"
done
all_run() { [ "$(KVRAIL_TEST_ONLY='' CMOCKA_MESSAGE_OUTPUT=tap "$build/tests/base/test_hash" | grep -c '^ok')" -gt 1 ]; }
check "make test without CASE runs all tests of a program" all_run
finish
