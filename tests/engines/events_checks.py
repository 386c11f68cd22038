# SPDX-License-Identifier: Apache-2.0
"""events_checks.py -- kv-server's events over ZeroMQ, decoded with structures like those of vLLM (kv_events.py, 0.23 as
arrays, 0.33 as maps): the set that a subscriber builds is what exists, replays are complete, and losses show."""

import random
import socket
import sys
import time
from typing import Any

import kvrail
import msgspec
import tap
import zmq

SECONDS = 60  # a limit
TOPIC = "kv@test"


def structures(array):
    """vLLM's, with its fields in its order."""
    common = {"omit_defaults": True, "gc": False}

    class Batch(msgspec.Struct, array_like=True, **common):
        ts: float
        events: list[Any]
        data_parallel_rank: int | None = None

    class Event(msgspec.Struct, array_like=array, tag=True, **common):
        pass

    class BlockStored(Event):
        block_hashes: list[int | bytes]
        parent_block_hash: int | bytes | None
        token_ids: list[int]
        block_size: int
        lora_id: int | None
        medium: str | None
        lora_name: str | None
        extra_keys: list[Any] | None = None
        group_idx: int | None = None
        kv_cache_spec_kind: str | None = None
        kv_cache_spec_sliding_window: int | None = None
        locality: str | None = None

    class BlockRemoved(Event):
        block_hashes: list[int | bytes]
        medium: str | None
        group_idx: int | None = None
        locality: str | None = None

    class AllBlocksCleared(Event):
        pass

    class KVEventBatch(Batch):
        events: list[BlockStored | BlockRemoved | AllBlocksCleared]

    return msgspec.msgpack.Decoder(type=KVEventBatch)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Subscriber:
    """A server that publishes, and who listens: the keys that exist by its events."""

    def __init__(self, format, **options):
        self.pub, self.router = (f"tcp://127.0.0.1:{free_port()}" for _ in "12")
        where = f"zmq:{self.pub},replay={self.router},topic={TOPIC},format={format}"
        self.server = kvrail.Server(events=where, worker_threads=2, **options)
        self.decoder = structures(format == "array")
        self.context = zmq.Context()
        self.sub = self.context.socket(zmq.SUB)
        self.sub.connect(self.pub)
        self.sub.setsockopt_string(zmq.SUBSCRIBE, TOPIC)
        self.replay = self.context.socket(zmq.DEALER)
        self.replay.connect(self.router)
        self.next = 0
        self.keys = set()
        self.holes = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.context.destroy(linger=0)
        self.server.close()

    def apply(self, payload):
        batch = self.decoder.decode(payload)
        assert abs(batch.ts - time.time()) < 3600 and batch.data_parallel_rank == 0
        for event in batch.events:
            kind = type(event).__name__
            if kind == "AllBlocksCleared":
                self.keys.clear()
            elif kind == "BlockStored":
                assert (event.token_ids, event.block_size, event.medium) == ([], 0, "CPU")
                assert event.parent_block_hash is None and event.lora_id is None
                self.keys |= set(event.block_hashes)
            else:
                self.keys -= set(event.block_hashes)

    def ask(self, first):
        """All messages from a number on: (number, payload)."""
        self.replay.send_multipart((b"", first.to_bytes(8, "big")))
        got = []
        while True:
            assert self.replay.poll(SECONDS * 1000), "the replay does not end"
            empty, number, payload = self.replay.recv_multipart()
            assert empty == b""
            if not payload:
                assert number == (-1).to_bytes(8, "big", signed=True)
                return got
            got.append((int.from_bytes(number, "big"), payload))

    def catch_up(self):
        for number, payload in self.ask(self.next):
            if number == self.next:
                self.apply(payload)
                self.next += 1

    def listen(self, milliseconds):
        while self.sub.poll(milliseconds):
            topic, number, payload = self.sub.recv_multipart()
            assert topic == TOPIC.encode()
            number = int.from_bytes(number, "big")
            if number > self.next:
                self.holes += 1
                self.catch_up()
            if number == self.next:
                self.apply(payload)
                self.next += 1

    def agree(self, client, names):
        end = time.monotonic() + SECONDS
        while True:
            self.listen(300)
            self.catch_up()
            there = {n.encode() for n, ok in zip(names, client.exists(names)) if ok}
            if there == self.keys:
                return
            assert time.monotonic() < end, (len(there - self.keys), len(self.keys - there))


def churn(client, names, steps, seed):
    dice = random.Random(seed)
    for _ in range(steps):
        some = dice.sample(names, 20)
        if dice.random() < 0.2:
            client.delete_many(some)
        else:
            size = dice.randrange(1, 20000)
            client.put_many(some, [bytes(size)] * len(some), ttl=dice.choice((0, 0, 0, 1)))


def subscriber_agrees(format):
    seed = int.from_bytes(random.randbytes(4), "big")
    print(f"# seed {seed}")
    names = [f"block-{n}" for n in range(3000)]
    with Subscriber(format, memory_mb=16) as s, kvrail.Client(s.server.address) as client:
        churn(client, names, 200, seed)
        s.agree(client, names)
        churn(client, names, 100, seed + 1)
        s.agree(client, names)
        assert len(s.keys) < 2000, "nothing was evicted"
        numbers = [number for number, _ in s.ask(0)]
        assert numbers == list(range(s.next)), "a replay has all messages in order"
        assert s.ask(s.next) == [] and s.ask(1 << 62) == []


def test_maps_as_vllm_0_33_and_sglang(_server):
    subscriber_agrees("map")


def test_arrays_as_older_ones(_server):
    subscriber_agrees("array")


def test_nonsense_on_the_replay_socket(_server):
    with Subscriber("map", memory_mb=16) as s, kvrail.Client(s.server.address) as client:
        for parts in ((b"",), (b"x",), (b"", b"short"), (b"", b"12345678", b"more"), (b"y" * 100000, b"z" * 100000)):
            s.replay.send_multipart(parts)
        client.put("key", b"1")
        s.agree(client, ["key"])


def main():
    print(f"# pyzmq {zmq.__version__}, libzmq {zmq.zmq_version()}, msgspec {msgspec.__version__}")
    return 1 if tap.run("events", globals()) else 0


if __name__ == "__main__":
    sys.exit(main())
