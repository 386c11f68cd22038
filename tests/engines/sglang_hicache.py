# SPDX-License-Identifier: Apache-2.0
"""sglang_hicache.py -- KVRailHiCache under the real SGLang: its storage interface, its factory of backends, its controller's
functions and the methods of its host pools, on tensors of the CPU, with a real kv-server. Speaks TAP.

Triton and torchvision, which are imported but not used here, are replaced by the stand-ins that SGLang has for machines
without Triton. Host pools are made without their constructor, which needs a device pool. No GPU, no engine."""

import importlib.machinery
import importlib.util
import json
import logging
import os
import pathlib
import re
import signal
import sys
import threading
import time
import types

import torch

STAND_INS = ("triton", "torchvision")


class _Finder:
    """Makes any module of STAND_INS a mock of SGLang's own."""

    def __init__(self, module_type):
        self.module_type = module_type

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in STAND_INS:
            return None
        module = self.module_type(name)
        loader = types.SimpleNamespace(create_module=lambda spec: module, exec_module=lambda module: None)
        return importlib.machinery.ModuleSpec(name, loader, is_package=True)


def stand_in():
    """Before SGLang is imported: its stand-in for Triton; after: for torchvision, which others look for, too."""
    path = next(p for p in (pathlib.Path(d) / "sglang" / "_platform_stubs.py" for d in sys.path) if p.is_file())
    spec = importlib.util.spec_from_file_location("_sglang_stand_ins", path)
    stubs = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = stubs
    spec.loader.exec_module(stubs)
    # It makes them on Macs only.
    stubs.sys = types.SimpleNamespace(platform="darwin", modules=sys.modules, meta_path=sys.meta_path)
    stubs.platform = types.SimpleNamespace(machine=lambda: "arm64")
    available = torch.backends.mps.is_available
    torch.backends.mps.is_available = lambda: True
    try:
        stubs.install_platform_stubs()
    finally:
        torch.backends.mps.is_available = available
    import sglang

    sys.meta_path.append(_Finder(stubs._MockModule))
    return sglang.__version__


version = stand_in()

import kvrail
import tap

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))
from common import freeze
from guide import Guide
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorageConfig,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
from sglang.srt.mem_cache.unified_cache.storage_attachment import StorageAttachment
from sglang.srt.mem_cache.utils import get_hash_str
from sglang.srt.server_args import prepare_server_args

PAGE, LAYERS, HEADS, DIM, PAGES = 8, 4, 2, 32, 16
LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_head")
names = iter(range(1 << 30))


def host_pool(layout, pages=PAGES):
    pool = MHATokenToKVPoolHost.__new__(MHATokenToKVPoolHost)
    pool.layout, pool.dtype, pool.device, pool.pin_memory = layout, torch.float16, "cpu", False
    pool.page_size, pool.layer_num, pool.head_num, pool.head_dim, pool.v_head_dim = PAGE, LAYERS, HEADS, DIM, DIM
    pool.page_num, pool.size, pool.start_layer, pool.end_layer = pages, pages * PAGE, 0, LAYERS
    dims = {
        "layer_first": (2, LAYERS, pool.size, HEADS, DIM),
        "page_first": (2, pool.size, LAYERS, HEADS, DIM),
        "page_first_direct": (2, pages, LAYERS, PAGE, HEADS, DIM),
        "page_head": (2, pages, HEADS, PAGE, LAYERS, DIM),
    }[layout]
    pool.kv_buffer = torch.zeros(dims, dtype=pool.dtype)
    return pool


def fill(pool, seed):
    torch.manual_seed(seed)
    pool.kv_buffer.copy_(torch.randn(pool.kv_buffer.shape))


def indices(*pages):
    return torch.cat([torch.arange(p * PAGE, (p + 1) * PAGE) for p in pages])


def hashes(count, seed=None):
    """A chain of pages as SGLang hashes it."""
    last, out = None, []
    seed = next(names) if seed is None else seed
    for page in range(count):
        last = get_hash_str([seed * 1000 + page + i for i in range(PAGE)], last)
        out.append(last)
    return out


def backend(server, pool=None, v1=1, **options):
    config = {k: options.pop(k) for k in list(options) if k in HiCacheStorageConfig.__dataclass_fields__}
    extra = {
        "backend_name": "kvrail",
        "module_path": "kvrail.sglang",
        "class_name": "KVRailHiCache",
        "servers": server.address,
        "num_clients": 1,
        **({"interface_v1": 1} if v1 else {}),
        **options,
    }
    made = StorageBackendFactory.create_backend(
        "dynamic",
        HiCacheStorageConfig(
            **{
                **dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1),
                **dict(is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=True),
                **dict(model_name="model"),
                **config,
            },
            extra_config=extra,
        ),
        pool,
    )
    if pool is not None:
        made.register_mem_pool_host(pool)
    return made


class Logs(logging.Handler):
    """The lines of our logger."""

    def __enter__(self):
        self.lines = []
        logging.getLogger("sglang.kvrail").addHandler(self)
        return self

    def __exit__(self, *exc):
        logging.getLogger("sglang.kvrail").removeHandler(self)

    def emit(self, record):
        self.lines.append(record.getMessage())


class Open:
    """A backend that is closed at the end. It is connected, unless there is no server: a call has 0.8 s, in which a busy
    machine may not connect."""

    def __init__(self, server, *args, **kwargs):
        self.server, self.args, self.kwargs = server, args, kwargs

    def __enter__(self):
        self.made = backend(self.server, *self.args, **self.kwargs)
        deadline = time.monotonic() + 60
        while self.server.running() and any(s["state"] != "up" for s in self.made._client.servers()):
            assert time.monotonic() < deadline, "it does not connect"
            time.sleep(0.01)
        return self.made

    def __exit__(self, *exc):
        self.made.close()


def page(pool, n):
    return pool.get_data_page(n * PAGE, flat=True)


def test_v1_stores_and_loads_every_layout(server):
    for layout in LAYOUTS:
        pool, other = host_pool(layout), host_pool(layout, pages=PAGES + 3)  # another distance between parts
        fill(pool, 1)
        keys = hashes(5)
        with Open(server, pool) as b, Open(server, other) as c:
            assert b._pools["kv"].shape is not None, layout  # no copies
            assert b._registered
            assert b.batch_exists(keys) == 0
            assert b.batch_set_v1(keys, indices(3, 0, 7, 1, 2)) == [True] * 5
            assert c.batch_exists([*keys, *hashes(1)]) == 5
            assert c.batch_get_v1(keys, indices(4, 5, 6, 18, 8)) == [True] * 5
            for mine, theirs in zip((3, 0, 7, 1, 2), (4, 5, 6, 18, 8)):
                assert torch.equal(page(pool, mine), page(other, theirs)), (layout, mine)
            assert not page(other, 9).any()


def test_the_guides_command_up_to_the_backend(server):
    """Its words through SGLang's own parser and checks; what they make of them through its factory. A server that starts
    with them needs a GPU."""
    with Guide("SGLang") as guide:
        args = prepare_server_args(guide.words("sglang.launch_server"))
        assert args.hicache_storage_backend == "dynamic" and args.hicache_io_backend == "direct"
        options = json.loads(args.hicache_storage_backend_extra_config)
        assert options.pop("servers") == guide.server.address and options["interface_v1"] == 1
        pool = host_pool(args.hicache_mem_layout)
        fill(pool, 40)
        keys = hashes(2)
        with Open(guide.server, pool, **options) as b:
            assert b.batch_set_v1(keys, indices(0, 1)) == [True, True]
            assert b.batch_get_v1(keys, indices(2, 3)) == [True, True]
            assert torch.equal(page(pool, 3), page(pool, 1))


def test_consecutive_hits(server):
    pool = host_pool("page_first")
    fill(pool, 2)
    keys = hashes(6)
    with Open(server, pool) as b:
        b.batch_set_v1([keys[0], keys[1], keys[3]], indices(0, 1, 3))
        assert b.batch_exists(keys) == 2
        assert b.batch_exists(keys[2:]) == 0
        assert b.batch_exists([]) == 0
        assert b.batch_get_v1(keys[:4], indices(4, 5, 6, 7)) == [True, True, False, True]
        assert b.batch_set_v1(keys[:1], indices(9)) == [True]  # stored twice: as good


def test_a_page_of_another_length_is_a_miss(server):
    pool = host_pool("page_first")
    fill(pool, 3)
    (key,) = hashes(1)
    with Open(server, pool) as b:
        from kvrail import sglang as ours

        space = ours.keys.namespace("sglang", **ours._fields(b._config, {}))
        plain = kvrail.Client(server.address, num_clients=1, namespace=space)
        plain.put(b._pools["kv"].prefix + ours.pack(key), b"short")
        plain.close()
        before = page(pool, 2).clone()
        assert b.batch_exists([key]) == 1
        assert b.batch_get_v1([key], indices(2)) == [False]
        assert before.numel()


def test_what_must_not_be_shared_is_not(server):
    pool = host_pool("page_first")
    fill(pool, 4)
    keys = hashes(1)
    with Open(server, pool) as b:
        b.batch_set_v1(keys, indices(0))
    with Open(server, host_pool("page_first")) as b:
        assert b.batch_exists(keys) == 1
    for other in (
        dict(tp_rank=1, tp_size=2),
        dict(pp_rank=1, pp_size=2),
        dict(model_name="other"),
        dict(revision="v2"),
        dict(namespace="mine"),
        dict(weights="trained further"),
        dict(v1=0),
    ):
        with Open(server, host_pool("page_first"), **other) as b:
            assert b.batch_exists(keys) == 0, other
    for layout in ("layer_first", "page_head"):
        with Open(server, host_pool(layout)) as b:
            assert b.batch_exists(keys) == 0, layout
    # MLA: the ranks of tensor parallelism have the same bytes, and share them
    with Open(server, pool, is_mla_model=True, tp_size=2) as b:
        b.batch_set_v1(keys, indices(0))
    with Open(server, pool, is_mla_model=True, tp_size=2, tp_rank=1) as b:
        assert b.batch_exists(keys) == 1


def test_v2_pools_and_their_policies(server):
    kv, extra, state = host_pool("page_first"), host_pool("layer_first"), host_pool("page_first_direct")
    for i, pool in enumerate((kv, extra, state)):
        fill(pool, 10 + i)
    keys = hashes(4)
    with Open(server, kv) as b:
        b.register_mem_host_pool_v2(extra, PoolName.INDEXER)
        b.register_mem_host_pool_v2(state, PoolName.MAMBA)

        def transfers(indexer, mamba):
            return [
                PoolTransfer(name=PoolName.INDEXER, host_indices=indices(*indexer[1]), keys=indexer[0]),
                PoolTransfer(
                    name=PoolName.MAMBA,
                    host_indices=indices(*mamba[1]),
                    keys=mamba[0],
                    hit_policy=PoolHitPolicy.TRAILING_PAGES,
                ),
            ]

        b.batch_set_v1(keys, indices(0, 1, 2, 3))
        done = b.batch_set_v2(transfers((keys[:3], (0, 1, 2)), ([keys[1]], (5,))))
        assert done == {PoolName.INDEXER: [True] * 3, PoolName.MAMBA: [True]}
        found = b.batch_exists_v2(keys, transfers((keys, (0, 1, 2, 3)), (keys[-1:], (0,))))
        # KV: 4 pages, the indexer 3 of them; the state only where its last page is there: after 2
        assert found.kv_hit_pages == 2, found
        assert found.extra_pool_hit_pages == {"kv": 4, PoolName.INDEXER: 3, PoolName.MAMBA: 2}, found
        assert found.restorable_prefix_pages == [2]
        got = b.batch_get_v2(transfers((keys, (8, 9, 10, 11)), ([keys[1]], (12,))))
        assert got == {PoolName.INDEXER: [True, True, True, False], PoolName.MAMBA: [True]}
        assert torch.equal(page(extra, 8), page(extra, 0)) and torch.equal(page(state, 12), page(state, 5))
        assert b.batch_exists_v2(hashes(3)).kv_hit_pages == 0
        # a pool that nobody registered, and lengths that do not fit, are misses
        unknown = [PoolTransfer(name=PoolName.SWA, host_indices=indices(0), keys=keys[:1])]
        assert b.batch_get_v2(unknown) == {PoolName.SWA: [False]}
        assert b.batch_exists_v2(keys, unknown).kv_hit_pages == 0
        short = [PoolTransfer(name=PoolName.INDEXER, host_indices=indices(0), keys=keys)]
        assert b.batch_set_v2(short) == {PoolName.INDEXER: [False] * 4}


class Irregular:
    """A pool whose pages have parts of two sizes: they are copied."""

    page_size, layout, dtype = 1, "page_first", torch.uint8

    def __init__(self):
        self.a_buffer, self.b_buffer = torch.zeros((8, 4096), dtype=torch.uint8), torch.zeros((8, 100), dtype=torch.uint8)

    def get_page_buffer_meta(self, indices):
        pairs = [(self.a_buffer[i].data_ptr(), self.b_buffer[i].data_ptr()) for i in indices.tolist()]
        return [p for pair in pairs for p in pair], [4096, 100] * len(pairs)

    def get_data_page(self, index, flat=True):
        return torch.cat([self.a_buffer[index], self.b_buffer[index]])

    def get_dummy_flat_data_page(self):
        return torch.zeros(4196, dtype=torch.uint8)

    def set_from_flat_data_page(self, index, data):
        self.a_buffer[index], self.b_buffer[index] = data[:4096], data[4096:]


def test_indices_outside_of_the_pool_are_misses(server):
    """They were addresses outside of the pool, which ended the process."""
    for layout in ("layer_first", "page_first"):
        pool = host_pool(layout)
        fill(pool, 17)
        with Open(server, pool) as b:
            keys = hashes(2)
            for outside in (PAGES, 1 << 30, 1 << 50):
                wrong = torch.cat([indices(0), torch.arange(outside * PAGE, (outside + 1) * PAGE)])
                assert b.batch_set_v1(keys, wrong) == [False, False]
                assert b.batch_get_v1(keys, wrong) == [False, False]
            assert b.batch_set_v1(keys, -1 - indices(0, 1)) == [False, False]
            assert b.batch_set_v1(keys, indices(0, PAGES - 1)) == [True, True]
            assert b.batch_get_v1(keys, indices(1, 2)) == [True, True]


def test_irregular_pages_are_copied(server):
    pool = Irregular()
    pool.a_buffer.random_(), pool.b_buffer.random_()
    with Open(server, pool) as b:
        assert b._pools["kv"].shape is None
        keys = hashes(2)
        assert b.batch_set_v1(keys, torch.tensor([0, 1])) == [True, True]
        assert b.batch_get_v1([*keys, *hashes(1)], torch.tensor([4, 5, 6])) == [True, True, False]
        assert torch.equal(pool.get_data_page(4), pool.get_data_page(0))
        assert torch.equal(pool.get_data_page(5), pool.get_data_page(1))


def test_a_kv_pool_without_bytes(server):
    """That of DeepSeek V4 numbers pages, and its other pools hold them."""
    kv, extra = LogicalHostPool(PAGES * PAGE, PAGE), host_pool("layer_first")
    fill(extra, 15)
    keys = hashes(3)
    with Open(server, kv) as b:
        b.register_mem_host_pool_v2(extra, PoolName.DEEPSEEK_V4_C4)

        def transfers(*pages):
            return [PoolTransfer(name=PoolName.DEEPSEEK_V4_C4, host_indices=indices(*pages), keys=keys[: len(pages)])]

        assert b.batch_exists_v2(keys, transfers(0, 1, 2)).kv_hit_pages == 0
        assert b.batch_set_v1(keys, indices(0, 1, 2)) == [True] * 3
        assert b.batch_set_v2(transfers(0, 1)) == {PoolName.DEEPSEEK_V4_C4: [True] * 2}
        found = b.batch_exists_v2(keys, transfers(0, 1, 2))
        assert found.kv_hit_pages == 2 and found.restorable_prefix_pages == [1, 2], found
        assert b.batch_get_v1(keys[:2], indices(8, 9)) == [True] * 2
        assert b.batch_get_v2(transfers(8, 9)) == {PoolName.DEEPSEEK_V4_C4: [True] * 2}
        assert torch.equal(page(extra, 9), page(extra, 1))
        # nobody says what is there
        assert b.batch_exists(keys) == 0 and b.batch_exists_v2(keys).kv_hit_pages == 0


def test_a_draft_model_with_heads_beside_mla(server):
    draft = host_pool("page_first")
    fill(draft, 16)
    keys, ranks = hashes(2), dict(is_mla_model=True, tp_size=2)
    with Logs() as logs, Open(server, host_pool("page_first"), **ranks) as b:
        b.register_mem_host_pool_v2(draft, PoolName.DRAFT)
        transfers = [PoolTransfer(name=PoolName.DRAFT, host_indices=indices(0, 1), keys=keys)]
        assert b.batch_set_v1(keys, indices(0, 1)) == [True] * 2
        assert b.batch_set_v2(transfers) == {PoolName.DRAFT: [True] * 2}
        assert b.batch_exists_v2(keys, transfers).kv_hit_pages == 2
    assert any("the pool draft is split over 2 tensor ranks" in line for line in logs.lines), logs.lines
    with Open(server, host_pool("page_first"), tp_rank=1, **ranks) as b:
        b.register_mem_host_pool_v2(host_pool("page_first"), PoolName.DRAFT)
        assert b.batch_exists(keys) == 2  # of the model itself
        assert b.batch_exists_v2(keys, transfers).kv_hit_pages == 0  # those are rank 0's


def controller(b, pool, v1):
    """The real controller's functions, without its threads, pools and groups."""
    made = HiCacheController.__new__(HiCacheController)
    made.storage_backend, made.storage_host_pool, made.page_size = b, pool, PAGE
    made.page_get_func = made._page_get_zero_copy if v1 else made._generic_page_get
    made.page_set_func = made._page_set_zero_copy if v1 else made._generic_page_set
    return made


def test_the_controllers_backup_and_fetch(server):
    for v1 in (1, 0):
        pool = host_pool("page_first")
        fill(pool, 20)
        keys = hashes(4)
        with Open(server, pool, v1=v1) as b:
            c = controller(b, pool, v1)
            backup = types.SimpleNamespace(
                prefix_keys=None, hash_value=keys[:3], host_indices=indices(0, 1, 2), completed_tokens=0
            )
            c._page_backup(backup)
            assert backup.completed_tokens == 3 * PAGE
            assert b.batch_exists(keys) == 3
            fetch = types.SimpleNamespace(request_id="r", is_terminated=lambda: False)
            assert c.page_get_func(fetch, keys, indices(8, 9, 10, 11)) == 3
            for n in range(3):
                assert torch.equal(page(pool, 8 + n), page(pool, n)), (v1, n)


def test_clear(server):
    """SGLang's own way from its request to the backend, with a tree that has nothing else."""
    pool, keys = host_pool("page_first"), hashes(3)
    fill(pool, 21)
    with Open(server, pool) as b, Open(server, pool) as again, Open(server, pool, revision="v3") as other:
        c = HybridCacheController.__new__(HybridCacheController)
        c.storage_backend, c.enable_storage = b, True
        attachment = StorageAttachment(types.SimpleNamespace(cache_controller=c))
        for one in (b, other):
            assert one.batch_set_v1(keys, indices(0, 1, 2)) == [True] * 3
        assert again.batch_exists(keys) == 3
        assert attachment.clear() is True
        assert [one.batch_exists(keys) for one in (b, again, other)] == [0, 0, 3]
        assert b.batch_get_v1(keys, indices(4, 5, 6)) == [False] * 3
        assert again.batch_set_v1(keys[:2], indices(7, 8)) == [True] * 2
        assert b.batch_exists(keys) == 2
        assert b.batch_get_v1(keys[:2], indices(4, 5)) == [True] * 2
        assert torch.equal(page(pool, 5), page(pool, 8))
    with Open(server, pool, allow_clear=0) as b:  # after a restart
        assert b.batch_exists(keys) == 2
        c.storage_backend = b
        assert attachment.clear() is False  # it raised, and SGLang has logged it
        assert b.batch_exists(keys) == 2
    mortal = kvrail.Server(memory_mb=64)
    with Open(mortal, pool) as b:
        mortal.close()
        c.storage_backend = b
        assert attachment.clear() is False


def test_tensors_one_by_one(server):
    with Open(server, v1=0) as b:
        keys = hashes(2)
        value, into = torch.randn(100), torch.zeros(100)
        assert not b.exists(keys[0]) and b.get(keys[0], into) is None
        assert b.set(keys[0], value) and b.exists(keys[0])
        assert b.get(keys[0], into) is into and torch.equal(into, value)
        turned = torch.zeros((10, 10)).t()
        assert torch.equal(b.get(keys[0], turned).reshape(-1), value)
        assert b.batch_set(keys, [value, value]) and b.batch_get(keys, [into, None]) == [None, None]
        assert not b.set(keys[0], "text") and not b.batch_set(keys, [value])


def test_bad_configuration(server):
    for options, words in (
        ({"servers": ""}, "servers"),
        ({"timeout": 2.5}, "below 0.9 s"),
        ({"timeout": 0.9}, "below 0.9 s"),
        ({"sever": "10.0.0.1:7411"}, "'sever', which is no option of this backend; it has .*psk_file"),
        ({"psk": "0"}, "PSK text"),
        ({"timeout": "x"}, "timeout"),
        ({"ttl": "x"}, "ttl"),
        ({"provider": "none-such"}, "none-such"),
    ):
        try:
            backend(server, **options)
        except (ValueError, kvrail.Error) as error:
            assert re.search(words, str(error)), error
        else:
            raise AssertionError(f"{options} was taken")


class Elsewhere(torch.Tensor):
    """A tensor that says it is on a GPU."""

    @property
    def device(self):
        return torch.device("cuda:0")


def elsewhere(tensor):
    return tensor.as_subclass(Elsewhere)


def test_memory_of_a_gpu_is_refused(server):
    pool = host_pool("page_first")
    pool.kv_buffer = elsewhere(pool.kv_buffer)
    keys = hashes(1)
    with Logs() as logs, Open(server, pool) as b:
        assert b.batch_set_v1(keys, indices(0)) == [False] and b.batch_get_v1(keys, indices(0)) == [False]
        assert not b._registered
    assert any("memory of cuda:0, and kvrail moves memory of the host alone" in line for line in logs.lines), logs.lines
    with Logs() as logs, Open(server, v1=0) as b:
        assert not b.set(keys[0], elsewhere(torch.zeros(100))) and not b.exists(keys[0])
        assert b.get(keys[0], elsewhere(torch.zeros(100))) is None
    assert any("a page has memory of cuda:0" in line for line in logs.lines), logs.lines


def test_bad_calls_do_not_raise(server):
    pool = host_pool("page_first")
    with Open(server) as b:  # no pool was registered
        assert b.batch_get_v1(hashes(2), indices(0, 1)) == [False, False]
    with Open(server, pool) as b:
        keys = hashes(2)
        assert b.batch_set_v1(keys, indices(0)) == [False, False]
        assert b.batch_get_v1(keys, None) == [False, False]
        assert b.batch_get_v1([], torch.tensor([], dtype=torch.int64)) == []
        assert b.batch_get_v1(["", "x" * 500], indices(0, 1)) == [False, False]
        assert b.batch_set_v1(["x" * 500], indices(0)) == [True]
        assert b.clear() is True
        assert b.counters()["pages_written"] == 1


def test_metrics_are_sglangs_own(server):
    from sglang.srt.observability.metrics_collector import StorageMetrics

    pool = host_pool("page_first")
    with Open(server, pool) as b:
        keys = hashes(2)
        assert b.get_stats() == StorageMetrics()
        assert b.batch_set_v1(keys, indices(0, 1)) == [True, True]
        assert b.batch_get_v1([*keys, "0" * 64], indices(0, 1, 2)) == [True, True, False]
        stats = b.get_stats()
        assert isinstance(stats, StorageMetrics)
        assert (stats.backup_pgs, stats.prefetch_pgs) == ([2], [2]), stats
        assert all(speed > 0 for speed in stats.backup_bandwidth + stats.prefetch_bandwidth)
        assert b.get_stats() == StorageMetrics(), "taken once"
        assert b.counters()["pages_missed"] == 1 and b.counters()["pages_failed"] == 0
        # Without interface_v1 SGLang passes tensors.
        pages = [torch.full((100,), n, dtype=torch.uint8) for n in range(3)]
        assert b.batch_set(["t0", "t1"], pages[:2]) is True
        into = [torch.zeros(100, dtype=torch.uint8) for _ in pages]
        assert [t is not None for t in b.batch_get(["t0", "t1", "t2"], into)] == [True, True, False]
        stats = b.get_stats()
        assert (stats.backup_pgs, stats.prefetch_pgs) == ([2], [2]), stats
        assert b.counters()["pages_written"] == 4 and b.counters()["pages_missed"] == 2


def test_no_server_at_all(server):
    gone = kvrail.Server(memory_mb=64)
    gone.kill()
    pool = host_pool("page_first")
    with Open(gone, pool) as b:
        keys = hashes(2)
        assert b.batch_exists(keys) == 0
        assert b.batch_set_v1(keys, indices(0, 1)) == [False, False]
        assert b.batch_get_v1(keys, indices(0, 1)) == [False, False]


def test_a_server_that_stands_still(server):
    pool = host_pool("layer_first")
    with kvrail.Server(memory_mb=64) as still, Open(still, pool, timeout=0.5) as b:
        keys = hashes(2)
        assert b.batch_set_v1(keys, indices(0, 1)) == [True, True]
        freeze(still)
        try:
            assert b.batch_exists(keys) == 0
            assert b.batch_get_v1(keys, indices(2, 3)) == [False, False]
            assert b.batch_set_v1(hashes(2), indices(0, 1)) == [False, False]
        finally:
            os.kill(still.pid, signal.SIGCONT)


def test_killed_and_restarted_under_three_threads(server):
    pool = host_pool("layer_first")
    fill(pool, 30)
    wrong, stop = [], threading.Event()
    with kvrail.Server(memory_mb=64) as mortal, Open(mortal, pool) as b:
        keys = hashes(4)

        def loop(call, fine):
            while not stop.is_set():
                try:
                    result = call()
                except BaseException as error:
                    wrong.append(repr(error))
                    return
                if not fine(result):
                    wrong.append(result)
                    return

        flags = lambda r: len(r) == 4 and set(r) <= {True, False}
        threads = [
            threading.Thread(target=loop, args=(lambda: b.batch_exists(keys), lambda n: 0 <= n <= 4)),
            threading.Thread(target=loop, args=(lambda: b.batch_get_v1(keys, indices(8, 9, 10, 11)), flags)),
            threading.Thread(target=loop, args=(lambda: b.batch_set_v1(keys, indices(0, 1, 2, 3)), flags)),
        ]
        for t in threads:
            t.start()
        try:
            for _ in range(3):
                deadline = time.monotonic() + 60
                while b.batch_exists(keys) != 4 and not wrong:
                    assert time.monotonic() < deadline, "it does not come back"
                mortal.restart()
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert not wrong, wrong
        deadline = time.monotonic() + 60
        while not all(b.batch_set_v1(keys, indices(0, 1, 2, 3))):
            assert time.monotonic() < deadline, "it does not come back"
        while not all(b.batch_get_v1(keys, indices(8, 9, 10, 11))):
            assert time.monotonic() < deadline, "it does not come back"
        for n in range(4):
            assert torch.equal(page(pool, 8 + n), page(pool, n))


def test_close_under_a_call(server):
    pool = host_pool("page_first")
    with kvrail.Server(memory_mb=64) as still:
        b = backend(still, pool, timeout=0.8)
        keys = hashes(1)
        b.batch_set_v1(keys, indices(0))
        freeze(still)
        try:
            results = []
            thread = threading.Thread(target=lambda: results.append(b.batch_get_v1(keys, indices(1))))
            thread.start()
            b.close()
            thread.join()
            assert results == [[False]], results
        finally:
            os.kill(still.pid, signal.SIGCONT)
        assert b.batch_exists(keys) == 0 and b.batch_set_v1(keys, indices(0)) == [False]
        b.close()


def main():
    print(f"# SGLang {version}, torch {torch.__version__}, kvrail {kvrail.__version__}")
    return 1 if tap.run("sglang", globals()) else 0


if __name__ == "__main__":
    sys.exit(main())
