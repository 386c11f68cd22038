#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""views.py [CLIENTS [ASKERS [CHANGES [MEMBERS]]]] -- what a change of the view costs a kv-server in processor time.

Starts build/release/kv-server (KVRAIL_BUILD: another folder) with a file of MEMBERS (1,000). CLIENTS (1,000) attach to
it and listen on their control connections; nothing else of a client is here, so that the machine carries thousands of
them. The file is changed CHANGES (10) times. Each client is told each change; ASKERS (22) of them then ask for the
whole view, as many as ask one server of 1,000 in tests/sim/test_sim_thousand.c; the others have it from elsewhere.

The processor time of the server's threads, but for its shards, is the kernel's count in the 4 seconds (with more than 500 clients: up to 13)
that begin with a change, less that of as long a time before. Printed is the median of these differences and their
range: heartbeats cost more than a change, so that some differences are below zero; view_costs.py tells apart what a
message costs. The connections are plain: TLS is not in it.
"""
import os
import selectors
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from ports import free_ports

LOOKS_S = 3  # a file is believed after two looks a second apart; then heartbeats tell (window_s)
HELLO, WELCOME, VIEW_ASK, VIEW, VIEW_NEWS = 1, 2, 25, 26, 27
BUILD = Path(os.environ.get("KVRAIL_BUILD", "build/release"))


def processor_ns(pid: int) -> int:
    """What the threads of a kv-server have used, but for its shards, which have no part in views and heartbeats."""
    return sum(int((t / "schedstat").read_text().split()[0]) for t in Path(f"/proc/{pid}/task").iterdir()
               if not (t / "comm").read_text().startswith("kv-shard"))


def read_exactly(s: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = s.recv(length - len(data))
        if not more:
            raise SystemExit("views.py: the connection ended")
        data += more
    return data


def hello_of_kv_client(server: str) -> bytes:
    """A whole HELLO message, as kv-client says it: provider, sizes and address are those that the server expects."""
    door = socket.create_server(("127.0.0.1", 0))
    where = f"127.0.0.1:{door.getsockname()[1]}"
    client = subprocess.Popen([BUILD / "kv-client", "--server", where, "--provider", "tcp", "stat"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    door.settimeout(20)
    s, _ = door.accept()
    length = read_exactly(s, 4)
    message = length + read_exactly(s, struct.unpack("<I", length)[0])
    client.kill()
    client.wait()
    s.close()
    return message


class Client:
    """One attachment. It counts the changes that it was told of and the views that it was given."""

    def __init__(self, server: str, hello: bytes, number: int, asks: bool):
        host, port = server.rsplit(":", 1)
        self.asks, self.data, self.told, self.given = asks, b"", 0, 0
        self.s = socket.create_connection((host, int(port)))
        message = bytearray(hello)
        struct.pack_into("<Q", message, 16, number + 1)  # incarnation
        struct.pack_into("<Q", message, 40, number + 1)  # client id
        self.s.sendall(message)
        welcome = self.read_message()
        if welcome != WELCOME:
            raise SystemExit(f"views.py: client {number} was answered by a message of type {welcome}, not by WELCOME")
        self.ask()

    def read_message(self) -> int:
        length, = struct.unpack("<I", read_exactly(self.s, 4))
        return struct.unpack_from("<H", read_exactly(self.s, length))[0]

    def ask(self) -> None:
        self.s.sendall(struct.pack("<IHHQQ", 20, VIEW_ASK, 0, 0, 0))

    def on_bytes(self) -> None:
        more = self.s.recv(1 << 18)
        if not more:
            raise SystemExit("views.py: the server has closed a client's connection")
        self.data += more
        while len(self.data) >= 8:
            length, kind = struct.unpack_from("<IH", self.data)
            if len(self.data) < 4 + length:
                break
            self.data = self.data[4 + length:]
            self.on_message(kind)

    def on_message(self, kind: int) -> None:
        if kind == VIEW:
            self.given += 1
        elif kind == VIEW_NEWS:
            self.told += 1
            if self.asks:
                self.ask()


class Crowd:
    def __init__(self, server: str, count: int, askers: int):
        hello = hello_of_kv_client(server)
        self.clients = [Client(server, hello, i, i < askers) for i in range(count)]
        self.askers, self.selector = askers, selectors.DefaultSelector()
        for c in self.clients:
            c.s.setblocking(False)
            self.selector.register(c.s, selectors.EVENT_READ, c)

    def listen(self, until) -> None:
        """Read what comes until `until()` is true."""
        while not until():
            for key, _ in self.selector.select(0.05):
                key.data.on_bytes()

    def listen_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.listen(lambda: time.monotonic() >= end)

    def has_change(self, number: int) -> bool:
        """All were told of it, and the askers have the view: one for each change, beside the first."""
        return all(c.told >= number and (not c.asks or c.given > number) for c in self.clients)


def members_write(path: Path, server: str, count: int, zone: int) -> None:
    """The server itself and `count` - 1 others, one of which changes its zone. Renamed: no half of it is read."""
    lines = [f"server={server};zone=z-1"]
    lines += [f"kv-server-{i:04}.example=192.0.2.{i % 250}:{7411 + i};zone=z-{zone if i == 1 else 1}"
              for i in range(1, count)]
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n")
    fresh.rename(path)


def server_start(members: Path, count: int, clients: int, *more: str) -> tuple[subprocess.Popen, str]:
    log = members.with_suffix(".log")
    address = f"127.0.0.1:{free_ports()[0]}"  # it stands in the file that the server reads at its start
    members_write(members, address, count, 1)
    ready, told = os.pipe()
    server = subprocess.Popen([BUILD / "kv-server", "--listen-addr", address, "--provider", "tcp", "--memory-mb", "64",
                               "--worker-threads", "1", "--max-clients", str(clients + 16), "--node-id", "server",
                               "--members", f"file:{members}", "--log-level", "error", "--ready-fd", str(told),
                               "--die-with-parent", *more], pass_fds=[told], stdout=subprocess.DEVNULL, stderr=log.open("wb"))
    os.close(told)
    line = os.read(ready, 100).decode().split()
    os.close(ready)
    if not line:
        raise SystemExit(f"views.py: kv-server did not start: {log.read_text()}")
    return server, line[1]


def window_s(clients: int) -> float:
    """As long as a change takes to be told: so long a server may say nothing to each of so many idle clients."""
    return LOOKS_S + min(max(clients / 500, 1), 10)


def window_ns(server: subprocess.Popen, crowd: Crowd) -> int:
    before = processor_ns(server.pid)
    crowd.listen_for(window_s(len(crowd.clients)))
    return processor_ns(server.pid) - before


def measure(server: subprocess.Popen, crowd: Crowd, change, changes: int) -> None:
    """change(NUMBER) changes the view."""
    idle, more = [], []
    crowd.listen(lambda: all(c.given for c in crowd.clients))
    crowd.listen_for(3)
    for c in crowd.clients:
        c.told, c.given = 0, 1
    for number in range(1, changes + 1):
        idle.append(window_ns(server, crowd))
        change(number)
        more.append(window_ns(server, crowd) - idle[-1])
        if not crowd.has_change(number):
            raise SystemExit(f"views.py: change {number} did not reach all clients in time")
    cost = statistics.median(more)
    print(f"{len(crowd.clients):,} clients, {crowd.askers} ask; {changes} changes. Without a change the server takes "
          f"{statistics.median(idle) / window_s(len(crowd.clients)) / 1e7:.2f} % of a core")
    print(f"a change: {cost / 1e6:.2f} ms ({min(more) / 1e6:.2f} to {max(more) / 1e6:.2f}), "
          f"{cost / 2e7:.2f} % of a core in 2 s")


def main(argv: list[str]) -> None:
    clients, askers, changes, count = (int(v) for v in argv[1:] + ["1000", "22", "10", "1000"][len(argv) - 1:])
    with tempfile.TemporaryDirectory() as folder:
        members = Path(folder) / "members"
        server, address = server_start(members, count, clients)
        try:
            crowd = Crowd(address, clients, min(askers, clients))
            measure(server, crowd, lambda n: members_write(members, address, count, n + 1), changes)
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


if __name__ == "__main__":
    main(sys.argv)
