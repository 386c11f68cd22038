#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mooncake_client.py -- Mooncake Store as a target of kv-bench versus: `--targets kvrail,program:/PATH/mooncake_client.py`.

Its library is the package mooncake-transfer-engine-non-cuda (or -engine). The store needs a master, and memory, which clients lend:
  mooncake_master -rpc_port 50051
Environment: MOONCAKE_MASTER (127.0.0.1:50051), MOONCAKE_METADATA (P2PHANDSHAKE), MOONCAKE_HOST (127.0.0.1), MOONCAKE_PROTOCOL (tcp),
MOONCAKE_DEVICE (none), MOONCAKE_SEGMENT_MB (memory that each worker lends; 256, 0 where a store process lends it: what a worker lent goes
with it at the end of each round).

Values are put from and got into the memory that kv-bench shares, which is registered with the library: no copy in Python.
"""
import ctypes
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import program


class Mooncake:
    def __init__(self, memory):
        from importlib import metadata
        from mooncake.store import MooncakeDistributedStore
        env = os.environ.get
        self.name = next((f"{d.metadata['Name']} {d.version}" for d in metadata.distributions()
                          if (d.metadata["Name"] or "").startswith("mooncake")), "mooncake")
        self.store = MooncakeDistributedStore()
        segment = int(env("MOONCAKE_SEGMENT_MB", "256")) << 20
        code = self.store.setup(env("MOONCAKE_HOST", "127.0.0.1"), env("MOONCAKE_METADATA", "P2PHANDSHAKE"), segment, 64 << 20,
                                env("MOONCAKE_PROTOCOL", "tcp"), env("MOONCAKE_DEVICE", ""), env("MOONCAKE_MASTER", "127.0.0.1:50051"))
        if code:
            raise OSError(f"Mooncake's setup failed with {code}: is a mooncake_master there?")
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.memory = memory
        code = self.store.register_buffer(self.base, len(memory))
        if code:
            raise OSError(f"Mooncake does not register the shared memory: {code}")

    def at(self, view):
        return ctypes.addressof(ctypes.c_char.from_buffer(view))

    def put(self, key, view):
        code = self.store.put_from(key, self.at(view), len(view))
        if code:
            raise OSError(f"put_from failed with {code}")

    def get(self, key, view):
        got = self.store.get_into(key, self.at(view), len(view))
        if got == -704:  # OBJECT_NOT_FOUND
            return None
        if got < 0:
            raise OSError(f"get_into failed with {got}")
        return got

    def delete(self, key):
        self.store.remove(key, True)  # also while its lease lasts

    def close(self):
        self.store.close()


if __name__ == "__main__":
    sys.exit(program.serve(Mooncake))
