# SPDX-License-Identifier: Apache-2.0
"""KVRail: blocks of KV cache in the memory of cache servers, over libfabric.

    with kvrail.Client("10.0.0.1:7411") as client:
        client.put("key", b"value")
        client.get("key")

Client blocks; aio.Client is for asyncio; _native.Client submits and drains. docs/guide/python.md is the guide.
"""

import atexit as _atexit

from ._signals import Kept as _Kept

try:
    with _Kept():
        from . import _native
except ImportError as _error:
    if "interpreter" in str(_error):  # a sub-interpreter; no library is missing
        raise
    raise ImportError(
        f"kvrail's extension is not there or cannot be loaded: {_error}. If that is libkvrail, tell the "
        "loader where it is (ldconfig, LD_LIBRARY_PATH), or run `KVRAIL_LIBRARY=tree pip install` in the "
        "source tree. It also needs libfabric, liburing, OpenSSL 3 and libxxhash of this system "
        "(Debian and Ubuntu: apt-get install libfabric1 liburing2 libssl3 libxxhash0)"
    ) from _error

from ._errors import (
    Busy,
    Canceled,
    Closed,
    Corrupt,
    Deleted,
    Denied,
    Error,
    Exists,
    Full,
    Internal,
    Invalid,
    Left,
    Limit,
    NoMemory,
    NotFound,
    NotSupported,
    PeerDown,
    Protocol,
    Provider,
    Reset,
    Stale,
    Tier,
    Timeout,
    TooBig,
    Version,
)
from ._native import Region, View, key_fold, program_setup
from . import aio, keys
from ._events import Event
from .client import Client
from .server import Server

__all__ = [
    "Busy",
    "Canceled",
    "Client",
    "Closed",
    "Corrupt",
    "Deleted",
    "Denied",
    "Error",
    "Event",
    "Exists",
    "Full",
    "Internal",
    "Invalid",
    "Left",
    "Limit",
    "NoMemory",
    "NotFound",
    "NotSupported",
    "PeerDown",
    "Protocol",
    "Provider",
    "Region",
    "Reset",
    "Server",
    "Stale",
    "Tier",
    "Timeout",
    "TooBig",
    "Version",
    "View",
    "aio",
    "key_fold",
    "keys",
    "program_setup",
]

__version__: str = _native.version

# A client that is open when the interpreter ends would go on to use memory of objects that are gone.
_atexit.register(_native.close_all)
