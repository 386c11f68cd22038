#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py -- random mutations of honest connect requests and of the headers of rxm and tcp.

port.py runs slices of it against a target and judges after each. A connection is a function of the seed of its slice and its number alone, so that what broke something can be sent
again: `mutate.py --seed N --port PORT [--first I] [--count C] [--provider NAME] [--source ADDRESS]` sends connections of slice N to a port of this machine, for a debugger.

The templates are what an honest client sends: the server answers those of a run that are left as they are, and the number of answers is told with the result.
Each message is left as it is, or some of its fields or bits are changed, or it is cut, joined, or made longer than it says.
"""
import argparse
import random
import struct
import sys
import time

import formats as f

ODD = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 64, 127, 128, 255, 256, 4095, 4096, 4097, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


class Tally:
    connections = accepted = messages = 0


def number(r):
    return r.choice(ODD) if r.random() < 0.6 else r.getrandbits(r.choice((4, 8, 16, 32, 64)))


def iovs(r, n):
    return b"".join(f.rma_iov(number(r), number(r), number(r)) for _ in range(n))


def message_tcp(r):
    """Of the tcp provider alone."""
    op = r.choice((0, 0, 1, 2, 3, 4, 4, 5, 6, 7, r.randrange(256)))
    flags = r.choice((0, f.REMOTE_CQ_DATA, f.DELIVERY_COMPLETE, f.COMMIT_COMPLETE, 5, f.TCPX_TAGGED, r.getrandbits(16)))
    n = r.randrange(5) if op in (2, 4) else 0
    extra = struct.pack("<Q", number(r)) * (flags & 1) + (struct.pack("<Q", number(r)) if op in (1, 5) else b"") + iovs(r, n)
    return f.base(op, r.randbytes(r.choice((0, 8, 64, 300, 4096))), flags, r.choice((0, 0, 2, r.randrange(256))), r.choice((n, n, r.randrange(256))), extra)


def message_rxm(r, conn):
    """An rxm packet in a message."""
    kind = r.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, r.randrange(256)))
    body = f.rndv_body([(number(r), number(r), number(r)) for _ in range(r.randrange(1, 5))]) if kind in (2, 7) and r.random() < 0.7 else r.randbytes(r.choice((0, 8, 100, 1000, 4096)))
    if r.random() < 0.2 and len(body) >= 104:
        body = body[:96] + struct.pack("<Q", number(r)) + body[104:]
    more = {name: number(r) for name in ("msg_id", "ctrl_data", "data", "tag") if r.random() < 0.5}
    if r.random() < 0.4:
        more["size"] = number(r)
    return f.base(body=f.packet(kind, body, conn=conn if r.random() < 0.7 else number(r), op=r.choice((0, 0, 0, 1, 6, 7, 8, r.randrange(256))), seg_size=r.getrandbits(16), **more))


def spoil(r, data):
    """A few bits, bytes or fields of it are others; or its end is missing."""
    out = bytearray(data)
    how = r.random()
    if how < 0.35 or not out:
        return bytes(out)
    for _ in range(r.choice((1, 1, 2, 4, 16))):
        at = min(r.randrange(len(out)), r.randrange(len(out)), r.randrange(112))  # headers rather than bodies
        width = r.choice((0, 1, 2, 4, 8))
        if width == 0:
            out[at] ^= 1 << r.randrange(8)
        else:
            out[at:at + width] = (number(r) & (1 << 8 * width) - 1).to_bytes(width, "little")[:max(0, len(out) - at)]
    return bytes(out[:r.randrange(1, len(out) + 1)] if how > 0.9 else out)


def request(r, fmt, claim):
    """A connect request: most as they should be, so that what follows is heard."""
    data = f.ctrl(f.CONNREQ, fmt.greeting(claim, pid=r.randrange(2, 1 << 22)))
    return data if r.random() < 0.75 else spoil(r, data) + r.randbytes(r.choice((0, 0, 5, 300)))


def connection(a, r, met):
    """One connection of a slice."""
    if a.place == "insider":
        line, conn = a.borrow(r.choice(a.ports))
        met.connections += 1
        met.accepted += line is not None
        if line:
            speak(a, r, met, line, conn)
        return
    line = a.line(r.choice(a.ports), wait=min(0.3, a.patience()))
    claim = r.choice(a.claims) if a.place == "twin" and a.claims and r.random() < 0.8 else r.randrange(1024, 65536)
    met.connections += 1
    if not line:
        return
    a.greeted += 1
    line.send(request(r, a.fmt, claim))
    answer = line.read(f.CTRL_BYTES)
    a.silences[0] += line.silent
    conn = None
    if len(answer) == f.CTRL_BYTES and answer[1] == f.CONNRESP:
        met.accepted += 1
        a.silences[0] = 0
        conn = a.fmt.accepted(line.read(struct.unpack_from(">H", answer, 2)[0]))
    speak(a, r, met, line, conn)


def speak(a, r, met, line, conn):
    for _ in range(r.choice((1, 1, 2, 5))):
        good = message_rxm(r, conn or 0) if a.fmt is f.Rxm and r.random() < 0.6 else message_tcp(r)
        met.messages += 1
        if not line.send(spoil(r, good)):
            break


def slice_run(a, seed, limit, met, first=0, count=1 << 30):
    """Connections of slice `seed` until `limit`, a few of them open at a time."""
    shut = 0
    for i in range(first, first + count):
        if time.monotonic() >= limit or (a.process and a.process.p.poll() is not None):
            break
        was = a.refused
        connection(a, random.Random("%d/%d" % (seed, i)), met)
        while len(a.lines) > 24:
            a.lines.pop(0).close(reset=i % 2 == 0)
        shut = shut + 1 if a.refused > was else 0
        if shut == 20:
            time.sleep(0.2)
            shut = 0


def main():
    import attacks
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--port", type=int, required=True)
    p.add_argument("--provider", default="tcp")
    p.add_argument("--source", default="127.0.0.1")
    p.add_argument("--claim", type=int, default=0)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--count", type=int, default=1 << 30)
    p.add_argument("--seconds", type=float, default=10)
    o = p.parse_args()
    a = attacks.Attacker.__new__(attacks.Attacker)
    a.fmt, a.place, a.source, a.ports, a.claims = f.FORMATS[o.provider], "twin" if o.claim else "neighbour", o.source, [o.port], [o.claim]
    a.lines, a.threads, a.process, a.greeted, a.refused, a.silences, a.short = [], [], None, 0, 0, [0], False
    met = Tally()
    slice_run(a, o.seed, time.monotonic() + o.seconds, met, o.first, o.count)
    print("seed %d: %d connections, %d accepted, %d messages" % (o.seed, met.connections, met.accepted, met.messages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
