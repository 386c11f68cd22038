# SPDX-License-Identifier: Apache-2.0
"""terminal.py -- a program on a pseudo-terminal, for tests of what people see and type."""

import fcntl
import os
import pty
import select
import struct
import termios
import time


class Terminal:
    """Runs argv. env: all that it finds in its environment, beside PATH. Its output grows in `out`."""

    def __init__(self, argv, env=None, rows=24, columns=120):
        self.out = b""
        self.status = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            keep = {k: v for k, v in os.environ.items() if k.startswith(("PATH", "XDG_", "LD_", "ASAN", "TSAN", "UBSAN"))}
            os.execve(argv[0], argv, {**keep, "HOME": "/nonexistent", **(env or {})})

    def read(self, seconds):
        """Takes what comes within the time. False: nothing came, or the program has closed the terminal."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            more = b""
        self.out += more
        return bool(more)

    def until(self, text, count=1, seconds=50):
        """Waits until text has come `count` times."""
        end = time.monotonic() + seconds
        while self.out.count(text) < count:
            assert self.read(max(end - time.monotonic(), 0)), f"no {text!r} x {count} in {self.out!r}"

    def send(self, data):
        os.write(self.fd, data)

    def end(self, seconds=50):
        """Waits for the program's end; returns its exit status, negative for a signal."""
        end = time.monotonic() + seconds
        while self.read(max(end - time.monotonic(), 0)):
            pass
        pid, status = os.waitpid(self.pid, os.WNOHANG if time.monotonic() >= end else 0)
        if pid == 0:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            raise AssertionError(f"it does not end: {self.out!r}")
        self.status = os.waitstatus_to_exitcode(status)
        os.close(self.fd)
        return self.status




def session(argv, lines, env=None, prompt=b"kv> ", rows=24, columns=120):
    """Types lines at a prompt, each when the one before is done, then exit. Returns (status, output)."""
    t = Terminal(argv, env, rows, columns)
    t.until(prompt)
    for n, line in enumerate(lines):
        t.send(line + b"\n")
        t.until(b"\r\n" + prompt, n + 1)
    t.send(b"exit\n")
    return t.end(), t.out
