# SPDX-License-Identifier: Apache-2.0
"""Keep signal handlers while libfabric is loaded.

Debian's libfabric is linked to libpsm2 and libinfinipath, which install handlers that print a backtrace, even for SIGINT:
Ctrl-C would end the program instead of raising KeyboardInterrupt, and faulthandler would not work.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import TracebackType

_SIGNALS = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGABRT,
    signal.SIGINT,
    signal.SIGTERM,
)


def _nothing() -> None:
    pass


class Kept:
    """`with Kept(): import _native`: afterwards the signals above have their former handlers."""

    _restore: Callable[[], None]

    def __enter__(self) -> None:
        try:
            import ctypes
        except (
            ImportError
        ):  # a Python without ctypes: nothing can be restored
            self._restore = _nothing
            return
        # signal.signal() knows neither faulthandler's handlers nor those of the program that embeds Python. The struct
        # has 152 bytes with glibc; the room is larger than that of any libc.
        action = ctypes.CDLL(None).sigaction
        saved = [(number, ctypes.create_string_buffer(1024)) for number in _SIGNALS]
        done = [(number, room) for number, room in saved if action(int(number), None, room) == 0]

        def restore() -> None:
            for number, room in done:
                action(int(number), room, None)

        self._restore = restore

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
