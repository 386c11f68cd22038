#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""raw_summary.py RAW.bin REPORT.json -- computes the figures of a report again from the file of kv-bench --raw, and compares them.

It knows the format as docs/reference/formats.md has it, and nothing else of kv-bench. Counts, bytes, smallest and
largest latencies, and each bucket of the histograms must be the same. Ends with 1 and a line for each difference.
"""
import collections
import json
import math
import struct
import sys

HEAD = struct.Struct("<8sIIqQQ24x")
RECORD = struct.Struct("<QQQQQQiBBBBII")
Op = collections.namedtuple("Op", "number key due start end bytes code phase kind flags unused worker run")
WRITE, WARMUP, READ, MIXED = 1, 2, 3, 4
GET, PUT, EXISTS, DELETE = 1, 2, 3, 4
NEVER_STARTED, BESIDE = 1, 2
ENOTFOUND, EEXIST = -1004, -1005


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    magic, head_bytes, record_bytes, start_unix_ns, seed, value_size = HEAD.unpack_from(data)
    assert magic == b"kvbraw1\n" and head_bytes == HEAD.size and record_bytes == RECORD.size, (magic, head_bytes, record_bytes)
    assert (len(data) - head_bytes) % record_bytes == 0
    return (start_unix_ns, seed, value_size), [Op._make(r) for r in RECORD.iter_unpack(data[head_bytes:])]


def edge(ns):
    """The largest value of the bucket of 128 steps for each power of two."""
    shift = max(ns.bit_length() - 8, 0)
    return ((ns >> shift) + 1 << shift) - 1


def latencies(samples):
    """As the report has them: the smallest, mean and largest, and quantiles where a sample lies beyond."""
    if not samples:
        return {}
    out = {"min": min(samples), "max": max(samples), "mean": sum(samples) / len(samples)}
    sorted_samples = sorted(samples)
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        if name == "p50" or len(samples) * (1 - q) >= 1 - 1e-9:
            rank = max(math.ceil(q * len(samples) * (1 - 1e-15)), 1)
            out[name] = min(edge(sorted_samples[rank - 1]), max(samples))
    return out


def histogram(samples):
    count = collections.Counter(min(edge(s), max(samples)) for s in samples)
    return dict(sorted(count.items()))


def phase_of(ops, trace=False):
    """What a phase of the report says of these operations of one kind."""
    units = collections.defaultdict(list)  # operations: one key each, or a batch
    for op in ops:
        units[op.run, op.number, op.worker, op.kind].append(op)
    latency, service, missed, failed = [], [], [], []
    for unit in units.values():
        codes = [o.code for o in unit]
        took = unit[0].end - unit[0].due
        bad = [c for c in codes if c < 0 and c not in (ENOTFOUND, EEXIST)]
        if unit[0].flags & NEVER_STARTED:
            latency.append(took)
        elif bad:
            failed.append(took)
        elif ENOTFOUND in codes and unit[0].kind != EXISTS:
            missed.append(took)
        elif EEXIST not in codes:
            latency.append(took)
            service.append(unit[0].end - unit[0].start)
    done = [o for o in ops if not o.flags & NEVER_STARTED]
    return {
        "ops": sum(o.code in (0, ENOTFOUND, EEXIST) for o in done),
        "bytes": sum(o.bytes for o in done),
        "hits": sum(o.code == 0 and o.kind in (GET, EXISTS) for o in done),
        "misses": sum(o.code == ENOTFOUND and o.kind in (GET, EXISTS) for o in done),
        "put_conflicts": sum(o.code == EEXIST for o in done),
        "errors": sum(o.code not in (0, ENOTFOUND, EEXIST) for o in done),
        "due": len(units),
        "never_started": sum(bool(u[0].flags & NEVER_STARTED) for u in units.values()),
        "latency": latency, "service": service, "missed": missed, "failed": failed,
    }


def trace_phase(ops, kind):
    """Of a replay a sample is a request: the sum of its batches. A lookup that did not find all is a miss of the GETs."""
    batches = collections.defaultdict(set)
    for op in ops:
        if op.kind == kind:
            batches[op.number].add((op.start, op.end))
    out = phase_of([o for o in ops if o.kind == kind])
    out["latency"] = [sum(end - start for start, end in b) for b in batches.values()]
    out["missed"] = [o.end - o.start for o in ops if o.kind == EXISTS and o.code == ENOTFOUND] if kind == GET else []
    return out


def compare(name, phase, want, problems):
    def same(what, got, expected):
        if got != expected:
            problems.append(f"{name}: {what} is {got} in the report and {expected} in the file")
    for key in ("ops", "bytes", "hits", "put_conflicts"):
        same(key, phase[key], want[key])
    if "misses" in want:
        same("misses", phase["misses"], want["misses"])
    same("errors", sum(phase["errors"].values()), want["errors"])
    if "due" in phase:
        same("due", phase["due"], want["due"])
        same("never_started", phase["never_started"], want["never_started"])
        service = phase.get("service_ns")
        if service:
            mean = latencies(want["service"]).pop("mean")
            same("service_ns", {k: v for k, v in service.items() if k != "mean"}, {k: v for k, v in latencies(want["service"]).items() if k != "mean"})
            assert abs(service["mean"] - mean) <= 1, (service, mean)
    for member, samples in (("latency_ns", want["latency"]), ("missed_ns", want["missed"]), ("failed_ns", want["failed"])):
        got, expected = dict(phase.get(member, {})), latencies(samples)
        mean, expected_mean = got.pop("mean", 0), expected.pop("mean", 0)
        same(member, got, expected)
        if abs(mean - expected_mean) > 1 + expected_mean * 1e-9:
            problems.append(f"{name}: the mean of {member} is {mean} in the report and {expected_mean} in the file")
    if "histogram" in phase or want["latency"]:
        h = phase.get("histogram", {"upper_ns": [], "count": []})
        same("histogram", dict(zip(h["upper_ns"], h["count"])), histogram(want["latency"]))


def main(raw, report):
    (start_unix_ns, seed, value_size), ops = load(raw)
    with open(report, encoding="utf-8") as f:
        doc = json.load(f)
    problems = []
    assert seed == doc["config"]["seed"] and value_size == doc["config"]["value_size"] and start_unix_ns > 0
    assert all(o.due <= o.start <= o.end and o.unused == 0 and o.phase in (1, 2, 3, 4) and o.run >= 1 for o in ops)
    of = collections.defaultdict(list)
    for o in ops:
        if not o.flags & BESIDE:
            of[o.phase, o.kind].append(o)
    phases = doc["phases"]
    if doc["config"]["trace"]:
        read = of[READ, GET] + of[READ, EXISTS]
        compare("put", phases["write"], trace_phase(of[WRITE, PUT], PUT), problems)
        want = trace_phase(read, GET)
        want["misses"] = doc["trace"]["blocks"] - want["hits"]  # of the blocks that were looked up
        compare("get", phases["read"], want, problems)
    else:
        compare("write", phases["write"], phase_of(of[WRITE, PUT]), problems)
        compare("read", phases["read"], phase_of(of[READ, GET]), problems)
    if "mix" in phases:
        compare("mix put", phases["mix"]["put"], phase_of(of[READ, PUT]), problems)
        compare("mix exists", phases["mix"]["exists"], phase_of(of[READ, EXISTS]), problems)
    if "mixed" in phases:
        compare("mixed put", phases["mixed"]["write"], phase_of(of[MIXED, PUT]), problems)
        compare("mixed get", phases["mixed"]["read"], phase_of(of[MIXED, GET]), problems)
    print(*problems[:20], sep="\n")
    print(f"{len(ops)} records, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
