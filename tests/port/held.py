#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""held.py -- hold N TLS handshakes open at a control port: each connection sends a whole ClientHello, reads what comes and never goes on.

usage: held.py HOST PORT N SECONDS [churn|burst]

One that the server ends is made again at once, so that N are held all the time. The last line says how many ClientHellos were sent and how
many were answered. churn: each is given up as soon as it is answered, so that the server always has N more to compute. burst: N
connections are made, and a second later all say their ClientHello at once; then again. On loopback it comes from 127.0.0.2. It brings no credential, and computes next to nothing: all of them send the bytes of one ClientHello."""
import resource
import selectors
import socket
import ssl
import sys
import time


def client_hello():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Held:
    def __init__(self, address, hello, mode):
        self.address, self.hello, self.churn, self.burst = address, hello, mode == "churn", mode == "burst"
        self.selector = selectors.DefaultSelector()
        self.sent = self.answered = self.open = 0

    def begin(self):
        s = socket.socket()
        s.bind(("127.0.0.2", 0) if self.address[0] == "127.0.0.1" else ("", 0))
        s.setblocking(False)
        s.connect_ex(self.address)
        # What the connection is at: not yet sent, sent, answered.
        self.selector.register(s, selectors.EVENT_WRITE, "new")
        self.open += 1

    def end(self, s):
        self.selector.unregister(s)
        s.close()
        self.open -= 1

    def step(self, key):
        s = key.fileobj
        try:
            if key.data == "new":
                s.send(self.hello)
                self.sent += 1
                self.selector.modify(s, selectors.EVENT_READ, "sent")
                return
            if not s.recv(65536):
                return self.end(s)
        except OSError:
            return self.end(s)
        if key.data == "sent":
            self.answered += 1
            if self.churn:
                return self.end(s)
            self.selector.modify(s, selectors.EVENT_READ, "answered")

    def run_bursts(self, count, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            while self.open < count:
                self.begin()
            time.sleep(1)
            hold = time.monotonic() + 4
            while time.monotonic() < hold:
                for key, _ in self.selector.select(0.05):
                    self.step(key)
            for key in list(self.selector.get_map().values()):
                self.end(key.fileobj)

    def run(self, count, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            while self.open < count:
                self.begin()
            for key, _ in self.selector.select(0.05):
                self.step(key)


def main():
    host, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = Held((host, port), client_hello(), sys.argv[5] if len(sys.argv) > 5 else "held")
    (held.run_bursts if held.burst else held.run)(count, seconds)
    print(f"{count} held for {seconds:g} s: {held.sent} ClientHellos, {held.answered} answered")


main()
