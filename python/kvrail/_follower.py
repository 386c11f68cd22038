# SPDX-License-Identifier: Apache-2.0
"""Removals for engines: a thread that follows the servers' events, so that an engine's own thread never waits for them."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable

from . import _native
from ._errors import Error

logger = logging.getLogger(__name__)

_KEYS_MAX = 1 << 16  # removals that nobody has taken yet
_WAIT_SECONDS = 1.0


def names_check(option: str, seal_names: object) -> None:
    """Before the client is opened."""
    if seal_names:
        raise ValueError(
            f"{option} and seal_names exclude each other: servers report the sealed names, which no engine knows"
        )


class Removals:
    """The keys of a namespace that servers have removed: for take(), or for the function `to`, which the thread calls. It
    ends with its client."""

    def __init__(
        self,
        client: _native.Client,
        namespace: str,
        to: Callable[[list[bytes]], None] | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._to = to
        self._removed: deque[bytes] = deque(maxlen=_KEYS_MAX)
        self._said: set[str] = set()
        self._thread = threading.Thread(
            target=_run, args=(weakref.ref(self), client), name="kvrail-events", daemon=True
        )
        self._thread.start()

    def take(self) -> list[bytes]:
        """All since the last call. Never waits."""
        taken = []
        while self._removed:
            taken.append(self._removed.popleft())
        return taken

    def add(self, raw: list[_native.RawEvent]) -> None:
        for type, node, _epoch, sequence, key, _nbytes, _tier, namespace, _server in raw:
            if type == "removed" and namespace == self._namespace:
                if len(self._removed) == _KEYS_MAX:
                    self.say("full", "removals are lost: the engine does not take its events")
                self._removed.append(key)
            elif type == "gap" and sequence == 0:
                self.say(node, f"{node} reports no removals: start kv-server with --events on")
            elif type == "gap":
                self.say("gap " + node, f"some removals at {node} are not known")
        if self._to and self._removed:
            try:
                self._to(self.take())
            except Exception as error:  # the engine's: the next ones may do better
                self.say("fault", f"the engine does not take removals: {error!r}")

    def say(self, topic: str, text: str) -> None:
        if topic not in self._said and len(self._said) < 64:
            self._said.add(topic)
            logger.warning("kvrail: %s", text)


def _run(reference: weakref.ref[Removals], client: _native.Client) -> None:
    try:
        number = client.events_open(True, ())
        while True:
            raw = client.events_next(number, _WAIT_SECONDS)
            removals = reference()
            if removals is None:
                return
            removals.add(raw)
            del removals
    except Error as error:  # Closed: the client has ended
        removals = reference()
        if removals is not None and not client.closed:
            removals.say("end", f"removals are not reported any more: {error}")
