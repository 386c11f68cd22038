# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers: kv-servers keep the KV cache of prompts, so a model computes only the tokens that are new.

    prefix = kvrail.hf.PrefixCache(model, "10.0.0.1:7411")
    past = prefix.load(input_ids)                       # a DynamicCache with the blocks that the servers have
    output = model.generate(input_ids, cache=past)      # before transformers 5.24: past_key_values=past
    prefix.store(output, past)                          # the blocks that they do not have

A block is some tokens of one sequence, and one value: keys and values of all layers. Its key is chained over all tokens
up to its end. The namespace has a fingerprint of the model's weights, configuration and layout, so other weights find
nothing.

Servers that are down or late cost hits; load() and store() raise for wrong arguments only. Any thread may call; a cache
belongs to one thread at a time. docs/guide/tokens.md is the guide.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
from collections.abc import Sequence
from typing import Any

try:
    import torch
    import transformers
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer
except ImportError as _error:
    raise ImportError(
        f"kvrail.hf needs torch and transformers 5: pip install torch 'transformers>=5' ({_error})"
    ) from _error

from . import keys
from ._calls import VALUE_MAX
from ._closing import Closing
from ._errors import Closed, Error, Invalid
from .client import Client

_PLACES = 1024  # that one value may have
_SAMPLES = 4096  # elements of each of the model's tensors that its fingerprint has
# How a model was made and saved, in its configuration. Class, dtypes and version are read from the objects themselves.
_ORIGIN = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")
_MOVING = ("dynamic", "longrope")  # kinds of RoPE whose keys depend on the tokens behind them


class _Window(DynamicSlidingWindowLayer):  # type: ignore[misc]
    """A layer with a sliding window that keeps all tokens for store(), and shows the model those of the window."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        DynamicLayer.update(self, key_states, value_states)
        new = key_states.shape[-2]
        self.cumulative_length += new
        seen = self.sliding_window - 1 + new
        return self.keys[:, :, -seen:], self.values[:, :, -seen:]

    def crop(self, tokens_to_remove: int) -> None:
        DynamicLayer.crop(self, tokens_to_remove)
        if self.is_initialized:
            self.cumulative_length = self.keys.shape[-2]


def fingerprint(model: Any) -> str:
    """32 hexadecimal digits that differ if the model's class, configuration, dtype or weights do. It reads about
    4,096 elements of each tensor, at equal distances: training changes them, a change of a few numbers may not.
    """
    config = json.loads(model.config.to_json_string(use_diff=False))
    for name in _ORIGIN:
        config.pop(name, None)
    whole = hashlib.sha256(json.dumps([type(model).__name__, config], sort_keys=True).encode())
    tensors = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in sorted(tensors, key=lambda named: str(named[0])):
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(flat.numel() // _SAMPLES, 1)].cpu().contiguous()
        whole.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        whole.update(some.view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:32]


class PrefixCache(Closing):
    """The prompts of one model on kv-servers. It opens a client, and owns it until close()."""

    def __init__(
        self,
        model: Any,
        servers: str | Sequence[str],
        *,
        block: int = 16,
        namespace: str = "transformers",
        weights: str = "",
        salt: str = "",
        load_timeout: float = 2.0,
        ttl: int = 0,
        **options: Any,
    ) -> None:
        """model: a decoder of transformers with a DynamicCache. It computes one token here, which shows the layout.
        servers, options: as for kvrail.Client.
        block: tokens of one value. Programs with different ones share nothing.
        namespace: the readable beginning of the namespace's name, up to 31 bytes.
        weights: a text that differs with the weights; "": fingerprint(model).
        salt: programs with different ones share nothing: tenants, images in prompts, the active LoRA adapter.
        load_timeout: seconds for one load. ttl: seconds until a stored block expires; 0: the servers' default.

        Raises ValueError for a model whose cache has no blocks, such as linear attention."""
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model is a model of transformers, not {type(model).__name__}")
        if model.config.is_encoder_decoder:
            raise ValueError(
                f"{type(model).__name__} has an encoder: kvrail.hf serves decoders alone"
            )
        if any(f'"{kind}"' in json.dumps(model.config.to_dict(), default=str) for kind in _MOVING):
            raise ValueError(
                "this model's RoPE depends on the length of the sequence (dynamic, longrope), so keys of one token "
                "differ between prompts: kvrail.hf cannot serve it"
            )
        self._model, self._block, self._salt = model, block, salt
        self._timeout, self._ttl = load_timeout, ttl
        self._layers = self._probe()
        layout = [[list(shape) for shape in layer[:2]] + [str(layer[2])] for layer in self._layers]
        self.namespace = keys.namespace(
            namespace,
            model=type(model).__name__,
            weights=weights or fingerprint(model),
            layout=json.dumps(layout),
            transformers=transformers.__version__,
        )
        keys.Chain(self.namespace, block)  # refuses a wrong block
        token = sum((math.prod(k) + math.prod(v)) * t.itemsize for k, v, t in self._layers)
        if 2 * len(self._layers) > _PLACES or token * block > VALUE_MAX:
            raise ValueError(
                f"a block of {block} tokens has {token * block} bytes in {2 * len(self._layers)} tensors: a value has "
                f"at most {VALUE_MAX} bytes in {_PLACES}"
            )
        self.block_bytes = token * block
        self.client = Client(servers, namespace=self.namespace, **options)

    def empty(self) -> Any:
        """A DynamicCache for the model, as load() returns it without a hit."""
        past = DynamicCache(config=self._model.config)
        for i, layer in enumerate(past.layers):
            if type(layer) is DynamicSlidingWindowLayer:
                past.layers[i] = _Window(layer.sliding_window)
            elif type(layer) is not DynamicLayer:
                raise ValueError(
                    f"layer {i} of {type(self._model).__name__} keeps its state in a {type(layer).__name__}, which has "
                    "no blocks of tokens: kvrail.hf cannot serve this model"
                )
        return past

    def load(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
        """Return a DynamicCache for model.generate() or the model. It has as many tokens of the prompts as the servers
        have, past.get_seq_length(). At least one token is left to compute.

        input_ids: [rows, tokens]. All rows get the same number of tokens, that of the row with the fewest.
        attention_mask: of rows that are padded on the left."""
        end = time.monotonic() + self._timeout
        pads, known = self._pads(input_ids, attention_mask), input_ids.shape[1] - 1
        room = self._room(len(pads), known)
        for row, pad in enumerate(pads):
            names = self.names(input_ids[row, pad:known])
            into = [self._places(room, row, at) for at in self._starts(pad, len(names))]
            left = max(end - time.monotonic(), 1e-3)
            loaded = self.client.load_prefix(names, into, timeout=left) if names else 0
            known = min(known, pad + loaded * self._block if loaded else 0)
        past = self.empty()
        if known > 0:
            for i, (k, v) in enumerate(room):
                device = self._model.device
                past.update(k[:, :, :known].to(device), v[:, :, :known].to(device), i)
        return past

    def store(
        self, input_ids: torch.Tensor, past: Any, attention_mask: torch.Tensor | None = None
    ) -> int:
        """Store the blocks of these tokens that the servers do not have, and return their number.

        input_ids: [rows, tokens], such as the output of generate(). past: the cache of load() or empty(), filled by the
        model; tokens it has not computed are not stored. attention_mask: as for load(); it may end with the prompt.
        """
        pads, length = self._pads(input_ids, attention_mask), past.get_seq_length()
        if not length:
            return 0
        tensors = [(layer.keys.cpu(), layer.values.cpu()) for layer in past.layers]
        if length > input_ids.shape[1] or tensors[0][0].shape[0] != len(pads):
            raise ValueError(
                f"the cache has {length} tokens of {len(tensors[0][0])} rows, and input_ids the shape "
                f"{list(input_ids.shape)}"
            )
        if any(k.shape[2] != length for k, _ in tensors):
            raise ValueError(
                "a layer has dropped the tokens outside its window: use the cache of load() or empty()"
            )
        blocks: dict[str, list[Any]] = {}
        for row, pad in enumerate(pads):
            names = self.names(input_ids[row, pad:length])
            for name, at in zip(names, self._starts(pad, len(names)), strict=True):
                blocks.setdefault(name, self._places(tensors, row, at))
        return self._put(blocks)

    def names(self, tokens: torch.Tensor) -> list[str]:
        """The keys of the whole blocks of one sequence, such as for `client`."""
        return keys.chained(self.namespace[-32:], tokens, self._block, salt=self._salt)

    def clear(self) -> None:
        """Remove the blocks of this model, for all programs. Raises kvrail.Error if a server does not confirm."""
        self.client.clear()

    def close(self) -> None:
        self.client.close()

    def _probe(self) -> list[tuple[list[int], list[int], Any]]:
        """Of each layer: heads and width of its keys and of its values, and their dtype."""
        past = self.empty()
        token = torch.zeros((1, 1), dtype=torch.long, device=self._model.device)
        known = inspect.signature(self._model.forward).parameters
        argument = (
            "cache" if "cache" in known else "past_key_values"
        )  # the latter before transformers 5.24
        with torch.inference_mode():
            self._model(input_ids=token, use_cache=True, **{argument: past})
        if past.get_seq_length() != 1 or not all(layer.is_initialized for layer in past.layers):
            raise ValueError(
                f"{type(self._model).__name__} does not fill a DynamicCache with one entry per layer and token: "
                "kvrail.hf cannot serve this model"
            )
        shapes = [(layer.keys.shape, layer.values.shape, layer.keys.dtype) for layer in past.layers]
        return [([k[1], k[3]], [v[1], v[3]], dtype) for k, v, dtype in shapes]

    def _pads(self, input_ids: torch.Tensor, mask: torch.Tensor | None) -> list[int]:
        """Of each row, the tokens of padding on its left."""
        if not isinstance(input_ids, torch.Tensor):
            raise TypeError(f"input_ids is a tensor, not {type(input_ids).__name__}")
        if input_ids.dim() != 2 or input_ids.shape[1] < 1:
            raise ValueError(f"input_ids has the shape [rows, tokens], not {list(input_ids.shape)}")
        if mask is None:
            return [0] * input_ids.shape[0]
        if mask.dim() != 2 or len(mask) != len(input_ids) or mask.shape[1] > input_ids.shape[1]:
            raise ValueError(
                f"the attention mask has the shape {list(mask.shape)}, and input_ids {list(input_ids.shape)}"
            )
        pads = (mask == 0).sum(dim=1).tolist()
        if any(bool(mask[row, :pad].any()) for row, pad in enumerate(pads)):
            raise ValueError("padding must be on the left: tokenizer.padding_side = 'left'")
        return [int(pad) for pad in pads]

    def _starts(self, pad: int, blocks: int) -> range:
        return range(pad, pad + blocks * self._block, self._block)

    def _room(self, rows: int, tokens: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of each layer, tensors for its keys and values. What lies below padding is masked, and must be finite."""
        return [
            (
                torch.zeros((rows, k[0], tokens, k[1]), dtype=dtype),
                torch.zeros((rows, v[0], tokens, v[1]), dtype=dtype),
            )
            for k, v, dtype in self._layers
        ]

    def _places(
        self, tensors: list[tuple[torch.Tensor, torch.Tensor]], row: int, at: int
    ) -> list[Any]:
        """Where the block from token `at` on lies: keys and values of each layer."""
        return [part[row, :, at : at + self._block] for pair in tensors for part in pair]

    def _put(self, blocks: dict[str, list[Any]]) -> int:
        """Store those that are missing. Where servers are down or full, blocks are misses later."""
        try:
            there = self.client.exists(list(blocks))
        except (Closed, Invalid):  # the caller's fault
            raise
        except Error:
            return 0
        names = [name for name, old in zip(blocks, there, strict=True) if not old]
        try:
            data = [blocks[name] for name in names]
            return sum(self.client.put_many(names, data, self._ttl, background=True))
        except Error as error:
            return sum(result == 0 for result in error.results or ())
