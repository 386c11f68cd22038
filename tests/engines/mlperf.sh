#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mlperf.sh -- MLPerf Storage's KV-cache workload on kvrail.mlperf, with its smallest model. The workload is a clone from
# GitHub, or the folder kv_cache_benchmark that KVRAIL_MLPERF names.
. "$(dirname "$0")/lib.bash"
commit=23aa82edc1f0d66a4ccae6181d66a2c18472aeac

cloned() {
	folder=${KVRAIL_MLPERF:-$engines/mlperf-storage/kv_cache_benchmark}
	[ -e "$folder/kv_cache/cache.py" ] && return 0
	why="github.com/mlcommons/storage cannot be cloned here (KVRAIL_MLPERF=FOLDER names a copy of its kv_cache_benchmark)"
	rm -rf "$engines/mlperf-storage"
	timeout 120 git clone --quiet --filter=blob:none --no-checkout https://github.com/mlcommons/storage "$engines/mlperf-storage" 2>/dev/null &&
		git -C "$engines/mlperf-storage" checkout --quiet "$commit" -- kv_cache_benchmark
}

# workload MEMORY_MB -- prints what it prints; leaves its report in $scratch/report.json.
workload() {
	timeout -k 10 300 "$python" - "$1" "$folder" "$scratch/report.json" <<-'END' 2>&1
		import subprocess, sys, kvrail
		memory, folder, report = sys.argv[1:]
		arguments = "--model tiny-1b --num-users 2 --duration 5 --gpu-mem-gb 0 --cpu-mem-gb 0 --seed 1 --generation-mode none"
		with kvrail.Server(memory_mb=int(memory)) as server:
		    command = [sys.executable, "-m", "kvrail.mlperf", "--servers", server.address, folder, "--", *arguments.split()]
		    command += ["--storage-capacity-gb", "0.4", "--log-level", "ERROR", "--output", report]
		    sys.exit(subprocess.run(command).returncode)
	END
}
runs() {
	workload 1024 >"$scratch/out" && grep -E '^kvrail: [1-9][0-9]* PUTs, [1-9][0-9]* GETs, 0 failed entries$' "$scratch/out" ||
		{ tail -n 5 "$scratch/out" && return 1; }
}
reported() { "$python" -c 'import json, sys; stats = json.load(open(sys.argv[1]))["summary"]["cache_stats"]; assert stats["storage_read_p95_ms"] > 0 and stats["tier_storage_kv_bytes_read_gb"] > 0, stats' "$scratch/report.json"; }
void() { ! workload 128 >"$scratch/out" && grep 'the figures are void' "$scratch/out"; }
not_there() { ! "$python" -m kvrail.mlperf --servers 127.0.0.1:1 "$scratch" 2>"$scratch/out" && grep 'is not the benchmark' "$scratch/out"; }

plan 5
venv mlperf tests/engines/mlperf.txt || skip_all 5 "$why"
cloned || skip_all 5 "$why"
check "mlperf: the package kvrail can be installed" our_package
check "mlperf: the workload runs, and every entry is found" runs
check "mlperf: its report has the reads from storage" reported
check "mlperf: a server that evicts entries makes the run fail" void
check "mlperf: a folder without the workload is named" not_there
finish
