#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# prompt.sh -- kv-client at a terminal: what is typed arrives byte by byte, options, tables in the terminal's columns.
. "$(dirname "$0")/lib.bash"
plan 12
no_terminal=$(terminal_missing)
[ -z "$no_terminal" ] || skip_all 12 "$no_terminal"
start_server main || exit 1
mkdir "$scratch/state"
at_terminal() { XDG_STATE_HOME=$scratch/state timeout -k 5 240 python3 tests/integration/prompt.py "$1" "$build/kv-client" --server "$server" --timeout 20 "${over[@]}"; }
check "the bytes that are typed are the key's, in every locale" at_terminal bytes_kept
check "also those of a line that is recalled" at_terminal recalled
check "and behind a command that Tab completes" at_terminal completed
check "what was typed is kept in a file, without values" at_terminal history
check "commands take their options at the prompt" at_terminal options
check "keys and values cannot drive the terminal, and pipes get the bytes" at_terminal escapes
check "clear at the prompt asks first" at_terminal clear_asks
check "q ends top" at_terminal top_quits
check "SIGTERM ends top and the prompt, and the terminal is as before" at_terminal term_at_top
check "top and cluster fit the terminal's columns" at_terminal tables
check "top fits its lines" at_terminal lines_kept
check "the server ends" stop_server "$server_pid"
finish
