# SPDX-License-Identifier: Apache-2.0
"""Shared by the loads of the blocking and the asyncio client: where parts end, and how many have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _calls, _native

if TYPE_CHECKING:
    from ._calls import Memory


def ends_of(parts: int | Sequence[int], into: Sequence[Memory]) -> tuple[int, ...]:
    """The ends of parts: as given, or of so many equal parts of each destination."""
    if not isinstance(parts, int):
        return tuple(parts)
    if not into:
        return ()
    nbytes = _calls.nbytes_of(into[0])
    if parts < 1 or nbytes % parts:
        raise ValueError(
            f"parts: {nbytes} bytes are not {parts} equal parts: give the ends of the parts"
        )
    return tuple(range(nbytes // parts, nbytes + 1, nbytes // parts))


class Progress:
    """How far a load of several keys in parts has come."""

    def __init__(self, keys: int, ends: tuple[int, ...]) -> None:
        self.ends = ends
        self._counts = [0] * keys  # parts of each key

    def look(self, native: _native.Client, id: int) -> bool:
        """Ask the library. Returns whether there is more than before."""
        counts = native.arrived(id)
        if counts is None or counts == self._counts:
            return False
        self._counts = counts
        return True

    def over(self, results: list[int]) -> None:
        """The load has ended. A key that failed keeps the parts that were there."""
        for i, result in enumerate(results):
            if result >= 0:
                self._counts[i] = sum(end <= result for end in self.ends)

    def leading(self, part: int) -> int:
        """The number of keys before the first one without this part."""
        for i, count in enumerate(self._counts):
            if count <= part:
                return i
        return len(self._counts)

    def whole(self, part: int) -> bool:
        return self.leading(part) == len(self._counts)

    def check(self, part: int) -> None:
        if not 0 <= part < len(self.ends) and self._counts:
            raise IndexError(
                f"there are {len(self.ends)} parts, from 0 on, and none with number {part}"
            )
