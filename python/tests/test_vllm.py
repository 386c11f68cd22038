# SPDX-License-Identifier: Apache-2.0
"""kvrail.vllm without vLLM, on stand-ins of its classes in two versions; tests/engines/vllm.sh has the real one."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time
import types
import unittest
import unittest.mock

import kvrail
import kvrail_vllm_plugin
import stub_engines
from common import completions, freeze, fresh, nobody, server
from stub_engines import Context, Job, LookupResult, OldJob

ROWS, ROW = 4, 4096


def spec(**model):
    part = types.SimpleNamespace
    return part(
        config=part(
            model=part(name="m", dtype="f16", **model),
            cache=part(tokens_per_hash=16, blocks_per_chunk=1),
            groups=[part(tokens_per_block=16, layer_names=("a",))],
            parallel=part(tp_size=1, pp_size=1, pcp_size=1, dcp_size=1, world_size=1, rank=0),
        )
    )


def old_spec():
    part = types.SimpleNamespace
    return part(
        vllm_config=part(
            model_config=part(model="m", dtype="f16", revision="r1"),
            cache_config=part(cache_dtype="auto", block_size=16),
            parallel_config=part(
                tensor_parallel_size=1, pipeline_parallel_size=1, world_size=1, rank=0
            ),
        ),
        kv_cache_config=part(
            kv_cache_groups=[part(kv_cache_spec=part(block_size=16), layer_names=["a"])]
        ),
    )


@unittest.skipUnless(importlib.util.find_spec("numpy"), "kvrail.vllm needs numpy, as vLLM does")
class VllmTest(unittest.TestCase):
    old = False

    def setUp(self):
        self.module, self.factory = stub_engines.vllm(self.old)
        self.addCleanup(stub_engines.remove)
        self.memory = bytearray(ROWS * ROW)

    def tier(self, address=None, **options):
        view = memoryview(self.memory).cast("B", (ROWS, ROW))
        tier = self.module.KVRailTierManager(
            old_spec() if self.old else spec(),
            view,
            "kvrail",
            servers=address or server().address,
            **{"num_clients": 1, **options},
        )
        self.addCleanup(tier.shutdown)
        return tier

    def job(self, number, keys, rows, load=False):
        return (OldJob if self.old else Job)(number, keys, rows, load)

    def finished(self, tier):
        tier._transfers_await()
        return list(tier.get_finished_jobs())

    def lookup(self, tier, keys):
        context = Context(fresh("request"))
        while True:
            results = [tier.lookup(k, context) for k in keys]
            tier.on_schedule_end(None)
            if LookupResult.RETRY not in results:
                tier.on_request_finished(context)
                return results
            time.sleep(0.001)  # a step

    def test_store_and_load(self):
        tier = self.tier()
        key = fresh().encode()
        self.assertEqual(self.lookup(tier, [key]), [LookupResult.MISS])
        self.memory[:ROW] = b"k" * ROW
        tier.submit_store(self.job(1, [key], [0]))
        self.assertTrue(tier.has_pending_work())
        (result,) = self.finished(tier)
        self.assertTrue(result.job_id == 1 and result.success)
        self.assertEqual(self.lookup(tier, [key]), [LookupResult.HIT])
        tier.submit_load(self.job(2, [key], [3], True))
        (result,) = self.finished(tier)
        self.assertTrue(result.success)
        self.assertEqual(self.memory[3 * ROW :], b"k" * ROW)
        self.assertFalse(tier.has_pending_work())

    def test_a_failed_load_is_a_miss_from_then_on(self):
        tier = self.tier()
        key, context = fresh().encode(), Context(fresh("request"))
        tier.lookup(key, context)
        tier._lookups[key].found = True
        tier.submit_load(self.job(1, [key], [0], True))
        (result,) = self.finished(tier)
        self.assertFalse(result.success)
        self.assertIs(tier.lookup(key, context), LookupResult.MISS)

    def test_a_job_that_makes_no_sense_fails_and_does_not_raise(self):
        tier = self.tier()
        tier.submit_load(self.job(1, [b"a", b"b"], [0], True))
        tier.submit_load(self.job(2, [b"a"], [ROWS], True))
        tier.submit_store(self.job(3, [b""], [0]))
        tier.submit_store(self.job(4, None, None))
        results = {r.job_id: r.success for r in self.finished(tier)}
        self.assertEqual(
            {k: v for k, v in results.items() if k != 3}, {1: False, 2: False, 4: False}
        )
        self.assertIn(3, results)

    def test_whatever_lies_under_the_key_of_the_manifest_it_is_replaced(self):
        for theirs in (b"5", b"null", b"[" * 16384, b"{}", b"\xff"):
            tier = self.tier(namespace=fresh())
            key = "vllm-manifest:" + self.module.digest({"model": "m"})
            with kvrail.Client(server().address, num_clients=1, namespace=tier._base) as client:
                client.put(key, theirs)
                tier.submit_store(self.job(1, [fresh().encode()], [0]))
                self.assertEqual([r.success for r in self.finished(tier)], [True])
                tier._manifest.join()
                self.assertIn(b'"hash_seed"', client.get(key), theirs[:9])

    def test_a_reset_clears_the_namespace_for_all_its_engines(self):
        mine, other = self.tier(), self.tier(revision="r2")
        again = self.tier()  # the same fingerprint
        key, context = fresh().encode(), Context(fresh("request"))
        for tier in (mine, other):
            tier.submit_store(self.job(1, [key], [0]))
            self.assertTrue(self.finished(tier)[0].success)
        self.assertEqual(self.lookup(again, [key]), [LookupResult.HIT])
        while mine.lookup(key, context) is LookupResult.RETRY:
            mine.on_schedule_end(None)
        self.assertIs(mine.lookup(key, context), LookupResult.HIT)
        mine.drain_jobs()  # as vLLM resets its connector
        self.assertIs(mine.lookup(key, context), LookupResult.MISS)  # also of a request under way
        self.assertEqual(self.lookup(again, [key]), [LookupResult.MISS])
        self.assertEqual(self.lookup(other, [key]), [LookupResult.HIT])
        mine.submit_store(self.job(2, [key], [0]))
        self.assertTrue(self.finished(mine)[0].success)
        self.assertEqual(self.lookup(again, [key]), [LookupResult.HIT])

    def test_a_reset_that_cannot_clear_raises(self):
        with self.assertRaisesRegex(RuntimeError, "allow_clear is 0.*kv-client clear"):
            self.tier(allow_clear=0).drain_jobs()
        address, held = nobody()
        self.addCleanup(held.close)
        with self.assertRaisesRegex(kvrail.PeerDown, f"{address} is down"):
            self.tier(address).drain_jobs()
        with self.assertRaisesRegex(ValueError, "allow_clear is 0 or 1"):
            self.tier(allow_clear="0")

    def test_a_drain_without_memory_does_not_end_the_wait_for_jobs(self):
        tier = self.tier()
        real, calls = tier._client, []

        def drain():
            calls.append(0)
            if len(calls) == 1:
                raise MemoryError
            return real.drain_results()

        tier.submit_store(self.job(1, [fresh().encode()], [0]))
        with unittest.mock.patch.object(tier, "_client", wraps=real) as client:
            client.drain_results = drain
            tier._transfers_await()
        self.assertEqual(tier._transfers, 0)  # else the view was still in use
        self.assertEqual([r.success for r in tier._finished], [True])

    def test_a_full_queue_makes_jobs_wait(self):
        tier = self.tier(depth=1)
        keys = [fresh().encode() for _ in range(2 * self.module._BATCH_KEYS)]
        for i, key in enumerate(keys):
            tier.submit_store(self.job(i, [key], [i % ROWS]))
        self.assertEqual({r.job_id for r in self.finished(tier)}, set(range(len(keys))))

    def test_a_store_never_delays_a_load(self):
        stopped = kvrail.Server(memory_mb=64)
        self.addCleanup(stopped.close)
        tier = self.tier(stopped.address, depth=8, timeout=60)
        freeze(stopped)
        stores = [fresh().encode() for _ in range(10)]
        for i, key in enumerate(stores):
            tier.submit_store(self.job(i, [key], [0]))
            tier.on_schedule_end(None)
        self.assertTrue(tier._new_stores)  # there is no room for more of them
        tier.submit_load(self.job(10, [b"absent"], [1], True))
        tier.on_schedule_end(None)
        self.assertFalse(tier._new_loads)
        os.kill(stopped.pid, signal.SIGCONT)
        self.assertEqual({r.job_id for r in self.finished(tier)}, set(range(11)))

    def test_stores_are_in_the_background(self):
        tier = self.tier()
        with unittest.mock.patch.object(tier, "_client", wraps=tier._client) as client:
            tier.submit_store(self.job(1, [fresh().encode()], [0]))
            self.assertTrue(self.finished(tier)[0].success)
        stores = client.submit_batch_set.call_args_list
        self.assertTrue(stores and all(s.kwargs["background"] is True for s in stores), stores)

    def test_retry_ends_with_the_deadline(self):
        address, held = nobody()
        self.addCleanup(held.close)
        tier = self.tier(address, lookup_timeout=0.05, timeout=0.2)
        self.assertEqual(self.lookup(tier, [b"a", b"b"]), [LookupResult.MISS] * 2)
        tier._drained, tier._new_lookups = True, []
        context = Context("never answered")
        tier.lookup(b"c", context)
        tier._new_lookups = []  # as if it had been submitted, and no completion came
        while tier.lookup(b"c", context) is LookupResult.RETRY:
            pass
        self.assertIs(tier.lookup(b"c", context), LookupResult.MISS)

    def test_a_failed_store_names_the_server_and_the_reason(self):
        address, held = nobody()
        self.addCleanup(held.close)
        tier = self.tier(address, timeout=20.0)
        with self.assertLogs("vllm.kvrail", "WARNING") as lines:
            tier.submit_store(self.job(1, [b"a"], [0]))
            self.assertEqual([r.success for r in self.finished(tier)], [False])
        self.assertRegex(lines.output[0], f"KV_EPEERDOWN.*{address} is down: .*connection refused")

    def test_a_failure_that_cannot_be_explained_is_finished(self):
        address, held = nobody()
        self.addCleanup(held.close)
        tier = self.tier(address, timeout=20.0)
        broken = unittest.mock.patch.object(
            self.module._calls, "who_is_down", side_effect=RuntimeError("planted")
        )
        with self.assertLogs("vllm.kvrail", "WARNING") as lines, broken:
            tier.submit_store(self.job(1, [b"a"], [0]))
            self.assertEqual([r.success for r in self.finished(tier)], [False])
        self.assertIn("planted", lines.output[0])
        self.assertFalse(tier.has_pending_work())

    def test_what_a_miss_is_does_not_hide_why_a_store_fails(self):
        tier = self.tier()
        with self.assertNoLogs("vllm.kvrail", "WARNING"):
            tier._say_failed(self.module._Job(1, [b"k"], [0], True, 0.0), [-1009])
        with self.assertLogs("vllm.kvrail", "WARNING") as lines:
            tier._say_failed(self.module._Job(2, [b"k"], [0], False, 0.0), [-1009])
        self.assertRegex(lines.output[0], "a store failed .*KV_ETOOBIG: .*--value-max")

    def test_no_retry_at_or_after_the_deadline(self):
        tier, now = self.tier(lookup_timeout=0.5), [100.0]
        with unittest.mock.patch.object(self.module.time, "monotonic", lambda: now[0]):
            tier._drained = True  # no answer is taken
            asked = {
                100.0: LookupResult.RETRY,
                100.499: LookupResult.RETRY,
                100.5: LookupResult.MISS,
            }
            for number, (moment, want) in enumerate(asked.items()):
                now[0] = moment
                # A request that comes later has the time that is left, and none of its own.
                self.assertIs(tier.lookup(b"k", Context(f"r{number}")), want, moment)

    def test_a_store_ends_the_miss_of_requests_that_overlap(self):
        tier = self.tier()
        key, first = fresh().encode(), Context(fresh("request"))
        while tier.lookup(key, first) is LookupResult.RETRY:
            tier.on_schedule_end(None)
        self.assertIs(tier.lookup(key, first), LookupResult.MISS)
        tier.submit_store(self.job(1, [key], [0]))
        self.assertTrue(self.finished(tier)[0].success)
        self.assertIs(tier.lookup(key, Context(fresh("request"))), LookupResult.HIT)

    def test_an_old_miss_is_looked_up_again_for_the_next_request(self):
        tier, now = self.tier(lookup_timeout=0.5), [100.0]
        key, first = fresh().encode(), Context(fresh("request"))
        with unittest.mock.patch.object(self.module.time, "monotonic", lambda: now[0]):
            tier._drained = True  # no answer is taken
            tier.lookup(key, first)
            now[0] = 100.5
            self.assertIs(tier.lookup(key, first), LookupResult.MISS)
            tier._new_lookups = []
            for moment, want in (
                (100.6, LookupResult.MISS),
                (102.4, LookupResult.MISS),
                (102.5, LookupResult.RETRY),
            ):
                now[0] = moment
                self.assertIs(tier.lookup(key, first), LookupResult.MISS)  # it has its answer
                self.assertIs(tier.lookup(key, Context(fresh("request"))), want, moment)
            self.assertEqual(tier._new_lookups, [key])
            now[0] = 103.0
            self.assertIs(tier.lookup(key, first), LookupResult.MISS)  # nobody has answered

    def test_a_load_that_failed_is_not_tried_again_at_once(self):
        tier, now = self.tier(), [100.0]
        key, first = fresh().encode(), Context(fresh("request"))
        with unittest.mock.patch.object(self.module.time, "monotonic", lambda: now[0]):
            tier.lookup(key, first)
            tier._lookups[key].found = True
            now[0] = 200.0
            tier._take(self.job(1, [key], [0], True), load=True)
            (job,) = tier._new_loads
            tier._new_loads = []
            tier._finish(job, [-1004])
            tier._drained = True
            self.assertIs(tier.lookup(key, Context(fresh("request"))), LookupResult.MISS)
            now[0] = 202.0
            self.assertIs(tier.lookup(key, Context(fresh("request"))), LookupResult.RETRY)

    def test_wrong_options_are_named(self):
        for options, word in (
            ({"sever": 1}, "sever"),
            ({"ttl": "1"}, "ttl"),
            ({"timeout": -1}, "timeout"),
            ({"lookup_timeout": None}, "lookup_timeout"),
            ({"enable_kv_events": True, "seal_names": True}, "enable_kv_events and seal_names exclude"),
        ):
            with self.assertRaisesRegex(ValueError, word):
                self.tier(**options)
        with self.assertRaisesRegex(ValueError, "servers"):
            self.module.KVRailTierManager(spec(), memoryview(self.memory).cast("B", (ROWS, ROW)))
        with self.assertRaisesRegex(ValueError, "one writable piece"):
            self.module.KVRailTierManager(
                spec(), memoryview(bytes(ROWS * ROW)).cast("B", (ROWS, ROW)), servers="127.0.0.1:1"
            )

    def test_the_plugin_registers_once(self):
        kvrail_vllm_plugin.register()
        kvrail_vllm_plugin.register()
        self.assertEqual(self.factory.registry, {"kvrail": ("kvrail.vllm", "KVRailTierManager")})

    def test_after_shutdown_jobs_fail_and_the_memory_is_free(self):
        tier = self.tier()
        tier.submit_store(self.job(1, [fresh().encode()], [0]))
        tier.shutdown()
        tier.submit_store(self.job(2, [fresh().encode()], [0]))
        self.assertEqual([r.success for r in self.finished(tier)], [False, False])
        self.memory.append(0)  # it raises while anybody exports it


class OldVllmTest(VllmTest):
    old = True


@unittest.skipUnless(importlib.util.find_spec("numpy"), "kvrail.vllm needs numpy, as vLLM does")
class NamespaceTest(unittest.TestCase):
    def test_engines_whose_bytes_differ_share_nothing(self):
        module, _ = stub_engines.vllm()
        self.addCleanup(stub_engines.remove)

        def fields(change=lambda config: None, row=ROW, revision=None, weights="", old=None):
            made = old or spec()
            if not old:
                change(made.config)
            named = module._namespace_fields(made, row, revision, weights)
            return module.keys.namespace(**named)

        def layout(kind, canonical=True):
            def change(config):
                config.canonical_layout, config.kv_cache_layout = canonical, kind

            return change

        other = old_spec()
        other.vllm_config.model_config.revision = "r2"
        eight = old_spec()
        eight.vllm_config.cache_config.cache_dtype = "fp8"
        heads = old_spec()
        heads.vllm_config.cache_config.kv_cache_layout = "HND"
        made = [
            fields(),
            fields(lambda c: setattr(c.model, "dtype", "bf16")),
            fields(lambda c: setattr(c.model, "name", "n")),
            fields(revision="r2"),
            fields(layout("NHD")),
            fields(layout("HND")),
            fields(layout("NHD", canonical=False)),
            fields(layout("HND", canonical=False)),
            fields(lambda c: setattr(c.parallel, "tp_size", 2)),
            fields(lambda c: setattr(c.parallel, "rank", 1)),
            fields(lambda c: setattr(c.cache, "blocks_per_chunk", 2)),
            fields(lambda c: setattr(c.groups[0], "tokens_per_block", 32)),
            fields(row=2 * ROW),
            fields(weights="w2"),
            fields(old=old_spec()),
            fields(old=other),
            fields(old=eight),
            fields(old=heads),
        ]
        self.assertEqual(len(set(made)), len(made))
        self.assertEqual(fields(), fields())


class NoVllmTest(unittest.TestCase):
    def test_the_plugin_without_vllm(self):
        if importlib.util.find_spec("vllm"):
            self.skipTest("vLLM is here")
        kvrail_vllm_plugin.register()

    def test_the_plugin_loads_no_libfabric(self):
        text = "import sys, kvrail_vllm_plugin as plugin; plugin.register(); sys.exit('kvrail' in sys.modules)"
        where = pathlib.Path(kvrail_vllm_plugin.__file__).parent
        done = subprocess.run([sys.executable, "-c", text], cwd=where)
        self.assertEqual(done.returncode, 0)

    def test_kvrail_imports_no_engine(self):
        self.assertTrue(kvrail.__version__)
