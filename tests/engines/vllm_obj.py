# SPDX-License-Identifier: Apache-2.0
"""vllm_obj.py -- vLLM's own tier of objects (type "obj") on NIXL's wheel, with our plug-in in place of NIXL's OBJ: real
bytes, and a real kv-server. Speaks TAP. vllm.sh sets NIXL_PLUGIN_DIR, so this process has no other back end.

No GPU: the primary tier is a tensor, and nobody copies to it from a device."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import kvrail
import numpy as np
import tap
import torch
from vllm.v1.kv_offload.base import ReqContext
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm_tier import HIT, MISS, RETRY, ROW_BYTES, ROWS, STEP, Manager, context, key, request, spec

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "nixl.md"
SECONDS = 120  # a limit; NIXL's own back ends have none


def guides_tier():
    """The tier's configuration as the guide has it."""
    (text,) = re.findall(r'"secondary_tiers": (\[.*?\])\n```', PAGE.read_text(), re.S)
    (tier,) = json.loads(text)
    return tier


class Tier:
    """A tier made by vLLM's factory, over a tensor."""

    def __init__(self, server, of=None, secret=("", "")):
        self.tensor = torch.zeros((ROWS, ROW_BYTES), dtype=torch.uint8)
        self.view = memoryview(self.tensor.numpy())
        config = guides_tier()
        config["store_config"]["endpoint_override"] = server.address
        config["store_config"]["access_key"], config["store_config"]["secret_key"] = secret
        self.bucket = config["store_config"]["bucket"]
        self.tier = SecondaryTierFactory.create_secondary_tier(config, self.view, of or spec())
        self.jobs = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.tier.shutdown()

    def fill(self, seed):
        torch.manual_seed(seed)
        self.tensor[:] = torch.randint(0, 256, self.tensor.shape, dtype=torch.uint8)
        return self.tensor.clone()

    def run(self, submit, keys, rows):
        """A job to its end; whether it succeeded."""
        self.jobs += 1
        submit(
            TransferJob(
                job_id=self.jobs,
                keys=keys,
                chunk_ids=np.array(rows, dtype=np.int32),
                is_promotion=submit == self.tier.submit_load,
                req_context=ReqContext(req_id="job"),
            )
        )
        self.tier.drain_jobs()
        (result,) = self.tier.get_finished_jobs()
        assert result.job_id == self.jobs
        return result.success

    def store(self, keys, rows):
        return self.run(self.tier.submit_store, keys, rows)

    def load(self, keys, rows):
        return self.run(self.tier.submit_load, keys, rows)

    def lookup(self, keys, ctx=None):
        """Lookups as a scheduler makes them, step after step. Verdicts are kept until a request is finished; one that
        is given is not."""
        of, end = ctx or context(), time.monotonic() + SECONDS
        while True:
            results = [self.tier.lookup(k, of) for k in keys]
            self.tier.on_schedule_end(STEP)
            if RETRY not in results:
                if not ctx:
                    self.tier.on_request_finished(of)
                return results
            assert time.monotonic() < end, "a lookup has no answer"
            time.sleep(0.001)

    def wait(self):
        time.sleep(0.001)

    def names(self, keys):
        """Their names at the server."""
        return [f"{self.bucket}/{self.tier._file_mapper.get_file_name(k)}" for k in keys]


def test_store_then_load_every_byte(server):
    with Tier(server) as t:
        for size in (1, 2, 5, 8):
            keys = [key(100 * size + i) for i in range(size)]
            expected = t.fill(size)
            assert t.lookup(keys) == [MISS] * size
            assert t.store(keys, list(range(size)))
            assert t.lookup(keys) == [HIT] * size
            t.tensor[:] = 0
            assert t.load(keys, list(range(ROWS - size, ROWS)))
            assert torch.equal(t.tensor[ROWS - size :], expected[:size])
            assert not t.tensor[: ROWS - size].any(), "other rows were written"


def test_blocks_are_values_below_the_bucket(server):
    with Tier(server) as t, kvrail.Client(server.address) as client:
        keys = [key(1000 + i) for i in range(3)]
        expected = t.fill(11)
        assert t.store(keys, [4, 5, 6])
        for row, name in enumerate(t.names(keys), 4):
            assert client.get(name, size=ROW_BYTES) == expected[row].numpy().tobytes()


def test_another_process_of_the_same_model_finds_them(server):
    keys = [key(2000 + i) for i in range(4)]
    with Tier(server) as t:
        expected = t.fill(12)
        assert t.store(keys, [0, 1, 2, 3])
    with Tier(server) as t:
        assert t.lookup(keys) == [HIT] * 4
        assert t.load(keys, [7, 6, 5, 4])
        assert torch.equal(t.tensor[4:].flip(0), expected[:4])
    with Tier(server, of=spec(model="other")) as t:
        assert t.lookup(keys) == [MISS] * 4


def test_a_load_with_a_missing_block_fails_and_is_a_miss(server):
    with Tier(server) as t, kvrail.Client(server.address) as client:
        keys = [key(3000 + i) for i in range(3)]
        t.fill(13)
        assert t.store(keys, [0, 1, 2])
        ctx = context()
        assert t.lookup(keys, ctx) == [HIT] * 3
        client.delete(t.names(keys)[1])
        assert not t.load(keys, [3, 4, 5])
        assert t.lookup(keys, ctx) == [MISS] * 3, "NIXL has one status for the batch"
        t.tier.on_request_finished(ctx)
        assert t.lookup(keys) == [HIT, MISS, HIT]


def test_below_the_whole_manager(server):
    keys = [key(6000 + i) for i in range(4)]
    with Manager(server, tier=Tier) as m:
        ctx = request(m)
        data = m.store(ctx, keys, 16)
        m.manager.on_request_finished(ctx)
    with Manager(server, tier=Tier) as m:  # another engine: nothing in its host memory
        ctx = request(m)
        results, loaded = m.load(ctx, [*keys, key(6999)])
        assert results == [HIT] * 4 + [MISS]
        assert torch.equal(loaded, data)
        m.manager.on_request_finished(ctx)


def test_a_secret_as_access_key_and_secret_key(server):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "psk"
        subprocess.run([server.binary, "--make-psk", str(file)], check=True, stdout=subprocess.DEVNULL)
        secret = file.read_text().split()[-1].split(":")
        with kvrail.Server(memory_mb=64, psk_file=file) as secured:
            with Tier(secured, secret=secret) as t:
                expected = t.fill(14)
                assert t.store([key(4000)], [0]) and t.load([key(4000)], [1])
                assert torch.equal(t.tensor[1], expected[0])
            wrong = [secret[0], secret[1][::-1]]
            try:
                Tier(secured, secret=wrong).tier.shutdown()
            except RuntimeError as error:
                assert "connectivity probe failed" in str(error)
            else:
                raise AssertionError("a wrong secret was accepted")


def test_a_server_that_dies_and_comes_back(server):
    with kvrail.Server(memory_mb=64) as own, Tier(own) as t:
        keys = [key(5000 + i) for i in range(4)]
        t.fill(15)
        assert t.store(keys, [0, 1, 2, 3])
        own.kill()
        began = time.monotonic()
        assert not t.load(keys, [4, 5, 6, 7])
        assert time.monotonic() - began < SECONDS, "the engine stood still"
        own.restart()
        end = time.monotonic() + SECONDS
        while not t.store(keys, [0, 1, 2, 3]):
            assert time.monotonic() < end, "the server is not found again"
            time.sleep(0.1)
        assert t.load(keys, [4, 5, 6, 7]) and torch.equal(t.tensor[4:], t.tensor[:4])


def main():
    import vllm

    print(f"# vLLM {vllm.__version__}, torch {torch.__version__}, kvrail {kvrail.__version__}, tier obj", flush=True)
    return 1 if tap.run("vllm's obj tier", globals()) else 0


if __name__ == "__main__":
    sys.exit(main())
