# SPDX-License-Identifier: Apache-2.0
"""SGLang: kv-servers as the storage of HiCache, loaded as its dynamic backend.

    --enable-hierarchical-cache --hicache-storage-backend dynamic --hicache-storage-backend-extra-config
    '{"backend_name": "kvrail", "module_path": "kvrail.sglang", "class_name": "KVRailHiCache", "interface_v1": 1,
      "servers": "10.0.0.1:7411"}'

One page is one value, in every layout. If its parts lie at one distance (layer_first: 2 x layers of them; page_first: K
and V), the library gathers and scatters them; a page of another shape is copied. Host pools are registered when SGLang
reports them. docs/guide/engines.md is the guide.

Threads: SGLang's prefetch, prefetch I/O and backup threads call at the same time and expect to block, the GIL released.
A thread of the client wakes them.

Owner: this object owns its client. SGLang owns the pages, and keeps them in place during a call. A call returns by its
deadline, which is below the bound of a prefetch (at least 1 s); afterwards nothing uses the pages.

If a server dies, its pages are misses. Only the constructor raises, for a configuration that cannot work, and clear(),
which SGLang expects to: an exception of another method would end SGLang's thread.
"""

from __future__ import annotations

import functools
import importlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from sglang.srt.mem_cache import hicache_storage as _base

from . import _calls, _native, keys
from ._engine import CLIENT_OPTIONS, clear, digest, flag, name_of, seconds, servers_of, weights_of
from ._errors import Error
from .client import Reaper

logger = logging.getLogger("sglang.kvrail")

_ENOTFOUND, _EEXIST, _ETOOBIG, _ETIER = -1004, -1005, -1009, -1024
_MISSES = (_ENOTFOUND, _ETOOBIG, _ETIER)
_KV = "kv"
_BLOCK_GROUPS = "block_groups"
# SGLang's own options in the same configuration; ours follow.
_SGLANG_OPTIONS = frozenset(
    "backend_name module_path class_name interface_v1 prefetch_threshold prefetch_timeout_base "
    "prefetch_timeout_per_ki_token hicache_storage_pass_prefix_keys tp_lcm_size".split()
)
_OUR_OPTIONS = frozenset(
    "servers timeout ttl revision weights namespace allow_clear memory_only".split() + list(CLIENT_OPTIONS)
)
# Seconds. SGLang gives a prefetch 1 s (prefetch_timeout_base, unknown here) and 0.25 s per 1,024 tokens: in that time the
# call must end, and SGLang's threads must notice.
_TIMEOUT, _TIMEOUT_BOUND = 0.8, 0.9
_CALLS_KEPT = 4096  # for get_stats, which SGLang calls where its metrics are on

_F = TypeVar("_F", bound=Callable[..., Any])


def _guarded(instead: Callable[..., Any]) -> Callable[[_F], _F]:
    """A fault of ours must not end a thread of SGLang: log it, and report that nothing was found or stored."""

    def wrap(method: _F) -> _F:
        @functools.wraps(method)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                self._say_once("fault " + method.__name__, f"{method.__name__} failed: {error!r}")
                return instead(*args, **kwargs)

        return guarded  # type: ignore[return-value]

    return wrap


class _Shape:
    """The places of a page's parts: equal pieces at one distance, in the same order for every page.

    `order` is that of their addresses. It decides the order of parts in a value, and is part of the keys.
    """

    def __init__(self, addresses: Sequence[int], sizes: Sequence[int]) -> None:
        self.size = int(sizes[0]) if sizes else 0
        self.order = [
            int(i) for i in np.argsort(np.asarray(addresses, dtype=np.uint64), kind="stable")
        ]

    def parts(self, addresses: Sequence[int], pages: int) -> Any:
        """The addresses of the parts of each page, in order."""
        all = [int(address) % (1 << 64) for address in addresses]
        return np.asarray(all, dtype=np.uint64).astype(np.int64).reshape(pages, -1)[:, self.order]

    def items(
        self, addresses: Sequence[int], sizes: Sequence[int], pages: int
    ) -> list[tuple[int, ...]] | None:
        """(address, length) or (address, length, slice, stride) of each page. None: a page has another shape."""
        number = len(self.order)
        if (
            len(addresses) != pages * number
            or len(sizes) != len(addresses)
            or self.size <= 0
            or number == 0
        ):
            return None
        if any(int(size) != self.size for size in sizes):
            return None
        parts = self.parts(addresses, pages)
        first = [int(address) for address in parts[:, 0]]
        if number == 1:
            return [(address, self.size) for address in first]
        distances = np.diff(parts, axis=1)
        stride = int(distances[0, 0])
        if stride < self.size or not bool((distances == stride).all()):
            return None
        if stride == self.size:
            return [(address, number * self.size) for address in first]
        return [(address, number * self.size, self.size, stride) for address in first]


class _Pool:
    """A host pool that SGLang registered. Its shape is determined once. Pages of an unknown shape are always copied,
    because the bytes of a copied page have another order."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.prefix = b""
        self.page_size = int(getattr(pool, "page_size", 1) or 1)
        self.shape: _Shape | None = None
        # The pool's memory. SGLang computes addresses of pages and does not compare them with the pool's end.
        self.spans = [_span(tensor) for tensor in _tensors(pool)]
        self.logical = False  # it numbers the pages of other pools, and has no bytes (DeepSeek V4)
        try:
            meta = pool.get_page_buffer_meta(torch.arange(self.page_size))
            if meta is None and pool.kv_buffer is None:
                self.logical = True
                return
            addresses, sizes = meta
            shape = _Shape(addresses, sizes)
            if shape.items(addresses, sizes, 1) is not None:
                self.shape = shape
        except (AttributeError, NotImplementedError, ValueError, TypeError):
            pass

    def items(self, indices: torch.Tensor, pages: int) -> list[tuple[int, ...]]:
        assert self.shape is not None
        addresses, sizes = self.pool.get_page_buffer_meta(indices)
        items = self.shape.items(addresses, sizes, pages)
        if items is None:
            raise ValueError("a page lies otherwise than the pool's first one")
        self._inside(self.shape.parts(addresses, pages), self.shape.size)
        return items

    def _inside(self, parts: Any, size: int) -> None:
        """Raise if a part of a page is outside of the pool's memory: the page's index is wrong."""
        inside = np.zeros(parts.shape, dtype=bool)
        for begin, end in self.spans:
            inside |= (parts >= begin) & (parts <= end - size)
        if self.spans and not bool(inside.all()):
            outside = [int(page) for page in np.flatnonzero(~inside.all(axis=1))]
            raise ValueError(
                f"{len(outside)} of {len(inside)} pages are outside of the pool, page {outside[0]} of the call first: their "
                "indices are too large or negative"
            )


class KVRailHiCache(_base.HiCacheStorage):  # type: ignore[misc]
    """The backend. Options, in extra_config: servers; timeout: seconds per call, 0.8 by default and below 0.9; ttl: seconds
    until values expire, 0: the server's default; revision: of the model; weights: a text that changes with the weights, or
    their folder, by default the model's folder or its commit in Hugging Face's cache; namespace: the beginning of the
    namespace's name, up to 31 bytes, engines with different ones share nothing; allow_clear: 0: clear() raises, 1, the
    default: it clears the namespace; memory_only: 1: what servers have on their NVMe tier alone is a miss, for engines that
    compute a page faster than a drive reads it, 0, the default: it is read; and options of kvrail's client (psk_file, provider, num_clients, ...)."""

    def __init__(self, storage_config: Any, kwargs: dict[str, Any] | None = None) -> None:
        self._config = storage_config
        options = dict(getattr(storage_config, "extra_config", None) or {})
        self._said: set[str] = set()
        self._timeout = seconds("timeout", options.get("timeout", _TIMEOUT))
        if self._timeout >= _TIMEOUT_BOUND:
            raise ValueError(
                f"kvrail: timeout is {self._timeout:g} s; it must be below {_TIMEOUT_BOUND} s: SGLang gives a prefetch 1 "
                "s and little more, and what ends later is lost"
            )
        self._ttl = options.get("ttl", 0)
        if not isinstance(self._ttl, int) or not 0 <= self._ttl < 1 << 32:
            raise ValueError(
                f"kvrail: ttl is in whole seconds, 0 for the server's default, not {self._ttl!r}"
            )
        self._zero_copy = flag("interface_v1", options.get("interface_v1", 0))
        unknown = sorted(set(options) - _SGLANG_OPTIONS - _OUR_OPTIONS)
        if unknown:
            raise ValueError(
                f"kvrail: extra_config has {unknown[0]!r}, which is no option of this backend; it has "
                + ", ".join(sorted(_OUR_OPTIONS))
            )
        self._allow_clear = flag("allow_clear", options.get("allow_clear", 1))
        self._memory_only = flag("memory_only", options.get("memory_only", 0))
        space = keys.namespace(name_of(options, "sglang"), **_fields(storage_config, options))
        self._client = _native.Client(
            servers_of(options, "hicache-storage-backend-extra-config"),
            down_is_miss=True,
            namespace=space,
            **{name: options[name] for name in CLIENT_OPTIONS if name in options},
        )
        logger.info("kvrail: the namespace is %s", space)
        self._reaper = Reaper(self._client)
        self._pools: dict[str, _Pool] = {}
        self._registered: dict[int, int] = {}  # address: bytes
        self._flat = self._prefix(_KV, None)  # for pages in tensors
        self._written = 0
        self._read = 0
        self._missed = 0
        self._failed = 0
        # (pages, bytes, seconds) of calls, for get_stats.
        self._loads: deque[tuple[int, int, float]] = deque(maxlen=_CALLS_KEPT)
        self._stores: deque[tuple[int, int, float]] = deque(maxlen=_CALLS_KEPT)

    # ---- pools and keys ----

    @_guarded(lambda *a, **k: None)
    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        self.mem_pool_host = mem_pool_host
        self._add_pool(_KV, mem_pool_host)
        self._flat = self._prefix(_KV, mem_pool_host)

    @_guarded(lambda *a, **k: None)
    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        name = str(getattr(host_pool_name, "value", host_pool_name))
        if not hasattr(self, "registered_pools"):
            self.registered_pools: dict[Any, Any] = {}
        self.registered_pools[host_pool_name] = host_pool
        self._add_pool(name, host_pool)

    def _add_pool(self, name: str, host_pool: Any) -> None:
        for tensor in _tensors(host_pool):
            _on_host(tensor, f"the pool {name}")
        tp_size = getattr(self._config, "tp_size", 1)
        if (
            getattr(self._config, "is_mla_model", False)
            and tp_size > 1
            and _has_heads(name, host_pool)
        ):
            self._say_once(
                "split " + name,
                f"the pool {name} is split over {tp_size} tensor ranks, of which SGLang lets only rank 0 store where the "
                "model is MLA: nothing will be found",
            )
        pool = _Pool(host_pool)
        pool.prefix = self._prefix(name, host_pool, pool)
        self._pools[name] = pool
        self._register(host_pool)

    def _register(self, pool: Any) -> None:
        """Register each piece of memory once: pools may share it."""
        for tensor in _buffers(pool):
            address, size = int(tensor.data_ptr()), tensor.numel() * tensor.element_size()
            if self._registered.get(address, 0) >= size or size == 0:
                continue
            try:
                self._client.register((address, size))
                self._registered[address] = size
            except Error as error:
                self._say_once(
                    "register",
                    f"a host pool cannot be registered, so its pages are copied: {error}",
                )

    def _prefix(self, name: str, pool: Any, paged: _Pool | None = None) -> bytes:
        """The beginning of a page's keys: a digest of the pool's fields. The namespace has those of the engine."""
        config = self._config
        get = functools.partial(getattr, config)
        sharded = not get("is_mla_model", False) or _is_split(name, pool)
        fields: dict[str, Any] = {
            "pool": name,
            "tp": [get("tp_rank", 0), get("tp_size", 1)] if sharded else "replicated",
        }
        if pool is not None:
            for attribute in (
                "layout dtype page_size layer_num head_num head_dim v_head_dim kv_lora_rank qk_rope_head_dim kv_cache_dim start_layer "
                "end_layer size_per_token"
            ).split():
                value = getattr(pool, attribute, None)
                fields[attribute] = (
                    str(value) if isinstance(value, (int, float, str, torch.dtype)) else None
                )
            fields["class"] = type(pool).__name__
            # A host pool has the type of its storage: uint8 for every kind of FP8. The GPU's pool has the real type.
            fields["device_dtype"] = str(getattr(getattr(pool, "device_pool", None), "dtype", None))
        if paged is None:
            fields["bytes"] = "tensors"
        elif paged.shape is None:
            fields["bytes"] = "flat page"
        else:
            fields["bytes"] = [paged.shape.size, paged.shape.order]
        return f"{digest(fields)}:".encode()

    @property
    def _kv_prefix(self) -> bytes:
        """The prefix of the KV pool's pages: SGLang stores them by v1 if configured, else as tensors."""
        pool = self._pool(_KV) if self._zero_copy else None
        return pool.prefix if pool else self._flat

    @property
    def _is_logical(self) -> bool:
        pool = self._pool(_KV) if self._zero_copy else None
        return pool is not None and pool.logical

    def _pool(self, name: Any) -> _Pool | None:
        return self._pools.get(str(getattr(name, "value", name)))

    def _registered_pool(self, name: Any) -> _Pool:
        pool = self._pool(name)
        if pool is None:
            raise ValueError(f"the pool {name} was never registered")
        return pool

    # ---- v1 ----

    @_guarded(lambda *a, **k: 0)
    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """The number of existing keys before the first missing one."""
        return _leading(self._exists(self._kv_prefix, keys))

    @_guarded(lambda keys, *a, **k: [False] * len(keys))
    def batch_get_v1(
        self, keys: list[str], host_indices: torch.Tensor, extra_info: Any = None
    ) -> list[bool]:
        return self._get(self._pool(_KV), keys, host_indices)

    @_guarded(lambda keys, *a, **k: [False] * len(keys))
    def batch_set_v1(
        self, keys: list[str], host_indices: torch.Tensor, extra_info: Any = None
    ) -> list[bool]:
        return self._set(self._pool(_KV), keys, host_indices)

    # ---- v2 ----

    @_guarded(lambda *a, **k: _base.PoolTransferResult.empty())
    def batch_exists_v2(
        self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None
    ) -> Any:
        transfers = list(pool_transfers or [])
        prefixes = [self._registered_pool(transfer.name).prefix for transfer in transfers]
        gating = [t for t in transfers if _policy(t) != _BLOCK_GROUPS]
        logical = self._is_logical and bool(gating)  # then they alone decide
        if not logical:
            prefixes.append(self._kv_prefix)
        wanted = [prefix + pack(k) for prefix in prefixes for k in keys]
        found = [r > 0 for r in self._look_up(wanted)]
        n = len(keys)
        kv_pages = n if logical else _leading(found[len(transfers) * n :])
        hits: dict[str, int] = {_KV: kv_pages} if kv_pages else {}
        restorable = set(range(1, kv_pages + 1))
        for i, transfer in enumerate(transfers):
            there = found[i * n : (i + 1) * n]
            policy = _policy(transfer)
            if policy == "all_pages":
                legal = set(range(1, _leading(there[:kv_pages]) + 1))
            elif policy == "trailing_pages":
                legal = _trailing(there, kv_pages, max(1, len(transfer.keys or ())))
            elif policy == _BLOCK_GROUPS:
                continue  # a second form of the same pages: it never gates, and is not reported
            else:
                raise ValueError(f"the hit policy {policy} is not known to kvrail.sglang")
            if legal:
                hits[transfer.name] = max(legal)
            restorable &= legal
        result = _base.PoolTransferResult(max(restorable, default=0), hits)
        if hasattr(result, "restorable_prefix_pages"):
            result.restorable_prefix_pages = sorted(restorable)
        return result

    @_guarded(lambda transfers, *a, **k: {t.name: [False] * len(t.keys or ()) for t in transfers})
    def batch_get_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return {
            t.name: self._get(self._pool(t.name), t.keys or [], t.host_indices) for t in transfers
        }

    @_guarded(lambda transfers, *a, **k: {t.name: [False] * len(t.keys or ()) for t in transfers})
    def batch_set_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return {
            t.name: self._set(self._pool(t.name), t.keys or [], t.host_indices) for t in transfers
        }

    # ---- pages ----

    def _call(
        self, submit: Callable[..., int], *args: Any, fine: tuple[int, ...] = _MISSES
    ) -> list[int]:
        results = self._reaper.call(submit, *args)
        failed = [r for r in results if r < 0 and r not in fine]
        self._failed += len(failed)
        if failed:
            text = f"{_native.errname(failed[0])}: {_native.strerror(failed[0])}"
            if self._new(text):
                down = _calls.who_is_down(self._client, results)
                self._say_once(
                    text,
                    f"{len(failed)} of {len(results)} keys failed: {text}" + (down and f"; {down}"),
                )
        return results

    def _load(self, names: list[bytes], items: Sequence[tuple[int, ...]]) -> list[bool]:
        submit, begun = self._client.submit_batch_get, time.monotonic()
        results = self._call(submit, names, items, self._timeout, False, None, self._memory_only)
        done = [r == item[1] for r, item in zip(results, items)]
        _note(self._loads, done, items, begun)
        self._read += sum(done)
        self._missed += len(done) - sum(done)
        return done

    def _store(self, names: list[bytes], items: Sequence[tuple[int, ...]]) -> list[bool]:
        """In the background: no request waits for a backup, and prefetches overtake it. An existing page has the same
        tokens: it is as good."""
        submit, begun = self._client.submit_batch_set, time.monotonic()
        results = self._call(submit, names, items, self._timeout, self._ttl, True, fine=(_EEXIST,))
        done = [r in (0, _EEXIST) for r in results]
        _note(self._stores, done, items, begun)
        self._written += sum(done)
        return done

    def _exists(self, prefix: bytes, keys: Sequence[str]) -> list[bool]:
        if not keys:
            return []
        return [r > 0 for r in self._look_up([prefix + pack(k) for k in keys])]

    def _look_up(self, names: list[bytes]) -> list[int]:
        submit = self._client.submit_batch_exists
        return self._call(submit, names, self._timeout, self._memory_only)

    def _checked(
        self, pool: _Pool | None, keys: Sequence[str], indices: torch.Tensor | None
    ) -> _Pool:
        if pool is None:
            raise ValueError("the host pool was never registered")
        if indices is None or indices.numel() != len(keys) * pool.page_size:
            number = 0 if indices is None else indices.numel()
            raise ValueError(f"{len(keys)} pages of {pool.page_size} tokens have {number} indices")
        if not pool.logical and int(indices.min()) < 0:
            raise ValueError(f"the index {int(indices.min())} is outside of the pool")
        return pool

    def _get(
        self, pool: _Pool | None, keys: Sequence[str], indices: torch.Tensor | None
    ) -> list[bool]:
        if not keys:
            return []
        pool = self._checked(pool, keys, indices)
        assert indices is not None
        if pool.logical:
            return [True] * len(keys)
        names = [pool.prefix + pack(k) for k in keys]
        if pool.shape is None:
            return self._get_copied(pool, names, indices)
        return self._load(names, pool.items(indices, len(keys)))

    def _get_copied(self, pool: _Pool, names: list[bytes], indices: torch.Tensor) -> list[bool]:
        pages = [pool.pool.get_dummy_flat_data_page().contiguous() for _ in names]
        done = self._load(names, [_memory(page) for page in pages])
        for i, ok in enumerate(done):
            if ok:
                pool.pool.set_from_flat_data_page(int(indices[i * pool.page_size]), pages[i])
        return done

    def _set(
        self, pool: _Pool | None, keys: Sequence[str], indices: torch.Tensor | None
    ) -> list[bool]:
        if not keys:
            return []
        pool = self._checked(pool, keys, indices)
        assert indices is not None
        if pool.logical:
            return [True] * len(keys)
        names = [pool.prefix + pack(k) for k in keys]
        pages: list[torch.Tensor] = []
        items: Sequence[tuple[int, ...]]
        if pool.shape is not None:
            items = pool.items(indices, len(keys))
        else:
            pages = [
                pool.pool.get_data_page(int(indices[i * pool.page_size]), flat=True).contiguous()
                for i in range(len(keys))
            ]
            items = [_memory(page) for page in pages]
            whole = _memory(pool.pool.get_dummy_flat_data_page())[1]
            if any(item[1] != whole for item in items):
                raise ValueError(f"a page has not all its {whole} bytes: it is outside of the pool")
        return self._store(names, items)

    # ---- one by one, with tensors: used by SGLang without interface_v1 ----

    @_guarded(lambda *a, **k: None)
    def get(
        self, key: str, target_location: Any = None, target_sizes: Any = None
    ) -> torch.Tensor | None:
        return self._get_tensors([key], [target_location])[0]

    @_guarded(lambda keys, *a, **k: [None] * len(keys))
    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[Any]:
        return self._get_tensors(keys, target_locations)

    def _get_tensors(self, keys: Sequence[str], targets: Any) -> list[torch.Tensor | None]:
        tensors = list(targets or [])
        if (
            not keys
            or len(tensors) != len(keys)
            or any(not isinstance(t, torch.Tensor) for t in tensors)
        ):
            return [None] * len(keys)
        pages = [
            t if t.is_contiguous() else torch.empty_like(t, memory_format=torch.contiguous_format)
            for t in tensors
        ]
        done = self._load([self._flat + pack(k) for k in keys], [_memory(page) for page in pages])
        found: list[torch.Tensor | None] = []
        for tensor, page, ok in zip(tensors, pages, done):
            if ok and page is not tensor:
                tensor.copy_(page)
            found.append(tensor if ok else None)
        return found

    @_guarded(lambda *a, **k: False)
    def set(
        self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None
    ) -> bool:
        return self._set_tensors([key], [value])

    @_guarded(lambda *a, **k: False)
    def batch_set(
        self,
        keys: list[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        return self._set_tensors(keys, values)

    def _set_tensors(self, keys: Sequence[str], values: Any) -> bool:
        tensors = list(values or [])
        if len(tensors) != len(keys) or any(not isinstance(t, torch.Tensor) for t in tensors):
            return False
        if not keys:
            return True
        pages = [t.contiguous() for t in tensors]
        names = [self._flat + pack(k) for k in keys]
        return all(self._store(names, [_memory(p) for p in pages]))

    @_guarded(lambda *a, **k: False)
    def exists(self, key: str) -> bool:
        return self._exists(self._kv_prefix, [key]) == [True]

    # ---- the rest ----

    def clear(self) -> bool:
        """Clear the namespace, for all engines with the same fingerprint. Raises if a server does not confirm, or allow_clear
        is 0: SGLang logs that, and would report success for any returned value."""
        clear(self._client, self._allow_clear)
        return True

    def get_stats(self) -> Any:
        """SGLang's own StorageMetrics: pages and GB/s of each load and store since the last call. See also counters()."""
        stats = _storage_metrics()
        if stats is None:
            return None
        for mine, pages, speeds in (
            (self._loads, stats.prefetch_pgs, stats.prefetch_bandwidth),
            (self._stores, stats.backup_pgs, stats.backup_bandwidth),
        ):
            while mine:
                count, nbytes, elapsed = mine.popleft()
                pages.append(count)
                speeds.append(nbytes / 1e9 / max(elapsed, 1e-9))
        return stats

    def counters(self) -> dict[str, int]:
        """Pages written, read, missed and failed here, and the client's own counters."""
        own = {
            "pages_written": self._written,
            "pages_read": self._read,
            "pages_missed": self._missed,
            "pages_failed": self._failed,
        }
        try:
            return {**own, **self._client.counters()}
        except Error:
            return own

    def close(self) -> None:
        """End all calls: waiting threads return with misses. When it returns, nothing uses the pools."""
        try:
            self._reaper.close()
        except Exception as error:
            self._say_once("close", f"close failed: {error!r}")

    def _new(self, topic: str) -> bool:
        return topic not in self._said and len(self._said) < 64

    def _say_once(self, topic: str, text: str) -> None:
        if self._new(topic):
            self._said.add(topic)
            logger.warning("kvrail: %s", text)


def _storage_metrics() -> Any:
    """None: this version of SGLang has no such type."""
    for module in ("sglang.srt.observability.metrics_collector", "sglang.srt.metrics.collector"):
        try:
            return importlib.import_module(module).StorageMetrics()
        except (ImportError, AttributeError):
            continue
    return None


def _note(
    calls: deque[tuple[int, int, float]], done: list[bool], items: Sequence[tuple[int, ...]], begun: float
) -> None:
    if any(done):
        nbytes = sum(item[1] for item, ok in zip(items, done) if ok)
        calls.append((sum(done), nbytes, time.monotonic() - begun))


def _fields(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What the engine knows of its model: arguments of keys.namespace(). Ranks that store the same bytes share a namespace."""
    get, args = functools.partial(getattr, config), _server_args()
    alike = get("is_mla_model", False)
    revision = str(options.get("revision") or getattr(args, "revision", None) or "")
    model = str(getattr(args, "model_path", None) or get("model_name", None))
    fields: dict[str, Any] = {
        "engine": "sglang",
        "version": 2,
        "model": str(get("model_name", None)),
        "revision": revision,
        "weights": weights_of(str(options.get("weights") or model), revision),
        "weight_version": str(getattr(args, "weight_version", "")),
        "dtype": f"{getattr(args, 'kv_cache_dtype', '')}/{getattr(args, 'dtype', '')}",
        "quantization": str(getattr(args, "quantization", None) or ""),
        "lora": _loras(args),
        "tp_rank": 0 if alike else get("tp_rank", 0),
        "tp_size": 1 if alike else get("tp_size", 1),
        "pp": [get("pp_rank", 0), get("pp_size", 1)],
        "cp": [get("attn_cp_rank", 0), get("attn_cp_size", 1)],
    }
    if get("dcp_size", 1) > 1:
        fields["dcp"] = [
            get("dcp_rank", 0),
            get("dcp_size", 1),
            get("tp_size", 1),
            get("logical_page_size", None),
        ]
    return fields


def _server_args() -> Any:
    """The arguments of this process's server of SGLang, or None."""
    try:
        from sglang.srt.runtime_context import get_server_args

        return get_server_args()
    except Exception:  # an older SGLang, or no server in this process
        return None


def _loras(args: Any) -> list[str]:
    """The adapters that a server starts with: name and weights."""
    given = getattr(args, "lora_paths", None) or []
    adapters = given.values() if isinstance(given, dict) else given
    return sorted(
        f"{getattr(a, 'lora_name', '')}={weights_of(str(getattr(a, 'lora_path', a)))}"
        for a in adapters
    )


def pack(key: str) -> bytes:
    """Pack SGLang's keys of 64 hexadecimal digits into 32 bytes; others stay as they are."""
    if len(key) == 64:
        try:
            raw = bytes.fromhex(key)
            if len(raw) == 32 and raw.hex() == key:
                return b"h" + raw
        except ValueError:
            pass
    return b"t" + key.encode()


def _on_host(tensor: torch.Tensor, what: str) -> None:
    """Refuse a tensor of a GPU: its addresses are meaningless to NIC and CPU."""
    if tensor.device.type != "cpu":
        raise ValueError(
            f"{what} has memory of {tensor.device}, and kvrail moves memory of the host alone: give it the host's pool, or "
            "tensor.cpu()"
        )


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    _on_host(tensor, "a page")
    return int(tensor.data_ptr()), tensor.numel() * tensor.element_size()


def _is_split(name: str, pool: Any) -> bool:
    """Whether the ranks of tensor parallelism have different bytes, even with MLA."""
    return name == "mamba" or _has_heads(name, pool)


def _has_heads(name: str, pool: Any) -> bool:
    """True for a draft model without MLA."""
    return name != _KV and hasattr(pool, "head_num")


def _policy(transfer: Any) -> str:
    return str(getattr(transfer.hit_policy, "value", transfer.hit_policy))


def _leading(found: Sequence[bool]) -> int:
    return next((i for i, there in enumerate(found) if not there), len(found))


def _trailing(there: Sequence[bool], limit: int, window: int) -> set[int]:
    """Lengths of prefixes whose last `window` pages all exist."""
    return {end for end in range(1, limit + 1) if all(there[max(0, end - window) : end])}


def _tensors(pool: Any) -> Iterable[torch.Tensor]:
    """A pool's tensors with pages: kv_buffer, k_buffer, temporal_buffer, ..."""
    for name, value in list(vars(pool).items()):
        if name.endswith("buffer"):
            parts = value if isinstance(value, (list, tuple)) else (value,)
            yield from (part for part in parts if isinstance(part, torch.Tensor))


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The begin and end of a tensor; with gaps, of its storage."""
    if tensor.is_contiguous():
        begin = int(tensor.data_ptr())
        return begin, begin + tensor.numel() * tensor.element_size()
    storage = tensor.untyped_storage()
    return int(storage.data_ptr()), int(storage.data_ptr()) + int(storage.nbytes())


def _buffers(pool: Any) -> Iterable[torch.Tensor]:
    """The tensors that can be registered."""
    return (tensor for tensor in _tensors(pool) if tensor.is_contiguous())
