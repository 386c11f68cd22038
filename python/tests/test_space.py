# SPDX-License-Identifier: Apache-2.0
"""Namespaces: the same key in two of them is two keys, and clear() ends all values of one."""

import asyncio
import threading
import unittest

import kvrail
from common import completions, fresh, nobody, server
from kvrail import _native


class SpaceTest(unittest.TestCase):
    def setUp(self):
        self.space = fresh("space")
        self.client = self.open(self.space)

    def open(self, namespace=None, address=None):
        client = kvrail.Client(address or server().address, num_clients=1, namespace=namespace)
        self.addCleanup(client.close)
        return client

    def test_a_key_in_two_namespaces_is_two_keys(self):
        other, none, empty = self.open(fresh("space")), self.open(), self.open("")
        key = fresh()
        for i, client in enumerate((self.client, other, none)):
            self.assertEqual(client.exists([key]), [False])
            self.assertTrue(client.put(key, b"%d" % i))
        for i, client in enumerate((self.client, other, none)):
            self.assertEqual(client.get(key), b"%d" % i)
        self.assertEqual(empty.get(key), b"2")
        self.assertTrue(other.delete(key))
        self.assertEqual(
            [c.exists([key]) for c in (self.client, other, none)], [[True], [False], [True]]
        )

    def test_clear_ends_all_values_of_the_namespace(self):
        again, other = self.open(self.space), self.open(fresh("space"))
        keys = [fresh() for _ in range(40)]
        for client in (self.client, other):
            client.put_many(keys, [b"old" * (1 + 1000 * i) for i in range(len(keys))])
        first = again.clear()
        for client in (self.client, again):
            self.assertEqual(client.exists(keys), [False] * len(keys))
            self.assertEqual(client.prefix(keys), 0)
            self.assertEqual(client.get_many(keys, [bytearray(9) for _ in keys]), [None] * len(keys))
            for call in (client.get, client.view, client.ttl):
                with self.assertRaises(kvrail.NotFound):
                    call(keys[0])
            self.assertIs(client.pin(keys[0]), False)
        self.assertEqual(other.exists(keys), [True] * len(keys))
        self.assertTrue(self.client.put(keys[0], b"new"))
        self.assertEqual(again.get(keys[0]), b"new")
        self.assertGreater(self.client.clear(), first)
        self.assertEqual(self.client.counters()["CLEAR.ok"], 1)
        self.assertEqual(again.exists(keys), [False] * len(keys))

    def test_a_view_outlives_a_clear(self):
        key, value = fresh(), bytes(range(200)) * 100
        self.client.put(key, value)
        with self.client.view(key) as view:
            self.client.clear()
            self.assertEqual(memoryview(view), value)
        self.assertFalse(self.client.exists([key])[0])

    def test_a_put_that_began_before_a_clear_never_appears(self):
        """Each value has the generation that was known when its PUT was submitted."""
        key, ended, lock = fresh(), threading.Event(), threading.Lock()
        known = self.client.clear()

        def put():
            with _native.Client(server().address, num_clients=1, namespace=self.space) as client:
                while not ended.is_set():
                    with lock:
                        client.submit_batch_set([key], [b"%d" % known])
                    completions(client)

        writer = threading.Thread(target=put)
        writer.start()
        self.addCleanup(writer.join)
        self.addCleanup(ended.set)
        for _ in range(100):
            cleared = self.client.clear()
            try:
                self.assertGreaterEqual(int(self.client.get(key)), known)
            except kvrail.NotFound:
                pass
            with lock:
                known = cleared

    def test_all_servers_clear(self):
        second = kvrail.Server(memory_mb=64)
        self.addCleanup(second.close)
        both = self.open(self.space, f"{server().address},{second.address}")
        keys = [fresh() for _ in range(50)]
        both.put_many(keys, [b"v"] * len(keys))
        both.clear()
        self.assertEqual(both.exists(keys), [False] * len(keys))

    def test_after_a_restart_of_the_server(self):
        own = kvrail.Server(memory_mb=64)
        self.addCleanup(own.close)
        client, key = self.open(self.space, own.address), fresh()
        client.put(key, b"old")
        generation = client.clear()
        own.restart()
        while True:
            try:
                client.put(key, b"new")
                break
            except kvrail.PeerDown:
                pass
        self.assertEqual(self.open(self.space, own.address).get(key), b"new")
        self.assertGreater(client.clear(), generation)
        self.assertFalse(client.exists([key])[0])

    def test_asyncio(self):
        async def main():
            async with kvrail.aio.Client(
                server().address, num_clients=1, namespace=self.space
            ) as client:
                self.assertTrue(await client.put("key", b"value"))
                self.assertEqual(self.client.get("key"), b"value")
                self.assertGreater(await client.clear(), 0)
                self.assertEqual(await client.exists(["key"]), [False])
                self.assertIn(self.space, [s["name"] for s in await client.namespaces()])

        asyncio.run(main())

    def test_namespaces_are_listed(self):
        self.client.put("a", bytes(1000))
        self.client.get("a")
        with self.assertRaises(kvrail.NotFound):
            self.client.get("b")
        (mine,) = (s for s in self.client.namespaces() if s["name"] == self.space)
        self.assertEqual(mine["generation"], 0)
        self.assertEqual((mine["blocks"], mine["gets"], mine["hits"]), (1, 2, 1))
        self.assertGreaterEqual(mine["bytes"], 1000)
        generation = self.client.clear()
        (mine,) = (s for s in self.client.namespaces(0, timeout=5.0) if s["name"] == self.space)
        self.assertEqual(mine["generation"], generation)

    def test_wrong_names_and_calls(self):
        address = server().address
        for name in ("x" * 65, "\u00e9" * 33, "a\nb", "\x7f"):
            with self.assertRaisesRegex(kvrail.Invalid, "namespace"):
                kvrail.Client(address, namespace=name)
        with self.assertRaisesRegex(TypeError, "namespace must be a str, not bytes"):
            kvrail.Client(address, namespace=b"x")
        with self.assertRaisesRegex(ValueError, "zero byte"):
            kvrail.Client(address, namespace="a\0b")
        for call in (self.client.clear, self.client.namespaces):
            with self.assertRaisesRegex(ValueError, "timeout"):
                call(timeout=-1)
        with self.assertRaises(kvrail.Invalid):
            self.client.namespaces(7)
        self.client.close()
        for call in (self.client.clear, self.client.namespaces):
            with self.assertRaises(kvrail.Closed):
                call()

    def test_without_a_server_it_raises_and_says_which_is_down(self):
        address, held = nobody()
        self.addCleanup(held.close)
        client = self.open(self.space, address)
        for call in (client.clear, client.namespaces):
            with self.assertRaisesRegex(kvrail.PeerDown, f"{address} is down"):
                call(timeout=5.0)
        with _native.Client(address, num_clients=1) as native:
            self.assertEqual(native.clear(5.0), kvrail.PeerDown.code)


if __name__ == "__main__":
    unittest.main()
