#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# points.sh -- no fallible call is forgotten: every function outside our code that our objects call is a fault point, or stands in unwrapped.txt with a reason.
#
# usage: points.sh [FOLDER]   FOLDER: a build of MODE=asan or any other (default build/asan) whose libraries are there.
# What is looked at are the undefined symbols of the layers that the sweep links, and, since libfabric's functions are mostly inline, the fi_ calls in engine/fabric/ and engine/door/.
# A fortified or versioned name (__snprintf_chk, __isoc99_sscanf) counts as the plain one. Our own functions fail through what they call.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${1:-${KVRAIL_BUILD:-build/asan}}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-points.XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT

n=0 fail=0
result() { # result NAME FINDINGS
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		printf '%s\n' "$2" | sed 's/^/# /'
		fail=1
	fi
}

plain() { sed -E 's/^__isoc[0-9]+_//; s/^__(.*)_chk$/\1/; s/^_+//' | sort -u; }

libraries=()
for layer in base host loop ring wire bootstrap local pass engine fab store kvclient kvserver; do
	libraries+=("$build/lib$layer.a")
done
nm -P "${libraries[@]}" >"$scratch/symbols" 2>"$scratch/nm.err" || {
	echo "1..1"
	echo "not ok 1 - the libraries of $build can be read (make MODE=asan build/asan/tests/fault/sweep)"
	sed 's/^/# /' "$scratch/nm.err"
	exit 1
}
# Names that any object defines are ours; __asan_ and the like are the sanitizers'.
awk '$2 == "U" { asked[$1] } NF > 2 && $2 != "U" { ours[$1] } END { for (s in asked) if (!(s in ours)) print s }' "$scratch/symbols" |
	grep -vE '^__(asan|ubsan|sanitizer|lsan|tsan|gcov|llvm)_' | plain >"$scratch/outside"
grep -hoE '\bfi_[a-z_0-9]+\(' engine/fabric/*.c engine/door/*.c | tr -d '(' | sort -u >"$scratch/inline"
sort -u "$scratch/outside" "$scratch/inline" >"$scratch/called"
plain <tests/fault/wrap.txt >"$scratch/wrapped"
grep -oE '^POINT(_VIA)?\([A-Za-z_0-9]+' tests/fault/points.def | sed 's/.*(//' | sort -u >"$scratch/rows"
plain <"$scratch/rows" >"$scratch/points"
sed -n 's/^\([^#:]*\) : ..*/\1/p' tests/fault/unwrapped.txt | tr ' ' '\n' | plain | sed '/^$/d' >"$scratch/excused"

echo 1..5
result "every call out of our code is a point or has a reason not to be" \
	"$(comm -23 "$scratch/called" <(sort -u "$scratch/points" "$scratch/excused") | sed 's/$/ can fail? add it to points.def and wrap.txt, or to unwrapped.txt with a reason/')"
result "no function is a point and excused" "$(comm -12 "$scratch/points" "$scratch/excused")"
# The stub of a wrapped function exists if it has a row; three are only looked at. An inline function of libfabric gets its stub from fabric_ops.c.
result "every wrapped function has a row in points.def" "$(comm -23 <(sort -u tests/fault/wrap.txt) "$scratch/rows" | grep -vxE 'munmap|fab_poll|fi_freeinfo')"
result "every row in points.def is wrapped, or put into libfabric's tables" \
	"$(comm -23 "$scratch/rows" <(sort -u tests/fault/wrap.txt) | while IFS= read -r f; do grep -q "= __wrap_$f;" tests/fault/fabric_ops.c || echo "$f"; done)"
# Builds differ in what they call: assert, __int128, checks of lengths.
result "what unwrapped.txt excuses is still called" \
	"$(comm -23 "$scratch/excused" "$scratch/called" | grep -vxE 'abort|stderr|assert_fail|u?divti3|explicit_bzero|v?snprintf|printf|fprintf|GLOBAL_OFFSET_TABLE_|tls_get_addr|sched_cpu.*')"
exit $fail
