#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# smoke.sh -- every fuzz target over its corpus and a few thousand mutations of it (in `make check` one thousand), with a
# printed seed; speaks TAP.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${KVRAIL_BUILD:-build/release}
seed=${KVRAIL_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "# seed $seed (KVRAIL_SEED)"
mutations=5000
[ "${KVRAIL_TEST_SHORT:-0}" = 0 ] || mutations=1000
set -- "$build"/tests/fuzz/smoke_*
n=0 fail=0
list=()
for program in "$@"; do
	case $program in *.d | *.o | *'*') continue ;; esac
	[ -e "tests/fuzz/fuzz_${program##*/smoke_}.c" ] || continue # a build folder keeps targets that are gone
	list+=("$program")
done
echo "1..${#list[@]}"
for program in "${list[@]}"; do
	n=$((n + 1))
	target=${program##*/smoke_}
	if out=$("$program" -random "$mutations" -seed "$seed" "tests/fuzz/corpus/$target" 2>&1); then
		echo "ok $n - fuzz smoke $target"
	else
		echo "not ok $n - fuzz smoke $target"
		printf '%s\n' "$out" | tail -n 30 | sed 's/^/# /'
		fail=1
	fi
done
exit $fail
