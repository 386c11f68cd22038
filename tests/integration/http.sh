#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# http.sh -- kv-server --http-addr: its pages, who may ask, and those who ask badly.
. "$(dirname "$0")/lib.bash"
plan 27
page=tests/integration/metrics_page.py
command -v curl >/dev/null || skip_all 27 "there is no curl"

url_of() { url=$(sed -n 's/.*metrics and health on \([^ ]*\).*/\1/p' "$scratch/$1.out"); [ -n "$url" ]; }
start_server http --http-addr 127.0.0.1:0 --drain-sec 60 --heartbeat-ms 60000 && url_of http || exit 1
fetch() { curl -sS --max-time 20 "$url$1"; }
code() { [ "$(curl -s -o /dev/null -w '%{http_code}' --max-time 20 "${@:3}" "$url$1")" = "$2" ]; }
counts() { fetch /metrics | grep -qxF "$1"; } # counts 'NAME{LABELS} VALUE'

fetch /metrics >"$scratch/first"
check "the page is well formed before the first request" "$page" page "$scratch/first"
client=("$build/kv-client" -s "$server" "${over[@]}")
work() {
	"${client[@]}" put a 1 && "${client[@]}" get a && "${client[@]}" exists a && status 1 "${client[@]}" get none
}
check "a client works" work
check "hits are counted" soon counts 'kvrail_get_blocks_total{result="hit",tier="memory"} 1'
check "misses are counted" soon counts 'kvrail_get_blocks_total{result="miss",tier="memory"} 1'
check "requests are counted by operation and code" soon counts 'kvrail_requests_total{op="get",code="not_found"} 1'
check "the keys of EXISTS are counted" soon eval "fetch /metrics | grep -qx 'kvrail_prefix_blocks_total{result=\"present\"} [1-9]'"
fetch /metrics >"$scratch/page"
check "the page is well formed afterwards" "$page" page "$scratch/page"
if command -v promtool >/dev/null; then
	check "promtool finds nothing" promtool check metrics <"$scratch/page"
else
	skip "promtool finds nothing" "there is no promtool (Debian: prometheus)"
fi
each_stat() { # nothing that kv-client stat has is missing: by name or by a family of its own
	fetch /stat >"$scratch/stat" && "${client[@]}" stat --json >"$scratch/cli" && python3 - "$scratch" <<'P'
import json, sys
a, b = (json.load(open(f"{sys.argv[1]}/{n}"))["servers"][0]["counters"] for n in ("stat", "cli"))
assert {g: set(v) for g, v in a.items()} == {g: set(v) for g, v in b.items()}, (a, b)
page = open(f"{sys.argv[1]}/page").read()
own = "version hits tier_served misses bytes_read bytes_written bytes_used bytes_limit blocks evictions expired replies post_ns serve_ns".split()
left = [n for g, v in a.items() if g != "answers" for n in v if n not in own and not n.startswith("rail_")
        and f"kvrail_{n.removesuffix('_ns')}" not in page]
assert not left, left
P
}
check "/stat has what kv-client stat has, and /metrics every item of it" each_stat
check "/view shows the server" json_is <(fetch /view) 'len(j["members"]) == 1 and j["members"][0]["state"] == "up"'
check "/healthz and /readyz say ok" eval '[ "$(fetch /healthz)$(fetch /readyz)" = okok ]'
check "HEAD has no body" eval '[ -z "$(curl -s --max-time 20 -X HEAD -I "$url/metrics" | sed "1,/^\r*$/d")" ]'
others() { code /metrics 405 -X POST -d x && code /metrics 405 -X DELETE && code /nope 404 && code /metrics/ 404; }
check "other methods are 405, other paths 404" others
check "a head of 64 KiB is refused" eval "! code /metrics 200 -H 'X: $(head -c 65536 /dev/zero | tr '\0' y)'"
check "10,000 connections that say nothing shut out nobody" timeout 120 "$page" flood "$url" 10000
check "a request that comes byte by byte is cut" timeout 120 "$page" drip "$url"
calls_while_flooded() { "${client[@]}" get a | grep -q 1; }
check "and the server serves" calls_while_flooded
drained() { # a client that does not leave keeps the drain going
	local pinned ended
	"${client[@]}" pin a >"$scratch/pin" 2>&1 &
	pinned=$!
	pids+=("$pinned")
	soon grep -q 'stay pinned' "$scratch/pin" && stand_still "$pinned" && kill -TERM "$server_pid" || return 1
	soon code /readyz 503 && fetch /readyz | grep -q '^draining' && code /healthz 200 && counts 'kvrail_ready 0' && fetch /view | grep -q '"state":"draining"' || return 1
	kill -CONT "$pinned"
	wait "$server_pid"
	ended=$?
	kill -INT "$pinned"
	return $ended
}
check "a server that drains is alive, not ready, and says so; then it ends" drained

# Whoever comes stays in the backlog then, and is looked at again each 100 ms: the thread wakes when the pause is over, and
# at once again, since somebody waits. Each connection that comes or goes wakes it a few times.
wakeups() { fetch /metrics | sed -n 's/^kvrail_http_wakeups_total //p'; }
full() {
	local n before after begun
	start_server full --http-addr 127.0.0.1:0 && url_of full || return 1
	before=$(wakeups) begun=$(date +%s%N)
	prlimit --pid "$server_pid" --nofile=3: || return 1
	for n in 1 2 3 4 5 6; do (exec 3<>"/dev/tcp/127.0.0.1/${url##*:}" && sleep 30) & pids+=($!); done
	! curl -sS --max-time 3 "$url/healthz" || return 1
	prlimit --pid "$server_pid" --nofile=4096:
	soon code /healthz 200 && after=$(wakeups) || return 1
	n=$((2 * ($(date +%s%N) - begun) / 100000000))
	echo "it woke $((after - before)) times, $n of them to look"
	[ $((after - before)) -le $((n + 100)) ] && stop_server "$server_pid"
}
check "without a descriptor for another connection it does not spin" full
refused() { says "$1" "$build/kv-server" --listen-addr 127.0.0.1:0 --memory-mb 16 "${over[@]}" "${@:2}"; }
check "beyond loopback without TLS it is refused" refused 'can be read|can be reached from other machines, and there is no TLS' --http-addr 0.0.0.0:0
check "--insecure is about clients, and does not allow that" refused 'can be reached from other machines, and there is no TLS.*--http-insecure' --insecure --http-addr 0.0.0.0:0
plain() { # --http-insecure is about HTTP, and lets no client in
	refused 'neither a pre-shared key nor certificates' --http-insecure --http-addr 127.0.0.1:0 --listen-addr 0.0.0.0:0 || return 1
	start_server plain --log-level info --http-insecure --http-addr 0.0.0.0:0 && url_of plain || return 1
	url=${url/0.0.0.0/127.0.0.1}
	code /readyz 200 && counts 'kvrail_open_to_anyone 0' && ! grep -q 'event=open_to_anyone' "$scratch/plain.err" && stop_server "$server_pid"
}
check "--http-insecure allows it" plain
anyone() { # what was said at the start, and is counted
	start_server anyone --log-level warn --insecure --listen-addr 0.0.0.0:0 --http-addr 127.0.0.1:0 && url_of anyone || return 1
	counts 'kvrail_open_to_anyone 1' && fetch /metrics | grep -q '^kvrail_build_info.*security="none"' || return 1
	grep -q 'WARN .*anybody there can read and write.*event=open_to_anyone' "$scratch/anyone.err" && stop_server "$server_pid"
}
check "a server that lets anybody in warns, and counts it" anyone
beside() {
	"$build/kv-server" --make-psk "$scratch/beside.key" >/dev/null
	start_server beside --log-level warn --insecure --psk-file "$scratch/beside.key" --listen-addr 0.0.0.0:0 --http-addr 127.0.0.1:0 && url_of beside || return 1
	counts 'kvrail_open_to_anyone 0' && fetch /metrics | grep -q '^kvrail_build_info.*security="psk"' || return 1
	grep -q 'event=insecure_unneeded' "$scratch/beside.err" && stop_server "$server_pid"
}
check "--insecure beside a key warns, and has no effect" beside
check "an address that cannot be is refused" refused 'http-addr' --http-addr 127.0.0.1:99999
tls() {
	scripts/make-test-certs.sh "$scratch/certs" >/dev/null 2>&1 || return 1
	start_server tls --log-level info --http-addr 0.0.0.0:0 --cert "$scratch/certs/server.pem" --key "$scratch/certs/server.key" --ca "$scratch/certs/ca.pem" && url_of tls || return 1
	[[ $url = https://* ]] && curl -sSk --max-time 20 "${url/0.0.0.0/127.0.0.1}/readyz" | grep -qx ok || return 1
	kill -HUP "$server_pid"
	soon grep -q 'event=http_keys_read' "$scratch/tls.err" || return 1
	soon eval "grep -q . <(curl -sSk --max-time 20 '${url/0.0.0.0/127.0.0.1}/view')"
}
tls_spoiled() {
	echo spoiled >"$scratch/certs/server.pem"
	kill -HUP "$server_pid"
	soon grep -q 'event=http_keys_failed reason=' "$scratch/tls.err" || return 1
	curl -sSk --max-time 20 "${url/0.0.0.0/127.0.0.1}/readyz" | grep -qx ok && stop_server "$server_pid"
}
check "beyond loopback it speaks TLS with the server's certificate, which SIGHUP reads again" tls
check "one that cannot be read leaves the former in force, and is an event" tls_spoiled
finish
