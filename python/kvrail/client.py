# SPDX-License-Identifier: Apache-2.0
"""The blocking client. All threads submit their calls to one queue; a thread of the client takes the completions and wakes
the callers. Other threads run while a call waits. Ctrl-C cancels a call, which returns when nothing uses its buffers."""

from __future__ import annotations

import os
import select
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar, Unpack, overload

from . import _calls, _events, _native, _parts
from ._closing import Closing
from ._errors import Busy, Closed, NotSupported, TooBig

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._calls import Key, Meaning, Memory, Options, Submit

T = TypeVar("T")

_WAIT_SECONDS = 0.5  # of one call for events


class _Waiter:
    """A call under way: its caller waits for the lock, which the reaper releases."""

    __slots__ = ("lock", "over", "results")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()
        self.results: list[int] = []
        self.over = False


class Reaper:
    """The queue and its thread. It has no reference to the Client, so Python can collect that while the thread runs.

    A call and the thread meet in `met`, by one setdefault of each, which nothing interrupts. A lock would not do: a
    finalizer or a signal handler may call at any point, and could find the lock taken."""

    def __init__(self, native: _native.Client) -> None:
        self.native = native
        self.lock = threading.Lock()  # thread, bell
        self.met: dict[int, _Waiter | list[int]] = {}  # waiting calls, or results without a call yet
        self.loads: dict[int, Loading] = {}  # in parts, under way
        self.thread: threading.Thread | None = None
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.pid = os.getpid()

    def call(self, submit: Submit, *args: object) -> list[int]:
        if (
            self.native.closed
        ):  # in a child of fork() a thread of the parent may hold the lock for ever
            raise Closed("the client is closed, or belongs to the parent of this process")
        id: list[int] = []
        waiter = _Waiter()
        try:
            if not self.thread:
                self._start()
            # An interrupt comes between two steps of Python. To submit and to keep the id is one step.
            id.extend(map(submit, *((arg,) for arg in args)))
            self._wait(id[0], waiter)
        except BaseException:
            if id:
                self._abandon(id[0], waiter)
            raise
        return waiter.results

    def begin(self, load: Loading, submit: Submit, *args: object) -> None:
        """As call, without waiting: the load gets its id, and hears of its parts."""
        if self.native.closed:
            raise Closed("the client is closed, or belongs to the parent of this process")
        id: list[int] = []
        try:
            if not self.thread:
                self._start()
            id.extend(map(submit, *((arg,) for arg in args)))
            load.id = id[0]
            self.loads[load.id] = load
            first = self.met.setdefault(load.id, load.waiter)
            if not isinstance(first, _Waiter):
                load.waiter.results, load.waiter.over = first, True
                self.met.pop(load.id, None)
                load.look()
        except BaseException:
            if id:
                self._abandon(id[0], load.waiter)
                self.loads.pop(id[0], None)
            raise

    def end(self, load: Loading) -> list[int]:
        """Wait for the end of a load."""
        try:
            if threading.current_thread() is self.thread and not load.waiter.over:
                self._wait(load.id, load.waiter)
            load.wait()
        except BaseException:
            self._abandon(load.id, load.waiter)
            raise
        return load.waiter.results

    def _start(self) -> None:
        with self.lock:
            if not self.thread and not self.native.closed:
                thread = threading.Thread(
                    target=self._run, args=(self.bell,), name="kvrail", daemon=True
                )
                thread.start()  # if it fails, the next call tries again
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
        """After an interrupt: cancel the call, and wait until nothing uses its buffers."""
        try:
            self.native.cancel(id)
        except Busy:  # a loop's queue is full: the call ends by its deadline
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
            over = bell in (fd for fd, _ in rung)  # rings when the client is closed and all calls have ended
            try:
                self._wake()
                pause = None
            except MemoryError:  # the completions are still there: try again soon
                pause, over = 50, False
        os.close(bell)

    def _wake(self) -> None:
        for load in tuple(self.loads.values()):  # before their ids are drained
            load.look()
        for id, _, results in self.native.drain_results():
            waiter = self.met.setdefault(id, results)
            if isinstance(waiter, _Waiter):
                waiter.results, waiter.over = results, True
                self.met.pop(id, None)
                waiter.lock.release()
        for load in tuple(self.loads.values()):  # one may have begun in between
            if load.waiter.over:
                load.look()

    def close(self) -> None:
        try:
            self.native.close()
        finally:  # if a server is silent this takes a second; Ctrl-C raises afterwards
            if os.getpid() == self.pid:
                self._end()

    def _end(self) -> None:
        with self.lock:
            thread, self.thread = self.thread, None
            bell, self.bell = self.bell, -1
        if thread:  # it closes the bell itself, because several threads may call close() at once
            os.eventfd_write(bell, 1)
            if thread is not threading.current_thread():
                thread.join()
        elif bell >= 0:
            os.close(bell)


class Loading:
    """A GET of several keys in parts, from Client.load(). Any thread may wait for it. As a context manager it ends with the
    block: a load that is still under way is then cancelled."""

    def __init__(self, reaper: Reaper, keys: Sequence[Key], ends: tuple[int, ...]) -> None:
        self.id = 0
        self.waiter = _Waiter()
        self._reaper = reaper
        self._keys = list(keys)
        self._progress = _parts.Progress(len(self._keys), ends)
        self._changed = threading.Condition()  # reentrant: a signal handler may wait, too

    def look(self) -> None:
        """More parts may be there, or the load may have ended. The reaper calls it."""
        with self._changed:
            more = self._progress.look(self._reaper.native, self.id)
            if self.waiter.over:
                self._progress.over(self.waiter.results)
                self._reaper.loads.pop(self.id, None)
            if more or self.waiter.over:
                self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            while not self.waiter.over:
                self._changed.wait()

    def part(self, part: int) -> int:
        """Wait until part `part` of every value is at its place and verified, or the load has ended. Returns how many keys
        from the first on have it: their bytes up to its end may be used now, and are not written again."""
        self._progress.check(part)
        with self._changed:
            while not (self._progress.whole(part) or self.waiter.over):
                self._changed.wait()
            return self._progress.leading(part)

    def result(self) -> list[int | None]:
        """Wait until the load has ended: lengths, as get_many()."""
        results = self._reaper.end(self)
        return _calls.lengths(self._keys, results, _calls.who_is_down(self._reaper.native, results))

    def cancel(self) -> None:
        """Give the load up. It ends soon, with Canceled unless it was done; result() waits for that."""
        try:
            if not self.waiter.over:
                self._reaper.native.cancel(self.id)
        except Busy:  # it ends by its deadline
            pass

    def __enter__(self) -> Loading:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()
        self._reaper.end(self)


class Events(Closing):
    """A follower, from Client.events(). Iterate over it, or call next(). One thread at a time."""

    def __init__(
        self,
        native: _native.Client,
        since: Mapping[str, tuple[int, int]] | None,
        new: bool,
    ) -> None:
        self._native = native
        self._following = _events.Following(since)
        self._following.number = native.events_open(new, self._following.since())

    @property
    def positions(self) -> dict[str, tuple[int, int]]:
        """How far each server was followed: node -> (epoch, sequence), for `since` of another follower."""
        return dict(self._following.positions)

    def next(self, timeout: float = 0.0) -> list[_events.Event]:
        """The next events; an empty list if none came within `timeout` seconds."""
        return self._following.take(self._native.events_next(self._following.number, timeout))

    def __iter__(self) -> Iterator[_events.Event]:
        while True:
            yield from self.next(_WAIT_SECONDS)

    def close(self) -> None:
        number, self._following.number = self._following.number, -1
        if number >= 0:
            self._native.events_close(number)


class Client(Closing):
    """A client whose calls block: `Client("host:7411")`, or several servers. _native.Client describes all keywords.

    Every call takes `timeout`, seconds above 0, and ends by then. None means the client's timeout, by default 5 s and 1 s
    more for each 100 MB. float("inf") means no deadline.
    Keys are str or bytes of any length. Memory is a buffer, also one with strides (numpy), a torch tensor on the CPU,
    (address, length[, slice, stride]), or a list of these, which the value fills in this order.
    Any thread may call any method.
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
        """Return the value as bytes, or write it to `into` and return its length. NotFound: a miss. TooBig: `into` is short.

        Copies: without `into` two, from the client's buffer to a bytearray of `size` bytes and from that to bytes. With
        `into` one; none for values above 16 KiB if `into` lies in memory of register().
        size: a guess of the length, 0: 64 KiB; without `into` a longer value costs another try.
        exact: a value of another length than `into` is a miss.
        """
        if into is not None:
            return self._get(_calls.length, [key], [into], timeout, exact)
        if exact:
            raise ValueError("exact is for a GET into memory: a value of any length fits new bytes")
        submit = self._native.submit_batch_get
        fetch, value = _calls.UnknownLength(size, timeout, self._timeout), None
        while value is None:
            value = self._call(fetch.value, submit, [key], [fetch.buffer], fetch.timeout)
        return value

    def view(self, key: Key, *, timeout: float | None = None) -> _native.View:
        """Return a value as a read-only buffer, for memoryview, numpy.frombuffer or torch.frombuffer. NotFound: a miss.

        If the server is on this host and lends the value, the buffer is its memory (`.in_place`): nothing is copied, and
        the bytes stay as they are until the view and all its buffers are gone, even if the key is deleted, the client
        closed, or the server dead. Else the view has a copy. Release views soon: `with`, or release().
        """
        whole = _calls.Remaining(timeout, self._timeout)
        try:
            return self._call(_calls.lent, self._native.submit_batch_view, [key], timeout)
        except NotSupported:
            raise NotSupported(_calls.SEALED) from None
        except TooBig:  # for the client's buffer
            size = self._native.value_length(key, whole.timeout())
            return _native.View(self.get(key, size=max(size, 0), timeout=whole.timeout()))

    def put(
        self,
        key: Key,
        data: Memory,
        ttl: int = 0,
        *,
        timeout: float | None = None,
        background: bool = False,
    ) -> bool:
        """Store a value; ttl: seconds until it expires. False: other bytes are stored under the key, and stay.

        background: other calls of this client overtake it. Its deadline is that of any call.
        """
        return self.put_many([key], [data], ttl, timeout=timeout, background=background)[0]

    def delete(self, key: Key, *, timeout: float | None = None) -> bool:
        """Delete a value. False: there was no such value."""
        return self.delete_many([key], timeout=timeout)[0]

    def touch(self, key: Key, ttl: int = 0, *, timeout: float | None = None) -> bool:
        """Set the time to live to `ttl` seconds from now; 0: the server's default. Counts as a use. False: no such value.

        Ctrl-C does not interrupt touch(), ttl(), pin() and unpin(): it raises when they end, by their timeout.
        """
        return self._one(_calls.touched, self._native.touch, key, timeout, ttl)

    def ttl(self, key: Key, *, timeout: float | None = None) -> float:
        """Seconds until a value expires; float("inf"): never. NotFound: a miss. Does not count as a use."""
        return self._one(_calls.seconds_left, self._native.ttl, key, timeout)

    def pin(self, key: Key, *, timeout: float | None = None) -> bool:
        """Protect a value from eviction until it is unpinned, deleted or expires, or this client is closed. False: no such
        value. Busy: more than the server's budget, for one client a quarter of the memory of the key's shard."""
        return self._one(_calls.touched, self._native.pin, key, timeout)

    def unpin(self, key: Key, *, timeout: float | None = None) -> bool:
        """Remove the pin of a value. False: no such value."""
        return self._one(_calls.touched, self._native.unpin, key, timeout)

    # ---- many keys ----

    def get_many(
        self,
        keys: Sequence[Key],
        into: Sequence[Memory],
        *,
        timeout: float | None = None,
        exact: bool = False,
        memory_only: bool = False,
    ) -> list[int | None]:
        """Read values into memory, one per key, and return their lengths; None: a miss. Any other failure raises, with all
        results in the error's `.results`. exact and copies: as for get() with `into`. memory_only: a value that is on its
        server's NVMe tier alone is not read, and counts as a miss."""
        meaning = _calls.lengths_in_memory if memory_only else _calls.lengths
        return self._get(meaning, keys, into, timeout, exact, memory_only)

    def load(
        self,
        keys: Sequence[Key],
        into: Sequence[Memory],
        parts: int | Sequence[int],
        *,
        timeout: float | None = None,
        exact: bool = True,
    ) -> Loading:
        """Begin to read values in parts, such as the layers of blocks, and return at once: part 0 of all keys comes first.
        All values have the same parts: so many equal ones, or those that end at these bytes. Read values that exist
        (prefix()): a missing one has no parts, so waiting for a part ends with the load."""
        ends = _parts.ends_of(parts, into)
        load = Loading(self._reaper, keys, ends)
        submit = self._native.submit_batch_get
        self._reaper.begin(load, submit, keys, into, timeout, exact, ends if into else None)
        return load

    def load_prefix(
        self, keys: Sequence[Key], into: Sequence[Memory], *, timeout: float | None = None
    ) -> int:
        """Look up how many values exist from the first key on, and read these: both by one deadline. Returns how many were
        read as a whole, each of exactly the length of its destination, before the first that was not. Never raises because
        of servers: what they do not deliver in time is not there. Destinations behind the returned number are undefined."""
        load = _calls.PrefixLoad(keys, into, timeout, self._timeout)
        try:
            results = self._reaper.call(self._native.submit_batch_exists, load.keys, load.whole)
            if load.found(results) == 0 or not (left := load.left()):
                return 0
            submit = self._native.submit_batch_get
            return load.loaded(self._reaper.call(submit, load.keys, load.into, left, True))
        except Busy:  # the queue is full of other calls
            return 0

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
        """Delete values. False: there was no such value."""
        return self._call(_calls.deleted, self._native.submit_batch_delete, keys, timeout)

    def exists(self, keys: Sequence[Key], *, timeout: float | None = None) -> list[bool]:
        """For each key, whether it exists."""
        return self._call(_calls.there, self._native.submit_batch_exists, keys, timeout)

    def where(
        self, keys: Sequence[Key], *, timeout: float | None = None
    ) -> list[_calls.Where | None]:
        """For each key, where its value is: in "memory", or on the server's NVMe "tier" alone, from where a GET takes
        longer; None: it does not exist."""
        return self._call(_calls.where, self._native.submit_batch_exists, keys, timeout)

    def prefix(self, keys: Sequence[Key], *, timeout: float | None = None) -> int:
        """The number of existing keys before the first missing one."""
        return _calls.first_missing(self.exists(keys, timeout=timeout))

    def prefix_many(
        self, rows: Sequence[Sequence[Key]], *, timeout: float | None = None
    ) -> list[int]:
        """prefix() of each row of keys, such as the prompts of a batch, by one lookup."""
        keys = [key for row in rows for key in row]
        return _calls.firsts_missing(rows, self.exists(keys, timeout=timeout))

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
        memory_only: bool = False,
    ) -> T:
        submit = self._native.submit_batch_get
        try:
            return self._call(meaning, submit, keys, into, timeout, exact, None, memory_only)
        except TooBig as error:
            i = _calls.first_too_big(error.results)
            if i >= 0:
                value = self._native.value_length(keys[i], _calls.LENGTH_SECONDS)
                error.args = (_calls.too_big(keys[i], _calls.nbytes_of(into[i]), value),)
            raise

    def _one(self, meaning: Meaning[T], call: Callable[..., int], key: Key, *args: object) -> T:
        results = [call(key, *args)]
        return meaning([key], results, _calls.who_is_down(self._native, results))

    # ---- the namespace ----

    def clear(self, *, timeout: float | None = None) -> int:
        """Clear the client's namespace, and return its new generation: its values are misses from now on, everywhere and for
        all clients. A PUT that had begun before this call succeeds, and its value is dropped.

        Every server must confirm. If one does not, the call raises (PeerDown, Timeout, ...), and the others have cleared:
        call again until it returns. Ctrl-C takes effect when it ends.
        """
        result = self._native.clear(timeout)
        return _calls.of_servers(result, _calls.who_is_down(self._native, [result]))

    def namespaces(
        self, server: int = 0, *, timeout: float | None = None
    ) -> list[dict[str, str | int]]:
        """The namespaces of one server, by its place in the list of servers: name, generation, blocks, bytes, gets, hits."""
        result = self._native.namespaces(server, timeout)
        codes = [result] if isinstance(result, int) else []
        return _calls.of_servers(result, _calls.who_is_down(self._native, codes))

    # ---- leases ----

    def leases(
        self, server: int = 0, *, timeout: float | None = None
    ) -> list[dict[str, str | int | float]]:
        """The clients that hold leases on the host of one server, as their views do: client_id, session, identity, pid (0: not
        visible to the server), leases, bytes, and age, the seconds since the oldest began."""
        result = self._native.leases(server, timeout)
        codes = [result] if isinstance(result, int) else []
        return _calls.of_servers(result, _calls.who_is_down(self._native, codes))

    # ---- the rest ----

    def events(
        self, since: Mapping[str, tuple[int, int]] | None = None, *, new: bool = False
    ) -> Events:
        """Follow what the servers store and remove (kv-server --events). First come "cleared", all that each server stores, and
        "synced". since: positions of an earlier follower, to go on behind them. new: without snapshots; where events are
        missing, there is a "gap"."""
        return Events(self._native, since, new)

    def register(self, memory: Buffer | tuple[int, int]) -> _native.Region:
        """Register writable memory, once at the start: GETs into it and PUTs from it need no copy over the fabric, and one on the
        server's host. Registering the same memory again gives the same registration, which ends with the last unregister()."""
        return self._native.register(memory)

    def call_bound(self, timeout: float | None = None, nbytes: int = 0) -> float:
        """The longest time in seconds that a call moving nbytes may take: for a watchdog."""
        return self._native.call_bound(timeout, nbytes)

    def counters(self) -> dict[str, int]:
        """Counters since the client was opened (docs/reference/counters.md)."""
        return self._native.counters()

    def info(self) -> dict[str, object]:
        """Provider, NICs and other properties of the client."""
        return self._native.info()

    def servers(self) -> list[dict[str, str | int]]:
        """The state of each server: name, state ("up", "connecting", "down"), why (the reason), clients_up, and more."""
        return self._native.servers()

    @property
    def closed(self) -> bool:
        return self._native.closed

    def close(self) -> None:
        """End all calls (they raise Closed), and close. When it returns, nothing uses callers' memory."""
        self._reaper.close()

    def __reduce__(self) -> NoReturn:  # the end of a copy would close the connections of both
        raise TypeError(_calls.COPIED)

    def __del__(self) -> None:
        reaper = getattr(self, "_reaper", None)
        if reaper is not None and not reaper.native.closed:
            warnings.warn(
                f"{type(self).__name__} was not closed", ResourceWarning, source=self, stacklevel=2
            )
            reaper.close()
