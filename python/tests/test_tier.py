# SPDX-License-Identifier: Apache-2.0
"""Values that a server has on its NVMe tier alone: where() and memory_only."""

import asyncio
import pathlib
import tempfile
import time
import unittest

import kvrail
from kvrail import aio

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


if __name__ == "__main__":
    unittest.main()
