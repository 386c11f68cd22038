#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pull.sh [MACHINE:PROVIDER [SIZE]] -- what one GET costs on imitated machines, pushed and pulled, in operations and bytes: the table of docs/internals/providers.md.
#
# Counts, not time: the imitation's time says nothing of EFA's. One worker, one operation at a time; the difference between a run with many reads and one with few, so that
# opening, PUTs and the rest fall out.
. "$(dirname "$0")/../integration/lib.bash"
real=$(cd "$build" && pwd)
few=100 many=1100
export KVRAIL_SHIM_QUIET=1

# counts MACHINE PROVIDER MODE SIZE READS -- "sends writes reads emulated-packets emulated-bytes written read" of client and server together.
counts() {
	local report=$scratch/report
	rm -f "$report"
	KVRAIL_SHIM="$1,seed=1,nics=1,eagain=0,delay=0" KVRAIL_SHIM_REPORT=$report LD_PRELOAD=$real/tests/shim/shim.so timeout -k 5 120 "$real/kv-bench" --local off --provider "$2" --mode "$3" \
		--value-size "$4" --num-keys 10 --repeat-reads $(($5 / 10)) --num-workers 1 --num-clients 1 --num-threads 1 --server-threads 1 --buffer-mb 16 \
		--log-level off >"$scratch/out" 2>&1 || {
		cat "$scratch/out" >&2
		return 1
	}
	awk -F', ' '{ sub(/^[^:]*: /, ""); for (i = 1; i <= NF; i++) { n = $i; sub(/ [0-9]+$/, "", n); v = $i; sub(/.* /, "", v); sum[n] += v } }
		END { print sum["sends"], sum["writes"], sum["reads"], sum["emulated"], sum["emulated bytes"], sum["write bytes"], sum["read bytes"] }' "$report"
}

printf '%-10s %-5s %-6s %9s %9s %9s %9s %9s %9s\n' machine mode size messages writes reads "by CPU" written read
pairs=(efa:efa efa-p4d:efa) sizes=(4k 64k 1m)
[ $# -lt 1 ] || pairs=("$1")
[ $# -lt 2 ] || sizes=("$2")
for pair in "${pairs[@]}"; do
	for size in "${sizes[@]}"; do
		for mode in push pull; do
			a=$(counts "${pair%:*}" "${pair#*:}" $mode $size $few) && b=$(counts "${pair%:*}" "${pair#*:}" $mode $size $many) || exit 1
			echo "$a $b" | awk -v n=$((many - few)) -v m="${pair%:*}" -v mode=$mode -v size=$size \
				'{ printf "%-10s %-5s %-6s %9.2f %9.2f %9.2f %9.0f %9.0f %9.0f\n", m, mode, size, ($8-$1)/n, ($9-$2)/n, ($10-$3)/n, ($12-$5)/n, ($13-$6)/n, ($14-$7)/n }'
		done
	done
done
