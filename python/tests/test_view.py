# SPDX-License-Identifier: Apache-2.0
"""Views: values read in the memory of a server on this host, and how their leases end."""

import array
import asyncio
import gc
import json
import os
import pathlib
import random
import select
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import kvrail
from common import completions, fresh, results, server
from kvrail import _native

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None
try:
    from _testcapi import remove_mem_hooks, set_nomemory
except ImportError:
    set_nomemory = None

SECONDS = 60  # a limit; nothing here takes so long


def kv_client(server, *words):
    program = pathlib.Path(server.binary).with_name("kv-client")
    return subprocess.run(
        [program, "--server", server.address, *words], check=True, capture_output=True, text=True
    ).stdout


def stat(server):
    """The server's counters, by kv-client; those that are 0 may be missing."""
    rows = (line.split() for line in kv_client(server, "stat").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def leases(server):
    return stat(server).get("local_leases", 0)


def wait_for(condition):
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until, "it did not become true"
        time.sleep(0.01)


def value(seed, size):
    return random.Random(seed).randbytes(size)


class ViewCase(unittest.TestCase):
    """Has a server of its own, whose leases have all ended when the test is over."""

    server_options = {"memory_mb": 64}

    def setUp(self):
        self.server = kvrail.Server(**self.server_options)
        self.addCleanup(self.server.close)
        self.client = self.open()

    def open(self, address=None, **options):
        client = kvrail.Client(
            address or self.server.address, **{"num_clients": 1, "wait": True, **options}
        )
        self.addCleanup(client.close)
        return client

    def tearDown(self):
        gc.collect()
        if self.server.running():
            self.none_lent()

    def none_lent(self):
        wait_for(lambda: leases(self.server) == 0)


class ReadTest(ViewCase):
    def test_the_bytes_are_right_and_in_place(self):
        for size in (1, 100, 3073, 16_385, 1_000_003, 9 << 20):
            key, data = fresh(), value(size, size)
            self.client.put(key, data)
            view = self.client.view(key)
            with self.subTest(size):
                self.assertTrue(view.in_place)
                self.assertEqual((len(view), view.nbytes), (size, size))
                self.assertEqual(bytes(view), data)
                self.assertEqual((view[0], view[-1], view[: size // 2].obj), (data[0], data[-1], view))
                self.assertEqual(view[: size // 2], data[: size // 2])
        counters = self.client.counters()
        self.assertEqual((counters["local_gets"], counters["local_leases"]), (6, 1))
        del view
        self.assertEqual(self.client.counters()["local_leases"], 0)
        self.assertEqual(self.client.info()["mode"], "local")
        self.assertEqual(self.client.servers()[0]["clients_local"], 1)

    def test_nobody_can_write(self):
        key = fresh()
        self.client.put(key, b"value")
        view = self.client.view(key)
        memory = memoryview(view)
        self.assertTrue(memory.readonly)
        with self.assertRaises(TypeError):
            memory[0] = 1
        with self.assertRaises(TypeError):
            view[0] = 1
        with self.assertRaises(TypeError):
            array.array("B", b"12345").__class__.frombytes(view, b"12345")
        with self.assertRaisesRegex(ValueError, "writable"):
            self.client.get(key, view)
        with self.assertRaisesRegex(ValueError, "writable"):
            self.client.register(view)
        read, write = os.pipe()
        os.write(write, b"other")
        with open(read, "rb", buffering=0) as file, self.assertRaises(TypeError):
            file.readinto(view)
        os.close(write)
        self.assertEqual(bytes(view), b"value")

    def test_a_view_is_a_source_of_other_calls(self):
        one, two = fresh(), fresh()
        data = value(1, 100_000)
        self.client.put(one, data)
        with self.client.view(one) as view:
            self.assertTrue(self.client.put(two, view))
        self.assertEqual(self.client.get(two), data)

    def test_a_miss_and_wrong_arguments(self):
        with self.assertRaisesRegex(kvrail.NotFound, "no such key.*'none'"):
            self.client.view("none")
        self.assertRaises(TypeError, self.client.view, 1)
        self.assertRaises(ValueError, self.client.view, "")
        self.assertRaises(ValueError, self.client.view, "a", timeout=0)
        self.assertRaises(TypeError, _native.View)
        self.assertRaises(TypeError, _native.View, "text")
        self.assertRaises(TypeError, _native.View, b"a", data=b"b")
        for text, wrong in ((ValueError, "on"), (TypeError, 1), (TypeError, None)):
            with self.assertRaisesRegex(text, f"^local must be 'auto' or 'off', not {wrong!r}$"):
                self.open(local=wrong)
        self.assertRaises(TypeError, self.open, local_socket=1)
        self.assertEqual(bytes(_native.View(b"bytes")), b"bytes")
        self.client.close()
        self.assertRaises(kvrail.Closed, self.client.view, "none")

    def test_several_in_one_submission(self):
        keys = [fresh() for _ in range(300)]
        for i, key in enumerate(keys[::2]):
            self.client.put(key, value(i, 1000 + i))
        self.client.close()
        native = _native.Client(self.server.address, num_clients=1, wait=True)
        self.addCleanup(native.close)
        views = results(native, native.submit_batch_view(keys, 30.0))
        self.assertEqual([bytes(v) for v in views[::2]], [value(i, 1000 + i) for i in range(150)])
        self.assertTrue(all(v.in_place for v in views[::2]))
        self.assertEqual(set(views[1::2]), {kvrail.NotFound.code})
        ids = [native.submit_batch_view(keys[:1]) for _ in range(3)]
        over = completions(native, 3, native.drain_completions)
        self.assertEqual(sorted(over), [(id, True, "", None) for id in sorted(ids)])
        self.assertEqual(native.counters()["local_leases"], 150)

    def test_a_lease_beyond_the_budget_is_a_copy(self):
        keys = [fresh() for _ in range(40)]
        for key in keys:
            self.client.put(key, value(key, 1 << 20))
        views = [self.client.view(key) for key in keys]
        self.assertEqual([bytes(v) for v in views], [value(key, 1 << 20) for key in keys])
        kinds = {v.in_place for v in views}
        self.assertEqual(kinds, {True, False})
        self.assertGreater(self.client.counters()["local_refusals"], 0)

    def test_10000_views(self):
        keys = [fresh() for _ in range(100)]
        whole = [value(key, 500) for key in keys]
        self.client.put_many(keys, whole)
        self.client.close()
        native = _native.Client(self.server.address, num_clients=1, wait=True)
        self.addCleanup(native.close)
        views = []
        for _ in range(100):
            views += results(native, native.submit_batch_view(keys))
        self.assertEqual([bytes(view) for view in views], whole * 100)
        held = native.counters()["local_leases"]
        self.assertEqual(held, sum(v.in_place for v in views))
        self.assertGreater(held, 1000)
        wait_for(lambda: leases(self.server) == held)

    @unittest.skipUnless(numpy, "there is no numpy")
    def test_numpy_wraps_it_without_a_copy(self):
        self.client.put("array", numpy.arange(50_000, dtype=numpy.float32))
        with self.client.view("array") as view:
            numbers = numpy.frombuffer(view, numpy.float32)
            part = numpy.asarray(memoryview(view))[4:]
        self.assertFalse(numbers.flags.writeable)
        self.assertFalse(numbers.flags.owndata)
        self.assertEqual(part.__array_interface__["data"][0] - 4, numbers.ctypes.data)
        self.assertEqual(leases(self.server), 1)
        self.assertTrue((numbers == numpy.arange(50_000)).all())
        with self.assertRaises(ValueError):
            numbers[0] = 1

    @unittest.skipUnless(torch, "there is no torch")
    def test_torch_wraps_it_without_a_copy(self):
        self.client.put("tensor", array.array("f", range(50_000)))
        view = self.client.view("tensor")
        with self.assertWarns(UserWarning):  # torch has no tensors that cannot be written to
            tensor = torch.frombuffer(view, dtype=torch.float32)
        view.release()
        self.assertEqual(leases(self.server), 1)
        self.assertEqual(tensor[1:50_000:7].tolist(), [float(i) for i in range(1, 50_000, 7)])


class LifeTest(ViewCase):
    def view(self, size=100_000):
        key = fresh()
        self.client.put(key, value(key, size))
        view = self.client.view(key)
        self.assertTrue(view.in_place)
        return key, view

    def test_the_server_knows_who_holds_what(self):
        self.assertEqual(self.client.leases(), [])
        held = [self.view(), self.view()]
        (mine,) = self.client.leases()
        self.assertEqual((mine["pid"], mine["leases"], mine["identity"]), (os.getpid(), 2, ""))
        self.assertTrue(200_000 <= mine["bytes"] < 220_000 and 0 <= mine["age"] < SECONDS)
        (shown,) = json.loads(kv_client(self.server, "leases", "--json"))["leases"]
        self.assertEqual(
            {k: shown[k] for k in ("client_id", "session", "identity", "pid", "leases", "bytes")},
            {k: v for k, v in mine.items() if k != "age"},
        )
        self.assertGreaterEqual(shown["age_sec"], mine["age"])
        table = kv_client(self.server, "leases")
        self.assertRegex(table, rf"(?m)^\S+ +{mine['client_id']} +- +{os.getpid()} +2 +\S+ \S+ +\S+ s$")

        async def main():
            async with kvrail.aio.Client(self.server.address, num_clients=1) as client:
                return await client.leases(timeout=5.0)

        self.assertEqual([h["leases"] for h in asyncio.run(main())], [2])
        held.clear()
        self.none_lent()
        self.assertEqual(self.client.leases(), [])
        self.assertIn("no client", kv_client(self.server, "leases"))
        with self.assertRaises(kvrail.Invalid):
            self.client.leases(7)
        with self.assertRaisesRegex(ValueError, "timeout"):
            self.client.leases(timeout=-1)

    def test_the_lease_ends_with_the_last_buffer(self):
        key, view = self.view()
        one, two = memoryview(view), memoryview(view)
        view.release()
        view.release()
        self.assertTrue(view.released)
        self.assertEqual(view.nbytes, 100_000)
        for refused in (lambda: memoryview(view), lambda: view[0], view.__enter__):
            self.assertRaisesRegex(ValueError, "^the view was released$", refused)
        one.release()
        self.assertEqual(bytes(two), value(key, 100_000))
        self.assertEqual(leases(self.server), 1)
        two.release()
        self.none_lent()

    def test_the_lease_ends_with_the_block_or_the_object(self):
        key, view = self.view()
        with view as same:
            self.assertIs(same, view)
        self.none_lent()
        key, view = self.view()
        memory = memoryview(view)[5:10]
        del view
        gc.collect()
        self.assertEqual(memory, value(key, 100_000)[5:10])
        self.assertEqual(leases(self.server), 1)
        del memory
        self.none_lent()

    def test_the_collector_finds_views_in_circles(self):
        circle = [self.view()[1], memoryview(self.view()[1])]
        circle.append(circle)
        self.assertEqual(leases(self.server), 2)
        del circle
        gc.collect()
        self.none_lent()

    def test_bytes_stay_through_delete_and_eviction(self):
        key, view = self.view(1 << 20)
        self.assertTrue(self.client.delete(key))
        for i in range(100):  # more than the memory
            self.client.put(fresh(), value(i, 1 << 20))
        self.assertGreater(stat(self.server).get("evictions", 0), 0)
        self.assertEqual(bytes(view), value(key, 1 << 20))
        self.assertRaises(kvrail.NotFound, self.client.view, key)

    def test_bytes_stay_after_close_and_the_servers_death(self):
        key, view = self.view()
        _, closed = self.view()
        self.client.close()
        self.assertEqual(bytes(view), value(key, 100_000))
        closed.release()
        wait_for(lambda: leases(self.server) == 1)
        self.server.kill()
        self.assertEqual(bytes(view), value(key, 100_000))
        view.release()

    def test_a_dead_server_that_is_back_lends_again(self):
        key, view = self.view()
        self.server.restart()

        def back():
            try:
                return self.client.put(key, b"again")
            except kvrail.PeerDown:
                return False

        wait_for(back)
        with self.client.view(key) as again:
            self.assertEqual(bytes(again), b"again")
        self.assertEqual(bytes(view), value(key, 100_000))

    def test_close_keeps_what_was_not_drained(self):
        key, _ = self.view(), self.client.close()
        key = key[0]
        for local in ("auto", "off"):
            native = _native.Client(self.server.address, num_clients=1, wait=True, local=local)
            id = native.submit_batch_view([key])
            wait_for(lambda native=native: native.counters()["hits"] == 1)
            time.sleep(0.05)
            native.close()
            ((got, _, (result,)),) = native.drain_results()
            self.assertEqual(got, id)
            if local == "off":  # its piece ended with the client
                self.assertEqual(result, kvrail.Closed.code)
            elif isinstance(result, _native.View):
                self.assertEqual(bytes(result), value(key, 100_000))
            forgotten = _native.Client(self.server.address, num_clients=1, wait=True, local=local)
            forgotten.submit_batch_view([key])
            wait_for(lambda native=forgotten: native.counters()["hits"] == 1)
            forgotten.close()
            del forgotten, result, native

    def test_threads(self):
        seed = random.randrange(1 << 30)
        keys = [fresh() for _ in range(20)]
        for key in keys:
            self.client.put(key, value(key, 50_000))
        whole = {key: value(key, 50_000) for key in keys}
        shared, wrong = [], []

        def work(number):
            rng = random.Random(seed + number)
            for _ in range(300):
                key = rng.choice(keys)
                view = self.client.view(key)
                if bytes(view) != whole[key]:
                    wrong.append(key)
                shared.append(view)
                if len(shared) > 10:
                    shared.pop(rng.randrange(5)).release()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [], f"seed {seed}")
        shared.clear()

    def test_an_interrupted_view_leaves_no_lease(self):
        self.client.put("interrupted", value(1, 100_000))
        for _ in range(50):
            id = self.client._native.submit_batch_view(["interrupted"])
            waiter = kvrail.client._Waiter()
            self.client._reaper._start()
            self.client._reaper._abandon(id, waiter)
            del waiter
        self.none_lent()

    def child(self, body):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                body()
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_a_child_gives_nothing_back(self):
        key, view = self.view()
        memory = memoryview(view)
        copied = _native.View(b"bytes")
        whole, address = value(key, 100_000), self.server.address

        def body():
            assert bytes(memory) == whole
            assert bytes(copied) == b"bytes"
            for refused in (lambda: memoryview(view), view.__enter__):
                try:
                    refused()
                except kvrail.Closed as error:
                    assert "open a client here" in str(error), error
                else:
                    raise AssertionError("it did not raise")
            with kvrail.Client(address, num_clients=1) as client, client.view(key) as own:
                assert own.in_place and bytes(own) == whole
            memory.release()
            view.release()
            assert view.released

        self.child(body)
        self.assertEqual(leases(self.server), 1)
        self.assertEqual(bytes(memory), whole)
        self.assertEqual(bytes(view), whole)

    @unittest.skipUnless(set_nomemory, "this Python has no module _testcapi")
    def test_no_memory_loses_no_lease(self):
        self.client.put("memory", value(1, 5000))
        self.client.close()  # its thread would fail as well
        refused = 0
        for local in ("auto", "off"):
            native = _native.Client(self.server.address, num_clients=1, wait=True, local=local)
            self.addCleanup(native.close)
            for fault in range(60):
                refused += self.one_fault(native, fault)
        self.assertGreater(refused, 10)

    def one_fault(self, native, fault):
        refused, over, id = 0, [], None

        def failing(call):
            try:
                set_nomemory(fault, fault + 1)
                try:
                    return call()
                finally:
                    remove_mem_hooks()
            except MemoryError:
                return None

        id = failing(lambda: native.submit_batch_view(["memory", "none", "memory"]))
        if id is None:
            refused += 1
            id = native.submit_batch_view(["memory", "none", "memory"])
        while not any(o[0] == id for o in over):
            select.select([native.event_fd()], [], [], SECONDS)
            got = failing(native.drain_results)
            refused += got is None
            over += native.drain_results() if got is None else got
        views = next(o[2] for o in over if o[0] == id)
        self.assertEqual(views[1], kvrail.NotFound.code)
        self.assertEqual([bytes(v) for v in views[::2]], [value(1, 5000)] * 2)
        return refused


class EndTest(ViewCase):
    """The interpreter ends in any order."""

    def run_python(self, body):
        self.client.put("end", value(1, 100_000))
        begin = "import kvrail, sys, atexit, threading\nclient = kvrail.Client(sys.argv[1], num_clients=1)\n"
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", begin + body, self.server.address],
            capture_output=True,
            timeout=SECONDS,
            text=True,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.none_lent()
        return done.stdout

    def test_views_are_open(self):
        self.run_python(
            "view = client.view('end'); assert view.in_place; memory = memoryview(view)\n"
            "circle = [client.view('end')]; circle.append(circle)\n"
            "client.close()"
        )

    def test_the_client_is_open(self):
        self.run_python(
            "import warnings; warnings.simplefilter('ignore')\n"
            "view = client.view('end')\n"
            "atexit.register(lambda memory: print(len(bytes(memory))), memoryview(view))"
        )

    def test_a_thread_has_views(self):
        self.run_python(
            "ready, stay = threading.Event(), threading.Event()\n"
            "def work():\n"
            "    view = client.view('end'); ready.set(); stay.wait()\n"
            "threading.Thread(target=work, daemon=True).start(); ready.wait()\n"
            "client.close()"
        )

    def test_it_is_killed(self):
        self.client.put("end", value(1, 1000))
        script = (
            "import kvrail, sys, time\nclient = kvrail.Client(sys.argv[1], num_clients=1)\n"
            "views = [client.view('end') for _ in range(1000)]; print('ready', flush=True); time.sleep(600)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script, self.server.address], stdout=subprocess.PIPE
        ) as process:
            try:
                self.assertEqual(process.stdout.readline(), b"ready\n")
                self.assertEqual(leases(self.server), 1000)
            finally:
                process.kill()
        self.none_lent()


class CopyTest(unittest.TestCase):
    """Views of values that are not in place."""

    def setUp(self):
        self.client = kvrail.Client(server().address, num_clients=1, local="off", wait=True)
        self.addCleanup(self.client.close)

    def test_off_is_the_fabric(self):
        self.assertEqual(self.client.servers()[0]["clients_local"], 0)
        self.assertNotEqual(self.client.info()["mode"], "local")
        key = fresh()
        for size in (1, 5000, 1_000_003):
            self.client.put(key, value(size, size))
            view = self.client.view(key)
            self.client.delete(key)
            self.assertFalse(view.in_place)
            self.assertEqual(bytes(view), value(size, size))
            with self.assertRaises(TypeError):
                memoryview(view)[0] = 1
        counters = self.client.counters()
        self.assertEqual((counters["local_gets"], counters["local_puts"]), (0, 0))
        self.client.close()
        self.assertEqual(bytes(view), value(1_000_003, 1_000_003))

    def test_copies_do_not_fill_the_clients_buffer(self):
        small = kvrail.Client(
            server().address, num_clients=1, local="off", wait=True, buffer_bytes=1 << 20
        )
        self.addCleanup(small.close)
        key, large = fresh(), fresh()
        small.put(key, value(1, 400_000))
        views = [small.view(key) for _ in range(20)]
        self.assertEqual({bytes(v) for v in views}, {value(1, 400_000)})
        small.put(large, value(2, 3_000_000))  # larger than the buffer
        view = small.view(large, timeout=30.0)
        self.assertFalse(view.in_place)
        self.assertEqual(bytes(view), value(2, 3_000_000))

    def test_servers_that_do_not_share(self):
        for options in ({"local": "off"}, {"arena": "private"}):
            with kvrail.Server(memory_mb=64, **options) as other:
                with kvrail.Client(other.address, num_clients=1, wait=True) as client:
                    client.put("a", b"value")
                    with client.view("a") as view:
                        self.assertFalse(view.in_place)
                        self.assertEqual(bytes(view), b"value")


class SocketTest(unittest.TestCase):
    def test_a_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "local")
            with kvrail.Server(memory_mb=64, local_socket=path) as other:
                moved = pathlib.Path(folder, "mounted")
                moved.symlink_to(path)
                for socket, in_place in ((None, True), (moved, True), (folder + "/none", False)):
                    with kvrail.Client(
                        other.address, num_clients=1, wait=True, local_socket=socket, log_level=0
                    ) as client:
                        client.put("a", b"value")
                        with self.subTest(socket), client.view("a") as view:
                            self.assertEqual((view.in_place, bytes(view)), (in_place, b"value"))


class AdapterTest(unittest.TestCase):
    def test_the_options_reach_the_client_of_lmcache(self):
        from kvrail import lmcache

        for options, mode in (({}, "local"), ({"local": "off"}, "push")):
            client = lmcache.Client(server().address, prefix="p/", wait=True, **options)
            self.addCleanup(client.close)
            self.assertEqual(client._native.info()["mode"], mode)
        with self.assertRaisesRegex(ValueError, "local must be 'auto' or 'off'"):
            lmcache.Client(server().address, prefix="p/", local="on")


class AioTest(unittest.TestCase):
    def test_views(self):
        server()
        small_value, large_value = value(1, 100_000), value(2, 3_000_000)

        async def main():
            for local in ("auto", "off"):
                async with kvrail.aio.Client(
                    server().address, num_clients=1, wait=True, local=local, buffer_bytes=1 << 20
                ) as client:
                    key, large = fresh(), fresh()
                    await client.put(key, small_value)
                    await client.put(large, large_value)
                    views = await asyncio.gather(*(client.view(key) for _ in range(50)))
                    views.append(await client.view(large))
                    self.assertEqual({v.in_place for v in views}, {local == "auto"})
                    with self.assertRaises(kvrail.NotFound):
                        await client.view(fresh())
                    task = asyncio.ensure_future(client.view(key))
                    await asyncio.sleep(0)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                self.assertEqual({bytes(v) for v in views[:-1]}, {small_value})
                self.assertEqual(bytes(views[-1]), large_value)

        asyncio.run(main())
        gc.collect()
        wait_for(lambda: leases(server()) == 0)


if __name__ == "__main__":
    unittest.main()
