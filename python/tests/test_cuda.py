# SPDX-License-Identifier: Apache-2.0
"""Memory that CUDA pinned: registered, PUT from, GET into, and the GPU sees it. Skipped without PyTorch and a GPU."""

from __future__ import annotations

import unittest
from typing import Any

import kvrail

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

STEP, BLOCKS = 1 << 20, 64


def block(tensor: Any, i: int) -> memoryview:
    return memoryview(tensor.numpy())[i * STEP : (i + 1) * STEP]


@unittest.skipUnless(torch and torch.cuda.is_available(), "there is no PyTorch with a GPU here")
class CudaTest(unittest.TestCase):
    def test_pinned_memory_is_registered_and_the_gpu_sees_what_came(self) -> None:
        a = torch.randint(0, 256, (BLOCKS * STEP,), dtype=torch.uint8).pin_memory()
        b = torch.zeros(BLOCKS * STEP, dtype=torch.uint8).pin_memory()
        self.assertTrue(a.is_pinned() and b.is_pinned())
        with kvrail.Server() as server, kvrail.Client(server.address) as client:
            with client.register(a.numpy()), client.register(b.numpy()):
                for i in range(BLOCKS):
                    client.put(b"k%d" % i, block(a, i))
                for i in range(BLOCKS):
                    self.assertEqual(client.get(b"k%d" % i, block(b, i)), STEP)
                self.assertTrue(torch.equal(b.cuda().cpu(), a))
                for i in range(20):  # what the GPU writes is what is stored
                    a[:STEP].copy_(torch.full((STEP,), i + 1, dtype=torch.uint8, device="cuda"))
                    client.put(b"r%d" % i, block(a, 0))
                    self.assertEqual(client.get(b"r%d" % i, block(b, 0)), STEP)
                    self.assertEqual((int(b[0]), int(b[STEP - 1])), (i + 1, i + 1))


if __name__ == "__main__":
    unittest.main()
