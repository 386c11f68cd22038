#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""program.py -- the line protocol between kv-bench versus and a client program (kvbench/versus/program.c), for programs in Python.

serve(open_store) is all that a program needs. open_store(memory), given the shared memory as a writable memoryview, returns a store
with put(key, view), get(key, view) -> bytes or None, delete(key), close(), and `name`, what it is and which version.

Run by itself it is a store of files in the folder KVBENCH_FILES, for tests. KVBENCH_FAULT makes it answer badly: miss, flip, short, error, die.
"""
import mmap
import os
import sys


def answer(store, memory, words):
    """One line of the protocol."""
    what, key = words[0], words[1].decode()
    if what == b"delete":
        store.delete(key)
        return b"ok\n"
    at, length = int(words[2]), int(words[3])
    view = memory[at:at + length]
    if what == b"put":
        store.put(key, view)
        return b"ok\n"
    got = store.get(key, view)
    return b"miss\n" if got is None else b"ok %d\n" % got


def serve(open_store):
    out, lines = sys.stdout.buffer, sys.stdin.buffer
    sys.stdout = sys.stderr  # libraries print
    _, path, size = lines.readline().split()
    with open(path, "r+b") as f:
        memory = memoryview(mmap.mmap(f.fileno(), int(size)))
    try:
        store = open_store(memory)
    except Exception as e:  # whatever a library throws is a sentence for the user
        out.write(b"error %s\n" % str(e).replace("\n", " ")[:400].encode())
        out.flush()
        return 1
    out.write(b"ready %s\n" % store.name.encode())
    out.flush()
    for line in lines:
        try:
            reply = answer(store, memory, line.split())
        except Exception as e:
            reply = b"error %s\n" % str(e).replace("\n", " ")[:400].encode()
        out.write(reply)
        out.flush()
    store.close()
    return 0


class Files:
    """A value is a file."""
    name = "files 1"

    def __init__(self, _memory):
        self.folder = os.environ.get("KVBENCH_FILES", "")
        if not os.path.isdir(self.folder):
            raise OSError("KVBENCH_FILES names no folder to keep the values in")
        self.fault = os.environ.get("KVBENCH_FAULT", "")

    def path(self, key):
        return os.path.join(self.folder, key.replace("/", "_"))

    def put(self, key, view):
        with open(self.path(key), "wb") as f:
            f.write(view)

    def get(self, key, view):
        if self.fault == "error":
            raise OSError("the disk is on fire")
        if self.fault == "die":
            os._exit(3)
        if self.fault == "miss" or not os.path.exists(self.path(key)):
            return None
        with open(self.path(key), "rb") as f:
            n = f.readinto(view)
        if self.fault == "flip":
            view[-1] ^= 1
        return n - 1 if self.fault == "short" else n

    def delete(self, key):
        os.unlink(self.path(key))

    def close(self):
        pass


if __name__ == "__main__":
    sys.exit(serve(Files))
