#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# help.sh -- kv-bench --help is one screen, its topics are all groups of options, its commands all commands; completion knows them.
. "$(dirname "$0")/lib.bash"
plan 16
bench=$build/kv-bench
screen() { [ "$("$bench" --help | wc -l)" -le 24 ] && [ "$("$bench" --help | wc -L)" -le 80 ]; }
check "--help is one screen" screen
check "help says the same" cmp <("$bench" --help) <("$bench" help)
check "so does -h" cmp <("$bench" --help) <("$bench" -h)
topics() { "$bench" help | sed -n '/^Options/,/^Commands/s/^  \([a-z]*\) .*/\1/p'; }
commands() { "$bench" help | sed -n '/^Commands/,/^Examples/s/^  \([a-z]*\) .*/\1/p'; }
options() { grep -oE -- '^ {2,6}(-., +)?--[a-z-]+' | grep -oE -- '--[a-z-]+' | grep -vx -e --help -e --version | sort; }
by_topic() { for t in $(topics); do "$bench" help "$t"; done | options; }
check "the topics have every option, each once" cmp <("$bench" help all | options) <(by_topic)
check "there are some" eval '[ "$(by_topic | wc -l)" -gt 40 ]'
in_program() { # every command that the program knows
	local c
	for c in $(grep -oE '^[^"]*\{"[a-z]+", [a-z]+_main\}.*' kvbench/main.c | grep -oE '"[a-z]+"' | tr -d '"'); do
		commands | grep -qx "$c" || { echo "$c is not in --help" && return 1; }
	done
}
check "the commands are the program's" in_program
their_help() { for c in $(commands); do cmp <("$bench" help "$c") <("$bench" "$c" --help) || return 1; done; }
check "help COMMAND is COMMAND --help" their_help
described() { # also in the manual, which has this text
	local c
	for c in $(commands); do "$bench" help all | tr -s '[:space:]' ' ' | grep -q "\`kv-bench $c\`" || { echo "help all does not name $c" && return 1; }; done
}
check "the text before all options names every command" described
check "a mistyped command or topic is told the nearest" eval 'status 2 "$bench" swep && says "no command .swep.; did you mean sweep\?" "$bench" swep && says "no topic .laod.; did you mean load\?" "$bench" help laod && says "did you mean cluster\?" "$build/kv-client" cluter'
check "so is a mistyped option, of every program" eval 'says "unknown option --num-wrokers; did you mean --num-workers\?" "$bench" --num-wrokers 3 && says "did you mean --num-workers\?" "$bench" --workers 3 && says "did you mean --order-seed\?" "$bench" sweep --oder-seed 3 && says "did you mean --memory-mb\?" "$build/kv-server" --memroy-mb 3 && says "did you mean --server\?" "$build/kv-client" --sever x ping && says "did you mean --server\?" "$build/kv-doctor" --sevrer x'
check "a topic that there is not is refused with the list" status 2 "$bench" help nothing
check "which names them" says "no topic 'nothing': use one of where, load, .*, all, or a command \(capacity," "$bench" help nothing
full() { ! "$bench" help >/dev/full 2>/dev/null; }
check "a text that cannot be written is a failure" full
complete_to() { # complete_to PROGRAM WANTED WORDS...: the completions of the last word
	local got
	got=$(bash -c 'p=$1; . /dev/stdin; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); "_${p//-/_}"; echo "${COMPREPLY[*]}"' - "$1" "${@:3}" <<<"$(scripts/completion.sh "$1" "$build")")
	[ "$got" = "$2" ] || { echo "$got, not $2" && return 1; }
}
several() {
	complete_to kv-bench versus kv-bench ver && complete_to kv-bench "trace" kv-bench help tr && complete_to kv-bench "--trace --trace-order --trace-speed" kv-bench --trace &&
		complete_to kv-bench "--targets" kv-bench versus --ta && complete_to kv-bench "--event" kv-bench --num-workers 4 --even
}
check "completion of kv-bench: commands, topics, options" several
check "of kv-server" complete_to kv-server --listen-addr kv-server --listen
check "of kv-client" complete_to kv-client "" kv-client --no-such-thing
finish
