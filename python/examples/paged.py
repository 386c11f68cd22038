#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""paged.py HOST:PORT -- offload the blocks of a paged KV cache in numpy, and load them into other places.

The cache is one array [layer, block, token, head, dim]. A block of tokens is one value of KVRail, although it lies in one
place per layer: PUT gathers the slices and GET scatters them, `stride` bytes apart, without a copy in Python. The array is
registered once, so there is no copy in C either.

Ends with 0: stored, loaded, compared; 1: something failed.
"""

import hashlib
import sys

import kvrail
import numpy as np

LAYERS, BLOCKS, TOKENS, HEADS, DIM = 16, 64, 16, 8, 64


def places(cache, blocks):
    """For each block: the address of its first slice, all bytes, bytes of a slice, bytes between two slices."""
    slice_bytes, stride = cache[0, 0].nbytes, cache[0].nbytes
    first = cache.ctypes.data
    return [(first + b * slice_bytes, LAYERS * slice_bytes, slice_bytes, stride) for b in blocks]


def keys(tokens):
    """One key per block, from everything that determines its bytes: the model, its layout, and every token so far."""
    digest = hashlib.sha256(b"example-model@1/float16/tp0")
    for at in range(0, len(tokens), TOKENS):
        digest.update(tokens[at : at + TOKENS].tobytes())
        yield f"paged.py/{digest.hexdigest()}"


def main(server):
    rng = np.random.default_rng(1)
    cache = rng.standard_normal((LAYERS, BLOCKS, TOKENS, HEADS, DIM), np.float32).astype(np.float16)
    prompt = rng.integers(0, 32000, 12 * TOKENS, np.int32)
    computed, loaded = rng.permutation(BLOCKS)[:24].reshape(2, 12)  # blocks that the engine chose

    with kvrail.Client(server, timeout=10.0) as client, client.register(cache):
        names = list(keys(prompt))
        client.put_many(names, places(cache, computed))  # False: stored already

        # Later, another request begins with the same tokens.
        known = client.prefix(names)
        # exact: a value of another length, as one of another layout has, is no block of ours.
        lengths = client.get_many(names[:known], places(cache, loaded[:known]), exact=True)
        here = [i for i, length in enumerate(lengths) if length is not None]  # not: compute again

    same = [np.array_equal(cache[:, loaded[i]], cache[:, computed[i]]) for i in here]
    print(f"{len(names)} blocks stored, {known} found, {sum(same)} loaded right")
    return 0 if sum(same) == len(names) else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: paged.py HOST:PORT")
    try:
        sys.exit(main(sys.argv[1]))
    except kvrail.Error as error:
        sys.exit(f"paged.py: {error}")
