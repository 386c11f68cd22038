#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lmcache.sh -- LMCache itself, built for CPUs, on kvrail.lmcache: its benchmarks of L2 and of the server, its own tests of
# native connectors, and what it does when a kv-server dies. lmcache_checks.py has the tests; any of them can be run alone.
#
# NIXL=DIR lmcache.sh: also LMCache's nixl_native on NIXL's wheel with our plug-in. Its C++ part is not in LMCache's
# packages, and is compiled with NIXL's headers in DIR.
. "$(dirname "$0")/lib.bash"
version=0.5.6
tests=31
headers=${NIXL:-}
export LMCACHE_TRACK_USAGE=false LMCACHE_DISABLE_BANNER=1 MAX_JOBS=2

# LMCache publishes wheels for CUDA alone; its source package also builds for CPUs, and has its tests.
made_lmcache() {
	cd "$venv" && export NO_GPU_EXT=1 CFLAGS=-g0 &&
		"$python" -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: lmcache==0.5.6 &&
		"$python" -m pip install --quiet --no-deps --no-build-isolation ./lmcache-0.5.6.tar.gz &&
		tar -xzf lmcache-0.5.6.tar.gz lmcache-0.5.6/tests lmcache-0.5.6/pytest.ini && mv lmcache-0.5.6 upstream &&
		rm lmcache-0.5.6.tar.gz
}

# nixl_part -- LMCache's C++ part of nixl_native, NIXL, and our plug-in next to NIXL's own.
nixl_part() {
	local packages parts=$venv/nixl/lmcache-$version/csrc/storage_backends plugins found f
	packages=$(echo "$venv"/lib/python3*/site-packages)
	mapfile -t found < <(make --no-print-directory -s nixl-headers NIXL="$headers")
	make --no-print-directory MODE="$(basename "$build" -clang)" nixl NIXL= &&
		"$python" -m pip install --quiet --no-deps nixl-cu12==1.5.1 &&
		plugins=$("$python" tests/engines/nixl_checks.py plugins) &&
		ln -sfn "$build/nixl/api1/libplugin_KVRAIL.so" "$plugins/libplugin_KVRAIL.so" || return 1
	[ -e "$packages"/lmcache/lmcache_nixl.so ] && return 0
	mkdir -p "$venv/nixl" && (cd "$venv/nixl" && NO_GPU_EXT=1 "$python" -m pip download --quiet --no-deps \
		--no-build-isolation --no-binary :all: lmcache==$version && tar -xzf lmcache-$version.tar.gz) || return 1
	for f in storage connector pybind; do
		"${CXX:-g++}" -std=c++20 -O1 -w -fPIC -I"$parts" -I"$parts/nixl" "${found[@]/#/-isystem}" \
			-isystem"$packages/torch/include" \
			-isystem"$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
			-c -o "$venv/nixl/$f.o" "$parts/nixl/$f.cpp" || return 1
	done
	"${CXX:-g++}" -shared -o "$packages/lmcache/lmcache_nixl.so" "$venv"/nixl/*.o -L"${plugins%/*}" -lnixl \
		-Wl,--allow-shlib-undefined -Wl,-rpath,"${plugins%/*}"
}

# lmcache NAME CASE ARG... -- a test of lmcache_checks.py, which must not print the trace of an exception either.
lmcache() {
	local name=$1
	shift
	check "$name" quiet timeout -k 10 240 "$python" tests/engines/lmcache_checks.py "$@"
}
quiet() {
	local said="$scratch/quiet" rc
	PYTHONUNBUFFERED=1 "$@" >"$said" 2>&1 </dev/null
	rc=$?
	[ "$rc" -ne 0 ] || grep -q 'Traceback\|drain_completions failed' "$said" || return 0
	gist "$rc" "$said"
	return 1
}

plan $tests
venv lmcache tests/engines/lmcache.txt || skip_all $tests "$why"
check "the package kvrail can be installed" our_package
check "LMCache is the one that was tried" says "^$version\$" "$python" -c 'import importlib.metadata as m; print(m.version("lmcache"))'
lmcache "the commands of docs/guide/engines.md for LMCache" guide
for kind in native plugin; do
	lmcache "$kind: lmcache bench l2, every byte compared" bench $kind
	lmcache "$kind: a wrong parameter is named, with the right ones" wrong $kind
	lmcache "$kind: lmcache bench server, lmcache_driven, found again after a restart of LMCache" server $kind lmcache_driven
	lmcache "$kind: lmcache bench server, engine_driven, found again after a restart of LMCache" server $kind engine_driven
	lmcache "$kind: LMCache starts, works and ends without any kv-server" alone $kind
	lmcache "$kind: a kv-server dies, and comes again, in stores, lookups and loads" outage $kind
	lmcache "$kind: clear() ends the values of one fingerprint, and of no other" clear $kind
done
lmcache "native: the same below LMCache's fault_inject" outage fault
lmcache "plugin: the same below LMCache's fault_inject" outage fault_plugin
lmcache "plugin: caches of another type share nothing" layouts
lmcache "native: it holds up with what LMCache evicts" evict native
lmcache "plugin: what a server removes leaves LMCache's account" removals
lmcache "LMCache's own tests of native connectors" upstream "$venv/upstream"
lmcache "LMCache's older server, as a target of kv-bench versus" versus
lmcache "the same bench on LMCache's fs_native" bench fs
if command -v redis-server >/dev/null; then
	lmcache "the same bench on LMCache's resp, with redis" bench redis
else
	skip "the same bench on LMCache's resp, with redis" "there is no redis-server (Debian: apt-get install redis-server)"
fi
nixl=("bench nixl" "server nixl lmcache_driven" "alone nixl" "outage nixl")
if [ -n "$headers" ]; then
	check "nixl_native: its part of LMCache can be built" nixl_part
	# shellcheck disable=SC2086 # the words of a case
	for c in "${nixl[@]}"; do lmcache "nixl_native with our plug-in of NIXL: $c" $c; done
else
	for c in build "${nixl[@]}"; do skip "nixl_native: $c" "NIXL names no folder of NIXL's headers"; done
fi
finish
