# SPDX-License-Identifier: Apache-2.0
"""Keys for blocks of KV cache. A block may be used again if the same model computed it, in the same layout, from the same
tokens and all tokens before them. So its key is a fingerprint of the model, and a digest chained over the tokens' blocks.

    mark = keys.fingerprint(model="llama-3-8b", weights=keys.fingerprint_files("model.safetensors"), dtype="bf16",
                            block=16, layout="layers,kv,heads,tokens")
    client.prefix(keys.chained(mark, tokens, block=16))

Keys do not depend on the process, the machine or PYTHONHASHSEED, and stay the same in later versions.
"""

from __future__ import annotations

import array
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

_DIGEST = 16  # bytes


def fingerprint(**fields: Any) -> str:
    """32 hexadecimal digits that differ if any field differs. Fields are what decides about the bytes of a block: model and
    weights, adapters, dtype, quantization, rank and number of ranks, layout, tokens of a block, version of the engine.

    Values: str, int, float, bool, None, and lists and dicts of these; a tuple is a list."""
    if not fields:
        raise ValueError("a fingerprint needs fields, such as model=... and dtype=...")
    try:
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"fingerprint() takes text, numbers, lists and dicts: {error}") from None
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * _DIGEST]


def fingerprint_files(*paths: str | os.PathLike[str]) -> str:
    """32 hexadecimal digits of the contents of files, such as a model's weights, in this order. Reads all bytes, at 1 to 2
    GB/s: keep the result."""
    if not paths:
        raise ValueError("fingerprint_files() needs the path of a file")
    whole = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[: 2 * _DIGEST]


class Chain:
    """The keys of one sequence of tokens, as it grows. Only whole blocks have keys."""

    def __init__(self, fingerprint: str, block: int, *, salt: str = "") -> None:
        """block: tokens of one block. salt: sequences with another salt share no keys, such as those of another tenant, or
        with other images in the prompt."""
        if not isinstance(block, int) or block < 1:
            raise ValueError(f"a block has 1 token or more, not {block!r}")
        if not fingerprint or len(fingerprint) > 64:
            raise ValueError(
                "the fingerprint is a text of 1 to 64 characters, such as of fingerprint()"
            )
        self.fingerprint, self.block = fingerprint, block
        self._rest = array.array("q")
        begin = json.dumps([fingerprint, block, salt])
        self._digest = hashlib.blake2b(begin.encode(), digest_size=_DIGEST).digest()

    def extend(self, tokens: Iterable[int]) -> list[str]:
        """Add tokens: ints, an array of numpy or a tensor of torch. Returns the keys of the blocks that they complete."""
        listed = getattr(tokens, "tolist", None)
        try:
            self._rest.extend(listed() if listed else tokens)
        except (TypeError, OverflowError) as error:
            raise TypeError(f"tokens are a flat sequence of ints of 64 bits: {error}") from None
        keys = []
        whole = len(self._rest) // self.block * self.block
        for at in range(0, whole, self.block):
            part = self._rest[at : at + self.block]
            if sys.byteorder == "big":
                part.byteswap()
            self._digest = hashlib.blake2b(
                self._digest + part.tobytes(), digest_size=_DIGEST
            ).digest()
            keys.append(f"{self.fingerprint}/{self._digest.hex()}")
        del self._rest[:whole]
        return keys

    def copy(self) -> Chain:
        """Another chain that continues from here: a fork of the conversation."""
        other = object.__new__(Chain)
        other.fingerprint, other.block, other._digest = self.fingerprint, self.block, self._digest
        other._rest = self._rest[:]
        return other


def chained(fingerprint: str, tokens: Iterable[int], block: int, *, salt: str = "") -> list[str]:
    """The keys of all whole blocks of these tokens, as Chain(fingerprint, block, salt=salt).extend(tokens)."""
    return Chain(fingerprint, block, salt=salt).extend(tokens)
