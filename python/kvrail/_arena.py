# SPDX-License-Identifier: Apache-2.0
"""An arena that grows, registered piece by piece.

LMCache's lazy allocator reserves the addresses of the whole arena at the start. Its thread pins one part after another, and
allocates from the pinned parts. It does not report its progress, but each object does: all memory below its end is pinned.
A thread of ours then registers up to the next step, while calls continue. Until that is done, and if an object crosses the
border of two pieces, the library copies.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from ._errors import Closed

logger = logging.getLogger("kvrail.lmcache")

_STEP_MIN = 64 << 20
_PIECES = 128  # at most; a client has 256 registrations


class Arena:
    """`size` bytes at `address`, of which `stable` are there now. register(address, nbytes) blocks, and may raise."""

    def __init__(
        self, register: Callable[[int, int], None], address: int, size: int, stable: int
    ) -> None:
        self._register = register
        self._address, self._size = address, size
        self._step = max(-(-size // _PIECES), _STEP_MIN)
        self._pid = os.getpid()
        self._lock = threading.Lock()  # of what follows
        self._thread: threading.Thread | None = None
        self._wanted = stable
        self.registered_bytes = 0
        self._grow()

    @property
    def complete(self) -> bool:
        """Nothing more will be registered."""
        return self.registered_bytes >= self._size

    def seen(self, address: int, nbytes: int) -> None:
        """Report an object, so the arena has grown to its end. Never blocks. Any thread."""
        end = address + nbytes - self._address
        if end <= self._wanted or address < self._address or end > self._size:
            return
        if os.getpid() != self._pid:  # in a child of fork() a thread of the parent may hold the lock for ever
            return
        with self._lock:
            self._wanted = max(self._wanted, min(-(-end // self._step) * self._step, self._size))
            if self._thread is None and self.registered_bytes < self._wanted:
                thread = threading.Thread(target=self._grow, name="kvrail-arena", daemon=True)
                thread.start()  # if it fails, the next object tries again
                self._thread = thread

    def join(self) -> None:
        """Wait until all reported memory is registered."""
        thread = self._thread
        if thread:
            thread.join()

    def _grow(self) -> None:
        while True:
            with self._lock:
                begin, end = self.registered_bytes, self._wanted
                if begin >= end:
                    self._thread = None
                    return
            try:
                self._register(self._address + begin, end - begin)
            except Exception as error:
                with self._lock:  # register no more
                    size, self._wanted, self._size, self._thread = self._size, begin, begin, None
                if not isinstance(error, Closed):
                    logger.warning(
                        "of L1 %d of %d bytes are registered, so values in the rest will be copied: %s",
                        begin,
                        size,
                        str(error) or repr(error),
                    )
                return
            with self._lock:
                self.registered_bytes = end
