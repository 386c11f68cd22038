# SPDX-License-Identifier: Apache-2.0
"""Followers of the servers' events: what they report is what exists, from a snapshot or a position on."""

import asyncio
import threading
import time
import unittest

import kvrail
from common import fresh

SECONDS = 60  # a limit; nothing here takes so long


def until(follower, done):
    """Events up to and with the first for which done(event) is true."""
    got = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for event in follower.next(0.2):
            got.append(event)
        if any(done(event) for event in got):
            return got
    raise AssertionError(f"it did not come: {got}")


def about(key, kind):
    return lambda event: event.key == key.encode() and event.type == kind


class Followers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = kvrail.Server(memory_mb=64, events="on", node_id="node")
        cls.address = "node=" + cls.server.address
        cls.client = kvrail.Client(cls.address, num_clients=2)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.close()

    def test_snapshot_then_what_happens(self):
        key, other = fresh(), fresh()
        self.client.put(key, b"12345")
        with self.client.events() as follower:
            got = until(follower, lambda event: event.type == "synced")
            self.assertEqual("cleared", got[0].type)
            (stored,) = [event for event in got if event.key == key.encode()]
            self.assertEqual(("stored", 5, "memory", "", 0), (*stored[0:1], *stored[5:8], stored.sequence))
            self.assertEqual("node", stored.node)
            self.client.put(other, b"1")
            self.client.delete(key)
            got = until(follower, about(key, "removed"))
            self.assertIn((other.encode(), "stored"), [(event.key, event.type) for event in got])
            self.assertEqual({"node": (got[-1].epoch, got[-1].sequence)}, follower.positions)

    def test_goes_on_behind_its_positions(self):
        key = fresh()
        with self.client.events() as follower:
            until(follower, lambda event: event.type == "synced")
            positions = follower.positions
        self.client.put(key, b"1")
        with self.client.events(positions) as follower:
            got = until(follower, about(key, "stored"))
        self.assertNotIn("cleared", [event.type for event in got])
        with self.client.events({"node": (1, 1)}, new=True) as follower:
            got = until(follower, lambda event: True)
        self.assertEqual("gap", got[0].type)

    def test_only_new_events(self):
        with self.client.events(new=True) as follower:
            self.assertEqual([], follower.next(0.3))
            key = fresh()
            self.client.put(key, b"1")
            got = until(follower, about(key, "stored"))
            self.assertEqual([key.encode()], [event.key for event in got])

    def test_iteration(self):
        key = fresh()
        timer = threading.Timer(0.3, self.client.put, (key, b"1"))
        timer.start()
        with self.client.events(new=True) as follower:
            follower.next(0.1)
            for event in follower:
                if event.key == key.encode():
                    break
        timer.join()

    def test_as_many_as_there_are_connections(self):
        first, second = self.client.events(), self.client.events()
        with self.assertRaisesRegex(kvrail.Busy, "follower"):
            self.client.events()
        first.close()
        first.close()
        with self.assertRaises(kvrail.Closed):
            first.next()
        second.close()
        self.client.events().close()

    def test_bad_arguments(self):
        with self.assertRaises(TypeError):
            self.client.events({"node": 5})
        with self.assertRaises(TypeError):
            self.client.events({"node": ("x", 5)})
        with self.client.events() as follower, self.assertRaises(ValueError):
            follower.next(-1)

    def test_close_ends_a_waiting_call(self):
        client = kvrail.Client(self.address)
        follower = client.events(new=True)
        raised = []

        def wait():
            try:
                follower.next(SECONDS)
            except kvrail.Closed as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.3)
        with self.assertRaises(kvrail.Busy):
            follower._native.events_next(follower._following.number, 0)
        client.close()
        thread.join(SECONDS)
        self.assertEqual(1, len(raised))
        follower.close()

    def test_a_server_without_events(self):
        with kvrail.Server(memory_mb=16) as server, kvrail.Client(server.address) as client:
            with client.events() as follower:
                got = until(follower, lambda event: True)
                self.assertEqual(("gap", 0), (got[0].type, got[0].sequence))

    def test_aio(self):
        async def run():
            async with kvrail.aio.Client(self.address) as client:
                key = fresh()
                async with client.events() as follower:
                    async for event in follower:
                        if event.type == "synced":
                            break
                    await client.put(key, b"1")
                    async for event in follower:
                        if event.key == key.encode():
                            self.assertEqual("stored", event.type)
                            break
                    return follower.positions

        self.assertIn("node", asyncio.run(asyncio.wait_for(run(), SECONDS)))


if __name__ == "__main__":
    unittest.main()
