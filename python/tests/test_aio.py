# SPDX-License-Identifier: Apache-2.0
"""kvrail.aio.Client: many tasks, cancelled tasks, close."""

import asyncio
import inspect
import unittest

import kvrail
from common import freeze, fresh, nobody, server
from kvrail import _native


class AioTest(unittest.TestCase):
    def run_async(self, body):
        asyncio.run(
            asyncio.wait_for(body(), 120), debug=False
        )  # debugging is slow with so many tasks

    def test_a_thousand_tasks_and_a_queue_for_a_hundred(self):
        async def body():
            async with kvrail.aio.Client(server().address, depth=100, num_clients=2) as client:
                prefix = fresh()

                async def one(i):
                    value = b"%d" % i * 100
                    assert await client.put(f"{prefix}/{i}", value)
                    return await client.get(f"{prefix}/{i}") == value

                self.assertEqual(set(await asyncio.gather(*map(one, range(1000)))), {True})

        self.run_async(body)

    def test_as_many_waiters_are_woken_as_there_is_room_for(self):
        """A submit is refused about once for each call at most, however many wait."""
        refused = 0

        def submit(native, *args):
            nonlocal refused
            try:
                return _native.Client.submit_batch_exists(native, *args)
            except kvrail.Busy:
                refused += 1
                raise

        async def body():
            async with kvrail.aio.Client(server().address, depth=16, num_clients=1) as client:
                calls = [client._results(submit, ["nothing"], None) for _ in range(2000)]
                self.assertEqual(await asyncio.gather(*calls), [[0]] * 2000)
                self.assertLess(refused, 2500)

        self.run_async(body)

    def test_calls_in_the_background_and_others_that_wait_all_end(self):
        async def body():
            async with kvrail.aio.Client(server().address, depth=4, num_clients=1) as client:
                prefix = fresh()
                calls = [
                    client.put(f"{prefix}/{i}", b"value", background=i % 3 > 0) for i in range(300)
                ]
                self.assertEqual(set(await asyncio.gather(*calls)), {True})
                calls = [client.put(f"{prefix}/{i}", b"value", background=True) for i in range(300)]
                self.assertEqual(set(await asyncio.gather(*calls)), {True})

        self.run_async(body)

    def test_the_room_of_a_call_that_gives_up_is_anothers(self):
        async def body():
            async with kvrail.aio.Client(server().address, depth=2, num_clients=1) as client:
                for turn in range(20):
                    tasks = [asyncio.create_task(client.exists(["a"])) for _ in range(60)]
                    for _ in range(turn % 4):
                        await asyncio.sleep(0)
                    for i, task in enumerate(tasks):
                        if i % 3 or i > 50:
                            task.cancel()
                    tasks += [asyncio.create_task(client.exists(5)) for _ in range(3)]
                    done = await asyncio.gather(*tasks, return_exceptions=True)
                    self.assertEqual(
                        {type(d) for d in done}, {list, asyncio.CancelledError, TypeError}
                    )

        self.run_async(body)

    def test_all_calls(self):
        async def body():
            async with kvrail.aio.Client(server().address, num_clients=1) as client:
                a, b = fresh(), fresh()
                self.assertEqual(await client.put_many([a], [b"aa"]), [True])
                self.assertTrue(await client.put(a, b"aa", background=True))
                self.assertFalse(await client.put(a, b"other"))
                self.assertEqual(await client.exists([a, b]), [True, False])
                self.assertEqual(await client.prefix([a, b]), 1)
                into = bytearray(2)
                self.assertEqual(await client.get_many([a, b], [into, bytearray(1)]), [2, None])
                self.assertEqual(await client.get(a, into), 2)
                with self.assertRaisesRegex(kvrail.TooBig, "has 2 bytes, .* room for 1"):
                    await client.get(a, bytearray(1))
                self.assertEqual(await client.ttl(a), float("inf"))
                self.assertTrue(await client.touch(a, 100))
                self.assertTrue(90 < await client.ttl(a) <= 100)
                self.assertEqual([await client.pin(a), await client.unpin(a)], [True, True])
                self.assertFalse(await client.pin(b))
                region = await client.register(bytearray(8192))
                region.unregister()
                self.assertEqual(client.info()["num_clients"], 1)
                self.assertGreater(client.counters()["gets"], 0)
                self.assertEqual(await client.delete_many([a, b]), [True, False])
                self.assertFalse(await client.delete(a))
                with self.assertRaises(kvrail.NotFound):
                    await client.get(a)
            self.assertTrue(client.closed)
            with self.assertRaisesRegex(kvrail.Closed, "not open"):
                await client.get(a)
            await client.close()

        self.run_async(body)

    def test_a_cancelled_task_ends_when_nothing_touches_its_buffer(self):
        stopped = kvrail.Server(memory_mb=64)
        self.addCleanup(stopped.kill)

        async def body():
            async with kvrail.aio.Client(stopped.address, wait=True, num_clients=1) as client:
                freeze(stopped)
                buffers = [bytearray(100_000) for _ in range(20)]
                tasks = [asyncio.create_task(client.get("a", b, timeout=600)) for b in buffers]
                await asyncio.sleep(0)
                with self.assertRaises(BufferError):
                    buffers[0].append(0)
                for task in tasks:
                    task.cancel()
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                self.assertEqual({type(d) for d in done}, {asyncio.CancelledError})
                for buffer in buffers:
                    buffer.append(0)
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(client.get("a", buffers[0], timeout=600), 0.01)
                buffers[0].append(0)

        self.run_async(body)

    def test_close_ends_the_calls_of_tasks(self):
        stopped = kvrail.Server(memory_mb=64)
        self.addCleanup(stopped.kill)

        async def body():
            client = await kvrail.aio.Client(
                stopped.address, wait=True, num_clients=1, depth=2
            ).open()
            freeze(stopped)
            tasks = [asyncio.create_task(client.exists(["a"], timeout=600)) for _ in range(5)]
            await asyncio.sleep(0)
            await asyncio.gather(client.close(), client.close())
            done = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertEqual({type(d) for d in done}, {kvrail.Closed})

        self.run_async(body)

    def test_it_closes_after_its_event_loop(self):
        stopped = kvrail.Server(memory_mb=64)
        self.addCleanup(stopped.kill)
        client = kvrail.aio.Client(stopped.address, wait=True, num_clients=1, depth=2)
        buffers = [bytearray(64) for _ in range(4)]  # two wait for room
        loop = asyncio.new_event_loop()
        loop.run_until_complete(client.open())
        freeze(stopped)
        tasks = [loop.create_task(client.get("a", b, timeout=600)) for b in buffers]
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        asyncio.run(client.close())
        asyncio.run(client.close())
        self.assertTrue(client.closed)
        for task, buffer in zip(tasks, buffers):
            buffer.append(0)  # nobody exports it
            task._log_destroy_pending = False  # nobody can end it

    def test_a_server_that_is_not_there(self):
        address, held = nobody()
        self.addCleanup(held.close)

        async def body():
            async with kvrail.aio.Client(address, timeout=20, num_clients=1) as client:
                why = f"{address} is down: .*connection refused"
                with self.assertRaisesRegex(kvrail.PeerDown, f"key 'a'; {why}"):
                    await client.get("a")
                with self.assertRaisesRegex(kvrail.PeerDown, why):
                    await client.put_many(["a"], [b"v"])
                with self.assertRaisesRegex(kvrail.PeerDown, why):
                    await client.exists(["a"])
                with self.assertRaisesRegex(kvrail.PeerDown, why):
                    await client.delete("a")
            with self.assertRaises(kvrail.Invalid):
                await kvrail.aio.Client("nowhere:x").open()

        self.run_async(body)

    def test_it_has_the_methods_of_the_blocking_client_with_the_same_parameters(self):
        def methods(cls):
            return {
                name: list(inspect.signature(method).parameters.values())
                for name, method in vars(cls).items()
                if callable(method) and not name.startswith("_")
            }

        ours = methods(kvrail.aio.Client)
        ours.pop("open")
        named = {n: [(p.name, p.kind, p.default) for p in ps] for n, ps in ours.items()}
        blocking = methods(kvrail.Client)
        self.assertEqual(
            named, {n: [(p.name, p.kind, p.default) for p in ps] for n, ps in blocking.items()}
        )

    def test_another_loop_is_refused(self):
        client = kvrail.aio.Client(server().address, num_clients=1)

        async def ask():
            await client.get("a")

        async def body():
            async with client:
                loop = asyncio.get_running_loop()
                with self.assertRaisesRegex(RuntimeError, "another event loop"):
                    await loop.run_in_executor(None, lambda: asyncio.run(ask()))

        self.run_async(body)


if __name__ == "__main__":
    unittest.main()
