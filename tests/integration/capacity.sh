#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# capacity.sh -- kv-bench capacity with small steps: what it counts, and what it says when files, memory, time, the server or patience run out.
. "$(dirname "$0")/lib.bash"
plan 42
[ "$provider" != shm ] || skip_all 42 "what is counted here are the files and memory of sockets"
capacity() { timeout -k 5 200 "$build/kv-bench" capacity --provider "$provider" "$@"; }

processes() { # processes TEXT [MORE] -- the ids of those with these texts on their command line (words end with "|")
	local p line
	for p in /proc/[0-9]*; do
		line=$(tr '\0' '|' <"$p/cmdline" 2>/dev/null) || continue
		[[ $line == *"$1"* && $line == *"${2-}"* ]] && echo "${p#/proc/}"
	done
	return 0
}

gone() { # gone TEXT -- no such process is left, within 10 s
	for _ in $(seq 100); do
		[ -n "$(processes "$1")" ] || return 0
		sleep 0.1
	done
	processes "$1"
	return 1
}

check "three clients with an endpoint each" capacity --model endpoints --steps 3 --json "$scratch/three.json"
check "are connected and read what they should" json_is "$scratch/three.json" \
	'(lambda s: len(s) == 1 and s[0]["clients"] == s[0]["opened"] == s[0]["connected"] == s[0]["verified"] == 3 and s[0]["wrong"] == 0 and s[0]["success"] == 1.0)(m("endpoints")["steps"])'
check "have three endpoints, queues and their regions" json_is "$scratch/three.json" \
	'(lambda s: s["endpoints"] == 3 and s["completion_queues"] == 3 and s["memory_regions"] == 6 and s["queue_pairs"] == 0)(m("endpoints")["steps"][0])'
check "and use files, memory and threads" json_is "$scratch/three.json" \
	'(lambda s: s["files"] > 20 and s["threads"] >= 2 and s["memory_bytes"] > 1 << 20 and s["server_memory_bytes"] > 1 << 20 and s["opening_seconds"] > 0)(m("endpoints")["steps"][0])'
check "no limit was met, and only this model ran" json_is "$scratch/three.json" \
	'm("endpoints")["ended_by"] is None and m("endpoints")["steps"][0]["first_error"] is None and list(j["models"]) == ["endpoints"] and j["schema"] == "kvbench-capacity/1"'
check "the report names provider and library" json_is "$scratch/three.json" 'm("endpoints")["provider"].startswith("'"${provider%%-*}"'") and m("endpoints")["libfabric"] != ""'

check "the pooled model, to 50 clients" capacity --model pooled --steps 3,10 --max-clients 10 --max-sessions 50 --engines 2 --json "$scratch/pooled.json"
check "--max-sessions is the most, also below --steps" capacity --model pooled --steps 3,10,60 --max-sessions 5 --engines 1 --json "$scratch/most.json"
check "and the last step" json_is "$scratch/most.json" '[s["clients"] for s in m("pooled")["steps"]] == [3, 5]'
check "serves them all with two endpoints" json_is "$scratch/pooled.json" \
	'[(s["clients"], s["verified"], s["endpoints"]) for s in m("pooled")["steps"]] == [(3, 3, 2), (10, 10, 2), (20, 20, 2), (50, 50, 2)]'
looks() { # the reports of a step while it opens 2500 sessions; its look also guards the memory
	start_server looks --provider "$provider" --max-clients 3000 --max-sessions 3000 || return 1
	(exec -a kv-bench-capacity-step "$build/kv-bench" pooled 2500 "$server" 120000000000 --provider "$provider" --engines 1) </dev/null >"$scratch/looks"
	stop_server "$server_pid"
	python3 -c 'import json, sys
told = [json.loads(line) for line in open(sys.argv[1])]
print(told[-1]["first_error"], [t["opened"] for t in told])
sys.exit({t["opened"] for t in told} != {0, 1024, 2048, 2500} or told[-1]["verified"] != 2500)' "$scratch/looks"
}
check "a step reports while it opens its sessions" looks

if "$build/kv-bench" capacity --model verbs --steps 1 >/dev/null 2>&1; then
	check "three bare queue pairs" capacity --model verbs --steps 3 --json "$scratch/verbs.json"
	check "work" json_is "$scratch/verbs.json" '(lambda s: s["verified"] == 3 and s["queue_pairs"] == 3 and s["completion_queues"] == 6 and s["memory_regions"] == 6)(m("verbs")["steps"][0])'
	check "a device that is not here is named" says 'no RDMA device nothing' capacity --model verbs --device nothing
	skip "without an RDMA device the other models run all the same" "there is one"
	skip "and it is said why that one did not" "there is one"
else
	check "without an RDMA device --model verbs cannot start" status 3 "$build/kv-bench" capacity --model verbs --steps 3
	check "and says what it takes" says 'this machine has no RDMA device|cannot be opened|libibverbs is not usable' capacity --model verbs --steps 3
	check "a device that is not here is refused" status 3 "$build/kv-bench" capacity --model verbs --device nothing
	check "without an RDMA device the other models run all the same" capacity --steps 2 --max-sessions 2 --json "$scratch/all.json"
	check "and it is said why that one did not" json_is "$scratch/all.json" \
		'm("verbs")["ran"] is False and m("verbs")["why_not"] != "" and m("endpoints")["most_verified"] == 2 and m("pooled")["most_verified"] == 2'
fi

few_files() { (ulimit -n 200 && capacity --model endpoints --steps 3,100 --json "$scratch/files.json"); }
check "200 open files: a limit is a result" few_files
check "it is named, with how many were up" json_is "$scratch/files.json" \
	'm("endpoints")["ended_by"] == "open files" and (lambda s: s["clients"] == 100 and 3 < s["opened"] < 60 and s["first_error"]["code"] == "limit" and "nofile" in s["first_error"]["text"] + "nofile" * ("ulimit -n" in s["first_error"]["text"]))(m("endpoints")["steps"][1])'
check "and those that were up work" json_is "$scratch/files.json" \
	'(lambda s: len(s) >= 3 and s[2]["clients"] == s[1]["opened"] and s[-1]["verified"] == s[-1]["clients"] == m("endpoints")["most_verified"])(m("endpoints")["steps"])'

case $build in
*asan* | *tsan*)
	skip "little address space: a limit is a result" "a sanitizer needs more than that for itself"
	skip "it is named" "a sanitizer needs more than that for itself"
	;;
*)
	space=2000000
	[ "${KVRAIL_TEST_PROVIDER:-}" != net ] || space=1000000 # its endpoints are smaller, and it has no more than 256
	little_memory() { (ulimit -v "$space" && capacity --model endpoints --steps 400 --json "$scratch/memory.json"); }
	check "little address space: a limit is a result" little_memory
	check "it is named" json_is "$scratch/memory.json" \
		'm("endpoints")["ended_by"] == "memory" and (lambda s: 5 < s["opened"] < 400 and s["first_error"]["text"] != "")(m("endpoints")["steps"][0])'
	;;
esac

# A memory cgroup of its own, version 1 or 2, where one may be made.
cg= no_cg="no memory cgroup may be made here"
for d in /sys/fs/cgroup/memory /sys/fs/cgroup; do
	[ -z "$cg" ] && mkdir "$d/kvrail.$$" 2>/dev/null || continue
	for f in memory.limit_in_bytes memory.max; do
		[ -e "$d/kvrail.$$/$f" ] && echo 536870912 >"$d/kvrail.$$/$f" 2>/dev/null && cg=$d/kvrail.$$ no_cg=
	done
	[ -n "$cg" ] || rmdir "$d/kvrail.$$"
done
case $build in
*asan* | *tsan*) no_cg="a sanitizer needs more memory than that for itself" ;;
esac
cgroup_memory() { (echo "$BASHPID" >"$cg/cgroup.procs" && KVRAIL_TEST_PAGES=1 capacity --model endpoints --steps 2,100 --json "$scratch/cgroup.json"); }
if [ -n "$no_cg" ]; then
	skip "a memory cgroup of 512 MiB: a limit is a result" "$no_cg"
	skip "seen before the kernel kills somebody for it" "$no_cg"
else
	check "a memory cgroup of 512 MiB: a limit is a result" cgroup_memory
	check "seen before the kernel kills somebody for it" json_is "$scratch/cgroup.json" \
		'm("endpoints")["ended_by"] == "memory" and (lambda s: 2 < s["opened"] < 100 and s["first_error"]["text"].startswith("only ") and "Killed" not in s["first_error"]["text"])(m("endpoints")["steps"][1])'
fi
[ -z "$cg" ] || rmdir "$cg" 2>/dev/null

start_server small --max-clients 5 || exit 1
check "a server that admits five clients" capacity --model endpoints --server "$server" --steps 3,10 --json "$scratch/full.json"
check "ends it" json_is "$scratch/full.json" \
	'm("endpoints")["ended_by"] == "server" and m("endpoints")["most_verified"] >= 3 and (lambda s: s["opened"] == 10 and s["first_error"]["code"] == "full")(m("endpoints")["steps"][1])'
open_s=2 # for two engines
[ "${MODE:-release}" != tsan ] || open_s=20
stand_still "$server_pid"
check "a server that stands still ends it by the time limit" capacity --model endpoints --server "$server" --steps 2 --timeout "$open_s" --json "$scratch/time.json"
kill -CONT "$server_pid"
check "with nobody connected" json_is "$scratch/time.json" 'm("endpoints")["ended_by"] == "time" and (lambda s: s["opened"] == 2 and s["connected"] == 0)(m("endpoints")["steps"][0])'
check "no server there: exit status 3" status 3 "$build/kv-bench" capacity --model endpoints --server 127.0.0.1:1 --steps 2 --timeout "$open_s"
check "a provider that is not here: exit status 3" status 3 "$build/kv-bench" capacity --model endpoints --provider efa --steps 2 --json "$scratch/none.json"
check "the JSON says why, too" json_is "$scratch/none.json" 'm("endpoints")["ran"] is False and "provider efa is not here" in m("endpoints")["why_not"]'
check "standard output is full: exit status 1" status 1 bash -c '"$@" >/dev/full' x "$build/kv-bench" capacity --provider tcp --model endpoints --steps 1 --quiet

# Steps that are interrupted or killed: the value size marks their processes.
interrupted() { # interrupted SIGNAL WANTED-STATUS
	local pid status
	"$build/kv-bench" capacity --provider "$provider" --model endpoints --steps 150,300 --value-size 4321 >"$scratch/int.out" 2>&1 &
	pid=$!
	sleep 1.5
	kill "-$1" "$pid"
	wait "$pid"
	status=$?
	cat "$scratch/int.out"
	[ "$status" -eq "$2" ]
}
check "Ctrl-C ends it with its status" interrupted INT 130
check "and everything is gone" gone "value-size|4321|"
check "so does SIGTERM" interrupted TERM 143
killed() {
	local pid step=
	"$build/kv-bench" capacity --provider "$provider" --model endpoints --steps 150 --value-size 4322 >"$scratch/kill.out" 2>&1 &
	pid=$!
	for _ in $(seq 100); do
		step=$(processes "value-size|4322|" "kv-bench-capacity-step|")
		[ -n "$step" ] && break
		sleep 0.05
	done
	sleep 0.3
	kill -KILL "$step"
	wait "$pid"
	grep -q 'signal 9' "$scratch/kill.out" || { cat "$scratch/kill.out"; return 1; }
}
check "a step that the kernel kills is reported, not lost" killed
check "and nothing of it is left" gone "value-size|4322|"
# Ctrl-C: the report has the steps that were over, and the one that was not.
interrupted() {
	local pid i
	"$build/kv-bench" capacity --provider "$provider" --model pooled --steps "$(seq -s, 60)" --json "$scratch/cut.json" >"$scratch/cut" 2>&1 &
	pid=$!
	pids+=("$pid")
	for ((i = 0; i < 600; i++)); do grep -qE '^ +2 +2 ' "$scratch/cut" && break; sleep 0.1; done
	kill -INT "$pid"
	wait "$pid"
	[ $? -eq 130 ] || { cat "$scratch/cut"; return 1; }
}
check "Ctrl-C ends all of it with status 130" interrupted
check "and the report has the steps that were over" json_is "$scratch/cut.json" \
	'j["interrupted"] is True and (lambda p: p["ended_by"] == "interrupted" and [s["verified"] for s in p["steps"]][:2] == [1, 2] and p["steps"][-1]["ended_by"] == "interrupted")(m("pooled"))'
check "an option that does not fit is refused" status 2 "$build/kv-bench" capacity --steps 5,4
check "--help lists the models" says 'MODEL +endpoints: an engine' "$build/kv-bench" capacity --help
if [ -x build/release/kv-bench ]; then
	check "the script puts the provider behind the sub-command" says 'all 2 clients worked' env KVRAIL_NO_BUILD=1 ./run-with-rdma.sh --provider "$provider" kv-bench capacity --model endpoints --steps 2
else
	skip "the script puts the provider behind the sub-command" "build/release is not built"
fi
check "the configuration is shown" says 'steps = 10,100,200,300,400,450,500' "$build/kv-bench" capacity --config
finish
