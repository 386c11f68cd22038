#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lmcache_checks.py CASE ARG... -- one test of LMCache on kvrail.lmcache; lmcache.sh runs them all. Status 0: it passed.

Run it with the Python of build/engines/lmcache-*, KVRAIL_KV_SERVER and PYTHONHASHSEED=0. KIND is native, plugin, fault
and fault_plugin (these below fault_inject), fs, redis or nixl (nixl_native with our plug-in).

  bench KIND            lmcache bench l2
  guide                 the commands of docs/guide/engines.md
  wrong KIND            a wrong parameter
  server KIND MODE      lmcache bench server, with a restart of LMCache, and one of the kv-server
  alone KIND            the same without a kv-server
  outage KIND           a kv-server is killed while calls are under way
  layouts               caches of another type share nothing
  evict KIND            what LMCache deletes is gone
  removals              what a server removes leaves LMCache's account of L2
  upstream FOLDER       LMCache's own tests
  versus                kv-bench versus with LMCache's older server as a target: tests/bench/lmcache_client.py
  ratio [ROUNDS]        ours, fs_native and lmcache_floor.py against redis at 1 MiB, in turns; not a test, and not run by lmcache.sh
"""

import atexit
import contextlib
import itertools
import json
import multiprocessing
import multiprocessing.resource_tracker
import os
import pathlib
import re
import select
import signal
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import kvrail

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from ports import free_ports

LMCACHE = str(pathlib.Path(sys.executable).parent / "lmcache")
SECONDS = 60  # that anything may take at most
# The file's own; test_connector_base_completion_contract.py, LMCache's contract for connectors in C++, is not in the
# source package of 0.5.6.
UPSTREAM = 92
FAULTS = {"fault": "native", "fault_plugin": "plugin"}


def spec(kind, address, **more):
    """The JSON of an adapter."""
    if kind in FAULTS:
        inner = spec(FAULTS[kind], address, **more)
        return {"type": "fault_inject", "rate": 0.3, "seed": 1, "inner": inner}
    if kind == "fs":
        return {"type": "fs_native", "base_path": address}
    if kind == "redis":
        host, port = address.split(":")
        return {"type": "resp", "host": host, "port": int(port)}
    if kind == "nixl":
        params = {"servers": address, "timeout": "60", **{k: str(v) for k, v in more.items()}}
        return {"type": "nixl_native", "backend": "KVRAIL", "backend_params": params, "num_workers": 2}
    way = {"native": ("native_plugin", "Client"), "plugin": ("plugin", "KVRailL2Adapter")}[kind]
    params = {"servers": address, **more}
    if kind == "native":
        params.setdefault("prefix", "check/")
    return {
        "type": way[0],
        "module_path": "kvrail.lmcache",
        "class_name": way[1],
        "adapter_params": params,
    }


# ---- the command lmcache, without its imports ----
#
# They take some 3 s of a processor, and a case starts the command up to seven times. So a process imports what it needs
# once, and the others are forked from that. (`guide` starts the command itself, as its users do.)

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    [
        "lmcache.cli.commands.bench.server_bench.command",
        "lmcache.cli.main",
        "lmcache.v1.gpu_connector.utils",
        "lmcache.v1.multiprocess.http_server",
        "lmcache.v1.multiprocess.transfer_context",
    ]
)


def command(tokens, log):
    """What a forked process does: `lmcache TOKENS`, which prints to the file `log`."""
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["lmcache", *tokens]
    # One of its own, if it needs one: shared memory that a server and a bench both use is removed by each.
    multiprocessing.resource_tracker._resource_tracker._fd = None
    multiprocessing.resource_tracker._resource_tracker._pid = None
    from lmcache.cli.main import main

    try:
        main()
    finally:
        atexit._run_exitfuncs()  # multiprocessing does not


class Forked:
    """A process of lmcache, with the methods of a Popen."""

    def __init__(self, tokens, log):
        self.process = FORKSERVER.Process(target=command, args=(tokens, log))
        self.process.start()

    def poll(self):
        return self.process.exitcode

    def wait(self, timeout=None):
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("lmcache", timeout)
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        self.process.kill()


class Redis:
    """A redis-server that keeps nothing."""

    def __init__(self):
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        command = [
            "redis-server",
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        soon(
            "redis-server answers",
            lambda: subprocess.run(
                ["redis-cli", "-p", str(port), "ping"], capture_output=True
            ).returncode
            == 0,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def soon(what, holds, seen=lambda: ""):
    """Waits until holds(); fails after a minute, with what is seen then."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"not within {SECONDS} s: {what} {seen()}"
        time.sleep(0.05)


def backend(kind):
    if kind == "redis":
        return Redis()
    return kvrail.Server(memory_mb=768)


# ---- lmcache bench l2 ----


def bench_l2(adapter, out, keys=8, kib=1024, rounds=3, in_flight=2, verify=True):
    """Runs it; its operations, each a dictionary of figures."""
    command = [LMCACHE, "bench", "l2", "--l2-adapter", json.dumps(adapter), "--num-keys", str(keys)]
    command += ["--in-flight", str(in_flight), "--data-size-kb", str(kib), "--rounds", str(rounds)]
    command += [
        "--lookup-max-hit-rate",
        "1",
        "--no-skip-verify" if verify else "--skip-verify",
        "--format",
        "json",
        "--output",
        out,
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180
    )
    print(done.stdout)
    assert done.returncode == 0, done.returncode
    assert not verify or "data verified OK" in done.stdout
    with open(out) as file:
        return {s["operation"]: s for s in json.load(file)["metrics"].values() if "operation" in s}


def bench(kind):
    with tempfile.TemporaryDirectory() as folder:
        if kind == "fs":
            operations = bench_l2(spec(kind, folder), folder + "/out.json")
        else:
            with backend(kind) as server:
                operations = bench_l2(spec(kind, server.address), folder + "/out.json")
    assert sorted(operations) == ["Load", "Lookup", "Store"], operations
    for name, figures in operations.items():
        assert figures["total_success"] == figures["total_keys"] == 48, (name, figures)
        assert figures["rounds_timed_out"] == 0, (name, figures)


def guide():
    from guide import Guide

    os.environ["PATH"] = os.path.dirname(LMCACHE) + os.pathsep + os.environ["PATH"]
    with Guide("LMCache") as lines:
        said = lines.run(lines.block("lmcache bench l2"))
        assert "data verified OK" in said
        assert int(re.search(r"^puts +(\d+)$", said, re.M).group(1)) > 0
        # The server's command, but for the engine's end of it; --l1-size-gb and the rest are LMCache's.
        (adapter,) = re.findall(r"--l2-adapter '(.*?)'", lines.block("lmcache server"), re.S)
        with LMCache("lmcache_driven", json.loads(adapter), started) as lmcache:
            lmcache.bench("as the guide says")


def started(tokens, log):
    """The command itself."""
    with open(log, "w") as file:
        return subprocess.Popen([LMCACHE, *tokens], stdout=file, stderr=subprocess.STDOUT)


class Floor:
    """The server of lmcache_floor.py; its address is a port."""

    def __init__(self):
        command = [sys.executable, str(HERE / "lmcache_floor.py")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def of_round(kind, address, r):
    """The adapter of a kind for one round of ratio(), with keys of its own or nothing stored."""
    if kind in ("nothing", "sockets"):
        return {
            "type": "native_plugin",
            "module_path": "lmcache_floor",
            "class_name": kind.capitalize(),
            "adapter_params": {"port": int(address)} if address else {},
        }
    if kind == "fs":
        address = os.path.join(address, f"fs{r}")
        os.mkdir(address)
    elif kind == "redis":
        flush = ["redis-cli", "-p", address.split(":")[1], "flushall"]
        subprocess.run(flush, stdout=subprocess.DEVNULL, check=True)
    adapter = spec(kind.removesuffix("-shm"), address)
    if "adapter_params" in adapter:
        adapter["adapter_params"]["prefix"] = f"{kind}{r}/"
        if kind.endswith("-shm"):
            adapter["adapter_params"]["provider"] = "shm"
    return adapter


def ratio(rounds="7"):
    """Each kind, then redis, in turns: the median of the ratios of neighbours.

    The bench clears what it loads into before each round, with PyTorch, whose threads then spin for a while: on few cores
    they would take those of whoever loads. Passive ones sleep. Whoever sets OMP_WAIT_POLICY measures it otherwise."""
    os.environ["PYTHONPATH"] = str(HERE)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    ratios = {}
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        folder, ours = enter(tempfile.TemporaryDirectory()), enter(backend("native"))
        shm, floor = enter(kvrail.Server(memory_mb=768, provider="shm")), enter(Floor())
        addresses = {"native": ours.address, "plugin": ours.address, "plugin-shm": shm.address}
        addresses |= {"sockets": floor.address, "nothing": "", "fs": folder}
        redis = enter(Redis())
        for r, kind in itertools.product(range(int(rounds)), addresses):
            figures = {}
            for k, address in ((kind, addresses[kind]), ("redis", redis.address)):
                adapter = of_round(k, address, r)
                figures[k] = bench_l2(
                    adapter, folder + "/out.json", keys=16, rounds=6, verify=k != "nothing"
                )
                if k == "fs":
                    shutil.rmtree(adapter["base_path"])
            for name in ("Store", "Lookup", "Load"):
                speed = [figures[k][name]["ops_per_sec_avg"] for k in (kind, "redis")]
                ratios.setdefault((kind, name), []).append(speed[0] / speed[1])
    for (kind, name), values in ratios.items():
        low, high = min(values), max(values)
        print(
            f"#: {kind} {name}: {statistics.median(values):.2f} times redis ({low:.2f} to {high:.2f})"
        )


# ---- the adapter, made as LMCache makes it ----


def make(adapter, desc=None):
    import argparse

    from lmcache.v1.distributed.l2_adapters import create_l2_adapter
    from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config

    parsed = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[json.dumps(adapter)]))
    return create_l2_adapter(parsed.adapters[0], l1_memory_desc=desc)


class L1:
    """Memory as LMCache has it, with the objects of a few batches, and an adapter over it."""

    size, keys, batches = 256 << 10, 8, 4

    def __init__(self, adapter, dtype=None):
        """dtype: of the values' numbers; None: they are plain bytes, of which nothing is told."""
        import torch
        from lmcache.cli.commands.bench.l2_adapter_bench.data import create_l1_memory_desc

        self.buffer = torch.zeros(self.size * self.keys * self.batches, dtype=torch.uint8)
        self.adapter = make(adapter, create_l1_memory_desc(self.buffer))
        self.groups = {}
        if dtype:
            from lmcache.v1.distributed.api import MemoryLayoutDesc

            shape = torch.Size([2, 4, self.size // 8 // dtype.itemsize])
            self.groups = {0: MemoryLayoutDesc(shapes=[shape], dtypes=[dtype])}

    def objects(self, batch, fill):
        from lmcache.cli.commands.bench.l2_adapter_bench.data import make_memory_objects

        objects = make_memory_objects(
            self.buffer, self.keys, self.size, batch * self.keys * self.size, fill
        )
        for object in objects:
            for layout in self.groups.values():
                object.meta.shapes, object.meta.dtypes = layout.shapes, layout.dtypes
        return objects

    def names(self, number):
        from lmcache.cli.commands.bench.l2_adapter_bench.data import make_object_keys

        return [
            make_object_keys(self.keys, "m", (number * self.batches + b) * self.keys)
            for b in range(self.batches)
        ]

    def collect(self, fd, ids, take):
        """Waits for all of ids: {id: result}."""
        over = {}
        end = time.monotonic() + SECONDS
        while len(over) < len(ids):
            over.update(take([i for i in ids if i not in over]))
            ready = len(over) == len(ids) or select.select([fd], [], [], 1)[0]
            if ready and len(over) < len(ids):
                os.read(fd, 8)
            assert time.monotonic() < end, f"{len(over)} of {len(ids)} tasks ended"
        return [over[i] for i in ids]

    def query(self, one):
        return lambda ids: {i: r for i in ids if (r := one(i)) is not None}

    def store(self, number, meanwhile=None):
        """How many of the batches were stored."""
        a = self.adapter
        ids = [a.submit_store_task(k, self.objects(b, b)) for b, k in enumerate(self.names(number))]
        if meanwhile:
            meanwhile()
        results = self.collect(a.get_store_event_fd(), ids, lambda _: a.pop_completed_store_tasks())
        return sum(r.is_successful() for r in results)

    def lookup(self, number, meanwhile=None):
        """How many keys there are."""
        a, names = self.adapter, self.names(number)
        ids = [a.submit_lookup_and_lock_task(k, self.groups) for k in names]
        if meanwhile:
            meanwhile()
        results = self.collect(
            a.get_lookup_and_lock_event_fd(), ids, self.query(a.query_lookup_and_lock_result)
        )
        for k in names:
            a.submit_unlock(k)
        return sum(r.popcount() for r in results)

    def load(self, number, meanwhile=None):
        """How many keys were loaded; each of them has the bytes that were stored."""
        a = self.adapter
        batches = [self.objects(b, 77) for b in range(self.batches)]
        ids = [a.submit_load_task(k, batches[b]) for b, k in enumerate(self.names(number))]
        if meanwhile:
            meanwhile()
        results = self.collect(a.get_load_event_fd(), ids, self.query(a.query_load_result))
        for b, result in enumerate(results):
            for i in result.get_indices_list():
                assert (
                    batches[b][i].raw_data == i + b
                ).all(), f"key {i} of batch {b} has other bytes"
        return sum(r.popcount() for r in results)


def outage(kind):
    import threading

    with kvrail.Server(memory_mb=256) as server:
        l1 = L1(spec(kind, server.address, timeout=3))
        if "plugin" in kind:
            inner = l1.adapter if kind == "plugin" else l1.adapter._inner
            assert inner.registered_bytes == l1.buffer.numel(), "L1 is not registered"
        every = l1.keys * l1.batches
        fewest = every if kind not in FAULTS else 1

        def works(number):
            """The server is there, and empty: sooner or later a store succeeds, and then all do."""
            numbers = iter(range(number, number + 1000))
            soon("stores succeed", lambda: l1.store(next(numbers)) == l1.batches)
            stored = next(numbers) - 1
            # Each client of the pool comes back in its own time; its keys are misses until then.
            soon("all keys are found", lambda: l1.lookup(stored) == every)
            soon("they are loaded", lambda: fewest <= l1.load(stored) <= every)
            return stored

        stored = works(1000)
        assert l1.lookup(999) == 0, "keys that were never stored"
        l1.store(2000, server.kill)
        assert (l1.store(2001), l1.lookup(stored), l1.load(stored)) == (
            0,
            0,
            0,
        ), "there is no server"
        server.restart()
        stored = works(3000)
        l1.load(stored, server.kill)
        server.restart()
        stored = works(5000)
        l1.lookup(stored, server.kill)
        server.restart()
        works(7000)
        # The end, while all is under way and the server is gone.
        for b, names in enumerate(l1.names(9000)):
            l1.adapter.submit_store_task(names, l1.objects(b, b))
        server.kill()
        closing = threading.Thread(target=l1.adapter.close, daemon=True)
        closing.start()
        closing.join(SECONDS)
        assert not closing.is_alive(), "close() hangs"


def layouts():
    """LMCaches of a model whose caches have the same size, in other types."""
    import torch

    with kvrail.Server(memory_mb=256) as server:
        one, same, other = (
            L1(spec("plugin", server.address), dtype)
            for dtype in (torch.float16, torch.float16, torch.bfloat16)
        )
        every = one.keys * one.batches
        assert one.store(0) == one.batches
        assert (same.lookup(0), same.load(0)) == (every, every), "the same layout"
        assert (other.lookup(0), other.load(0)) == (0, 0), "another type's bytes were read"
        assert other.store(0) == other.batches and other.load(0) == every
        for l1 in one, same, other:
            l1.adapter.close()


def clear(kind):
    """What LMCache stored in one namespace ends with it, also for a second LMCache; another fingerprint has its own."""
    import torch

    with kvrail.Server(memory_mb=256) as server:
        one, same, other = (
            L1(spec(kind, server.address, weights=weights), torch.float16)
            for weights in ("w", "w", "trained further")
        )
        every = one.keys * one.batches
        assert one.store(0) == one.batches
        assert (same.lookup(0), same.load(0)) == (every, every)
        assert (other.lookup(0), other.load(0)) == (0, 0), "another fingerprint's bytes were read"
        assert other.store(0) == other.batches
        adapter = one.adapter if kind == "plugin" else one.adapter._client
        adapter.clear()
        assert (one.lookup(0), same.lookup(0), same.load(0)) == (0, 0, 0), "cleared"
        assert other.load(0) == every, "the other fingerprint's are still there"
        assert same.store(0) == same.batches and one.load(0) == every
        again = L1(spec(kind, server.address, weights="w"), torch.float16)  # as after a restart of LMCache
        assert again.load(0) == every
        for l1 in one, same, other, again:
            l1.adapter.close()


def evict(kind):
    with kvrail.Server(memory_mb=256) as server:
        adapter = spec(kind, server.address)
        adapter["max_capacity_gb"] = 0.25
        l1 = L1(adapter)
        assert l1.store(0) == l1.batches and l1.store(1) == l1.batches
        used = l1.adapter.get_usage().total_bytes_used
        assert used == 2 * l1.buffer.numel(), used
        assert (
            l1.store(0) == l1.batches and l1.adapter.get_usage().total_bytes_used == used
        ), "stored twice counts once"
        for names in l1.names(0):
            l1.adapter.delete(names)
        assert l1.adapter.get_usage().total_bytes_used == l1.buffer.numel()
        assert l1.lookup(0) == 0 and l1.lookup(1) == l1.keys * l1.batches
        l1.adapter.close()


def removals():
    from lmcache.v1.distributed.internal_api import L2AdapterListener

    class Listener(L2AdapterListener):
        deleted: list = []

        def on_l2_keys_stored(self, keys, sizes):
            pass

        def on_l2_keys_accessed(self, keys):
            pass

        def on_l2_keys_deleted(self, keys):
            self.deleted += keys

    with kvrail.Server(memory_mb=256, events="on") as server:
        l1 = L1(spec("plugin", server.address, events=True, max_capacity_gb=0.25))
        space, listener = l1.adapter._client.namespace, Listener()
        l1.adapter.register_listener(listener)
        used = lambda: l1.adapter.get_usage().total_bytes_used

        def followed():
            assert l1.store(0) == l1.batches
            client.clear()
            time.sleep(0.2)
            return used() == 0

        with kvrail.Client(server.address, num_clients=1, namespace=space) as client:
            soon("the follower begins", followed)
            listener.deleted.clear()
            assert l1.store(1) == l1.batches and used() == l1.buffer.numel()
            client.clear()
            soon("what was cleared leaves the account", lambda: used() == 0)
        assert sorted(listener.deleted, key=str) == sorted(itertools.chain(*l1.names(1)), key=str)
        l1.adapter.close()


def wrong(kind):
    adapter = spec(kind, "127.0.0.1:1", colour="blue")
    try:
        make(adapter)
    except ValueError as error:
        text = str(error)
        assert "'colour'" in text and "servers" in text and "psk_file" in text, text
        assert ("max_capacity_gb" in text) == (kind == "plugin"), text
    else:
        raise AssertionError("no ValueError")


# ---- lmcache server ----


class LMCache:
    """lmcache server with an adapter. It ends by SIGTERM, and must do so within a minute, without an exception."""

    def __init__(self, mode, adapter, start=Forked):
        self.mode = mode
        self.port, self.http = free_ports(2)
        self.log = tempfile.NamedTemporaryFile("r")
        command = [
            "server",
            "--port",
            str(self.port),
            "--http-port",
            str(self.http),
            "--l1-size-gb",
            "0.5",
        ]
        command += [
            "--eviction-policy",
            "LRU",
            "--supported-transfer-mode",
            mode,
            "--l2-adapter",
            json.dumps(adapter),
        ]
        if mode == "engine_driven":
            command += ["--shm-name", f"kvrail{os.getpid()}x{self.port}"]
        self.process = start(command, self.log.name)
        soon("lmcache server is there", self.is_healthy)

    def is_healthy(self):
        import urllib.request

        status = self.process.poll()
        if status is not None:
            print(self.log.read())
        assert status is None, f"lmcache server ended at its start with {status}"
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.http}/healthcheck", timeout=5
            ) as answer:
                return answer.status == 200
        except OSError:
            return False

    def bench(self, when, start=0, count=3, new=True):
        """lmcache bench server: what it printed. new: its requests store their chunks, and compare what they read then."""
        command = [
            "bench",
            "server",
            "--mode",
            "cpu",
            "--transfer-mode",
            self.mode,
            "--interval",
            "0.1",
        ]
        command += [
            "--rpc-url",
            f"tcp://127.0.0.1:{self.port}",
            "--url",
            f"http://127.0.0.1:{self.http}",
        ]
        command += [
            "--start",
            str(start),
            "--end",
            str(start + count),
            "--num-tokens",
            "512",
            "--num-blocks",
            "256",
        ]
        command += ["--kvcache-shape-spec", "(2,256,16,8,64):float16:4"]
        with tempfile.NamedTemporaryFile("r") as log:
            process = Forked(command, log.name)
            try:
                status = process.wait(120)
            finally:
                process.kill()
                said = log.read()
                print(said)
        assert status == 0, f"{when}: lmcache bench server ended with {status}"
        good = said.count("CHECKSUM MATCH OK")
        fine = good == count and "MISMATCH" not in said
        assert fine or not new, f"{when}: {good} of {count} requests read what they stored"
        return said

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        self.process.send_signal(signal.SIGKILL if failed else signal.SIGTERM)
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("lmcache server does not end") from None
        finally:
            text = self.log.read()
            print(text[-20000:])
        assert failed or "Traceback" not in text, "lmcache server printed an exception"
        assert failed or status in (0, -signal.SIGTERM), f"lmcache server ended with {status}"


def sums(text, when):
    """The checksums of the requests, {sequence: sum}."""
    return dict(re.findall(rf"\[seq (\d+)/{when}\] CHECKSUM: (\w+)", text))


def values_of(server):
    """How many PUTs the kv-server has done."""
    client = str(pathlib.Path(os.environ["KVRAIL_KV_SERVER"]).parent / "kv-client")
    done = subprocess.run(
        [client, "--server", server.address, "stat"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(re.search(r"^puts +(\d+)$", done.stdout, re.M).group(1))


def server(kind, mode):
    with kvrail.Server(memory_mb=512) as ours:
        adapter = spec(kind, ours.address)

        def puts():
            return f"(it has done {values_of(ours)} PUTs)"

        with LMCache(mode, adapter) as lmcache:
            first = sums(lmcache.bench("at first"), "cold")
            assert len(first) == 3, first
            soon("all 6 chunks are in the kv-server", lambda: values_of(ours) >= 6, puts)
        with LMCache(mode, adapter) as lmcache:
            again = lmcache.bench("after a restart", new=False)
            found = re.findall(r"/cold\] LOOKUP: (\d)/2 chunks hit", again)
            assert found == ["2"] * 3, f"after a restart: {found} of 2 chunks each are found"
            assert sums(again, "warm") == first, "after a restart other bytes were found"
            # The server goes while LMCache runs. What is new goes to L1 alone; nothing fails.
            ours.kill()
            lmcache.bench("without a kv-server", start=100)
            # It comes back, empty, while LMCache runs: what is new is stored there again.
            ours.restart()
            starts = iter(range(200, 2000, 10))

            def stored():
                lmcache.bench("with the kv-server back", start=next(starts), count=1)
                return values_of(ours) > 0

            soon("chunks go to the kv-server that came back", stored)


def alone(kind):
    address = "127.0.0.1:%d" % free_ports(1)[0]
    with LMCache("lmcache_driven", spec(kind, address)) as lmcache:
        lmcache.bench("without a kv-server")
        status = lmcache.process.poll()
        assert status is None, f"lmcache server ended with {status}"


def versus():
    """transformers, which LMCache's older server imports and does not use, is stood in."""
    bin = pathlib.Path(sys.executable).parent
    bench = pathlib.Path(os.environ["KVRAIL_KV_SERVER"]).resolve().parent / "kv-bench"
    target = f"program:{HERE.parent / 'bench' / 'lmcache_client.py'}"
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "transformers.py").write_text("AutoConfig = AutoTokenizer = None\n")
        report = pathlib.Path(folder, "report.json")
        environment = {
            **os.environ,
            "PATH": f"{bin}:{os.environ['PATH']}",
            "PYTHONPATH": folder,
            "LMCACHE_SERVER": address,
        }
        command = [str(bench), "versus", "--targets", target, "--json", str(report), "--verify"]
        command += ["--num-workers", "2", "--num-clients", "1", "--num-keys", "20"]
        command += ["--value-size", "3000", "--duration", "0.05", "--warmup", "6", "--rounds", "1"]

        def run():
            done = subprocess.run(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
            )
            print(done.stdout)
            return done

        assert f"is an lmcache_server at {address}" in run().stdout
        process = subprocess.Popen(
            [str(bin / "lmcache_server"), "127.0.0.1", str(port)], env=environment
        )
        try:
            soon("lmcache_server listens", lambda: connects(port) or process.poll() is not None)
            assert run().returncode == 0
            (one,) = json.loads(report.read_text())["targets"]
            assert one["ok"] and one["put"]["ops_per_s"] > 0 and one["get"]["ops_per_s"] > 0, one
            assert one["version"].startswith("lmcache "), one
        finally:
            process.kill()
            process.wait()


def connects(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def upstream(folder):
    with kvrail.Server(memory_mb=256) as ours:
        environment = {**os.environ, "KVRAIL_SERVER": ours.address, "PYTHONPATH": str(HERE)}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--noconftest",
            "-p",
            "lmcache_fixture",
            "-o",
            "log_cli=false",
        ]
        command += [
            "-p",
            "no:cacheprovider",
            "tests/v1/distributed/test_native_connector_l2_adapter.py",
        ]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(done.stdout)
        assert done.returncode == 0, done.returncode
        passed = re.search(r"^(\d+) passed", done.stdout, re.M)
        assert passed and int(passed.group(1)) >= UPSTREAM, f"there are {UPSTREAM} tests in 0.5.6"
        assert values_of(ours) > 20, "the tests did not reach our server"


if __name__ == "__main__":
    # The end of a time limit unwinds, so that what was started ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal, or by the time limit"))
    os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
    os.environ.setdefault("LMCACHE_DISABLE_BANNER", "1")
    globals()[sys.argv[1]](*sys.argv[2:])
