#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# options.sh -- docs/OPTIONS.md is what the programs say, and --config tells each option of kv-bench with its default.
. "$(dirname "$0")/lib.bash"
plan 2
words() { tr -s '[:space:]' '\n'; } # where lines end is the C library's affair
as_documented() { diff -u <(words <docs/OPTIONS.md) <(scripts/options-doc.sh "$build" | words); }
check "docs/OPTIONS.md is what --help says (else: scripts/options-doc.sh >docs/OPTIONS.md)" as_documented
all_options() { # the names of a table, without those that are not shown
	local name missing=0
	for name in $("$build/kv-bench" --config | sed -n 's/^\([a-z-]*\) = .*/\1/p'); do
		grep -q -- "--$name" docs/OPTIONS.md || { echo "--$name is not there"; missing=1; }
	done
	return $missing
}
check "every option of kv-bench --config is in it" all_options
finish
