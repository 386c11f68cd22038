#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# security.sh -- who may connect: pre-shared keys, certificates, and the refusal to listen openly.
. "$(dirname "$0")/lib.bash"
plan 16
umask 077
printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/psk"
printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/other-psk"
scripts/make-test-certs.sh "$scratch/certs" >/dev/null 2>&1
scripts/make-test-certs.sh "$scratch/foreign" >/dev/null 2>&1
ls "$scratch/certs" | sed 's/^/# /'
client() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 10 "${over[@]}" "$@"; }

start_server psk --psk-file "$scratch/psk" || exit 1
check "the right key is let in" status 0 client --psk-file "$scratch/psk" ping
check "a wrong key is not" status 3 client --psk-file "$scratch/other-psk" ping
check "no key is not" status 3 client ping
check "and it is told why" says 'psk|key|TLS|denied' client --psk-file "$scratch/other-psk" ping
c=$scratch/certs f=$scratch/foreign
start_server cert --cert "$c/server.pem" --key "$c/server.key" --ca "$c/ca.pem" || exit 1
check "a certificate of the CA is let in" status 0 client --cert "$c/client.pem" --key "$c/client.key" --ca "$c/ca.pem" ping
check "one of another CA is not" status 3 client --cert "$f/client.pem" --key "$f/client.key" --ca "$c/ca.pem" ping
check "a server of another CA is not believed" status 3 client --cert "$c/client.pem" --key "$c/client.key" --ca "$f/ca.pem" ping
check "no certificate is not" status 3 client ping
check "listening beyond loopback without keys is refused" status 3 "$build/kv-server" --listen-addr 0.0.0.0:0 --memory-mb 64
check "with a sentence that names the way out" says '--insecure' "$build/kv-server" --listen-addr 0.0.0.0:0 --memory-mb 64
chmod 644 "$scratch/psk"
check "a key file that others may read is refused" says 'chmod' "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --psk-file "$scratch/psk"
check "both a key and certificates are refused" says 'psk' "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --psk-file "$scratch/other-psk" --cert "$c/server.pem" --key "$c/server.key" --ca "$c/ca.pem"

# What the logs say, at their most talkative: never a key, whichever way a connection goes.
chmod 600 "$scratch/psk"
start_server talk --psk-file "$scratch/psk" --log-level trace || exit 1
{
	client --log-level trace --psk-file "$scratch/psk" put talk <<<"some value" || true
	client --log-level trace --psk-file "$scratch/psk" ping
	client --log-level trace --psk-file "$scratch/other-psk" ping || true
	client --log-level trace ping || true
} >"$scratch/client.log" 2>&1
stop_server "$server_pid"
key=$(sed 's/.*://' "$scratch/psk") other=$(sed 's/.*://' "$scratch/other-psk")
# secret_free FILE... -- no 16 digits of either key, in either case.
secret_free() {
	local i k
	for k in "$key" "$other"; do
		for ((i = 0; i + 16 <= ${#k}; i += 8)); do
			! grep -qiF "${k:i:16}" "$@" || return 1
		done
	done
}
check "the server's log was not empty" grep -q . "$scratch/talk.err"
check "the server's log has no key" secret_free "$scratch/talk.err" "$scratch/talk.out"
check "the client's log has no key" secret_free "$scratch/client.log"
check "the search finds a key where there is one" status 1 secret_free "$scratch/psk"
finish
