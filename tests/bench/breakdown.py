#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""breakdown.py [SIZE...] -- where the time of one GET goes, by phase, with 1 and with 32 workers: `make bench-phases`.

Each round runs every case once, so that what the machine does meanwhile falls on all of them; a figure is the median over the
rounds of a run's median, in microseconds. What the phases are: docs/internals/performance.md. Medians do not add up to the total.

Environment: KVRAIL_BUILD (build/release), PAIRS (7: rounds), BENCH_SECONDS (1: length of a read phase).
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, os.environ.get("KVRAIL_BUILD", "build/release"), "kv-bench")
ROUNDS = int(os.environ.get("PAIRS", "7"))
SECONDS = os.environ.get("BENCH_SECONDS", "1")
SIZES = ["4KB", "64KB", "1MB"]
KEYS = {"4KB": 4096, "64KB": 1024, "1MB": 128}
CASES = {"1 worker": ["--num-workers", "1", "--num-clients", "1"], "32 workers": ["--num-workers", "32", "--num-clients", "4"]}
PARTS = ["room", "queue", "wire", "post", "reply", "data", "wake", "check", "other", "total"]


def run(case, size, path):
    """{part: median in us} of one run."""
    done = subprocess.run([BENCH, *CASES[case], "--value-size", size, "--num-keys", str(KEYS.get(size, 128)), "--duration", SECONDS, "--breakdown",
                           "--quiet", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=170)
    if done.returncode != 0:
        sys.exit("kv-bench failed:\n" + done.stdout)
    with open(path, encoding="utf-8") as report:
        parts = json.load(report)["breakdown_ns"]
    return {part: parts[part]["p50"] / 1000 for part in PARTS}


def c2c():
    """The round trip of a cache line between the CPUs, in ns: figures taken at different distances do not compare."""
    done = subprocess.run([os.path.join(os.path.dirname(BENCH), "tests/bench/c2c")], stdout=subprocess.PIPE, text=True, timeout=60)
    return json.loads(done.stdout)["c2c_ns"] if done.returncode == 0 else 0


def main():
    sizes = sys.argv[1:] or SIZES
    if any(s.startswith("-") for s in sizes):
        sys.exit(__doc__)
    runs = {(case, size): [] for case in CASES for size in sizes}
    distances = [c2c()]
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(ROUNDS):
            for case, size in runs:
                runs[case, size].append(run(case, size, os.path.join(scratch, "report.json")))
            distances.append(c2c())
    print("| phase, us | " + " | ".join(f"{case}, {size}" for case, size in runs) + " |")
    print("|---|" + "---|" * len(runs))
    for part in PARTS:
        row = [statistics.median(r[part] for r in of) for of in runs.values()]
        print(f"| `{part}` | " + " | ".join(f"{figure:.1f}" for figure in row) + " |")
    totals = [[r["total"] for r in of] for of in runs.values()]
    print("| range of `total` | " + " | ".join(f"{min(t):.0f} to {max(t):.0f}" for t in totals) + " |")
    print(f"\nc2c {min(distances):.0f} to {max(distances):.0f} ns\n")


main()
