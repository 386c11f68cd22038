# SPDX-License-Identifier: Apache-2.0
"""Loads in parts, and prefixes: what has come may be used while the rest is under way; servers never raise."""

import asyncio
import os
import random
import signal
import threading
import time
import unittest

import kvrail
from common import NativeTest, completions, fresh, freeze, nobody, server

PARTS, PART, BLOCKS = 8, 5000, 24
NBYTES = PARTS * PART


def blocks(client, count=BLOCKS):
    """Stores so many values. Returns keys and values."""
    rng = random.Random(count)
    keys = [fresh("block") for _ in range(count)]
    values = [rng.randbytes(NBYTES) for _ in keys]
    client.put_many(keys, values)
    return keys, values


def room(count=BLOCKS):
    return [bytearray(NBYTES) for _ in range(count)]


class PartsTest(unittest.TestCase):
    def setUp(self):
        self.client = kvrail.Client(server().address, num_clients=1)
        self.addCleanup(self.client.close)

    def test_each_part_is_there_when_it_is_said_to_be(self):
        keys, values = blocks(self.client)
        into = room()
        with self.client.load(keys, into, PARTS) as load:
            for part in range(PARTS):
                self.assertEqual(load.part(part), BLOCKS)
                for value, place in zip(values, into):
                    at = part * PART
                    self.assertEqual(place[at : at + PART], value[at : at + PART])
            self.assertEqual(load.result(), [NBYTES] * BLOCKS)
            self.assertEqual(load.result(), [NBYTES] * BLOCKS)
        self.assertEqual(self.client._reaper.loads, {})

    def test_parts_of_any_length_in_many_places(self):
        """K and V of each layer, without staging."""
        keys, values = blocks(self.client, 5)
        k, v = [bytearray(NBYTES // 2) for _ in keys], [bytearray(NBYTES // 2) for _ in keys]
        half, into = PART // 2, []
        for i in range(5):
            places = []
            for layer in range(PARTS):
                at = layer * half
                places += [memoryview(k[i])[at : at + half], memoryview(v[i])[at : at + half]]
            into.append(places)
        ends = [PART, 3 * PART, NBYTES]
        with self.client.load(keys, into, ends) as load:
            self.assertEqual([load.part(i) for i in range(3)], [5] * 3)
        for i in range(5):
            for layer in range(PARTS):
                at = layer * PART
                self.assertEqual(k[i][layer * half : (layer + 1) * half], values[i][at : at + half])
                self.assertEqual(
                    v[i][layer * half : (layer + 1) * half], values[i][at + half : at + PART]
                )

    def test_what_is_missing_or_short_has_no_parts(self):
        keys, _ = blocks(self.client, 6)
        self.client.delete(keys[4])
        with self.client.load(keys, room(6), PARTS) as load:
            self.assertEqual(load.part(PARTS - 1), 4)
            self.assertEqual(load.result(), [NBYTES] * 4 + [None, NBYTES])
        short = fresh()
        self.client.put(short, bytes(PART + 1))
        with self.client.load([short], room(1), PARTS) as load:  # exact
            self.assertEqual((load.part(0), load.result()), (0, [None]))
        with self.client.load([short], room(1), PARTS, exact=False) as load:
            self.assertEqual((load.part(0), load.part(1)), (1, 0))
            self.assertEqual(load.result(), [PART + 1])

    def test_nothing_is_a_load_too(self):
        with self.client.load([], [], PARTS) as load:
            self.assertEqual((load.part(0), load.result()), (0, []))

    def test_wrong_parts_are_named(self):
        def refuses(error, text, parts, into):
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                self.client.load(["a", "b"][: len(into)], into, parts)

        refuses(ValueError, "100 bytes are not 3 equal parts", 3, [bytearray(100)])
        refuses(ValueError, "100 bytes are not 0 equal parts", 0, [bytearray(100)])
        refuses(ValueError, r"parts\[1\] ends at byte 5, not behind", [5, 5], [bytearray(5)])
        refuses(
            ValueError,
            r"buffers\[1\] has 7 bytes, and its last part ends at 6",
            [6],
            [bytearray(6), bytearray(7)],
        )
        refuses(ValueError, "1 to 1024 parts, not of 0", [], [bytearray(6)])
        refuses(ValueError, "1 to 1024 parts, not of 1025", range(1, 1026), [bytearray(1025)])
        refuses(TypeError, "the end of a part must be an int, not str", ["x"], [bytearray(6)])
        with self.assertRaisesRegex(ValueError, "there are 1 keys and 0 buffers"):
            self.client.load(["a"], [], [1])
        self.assertEqual(self.client._reaper.loads, {})
        with self.client.load([fresh()], room(1), PARTS) as load:
            for part in (-1, PARTS):
                with self.assertRaisesRegex(IndexError, "there are 8 parts"):
                    load.part(part)

    def test_any_thread_waits_and_close_ends_all(self):
        own = kvrail.Server(memory_mb=64)
        self.addCleanup(own.close)
        client = kvrail.Client(own.address, num_clients=1, timeout=float("inf"))
        keys, _ = blocks(client, 3)
        freeze(own)
        load, got = client.load(keys, room(3), PARTS), []
        threads = [threading.Thread(target=lambda: got.append(load.part(0))) for _ in range(4)]

        def result():
            try:
                load.result()
            except kvrail.Closed:
                got.append("closed")

        threads += [threading.Thread(target=result) for _ in range(3)]
        for thread in threads:
            thread.start()
        client.close()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got, key=str), [0] * 4 + ["closed"] * 3)

    def test_the_end_of_the_block_cancels(self):
        own = kvrail.Server(memory_mb=64)
        self.addCleanup(own.close)
        with kvrail.Client(own.address, num_clients=1, timeout=float("inf")) as client:
            keys, _ = blocks(client, 3)
            freeze(own)
            into = room(3)
            with client.load(keys, into, PARTS) as load:
                pass
            for place in into:
                place.append(0)  # no export is held
            with self.assertRaises(kvrail.Canceled):
                load.result()
            self.assertEqual(load.part(0), 0)
            os.kill(own.pid, signal.SIGCONT)

    def test_asyncio(self):
        async def main():
            async with kvrail.aio.Client(server().address, num_clients=1) as client:
                into = room()
                load = client.load(keys, into, PARTS)
                seen = []

                async def follow(part):
                    self.assertEqual(await load.part(part), BLOCKS)
                    at = part * PART
                    for value, place in zip(values, into):
                        self.assertEqual(place[at : at + PART], value[at : at + PART])
                    seen.append(part)

                await asyncio.gather(*(follow(part) for part in reversed(range(PARTS))))
                self.assertEqual(sorted(seen), list(range(PARTS)))
                self.assertEqual(await load, [NBYTES] * BLOCKS)
                self.assertEqual(await load.part(3), BLOCKS)
                with self.assertRaisesRegex(ValueError, "2 keys and 1 buffers"):
                    await client.load(["a", "b"], room(1), PARTS)
                self.assertEqual(client._loads, set())

        keys, values = blocks(self.client)
        asyncio.run(main())

    def test_the_end_of_an_asyncio_block_ends_a_load(self):
        async def main():
            async with kvrail.aio.Client(own.address, num_clients=1) as client:
                async with client.load(keys, into := room(3), PARTS) as load:
                    self.assertEqual(await load.part(0), 3)
                    self.assertEqual(await load, [NBYTES] * 3)
                self.assertEqual(into, values)
                async with client.load(["a"], room(2), PARTS):
                    pass  # its error is nobody's
                freeze(own)
                with self.assertRaises(ZeroDivisionError):
                    async with client.load(keys, into := room(3), PARTS, timeout=60):
                        await asyncio.sleep(0.05)
                        1 / 0
                for place in into:
                    place.append(0)  # nothing holds it
                os.kill(own.pid, signal.SIGCONT)

        own = kvrail.Server(memory_mb=64)
        self.addCleanup(own.close)
        with kvrail.Client(own.address, num_clients=1) as client:
            keys, values = blocks(client, 3)
        asyncio.run(main())

    def test_asyncio_cancels(self):
        async def main():
            async with kvrail.aio.Client(
                own.address, num_clients=1, timeout=float("inf")
            ) as client:
                into = room(3)
                load = client.load(keys, into, PARTS)
                part = asyncio.ensure_future(load.part(0))
                await asyncio.sleep(0.05)
                self.assertFalse(part.done())
                load.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await load
                self.assertEqual(await part, 0)
                for place in into:
                    place.append(0)
                os.kill(own.pid, signal.SIGCONT)

        own = kvrail.Server(memory_mb=64)
        self.addCleanup(own.close)
        with kvrail.Client(own.address, num_clients=1) as client:
            keys, _ = blocks(client, 3)
        freeze(own)
        asyncio.run(main())


class ArrivedTest(NativeTest):
    def test_counts_until_it_is_drained(self):
        self.put("parts", bytes(30))
        id = self.client.submit_batch_get(
            ["parts", "none"], [bytearray(30)] * 1 + [bytearray(30)], parts=[10, 20, 30]
        )
        ((got, _, results),) = completions(self.client)
        self.assertEqual((got, results), (id, [30, kvrail.NotFound.code]))
        self.assertIsNone(self.client.arrived(id))
        self.assertIsNone(self.client.arrived(12345))
        id = self.client.submit_batch_get(["parts"], [bytearray(30)], parts=(10, 20, 30))
        while self.client.arrived(id) != [3]:
            time.sleep(0.001)
        self.assertEqual(completions(self.client)[0][2], [30])
        id = self.client.submit_batch_get(["parts"], [bytearray(30)], parts=None)
        self.assertIsNone(self.client.arrived(id))
        completions(self.client)
        with self.assertRaisesRegex(TypeError, "the id must be an int"):
            self.client.arrived("x")


class PrefixTest(unittest.TestCase):
    def setUp(self):
        self.client = kvrail.Client(server().address, num_clients=1)
        self.addCleanup(self.client.close)

    def test_whole_blocks_from_the_first_on(self):
        keys, values = blocks(self.client, 6)
        into = room(6)
        self.assertEqual(self.client.load_prefix(keys, into), 6)
        self.assertEqual(into, values)
        self.client.delete(keys[4])
        into = room(6)
        self.assertEqual(self.client.load_prefix(keys, into, timeout=20), 4)
        self.assertEqual(into, values[:4] + room(2))  # behind the gap nothing is read
        self.client.put(keys[4], b"short")
        self.assertEqual(self.client.load_prefix(keys, room(6)), 4)
        self.assertEqual(self.client.load_prefix([fresh(), *keys], room(7)), 0)
        self.assertEqual(self.client.load_prefix([], []), 0)

    def test_arguments_and_a_closed_client_still_raise(self):
        with self.assertRaisesRegex(ValueError, "2 keys and 1 buffers"):
            self.client.load_prefix(["a", "b"], room(1))
        for timeout in (-1, float("nan")):
            with self.assertRaisesRegex(ValueError, "timeout is in seconds"):
                self.client.load_prefix(["a"], room(1), timeout=timeout)
        with self.assertRaises(TypeError):
            self.client.load_prefix([1], room(1))
        self.client.close()
        with self.assertRaises(kvrail.Closed):
            self.client.load_prefix(["a"], room(1))

    def test_servers_that_are_down_or_silent_raise_nothing(self):
        address, held = nobody()
        with held, kvrail.Client(address, num_clients=1, log_level=0) as client:
            self.assertEqual(client.load_prefix(["a", "b"], room(2), timeout=0.2), 0)
        own = kvrail.Server(memory_mb=64)
        self.addCleanup(own.close)
        with kvrail.Client(own.address, num_clients=1, log_level=0) as client:
            keys, values = blocks(client, 4)
            freeze(own)
            self.assertEqual(client.load_prefix(keys, room(4), timeout=0.2), 0)
            os.kill(own.pid, signal.SIGCONT)
            while client.load_prefix(keys, into := room(4)) < 4:
                pass
            self.assertEqual(into, values)
            own.close()
            self.assertEqual(client.load_prefix(keys, room(4), timeout=0.5), 0)

    def test_several_rows_in_one_lookup(self):
        keys, _ = blocks(self.client, 3)
        a, b, c = keys
        rows = [[a, b, fresh(), c], [], [fresh(), a], [c, c], (a,)]
        self.assertEqual(self.client.prefix_many(rows), [2, 0, 0, 2, 1])
        self.assertEqual(self.client.prefix_many([]), [])

    def test_asyncio(self):
        async def main():
            async with kvrail.aio.Client(server().address, num_clients=1) as client:
                into = room(5)
                self.assertEqual(await client.load_prefix(keys, into), 3)
                self.assertEqual(into[:3], values[:3])
                self.assertEqual(await client.prefix_many([keys, keys[1:], []]), [3, 2, 0])
                with self.assertRaisesRegex(ValueError, "5 keys and 1 buffers"):
                    await client.load_prefix(keys, room(1))
            address, held = nobody()
            with held:
                async with kvrail.aio.Client(address, num_clients=1, log_level=0) as client:
                    self.assertEqual(await client.load_prefix(keys, room(5), timeout=0.2), 0)

        keys, values = blocks(self.client, 5)
        self.client.delete(keys[3])
        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
