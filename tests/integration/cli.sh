#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cli.sh -- kv-client against a kv-server: every command, its exit status, and what it says when something is wrong.
. "$(dirname "$0")/lib.bash"
plan 88
start_server main || exit 1
kv() { timeout -k 5 60 "$build/kv-client" --server "$server" --timeout 20 "${over[@]}" "$@"; }

put_get_file() { # put_get_file BYTES
	head -c "$1" /dev/urandom >"$scratch/value"
	kv put "file-$1" -f "$scratch/value" && kv get "file-$1" -o "$scratch/copy" && cmp "$scratch/value" "$scratch/copy"
}
put_too_big() { truncate -s 500000000 "$scratch/huge" && says 'memory-mb divided by its --worker-threads' kv put big -f "$scratch/huge"; }
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
check "with the key and a way out" says "key 'greeting' exists with other bytes and keeps them; delete it first" kv put greeting 'other'
kept_place() { : >"$scratch/private"; chmod 600 "$scratch/private"; ln -sf private "$scratch/link"; kv get greeting -o "$scratch/link" && [ -L "$scratch/link" ] && [ "$(stat -c %a "$scratch/private")" = 600 ] && [ "$(cat "$scratch/private")" = 'hello world' ]; }
check "get -o keeps a file's mode, and a link" kept_place
check "help of pin tells the budget" says 'a quarter of the memory' kv help pin
check "help of exit" says 'Ends the program' kv help exit
check "and nothing changed" get_is greeting 'hello world'
check "get with standard output closed exits 3" eval 'kv get greeting >&-; [ $? -eq 3 ]'
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
hits() { kv --json stat | python3 -c 'import json, sys; print(json.load(sys.stdin)["servers"][0]["counters"]["requests"]["hits"])'; }
counts_one() { # counts_one KV-CLIENT-WORDS...: a GET of one value, which the server counts as one hit
	local before
	before=$(hits) && kv "$@" -o "$scratch/copy" && [ $(($(hits) - before)) = 1 ]
}
sealed_counts() {
	local seal=(--seal-key-file "$scratch/seal")
	kv make-seal-key "$scratch/seal" && kv "${seal[@]}" put sealed-value 'a few bytes' && counts_one "${seal[@]}" get sealed-value &&
		[ "$(cat "$scratch/copy")" = 'a few bytes' ] && kv "${seal[@]}" put sealed-byte x && counts_one "${seal[@]}" get sealed-byte &&
		[ "$(cat "$scratch/copy")" = x ]
}
check "a long value counts as one hit, over the fabric too" eval 'counts_one get file-104857600 && counts_one --local off get file-104857600'
check "so does a sealed value" sealed_counts
slow_says() { kv --slow-ms 1 get file-104857600 -o "$scratch/copy" 2>&1 | grep -Eq 'slow GET client 0 .* key .file-104857600. .*: [0-9.]+ ms = room .*; [0-9]+ requests; OK'; }
documented() { # every name that stat gives is explained
	kv --all --json stat | python3 -c "
import json, sys
d, text = json.load(sys.stdin), open('docs/reference/counters.md').read()
groups = list(d['servers'][0]['counters'].values()) + [g for n, g in d['client']['counters'].items() if not n.startswith('results')]
missing = [n for g in groups for n in g if '\`' + n + '\`' not in text]
print('not in docs/reference/counters.md:', *missing) if missing else None
sys.exit(1 if missing else 0)"
}
check "every counter is in docs/reference/counters.md" documented
check "--slow-ms says where the time went" slow_says
check "ping" status 0 kv ping
check "no such command is usage" status 2 kv frobnicate
check "get without a key is usage" status 2 kv get
check "a key of 129 bytes is refused" says '128' kv get "$(printf 'k%.0s' $(seq 129))"
check "no server there: exit status 3" status 3 "$build/kv-client" --server 127.0.0.1:1 --timeout 2 ping
check "and a sentence that names the address" says '127\.0\.0\.1:1' "$build/kv-client" --server 127.0.0.1:1 --timeout 2 ping
repl() { printf 'put r 42\nget r\nexit\n' | kv >"$scratch/repl.out" && grep -q 42 "$scratch/repl.out"; }
check "commands from stdin without a terminal" repl
check "one that fails is named by its line, and others go on" eval 'printf "frob\nget r\n" | kv >"$scratch/lines" 2>&1; [ $? -eq 2 ] && grep -q "^kv-client: line 1: " "$scratch/lines" && grep -q 42 "$scratch/lines"'
check "the exit status is the worst one" eval 'printf "frob\nexists nothing\nget r\n" | kv >/dev/null 2>&1; [ $? -eq 2 ]'
# The options of commands, as on the command line; the others stand before the prompt.
piped_options() {
	printf '%s\n' 'stat --all' 'cluster --json' 'top --once --interval 100ms' 'put p "a value" --ttl=90s' 'ttl p' 'get p -o "'"$scratch"'/p"' 'drain x --drain-sec 5s' | kv >"$scratch/piped" 2>&1
	[ $? -eq 1 ] && grep -q 'this client' "$scratch/piped" && grep -q '"epoch"' "$scratch/piped" && grep -q '^SERVER' "$scratch/piped" && grep -Eq '^[0-9.]+ s$' "$scratch/piped" &&
		[ "$(cat "$scratch/p")" = 'a value' ] && grep -q 'line 7: drain: no server has the name or address x' "$scratch/piped" && ! grep -q usage "$scratch/piped" || { cat "$scratch/piped"; return 1; }
}
check "commands from stdin take their options" piped_options
refused_options() {
	printf '%s\n' 'get r --json' 'stat --server x' 'stat --frob' 'get -- --frob' 'stat --help' 'get r -q' | kv >"$scratch/piped" 2>&1
	[ $? -eq 2 ] && grep -q 'line 1: usage: get KEY' "$scratch/piped" && grep -q 'line 2: --server belongs to' "$scratch/piped" && grep -q 'line 3: unknown option --frob' "$scratch/piped" &&
		grep -q "line 4: get: there is no key '--frob'" "$scratch/piped" && grep -q -- '--shards' "$scratch/piped" && grep -q 'line 6: unknown option -q' "$scratch/piped" || { cat "$scratch/piped"; return 1; }
}
check "and no others, of which they say why" refused_options
check "a byte 0 in a line is told" eval 'printf "get r\000x\n" | kv 2>&1 | grep -q "line 1: a command cannot hold a byte 0"' 
# Commands and their options, the environment, and the prompt.
kv put greeting 'hello world'
bare() { timeout -k 5 60 "$build/kv-client" --timeout 20 "${over[@]}" "$@"; }
from_environment() { [ "$(KVRAIL_SERVER=$server bare get greeting)" = 'hello world' ]; }
check "KVRAIL_SERVER is where to, without --server" from_environment
check "--server says more than KVRAIL_SERVER" status 3 env KVRAIL_SERVER="$server" "$build/kv-client" --server 127.0.0.1:1 --timeout 2 ping
check "a KVRAIL_SERVER that is no address is usage" status 2 env KVRAIL_SERVER=:1 "$build/kv-client" ping
check "KVRAIL_PSK_FILE is the key, without --psk-file" says 'the PSK file /nonexistent' env KVRAIL_PSK_FILE=/nonexistent KVRAIL_SERVER="$server" "$build/kv-client" ping
check "a missing key is told" says "get: there is no key 'nothing'" kv get nothing
check "as it was typed" says "get: there is no key 'grüße mit Blank'" kv get 'grüße mit Blank'
check "and on standard error alone" eval '[ -z "$(kv get nothing 2>/dev/null)" ]'
check "help COMMAND explains one, without a server" says 'touch KEY\.\.\.' "$build/kv-client" --server 127.0.0.1:1 help touch
check "help of no command is usage" status 2 kv help frobnicate
check "--ttl with get is usage" status 2 kv --ttl 5 get greeting
check "--json with get is usage" status 2 kv --json get greeting
kv put brief value --ttl 1m
check "touch finds a key" status 0 kv touch --ttl 1 brief
gone() { local i; for ((i = 0; i < 200; i++)); do kv exists brief >/dev/null || return 0; sleep 0.1; done; return 1; }
check "and gives it the new time to live" gone
kv put brief2 value
check "ttl of a value that does not expire" eval '[ "$(kv ttl brief2)" = never ]'
kv put brief3 value --ttl 1h
left() { kv ttl brief3 | awk '{ exit !($1 > 3000 && $1 <= 3600 && $2 == "s") }'; }
check "ttl says how long a value has to live" left
check "ttl of a missing key exits 1" status 1 kv ttl nothing
check "ttl gives a value a new time to live" status 0 kv ttl brief2 1s
gone2() { local i; for ((i = 0; i < 200; i++)); do kv exists brief2 >/dev/null || return 0; sleep 0.1; done; return 1; }
check "after which it is gone" gone2
check "ttl of half a second is usage" status 2 kv ttl greeting 500ms
check "touch of a missing key exits 1" says '^0 nothing$' kv touch nothing
pins() { printf 'pin greeting\nunpin greeting\n' | kv >"$scratch/pins" && [ "$(grep -c '^1 greeting$' "$scratch/pins")" = 2 ]; }
check "pin and unpin at the prompt" pins
check "unpin on the command line is usage" status 2 kv unpin greeting
pinned_now() { kv --json stat | json_is - "j['servers'][0]['counters']['memory']['pinned_bytes'] $1 0"; }
holds() {
	local pid i rc
	"$build/kv-client" --server "$server" --timeout 20 "${over[@]}" pin greeting >"$scratch/pin" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 300; i++)); do grep -q 'Ctrl-C' "$scratch/pin" && break; sleep 0.1; done
	pinned_now '>'
	rc=$?
	kill -INT "$pid" && wait "$pid" && return $rc
}
check "pin on the command line holds the value until Ctrl-C" holds
let_go() { local i; for ((i = 0; i < 100; i++)); do pinned_now '==' >/dev/null && return 0; sleep 0.1; done; return 1; }
check "and lets it go then" let_go
watched() {
	local pid i
	"$build/kv-client" --server "$server" --timeout 20 "${over[@]}" --watch 200ms stat >"$scratch/watch" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 300; i++)); do grep -q ' gets ' "$scratch/watch" && break; kv get greeting >/dev/null; sleep 0.1; done
	kill -INT "$pid" && wait "$pid" && grep -Eq '^  gets +[0-9]+ +\+[0-9.]+/s$' "$scratch/watch"
}
check "stat --watch shows what changes, per second, until Ctrl-C" watched
check "and not with --json, --all or --shards, which it would not show" eval 'status 2 kv --watch 1s --json stat && status 2 kv --watch 1s --all stat && status 2 kv --watch 1s --shards stat'
# unread COMMAND... -- nobody reads what it prints: that is no failure, and nothing is said of it.
unread() { "$@" 2>"$scratch/unread" | true; [ "${PIPESTATUS[0]}" -eq 0 ] && [ ! -s "$scratch/unread" ] || { cat "$scratch/unread"; return 1; }; }
check "and ends when nobody reads it any more, with 0" unread kv --watch 50ms stat
check "so does top" unread kv top --interval 100ms
check "get of a long value, stat, cluster and help are no failures then, either" eval 'unread kv get file-104857600 && unread kv stat --json && unread kv cluster && unread kv cluster --json && unread kv help && unread kv --help'
top_once() { kv top --once --interval 100ms >"$scratch/top" && [ "$(wc -l <"$scratch/top")" -eq 3 ] && grep -q "^SERVER .*HIT%" "$scratch/top" && grep -Eq "^$server +[0-9.kM]+ " "$scratch/top"; }
check "top --once prints one table in plain lines" top_once
topped() { # GETs show up as a rate; a server that is not there is a line
	local pid
	"$build/kv-client" --server "$server" --server 127.0.0.1:9 "${over[@]}" --interval 200ms top >"$scratch/top" 2>&1 &
	pid=$!
	pids+=("$pid")
	soon eval 'kv get greeting >/dev/null; grep -Eq "^$server +[1-9]" "$scratch/top"' && grep -q '^127.0.0.1:9 .*not reachable' "$scratch/top" && kill -INT "$pid" && wait "$pid"
}
check "top shows rates until Ctrl-C, and a server that is away" topped
# Three members of a view, one of which is not there.
clustered() {
	local port list name n main=$server main_pid=$server_pid
	port=$(free_ports 3)
	list="a=127.0.0.1:$port;zone=z1,b=127.0.0.1:$((port + 1));zone=z2;weight=2,c=127.0.0.1:$((port + 2));state=joining"
	for n in 0 1; do
		name=$([ $n = 0 ] && echo a || echo b)
		start_server "member-$name" --listen-addr "127.0.0.1:$((port + n))" --node-id $name --members "list:$list" || return 1
	done
	cluster=("$build/kv-client" -s "$server" "${over[@]}")
	server=$main server_pid=$main_pid
	soon members_are "{m['node_id']: (m['state'], m['zone'], m['weight'], m['answers']) for m in j['members']} == {'a': ('up', 'z1', 1, True), 'b': ('up', 'z2', 2, True), 'c': ('joining', '', 1, False)} and j['epoch'] > 0" || return 1
	# On a busy machine a server may be too late for a client, which then stores at the other: a later GET misses.
	soon eval '"${cluster[@]}" put key 1 && "${cluster[@]}" get key >/dev/null && members_are True'
}
members_are() { timeout -k 5 60 "${cluster[@]}" cluster --json >"$scratch/cluster"; [ $? -eq 1 ] && json_is "$scratch/cluster" "$1"; }
check "cluster shows the members of the view, and one that does not answer" clustered
check "with version, uptime, memory and hits of those that do" members_are \
	"all(m['version'] == '$("$build/kv-client" --version | sed 's/.* //')' and m['uptime_sec'] > 0 and m['memory_limit_bytes'] > 0 and int(m['incarnation'], 16) for m in j['members'] if m['answers']) and sum(m.get('hit_ratio') or 0 for m in j['members']) > 0 and 'connection refused' in [m for m in j['members'] if not m['answers']][0]['why']"
check "as a table, too" says '^c +127\.0\.0\.1:[0-9]+ +joining .* does not answer: ' "${cluster[@]}" cluster
check "and top has the members that the list does not name" says '^a=127\.0\.0\.1:[0-9]+ +[0-9]' "${cluster[@]}" top --once --interval 200ms
# Two servers with lists that differ: half of the servers is no majority.
differing() {
	local port main=$server main_pid=$server_pid pids_of=() n
	port=$(free_ports 2)
	for n in 0 1; do
		start_server "differs-$n" --listen-addr "127.0.0.1:$((port + n))" --node-id "n$n" --members "list:n$n=127.0.0.1:$((port + n))" || return 1
		pids_of+=("$server_pid")
	done
	server=$main server_pid=$main_pid
	timeout -k 5 60 "$build/kv-client" -s "n0=127.0.0.1:$port" -s "n1=127.0.0.1:$((port + 1))" "${over[@]}" cluster >"$scratch/differing"
	[ $? -eq 1 ] && grep -q 'the servers announce 2 views' "$scratch/differing" && grep -Eq "^  view [0-9a-f]{16}, epoch [0-9]+: 127\.0\.0\.1:$((port + 1))$" "$scratch/differing" &&
		stop_server "${pids_of[0]}" && stop_server "${pids_of[1]}"
}
check "cluster lists the views of which none has a majority, and exits 1" differing
check "top takes no option of stat, and stat none of top" eval 'status 2 kv top --json && status 2 kv stat --once && status 2 kv --interval 1ms top'
# At the prompt Ctrl-C ends the watch and not the program, which SIGTERM ends then as before.
watched_at_prompt() {
	local pid i
	mkfifo "$scratch/watched"
	"$build/kv-client" --server "$server" --timeout 20 "${over[@]}" --watch 100ms <"$scratch/watched" >"$scratch/prompt" 2>&1 &
	pid=$!
	pids+=("$pid")
	exec 7>"$scratch/watched"
	echo stat >&7
	for ((i = 0; i < 300; i++)); do grep -q 'changes from now on' "$scratch/prompt" && break; sleep 0.1; done
	kill -INT "$pid"
	echo 'get greeting' >&7
	for ((i = 0; i < 300; i++)); do grep -q '^hello world' "$scratch/prompt" && break; sleep 0.1; done
	grep -q '^hello world' "$scratch/prompt" && kill -TERM "$pid" || { cat "$scratch/prompt"; return 1; }
	exec 7>&-
	wait "$pid"
	[ $? -eq 143 ]
}
check "Ctrl-C ends the watch at the prompt, and SIGTERM the prompt" watched_at_prompt
full() { printf 'help\n' | kv >/dev/full; }
if [ -w /dev/full ]; then check "a prompt whose output cannot be written ends with 3" status 3 full; else skip "a prompt whose output cannot be written ends with 3" "there is no /dev/full"; fi
check "SIGTERM drains the server, which exits 0" stop_server "$server_pid"
finish
