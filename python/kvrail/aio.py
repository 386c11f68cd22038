# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: `async with kvrail.aio.Client("host:7411") as client: await client.put(...)`.

The loop watches the queue's descriptor, and one callback takes all completions of a turn. Cancelling a task cancels its call,
and the task continues when the call has ended: after an await nothing uses its buffers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack, overload

from . import _calls, _events, _native, _parts
from ._errors import Busy, Closed, Error, NotSupported, Timeout, TooBig

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._calls import Key, Meaning, Memory, Options, Submit

T = TypeVar("T")

_DOWN_SECONDS = 0.5  # how long an error waits for the states of servers
_WAIT_SECONDS = 0.2  # of one call for events: a cancelled task waits for its end


class Loading:
    """A GET of several keys in parts, from Client.load(). Await it for the lengths, as those of get_many(). With `async with`
    it ends with the block: a load that is still under way is then cancelled."""

    def __init__(self, keys: Sequence[Key], ends: tuple[int, ...]) -> None:
        self.id = 0  # until it is submitted
        self.task: asyncio.Task[list[int | None]] | None = None
        self._keys = len(keys)
        self._progress = _parts.Progress(len(keys), ends)
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._over = False

    def look(self, native: _native.Client) -> None:
        if self.id and self._progress.look(native, self.id):
            self._tell()

    def end(self, results: list[int]) -> None:
        self._over = True
        self._progress.over(results)
        self._tell()

    def _tell(self) -> None:
        still = []
        for part, future in self._waiting:
            if not (self._over or self._progress.whole(part)):
                still.append((part, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    async def part(self, part: int) -> int:
        """As kvrail.client.Loading.part."""
        self._progress.check(part)
        if not (self._over or self._progress.whole(part)):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((part, future))
            await future
        return self._progress.leading(part)

    def cancel(self) -> None:
        """Give the load up; await it, to know when nothing uses its memory."""
        if self.task:
            self.task.cancel()

    def __await__(self) -> Generator[Any, None, list[int | None]]:
        assert self.task
        return self.task.__await__()

    async def __aenter__(self) -> Loading:
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.task
        self.cancel()
        cancelled = await _whole(self.task)
        if not self.task.cancelled():
            self.task.exception()  # for those who await it, which nobody does any more
        if cancelled:
            raise cancelled


class Events:
    """A follower, from Client.events(). `async for`, or await next(). One task at a time."""

    def __init__(
        self, client: Client, since: Mapping[str, tuple[int, int]] | None, new: bool
    ) -> None:
        self._client = client
        self._new = new
        self._following = _events.Following(since)

    @property
    def positions(self) -> dict[str, tuple[int, int]]:
        """As kvrail.client.Events.positions."""
        return dict(self._following.positions)

    async def next(self, timeout: float = 0.0) -> list[_events.Event]:
        """The next events; an empty list if none came within `timeout` seconds."""
        following, blocking = self._following, self._client._blocking
        if following.number < 0:
            since = following.since()
            following.number = await blocking(_native.Client.events_open, self._new, since)
        return following.take(await blocking(_native.Client.events_next, following.number, timeout))

    async def __aiter__(self) -> AsyncIterator[_events.Event]:
        while True:
            for event in await self.next(_WAIT_SECONDS):
                yield event

    async def close(self) -> None:
        number, self._following.number = self._following.number, -1
        if number >= 0 and not self._client.closed:
            await self._client._blocking(_native.Client.events_close, number)

    async def __aenter__(self) -> Events:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class Client:
    """The calls of kvrail.Client as coroutines. It belongs to the event loop that opened it, and is not thread-safe."""

    def __init__(self, servers: str | Sequence[str], **options: Unpack[Options]) -> None:
        """Opens nothing yet: use `async with`, or `await open()`."""
        self._servers = servers
        self._options = options
        self._native: _native.Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[int, tuple[asyncio.Future[list[int]], bool]] = {}  # the bool: in the background
        self._loads: set[Loading] = set()  # in parts, under way
        # Calls without room in the queue, in order; background calls, which may use half of it, in a deque of their own.
        self._room: deque[asyncio.Future[None]] = deque()
        self._room_behind: deque[asyncio.Future[None]] = deque()

    # ---- open, close ----

    async def open(self) -> Client:
        if self._loop:
            raise RuntimeError("this client was opened before: make another one")
        self._loop = asyncio.get_running_loop()
        opening = self._loop.run_in_executor(
            None, lambda: _native.Client(self._servers, **self._options)
        )
        cancelled = await _whole(opening)
        native = opening.result()
        if cancelled:
            await _whole(self._loop.run_in_executor(None, native.close))
            raise cancelled
        self._native = native
        self._loop.add_reader(self._native.event_fd(), self._drain)
        return self

    async def close(self) -> None:
        """End all calls (they raise Closed), and close. When it returns, nothing uses callers' memory."""
        native = self._native
        if native is None:
            return
        closing = asyncio.get_running_loop().run_in_executor(None, native.close)
        cancelled = await _whole(closing)
        if self._native:
            self._native = None
            if self._loop:
                self._loop.remove_reader(native.event_fd())
            self._settle(native)
            self._admit(len(self._room) + len(self._room_behind), 0)
        if cancelled:
            raise cancelled

    async def __aenter__(self) -> Client:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        return self._native is None or self._native.closed

    def __reduce__(self) -> NoReturn:
        raise TypeError(_calls.COPIED)

    # ---- calls ----

    def _drain(self) -> None:
        if self._native:
            self._admit(*self._settle(self._native))

    def _settle(self, native: _native.Client) -> tuple[int, int]:
        """Complete the finished calls. Returns their number, and the number of background calls among them."""
        for load in tuple(self._loads):  # before their ids are drained
            load.look(native)
        over = native.drain_results()
        if self._loop and self._loop.is_closed():  # no task can be woken
            self._waiting.clear()
            self._room.clear()
            self._room_behind.clear()
        behind = 0
        for id, _, results in over:
            future, background = self._waiting.pop(id, (None, False))
            behind += background
            if future is not None and not future.done():
                future.set_result(results)
        return len(over), behind

    def _admit(self, count: int, behind: int) -> None:
        """Wake as many waiting calls as there is room for, `count`: background calls last, but at least `behind` of them, so
        that they do not starve. The queue would refuse more."""
        woken = _wake(self._room, count)
        _wake(self._room_behind, max(count - woken, behind))

    def _open_native(self) -> _native.Client:
        if self._native is None:
            raise Closed(
                "the client is not open: use `async with`, or `await client.open()`, and not after close()"
            )
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this client belongs to another event loop")
        return self._native

    async def _call(
        self,
        meaning: Meaning[T],
        submit: Submit,
        keys: Sequence[Key],
        *args: object,
        background: bool = False,
    ) -> T:
        results = await self._results(submit, keys, *args, background=background)
        return meaning(keys, results, await self._down(results))

    async def _results(
        self, submit: Submit, *args: object, background: bool = False, load: Loading | None = None
    ) -> list[int]:
        native, id = await self._submit(submit, args, background)
        if load:
            load.id = id
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = (future, background)
        cancelled = await _whole(future, lambda: native.cancel(id))
        if cancelled:
            raise cancelled
        return future.result()

    async def _submit(
        self, submit: Submit, args: tuple[object, ...], background: bool
    ) -> tuple[_native.Client, int]:
        """Submit; if the queue has no room, wait behind the calls that already wait."""
        room = self._room_behind if background else self._room
        first = True  # False: it was woken, and returns to the head of the line
        while True:
            native = self._open_native()
            if not (first and room and self._waiting):
                try:
                    return native, submit(native, *args)
                except Busy:
                    if not self._waiting:
                        raise
                except BaseException:
                    if not first:
                        self._admit(1, background)  # leave the room to another call
                    raise
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (room.append if first else room.appendleft)(turn)
            first = False
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._admit(1, background)
                raise

    # ---- one key ----

    @overload
    async def get(
        self, key: Key, into: None = None, *, size: int = 0, timeout: float | None = None
    ) -> bytes: ...
    @overload
    async def get(
        self,
        key: Key,
        into: Memory,
        *,
        size: int = 0,
        timeout: float | None = None,
        exact: bool = False,
    ) -> int: ...
    async def get(
        self,
        key: Key,
        into: Memory | None = None,
        *,
        size: int = 0,
        timeout: float | None = None,
        exact: bool = False,
    ) -> bytes | int:
        """As kvrail.Client.get."""
        submit = _native.Client.submit_batch_get
        if into is not None:
            return await self._get(_calls.length, [key], [into], timeout, exact)
        if exact:
            raise ValueError("exact is for a GET into memory: a value of any length fits new bytes")
        fetch, value = _calls.UnknownLength(size, timeout, self._options.get("timeout")), None
        while value is None:
            value = await self._call(fetch.value, submit, [key], [fetch.buffer], fetch.timeout)
        return value

    async def view(self, key: Key, *, timeout: float | None = None) -> _native.View:
        """As kvrail.Client.view."""
        whole = _calls.Remaining(timeout, self._options.get("timeout"))
        try:
            return await self._call(_calls.lent, _native.Client.submit_batch_view, [key], timeout)
        except NotSupported:
            raise NotSupported(_calls.SEALED) from None
        except TooBig:
            size = await self._blocking(_native.Client.value_length, key, whole.timeout())
            return _native.View(await self.get(key, size=max(size, 0), timeout=whole.timeout()))

    async def put(
        self,
        key: Key,
        data: Memory,
        ttl: int = 0,
        *,
        timeout: float | None = None,
        background: bool = False,
    ) -> bool:
        """As kvrail.Client.put."""
        return (await self.put_many([key], [data], ttl, timeout=timeout, background=background))[0]

    async def delete(self, key: Key, *, timeout: float | None = None) -> bool:
        """As kvrail.Client.delete."""
        return (await self.delete_many([key], timeout=timeout))[0]

    async def touch(self, key: Key, ttl: int = 0, *, timeout: float | None = None) -> bool:
        """As kvrail.Client.touch. A thread of the loop's executor waits, as for ttl(), pin() and unpin()."""
        return await self._one(_calls.touched, _native.Client.touch, key, timeout, ttl)

    async def ttl(self, key: Key, *, timeout: float | None = None) -> float:
        """As kvrail.Client.ttl."""
        return await self._one(_calls.seconds_left, _native.Client.ttl, key, timeout)

    async def pin(self, key: Key, *, timeout: float | None = None) -> bool:
        """As kvrail.Client.pin."""
        return await self._one(_calls.touched, _native.Client.pin, key, timeout)

    async def unpin(self, key: Key, *, timeout: float | None = None) -> bool:
        """As kvrail.Client.unpin."""
        return await self._one(_calls.touched, _native.Client.unpin, key, timeout)

    def events(
        self, since: Mapping[str, tuple[int, int]] | None = None, *, new: bool = False
    ) -> Events:
        """As kvrail.Client.events: `async for event in client.events()`. A thread of the loop's executor waits."""
        return Events(self, since, new)

    # ---- many keys ----

    async def get_many(
        self,
        keys: Sequence[Key],
        into: Sequence[Memory],
        *,
        timeout: float | None = None,
        exact: bool = False,
        memory_only: bool = False,
    ) -> list[int | None]:
        """As kvrail.Client.get_many."""
        meaning = _calls.lengths_in_memory if memory_only else _calls.lengths
        return await self._get(meaning, keys, into, timeout, exact, memory_only)

    def load(
        self,
        keys: Sequence[Key],
        into: Sequence[Memory],
        parts: int | Sequence[int],
        *,
        timeout: float | None = None,
        exact: bool = True,
    ) -> Loading:
        """As kvrail.Client.load: `await load.part(i)`, then `await load`."""
        self._open_native()
        ends = _parts.ends_of(parts, into)
        load = Loading(keys, ends)
        load.task = asyncio.get_running_loop().create_task(
            self._load(load, keys, into, timeout, exact, ends if into else None)
        )
        return load

    async def _load(self, load: Loading, keys: Sequence[Key], *args: object) -> list[int | None]:
        results: list[int] = []
        self._loads.add(load)
        try:
            submit = _native.Client.submit_batch_get
            results = await self._results(submit, keys, *args, load=load)
        finally:
            self._loads.discard(load)
            load.end(results)
        return _calls.lengths(keys, results, await self._down(results))

    async def load_prefix(
        self, keys: Sequence[Key], into: Sequence[Memory], *, timeout: float | None = None
    ) -> int:
        """As kvrail.Client.load_prefix."""
        load = _calls.PrefixLoad(keys, into, timeout, self._options.get("timeout"))
        exists, get = _native.Client.submit_batch_exists, _native.Client.submit_batch_get
        try:
            results = await self._results(exists, load.keys, load.whole)
            if load.found(results) == 0 or not (left := load.left()):
                return 0
            return load.loaded(await self._results(get, load.keys, load.into, left, True))
        except Busy:  # a loop's queue is full
            return 0

    async def put_many(
        self,
        keys: Sequence[Key],
        data: Sequence[Memory],
        ttl: int = 0,
        *,
        timeout: float | None = None,
        background: bool = False,
    ) -> list[bool]:
        """As kvrail.Client.put_many."""
        submit = _native.Client.submit_batch_set
        return await self._call(
            _calls.stored, submit, keys, data, timeout, ttl, background, background=bool(background)
        )

    async def delete_many(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """As kvrail.Client.delete_many."""
        submit = _native.Client.submit_batch_delete
        return await self._call(_calls.deleted, submit, keys, timeout)

    async def exists(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """As kvrail.Client.exists."""
        submit = _native.Client.submit_batch_exists
        return await self._call(_calls.there, submit, keys, timeout)

    async def where(
        self, keys: Sequence[Key], *, timeout: float | None = None
    ) -> list[_calls.Where | None]:
        """As kvrail.Client.where."""
        submit = _native.Client.submit_batch_exists
        return await self._call(_calls.where, submit, keys, timeout)

    async def prefix(self, keys: Sequence[Key], *, timeout: float | None = None) -> int:
        """As kvrail.Client.prefix."""
        return _calls.first_missing(await self.exists(keys, timeout=timeout))

    async def prefix_many(
        self, rows: Sequence[Sequence[Key]], *, timeout: float | None = None
    ) -> list[int]:
        """As kvrail.Client.prefix_many."""
        keys = [key for row in rows for key in row]
        return _calls.firsts_missing(rows, await self.exists(keys, timeout=timeout))

    async def _get(
        self,
        meaning: Meaning[T],
        keys: Sequence[Key],
        into: Sequence[Memory],
        timeout: float | None,
        exact: bool,
        memory_only: bool = False,
    ) -> T:
        submit = _native.Client.submit_batch_get
        try:
            return await self._call(
                meaning, submit, keys, into, timeout, exact, None, memory_only
            )
        except TooBig as error:
            i = _calls.first_too_big(error.results)
            if i >= 0:
                call, key = _native.Client.value_length, keys[i]
                value = await self._blocking(call, key, _calls.LENGTH_SECONDS)
                error.args = (_calls.too_big(key, _calls.nbytes_of(into[i]), value),)
            raise

    async def _one(
        self, meaning: Meaning[T], call: Callable[..., int], key: Key, *args: object
    ) -> T:
        results = [await self._blocking(call, key, *args)]
        return meaning([key], results, await self._down(results))

    async def _blocking(self, call: Callable[..., T], *args: object) -> T:
        """In a thread of the executor. A cancelled task also waits for it."""
        native = self._open_native()
        future = asyncio.get_running_loop().run_in_executor(None, call, native, *args)
        cancelled = await _whole(future)
        if cancelled:
            raise cancelled
        return future.result()

    async def _down(self, results: list[int]) -> str:
        if not _calls.about_servers(results):
            return ""
        try:
            return _calls.down(
                await asyncio.wait_for(
                    asyncio.to_thread(self._open_native().servers, _calls.ASK_SECONDS),
                    _DOWN_SECONDS,
                )
            )
        except Timeout:
            return _calls.stuck()
        except (Error, asyncio.TimeoutError):  # the client was closed, or the executor is busy
            return ""

    # ---- the namespace ----

    async def clear(self, *, timeout: float | None = None) -> int:
        """As kvrail.Client.clear. A thread of the loop's executor waits, as for namespaces()."""
        result = await self._blocking(_native.Client.clear, timeout)
        return _calls.of_servers(result, await self._down([result]))

    async def namespaces(
        self, server: int = 0, *, timeout: float | None = None
    ) -> list[dict[str, str | int]]:
        """As kvrail.Client.namespaces."""
        result = await self._blocking(_native.Client.namespaces, server, timeout)
        codes = [result] if isinstance(result, int) else []
        return _calls.of_servers(result, await self._down(codes))

    async def leases(
        self, server: int = 0, *, timeout: float | None = None
    ) -> list[dict[str, str | int | float]]:
        """As kvrail.Client.leases."""
        result = await self._blocking(_native.Client.leases, server, timeout)
        codes = [result] if isinstance(result, int) else []
        return _calls.of_servers(result, await self._down(codes))

    # ---- the rest ----

    async def register(self, memory: Buffer | tuple[int, int]) -> _native.Region:
        """As kvrail.Client.register. A thread of the loop's executor waits; a cancelled task also waits for it."""
        native = self._open_native()
        future = asyncio.get_running_loop().run_in_executor(None, native.register, memory)
        cancelled = await _whole(future)
        if cancelled:
            raise cancelled
        return future.result()

    def call_bound(self, timeout: float | None = None, nbytes: int = 0) -> float:
        """As kvrail.Client.call_bound; it does not wait."""
        return self._open_native().call_bound(timeout, nbytes)

    def counters(self) -> dict[str, int]:
        """As kvrail.Client.counters; it does not wait."""
        return self._open_native().counters()

    def info(self) -> dict[str, object]:
        """As kvrail.Client.info; it does not wait."""
        return self._open_native().info()

    async def servers(self) -> list[dict[str, str | int]]:
        """As kvrail.Client.servers."""
        return await asyncio.to_thread(self._open_native().servers)


def _wake(room: deque[asyncio.Future[None]], count: int) -> int:
    """Wake the first `count` waiting calls. Returns the number of woken ones."""
    woken = 0
    while room and woken < count:
        turn = room.popleft()
        if not turn.done():
            turn.set_result(None)
            woken += 1
    return woken


async def _whole(
    future: asyncio.Future[Any], on_cancel: Callable[[], object] | None = None
) -> asyncio.CancelledError | None:
    """Wait until a future is done, even if this task is cancelled: then call on_cancel, once. Returns the cancellation, or
    None."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            if on_cancel and not cancelled:
                try:
                    on_cancel()
                except Busy:  # a loop's queue is full: the call ends by its deadline
                    pass
            cancelled = error
    return cancelled
