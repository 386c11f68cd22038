# SPDX-License-Identifier: Apache-2.0
"""lmcache_floor.py -- what LMCache's bench of L2 can show at most: connectors for its native_plugin that do next to nothing.

  Nothing   every batch is over at once, and no byte moves: LMCache's own share
  Sockets   the bytes, and nothing else: one message for a value over a TCP connection of loopback, to a process that
            keeps values in a dictionary, from as many threads as redis' client has connections. No index, no checksum,
            no fabric; sendall and recv_into run without the GIL.

`lmcache_checks.py ratio` measures them beside kvrail and redis. As a program it is the server of Sockets.
"""

import itertools
import os
import queue
import socket
import struct
import sys
import threading

HEAD = struct.Struct("<cHQ")  # operation, bytes of the key, bytes of the value
THREADS = 8


class Nothing:
    def __init__(self, **_):
        self.fd, self.over, self.ids = (
            os.eventfd(0, os.EFD_NONBLOCK),
            queue.SimpleQueue(),
            itertools.count(1),
        )
        self.stored = set()

    def event_fd(self):
        return self.fd

    def _end(self, id, ok=True, results=None):
        self.over.put((id, ok, "" if ok else "it failed", results))
        os.eventfd_write(self.fd, 1)
        return id

    def submit_batch_set(self, keys, views):
        self.stored.update(keys)
        return self._end(next(self.ids))

    def submit_batch_get(self, keys, views):
        return self._end(next(self.ids))

    def submit_batch_exists(self, keys):
        return self._end(next(self.ids), results=[key in self.stored for key in keys])

    def submit_batch_delete(self, keys):
        self.stored.difference_update(keys)
        return self._end(next(self.ids), results=[True] * len(keys))

    def drain_completions(self):
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass
        return [self.over.get() for _ in range(self.over.qsize())]

    def close(self):
        pass


class Sockets(Nothing):
    def __init__(self, port):
        super().__init__()
        self.work = queue.SimpleQueue()
        self.threads = [threading.Thread(target=self._run, args=(port,)) for _ in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def _run(self, port):
        with socket.create_connection(("127.0.0.1", port)) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (job := self.work.get()) is not None:
                batch, operation, key, view = job
                try:
                    self._one(link, operation, key.encode(), view)
                    batch["ok"] &= True
                except OSError:
                    batch["ok"] = False
                with batch["lock"]:
                    batch["left"] -= 1
                    last = batch["left"] == 0
                if last:
                    self._end(batch["id"], batch["ok"])

    def _one(self, link, operation, key, view):
        data = view.cast("B") if operation == b"S" else None
        link.sendall(HEAD.pack(operation, len(key), len(view)) + key)
        if data is not None:
            link.sendall(data)
            receive(link, bytearray(1))
        else:
            receive(link, view.cast("B"))

    def _begin(self, operation, keys, views):
        batch = {"id": next(self.ids), "left": len(keys), "ok": True, "lock": threading.Lock()}
        for key, view in zip(keys, views):
            self.work.put((batch, operation, key, view))
        return batch["id"]

    def submit_batch_set(self, keys, views):
        self.stored.update(keys)
        return self._begin(b"S", keys, views)

    def submit_batch_get(self, keys, views):
        return self._begin(b"G", keys, views)

    def close(self):
        for _ in self.threads:
            self.work.put(None)
        for thread in self.threads:
            thread.join()


def receive(link, into):
    view = memoryview(into)
    while len(view):
        got = link.recv_into(view)
        if got == 0:
            raise ConnectionError("the other side has gone")
        view = view[got:]


def serve(link, values):
    head = bytearray(HEAD.size)
    with link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                receive(link, head)
                operation, key_len, value_len = HEAD.unpack(head)
                key = bytearray(key_len)
                receive(link, key)
                key = bytes(key)
                if operation == b"S":
                    value = values.get(key)
                    if value is None or len(value) != value_len:
                        value = values[key] = bytearray(value_len)
                    receive(link, value)
                    link.sendall(b"+")
                else:
                    link.sendall(values[key])
        except ConnectionError:
            pass


def main():
    listener, values = socket.create_server(("127.0.0.1", 0)), {}
    print(listener.getsockname()[1], flush=True)
    while True:
        link, _ = listener.accept()
        threading.Thread(target=serve, args=(link, values), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
