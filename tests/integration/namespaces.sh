#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# namespaces.sh -- kv-client and kv-bench in namespaces: their values, clears, what is listed and counted, and wrong names.
. "$(dirname "$0")/lib.bash"
plan 20
start_server one --http-addr 127.0.0.1:0 || exit 1
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
listed() { space "" namespaces --json | json_is - "$1"; }
check "the list has each once, with its figures" listed \
	"{n['name']: (n['generation'], n['values']) for n in j['namespaces']} == {'': (1, 0), 'model@a': (1, 1), 'model@b': (0, 1)} and all(n['hits'] <= n['gets'] for n in j['namespaces'])"
check "as a table" says '^ +1 +1 .* model@a$' space "" namespaces
gets() { [ -z "$url" ] || curl -s --max-time 20 "$url/metrics" | grep -q '^kvrail_namespace_gets_total{namespace="model@a"} [1-9]'; }
check "the metrics count each" soon gets
bench() { timeout -k 5 60 "$build/kv-bench" --server "$one" "${over[@]}" --namespace bench --num-keys 100 --value-size 4k --duration 1s --warmup 0; }
check "kv-bench uses its namespace" eval 'bench && space "" namespaces --json | json_is - "[n for n in j[\"namespaces\"] if n[\"name\"] == \"bench\" and n[\"gets\"] > 0]"'
check "a name of 65 bytes is refused, with the limit" says 'has 65 bytes; it may have 64' space "$(printf 'n%.0s' $(seq 65))" ping
check "so is one with a line end" status 3 space $'a\nb' ping
stop_server "$two_pid"
check "with a server away, clear fails and asks for another try" says 'not every server has cleared the namespace; run it again when all answer' space model@b --timeout 3 clear
check "what answers is cleared all the same" eval 'space "" --timeout 3 namespaces --json | json_is - "[n[\"generation\"] for n in j[\"namespaces\"] if n[\"name\"] == \"model@b\"] == [1]"'
check "namespaces names the server that does not answer" says 'those of 1 server are missing: .*connection refused' space "" --timeout 3 namespaces
named() { timeout -k 5 60 "$build/kv-client" --server "a=$one" --server "b=$two" --timeout 3 "${over[@]}" "$@"; }
check "cluster without a view has the names of the list" says '^b +127.*does not answer' named cluster
finish
