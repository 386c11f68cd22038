# SPDX-License-Identifier: Apache-2.0
"""The storage class for MLPerf Storage's KV-cache workload; tests/engines/mlperf.sh runs the workload itself."""

import types
import unittest

try:
    import numpy as np
    from kvrail import mlperf
except ImportError:
    np = None

import kvrail
from common import server


@unittest.skipIf(np is None, "numpy is not installed")
class StorageTest(unittest.TestCase):
    def setUp(self):
        self.client = kvrail.Client(server().address, namespace="mlperf-test", num_clients=1)
        self.addCleanup(self.client.close)
        self.storage = mlperf.Storage(self.client, types.SimpleNamespace)
        self.addCleanup(self.storage.clear)

    def entry(self, seed, nbytes):
        return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8).view(np.float16)

    def test_what_was_written_is_read(self):
        for tokens in (1, 1000):
            entry = self.entry(tokens, 2 * tokens * 48).reshape(2, tokens, 24)
            times = self.storage.write(f"entry-{tokens}", entry)
            self.assertGreaterEqual(times.total, times.device)
            back, times = self.storage.read(f"entry-{tokens}")
            self.assertEqual(back.shape, entry.shape)
            self.assertEqual(back.dtype, entry.dtype)
            self.assertEqual(back.tobytes(), entry.tobytes())
            self.assertAlmostEqual(times.total, times.device + times.host)

    def test_bytes_come_back_with_their_length(self):
        for entry in (b"ends with zeros\0\0", bytearray(b"x" * 5000), memoryview(b"yy")):
            self.storage.write("bytes", entry)
            back, _ = self.storage.read("bytes")
            self.assertEqual(len(back), len(entry))
            self.assertEqual(bytes(back), bytes(entry))
            self.storage.delete("bytes")

    def test_a_long_entry_is_several_values(self):
        entry = self.entry(3, (16 << 20) + 2)
        self.storage.write("long", entry)
        self.assertEqual(self.client.exists(["long/0", f"long/{16 << 20}"]), [True, True])
        self.assertEqual(self.storage.read("long")[0].tobytes(), entry.tobytes())
        self.storage.delete("long")
        self.assertEqual(self.client.exists(["long/0", f"long/{16 << 20}"]), [False, False])

    def test_another_entry_of_the_same_key_replaces_it(self):
        for seed in (4, 5):
            self.storage.write("same", self.entry(seed, 512))
        self.assertEqual(self.storage.read("same")[0].tobytes(), self.entry(5, 512).tobytes())

    def test_an_entry_that_was_lost_is_counted(self):
        with self.assertRaisesRegex(KeyError, "never written"):
            self.storage.read("none")
        self.assertEqual(self.storage.failed, [])
        self.storage.write("lost", self.entry(6, 512))
        self.client.delete("lost/0")
        with self.assertRaisesRegex(KeyError, "do not have it any more"):
            self.storage.read("lost")
        self.assertEqual(len(self.storage.failed), 1)
