#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh -- the Debian packages in a bare root: lintian, installed, used, a program built with them, removed, nothing left.
#
# It needs root, debootstrap and a mirror of packages (that of this machine), and takes some minutes; it says what is missing and skips.
# KVRAIL_SUITE: the suite of the root (this machine's). The packages are those of `make deb`, in build/deb.
. "$(dirname "$0")/../integration/lib.bash"
packages=$PWD/build/deb
root=$scratch/root
sources=$PWD

skip_all() {
	echo "1..0 # SKIP $*"
	exit 0
}
[ "$(id -u)" -eq 0 ] || skip_all "a root folder is made by root only"
command -v debootstrap >/dev/null || skip_all "debootstrap is not installed"
suite=${KVRAIL_SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 -E '/(debian|ubuntu)/?$')
debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"} >"$scratch/debootstrap.log" 2>&1 ||
	skip_all "debootstrap cannot make a root: $(tail -n 1 "$scratch/debootstrap.log")"

undo() {
	umount "$root/proc" "$root/dev/shm" "$root/dev" 2>/dev/null
	cleanup
}
trap undo EXIT
mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" && mount --bind /dev/shm "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null
cp -a /etc/apt/apt.conf.d /etc/apt/sources.list* "$root/etc/apt/" 2>/dev/null
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
files() { # all that a package could leave behind
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log \) -prune -o -print | sort)
}
no_trace() {
	files >"$scratch/after"
	! comm -13 "$scratch/before" "$scratch/after" | grep -E 'kvrail|kv-(server|bench|client|doctor)'
}

plan 15
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
check "the library and its headers can be installed" install /tmp/libkvrail0_*.deb /tmp/libkvrail-dev_*.deb gcc libc6-dev pkg-config
check "a program is built with them" inside sh -c 'cc /usr/share/doc/libkvrail-dev/examples/embed.c -o /tmp/embed $(pkg-config --cflags --libs kvrail)'
check "and runs" inside sh -c '
	kv-server --listen-addr 127.0.0.1:7411 --memory-mb 64 >/tmp/out 2>&1 &
	for i in $(seq 100); do grep -q READY /tmp/out && break; sleep 0.1; done
	/tmp/embed 127.0.0.1:7411; rc=$?; kill $!; wait $!; exit $rc'
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
