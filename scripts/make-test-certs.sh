#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make-test-certs.sh -- a certificate authority, a server's and a client's certificate, for tests and for trying things out.
#
#   scripts/make-test-certs.sh [--rsa] DIR [NAME...]
#
# Writes DIR/ca.pem, ca.key, server.pem, server.key, client.pem, client.key. The server's certificate names localhost, 127.0.0.1,
# ::1 and each NAME (host name or address). Keys are P-256, or RSA with --rsa. Valid for 30 days: for production use the CA of your
# house, with extended key usage serverAuth for servers and clientAuth for clients, and keep ca.key away from both.
#
#   kv-server --cert DIR/server.pem --key DIR/server.key --ca DIR/ca.pem
#   kv-client --cert DIR/client.pem --key DIR/client.key --ca DIR/ca.pem
set -eu
die() {
	echo "make-test-certs.sh: $*" >&2
	exit 1
}
kind=(EC -pkeyopt ec_paramgen_curve:P-256)
if [ "${1:-}" = --rsa ]; then
	kind=(RSA -pkeyopt rsa_keygen_bits:3072)
	shift
fi
[ $# -ge 1 ] || die "usage: make-test-certs.sh [--rsa] DIR [NAME...]"
command -v openssl >/dev/null || die "openssl is not installed"
dir=$1
shift
umask 077
mkdir -p "$dir"
[ ! -e "$dir/ca.key" ] || die "$dir/ca.key is there already: choose an empty directory, or remove it"

names=DNS:localhost,IP:127.0.0.1,IP:::1
for name in "$@"; do
	case $name in
	*:* | *[0-9].[0-9]*.[0-9]*.[0-9]*) names=$names,IP:$name ;;
	*) names=$names,DNS:$name ;;
	esac
done

quietly() { # quietly COMMAND...: its output only when it fails
	out=$("$@" 2>&1) || die "$* failed: $out"
}
new_key() { quietly openssl genpkey -algorithm "${kind[@]}" -out "$1"; }

# A serial number in the name tells two authorities made by this script apart.
new_key "$dir/ca.key"
quietly openssl req -x509 -new -key "$dir/ca.key" -days 30 -subj "/CN=KVRail test CA $(openssl rand -hex 4)" \
	-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -out "$dir/ca.pem"

issue() { # issue NAME EXTENSIONS: NAME.key and NAME.pem, signed by the CA
	new_key "$dir/$1.key"
	quietly openssl req -new -key "$dir/$1.key" -subj "/CN=KVRail test $1" -out "$dir/$1.csr"
	printf '%s\n' basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature "${@:2}" >"$dir/$1.ext"
	quietly openssl x509 -req -in "$dir/$1.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -CAcreateserial -days 30 -sha256 \
		-extfile "$dir/$1.ext" -out "$dir/$1.pem"
	rm -f "$dir/$1.csr" "$dir/$1.ext"
}
issue server extendedKeyUsage=serverAuth "subjectAltName=$names"
issue client extendedKeyUsage=clientAuth
rm -f "$dir/ca.srl"
chmod 644 "$dir"/*.pem
echo "made $dir/{ca,server,client}.{pem,key}"
