#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mutants.sh [NAME...] -- break a rule of docs/internals/providers.md in a copy of the sources, and see that an imitated machine tells (make check-shim-mutants).
#
# A mutant is a patch of a few production sources. Its head says, one a line:
#   bug: what is wrong      rule: its number in docs/internals/providers.md      build: what to make, below build/MODE/      run: a command, in a folder with those programs
#   expect: what it must say before it fails (extended regular expression)      seconds: that it may take (60); ending by that limit is a failure too, when "hangs" is expected
# The copy, build/shim-mutants/NAME, has the objects too, so that only what was changed is compiled, and is kept when something is wrong. Speaks TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
mode=${MODE:-release}
built=${KVRAIL_BUILD:-build/$mode}
out=build/shim-mutants
patches=tests/shim/mutants
layers=$(sed -n 's/^LAYERS *:= //p' Makefile)

head_of() { # PATCH FIELD
	sed -n -e '/^---/q' -e "s/^$2: //p" "$1"
}

copy() { # DIRECTORY
	local l
	rm -rf "$1"
	mkdir -p "$1/tests" "$1/$built/tests"
	cp -pR Makefile kvlab "$1/" # kvlab lies beside kv-bench
	cp -p tests/suites.mk tests/filter.c "$1/tests/"
	cp -p tests/*.h "$1/tests/" 2>/dev/null
	cp -pR tests/shim tests/engine "$1/tests/"
	cp -pR "$built/tests/shim" "$built/tests/engine" "$1/$built/tests/"
	for l in $layers; do
		[ ! -d "$l" ] || cp -pR "$l" "$1/" # ring and fab are parts of folders
		[ ! -e "$built/$l" ] || cp -pR "$built/$l" "$1/$built/"
		[ ! -e "$built/lib$l.a" ] || cp -p "$built/lib$l.a" "$1/$built/"
	done
}

# Prints what was seen; 0: found as it should be.
one() { # NAME
	local patch=$patches/$1.patch dir=$out/$1 log=$out/$1.log build run expect seconds rc
	build=$(head_of "$patch" build) run=$(head_of "$patch" run) expect=$(head_of "$patch" expect) seconds=$(head_of "$patch" seconds)
	if [ -z "$build" ] || [ -z "$run" ] || [ -z "$expect" ] || [ -z "$(head_of "$patch" rule)" ]; then
		echo "the head of the patch lacks a field"
		return 1
	fi
	copy "$dir"
	if ! patch -s -p1 -N -d "$dir" <"$patch" >"$log" 2>&1; then
		echo "the patch does not apply any more ($(head -n 1 "$log"))"
		return 1
	fi
	# shellcheck disable=SC2046 # a list
	if ! env -u MAKEFLAGS -u MAKELEVEL make -s -C "$dir" MODE="$mode" $(printf "$built/%s " $build) >"$log" 2>&1; then
		echo "does not compile: $(grep -m 1 error "$log")"
		return 1
	fi
	{ (cd "$dir/$built" && CMOCKA_MESSAGE_OUTPUT=stdout exec timeout -k 5 "${seconds:-60}" bash -c "$run") >"$log" 2>&1 </dev/null; } 2>/dev/null
	rc=$?
	if [ $rc -eq 0 ]; then
		echo "is not found"
		return 1
	fi
	[ $rc -ne 124 ] && [ $rc -ne 137 ] || echo "hangs" >>"$log"
	if ! grep -aqE "$expect" "$log"; then
		echo "fails otherwise than expected (exit status $rc): $(tail -n 1 "$log")"
		return 1
	fi
	grep -aoE -m 1 "$expect" "$log"
	rm -rf "$dir"
}

mkdir -p "$out"
if [ "${1:-}" = --one ]; then
	one "$2" >"$out/$2.said"
	echo $? >"$out/$2.rc"
	exit 0
fi
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	for p in "$patches"/*.patch; do names+=("$(basename "$p" .patch)"); done
fi
for n in "${names[@]}"; do rm -f "$out/$n".{rc,said}; done
printf -- '--one %s\n' "${names[@]}" | xargs -P "${JOBS:-$(nproc)}" -L 1 "$0"
count=0 bad=0
echo "1..${#names[@]}"
for n in "${names[@]}"; do
	count=$((count + 1))
	if [ "$(cat "$out/$n.rc" 2>/dev/null)" = 0 ]; then
		echo "ok $count - $n: $(head -n 1 "$out/$n.said")"
	else
		bad=$((bad + 1))
		echo "not ok $count - $n $(cat "$out/$n.said" 2>/dev/null)"
	fi
done
[ $bad -eq 0 ]
