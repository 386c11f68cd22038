#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor.sh -- kv-doctor as a user meets it: exit statuses, JSON, lowered limits, another user, io_uring refused, a machine that is made up.
# `make check` makes the first part.
. "$(dirname "$0")/lib.bash"
if short; then plan 18; else plan 59; fi
doctor=$build/kv-doctor
scratch_doctor=$scratch/kv-doctor # where another user can start it
cp "$doctor" "$scratch_doctor" && chmod 755 "$scratch" "$scratch_doctor"
over=("${over[@]:0:2}") # kv-doctor shares no memory
small=(--num-clients 2 --num-threads 1 --server-threads 1 --buffer-mb 4 --memory-mb 8)

report_is() { # report_is EXPRESSION over j, f(ID) and the exit status rc, COMMAND...
	local expression=$1 rc
	shift
	limited "$@" --json "$scratch/doctor.json" >"$scratch/doctor.out" 2>&1
	rc=$?
	json_is "$scratch/doctor.json" "$expression" "$rc" && return 0
	cat "$scratch/doctor.out"
	return 1
}
# How many descriptors a process has depends on who started it, too: those that it would inherit are closed.
files_of() { # files_of SOFT COMMAND...
	(
		for fd in "/proc/$BASHPID/fd"/*; do
			[ "${fd##*/}" -le 2 ] || eval "exec ${fd##*/}>&-"
		done
		ulimit -n "$1" || exit 9
		shift
		"$@"
	)
}
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
# What a container's seccomp profile does: io_uring_setup is not permitted.
no_uring() { python3 tests/integration/no_uring.py "$@"; }

check "a run over tcp would work" status 0 "$doctor" "${small[@]}" --provider tcp
check "and says so" says '^verdict: ok' "$doctor" "${small[@]}" --provider tcp
check "shm likewise" status 0 "$doctor" "${small[@]}" --provider shm
check "a provider that is not here: exit status 1" status 1 "$doctor" "${small[@]}" --provider efa
check "and what is" says 'present: .*tcp' "$doctor" "${small[@]}" --provider efa
check "usage: exit status 2" status 2 "$doctor" --num-clients none
check "a file that cannot be written: exit status 3" status 3 "$doctor" --no-try --json /nonexistent/x.json
check "JSON is tried and seen" report_is 'rc == 0 and j["schema"] == "kvdoctor/1" and j["works"] and j["run"]["provider"] == "tcp" and j["try"]["client"]["opened"] == 2 and j["try"]["client"]["moved"] and j["try"]["server"]["moved"]' "$doctor" "${small[@]}" --provider tcp
check "JSON: numbers of the run" report_is 'j["run"]["client"]["endpoints"] == 2 and j["run"]["client"]["registered_bytes"] >= 8 << 20 and j["run"]["server"]["engines"] == 1 and j["run"]["client"]["locked_bytes"] == 0' "$doctor" "${small[@]}" --provider tcp --no-try
check "JSON: clients on shm have four threads by default" report_is 'j["run"]["client"]["threads"] == 4' "$doctor" --provider shm --no-try --buffer-mb 4 --memory-mb 8
check "JSON on standard output" status 0 bash -c '"$@" --json - 2>/dev/null | python3 -c "import json, sys; json.load(sys.stdin)"' x "$doctor" "${small[@]}" --no-try
check "the libfabric that is loaded is named by its file" report_is '"libfabric.so" in j["libraries"]["libfabric_path"] and j["libraries"]["libfabric_path"] in j["libraries"]["libfabric_files"] + [j["libraries"]["libfabric_path"]]' "$doctor" --no-try
check "--no-try opens nothing" report_is 'rc == 0 and j["try"]["client"] is None and "--no-try" in f("try")[0]["text"]' "$doctor" --no-try
check "clients on the server's host: 8 bytes of page tables for each page that each of them maps" report_is 'f("page_tables")[0]["need"] in (2 * (64 << 20) // 4096 * 8, 2 * (64 << 20) // (2 << 20) * 8) and j["run"]["client"]["memory_bytes"] > f("page_tables")[0]["need"]' "$doctor" "${small[@]}" --no-try --memory-mb 64
check "a tier: its index is memory of the server, and its place is looked at" report_is 'rc in (0, 1) and f("tier")[0]["need"] == 1 << 20 < f("tier")[0]["have"] and "for index and buffers" in f("tier_index")[0]["text"] and j["run"]["server"]["memory_bytes"] > 9 << 20' "$doctor" "${small[@]}" --no-try --tier "$scratch/tier:1MiB"
check "a tier that the place has no room for" report_is 'rc == 1 and f("tier")[0]["status"] == "fails" and "smaller SIZE" in f("tier")[0]["remedy"]' "$doctor" "${small[@]}" --no-try --tier "$scratch/tier:9000TB"
check "a tier in a folder that is missing" report_is 'rc == 1 and f("tier")[0]["status"] == "fails" and "make the folder first" in f("tier")[0]["text"]' "$doctor" "${small[@]}" --no-try --tier "$scratch/none/tier"
check "a size that is none" says "'much' is no size: use PATH or PATH:SIZE" "$doctor" "${small[@]}" --no-try --tier "$scratch/tier:much"
if short; then finish; fi
# --server: its control port and its fabric ports are tried.
"$build/kv-server" --make-psk "$scratch/psk" >/dev/null
start_server open --memory-mb 32 || exit 1
open=$server
start_server keyed --memory-mb 32 --psk-file "$scratch/psk" || exit 1
keyed=$server
closed=127.0.0.1:$(free_ports 1)
python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True); time.sleep(600)' >"$scratch/silent" &
pids+=($!)
soon test -s "$scratch/silent"
check "a server elsewhere: none of our own is counted, and it answers" report_is 'rc == 0 and j["run"]["server"] is None and j["try"]["server"] is None and [x["status"] for x in f("control") + f("fabric")] == ["ok", "ok"] and "all its shards answered" in f("fabric")[0]["text"]' "$doctor" "${small[@]}" "${over[@]}" --server "$open"
check "nobody listens on its port: exit status 1, and it is said" report_is 'rc == 1 and [(x["status"], x["subject"]) for x in f("control")] == [("ok", "'"$open"'"), ("fails", "'"$closed"'")] and len(f("fabric")) == 1 and "accepts no connection" in f("control")[1]["text"]' "$doctor" "${small[@]}" "${over[@]}" --server "$open" --server "$closed"
check "somebody else listens there: the fabric cannot be tried" report_is 'rc == 1 and f("control")[0]["status"] == "ok" and f("fabric")[0]["status"] == "fails"' "$doctor" "${small[@]}" "${over[@]}" --server "127.0.0.1:$(cat "$scratch/silent")"
check "a server that wants a key" report_is 'rc == 1 and f("control")[0]["status"] == "ok" and "--psk-file" in f("fabric")[0]["text"]' "$doctor" "${small[@]}" "${over[@]}" --server "$keyed"
check "gets it" report_is 'rc == 0 and f("fabric")[0]["status"] == "ok"' "$doctor" "${small[@]}" "${over[@]}" --server "$keyed" --psk-file "$scratch/psk"
check "with --no-try nobody is connected to" report_is 'rc == 0 and f("control") == f("fabric") == []' "$doctor" "${small[@]}" --no-try --server "$closed"
check "a server without a name: exit status 1" status 1 "$doctor" "${small[@]}" --server no-such-host.invalid:1
# Around what kv-bench refuses itself (64), and what the server it starts keeps free before it lets four clients in (140).
as_the_run() {
	local limit run verdict wrong=0 ends= less
	for limit in 60 63 64 65 70 100 139 140 141 150; do
		# The verdict is of what it counts; where it says that the run works its trial must say so, too.
		case $limit in 65 | 70 | 141) less=() ;; *) less=(--no-try) ;; esac
		files_of "$limit" timeout -k 5 60 "$build/kv-bench" --provider tcp --num-threads 1 --server-threads 1 --num-keys 10 --warmup 0 --buffer-mb 8 --quiet >"$scratch/run" 2>&1
		run=$?
		files_of "$limit" timeout -k 5 60 "$doctor" --provider tcp --num-threads 1 --server-threads 1 --buffer-mb 8 "${less[@]}" --quiet >"$scratch/doctor" 2>&1
		verdict=$?
		[ $((run != 0)) -eq "$verdict" ] || { echo "ulimit -n $limit: the run ends with $run, kv-doctor says $verdict"; cat "$scratch/run" "$scratch/doctor"; wrong=1; }
		ends+=" $verdict"
	done
	echo "verdicts:$ends"
	[[ $ends = *" 0"* && $ends = *" 1"* ]] && return $wrong
}
check "what it says of open files is what the run does" as_the_run
check "too few files: exit status 1" status 1 files_of 40 "$doctor" "${small[@]}" --provider tcp
check "they are counted" report_is 'rc == 1 and f("files")[0]["status"] == "fails" and f("files")[0]["need"] > 40 and any(w in f("files")[0]["remedy"] for w in ("ulimit -n", "nofile"))' files_of 40 "$doctor" "${small[@]}" --provider tcp
# The trial opens less than a run (no control connections, no rings of its own): with 28 not even the first endpoint fits.
check "the trial meets the same" report_is 'rc == 1 and all(j["try"][role]["opened"] == 0 and "open files" in j["try"][role]["error"] for role in ("client", "server"))' files_of 28 "$doctor" "${small[@]}" --provider tcp
# 46, and 6 for each of two endpoints more with libfabric 1.18 and later.
for_the_trial_alone() {
	local limit
	for limit in 46 58; do
		report_is 'rc == 1 and any(x["status"] == "fails" for x in f("files")) and j["try"]["client"]["error"] is None and j["try"]["client"]["opened"] == 2' files_of "$limit" "$doctor" "${small[@]}" --provider tcp && return
	done
	return 1
}
check "and what is enough for the trial alone is not for the run" for_the_trial_alone
check "kv-bench refuses it before it opens an endpoint, in the same words" says 'open files: needs [0-9]+, 100 allowed' files_of 100 "$build/kv-bench" --num-clients 16 --num-keys 10 --server-threads 1 --provider tcp
not_root=; [ "$(id -u)" = 0 ] || not_root="only root can become another user"
command -v setpriv >/dev/null || not_root="there is no setpriv"
skip_or_check "$not_root" "another user: it works" status 0 as_nobody "$scratch_doctor" "${small[@]}" --provider tcp
skip_or_check "$not_root" "another user: lowered files" status 1 files_of 40 as_nobody "$scratch_doctor" "${small[@]}" --provider tcp
# Kernels differ in whether rings are locked memory: either it works, or that is what is said.
locked_little() {
	(
		ulimit -l 64
		rm -f "$scratch/doctor.json" && chmod 777 "$scratch"
		report_is '(rc == 0 and f("io_uring")[0]["status"] == "ok") or (rc == 0 and "count as locked memory" in f("io_uring")[0]["text"] and "memlock" in f("io_uring")[0]["remedy"])' \
			as_nobody "$scratch_doctor" "${small[@]}" --provider tcp
	)
}
skip_or_check "$not_root" "another user with 64 KiB of locked memory" locked_little
few_tasks() {
	(
		ulimit -u 3
		rm -f "$scratch/doctor.json" && chmod 777 "$scratch"
		report_is 'rc == 1 and f("threads")[0]["status"] == "fails" and "ulimit -u" in f("threads")[0]["remedy"]' as_nobody "$scratch_doctor" "${small[@]}" --provider tcp
	)
}
skip_or_check "$not_root" "another user who may have 3 processes and threads" few_tasks
# kv-server raises its own soft limit.
soft_files() { (ulimit -S -n 100 && report_is '[x["status"] for x in f("files")] == ["fails", "ok"] and f("files")[1]["have"] > 100' "$doctor" --num-clients 16 --server-threads 1 --buffer-mb 1 --memory-mb 8 --provider tcp --no-try); }
check "a soft limit of files: kv-server lifts its own, kv-bench's is named" soft_files
no_mounts=$not_root; [ -n "$no_mounts" ] || unshare -m mount -t tmpfs -o size=1M tmpfs /dev/shm 2>/dev/null || no_mounts="no mount namespace may be had here"
small_shm() { unshare -m bash -c 'mount -t tmpfs -o size=1M tmpfs /dev/shm && exec "$@"' x "$@"; }
skip_or_check "$no_mounts" "shm with little room in /dev/shm: exit status 1" status 1 small_shm "$doctor" "${small[@]}" --provider shm
skip_or_check "$no_mounts" "and it is named" says '/dev/shm: needs .*, 1 MiB allowed' small_shm "$doctor" "${small[@]}" --provider shm
skip_or_check "$no_mounts" "by kv-bench, too" says '/dev/shm: needs .*, 1 MiB allowed' small_shm "$build/kv-bench" --provider shm --num-keys 10
no_net=$not_root; [ -n "$no_net" ] || unshare -n true 2>/dev/null || no_net="no network namespace may be had here"
skip_or_check "$no_net" "loopback is down: exit status 1" status 1 unshare -n "$doctor" "${small[@]}" --provider tcp --no-try
skip_or_check "$no_net" "and how to lift it" says 'ip link set lo up' unshare -n "$doctor" "${small[@]}" --provider tcp --no-try --quiet
check "io_uring refused by seccomp: a run would work, on epoll" report_is 'rc == 0 and j["works"] and f("io_uring")[0]["status"] == "warning" and "loops use epoll" in f("io_uring")[0]["text"]' no_uring "$doctor" "${small[@]}"
check "and how to allow it" says 'seccomp' no_uring "$doctor" "${small[@]}" --no-try --quiet

# One sum: that by which kv-server refuses, and that of kv-doctor; and the amount that the refusal names is accepted.
huge=16000000 # MiB
refused_sum() { # the sum in GiB that kv-server wants for $1 MiB
	limited "$build/kv-server" --listen-addr 127.0.0.1:0 --worker-threads 1 "${over[@]}" --memory-mb "$1" 2>&1 | sed -n 's/.*kv-server: \([0-9.]*\) TiB of memory are wanted.*/\1/p'
}
one_sum() {
	local sum
	sum=$(refused_sum $huge)
	report_is "abs(j['run']['server']['memory_bytes'] / 2.0**40 - ${sum:-0}) < 0.01 * ${sum:-1}" "$doctor" --num-clients 1 --server-threads 1 --buffer-mb 4 --memory-mb $huge --provider tcp --no-try
}
check "kv-doctor has the sum by which kv-server refuses memory" one_sum
recommended() {
	local most
	most=$(limited "$build/kv-server" --listen-addr 127.0.0.1:0 --worker-threads 1 "${over[@]}" --memory-mb $huge 2>&1 | sed -n 's/.*use --memory-mb \([0-9]*\) or less.*/\1/p')
	echo "$most MiB"
	[ "$most" -gt 1000 ] && start_server recommended --worker-threads 1 --prefault off --memory-mb $((most - most / 20)) && stop_server "$server_pid"
}
check "kv-server takes the memory that its refusal names" recommended
check "kv-bench does not begin with more buffers than the machine has memory" says '[TP]iB of memory are wanted for the buffers of 1000 clients' "$build/kv-bench" --num-clients 1000 --buffer-mb 65536 --num-keys 10

# A machine that is made up.
tree=$scratch/tree
mkdir -p "$tree/proc/self" "$tree/proc/sys/kernel"
echo 2 >"$tree/proc/sys/kernel/io_uring_disabled"
printf 'Limit  Soft Limit Hard Limit Units\nMax open files            30 30 files\n' >"$tree/proc/self/limits"
check "--sysroot: its sysctl forbids io_uring" report_is 'rc == 1 and f("io_uring")[0]["status"] == "warning" and "io_uring_disabled=0" in f("io_uring")[0]["remedy"]' "$doctor" --sysroot "$tree" --provider tcp
check "--sysroot: its limits count" report_is 'f("files")[0]["have"] == 30 and f("files")[0]["status"] == "fails" and "LimitNOFILE" in f("files")[0]["remedy"]' "$doctor" --sysroot "$tree" --provider tcp
mkdir "$scratch/nothing"
check "--sysroot of nothing: unknown is no failure" status 0 "$doctor" --sysroot "$scratch/nothing" --provider tcp

# A provider that ends the process or stands still is seen from outside.
check "what hurts in the environment is named" says 'unset FI_TCP_ZEROCOPY_SIZE' env FI_TCP_ZEROCOPY_SIZE=1 "$doctor" "${small[@]}" --provider tcp --quiet
check "a switch may be a word, as for libfabric" status 1 env FI_OFI_RXM_DATA_AUTO_PROGRESS=yes "$doctor" "${small[@]}" --provider tcp --no-try
check "one that is off hurts nobody" status 0 env FI_OFI_RXM_DATA_AUTO_PROGRESS=off "$doctor" "${small[@]}" --provider tcp --no-try
check "nor does one of another provider" status 0 env FI_OFI_RXM_DATA_AUTO_PROGRESS=1 "$doctor" "${small[@]}" --provider shm --no-try
check "FI_PROVIDER hides the others: exit status 1" status 1 env FI_PROVIDER=shm "$doctor" "${small[@]}" --provider tcp
check "the remedy is to unset it" says '^ +fix: .unset FI_PROVIDER.$' env FI_PROVIDER=shm "$doctor" "${small[@]}" --quiet
check "and kv-bench says so, too" says 'FI_PROVIDER=shm is set.*unset it' env FI_PROVIDER=shm "$build/kv-bench" --num-keys 10 --provider tcp
not_full=; [ -w /dev/full ] || not_full="there is no /dev/full"
skip_or_check "$not_full" "a report that cannot be written: exit status 3" status 3 bash -c '"$@" >/dev/full' x "$doctor" "${small[@]}" --no-try
check "a NIC that is not here is answered with those that are, not with another provider" report_is 'rc == 1 and "there are: " in f("provider")[0]["text"] and f("provider")[0]["remedy"] is None' "$doctor" "${small[@]}" --provider tcp --nic nothing0
check "--try-child is not for users" status 2 "$doctor" --try-child
finish
