#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# security.sh -- who may connect: pre-shared keys, certificates, and the refusal to listen openly.
. "$(dirname "$0")/lib.bash"
plan 32
umask 077
printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/psk"
printf 'bench:%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$scratch/other-psk"
scripts/make-test-certs.sh --odd "$scratch/certs" >/dev/null 2>&1
scripts/make-test-certs.sh "$scratch/foreign" >/dev/null 2>&1
ls "$scratch/certs" | sed 's/^/# /'
server_at() { # server_at HOST:PORT COMMAND...
	local server=$1
	shift
	"$@"
}
client() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 10 "${over[@]}" "$@"; }

start_server psk --psk-file "$scratch/psk" || exit 1
check "the right key is let in" status 0 client --psk-file "$scratch/psk" ping
check "a wrong key is not" status 3 client --psk-file "$scratch/other-psk" ping
check "no key is not" status 3 client ping
check "and it is told why" says 'psk|key|TLS|denied' client --psk-file "$scratch/other-psk" ping
c=$scratch/certs f=$scratch/foreign
start_server cert --log-level info --cert "$c/server.pem" --key "$c/server.key" --ca "$c/ca.pem" || exit 1
check "a certificate of the CA is let in" status 0 client --cert "$c/client.pem" --key "$c/client.key" --ca "$c/ca.pem" ping
check "one of another CA is not" status 3 client --cert "$f/client.pem" --key "$f/client.key" --ca "$c/ca.pem" ping
check "a server of another CA is not believed" status 3 client --cert "$c/client.pem" --key "$c/client.key" --ca "$f/ca.pem" ping
check "no certificate is not" status 3 client ping
# Names: what is dialled is what the certificate must name; what it is made for; who is who in the log.
crt() { local who=$1; shift; client --cert "$c/$who.pem" --key "$c/$who.key" --ca "$c/ca.pem" "$@" ping; }
port=${server##*:}
check "the server's log says who the client is" grep -q 'certificate CN=KVRail test client' "$scratch/cert.err"
check "a name of the certificate can be dialled" status 0 server_at "localhost:$port" crt client
check "a name that it does not have is asked for in vain" says 'does not name "elsewhere.example"' crt client --server-name elsewhere.example
check "a server's certificate is no client's" says 'extended key usage does not allow' crt server
check "and the server says so" grep -q 'extended key usage lacks clientAuth; issue one for a client' "$scratch/cert.err"
start_server impostor --cert "$c/client.pem" --key "$c/client.key" --ca "$c/ca.pem" || exit 1
check "a client's certificate is no server's" says 'extended key usage lacks serverAuth; issue one for a server' crt client
start_server unnamed --cert "$c/nameless.pem" --key "$c/nameless.key" --ca "$c/ca.pem" || exit 1
check "a common name is no name" says 'does not name "127.0.0.1": issue one with that subject alternative name' crt client

# Dates: one certificate expires in a moment, another begins tomorrow.
dated() { # dated NAME BEGIN END -- a client's certificate of the CA, valid between these times
	mkdir -p "$scratch/dated" && : >"$scratch/dated/index.$1" &&
		printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s\nrand_serial=yes\nnew_certs_dir=%s\ndefault_md=sha256\npolicy=p\nx509_extensions=x\n[p]\ncommonName=supplied\n[x]\nextendedKeyUsage=clientAuth\n' \
			"$scratch/dated/index.$1" "$scratch/dated" >"$scratch/dated/$1.cnf" &&
		openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=KVRail $1" -keyout "$c/$1.key" -out "$scratch/dated/$1.csr" 2>/dev/null &&
		openssl ca -batch -notext -config "$scratch/dated/$1.cnf" -cert "$c/ca.pem" -keyfile "$c/ca.key" -startdate "$(date -u -d "$2" +%y%m%d%H%M%SZ)" -enddate "$(date -u -d "$3" +%y%m%d%H%M%SZ)" -in "$scratch/dated/$1.csr" -out "$c/$1.pem" 2>"$scratch/dated/$1.err" || { cat "$scratch/dated/$1.err"; return 1; }
}
start_server dates --log-level info --cert "$c/server.pem" --key "$c/server.key" --ca "$c/ca.pem" || exit 1
early() { dated early tomorrow 'next week' && says 'is not valid yet' crt early; }
check "a client's certificate that is not valid yet is refused" early
check "and the server says so" grep -q "its certificate, or its CA's, is not valid yet: set the clocks" "$scratch/dates.err"
expires() {
	dated brief '1 hour ago' 'now + 6 seconds' || return 1
	client --cert "$c/brief.pem" --key "$c/brief.key" --ca "$c/ca.pem" --watch 200ms stat >"$scratch/brief.out" 2>&1 &
	pids+=($!)
	soon grep -q 'from now on' "$scratch/brief.out" && soon grep -q "client .*: its certificate, or its CA's, has expired: the connection ends" "$scratch/dates.err" && return
	cat "$scratch/brief.out" "$scratch/dates.err"
	return 1
}
check "the connection of a client ends when its certificate expires" expires
check "and it is refused afterwards" says 'refused our certificate, which has expired' crt brief

# Revocation.
start_server crl --cert "$c/server.pem" --key "$c/server.key" --ca "$c/ca.pem" --crl "$c/crl.pem" || exit 1
check "with a revocation list others are let in" status 0 crt client --crl "$c/crl.pem"
check "a revoked client is not" says 'it refused our certificate, which is revoked' crt revoked
check "and the server says so" grep -q 'CN=KVRail test revoked) is revoked by our CRL file' "$scratch/crl.err"
check "a list that is not of the server's CA refuses it" says 'has no list of its issuer' crt client --crl "$f/crl.pem"
check "a list that has expired is no beginning" says 'has expired: fetch' "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --cert "$c/server.pem" --key "$c/server.key" --ca "$c/ca.pem" --crl "$c/old-crl.pem"

check "listening beyond loopback without keys is refused" status 2 "$build/kv-server" --listen-addr 0.0.0.0:0 --memory-mb 64
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
