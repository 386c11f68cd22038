#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gil.py [--keys 64] [--rounds 2000] -- how long the submits and drains of kvrail._native.Client hold Python's GIL, per key.

    make all python && KVRAIL_KV_SERVER=build/release/kv-server PYTHONPATH=build/release/python tests/bench/gil.py

Both hold it from begin to end and never wait, so their processor time is the time for which no other Python code of the
process runs. It starts a kv-server of its own, and prints medians with the range from the 10th to the 90th percentile."""

import argparse
import select
import statistics
import time

import kvrail
from kvrail import _native

VALUE = 4096


def cost_of_the_clock():
    """What two looks at it take by themselves."""
    return statistics.median(-time.thread_time_ns() + time.thread_time_ns() for _ in range(10000))


def measure(client, rounds, keys, submit, *args):
    """[ns per key] of submits and of drains."""
    own, submits, drains = cost_of_the_clock(), [], []
    poll = select.poll()
    poll.register(client.event_fd(), select.POLLIN)
    for _ in range(rounds):
        began = time.thread_time_ns()
        submit(keys, *args)
        submits.append((time.thread_time_ns() - began - own) / len(keys))
        over = []
        while not over:
            poll.poll(60000)
            began = time.thread_time_ns()
            over = client.drain_completions()
            took = time.thread_time_ns() - began - own
        drains.append(took / len(keys))
        assert over[0][1], over[0][2]
    return submits, drains


def show(name, values):
    cuts = statistics.quantiles(values, n=10)
    print(f"{name:<34} {statistics.median(values):7.0f} ns   ({cuts[0]:.0f} to {cuts[-1]:.0f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=64, help="keys of a batch (64)")
    parser.add_argument("--rounds", type=int, default=2000, help="batches of each kind (2000)")
    options = parser.parse_args()
    arena = bytearray(options.keys * VALUE)
    whole = memoryview(arena)
    views = [whole[i * VALUE : (i + 1) * VALUE] for i in range(options.keys)]
    with kvrail.Server(memory_mb=256) as server:
        with _native.Client(server.address, num_clients=1, wait=True) as client:
            region = client.register(arena)
            base = _address(arena)
            places = [(base + i * VALUE, VALUE) for i in range(options.keys)]
            keys = [f"model@01000100@0@{i:064x}" for i in range(options.keys)]  # as LMCache's
            print(f"per key, {options.keys} keys in a batch, {options.rounds} batches; goal: below 1000 ns")
            for name, submit, more in (
                ("SET from (address, length)", client.submit_batch_set, [places]),
                ("SET from memoryviews", client.submit_batch_set, [views]),
                ("GET into (address, length)", client.submit_batch_get, [places]),
                ("GET into memoryviews", client.submit_batch_get, [views]),
                ("EXISTS", client.submit_batch_exists, []),
            ):
                submits, drains = measure(client, options.rounds, keys, submit, *more)
                show(name + ", submit", submits)
                show(name + ", drain", drains)
            region.unregister()


def _address(memory):
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


if __name__ == "__main__":
    main()
