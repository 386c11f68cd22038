#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lmcache_client.py -- LMCache's server as a target of kv-bench versus: `--targets kvrail,program:/PATH/lmcache_client.py`.

Up to 0.5.6 its server is part of the package lmcache, as is the client, LMCache's connector of lm:// URLs:
  lmcache_server 127.0.0.1 65432
Environment: LMCACHE_SERVER (127.0.0.1:65432).

The connector reads values into memory that it is given: that which kv-bench shares, so Python copies none. The server does
not answer a PUT; so one is done when the server says, on the same connection, that it has the key. It has no DELETE either:
an empty value takes the place of what a round stored, so that only keys stay behind.
"""
import asyncio
import hashlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import program

os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_DISABLE_BANNER", "1")

INSTALL = ("this Python has no package {}: install lmcache with all that it needs (pip install lmcache==0.5.6; later versions have no "
           "such server) and put that bin first in PATH")


class Place:
    """What the connector takes for the host's memory: a value is where kv-bench wants it."""

    def __init__(self, config, metadata, memory_object):
        self.config, self.metadata, self.memory_object = config, metadata, memory_object
        self.view = None

    def allocate(self, shape, _dtype, _format):
        if shape[0] > len(self.view):
            raise OSError(f"the server has a value of {shape[0]} bytes, not of {len(self.view)}")
        return self.memory_object(self.view[:shape[0]])


class LMCache:
    def __init__(self, _memory):
        from importlib import metadata as packages
        try:
            import torch
            from lmcache.utils import CacheEngineKey
            from lmcache.v1.config import LMCacheEngineConfig
            from lmcache.v1.memory_management import BytesBufferMemoryObj
            from lmcache.v1.metadata import LMCacheMetadata
            from lmcache.v1.storage_backend.connector.lm_connector import LMCServerConnector
        except ModuleNotFoundError as e:
            raise OSError(INSTALL.format(e.name)) from e
        self.name = f"lmcache {packages.version('lmcache')}"
        self.key_of = lambda text: CacheEngineKey("kv-bench", 1, 0, text, torch.uint8)
        self.memory_object = BytesBufferMemoryObj
        shape = (1, 2, 256, 1, 1)
        self.place = Place(LMCacheEngineConfig.from_defaults(), LMCacheMetadata("kv-bench", 1, 1, 0, 0, torch.uint8, shape),
                           BytesBufferMemoryObj)
        server = os.environ.get("LMCACHE_SERVER", "127.0.0.1:65432")
        host, _, port = server.rpartition(":")
        self.loop = asyncio.new_event_loop()
        try:
            self.connector = LMCServerConnector(host, int(port), self.loop, self.place)
        except ConnectionError as e:
            raise OSError(f"{e.strerror}: is an lmcache_server at {server} (LMCACHE_SERVER)?") from e

    def key(self, text):
        """LMCache's keys end in a number of 64 bits."""
        return self.key_of(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))

    async def store(self, key, view):
        await self.connector.put(key, self.memory_object(view))
        if not await self.connector.exists(key):
            raise OSError("the server does not have what was PUT")

    def put(self, key, view):
        self.loop.run_until_complete(self.store(self.key(key), view))

    def get(self, key, view):
        self.place.view = view
        got = self.loop.run_until_complete(self.connector.get(self.key(key)))
        return None if got is None else got.get_size()

    def delete(self, key):
        self.put(key, b"")

    def close(self):
        self.loop.run_until_complete(self.connector.close())


if __name__ == "__main__":
    sys.exit(program.serve(LMCache))
