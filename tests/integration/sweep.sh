#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sweep.sh -- kv-bench sweep: that every combination is measured, what fails is marked, and what was measured survives a kill, a full disk and a wrong file.
. "$(dirname "$0")/lib.bash"
plan 50
tiny=(--num-keys 20 --repeat-reads 2 --warmup 2 --buffer-mb 4 --num-threads 1 "${over[@]}")
sweep() { timeout -k 5 200 "$build/kv-bench" sweep "${tiny[@]}" "$@"; }
schema() { tests/integration/schema.py "$@"; }
r=$scratch/r.json

check "all combinations are run" sweep -w 1,2,4 -c 1,2 -v 4KB,64KB --repeat-runs 2 --order-seed 3 --json "$r" --report "$scratch/r.html"
cp "$scratch/check.out" "$scratch/table"
check "each as often as asked, but for those that make no sense" json_is "$r" \
	'sorted(p["state"] for p in j["sweep"]["points"]) == ["done"] * 10 + ["skipped"] * 2 and all(len(p["runs"]) == 2 * (p["state"] == "done") for p in j["sweep"]["points"])'
check "these say why" json_is "$r" 'all("more clients than workers" in p["reason"] for p in j["sweep"]["points"] if p["state"] == "skipped")'
check "also in the table and on the page, in their own rows" eval 'unfolded "$scratch/table" | grep -qE " 4 KiB 2 1 skipped: more clients than workers: some would have no worker 4 KiB 2 2 |64 KiB 2 1 skipped: more clients than workers" && [ "$(grep -c "  skipped: more clients than workers" "$scratch/table")" -eq 2 ] && unfolded "$scratch/table" | grep -q "10 combinations (2 more skipped)" && grep -q "skipped: more clients than workers" "$scratch/r.html"'
check "figures are medians, with their spread" json_is "$r" \
	'all(abs(p["ops_per_s"] - sum(x["ops_per_s"] for x in p["runs"]) / 2) < 1 and p["spread"]["ops_per_s"]["min"] <= p["ops_per_s"] <= p["spread"]["ops_per_s"]["max"] for p in j["sweep"]["points"] if p["runs"])'
check "the JSON is as its schema says" schema "$r"
spoilt() {
	local rule
	for rule in 'j.pop("sweep")' 'j["sweep"]["points"][0].pop("runs")' 'j["sweep"]["points"][0]["runs"][0].pop("seed")' 'j["sweep"]["points"][0].update(p51=1)' 'j.update(schema="kvbench/1")'; do
		python3 -c "import json, sys; j = json.load(open(sys.argv[1])); $rule; json.dump(j, open(sys.argv[2], 'w'))" "$r" "$scratch/spoilt.json"
		schema "$scratch/spoilt.json" >/dev/null && { echo "not found: $rule"; return 1; }
	done
	return 0
}
check "and what the schema forbids is found" spoilt
check "no line is wider than a terminal" eval '! grep -nE "^.{81}" "$scratch/table"'
check "the seed of the order is printed, and the time that is left" eval 'unfolded "$scratch/table" | grep -q "seed 3" && grep -qE "^ +1/20 .* (s|min|h)$" "$scratch/table"'
check "nothing lies beside the files" test "$(find "$scratch" -name '*.tmp' | wc -l)" -eq 0
well_formed() { python3 -c 'import sys, xml.dom.minidom as x; assert x.parse(sys.argv[1]).documentElement.tagName == "svg"' "$1"; }
check "plot draws the heat map" eval '"$build/kv-bench" plot "$r" -o "$scratch/heat.svg" && well_formed "$scratch/heat.svg" && grep -q "64 KiB" "$scratch/heat.svg"'
replotted() { "$build/kv-bench" plot "$r" -o "$scratch/again.html" && cmp "$scratch/again.html" "$scratch/r.html" && grep -q '<svg' "$scratch/r.html"; }
check "and the page that --report wrote" replotted
check "percentiles and time series are none of a sweep" eval 'for f in x.csv x.hgrm; do says "a sweep has no percentiles and no time series" "$build/kv-bench" plot "$r" -o "$scratch/$f" && ! test -e "$scratch/$f" || return 1; done'
check "so are they when --figure asks for them; a file without a chart takes no --figure" eval 'says "has no " "$build/kv-bench" plot "$r" --figure percentiles -o "$scratch/no.svg" && ! test -e "$scratch/no.svg" && status 2 "$build/kv-bench" plot "$r" --figure scaling -o "$scratch/no.html" && ! test -e "$scratch/no.html" && status 0 "$build/kv-bench" plot "$r" --figure scaling -o "$scratch/yes.svg"'
check "another chart of it is refused" says 'has no histogram' "$build/kv-bench" plot "$r" --figure histogram -o "$scratch/no.svg"

# Compared: what differs is shown, and under other conditions nothing is.
vary() { # NEW PYTHON -- the sweep with a change; the machine was the same throughout, and runs differ by 1 %
	python3 -c "import json, sys
j = json.load(open(sys.argv[1]))
points = [p for p in j['sweep']['points'] if p['runs']]
for p in points:
    while len(p['runs']) < 3: p['runs'].append(dict(p['runs'][0])) # fewer say nothing of noise
    for i, run in enumerate(p['runs']):
        run.update(ops_per_s=1000 * (1 + i / 100), p50_ns=500, p99_ns=9000, shared_machine=False, steal_share=0.0, core_distance_before_ns=60, core_distance_after_ns=60)
def speed(p, f):
    for run in p['runs']: run['ops_per_s'] *= f
$2
json.dump(j, open(sys.argv[2], 'w'))" "$r" "$scratch/$1.json"
}
vary base ''
vary slow 'speed(points[3], 0.8); speed(points[4], 1.3)'
vary unlike 'speed(points[3], 0.8)
for run in points[3]["runs"]: run["shared_machine"] = True'
vary stolen 'speed(points[3], 0.8)
for run in points[3]["runs"]: run["steal_share"] = 0.2'
vary far 'speed(points[3], 0.8); speed(points[4], 1.3)
for p in points[3:5]:
    for run in p["runs"]: run["core_distance_after_ns"] = 300'
vary stolen_later 'speed(points[3], 0.8)
del points[3]["runs"][0]["steal_share"]
points[3]["runs"][1]["steal_share"] = 0.2'
vary failed 'points[3].update(state="failed", reason="its server ended", runs=[])'
vary gone 'points[3].update(state="pending", runs=[])'
vary spin 'j["provider"]["wait"] = "poll"; j["sweep"]["settings"].append("--verify")'
vary few 'for p in points: del p["runs"][2:]'
vary few_slow 'speed(points[3], 0.8)
for p in points: del p["runs"][2:]'
compare() { (cd "$scratch" && "$build/kv-bench" compare "$@"); }
check "a sweep is no worse than itself" status 0 compare base.json base.json
check "a combination that is slower is shown, with status 1" eval 'status 1 compare base.json slow.json && says "clients, [0-9]+ workers, ops/s: WORSE.*30 figures|1 of 30 figures worse by more" compare base.json slow.json && says "ops/s: better" compare base.json slow.json'
check "of two runs of each there is no verdict, with status 2" eval 'status 2 compare few.json few_slow.json && says "ops/s: differs, of too few windows or runs: no verdict.*no verdict on 30 figures" compare few.json few_slow.json'
check "those without a difference are counted" says '28 figures without a difference are not shown' compare base.json slow.json
check "below the threshold it is not" status 0 compare base.json slow.json --threshold 25
check "of several the last decides, and each is shown" eval 'status 0 compare base.json slow.json base.json --threshold 5 && status 1 compare base.json base.json slow.json && says "base.json .* slow.json .*-20.0 %" compare base.json base.json slow.json'
check "a combination on a shared machine is not compared" eval 'status 0 compare base.json unlike.json && says "workers, shared machine: false, then true.*1 combinations? w.* under different conditions" compare base.json unlike.json && status 1 compare --force base.json unlike.json'
check "one that is slower with cores farther apart is not judged; one that is faster with them is" eval 'status 2 compare base.json far.json && says "workers, ops/s: differs as the distance of two cores does, 60 ns .near., then 60 to 300 ns .near to far.: not judged" compare base.json far.json && says "workers, ops/s: better" compare base.json far.json && status 1 compare --force base.json far.json'
check "nor one whose time was stolen" eval 'status 0 compare base.json stolen.json && says "hypervisor stole: 0.0 %, then 20.0 %" compare base.json stolen.json'
check "also where the first run does not know it" eval 'status 0 compare base.json stolen_later.json && says "hypervisor stole: 0.0 %, then 20.0 %" compare base.json stolen_later.json'
check "a combination that failed is worse, and is named" eval 'status 1 compare base.json failed.json && says "workers, FAILED in failed.json: its server ended.*1 of the first.s combinations was not measured again, 1 of them failed" compare base.json failed.json && status 0 compare failed.json base.json'
check "one that was not measured is named" eval 'status 0 compare base.json gone.json && says "workers, not measured in gone.json" compare base.json gone.json'
check "other conditions of all: status 2, and they are named" eval 'status 2 compare base.json spin.json && says "wait mode: .*then .poll.*option: not known, then .--verify.*2 conditions differ" compare base.json spin.json'
check "the report to standard output is JSON alone" eval 'sweep -w 1 --json - 2>/dev/null | python3 -m json.tool >/dev/null'

# Taking up.
again() { sweep -w 1,2,4 -c 1,2 -v 4KB,64KB --repeat-runs "$1" --resume "$r" >"$scratch/again" 2>&1 || { cat "$scratch/again"; return 1; }; }
check "what is complete runs nothing again" eval 'again 2 && unfolded "$scratch/again" | grep -q " 0 runs to make.* 20 runs of an earlier"'
check "one more run of each is added" eval 'again 3 && unfolded "$scratch/again" | grep -q " 10 runs to make"'
check "to those that were there" json_is "$r" 'all(len(p["runs"]) == 3 for p in j["sweep"]["points"] if p["state"] == "done")'
check "other options are refused: exit status 2" status 2 "$build/kv-bench" sweep "${tiny[@]}" -w 1,2,4 -c 1,2 -v 4KB,64KB --verify --resume "$r"
check "and named" says '--verify is an option of this sweep only' "$build/kv-bench" sweep "${tiny[@]}" -w 1,2,4 -c 1,2 -v 4KB,64KB --verify --resume "$r"
check "so are lists that would lose something" says 'would lose them' "$build/kv-bench" sweep "${tiny[@]}" -w 1 --resume "$r"
head -c 300 "$r" >"$scratch/cut.json"
check "and half a file" says 'it is cut off' "$build/kv-bench" sweep -w 1 --resume "$scratch/cut.json"
check "which stays as it was" test "$(wc -c <"$scratch/cut.json")" -eq 300
check "a result of a single run is none of a sweep" eval 'timeout 60 "$build/kv-bench" "${tiny[@]}" -q -w 1 -c 1 --json "$scratch/one.json" && says "reads kvbench-sweep/1" "$build/kv-bench" sweep -w 1 --resume "$scratch/one.json"'

# Killed, at a moment of its own: what was over is there, and no process stays.
runs_in() { python3 -c 'import json, sys; print(sum(len(p["runs"]) for p in json.load(open(sys.argv[1]))["sweep"]["points"]))' "$1" 2>/dev/null || echo 0; }
processes() { # of this sweep: the seed marks them
	local p line
	for p in /proc/[0-9]*; do
		line=$(tr '\0' '|' <"$p/cmdline" 2>/dev/null) || continue
		[[ $line == *"--seed=$1|"* || $line == *"--seed|$1|"* ]] && echo "${p#/proc/}"
	done
	return 0
}
none_left() { [ -z "$(processes "$1")" ]; }
some_over() { [ "$(runs_in "$1")" -ge 2 ]; }
ended_by() { # ended_by SIGNAL STATUS SEED FILE
	local pid got
	"$build/kv-bench" sweep "${tiny[@]}" -w 1,2,3,...,40 --seed "$3" --json "$4" >"$scratch/ended" 2>&1 &
	pid=$!
	pids+=("$pid")
	soon some_over "$4" || { cat "$scratch/ended"; return 1; }
	kill "-$1" "$pid"
	wait "$pid"
	got=$?
	soon none_left "$3" || { echo "processes stay: $(processes "$3")"; return 1; }
	[ "$got" -eq "$2" ] || { echo "exit status $got"; cat "$scratch/ended"; return 1; }
}
check "SIGKILL leaves no process" ended_by KILL 137 918273 "$scratch/kill.json"
check "and a whole file with what was over" eval 'schema "$scratch/kill.json" && some_over "$scratch/kill.json"'
k=$(runs_in "$scratch/kill.json")
check "from which it goes on" eval 'sweep -w 1,2,3,...,40 --seed 918273 --resume "$scratch/kill.json" >"$scratch/ended" 2>&1 && unfolded "$scratch/ended" | grep -q "$k runs of an earlier" && [ "$(runs_in "$scratch/kill.json")" -eq 40 ]'
check "Ctrl-C: the report has what there is, exit status 130" ended_by INT 130 918274 "$scratch/int.json"
check "and says so" eval 'unfolded "$scratch/ended" | grep -q "interrupted by signal 2" && grep -q "workers  *ops/s" "$scratch/ended" && json_is "$scratch/int.json" "j[\"interrupted\"] is True and not j[\"verdict\"][\"ok\"] and j[\"run\"][\"interrupted\"] == 2"'

# What fails is marked, and the others go on.
start_server small --memory-mb 64 || exit 1
shared() { sweep -w 1,2 --server "$server" --num-keys 10 --repeat-reads 2 --order-seed 5 --json "$scratch/shared.json"; }
check "a server of somebody's is shared, each run with keys of its own" eval 'shared && shared && json_is "$scratch/shared.json" "len({r[\"seed\"] for p in j[\"sweep\"][\"points\"] for r in p[\"runs\"]}) == 2"'
kill -KILL "$server_pid"
dies() { # a server that answers no more fails all, each in its own line
	sweep -w 1,2 --server "$server" --timeout 1 --cell-timeout 2s --json "$scratch/dead.json" >"$scratch/dead" 2>&1
	[ $? -eq 1 ] && json_is "$scratch/dead.json" '[p["state"] for p in j["sweep"]["points"]] == ["failed"] * 2 and len(j["verdict"]["problems"]) == 2'
}
check "without its server every combination fails, and is said to: exit status 1" dies
one_fails() { # forty clients need more files than they may have
	(ulimit -n 150 && sweep -w 40 -c 1,40 --json "$scratch/part.json") >"$scratch/part" 2>&1
	[ $? -eq 1 ] && grep -q 'FAILED' "$scratch/part" && json_is "$scratch/part.json" \
		'[p["state"] for p in j["sweep"]["points"]] == ["done", "failed"] and "file" in j["sweep"]["points"][1]["reason"] and "40 clients" in j["verdict"]["problems"][0]'
}
if [ "$provider" = shm ]; then
	skip "one that fails is marked with its reason, and the others are measured" "what is short here are sockets"
else
	check "one that fails is marked with its reason, and the others are measured" one_fails
fi
check "a full disk: exit status 1, and it is said" eval 'status 1 sweep -w 1 --json /dev/full && says "cannot be written: No space left" sweep -w 1 --json /dev/full'
check "a full standard output: exit status 1" status 1 bash -c '"$@" >/dev/full' x "$build/kv-bench" sweep "${tiny[@]}" -w 1
check "a path that is not there costs no run: exit status 3" status 3 "$build/kv-bench" sweep --json /nonexistent/x.json
check "the configuration is shown" says 'num-workers = 1,2,4' "$build/kv-bench" sweep --config
finish
