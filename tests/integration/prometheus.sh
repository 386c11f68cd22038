#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# prometheus.sh -- deploy/prometheus and deploy/grafana against a real Prometheus that scrapes a run (Debian: prometheus).
. "$(dirname "$0")/lib.bash"
plan 9
page=tests/integration/metrics_page.py dashboard=deploy/grafana/kvrail.json
port=$(free_ports 1)
# With a tier that is written at once, and whose budget has a limit: its devices have metrics of their own.
start_server metrics --http-addr 127.0.0.1:0 --listen-addr "127.0.0.1:$port" --node-id a --members "list:a=127.0.0.1:$port" \
	--tier "$scratch/tier.img:64M" --tier-segment 4M --tier-day 1G --tier-admit put || exit 1
url=$(sed -n 's/.*metrics and health on \([^ ]*\).*/\1/p' "$scratch/metrics.out")
client=("$build/kv-client" -s "$server" "${over[@]}")
for i in 1 2 3; do "${client[@]}" put "k$i" v && "${client[@]}" get "k$i"; done >/dev/null
fetched() { python3 -c 'import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1] + "/metrics", timeout=20).read())' "$url" >"$scratch/page"; }
check "the page can be fetched" fetched
check "each metric of the rules and the dashboard is exported" "$page" names "$scratch/page" deploy/prometheus/kvrail.rules.yml "$dashboard"
documented() { # the page of alerts has a row for each alert, and no others
	diff <(sed -n 's/^ *- alert: //p' deploy/prometheus/kvrail.rules.yml | sort) <(sed -n 's/^| `\(Kvrail[A-Za-z]*\)` |.*/\1/p' docs/reference/alerts.md | sort)
}
check "docs/reference/alerts.md has each alert" documented
command -v prometheus >/dev/null && command -v promtool >/dev/null || {
	for i in 1 2 3 4 5 6; do skip "with Prometheus" "there is no prometheus or no promtool"; done
	finish
}
check "promtool: the rules are right" promtool check rules deploy/prometheus/kvrail.rules.yml
check "promtool: so is the configuration that we give" promtool check config deploy/prometheus/prometheus.yml
check "promtool: and fire when they should" eval '(cd deploy/prometheus && promtool test rules kvrail.rules.test.yml)'

port=$(free_ports 1)
cat >"$scratch/prometheus.yml" <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$PWD/deploy/prometheus/kvrail.rules.yml"]
scrape_configs:
  - {job_name: kvrail, static_configs: [{targets: ["${url#http://}"]}]}
Y
prometheus --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/tsdb" --web.listen-address="127.0.0.1:$port" >"$scratch/prometheus.log" 2>&1 &
prometheus_pid=$!
pids+=("$prometheus_pid")
api() { # api PATH QUERY EXPRESSION -- over j, the data of the answer
	python3 - "http://127.0.0.1:$port/api/v1/$1" "$2" "$3" <<'P'
import json, sys, urllib.parse, urllib.request
url = sys.argv[1] + ("?" + urllib.parse.urlencode({"query": sys.argv[2]}) if sys.argv[2] else "")
j = json.load(urllib.request.urlopen(url, timeout=20))["data"]
sys.exit(not eval(sys.argv[3]))
P
}
# Two scrapes: rates need them.
check "Prometheus scrapes the server" soon api query 'count_over_time(up{job="kvrail"}[1m]) > 2 and on() kvrail_get_blocks_total{result="hit"} == 3' 'len(j["result"]) == 1'
healthy() { api rules '' 'all(r["health"] == "ok" for g in j["groups"] for r in g["rules"])' && api alerts '' 'not [a for a in j["alerts"] if a["state"] == "firing"]'; }
check "its rules are evaluated, and nothing fires" soon healthy
# With numbers behind it each query of the dashboard is accepted; those on what the server counts have an answer.
panels() {
	for i in 1 2 3 4 5 6; do "${client[@]}" get "k$((i % 3 + 1))" >/dev/null; "${client[@]}" exists k1 >/dev/null; done
	python3 - "$dashboard" "http://127.0.0.1:$port/api/v1/query" <<'P'
import json, sys, time, urllib.parse, urllib.request
def ask(expr):
    for name, value in (("$__rate_interval", "1m"), ("$job", ".*"), ("$instance", ".*")):
        expr = expr.replace(name, value)
    with urllib.request.urlopen(sys.argv[2] + "?" + urllib.parse.urlencode({"query": expr}), timeout=20) as f:
        return json.load(f)["data"]["result"]
left = [t["expr"] for p in json.load(open(sys.argv[1]))["panels"] for t in p.get("targets", [])]
assert len(left) > 20
for _ in range(60):
    left = [e for e in left if not ask(e) and "node_" not in e]
    if not left:
        sys.exit(0)
    time.sleep(0.5)
sys.exit("no answer to:\n" + "\n".join(left))
P
}
check "each query of the dashboard has an answer" panels
finish
