# SPDX-License-Identifier: Apache-2.0
"""Values that a server has on its NVMe tier alone: where(), and memory_only of clients and adapters."""

import asyncio
import ctypes
import importlib.util
import pathlib
import tempfile
import time
import types
import unittest

import kvrail
import stub_engines
from common import completions, fresh
from kvrail import aio, lmcache
from stub_engines import Context, Job, LookupResult

LENGTH, KEYS = 100_000, [f"key-{i}" for i in range(200)]
SECONDS = 60  # a limit


class Tier(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = kvrail.Server(
            memory_mb=8,
            worker_threads=1,
            landing_mb=8,
            tier=f"{pathlib.Path(cls.folder.name) / 'tier.img'}:64M",
            tier_segment="4M",
        )
        cls.client = kvrail.Client(cls.server.address)
        value, until = bytes(LENGTH), time.monotonic() + SECONDS
        while "tier" not in cls.client.where(KEYS):
            assert time.monotonic() < until
            cls.client.put_many(KEYS, [value] * len(KEYS))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.server.close()
        cls.folder.cleanup()

    def test_memory_only_leaves_the_tier_alone(self) -> None:
        where = self.client.where([*KEYS, "missing"])
        self.assertIsNone(where[-1])
        key = KEYS[where.index("tier")]
        self.assertEqual(self.client.exists([key]), [True])
        into = bytearray(LENGTH)
        self.assertEqual(self.client.get_many([key], [into], memory_only=True), [None])
        self.assertEqual(self.client.where([key]), ["tier"])
        self.assertEqual(self.client.get_many([key], [into]), [LENGTH])
        self.assertEqual(self.client.where([key]), ["memory"])
        self.assertEqual(self.client.get_many([key], [into], memory_only=True), [LENGTH])

    def test_aio(self) -> None:
        async def run() -> None:
            async with aio.Client(self.server.address) as client:
                where = await client.where(KEYS)
                key = KEYS[len(KEYS) - 1 - where[::-1].index("tier")]
                into = bytearray(LENGTH)
                lengths = await client.get_many([key], [into], memory_only=True)
                self.assertEqual(lengths, [None])

        asyncio.run(run())

    # ---- adapters ----

    def on_the_tier(self, names: list[bytes], namespace: str) -> bytes:
        """Store values under these names; returns one that is on the tier alone."""
        value, until = bytes(LENGTH), time.monotonic() + SECONDS
        with kvrail.Client(self.server.address, namespace=namespace) as client:
            while "tier" not in (where := client.where(names)):
                self.assertLess(time.monotonic(), until)
                client.put_many(names, [value] * len(names))
            return names[where.index("tier")]

    def test_lmcache(self) -> None:
        def over(client: lmcache.Client, id: int) -> tuple:
            ((got, *rest),) = completions(client, drain=client.drain_completions)
            self.assertEqual(got, id)
            return tuple(rest)

        prefix = fresh() + "/"
        params = {"prefix": prefix, "num_clients": 1}
        plain = lmcache.Client(self.server.address, **params)
        self.addCleanup(plain.close)
        careful = lmcache.Client(self.server.address, memory_only=True, **params)
        self.addCleanup(careful.close)
        names = [f"{prefix}{i}".encode() for i in range(200)]
        key = self.on_the_tier(names, plain.namespace)[len(prefix) :].decode()
        into = memoryview(bytearray(LENGTH))
        miss, hit = (True, "", [False]), (True, "", [True])
        self.assertEqual(over(careful, careful.submit_batch_exists([key])), miss)
        self.assertEqual(over(careful, careful.submit_batch_get([key], [into])), miss)
        self.assertEqual(over(plain, plain.submit_batch_exists([key])), hit)
        self.assertEqual(over(plain, plain.submit_batch_get([key], [into])), (True, "", None))
        self.assertEqual(over(careful, careful.submit_batch_exists([key])), hit)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "kvrail.vllm needs numpy")
    def test_vllm(self) -> None:
        from test_vllm import spec

        module, _ = stub_engines.vllm(False)
        self.addCleanup(stub_engines.remove)
        view = memoryview(bytearray(LENGTH)).cast("B", (1, LENGTH))

        def tier(**options: int) -> types.SimpleNamespace:
            made = module.KVRailTierManager(
                spec(), view, "kvrail", servers=self.server.address, num_clients=1, **options
            )
            self.addCleanup(made.shutdown)
            return made

        def lookup(of: types.SimpleNamespace, key: bytes) -> LookupResult:
            context = Context(fresh("request"))
            while (result := of.lookup(key, context)) is LookupResult.RETRY:
                of.on_schedule_end(None)
                time.sleep(0.001)
            of.on_request_finished(context)
            return result

        def load(of: types.SimpleNamespace, key: bytes) -> bool:
            of.submit_load(Job(1, [key], [0], True))
            of._transfers_await()
            (result,) = of.get_finished_jobs()
            return result.success

        careful, plain = tier(memory_only=1), tier()
        space = module.keys.namespace("vllm", **plain._fields)
        key = self.on_the_tier([fresh().encode() for _ in range(200)], space)
        self.assertIs(lookup(careful, key), LookupResult.MISS)
        self.assertFalse(load(careful, key))
        self.assertEqual(careful._said, set())  # a miss is no failure
        self.assertIs(lookup(plain, key), LookupResult.HIT)
        self.assertTrue(load(plain, key))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "kvrail.sglang needs numpy")
    def test_sglang(self) -> None:
        import test_sglang

        case = test_sglang.ShapeTest()
        case.setUp()
        self.addCleanup(case.doCleanups)

        def backend(**options: int) -> types.SimpleNamespace:
            return case.backend(self.server.address, options)

        careful, plain = backend(memory_only=1), backend()
        value = bytearray(LENGTH)
        place = (ctypes.addressof(ctypes.c_char.from_buffer(value)), LENGTH)
        names, until = [fresh().encode() for _ in range(200)], time.monotonic() + SECONDS
        while 2 not in (found := plain._look_up(names)):
            self.assertLess(time.monotonic(), until)
            plain._store(names, [place] * len(names))
        key = names[found.index(2)]
        self.assertEqual(careful._look_up([key]), [0])
        self.assertEqual(careful._load([key], [place]), [False])
        self.assertEqual(careful._failed, 0)
        self.assertEqual(plain._load([key], [place]), [True])
        self.assertEqual(careful._load([key], [place]), [True])


if __name__ == "__main__":
    unittest.main()
