# SPDX-License-Identifier: Apache-2.0
"""What the tests share: one server for all that only read and write, and how to wait for completions."""

import atexit
import itertools
import os
import pathlib
import re
import select
import signal
import socket
import unittest

import kvrail
from kvrail import _native

_shared = None
_names = itertools.count()


def server():
    """The server that all tests share which do not harm it."""
    global _shared
    if _shared is None:
        _shared = kvrail.Server(memory_mb=64)
        atexit.register(_shared.close)
    return _shared


def fresh(name="key"):
    """A key that no other test has."""
    return f"{name}-{next(_names)}"


def freeze(server):
    """SIGSTOP, until all threads stand still."""
    os.kill(server.pid, signal.SIGSTOP)
    states = [" "]
    while any(state != "T" for state in states):
        states = []
        for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
            states.append(re.search(r"^State:\s+(\S)", (task / "status").read_text(), re.M)[1])


def nobody():
    """An address where nothing listens, and will not while the socket that comes with it lives."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return "127.0.0.1:%d" % held.getsockname()[1], held


def completions(client, count=1, drain=None, seconds=30):
    """Waits for `count` completions as an event loop does, and returns them."""
    drain = drain or client.drain_results
    over = []
    while len(over) < count:
        ready, _, _ = select.select([client.event_fd()], [], [], seconds)
        assert ready, f"{len(over)} of {count} completions came in {seconds} s"
        over += drain()
    return over


def results(client, id):
    """The results of the only call that is out."""
    ((got, _, values),) = completions(client)
    assert got == id, (got, id)
    return values


class NativeTest(unittest.TestCase):
    """Has self.client, a _native.Client of the shared server."""

    options = {}

    def setUp(self):
        self.client = self.open()

    def open(self, address=None, **options):
        client = _native.Client(
            address or server().address, **{"num_clients": 1, **self.options, **options}
        )
        self.addCleanup(client.close)
        return client

    def put(self, key, value):
        self.assertEqual(results(self.client, self.client.submit_batch_set([key], [value])), [0])

    def get(self, key, into):
        return results(self.client, self.client.submit_batch_get([key], [into]))[0]
