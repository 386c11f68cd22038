#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tenants.sh -- kv-server --tenants: identities with their rights, of keys and of certificates, several over one connection; their
# figures; a reload, a removed tenant, a cap under 64 writers, what is refused, and whether a foreign key takes as long as a missing one.
. "$(dirname "$0")/lib.bash"
plan 47
for name in acme beta ops stranger; do "$build/kv-server" --make-psk "$scratch/$name.key" --identity "$name" >/dev/null; done
"$build/kv-server" --make-psk "$scratch/acme2.key" --identity acme >/dev/null
cat "$scratch"/{acme,acme2,beta,stranger,ops}.key >"$scratch/all.key" && chmod 600 "$scratch/all.key"
# ACME's rights in its namespace, and whether there is a beta; SESSIONS: how many beta may have.
table() { # RIGHTS [BETA]
	python3 - "$@" >"$scratch/new.json" <<'EOF'
import json, os, sys
acme = {"name": "acme", "identities": ["acme"], "namespaces": {"acme": sys.argv[1], "acme-*": "rwdpc", "public": "r"}, "memory_cap": "8MiB"}
beta = {"name": "beta", "identities": ["beta"], "namespaces": {"beta": "rwdpc", "public": "rw"}, "memory_share": "8MiB", "requests_max": 64, "sessions_max": int(os.environ.get("SESSIONS", 1000))}
ops = {"name": "ops", "identities": ["ops"], "namespaces": {"*": "rwdpc"}}
print(json.dumps({"tenants": [acme] + ([beta] if len(sys.argv) < 3 else []) + [ops]}))
EOF
	mv "$scratch/new.json" "$scratch/tenants.json"
}
table rwdpc
start_server one --psk-file "$scratch/all.key" --tenants "$scratch/tenants.json" --session-keys "$scratch/beta.key" --events on --log-level info --http-addr 127.0.0.1:0 --http-insecure || exit 1
log=$scratch/one.err
url=$(sed -n 's/.*metrics and health on \([^ ]*\).*/\1/p' "$scratch/one.out" "$log" | head -n 1)
as() { # IDENTITY NAMESPACE COMMAND...
	local who=$1 space=$2
	shift 2
	timeout -k 5 60 "$build/kv-client" --server "$server" "${over[@]}" --psk-file "$scratch/$who.key" --namespace "$space" --timeout 20 "$@"
}
is() { [ "$(as "$1" "$2" get "$3")" = "$4" ]; }
logged() { soon grep -qE -- "$1" "$log"; }
hup() { kill -HUP "$server_pid" && logged "$1"; }

# ---- rights ----
check "a tenant stores in its namespace" as acme acme put k mine
check "and in those of a prefix" as acme acme-model put k mine
check "another key of its identity reads it" is acme2 acme k mine
check "another tenant finds nothing there" status 1 as beta acme get k
check "nor with exists" status 1 as beta acme exists k
check "it may not store there" says 'authori' as beta acme put l x
check "nor delete: as if the key were missing" status 1 as beta acme delete k
check "nor clear" status 3 as beta acme clear
check "the value is there" is acme acme k mine
check "a public namespace has its writer" as beta public put p shared
check "and its readers" is acme public p shared
check "who may not write" says 'authori' as acme public put q x
check "nor delete" says 'authori' as acme public delete p
check "a list of namespaces shows its own alone" eval 'as acme acme namespaces --json | json_is - "[n[\"name\"] for n in j[\"namespaces\"]] == [\"acme\"]"'
check "one that may read all sees all" eval 'as ops "" namespaces --json | json_is - "{n[\"name\"] for n in j[\"namespaces\"]} >= {\"acme\", \"acme-model\", \"public\"}"'
figures() { as "$1" "$2" tenants --interval 100ms --json | json_is - "$3"; }
check "the tenants' figures, for one that may read all" figures ops "" "{t['name']: (t['memory_share'], t['memory_cap'], t['requests_max'], t['listed']) for t in j['tenants']} == {'acme': (0, 8 << 20, None, True), 'beta': (8 << 20, None, 64, True), 'ops': (0, None, None, True)} and [t['memory_bytes'] > 0 for t in j['tenants'] if t['name'] == 'beta'] == [True]"
check "a tenant sees its own alone" figures acme acme "[t['name'] for t in j['tenants']] == ['acme'] and j['tenants'][0]['sessions'] >= 1"
check "also where it has no rights" figures beta acme "[t['name'] for t in j['tenants']] == ['beta']"
check "as a table" says '^acme +[0-9.]+ [KM]iB .* 8 MiB ' as acme acme tenants --interval 100ms
check "sessions over one connection have the rights of their own keys" "$build/tests/integration/tenant_sessions" "$server" "$scratch/acme.key" "$scratch/beta.key"
check "the numbers of the server are for it alone" eval 'as ops "" stat >/dev/null && status 3 as acme acme stat'
check "nor who holds leases, but for one that may read all" eval 'as ops "" leases >/dev/null && status 1 as acme acme leases && says "leases: those of 1 server are missing: .*:[0-9]+: .*authori" as acme acme leases'
check "an unknown identity is refused, and told the way out" says 'tenants does not list' as stranger acme get k
check "a session is in the log" logged 'audit_session .*tenant=beta namespace=acme rights=0'
check "so is a refusal" logged 'audit_refused .*identity=.*stranger'
check "no line has a key of a value" eval '! grep -q "key=" "$log"'
check "the memory is mapped by a client that may read all" logged 'event=local_in'
as acme acme --log-level info get k >"$scratch/got" 2>"$scratch/acme.log"
check "another uses the fabric, and says why, once" eval '[ "$(grep -c "may not read all" "$scratch/acme.log")" -eq 1 ] && [ "$(cat "$scratch/got")" = mine ]'

# ---- events ----
timeout 20 "$build/kv-client" --server "$server" "${over[@]}" --psk-file "$scratch/acme.key" --namespace acme events --json >"$scratch/events" 2>/dev/null &
pids+=($!)
sleep 1
as beta beta put secret x && as acme acme put seen x && as beta beta put secret2 x && as acme acme put seen2 x
check "events are of its own namespaces" eval 'soon grep -q seen2 "$scratch/events" && grep -q "seen\"" "$scratch/events" && ! grep -q secret "$scratch/events"'

# ---- limits ----
head -c 262144 /dev/urandom >"$scratch/bytes"
short && clients=16 || clients=64
writers() { # they store 256 values
	local w
	for w in $(seq "$clients"); do
		for ((i = 0; i < 256 / clients; i++)); do echo "put w$w-$i -f $scratch/bytes"; done | as acme acme >/dev/null 2>&1 &
	done
	wait $(jobs -p | grep -v -x -f <(printf '%s\n' "${pids[@]}"))
}
most() { # the most that the tenant has had, as the metrics show it
	for i in $(seq 100); do
		curl -s --max-time 5 "$url/metrics" | sed -n 's/^kvrail_tenant_bytes{tenant="acme"} //p'
		sleep 0.05
	done | sort -n | tail -n 1
}
if [ -n "$url" ]; then
	most >"$scratch/most" &
	looker=$!
	writers
	wait "$looker"
	check "$clients writers do not exceed a cap by a byte" eval '[ "$(cat "$scratch/most")" -le 8388608 ] && [ "$(cat "$scratch/most")" -gt 4000000 ]'
	check "the metrics have each tenant" eval 'curl -s "$url/metrics" | grep -q "^kvrail_tenant_evictions_total{tenant=\"acme\"} [1-9]"'
else
	skip "$clients writers do not exceed a cap by a byte" "there are no metrics here"
	skip "the metrics have each tenant" "there are no metrics here"
fi
check "what others have stays" is beta public p shared

# ---- reloads ----
table r
check "a reload takes rights away" eval 'hup "tenants were reread" && says authori as acme acme put k2 x'
check "and leaves the others" as acme acme-model put k2 x
echo '{"tenants": [' >"$scratch/tenants.json"
check "a broken file changes nothing, and the log has its place" eval 'hup "tenants.json, line 2.*stay in force" && as acme acme-model get k2'
table rwdpc none
check "a removed tenant is refused" eval 'hup "event=tenants_read cut=" && soon says "tenants does not list" as beta beta get secret'
gone() { as ops "" namespaces --json | json_is - "[n['values'] for n in j['namespaces'] if n['name'] == 'beta'] == [0]"; }
check "its memory comes back" soon gone
table rwdpc
check "when it returns, nothing of its is there" eval 'hup "event=tenants_read" && soon as beta beta put new x && status 1 as beta beta get secret'
sessions() { grep -c 'event=audit_session .*tenant=beta' "$log"; }
begun=$(sessions)
"$build/kv-client" --server "$server" "${over[@]}" --psk-file "$scratch/beta.key" --namespace beta events >/dev/null 2>&1 &
follower=$!
pids+=("$follower")
soon eval '[ "$(sessions)" -gt "$begun" ]'
SESSIONS=1 table rwdpc
over() { as beta beta get new 2>&1 | grep -q 'as many as its sessions_max'; }
check "a session beyond the tenant's limit is refused, and told why" eval 'kill -HUP "$server_pid" && soon over && logged "audit_refused .*sessions_max"'
if [ -n "$url" ]; then
	check "the metrics count it" eval 'curl -s "$url/metrics" | grep -q "^kvrail_tenant_sessions_refused_total{tenant=\"beta\"} [1-9]" && curl -s "$url/metrics" | grep -q "^kvrail_tenant_sessions{tenant=\"beta\"} 1$"'
else
	skip "the metrics count it" "there are no metrics here"
fi
kill "$follower"
table rwdpc
check "a higher limit holds at once" eval 'kill -HUP "$server_pid" && soon as beta beta get new'
check "without keys there are no tenants" says 'needs clients that prove' "$build/kv-server" --listen-addr 127.0.0.1:0 --tenants "$scratch/tenants.json"

# ---- certificates ----
scripts/make-test-certs.sh "$scratch/certs" >/dev/null 2>&1
common_name() { openssl x509 -in "$scratch/certs/$1.pem" -noout -subject -nameopt multiline | sed -n 's/^ *commonName *= //p'; }
python3 - "CN=$(common_name client)" "CN=$(common_name member)" >"$scratch/certs.json" <<'EOF'
import json, sys
print(json.dumps({"tenants": [{"name": "one", "identities": [sys.argv[1]], "namespaces": {"one": "rwdpc"}},
                              {"name": "two", "identities": [sys.argv[2]], "namespaces": {"two": "rwdpc", "one": "r"}}]}))
EOF
main=$server
start_server certs --cert "$scratch/certs/server.pem" --key "$scratch/certs/server.key" --ca "$scratch/certs/ca.pem" --tenants "$scratch/certs.json" --log-level info || exit 1
holder() { # CERTIFICATE NAMESPACE COMMAND...
	local who=$1 space=$2
	shift 2
	timeout -k 5 60 "$build/kv-client" --server "$server" "${over[@]}" --cert "$scratch/certs/$who.pem" --key "$scratch/certs/$who.key" --ca "$scratch/certs/ca.pem" --namespace "$space" --timeout 20 "$@"
}
check "the name of a certificate is an identity" eval 'holder client one put k mine && [ "$(holder member one get k)" = mine ]'
check "with the rights of its tenant alone" eval 'says authori holder member one put k2 x && status 1 holder client two get k'
check "the log has it" eval 'soon grep -q "audit_session .*tenant=two namespace=one rights=1" "$scratch/certs.err"'
check "a certificate of no tenant is refused" says 'tenants does not list' holder revoked one get k
server=$main

# ---- time ----
seq 0 999 | sed 's/.*/put k& x/' | as acme acme >/dev/null
if short; then
	skip "a foreign key takes as long as a missing one" "it takes half a minute: make check-long"
else
	check "a foreign key takes as long as a missing one" "$build/tests/integration/exists_time" "$server" "$scratch/beta.key" acme 100000
fi
finish
