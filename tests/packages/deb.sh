#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh -- the Debian packages in a bare root: lintian, installed, used, a program built with them, removed, nothing left.
#
# It needs root, debootstrap and a mirror of packages (that of this machine), and takes some minutes; it says what is missing and skips.
# KVRAIL_SUITE: the suite of the root (this machine's). The packages are those of `make deb`, in build/deb.
. "$(dirname "$0")/../integration/lib.bash"
. tests/packages/root.bash
packages=$PWD/build/deb
root=$scratch/root
sources=$PWD

suite=${KVRAIL_SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
root_make "$suite" "$root"
root_ready "$root"
cp -a /etc/apt/sources.list* "$root/etc/apt/" 2>/dev/null
inside() { within "$root" "$@"; }
files() { # all that a package could leave behind
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log \) -prune -o -print | sort)
}
no_trace() {
	files >"$scratch/after"
	! comm -13 "$scratch/before" "$scratch/after" | grep -E 'kvrail|kv-(server|bench|client|doctor)'
}

plan 18
no_errors() { ! lintian --fail-on error "$packages"/*.changes 2>&1 | grep '^E:'; }
check "lintian finds no error" no_errors
files >"$scratch/before"
cp "$packages"/*.deb "$root/tmp/"
inside apt-get update -q >/dev/null 2>&1
install() { inside sh -c "apt-get install -y --no-install-recommends $*"; }
check "the tools can be installed" install /tmp/kvrail-tools_*.deb
check "kv-doctor runs" inside kv-doctor --version
check "kv-bench runs, with a server of its own" inside kv-bench --num-workers 4 --num-clients 1 --num-keys 50 --duration 0.2 --memory-mb 64
check "the user of the service is there, and is nobody who could log in" inside sh -c 'getent passwd kvrail | grep nologin'
check "its keys have a folder that only it reads" inside sh -c '[ "$(stat -c "%U %a" /etc/kvrail)" = "kvrail 700" ]'
check "it serves as that user, with the options of the service" inside sh -c '
	. /etc/default/kv-server
	setpriv --reuid kvrail --regid kvrail --clear-groups kv-server --listen-addr 127.0.0.1:0 $KV_SERVER_OPTIONS >/tmp/out 2>&1 &
	for i in $(seq 100); do grep -q READY /tmp/out && break; sleep 0.1; done
	grep READY /tmp/out || { cat /tmp/out; exit 1; }
	kill $! && wait $!'
verify() { # the unit, where this machine has the tool: the root has none
	command -v systemd-analyze >/dev/null || return 0
	# The root has neither kill nor man, which the unit names.
	! systemd-analyze verify --root "$root" kv-server.service 2>&1 | grep -vE "Command (/bin/kill|'man )"
}
check "systemd understands the unit" verify
manual_named() { # what the unit says to read is there
	local file
	file=$(sed -n 's|^Documentation=.*file://||p' "$root/lib/systemd/system/kv-server.service")
	[ -n "$file" ] && [ -s "$root$file" ]
}
check "and the document that the unit names is there" manual_named
check "the library and its headers can be installed" install /tmp/libkvrail0_*.deb /tmp/libkvrail-dev_*.deb g++ libc6-dev pkg-config
links_lead() { # of the documents for programmers: to each other, and to the examples
	local doc link dead=0 at=$root/usr/share/doc/libkvrail-dev
	[ -s "$at/docs/guide/embedding.md" ] || return 1
	while read -r doc; do
		while read -r link; do
			[ -e "$(dirname "$doc")/$link" ] || { echo "${doc#"$at/"}: $link" && dead=1; }
		done < <(grep -oE '\]\([^)#]+' "$doc" | sed 's/^](//' | grep -vE '^[a-z]+:')
	done < <(find "$at" -name '*.md')
	return $dead
}
check "and their documents lead to each other" links_lead
check "each example is built with them" inside sh -c '
	cd /usr/share/doc/libkvrail-dev/examples && ls raii.cc >/dev/null || exit 1
	for e in *; do
		with="cc -std=gnu11"
		[ "${e%.cc}" = "$e" ] || with="c++ -std=c++17"
		$with "$e" -o "/tmp/${e%.*}" $(pkg-config --cflags --libs kvrail) $([ "$e" != uring.c ] || echo -luring) || exit 1
	done'
check "and runs" inside sh -c '
	kv-server --listen-addr 127.0.0.1:7411 --memory-mb 64 >/tmp/out 2>&1 &
	for i in $(seq 100); do grep -q READY /tmp/out && break; sleep 0.1; done
	rc=0
	for e in /usr/share/doc/libkvrail-dev/examples/*; do
		e=$(basename "${e%.*}")
		"/tmp/$e" 127.0.0.1:7411 || { [ "$e" = uring ] && "/tmp/$e" 127.0.0.1:7411 2>&1 | grep "no io_uring"; } || rc=1
	done
	kill $!; wait $!; exit $rc'
check "the manual has a page of each function" inside sh -c '
	nm -D --defined-only /usr/lib/*/libkvrail.so.0 | sed -n "s/.* T //p" | while read -r f; do [ -s "/usr/share/man/man3/$f.3.gz" ] || { echo "$f" && exit 1; }; done'
check "the Python package can be installed" install /tmp/python3-kvrail_*.deb
check "it stores and reads, and Debian knows its version" inside python3 -X dev -W error -c '
import importlib.metadata, kvrail
assert importlib.metadata.version("kvrail") == kvrail.__version__
with kvrail.Server(memory_mb=64) as server, kvrail.Client(server.address) as client:
    client.put("key", b"value")
    assert client.get("key") == b"value"'
check "all are removed" inside apt-get purge -y kvrail-tools python3-kvrail libkvrail0 libkvrail-dev
check "and leave nothing" no_trace
finish
