#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# security.sh -- who may connect: pre-shared keys, certificates, and the refusal to listen openly.
. "$(dirname "$0")/lib.bash"
plan 12
umask 077
printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/psk"
printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/other-psk"
scripts/make-test-certs.sh "$scratch/certs" >/dev/null 2>&1
scripts/make-test-certs.sh "$scratch/foreign" >/dev/null 2>&1
ls "$scratch/certs" | sed 's/^/# /'
client() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 10 "$@"; }

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
finish
