# SPDX-License-Identifier: Apache-2.0
"""The blocking client. Calls of all threads are submitted to one queue; a thread of the client takes completions and wakes
whoever waits. While a call waits, other threads run. A call that is interrupted (Ctrl-C) is cancelled, and returns when
nothing touches its buffers any more."""

from __future__ import annotations

import os
import select
import threading
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar, Unpack, overload

from . import _calls, _native
from ._errors import Busy, Closed, TooBig

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._calls import Key, Meaning, Memory, Options, Submit

T = TypeVar("T")


class _Waiter:
    """A call that is out: whoever waits for it acquires the lock, which the reaper releases."""

    __slots__ = ("lock", "over", "results")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()
        self.results: list[int] = []
        self.over = False


class Reaper:
    """The queue and its thread. It does not know the Client, which can so be collected while the thread runs.

    A call and the thread meet in `met`, by one setdefault of each, which nothing interrupts: there is no lock that a
    finalizer or a signal handler, which may call here at any point, could find taken."""

    def __init__(self, native: _native.Client) -> None:
        self.native = native
        self.lock = threading.Lock()  # thread, bell
        self.met: dict[int, _Waiter | list[int]] = {}  # a call that waits, or results that wait
        self.thread: threading.Thread | None = None
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.pid = os.getpid()

    def call(self, submit: Submit, *args: object) -> list[int]:
        if (
            self.native.closed
        ):  # in a child of fork() some thread of the parent's may hold the lock for ever
            raise Closed("the client is closed, or belongs to the parent of this process")
        id: list[int] = []
        waiter = _Waiter()
        try:
            if not self.thread:
                self._start()
            # An interrupt comes between two steps of Python. Submitting and keeping the id is one step.
            id.extend(map(submit, *((arg,) for arg in args)))
            self._wait(id[0], waiter)
        except BaseException:
            if id:
                self._abandon(id[0], waiter)
            raise
        return waiter.results

    def _start(self) -> None:
        with self.lock:
            if not self.thread and not self.native.closed:
                thread = threading.Thread(
                    target=self._run, args=(self.bell,), name="kvrail", daemon=True
                )
                thread.start()  # it may fail; the next call tries again then
                self.thread = thread

    def _wait(self, id: int, waiter: _Waiter) -> None:
        first = self.met.setdefault(id, waiter)
        if not isinstance(first, _Waiter):
            waiter.results, waiter.over = first, True
        elif threading.current_thread() is self.thread:  # in a finalizer, which runs anywhere
            poll = select.poll()
            poll.register(self.native.event_fd(), select.POLLIN)
            while not waiter.over:
                poll.poll()
                self._wake()
        elif not waiter.over:
            waiter.lock.acquire()
        self.met.pop(id, None)

    def _abandon(self, id: int, waiter: _Waiter) -> None:
        """The call was interrupted: cancel it, and wait until nothing touches its buffers."""
        try:
            self.native.cancel(id)
        except Busy:  # a loop's queue is full; the call ends by its deadline then
            pass
        if not waiter.over:
            self._wait(id, waiter)
        self.met.pop(id, None)

    def _run(self, bell: int) -> None:
        poll = select.poll()
        poll.register(self.native.event_fd(), select.POLLIN)
        poll.register(bell, select.POLLIN)
        pause: int | None = None
        over = False
        while not over:
            rung = poll.poll(pause)
            over = bell in (fd for fd, _ in rung)  # rung when the client is closed, and all is over
            try:
                self._wake()
                pause = None
            except MemoryError:  # the completions are still there: again, and soon
                pause, over = 50, False
        os.close(bell)

    def _wake(self) -> None:
        for id, _, results in self.native.drain_results():
            waiter = self.met.setdefault(id, results)
            if isinstance(waiter, _Waiter):
                waiter.results, waiter.over = results, True
                self.met.pop(id, None)
                waiter.lock.release()

    def close(self) -> None:
        try:
            self.native.close()
        finally:  # it takes a second if a server is silent, and Ctrl-C raises when it is over
            if os.getpid() == self.pid:
                self._end()

    def _end(self) -> None:
        with self.lock:
            thread, self.thread = self.thread, None
            bell, self.bell = self.bell, -1
        if thread:  # which closes its bell once it has heard it: several threads may close at once
            os.eventfd_write(bell, 1)
            if thread is not threading.current_thread():
                thread.join()
        elif bell >= 0:
            os.close(bell)


class Client:
    """A client whose calls block: `Client("host:7411")`, or several servers. For all keywords see _native.Client.

    Every call takes `timeout`, seconds above 0, and ends by then. None: the client's, which by default is 5 s and 1 s more
    for each 100 MB. In both places float("inf") is no deadline.
    Keys are str or bytes of any length. Memory is any C-contiguous buffer, or (address, length[, slice, stride]).
    All methods may be called from any thread.
    """

    def __init__(self, servers: str | Sequence[str], **options: Unpack[Options]) -> None:
        self._native = _native.Client(servers, **options)
        self._timeout = options.get("timeout")
        self._reaper = Reaper(self._native)

    # ---- one key ----

    @overload
    def get(
        self, key: Key, into: None = None, *, size: int = 0, timeout: float | None = None
    ) -> bytes: ...
    @overload
    def get(
        self,
        key: Key,
        into: Memory,
        *,
        size: int = 0,
        timeout: float | None = None,
        exact: bool = False,
    ) -> int: ...
    def get(
        self,
        key: Key,
        into: Memory | None = None,
        *,
        size: int = 0,
        timeout: float | None = None,
        exact: bool = False,
    ) -> bytes | int:
        """The value as bytes, or its length after it was written to `into`. NotFound: a miss. TooBig: `into` is too short.

        size: a guess of the length; without `into` a wrong one costs a second try.
        exact: a value that is shorter or longer than `into` is a miss.
        """
        if into is not None:
            return self._get(_calls.length, [key], [into], timeout, exact)
        if exact:
            raise ValueError("exact is for a GET into memory: a value of any length fits new bytes")
        submit = self._native.submit_batch_get
        tries, value = _calls.Tries(size, timeout, self._timeout), None
        while value is None:
            value = self._call(tries.value, submit, [key], [tries.buffer], tries.timeout)
        return value

    def put(
        self,
        key: Key,
        data: Memory,
        ttl: int = 0,
        *,
        timeout: float | None = None,
        background: bool = False,
    ) -> bool:
        """Store a value; ttl: seconds that it lives. False: other bytes are stored under the key, and stay.

        background: it can wait: other calls of this client go first. Its deadline is that of any call.
        """
        return self.put_many([key], [data], ttl, timeout=timeout, background=background)[0]

    def delete(self, key: Key, *, timeout: float | None = None) -> bool:
        """Delete a value. False: there was none."""
        return self.delete_many([key], timeout=timeout)[0]

    def touch(self, key: Key, ttl: int = 0, *, timeout: float | None = None) -> bool:
        """Let a value live for `ttl` seconds from now; 0: the server's default. It counts as a use. False: there is none.

        This call, ttl(), pin() and unpin() are not interrupted: Ctrl-C raises when they are over, by their timeout.
        """
        return self._one(_calls.touched, self._native.touch, key, timeout, ttl)

    def ttl(self, key: Key, *, timeout: float | None = None) -> float:
        """Seconds that a value still has to live; float("inf"): it does not expire. NotFound: a miss. It is no use."""
        return self._one(_calls.seconds_left, self._native.ttl, key, timeout)

    def pin(self, key: Key, *, timeout: float | None = None) -> bool:
        """Keep a value from eviction, until it is unpinned, deleted or expires, or this client is closed. False: there is
        none. Busy: beyond the server's budget, a quarter of the memory of the key's shard for one client."""
        return self._one(_calls.touched, self._native.pin, key, timeout)

    def unpin(self, key: Key, *, timeout: float | None = None) -> bool:
        """Let a pinned value go. False: there is none."""
        return self._one(_calls.touched, self._native.unpin, key, timeout)

    # ---- many keys ----

    def get_many(
        self,
        keys: Sequence[Key],
        into: Sequence[Memory],
        *,
        timeout: float | None = None,
        exact: bool = False,
    ) -> list[int | None]:
        """Read values into memory, one for each key. The lengths; None: a miss. Any other failure raises, with the
        results of all keys in the error's `.results`. exact: as for get()."""
        return self._get(_calls.lengths, keys, into, timeout, exact)

    def put_many(
        self,
        keys: Sequence[Key],
        data: Sequence[Memory],
        ttl: int = 0,
        *,
        timeout: float | None = None,
        background: bool = False,
    ) -> list[bool]:
        """Store values. False: other bytes are stored under that key, and stay. background: as for put()."""
        submit = self._native.submit_batch_set
        return self._call(_calls.stored, submit, keys, data, timeout, ttl, background)

    def delete_many(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """Delete values. False: there was none."""
        return self._call(_calls.deleted, self._native.submit_batch_delete, keys, timeout)

    def exists(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """Which keys are there."""
        return self._call(_calls.there, self._native.submit_batch_exists, keys, timeout)

    def prefix(self, keys: Sequence[Key], *, timeout: float | None = None) -> int:
        """How many keys are there before the first that is not."""
        return _calls.first_missing(self.exists(keys, timeout=timeout))

    def _call(self, meaning: Meaning[T], submit: Submit, keys: Sequence[Key], *args: object) -> T:
        results = self._reaper.call(submit, keys, *args)
        return meaning(keys, results, _calls.who_is_down(self._native, results))

    def _get(
        self,
        meaning: Meaning[T],
        keys: Sequence[Key],
        into: Sequence[Memory],
        timeout: float | None,
        exact: bool,
    ) -> T:
        try:
            return self._call(meaning, self._native.submit_batch_get, keys, into, timeout, exact)
        except TooBig as error:
            i = _calls.first_too_big(error.results)
            if i >= 0:
                value = self._native.value_length(keys[i], _calls.LENGTH_SECONDS)
                error.args = (_calls.too_big(keys[i], _calls.nbytes_of(into[i]), value),)
            raise

    def _one(self, meaning: Meaning[T], call: Callable[..., int], key: Key, *args: object) -> T:
        results = [call(key, *args)]
        return meaning([key], results, _calls.who_is_down(self._native, results))

    # ---- the rest ----

    def register(self, memory: Buffer | tuple[int, int]) -> _native.Region:
        """Register writable memory: GETs into it and PUTs from it need no copy. Do it once, at the start. The same memory
        again is one registration, which ends with the last unregister()."""
        return self._native.register(memory)

    def call_bound(self, timeout: float | None = None, nbytes: int = 0) -> float:
        """Seconds within which a call that moves nbytes has its result, whatever happens: for a watch over calls."""
        return self._native.call_bound(timeout, nbytes)

    def counters(self) -> dict[str, int]:
        """Counters since the client was opened (docs/reference/counters.md)."""
        return self._native.counters()

    def info(self) -> dict[str, object]:
        """What the client runs on."""
        return self._native.info()

    def servers(self) -> list[dict[str, str | int]]:
        """How each server stands, and why: name, state ("up", "connecting", "down"), why, clients_up, and more."""
        return self._native.servers()

    @property
    def closed(self) -> bool:
        return self._native.closed

    def close(self) -> None:
        """End all calls (they raise Closed), and close. When it returns, nothing touches callers' memory any more."""
        self._reaper.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:  # a copy that goes away would close the connections of both
        raise TypeError(_calls.COPIED)

    def __del__(self) -> None:
        reaper = getattr(self, "_reaper", None)
        if reaper is not None and not reaper.native.closed:
            warnings.warn(
                f"{type(self).__name__} was not closed", ResourceWarning, source=self, stacklevel=2
            )
            reaper.close()
