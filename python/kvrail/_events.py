# SPDX-License-Identifier: Apache-2.0
"""Shared by the followers of the blocking and the asyncio client: an event, and how far each server was followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from . import _native


class Event(NamedTuple):
    """An event of a server. type: "stored", "removed", "cleared" (forget all keys of the server, or of the namespace, if one
    is named), "gap" (events are missing before this one; with sequence 0 the server reports none), "synced" (a snapshot
    is complete, or a server that was away is back) or "away". sequence 0: of a snapshot that is not complete yet. key: as
    the servers know it."""

    type: str
    node: str
    epoch: int
    sequence: int
    key: bytes
    nbytes: int
    tier: str
    namespace: str
    server: int


class Following:
    """A follower's number, and its positions: node -> (epoch, sequence), to go on behind them later."""

    def __init__(self, positions: Mapping[str, tuple[int, int]] | None) -> None:
        self.positions: dict[str, tuple[int, int]] = dict(positions or {})
        self.number = -1  # not open

    def since(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((node, *position) for node, position in self.positions.items())

    def take(self, raw: list[_native.RawEvent]) -> list[Event]:
        events = [Event(*fields) for fields in raw]
        for event in events:
            if event.sequence:
                self.positions[event.node] = (event.epoch, event.sequence)
        return events
