# SPDX-License-Identifier: Apache-2.0
"""A kv-server for tests and trials: a child process on loopback, which ends with this process."""

from __future__ import annotations

import concurrent.futures
import fcntl
import importlib.metadata
import ipaddress
import json
import os
import pathlib
import queue
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable
from typing import TypeAlias

from ._closing import Closing
from ._errors import Error

_Process: TypeAlias = "subprocess.Popen[bytes]"
_Started: TypeAlias = "concurrent.futures.Future[_Process]"


def find_binary() -> str:
    """KVRAIL_KV_SERVER, then PATH, then the build of the source tree that contains this file, or from which it was
    installed."""
    named = os.environ.get("KVRAIL_KV_SERVER")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"KVRAIL_KV_SERVER names '{named}', which is no program")
        return named
    found = shutil.which("kv-server")
    if found:
        return found
    above = pathlib.Path(__file__).resolve().parents[2]  # the source tree, or a build's folder
    for built in (above / "build" / "release" / "kv-server", above / "kv-server"):
        if os.access(built, os.X_OK) and built.is_file():
            return str(built)
    for tree in _installed_from():
        built = tree / "build" / "release" / "kv-server"
        if (tree / "kvserver" / "main.c").is_file() and os.access(built, os.X_OK):
            return str(built)
    raise FileNotFoundError(
        "there is no kv-server: install kvrail-tools, put kv-server in PATH, or set KVRAIL_KV_SERVER to it"
    )


def _installed_from(path: str = __file__) -> list[pathlib.Path]:
    """Source trees from which pip may have installed this package: `pip install ./python`, or a wheel in build/. pip records
    the origin of a package (PEP 610)."""
    try:
        package = importlib.metadata.distribution("kvrail")
        origin = json.loads(package.read_text("direct_url.json") or "{}").get("url", "")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return []
    here = pathlib.Path(path).resolve().parent
    url = urllib.parse.urlsplit(origin)
    if url.scheme != "file" or pathlib.Path(str(package.locate_file("kvrail"))).resolve() != here:
        return []
    source = pathlib.Path(urllib.parse.unquote(url.path))
    return [source.parent, source.parent.parent]


def _forgotten(process: subprocess.Popen[bytes], starter: int) -> None:
    """At the end of the object, or the program, without stop()."""
    if os.getpid() == starter and process.poll() is None:
        process.kill()
        process.wait()


def _over(fds: list[int], path: str, maker: int) -> None:
    """At the end of the object, or the program. A child of fork() leaves the file to its parent."""
    for fd in fds:
        os.close(fd)
    if os.getpid() == maker:
        pathlib.Path(path).unlink(missing_ok=True)


class _Starter:
    """A thread that starts servers for all threads but the main one, and lives as long as the process. --die-with-parent
    watches the thread that forked, and a thread of an executor may end at any time.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._jobs: queue.SimpleQueue[tuple[_Started, Callable[[], _Process]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="kvrail-server", daemon=True).start()

    def _run(self) -> None:
        while True:
            started, start = self._jobs.get()
            try:
                started.set_result(start())
            except BaseException as error:
                started.set_exception(error)
            del started, start

    def start(self, start: Callable[[], _Process]) -> _Process:
        started: _Started = concurrent.futures.Future()
        self._jobs.put((started, start))
        return started.result()


_starter: _Starter | None = None
_starter_lock = threading.Lock()


def _start_from_a_thread_that_stays(start: Callable[[], _Process]) -> _Process:
    global _starter
    if threading.current_thread() is threading.main_thread():
        return start()
    with _starter_lock:
        if (
            _starter is None or _starter.pid != os.getpid()
        ):  # a child of fork() has no thread of its parent
            _starter = _Starter()
        starter = _starter
    return starter.start(start)


def _pipe() -> tuple[int, int]:
    """A pipe with descriptors above 2, which a child replaces or closes."""
    low = os.pipe()
    try:
        return tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in low)  # type: ignore[return-value]
    finally:
        for fd in low:
            os.close(fd)


def _hold(listen: str) -> tuple[list[int], str]:
    """A socket that is bound to the address but does not listen, and the address with its port. While it is open, the kernel
    gives the port to no outgoing connection, which would prevent the restart of a killed server. The server can bind the
    same port (both use SO_REUSEADDR). No socket if the address is wrong: the server reports the reason best."""
    host, _, port = listen.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((str(address), int(port)))
            return [os.dup(held.fileno())], f"{host}:{held.getsockname()[1]}"
    except (ValueError, OSError, OverflowError):
        return [], listen


class Server(Closing):
    """Starts a kv-server and waits until clients can connect.

    memory_mb: memory for values. listen: its address; port 0 is any free one. startup_timeout: seconds until it must be
    ready. Other keywords become options of kv-server: `worker_threads=2` is `--worker-threads=2`, `allow_pull=True` is
    `--allow-pull`. The server's log is at `.log_path` until close(). stop() drains it, kill() does not; restart() starts
    it again on the same port. Starting and stopping block; in asyncio use asyncio.to_thread. The server ends with this
    process, in every case. In a child of fork() stop(), kill() and close() do nothing. Not thread-safe.
    """

    def __init__(
        self,
        memory_mb: int = 256,
        *,
        listen: str = "127.0.0.1:0",
        startup_timeout: float = 30.0,
        binary: str | os.PathLike[str] | None = None,
        **options: object,
    ) -> None:
        self.address = ""
        self.binary = os.fspath(binary) if binary is not None else find_binary()
        self._memory_mb = memory_mb
        self._startup_timeout = startup_timeout
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._log, self.log_path = tempfile.mkstemp(prefix="kv-server-", suffix=".log")
        held, self._listen = _hold(listen)
        fds = [self._log, *held]
        self._end_guard = weakref.finalize(self, _over, fds, self.log_path, self._owner)
        try:
            self._start(self._listen)
        except BaseException:
            self._end_guard()
            raise

    # ---- start ----

    def _command(self, listen: str, ready: int) -> list[str]:
        command = [
            self.binary,
            f"--listen-addr={listen}",
            f"--memory-mb={self._memory_mb}",
            f"--ready-fd={ready}",
            "--die-with-parent",
        ]
        for name, value in {"worker_threads": 2, "log_level": "warn", **self._options}.items():
            option = "--" + name.replace("_", "-")
            if value is True:
                command.append(option)
            elif value is not None and value is not False:
                command.append(f"{option}={value}")
        return command

    def _start(self, listen: str) -> None:
        ours, theirs = _pipe()
        try:
            try:
                self._process = _start_from_a_thread_that_stays(
                    lambda: subprocess.Popen(
                        self._command(listen, theirs),
                        stdin=subprocess.DEVNULL,
                        stdout=self._log,
                        stderr=self._log,
                        pass_fds=(theirs,),
                    )
                )
            finally:
                os.close(theirs)
            self._guard = weakref.finalize(self, _forgotten, self._process, os.getpid())
            self.address = self._wait_ready(ours)
        except BaseException:
            self.kill()
            raise
        finally:
            os.close(ours)

    def _wait_ready(self, fd: int) -> str:
        deadline = time.monotonic() + self._startup_timeout
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise self._not_ready()
            piece = os.read(fd, 256)
            if not piece:
                assert self._process is not None
                try:
                    code = self._process.wait(max(deadline - time.monotonic(), 0))
                except subprocess.TimeoutExpired:  # it closed the pipe, and runs
                    raise self._not_ready() from None
                raise Error(f"kv-server ended with status {code}. Its log:\n{self.log()}")
            line += piece
        return line.decode().removeprefix("READY ").strip()

    def _not_ready(self) -> Error:
        return Error(
            f"kv-server was not ready in {self._startup_timeout} s. Its log:\n{self.log()}"
        )

    # ---- its state ----

    @property
    def pid(self) -> int:
        """Its process id; 0 if it does not run."""
        return self._process.pid if self._process else 0

    def log(self) -> str:
        """The end of its log."""
        try:
            return pathlib.Path(self.log_path).read_text(errors="replace")[-4096:]
        except FileNotFoundError:
            return ""

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # ---- end ----

    def _end(self, timeout: float) -> int | None:
        process, self._process = self._process, None
        if process is None or os.getpid() != self._owner:
            return None
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            self._guard.detach()

    def stop(self, timeout: float = 20.0) -> int | None:
        """Send SIGTERM: the server says goodbye to its clients, finishes their requests and ends; after `timeout` seconds
        it is killed. Returns its exit status; None if it did not run."""
        if self._process and os.getpid() == self._owner:
            self._process.terminate()
        return self._end(timeout)

    def kill(self) -> int | None:
        """Send SIGKILL, as if its machine had died."""
        if self._process and os.getpid() == self._owner:
            self._process.kill()
        return self._end(20.0)

    def restart(self) -> None:
        """Kill the server if it runs, and start it again, empty, at the same address."""
        self.kill()
        self._start(self.address or self._listen)

    def close(self) -> None:
        """stop(), and remove the log."""
        self.stop()
        self._end_guard()
