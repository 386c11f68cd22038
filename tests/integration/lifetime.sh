#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lifetime.sh -- how a kv-server begins and ends: ports that are taken.
. "$(dirname "$0")/lib.bash"
plan 3

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
finish
