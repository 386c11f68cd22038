#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lifetime.sh -- how a kv-server begins, changes its keys and ends: ports that are taken, signals. `make check` leaves certificates, ends under load and threads
# that stand still to check-long.
. "$(dirname "$0")/lib.bash"
if short; then plan 16; else plan 37; fi

# The port of an outgoing connection that is over: nobody listens there, and the kernel keeps it for a minute. Prints it.
lingering_port() {
	python3 - <<'P'
import socket
listener = socket.create_server(("127.0.0.1", 0))
s = socket.create_connection(listener.getsockname())
port = s.getsockname()[1]
other, _ = listener.accept()
s.shutdown(socket.SHUT_WR)
other.recv(1)
other.close()
s.recv(1)
s.close()
print(port)
P
}
small=(--memory-mb 16 --worker-threads 1 --log-level warn "${over[@]}")
port=$(lingering_port)
check "the port of a connection in TIME_WAIT: the start fails with the address and the cause" \
	says "listening on 127\.0\.0\.1:$port: .*no socket listens there.*TIME_WAIT" "$build/kv-server" --listen-addr "127.0.0.1:$port" "${small[@]}"
start_server first --listen-addr "127.0.0.1:$(free_ports 1)" || exit 1
check "where a server listens, a second one says so" says "listening on $server: .*another process listens there" "$build/kv-server" --listen-addr "$server" "${small[@]}"
again() { # a server with connections, ended and started at once, has its port
	local at=$server
	"$build/kv-client" --server "$at" --timeout 20 "${over[@]}" ping && stop_server "$server_pid" && start_server again --listen-addr "$at" && [ "$server" = "$at" ]
}
check "a server that is started again has its port at once" again

# ---- SIGHUP, SIGUSR1, SIGUSR2 ----
umask 077
psk() { printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$1"; }
client() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" "$@"; }
log=$scratch/keys.err
said() { # said N TEXT -- the log has it in N lines
	[ "$(grep -c -- "$2" "$log")" -ge "$1" ]
}
signal() { kill "-$1" "$server_pid" && soon said "$2" "$3"; }
psk "$scratch/psk" && cp "$scratch/psk" "$scratch/old-psk"
start_server keys --log-level info --psk-file "$scratch/psk" || exit 1
# A connection from before the change, which lives on.
mkfifo "$scratch/commands"
client --psk-file "$scratch/old-psk" <"$scratch/commands" >"$scratch/answers" 2>&1 &
pids+=($!)
exec 8>"$scratch/commands"
ask() { # ask COMMAND ANSWER -- the connection answers so once more
	local before
	before=$(grep -c -- "$2" "$scratch/answers")
	echo "$1" >&8
	soon answered $((before + 1)) "$2" || { cat "$scratch/answers"; return 1; }
}
answered() { [ "$(grep -c -- "$2" "$scratch/answers")" -ge "$1" ]; }
echo 'put k old-value' >&8
check "a connection is there" ask 'get k' old-value
psk "$scratch/new-psk" && cp "$scratch/new-psk" "$scratch/next" && mv "$scratch/next" "$scratch/psk"
check "SIGHUP reads the key file again" signal HUP 1 'keys and certificates were reread'
check "the new key is let in" soon client --psk-file "$scratch/new-psk" ping
check "the old one is not" status 3 client --psk-file "$scratch/old-psk" ping
check "a connection of before lives on" ask 'get k' old-value
echo 'no key at all' >"$scratch/psk"
check "a file that cannot be used is told" signal HUP 1 'stay in force'
check "and the key that was in force stays" status 0 client --psk-file "$scratch/new-psk" ping
# The way of the guide: the server has both while clients are changed. A client shows the last line of its file.
sed 's/^bench:/next:/' "$scratch/old-psk" >"$scratch/next-psk"
cat "$scratch/new-psk" "$scratch/next-psk" >"$scratch/both" && cp "$scratch/both" "$scratch/psk"
check "a file of two keys is taken" signal HUP 2 'keys and certificates were reread'
each_key() {
	client --psk-file "$scratch/new-psk" ping && client --psk-file "$scratch/next-psk" ping && client --psk-file "$scratch/both" ping &&
		soon eval '[ "$(grep -c "who=.PSK identity ..next" "$log")" = 2 ]'
}
check "each of the two is let in, and the log says which" each_key
check "SIGUSR1 raises the log's level" signal USR1 1 "SIGUSR1: the log's level is debug"
check "SIGUSR2 lowers it" signal USR2 1 "SIGUSR2: the log's level is info"
signal USR1 2 "SIGUSR1: the log's level is debug" # two signals that wait are taken in the order of their numbers
check "SIGHUP sets it to --log-level" signal HUP 1 "SIGHUP: the log's level is info"
exec 8>&-
check "SIGTERM ends it with status 0" stop_server "$server_pid"

if short; then finish; fi
# A certificate on a file system that does not answer: whoever opens a FIFO that nobody writes to waits for ever.
scripts/make-test-certs.sh "$scratch/certs" >/dev/null 2>&1
c=$scratch/certs
crt() { client --cert "$c/$1.pem" --key "$c/$1.key" --ca "$c/ca.pem" ping; }
scripts/make-test-certs.sh "$scratch/foreign" >/dev/null 2>&1
put() { cp "$1" "$scratch/next" && mv "$scratch/next" "$scratch/$2"; }
own() { put "$1/server.pem" server.pem && put "$1/server.key" server.key && put "$1/ca.pem" ca.pem && put "$1/crl.pem" crl.pem; }
of() { client --cert "$1/client.pem" --key "$1/client.key" --ca "$1/ca.pem" ping; }
own "$c"
log=$scratch/cert.err
start_server cert --log-level info --cert "$scratch/server.pem" --key "$scratch/server.key" --ca "$scratch/ca.pem" --crl "$scratch/crl.pem" || exit 1
check "certificates of a CA" status 0 of "$c"
put "$scratch/foreign/server.pem" server.pem
check "a certificate without its key is told at SIGHUP, and changes nothing" signal HUP 1 'stay in force'
check "the CA's clients are let in as before" status 0 of "$c"
changed() { own "$scratch/foreign" && signal HUP 1 'keys and certificates were reread' && soon of "$scratch/foreign"; }
check "another CA, certificate, key and list: its clients are let in" changed
check "those of the former CA are not" status 3 of "$c"
stop_server "$server_pid"
put "$c/server.pem" server.pem && put "$c/crl.pem" crl.pem
log=$scratch/fifo.err
start_server fifo --log-level info --cert "$scratch/server.pem" --key "$c/server.key" --ca "$c/ca.pem" --crl "$scratch/crl.pem" || exit 1
list_again() { cp "$c/crl.pem" "$scratch/next" && mv "$scratch/next" "$scratch/crl.pem" && soon said 1 'CRL file .* was reread'; }
check "a revocation list that is replaced is read without a signal" list_again
rm "$scratch/server.pem" && mkfifo "$scratch/server.pem"
stuck() { signal HUP 1 'SIGHUP: rereading' && sleep 0.5 && crt client && kill -HUP "$server_pid" && crt client; }
check "while a file does not answer clients are served and let in" stuck
check "and SIGTERM ends the server" stop_server "$server_pid"

# ---- SIGTERM under load: misses, no failures ----
bench() { timeout -k 5 100 "$build/kv-bench" --server "$server" --log-level info --num-clients 2 --num-workers 8 --num-keys 200 --value-size 16KB --duration 3 "${over[@]}" "$@"; }
drained() { # drained NAME ARGS... -- a run of kv-bench whose server is ended in the middle of the reads
	local name=$1 bench_pid
	shift
	start_server "$name" --log-level info || return 1
	log=$scratch/$name.err
	bench "$@" --json "$scratch/$name.json" >"$scratch/$name.bench" 2>&1 &
	bench_pid=$!
	pids+=("$bench_pid")
	soon grep -q warm-up "$scratch/$name.bench" && sleep 0.3 || return 1 # its line comes when the reads begin
	stop_server "$server_pid" || return 1
	wait "$bench_pid" || [ "$name" = batch ] || { cat "$scratch/$name.bench"; return 1; } # (without --keep-going what is missing is a failure of the run)
}
silent() { ! grep -E "WARN|ERROR" "$1"; }
clean() { grep -q "$2" "$1" && silent "$1"; }
check "SIGTERM in the middle of a run: the server ends with status 0, and so does kv-bench" drained single --keep-going
check "GETs were hits, then misses, and none failed" json_is "$scratch/single.json" "j['phases']['read']['hits'] > 0 and j['phases']['read']['misses'] > 0 and not j['phases']['read']['errors']"
check "the client's log has no complaint" clean "$scratch/single.bench" "its keys are misses until it is back"
check "nor has the server's, and both clients have said goodbye" clean "$log" "client .* left |"
check "batches, too" drained batch --batch 8
check "none of them failed" json_is "$scratch/batch.json" "j['phases']['read']['hits'] > 0 and j['phases']['read']['misses'] > 0 and not j['phases']['read']['errors']"
# A client that does not answer (it is stopped) is waited for as long as --drain-sec says; a second SIGTERM ends at once.
held() {
	mkfifo "$scratch/held.$1"
	"$build/kv-client" --server "$server" --timeout 20 "${over[@]}" <"$scratch/held.$1" >"$scratch/held.$1.out" 2>&1 &
	held_pid=$!
	pids+=("$held_pid")
	exec 9>"$scratch/held.$1"
	printf 'put k v\nget k\n' >&9
	soon grep -q . "$scratch/held.$1.out" && stand_still "$held_pid"
}
patient() {
	start_server patient --log-level info --drain-sec 1 && held 1 && stop_server "$server_pid" &&
		grep -q '1 client has not left by the end of the drain' "$scratch/patient.err" && return
	cat "$scratch/patient.err" "$scratch/held.1.out"
	return 1
}
check "a client that does not answer is cut after --drain-sec" patient
kill -KILL "$held_pid"
twice() {
	local rc
	start_server twice --log-level info --drain-sec 3600 && held 2 || return 1
	log=$scratch/twice.err
	signal TERM 1 'SIGTERM: saying goodbye to the clients' || return 1
	sleep 0.5
	kill -0 "$server_pid" && kill -TERM "$server_pid" || return 1
	wait "$server_pid"
	rc=$?
	[ "$rc" -eq 143 ] || { echo "status $rc"; return 1; }
}
check "a second SIGTERM ends the server at once" twice
begun() { # it waits for a key that nobody writes; its signals are sorted out when the thread is there that waits for them
	local pid rc
	mkfifo "$scratch/key.fifo"
	"$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 "${over[@]}" --psk-fd 7 7<>"$scratch/key.fifo" >"$scratch/begun.out" 2>&1 &
	pid=$!
	pids+=("$pid")
	soon eval "[ \"\$(ls /proc/$pid/task | wc -l)\" -gt 1 ]" && kill -TERM "$pid" || return 1
	wait "$pid"
	rc=$?
	[ "$rc" -eq 143 ] && [ ! -s "$scratch/begun.out" ] || { echo "status $rc"; cat "$scratch/begun.out"; return 1; }
}
check "SIGTERM ends a server that is still starting" begun
kill -KILL "$held_pid"
late() {
	start_server late && held 3 && kill -CONT "$held_pid" && stop_server "$server_pid" || return 1
	echo 'put k2 v2' >&9
	soon grep -qE 'the server is shutting down and accepts no more requests; (it said goodbye|server [^ ]+: connection refused)' "$scratch/held.3.out" && return
	cat "$scratch/held.3.out"
	return 1
}
check "a PUT to a server that has left says so" late
# A thread of the program stands still, as one does that a provider never gives back: the signal ends the program all the same, after 10 s, and here sooner.
frozen() { # frozen PID THREAD
	rm -f "$scratch/freeze.out"
	python3 tests/integration/freeze_thread.py "$1" "$2" >"$scratch/freeze.out" 2>&1 &
	pids+=($!)
	soon grep -q frozen "$scratch/freeze.out"
}
ends_by() { # ends_by PID SIGNAL STATUS
	local rc
	kill "-$2" "$1" && wait "$1"
	rc=$?
	[ "$rc" -eq "$3" ] || { echo "status $rc"; return 1; }
}
export KVRAIL_TEST_STUCK_PACE=5
no_ptrace=
sleep 100 &
pids+=($!)
frozen $! sleep || no_ptrace="a process may not be traced here"
server_stuck() {
	start_server stuck --drain-sec 3600 && frozen "$server_pid" kv-shard-1 && ends_by "$server_pid" TERM 143 &&
		grep -q 'worker thread 1 has not turned for 2.0 s after signal 15' "$scratch/stuck.err"
}
bench_stuck() {
	"$build/kv-bench" "${over[@]}" --num-workers 4 --num-clients 1 --num-keys 100 --duration 600 --quiet >"$scratch/bench.out" 2>&1 &
	local pid=$!
	pids+=("$pid")
	soon eval "grep -qs kvc-0 /proc/$pid/task/*/comm" && frozen "$pid" kvc-0 && ends_by "$pid" INT 130 &&
		grep -q 'has not answered for 2.0 s after signal 2' "$scratch/bench.out" && return
	cat "$scratch/freeze.out" "$scratch/bench.out"
	return 1
}
client_stuck() {
	start_server watched || return 1
	"$build/kv-client" --server "$server" "${over[@]}" --watch 200ms stat >"$scratch/top.out" 2>&1 &
	local pid=$!
	pids+=("$pid")
	soon eval "grep -qs kvc-0 /proc/$pid/task/*/comm" && soon grep -q "from now on" "$scratch/top.out" && frozen "$pid" kvc-0 && ends_by "$pid" TERM 143
}
if [ -n "$no_ptrace" ]; then
	for what in kv-server kv-bench kv-client; do skip "a signal ends $what though a thread of it stands still" "$no_ptrace"; done
else
	check "a signal ends kv-server though a thread of it stands still" server_stuck
	check "a signal ends kv-bench though a thread of it stands still" bench_stuck
	check "a signal ends kv-client though a thread of it stands still" client_stuck
fi
finish
