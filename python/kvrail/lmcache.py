# SPDX-License-Identifier: Apache-2.0
"""LMCache's second level (L2) on KVRail. LMCache loads it by name: docs/guide/engines.md.

There are two ways in, with the same parameters:

    {"type": "native_plugin", "module_path": "kvrail.lmcache", "class_name": "Client",
     "adapter_params": {"servers": "10.0.0.1:7411", "prefix": "llama3-8b-bf16/"}, "max_capacity_gb": 64}
    {"type": "plugin", "module_path": "kvrail.lmcache", "class_name": "KVRailL2Adapter",
     "adapter_params": {"servers": "10.0.0.1:7411", "max_capacity_gb": 64}}

The second registers LMCache's own memory (L1), so values move without a copy. Growing memory
(--l1-use-lazy) is registered in pieces of 64 MiB or more, when objects in it arrive; until then the
library copies.

Parameters (adapter_params). If no default is given here, it is the library's (kvclient.h):

    servers         "HOST:PORT,HOST:PORT" or a list; needed
    prefix          precedes every key: separates caches on the same servers; Client needs one
    namespace       beginning of the namespace's name, up to 31 bytes; default "lmcache"
    weights         text that changes with the models' weights, or the folder of the model; default: none
    revision        of the model; default: none
    allow_clear     whether clear() may clear the namespace, for all its engines; default true
    timeout         seconds that a batch may take
    lookup_timeout  the same for lookups, for which a request waits; default: timeout
    ttl             whole seconds until stored values expire; default 0: the server's
    memory_only     whether values that servers have on their NVMe tier alone are misses; default false: they are read
    psk_file, cert_file, key_file, ca_file, crl_file, server_name       docs/guide/security.md
    cluster         name of the servers' cluster (kv-server --cluster); default: any
    provider, nic, num_rails, num_clients, num_threads, buffer_bytes    the fabric
    depth           batches under way at a time; default 1024
    verify          check the checksums of values; default true
    wait            fail if a server cannot be reached at the start; default false
    copies          2: two servers keep each value; "hot": two keep the popular ones; default 1
    local, local_socket     servers on this host: docs/guide/one-host.md; default: use their memory
    seal_key_file, seal_names   encrypt values, and names of keys: docs/guide/security.md; default: no
    log_level       of the library, 0 none to 4 debug; default 2
  of KVRailL2Adapter alone:
    max_capacity_gb the size of this L2 for LMCache's eviction; default 0: no eviction
    register        register L1's memory; default true
    events          take values that servers (kv-server --events) remove out of LMCache's account of this L2, on
                    which max_capacity_gb and eviction depend; default false

A key itself (psk) is no parameter, because LMCache writes adapter_params to its log.

Keys are LMCache's: model, rank, group, hash of the chunk, and cache_salt, so models and tenants never
meet. LMCache gives KVRailL2Adapter the types and shapes of values, which it adds to the keys. It gives a
native_plugin only their length (a value of another length is a miss), which float16 and bfloat16 share:
so Client refuses to work without a prefix, which must name everything that determines the bytes. Neither
gets the model's weights or revision: if these differ, give each its own `weights`. In some versions of vLLM the hash has a
random seed: set PYTHONHASHSEED=0 for LMCache and for the engine, or a restart loses all values.

Keys lie in a namespace: its name has a fingerprint of weights and revision. LMCache's /cache/clear empties
L1 alone, and refuses L2. To empty L2 call clear(), or run `kv-client clear` with the name that
report_status() has, for example after new weights got an old name.

LMCache owns the memory, and keeps it until a batch's completion was drained or close() returned. When a
server dies, its keys are misses, and stores to it fail by their deadline. The client reconnects.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import logging
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _calls, _native, keys
from ._arena import Arena
from ._engine import clear, digest, name_of, weights_of
from ._errors import Closed, Error
from ._follower import Removals, names_check

if TYPE_CHECKING:
    KVRailL2Adapter: Any

logger = logging.getLogger(__name__)

Completion = tuple[int, bool, str, list[bool] | None]

_NATIVE = (
    "servers prefix timeout psk_file cert_file key_file ca_file crl_file server_name cluster provider nic "
    "num_rails num_clients num_threads buffer_bytes depth verify wait log_level copies local local_socket "
    "seal_key_file seal_names"
).split()
_OWN = ["lookup_timeout", "ttl", "namespace", "weights", "revision", "allow_clear", "memory_only"]
_ADAPTER = ["max_capacity_gb", "register", "events"]
_BRIDGE = "lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter"
_OWN_IDS = 1 << 63  # the queue's ids are below
_QUIET_SECONDS = 10.0  # between two lines about failures
_CLOSE_SECONDS = 5.0  # how long close() waits for stores
_MODELS_MAX = 4096  # models with remembered layouts
# What an account of L2 consists of in LMCache's bridge.
_ACCOUNT = ("_lock", "_key_sizes", "_notify_keys_deleted")
# Counters in LMCache's own metrics.
_REPORTED = (
    "gets hits misses puts put_conflicts bytes_in bytes_out errors timeouts retries corrupt failovers requests replies "
    "room_wait_ns queue_ns slow local_gets"
).split()


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < 1e9:
        raise ValueError(f"{name} is a number of seconds above 0, not {value!r}")
    return float(value)


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is true or false, not {value!r}")


def _check_names(params: dict[str, Any], known: list[str]) -> None:
    unknown = [name for name in params if name not in known]
    if unknown:
        raise ValueError(
            f"kvrail.lmcache has no parameter {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )


def _namespace(params: dict[str, Any]) -> str:
    """The name of the namespace; removes its parameters."""
    base = name_of({"namespace": params.pop("namespace", "")}, "lmcache")
    weights, revision = params.pop("weights", ""), params.pop("revision", "")
    for name, value in (("weights", weights), ("revision", revision)):
        if not isinstance(value, str):
            raise ValueError(f"{name} is a text, not {value!r}")
    weights = weights_of(weights, revision) if weights else ""
    return keys.namespace(base, engine="lmcache", model="", weights=weights, revision=revision)


class Client:
    """The contract of LMCache's native_plugin: submit, an event descriptor, drain.

    Any thread may submit. A submit never raises: a refused one also gets an id, which completes with
    ok=False and the reason. One thread at a time drains. The constructor raises ValueError for a wrong
    parameter, and kvrail.Error if the library refuses it. After fork a child's batches fail.
    """

    _knows_layouts = False

    def __init__(self, servers: str | Sequence[str] | None = None, **params: Any) -> None:
        if servers is not None:
            params["servers"] = servers
        _check_names(params, _NATIVE + _OWN)
        if not params.get("servers"):
            raise ValueError("the parameter servers is needed: 'HOST:PORT,HOST:PORT' or a list")
        if not params.get("prefix") and not self._knows_layouts:
            raise ValueError(
                "the parameter prefix is needed, as 'llama3-8b-bf16/': LMCache does not tell a native_plugin of "
                "which type and layout values are, so give engines that may share them the same prefix and others "
                "another; or take the type plugin with KVRailL2Adapter, which is told"
            )
        for name in ("verify", "wait", "allow_clear", "memory_only"):
            _check_bool(name, params.get(name, False))
        self._allow_clear = params.pop("allow_clear", True)
        self._memory_only = params.pop("memory_only", False)
        self.namespace = _namespace(params)
        self._lookup_timeout = _seconds("lookup_timeout", params.pop("lookup_timeout", None))
        self._ttl = params.pop("ttl", 0)
        if type(self._ttl) is not int or not 0 <= self._ttl < 1 << 32:
            raise ValueError(f"ttl is a whole number of seconds below 2^32, not {self._ttl!r}")
        try:
            # If one of several servers is down, a lookup must still report the keys of the others.
            self._native = _native.Client(down_is_miss=True, namespace=self.namespace, **params)
        except TypeError as error:
            raise ValueError(f"a parameter has the wrong type: {error}") from error
        logger.info("the namespace is %s", self.namespace)
        self._locks = {os.getpid(): threading.RLock()}  # of what follows
        self._over: list[Completion] = []  # refused, or reaped by close()
        self._refused_ids = 0
        self._stores: set[int] = set()  # under way
        self._failures = 0
        self._failures_said = float("-inf")
        self._pid = os.getpid()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fd = select.epoll()
        self._fd.register(self._wake, select.EPOLLIN)
        self._fd.register(self._native.event_fd(), select.EPOLLIN)

    def __del__(self) -> None:
        # Not in close(): a thread may still poll the descriptor's number then.
        if hasattr(self, "_fd"):
            self._native.close()
            self._fd.close()
            os.close(self._wake)

    # ---- the contract ----

    def event_fd(self) -> int:
        """A descriptor, readable while completions wait. Only a drain reads it. It lives as long as the object."""
        return self._fd.fileno()

    def submit_batch_get(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        get = self._native.submit_batch_get
        return self._submit(get, keys, memoryviews, None, False, None, self._memory_only)

    def submit_batch_set(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        with self._lock():  # no drain may come between the submit and its note
            self._in_this_process()
            submit = self._native.submit_batch_set
            id = self._submit(submit, keys, memoryviews, None, self._ttl, True)
            if id < _OWN_IDS:
                self._stores.add(id)
        return id

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        exists = self._native.submit_batch_exists
        return self._submit(exists, keys, self._lookup_timeout, self._memory_only)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        return self._submit(self._native.submit_batch_delete, keys)

    def drain_completions(self) -> list[Completion]:
        """(id, ok, text, per key) of finished batches.

        For a store only ok matters: False if one key was not stored; a key with other bytes counts
        as stored. For a load or a lookup the bools matter: False is a miss, or a value of another
        length.
        """
        with self._lock():
            self._in_this_process()
            try:
                self._reap()
            except MemoryError:  # the completions remain: make the descriptor readable again
                os.eventfd_write(self._wake, 1)
                return []
            try:
                os.eventfd_read(self._wake)
            except BlockingIOError:
                pass
            over, self._over = self._over, []
        self._tell_of(over)
        return over

    def close(self) -> None:
        """Give stores under way 5 s to end, then end all batches: when it returns, nothing uses the memoryviews. Takes
        bounded time. Remaining completions can be drained afterwards."""
        self._stores_await()
        self._native.close()

    # ---- outside of the contract ----

    def register(self, address: int, nbytes: int) -> None:
        """Register memory until close(): transfers there need no copy. Blocks. Raises kvrail.Error."""
        self._native.register((address, nbytes))

    def counters(self) -> dict[str, int]:
        return self._native.counters()

    def clear(self) -> None:
        """Clear the namespace, for all its engines. Blocks. Raises kvrail.Error if a server does not confirm, and RuntimeError
        if allow_clear is false."""
        clear(self._native, self._allow_clear)

    def _keys(self, keys: Sequence[str]) -> Sequence[str]:
        """The keys at the servers for LMCache's keys, without the prefix."""
        return keys

    def _submit(self, submit: Callable[..., int], keys: Sequence[str], *args: Any) -> int:
        try:
            return submit(self._keys(keys), *args)
        except Exception as error:  # LMCache loses a request if a submit raises
            return self._refuse(f"{type(error).__name__}: {error}")

    def _refuse(self, text: str) -> int:
        with self._lock():
            self._in_this_process()
            self._refused_ids += 1
            own = _OWN_IDS + self._refused_ids
            self._over.append((own, False, text, None))
            os.eventfd_write(self._wake, 1)
        return own

    def _reap(self) -> list[Completion]:
        """Reap finished batches, and add them to _over. The caller holds the lock."""
        try:
            over = self._native.drain_completions()
        except Closed:  # in a child
            return []
        self._stores.difference_update(id for id, *_ in over)
        self._over = over + self._over if self._over else over
        return over

    def _stores_await(self) -> None:
        """Wait for stores. It reaps, because LMCache stops draining before it closes."""
        if self._pid != os.getpid():
            return
        poll = select.poll()
        poll.register(self._native.event_fd(), select.POLLIN)
        end = time.monotonic() + _CLOSE_SECONDS
        while self._stores and (left := end - time.monotonic()) > 0 and not self._native.closed:
            poll.poll(min(left, 0.1) * 1000)  # another thread may drain, so no wake-up may come
            with self._lock(), contextlib.suppress(MemoryError):
                over = self._reap()
                if over:
                    os.eventfd_write(self._wake, 1)
                self._tell_of(over)
        if self._stores and not self._native.closed:
            logger.warning(
                "closed with %d batches not stored after %g s: their chunks are misses later",
                len(self._stores),
                _CLOSE_SECONDS,
            )

    def _lock(self) -> threading.RLock:
        """A child of fork gets a lock of its own: a thread of the parent may hold the parent's for ever."""
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def _in_this_process(self) -> None:
        """Give a child of fork descriptors of its own, with the same numbers."""
        if self._pid == os.getpid():
            return
        wake, poll = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC), select.epoll()
        os.dup2(wake, self._wake, inheritable=False)
        os.close(wake)
        poll.register(self._wake, select.EPOLLIN)
        os.dup2(poll.fileno(), self._fd.fileno(), inheritable=False)
        poll.close()
        self._over, self._pid = [], os.getpid()
        self._stores.clear()

    def _tell_of(self, over: list[Completion]) -> None:
        for _id, ok, text, _keys in over:
            if not ok:
                self._tell(text)

    def _tell(self, text: str) -> None:
        """LMCache drops the text of a failure: log the first, then one line in ten seconds."""
        self._failures += 1
        now = time.monotonic()
        if now - self._failures_said < _QUIET_SECONDS:
            return
        failures, self._failures, self._failures_said = self._failures, 0, now
        down = ""
        try:
            if text.partition(":")[0] in _calls.NAMES_OF_SERVERS:
                down = _calls.down(self._native.servers(_calls.ASK_SECONDS))
        except Exception:  # the client is closed, or does not answer: lose no completion
            pass
        logger.warning(
            "a batch failed, and counts as missed or not stored: %s%s (%d failed since such a line)",
            text,
            down and f"; {down}",
            failures,
        )


class _LayoutClient(Client):
    """A Client with the layout of each value in its key. The caller sets the layouts before it submits."""

    _knows_layouts = True

    def __init__(self, **params: Any) -> None:
        self._told = threading.local()
        # If removals are followed: the key at the servers -> LMCache's, of values that are stored or under way.
        self._names: dict[bytes, Any] | None = None
        self._prefix = ""
        self._storing: dict[int, list[bytes]] = {}  # of batches under way
        super().__init__(**params)

    @contextlib.contextmanager
    def layouts(self, tags: Sequence[str], objects: Sequence[Any] = ()) -> Iterator[None]:
        """Within the context, the values of this thread's submits have these layouts; objects: LMCache's keys, to store."""
        self._told.tags, self._told.objects = tags, objects
        try:
            yield
        finally:
            del self._told.tags, self._told.objects

    def remember(self, prefix: str) -> None:
        """From now on remember LMCache's keys of what is stored, for of_removed()."""
        self._prefix, self._names = prefix, {}

    def of_removed(self, names: Sequence[bytes]) -> list[Any]:
        """LMCache's keys of values that servers removed; forgets them."""
        keys = []
        with self._lock():
            for name in names:
                if self._names and name in self._names:
                    keys.append(self._names[name])
                    self._forget(name)
        return keys

    def submit_batch_set(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        with self._lock():  # neither a drain nor a removal may come between the submit and the note
            id = super().submit_batch_set(keys, memoryviews)
            objects = getattr(self._told, "objects", ())
            if self._names is not None and len(objects) == len(keys) and id < _OWN_IDS:
                names = [_native.key_fold(self._prefix + name) for name in self._keys(keys)]
                self._names.update(zip(names, objects))
                self._storing[id] = names
        return id

    def drain_completions(self) -> list[Completion]:
        over = super().drain_completions()
        with self._lock():
            for id, ok, *_ in over:
                for name in self._storing.pop(id, ()):
                    if not ok:
                        self._forget(name)
        return over

    def _forget(self, name: bytes) -> None:
        if self._names and not any(name in names for names in self._storing.values()):
            self._names.pop(name, None)

    def _keys(self, keys: Sequence[str]) -> Sequence[str]:
        tags = getattr(self._told, "tags", [""] * len(keys))
        # No key of LMCache begins with "@": a model's name has none.
        return [f"@layout:{tag}@{key}" for tag, key in zip(tags, keys, strict=True)]


class _Layouts:
    """A short text for the layout of each key's value.

    LMCache gives shapes and types of values to store and to load, and of the groups of keys to look up. Behind a serde,
    which compresses or encrypts, values are plain bytes: then the last known layout of such keys counts. If none is
    known, the text belongs to this process alone, so no other process finds the values."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], str] = {}
        self._own = os.urandom(8).hex()
        self._own_said = False

    def of_objects(self, keys: Sequence[Any], objects: Sequence[Any]) -> list[str]:
        try:
            described = [_described(object.metadata) for object in objects]
            return [self._of(key, *d) for key, d in zip(keys, described, strict=True)]
        except Exception as error:  # LMCache loses a request if a submit raises
            return self._unknown(len(keys), error)

    def of_groups(self, keys: Sequence[Any], groups: Any) -> list[str]:
        try:
            told = {number: (tuple(g.shapes), tuple(g.dtypes)) for number, g in groups.items()}
            return [self._of(key, *told.get(key.object_group_id, ((), ()))) for key in keys]
        except Exception as error:
            return self._unknown(len(keys), error)

    def of_keys(self, keys: Sequence[Any]) -> list[str]:
        """The last known layout of such keys."""
        return [self._of(key, (), ()) for key in keys]

    def _of(self, key: Any, shapes: tuple[Any, ...], types: tuple[Any, ...]) -> str:
        # One layout at a time: LMCache registers it for each group of a model and number of ranks.
        model = (key.model_name, key.kv_rank >> 24, key.object_group_id)
        text = _layout(shapes, types)
        if text:
            if len(self._known) >= _MODELS_MAX:
                self._known.clear()
            self._known[model] = text
            return text
        return self._known.get(model) or self._unknown(1, None)[0]

    def _unknown(self, count: int, error: Exception | None) -> list[str]:
        if not self._own_said:
            self._own_said = True
            logger.warning(
                "LMCache does not tell types and shapes of values%s, so only this process will find them",
                f" as it did ({error!r})" if error else "",
            )
        return [self._own] * count


def _described(metadata: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if metadata.shapes and metadata.dtypes:
        return tuple(metadata.shapes), tuple(metadata.dtypes)
    return (metadata.shape,), (metadata.dtype,)


@functools.lru_cache(_MODELS_MAX)
def _layout(shapes: tuple[Any, ...], types: tuple[Any, ...]) -> str:
    """16 digits that differ if the layouts differ; "" for plain bytes."""
    names = [str(one) for one in types]
    if not names or names == ["None"] or names == ["torch.uint8"] and len(shapes[0]) == 1:
        return ""
    return digest({"shapes": [list(shape) for shape in shapes], "types": names})


def _stable_bytes(desc: Any) -> int:
    """The bytes of L1, or of growing memory the present bytes."""
    stable = getattr(desc, "stable_registration_size", 0)
    return int(desc.size if stable is None else min(stable, desc.size))


def _memory_tags(bridge: Any) -> dict[str, Any]:
    """The place of values, which LMCache requires from 0.5.7 on: as for a native_plugin."""
    if "memory_tags" not in inspect.signature(bridge.__init__).parameters:
        return {}
    api: Any = importlib.import_module("lmcache.v1.distributed.api")
    tags = api.MemoryTags(api.MemorySegment.STORAGE, api.MemoryResidency.REMOTE)
    return {"memory_tags": tags}


def _gauge_register(client: Client) -> None:
    """Show the client's main counters in LMCache's own metrics, if this version has gauges for others."""
    reference = weakref.ref(client)

    def observe() -> list[tuple[int, dict[str, str]]]:
        alive = reference()
        try:
            counters = alive.counters() if alive else {}
        except Error:  # closed
            counters = {}
        return [(counters[name], {"counter": name}) for name in _REPORTED if name in counters]

    with contextlib.suppress(ImportError, AttributeError):
        otel: Any = importlib.import_module("lmcache.v1.mp_observability.otel_init")
        name, text = "lmcache_kvrail.client", "Counters of KVRail's client."
        otel.register_gauge("lmcache.kvrail", name, text, observe)


def _make_adapter() -> Any:
    try:
        bridge: Any = importlib.import_module(_BRIDGE).NativeConnectorL2Adapter
    except (ImportError, AttributeError) as error:
        raise ImportError(
            "kvrail.lmcache.KVRailL2Adapter needs LMCache with its NativeConnectorL2Adapter "
            f"(0.5.6 and 0.5.7rc2 were tried): {error}"
        ) from error

    class KVRailL2Adapter(bridge):  # type: ignore[misc]
        """LMCache's bridge to a Client, over registered memory. config: see the module."""

        def __init__(self, config: dict[str, Any], l1_memory_desc: Any = None) -> None:
            params = dict(config)
            _check_names(params, _NATIVE + _OWN + _ADAPTER)
            capacity, register = params.pop("max_capacity_gb", 0), params.pop("register", True)
            events = params.pop("events", False)
            if type(capacity) not in (int, float) or not 0 <= capacity < 1e9:
                raise ValueError(f"max_capacity_gb is a number, 0 for no limit, not {capacity!r}")
            _check_bool("register", register)
            _check_bool("events", events)
            if events:
                names_check("events", params.get("seal_names"))
            self._arena: Arena | None = None
            self._layouts = _Layouts()
            client = _LayoutClient(**params)
            try:
                if register and l1_memory_desc is not None:
                    self._arena = Arena(
                        client.register,
                        l1_memory_desc.ptr,
                        l1_memory_desc.size,
                        _stable_bytes(l1_memory_desc),
                    )
                super().__init__(
                    client, max_capacity_gb=capacity, type_name="kvrail", **_memory_tags(bridge)
                )
            except BaseException:
                client.close()
                raise
            _gauge_register(client)
            if events:
                self._removals_begin(client, params.get("prefix") or "")

        @property
        def registered_bytes(self) -> int:
            """Registered bytes of L1."""
            return self._arena.registered_bytes if self._arena else 0

        def submit_store_task(self, keys: Any, objects: Any, *more: Any) -> Any:
            self._seen(objects)
            with self._client.layouts(self._layouts.of_objects(keys, objects), keys):
                return super().submit_store_task(keys, objects, *more)

        def submit_load_task(self, keys: Any, objects: Any, *more: Any) -> Any:
            self._seen(objects)
            with self._client.layouts(self._layouts.of_objects(keys, objects)):
                return super().submit_load_task(keys, objects, *more)

        def submit_lookup_and_lock_task(self, keys: Any, groups: Any, *more: Any) -> Any:
            with self._client.layouts(self._layouts.of_groups(keys, groups)):
                return super().submit_lookup_and_lock_task(keys, groups, *more)

        def delete(self, keys: Any) -> None:
            with self._client.layouts(self._layouts.of_keys(keys)):
                super().delete(keys)

        def clear(self) -> None:
            """As Client.clear."""
            self._client.clear()

        def _removals_begin(self, client: _LayoutClient, prefix: str) -> None:
            missing = [name for name in _ACCOUNT if not hasattr(self, name)]
            if missing:
                logger.warning("events has no effect: this version of LMCache has no %s", missing[0])
                return
            client.remember(prefix)
            reference = weakref.ref(self)

            def removed(names: list[bytes]) -> None:
                alive = reference()
                if alive is not None:
                    alive._removed(names)

            self._removals = Removals(client._native, client.namespace, removed)

        def _removed(self, names: list[bytes]) -> None:
            """Take values that servers removed out of LMCache's account, as if it had deleted them. One that was removed
            before LMCache has noted its store stays there, until LMCache's eviction deletes it."""
            with self._lock:
                keys = [k for k in self._client.of_removed(names) if k in self._key_sizes]
                sizes = [self._key_sizes.pop(key) for key in keys]
            if keys:
                self._notify_keys_deleted(keys, sizes)

        def _seen(self, objects: Any) -> None:
            if self._arena is None or self._arena.complete:
                return
            try:
                for object in objects:
                    self._arena.seen(object.data_ptr, object.get_size())
            except Exception as error:  # LMCache loses a request if a submit raises
                self._arena = None
                logger.warning("L1's growth cannot be followed, so it is copied: %r", error)

        def report_status(self) -> dict[str, Any]:
            status: dict[str, Any] = super().report_status()
            status["registered_bytes"] = self.registered_bytes
            status["namespace"] = self._client.namespace
            try:
                status["counters"] = self._client.counters()
            except Error:  # the client is closed
                status["is_healthy"] = False
            return status

    KVRailL2Adapter.__qualname__ = "KVRailL2Adapter"
    return KVRailL2Adapter


def __getattr__(name: str) -> Any:
    """Make KVRailL2Adapter on its first use, because that imports LMCache."""
    if name != "KVRailL2Adapter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = adapter = _make_adapter()
    return adapter
