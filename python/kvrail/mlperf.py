# SPDX-License-Identifier: Apache-2.0
"""MLPerf Storage's KV-cache workload (github.com/mlcommons/storage, kv_cache_benchmark) with kv-servers as its storage.

    python -m kvrail.mlperf --servers 10.0.0.1:7411 storage/kv_cache_benchmark -- --model llama3.1-8b --num-users 50 ...

It runs the benchmark as it is, except for the class NVMeBackend: an entry is values on kv-servers instead of a file. So
requests, timing and report are the benchmark's own. "Device" times are those of the calls of kvrail.

The benchmark counts a read that fails as a hit of 0 s. So this program counts such reads, and ends with 1 if there was
one: the figures are void. docs/guide/tokens.md is the guide.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys
import threading
import time
from typing import Any

import numpy as np

from ._errors import Error
from .client import Client

_PIECE = 16 << 20  # bytes of one value: servers share an entry, and a value has at most 1 GiB


class Storage:
    """The storage tier of one run. Threads of the benchmark call it, one at a time for each key."""

    def __init__(self, client: Client, timing: Any) -> None:
        """timing: the benchmark's class of total, device and host, in seconds."""
        self.metadata: dict[str, tuple[tuple[int, ...], Any]] = {}
        self.failed: list[str] = []
        self._client, self._timing = client, timing
        self._lock = threading.Lock()  # failed

    def write(self, key: str, data: Any) -> Any:
        begin = time.perf_counter()
        # Some versions of the benchmark write arrays, others bytes, of which they need the length.
        data = np.ascontiguousarray(data if hasattr(data, "dtype") else np.frombuffer(data, np.uint8))
        names, places = self._pieces(key, data)
        ready = time.perf_counter()
        try:
            if not all(
                self._client.put_many(names, places)
            ):  # an entry of the same key is replaced, as a file is
                self._client.delete_many(names)
                self._client.put_many(names, places)
        except Error as error:
            raise self._failure(key, error) from error
        self.metadata[key] = (data.shape, data.dtype)
        return self._times(begin, ready)

    def read(self, key: str) -> tuple[Any, Any]:
        begin = time.perf_counter()
        if key not in self.metadata:
            raise KeyError(f"{key} was never written")
        data = np.empty(*self.metadata[key])
        names, places = self._pieces(key, data)
        ready = time.perf_counter()
        try:
            lengths = self._client.get_many(names, places, exact=True)
        except Error as error:
            raise self._failure(key, error) from error
        if None in lengths:
            raise self._failure(key, "the servers do not have it any more")
        return data, self._times(begin, ready)

    def delete(self, key: str) -> None:
        if entry := self.metadata.pop(key, None):
            self._client.delete_many(self._pieces(key, np.empty(*entry))[0])

    def clear(self) -> None:
        self.metadata.clear()
        self._client.clear()

    def _pieces(self, key: str, data: Any) -> tuple[list[str], list[Any]]:
        """Keys and places of the values of an entry."""
        flat = data.reshape(-1).view(np.uint8)
        starts = range(0, flat.nbytes, _PIECE)
        return [f"{key}/{at}" for at in starts], [flat[at : at + _PIECE] for at in starts]

    def _times(self, begin: float, ready: float) -> Any:
        end = time.perf_counter()
        return self._timing(total=end - begin, device=end - ready, host=ready - begin)

    def _failure(self, key: str, reason: object) -> KeyError:
        with self._lock:
            self.failed.append(f"{key}: {reason}")
        return KeyError(self.failed[-1])


def _benchmark(folder: pathlib.Path) -> tuple[Any, Any]:
    """The benchmark's modules `cache` and `cli`."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("kv_cache.cache"), importlib.import_module("kv_cache.cli")
    except ImportError as error:
        sys.exit(
            f"kvrail.mlperf: {folder} is not the benchmark, or a package of its requirements.txt is missing: {error}. "
            "It is the folder kv_cache_benchmark of github.com/mlcommons/storage"
        )


def main() -> int:
    parser = argparse.ArgumentParser("python -m kvrail.mlperf", description=__doc__.splitlines()[0])
    parser.add_argument("--servers", required=True, help="HOST:PORT,HOST:PORT")
    parser.add_argument("--psk-file", help="the servers' key")
    parser.add_argument("--clients", type=int, default=4, help="connections per server")
    parser.add_argument("folder", type=pathlib.Path, help="kv_cache_benchmark of mlcommons/storage")
    parser.add_argument("arguments", nargs="*", help="after --: the benchmark's own arguments")
    options = parser.parse_args()
    cache, cli = _benchmark(options.folder.resolve())
    more = {"psk_file": options.psk_file} if options.psk_file else {}
    with Client(options.servers, namespace="mlperf", num_clients=options.clients, **more) as client:
        client.clear()  # as the benchmark removes the files of an earlier run
        storage = Storage(client, cache.StorageBackend.IOTiming)
        cache.NVMeBackend = lambda base_path=None: storage
        sys.argv = ["kv-cache.py", *options.arguments]
        cli.main()
        failed = list(storage.failed)  # threads of the benchmark outlive its report
        counters = client.counters()
        client.clear()
    print(
        f"kvrail: {counters['puts']} PUTs, {counters['gets']} GETs, {len(failed)} failed entries"
    )
    if failed:
        print(
            f"kvrail.mlperf: the figures are void, entries failed, such as {failed[0]}. "
            "Set --storage-capacity-gb to half of the servers' memory",
            file=sys.stderr,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
