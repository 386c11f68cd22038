#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cli.sh -- kv-client against a kv-server: every command, its exit status, and what it says when something is wrong.
. "$(dirname "$0")/lib.bash"
plan 37
start_server main || exit 1
kv() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" "$@"; }

put_get_file() { # put_get_file BYTES
	head -c "$1" /dev/urandom >"$scratch/value"
	kv put "file-$1" -f "$scratch/value" && kv get "file-$1" -o "$scratch/copy" && cmp "$scratch/value" "$scratch/copy"
}
put_too_big() { head -c 500000000 /dev/zero >"$scratch/huge" && says 'memory-mb divided by its --worker-threads' kv put big -f "$scratch/huge"; }
get_is() { [ "$(kv get "$1")" = "$2" ]; }
stdin_put() { printf 'from stdin' | kv put piped - && get_is piped 'from stdin'; }

check "put a value" status 0 kv put greeting 'hello world'
check "get gives it back" get_is greeting 'hello world'
check "get of a missing key exits 1" status 1 kv get nothing
check "exists of a key exits 0" status 0 kv exists greeting
check "exists of a missing key exits 1" status 1 kv exists nothing
check "exists of several says the prefix" says 'prefix.*1|1.*prefix' kv exists greeting nothing greeting
check "put from stdin" stdin_put
check "the same bytes again succeed" status 0 kv put greeting 'hello world'
check "other bytes under the key are refused" status 3 kv put greeting 'other'
check "and nothing changed" get_is greeting 'hello world'
check "delete" status 0 kv delete greeting
check "delete again exits 1" status 1 kv delete greeting
check "deleted is missing" status 1 kv get greeting
check "a value of 1 byte" put_get_file 1
check "a value of 3 KiB and one byte" put_get_file 3073
check "a value of 1 MiB and one byte" put_get_file 1048577
check "a value of 16 MiB and one byte" put_get_file 16777217
check "a value of 100 MiB" put_get_file 104857600
check "a value over the server's memory is refused" put_too_big
check "stat shows the blocks" says 'blocks' kv stat
stat_is() { kv --all --shards --json stat | json_is - "$1"; }
stat_once() { kv stat >"$scratch/stat" && sort "$scratch/stat" | uniq -d | awk 'NF { print; n++ } END { exit n > 0 }'; }
check "stat prints every line once" stat_once
check "stat --json has one entry for each server" stat_is "len(j['servers']) == 1"
check "stat groups counters, and has units" says '^answers:$' kv stat
check "stat --all tells of this client's server and rail" says '^server .*: up, node ' kv --all stat
check "stat --json: shards add up to the server" stat_is \
	"sum(s['requests']['puts'] for s in j['servers'][0]['shards']) == j['servers'][0]['counters']['requests']['puts'] > 0"
check "stat --json: misses were answered not found" stat_is \
	"j['servers'][0]['counters']['answers']['answered_not_found'] >= j['servers'][0]['counters']['requests']['misses'] > 0"
check "stat --json: the client's own side" stat_is \
	"j['client']['servers'][0]['state'] == 'up' and j['client']['counters']['results of STAT']['ok'] > 0 and j['client']['counters']['calls']['errors'] == 0"
slow_says() { kv --slow-ms 1 get file-104857600 -o "$scratch/copy" 2>&1 | grep -Eq 'slow GET client 0 .* key .file-104857600. .*: [0-9.]+ ms = room .*; [0-9]+ requests; OK'; }
documented() { # every name that stat gives is explained
	kv --all --json stat | python3 -c "
import json, sys
d, text = json.load(sys.stdin), open('docs/OBSERVABILITY.md').read()
groups = list(d['servers'][0]['counters'].values()) + [g for n, g in d['client']['counters'].items() if not n.startswith('results')]
missing = [n for g in groups for n in g if '\`' + n + '\`' not in text]
print('not in docs/OBSERVABILITY.md:', *missing) if missing else None
sys.exit(1 if missing else 0)"
}
check "every counter is in docs/OBSERVABILITY.md" documented
check "--slow-ms says where the time went" slow_says
check "ping" status 0 kv ping
check "no such command is usage" status 2 kv frobnicate
check "get without a key is usage" status 2 kv get
check "a key of 129 bytes is refused" says '128' kv get "$(printf 'k%.0s' $(seq 129))"
check "no server there: exit status 3" status 3 "$build/kv-client" --server 127.0.0.1:1 --timeout 2 ping
check "and a sentence that names the address" says '127\.0\.0\.1:1' "$build/kv-client" --server 127.0.0.1:1 --timeout 2 ping
repl() { printf 'put r 42\nget r\nexit\n' | kv >"$scratch/repl.out" && grep -q 42 "$scratch/repl.out"; }
check "commands from stdin without a terminal" repl
check "SIGTERM drains the server, which exits 0" stop_server "$server_pid"
finish
