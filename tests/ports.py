#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ports.py [N] -- prints the first of N ports in a row for servers that are told their port before they start.

The kernel gives none of them to a connection: it could, between our look and the server's bind, if they were of
ip_local_port_range. Where a server takes port 0 and tells which it got, that is better still.
"""

import pathlib
import random
import socket
import sys

FIRST, LAST, ENOUGH = 10000, 65535, 1000
_given = set()  # by this process, whose servers may not have begun


def outside(low, high):
    """Of the ports below those of the kernel and those above, the larger part. Where both are small, all ports."""
    parts = range(FIRST, low), range(max(high + 1, FIRST), LAST + 1)
    largest = max(parts, key=len)
    return largest if len(largest) >= ENOUGH else range(FIRST, LAST + 1)


def ours():
    path = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
    return outside(*map(int, path.read_text(encoding="ascii").split()))


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("", port))
        except OSError:
            return False
    return True


def free_ports(count=1):
    """A list of so many ports in a row that nobody has."""
    among = ours()
    while True:
        first = random.randrange(among.start, among.stop - count)
        row = range(first, first + count)
        if _given.isdisjoint(row) and all(map(is_free, row)):
            _given.update(row)
            return list(row)


if __name__ == "__main__":
    print(free_ports(int(sys.argv[1]) if len(sys.argv) > 1 else 1)[0])
