#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [--doc] [NAME...] -- KVRail beside what it is compared with, in interleaved runs. See tests/bench/README.md.

  run.py --list                      the comparisons
  run.py redis memcached             these, printed and recorded in build/bench/
  run.py --doc [NAME...]             and written into docs/runs/bench.md, which is made if it is not there (this is `make bench`)
  run.py ab DIR_A DIR_B [-- OPTS]    two builds of KVRail against each other with kv-bench OPTS
  run.py rate                        whether kv-bench --rate keeps a rate, at 70 % of what its closed loop did just before

Environment: PAIRS (7), BENCH_SECONDS (1: length of a read phase), BENCH_QUICK=1 (one short pair, for a smoke test),
FABTESTS=DIR (where fi_rma_bw is), BENCH_TRACE=FILE (what `trace` replays), KVRAIL_BUILD (build/release),
BENCH_LOCK=FILE (locked for the pairs of a case).

A pair is one run of each side, one after the other, in an order that flips; a ratio is that of a pair, and the median
over the pairs is what counts. The distance of the CPUs is taken before, between and after: a pair during which it
changed is not counted and repeated (up to as many again).
"""
import atexit
import concurrent.futures
import contextlib
import fcntl
import itertools
import json
import mmap
import os
import platform
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests"))
from ports import free_ports

BUILD = os.path.join(ROOT, os.environ.get("KVRAIL_BUILD", "build/release"))
RESULTS = os.path.join(ROOT, "build/bench/results.json")
DOC_NAME = "docs/runs/bench.md"
DOC = os.path.join(ROOT, DOC_NAME)
QUICK = os.environ.get("BENCH_QUICK", "0") not in ("", "0")
PAIRS = 1 if QUICK else int(os.environ.get("PAIRS", "7"))
SECONDS = 0.2 if QUICK else float(os.environ.get("BENCH_SECONDS", "1"))
DATA_SET = (16 if QUICK else 256) << 20  # bytes of values: more than any cache here
TRACE = os.environ.get("BENCH_TRACE", "")
TRACE_MB = 256 if QUICK else 2048        # of the server that it is replayed on
LIMIT_S = 180                            # no run takes longer
BUSY_CORES = 0.25                        # others that take more spoil what spins
COLUMNS = 120                            # of a line in the document
K, M = 1 << 10, 1 << 20


class Failed(Exception):
    """A run that gave no figure; the text is a sentence for the reader."""


class Skipped(Exception):
    """Something that this machine does not have."""


# ---- processes ----

children = []


def kill_children():
    for p in children:
        with contextlib.suppress(OSError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()
    children.clear()


def start(cmd, **more):
    """A process in a group of its own, so that it ends with everything it started. In our session, as kv-bench's own server is in
    kv-bench's: the kernel shares processors out among sessions first (autogroup), and both sides are to have one share."""
    try:
        p = subprocess.Popen(cmd, cwd=ROOT, preexec_fn=os.setpgrp, text=True, **more)  # pylint: disable=subprocess-popen-preexec-fn
    except OSError as e:
        raise Failed(f"{cmd[0]} cannot be started: {e.strerror} (make tests builds the tools)") from None
    children.append(p)
    return p


def finish(p, limit=LIMIT_S):
    """Its output; Failed when it ended badly or not at all."""
    name = os.path.basename(p.args[0])
    try:
        out, err = p.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        raise Failed(f"{name} did not end within {limit} s: {' '.join(p.args)}") from None
    finally:
        children.remove(p)
    if p.returncode != 0:
        tail = ((err or "") + (out or "")).strip().splitlines()[-3:]
        raise Failed(f"{name} failed (exit status {p.returncode}): {' / '.join(tail)}")
    return out


def run(cmd, **more):
    return finish(start(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **more))


def stop(p):
    """SIGTERM, then SIGKILL: a server that was only there to be measured."""
    p.terminate()
    try:
        p.wait(5)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
    children.remove(p)


def need(program):
    # Amazon Linux has redis6-server.
    path = shutil.which(program) or program == "redis-server" and shutil.which("redis6-server")
    if not path:
        raise Skipped(f"{program} is not installed: scripts/install-deps.sh bench")
    return path


def wait_port(p, port):
    end = time.monotonic() + 10
    while time.monotonic() < end and p.poll() is None:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise Failed(f"{os.path.basename(p.args[0])} does not listen on port {port}")


# ---- the machine ----

def c2c():
    """ns of a cache line's round trip between two CPUs; None where there is but one, 0 where others used them."""
    return json.loads(run([os.path.join(BUILD, "tests/bench/c2c")]))["c2c_ns"]


def state_of(ns):
    return "near" if ns < 85 else "mid" if ns < 250 else "far"


def state_over(distances):
    """Of distances taken around parts of a measurement. One measurement scatters by half; the next distance is twice as far or more."""
    known = [x for x in distances if x]
    if len(known) < len(distances):
        return "changed" if known or 0 in distances else "one CPU"
    return "changed" if max(known) > 1.8 * min(known) else state_of(min(known))


def busy_seconds():
    """Processor time of everybody, and of us and our children (those that run, without children of their own)."""
    with open("/proc/stat", encoding="ascii") as f:
        t = [int(x) for x in f.readline().split()[1:9]]
    everybody = (sum(t) - t[3] - t[4]) / os.sysconf("SC_CLK_TCK")
    ours = 0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        u = resource.getrusage(who)
        ours += u.ru_utime + u.ru_stime
    for p in children:
        stat = read_file(f"/proc/{p.pid}/stat").rpartition(")")[2].split()
        ours += sum(int(x) for x in stat[11:13]) / os.sysconf("SC_CLK_TCK")
    return everybody, ours


@contextlib.contextmanager
def machine_lock():
    name = os.environ.get("BENCH_LOCK")
    if not name:
        yield
        return
    with open(name, "a", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def first_line(cmd):
    try:
        return subprocess.run(cmd, capture_output=True, text=True, timeout=10, check=False).stdout.strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None


def read_file(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", read_file("/proc/cpuinfo"))
    mem = re.search(r"MemTotal:\s*(\d+)", read_file("/proc/meminfo"))
    commit = first_line(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=10"])
    rows = {
        "commit": commit or "unknown",
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processors": f"{len(os.sched_getaffinity(0))} x {cpu.group(1) if cpu else platform.machine()}"
                      + (", virtual" if " hypervisor" in read_file("/proc/cpuinfo") else ""),
        "memory": f"{int(mem.group(1)) / 2**20:.0f} GiB" if mem else "unknown",
        "kernel": platform.release(),
        "congestion control": read_file("/proc/sys/net/ipv4/tcp_congestion_control") or "unknown",
        "huge pages": (re.search(r"\[(\w+)\]", read_file("/sys/kernel/mm/transparent_hugepage/enabled")) or ["", "?"])[1],
        "libfabric": first_line(["pkg-config", "--modversion", "libfabric"]) or "unknown",
    }
    redis = first_line(["redis-server", "--version"]) or first_line(["redis6-server", "--version"])
    if redis:
        rows["redis"] = (re.search(r"v=(\S+)", redis) or ["", redis])[1]
    memcached = first_line(["memcached", "-V"])
    if memcached:
        rows["memcached"] = memcached.split()[-1]
    return rows


# ---- the sides of a comparison: each is a function without arguments that gives {"value": GETs/s or so, ...} ----

def size_text(n):
    return f"{n // M} MiB" if n >= M else f"{n // K} KiB"


def keys_of(size):
    return max(DATA_SET // size, 8)


def kv_bench_json(size, workers, clients, extra, build=BUILD, keys=None, provider="tcp", seconds=None, within=(), local=False):
    """The whole report of a kv-bench with these options; its own errors, misses and wrong bytes fail it. local: the client reads the server's memory
    in place; else the bytes go over the provider."""
    with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as d:
        path = os.path.join(d, "report.json")
        run([*within, os.path.join(build, "kv-bench"), "--quiet", "--log-level", "warn", "--provider", provider,
             "--local", "auto" if local else "off", "--num-workers", str(workers), "--num-clients", str(clients), "--num-keys", str(keys or keys_of(size)),
             "--value-size", str(size), "--duration", str(seconds or SECONDS), "--warmup", str(warm_up(size)),
             "--json", path, *extra])
        with open(path, encoding="utf-8") as f:
            return json.load(f)


def fabric_row(size, depth):
    """The writes of one size over the bare fabric, one pair on this machine."""
    with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as d:
        path = os.path.join(d, "fabric.json")
        run([os.path.join(BUILD, "kv-bench"), "fabric", "--quiet", "--provider", "tcp", "--sizes", str(size), "--depth",
             str(depth), "--time", f"{SECONDS}s", "--json", path])
        with open(path, encoding="utf-8") as f:
            return next(r for r in json.load(f)["rows"] if r["op"] == "write")


def warm_up(size):
    """GETs: about a tenth of a second, as the other tools have."""
    return max(2 * 32, min(5000, 256 * M // size))


def p99_of(phase, latency="latency_ns"):
    """kv-bench gives none of fewer than 100 samples: then it is the largest of them."""
    return phase[latency]["p99"] if "p99" in phase[latency] else phase[latency]["max"]


def reads_of(report):
    r = report["phases"]["read"]
    return {"value": r["ops_per_s"], "bytes_per_s": r["bytes_per_s"], "p50_ns": r["latency_ns"]["p50"],
            "p99_ns": p99_of(r), "cpu_seconds": r["cpu_seconds"],
            "server_cpu_seconds": r.get("server_cpu_seconds"), "seconds": r["seconds"],
            "peak_rss_bytes": report["resources"]["peak_rss_bytes"]}


def phase_of(report, *names):
    """ops/s and bytes/s of phases that ran at the same time, or of one."""
    phases = [report["phases"]["mixed"][n] if len(names) > 1 else report["phases"][n] for n in names]
    return {"value": sum(p["ops_per_s"] for p in phases), "bytes_per_s": sum(p["bytes_per_s"] for p in phases),
            "p50_ns": phases[-1]["latency_ns"]["p50"], "p99_ns": p99_of(phases[-1])}


def kv_bench_puts(size, *extra, keys=None):
    """PUTs of keys that are not there, as many as take about as long as a read phase, if memory has room; reads are cut short."""
    return lambda: phase_of(kv_bench_json(size, 32, 4, extra, keys=keys or put_keys(size), seconds=0.01), "write")


def kv_bench_mixed(size):
    return lambda: phase_of(kv_bench_json(size, 32, 4, ["--mixed"], keys=put_keys(size), seconds=0.01), "write", "read")


def put_keys(size):
    return max(int((4 if QUICK else 8) * DATA_SET * min(SECONDS, 1)) // size, 32)


def kv_bench(size, workers=32, clients=4, *extra, **more):
    return lambda: reads_of(kv_bench_json(size, workers, clients, extra, **more))


def tool(name, *args, **more):
    r = json.loads(run([os.path.join(BUILD, "tests/bench", name), *map(str, args), "--duration", str(SECONDS)], **more))
    r["value"] = r["gets_per_s"]
    return r


def lfget(size, *args, reno=True):
    """With the congestion control that KVRail's engine asks for: it is part of the fabric that both use."""
    return lambda: tool("lfget", "--value-size", size, "--blocks", keys_of(size), *args, env=congestion(reno and "reno"))


def rawtcp(size):
    return lambda: tool("rawtcp", "--value-size", size, "--blocks", keys_of(size), "--depth", 16)


def congestion(name):
    """The environment of a program whose TCP sockets are to have this congestion control; None: the system's default."""
    if not name:
        return None
    shim = os.path.join(BUILD, "tests/bench/congestion.so")
    return dict(os.environ, BENCH_CONGESTION=name, LD_PRELOAD=shim)


@contextlib.contextmanager
def redis_server(*more, reno=False):
    """A redis on a free port: its address, and its unix socket."""
    (port,) = free_ports()
    with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as d:
        sock = os.path.join(d, "redis.sock")
        p = start([need("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", sock,
                   "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", d, *more],
                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=congestion(reno and "reno"))
        try:
            wait_port(p, port)
            yield f"127.0.0.1:{port}", sock
        finally:
            stop(p)


@contextlib.contextmanager
def memcached_server(mb=2048, reno=False):
    (port,) = free_ports()
    user = ["-u", "root"] if os.geteuid() == 0 else []
    p = start([need("memcached"), *user, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-I", "8m", "-m", str(mb),
               "-t", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=congestion(reno and "reno"))
    try:
        wait_port(p, port)
        yield f"127.0.0.1:{port}"
    finally:
        stop(p)


def rival(url, size, conns, batch, op):
    """One round of kv-bench versus with this target alone."""
    with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as d:
        path = os.path.join(d, "report.json")
        run([os.path.join(BUILD, "kv-bench"), "versus", "--targets", url, "--rounds", "1", "--num-workers", str(conns),
             "--batch", str(batch if batch > 1 else 0), "--value-size", str(size),
             "--num-keys", str(keys_of(size) * (1 if op == "get" else 2)),
             "--duration", str(SECONDS if op == "get" else 0.01), "--warmup", str(warm_up(size)), "--json", path,
             *(["--mixed"] if op == "mixed" else [])])
        with open(path, encoding="utf-8") as f:
            figure = json.load(f)["targets"][0][op]
    return {"value": figure["ops_per_s"], **figure}


def redis(size, unix=False, conns=32, batch=1, reno=False, op="get"):
    def one():
        with redis_server(reno=reno) as (address, sock):
            return rival(f"redis+unix://{sock}" if unix else f"redis://{address}", size, conns, batch, op)
    return one


def memcached(size, conns=32, batch=1, reno=False, op="get"):
    def one():
        with memcached_server(reno=reno) as address:
            return rival(f"memcached://{address}", size, conns, batch, op)
    return one


def roofline(size, keys=None):
    """GET and bare writes in one process pair, alternating by themselves: a ratio on its own."""
    def one():
        r = kv_bench_json(size, 32, 4, ["--roofline"], keys=keys)["roofline"]
        return {"value": r["get_bytes_per_s"], "other": r["bytes_per_s"], "ratio": r["efficiency"]}
    return one


def bare_hot(size):
    def one():
        return {"value": fabric_row(size, 64)["bytes_per_s"]}
    return one


def fi_rma_bw(size, reno=False):
    dirs = [os.environ["FABTESTS"], os.path.join(os.environ["FABTESTS"], "benchmarks")] if "FABTESTS" in os.environ else []
    path = next((p for p in (os.path.join(d, "fi_rma_bw") for d in dirs) if os.access(p, os.X_OK)), shutil.which("fi_rma_bw"))
    if not path:
        raise Skipped("fi_rma_bw of fabtests is not here: build it from libfabric's sources (tests/bench/README.md) and say "
                      "FABTESTS=DIR")

    def one():
        port = str(free_ports()[0])
        count = str(int(max(64, 3e9 * SECONDS // size)))
        common = [path, "-p", "tcp;ofi_rxm", "-S", str(size), "-I", count, "-o", "writedata"]
        env = dict(congestion(reno and "reno") or os.environ, FI_TCP_IFACE="lo")
        server = start([*common, "-B", port, "-s", "127.0.0.1"], env=env, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)  # it says nothing when it listens, and answers one connection only
            out = run([*common, "-P", port, "127.0.0.1"], env=env)
            server.wait(10)
        except subprocess.TimeoutExpired:
            raise Failed("the server of fi_rma_bw did not end") from None
        finally:
            if server.poll() is None:
                stop(server)
            else:
                children.remove(server)
        return {"value": float(out.strip().splitlines()[-1].split()[4]) * 1e6}
    return one


class KeptServer:
    """A kv-server that holds keys for several runs, with the one thread that kv-bench's own has on two cores; `kept` stops it."""

    def __init__(self, size, keys, kept, memory=0, within=(), more=()):
        self.size, self.keys = size, keys
        read_fd, write_fd = os.pipe()
        memory = memory or keys * (size + size // 16) // M + 256
        self.p = start([*within, os.path.join(BUILD, "kv-server"), "--listen-addr", "127.0.0.1:0", "--memory-mb", str(memory),
                        "--worker-threads", "1", "--log-level", "warn", "--ready-fd", str(write_fd), "--provider", "tcp", *more], pass_fds=[write_fd],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kept.callback(stop, self.p)
        os.close(write_fd)
        with os.fdopen(read_fd, encoding="ascii") as f:
            ready = f.readline().split()
        if len(ready) != 2:
            raise Failed("kv-server did not start")
        self.address = ready[1]
        kv_bench_json(size, 64, 4, ["--server", self.address, "--ttl", "0"], keys=keys, seconds=0.1)

    def read(self, *extra, within=()):
        return reads_of(kv_bench_json(self.size, 32, 4, ["--server", self.address, "--no-write", *extra], keys=self.keys, within=within))


COPIED = ("--batch", "1")  # into memory of the caller instead of a borrowed piece


# ---- pairs ----

def geared(value, unit):
    if unit in ("GETs/s", "ops/s", "requests/s"):
        return f"{value / 1e3:.1f}k" if value >= 1e4 else f"{value:.0f}"
    if unit == "GB/s":
        return f"{value / 1e9:.2f}"
    return f"{value:.3g}"


def one_pair(case, number):
    """A and B, once each. The pair as it is recorded."""
    began, busy = time.monotonic(), busy_seconds()
    pair = {"c2c_ns": [c2c()]}
    sides = [s for s in ("a", "b") if case.get(s)]
    for side in sides if number % 2 == 0 else reversed(sides):
        pair[side] = case[side]()
        pair["c2c_ns"].append(c2c())
    pair["state"] = state_over(pair["c2c_ns"])
    everybody, ours = (x - y for x, y in zip(busy_seconds(), busy))
    pair["foreign_cores"] = max(0.0, everybody - ours) / (time.monotonic() - began)
    a = pair["a"]
    if "b" in pair:
        pair["ratio"] = a["value"] / pair["b"]["value"]
    elif "ratio" in a:
        pair["ratio"] = a["ratio"]
    return pair


def run_case(case):
    """All pairs of a case, with the summary that tables show."""
    pairs, kept = [], []
    while len(kept) < case["pairs"] and len(pairs) < 2 * case["pairs"]:
        pair = one_pair(case, len(pairs))
        pairs.append(pair)
        if pair["state"] != "changed":
            kept.append(pair)
        show_pair(case, pair)
    return summarize(case, pairs, kept)


def show_pair(case, pair):
    text = f"  {case['label']:<34} {geared(pair['a']['value'], case['unit']):>9}"
    if "b" in pair:
        text += f" {geared(pair['b']['value'], case['unit']):>9}"
    if "ratio" in pair:
        text += f"   {pair['ratio']:.3f}"
    distances = "/".join("-" if x is None else f"{x:.0f}" for x in pair["c2c_ns"])
    print(f"{text}   c2c {distances} ns {pair['state']}, others {pair['foreign_cores']:.2f} cores", flush=True)


def summarize(case, pairs, kept):
    counted = kept or pairs  # better one figure with its warning than none
    out = {k: case.get(k) for k in ("label", "unit", "goal", "target", "below", "most")}
    out.update(pairs=pairs, counted=len(counted), dropped=len(pairs) - len(kept), unsteady=not kept,
               foreign_cores=statistics.median(p["foreign_cores"] for p in counted), states={})
    for p in counted:
        out["states"][p["state"]] = out["states"].get(p["state"], 0) + 1
    out["a"] = statistics.median(p["a"]["value"] for p in counted)
    if "b" in counted[0]:
        out["b"] = statistics.median(p["b"]["value"] for p in counted)
    elif "other" in counted[0]["a"]:
        out["b"] = statistics.median(p["a"]["other"] for p in counted)
    if "ratio" in counted[0]:
        ratios = [p["ratio"] for p in counted]
        out.update(ratio=statistics.median(ratios), low=min(ratios), high=max(ratios))
    for name in ("bytes_per_s", "p50_ns", "p99_ns"):
        for side in ("a", "b"):
            values = [p[side][name] for p in counted if side in p and p[side].get(name) is not None]
            if values:
                out[f"{side}_{name}"] = statistics.median(values)
    return out


# ---- the comparisons ----

def case(label, a, b=None, unit="GETs/s", goal=None, target=None, below=None, most=None, pairs=PAIRS):
    """goal, target: the least ratio; most: the greatest one; below: a bound of what has no ratio."""
    return {"label": label, "a": a, "b": b, "unit": unit, "goal": goal, "target": target, "below": below, "most": most, "pairs": min(pairs, PAIRS)}


def compare_roofline():
    for size, goal in ((64 * K, 0.95), (M, 0.97)):
        yield case(size_text(size), roofline(size), unit="GB/s", goal=goal)
    yield case("64 KiB, 400 keys", roofline(64 * K, 400), unit="GB/s", goal=0.95)


def compare_large():
    def gets(size):
        return lambda: {"value": reads_of(kv_bench_json(size, 32, 4, []))["bytes_per_s"]}
    for size in (4 * M, 16 * M):
        yield case(size_text(size), gets(size), gets(M), unit="GB/s", goal=0.9)


def compare_fabtests():
    for reno in (True, False):
        for size in (64 * K, M):
            yield case(size_text(size) + (", fi_rma_bw with reno" if reno else ", as it comes"), bare_hot(size),
                       fi_rma_bw(size, reno), unit="GB/s", goal=0.95)


def compare_depth1():
    for size, goal in ((4 * K, 0.7), (64 * K, 0.85), (M, 0.8)):
        alone = kv_bench(size, 1, 1, "--num-threads", "1")
        yield case(size_text(size), alone, lfget(size), goal=goal)
        # With the same care: on tcp a peer that dies inside a write with immediate kills its target.
        yield case(f"{size_text(size)}, split writes", alone, lfget(size, "--split"))


def compare_workers():
    size = 64 * K
    for workers in (64, 256, 1024):
        yield case(f"{workers} workers", kv_bench(size, workers), kv_bench(size, 32), goal=0.95)


def compare_keys():
    many = 20000 if QUICK else 1000000
    with contextlib.ExitStack() as kept:
        big = KeptServer(4 * K, many, kept)
        small = KeptServer(4 * K, 1000, kept)
        yield case(f"{many:,} keys", big.read, small.read, goal=0.90)


def compare_redis():
    need("redis-server")
    for size, goal, target in ((4 * K, None, None), (64 * K, 1.05, 1.3), (M, 3.0, None)):
        for unix in (False, True):
            yield case(f"{size_text(size)}, {'unix' if unix else 'tcp'}", kv_bench(size), redis(size, unix), goal=goal,
                       target=target)
    for size in (64 * K, M):
        yield case(f"{size_text(size)}, tcp with reno", kv_bench(size), redis(size, reno=True))
    # What never leaves the host, for both.
    for size, goal in ((64 * K, 1.3), (M, 3.0)):
        yield case(f"{size_text(size)}, unix and shm", kv_bench(size, provider="shm"), redis(size, True), goal=goal)


def compare_memcached():
    need("memcached")
    for size, goal, target in ((4 * K, None, None), (64 * K, 0.8, 1.0), (M, 1.2, 1.4)):
        yield case(size_text(size), kv_bench(size), memcached(size), goal=goal, target=target)
    for size in (64 * K, M):
        yield case(f"{size_text(size)}, with reno", kv_bench(size), memcached(size, reno=True))


def compare_batch():
    need("redis-server")
    batch = kv_bench(4 * K, 32, 4, "--batch", "16")
    yield case("redis, single GETs", batch, redis(4 * K), goal=2.0)
    yield case("redis, 16 GETs in a pipeline", batch, redis(4 * K, batch=16))
    yield case("single GETs of kv-bench", batch, kv_bench(4 * K))


def rivals():
    """Those that are here: one alone is worth a table."""
    here, why = [], None
    for name, program, other in (("redis", "redis-server", redis), ("memcached", "memcached", memcached)):
        try:
            need(program)
            here.append((name, other))
        except Skipped as e:
            why = e
    if not here:
        raise why
    return here


def compare_put():
    for name, other in rivals():
        for size, goal in ((4 * K, 1.0), (64 * K, 1.2), (M, 2.0)):
            goal = goal if name == "redis" else None
            yield case(f"{name}, {size_text(size)}", kv_bench_puts(size), other(size, op="put"), unit="ops/s", goal=goal)
        yield case(f"{name}, 4 KiB, 16 at a time", kv_bench_puts(4 * K, "--batch", "16"), other(4 * K, batch=16, op="put"), unit="ops/s")


def compare_mixed():
    for name, other in rivals():
        for size in (4 * K, 64 * K, M):
            yield case(f"{name}, {size_text(size)}", kv_bench_mixed(size), other(size, op="mixed"), unit="ops/s")


def compare_own():
    """PUT beside GET, mixed beside both alone, batches beside single PUTs: nothing but kv-bench."""
    def beside_reads(size):
        report = kv_bench_json(size, 32, 4, [], keys=put_keys(size))
        mine, reads = phase_of(report, "write"), phase_of(report, "read")
        return {**mine, "other": reads["value"], "ratio": mine["value"] / reads["value"]}

    def beside_alone(size):
        report = kv_bench_json(size, 32, 4, ["--mixed"], keys=put_keys(size))
        mine, ratio = phase_of(report, "write", "read"), report["phases"]["mixed"]["of_alone"]
        return {**mine, "other": mine["value"] / ratio, "ratio": ratio}
    for size, goal in ((4 * K, 0.7), (64 * K, 0.8), (M, 0.8)):
        yield case(f"PUT / GET, {size_text(size)}", lambda size=size: beside_reads(size), unit="ops/s", goal=goal)
    for size in (4 * K, 64 * K, M):
        yield case(f"mixed / mean, {size_text(size)}", lambda size=size: beside_alone(size), unit="ops/s", goal=0.85)
    yield case("16 PUTs / single, 4 KiB", kv_bench_puts(4 * K, "--batch", "16"), kv_bench_puts(4 * K), unit="ops/s", goal=2.0)


def replay(size, order):
    """Requests per second of a trace (BENCH_TRACE), as fast as they go."""
    def one():
        report = kv_bench_trace(size, order)
        phases = report["phases"]
        return {"value": report["trace"]["requests"] / phases["read"]["seconds"],
                "bytes_per_s": phases["read"]["bytes_per_s"] + phases["write"]["bytes_per_s"]}
    return one


def kv_bench_trace(size, order):
    with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as d:
        path = os.path.join(d, "report.json")
        # With the memory of a quarter of the blocks or so: what does not fit is evicted, which fails no run.
        run([os.path.join(BUILD, "kv-bench"), "--quiet", "--log-level", "warn", "--provider", "tcp", "--num-workers", "32",
             "--num-clients", "4", "--trace", TRACE, "--trace-order", order, "--value-size", str(size),
             "--memory-mb", str(TRACE_MB), "--duration", str(20 * SECONDS), "--json", path])
        with open(path, encoding="utf-8") as f:
            return json.load(f)


def kvreplay(protocol, address, size):
    r = json.loads(run([os.path.join(BUILD, "tests/bench/kvreplay"), "--protocol", protocol, "--address", address, "--trace", TRACE,
                        "--value-size", str(size), "--duration", str(20 * SECONDS)]))
    return {"value": r["requests_per_s"], "bytes_per_s": r["bytes_per_s"]}


def redis_trace(size):
    with redis_server("--maxmemory", f"{TRACE_MB}mb", "--maxmemory-policy", "allkeys-lru") as (address, _):
        return kvreplay("redis", address, size)


def memcached_trace(size):
    with memcached_server(TRACE_MB) as address:
        return kvreplay("memcached", address, size)


def compare_trace():
    if not os.access(TRACE, os.R_OK):
        raise Skipped("BENCH_TRACE=FILE names the trace to replay (docs/guide/benchmarking.md), and there is none")
    for size in (4 * K, 64 * K):
        for name, program, other in (("redis", "redis-server", redis_trace), ("memcached", "memcached", memcached_trace)):
            with contextlib.suppress(Skipped):
                need(program)
                yield case(f"{size_text(size)}, {name}", replay(size, "strict"), lambda size=size, other=other: other(size), unit="requests/s")
        yield case(f"{size_text(size)}, relaxed", replay(size, "strict"), replay(size, "relaxed"), unit="requests/s")


def compare_tcp():
    yield case("4 KiB, batches of 16", kv_bench(4 * K, 32, 4, "--batch", "16"), rawtcp(4 * K), target=0.5)
    for size in (64 * K, M):
        yield case(size_text(size), kv_bench(size), rawtcp(size))


def reads_apart(size, *extra):
    """A CPU for the client and one for the server: where threads may go anywhere, those of a queue's host come to lie beside the server's in one run
    of two, and that is all that is measured."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    client, server = ([["taskset", "-c", str(cpu)] for cpu in cpus] if len(cpus) == 2 else [[], []])

    def one():
        with contextlib.ExitStack() as kept:
            return KeptServer(size, keys_of(size), kept, within=server).read(*extra, within=client)
    return one


QUEUES = (("", ("--async",)), (", one thread", ("--async", "--submitters", "0")), (", no threads", ("--async", "--submitters", "0", "--no-threads")))


def compare_async():
    for size, goal in ((4 * K, None), (64 * K, 0.95), (M, None)):
        for text, extra in QUEUES if size <= 64 * K else QUEUES[:1]:
            yield case(size_text(size) + text, reads_apart(size, *extra), reads_apart(size), goal=goal)


def compare_latency():
    def p50(*extra):
        return lambda: {"value": reads_apart(64 * K, *extra)()["p50_ns"] / 1e3}
    for text, extra in QUEUES:
        yield case("64 KiB" + text, p50(*extra), p50(), unit="us", most=1.10)


def compare_ring():
    def cost(size, *within):
        def one():
            r = reads_of(kv_bench_json(size, 32, 4, [], within=within))
            return {"value": (r["cpu_seconds"] + r["server_cpu_seconds"]) * 1e6 / (r["value"] * r["seconds"])}
        return one
    no_uring = os.path.join(ROOT, "tests/integration/no_uring.py")
    for size in (4 * K, 64 * K):
        yield case(size_text(size), cost(size, no_uring), cost(size), unit="us", most=1.2)


def compare_submit():
    def cost(keys):
        def one():
            with contextlib.ExitStack() as kept:
                server = KeptServer(4 * K, 64, kept)
                r = json.loads(run([os.path.join(BUILD, "tests/bench/submit"), server.address, str(keys), "100" if QUICK else "2000"]))
            return {"value": r["ns_per_key"]}
        return one
    for keys, text in ((1, "1 key"), (64, "64 keys")):
        yield case(f"{text} at a time", cost(keys), unit="ns", below=1000)


def compare_shm():
    for size, goal in ((4 * K, 1.0), (64 * K, 2.0), (M, 2.0)):
        yield case(size_text(size), kv_bench(size, provider="shm"), kv_bench(size), goal=goal)


def one_host(size, workers=32, clients=4, *extra):
    return kv_bench(size, workers, clients, *extra, local=True)


def cpu_of(measured):
    """Processor time of both sides for a byte, in ns."""
    def one():
        r = measured()
        return {"value": 1e9 * (r["cpu_seconds"] + r["server_cpu_seconds"]) / (r["bytes_per_s"] * r["seconds"])}
    return one


def server_cpu_of(measured):
    def one():
        r = measured()
        return {"value": 1e6 * r["server_cpu_seconds"] / (r["value"] * r["seconds"])}
    return one


def p50_of(measured):
    return lambda: {"value": measured()["p50_ns"] / 1e3}


def compare_one_host():
    for size, goal in ((4 * K, None), (64 * K, 3.0), (M, 5.0)):
        yield case(f"{size_text(size)}, in place / tcp", one_host(size), kv_bench(size), goal=goal)
    for size, goal in ((4 * K, None), (64 * K, None), (M, 1.3)):
        yield case(f"{size_text(size)}, in place / shm", one_host(size), kv_bench(size, provider="shm"), goal=goal)
    for size in (4 * K, 64 * K, M):
        copied = (size, 32, 4, *COPIED, "--num-threads", "4")  # the default on shm: as many loops copy on both sides
        yield case(f"{size_text(size)}, copied / shm", one_host(*copied), kv_bench(*copied, provider="shm"), goal=1.0)
    yield case("1 MiB, CPU / shm", cpu_of(one_host(M)), cpu_of(kv_bench(M, provider="shm")), unit="ns", most=0.5)
    yield case("1 MiB, server / tcp", server_cpu_of(one_host(M)), server_cpu_of(kv_bench(M)), unit="us", most=0.05)
    yield case("1 MiB, PUTs / tcp", lambda: phase_of(kv_bench_json(M, 32, 4, [], keys=put_keys(M), seconds=0.01, local=True), "write"),
               kv_bench_puts(M), unit="ops/s")
    alone = ("--num-threads", "1")
    plain = (*alone, "--no-checksum")
    yield case("p50, 16 MiB / 64 KiB", p50_of(one_host(16 * M, 1, 1, *plain)), p50_of(one_host(64 * K, 1, 1, *plain)), unit="us", most=1.2)


def compare_one_host_latency():
    alone = ("--num-threads", "1")
    plain = (*alone, "--no-checksum")
    for size, extra, text, bound in ((64 * K, plain, "unchecked", 3), (64 * K, alone, "in place", 8), (64 * K, (*alone, *COPIED), "copied", 8),
                                     (4 * K, alone, "in place", 3)):
        yield case(f"{size_text(size)}, p50, {text}", p50_of(one_host(size, 1, 1, *extra)), unit="us", below=bound)


def compare_checksum():
    for size in (4 * K, 64 * K, M):
        yield case(size_text(size), kv_bench(size), kv_bench(size, 32, 4, "--no-checksum"))


def compare_sealed():
    with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as d:
        seal = ("--seal-key-file", os.path.join(d, "seal.key"))
        run([os.path.join(BUILD, "kv-client"), "make-seal-key", seal[1]])
        for size in (64 * K, M):
            yield case(f"GET, {size_text(size)}", kv_bench(size, 32, 4, *seal), kv_bench(size), target=0.6)
            yield case(f"PUT, {size_text(size)}", kv_bench_puts(size, *seal), kv_bench_puts(size), unit="PUTs/s", target=0.6)
        yield case("GET, 64 KiB, one host", one_host(64 * K, 32, 4, *seal), one_host(64 * K))


def compare_events():
    def puts_to(size, *more):
        """To a new server with these options."""
        def one():
            keys = put_keys(size)
            with contextlib.ExitStack() as kept:
                server = KeptServer(size, 32, kept, memory=2 * keys * size // M + 256, more=more)
                report = kv_bench_json(size, 32, 4, ["--server", server.address, "--seed", "2"], keys=keys, seconds=0.01)
            return phase_of(report, "write")
        return one
    for size in (4 * K, 64 * K):
        yield case(f"PUT, {size_text(size)}", puts_to(size, "--events", "on"), puts_to(size), unit="PUTs/s", goal=0.97)


# GB/s over loopback TCP on two virtual AMD EPYC (Zen 4) processors (the best of the batch sizes and thread counts tried).
ENGINES = {4 * K: ("NIXL 1.4", 0.461), 64 * K: ("NIXL 1.4", 1.01), 256 * K: ("Mooncake", 1.99), M: ("Mooncake", 1.77),
           4 * M: ("Mooncake", 1.62)}


def compare_engines():
    def one(size, recorded):
        extra = ["--batch", "16"] if size <= 4 * K else []
        r = reads_of(kv_bench_json(size, 32, 4, extra))
        return {"value": r["bytes_per_s"], "other": recorded, "ratio": r["bytes_per_s"] / recorded}
    for size, (name, gbps) in ENGINES.items():
        yield case(f"{size_text(size)}, {name}", lambda size=size, gbps=gbps: one(size, gbps * 1e9), unit="GB/s", goal=2.0)


def beside(server, light, hog):
    """Run `light` while `hog` runs; what light() says, and the hog's report. Both are given the server's address."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(hog, server.address)
        time.sleep(0.5)  # it connects, and its queues fill
        mine = light(server.address)
        if other.done():
            other.result()
            raise Failed("the load beside which something was measured ended too early")
        return mine, other.result()


def small_gets(workers, clients):
    return lambda at: reads_of(kv_bench_json(64 * K, workers, clients, ["--server", at, "--no-write"], keys=1000))


def one_beside_many(quantile, hog):
    """The latency of one worker beside those of another client, whose requests wait in the same server. Each time on a new server,
    since values that are there already are not written again."""
    def one():
        with contextlib.ExitStack() as kept:
            mine, theirs = beside(shared_server(kept), small_gets(1, 1), hog)
        return {"value": mine[quantile] / 1e3, "other": theirs[quantile] / 1e3, "ratio": mine[quantile] / theirs[quantile]}
    return one


def gets_beside_puts():
    with contextlib.ExitStack() as kept:
        server = shared_server(kept)
        alone = small_gets(32, 2)(server.address)
        mine, _ = beside(server, small_gets(32, 2), puts)
    return {"value": mine["value"], "other": alone["value"], "ratio": mine["value"] / alone["value"]}


def shared_server(kept, more=()):
    """One that holds what both kinds of readers read, with room for what is written beside them."""
    server = KeptServer(64 * K, 1000, kept, memory=int(5000 * max(SECONDS, 1)), more=more)
    kv_bench_json(M, 16, 1, ["--server", server.address, "--ttl", "0"], keys=128, seconds=0.1)
    return server


def big_gets(at):
    return reads_of(kv_bench_json(M, 32, 1, ["--server", at, "--no-write"], keys=128, seconds=SECONDS + 3))


def puts(at):
    """As many as take longer than what is measured beside them."""
    report = kv_bench_json(64 * K, 32, 2, ["--server", at, "--seed", "2"], keys=int(60000 * max(SECONDS, 1)), seconds=0.05)
    w = report["phases"]["write"]
    return {"value": w["ops_per_s"], "p50_ns": w["latency_ns"]["p50"], "p99_ns": p99_of(w)}


def compare_fairness():
    for what, hog in (("read 1 MiB", big_gets), ("write 64 KiB", puts)):
        for name, quantile in (("median", "p50_ns"), ("99th percentile", "p99_ns")):
            yield case(f"32 that {what}: {name}", one_beside_many(quantile, hog), unit="us")


def compare_puts():
    yield case("64 KiB", gets_beside_puts)


def tier_of(kept, size="4G"):
    """Options of a server with a tier in a file of BENCH_TIER (a folder on the drive to be measured; else that of temporary files)."""
    folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="kvrail-tier.", dir=os.environ.get("BENCH_TIER")))
    return ["--tier", f"{folder}/tier:{size}", "--tier-admit", "put"]


def tier_written(server):
    """Bytes that its tier has written."""
    out = subprocess.run([os.path.join(BUILD, "kv-client"), "--server", server.address, "stat", "--all"], check=True, capture_output=True, text=True)
    return int(re.search(r"^tier_write_bytes\s+(\d+)", out.stdout, re.M)[1])


def gets_beside_tier(quantile=None):
    """GETs from memory while another client writes: with a tier that gets each value at once, and without one. The two take turns
    at being first. A window in which the drive got less than half of what was stored does not count."""
    turn = itertools.count()

    def with_tier():
        with contextlib.ExitStack() as kept:
            server = shared_server(kept, tier_of(kept))
            before = tier_written(server)
            mine, _ = beside(server, small_gets(32, 2), puts)
            written, stored = tier_written(server) - before, int(60000 * max(SECONDS, 1)) * 64 * K
            if written < stored / 2:
                raise Failed(f"the tier got {written / 1e9:.1f} of {stored / 1e9:.1f} GB that were stored: give BENCH_TIER a faster drive")
        return mine

    def without():
        with contextlib.ExitStack() as kept:
            mine, _ = beside(shared_server(kept), small_gets(32, 2), puts)
        return mine

    def one():
        if next(turn) % 2:
            alone, tier = without(), with_tier()
        else:
            tier, alone = with_tier(), without()
        if quantile:
            return {"value": tier[quantile] / 1e3, "other": alone[quantile] / 1e3, "ratio": tier[quantile] / alone[quantile]}
        return {"value": tier["value"], "other": alone["value"], "ratio": tier["value"] / alone["value"]}
    return one


def drive_rate(path):
    """Bytes per second of reads of 256 KiB past the page cache, 16 at a time."""
    def read(n):
        with open(path, "rb", opener=lambda p, f: os.open(p, f | os.O_DIRECT), buffering=0) as f:
            memory = mmap.mmap(-1, 256 * K)
            for i in range(n, 1024, 16):
                f.seek(i * 256 * K)
                f.readinto(memory)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(read, range(16)))
    return 256 * M / (time.monotonic() - began)


def tier_start():
    """Records found per second at the start of a server, beside what the drive's rate allows: a footer has 112 bytes for each."""
    keys, entry = (20_000 if QUICK else 1_000_000), 112
    with contextlib.ExitStack() as kept:
        tier = tier_of(kept, "8G")
        log = kept.enter_context(tempfile.NamedTemporaryFile("w+"))
        with contextlib.ExitStack() as served:
            KeptServer(K, keys, served, memory=4096, more=tier)
        p = start([os.path.join(BUILD, "kv-server"), "--listen-addr", "127.0.0.1:0", "--memory-mb", "4096", "--worker-threads", "1",
                   "--log-level", "info", *tier], stdout=subprocess.DEVNULL, stderr=log)
        up = None
        while up is None:
            time.sleep(0.05)
            if p.poll() is not None:
                raise Failed("kv-server did not start again")
            with open(log.name, encoding="utf-8") as f:
                up = re.search(r"event=tier_up .* values=(\d+) ms=(\d+)", f.read())
        stop(p)
        found, seconds = int(up[1]), max(int(up[2]), 1) / 1e3
        limit = drive_rate(tier[1].rpartition(":")[0]) / entry
    if found < keys * 0.8:
        raise Failed(f"{found} of {keys} records were found")
    return {"value": found / seconds, "other": limit, "ratio": found / seconds / limit}


def compare_tier():
    yield case("GETs", gets_beside_tier(), goal=0.9)
    yield case("GETs, p99", gets_beside_tier("p99_ns"), unit="us", most=1.3)
    yield case("records at the start", tier_start, unit="records/s", pairs=3)


def compare_idle():
    seconds = 2 if QUICK else 10

    def resting(side):
        """Four clients whose only GET comes when the time is over; percent of a core."""
        r = reads_of(kv_bench_json(64 * K, 4, 4, ["--rate", str(0.5 / seconds)], keys=100, seconds=seconds))
        return {"value": 100 * r[side] / r["seconds"]}
    yield case("client, 4 x 64 MiB", lambda: resting("cpu_seconds"), unit="% of a core", below=1.0, pairs=3)
    yield case("server", lambda: resting("server_cpu_seconds"), unit="% of a core", below=1.0, pairs=3)
    yield case("resident memory of a busy default client, 1 MiB values",
               lambda: {"value": reads_of(kv_bench_json(M, 32, 4, []))["peak_rss_bytes"] / 1e6}, unit="MB", below=400.0, pairs=3)


COMPARISONS = {
    "roofline": ("GET beside bare writes, 32 workers on 4 clients", "GET", "bare writes", compare_roofline),
    "large": ("Large values beside values of 1 MiB, 32 workers", "large", "1 MiB", compare_large),
    "fabtests": ("Bare writes (one pair, one hot block, 64 in flight) beside `fi_rma_bw -o writedata`", "roofline", "fi_rma_bw",
                 compare_fabtests),
    "depth1": ("One worker beside the least GET over libfabric (`lfget`, depth 1)", "kv-bench", "lfget", compare_depth1),
    "own": ("32 workers: PUT beside GET, GET and PUT one to one beside the mean of both alone, batches of PUTs beside single ones", "first",
            "second", compare_own),
    "put": ("32 workers that PUT beside redis (SET) and memcached (set) with 32 connections, values ready in memory", "kv-bench", "other", compare_put),
    "mixed": ("32 workers, GET and PUT one to one, beside redis and memcached with 32 connections", "kv-bench", "other", compare_mixed),
    "trace": ("Replay of a trace, 32 workers, in strict order, beside others and beside relaxed order", "kv-bench", "other", compare_trace),
    "tcp": ("32 workers beside one raw TCP connection with 16 requests in flight (`rawtcp`)", "kv-bench", "rawtcp", compare_tcp),
    "workers": ("More workers beside 32, 64 KiB, 4 clients", "more workers", "32 workers", compare_workers),
    "keys": ("Many keys beside 1,000, values of 4 KiB, 32 workers", "many keys", "1,000 keys", compare_keys),
    "redis": ("32 workers beside redis with 32 connections over tcp or its unix socket (last rows: kv-bench over shm)", "kv-bench", "redis", compare_redis),
    "memcached": ("32 workers beside memcached (`-t 2 -I 8m`) with 32 connections", "kv-bench", "memcached", compare_memcached),
    "batch": ("32 workers with batches of 16 keys of 4 KiB beside", "batches", "other", compare_batch),
    "async": ("32 ids in flight through a queue (`--async`) beside 32 workers", "queue", "workers", compare_async),
    "latency": ("p50 of a GET of 32 in flight through a queue (`--async`) beside that of 32 workers", "queue", "workers", compare_latency),
    "ring": ("Processor time of a GET, client and server, with epoll beside io_uring, 32 workers", "epoll", "io_uring", compare_ring),
    "submit": ("What submitting a key to a queue costs the thread that submits (`submit`)", "measured", "", compare_submit),
    "shm": ("shm beside tcp, 32 workers", "shm", "tcp", compare_shm),
    "one-host": ("32 workers on the server's host that read its memory in place or copy it, beside the same over tcp and shm", "one host", "other",
                 compare_one_host),
    "one-host-latency": ("p50 of one worker on the server's host", "measured", "", compare_one_host_latency),
    "checksum": ("Checksums verified (the default) beside `--no-checksum`, 32 workers", "verified", "not verified", compare_checksum),
    "sealed": ("Sealed values beside values in clear, 32 workers", "sealed", "clear", compare_sealed),
    "events": ("PUTs to a server with `--events on` beside PUTs to one without, 32 workers", "on", "off", compare_events),
    "engines": ("32 workers beside recorded figures of transfer engines over TCP (not interleaved)", "kv-bench", "recorded",
                compare_engines),
    "fairness": ("Latency of GETs of 64 KiB of one worker beside 32 workers of another client, one server", "one", "the others", compare_fairness),
    "puts": ("GETs of 32 workers beside 32 workers of another client that write, and alone", "beside", "alone", compare_puts),
    "tier": ("An NVMe tier that gets each value at once beside no tier; and its start beside the drive's rate", "tier", "other", compare_tier),
    "idle": ("At rest, and memory", "measured", "", compare_idle),
}


# ---- tables ----

def verdict(c):
    """Whether the goal is reached, and whether anybody should believe it."""
    text = goal_text(c)
    return text if text == "-" or c["foreign_cores"] < BUSY_CORES else f"{text} (busy)"


def goal_text(c):
    if c.get("below") is not None:
        return f"below {c['below']:g}: " + ("reached" if c["a"] < c["below"] else "**missed**")
    if c.get("most") is not None:
        return f"at most {c['most']:g}: " + ("reached" if c["ratio"] <= c["most"] else "**missed**")
    goal, target = c.get("goal"), c.get("target")
    if goal is None and target is None:
        return "-"
    if target is not None and c["ratio"] >= target:
        return f"target {target:g}: reached"
    if goal is None:
        return f"target {target:g}: missed"
    text = f"{goal:g}" + (f" (target {target:g})" if target is not None else "")
    return f"{text}: " + ("reached" if c["ratio"] >= goal else "**missed**")


def side_text(c, side):
    if side not in c:
        return "-"
    text = geared(c[side], c["unit"])
    if f"{side}_bytes_per_s" in c:
        text += f" ({c[f'{side}_bytes_per_s'] / 1e9:.2f} GB/s)"
    return text


def table(name, done):
    """The lines of a comparison: a row per case, then what failed and when and on what it was measured."""
    title, a, b, _ = COMPARISONS[name]
    lines = [f"**{title}**", ""]
    if done.get("skipped"):
        return lines + folded(f"Not measured: {done['skipped']}.")
    ran = [c for c in done["cases"] if not c.get("failed")]
    unit = next((c["unit"] for c in ran), "")
    if any("ratio" in c for c in ran):
        lines += [f"| | {a}, {unit} | {b}, {unit} | ratio | range | goal |", "|---|---|---|---|---|---|"]
        lines += [f"| {c['label']} | {side_text(c, 'a')} | {side_text(c, 'b')} | **{c['ratio']:.2f}** | {c['low']:.2f}-{c['high']:.2f} "
                  f"| {verdict(c)} |" for c in ran]
    elif ran:
        lines += [f"| | {a} | goal |", "|---|---|---|"]
        lines += [f"| {c['label']} | {c['a']:.2f} {c['unit']} | {verdict(c)} |" for c in ran]
    lines += ["", *folded(f"{done['date']}, commit {done['commit']}; read phases of {done['seconds']:g} s" + circumstances(ran))]
    for c in done["cases"]:
        if c.get("failed"):
            lines += ["", *folded(f"{c['label']} failed: {c['failed']}")]
    return lines


def folded(text):
    return textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def circumstances(ran):
    """How many pairs count, at which distance of the CPUs, and what else ran on them (of each row: build/bench/results.json)."""
    if not ran:
        return "."
    states = {}
    for c in ran:
        for k, v in c["states"].items():
            states[k] = states.get(k, 0) + v
    pairs = sorted({c["counted"] for c in ran})
    dropped = sum(c["dropped"] for c in ran if not c["unsteady"])
    foreign = [c["foreign_cores"] for c in ran]
    return (f"; pairs a row: {'-'.join(str(n) for n in dict.fromkeys((pairs[0], pairs[-1])))}; CPUs "
            + ", ".join(f"{k} {v}" for k, v in states.items()) + (f", {dropped} dropped" if dropped else "")
            + f"; other processes took {min(foreign):.2f} to {max(foreign):.2f} cores.")


def states_text(c):
    text = ", ".join(f"{k} {v}" for k, v in c["states"].items())
    return text + (f", {c['dropped']} dropped" if c["dropped"] and not c["unsteady"] else "")


def machine_table(rows):
    return ["| | |", "|---|---|"] + [f"| {k} | {v} |" for k, v in rows.items()]


def markers(name):
    return f"<!-- bench:{name} begin -->", f"<!-- bench:{name} end -->"


def doc_new():
    """The document before anything was measured: a block for each comparison."""
    lines = ["# The last `make bench`", "",
             *folded("Written by `make bench`: what stands between two markers is replaced by the next run of that comparison, the rest "
                     "is kept. How to read it: `tests/bench/README.md`. How to keep it: `docs/runs/README.md`.")]
    for name in ["machine", *COMPARISONS]:
        lines += ["", markers(name)[0], "Not measured.", markers(name)[1]]
    return "\n".join(lines)


def doc_write(blocks):
    """Replace the marked blocks, and nothing else."""
    text = (read_file(DOC) or doc_new()) + "\n"
    for name, lines in blocks.items():
        begin, end = markers(name)
        at, until = text.find(begin), text.find(end)
        if at < 0 or until < at:
            print(f"{DOC_NAME} has no block {begin} ... {end}: its table was not written", file=sys.stderr)
            continue
        text = text[:at + len(begin)] + "\n" + "\n".join(lines) + "\n" + text[until:]
    with open(DOC + ".tmp", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(DOC + ".tmp", DOC)


def results_write(results):
    os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
    with open(RESULTS + ".tmp", "w", encoding="utf-8") as f:
        json.dump(results, f, indent=1)
    os.replace(RESULTS + ".tmp", RESULTS)


# ---- the whole ----

def compare(name, about):
    done = {"date": about["date"], "commit": about["commit"], "seconds": SECONDS, "cases": []}
    print(f"{name}: {COMPARISONS[name][0]}", flush=True)
    try:
        for c in COMPARISONS[name][3]():
            try:
                with machine_lock():
                    done["cases"].append(run_case(c))
            except Failed as e:
                print(f"  {c['label']}: FAILED: {e}", flush=True)
                done["cases"].append({"label": c["label"], "failed": str(e)})
    except Skipped as e:
        print(f"  not measured: {e}", flush=True)
        done["skipped"] = str(e)
    except Failed as e:
        print(f"  FAILED: {e}", flush=True)
        done["cases"].append({"label": "preparation", "failed": str(e)})
    return done


def main_compare(names, doc):
    about = machine()
    results = json.loads(read_file(RESULTS) or "{}")
    results["machine"] = about
    failed = False
    blocks = {"machine": machine_table(about)}
    for name in names:
        done = compare(name, about)
        results.setdefault("comparisons", {})[name] = done
        results_write(results)
        failed = failed or any(c.get("failed") for c in done["cases"])
        blocks[name] = table(name, done)
        print("\n".join(["", *blocks[name], ""]), flush=True)
        if doc and not QUICK:
            doc_write(blocks)
    if doc and QUICK:
        print(f"BENCH_QUICK: {DOC_NAME} is left as it is")
    return 1 if failed else 0


def main_ab(dirs, extra):
    """Two builds, the same kv-bench options."""
    def side(build):
        def one():
            with tempfile.TemporaryDirectory(prefix="kvrail-bench.") as d:
                path = os.path.join(d, "report.json")
                run([os.path.join(os.path.abspath(build), "kv-bench"), "--quiet", "--log-level", "warn", "--num-workers", "32",
                     "--duration", str(SECONDS), "--json", path, *extra])
                with open(path, encoding="utf-8") as f:
                    return reads_of(json.load(f))
        return one
    with machine_lock():
        c = run_case(case("A / B", side(dirs[0]), side(dirs[1])))
    print(f"A {side_text(c, 'a')}, B {side_text(c, 'b')}: A / B {c['ratio']:.3f} ({c['low']:.3f} to {c['high']:.3f}), {c['counted']} pairs, "
          f"{states_text(c)}; p50 {c['a_p50_ns'] / 1e3:.1f} / {c['b_p50_ns'] / 1e3:.1f} us, p99 {c['a_p99_ns'] / 1e3:.0f} / "
          f"{c['b_p99_ns'] / 1e3:.0f} us; other processes {c['foreign_cores']:.2f} cores")
    return 0


RATE_PART, RATE_KEPT = 0.7, 0.01


def rate_rounds(size, arrivals):
    """Each round takes the maximum anew, for it moves with the machine. What came due is --rate, or with poisson what the gaps add up to."""
    rounds = []
    for _ in range(PAIRS):
        (all_before, ours_before), began = busy_seconds(), time.monotonic()
        most = reads_of(kv_bench_json(size, 32, 4, []))["value"]
        offered = int(RATE_PART * most)
        report = kv_bench_json(size, 32, 4, ["--rate", str(offered), "--arrivals", arrivals], seconds=5 * SECONDS)
        everybody, ours = busy_seconds()
        others = max(everybody - all_before - (ours - ours_before), 0) / (time.monotonic() - began)
        rate, read = report["rate"], report["phases"]["read"]
        rounds.append({"max": most, "offered": offered, "kept": rate["achieved_per_s"] / rate.get("planned_per_s", offered),
                       "p99_ns": p99_of(read), "service_p99_ns": p99_of(read, "service_ns"), "others": others})
    return rounds


def main_rate():
    kept = True
    print("| size, arrivals | maximum/s | offered/s | done of what was due | p99, from when it was due | p99, from when it began | others, cores |")
    print("|---|---|---|---|---|---|---|")
    for size in (4 * K, 64 * K):
        for arrivals in ("uniform", "poisson"):
            with machine_lock():
                rounds = rate_rounds(size, arrivals)
            middle = {k: statistics.median(r[k] for r in rounds) for k in rounds[0]}
            low, high = min(r["kept"] for r in rounds), max(r["kept"] for r in rounds)
            print(f"| {size_text(size)}, {arrivals} | {middle['max']:,.0f} | {middle['offered']:,.0f} | "
                  f"{middle['kept']:.4f} ({low:.4f}-{high:.4f}) | {middle['p99_ns'] / 1e3:,.0f} us | {middle['service_p99_ns'] / 1e3:,.0f} us | {middle['others']:.2f} |",
                  flush=True)
            kept = kept and abs(middle["kept"] - 1) <= RATE_KEPT
    print(f"{'kept' if kept else 'NOT KEPT'}: within {RATE_KEPT:.0%} of what was due, medians of {PAIRS}")
    return 0 if kept else 1


def main(argv):
    atexit.register(kill_children)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if argv and argv[0] == "ab":
        extra = argv[argv.index("--") + 1:] if "--" in argv else []
        dirs = argv[1:argv.index("--")] if "--" in argv else argv[1:]
        if len(dirs) != 2:
            sys.exit("run.py ab DIR_A DIR_B [-- kv-bench options]")
        return main_ab(dirs, extra)
    if argv == ["rate"]:
        return main_rate()
    doc = "--doc" in argv
    names = [a for a in argv if a != "--doc"]
    if "--help" in names or "-h" in names:
        print(__doc__)
        return 0
    if "--list" in names:
        for name, (title, *_) in COMPARISONS.items():
            print(f"{name:<10} {title}")
        return 0
    unknown = [n for n in names if n not in COMPARISONS]
    if unknown:
        sys.exit(f"run.py: there is no comparison '{unknown[0]}': {' '.join(COMPARISONS)}")
    return main_compare(names or list(COMPARISONS), doc)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as e:
        sys.exit(f"run.py: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
