#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# config.sh -- kv-server --config and SIGHUP, and the forms of its log: JSON lines, the journal's levels.
. "$(dirname "$0")/lib.bash"
plan 12
config=$scratch/server.conf
cat >"$config" <<'C'
# a comment
memory-mb = 64
log-level = info
slow-ms = 7
C
start_server conf --config "$config" --log-format json --log-level debug || exit 1
logged() { grep -q -- "$1" "$scratch/conf.err"; } # logged TEXT
hup() { kill -HUP "$server_pid" && soon logged "$1"; }
check "the command line wins over the file" says '256 MiB' cat "$scratch/conf.out"
check "a file that is as it was changes nothing" hup 'nothing has changed'
sed -i 's/slow-ms = 7/slow-ms = 0.02s\nttl = 500s\nmax-clients = 9/' "$config"
check "SIGHUP takes what a running server can take" hup 'taken: ttl = 500s, slow-ms = 20;'
check "and says what needs a restart" logged 'changed, and needs a restart: max-clients'
lives() { "$build/kv-client" -s "$server" "${over[@]}" put k v && "$build/kv-client" -s "$server" "${over[@]}" ttl k | grep -Eq '^(4[0-9][0-9]|500)\.'; }
check "values that name no time live as long as the file says now" lives
echo 'memry-mb = 5' >>"$config"
check "a name that is wrong is refused with its line and one that is like it" hup 'line 7: there is no option .memry-mb.; did you mean memory-mb'
check "and the server goes on" "$build/kv-client" -s "$server" "${over[@]}" ping
# Strangers' bytes and clients' names are in these lines.
(printf 'GET / HTTP/1.0\r\n"\\\x01\xff\r\n\r\n' >"/dev/tcp/${server%:*}/${server##*:}") 2>/dev/null
stop_server "$server_pid"
json_lines() {
	python3 - "$scratch/conf.err" "$scratch/conf.out" <<'P'
import datetime, json, sys
seen = 0
for name in sys.argv[1:]:
    for line in open(name, encoding="utf-8"):
        event = json.loads(line)
        assert {"ts", "level", "component", "msg"} <= set(event), line
        assert event["component"] == "kv-server" and event["level"] in ("error", "warn", "info", "debug"), line
        datetime.datetime.fromisoformat(event["ts"].replace("Z", "+00:00"))
        seen += event.get("event") == "ready"
assert seen == 1
P
}
check "each line of the log, and what stands on standard output, is a JSON object with the same names" json_lines
usage_json() { ! "$build/kv-server" --log-format json --members nonsense 2>"$scratch/usage.err" && json_is "$scratch/usage.err" 'j["level"] == "error" and "--members nonsense" in j["msg"]'; }
check "so is why it does not start" usage_json
# What systemd connects to the journal is a socket with this device and inode; a file does as well.
journal() {
	: >"$scratch/journal"
	JOURNAL_STREAM=$(stat -c %d:%i "$scratch/journal") "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 "${over[@]}" --log-level debug >"$scratch/journal.out" 2>>"$scratch/journal" &
	local pid=$!
	pids+=("$pid")
	soon grep -q READY "$scratch/journal.out"
	kill -TERM "$pid" && wait "$pid"
	grep -q '^<6>SIGTERM' "$scratch/journal" && ! grep -vq '^<[3467]>' "$scratch/journal"
}
check "lines to the journal begin with their level, without a time" journal
# The same run in each form of the log has the same events, with the same names of fields.
forms() {
	local form pid
	for form in text json journal; do
		: >"$scratch/$form.log"
		local more=()
		[ "$form" != json ] || more=(--log-format json)
		env ${journal_of[$form]:-} "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 --http-addr 127.0.0.1:0 "${over[@]}" "${more[@]}" >"$scratch/$form.out" 2>>"$scratch/$form.log" &
		pid=$!
		pids+=("$pid")
		soon grep -q 'metrics and health' "$scratch/$form.out" || return 1
		"$build/kv-client" -s "$(grep -oE 'ready on [0-9.]+:[0-9]+' "$scratch/$form.out" | cut -d' ' -f3)" "${over[@]}" put k v || return 1
		kill -TERM "$pid" && wait "$pid" || return 1
	done
	python3 - "$scratch" <<'P'
import json, re, shlex, sys
def of(line):
    if line.startswith("{"):
        o = json.loads(line)
        return {k: str(v) for k, v in o.items() if k not in ("ts", "level", "component", "msg")}
    tail = line.partition(" | event=")[2]
    return dict(w.split("=", 1) for w in shlex.split("event=" + tail)) if tail else {}
seen = {}
for form in ("text", "json", "journal"):
    lines = [of(l.rstrip("\n")) for end in ("out", "log") for l in open(f"{sys.argv[1]}/{form}.{end}", encoding="ascii")]
    seen[form] = {(e["event"], tuple(sorted(e))) for e in lines if e}
assert seen["text"] == seen["json"] == seen["journal"], seen
assert {"ready", "memory", "http", "client_in", "client_left", "goodbye", "stopped"} <= {n for n, _ in seen["text"]}, seen
P
}
: >"$scratch/journal.log"
declare -A journal_of=([journal]="JOURNAL_STREAM=$(stat -c %d:%i "$scratch/journal.log")")
check "text, JSON and the journal have the same events, with the same fields" forms
library() { KVRAIL_LOG_FORMAT=json timeout 60 "$build/kv-client" -s 127.0.0.1:9 --log-level info ping 2>&1 | grep -q '^{"ts":"[^"]*","level":"[a-z]*","component":"libkvrail","msg":'; }
check "the library's lines are JSON by KVRAIL_LOG_FORMAT" library
finish
