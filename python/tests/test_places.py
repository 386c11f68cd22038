# SPDX-License-Identifier: Apache-2.0
"""Where values lie: lists of places, buffers with strides, tensors."""

import array
import gc
import random
import unittest
import weakref

import kvrail
from common import NativeTest, fresh, results

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class Tensor:
    """A tensor as torch has them, over an array of bytes."""

    class device:
        type = "cpu"

    def __init__(self, memory, shape, strides, itemsize=2, offset=0):
        self.memory, self.shape, self._strides, self._itemsize = memory, shape, strides, itemsize
        self._address = memory.buffer_info()[0] + offset

    def data_ptr(self):
        return self._address

    def element_size(self):
        return self._itemsize

    def numel(self):
        count = 1
        for n in self.shape:
            count *= n
        return count

    def stride(self):
        return self._strides


class PlacesTest(NativeTest):
    def both_ways(self, place, value, into):
        """PUT gathers `value` from place; GET scatters it to `into`."""
        key = fresh()
        self.put(key, place)
        plain = bytearray(len(value))
        self.assertEqual(self.get(key, plain), len(value))
        self.assertEqual(plain, value)
        self.assertEqual(self.get(key, into), len(value))

    def test_a_list_of_places_is_one_value(self):
        rng = random.Random(7)
        k, v = bytearray(rng.randbytes(3000)), array.array("B", rng.randbytes(200_000))
        raw = array.array("B", rng.randbytes(5000))
        place = (raw.buffer_info()[0] + 100, 1000)
        slices = (raw.buffer_info()[0] + 2000, 300, 100, 200)
        value = bytes(k) + bytes(v[:100_000]) + bytes(raw[100:1100])
        value += bytes(raw[2000:2100] + raw[2200:2300] + raw[2400:2500])
        places = [k, memoryview(v)[:100_000], place, slices]
        into = [bytearray(3000), bytearray(100_000), bytearray(300), bytearray(1000)]
        self.both_ways(places, value, into)
        self.assertEqual(b"".join(into), value)
        k[:], raw[:] = bytes(3000), array.array("B", bytes(5000))
        key = fresh()
        self.put(key, value)
        self.assertEqual(self.get(key, places), len(value))
        self.assertEqual(bytes(k) + bytes(raw[100:1100]), value[:3000] + value[103_000:104_000])
        self.assertEqual(bytes(raw[2200:2300]), value[104_100:104_200])
        self.assertEqual(bytes(raw[2100:2200]), bytes(100))  # a gap

    def test_keys_of_a_batch_have_places_of_all_kinds(self):
        keys = [fresh() for _ in range(40)]
        data = [b"x" * 100 if i % 3 else [b"x" * 10] * 10 for i in range(40)]
        self.assertEqual(results(self.client, self.client.submit_batch_set(keys, data)), [0] * 40)
        into = [[bytearray(1) for _ in range(100)] if i % 2 else bytearray(100) for i in range(40)]
        got = results(self.client, self.client.submit_batch_get(keys, into))
        self.assertEqual(got, [100] * 40)
        for place in into:
            self.assertEqual(b"".join(place) if isinstance(place, list) else place, b"x" * 100)

    def test_wrong_places_are_named(self):
        def refuses(error, text, place, writable=True):
            submit = self.client.submit_batch_get if writable else self.client.submit_batch_set
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                submit(["a", "b"], [bytearray(1), place])

        refuses(ValueError, r"buffers\[1\] is an empty list", [])
        refuses(ValueError, r"buffers\[1\]\[1\] is empty", [bytearray(1), bytearray()])
        refuses(ValueError, r"buffers\[1\]\[0\] \(bytes\) is not writable memory", [b"x"])
        refuses(TypeError, r"buffers\[1\]\[0\] must be .* or \(address, length\), not list$", [[b"x"]])
        refuses(TypeError, r"buffers\[1\] must be .* or a list of these, not str", "text")
        for several in (2 * (bytearray(1),), 5 * (Tensor(array.array("B", b"x"), (1,), (1,)),)):
            refuses(TypeError, r"buffers\[1\] is a tuple, .* several places are a list", several)
        refuses(TypeError, r"buffers\[1\]\[0\] is a tuple", [(bytearray(1), bytearray(1))])
        refuses(TypeError, r"a number of \(address, .* must be an int, not str", ("1", 1))
        refuses(TypeError, r"buffers\[1\]\[2\] has 3 numbers", [b"x", b"x", (1, 2, 3)], False)
        refuses(ValueError, r"lies in 1025 places: a value may lie in 1024", [b"x"] * 1025, False)
        self.assertEqual(self.get("nothing", [bytearray(1)] * 1024), kvrail.NotFound.code)

    def test_exports_of_lists_are_held_until_the_end(self):
        parts = [bytearray(10) for _ in range(50)]
        id = self.client.submit_batch_get([fresh()], [parts])
        for part in parts:
            with self.assertRaises(BufferError):
                part.append(0)
        results(self.client, id)
        for part in parts:
            part.append(0)

    def test_a_memoryview_with_strides(self):
        value = bytes(range(250))
        self.both_ways(memoryview(value)[::5], value[::5], memoryview(bytearray(100))[::2])
        room = bytearray(100)
        key = fresh()
        self.put(key, value[:50])
        self.assertEqual(self.get(key, memoryview(room)[::2]), 50)
        self.assertEqual((room[::2], room[1::2]), (value[:50], bytes(50)))

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_any_view_of_numpy(self):
        rng = random.Random(11)
        base = numpy.frombuffer(rng.randbytes(6 * 5 * 4 * 8 * 2), "i2").reshape(6, 5, 4, 8)
        views = [
            base[2],
            base[:, 3],
            base[1:5:2, :, 2],
            base[:, 1:4, ::3, 2:6],
            base.transpose(1, 0, 2, 3),
            base[:, :, :1, :],
            base[3, 2, 1, ::2],
            base.T,
            base[..., 4],
            base[0, 0, 0, 0],
        ]
        for view in views:
            with self.subTest(shape=view.shape, strides=view.strides):
                into = numpy.zeros_like(base)
                into = into.transpose(1, 0, 2, 3) if view is views[4] else into
                place = numpy.lib.stride_tricks.as_strided(into, view.shape, view.strides)
                self.both_ways(view, view.tobytes(), place)
                self.assertTrue((place == view).all())
                self.assertEqual(
                    numpy.count_nonzero(into), numpy.count_nonzero(view)
                )  # no gap was written
        with self.assertRaisesRegex(
            ValueError, "reversed or repeated memory .a stride of -2 bytes"
        ):
            self.client.submit_batch_set(["a"], [base[0, 0, 0, ::-1]])
        with self.assertRaisesRegex(ValueError, "reversed or repeated memory .a stride of 0 bytes"):
            self.client.submit_batch_set(["a"], [numpy.broadcast_to(base[0, 0, 0, :1], (9,))])
        many = numpy.zeros((1100, 3, 4, 2), "i1")[:, :2, ::2, :1]
        with self.assertRaisesRegex(ValueError, "lies in more than 1024 places"):
            self.client.submit_batch_set(["a"], [many])

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_a_block_of_a_paged_cache_is_a_slice(self):
        cache = numpy.zeros((4, 2, 8, 64), "f4")  # layers, K and V, blocks, numbers
        cache[:, :, 3] = numpy.arange(4 * 2 * 64).reshape(4, 2, 64)
        with self.client.register(cache):
            key = fresh()
            self.put(key, cache[:, :, 3])
            self.assertEqual(self.get(key, cache[:, :, 5]), 4 * 2 * 64 * 4)
        self.assertTrue((cache[:, :, 5] == cache[:, :, 3]).all())
        self.assertEqual(numpy.count_nonzero(cache[:, :, 4]), 0)

    def test_a_tensor_is_a_buffer(self):
        memory = array.array("B", random.Random(5).randbytes(4000))
        into = array.array("B", bytes(4000))
        # Two layers of blocks of 50 numbers of 2 bytes: block 3 of each.
        tensor = Tensor(memory, (2, 50), (1000, 1), offset=300)
        self.both_ways(
            tensor,
            bytes(memory[300:400] + memory[2300:2400]),
            Tensor(into, (2, 50), (1000, 1), offset=300),
        )
        self.assertEqual(into[300:400], memory[300:400])
        self.assertEqual(into[2300:2400], memory[2300:2400])
        self.assertEqual(bytes(into[400:2300]), bytes(1900))
        self.both_ways(
            [tensor, b"!"], bytes(memory[300:400] + memory[2300:2400]) + b"!", bytearray(201)
        )
        with kvrail.Client(*self.where()) as client:  # how much room it has is known to errors
            key = fresh()
            client.put(key, bytes(300))
            with self.assertRaisesRegex(
                kvrail.TooBig, "has 300 bytes, and its destination has room for 201"
            ):
                client.get(key, into=[tensor, bytearray(1)])

    def where(self):
        from common import server

        return [server().address]

    def test_a_tensor_is_held_until_the_end(self):
        tensor = Tensor(array.array("B", bytes(100)), (50,), (1,))
        known = weakref.ref(tensor)
        id = self.client.submit_batch_get([fresh()], [tensor])
        del tensor
        gc.collect()
        self.assertIsNotNone(known())
        results(self.client, id)
        gc.collect()
        self.assertIsNone(known())

    def test_wrong_tensors_are_named(self):
        memory = array.array("B", bytes(100))

        def refuses(error, text, **change):
            tensor = Tensor(memory, (5, 5), (5, 1))
            for name, value in change.items():
                setattr(tensor, name, value)
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                self.client.submit_batch_get(["a"], [tensor])

        def sparse():
            raise RuntimeError("no such")

        class Cuda:
            type = "cuda"

            def __str__(self):
                return "cuda:1"

        refuses(
            ValueError, r"buffers\[0\] is a tensor on cuda:1: copy it to the CPU", device=Cuda()
        )
        refuses(ValueError, r"buffers\[0\] is empty", shape=(5, 0))
        refuses(ValueError, "is a tensor without memory", _address=0)
        refuses(ValueError, "reversed or repeated memory", _strides=(5, 0))
        refuses(TypeError, "has 2 dimensions and another number of strides", _strides=(1,))
        refuses(ValueError, r"is not resolved \(is_neg\(\)\)", is_neg=lambda: True)
        refuses(ZeroDivisionError, "", data_ptr=lambda: 1 / 0)
        for of_sparse in "stride", "data_ptr":
            refuses(ValueError, r"buffers\[0\] \(Tensor\) is not memory: no such", **{of_sparse: sparse})
        with self.assertRaisesRegex(ValueError, r"register\(\).*is not memory: no such"):
            tensor = Tensor(memory, (5, 5), (5, 1))
            tensor.data_ptr = sparse
            self.client.register(tensor)
        with self.assertRaisesRegex(ValueError, "not contiguous: register the whole storage"):
            self.client.register(Tensor(memory, (5, 5), (10, 1)))

    def test_a_registered_tensor(self):
        memory = array.array("B", bytes(8192))
        tensor = Tensor(memory, (64, 64), (64, 1))
        region = self.client.register(tensor)
        self.assertEqual(region.nbytes, 8192)
        region.unregister()

    @unittest.skipUnless(torch, "torch is not installed")
    def test_torch(self):
        for dtype in (torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.int64):
            cache = torch.arange(4 * 2 * 8 * 64).reshape(4, 2, 8, 64).to(dtype)
            into = torch.zeros_like(cache)
            key = fresh()
            self.put(key, [cache[:, 0, 3], cache[:, 1, 3]])
            nbytes = 4 * 2 * 64 * cache.element_size()
            self.assertEqual(self.get(key, [into[:, 0, 5], into[:, 1, 5]]), nbytes)
            self.assertTrue(torch.equal(into[:, :, 5].float(), cache[:, :, 3].float()))
            self.assertEqual(int(into[:, :, 4].float().abs().sum()), 0)
        with self.client.register(torch.zeros(4096, dtype=torch.bfloat16)):
            pass
        for tensor in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()):
            with self.assertRaisesRegex(ValueError, r"buffers\[0\] \(Tensor\) is not memory"):
                self.client.submit_batch_set(["a"], [tensor])


if __name__ == "__main__":
    unittest.main()
