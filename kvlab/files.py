# SPDX-License-Identifier: Apache-2.0
"""files.py -- files that appear whole or not at all: a file gets its name when it is complete and on disk."""
import os
import stat

from document import Refused


def _open(path):
    """(descriptor, the temporary file or None). Devices, pipes and terminals ("-": standard output) are written where they
    are: a rename over /dev/stdout would replace it."""
    if path == "-":
        return os.dup(1), None
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC), None
    temporary = f"{path}.{os.getpid()}.tmp"
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), temporary


def _failed(what, path, error):
    return Refused(f"{what} {path} cannot be written: {error.strerror}")


def try_open(path, what):
    """Whether the file can be written later."""
    try:
        fd, temporary = _open(path)
    except OSError as error:
        raise _failed(what, path, error) from None
    os.close(fd)
    if temporary:
        os.unlink(temporary)


def write(path, what, make):
    """Open the file first, so that a wrong path costs nothing, then write the bytes that make() returns."""
    temporary = None
    try:
        fd, temporary = _open(path)
        with os.fdopen(fd, "wb") as f:
            f.write(make())
            f.flush()
            if temporary:
                os.fsync(fd)
        if temporary:
            os.rename(temporary, path)
            temporary = None
    except BrokenPipeError:
        pass  # as with | head: the reader has enough
    except OSError as error:
        raise _failed(what, path, error) from None
    finally:
        if temporary:
            os.unlink(temporary)
