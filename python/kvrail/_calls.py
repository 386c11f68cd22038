# SPDX-License-Identifier: Apache-2.0
"""Shared by the blocking and the asyncio client: options, and the meaning of results."""

from __future__ import annotations

import math
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, TypeVar, cast

from ._errors import Closed, Denied, Error, Exists, Invalid, Left, NotFound, PeerDown, Tier, Timeout, TooBig, Version, make

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from . import _native
    from ._native import Address, Tensor, View

T = TypeVar("T")

Key: TypeAlias = str | bytes
Place: TypeAlias = "Buffer | Address | Tensor"
# A list: the value lies in several places, in this order.
Memory: TypeAlias = "Place | list[Place]"
Where: TypeAlias = Literal["memory", "tier"]
Submit: TypeAlias = Callable[..., int]
# From keys, results and the states of servers: the return value of a client's method, or an exception.
Meaning: TypeAlias = Callable[[Sequence[Key], list[int], str], T]
Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

GUESS = 64 << 10  # bytes of the first try of a GET of unknown length
VALUE_MAX = 1 << 30
TIMEOUT, BYTE_SECONDS = 5.0, 1e-8  # the library's default for a call, and for each byte
# Errors that the state of a server may explain.
_CLASSES = (PeerDown, Left, Denied, Version, Timeout)
_OF_SERVERS = frozenset(cls.code for cls in _CLASSES)
NAMES_OF_SERVERS = frozenset(cls.name for cls in _CLASSES)
_WHERE: tuple[Where | None, ...] = (None, "memory", "tier")
_NAMED = 3  # servers that an error names, at most
ASK_SECONDS = 0.05  # how long an error waits for the states of servers
LENGTH_SECONDS = 0.5  # how long TooBig waits for the length of the value
NEVER_MS = (1 << 64) - 1
# The library's reasons to refuse a submitted call; the code has no details.
REFUSED = (
    "the library refused an argument: a key has 1 to 128 bytes, a value 1 byte to 1 GiB, and a place must lie in "
    "registered memory as a whole if it begins in it"
)
COPIED = "a kvrail client cannot be copied or pickled: open another one, with the same servers"
STUCK = "a thread of the client, which knows how its servers stand, does not answer"


class Options(TypedDict, total=False):
    """Keywords of the clients; _native.pyi explains each."""

    num_clients: int
    num_threads: int
    provider: str | None
    nic: str | None
    num_rails: int
    buffer_bytes: int
    timeout: float | None
    depth: int
    psk: str | None
    psk_file: Path | None
    cert_file: Path | None
    key_file: Path | None
    ca_file: Path | None
    crl_file: Path | None
    server_name: str | None
    cluster: str | None
    prefix: Key
    down_is_miss: bool
    verify: bool
    wait: bool
    log_level: int
    copies: int | Literal["hot"]
    local: Literal["auto", "off"]
    local_socket: Path | None
    namespace: str | None
    seal_key_file: Path | None
    seal_names: bool


def about_servers(results: list[int]) -> bool:
    """Whether the states of servers may explain an error of these results."""
    return not _OF_SERVERS.isdisjoint(results)


def down(servers: Iterable[Mapping[str, str | int]]) -> str:
    """The servers that are not up, each with the reason; "" if all are up. If some are up, the text does not claim that the
    others caused the failure."""
    texts, some_up = [], False
    for server in servers:
        name, why = server["name"], str(server["why"]).removeprefix(f"server {server['name']}: ")
        if server["state"] == "up":
            some_up = True
        else:
            texts.append(f"{name} is {server['state']}" + (why and f": {why}"))
    more = len(texts) - _NAMED
    begin = "not all servers are up: " if texts and some_up else ""
    return begin + "; ".join(texts[:_NAMED]) + (f"; and {more} more servers" if more > 0 else "")


def stuck(proc: str = "/proc") -> str:
    """The reason why the states of servers are unknown, with the kernel's state of the client's threads: one may lack a
    processor, or wait for a disk."""
    states = set()
    for path in pathlib.Path(proc).glob("self/task/*/stat"):
        try:
            name, _, rest = path.read_text(errors="replace").partition("(")[2].rpartition(") ")
        except OSError:  # the thread has ended
            continue
        if name.startswith("kvc-"):
            states.add(rest[:1])
    processors, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    words = {
        "R": f"it runs, or waits for a processor (of {processors}, load {load:.0f})",
        "D": "it waits for a disk or for memory",
        "T": "it is stopped",
    }
    return "; ".join([STUCK, *(text for state, text in words.items() if state in states)])


def who_is_down(native: _native.Client, results: list[int]) -> str:
    """For the error of a call that failed because of servers: those that are down, and the reasons. It runs after the call's
    deadline, so it waits only briefly."""
    if not about_servers(results):
        return ""
    try:
        return down(native.servers(ASK_SECONDS))
    except Timeout:
        return stuck()
    except Error:  # the client was closed
        return ""


def text_of(result: int) -> str:
    """The library's sentence for a code; for a wrong argument, all possible reasons."""
    from . import _native

    return REFUSED if result == Invalid.code else _native.strerror(result)


def check(keys: Sequence[Key], results: list[int], fine: int, servers: str) -> None:
    """Raise the error of the first key that failed with another code than `fine`, with all results in `.results`, and with
    `servers`, the servers that are down, in its text."""
    for i, result in enumerate(results):
        if result < 0 and result != fine:
            error = make(result, text_of(result))
            shown = keys[i][:80] if i < len(keys) else "?"  # the caller may have changed the list
            wrong = sum(r < 0 and r != fine for r in results)
            error.args = (
                f"{error}: key {shown!r}"
                + (f", {wrong} of {len(results)} keys" if wrong > 1 else "")
                + (f"; {servers}" if servers and result in _OF_SERVERS else ""),
            )
            error.results = results
            raise error


# ---- the meaning of results ----


def of_servers(result: T | int, servers: str) -> T:
    """Of a call without keys: its result. A negative code raises its error, with `servers` in its text."""
    if not isinstance(result, int) or result >= 0:
        return cast("T", result)
    error = make(result)
    if servers:
        error.args = (f"{error}; {servers}",)
    raise error


def lengths(keys: Sequence[Key], results: list[int], servers: str) -> list[int | None]:
    """Of a GET: bytes, or None for a miss."""
    check(keys, results, NotFound.code, servers)
    return [None if r == NotFound.code else r for r in results]


def lengths_in_memory(keys: Sequence[Key], results: list[int], servers: str) -> list[int | None]:
    """The same; what is on the tier alone is a miss."""
    return lengths(keys, [NotFound.code if r == Tier.code else r for r in results], servers)


def stored(keys: Sequence[Key], results: list[int], servers: str) -> list[bool]:
    """Of a PUT: False if other bytes were already stored, and stay."""
    check(keys, results, Exists.code, servers)
    return [r != Exists.code for r in results]


def deleted(keys: Sequence[Key], results: list[int], servers: str) -> list[bool]:
    """Of a DELETE: False if there was no value."""
    check(keys, results, NotFound.code, servers)
    return [r == 0 for r in results]


def there(keys: Sequence[Key], results: list[int], servers: str) -> list[bool]:
    """Of EXISTS."""
    check(keys, results, 0, servers)
    return [r > 0 for r in results]


def where(keys: Sequence[Key], results: list[int], servers: str) -> list[Where | None]:
    """Of EXISTS: where."""
    check(keys, results, 0, servers)
    return [_WHERE[r] for r in results]


def length(keys: Sequence[Key], results: list[int], servers: str) -> int:
    """Of a GET of one key: a miss is also an error."""
    check(keys, results, 0, servers)
    return results[0]


SEALED = "this client seals values, and a view would show them sealed: use get"


def lent(keys: Sequence[Key], results: Sequence[int | View], servers: str) -> View:
    """Of a GET of one key that borrows: a miss is also an error."""
    check(keys, [r for r in results if isinstance(r, int)], 0, servers)
    return cast("View", results[0])


def touched(keys: Sequence[Key], results: list[int], servers: str) -> bool:
    """Of TOUCH, PIN and UNPIN of one key: False if there is no value."""
    check(keys, results, NotFound.code, servers)
    return results[0] == 0


def seconds_left(keys: Sequence[Key], results: list[int], servers: str) -> float:
    """Of TTL."""
    left = length(keys, results, servers)
    return math.inf if left == NEVER_MS else left / 1000


def nbytes_of(memory: Memory) -> int:
    """The length of value for which a destination has room."""
    if isinstance(memory, tuple):
        return memory[1]
    if isinstance(memory, list):
        return sum(nbytes_of(place) for place in memory)
    numel = getattr(memory, "numel", None)
    if numel is None:
        return memoryview(cast("Buffer", memory)).nbytes
    return int(numel() * cast("Tensor", memory).element_size())


def first_too_big(results: Sequence[int] | None) -> int:
    """The index of the key whose value did not fit, if that caused the error of a GET; else -1."""
    wrong = [i for i, r in enumerate(results or ()) if r < 0 and r != NotFound.code]
    return wrong[0] if results and wrong and results[wrong[0]] == TooBig.code else -1


def too_big(key: Key, room: int, value: int) -> str:
    """The sentence for a value that did not fit. value: its length; negative: unknown."""
    long = f"the value has {value} bytes" if value > room else "the value is longer"
    return f"{long}, and its destination has room for {room}: key {key[:80]!r}"


def first_missing(there: list[bool]) -> int:
    return there.index(False) if False in there else len(there)


def firsts_missing(rows: Sequence[Sequence[Key]], there: list[bool]) -> list[int]:
    """Of each row, whose keys follow each other in `there`."""
    found, at = [], 0
    for row in rows:
        found.append(first_missing(there[at : at + len(row)]))
        at += len(row)
    return found


# Failures of a prefix that are no news of servers: an argument was wrong, or the client was closed.
_OF_CALLER = frozenset(cls.code for cls in (Closed, Invalid))


class PrefixLoad:
    """A lookup and a GET under one deadline. What fails because of servers, or comes late, is not there."""

    def __init__(
        self,
        keys: Sequence[Key],
        into: Sequence[Memory],
        timeout: float | None,
        clients: float | None,
    ) -> None:
        self.keys, self.into = list(keys), list(into)
        if len(self.keys) != len(self.into):
            raise ValueError(f"there are {len(self.keys)} keys and {len(self.into)} buffers")
        whole = timeout or clients
        if whole is None:
            whole = TIMEOUT + BYTE_SECONDS * sum(nbytes_of(place) for place in self.into)
        self.whole = whole  # seconds
        self._end = time.monotonic() + whole

    def left(self) -> float:
        """Seconds until the deadline; 0: it has passed."""
        return max(self._end - time.monotonic(), 0.0)

    def found(self, results: list[int]) -> int:
        """After the lookup: how many keys to load."""
        n = self._run(results, 1)
        del self.keys[n:], self.into[n:]
        return n

    def loaded(self, results: list[int]) -> int:
        return self._run(results, 0)

    def _run(self, results: list[int], least: int) -> int:
        for result in results:
            if result in _OF_CALLER:
                raise make(result, text_of(result))
        return first_missing([result >= least for result in results])


class Remaining:
    """The deadline of several tries: the call's, else the client's, else the library's default, which grows with the length."""

    def __init__(self, timeout: float | None, clients: float | None) -> None:
        self._whole = timeout or clients
        self._begin = time.monotonic()

    def seconds(self, size: int = 0) -> float:
        """The timeout of a further try, for a value of this length."""
        whole = self._whole or TIMEOUT + size * BYTE_SECONDS
        return max(whole - (time.monotonic() - self._begin), 1e-9)

    def timeout(self) -> float | None:
        """The timeout of a further call, which has the default itself."""
        return self.seconds() if self._whole else None


class UnknownLength:
    """A GET of a value of unknown length: tries with growing buffers. They share one deadline."""

    def __init__(self, size: int, timeout: float | None, clients: float | None) -> None:
        if not isinstance(size, int):
            raise TypeError(f"size, a guess in bytes, must be an int, not {type(size).__name__}")
        if not 0 <= size <= VALUE_MAX:
            raise ValueError(f"size, a guess in bytes, must be from 0 to {VALUE_MAX}, not {size}")
        self.buffer = bytearray(size or GUESS)
        self.timeout = timeout  # of the next try
        self._rest = Remaining(timeout, clients)

    def value(self, keys: Sequence[Key], results: list[int], servers: str) -> bytes | None:
        """After a try: the value, copied from the buffer, or None for another try with a larger buffer."""
        size = next_guess(len(self.buffer), results[0])
        if size == 0:
            return bytes(memoryview(self.buffer)[: length(keys, results, servers)])
        self.buffer = bytearray(size)
        self.timeout = self._rest.seconds(size)
        return None


def next_guess(size: int, result: int) -> int:
    """The length of the next try after one of `size` bytes; 0: no further try."""
    return min(size * 8, VALUE_MAX) if result == TooBig.code and size < VALUE_MAX else 0
