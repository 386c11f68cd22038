# SPDX-License-Identifier: Apache-2.0
"""_native.Client: memory of all kinds, keys, arguments, the contract of drain_completions."""

import array
import ctypes
import gc
import mmap
import os
import select
import signal
import sys
import threading
import time
import tracemalloc
import unittest

import kvrail
from common import NativeTest, completions, freeze, fresh, nobody, results, server
from kvrail import _native

try:
    import numpy
except ImportError:
    numpy = None


class MemoryTest(NativeTest):
    def test_buffers_of_every_kind_go_there_and_come_back(self):
        for size in (1, 3000, 100_000, 3_000_000):
            value = bytes(i * 7 % 251 for i in range(min(size, 5000))) * (size // 5000 + 1)
            value = value[:size]
            area = mmap.mmap(-1, size)
            area.write(value)
            sources = {
                "bytes": value,
                "bytearray": bytearray(value),
                "memoryview": memoryview(value),
                "mmap": area,
                "array": array.array("B", value),
                "ctypes": (ctypes.c_char * size).from_buffer_copy(value),
            }
            for kind, source in sources.items():
                with self.subTest(kind=kind, size=size):
                    key = fresh()
                    self.put(key, source)
                    into = bytearray(size)
                    self.assertEqual(self.get(key, into), size)
                    self.assertEqual(into, value)
            key = fresh()
            self.put(key, value)
            room = mmap.mmap(-1, size)
            for kind, into in {
                "bytearray": bytearray(size),
                "memoryview": memoryview(bytearray(size)),
                "mmap": room,
                "array": array.array("B", bytes(size)),
                "ctypes": (ctypes.c_char * size)(),
            }.items():
                with self.subTest(into=kind, size=size):
                    self.assertEqual(self.get(key, into), size)
                    self.assertEqual(bytes(into), value)
            room.close()  # raises where an export is still held
            area.close()

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpy_without_a_copy(self):
        value = numpy.arange(30_000, dtype=numpy.float32).reshape(100, 300)
        into = numpy.zeros_like(value)
        key = fresh()
        self.put(key, value)
        self.assertEqual(self.get(key, into), value.nbytes)
        self.assertTrue((into == value).all())
        into.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "writable memory: .*read-only"):
            self.client.submit_batch_get([key], [into])

    def test_python_objects_are_no_memory(self):
        class Row(ctypes.Structure):
            _fields_ = [("Object", ctypes.c_int), ("a", ctypes.c_int)]  # the name has an O

        class Reference(ctypes.Structure):
            _fields_ = [("a", ctypes.c_int), ("b", ctypes.py_object)]

        key = fresh()
        self.put(key, (Row * 4)())
        self.assertEqual(self.get(key, (Row * 4)()), 32)
        for objects in ((ctypes.py_object * 4)(), (Reference * 2)()):
            for memory in (objects, memoryview(objects)):
                with self.assertRaisesRegex(TypeError, r"buffers\[0\] has Python objects in it"):
                    self.client.submit_batch_get([key], [memory])
                with self.assertRaisesRegex(TypeError, r"buffers\[1\] has Python objects in it"):
                    self.client.submit_batch_set([key, key], [b"v", memory])

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpys_types(self):
        for dtype in ("f2", "?", "S5", "U3", "V8", "M8[s]", [("Own", "f8"), ("b", "M8[s]")]):
            into, key = numpy.zeros(3, dtype), fresh()
            self.put(key, numpy.zeros(3, dtype))
            self.assertEqual(self.get(key, into), into.nbytes, dtype)
        for dtype in ("O", [("a", "O")]):
            with self.assertRaisesRegex(TypeError, "Python objects"):
                self.client.submit_batch_get([key], [numpy.zeros(3, dtype)])

    def test_addresses(self):
        value = b"0123456789" * 1000
        source, into = ctypes.create_string_buffer(value, len(value)), ctypes.create_string_buffer(
            len(value)
        )
        key = fresh()
        self.put(key, (ctypes.addressof(source), len(value)))
        self.assertEqual(self.get(key, (ctypes.addressof(into), len(value))), len(value))
        self.assertEqual(into.raw, value)

    def test_slices(self):
        value = bytes(range(200)) * 32
        slice_, stride = len(value) // 8, len(value) // 4
        into = ctypes.create_string_buffer(stride * 8)
        key = fresh()
        self.put(key, value)
        self.assertEqual(
            self.get(key, (ctypes.addressof(into), len(value), slice_, stride)), len(value)
        )
        self.assertEqual(b"".join(into.raw[i * stride :][:slice_] for i in range(8)), value)
        self.assertEqual(into.raw[slice_:stride], bytes(stride - slice_))

    def test_a_batch_of_64(self):
        keys = [fresh() for _ in range(64)]
        values = [bytes([i]) * (1 + i * 997) for i in range(64)]
        self.assertEqual(results(self.client, self.client.submit_batch_set(keys, values)), [0] * 64)
        into = [bytearray(len(v)) for v in values]
        got = results(self.client, self.client.submit_batch_get(tuple(keys), into))
        self.assertEqual(got, [len(v) for v in values])
        self.assertEqual(into, values)
        self.assertEqual(
            results(self.client, self.client.submit_batch_exists(keys + ["no"])), [1] * 64 + [0]
        )
        self.assertEqual(results(self.client, self.client.submit_batch_delete(keys)), [0] * 64)

    def test_an_empty_batch_is_over_at_once(self):
        self.assertEqual(results(self.client, self.client.submit_batch_exists([])), [])

    def test_registered_memory(self):
        area = mmap.mmap(-1, 1 << 20)
        region = self.client.register(area)
        self.assertTrue(region.registered)
        self.assertEqual(region.nbytes, 1 << 20)
        with self.assertRaises(BufferError):
            area.close()
        view = memoryview(area)
        view[: 1 << 16] = b"r" * (1 << 16)
        key = fresh()
        self.put(key, view[: 1 << 16])
        self.assertEqual(self.get(key, view[1 << 19 : (1 << 19) + (1 << 16)]), 1 << 16)
        self.assertEqual(view[: 1 << 16], view[1 << 19 : (1 << 19) + (1 << 16)])
        view.release()
        with self.assertRaisesRegex(kvrail.Invalid, "overlaps registered memory"):
            self.client.register(memoryview(area)[:4096])
        region.unregister()
        region.unregister()
        self.assertFalse(region.registered)
        area.close()

    def test_the_same_memory_is_registered_once_and_ends_with_the_last_unregister(self):
        area = bytearray(1 << 16)
        first, second = self.client.register(area), self.client.register(area)
        self.client.register(area)  # its object goes away at once, and it stays
        for region in (first, second):
            self.assertTrue(region.registered)
            region.unregister()
            region.unregister()
            self.assertFalse(region.registered)
            with self.assertRaises(BufferError):
                area.append(0)
        third = self.client.register(area)
        third.unregister()
        with self.assertRaises(BufferError):
            area.append(0)
        self.client.close()
        area.append(0)

    def test_memory_is_registered_by_address_and_by_its_object(self):
        area = mmap.mmap(-1, 1 << 16)
        at = ctypes.addressof(ctypes.c_char.from_buffer(area))
        gc.collect()
        by_address = self.client.register((at, 1 << 16))
        by_object = self.client.register(area)
        by_address.unregister()
        with self.assertRaises(BufferError):
            area.close()
        by_object.unregister()
        area.close()
        with self.client.register(bytearray(100)) as region:
            self.assertEqual(region.nbytes, 100)

    def test_threads_register_the_same_memory(self):
        area = bytearray(1 << 16)
        wrong = []

        def often():
            try:
                for _ in range(50):
                    self.client.register(area).unregister()
            except kvrail.Busy:
                pass
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=often) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([w for w in wrong if "overlaps" not in str(w)], [])
        self.client.close()
        area.append(0)

    def test_a_registration_outlives_its_object_and_ends_with_the_client(self):
        area = bytearray(1 << 16)
        kept = self.client.register(area)
        self.client.register(mmap.mmap(-1, 4096))
        with self.assertRaises(BufferError):
            area.append(0)
        self.client.close()
        area.append(0)
        self.assertFalse(kept.registered)
        kept.unregister()


class KeysTest(NativeTest):
    def test_str_and_bytes_are_the_same_key(self):
        name = fresh("clé-ключ")
        self.put(name, b"value")
        self.assertEqual(self.get(name.encode(), bytearray(5)), 5)

    def test_long_keys_are_folded(self):
        long = fresh() + "x" * 300
        self.put(long, b"long")
        self.put(long + "y", b"longer")
        self.assertEqual(self.get(long, bytearray(4)), 4)
        self.assertEqual(self.get(kvrail.key_fold(long), bytearray(4)), 4)
        self.assertEqual(self.get(long + "y", bytearray(6)), 6)
        self.assertEqual(len(kvrail.key_fold(long)), 128)
        self.assertEqual(kvrail.key_fold("short"), b"short")

    def test_the_prefix_is_put_before_every_key_and_folded_with_it(self):
        prefix = fresh("prefix") + "/"
        other = self.open(prefix=prefix.encode())
        for name in ("a", "b" * 120, "c" * 500):
            with self.subTest(len=len(name)):
                self.assertEqual(results(other, other.submit_batch_set([name], [b"v"])), [0])
                self.assertEqual(self.get(prefix + name, bytearray(1)), 1)
                self.assertEqual(self.get(name, bytearray(1)), kvrail.NotFound.code)

    def test_a_list_that_changes_after_the_submit_does_not_matter(self):
        keys = [fresh() for _ in range(10)]
        id = self.client.submit_batch_set(keys, [b"v"] * 10)
        gone, keys[:] = keys[:], [None] * 10
        self.assertEqual(results(self.client, id), [0] * 10)
        self.assertEqual(results(self.client, self.client.submit_batch_exists(gone)), [1] * 10)


class ArgumentsTest(NativeTest):
    def refuses(self, error, sentence, call, *args, **kwargs):
        with self.subTest(sentence=sentence):
            with self.assertRaisesRegex(error, sentence):
                call(*args, **kwargs)

    def test_wrong_arguments_each_have_a_sentence(self):
        get, put, exists = (
            self.client.submit_batch_get,
            self.client.submit_batch_set,
            self.client.submit_batch_exists,
        )
        self.refuses(
            TypeError,
            "keys must be a list or tuple, one entry for each key, not str",
            exists,
            "abc",
        )
        self.refuses(TypeError, "not bytes", exists, b"abc")
        self.refuses(TypeError, "not int", exists, 5)
        self.refuses(TypeError, r"keys\[1\] must be str or bytes, not int", exists, ["a", 5])
        self.refuses(ValueError, r"keys\[1\] is empty", exists, ["a", ""])
        self.refuses(ValueError, "surrogates", exists, ["\udc80"])
        self.refuses(ValueError, "there are 2 keys and 1 buffers", put, ["a", "b"], [b"x"])
        self.refuses(
            TypeError, r"buffers must be a list or tuple.* not bytearray", get, ["a"], bytearray(1)
        )
        self.refuses(
            TypeError,
            r"buffers\[0\] must be an object with the buffer interface, .* or a list of these, not str: encode the text",
            put,
            ["a"],
            ["x"],
        )
        self.refuses(
            ValueError,
            r"buffers\[0\] \(bytes\) is not writable memory: ",
            get,
            ["a"],
            [b"ro"],
        )
        self.refuses(ValueError, "writable", get, ["a"], [memoryview(b"ro")])
        self.refuses(
            ValueError,
            r"buffers\[0\] is reversed or repeated memory \(a stride of -1 bytes\): copy it first",
            put,
            ["a"],
            [memoryview(b"abcd")[::-1]],
        )
        self.refuses(ValueError, r"buffers\[1\] is empty", put, ["a", "b"], [b"x", b""])
        self.refuses(TypeError, r"buffers\[0\] has 3 numbers", put, ["a"], [(1, 2, 3)])
        self.refuses(TypeError, "must be an int, not float", put, ["a"], [(1.5, 2)])
        self.refuses(ValueError, "must be from 0 to 2.64 - 1, not -1", put, ["a"], [(-1, 2)])
        self.refuses(ValueError, "the address is 0", put, ["a"], [(0, 2)])
        self.refuses(ValueError, "the length is 0", put, ["a"], [(4096, 0)])
        self.refuses(
            ValueError, "slices of 8 bytes do not fit a stride of 4", get, ["a"], [(4096, 16, 8, 4)]
        )
        for seconds in (float("nan"), -1):
            self.refuses(ValueError, "must be 0 or more", self.client.servers, seconds)
        self.refuses(
            kvrail.Invalid, "address space", self.client.register, ((1 << 64) - 4096, 8192)
        )
        for timeout in (0, -1, float("nan"), float("-inf"), -(10**400)):
            self.refuses(
                ValueError, "timeout is in seconds, above 0", exists, ["a"], timeout=timeout
            )
        self.refuses(
            TypeError, "timeout must be a number of seconds, not str", exists, ["a"], timeout="soon"
        )
        for ttl in (-1, 1 << 32, 1 << 64):
            text = rf"ttl .seconds. must be from 0, the server's default, to 2\^32 - 1, not {ttl}$"
            self.refuses(ValueError, text, put, ["a"], [b"x"], ttl=ttl)
            self.refuses(ValueError, text, self.client.touch, "a", None, ttl)
        self.refuses(
            TypeError, r"submit_batch_exists\(\) has no argument 'ttl'", exists, ["a"], ttl=1
        )
        self.refuses(TypeError, r"submit_batch_get\(\) needs 'buffers'", get, ["a"])
        self.refuses(
            TypeError,
            r"submit_batch_exists\(\) takes at most 3 arguments, not 4",
            exists,
            ["a"],
            None,
            False,
            3,
        )
        self.refuses(TypeError, "got 'keys' twice", exists, ["a"], keys=["a"])
        self.refuses(
            TypeError,
            "register.. takes a buffer, a tensor or .address, length., not str",
            self.client.register,
            "x",
        )
        self.refuses(ValueError, "at least one byte", self.client.register, bytearray())
        text = "register.. takes C-contiguous, writable memory, and this bytes is not: .*"
        self.refuses(ValueError, text, self.client.register, b"read-only")
        for call in (self.client.ttl, self.client.pin, self.client.unpin):
            self.refuses(ValueError, "the key is empty", call, "", None)
            self.refuses(TypeError, "the key must be str or bytes, not int", call, 5, None)
            self.refuses(ValueError, "timeout is in seconds, above 0", call, "a", 0)
        self.refuses(ValueError, "an id must be from 0", self.client.cancel, -1)
        self.assertEqual(self.client.drain_results(), [])  # nothing was begun

    def test_a_timeout_of_for_ever_is_one(self):
        for timeout in (float("inf"), 1e300, 10**400):
            id = self.client.submit_batch_exists(["a"], timeout)
            self.assertEqual(results(self.client, id), [0])
        self.assertGreaterEqual(self.client.call_bound(float("inf")), 1e9)
        for timeout in (float("inf"), 1e300, 10**400):
            with _native.Client(server().address, num_clients=1, timeout=timeout) as client:
                self.assertGreaterEqual(client.call_bound(), 1e9)
                id = client.submit_batch_exists(["a"])
                self.assertEqual(results(client, id), [0])
        with _native.Client(server().address, num_clients=1, timeout=None) as client:
            self.assertLess(client.call_bound(), 60, "the library's default")

    def test_wrong_options_each_have_a_sentence(self):
        address = server().address
        self.refuses(ValueError, "servers is empty", _native.Client, [])
        self.refuses(ValueError, r"servers\[1\] is empty", _native.Client, address + ", ")
        self.refuses(TypeError, r"servers\[0\] must be a str", _native.Client, [5])
        for wrong in (5, None, address.encode(), {address}):
            self.refuses(
                TypeError, "servers is 'HOST:PORT,HOST:PORT' or a list", _native.Client, wrong
            )
        self.refuses(kvrail.Invalid, "is not HOST:PORT", _native.Client, "nowhere:x")
        for timeout in (-1, float("nan"), float("-inf")):
            self.refuses(
                ValueError, "timeout is in seconds", _native.Client, address, timeout=timeout
            )
        self.refuses(TypeError, "timeout .* not str", _native.Client, address, timeout="soon")
        self.refuses(TypeError, "log_level must be an int", _native.Client, address, log_level="2")
        for level in (5, -1, 1 << 70):
            self.refuses(
                ValueError,
                f"log_level must be from 0, none, to 4, debug, not {level}$",
                _native.Client,
                address,
                log_level=level,
            )
        for copies in (-1, 0, 3, 1 << 40, 1 << 70, "2", "Hot", ""):
            self.refuses(
                ValueError,
                f"copies must be 1, 2 or 'hot', not {copies!r}$",
                _native.Client,
                address,
                copies=copies,
            )
        for copies in (None, 1.0, b"hot"):
            self.refuses(
                TypeError,
                f"copies must be 1, 2 or 'hot', not {copies!r}$",
                _native.Client,
                address,
                copies=copies,
            )
        self.refuses(kvrail.Invalid, "depth of a queue", _native.Client, address, depth=1 << 20)
        self.refuses(
            TypeError, "provider must be a str, not int", _native.Client, address, provider=3
        )
        self.refuses(TypeError, "prefix must be str or bytes", _native.Client, address, prefix=3)
        self.refuses(ValueError, "zero byte", _native.Client, address, psk="a\0b")
        counts = {"num_clients": 4096, "num_threads": 256, "num_rails": 32, "depth": 65536}
        for name, most in counts.items():
            for wrong, many in ((ValueError, -1), (kvrail.Invalid, 1 << 40), (ValueError, 1 << 64)):
                self.refuses(
                    wrong,
                    f"{name} must be from 0 to {most}, not {many}$",
                    _native.Client,
                    address,
                    **{name: many},
                )
            for many in (most + 1, (1 << 32) - 1):  # the library says so itself
                self.refuses(
                    kvrail.Invalid,
                    f"{many}.* {most}|{most}.* {many}",
                    _native.Client,
                    address,
                    **{name: many},
                )
        self.refuses(TypeError, "", _native.Client, address, colour="red")
        self.refuses(
            kvrail.Error, "no-such-file", _native.Client, address, psk_file="/no-such-file"
        )

    def test_a_client_that_was_not_opened_is_closed(self):
        raw = _native.Client.__new__(_native.Client)
        for call in (
            raw.event_fd,
            raw.drain_results,
            raw.drain_completions,
            raw.counters,
            raw.info,
        ):
            self.refuses(kvrail.Closed, "was never opened", call)
        self.refuses(kvrail.Closed, "was never opened", raw.submit_batch_exists, ["a"])
        self.refuses(kvrail.Closed, "was never opened", raw.cancel, 1)
        raw.close()
        self.refuses(RuntimeError, "opened before", self.client.__init__, server().address)

    def test_an_iterable_that_raises_leaves_nothing_behind(self):
        class Bad(list):
            def __iter__(self):
                raise OSError("no")

        buffer = bytearray(4)
        self.refuses(TypeError, "", self.client.submit_batch_get, ["a", 5], [buffer, buffer])
        buffer.append(0)
        self.refuses(ValueError, "", self.client.submit_batch_get, ["a", "b"], [buffer, b"ro"])
        buffer.append(0)


class DrainCompletionsTest(NativeTest):
    """The contract that LMCache's native_plugin adapter relies on."""

    def over(self, id, client=None):
        client = client or self.client
        ((got, *rest),) = completions(client, drain=client.drain_completions)
        self.assertEqual(got, id)
        return tuple(rest)

    def test_set(self):
        a, b = fresh(), fresh()
        self.assertEqual(
            self.over(self.client.submit_batch_set([a, b], [b"1", b"2"])), (True, "", None)
        )
        # Other bytes are stored already: for a cache that is stored.
        self.assertEqual(
            self.over(self.client.submit_batch_set([a, b], [b"x", b"2"])), (True, "", None)
        )
        self.assertEqual(
            results(self.client, self.client.submit_batch_set([a], [b"x"])), [kvrail.Exists.code]
        )

    def test_get_exists_delete(self):
        a, b = fresh(), fresh()
        self.over(self.client.submit_batch_set([a, b], [b"1234", b"5678"]))
        self.assertEqual(
            self.over(self.client.submit_batch_get([a, b], [bytearray(4), bytearray(4)])),
            (True, "", None),
        )
        got = self.over(
            self.client.submit_batch_get([a, "none", b], [bytearray(4) for _ in range(3)])
        )
        self.assertEqual(got, (True, "", [True, False, True]))
        self.assertEqual(
            self.over(self.client.submit_batch_exists([a, "none"])), (True, "", [True, False])
        )
        self.assertEqual(
            self.over(self.client.submit_batch_delete([a, "none"])), (True, "", [True, True])
        )
        self.assertEqual(
            self.over(self.client.submit_batch_exists([a, b])), (True, "", [False, True])
        )

    def test_another_length_is_a_miss(self):
        for size in (10, 100_000):
            key = fresh()
            self.over(self.client.submit_batch_set([key], [b"v" * size]))
            for length in (size - 1, size + 1):
                with self.subTest(size=size, length=length):
                    got = self.over(self.client.submit_batch_get([key], [bytearray(length)]))
                    self.assertEqual(got, (True, "", [False]))

    def test_a_server_that_was_never_there(self):
        address, held = nobody()
        self.addCleanup(held.close)
        client = self.open(address, timeout=1)
        buffers = [bytearray(4), bytearray(4)]
        for submit, *arguments in (
            (client.submit_batch_get, buffers),
            (client.submit_batch_set, [b"1", b"2"]),
            (client.submit_batch_exists,),
            (client.submit_batch_delete,),
        ):
            ok, text, keys = self.over(submit(["a", "b"], *arguments), client)
            self.assertFalse(ok)
            self.assertRegex(text, r"KV_E(PEERDOWN|TIMEOUT): .* \(2 of 2 keys\)")
            self.assertEqual(keys, [False, False])
        for buffer in buffers:
            buffer.append(0)
        miss = self.open(address, down_is_miss=True, timeout=1)
        self.assertEqual(self.over(miss.submit_batch_exists(["a"]), miss), (True, "", [False]))


class QueueTest(NativeTest):
    def test_four_threads_submit_and_one_reaps(self):
        each, batch = 100, 8
        ids, wrong = [], []

        def work(number):
            try:
                for i in range(each):
                    keys = [f"four-{number}-{i}-{k}" for k in range(batch)]
                    ids.append(self.client.submit_batch_set(keys, [key.encode() for key in keys]))
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        over = completions(self.client, 4 * each)
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(sorted(o[0] for o in over), sorted(ids))
        self.assertEqual({tuple(o[2]) for o in over}, {(0,) * batch})

    def test_a_full_queue_is_busy_and_has_room_again(self):
        address, held = nobody()
        self.addCleanup(held.close)
        client = self.open(address, depth=4, timeout=1)
        buffers = [bytearray(1) for _ in range(5)]
        ids = [client.submit_batch_get(["a"], [buffers[i]]) for i in range(4)]
        with self.assertRaisesRegex(kvrail.Busy, r"the queue is full: .*\(4 here\)"):
            client.submit_batch_get(["a"], [buffers[4]])
        buffers[4].append(0)
        self.assertEqual({o[0] for o in completions(client, 4)}, set(ids))
        client.submit_batch_exists(["a"])
        completions(client)

    def test_the_descriptor_is_quiet_once_all_is_drained(self):
        self.put(fresh(), b"v")
        while select.select([self.client.event_fd()], [], [], 0)[0]:
            self.assertEqual(self.client.drain_results(), [])

    def test_cancel(self):
        silent = kvrail.Server(memory_mb=64)
        self.addCleanup(silent.kill)
        client = self.open(silent.address, wait=True)
        freeze(silent)
        buffer = bytearray(1 << 20)
        id = client.submit_batch_get(["a"], [buffer], 60)
        with self.assertRaises(BufferError):
            buffer.append(0)
        self.assertTrue(client.cancel(id))
        self.assertEqual(completions(client)[0][:2], (id, kvrail.Canceled.code))
        buffer.append(0)
        self.assertFalse(client.cancel(id))
        self.assertFalse(client.cancel(1 << 63))

    def test_exports_are_held_until_the_drain_and_not_longer(self):
        key, buffer = fresh(), bytearray(10)
        self.put(key, b"0123456789")
        id = self.client.submit_batch_get([key], [buffer])
        select.select([self.client.event_fd()], [], [], 30)
        with self.assertRaises(BufferError):
            buffer.append(0)
        self.assertEqual(results(self.client, id), [10])
        buffer.append(0)

    def test_10000_calls_leave_nothing(self):
        key, value, into = fresh(), bytes(64), [bytearray(64) for _ in range(4)]
        self.put(key, value)
        keys = [key] * 4

        def calls(count):
            for _ in range(count):
                self.client.submit_batch_get(keys, into)
                completions(self.client)
            gc.collect()
            return sys.getrefcount(key), *map(sys.getrefcount, into), sys.getrefcount(value)

        before = calls(200)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        calls(200)
        first = tracemalloc.get_traced_memory()[0]
        self.assertEqual(calls(9600), before)
        self.assertLess(tracemalloc.get_traced_memory()[0] - first, 20_000)
        for buffer in into:
            buffer.append(0)

    def test_counters_and_info(self):
        self.put(fresh(), b"v")
        self.assertEqual(self.client.counters()["puts"], 1)
        self.assertEqual(self.client.info()["num_clients"], 1)
        self.assertEqual(len(self.client.servers()), 1)


class CopiesTest(NativeTest):
    def test_the_death_of_one_server_costs_no_value(self):
        three = [kvrail.Server(memory_mb=64) for _ in range(3)]
        for one in three:
            self.addCleanup(one.kill)
        client = self.open([one.address for one in three], copies=2, wait=True)
        keys = [f"{i}" for i in range(60)]
        values = [bytes([i]) * 10_000 for i in range(60)]
        for key, value in zip(keys, values, strict=True):  # one by one, so that no copy is dropped
            client.submit_batch_set([key], [value])
            completions(client)
        until = time.monotonic() + 10
        while (counters := client.counters())["copies"] < 60 and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual((counters["copies"], counters["copies_dropped"]), (60, 0))
        three[1].kill()
        buffers = [bytearray(10_000) for _ in keys]
        id = client.submit_batch_get(keys, buffers, 30)
        self.assertEqual(results(client, id), [10_000] * 60)
        self.assertEqual(buffers, values)

    def test_what_is_read_often_survives_the_death_of_a_server(self):
        two = [kvrail.Server(memory_mb=64) for _ in range(2)]
        for one in two:
            self.addCleanup(one.kill)
        client = self.open([one.address for one in two], copies="hot", wait=True)
        value = bytes(range(250)) * 40
        keys = [f"{i}" for i in range(4)]  # of either server
        for key in keys:
            client.submit_batch_set([key], [value])
            completions(client)
        self.assertEqual(client.counters()["copies"], 0)
        often, buffers = keys * 8, [bytearray(len(value)) for _ in range(32)]
        until = time.monotonic() + 20
        while (counters := client.counters())["copies"] < 4 and time.monotonic() < until:
            id = client.submit_batch_get(often, buffers, 30)
            self.assertEqual(results(client, id), [10_000] * 32)
        self.assertEqual((counters["copies"], counters["copy_bytes"]), (4, 40_000))
        two[0].kill()
        id = client.submit_batch_get(often, buffers, 30)
        self.assertEqual(results(client, id), [10_000] * 32)
        self.assertEqual(buffers, [value] * 32)


class BackgroundTest(NativeTest):
    def test_what_comes_later_goes_first(self):
        stopped = kvrail.Server(memory_mb=64)
        self.addCleanup(stopped.close)
        client = self.open(stopped.address, wait=True)
        freeze(stopped)
        for i in range(500):
            client.submit_batch_set([f"{i}"], [b"v"], 60, background=True)
        last = client.submit_batch_exists(["none"], 60)
        os.kill(stopped.pid, signal.SIGCONT)
        over = [id for id, _, _ in completions(client, 501)]
        self.assertLess(over.index(last), 250)

    def test_a_switch_that_cannot_be_told_is_refused(self):
        class Neither:
            def __bool__(self):
                raise RuntimeError("neither")

        with self.assertRaisesRegex(RuntimeError, "neither"):
            self.client.submit_batch_set(["k"], [b"v"], background=Neither())
        with self.assertRaisesRegex(TypeError, "no argument 'background'"):
            self.client.submit_batch_get(["k"], [bytearray(1)], background=True)


if __name__ == "__main__":
    unittest.main()
