#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# options.sh -- the page of all options has every program and describes every option; kv-bench --config has each option with its default.
. "$(dirname "$0")/lib.bash"
plan 5
page=$scratch/options.md
check "the page of all options is made" eval 'scripts/options-doc.sh "$build" >"$page"'
sections() { # of each program, and of each command of kv-bench
	diff <(sed -n 's/^## //p' "$page" | sort) <({
		printf '%s\n' kv-bench kv-client kv-doctor kv-server run-with-rdma.sh
		"$build/kv-bench" help | sed -n '/^Commands/,/^Examples/s/^  \([a-z]*\) .*/kv-bench \1/p'
	} | sort)
}
check "it has every program and command" sections
described() { # the text of an option begins behind its name, or indented below it
	awk '/^  (    )?-/ { if (open) { print open " has no text"; bad = 1 }; open = /^  (    )?-.*[^ ]  +[^ ]/ ? "" : $0; next }
		open { if (!/^                    /) { print open " has no text"; bad = 1 }; open = "" }
		END { exit bad }' "$page"
}
check "it has a text for every option" described
all_options() { # the names of a table, without those that are not shown
	local name missing=0
	for name in $("$build/kv-bench" --config | sed -n 's/^\([a-z-]*\) = .*/\1/p'); do
		grep -q -- "--$name" "$page" || { echo "--$name is not there"; missing=1; }
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
	grep -E -- '--[a-z-]*(-ms|-us|-mb|ttl|timeout|-size|duration|drain-sec)=' "$page" | grep -vE '=(TIME|SIZE)' && return 1
	return 0
}
check "times and sizes parse alike everywhere" alike
check "every option of kv-bench --config is in it" all_options
finish
