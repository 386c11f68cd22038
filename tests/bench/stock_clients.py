#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stock_clients.py TARGET [--value-size BYTES] [--num-keys N] [--workers N] [--ops N] -- redis-benchmark and memtier_benchmark beside kv-bench's own client.

TARGET is redis://HOST:PORT, redis+unix://PATH or memcached://HOST:PORT, a server that runs already. Each client stores
all keys and reads them, one after the other, with as many connections, on one thread. Prints a Markdown table of what
each says itself. One that is not installed, or does not speak the protocol, has a row that says so. kv-bench versus
measures with its own client since the others are busy themselves before a server is: whether that is true, and what
difference it makes, is seen here. Figures of one run, on a machine at rest, for docs/runs.
"""
import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"stock_clients.py: {command[0]} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def address_of(target):
    """(protocol, host, port, path)"""
    scheme, _, rest = target.partition("://")
    protocol, _, unix = scheme.partition("+")
    if protocol not in ("redis", "memcached") or not rest:
        raise SystemExit(f"stock_clients.py: {target} is none of redis://HOST:PORT, redis+unix://PATH and memcached://HOST:PORT")
    if unix:
        return protocol, "", "", rest
    host, _, port = rest.rpartition(":")
    return protocol, host, port, ""


def redis_benchmark(target, o):
    """Rows of (operation, operations per second, p50 in ms, p99 in ms); None: it does not speak the protocol."""
    protocol, host, port, path = address_of(target)
    if protocol != "redis":
        return None
    where = ["-s", path] if path else ["-h", host, "-p", port]
    text = run(["redis-benchmark", *where, "-t", "set,get", "-d", str(o.value_size), "-c", str(o.workers), "-r", str(o.num_keys),
                "-n", str(o.ops), "--csv"])
    rows = [r for r in csv.DictReader(text.splitlines()) if r.get("test") in ("SET", "GET")]
    return [({"SET": "PUT"}.get(r["test"], r["test"]), float(r["rps"]), float(r["p50_latency_ms"]), float(r["p99_latency_ms"])) for r in rows]


def memtier(target, o):
    protocol, host, port, path = address_of(target)
    where = ["-S", path] if path else ["-s", host, "-p", port]
    common = ["memtier_benchmark", *where, "--protocol", {"redis": "redis", "memcached": "memcache_text"}[protocol], "-t", "1",
              "-c", str(o.workers), "-d", str(o.value_size), "--key-minimum", "1", "--key-maximum", str(o.num_keys), "--hide-histogram"]
    out = []
    for name, member, options in (("PUT", "Sets", ["--ratio", "1:0", "--key-pattern", "P:P", "-n", "allkeys"]),
                                  ("GET", "Gets", ["--ratio", "0:1", "--key-pattern", "R:R", "-n", str(max(o.ops // o.workers, 1))])):
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            run([*common, *options, "--json-out-file", report.name])
            with open(report.name, encoding="utf-8") as f:
                stats = json.load(f)["ALL STATS"][member]
        quantiles = stats.get("Percentile Latencies", {})
        out.append((name, float(stats["Ops/sec"]), float(quantiles.get("p50.00", "nan")), float(quantiles.get("p99.00", "nan"))))
    return out


def kv_bench(target, o):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        run([o.kv_bench, "versus", "--targets", target, "--rounds", "1", "--num-workers", str(o.workers), "--num-keys", str(o.num_keys),
             "--value-size", str(o.value_size), "--duration", str(o.seconds), "--json", report.name])
        with open(report.name, encoding="utf-8") as f:
            figures = json.load(f)["targets"][0]
    return [(name, figures[f]["ops_per_s"], figures[f]["p50_ns"] / 1e6, figures[f].get("p99_ns", float("nan")) / 1e6)
            for name, f in (("PUT", "put"), ("GET", "get"))]


CLIENTS = (("kv-bench", None, kv_bench), ("redis-benchmark", "redis-benchmark", redis_benchmark), ("memtier_benchmark", "memtier_benchmark", memtier))


def table(target, o):
    lines = ["| client | operation | ops/s | p50 | p99 |", "|---|---|---|---|---|"]
    for name, program, measure in CLIENTS:
        if program and not shutil.which(program):
            lines.append(f"| {name} | not installed | | | |")
            continue
        rows = measure(target, o)
        if rows is None:
            lines.append(f"| {name} | does not speak this protocol | | | |")
            continue
        for operation, rate, p50, p99 in sorted(rows):
            lines.append(f"| {name} | {operation} | {rate:,.0f} | {p50:.3f} ms | {p99:.3f} ms |")
    return lines


def main(args):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("target")
    p.add_argument("--value-size", type=int, default=65536)
    p.add_argument("--num-keys", type=int, default=49152)
    p.add_argument("--workers", type=int, default=32)
    p.add_argument("--ops", type=int, default=200000)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--kv-bench", default=os.path.join(os.environ.get("KVRAIL_BUILD", os.path.join(ROOT, "build/release")), "kv-bench"))
    o = p.parse_args(args)
    print("\n".join(table(o.target, o)))


if __name__ == "__main__":
    main(sys.argv[1:])
