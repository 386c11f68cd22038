# SPDX-License-Identifier: Apache-2.0
"""Errors: one class for each code of codes.h, all below Error."""

from __future__ import annotations

import errno


class Error(Exception):
    """A failure in the library or at a server. `code` is the negative code, `name` its name. After a call with several keys
    `results` has the result of each."""

    code: int = 0
    name: str = "KV_ERROR"
    results: list[int] | None = None

    def __init__(self, text: str = "", code: int = 0, name: str = "") -> None:
        super().__init__(text)
        if code:
            self.code = code
        if name:
            self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.code, self.name), self.__dict__)


class Timeout(Error):
    """The deadline has passed."""

    code, name = -1001, "KV_ETIMEOUT"


class Canceled(Error):
    """Cancelled before it took effect."""

    code, name = -1002, "KV_ECANCELED"


class PeerDown(Error):
    """The server is not reachable, or died during the call."""

    code, name = -1003, "KV_EPEERDOWN"


class NotFound(Error):
    """No such key: a miss."""

    code, name = -1004, "KV_ENOTFOUND"


class Exists(Error):
    """Another value is stored under this key already."""

    code, name = -1005, "KV_EEXIST"


class Busy(Error):
    """A bounded queue or budget is full, or the object is in use: try again later."""

    code, name = -1006, "KV_EBUSY"


class Corrupt(Error):
    """A checksum did not match, or no key of ours sealed the value; no byte was delivered as good."""

    code, name = -1007, "KV_ECORRUPT"


class Denied(Error):
    """The key or certificate was refused."""

    code, name = -1008, "KV_EDENIED"


class TooBig(Error):
    """Longer than the destination, the limit or the memory allows."""

    code, name = -1009, "KV_ETOOBIG"


class Invalid(Error):
    """An argument or option is wrong."""

    code, name = -1010, "KV_EINVAL"


class NoMemory(Error):
    """No memory in this process, or no room at the server."""

    code, name = -1011, "KV_ENOMEM"


class Protocol(Error):
    """The peer broke the protocol."""

    code, name = -1012, "KV_EPROTO"


class Version(Error):
    """Release, provider or eager size of the two sides do not match."""

    code, name = -1013, "KV_EVERSION"


class Closed(Error):
    """The client is closed, or belongs to the parent of this process."""

    code, name = -1014, "KV_ECLOSED"


class Limit(Error):
    """A limit of the machine or of KVRail is reached; the text says which."""

    code, name = -1015, "KV_ELIMIT"


class Full(Error):
    """The server admits no more clients."""

    code, name = -1016, "KV_EFULL"


class NotSupported(Error):
    """This build, provider or server cannot do it."""

    code, name = -1017, "KV_ENOTSUP"


class Stale(Error):
    """The block changed while it was read."""

    code, name = -1018, "KV_ESTALE"


class Reset(Error):
    """The endpoint was rebuilt under the operation."""

    code, name = -1019, "KV_ERESET"


class Provider(Error):
    """The fabric provider failed."""

    code, name = -1020, "KV_EPROVIDER"


class Internal(Error):
    """A bug of KVRail, contained."""

    code, name = -1021, "KV_EINTERNAL"


class Left(Error):
    """The server said goodbye: it ends, and its values with it."""

    code, name = -1022, "KV_ELEFT"


class Deleted(Error):
    """The key was deleted lately, or its value replaced. Used between servers; callers see a miss."""

    code, name = -1023, "KV_EDELETED"


class Tier(Error):
    """The value is on the server's tier, and not in its memory. Only calls with memory_only get it."""

    code, name = -1024, "KV_ETIER"


BY_CODE: dict[int, type[Error]] = {cls.code: cls for cls in Error.__subclasses__()}


# Errors of the system about files and limits have no code of ours: the class with the fitting remedy.
_OF_ERRNO: dict[int, type[Error]] = {
    **dict.fromkeys(
        (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL),
        Invalid,
    ),
    **dict.fromkeys((errno.EACCES, errno.EPERM), Denied),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), Limit),
    errno.ENOMEM: NoMemory,
}


def make(code: int, text: str = "") -> Error:
    """The exception for a code, with the library's sentence unless `text` is given. An errno keeps its code and name."""
    from . import _native

    cls = BY_CODE.get(code) or _OF_ERRNO.get(-code, Error)
    name = cls.name if code in BY_CODE else _native.errname(code)
    return cls(text or _native.strerror(code), code, name)
