# SPDX-License-Identifier: Apache-2.0
"""No memory: every allocation of Python fails once in a submit and in a drain. Nothing is lost, held or broken."""

import gc
import select
import sys
import unittest

from common import NativeTest, fresh

try:
    from _testcapi import remove_mem_hooks, set_nomemory
except ImportError:
    set_nomemory = None

FAULTS = 60


@unittest.skipUnless(set_nomemory, "this Python has no module _testcapi")
class NoMemoryTest(NativeTest):
    def failing(self, fault, call):
        """Calls it, and lets allocation number `fault` fail; None if it had no memory."""
        try:
            set_nomemory(fault, fault + 1)
            try:
                return call()
            finally:
                remove_mem_hooks()
        except MemoryError:
            return None

    def test_submit_without_memory(self):
        keys, values = [fresh(), fresh() + "x" * 200], [bytearray(100), bytearray(200)]
        plain = max(sys.getrefcount(v) for v in values)
        refused = 0
        for fault in range(FAULTS):
            id = self.failing(fault, lambda: self.client.submit_batch_set(keys, values))
            refused += id is None
            over = []
            while id is not None and id not in over:
                select.select([self.client.event_fd()], [], [], 30)
                over += [o[0] for o in self.client.drain_results()]
            self.assertEqual(over, [] if id is None else [id])
            while any(
                sys.getrefcount(v) > plain for v in values
            ):  # begun, but there was no int for its id
                self.assertIsNone(id)
                self.assertEqual(self.client.drain_results(), [])
            for value in values:
                value.append(0)
                value.pop()
            del value
        self.assertGreater(refused, 0)
        self.assertLess(refused, FAULTS)

    def test_a_drain_without_memory_loses_nothing(self):
        refused = 0
        for drain in (self.client.drain_results, self.client.drain_completions):
            for fault in range(FAULTS):
                ids = [self.client.submit_batch_exists([fresh(), fresh()]) for _ in range(3)]
                over = []
                while len(over) < 3:
                    got = self.failing(fault, drain)
                    if got is None:
                        refused += 1
                        got = drain()
                    over += got
                self.assertEqual(sorted(o[0] for o in over), sorted(ids))
                self.assertTrue(all(o[1] in (0, True) for o in over), over)
        gc.collect()
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main()
