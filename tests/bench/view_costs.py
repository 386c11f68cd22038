#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""view_costs.py [CLIENTS [ROUNDS [MEMBERS]]] -- what each message about a view costs a kv-server in processor time.

Starts build/release/kv-server (KVRAIL_BUILD: another folder) with a file of MEMBERS (1,000), and heartbeats a minute
apart, so that it says nothing unasked. CLIENTS (1,000) attach. In each of ROUNDS (10):

  heartbeat  each client asks, one after the other, and is answered by a heartbeat
  change     the file is changed; a client asks for the view until the server has the new one
  news       each client asks, and the answer brings the news, in the same write
  view       one client asks for the view, 100 times

Printed are medians and ranges of what one of each took. The processor time is the kernel's count for all threads but
the shards', less what they take in as long a time without a message. Last comes the sum of 2 s with 10,000 clients and 1,000 servers:
heartbeats that leave anyway tell 2,000 of the clients, 25 ask (tests/sim/test_sim_thousand.c).
"""
import signal
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

from views import Crowd, members_write, processor_ns, read_exactly, server_start

HEARTBEAT, VIEW, VIEW_NEWS = 10, 26, 27
QUESTION = struct.pack("<IHHQQHHI", 28, HEARTBEAT, 0, 1, 0, 0, 0, 0)
VIEWS, TOLD, ASKERS = 100, 2000, 25


def message(client) -> tuple[int, bytes]:
    length, = struct.unpack("<I", read_exactly(client.s, 4))
    data = read_exactly(client.s, length)
    return struct.unpack_from("<H", data)[0], data


def message_of(client, kind: int) -> bytes:
    while True:
        got, data = message(client)
        if got == kind:
            return data


class Meter:
    """Processor time of a server, without what it takes when nobody asks."""

    def __init__(self, pid: int):
        self.pid, self.idle = pid, 0.0

    def look(self) -> None:
        """Measure again what it takes when nobody asks."""
        began, before = time.monotonic(), processor_ns(self.pid)
        time.sleep(3)
        self.idle = (processor_ns(self.pid) - before) / (time.monotonic() - began)

    def of(self, work) -> float:
        began, before = time.monotonic(), processor_ns(self.pid)
        work()
        return processor_ns(self.pid) - before - self.idle * (time.monotonic() - began)


def ask_all(crowd: Crowd, also: int | None) -> None:
    for c in crowd.clients:
        c.s.sendall(QUESTION)
        message_of(c, HEARTBEAT)
        if also is not None:
            message_of(c, also)


def ask_view(client, times: int) -> None:
    for _ in range(times):
        client.ask()
        message_of(client, VIEW)


def change(client, write) -> None:
    """Until the server has it: its whole view differs from what it was."""
    client.ask()
    before = message_of(client, VIEW)
    write()
    while True:
        time.sleep(0.25)
        client.ask()
        if message_of(client, VIEW) != before:
            return


def rounds(meter: Meter, crowd: Crowd, write, count: int) -> dict[str, list[float]]:
    cost: dict[str, list[float]] = {"heartbeat": [], "change": [], "news": [], "view": []}
    one = crowd.clients.pop()  # it asks for views, so it is not told
    for c in [one, *crowd.clients]:
        c.s.setblocking(True)
        message_of(c, VIEW)
    ask_all(crowd, None)
    for number in range(1, count + 1):
        meter.look()
        cost["heartbeat"].append(meter.of(lambda: ask_all(crowd, None)) / len(crowd.clients))
        cost["view"].append(meter.of(lambda: ask_view(one, VIEWS)) / VIEWS)
        asked = time.monotonic()
        took = meter.of(lambda: change(one, lambda: write(number)))
        asked = 1 + (time.monotonic() - asked) // 0.25
        cost["change"].append(took - asked * cost["view"][-1])
        cost["news"].append(meter.of(lambda: ask_all(crowd, VIEW_NEWS)) / len(crowd.clients) - cost["heartbeat"][-1])
    return cost


def report(cost: dict[str, list[float]], members: int) -> None:
    mid = {what: statistics.median(v) for what, v in cost.items()}
    for what, v in cost.items():
        print(f"{what:9} {mid[what] / 1e3:9.2f} us ({min(v) / 1e3:.2f} to {max(v) / 1e3:.2f})")
    whole = mid["change"] + ASKERS * mid["view"] + TOLD * mid["news"]
    print(f"a change of {members:,} members, {TOLD:,} clients told, {ASKERS} answered: {whole / 1e6:.1f} ms, "
          f"{whole / 2e7:.2f} % of a core in 2 s")


def main(argv: list[str]) -> None:
    clients, count, members = (int(v) for v in argv[1:] + ["1000", "10", "1000"][len(argv) - 1:])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "members"
        server, address = server_start(file, members, clients, "--heartbeat-ms", "60000")
        try:
            crowd = Crowd(address, clients, 0)
            cost = rounds(Meter(server.pid), crowd, lambda n: members_write(file, address, members, n + 1), count)
            report(cost, members)
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


if __name__ == "__main__":
    main(sys.argv)
