#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# output.sh -- what kv-bench leaves behind: files and their forms, plot, compare, and an interrupted run.
. "$(dirname "$0")/lib.bash"
plan 73
run() { timeout -k 5 120 "$build/kv-bench" --log-level warn "${over[@]}" "$@"; }
small=(--num-workers 4 --num-clients 2 --num-threads 1 --num-keys 200 --buffer-mb 16)
schema() { tests/integration/schema.py "$@"; }
r=$scratch/r.json

check "a run writes all its files" run "${small[@]}" --duration 2 --interval 200ms --mixed --breakdown --verify \
	--json "$r" --report "$scratch/r.html" --hdr "$scratch/r.hgrm" --csv "$scratch/r.csv"
check "and nothing beside them" test "$(find "$scratch" -name '*.tmp' | wc -l)" -eq 0
check "the JSON is as its schema says" schema "$r"
# What the schema forbids is found: it is no schema of everything.
spoilt() {
	local rule
	for rule in 'j["phases"]["read"].pop("ops")' 'j.update(interrupted=None)' 'j["phases"]["read"]["latency_ns"].update(p51=1)' 'j["phases"]["write"].update(ops=-1)'; do
		python3 -c "import json, sys; j = json.load(open(sys.argv[1])); $rule; json.dump(j, open(sys.argv[2], 'w'))" "$r" "$scratch/spoilt.json"
		schema "$scratch/spoilt.json" >/dev/null && { echo "not found: $rule"; return 1; }
	done
	return 0
}
check "and what the schema forbids is found" spoilt
check "the histogram has every operation" json_is "$r" 'sum(j["phases"]["read"]["histogram"]["count"]) == j["phases"]["read"]["ops"]'
check "so have the windows, and their bytes" json_is "$r" \
	'(lambda w, p: len(w) >= 9 and sum(x["ops"] for x in w) == p["ops"] and sum(x["bytes"] for x in w) == p["bytes"])(j["phases"]["read"]["series"]["windows"], j["phases"]["read"])'
check "also of PUTs and GETs at once" json_is "$r" 'all(sum(x["ops"] for x in p["series"]["windows"]) == p["ops"] for p in (j["phases"]["mixed"]["read"], j["phases"]["mixed"]["write"]))'
check "conditions and verdict are there" json_is "$r" 'j["verdict"] == {"ok": True, "problems": []} and j["interrupted"] is False and j["conditions"]["histogram_error"] < 0.01 and j["conditions"]["others_cores"] >= 0 and any("warm-up" in x for x in j["conditions"]["excluded"])'
percentiles() {
	python3 - "$scratch/r.hgrm" "$r" <<'P'
import json, re, sys
lines = open(sys.argv[1]).read().split("\n")
p = json.load(open(sys.argv[2]))["phases"]["read"]
assert re.match(r"\s+Value\s+Percentile\s+TotalCount\s+1/\(1-Percentile\)$", lines[0]) and lines[1] == ""
rows = [[float(x) for x in line.split()] for line in lines[2:] if line and line[0] != "#"]
assert all(a[0] <= b[0] and a[1] <= b[1] and a[2] <= b[2] for a, b in zip(rows, rows[1:]))
assert rows[-1][1:] == [1.0, float(p["ops"])] and abs(rows[-1][0] - p["latency_ns"]["max"] / 1e6) < 1e-6
median = min(r[0] for r in rows if r[1] >= 0.5) * 1e6
assert abs(median - p["latency_ns"]["p50"]) <= 1, (median, p["latency_ns"])
P
}
check "the percentiles are those of the JSON" percentiles
check "the time series has a head and a line for each window" python3 -c '
import csv, json, sys
rows, j = list(csv.DictReader(open(sys.argv[1]))), json.load(open(sys.argv[2]))
assert len([r for r in rows if r["phase"] == "read"]) == len(j["phases"]["read"]["series"]["windows"])
assert {r["phase"] for r in rows} == {"write", "read", "mixed put", "mixed get"}' "$scratch/r.csv" "$r"
replotted() { "$build/kv-bench" plot "$r" -o "$scratch/again.html" && cmp "$scratch/again.html" "$scratch/r.html"; }
check "plot makes the same page of the JSON" replotted
charts() {
	local f
	for f in percentiles histogram throughput latency breakdown; do
		"$build/kv-bench" plot "$r" --figure $f -o "$scratch/$f.svg" || return 1
		python3 -c 'import sys, xml.dom.minidom as x; assert x.parse(sys.argv[1]).documentElement.tagName == "svg"' "$scratch/$f.svg" || return 1
	done
}
check "every chart is a well-formed SVG" charts
check "a chart that the result lacks is refused" says 'this result is of no sweep' "$build/kv-bench" plot "$r" --figure scaling -o "$scratch/no.svg"
check "and leaves no file" test ! -e "$scratch/no.svg"
pixels() {
	if command -v rsvg-convert >/dev/null; then
		"$build/kv-bench" plot "$r" -o "$scratch/x.png" && head -c 4 "$scratch/x.png" | grep -q PNG
	else
		status 1 "$build/kv-bench" plot "$r" -o "$scratch/x.png" && says 'rsvg-convert, which is not installed: install it' "$build/kv-bench" plot "$r" -o "$scratch/x.png"
	fi
}
check "a PNG where rsvg-convert is, and else what to install" pixels
no_converter() { PATH=/nonexistent "$build/kv-bench" plot "$r" -o "$scratch/y.png"; }
check "without it the sentence says so" says 'rsvg-convert, which is not installed' no_converter
check "an end that is none of them is refused" says 'ends with none of .svg' "$build/kv-bench" plot "$r" -o "$scratch/x.gif"

# ---- compare ----
vary() { # NEW PYTHON -- a result like r.json with a change; w is its windows of reads
	python3 -c "import json, sys
j = json.load(open(sys.argv[1]))
p = j['phases']['read']; w = p['series']['windows']
$2
json.dump(j, open(sys.argv[2], 'w'))" "$r" "$scratch/$1.json"
}
steady='
j["phases"]["mixed"] = None; del j["phases"]["mixed"]; j["phases"]["write"]["ops"] = 0
j["conditions"].update(core_distance_before_ns=70, core_distance_after_ns=70, shared_machine=False, others_cores=0.0) # whatever the run met
def speed(f):
    p["ops_per_s"] = 10000 * f
    for i, x in enumerate(w): x.update(seconds=0.2, ops=int(2000 * f * (1 + 0.01 * (i % 3))), p50_ns=1000, p99_ns=9000)
'
vary base "$steady
speed(1)"
vary slow "$steady
speed(0.8)"
vary fast "$steady
speed(1.2)"
vary wide "$steady
speed(0.8)
for i, x in enumerate(w): x['ops'] = 500 + 400 * (i % 8)"
vary runs "$steady
speed(1)
j['runs'] = {'ops_per_s': {'each': [10000, 10100, 9900]}}"
vary runs_fast "$steady
speed(1)
j['runs'] = {'count': 3, 'ops_per_s': {'each': [12000, 12100, 11900]}, 'p99_ns': {'each': [9000, 9010, 8990]}}"
vary runs_slow "$steady
speed(1)
j['runs'] = {'ops_per_s': {'each': [8000, 8100, 7900]}}"
vary runs_wide "$steady
speed(1)
j['runs'] = {'ops_per_s': {'each': [5000, 8000, 11000]}}"
vary spin "$steady
speed(1)
j['provider']['wait'] = 'spin'; j['config']['num_workers'] = 9"
vary cut "$steady
speed(1)
j['interrupted'] = True; j['run']['interrupted'] = 2"
compare() { "$build/kv-bench" compare "$@"; }
check "the same result is no regression" status 0 compare "$scratch/base.json" "$scratch/base.json"
check "a slower one is, with status 1" status 1 compare "$scratch/base.json" "$scratch/slow.json"
check "below the threshold it is not" status 0 compare "$scratch/base.json" "$scratch/slow.json" --threshold 25
check "a faster one is none" status 0 compare "$scratch/base.json" "$scratch/fast.json"
unsure() { status 0 compare "$scratch/base.json" "$scratch/wide.json" && says 'read ops/s: within the noise' compare "$scratch/base.json" "$scratch/wide.json"; }
check "nor is a difference within the noise of windows" unsure
vary few "$steady
speed(1)
del w[2:]"
vary few_slow "$steady
speed(0.8)
del w[2:]"
check "too few windows: no verdict, status 2" eval 'status 2 compare "$scratch/few.json" "$scratch/few_slow.json" && says "read ops/s: differs, of too few windows or runs: no verdict.*note +no verdict on 3 figures.*eight windows.*0 of . figures worse" compare "$scratch/few.json" "$scratch/few_slow.json" && ! says "^note" compare "$scratch/base.json" "$scratch/slow.json"'
check "of the same result, too: nobody knows how far it varies" status 2 compare "$scratch/few.json" "$scratch/few.json"
vary slower "$steady
speed(0.92)"
vary slow_enough "$steady
speed(0.88)"
check "two processes of one program differ by a tenth: less is no regression" eval 'status 0 compare "$scratch/base.json" "$scratch/slower.json" && says "read ops/s: within the noise.*note +each is of one process.*compare --ab" compare "$scratch/base.json" "$scratch/slower.json" && status 1 compare "$scratch/base.json" "$scratch/slow_enough.json"'
repeated() { status 1 compare "$scratch/runs.json" "$scratch/runs_slow.json" && status 0 compare "$scratch/runs.json" "$scratch/runs_wide.json" && says 'read ops/s: WORSE' compare "$scratch/runs_fast.json" "$scratch/runs.json"; }
check "repeated runs have a noise of their own" repeated
trend() { says 'fast.json .*\+20.0 %' compare "$scratch/base.json" "$scratch/fast.json" "$scratch/slow.json" && status 1 compare "$scratch/base.json" "$scratch/fast.json" "$scratch/slow.json"; }
check "of several the last decides, and all are shown" trend
check "other conditions do not compare: status 2" status 2 compare "$scratch/base.json" "$scratch/spin.json"
check "and are named" says 'wait mode: .* then "spin".*option num_workers: 4, then 9.*2 conditions differ' compare "$scratch/base.json" "$scratch/spin.json"
check "--force compares all the same" status 0 compare --force "$scratch/base.json" "$scratch/spin.json"
vary stolen "$steady
speed(1)
j['conditions']['steal_share'] = 0.3"
vary unstolen "$steady
speed(1)
j['conditions']['steal_share'] = 0.0"
vary stopped "$steady
speed(1)
p['ops'] = p['ops_per_s'] = 0"
check "a rate that fell to 0 is worse" eval 'status 1 compare "$scratch/base.json" "$scratch/stopped.json" && says "read ops/s: WORSE.*-100.0 %" compare "$scratch/base.json" "$scratch/stopped.json"'
for ratio in 0.37 0.0; do
	vary "ratio_$ratio" "$steady
speed(1)
j['trace'] = {'before': {'hit_ratio': $ratio, 'longest_ns': int(1e6 * (1 + $ratio))}}"
done
lost() { status 1 compare "$scratch/ratio_0.37.json" "$scratch/ratio_0.0.json" && status 0 compare "$scratch/ratio_0.0.json" "$scratch/ratio_0.37.json" && says 'hit ratio: WORSE' compare "$scratch/ratio_0.37.json" "$scratch/ratio_0.0.json"; }
check "so is a hit ratio that fell to 0; one that rose from it is not" lost
check "one call that took longer is shown, and not judged" says 'before the event longest call: differs, but its noise is not known: not judged.*0 of . figures worse' compare "$scratch/ratio_0.0.json" "$scratch/ratio_0.37.json"
vary two "$steady
speed(1)
j['runs'] = {'ops_per_s': {'each': [8000, 12000]}}"
vary three "$steady
speed(1)
j['runs'] = {'ops_per_s': {'each': [8000, 12000, 10000]}}"
check "the median of two runs is the report's, and says nothing of noise" says 'two.json +10,000 +unknown' compare "$scratch/two.json" "$scratch/two.json"
check "three do" says 'three.json +10,000 +20.0 %' compare "$scratch/three.json" "$scratch/three.json"
# Programs that take turns: what they measure is made, with the luck of each process, from a seed.
cat >"$scratch/made" <<'P'
#!/usr/bin/env python3
import json, os, random, sys
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
with open(os.path.join(folder, "turn"), "a+") as f:
    f.seek(0)
    turn = len(f.read())
    f.write("x")
with open(os.path.join(folder, "turns"), "a") as f:
    f.write(os.path.basename(sys.argv[0]) + "\n")
luck, slow = float(os.environ["LUCK"]), float(os.environ["SLOW"]) if sys.argv[0].endswith("b") else 0
r = random.Random(turn * 7919 + int(os.environ["SEED"]))
delay = lambda: (1 + slow) * r.lognormvariate(0, luck) # injected into B
us = 400 * delay()
assert "--num-workers=3" in sys.argv and "--json=-" in sys.argv
phase = {"ops": 1000, "seconds": 2.0, "ops_per_s": 20e6 / us, "latency_ns": {"p50": us * 1000, "p99": 3000 * 1000 * delay()}}
print(json.dumps({"phases": {"write": {"ops": 0}, "read": phase}}))
sys.exit(int(os.environ.get("FAIL", "0")))
P
sed -i "1s|.*|#!$(python3 -c 'import sys; print(sys.executable)') -SE|" "$scratch/made" # whatever else starts a python3 takes its time
chmod +x "$scratch/made"
for side in a b; do cp "$scratch/made" "$scratch/$side"; done
ab() { # ab SEED LUCK SLOW OPTIONS...
	rm -f "$scratch/turn" "$scratch/turns"
	SEED=$1 LUCK=$2 SLOW=$3 "$build/kv-bench" compare --ab "$scratch/a" "$scratch/b" "${@:4}" -- --num-workers=3 >"$scratch/ab" 2>&1
}
delayed() { # a delay of a tenth is found (how often, tests/kvlab/test_kvlab.py computes)
	ab 1 0.04 0.111
	[ $? -eq 1 ] && says 'read ops/s .* -[0-9.]+ % \[-[0-9.]+, -[0-9.]+\] +WORSE' cat "$scratch/ab" && says 'power +with 15 pairs .*9 of 10 .*fewer than 1 in 20' cat "$scratch/ab"
}
check "--ab: programs take turns, and begin in turns" eval 'ab 1 0.01 0 --pairs 6; [ "$(tr "\n" " " <"$scratch/turns")" = "a b b a a b b a a b b a " ]'
check "--ab: the same program is no regression" eval 'ab 1 0.01 0 && says "read ops/s .* no difference" cat "$scratch/ab"'
check "--ab: a delay of a tenth is found" delayed
check "--ab: noise that would hide it is no verdict, status 2" eval 'ab 1 0.4 0; [ $? -eq 2 ] && says "verdict +none for [123] of 3 figures: noise would hide a change of 10 %" cat "$scratch/ab"'
check "--ab: six pairs prove nothing of three figures" eval 'ab 1 0.01 0.5 --pairs 6; [ $? -eq 2 ]'
check "--ab: a run that fails ends it" eval 'FAIL=1 ab 1 0.01 0; [ $? -eq 2 ] && says "a run of .*/a failed, so nothing is compared: exit status 1" cat "$scratch/ab"'
check "--ab: what is no program is named" says 'is no kv-bench, nor a folder with one' "$build/kv-bench" compare --ab "$scratch/none" "$scratch/a"
check "--ab: two of kv-bench itself, from their folder" eval '"$build/kv-bench" compare --ab "$build" "$build" --pairs 6 -- --duration 0.15 --num-keys 100 "${over[@]}" >"$scratch/ab" 2>&1; [ $? -ne 3 ] && says "pair 6 of 6 +A [0-9,]+ +B [0-9,]+ ops/s .*read p50 .*power " cat "$scratch/ab"'
vary older "$steady
speed(1)
del j['config']['copies']"
vary copies "$steady
speed(1)
j['config']['copies'] = 2"
vary hot "$steady
speed(1)
j['config']['copies'] = 'hot'"
older() { status 0 compare "$scratch/older.json" "$scratch/base.json" && status 0 compare "$scratch/base.json" "$scratch/older.json" && says 'option copies: 1, then 2' compare "$scratch/older.json" "$scratch/copies.json" && says 'option copies: 2, then .hot.' compare "$scratch/copies.json" "$scratch/hot.json"; }
check "an option that came later had its default" older
check "nor one whose time was stolen" says 'hypervisor stole: 0.0 %, then 30.0 %' compare "$scratch/unstolen.json" "$scratch/stolen.json"
for far in base slow fast; do # as base, slow and fast are, and their cores farther apart
	vary "far_$far" "$steady
speed({'base': 1, 'slow': 0.8, 'fast': 1.2}['$far'])
j['conditions'].update(core_distance_before_ns=60, core_distance_after_ns=300)"
	vary "near_$far" "$steady
speed({'base': 1, 'slow': 0.8, 'fast': 1.2}['$far'])
j['conditions'].update(core_distance_before_ns=60, core_distance_after_ns=60)"
done
check "cores farther apart and no figure that differs: no regression" status 0 compare "$scratch/near_base.json" "$scratch/far_base.json"
check "slower with them: not judged, status 2" eval 'status 2 compare "$scratch/near_base.json" "$scratch/far_slow.json" && says "read ops/s: differs as the distance of two cores does, 60 ns .near., then 60 to 300 ns .near to far.: not judged.*0 of . figures worse.*measure again" compare "$scratch/near_base.json" "$scratch/far_slow.json"'
check "faster all the same is faster, slower with cores that are nearer is slower" eval 'status 0 compare "$scratch/near_base.json" "$scratch/far_fast.json" && status 1 compare "$scratch/far_base.json" "$scratch/near_slow.json"'
check "faster with nearer cores is not judged; --force judges all" eval 'status 2 compare "$scratch/far_base.json" "$scratch/near_fast.json" && status 1 compare --force "$scratch/near_base.json" "$scratch/far_slow.json" && status 0 compare --force "$scratch/far_base.json" "$scratch/near_fast.json"'
vary elsewhere "$steady
speed(1)
j['host']['name'] = 'elsewhere'"
vary other_cpu "$steady
speed(1)
j['host']['processor'] = 'another'"
check "another processor is another machine: status 2" eval 'status 2 compare "$scratch/base.json" "$scratch/other_cpu.json" && says "processor: .*, then .another." compare "$scratch/base.json" "$scratch/other_cpu.json"'
check "another name is told, and compares" eval 'status 0 compare "$scratch/base.json" "$scratch/elsewhere.json" && says "note .*elsewhere.json: host: .*, then .elsewhere." compare "$scratch/base.json" "$scratch/elsewhere.json"'
for n in 1 2; do vary "shared$n" "$steady
speed(1)
j['conditions'].update(shared_machine=True, others_cores=1 + 0.25 * $n)"; done
check "of two on a shared machine it is told what others took" eval 'says "note .*shared2.json: shared machine: others took 1.25 cores, then 1.50: a difference may be theirs" compare "$scratch/shared1.json" "$scratch/shared2.json" && ! says "shared machine" compare "$scratch/base.json" "$scratch/base.json"'
check "an interrupted run does not compare with a whole one" says 'interrupted: false, then true' compare "$scratch/base.json" "$scratch/cut.json"
vary brief "$steady
speed(1)
p['seconds'] = 0.05; w.clear()"
vary brief_slow "$steady
speed(0.5)
p['seconds'] = 0.05; w.clear()"
brief() { status 2 compare "$scratch/brief.json" "$scratch/brief_slow.json" && says 'read ops/s: differs, but of less than 0.1 s: not judged' compare "$scratch/brief.json" "$scratch/brief_slow.json"; }
check "what took a moment only is shown, and not judged" brief
# Wherever the cut is: between two words, within one (nul), within a number or a text.
cut_off() {
	local n from size
	size=$(wc -c <"$r")
	from=$(grep -abo null "$r" | head -n 1 | cut -d: -f1)
	for n in 1 "$((from + 2))" $(seq 2000 2040) $((size - 2)); do
		head -c "$n" "$r" >"$scratch/half.json"
		says 'half.json is no report of kv-bench --json: it is cut off' compare "$r" "$scratch/half.json" || return 1
	done
}
check "half a file is said to be cut off" cut_off
check "status 2" status 2 compare "$r" "$scratch/half.json"

# ---- before the run ----
check "a folder that is not there is found before the run" says 'the page /nonexistent/r.html cannot be written: No such file' run --report /nonexistent/r.html
check "two files of one name are refused" says '--json and --csv name one file' run --json "$scratch/one" --csv "$scratch/one"
check "a page does not go to standard output" status 2 run --report -
check "a good run has nothing for standard error" eval 'timeout -k 5 120 "$build/kv-bench" "${over[@]}" "${small[@]}" -q 2>"$scratch/stderr" >/dev/null && ! test -s "$scratch/stderr"'
plain() { run "${small[@]}" --repeat-reads 1 >"$scratch/plain" 2>&1 && ! grep -q $'\033' "$scratch/plain"; }
check "without a terminal there are no colours" plain
lost() { # what prints without a run: its text is lost, and that is a failure
	local words
	for words in "compare $scratch/base.json $scratch/base.json" --config "sweep --help" "versus --config" --version "help load"; do
		# shellcheck disable=SC2086
		status 1 "$build/kv-bench" $words >/dev/full 2>"$scratch/lost" && grep -q 'could not be written to standard output' "$scratch/lost" || { echo "not found: $words"; return 1; }
	done
}
check "text that could not be written fails every command" lost
# on_terminal FILE COMMAND... -- what the command shows on a terminal of 80 columns.
on_terminal() {
	TERM=${terminal-xterm} timeout -k 5 120 python3 -c '
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
with open(sys.argv[1], "wb") as out:
    while True:
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        if not data:
            break
        out.write(data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' "$@"
}
live() {
	on_terminal "$scratch/tty" "$build/kv-bench" --log-level warn "${over[@]}" "${small[@]}" --duration 1 --interval 100ms || return 1
	grep -q $'\033\[1msummary' "$scratch/tty" && python3 - "$scratch/tty" <<'P'
import re, sys
shown = [re.sub(r"\033\[[0-9;]*[mK]", "", x) for x in re.split(r"[\r\n]+", open(sys.argv[1], encoding="utf-8", errors="replace").read())]
assert any(re.match(r"read .* ops/s .*B/s  p50 .* p99 ", x) for x in shown), shown
assert max(map(len, shown)) <= 80, [x for x in shown if len(x) > 80]
P
}
check_terminal "on a terminal there are live percentiles, in 80 columns, and bold heads" live
uncoloured() { NO_COLOR=1 on_terminal "$scratch/tty" "$build/kv-bench" --log-level warn "${over[@]}" "${small[@]}" --repeat-reads 1 && ! grep -q $'\033\[[0-9;]*m' "$scratch/tty"; }
check_terminal "NO_COLOR leaves no colour" uncoloured
dumb() { terminal=dumb on_terminal "$scratch/tty" "$build/kv-bench" --log-level warn "${over[@]}" "${small[@]}" --duration 0.5 && ! grep -q $'\033' "$scratch/tty"; }
check_terminal "nor does TERM=dumb, and no line is drawn over" dumb
unnamed() { terminal='' on_terminal "$scratch/tty" "$build/kv-bench" --log-level warn "${over[@]}" "${small[@]}" --duration 0.5 && ! grep -q $'\033' "$scratch/tty"; }
check_terminal "an empty TERM counts as dumb" unnamed
# ---- interrupted ----
cut_short() {
	local pid i
	"$build/kv-bench" --log-level warn "${over[@]}" "${small[@]}" --duration 100 --interval 100ms --progress --json "$scratch/cut.json" --report "$scratch/cut.html" >"$scratch/cut" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 600; i++)); do
		grep -q '^read .* p99 ' "$scratch/cut" && break
		sleep 0.1
	done
	kill -INT "$pid"
	wait "$pid"
	[ $? -eq 130 ] || { cat "$scratch/cut"; return 1; }
	grep -q 'Interrupted\.' "$scratch/cut.html" && schema "$scratch/cut.json" &&
		json_is "$scratch/cut.json" 'j["interrupted"] is True and j["verdict"]["ok"] is False and j["phases"]["read"]["ops"] > 0'
}
check "--progress shows percentiles, and an interrupted run says so in all its files" cut_short
closed() { run "${small[@]}" --repeat-reads 1 --json "$scratch/closed.json" >&- 2>"$scratch/lost"; [ $? -eq 1 ] && unfolded "$scratch/lost" | grep -q 'could not be written to standard output' && schema "$scratch/closed.json"; }
check "a closed standard output: status 1, and no file is written in its place" closed
unprinted() { "$build/kv-bench" "$@" >&- 2>/dev/null; [ $? -eq 1 ]; }
closed_verbs() { unprinted models && unprinted compare "$r" "$r"; }
check "so are verbs" closed_verbs

# ---- a clock that is set ----
# ASan wants to come first; it need not, since the preloaded file defines nothing of its own.
stepped() { ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$build/tests/integration/stepped_clock.so" "$@"; }
durations() { # that no duration of a report is one of those jumps
	python3 - "$1" <<'P'
import json, sys
def look(value, name):
    if isinstance(value, dict):
        for n, v in value.items(): look(v, n)
    elif isinstance(value, list):
        for v in value: look(v, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        limit = 600e9 if name.endswith("_ns") else 600 if name.endswith("_s") and not name.endswith("per_s") or name == "seconds" else None
        assert name.endswith("unix_ns") or limit is None or 0 <= value <= limit, (name, value)
look({n: v for n, v in json.load(open(sys.argv[1])).items() if n != "config"}, "")
P
}
jumps() { stepped run "${small[@]}" --duration 1 --interval 200ms --rate 2000 --breakdown --json "$scratch/jumps.json" && durations "$scratch/jumps.json" && json_is "$scratch/jumps.json" '0.9 < j["phases"]["read"]["seconds"] < 60 and j["rate"]["achieved_per_s"] > 100 and "suspended_s" not in j["conditions"]'; }
check "the time of day jumps by hours: no figure does" jumps
sweep_jumps() { stepped "$build/kv-bench" sweep -w 1,2 -c 1 -v 4KB --num-keys 50 "${over[@]}" --json "$scratch/jumps.json" && durations "$scratch/jumps.json"; }
check "nor one of a sweep" sweep_jumps
slept() { STEPPED_SLEEP=7 stepped run "${small[@]}" --duration 1 --json "$scratch/slept.json" >"$scratch/slept" && durations "$scratch/slept.json" && json_is "$scratch/slept.json" '6.9 < j["conditions"]["suspended_s"] < 7.1' && schema "$scratch/slept.json" && unfolded "$scratch/slept" | grep -q 'this machine was suspended for 7.0 s during the run'; }
check "a machine that slept: the report says so" slept
check "and compares with no other" eval 'run "${small[@]}" --duration 1 --json "$scratch/awake.json" >/dev/null; says "suspended, seconds: not known, then 7" "$build/kv-bench" compare "$scratch/awake.json" "$scratch/slept.json"'
finish
