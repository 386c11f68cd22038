# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: `async with kvrail.aio.Client("host:7411") as client: await client.put(...)`.

The loop watches the queue's descriptor, and one callback takes all completions of a turn. A task that is cancelled cancels
its call, and goes on when that is over: once an await has ended, however it ended, nothing touches its buffers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack, overload

from . import _calls, _native
from ._errors import Busy, Closed, Error, Timeout

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._calls import Key, Meaning, Memory, Options, Submit

T = TypeVar("T")

_DOWN_SECONDS = 0.5  # that an error waits to learn which servers are down


class Client:
    """The calls of kvrail.Client as coroutines. It belongs to the event loop that opened it, and is not thread-safe."""

    def __init__(self, servers: str | Sequence[str], **options: Unpack[Options]) -> None:
        """Opens nothing yet: use `async with`, or `await open()`."""
        self._servers = servers
        self._options = options
        self._native: _native.Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[int, asyncio.Future[list[int]]] = {}
        self._room: deque[asyncio.Future[None]] = deque()  # calls that the queue had no room for

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
        """End all calls (they raise Closed), and close. When it returns, nothing touches callers' memory any more."""
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
            self._admit()
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
            self._settle(self._native)
            self._admit()

    def _settle(self, native: _native.Client) -> None:
        over = native.drain_results()
        if self._loop and self._loop.is_closed():  # nobody can be woken any more
            self._waiting.clear()
            self._room.clear()
        for id, _, results in over:
            future = self._waiting.pop(id, None)
            if future is not None and not future.done():
                future.set_result(results)

    def _admit(self) -> None:
        while self._room:
            future = self._room.popleft()
            if not future.done():
                future.set_result(None)

    def _open_native(self) -> _native.Client:
        if self._native is None:
            raise Closed(
                "the client is not open: use `async with`, or `await client.open()`, and not after close()"
            )
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this client belongs to another event loop")
        return self._native

    async def _call(
        self, meaning: Meaning[T], submit: Submit, keys: Sequence[Key], *args: object
    ) -> T:
        results = await self._results(submit, keys, *args)
        return meaning(keys, results, await self._down(results))

    async def _results(self, submit: Submit, *args: object) -> list[int]:
        while True:
            native = self._open_native()
            try:
                id = submit(native, *args)
                break
            except Busy:
                if not self._waiting:
                    raise
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = future
        cancelled = await _whole(future, lambda: native.cancel(id))
        if cancelled:
            raise cancelled
        return future.result()

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
            return await self._call(_calls.length, submit, [key], [into], timeout, exact)
        if exact:
            raise ValueError("exact is for a GET into memory: a value of any length fits new bytes")
        tries, value = _calls.Tries(size, timeout, self._options.get("timeout")), None
        while value is None:
            value = await self._call(tries.value, submit, [key], [tries.buffer], tries.timeout)
        return value

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

    # ---- many keys ----

    async def get_many(
        self,
        keys: Sequence[Key],
        into: Sequence[Memory],
        *,
        timeout: float | None = None,
        exact: bool = False,
    ) -> list[int | None]:
        """As kvrail.Client.get_many."""
        submit = _native.Client.submit_batch_get
        return await self._call(_calls.lengths, submit, keys, into, timeout, exact)

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
        return await self._call(_calls.stored, submit, keys, data, timeout, ttl, background)

    async def delete_many(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """As kvrail.Client.delete_many."""
        submit = _native.Client.submit_batch_delete
        return await self._call(_calls.deleted, submit, keys, timeout)

    async def exists(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """As kvrail.Client.exists."""
        submit = _native.Client.submit_batch_exists
        return await self._call(_calls.there, submit, keys, timeout)

    async def prefix(self, keys: Sequence[Key], *, timeout: float | None = None) -> int:
        """As kvrail.Client.prefix."""
        return _calls.first_missing(await self.exists(keys, timeout=timeout))

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
        except (Error, asyncio.TimeoutError):  # it was closed meanwhile, or the executor is busy
            return ""

    # ---- the rest ----

    async def register(self, memory: Buffer | tuple[int, int]) -> _native.Region:
        """As kvrail.Client.register; a thread of the loop's executor waits. A task that is cancelled waits, too."""
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


async def _whole(
    future: asyncio.Future[Any], on_cancel: Callable[[], object] | None = None
) -> asyncio.CancelledError | None:
    """Wait for a future to its end, whatever happens to this task. Returns what cancelled the task meanwhile. After the
    first time on_cancel is called."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            if on_cancel and not cancelled:
                try:
                    on_cancel()
                except Busy:  # a loop's queue is full; the call ends by its deadline then
                    pass
            cancelled = error
    return cancelled
