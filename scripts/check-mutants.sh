#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-mutants.sh -- plants the bugs of tests/sim/mutants/ one by one, and checks that the tests find each; speaks TAP.
#
# usage: check-mutants.sh [NAME...]      run these mutants, or all (make check-mutants builds what it needs first);
#                                        MUTANTS_SHARE=3 without names: every third, another third each day
#        check-mutants.sh --copy NAME    copy the tree to build/mutants/NAME, patched if there is such a patch: to make
#                                        a mutant, or to mend it
#        check-mutants.sh --save NAME    write the changes made there to the patch, below its old head or an empty one
# A mutant is a patch of a few production sources. Its head has these lines:
#   bug:     what is wrong
#   rule:    the rule of docs/internals/ownership.md that it breaks
#   world:   the world of test_sim_rules that finds it
#   seeds:   N; one of the first N seeds must find it
#   expect:  what the failure must say (extended regular expression)
# A mutant that the simulation cannot find (it has no strangers) names, instead of world and seeds, a test program:
#   program: tests/FOLDER/test_NAME
#   expect:  the name of the test that must fail, or what the output must say of the failure
#   tries:   how often the program runs at most (1): some races need two free processors at the same instant
# The patched copy, build/mutants/NAME, has the objects, too, so only changed files are compiled. Failures are: a patch
# that does not apply, a mutant that is not found or fails in another way than expected, and a seed that fails without
# any mutant.
set -u
cd "$(dirname "$0")/.." || exit 1
mode=${MODE:-release}
built=${KVRAIL_BUILD:-build/$mode}
out=build/mutants
patches=tests/sim/mutants
program=tests/sim/test_sim_rules
layers="base host loop wire bootstrap local engine store kvclient kvserver"
seams="ring pass fab" # libraries that every program except the simulation links
limit=120 # seconds for one mutant's seeds: of processor time, since a world waits for nothing; of time for a program

head_of() { # PATCH FIELD
	sed -n -e '/^---/q' -e "s/^$2: //p" "$1"
}

# Copies the objects below a folder, without the programs, which are thirty times as large.
copy_objects() { # DIRECTORY FOLDER
	find "$2" -name '*.[od]' -print0 | xargs -0 cp -p --parents -t "$1"
}

# Copies what the program is made of: sources and objects, with their times.
copy() { # DIRECTORY [PROGRAM]
	local l tests
	rm -rf "$1"
	mkdir -p "$1/tests/kvserver" "$1/$built/tests"
	cp -p Makefile "$1/"
	cp -p tests/suites.mk tests/filter.c tests/fabric_stand_in.[ch] tests/short.h "$1/tests/"
	cp -pR tests/sim "$1/tests/"
	cp -p tests/kvserver/*.h "$1/tests/kvserver/" # tests/sim includes one of them
	cp -p "$built"/tests/{filter,fabric_stand_in}.c.o "$1/$built/tests/"
	copy_objects "$1" "$built/tests/sim"
	for l in $layers; do
		cp -pR "$l" "$1/"
		cp -pR "$built/$l" "$built/lib$l.a" "$1/$built/"
	done
	[ -n "${2:-}" ] || return 0
	tests=$(dirname "$2")
	cp -p tests/*.h "$1/tests/"
	cp -pR "$tests" "$1/tests/"
	copy_objects "$1" "$built/$tests"
	for l in $seams; do
		[ ! -f "$built/lib$l.a" ] || cp -p "$built/lib$l.a" "$1/$built/" # not each program needs all
	done
}

# Runs seeds 1 to SEEDS of a world; a machine that has no processor to spare makes no difference.
seeds() { # PROGRAM WORLD SEEDS LOG
	(
		ulimit -t "$limit"
		exec timeout $((20 * limit)) "$1" "$2" 1 "$3" >"$4" 2>&1 </dev/null
	) 2>/dev/null
}

said() { # LOG: prints the first thing that was wrong
	grep -aoE 'seed 0x[0-9a-f]+, at .*' "$1" | head -n 1
}

# Plants one bug. Prints what was seen; 0: it was found as expected.
one() { # NAME
	local patch=$patches/$1.patch dir=$out/$1 log=$out/$1.log program=$program world seeds expect rc message other tries
	world=$(head_of "$patch" world) seeds=$(head_of "$patch" seeds)
	expect=$(head_of "$patch" expect) other=$(head_of "$patch" program)
	program=${other:-$program}
	if [ -z "$other$world" ] || [ -z "$other$seeds" ] || [ -z "$expect" ] || [ -z "$(head_of "$patch" rule)" ]; then
		echo "the head of the patch lacks a field"
		return 1
	fi
	copy "$dir" "$other"
	if ! patch -s -p1 -N -d "$dir" <"$patch" >"$log" 2>&1; then
		echo "the patch does not apply any more ($(head -n 1 "$log")): mend $dir, then $0 --save $1"
		return 1
	fi
	if ! env -u MAKEFLAGS -u MAKELEVEL make -s -C "$dir" MODE="$mode" "$built/$program" >"$log" 2>&1; then
		echo "does not compile: $(grep -m 1 error "$log")"
		return 1
	fi
	if [ -n "$other" ]; then
		# If expect is the name of a test, only that test runs; else all do.
		[[ $expect == *[!a-z0-9_]* ]] || export KVRAIL_TEST_ONLY=$expect
		# What a client's test needs beside itself is the tree's own server.
		for ((tries = $(head_of "$patch" tries) + 0, rc = 0; rc == 0; tries--)); do
			env -u CMOCKA_MESSAGE_OUTPUT -u KVRAIL_TEST_SHORT KV_SERVER="$PWD/$built/kv-server" timeout "$limit" "$dir/$built/$program" >"$log" 2>&1 </dev/null
			rc=$?
			[ "$tries" -gt 1 ] || break
		done
		message=$(grep -aE '^\[  FAILED  \] |^\[  ERROR   \] [a-z]|^# [a-z]+, seed ' "$log" | grep -aE -m 1 "$expect")
	else
		seeds "$dir/$built/$program" "$world" "$seeds" "$log"
		rc=$?
		message=$(said "$log")
	fi
	if [ $rc -eq 0 ]; then
		echo "is not found by ${other:-$seeds seeds of world $world}"
		return 1
	fi
	if ! grep -aqE "$expect" <<<"$message"; then
		echo "fails otherwise than expected (exit status $rc): ${message:-$(tail -n 1 "$log")}"
		return 1
	fi
	echo "$message"
	rm -rf "$dir"
}

# Checks that the same seeds pass without a mutant.
baseline() { # WORLD SEEDS
	local log=$out/world-$1.log
	if ! seeds "$built/$program" "$1" "$2" "$log"; then
		echo "fails without a mutant: $(said "$log")"
		return 1
	fi
	echo "$2 seeds"
}

save() { # NAME
	local patch=$patches/$1.patch dir=$out/$1 l file head
	[ -d "$dir" ] || { echo "there is no $dir: $0 --copy $1 makes it" >&2; exit 1; }
	head=$(sed '/^---/,$d' "$patch" 2>/dev/null)
	{
		printf '%s\n\n' "${head:-$(printf 'bug:\nrule:\nworld:\nseeds:\nexpect:')}"
		for l in $layers; do
			(cd "$dir" && find "$l" -name '*.[ch]' | sort) | while read -r file; do
				diff -u --label "a/$file" --label "b/$file" "$file" "$dir/$file"
			done
		done
	} >"$out/$1.new"
	mv "$out/$1.new" "$patch"
}

mkdir -p "$out"
case ${1:-} in
--copy)
	copy "$out/$2" "$(head_of "$patches/$2.patch" program 2>/dev/null)"
	[ ! -f "$patches/$2.patch" ] || patch -p1 -N -d "$out/$2" <"$patches/$2.patch"
	exit
	;;
--save)
	save "$2"
	exit
	;;
esac
if [ "${1:-}" = --one ]; then
	one "$2" >"$out/$2.said"
	echo $? >"$out/$2.rc"
	exit 0
fi
if [ "${1:-}" = --baseline ]; then
	baseline "$2" "$3" >"$out/world-$2.said"
	echo $? >"$out/world-$2.rc"
	exit 0
fi

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	share=${MUTANTS_SHARE:-1} i=$(($(date +%s) / 86400))
	for p in "$patches"/*.patch; do
		((i++ % share == 0)) && names+=("$(basename "$p" .patch)")
	done
	[ "$share" -eq 1 ] ||
		echo "#: ${#names[@]} planted bugs, one of $share; others tomorrow, and all of them in make check-mutants"
fi
declare -A most=()
for n in "${names[@]}"; do
	[ -f "$patches/$n.patch" ] || { echo "Bail out! there is no $patches/$n.patch"; exit 1; }
	w=$(head_of "$patches/$n.patch" world) s=$(head_of "$patches/$n.patch" seeds)
	[ -n "$w" ] && [ "${s:-0}" -gt "${most[$w]:-0}" ] && most[$w]=$s
	rm -f "$out/$n".{rc,said}
done
rm -f "$out"/world-*.{rc,said}
{
	for w in "${!most[@]}"; do printf -- '--baseline %s %s\n' "$w" "${most[$w]}"; done
	printf -- '--one %s\n' "${names[@]}"
} | xargs -P "${JOBS:-$(nproc)}" -L 1 "$0"

count=0 bad=0
echo "1..$((${#most[@]} + ${#names[@]}))"
result() { # FILE TITLE
	count=$((count + 1))
	if [ "$(cat "$out/$1.rc" 2>/dev/null)" = 0 ]; then
		echo "ok $count - $2: $(cat "$out/$1.said")"
	else
		bad=$((bad + 1))
		echo "not ok $count - $2 $(cat "$out/$1.said" 2>/dev/null)"
	fi
}
for w in "${!most[@]}"; do result "world-$w" "world $w"; done
for n in "${names[@]}"; do result "$n" "$n"; done
[ $bad -eq 0 ]
