# SPDX-License-Identifier: Apache-2.0
"""kvrail._native: a pool of connections to kv-servers and one queue of completions. See the classes of kvrail first.

Any thread may call anything; one thread at a time drains. A submit raises only for bad arguments (TypeError, ValueError), a
closed client (kvrail.Closed) and a full queue (kvrail.Busy). Each id completes exactly once, by its deadline: `timeout`
seconds, above 0, after the submit; None: the client's; float("inf"): none. Until its completion is drained, or the client
is closed, the buffers belong to the library.
"""

from collections.abc import Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Literal, Protocol, TypeAlias, final, overload

from typing_extensions import (
    Buffer as _Buffer,
)  # the checker knows it; nothing imports it when the program runs

Key: TypeAlias = str | bytes
# (address, length), or (address, length, slice, stride): slices begin stride bytes apart, length counts no gaps
Address: TypeAlias = tuple[int, int] | tuple[int, int, int, int]

class Tensor(Protocol):
    """torch.Tensor, as far as it is used. On the CPU; in any dtype, also with strides."""

    def data_ptr(self) -> int: ...
    def element_size(self) -> int: ...
    def numel(self) -> int: ...

Place: TypeAlias = _Buffer | Address | Tensor
# a list: the value lies in several places, up to 1,024, in this order
Memory: TypeAlias = Place | list[Place]
Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

version: str

def key_fold(key: Key, /) -> bytes:
    """A key as the servers know it: one of more than 128 bytes becomes its beginning and a digest."""

def errname(code: int, /) -> str: ...
def strerror(code: int, /) -> str: ...
def program_setup() -> None:
    """Set libfabric's environment variables to KVRail's defaults where they are not set. For programs, early."""

def close_all() -> None: ...

@final
class Region:
    """Registered memory. It stays registered until unregister() or the client's close()."""

    @property
    def registered(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...
    def unregister(self) -> None:
        """If it raises because a call uses the memory, the memory is still registered."""

    def __enter__(self) -> Region: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class View:
    """A value to read, from Client.view() of kvrail: a read-only buffer, for memoryview, numpy.frombuffer and others.

    If it is in place, the bytes lie in the memory of a server on this host, and the view holds them there: whatever
    happens to the key, the client and the server, until the object and all its buffers are gone. A child of fork()
    cannot use a parent's view in place: it raises kvrail.Closed. Any thread may use and release a view.
    """

    def __new__(cls, data: bytes, /) -> View:
        """A view of these bytes, not in place."""

    @property
    def in_place(self) -> bool:
        """Whether the bytes lie in the server's memory; else they are a copy."""

    @property
    def nbytes(self) -> int: ...
    @property
    def released(self) -> bool: ...
    def release(self) -> None:
        """Make no more buffers of it. The bytes are given back now, or at the end of the last buffer."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> memoryview: ...
    def __enter__(self) -> View: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

# type, node, epoch, sequence, key, bytes, tier, namespace, server
RawEvent = tuple[str, str, int, int, bytes, int, str, str, int]

class Client:
    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        num_clients: int = 0,
        num_threads: int = 0,
        provider: str | None = None,
        nic: str | None = None,
        num_rails: int = 0,
        buffer_bytes: int = 0,
        timeout: float | None = None,
        depth: int = 0,
        psk: str | None = None,
        psk_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
        ca_file: Path | None = None,
        crl_file: Path | None = None,
        server_name: str | None = None,
        cluster: str | None = None,
        prefix: Key = b"",
        down_is_miss: bool = False,
        verify: bool = True,
        wait: bool = False,
        log_level: int = 2,
        copies: int | Literal["hot"] = 1,
        local: Literal["auto", "off"] = "auto",
        local_socket: Path | None = None,
        namespace: str | None = None,
        seal_key_file: Path | None = None,
        seal_names: bool = False,
    ) -> None:
        """servers: "HOST:PORT,HOST:PORT" or a list. 0 and None mean the library's default (kvclient.h).

        timeout: seconds of calls without one; by default 5, and 1 more for each 100 MB; float("inf"): no deadline. prefix:
        precedes every key. depth: ids under way at a time, half of them in the background. down_is_miss: keys are misses
        if all servers are down. wait: return after the first attempts to connect, and raise if one of the num_clients
        has no server then. log_level: 0 none to 4 debug, to stderr.
        copies: 2: two servers keep each value (KVC_TWO_COPIES in kvclient.h); "hot": two keep those that servers report
        as hot (KVC_HOT_COPIES). All clients of a key need the same.
        local: "off": the fabric, also to servers on this host. local_socket: the path of their Unix socket, for containers
        that mount it at another place than the server.
        namespace: of all keys of this client, at most 64 bytes of UTF-8 without control characters; None and "" mean the
        default one. The same key in two namespaces is two keys.
        seal_key_file: encrypt values with the keys of this file, so servers have ciphertext only ("Sealed values" in
        kvclient.h); views are not supported then. seal_names: also seal the names of keys.
        """

    @property
    def closed(self) -> bool: ...
    def event_fd(self) -> int: ...
    def submit_batch_get(
        self,
        keys: Sequence[Key],
        buffers: Sequence[Memory],
        timeout: float | None = None,
        exact: bool = False,
        parts: Sequence[int] | None = None,
        memory_only: bool = False,
    ) -> int:
        """exact: a value of another length than its buffer is a miss. memory_only: a value that its server has on its NVMe
        tier alone is not read: KV_ETIER. parts: the ends of the parts in which all values are
        read, part 0 of all keys first; the last end is the length of each buffer. The descriptor also becomes readable for
        parts: drain, then ask arrived()."""

    def submit_batch_view(self, keys: Sequence[Key], timeout: float | None = None) -> int:
        """Borrow values. drain_results() returns a View where the others have a length; drain_completions() drops them. A
        value that is not in place is copied by the drain; one larger than half of the client's buffer fails."""

    def submit_batch_set(
        self,
        keys: Sequence[Key],
        buffers: Sequence[Memory],
        timeout: float | None = None,
        ttl: int = 0,
        background: bool = False,
    ) -> int:
        """background: other calls overtake it wherever requests wait; its deadline is that of any call."""

    def submit_batch_exists(
        self, keys: Sequence[Key], timeout: float | None = None, memory_only: bool = False
    ) -> int:
        """Results: 0: missing, 1: in memory, 2: on the server's NVMe tier alone; memory_only: 0 for these as well."""

    def submit_batch_delete(self, keys: Sequence[Key], timeout: float | None = None) -> int: ...
    def drain_completions(self) -> list[tuple[int, bool, str, list[bool] | None]]:
        """(id, ok, text, per key) of finished ids: the contract of LMCache's native_plugin.

        GET: None: all were loaded; False in the list: a miss, or a value of another length. SET: a key with other bytes
        counts as stored. DELETE: a missing key counts as deleted. ok is False if a key failed otherwise than by a miss,
        and text has the reason.
        """

    def drain_results(self) -> list[tuple[int, int, list[int]]]:
        """(id, code, results) of finished ids. A result is the length (GET), 0 for a miss, 1 for memory and 2 for the tier
        alone (EXISTS), else 0; or a negative code. Of submit_batch_view it is a View instead of the length."""

    def arrived(self, id: int, /) -> list[int] | None:
        """Of each key of an id, how many parts are at their place and verified: these bytes may be read, and are not written
        again. None: the id has no parts, or its completion was drained."""

    def cancel(self, id: int, /) -> bool:
        """Cancel an id; its completion comes soon. False: it has finished, or is unknown."""

    def call_bound(self, timeout: float | None = None, nbytes: int = 0, /) -> float:
        """The longest time in seconds that a call may take: its timeout, and the time to rebuild endpoints on a busy machine.
        For a watchdog; most calls end within their deadline. nbytes: the bytes that the call may move, used only if
        neither it nor the client has a timeout. Does not wait; 0 in a child of fork().
        """

    def touch(self, key: Key, timeout: float | None, ttl: int, /) -> int: ...
    def ttl(self, key: Key, timeout: float | None, /) -> int: ...
    def pin(self, key: Key, timeout: float | None, /) -> int: ...
    def unpin(self, key: Key, timeout: float | None, /) -> int:
        """touch, ttl, pin and unpin block, and return 0 or a negative code; ttl: milliseconds, 2^64 - 1: it never expires."""

    def value_length(self, key: Key, timeout: float | None, /) -> int:
        """The length of a value, or a negative code; blocks, as these."""

    def clear(self, timeout: float | None, /) -> int:
        """Clear the client's namespace, and return its new generation, or a negative code; blocks, as these."""

    def namespaces(self, server: int, timeout: float | None, /) -> list[dict[str, str | int]] | int:
        """The namespaces of a server, by its place in `servers`, or a negative code; blocks, as these."""

    def leases(
        self, server: int, timeout: float | None, /
    ) -> list[dict[str, str | int | float]] | int:
        """The clients on the host of a server that hold leases, or a negative code; blocks, as these."""

    def register(self, memory: _Buffer | Tensor | tuple[int, int], /) -> Region:
        """Register writable memory with every server: GETs into it and PUTs from it need no copy. Blocks. Registering the same
        memory again gives the same registration, which ends with the last unregister()."""

    def counters(self) -> dict[str, int]: ...
    def info(self) -> dict[str, object]: ...
    def servers(self, seconds: float = ..., /) -> list[dict[str, str | int]]:
        """The state of each server: name, node_id, state ("up", "connecting", "down", "closed"), why (the last failure),
        clients_up, clients_local (those that read and write in memory shared with it), attempts_failed, shards. If connections to a server differ, the state is the worst one, and clients_up
        counts those that are up. Members of a view follow the servers of the list. Waits until all loops have answered,
        or raises kvrail.Timeout. `seconds` limits the time: each loop has that time to answer, at least 0.2 s, and no
        further server is asked after it."""

    def events_open(self, new: bool, since: tuple[tuple[str, int, int], ...], /) -> int:
        """Follow the servers' events, each behind (node, epoch, sequence), or from a snapshot on; new: without snapshots. As many
        followers as the client has connections (num_clients). Returns a number. Blocks."""

    def events_next(self, number: int, seconds: float, /) -> list[RawEvent]:
        """The next events; none: none came within this time. One call at a time. Blocks."""

    def events_close(self, number: int, /) -> None:
        """End a follower. Busy: another thread is in a call on it."""

    def close(self) -> None:
        """End all calls, and release all buffers: when it returns, nothing uses them. Takes bounded time, from any thread; a
        second call has no effect. Remaining completions can be drained afterwards; the descriptor stays.
        """

    def __enter__(self) -> Client: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
