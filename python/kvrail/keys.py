# SPDX-License-Identifier: Apache-2.0
"""Keys for blocks of KV cache. A block may be used again if the same model computed it, in the same layout, from the same
tokens and all tokens before them. So its key is a fingerprint of the model, and a digest chained over the tokens' blocks.

    mark = keys.fingerprint(model="llama-3-8b", weights=keys.fingerprint_files("model.safetensors"), dtype="bf16",
                            block=16, layout="layers,kv,heads,tokens")
    client.prefix(keys.chained(mark, tokens, block=16))

Instead of every key, the client's namespace may have the fingerprint: then one clear() removes all blocks of the model.

    space = keys.namespace("prod", model="llama-3-8b", weights=keys.fingerprint_weights("/models/llama-3-8b"), dtype="bf16")
    client = kvrail.Client(servers, namespace=space)

Keys and names do not depend on the process, the machine or PYTHONHASHSEED, and stay the same in later versions.
"""

from __future__ import annotations

import array
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_DIGEST = 16  # bytes
_BASE_MAX = 31  # bytes of a namespace's readable beginning: with the fingerprint it has 64
_SAMPLES, _SAMPLE = 64, 4096  # of each file with weights; bytes of one
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


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


def fingerprint_weights(folder: str | os.PathLike[str]) -> str:
    """32 hexadecimal digits of a model's weights: a file, or a folder with config.json and the files named in _WEIGHTS.

    It reads names, lengths and 64 samples of each file, in a second or less for most models. Training changes weights in all
    layers, and so the samples; fingerprint_files() reads every byte."""
    folder = pathlib.Path(folder)
    if folder.is_file():
        files = [folder]
    else:
        files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    if not files:
        raise ValueError(f"{folder} has no weights: no file that ends in {', '.join(_WEIGHTS)}")
    whole = hashlib.sha256()
    config = folder / "config.json"
    if config.is_file():
        whole.update(hashlib.sha256(config.read_bytes()).digest())
    for path in files:
        size = path.stat().st_size
        whole.update(json.dumps([path.name, size]).encode())
        with open(path, "rb", buffering=0) as file:
            for i in range(_SAMPLES):
                file.seek(max(size - _SAMPLE, 0) * i // (_SAMPLES - 1))
                whole.update(file.read(_SAMPLE))
    return whole.hexdigest()[: 2 * _DIGEST]


def namespace(
    base: str = "",
    *,
    model: str,
    revision: str = "",
    weights: str = "",
    dtype: str = "",
    quantization: str = "",
    lora: str | Sequence[str] = "",
    layout: str = "",
    tp_rank: int = 0,
    tp_size: int = 1,
    **more: Any,
) -> str:
    """A name for Client(namespace=...), of at most 64 bytes: `base`, a hyphen, and the fingerprint of the other arguments. It
    differs if any of them does, so new weights under an old name find nothing old.

    base: up to 31 bytes, for people who list namespaces; without it the name is the fingerprint. weights: of
    fingerprint_weights() or fingerprint_files(). lora: adapters that are merged or always on. more: further values of
    fingerprint()."""
    size = len(base.encode())
    if size > _BASE_MAX:
        raise ValueError(
            f"the base of a namespace has at most {_BASE_MAX} bytes, not {size}: {base!r}"
        )
    mark = fingerprint(
        model=model,
        revision=revision,
        weights=weights,
        dtype=dtype,
        quantization=quantization,
        lora=lora,
        layout=layout,
        tp_rank=tp_rank,
        tp_size=tp_size,
        **more,
    )
    return f"{base}-{mark}" if base else mark


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
