# SPDX-License-Identifier: Apache-2.0
"""vLLM: kv-servers as a secondary tier of its native offloading (OffloadingConnector with TieringOffloadingSpec).

    "secondary_tiers": [{"type": "kvrail", "servers": "10.0.0.1:7411", "psk_file": "/etc/kvrail/psk"}]

vLLM moves blocks between GPUs and one mapping of host memory; this tier moves the rows of that mapping to servers and
back, without a copy. The constructor registers the mapping. docs/guide/engines.md is the guide.

Threads: the scheduler calls all methods, one at a time. Only drain_jobs and shutdown wait. The tier submits new calls once
per step: at its end, or when vLLM asks for finished jobs.

Owner: the tier owns its client. vLLM owns the mapping and keeps rows in place until their job is finished; shutdown
returns when nothing uses them.

If a server dies, its keys become misses, and jobs under way end by their deadline and name the loaded keys. Only the
constructor raises, for a configuration that cannot work.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import numpy as np
from vllm.v1.kv_offload.tiering import base as _base

from . import _calls, _native, keys
from ._engine import CLIENT_OPTIONS, clear, digest, flag, name_of, seconds, servers_of, weights_of
from ._errors import Busy, Error, NotFound
from ._follower import Removals, names_check
from .client import Client

try:
    from vllm.v1.kv_offload import base as _offload
    from vllm.v1.kv_offload.base import LookupResult, RequestOffloadingContext
except ImportError as _error:  # before 0.25 the interface was different
    raise ImportError("kvrail's tier needs vLLM 0.25 or newer") from _error

logger = logging.getLogger("vllm.kvrail")

_ENOTFOUND, _EEXIST, _ETOOBIG, _ETIER = -1004, -1005, -1009, -1024
_BATCH_KEYS = 256  # jobs are combined until a call has this many keys
_MISS_SECONDS = 2.0  # age of a miss after which the next request looks the key up again

_F = TypeVar("_F", bound=Callable[..., Any])


def _guarded(instead: Callable[[], Any]) -> Callable[[_F], _F]:
    """A fault of ours must not end the scheduler: log it, and return a harmless result."""

    def wrap(method: _F) -> _F:
        @functools.wraps(method)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception:
                self._say_once(
                    "fault " + method.__name__, "%s failed", method.__name__, exc_info=True
                )
                return instead()

        return guarded  # type: ignore[return-value]

    return wrap


@dataclasses.dataclass(slots=True)
class _Lookup:
    """The state of a key, while a request asks for it."""

    deadline: float  # for the answer
    found: bool | None = None  # None: not answered yet
    requests: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(slots=True)
class _Job:
    """A store or a load of vLLM. It is reported exactly once: when it leaves _jobs."""

    job_id: int
    keys: list[bytes]
    rows: list[int]
    load: bool
    begun: float


_METRICS = {  # name: (kind, text, labels)
    "lookups": ("Counter", "Keys that requests looked up in KVRail.", ()),
    "hits": ("Counter", "Of these, keys that were found.", ()),
    "bytes": ("Counter", "Bytes moved between host memory and KVRail.", ("operation",)),
    "errors": (
        "Counter",
        "Blocks that were not stored, not loaded, or not looked up in time.",
        ("operation",),
    ),
    "seconds": ("Histogram", "Time of a job, from vLLM's request to its end.", ("operation",)),
}
_SAMPLES_MAX = 4096  # of a histogram, until vLLM takes them


def _metric_definitions() -> dict[str, Any]:
    """{}: this version of vLLM takes no metrics of tiers."""
    kinds = {
        kind: getattr(_offload, f"Offloading{kind}Metadata", None) for kind, *_ in _METRICS.values()
    }
    definitions = {}
    for name, (kind, text, labels) in _METRICS.items():
        make = kinds[kind]
        if make is None:
            return {}
        definitions[f"vllm:kvrail_{name}"] = make(documentation=text, labelnames=labels)
    return definitions


class _Stats:
    """What happened since vLLM last took its metrics."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, tuple[str, ...]], int] = {}
        self._times: list[tuple[str, float]] = []

    def add(self, name: str, value: int, *labels: str) -> None:
        if value:
            self._counts[name, labels] = self._counts.get((name, labels), 0) + value

    def time(self, operation: str, elapsed: float) -> None:
        if len(self._times) < _SAMPLES_MAX:
            self._times.append((operation, elapsed))

    def take(self) -> Any:
        """vLLM's own type. None: nothing happened, or this version of vLLM takes no metrics of tiers."""
        counts, times = self._counts, self._times
        self._counts, self._times = {}, []
        if not (counts or times) or not _metric_definitions():
            return None
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
            OffloadingConnectorStats,
        )

        stats = OffloadingConnectorStats()
        for (name, labels), value in counts.items():
            stats.increase_counter(f"vllm:kvrail_{name}", value, labels)
        for operation, elapsed in times:
            stats.observe_histogram("vllm:kvrail_seconds", elapsed, (operation,))
        return stats


def _events_on(spec: Any) -> bool:
    """The tier's option alone has no effect: vLLM takes no events then."""
    places = (getattr(spec, "kv_events_config", None), getattr(spec, "config", None))
    if any(getattr(place, "enable_kv_cache_events", False) is True for place in places):
        return True
    logger.warning(
        "kvrail: enable_kv_events has no effect, because vLLM publishes no events: set enable_kv_cache_events in "
        "--kv-events-config"
    )
    return False


def _event(keys: list[bytes], medium: Any, removed: bool, locality: Any) -> Any:
    fields = {"keys": keys, "medium": medium, "removed": removed, "locality": locality}
    known = inspect.signature(_offload.OffloadingEvent).parameters
    return _offload.OffloadingEvent(**{name: fields[name] for name in fields if name in known})


class KVRailTierManager(_base.SecondaryTierManager):  # type: ignore[misc]
    """The tier `kvrail`.

    servers: "host:port,host:port" or a list. lookup_timeout: seconds until an unanswered key is a miss.
    timeout: seconds for a transfer; None: the client's 5 s and 1 s more per 100 MB. ttl: seconds until values expire; 0:
    the server's default. revision: of the model, if vLLM does not give it. weights: a text that changes with the weights, or
    their folder; default: the model's folder, or its commit in Hugging Face's cache. namespace: the beginning of the
    namespace's name, up to 31 bytes; engines with different ones share nothing. allow_clear: 0: a reset of vLLM's connector
    raises; 1, the default: it clears the namespace. memory_only: 1: a block that its server has on its NVMe tier alone is a
    miss, for engines that compute it faster than a drive reads it; 0, the default: it is read. enable_kv_events: report stored blocks, and those that servers
    (kv-server --events) remove. Others are options of kvrail's client (psk_file, provider, num_clients,
    ...).
    """

    if hasattr(_base, "Medium"):
        medium = _base.Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str = "kvrail",
        *,
        servers: str | list[str] | None = None,
        lookup_timeout: float = 0.5,
        timeout: float | None = None,
        ttl: int = 0,
        revision: str | None = None,
        weights: str = "",
        namespace: str = "",
        allow_clear: int = 1,
        memory_only: int = 0,
        locality: str | None = None,
        enable_kv_events: bool = False,
        backpressure_detector: Any = None,
        **options: Any,
    ) -> None:
        base = super().__init__
        if "backpressure_detector" in inspect.signature(base).parameters:
            base(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        else:
            base(offloading_spec, primary_kv_view, tier_type)
        if locality is not None and hasattr(_base, "Locality"):
            self.locality = _base.Locality(locality)
        wrong = sorted(set(options) - set(CLIENT_OPTIONS))
        if wrong:
            known = (
                "servers, lookup_timeout, timeout, ttl, revision, weights, namespace, allow_clear, "
                "memory_only, locality, enable_kv_events, " + ", ".join(CLIENT_OPTIONS)
            )
            raise ValueError(f"kvrail: the tier has no option {wrong[0]!r}; it has {known}")
        if enable_kv_events:
            names_check("enable_kv_events", options.get("seal_names"))
        self._lookup_timeout = seconds("lookup_timeout", lookup_timeout)
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        if not isinstance(ttl, int) or not 0 <= ttl < 1 << 32:
            raise ValueError(
                f"kvrail: ttl is in whole seconds, 0 for the server's default, not {ttl!r}"
            )
        self._ttl = ttl
        shape, strides = primary_kv_view.shape, primary_kv_view.strides
        if not (shape and strides and primary_kv_view.c_contiguous) or primary_kv_view.readonly:
            raise ValueError(
                "kvrail: vLLM's host memory must be one writable piece; this view is not"
            )
        self._row_bytes = int(strides[0])
        self._num_rows = int(shape[0])
        self._address = int(np.asarray(primary_kv_view).ctypes.data)

        self._allow_clear = flag("allow_clear", allow_clear)
        self._memory_only = flag("memory_only", memory_only)
        self._fields = _namespace_fields(offloading_spec, self._row_bytes, revision, weights)
        self._base, servers = namespace, servers_of({"servers": servers}, "the tier")
        self._options = {"servers": servers, **options}
        space = keys.namespace(name_of({"namespace": namespace}, "vllm"), **self._fields)
        self._client = _native.Client(down_is_miss=True, namespace=space, **self._options)
        logger.info("kvrail: the namespace is %s", space)
        self._poll = select.poll()
        self._poll.register(self._client.event_fd(), select.POLLIN)

        self._lookups: dict[bytes, _Lookup] = {}
        self._request_keys: dict[str, set[bytes]] = {}
        self._new_lookups: list[bytes] = []
        self._new_loads: list[_Job] = []
        self._new_stores: list[_Job] = []
        self._jobs: set[int] = set()
        self._finished: list[Any] = []
        # id -> the handler of its completion, called with (code, results)
        self._calls: dict[int, Callable[[int, list[int]], None]] = {}
        self._transfers = 0  # those of them that use the view
        self._drained = False  # in this step
        self._manifest: threading.Thread | None = None
        self._said: set[str] = set()
        self._shut = False
        self._stats = _Stats()
        self._stored: list[bytes] | None = None  # keys of events; None: no events
        self._removals: Removals | None = None
        if enable_kv_events and _events_on(offloading_spec):
            self._stored, self._removals = [], Removals(self._client, space)
        self._region: Any = None
        try:
            self._region = self._client.register(primary_kv_view)
        except Error as error:
            logger.warning(
                "kvrail: vLLM's host memory cannot be registered, so values are copied: %s", error
            )

    # ---- lookups ----

    def lookup(self, key: bytes, req_context: Any) -> Any:
        try:
            return self._lookup(key, req_context)
        except Exception:
            self._say_once("fault lookup", "lookup failed", exc_info=True)
            return LookupResult.MISS

    def _lookup(self, key: bytes, req_context: Any) -> Any:
        if not self._drained:
            self._drain()
            self._drained = True
        now = time.monotonic()
        entry = self._lookups.get(key)
        if entry is None:
            entry = self._lookups[key] = _Lookup(now + self._lookup_timeout)
            self._stats.add("lookups", 1)
            self._new_lookups.append(key)
        request = req_context.req_id
        if request not in entry.requests:
            if entry.found is False and now >= entry.deadline + _MISS_SECONDS:
                # Else overlapping requests would keep the miss, even if the server is back.
                entry.found, entry.deadline = None, now + self._lookup_timeout
                self._new_lookups.append(key)
            entry.requests.add(request)
            self._request_keys.setdefault(request, set()).add(key)
        if entry.found is None:
            if now < entry.deadline:
                return LookupResult.RETRY
            self._say_once(
                "slow",
                "a lookup was not answered in %g s: it counts as a miss",
                self._lookup_timeout,
            )
            entry.found = False
            self._stats.add("errors", 1, "lookup")
        return LookupResult.HIT if entry.found else LookupResult.MISS

    def _submit_lookups(self) -> None:
        waiting = {k: self._lookups[k] for k in self._new_lookups if k in self._lookups}
        entries = [entry for entry in waiting.values() if entry.found is None]
        names = [k for k, entry in waiting.items() if entry.found is None]
        if not names:
            self._new_lookups = []
            return

        def answered(code: int, results: list[int]) -> None:
            for entry, result in zip(entries, results):
                if entry.found is None:  # else its deadline passed, a load failed, or a clear came
                    entry.found = result > 0
                    self._stats.add("hits", int(result > 0))

        # A key that waited for room in the queue has less time left: its own deadline makes it a miss.
        if self._submit(
            answered,
            self._client.submit_batch_exists,
            names,
            timeout=self._lookup_timeout,
            memory_only=self._memory_only,
        ):
            self._new_lookups = []

    # ---- jobs ----

    def submit_store(self, job_metadata: Any) -> None:
        self._take(job_metadata, load=False)

    def submit_load(self, job_metadata: Any) -> None:
        self._take(job_metadata, load=True)

    def _take(self, metadata: Any, load: bool) -> None:
        job_id = metadata.job_id
        self._jobs.add(job_id)
        try:
            chunk_ids = getattr(metadata, "chunk_ids", None)  # block_ids before 0.30
            if chunk_ids is None:
                chunk_ids = metadata.block_ids
            job = _Job(
                job_id, list(metadata.keys), [int(c) for c in chunk_ids], load, time.monotonic()
            )
            if len(job.keys) != len(job.rows) or not all(0 <= r < self._num_rows for r in job.rows):
                raise ValueError(
                    f"job {job_id} has {len(job.keys)} keys and rows {job.rows} of {self._num_rows}"
                )
        except Exception:
            self._say_once("fault job", "a job cannot be understood", exc_info=True)
            self._finish(_Job(job_id, [], [], load, time.monotonic()), [], refused=True)
            return
        if job.keys:
            (self._new_loads if load else self._new_stores).append(job)
        else:
            self._finish(job, [])

    def _submit_jobs(self, new: list[_Job], load: bool) -> None:
        while new:
            jobs: list[_Job] = []
            count = 0
            for job in new:
                if jobs and count + len(job.keys) > _BATCH_KEYS:
                    break
                jobs.append(job)
                count += len(job.keys)
            if not self._submit_together(jobs, load):
                return
            del new[: len(jobs)]

    def _submit_together(self, jobs: list[_Job], load: bool) -> bool:
        """Return False if the queue is full: the jobs must wait."""

        def ended(code: int, results: list[int]) -> None:
            self._transfers -= 1
            start = 0
            for job in jobs:
                self._finish(job, results[start : start + len(job.keys)])
                start += len(job.keys)

        names = [key for job in jobs for key in job.keys]
        rows = [
            (self._address + row * self._row_bytes, self._row_bytes)
            for job in jobs
            for row in job.rows
        ]
        self._transfers += 1
        submit: Callable[..., int] = self._client.submit_batch_set
        options: dict[str, Any] = {"ttl": self._ttl, "background": True}
        if load:
            submit, options = self._client.submit_batch_get, {"memory_only": self._memory_only}
        done = self._submit(ended, submit, names, rows, timeout=self._timeout, **options)
        if not done:
            self._transfers -= 1
        return done

    def _finish(self, job: _Job, results: list[int], refused: bool = False) -> None:
        if job.job_id not in self._jobs:
            return
        self._jobs.discard(job.job_id)
        if job.load:
            done = [result == self._row_bytes for result in results]
        else:  # an existing value has the same tokens: it is as good
            done = [result in (0, _EEXIST) for result in results]
        good = [key for key, ok in zip(job.keys, done) if ok]
        success = not refused and len(good) == len(job.keys)
        way = "load" if job.load else "store"
        self._stats.add("bytes", len(good) * self._row_bytes, way)
        self._stats.add("errors", len(job.keys) - len(good), way)
        self._stats.time(way, time.monotonic() - job.begun)
        if self._stored is not None and not job.load:
            self._stored += good
        if not job.load:
            for key in good:  # a request that missed it may still have the old answer
                if key in self._lookups:
                    self._lookups[key].found = True
        elif not success:
            loaded = set(good)
            for key in job.keys:  # else vLLM would repeat the same load again and again
                entry = self._lookups.get(key)
                if entry is not None and key not in loaded:
                    entry.found, entry.deadline = False, time.monotonic()
        self._finished.append(
            _job_result(
                job_id=job.job_id,
                success=success,
                successful_keys=tuple(good) if job.load and good and not success else None,
                transfer_time=time.monotonic() - job.begun,
                transfer_bytes=len(good) * self._row_bytes,
            )
        )
        if not success:  # after the result, for which vLLM waits: the log may fail
            try:
                self._say_failed(job, results)
            except Exception:
                self._say_once("fault say", "a failure cannot be explained", exc_info=True)

    def _say_failed(self, job: _Job, results: list[int]) -> None:
        fine = (_ENOTFOUND, _ETOOBIG, _ETIER) if job.load else (_EEXIST,)  # misses, and stored keys
        codes = [r for r in results if r < 0 and r not in fine]
        if codes:
            text = f"{_native.errname(codes[0])}: {_native.strerror(codes[0])}"
            what = "load" if job.load else "store"
            if self._new(what + text):
                down = _calls.who_is_down(self._client, results)
                self._say_once(
                    what + text,
                    "a %s failed for %d of %d blocks: %s%s",
                    what,
                    len(codes),
                    len(results),
                    text,
                    down and f"; {down}",
                )

    # ---- steps ----

    @_guarded(list)
    def get_finished_jobs(self) -> Iterable[Any]:
        self._drain()
        self._flush()
        finished, self._finished = self._finished, []
        return finished

    @_guarded(lambda: None)
    def on_schedule_end(self, context: Any) -> None:
        self._drain()
        self._flush()
        self._drained = False

    def _flush(self) -> None:
        """Submit new calls. Stores come last, in the background, because no request waits for them."""
        if self._shut:
            for job in self._new_loads + self._new_stores:
                self._finish(job, [])
            self._new_loads, self._new_stores = [], []
            return
        if self._new_lookups:
            self._submit_lookups()
        self._submit_jobs(self._new_loads, load=True)
        self._submit_jobs(self._new_stores, load=False)
        if not self._manifest and self._calls:
            self._manifest_begin()

    def _submit(
        self,
        ended: Callable[[int, list[int]], None],
        submit: Callable[..., int],
        *args: Any,
        **kw: Any,
    ) -> bool:
        """Submit, and note the handler of the completion. False: the queue is full. A refused call ends here, without
        results."""
        try:
            self._calls[submit(*args, **kw)] = ended
        except Busy:
            return False
        except Exception as error:
            self._say_once("submit", "a call could not be made: %s", error)
            ended(getattr(error, "code", 0) or -1, [])
        return True

    def _drain(self) -> None:
        try:
            over = self._client.drain_results()
        except MemoryError:  # the completions remain for the next drain
            return
        except Error as error:  # a child of fork(): it cannot reap
            self._say_once("drain", "all calls are given up: %s", error)
            calls, self._calls = self._calls, {}
            for ended in calls.values():
                ended(error.code, [])
            return
        for call, code, results in over:
            end = self._calls.pop(call, None)
            try:
                if end:
                    end(code, results)
            except Exception:  # do not lose the others of this drain
                self._say_once("fault end", "a completion failed", exc_info=True)

    def drain_jobs(self) -> None:
        """Wait until no job uses the view, then clear the namespace: vLLM calls this only to reset its connector, and leaves to
        each tier whether its values stay. Raises if the namespace cannot be cleared."""
        self._transfers_await()
        if self._shut:
            return
        clear(self._client, self._allow_clear)
        for entry in self._lookups.values():  # also of lookups under way
            entry.found, entry.deadline = False, time.monotonic()

    @_guarded(lambda: None)
    def _transfers_await(self) -> None:
        """It ends, because each call ends by its deadline."""
        self._flush()
        while self._transfers or self._new_loads or self._new_stores:
            self._poll.poll(1000)
            self._drain()
            self._flush()

    def has_pending_work(self) -> bool:
        return bool(self._jobs or self._finished)

    # ---- requests ----

    def on_new_request(self, req_context: Any) -> Any:
        return RequestOffloadingContext()

    @_guarded(lambda: None)
    def on_request_finished(self, req_context: Any) -> None:
        for key in self._request_keys.pop(req_context.req_id, ()):
            entry = self._lookups.get(key)
            if entry is None:
                continue
            entry.requests.discard(req_context.req_id)
            if not entry.requests:
                del self._lookups[key]

    def touch(self, keys: Collection[bytes], req_context: Any) -> None:
        """Do nothing: a load already counts as a use at the server."""

    @_guarded(lambda: None)
    def shutdown(self) -> None:
        if self._shut:
            return
        self._shut = True
        self._client.close()  # ends all calls, and unregisters
        self._drain()
        self._flush()

    # ---- events and metrics ----

    def take_events(self) -> Iterable[Any]:
        """The blocks that this engine has stored, and those that servers have removed, whoever stored them."""
        if self._stored is None or self._removals is None:
            return
        stored, self._stored = self._stored, []
        for keys, removed in ((stored, False), (self._removals.take(), True)):
            if keys:
                yield _event(keys, self.medium, removed, getattr(self, "locality", None))

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        return _metric_definitions()

    def get_stats(self) -> Any:
        return self._stats.take()

    # ---- the manifest ----

    def _manifest_begin(self) -> None:
        """Compare this engine's fields with those of the last engine with this model and `namespace`. Engines that differ
        share nothing: log that once. The manifest lies beside the namespaces that it compares, so a client of its own reads
        and writes it, in a thread, once."""
        ours = json.dumps(
            {**self._fields, "hash_seed": _hash_seed()}, sort_keys=True, default=str
        ).encode()
        self._manifest = threading.Thread(
            target=self._manifest_compare, args=(ours,), name="kvrail-manifest", daemon=True
        )
        self._manifest.start()

    def _manifest_compare(self, ours: bytes) -> None:
        key = "vllm-manifest:" + digest({"model": self._fields["model"]})
        small = {"num_clients": 1, "num_threads": 1, "buffer_bytes": 1 << 20}
        try:
            with Client(**{**self._options, **small}, namespace=self._base) as client:
                try:
                    theirs = client.get(key)
                except NotFound:
                    theirs = b""
                if theirs == ours:
                    return
                if theirs:
                    self._manifest_differs(theirs, ours)
                    client.delete(key)
                client.put(key, ours)
        except Error as error:
            logger.debug("kvrail: other engines' manifest cannot be compared: %s", error)

    def _manifest_differs(self, theirs: bytes, ours: bytes) -> None:
        try:
            old, new = json.loads(theirs), json.loads(ours)
            names = sorted(n for n in {*old, *new} if old.get(n) != new.get(n))
        except Exception:  # any JSON may be stored there: RecursionError, TypeError, ...
            return
        if names == ["hash_seed"]:
            logger.warning(
                "kvrail: the engine that used this cache before began its block hashes from another seed, so nothing of "
                "it will be found: set PYTHONHASHSEED to the same number for all engines that share a cache"
            )
        elif names:
            logger.warning(
                "kvrail: the engine that used this cache before differs in %s, so the two share no blocks",
                "; ".join(
                    f"{n} ({_short(old.get(n))} there, {_short(new.get(n))} here)" for n in names
                ),
            )

    def _new(self, topic: str) -> bool:
        return topic not in self._said and len(self._said) < 64

    def _say_once(self, topic: str, text: str, *args: Any, exc_info: bool = False) -> None:
        if self._new(topic):
            self._said.add(topic)
            logger.warning("kvrail: " + text, *args, exc_info=exc_info)


# ---- differences between versions ----

_RESULT_FIELDS = {field.name for field in dataclasses.fields(_base.JobResult)}


def _job_result(**fields: Any) -> Any:
    """A JobResult of this vLLM: successful_keys came with 0.28 or before, transfer_bytes later."""
    return _base.JobResult(
        **{name: value for name, value in fields.items() if name in _RESULT_FIELDS}
    )


def _get(root: Any, path: str, default: Any = None) -> Any:
    for name in path.split("."):
        root = getattr(root, name, None)
        if root is None:
            return default
    return root


def _namespace_fields(
    spec: Any, row_bytes: int, revision: str | None, weights: str
) -> dict[str, Any]:
    """The fields that must be equal if two engines are to share bytes: arguments of keys.namespace()."""
    config = getattr(spec, "config", None)
    if config is not None and hasattr(config, "parallel"):
        fields = _fields_of_config(config)
    else:
        fields = _fields_of_vllm_config(spec)
    model = _get(spec, "vllm_config.model_config") or _current_model_config()
    if revision is None:
        revision = str(_get(model, "revision") or "")
    return {
        "engine": "vllm",
        "version": 2,
        "row_bytes": row_bytes,
        "revision": revision,
        "weights": weights_of(weights or fields["model"], revision),
        "quantization": str(_get(model, "quantization") or ""),
        **fields,
    }


def _fields_of_config(config: Any) -> dict[str, Any]:
    parallel = config.parallel
    form = "canonical" if getattr(config, "canonical_layout", False) else "direct"
    fields = {
        "model": config.model.name,
        "dtype": str(config.model.dtype),
        "tokens_per_hash": config.cache.tokens_per_hash,
        "blocks_per_chunk": config.cache.blocks_per_chunk,
        "groups": [[g.tokens_per_block, list(g.layer_names)] for g in config.groups],
        "layout": f"{form} {_kv_cache_layout(config)}",
        "replicated": bool(getattr(config, "replicated_layout", False)),
    }
    portable = getattr(parallel, "is_parallelism_agnostic", False) or fields["replicated"]
    for size in ("tp_size", "pp_size", "pcp_size", "dcp_size", "world_size"):
        fields[size] = 1 if portable else getattr(parallel, size, 1)
    fields["tp_rank"] = 0 if portable else getattr(parallel, "rank", 0)
    return fields


def _fields_of_vllm_config(spec: Any) -> dict[str, Any]:
    """For 0.25: its spec contains vLLM's own configuration."""
    config = spec.vllm_config
    parallel = config.parallel_config
    return {
        "model": config.model_config.model,
        "dtype": str(config.cache_config.cache_dtype)
        + "/"
        + str(_get(config, "model_config.dtype")),
        "tokens_per_hash": getattr(spec, "hash_block_size", config.cache_config.block_size),
        "blocks_per_chunk": getattr(spec, "block_size_factor", 1),
        "groups": [
            [group.kv_cache_spec.block_size, list(group.layer_names)]
            for group in spec.kv_cache_config.kv_cache_groups
        ],
        "layout": f"direct {_kv_cache_layout(config.cache_config)}",
        "replicated": False,
        "tp_size": parallel.tensor_parallel_size,
        "pp_size": parallel.pipeline_parallel_size,
        "pcp_size": getattr(parallel, "prefill_context_parallel_size", 1),
        "dcp_size": getattr(parallel, "decode_context_parallel_size", 1),
        "world_size": parallel.world_size,
        "tp_rank": parallel.rank,
    }


def _kv_cache_layout(config: Any) -> str:
    """The order of heads and tokens of a block in the GPU's memory, and so of its bytes here. The attention backend decides
    it. Older versions of vLLM do not give it, but their own variable may."""
    return str(
        getattr(config, "kv_cache_layout", None) or os.environ.get("VLLM_KV_CACHE_LAYOUT", "")
    )


def _current_model_config() -> Any:
    """The model of this thread's configuration of vLLM, or None: newer specs do not contain it."""
    try:
        from vllm.config import get_current_vllm_config_or_none

        return _get(get_current_vllm_config_or_none(), "model_config")
    except Exception:
        return None


def _hash_seed() -> str:
    """The begin of all chains of block hashes; vLLM sets it with its scheduler."""
    try:
        from vllm.v1.core import kv_cache_utils

        return hashlib.sha256(bytes(kv_cache_utils.NONE_HASH)).hexdigest()[:16]
    except Exception:
        return "PYTHONHASHSEED=" + os.environ.get("PYTHONHASHSEED", "")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 48 else text[:45] + "..."
