#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nixl.sh -- NIXL itself, from its wheels, with our plug-in (nixl/): nixl_checks.py has the tests, each a process of its
# own.
#
# NIXL=DIR nixl.sh: also compares our declaration of NIXL's interface with the headers in DIR, and tries the plug-in
# that is built with them. KVRAIL_NIXL_TRANSFERS: how many transfers the test of memory makes.
. "$(dirname "$0")/lib.bash"
versions=(1.4.1 1.5.0 1.5.1)
cases=(bytes keys ranges pieces query statuses killed stopped release threads shared wrong secret beside named)
tests=$((5 + ${#versions[@]} * (1 + ${#cases[@]}) + 2))
headers=${NIXL:-}

# packages VERSION -- the list of that version, and its environment: sets $venv and $python.
packages() {
	sed "s/^nixl-cu12==.*/nixl-cu12==$1/" tests/engines/nixl.txt >"$scratch/nixl-$1.txt"
	venv_made "nixl_${1//./_}" "$scratch/nixl-$1.txt"
}

# linked -- our plug-in next to NIXL's own, and the package kvrail.
linked() {
	local plugins
	plugins=$("$python" tests/engines/nixl_checks.py plugins) && [ -d "$plugins" ] &&
		ln -sfn "$build/nixl/api1/libplugin_KVRAIL.so" "$plugins/libplugin_KVRAIL.so" && our_package
}

# nixl NAME CASE ARG... -- a test of nixl_checks.py.
nixl() {
	local name=$1
	shift
	check "$name" quiet timeout -k 10 "${seconds:-120}" "$python" tests/engines/nixl_checks.py "$@"
}
quiet() {
	local said="$scratch/quiet" rc
	PYTHONUNBUFFERED=1 NIXL_LOG_LEVEL=${NIXL_LOG_LEVEL:-ERROR} "$@" >"$said" 2>&1 </dev/null
	rc=$?
	[ "$rc" -ne 0 ] || {
		grep '^# ' "$said" >&3
		return 0
	}
	gist "$rc" "$said"
	return 1
}
exec 3>&1

# with_server COMMAND... -- runs it with the address of a new kv-server behind it.
with_server() {
	local rc
	start_server nixl && timeout -k 10 120 "$@" "$server"
	rc=$?
	stop_server "$server_pid"
	return $rc
}

# host API VERSION -- the stand-in for NIXL of tests/nixl/.
host() { with_server "$build/tests/nixl/host" "$build/nixl/$1/libplugin_KVRAIL.so" "$2"; }

# layout -- our declaration against NIXL's headers in $headers.
layout() {
	local compile=("${CXX:-g++}" -std=c++20 -w -fno-access-control -I.) found
	mapfile -t found < <(make --no-print-directory -s nixl-headers NIXL="$headers")
	"${compile[@]}" -o "$scratch/ours" tests/nixl/layout.cc &&
		"${compile[@]}" -DKVRAIL_NIXL_HEADERS -Inixl/stand-in "${found[@]/#/-isystem}" -o "$scratch/theirs" \
			tests/nixl/layout.cc &&
		"$scratch/ours" >"$scratch/ours.txt" && "$scratch/theirs" >"$scratch/theirs.txt" &&
		diff "$scratch/ours.txt" "$scratch/theirs.txt"
}

# build_all -- as `make nixl` does; with the headers in $headers as well.
build_all() {
	local make=(make --no-print-directory MODE="$(basename "$build" -clang)")
	"${make[@]}" nixl NIXL= "${build#"$PWD/"}/tests/nixl/host" &&
		{ [ -z "$headers" ] || "${make[@]}" nixl NIXL="$headers"; }
}

if [ "$only" = environment ]; then
	for v in "${versions[@]}"; do packages "$v"; done
	exit 0
fi
plan $tests
command -v "${CXX:-g++}" >/dev/null || skip_all $tests "there is no C++ compiler (Debian: apt-get install g++)"
check "the plug-in can be built" build_all
check "version 1 of the interface: tests/nixl/host" host api1 1
check "version 2 of the interface: tests/nixl/host" host api2 2
if [ -n "$headers" ]; then
	check "our declaration of the interface is that of the headers" layout
	plugin_h=$(find -L "$headers" -name backend_plugin.h | head -n 1)
	check "the plug-in built with the headers: tests/nixl/host" host headers \
		"$(sed -n 's/^#define NIXL_PLUGIN_API_VERSION //p' "$plugin_h")"
else
	skip "our declaration of the interface is that of the headers" "NIXL names no folder of NIXL's headers"
	skip "the plug-in built with the headers: tests/nixl/host" "NIXL names no folder of NIXL's headers"
fi
for v in "${versions[@]}"; do
	if ! packages "$v"; then
		for c in setup "${cases[@]}"; do skip "nixl $v: $c" "$why"; done
		continue
	fi
	check "nixl $v: the plug-in is put next to NIXL's own" linked
	for c in "${cases[@]}"; do
		if [ "$c" = named ]; then # only our folder: it has the link OBJ
			NIXL_PLUGIN_DIR=$build/nixl/api1 nixl "nixl $v: $c" "$c"
		else
			nixl "nixl $v: $c" "$c"
		fi
	done
done
for c in memory ratio; do
	if [ -e "$venv/complete" ]; then seconds=900 nixl "nixl $v: $c" "$c"; else skip "nixl $v: $c" "$why"; fi
done
finish
