#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-planted.sh -- every planted bug still applies to the sources and compiles (a part of make check); speaks TAP.
#
# check-mutants.sh and tests/shim/mutants.sh plant them and see them found. That takes minutes, so a check runs a share
# of them only; a patch that a change has left behind is reported here, on the day of the change. `make check` compiles none
# of them (KVRAIL_TEST_SHORT), `make check-long` all.
set -u
cd "$(dirname "$0")/.." || exit 1
out=build/planted
layers=$(sed -n 's/^LAYERS *:= //p' Makefile)

# Prints what is wrong; 0: nothing.
one() { # PATCH
	local files file said=
	files=$(sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$1")
	if ! patch -s -p1 -N -r - -d "$out" <"$1" >"$out/log" 2>&1; then
		said="does not apply any more ($(head -n 1 "$out/log"))"
	else
		for file in $files; do
			[[ $file == *.c && -n $compile ]] || continue
			# shellcheck disable=SC2086 # flags of pkg-config
			(cd "$out" && ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -DKVRAIL_VERSION='"0"' -I. ${PKG_CFLAGS:-} -fsyntax-only "$file") >"$out/log" 2>&1 ||
				{ said="does not compile: $(grep -m 1 error "$out/log")"; break; }
		done
	fi
	for file in $files; do cp -p "$file" "$out/$file"; done
	find "$out" -name '*.orig' -delete
	echo "$said"
	[ -z "$said" ]
}

rm -rf "$out"
mkdir -p "$out"
for l in $layers; do [ ! -d "$l" ] || cp -pR "$l" "$out/"; done
patches=(tests/{sim,shim}/mutants/*.patch)
echo "1..${#patches[@]}"
count=0 bad=0 compile=1
[ "${KVRAIL_TEST_SHORT:-0}" = 0 ] || compile=
for p in "${patches[@]}"; do
	count=$((count + 1))
	if said=$(one "$p"); then
		echo "ok $count - $p applies${compile:+ and compiles}"
	else
		bad=$((bad + 1))
		echo "not ok $count - $p $said"
	fi
done
rm -rf "$out"
[ $bad -eq 0 ]
