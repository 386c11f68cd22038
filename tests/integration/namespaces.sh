#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# namespaces.sh -- kv-client and kv-bench in namespaces: their values, clears, what is listed and counted, wrong names; and the nodes of
# events --since.
. "$(dirname "$0")/lib.bash"
plan 26
start_server one --http-addr 127.0.0.1:0 --events on || exit 1
one=$server
start_server two || exit 1
two=$server two_pid=$server_pid
url=$(sed -n 's/.*metrics and health on \([^ ]*\).*/\1/p' "$scratch/one.out")
space() { timeout -k 5 60 "$build/kv-client" --server "$one" --server "$two" --timeout 20 "${over[@]}" --namespace "$@"; }
get_is() { [ "$(space "$1" get "$2")" = "$3" ]; }
keys=(k{1..40})
put_all() { printf 'put %s first\n' "${keys[@]}" | space "$1"; }
none() { printf 'get %s\n' "${keys[@]}" | space "$1" >"$scratch/found" 2>/dev/null; [ $? -eq 1 ] && [ ! -s "$scratch/found" ]; }

check "values in a namespace" put_all "model@a"
check "are found there" get_is "model@a" k1 first
check "and nowhere else" none "model@b"
check "nor in the default namespace" status 1 space "" get k1
check "another namespace has other bytes under the same key" eval 'space model@b put k1 other && get_is model@b k1 other && get_is model@a k1 first'
check "clear" says 'namespace model@a is cleared: generation 1$' space model@a clear
check "its values are gone, of both servers" none "model@a"
check "those of others are not" get_is model@b k1 other
check "its keys take other bytes" eval 'space model@a put k1 second && get_is model@a k1 second'
check "clear without a namespace clears the default one" says 'namespace \(default\) is cleared: generation 1$' space "" clear
check "clear of a name that nobody has used says so" says 'namespace model@s is cleared: generation [0-9]+, but it was empty, and no GET has asked' space model@s clear
listed() { space "" namespaces --json | json_is - "$1"; }
check "the list has each once, with its figures" listed \
	"{n['name']: (n['generation'], n['values'], n['tier_bytes']) for n in j['namespaces'] if n['name'] != 'model@s'} == {'': (1, 0, 0), 'model@a': (1, 1, 0), 'model@b': (0, 1, 0)} and all(n['hits'] <= n['gets'] for n in j['namespaces'])"
check "as a table" says '^ +1 +1 .* model@a$' space "" namespaces
gets() { [ -z "$url" ] || curl -s --max-time 20 "$url/metrics" | grep -q '^kvrail_namespace_gets_total{namespace="model@a"} [1-9]'; }
check "the metrics count each" soon gets
bench() { timeout -k 5 60 "$build/kv-bench" --server "$one" "${over[@]}" --namespace bench --num-keys 100 --value-size 4k --duration 1s --warmup 0; }
used() { printf '%s\n' 'put k x' 'get k' 'delete k' | space model@c >/dev/null && says 'namespace model@c is cleared: generation [0-9]+$' space model@c clear; }
check "a namespace that had values is cleared as any" used
check "a server without tenants says so" status 1 space "" tenants
check "kv-bench uses its namespace" eval 'bench && space "" namespaces --json | json_is - "[n for n in j[\"namespaces\"] if n[\"name\"] == \"bench\" and n[\"gets\"] > 0]"'
check "a name of 65 bytes is refused, with the limit" says 'has 65 bytes; it may have 64' space "$(printf 'n%.0s' $(seq 65))" ping
check "so is one with a line end" status 3 space $'a\nb' ping
events() { timeout -k 5 60 "$build/kv-client" --server "$one" --server "$two" --timeout 20 "${over[@]}" events "$@"; }
position() { # of the newest event of the first server
	timeout -k 5 20 "$build/kv-client" --server "$one" "${over[@]}" events --once --json >"$scratch/events" && python3 -c '
import json, sys
e = [json.loads(line) for line in open(sys.argv[1])][-1]
print(e["node"] + "=" + e["epoch"] + ":" + str(e["sequence"]))' "$scratch/events"
}
follows() { # it goes on behind that event, without what is stored
	local at
	at=$(position) || return 1
	"$build/kv-client" --server "$one" "${over[@]}" events --since "$at" >"$scratch/later" 2>&1 &
	pids+=($!)
	sleep 1
	put_all model@d && soon grep -qE 'stored .* k[0-9]+ namespace model@d' "$scratch/later" && ! grep -q ' cleared' "$scratch/later"
}
check "events go on behind a node's event" follows
check "--since with a node that is not there is refused, with those that are" says "no server is named nonesuch; the servers are $one, $two" events --since nonesuch=1:1
check "nor may a node have two positions" says "names $one twice" events --since "$one=1:1" --since "$one=1:2"
stop_server "$two_pid"
check "with a server away, clear fails and asks for another try" says 'not every server has cleared the namespace; run it again when all answer' space model@b --timeout 3 clear
check "what answers is cleared all the same" eval 'space "" --timeout 3 namespaces --json | json_is - "[n[\"generation\"] for n in j[\"namespaces\"] if n[\"name\"] == \"model@b\"] == [1]"'
check "namespaces names the server that does not answer" says 'those of 1 server are missing: .*connection refused' space "" --timeout 3 namespaces
named() { timeout -k 5 60 "$build/kv-client" --server "a=$one" --server "b=$two" --timeout 3 "${over[@]}" "$@"; }
check "cluster without a view has the names of the list" says '^b +127.*does not answer' named cluster
finish
