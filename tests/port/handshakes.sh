#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# handshakes.sh -- how late heartbeats are while strangers hold handshakes: a measurement, not a test (tests/bootstrap/test_gate.c is that).
#
#   make build/release/tests/port/beats && tests/port/handshakes.sh [HELD [SECONDS [BITS [churn|burst]]]]      1000 15 4096
#
# A kv-server with an RSA key of so many bits, an honest client, and held.py. A heartbeat is due every 500 ms. churn: connections are not
# held, but made anew as soon as the server has signed for them. burst: all of them say their ClientHello at once.
set -eu
cd "$(dirname "$0")/../.."
build=${KVRAIL_BUILD:-build/release}
held=${1:-1000} seconds=${2:-15} bits=${3:-4096}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-handshakes.XXXXXX")
pid='' attack=
trap 'for p in $pid $attack; do kill "$p" 2>/dev/null || true; done; wait 2>/dev/null; rm -rf "$scratch"' EXIT
scripts/make-test-certs.sh "--rsa=$bits" "$scratch/certs" >/dev/null
c=$scratch/certs
"$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 64 --worker-threads 1 --cert "$c/server.pem" --key "$c/server.key" --ca "$c/ca.pem" \
	>"$scratch/out" 2>"$scratch/err" &
pid=$!
for _ in $(seq 100); do
	address=$(sed -n 's/^.*kv-server ready on \([^ ]*\) .*/\1/p' "$scratch/out")
	[ "$address" ] && break
	sleep 0.1
done
[ "$address" ] || { cat "$scratch/err" >&2; exit 1; }
tests/port/held.py "${address%:*}" "${address##*:}" "$held" "$((seconds + 4))" "${4:-held}" &
attack=$!
sleep 2
rc=0
"$build/tests/port/beats" "$address" "$c/client.pem" "$c/client.key" "$c/ca.pem" "$seconds" || rc=$?
wait "$attack"
grep -v 'is not admitted\|left out' "$scratch/err" | tail -5 || true
exit "$rc"
