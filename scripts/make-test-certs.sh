#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make-test-certs.sh -- makes a certificate authority, and certificates of a server and a client, for tests and trials.
#
#   scripts/make-test-certs.sh [--rsa[=BITS]] [--odd] DIR [NAME...]
#
# Writes into DIR ca.pem, ca.key, server.pem, server.key, client.pem and client.key; member.pem and member.key of a
# server of a cluster, which hands over to the others as their client; revoked.pem and revoked.key of
# another client, and crl.pem, which revokes it. The servers' certificates name localhost, 127.0.0.1, ::1 and each NAME
# (a host name or an address). Keys are P-256, or RSA (3072 bits) with --rsa. All is valid for 30 days. For production
# use your own authority, with extended key usage serverAuth for servers and clientAuth for clients, and keep ca.key
# away from both.
#
#   kv-server --cert DIR/server.pem --key DIR/server.key --ca DIR/ca.pem --crl DIR/crl.pem
#   kv-client --cert DIR/client.pem --key DIR/client.key --ca DIR/ca.pem --crl DIR/crl.pem
#
# --odd also makes what must be refused: any.pem, without extended key usage; nosign.pem, whose key usage lacks
# digitalSignature; nameless.pem, a server's certificate whose only name is the common name localhost; old-crl.pem and
# early-crl.pem, lists that have expired and that are not valid yet.
set -eu
die() {
	echo "make-test-certs.sh: $*" >&2
	exit 1
}
kind=(EC -pkeyopt ec_paramgen_curve:P-256)
odd=
while :; do
	case ${1:-} in
	--rsa) kind=(RSA -pkeyopt rsa_keygen_bits:3072) ;;
	--rsa=*) kind=(RSA -pkeyopt "rsa_keygen_bits:${1#--rsa=}") ;;
	--odd) odd=1 ;;
	*) break ;;
	esac
	shift
done
[ $# -ge 1 ] || die "usage: make-test-certs.sh [--rsa[=BITS]] [--odd] DIR [NAME...]"
command -v openssl >/dev/null || die "openssl is not installed"
dir=$1
shift
umask 077
mkdir -p "$dir"
[ ! -e "$dir/ca.key" ] || die "$dir/ca.key exists already: choose an empty directory, or remove the file"

names=DNS:localhost,IP:127.0.0.1,IP:::1
for name in "$@"; do
	case $name in
	*:* | *[0-9].[0-9]*.[0-9]*.[0-9]*) names=$names,IP:$name ;;
	*) names=$names,DNS:$name ;;
	esac
done

quietly() { # COMMAND...: shows its output only when it fails
	out=$("$@" 2>&1) || die "$* failed: $out"
}
new_key() { quietly openssl genpkey -algorithm "${kind[@]}" -out "$1"; }

# A random number in the name tells apart two authorities that this script made.
new_key "$dir/ca.key"
quietly openssl req -x509 -new -key "$dir/ca.key" -days 30 -subj "/CN=KVRail test CA $(openssl rand -hex 4)" \
	-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -out "$dir/ca.pem"

issue() { # NAME EXTENSIONS: makes NAME.key and NAME.pem, signed by the authority
	new_key "$dir/$1.key"
	quietly openssl req -new -key "$dir/$1.key" -subj "/CN=${subject:-KVRail test $1}" -out "$dir/$1.csr"
	printf '%s\n' basicConstraints=critical,CA:FALSE "keyUsage=critical,${usage:-digitalSignature}" "${@:2}" >"$dir/$1.ext"
	quietly openssl x509 -req -in "$dir/$1.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -CAcreateserial -days 30 -sha256 \
		-extfile "$dir/$1.ext" -out "$dir/$1.pem"
	rm -f "$dir/$1.csr" "$dir/$1.ext"
}
issue server extendedKeyUsage=serverAuth "subjectAltName=$names"
issue member extendedKeyUsage=serverAuth,clientAuth "subjectAltName=$names"
issue client extendedKeyUsage=clientAuth
issue revoked extendedKeyUsage=clientAuth
if [ "$odd" ]; then
	issue any "subjectAltName=$names"
	usage=keyAgreement issue nosign extendedKeyUsage=serverAuth,clientAuth "subjectAltName=$names"
	subject=localhost issue nameless extendedKeyUsage=serverAuth
fi

revoke() { # LIST ARGUMENT...: makes a list that revokes revoked.pem
	quietly openssl ca -config "$dir/ca.cnf" -gencrl -md sha256 -keyfile "$dir/ca.key" -cert "$dir/ca.pem" \
		-out "$dir/$1" "${@:2}"
}
printf '[ca]\ndefault_ca=it\n[it]\ndatabase=%s/ca.txt\ncrlnumber=%s/ca.number\n' "$dir" "$dir" >"$dir/ca.cnf"
echo 01 >"$dir/ca.number"
printf 'R\t491231235959Z\t%s\t%s\tunknown\t/CN=revoked\n' "$(date -u +%y%m%d%H%M%SZ)" \
	"$(openssl x509 -in "$dir/revoked.pem" -noout -serial | cut -d= -f2)" >"$dir/ca.txt"
revoke crl.pem -crldays 30
if [ "$odd" ]; then
	revoke old-crl.pem -crl_lastupdate 20200101000000Z -crl_nextupdate 20200201000000Z
	revoke early-crl.pem -crl_lastupdate 20490101000000Z -crl_nextupdate 20490201000000Z
fi
rm -f "$dir"/ca.srl "$dir"/ca.cnf "$dir"/ca.txt* "$dir"/ca.number*
chmod 644 "$dir"/*.pem
echo "made $dir/{ca,server,member,client,revoked}.{pem,key} and $dir/crl.pem"
