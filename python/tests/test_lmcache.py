# SPDX-License-Identifier: Apache-2.0
"""kvrail.lmcache without LMCache: native_plugin's contract, parameters, registration of L1.

With LMCache itself: tests/engines/lmcache.sh."""

import logging
import mmap
import os
import select
import signal
import sys
import threading
import time
import types
import typing
import unittest
from unittest import mock

import kvrail
from common import completions, freeze, fresh, nobody, server
from kvrail import _arena, lmcache


def readable(fd, seconds=0):
    return bool(select.select([fd], [], [], seconds)[0])


class Case(unittest.TestCase):
    def client(self, servers=None, **params):
        client = lmcache.Client(
            servers or server().address, **{"prefix": fresh() + "/", "num_clients": 1, **params}
        )
        self.addCleanup(client.close)
        return client

    def over(self, client, id):
        """The completion of the only batch that is out, without its id."""
        ((got, *rest),) = completions(client, drain=client.drain_completions)
        self.assertEqual(got, id)
        return tuple(rest)


class Contract(Case):
    def test_it_has_what_lmcache_asks_for(self):
        client = self.client()
        for name in (
            "event_fd submit_batch_get submit_batch_set submit_batch_exists submit_batch_delete "
            "drain_completions close"
        ).split():
            self.assertTrue(callable(getattr(client, name)), name)

    def test_round_trip(self):
        client = self.client()
        values = [bytes([65 + i]) * 3000 for i in range(5)]
        keys = [f"model@01000100@0@{i:064x}@{'salt' * 32}" for i in range(5)]
        self.assertEqual(
            self.over(client, client.submit_batch_exists(keys)), (True, "", [False] * 5)
        )
        views = [memoryview(v) for v in values]
        self.assertEqual(
            self.over(client, client.submit_batch_set(keys[:3], views[:3])), (True, "", None)
        )
        some = [True] * 3 + [False] * 2
        self.assertEqual(self.over(client, client.submit_batch_exists(keys)), (True, "", some))
        into = [bytearray(3000) for _ in range(5)]
        self.assertEqual(
            self.over(client, client.submit_batch_get(keys, [memoryview(b) for b in into])),
            (True, "", some),
        )
        self.assertEqual(into[:3], values[:3])
        got = self.over(
            client, client.submit_batch_get(keys[:3], [memoryview(b) for b in into[:3]])
        )
        self.assertEqual(got, (True, "", None))
        self.assertTrue(self.over(client, client.submit_batch_delete(keys))[0])
        self.assertEqual(
            self.over(client, client.submit_batch_exists(keys)), (True, "", [False] * 5)
        )
        self.assertFalse(
            readable(client.event_fd()), "the descriptor is readable, and nothing waits"
        )

    def test_other_bytes_under_a_key_are_stored(self):
        client = self.client()
        self.over(client, client.submit_batch_set(["k"], [b"first"]))
        self.assertEqual(
            self.over(client, client.submit_batch_set(["k"], [b"other"])), (True, "", None)
        )

    def test_another_length_is_a_miss(self):
        client = self.client()
        self.over(client, client.submit_batch_set(["k"], [b"12345678"]))
        for length in (7, 9):
            into = bytearray(length)
            self.assertEqual(
                self.over(client, client.submit_batch_get(["k"], [into])), (True, "", [False])
            )

    def test_a_store_of_which_a_part_failed_has_failed(self):
        small = kvrail.Server(memory_mb=64)
        self.addCleanup(small.close)
        client = self.client([small.address])
        keys = [f"k{i}" for i in range(32)]
        values = [b"value"] * 31 + [bytes(80 << 20)]  # more than the server has
        with self.assertLogs("kvrail.lmcache", "WARNING"):
            ok, text, _ = self.over(client, client.submit_batch_set(keys, values))
        self.assertFalse(ok)
        self.assertIn("of 32 keys", text)
        # What was stored is found nevertheless.
        ok, text, found = self.over(client, client.submit_batch_exists(keys))
        self.assertTrue(ok, text)
        self.assertIn(True, found)
        self.assertIn(False, found)

    def test_two_threads_submit_while_a_third_drains(self):
        client = self.client()
        ids = []

        def submit(name):
            for i in range(100):
                ids.append(client.submit_batch_set([f"{name}{i}"], [b"value"]))
                ids.append(client.submit_batch_exists([f"{name}{i}", "none"]))

        threads = [threading.Thread(target=submit, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        over = completions(client, 400, drain=client.drain_completions)
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(c[0] for c in over), sorted(ids))
        self.assertTrue(all(c[1] for c in over))


class NeverRaises(Case):
    def refused(self, client, id, text):
        """The completion of what could not be submitted; the descriptor must tell of it."""
        self.assertTrue(readable(client.event_fd()), "the descriptor is not readable")
        with self.assertLogs("kvrail.lmcache", "WARNING"):
            client._failures_said = float("-inf")
            over = client.drain_completions()
        self.assertEqual([c[0] for c in over], [id])
        self.assertEqual((over[0][1], over[0][3]), (False, None))
        self.assertRegex(over[0][2], text)
        self.assertFalse(readable(client.event_fd()))

    def test_bad_arguments(self):
        client = self.client()
        self.refused(client, client.submit_batch_get(["a", "b"], [bytearray(1)]), "ValueError")
        self.refused(client, client.submit_batch_get(["a"], [b"read-only"]), "Error")
        self.refused(client, client.submit_batch_set([1], [b"x"]), "TypeError")
        self.refused(client, client.submit_batch_set(["a"], [b""]), "empty")
        self.refused(client, client.submit_batch_exists([""]), "empty")
        self.refused(client, client.submit_batch_delete(None), "TypeError")
        self.assertEqual(self.over(client, client.submit_batch_exists(["a"])), (True, "", [False]))

    def test_a_full_queue(self):
        address, held = nobody()
        self.addCleanup(held.close)
        client = self.client(address, depth=2, timeout=30)
        ids = [client.submit_batch_get(["k"], [bytearray(1)]) for _ in range(20)]
        self.assertEqual(len(set(ids)), 20)
        client.close()
        over = completions(client, 20, drain=client.drain_completions)
        self.assertEqual(sorted(c[0] for c in over), sorted(ids))

    def test_a_full_queue_has_room_for_loads(self):
        address, held = nobody()
        self.addCleanup(held.close)
        client = self.client(address, depth=8, timeout=30)
        stores = [client.submit_batch_set(["k"], [b"x"]) for _ in range(8)]
        loads = [client.submit_batch_get(["k"], [bytearray(1)]) for _ in range(4)]
        refused = [id for id in stores + loads if id >= lmcache._OWN_IDS]
        self.assertEqual(refused, stores[4:])
        client.close()
        over = completions(client, 12, drain=client.drain_completions)
        self.assertEqual(sorted(c[0] for c in over), sorted(stores + loads))

    def test_after_close(self):
        client = self.client()
        fd = client.event_fd()
        client.close()
        client.close()
        self.assertEqual(client.event_fd(), fd)
        self.refused(client, client.submit_batch_exists(["k"]), "Closed")
        self.refused(client, client.submit_batch_set(["k"], [b"x"]), "Closed")

    def test_a_store_under_way_at_the_close_is_done(self):
        mine = kvrail.Server(memory_mb=64)
        self.addCleanup(mine.close)
        ends = []
        for _ in range(10):  # a machine may be so busy that the server is taken for dead meanwhile
            client = self.client(mine.address, timeout=60)
            self.assertTrue(self.over(client, client.submit_batch_set(["k"], [b"value"]))[0])
            freeze(mine)
            goes_on = threading.Timer(0.7, os.kill, (mine.pid, signal.SIGCONT))
            goes_on.start()
            id = client.submit_batch_set(["new"], [b"value"])
            with mock.patch.object(lmcache, "_CLOSE_SECONDS", 60):
                client.close()
            goes_on.join()
            ends += client.drain_completions()
            if ends[-1] == (id, True, "", None):
                break
        else:
            self.fail(f"no store was done: {ends}")

    def test_a_store_that_the_close_drops_is_told(self):
        mine = kvrail.Server(memory_mb=64)
        self.addCleanup(mine.close)
        client = self.client(mine.address, timeout=60)
        self.assertTrue(self.over(client, client.submit_batch_set(["k"], [b"value"]))[0])
        freeze(mine)
        self.addCleanup(os.kill, mine.pid, signal.SIGCONT)
        id = client.submit_batch_set(["new"], [b"value"])
        dropped = mock.patch.object(lmcache, "_CLOSE_SECONDS", 0.2)
        with dropped, self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            client.close()
        # The latter, if the server was taken for dead before.
        self.assertRegex(lines.output[0], "closed with 1 batches not stored|a batch failed")
        self.assertEqual([c[:2] for c in client.drain_completions()], [(id, False)])

    def test_ids_of_its_own_are_never_those_of_the_queue(self):
        client = self.client()
        own = [client.submit_batch_exists([""]) for _ in range(3)]
        others = [client.submit_batch_exists(["k"]) for _ in range(3)]
        self.assertEqual(len(set(own + others)), 6)
        self.assertTrue(all(id < 1 << 63 for id in others) and all(id > 1 << 63 for id in own))
        over = completions(client, 6, drain=client.drain_completions)
        self.assertEqual(
            {c[0]: c[1] for c in over}, {**{i: False for i in own}, **{i: True for i in others}}
        )

    def test_no_server_is_misses_by_the_deadline(self):
        address, held = nobody()
        self.addCleanup(held.close)
        client = self.client(address, timeout=2, lookup_timeout=1)
        self.assertEqual(
            self.over(client, client.submit_batch_exists(["a", "b"]))[2], [False, False]
        )
        self.assertEqual(
            self.over(client, client.submit_batch_get(["a"], [bytearray(4)]))[2], [False]
        )
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            ok, text, _ = self.over(client, client.submit_batch_set(["a"], [b"x"]))
        self.assertFalse(ok)
        self.assertIn("KV_EPEERDOWN", text)
        self.assertRegex(lines.output[0], f"{address} is down: .*connection refused")

    def test_a_server_that_dies_and_comes_again(self):
        mine = kvrail.Server(memory_mb=64)
        self.addCleanup(mine.close)
        client = self.client(mine.address, timeout=2)
        self.assertTrue(self.over(client, client.submit_batch_set(["k"], [b"value"]))[0])
        into = [bytearray(5) for _ in range(50)]
        ids = [client.submit_batch_get(["k"], [b]) for b in into]
        mine.kill()
        over = completions(client, 50, drain=client.drain_completions)
        self.assertEqual(sorted(c[0] for c in over), sorted(ids))
        mine.restart()
        end = time.monotonic() + 60
        while not self.over(client, client.submit_batch_set(["k"], [b"again"]))[0]:
            self.assertLess(time.monotonic(), end, "it does not connect again")
            time.sleep(0.05)
        self.assertEqual(self.over(client, client.submit_batch_exists(["k"])), (True, "", [True]))

    def test_a_child_of_fork(self):
        client = self.client()
        self.over(client, client.submit_batch_set(["k"], [b"value"]))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                id = client.submit_batch_exists(["k"])
                ready = readable(client.event_fd(), 10)
                over = client.drain_completions()
                good = ready and [(c[0], c[1]) for c in over] == [(id, False)]
                good = good and not readable(client.event_fd())
                os.write(write, b"y" if good else b"n")
            finally:
                os._exit(0)
        os.close(write)
        self.assertEqual(os.read(read, 1), b"y")
        os.close(read)
        os.waitpid(child, 0)
        self.assertFalse(readable(client.event_fd()), "the child woke its parent")
        self.assertEqual(self.over(client, client.submit_batch_exists(["k"])), (True, "", [True]))

    def test_a_lock_that_a_thread_of_the_parent_holds_does_not_stop_a_child(self):
        client = self.client()
        with client._lock():
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                id = client.submit_batch_exists(["k"])
                good = [c[0] for c in client.drain_completions()] == [id]
                os._exit(0 if good else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_drain_without_memory_is_followed_by_another(self):
        client = self.client()
        real, faults = client._native, [MemoryError()]

        def drain():
            if faults:
                raise faults.pop()
            return real.drain_completions()

        id = client.submit_batch_exists(["k"])
        self.assertTrue(readable(client.event_fd(), 30))
        with mock.patch.object(client, "_native", wraps=real) as native:
            native.drain_completions = drain
            self.assertEqual(client.drain_completions(), [])
            self.assertTrue(readable(client.event_fd()), "nothing tells of what was not drained")
            self.assertEqual([c[0] for c in client.drain_completions()], [id])
        self.assertFalse(readable(client.event_fd()))

    def test_a_failure_that_cannot_be_explained_is_told(self):
        address, held = nobody()
        self.addCleanup(held.close)
        client = self.client(address, timeout=20)
        id = client.submit_batch_set(["k"], [b"x"])
        self.assertTrue(readable(client.event_fd(), 30))
        broken = mock.patch.object(lmcache._calls, "down", side_effect=RuntimeError("planted"))
        with self.assertLogs("kvrail.lmcache", "WARNING"), broken:
            ((got, ok, text, _),) = client.drain_completions()
        self.assertEqual((got, ok), (id, False))
        self.assertIn("KV_EPEERDOWN", text)

    def test_one_line_for_many_failures(self):
        client = self.client()
        for _ in range(5):
            client.submit_batch_exists([""])
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            completions(client, 5, drain=client.drain_completions)
            client.submit_batch_exists([""])
            client.drain_completions()
        self.assertEqual(len(lines.output), 1, lines.output)

    def test_descriptors_go_with_the_object(self):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            lmcache.Client(server().address, prefix="p", num_clients=1).close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Parameters(Case):
    def test_a_wrong_name_lists_the_right_ones(self):
        with self.assertRaisesRegex(ValueError, "'host'.*ca_file.*lookup_timeout.*servers.*ttl"):
            lmcache.Client(servers="127.0.0.1:1", host="10.0.0.1")
        for secret in ("psk", "down_is_miss", "max_capacity_gb"):
            with self.assertRaisesRegex(ValueError, f"'{secret}'"):
                lmcache.Client("127.0.0.1:1", **{secret: 1})

    def test_every_name_is_one_of_the_native_client(self):
        for name in lmcache._NATIVE:
            self.assertIn(f" {name}", lmcache.__doc__)
            with self.assertRaises((ValueError, kvrail.Invalid)) as failed:
                lmcache.Client(**{"servers": "127.0.0.1:1", "prefix": "p", name: object()})
            self.assertNotIn("invalid keyword", str(failed.exception))

    def test_wrong_values(self):
        for params, text in (
            ({}, "servers is needed"),
            ({"servers": ""}, "servers is needed"),
            ({"servers": "127.0.0.1:1", "ttl": 1.5}, "ttl"),
            ({"servers": "127.0.0.1:1", "ttl": -1}, "ttl"),
            ({"servers": "127.0.0.1:1", "lookup_timeout": 0}, "lookup_timeout"),
            ({"servers": "127.0.0.1:1", "lookup_timeout": "1"}, "lookup_timeout"),
            ({"servers": "127.0.0.1:1", "num_clients": "4"}, "wrong type"),
            ({"servers": 5}, "wrong type"),
            ({"servers": "127.0.0.1:1", "verify": "false"}, "verify is true or false"),
            ({"servers": "127.0.0.1:1", "wait": 1}, "wait is true or false"),
            ({"servers": "127.0.0.1:1", "allow_clear": 0}, "allow_clear is true or false"),
            ({"servers": "127.0.0.1:1", "namespace": 1}, "namespace is a text"),
            ({"servers": "127.0.0.1:1", "namespace": "x" * 32}, "at most 31 bytes"),
            ({"servers": "127.0.0.1:1", "weights": 1}, "weights is a text"),
        ):
            with self.subTest(params), self.assertRaisesRegex(ValueError, text):
                lmcache.Client(**{"prefix": "p", **params})

    def test_a_native_plugin_needs_a_prefix(self):
        for prefix in ({}, {"prefix": ""}, {"prefix": None}):
            with self.assertRaisesRegex(ValueError, "prefix is needed.*KVRailL2Adapter"):
                lmcache.Client("127.0.0.1:1", **prefix)

    def test_a_namespace_for_each_fingerprint(self):
        prefix = fresh()
        clients = [
            self.client(prefix=prefix, **more)
            for more in ({}, {}, {"weights": "w"}, {"revision": "r"}, {"namespace": "mine"})
        ]
        self.assertTrue(clients[0].namespace.startswith("lmcache-"))
        self.assertTrue(clients[4].namespace.startswith("mine-"))
        self.assertEqual(len({client.namespace for client in clients}), 4)
        first, same, *others = clients

        def there():
            return [self.over(c, c.submit_batch_exists(["k"]))[2][0] for c in clients]

        self.assertTrue(self.over(first, first.submit_batch_set(["k"], [b"x"]))[0])
        self.assertEqual(there(), [True, True, False, False, False])
        for other in others:
            self.assertTrue(self.over(other, other.submit_batch_set(["k"], [b"y"]))[0])
        same.clear()
        self.assertEqual(there(), [False, False, True, True, True])
        with self.assertRaisesRegex(RuntimeError, "allow_clear is 0"):
            self.client(prefix=prefix, allow_clear=False).clear()
        self.assertTrue(self.over(first, first.submit_batch_set(["k"], [b"z"]))[0])
        self.assertEqual(there(), [True] * 5)

    def test_ttl_and_servers_as_a_list(self):
        client = self.client([server().address], ttl=3600, lookup_timeout=20)
        self.assertTrue(self.over(client, client.submit_batch_set(["k"], [b"x"]))[0])
        self.assertEqual(self.over(client, client.submit_batch_exists(["k"]))[2], [True])


class Key(typing.NamedTuple):
    model_name: str
    kv_rank: int
    object_group_id: int
    chunk_hash: bytes


class Bridge:
    """What KVRailL2Adapter needs of LMCache's NativeConnectorL2Adapter."""

    def __init__(self, client, max_capacity_gb=0, type_name=""):
        self._client, self.capacity, self.type_name = client, max_capacity_gb, type_name

    def report_status(self):
        return {"is_healthy": True, "type": self.type_name}

    def submit_store_task(self, keys, objects):
        return "task"

    submit_load_task = submit_store_task

    def close(self):
        self._client.close()


class Talking(Bridge):
    """One that submits, with keys as LMCache's bridge writes them."""

    def _keys(self, keys):
        return [
            f"{k.model_name}@{k.kv_rank:08x}@{k.object_group_id:x}@{k.chunk_hash.hex()}"
            for k in keys
        ]

    def submit_store_task(self, keys, objects):
        return self._client.submit_batch_set(self._keys(keys), [o.byte_array for o in objects])

    def submit_load_task(self, keys, objects):
        return self._client.submit_batch_get(self._keys(keys), [o.byte_array for o in objects])

    def submit_lookup_and_lock_task(self, keys, group_layout_descs):
        return self._client.submit_batch_exists(self._keys(keys))

    def delete(self, keys):
        self.deleting = self._client.submit_batch_delete(self._keys(keys))


class WithBridge(Case):
    bridge = Bridge

    def setUp(self):
        # LMCache's package in as many words as the adapter imports.
        name, modules = "", {}
        for part in "lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter".split("."):
            name = f"{name}.{part}" if name else part
            modules[name] = types.ModuleType(name)
        modules[name].NativeConnectorL2Adapter = self.bridge
        self.enterContext(mock.patch.dict(sys.modules, modules))
        self.adapter = lmcache._make_adapter()

    def make(self, desc=None, **params):
        given = {"servers": server().address, "prefix": fresh(), "num_clients": 1, **params}
        adapter = self.adapter(given, **({"l1_memory_desc": desc} if desc else {}))
        self.addCleanup(adapter.close)
        return adapter


class Adapter(WithBridge):
    keys = [types.SimpleNamespace(model_name="m", kv_rank=0, object_group_id=0)]

    def object(self, address, nbytes):
        metadata = types.SimpleNamespace(shapes=[(2, nbytes)], dtypes=["torch.uint8"])
        return types.SimpleNamespace(data_ptr=address, get_size=lambda: nbytes, metadata=metadata)

    def desc(self, memory, size=None, **stable):
        address = lmcache_address(memory)
        return types.SimpleNamespace(
            ptr=address, size=size or len(memory), align_bytes=4096, **stable
        )

    def test_memory_that_stays_is_registered(self):
        memory = bytearray(1 << 20)
        for stable in ({"stable_registration_size": None}, {"stable_registration_size": 1 << 20}):
            adapter = self.make(self.desc(memory, **stable))
            self.assertEqual(adapter.registered_bytes, 1 << 20)
            client = adapter._client
            view = memoryview(memory)[4096 : 4096 + 70000]
            view[:] = os.urandom(70000)
            wanted = bytes(view)
            self.assertTrue(self.over(client, client.submit_batch_set(["k"], [view]))[0])
            view[:] = bytes(70000)
            self.assertEqual(
                self.over(client, client.submit_batch_get(["k"], [view])), (True, "", None)
            )
            self.assertEqual(bytes(view), wanted)
            view.release()
            adapter.close()

    def test_memory_that_grows_is_registered_as_objects_come(self):
        step, size = 64 << 20, 160 << 20
        memory = mmap.mmap(-1, size)
        desc = self.desc(memory, stable_registration_size=1 << 20)
        adapter = self.make(desc)
        self.assertEqual(adapter.registered_bytes, 1 << 20)
        self.assertFalse(adapter._arena.complete)

        def come(offset, nbytes=4096, submit=adapter.submit_store_task):
            objects = [self.object(desc.ptr + offset, nbytes)]
            self.assertEqual(submit(self.keys, objects), "task")
            adapter._arena.join()
            return adapter.registered_bytes

        self.assertEqual(come(0), 1 << 20)
        self.assertEqual(come(-8192), 1 << 20, "below the arena")
        self.assertEqual(come(size - 1), 1 << 20, "beyond its end")
        self.assertEqual(come(1 << 20), step)
        self.assertEqual(come(step, submit=adapter.submit_load_task), 2 * step)
        self.assertEqual(come(4096), 2 * step)
        self.assertEqual(come(size - 4096), size)
        self.assertTrue(adapter._arena.complete)
        client = adapter._client
        view = memoryview(memory)[3 * step // 2 : 3 * step // 2 + 70000]
        self.assertTrue(self.over(client, client.submit_batch_set(["k"], [view]))[0])
        self.assertEqual(
            self.over(client, client.submit_batch_get(["k"], [view])), (True, "", None)
        )
        view.release()
        adapter.close()
        memory.close()

    def test_an_arena_outlives_faults_and_forks(self):
        step = 64 << 20
        faults = [MemoryError(), MemoryError()]

        def register(address, nbytes):
            if faults:
                raise faults.pop()

        with self.assertLogs("kvrail.lmcache", "WARNING"):
            arena = _arena.Arena(register, 4096, 4 * step, step)
        self.assertTrue(arena.complete)
        arena = _arena.Arena(lambda address, nbytes: None, 4096, 4 * step, step)
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError):
            with self.assertRaises(RuntimeError):
                arena.seen(4096 + step, 1)
        arena.seen(4096 + 2 * step, 1)
        arena.join()
        self.assertEqual(arena.registered_bytes, 3 * step, "after a thread that could not start")
        with arena._lock:
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                arena.seen(4096 + 3 * step, 1)
                os._exit(0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_memory_that_cannot_be_registered_when_it_grows_is_copied(self):
        memory = bytearray(1 << 20)
        adapter = self.make(
            types.SimpleNamespace(
                ptr=lmcache_address(memory), size=1 << 45, stable_registration_size=1 << 20
            )
        )
        objects = [self.object(lmcache_address(memory) + (1 << 40), 1)]
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            adapter.submit_store_task(self.keys, objects)
            adapter._arena.join()
        self.assertIn("will be copied", lines.output[0])
        self.assertTrue(adapter._arena.complete)
        self.assertEqual(adapter.registered_bytes, 1 << 20)
        with self.assertNoLogs("kvrail.lmcache", "WARNING"):
            adapter.submit_store_task(self.keys, objects)

    def test_objects_of_another_shape_do_not_end_a_submit(self):
        adapter = self.make(self.desc(bytearray(1 << 20), size=1 << 30, stable_registration_size=1))
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            self.assertEqual(adapter.submit_store_task(self.keys, [object()]), "task")
        self.assertIn("cannot be followed", lines.output[0])

    def test_memory_of_which_nothing_is_known_is_copied(self):
        memory = bytearray(1 << 20)
        self.assertEqual(self.make(self.desc(memory)).registered_bytes, 0)
        self.assertEqual(self.make().registered_bytes, 0)
        told = self.desc(memory, stable_registration_size=None)
        self.assertEqual(self.make(told, register=False).registered_bytes, 0)

    def test_memory_that_cannot_be_registered_is_copied(self):
        unmapped = types.SimpleNamespace(ptr=4096, size=4096, stable_registration_size=4096)
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            adapter = self.make(unmapped)
        self.assertEqual(adapter.registered_bytes, 0)
        self.assertIn("copied", lines.output[0])

    def test_parameters(self):
        self.assertEqual(self.make(max_capacity_gb=2).capacity, 2)
        for params, text in (
            ({"host": "h"}, "'host'.*max_capacity_gb.*register.*servers"),
            ({"max_capacity_gb": -1}, "max_capacity_gb"),
            ({"max_capacity_gb": "1"}, "max_capacity_gb"),
            ({"register": 1}, "register"),
        ):
            with self.subTest(params), self.assertRaisesRegex(ValueError, text):
                self.make(**params)

    def test_a_bridge_that_fails_closes_the_client(self):
        clients = []
        with mock.patch.object(Bridge, "__init__", side_effect=RuntimeError("no")):
            with mock.patch.object(lmcache.Client, "close", lambda self: clients.append(self)):
                with self.assertRaises(RuntimeError):
                    self.make()
        self.assertEqual(len(clients), 1)

    def test_the_bridge_of_0_5_7_is_told_where_values_lie(self):
        class Newer(Bridge):
            def __init__(self, client, memory_tags, max_capacity_gb=0, type_name=""):
                super().__init__(client, max_capacity_gb, type_name)
                self.tags = memory_tags

        api = types.ModuleType("lmcache.v1.distributed.api")
        api.MemoryTags = lambda segment, residency: (segment, residency)
        api.MemorySegment = types.SimpleNamespace(STORAGE="storage")
        api.MemoryResidency = types.SimpleNamespace(REMOTE="remote")
        sys.modules[api.__name__] = api
        sys.modules[lmcache._BRIDGE].NativeConnectorL2Adapter = Newer
        self.adapter = lmcache._make_adapter()
        self.assertEqual(self.make().tags, ("storage", "remote"))

    def test_status(self):
        adapter = self.make(self.desc(bytearray(4096), stable_registration_size=None))
        status = adapter.report_status()
        self.assertEqual((status["is_healthy"], status["type"]), (True, "kvrail"))
        self.assertEqual(status["registered_bytes"], 4096)
        self.assertTrue(
            all(type(v) is int for v in status["counters"].values()) and status["counters"]
        )
        adapter.close()
        self.assertFalse(adapter.report_status()["is_healthy"])


class Values(WithBridge):
    bridge = Talking

    def setUp(self):
        super().setUp()
        self.prefix = fresh()

    def engine(self, dtype, shape=(2, 4, 16)):
        """An adapter, and a value of a layout as LMCache describes it."""
        adapter = self.make(prefix=self.prefix)
        adapter.shape, adapter.dtype = shape, dtype
        return adapter

    def key(self, name=b"chunk", group=0, rank=0x02000200):
        return types.SimpleNamespace(
            model_name="m", kv_rank=rank, object_group_id=group, chunk_hash=name
        )

    def value(self, adapter, data, **described):
        told = {"shape": adapter.shape, "dtype": adapter.dtype, "shapes": None, "dtypes": None}
        if "shapes" not in described and "shape" not in described:
            described = {"shapes": [adapter.shape], "dtypes": [adapter.dtype]}
        return types.SimpleNamespace(
            metadata=types.SimpleNamespace(**{**told, **described}), byte_array=memoryview(data)
        )

    def groups(self, adapter):
        return {0: types.SimpleNamespace(shapes=[adapter.shape], dtypes=[adapter.dtype])}

    def stores(self, adapter, data, key=None, **described):
        objects = [self.value(adapter, data, **described)]
        id = adapter.submit_store_task([key or self.key()], objects)
        self.assertEqual(self.over(adapter._client, id), (True, "", None))

    def loads(self, adapter, key=None, **described):
        """The value, or None for a miss."""
        into = bytearray(8)
        objects = [self.value(adapter, into, **described)]
        id = adapter.submit_load_task([key or self.key()], objects)
        ok, text, found = self.over(adapter._client, id)
        self.assertTrue(ok, text)
        return bytes(into) if found is None else None

    def finds(self, adapter, groups=None, key=None):
        groups = self.groups(adapter) if groups is None else groups
        id = adapter.submit_lookup_and_lock_task([key or self.key()], groups)
        ok, text, (found,) = self.over(adapter._client, id)
        self.assertTrue(ok, text)
        return found


class Layouts(Values):
    """Which adapters find each other's values."""

    def test_the_same_layout_is_shared_and_no_other(self):
        one = self.engine("torch.float16")
        self.stores(one, b"8 bytes!")
        self.assertTrue(self.finds(one))
        self.assertEqual(self.loads(one), b"8 bytes!")
        same = self.engine("torch.float16")
        self.assertTrue(self.finds(same))
        self.assertEqual(self.loads(same), b"8 bytes!")
        for other in (
            self.engine("torch.bfloat16"),
            self.engine("torch.float16", (4, 2, 16)),
            self.engine("torch.uint8"),
        ):
            self.assertFalse(self.finds(other))
            self.assertIsNone(self.loads(other))
            self.stores(other, b"its own!")
            self.assertEqual(self.loads(other), b"its own!")
        self.assertEqual(self.loads(one), b"8 bytes!")

    def test_older_descriptions_count_too(self):
        one = self.engine("torch.float16")
        old = {"shape": one.shape, "dtype": one.dtype}
        self.stores(one, b"8 bytes!", **old)
        self.assertTrue(self.finds(one))
        self.assertIsNone(self.loads(one, shape=one.shape, dtype="torch.bfloat16"))

    def test_bytes_of_a_serde_are_of_the_layout_that_was_looked_up(self):
        bytes_ = {"shapes": [(8,)], "dtypes": ["torch.uint8"]}
        one, same = self.engine("torch.float16"), self.engine("torch.float16")
        other = self.engine("torch.bfloat16")
        for adapter in one, other:
            self.assertFalse(self.finds(adapter))
        self.stores(one, b"8 bytes!", **bytes_)
        self.assertTrue(self.finds(same))
        self.assertEqual(self.loads(same, **bytes_), b"8 bytes!")
        self.assertFalse(self.finds(other))
        self.assertIsNone(self.loads(other, **bytes_))

    def test_groups_and_numbers_of_ranks_have_layouts_of_their_own(self):
        bytes_ = {"shapes": [(8,)], "dtypes": ["torch.uint8"]}
        one = self.engine("torch.float16")
        self.assertFalse(self.finds(one))
        for key in self.key(group=1), self.key(rank=0x04000400):
            with self.assertLogs("kvrail.lmcache", "WARNING"):
                one._layouts._own_said = False
                self.stores(one, b"8 bytes!", key, **bytes_)
        self.assertFalse(self.finds(one, key=self.key(rank=0x04000400)))

    def test_where_nothing_is_told_nobody_else_finds_it(self):
        bytes_ = {"shape": (8,), "dtype": "torch.uint8"}
        one, other = self.engine(None), self.engine(None)
        nothing = {0: types.SimpleNamespace(shapes=[], dtypes=[])}  # as lmcache bench l2
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            self.stores(one, b"8 bytes!", **bytes_)
            for groups in nothing, {}:
                self.assertTrue(self.finds(one, groups))
                self.assertFalse(self.finds(other, groups))
            self.assertEqual(self.loads(one, **bytes_), b"8 bytes!")
            self.assertIsNone(self.loads(other, **bytes_))
        self.assertEqual(len(lines.output), 2, "a line of each")
        self.assertIn("does not tell types and shapes", lines.output[0])

    def test_an_interface_that_moved_loses_no_request(self):
        one, other = self.engine("torch.float16"), self.engine("torch.float16")
        moved = types.SimpleNamespace(byte_array=b"8 bytes!")
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            self.over(one._client, one.submit_store_task([self.key()], [moved]))
            self.assertTrue(self.finds(one, groups="?"))
        self.assertEqual(len(lines.output), 1)
        self.assertIn("AttributeError", lines.output[0])
        self.assertFalse(self.finds(other))

    def test_what_is_deleted_is_gone(self):
        one = self.engine("torch.float16")
        self.stores(one, b"8 bytes!")
        one.delete([self.key()])
        self.assertTrue(self.over(one._client, one.deleting)[0])
        self.assertFalse(self.finds(one))


class Accounting(Talking):
    """One that notes what it stored, as LMCache's bridge does."""

    def __init__(self, client, **params):
        super().__init__(client, **params)
        self._lock, self._key_sizes, self.deleted, self.fails = threading.Lock(), {}, [], False

    def submit_store_task(self, keys, objects):
        with self._lock:
            id = super().submit_store_task(keys, objects)
        self.pending = {k: len(o.byte_array) for k, o in zip(keys, objects)}
        return id

    def settle(self, ok):
        with self._lock:
            self._key_sizes |= self.pending if ok else {}

    def _notify_keys_deleted(self, keys, sizes):
        if self.fails:
            raise ValueError("no listener")
        self.deleted += zip(keys, sizes)


class Removals(Values):
    """Values that servers remove leave LMCache's account."""

    bridge = Accounting

    def setUp(self):
        super().setUp()
        self.own = kvrail.Server(memory_mb=64, worker_threads=1, events="on")
        self.addCleanup(self.own.close)

    def key(self, name=b"chunk", group=0, rank=0x02000200):
        return Key("m", rank, group, name)

    def following(self, **params):
        """An adapter whose follower has begun."""
        adapter = self.make(servers=self.own.address, prefix=self.prefix, events=True, **params)
        adapter.shape, adapter.dtype = (2, 4, 16), "torch.float16"
        self.until(lambda: self.removed(adapter, b"first"))
        return adapter

    def removed(self, adapter, name):
        """Store a value, and delete it at the server: whether LMCache has heard of it."""
        self.stored(adapter, [name])
        self.remove(adapter)
        return self.until(lambda: (self.key(name), 8) in adapter.deleted, 0.2)

    def stored(self, adapter, names, ok=True):
        keys = [self.key(name) for name in names]
        id = adapter.submit_store_task(keys, [self.value(adapter, b"8 bytes!") for _ in keys])
        self.assertEqual(self.over(adapter._client, id)[0], ok)
        adapter.settle(ok)

    def remove(self, adapter):
        """Delete all values of the namespace but not by LMCache."""
        space = adapter._client.namespace
        with kvrail.Client(self.own.address, num_clients=1, namespace=space) as client:
            client.clear()

    def until(self, holds, seconds=30):
        end = time.monotonic() + seconds
        while not (there := holds()) and time.monotonic() < end:
            time.sleep(0.01)
        return there

    def test_what_a_server_removed_leaves_the_account(self):
        adapter = self.following()
        adapter.deleted.clear()
        names = [b"%d" % i for i in range(20)] + [b"long" * 100]  # beyond 128 bytes: folded
        self.stored(adapter, names)
        self.assertEqual(len(adapter._key_sizes), 21)
        self.remove(adapter)
        self.assertTrue(self.until(lambda: len(adapter.deleted) == 21), adapter.deleted)
        self.assertEqual(set(adapter.deleted), {(self.key(name), 8) for name in names})
        self.assertEqual((adapter._key_sizes, adapter._client._names), ({}, {}))
        self.stored(adapter, names[:1])
        self.assertEqual(adapter._key_sizes, {self.key(names[0]): 8})

    def test_what_lmcache_deleted_itself_is_reported_once_and_forgotten(self):
        adapter = self.following()
        adapter.deleted.clear()
        self.stored(adapter, [b"a", b"b"])
        adapter._key_sizes.clear()  # as its bridge does at the completion
        self.remove(adapter)
        self.assertTrue(self.until(lambda: not adapter._client._names))
        self.assertEqual(adapter.deleted, [])

    def test_a_store_that_failed_is_forgotten(self):
        adapter = self.following()
        with self.assertLogs("kvrail.lmcache", "WARNING"):
            keys, big = [self.key(b"big")], self.value(adapter, bytes(80 << 20))
            id = adapter.submit_store_task(keys, [big])
            self.assertFalse(self.over(adapter._client, id)[0])
        self.assertEqual((adapter._client._names, adapter._client._storing), ({}, {}))

    def test_a_listener_that_fails_does_not_end_it(self):
        adapter = self.following()
        with self.assertLogs("kvrail._follower", "WARNING") as lines:
            adapter.fails = True
            self.removed(adapter, b"lost")
            self.assertTrue(self.until(lambda: not adapter._key_sizes))
            time.sleep(0.1)
        self.assertIn("no listener", lines.output[0])
        adapter.fails = False
        self.assertTrue(self.removed(adapter, b"again"))

    def test_it_is_off_by_default_and_needs_names(self):
        adapter = self.make(servers=self.own.address, prefix=self.prefix)
        adapter.shape, adapter.dtype = (2, 4, 16), "torch.float16"
        self.stored(adapter, [b"a"])
        self.assertIsNone(adapter._client._names)
        for text, params in (
            ("events is true or false, not 1", {"events": 1}),
            ("events and seal_names exclude each other", {"events": True, "seal_names": True}),
        ):
            with self.assertRaisesRegex(ValueError, text):
                self.make(**params)

    def test_it_ends_with_its_adapter(self):
        before = threading.active_count()
        adapter = self.following()
        adapter.close()
        self.assertTrue(self.until(lambda: threading.active_count() <= before))


class NoAccount(WithBridge):
    def test_a_bridge_without_an_account(self):
        with self.assertLogs("kvrail.lmcache", "WARNING") as lines:
            self.make(events=True)
        self.assertIn("events has no effect: this version of LMCache has no _lock", lines.output[0])


def lmcache_address(memory):
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class WithoutLMCache(unittest.TestCase):
    def test_the_adapter_says_what_it_needs(self):
        with mock.patch.dict(sys.modules, {"lmcache": None}):
            with self.assertRaisesRegex(ImportError, "needs LMCache"):
                lmcache.KVRailL2Adapter
        with self.assertRaisesRegex(AttributeError, "KVRailL2AdapterConfig"):
            lmcache.KVRailL2AdapterConfig


for name in "kvrail.lmcache", "kvrail._follower":
    logging.getLogger(name).propagate = False
if __name__ == "__main__":
    unittest.main()
