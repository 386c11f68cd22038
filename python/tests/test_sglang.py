# SPDX-License-Identifier: Apache-2.0
"""kvrail.sglang without SGLang, on stand-ins of what it imports; tests/engines/sglang.sh has the real one.

It needs PyTorch, as SGLang does. Where PyTorch is not, the shapes of pages are tested with a stand-in for it alone.
"""

import ctypes
import importlib
import importlib.util
import sys
import types
import unittest
import unittest.mock

import kvrail
from common import fresh, nobody, server


def stand_ins():
    """kvrail.sglang as imported with stand-ins of SGLang and, where it is not, of PyTorch."""
    storage = types.ModuleType("sglang.srt.mem_cache.hicache_storage")
    storage.HiCacheStorage = type("HiCacheStorage", (), {})
    made = {}
    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache"):
        made[name] = types.ModuleType(name)
        made[name].__path__ = []
    made["sglang.srt.mem_cache"].hicache_storage = storage
    made[storage.__name__] = storage
    if not importlib.util.find_spec("torch"):
        made["torch"] = types.ModuleType("torch")
        made["torch"].Tensor = type("Tensor", (), {})
        made["torch"].dtype = type("dtype", (), {})
    return made


@unittest.skipUnless(importlib.util.find_spec("numpy"), "kvrail.sglang needs numpy, as SGLang does")
class ShapeTest(unittest.TestCase):
    def setUp(self):
        made = stand_ins()
        sys.modules.update(made)
        self.module = importlib.import_module("kvrail.sglang")

        def remove():
            for name in [*made, "kvrail.sglang"]:
                sys.modules.pop(name, None)

        self.addCleanup(remove)

    def items(self, addresses, sizes, pages, first=None):
        number = len(addresses) // pages
        shape = self.module._Shape(addresses[:number], sizes[:number])
        return shape.items(addresses, sizes, pages)

    def test_pages_of_one_piece(self):
        self.assertEqual(self.items([4096, 8192], [10, 10], 2), [(4096, 10), (8192, 10)])

    def test_pieces_at_one_distance(self):
        # k and v of two layers as layer_first lists them: k0, v0, k1, v1
        page = [1000, 3000, 2000, 4000]
        self.assertEqual(
            self.items(page + [a + 64 for a in page], [64] * 8, 2),
            [(1000, 256, 64, 1000), (1064, 256, 64, 1000)],
        )

    def test_pieces_that_touch_are_one(self):
        self.assertEqual(self.items([1000, 1064], [64, 64], 1), [(1000, 128)])

    def test_other_shapes_are_none(self):
        self.assertIsNone(self.items([1000, 2000], [64, 65], 1))
        self.assertIsNone(self.items([1000, 2000, 4000], [64] * 3, 1))
        self.assertIsNone(self.items([1000, 1032], [64, 64], 1))
        self.assertIsNone(self.items([1000, 1000], [64, 64], 1))
        shape = self.module._Shape([1000, 2000], [64, 64])
        self.assertIsNone(shape.items([2000, 1000], [64, 64], 1))  # the parts changed places
        self.assertIsNone(shape.items([1000, 2000, 3000], [64] * 3, 1))

    def test_pages_outside_of_the_pool_are_refused(self):
        """A page has k and v of two layers, 1,000 apart; the pool has room for 15 pages in each."""
        pool = object.__new__(self.module._Pool)
        pool.shape = self.module._Shape([10_000, 11_000, 12_000, 13_000], [64] * 4)
        pool.spans = [(10_000, 12_000), (12_000, 14_000 - 40)]
        pool.pool = types.SimpleNamespace(
            get_page_buffer_meta=lambda pages: (
                [10_000 + part * 1000 + page * 64 for page in pages for part in range(4)],
                [64] * 4 * len(pages),
            )
        )
        self.assertEqual(pool.items([0, 14], 2)[1], (10_896, 256, 64, 1000))
        for outside in (15, 16, -1, 1 << 40, -(1 << 40), 1 << 57):
            with self.assertRaisesRegex(ValueError, "1 of 2 pages are outside of the pool, page 1 "):
                pool.items([3, outside], 2)
        pool.spans = []  # where its memory is not known
        pool.items([15], 1)

    def test_which_part_is_first_is_told_apart(self):
        one, other = self.module._Shape([1000, 2000], [64] * 2), self.module._Shape(
            [2000, 1000], [64] * 2
        )
        self.assertNotEqual(one.order, other.order)

    def test_keys_are_packed(self):
        pack = self.module.pack
        self.assertEqual(pack("ab" * 32), b"h" + bytes([0xAB]) * 32)
        self.assertEqual(pack("AB" * 32), b"t" + b"AB" * 32)
        self.assertEqual(pack("x" * 64), b"t" + b"x" * 64)
        self.assertEqual(pack("ab"), b"tab")

    def test_kinds_of_fp8_share_nothing(self):
        part, seen = types.SimpleNamespace, set()
        backend = part(_config=part(model_name="m"))
        for dtype in ("torch.float8_e4m3fn", "torch.float8_e5m2"):
            pool = part(layout="page_first", dtype="torch.uint8", device_pool=part(dtype=dtype))
            seen.add(self.module.KVRailHiCache._prefix(backend, "kv", pool))
        self.assertEqual(len(seen), 2)

    def test_tensor_ranks_share_what_is_equal_on_all(self):
        part = types.SimpleNamespace
        mla, heads = part(kv_lora_rank=512), part(head_num=2)
        for model_is_mla, name, pool, shared in (
            (False, "kv", heads, False),
            (True, "kv", mla, True),
            (True, "indexer", part(), True),
            (True, "mamba", part(), False),
            (True, "draft", mla, True),
            (True, "draft", heads, False),  # a draft model with heads beside a model that is MLA
        ):
            prefixes = set()
            for rank in (0, 1):
                config = part(model_name="m", is_mla_model=model_is_mla, tp_rank=rank, tp_size=2)
                backend = part(_config=config)
                prefixes.add(self.module.KVRailHiCache._prefix(backend, name, pool))
            self.assertEqual(len(prefixes) == 1, shared, (model_is_mla, name, pool))

    def test_a_switch_is_no_text(self):
        part = types.SimpleNamespace
        for text in ("0", "1", "false", "", None, 2):
            config = part(extra_config={"servers": "127.0.0.1:1", "interface_v1": text})
            with self.assertRaisesRegex(ValueError, "interface_v1 is 0 or 1"):
                self.module.KVRailHiCache(config)
        for value in (0, 1, False, True):
            self.assertIs(self.module.flag("interface_v1", value), bool(value))

    def test_options_that_cannot_work_are_refused(self):
        part = types.SimpleNamespace
        for options, text in (
            ({"timeout": 0.9}, "timeout is 0.9 s; it must be below 0.9 s"),
            ({"timeout": 30}, "timeout is 30 s; it must be below"),
            (
                {"sever": "a"},
                "'sever', which is no option of this backend; it has allow_clear.*ttl",
            ),
            ({"wait": True}, "'wait', which is no option"),
            ({"ttl": 1.5}, "ttl"),
        ):
            config = part(extra_config={"servers": "127.0.0.1:1", **options})
            with self.subTest(options), self.assertRaisesRegex(ValueError, text):
                self.module.KVRailHiCache(config)
        for (
            option
        ) in self.module.CLIENT_OPTIONS:  # they reach the client, which finds the value wrong
            config = part(extra_config={"servers": "127.0.0.1:1", option: object()})
            with self.subTest(option), self.assertRaises((TypeError, kvrail.Invalid)):
                self.module.KVRailHiCache(config)

    def backend(self, address=None, options={}, **config):
        given = {"servers": address or server().address, "num_clients": 1, **options}
        backend = self.module.KVRailHiCache(types.SimpleNamespace(extra_config=given, **config))
        self.addCleanup(backend.close)
        return backend

    def test_what_the_engine_knows_is_in_the_namespace(self):
        part = types.SimpleNamespace
        args = {"model_path": "m", "kv_cache_dtype": "auto", "weight_version": "1", "lora_paths": []}

        def name(options={}, config={}, **more):
            given = part(**{**args, **more})
            with unittest.mock.patch.object(self.module, "_server_args", lambda: given):
                fields = self.module._fields(part(model_name="m", **config), options)
                return self.module.keys.namespace("sglang", **fields)

        def lora(path):  # SGLang gives each adapter a random id
            return {"a": part(lora_id=fresh(), lora_name="a", lora_path=path)}

        names = [
            name(),
            name(options={"revision": "r"}),
            name(options={"weights": "w"}),
            name(config={"tp_rank": 1, "tp_size": 2}),
            name(config={"pp_rank": 1}),
            name(config={"dcp_size": 2}),
            name(kv_cache_dtype="fp8_e4m3"),
            name(quantization="fp8"),
            name(weight_version="2"),
            name(lora_paths=lora("p")),
            name(lora_paths=lora("q")),
        ]
        self.assertEqual(len(set(names)), len(names))
        self.assertTrue(all(len(n) <= 64 for n in names))
        self.assertEqual(name(lora_paths=lora("p")), names[-2])
        alike = {"is_mla_model": True, "tp_size": 2}
        self.assertEqual(name(config=alike), name(config={**alike, "tp_rank": 1}))

    def test_clear_clears_for_all_engines_of_the_fingerprint(self):
        mine, again = self.backend(model_name="m"), self.backend(model_name="m")
        other = self.backend(model_name="m", options={"revision": "r2"})
        key, value = fresh().encode(), bytearray(b"page")
        memory = ctypes.addressof(ctypes.c_char.from_buffer(value))
        for backend in (mine, other):
            self.assertEqual(backend._store([key], [(memory, len(value))]), [True])
        exists = lambda b: b._call(b._client.submit_batch_exists, [key], 60.0)[0]
        self.assertEqual([exists(b) for b in (mine, again, other)], [1, 1, 1])
        self.assertIs(again.clear(), True)
        self.assertEqual([exists(b) for b in (mine, again, other)], [0, 0, 1])
        self.assertEqual(mine._store([key], [(memory, len(value))]), [True])
        self.assertEqual([exists(b) for b in (mine, again, other)], [1, 1, 1])

    def test_a_clear_that_cannot_be_made_raises(self):
        """SGLang logs an exception, and reports success for every returned value."""
        with self.assertRaisesRegex(RuntimeError, "allow_clear is 0"):
            self.backend(options={"allow_clear": 0}).clear()
        address, held = nobody()
        self.addCleanup(held.close)
        with self.assertRaises(kvrail.PeerDown):
            self.backend(address).clear()

    def test_memory_of_a_gpu_is_refused(self):
        tensor = types.SimpleNamespace(device=types.SimpleNamespace(type="cuda"))
        with self.assertRaisesRegex(ValueError, "a page has memory of .*cuda.*tensor.cpu()"):
            self.module._memory(tensor)

    def test_stores_are_in_the_background(self):
        backend = self.module.KVRailHiCache(
            types.SimpleNamespace(extra_config={"servers": server().address, "num_clients": 1})
        )
        self.addCleanup(backend.close)
        value = bytearray(b"page")
        memory = ctypes.addressof(ctypes.c_char.from_buffer(value))
        with unittest.mock.patch.object(backend, "_client", wraps=backend._client) as client:
            self.assertEqual(backend._store([fresh().encode()], [(memory, 4)]), [True])
        ((args, options),) = client.submit_batch_set.call_args_list
        names = ("keys", "buffers", "timeout", "ttl", "background")
        self.assertIs({**dict(zip(names, args)), **options}["background"], True)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_pages_in_tensors_are_counted(self):
        import torch

        backend, keys = self.backend(), [fresh() for _ in range(3)]
        pages = [torch.full((8, 5), n, dtype=torch.bfloat16) for n in range(3)]
        self.assertIs(backend.batch_set(keys[:2], pages[:2]), True)
        into = [torch.zeros(5, 8, dtype=torch.bfloat16).T for _ in pages]
        self.assertEqual([t is not None for t in backend.batch_get(keys, into)], [True, True, False])
        self.assertTrue(torch.equal(into[1], pages[1]))
        counters = backend.counters()
        self.assertEqual([counters[f"pages_{n}"] for n in ("written", "read", "missed")], [2, 2, 1])
        for calls in backend._stores, backend._loads:
            ((pages, nbytes, elapsed),) = calls
            self.assertEqual((pages, nbytes), (2, 160))

    def test_what_a_miss_is_does_not_hide_why_a_store_fails(self):
        backend = self.module.KVRailHiCache(
            types.SimpleNamespace(extra_config={"servers": server().address, "num_clients": 1})
        )
        self.addCleanup(backend.close)
        with unittest.mock.patch.object(backend._reaper, "call", lambda *args: [-1009]):
            with self.assertNoLogs("sglang.kvrail", "WARNING"):
                self.assertEqual(backend._call(backend._client.submit_batch_get), [-1009])
            with self.assertLogs("sglang.kvrail", "WARNING") as lines:
                self.assertEqual(backend._store([b"k"], [(1, 1)]), [False])
        self.assertRegex(lines.output[0], "1 of 1 keys failed: KV_ETOOBIG: .*--value-max")

    def test_prefixes(self):
        self.assertEqual(self.module._leading([True, True, False, True]), 2)
        self.assertEqual(self.module._trailing([True, False, True, True], 4, 2), {1, 4})


if __name__ == "__main__":
    unittest.main()
