# SPDX-License-Identifier: Apache-2.0
"""vllm_tier.py -- the tier of kvrail.vllm under the real vLLM, with real bytes and a real kv-server. Speaks TAP.

The cases are those of vLLM's tests/v1/kv_offload/tiering/test_fs_tier.py and test_tiering_offloading.py (0.33.0), made
for a tier that is a server: the same specs, keys and jobs. No GPU: the primary tier is a tensor, and nobody copies to it
from a device."""

import inspect
import logging
import os
import pathlib
import sys
import time
from unittest.mock import MagicMock, patch

os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import kvrail
import kvrail_vllm_plugin
import numpy as np
import tap
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))
from common import freeze
from guide import QWEN3, Guide
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.manager import CPUPrimaryTierOffloadingManager, TieringOffloadingManager

ROWS, ROW_BYTES = 8, 256 * 1024
HIT, MISS, RETRY = LookupResult.HIT, LookupResult.MISS, LookupResult.RETRY
HIT_PENDING = LookupResult.HIT_PENDING
STEP = ScheduleEndContext(new_req_ids=[], preempted_req_ids=())
requests = 0


def context():
    global requests
    requests += 1
    return ReqContext(req_id=f"request-{requests}")


def key(n):
    return make_offload_key(n.to_bytes(32, "big"), 0)


def spec(tp_size=1, rank=0, dtype="float32", model="test-model", agnostic=False, events=False, **more):
    mock = MagicMock(spec=["config", "blocks_per_chunk"])
    group = {"tokens_per_block": 16, "layer_names": ("layer.0", "layer.1"), "group_id": 0}
    group = {k: v for k, v in group.items() if k in OffloadingGroupConfig.__dataclass_fields__}
    mock.config = OffloadingConfig(
        groups=(OffloadingGroupConfig(**group),),
        worker_kv_bytes_per_block=0,
        enable_kv_cache_events=events,
        extra_config={},
        engine_id="test-engine",
        model=OffloadingModelConfig(name=model, dtype=dtype),
        cache=OffloadingCacheConfig(tokens_per_hash=16, blocks_per_chunk=1),
        parallel=OffloadingParallelConfig(
            rank=rank,
            world_size=tp_size,
            tp_size=tp_size,
            pp_size=1,
            pcp_size=1,
            dcp_size=1,
            data_parallel_index=0,
            data_parallel_size=1,
            data_parallel_rank_local=None,
            is_parallelism_agnostic=agnostic,
        ),
        **more,
    )
    mock.blocks_per_chunk = 1
    return mock


def job(job_id, keys, rows, load=False):
    ids = "chunk_ids" if "chunk_ids" in TransferJob.__dataclass_fields__ else "block_ids"
    return TransferJob(
        job_id=job_id,
        keys=keys,
        is_promotion=load,
        req_context=ReqContext(req_id="job"),
        **{ids: np.array(rows, dtype=np.int64)},
    )


class Tier:
    """A tier made by vLLM's factory, over a tensor."""

    def __init__(self, server, of=None, rows=ROWS, **config):
        self.tensor = torch.zeros((rows, ROW_BYTES), dtype=torch.uint8)
        self.view = memoryview(self.tensor.numpy())
        # On a busy machine an answer takes longer than the defaults, half a second and five: a thread may get no
        # processor for as long.
        more = {"num_clients": 1, "lookup_timeout": 60, "timeout": 60, **config}
        config = {"type": "kvrail", "servers": server.address, **more}
        self.tier = SecondaryTierFactory.create_secondary_tier(config, self.view, of or spec())

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.tier.shutdown()
        self.view.release()  # as vLLM does: it raises while anybody exports it

    def wait(self):
        """For an answer, or a moment."""
        self.tier._poll.poll(10)

    def client(self, server):
        """A client with the tier's namespace."""
        return kvrail.Client(server.address, namespace=kvrail.keys.namespace("vllm", **self.tier._fields))

    def fill(self, seed):
        torch.manual_seed(seed)
        self.tensor[:] = torch.randint(0, 256, self.tensor.shape, dtype=torch.uint8)

    def drain(self):
        self.tier._transfers_await()
        return list(self.tier.get_finished_jobs())

    def lookup(self, keys, ctx=None):
        """Lookups as a scheduler makes them: step after step, until none says RETRY, which none may after its deadline."""
        ctx = ctx or context()
        while True:
            results = []
            for k in keys:
                known = self.tier._lookups.get(k)
                late = known and time.monotonic() >= known.deadline
                results.append(self.tier.lookup(k, ctx))
                assert not (late and results[-1] is RETRY), "RETRY after the deadline"
            self.tier.on_schedule_end(STEP)
            if RETRY not in results:
                self.tier.on_request_finished(ctx)
                return results
            time.sleep(0.001)  # a step

    def store(self, job_id, keys, rows):
        self.tier.submit_store(job(job_id, keys, rows))
        return self.drain()

    def load(self, job_id, keys, rows):
        self.tier.submit_load(job(job_id, keys, rows, load=True))
        return self.drain()


# ---- the tier by itself ----


def test_entry_point_registers_the_tier(server):
    from importlib.metadata import entry_points

    (entry,) = [e for e in entry_points(group="vllm.general_plugins") if e.name == "kvrail"]
    entry.load()()
    entry.load()()
    assert SecondaryTierFactory.get_tier_class({"type": "kvrail"}).__name__ == "KVRailTierManager"


def test_module_path_without_a_plugin(server):
    found = SecondaryTierFactory.get_tier_class({"type": "KVRailTierManager", "module_path": "kvrail.vllm"})
    assert found.__name__ == "KVRailTierManager"


def test_the_guides_command_up_to_the_scheduler(server):
    """Its words through vLLM's own parser, configuration and connector; the half of the connector that is in the
    scheduler has the tier then, and it answers. The other half copies from GPUs."""
    from vllm import platforms
    from vllm.platforms.cpu import CpuPlatform

    # This build is for no device, and vLLM stops at that. (Modules keep the platform that they were imported with.)
    with patch.object(platforms, "_current_platform", CpuPlatform()), Guide("vLLM") as guide:
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
        from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
        from vllm.engine.arg_utils import EngineArgs
        from vllm.entrypoints.common.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

        model, *words = guide.words("vllm serve")
        words = ["--model", model, "--skip-tokenizer-init", *words]
        args = make_arg_parser(FlexibleArgumentParser()).parse_args(words)
        args.kv_transfer_config.kv_connector_extra_config["cpu_bytes_to_use"] = 64 << 20
        config = EngineArgs.from_cli_args(args).create_engine_config()
        attention = FullAttentionSpec(
            block_size=config.cache_config.block_size,
            num_kv_heads=QWEN3["num_key_value_heads"],
            head_size=QWEN3["head_dim"],
            dtype=config.model_config.dtype,
        )
        layers = [f"model.layers.{i}.self_attn.attn" for i in range(QWEN3["num_hidden_layers"])]
        cache = KVCacheConfig(64, [], [KVCacheGroupSpec(layers, attention)])
        connector = KVConnectorFactory.create_connector(config, KVConnectorRole.SCHEDULER, cache)
        try:
            manager = connector.connector_scheduler.manager
            (tier,) = manager.secondary_tiers
            assert type(tier).__name__ == "KVRailTierManager"
            assert tier._row_bytes == len(layers) * attention.page_size_bytes, tier._row_bytes
            ctx = context()
            manager.on_new_request(ctx)
            while (found := manager.lookup(key(1), ctx)) is not MISS:
                assert found in (RETRY, HIT_PENDING), found
                manager.on_schedule_end(STEP)
                time.sleep(0.001)  # a step
            assert tier._client.counters()["exists"] > 0, "no server was asked"
            manager.on_request_finished(ctx)
        finally:
            connector.shutdown()


def test_lookup_of_nothing_is_retry_then_miss(server):
    with Tier(server) as t:
        assert t.tier.lookup(key(1), ReqContext(req_id="a")) is RETRY
        assert t.lookup([key(1), key(2)]) == [MISS, MISS]


def test_store_then_load(server):
    with Tier(server) as t:
        for size in (0, 1, 2, 5, 8):
            t.fill(size)
            keys = [key(100 * size + i) for i in range(size)]
            expected = t.tensor[:size].clone()
            (stored,) = t.store(1, keys, list(range(size)))
            assert stored.job_id == 1 and stored.success
            assert getattr(stored, "transfer_bytes", size * ROW_BYTES) == size * ROW_BYTES
            assert t.lookup(keys) == [HIT] * size
            t.tensor[:] = 0
            (loaded,) = t.load(2, keys, list(range(ROWS - size, ROWS)))
            assert loaded.success and loaded.successful_keys is None
            assert torch.equal(t.tensor[ROWS - size :], expected)


def test_jobs_are_put_together_in_a_step(server):
    with Tier(server) as t:
        t.fill(1)
        before = t.tier._client.counters().get("puts", 0)
        for i in range(5):
            t.tier.submit_store(job(i, [key(700 + i)], [i]))
        assert len(t.tier._calls) == 0
        t.tier.on_schedule_end(STEP)
        assert t.tier._transfers == 1, t.tier._transfers
        assert {r.job_id for r in t.drain()} == set(range(5))
        assert before >= 0


def test_a_job_is_reported_once(server):
    with Tier(server) as t:
        t.fill(2)
        assert [r.job_id for r in t.store(9, [key(800)], [0])] == [9]
        assert list(t.tier.get_finished_jobs()) == [] and not t.tier.has_pending_work()


def test_partial_load_names_what_was_loaded(server):
    with Tier(server) as t:
        t.fill(3)
        t.store(1, [key(10), key(11)], [0, 1])
        ctx = context()
        keys = [key(10), key(99), key(11)]
        for k in keys:
            t.tier.lookup(k, ctx)
        t.tier._lookups[key(99)].found = True  # it was there a moment ago
        (result,) = t.load(2, keys, [2, 3, 4])
        assert not result.success and set(result.successful_keys) == {key(10), key(11)}
        assert t.tier.lookup(key(99), ctx) is MISS  # and no livelock
        assert torch.equal(t.tensor[2], t.tensor[0]) and torch.equal(t.tensor[4], t.tensor[1])


def test_failed_load(server):
    with Tier(server) as t:
        (result,) = t.load(1, [key(98)], [0])
        assert not result.success and not result.successful_keys


def test_a_block_stored_twice_counts_as_stored(server):
    with Tier(server) as t:
        t.fill(4)
        assert t.store(1, [key(20)], [0])[0].success
        assert t.store(2, [key(20)], [1])[0].success


def test_what_must_not_be_shared_is_not(server):
    with Tier(server) as t:
        t.fill(5)
        t.store(1, [key(30)], [0])
        assert t.lookup([key(30)]) == [HIT]
    others = [spec(tp_size=2), spec(dtype="fp8"), spec(model="other")]
    if "kv_cache_layout" in OffloadingConfig.__dataclass_fields__:
        others.append(spec(kv_cache_layout="LBHNC"))
    for other in others:
        with Tier(server, of=other) as t:
            assert t.lookup([key(30)]) == [MISS]
    with Tier(server, revision="v2") as t:
        assert t.lookup([key(30)]) == [MISS]
    with Tier(server, namespace="mine") as t:
        assert t.lookup([key(30)]) == [MISS]
    with Tier(server, weights="trained further") as t:
        assert t.lookup([key(30)]) == [MISS]
    with Tier(server) as t:
        assert t.lookup([key(30)]) == [HIT]
    with Tier(server, of=spec(tp_size=2, agnostic=True)) as t, Tier(server, of=spec(agnostic=True)) as u:
        t.fill(6)
        t.store(1, [key(31)], [0])
        assert u.lookup([key(31)]) == [HIT]


class Said(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def __enter__(self):
        logging.getLogger("vllm.kvrail").addHandler(self)
        return self

    def __exit__(self, *exc):
        logging.getLogger("vllm.kvrail").removeHandler(self)

    def emit(self, record):
        self.lines.append(record.getMessage())


def manifest_done(t):
    t.lookup([key(1)])
    t.tier._manifest.join()


def test_the_manifest_tells_what_differs(server):
    from vllm.v1.core import kv_cache_utils

    config = {"namespace": "manifest"}
    had = getattr(kv_cache_utils, "NONE_HASH", None)
    try:
        kv_cache_utils.NONE_HASH = b"first"
        for seed, of, words in (
            (b"first", spec(), []),
            (b"first", spec(), []),
            (b"second", spec(), ["PYTHONHASHSEED"]),
            (b"second", spec(tp_size=2), ["tp_size (1 there, 2 here)"]),
            (b"second", spec(tp_size=2), []),
        ):
            kv_cache_utils.NONE_HASH = seed
            with Said() as said, Tier(server, of=of, **config) as t:
                manifest_done(t)
            assert len(said.lines) == len(words), said.lines
            assert all(w in line for w, line in zip(words, said.lines)), said.lines
    finally:
        if had is not None:
            kv_cache_utils.NONE_HASH = had


def test_bad_configuration(server):
    for config, words in (
        ({"servers": ""}, "servers"),
        ({"lookup_timeout": 0}, "lookup_timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"ttl": -1}, "ttl"),
        ({"psk_fle": "x"}, "psk_fle"),
    ):
        try:
            Tier(server, **config)
        except (ValueError, kvrail.Error) as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{config} was taken")


# ---- the server goes ----


def test_no_server_at_all(server):
    gone = kvrail.Server(memory_mb=64)
    gone.kill()
    with Tier(gone, timeout=1.0) as t:
        assert t.lookup([key(1), key(2)]) == [MISS, MISS]
        assert not t.store(1, [key(1)], [0])[0].success
        assert not t.load(2, [key(1)], [0])[0].success


def test_a_server_that_stands_still(server):
    import signal

    with kvrail.Server(memory_mb=64) as still, Tier(still, timeout=1.0, lookup_timeout=0.5) as t:
        t.fill(7)
        t.store(1, [key(1)], [0])
        freeze(still)
        try:
            began = time.monotonic()
            assert t.lookup([key(2)]) == [MISS]
            assert time.monotonic() >= began + t.tier._lookup_timeout  # the deadline ended it, not an answer
            (result,) = t.load(2, [key(1)], [1])  # by that of transfers
            assert not result.success
        finally:
            os.kill(still.pid, signal.SIGCONT)


def test_killed_and_restarted_in_the_middle(server):
    with kvrail.Server(memory_mb=64) as mortal, Tier(mortal, timeout=2.0) as t:
        t.fill(8)
        keys = [key(i) for i in range(4)]
        assert t.store(1, keys, [0, 1, 2, 3])[0].success
        assert t.lookup(keys) == [HIT] * 4
        for i in range(8):
            t.tier.submit_load(job(10 + i, keys, [4, 5, 6, 7], load=True))
            t.tier.on_schedule_end(STEP)
        mortal.kill()
        assert sorted(r.job_id for r in t.drain()) == list(range(10, 18))
        assert t.lookup(keys) == [MISS] * 4
        mortal.restart()
        deadline = time.monotonic() + 60
        while not t.store(50, keys, [0, 1, 2, 3])[0].success:
            assert time.monotonic() < deadline, "the tier does not come back"
        while t.lookup(keys) != [HIT] * 4:
            assert time.monotonic() < deadline, "the tier does not come back"
        t.tensor[4:] = 0
        assert t.load(60, keys, [4, 5, 6, 7])[0].success
        assert torch.equal(t.tensor[4:], t.tensor[:4])


def test_shutdown_with_jobs_under_way(server):
    with Tier(server) as t:
        t.fill(9)
        for i in range(8):
            t.tier.submit_store(job(i, [key(900 + i)], [i]))
            if i % 2:
                t.tier.on_schedule_end(STEP)
        t.tier.shutdown()
        t.tier.shutdown()
        assert {r.job_id for r in t.tier.get_finished_jobs()} == set(range(8))
        assert t.tier.lookup(key(1), context()) in (MISS, RETRY)
        t.tier.submit_load(job(99, [key(1)], [0], load=True))
        assert [r.success for r in t.drain()] == [False]


# ---- under the whole manager ----


def ids_of(spec):
    return spec.chunk_ids if hasattr(spec, "chunk_ids") else spec.block_ids


class Manager:
    """TieringOffloadingManager with the tier; a GPU's side is played by whoever calls."""

    def __init__(self, server, tier=Tier, **config):
        self.t = tier(server, **config)
        region = MagicMock()
        region.create_kv_memoryview.return_value = self.t.view
        count = "num_chunks" if "num_chunks" in inspect.signature(CPUPrimaryTierOffloadingManager).parameters else "num_blocks"
        self.primary = CPUPrimaryTierOffloadingManager(**{count: ROWS}, mmap_region=region)
        self.manager = TieringOffloadingManager(primary_tier=self.primary, secondary_tiers=[self.t.tier])

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.manager.shutdown()

    def step(self):
        self.manager.on_schedule_end(STEP)

    def settle(self):
        while self.manager.has_pending_work():
            self.step()
            self.t.wait()

    def store(self, ctx, keys, seed):
        """As the scheduler does: prepare, the GPU writes, complete, cascade."""
        out = self.manager.prepare_store(keys, ctx)
        rows = ids_of(out.store_spec)
        torch.manual_seed(seed)
        data = torch.randint(0, 256, (len(rows), ROW_BYTES), dtype=torch.uint8)
        for row, block in zip(rows, data):
            self.t.tensor[int(row)] = block
        self.manager.complete_store(keys, ctx)
        self.settle()
        return data

    def load(self, ctx, keys):
        """Lookups until they are decided; the rows of what is there."""
        while True:
            results = [self.manager.lookup(k, ctx) for k in keys]
            self.step()
            if not {RETRY, HIT_PENDING} & set(results):
                break
            self.t.wait()
        found = [k for k, r in zip(keys, results) if r is HIT]
        if not found:
            return results, None
        rows = ids_of(self.manager.prepare_load(found, ctx))
        data = self.t.tensor[[int(r) for r in rows]].clone()
        self.manager.complete_load(found, ctx)
        return results, data


def request(m):
    ctx = context()
    m.manager.on_new_request(ctx)
    return ctx


def test_manager_promotes_what_another_engine_stored(server):
    keys = [key(2000 + i) for i in range(4)]
    with Manager(server) as m:
        ctx = request(m)
        data = m.store(ctx, keys, 1)
        m.manager.on_request_finished(ctx)
    with Manager(server) as m:  # another engine: nothing in its host memory
        ctx = request(m)
        results, loaded = m.load(ctx, [*keys, key(2999)])
        assert results == [HIT] * 4 + [MISS]
        assert torch.equal(loaded, data)
        m.manager.on_request_finished(ctx)
        assert not m.t.tier._lookups and not m.t.tier._request_keys


def test_manager_reset_waits_for_the_tier(server):
    with Manager(server) as m:
        ctx = request(m)
        out = m.manager.prepare_store([key(2100), key(2101)], ctx)
        assert out is not None
        m.manager.complete_store([key(2100), key(2101)], ctx)
        m.manager.reset_cache()
        assert m.t.tier._transfers == 0


def test_a_reset_clears_the_tier_for_all_engines_of_the_model(server):
    keys = [key(2300 + i) for i in range(4)]
    with Manager(server) as m, Manager(server) as n, Tier(server, revision="v3") as other:
        ctx = request(m)
        m.store(ctx, keys, 3)
        other.store(1, keys[:1], [0])
        assert n.load(request(n), keys)[0] == [HIT] * 4
        m.manager.reset_cache()
        m.manager.on_reset_flushed() if hasattr(m.manager, "on_reset_flushed") else None
        assert m.load(request(m), keys)[0] == [MISS] * 4
        with Manager(server) as again:  # an engine that is started now
            assert again.load(request(again), keys)[0] == [MISS] * 4
        assert other.lookup(keys[:1]) == [HIT]
        data = m.store(request(m), keys, 4)
    with Manager(server) as again:
        results, loaded = again.load(request(again), keys)
        assert results == [HIT] * 4 and torch.equal(loaded, data)


def test_a_reset_that_may_not_clear_raises(server):
    with Manager(server, allow_clear=0) as m:
        keys = [key(2400)]
        m.store(request(m), keys, 5)
        try:
            m.manager.reset_cache()
            raise AssertionError("it did not raise")
        except RuntimeError as error:
            assert "allow_clear is 0" in str(error), error
        with Tier(server) as t:
            assert t.lookup(keys) == [HIT]


def test_manager_goes_on_when_the_server_dies(server):
    keys = [key(2200 + i) for i in range(4)]
    with kvrail.Server(memory_mb=64) as mortal:
        with Manager(mortal, timeout=2.0) as m:
            ctx = request(m)
            m.store(ctx, keys, 3)
            m.manager.on_request_finished(ctx)
            m.manager.reset_cache()
            if hasattr(m.manager, "on_reset_flushed"):  # from 0.33 on
                m.manager.on_reset_flushed()
            ctx = request(m)
            for k in keys:
                m.manager.lookup(k, ctx)
            m.step()
            mortal.kill()
            results, _ = m.load(ctx, keys)
            assert set(results) <= {HIT, MISS}
            m.manager.on_request_finished(ctx)
            mortal.restart()
            ctx = request(m)
            results, _ = m.load(ctx, [key(2300)])
            assert results == [MISS]
            m.manager.on_request_finished(ctx)
            m.settle()


# ---- events and metrics ----


def events_until(take, wanted):
    """Take events until all of `wanted`, pairs of a key and whether it was removed, have come."""
    got, end = [], time.monotonic() + 60
    while not set(wanted) <= set(got):
        assert time.monotonic() < end, f"missing {set(wanted) - set(got)}"
        for event in take():
            assert event.medium.value == "STORAGE"
            got += [(k, event.removed) for k in event.keys]
        time.sleep(0.01)
    return got


def test_events_of_stored_and_removed_blocks(_server):
    with kvrail.Server(memory_mb=64, worker_threads=1, events="on") as own:
        with Manager(own, of=spec(events=True), enable_kv_events=True) as m, Tier(own, of=spec(events=True)) as other:
            keys = [key(n) for n in range(2400, 2404)]
            ctx = request(m)
            m.store(ctx, keys, 1)
            m.manager.on_request_finished(ctx)
            stored = events_until(m.manager.take_events, [(k, False) for k in keys])
            # What a server removes is reported, whoever removed it.
            with m.t.client(own) as client:
                assert client.delete_many(keys[:2]) == [True, True]
                events_until(m.manager.take_events, [(k, True) for k in keys[:2]])
            assert not [k for k, removed in stored if removed]
            assert list(other.tier.take_events()) == [], "events without the tier's option"
        with Said() as said, Tier(own, enable_kv_events=True) as t:
            assert list(t.tier.take_events()) == []
        assert any("enable_kv_events has no effect" in line for line in said.lines), said.lines


def test_evictions_are_reported(_server):
    with kvrail.Server(memory_mb=16, worker_threads=1, events="on") as own:
        with Tier(own, of=spec(events=True), enable_kv_events=True) as t:
            keys, probe = [key(n) for n in range(2500, 2600)], key(2499)
            with t.client(own) as client:  # until it follows, and later events are seen
                while not list(t.tier.take_events()):
                    client.put(probe, b"x")
                    client.delete(probe)
                    time.sleep(0.05)
            for n in range(0, 100, ROWS):
                rows = keys[n : n + ROWS]
                assert all(r.success for r in t.store(n, rows, list(range(len(rows)))))
            removed = set()
            end = time.monotonic() + 60
            while len(removed) < 30 and time.monotonic() < end:
                removed |= {k for e in t.tier.take_events() if e.removed for k in e.keys}
                time.sleep(0.01)
            time.sleep(0.5)
            removed |= {k for e in t.tier.take_events() if e.removed for k in e.keys}
            removed.discard(probe)
            assert removed and removed <= set(keys)
            for k, result in zip(keys, t.lookup(keys)):
                assert (result is MISS) == (k in removed), (k, result)


def test_metrics_are_vllms_own(_server):
    from vllm.v1.kv_offload.base import OffloadingCounterMetadata, OffloadingHistogramMetadata

    with Tier(_server) as t:
        definitions = type(t.tier).build_metric_definitions({})
        assert isinstance(definitions["vllm:kvrail_bytes"], OffloadingCounterMetadata)
        assert isinstance(definitions["vllm:kvrail_seconds"], OffloadingHistogramMetadata)
        assert t.tier.get_stats() is None
        keys = [key(2700), key(2701)]
        assert all(r.success for r in t.store(1, keys, [0, 1]))
        assert t.lookup([*keys, key(2702)]) == [HIT, HIT, MISS]
        assert all(r.success for r in t.load(2, keys, [2, 3]))
        stats = t.tier.get_stats()
        types, values = stats.metric_sections()
        assert set(types) <= set(definitions), types
        assert values["vllm:kvrail_bytes"] == {("store",): 2 * ROW_BYTES, ("load",): 2 * ROW_BYTES}
        assert values["vllm:kvrail_lookups"] == {(): 3} and values["vllm:kvrail_hits"] == {(): 2}
        assert all(len(values["vllm:kvrail_seconds"][(way,)]) == 1 for way in ("store", "load"))
        assert t.tier.get_stats() is None


def main():
    import vllm

    print(f"# vLLM {vllm.__version__}, torch {torch.__version__}, kvrail {kvrail.__version__}")
    kvrail_vllm_plugin.register()
    return 1 if tap.run("vllm", globals()) else 0


if __name__ == "__main__":
    sys.exit(main())
