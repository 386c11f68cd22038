#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lifetime.sh -- how a kv-server begins, changes its keys and ends: ports that are taken, signals.
. "$(dirname "$0")/lib.bash"
plan 17

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
	says "listening on 127\.0\.0\.1:$port: .*nobody listens there.*TIME_WAIT" "$build/kv-server" --listen-addr "127.0.0.1:$port" "${small[@]}"
start_server first || exit 1
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
soon() { # soon COMMAND... -- it succeeds within half a minute
	local i
	for ((i = 0; i < 300; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	return 1
}
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
check "SIGHUP reads the key file again" signal HUP 1 'keys and certificates were read again'
check "the new key is let in" soon client --psk-file "$scratch/new-psk" ping
check "the old one is not" status 3 client --psk-file "$scratch/old-psk" ping
check "a connection of before lives on" ask 'get k' old-value
echo 'no key at all' >"$scratch/psk"
check "a file that cannot be used is told" signal HUP 1 'stay in force'
check "and the key that was in force stays" status 0 client --psk-file "$scratch/new-psk" ping
check "SIGUSR1 raises the log's level" signal USR1 1 "SIGUSR1: the log's level is debug"
check "SIGUSR2 lowers it" signal USR2 1 "SIGUSR2: the log's level is info"
kill -USR1 "$server_pid"
check "SIGHUP sets it to --log-level" signal HUP 1 "SIGHUP: the log's level is info"
exec 8>&-
check "SIGTERM ends it with status 0" stop_server "$server_pid"

# A certificate on a file system that does not answer: whoever opens a FIFO that nobody writes to waits for ever.
scripts/make-test-certs.sh "$scratch/certs" >/dev/null 2>&1
c=$scratch/certs
crt() { client --cert "$c/$1.pem" --key "$c/$1.key" --ca "$c/ca.pem" ping; }
cp "$c/server.pem" "$scratch/server.pem" && cp "$c/crl.pem" "$scratch/crl.pem"
log=$scratch/fifo.err
start_server fifo --log-level info --cert "$scratch/server.pem" --key "$c/server.key" --ca "$c/ca.pem" --crl "$scratch/crl.pem" || exit 1
list_again() { cp "$c/crl.pem" "$scratch/next" && mv "$scratch/next" "$scratch/crl.pem" && soon said 1 'CRL file .* was read again'; }
check "a revocation list that is replaced is read without a signal" list_again
rm "$scratch/server.pem" && mkfifo "$scratch/server.pem"
stuck() { signal HUP 1 'SIGHUP: reading' && sleep 0.5 && crt client && kill -HUP "$server_pid" && crt client; }
check "while a file does not answer clients are served and let in" stuck
check "and SIGTERM ends the server" stop_server "$server_pid"
finish
