#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh SECONDS TARGET... -- runs each libFuzzer target for this long, on its corpus and a scratch corpus. A finding
# is kept in build/fuzz/work/TARGET and fails the run.
# FUZZ_ARGS: more arguments for libFuzzer, such as -fork=N for N processes. The programs of build/fuzz/tests/fuzz also
# run by themselves, on machines with their libraries.
set -u
cd "$(dirname "$0")/.." || exit 2
seconds=$1
shift
bad=0
for target in "$@"; do
	work=build/fuzz/work/$target
	mkdir -p "$work/corpus"
	echo "== fuzz $target for $seconds s (findings go to $work)"
	# shellcheck disable=SC2086
	if ! build/fuzz/tests/fuzz/fuzz_"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$work/" ${FUZZ_ARGS:-} "$work/corpus" "tests/fuzz/corpus/$target" \
		>"$work/log" 2>&1; then
		bad=$((bad + 1))
		tail -n 40 "$work/log"
	else
		# -fork has no such figures.
		grep -E 'stat::number_of_executed_units|stat::new_units' "$work/log" || tail -n 1 "$work/log"
		grep -oE 'cov: [0-9]+ ft: [0-9]+' "$work/log" | tail -n 1
	fi
done
[ "$bad" -eq 0 ] || echo "$bad targets with a finding"
[ "$bad" -eq 0 ]
