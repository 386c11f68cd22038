#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# options.sh -- docs/reference/options.md is what the programs say, and --config tells each option of kv-bench with its default.
. "$(dirname "$0")/lib.bash"
plan 3
words() { tr -s '[:space:]' '\n'; } # where lines end is the C library's affair
as_documented() { diff -u <(words <docs/reference/options.md) <(scripts/options-doc.sh "$build" | words); }
check "docs/reference/options.md is what --help says (else: scripts/options-doc.sh >docs/reference/options.md)" as_documented
all_options() { # the names of a table, without those that are not shown
	local name missing=0
	for name in $("$build/kv-bench" --config | sed -n 's/^\([a-z-]*\) = .*/\1/p'); do
		grep -q -- "--$name" docs/reference/options.md || { echo "--$name is not there"; missing=1; }
	done
	return $missing
}
# A time or a size that takes no unit would be another dialect: every such row of every program says TIME or SIZE in --help, and takes both.
alike() {
	local option program
	"$build/kv-bench" --ttl 1m --duration 90s --slow-ms 1s --timeout 500ms --peer-timeout 1m --value-size 64KB --buffer-mb 64MiB --memory-mb 1G --config >"$scratch/config" || return 1
	diff <(grep -E '^(ttl|duration|slow-ms|timeout|peer-timeout|value-size|buffer-mb|memory-mb) ' "$scratch/config" | sort) - <<-'T' || return 1
		buffer-mb = 64
		duration = 90s
		memory-mb = 1024
		peer-timeout = 60s
		slow-ms = 1000
		timeout = 500ms
		ttl = 60
		value-size = 64KiB
	T
	grep -E -- '--[a-z-]*(-ms|-us|-mb|ttl|timeout|-size|duration|drain-sec)=' docs/reference/options.md | grep -vE '=(TIME|SIZE)' && return 1
	return 0
}
check "times and sizes parse alike everywhere" alike
check "every option of kv-bench --config is in it" all_options
finish
