# SPDX-License-Identifier: Apache-2.0
"""members_fakes.py -- an etcd, a Kubernetes API server and a name server of some lines each, for members.py.

They speak what kvserver/member speaks to them, and do on demand what the real ones do on bad days.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import socket
import socketserver
import ssl
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def unb64(text: str) -> str:
    return base64.b64decode(text).decode()


class Server(ThreadingHTTPServer):
    """Listens on a port of its own; `hung` leaves every call unanswered, as if stopped."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, owner: Any, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self, status: int, body: Any) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def begin_stream(self) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()

            def line(self, body: Any) -> None:
                text = json.dumps(body).encode() + b"\n"
                # Half a line in each chunk: pieces must be put together again.
                for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()

            def run(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                while owner.hung and not owner.closed:
                    time.sleep(0.02)
                try:
                    owner.serve(self, json.loads(body) if body else {})
                except (BrokenPipeError, ConnectionError, ssl.SSLError, ValueError):
                    self.close_connection = True

            do_POST = do_GET = run

        super().__init__(("127.0.0.1", port), Handler)
        if tls:
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, *_: Any) -> None:  # connections that break are what this is for
        pass


class FakeEtcd:
    """Keys with leases and revisions, a watch whose history can be compacted, users, tokens."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.revision, self.compacted, self.lease_next, self.token_next = 1, 0, 7, 1
        self.keys: dict[str, tuple[str, int, int]] = {}  # value, mod_revision, lease
        self.leases: dict[int, list[float]] = {}  # seconds, until
        self.history: list[tuple[int, dict[str, Any]]] = []
        self.tokens: set[str] | None = None  # None: no authentication
        self.password = "secret"
        self.hung = self.closed = self.mute = False  # mute: watches get no event
        self.watches, self.put_pause_s = 0, 0.0
        self.full = self.headless = False
        self.readonly = False  # transactions are refused
        self.server = Server(self)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.expire, daemon=True).start()

    # ---- what a test does to it ----
    def kill(self) -> None:
        self.closed = True
        self.server.shutdown()
        self.server.server_close()

    def stop(self) -> None:
        self.hung = True

    def go_on(self) -> None:
        self.hung = False

    def lose_leader(self) -> None:
        self.headless = True

    def elect(self) -> None:
        """The new leader gives all leases their time again."""
        with self.lock:
            for lease in self.leases.values():
                lease[1] = time.monotonic() + lease[0]
            self.headless = False

    def revoke_all(self) -> None:
        with self.lock:
            for lease in list(self.leases):
                self.lease_end(lease)

    def delete(self, key: str) -> None:
        with self.lock:
            self.key_end(key)

    def put(self, key: str, value: str) -> None:
        with self.lock:
            self.key_put(key, value, 0)

    def begin_anew(self, backup: tuple[int, dict[str, tuple[str, int, int]]] | None = None) -> None:
        """All data are lost, or as in the backup; watches break and leases are gone. The cluster id is the same."""
        with self.lock:
            self.revision, self.keys = backup if backup else (1, {})
            self.keys = {k: v for k, v in self.keys.items() if v[2] == 0}
            self.leases.clear()
            self.compacted = 0
            self.history = [(0, {})] * len(self.history) + [(0, {"cut": True})]

    def backup(self) -> tuple[int, dict[str, tuple[str, int, int]]]:
        with self.lock:
            return self.revision, dict(self.keys)

    def cut_and_compact(self) -> None:
        """Watches break, and what they missed is compacted before they are back."""
        with self.lock:
            self.put("/elsewhere", "x")
            self.compacted = self.revision
            self.history.append((0, {"cut": True}))

    def auth(self) -> None:
        with self.lock:
            self.tokens = set()

    def change_password(self, password: str) -> None:
        self.password = password
        self.forget_tokens()

    def forget_tokens(self) -> None:
        self.auth()
        with self.lock:
            self.history.append((0, {"cut": True}))

    # ---- inside ----
    def expire(self) -> None:
        while not self.closed:
            time.sleep(0.05)
            with self.lock:
                now = time.monotonic()
                for lease in [k for k, v in self.leases.items() if v[1] < now and not self.hung and not self.headless]:
                    self.lease_end(lease)

    def lease_end(self, lease: int) -> None:
        del self.leases[lease]
        for key in [k for k, v in self.keys.items() if v[2] == lease]:
            self.key_end(key)

    def key_end(self, key: str) -> None:
        self.revision += 1
        del self.keys[key]
        kv = {"key": b64(key), "mod_revision": str(self.revision)}
        self.history.append((self.revision, {"type": "DELETE", "kv": kv}))

    def key_put(self, key: str, value: str, lease: int) -> None:
        self.revision += 1
        self.keys[key] = (value, self.revision, lease)
        kv = {"key": b64(key), "value": b64(value), "mod_revision": str(self.revision)}
        self.history.append((self.revision, {"kv": kv}))

    def header(self) -> dict[str, Any]:
        return {"cluster_id": "1", "revision": str(self.revision)}

    def serve(self, h: Any, body: dict[str, Any]) -> None:
        path = urlsplit(h.path).path
        if path == "/v3/watch":
            self.watch(h, body["create_request"])
            return
        with self.lock:
            answer = self.unary(path, body, h.headers.get("Authorization"))
        if path == "/v3/kv/put":
            time.sleep(self.put_pause_s)
        h.answer(*answer)

    def unary(self, path: str, body: dict[str, Any], token: str | None) -> tuple[int, Any]:
        def error(status: int, code: int, text: str) -> tuple[int, Any]:
            return status, {"error": text, "code": code, "message": text}

        if self.headless:
            return error(503, 14, "etcdserver: no leader")
        if path == "/v3/auth/authenticate":
            if self.tokens is None:
                return error(400, 9, "etcdserver: authentication is not enabled")
            if body["password"] != self.password:
                return error(
                    400, 3, "etcdserver: authentication failed, invalid user ID or password"
                )
            self.token_next += 1
            self.tokens.add(f"token.{self.token_next}")
            return 200, {"header": self.header(), "token": f"token.{self.token_next}"}
        if path == "/v3/lease/keepalive":  # who has no token may renew, as with the real one
            lease = self.leases.get(int(body["ID"]))
            if not lease:
                return 200, {"result": {"header": self.header(), "ID": body["ID"]}}
            lease[1] = time.monotonic() + lease[0]
            return 200, {
                "result": {"header": self.header(), "ID": body["ID"], "TTL": str(int(lease[0]))}
            }
        if self.tokens is not None and token is None:
            return error(400, 3, "etcdserver: user name is empty")
        if self.tokens is not None and token not in self.tokens:
            return error(401, 16, "etcdserver: invalid auth token")
        if self.full and path in ("/v3/lease/grant", "/v3/kv/put"):
            return error(429, 8, "etcdserver: mvcc: database space exceeded")
        if path == "/v3/lease/grant":
            self.lease_next += 1
            seconds = max(2, int(body["TTL"]))
            self.leases[self.lease_next] = [seconds, time.monotonic() + seconds]
            return 200, {"header": self.header(), "ID": str(self.lease_next), "TTL": str(seconds)}
        if path == "/v3/lease/revoke":
            if int(body["ID"]) in self.leases:
                self.lease_end(int(body["ID"]))
            return 200, {"header": self.header()}
        if path == "/v3/kv/put":
            if int(body["lease"]) not in self.leases:
                return error(404, 5, "etcdserver: requested lease not found")
            self.key_put(unb64(body["key"]), unb64(body["value"]), int(body["lease"]))
            return 200, {"header": self.header()}
        if path == "/v3/kv/txn":
            (want,), (do,) = body["compare"], body["success"]
            assert (want["target"], want["result"], want["create_revision"]) == ("CREATE", "EQUAL", "0")
            if self.readonly:
                return error(403, 7, "etcdserver: permission denied")
            good = unb64(want["key"]) not in self.keys
            if good:
                self.key_put(unb64(do["request_put"]["key"]), unb64(do["request_put"]["value"]), 0)
            return 200, {"header": self.header(), **({"succeeded": True} if good else {})}
        if path == "/v3/kv/range":
            first, end = unb64(body["key"]), unb64(body["range_end"])
            kvs = [
                {"key": b64(k), "value": b64(v[0]), "mod_revision": str(v[1])}
                for k, v in sorted(self.keys.items())
                if first <= k < end
            ]
            return 200, (
                {"header": self.header(), "kvs": kvs, "count": str(len(kvs))}
                if kvs
                else {"header": self.header()}
            )
        return error(404, 5, "Not Found")

    def watch(self, h: Any, request: dict[str, Any]) -> None:
        first, end = unb64(request["key"]), unb64(request["range_end"])
        start = int(request["start_revision"])
        h.begin_stream()
        with self.lock:
            if self.tokens is not None and h.headers.get("Authorization") not in self.tokens:
                h.line(
                    {
                        "result": {
                            "header": self.header(),
                            "watch_id": "-1",
                            "created": True,
                            "canceled": True,
                            "cancel_reason": "rpc error: code = "
                            "Unauthenticated desc = etcdserver: invalid auth token",
                        }
                    }
                )
                start = 1 << 60  # and the stream stays open
            else:
                h.line({"result": {"header": self.header(), "created": True}})
            if start <= self.compacted:
                h.line(
                    {
                        "result": {
                            "header": self.header(),
                            "canceled": True,
                            "compact_revision": str(self.compacted),
                        }
                    }
                )
                start = 1 << 60
            self.watches += 1
            at = 0 if start <= self.revision else len(self.history)
        while not self.closed:
            time.sleep(0.01)
            if self.hung:
                continue
            with self.lock:
                news, at = self.history[at:], len(self.history)
                events = [e for r, e in news if r >= start and first <= unb64(e["kv"]["key"]) < end]
                cut = any("cut" in e for _, e in news)
            if events and not self.mute:
                for i, event in enumerate(events):  # one by one, as fragments; the last one twice
                    more = {"fragment": True} if i + 1 < len(events) else {}
                    h.line({"result": {"header": self.header(), "events": [event], **more}})
                h.line({"result": {"header": self.header(), "events": [events[-1]]}})
            if cut:
                h.close_connection = True
                h.connection.close()
                return


class FakeKube:
    """EndpointSlices of one service: list, watch, bookmarks, 410."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.lock = threading.RLock()
        self.version, self.oldest = 100, 0
        self.slices: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, dict[str, Any]]] = []
        self.token = "first"
        self.hung = self.closed = self.mute = self.broken = False
        self.cuts = self.lists = self.watches = 0
        self.refusing = False  # each watch is answered 410, whatever it asks for
        self.status, self.rubbish = 200, None  # of lists: another status, another body
        self.server = Server(self, tls)

    def kill(self) -> None:
        self.closed = True
        self.server.shutdown()
        self.server.server_close()

    def put(self, name: str, endpoints: list[dict[str, Any]], **more: Any) -> None:
        with self.lock:
            self.version += 1
            kind = "MODIFIED" if name in self.slices else "ADDED"
            item = {
                "metadata": {"name": name, "resourceVersion": str(self.version)},
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": [{"name": "kvrail", "port": 7411}, {"name": "http", "port": 80}],
                **more,
            }
            self.slices[name] = item
            self.history.append((self.version, {"type": kind, "object": item}))

    def delete(self, name: str) -> None:
        with self.lock:
            self.version += 1
            item = self.slices.pop(name)
            item["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((self.version, {"type": "DELETED", "object": item}))

    def bookmark(self) -> None:
        with self.lock:
            self.version += 1
            self.history.append(
                (
                    self.version,
                    {
                        "type": "BOOKMARK",
                        "object": {"metadata": {"resourceVersion": str(self.version)}},
                    },
                )
            )

    def cut(self, broken: bool = False) -> None:
        """Watches end: in peace, as they do each five minutes, or broken off."""
        self.broken = broken
        self.cuts += 1

    def forget(self) -> None:
        """Versions before this one are gone: a watch from one of them is answered 410."""
        with self.lock:
            self.version += 1
            self.oldest = self.version

    def serve(self, h: Any, _: dict[str, Any]) -> None:
        url = urlsplit(h.path)
        query = parse_qs(url.query)
        if h.headers.get("Authorization") != f"Bearer {self.token}":
            h.answer(401, {"kind": "Status", "code": 401, "message": "Unauthorized"})
        elif url.path != "/apis/discovery.k8s.io/v1/namespaces/prod/endpointslices" or query[
            "labelSelector"
        ] != ["kubernetes.io/service-name=kv"]:
            h.answer(404, {"kind": "Status", "code": 404, "message": f"no {h.path}"})
        elif "watch" in query:
            self.watch(h, int(query["resourceVersion"][0]))
        elif self.status != 200 or self.rubbish is not None:
            self.lists += 1
            h.answer(self.status, self.rubbish or {"kind": "Status", "message": "not now"})
        else:
            with self.lock:
                self.lists += 1
                h.answer(
                    200,
                    {
                        "metadata": {"resourceVersion": str(self.version)},
                        "items": list(self.slices.values()),
                    },
                )

    def watch(self, h: Any, version: int) -> None:
        h.begin_stream()
        cuts = self.cuts
        with self.lock:
            self.watches += 1
            if version < self.oldest or self.refusing:
                h.line(
                    {
                        "type": "ERROR",
                        "object": {
                            "kind": "Status",
                            "metadata": {},
                            "code": 410,
                            "message": "too old resource version",
                        },
                    }
                )
                h.wfile.write(b"0\r\n\r\n")
                return
        while not self.closed and self.cuts == cuts:
            time.sleep(0.01)
            if self.mute or self.hung:
                continue
            with self.lock:
                news = [e for v, e in self.history if v > version]
                version = max([version] + [v for v, _ in self.history])
            for event in news:
                h.line(event)
        if not self.broken:
            h.wfile.write(b"0\r\n\r\n")
        h.close_connection = True
        h.connection.close()


class FakeDns:
    """A name server on port 53 of 127.0.0.1, over UDP and TCP: addresses of one name, and names of addresses.

    mode: ok; servfail; nxdomain; silent. Of the address `unsaid` it does not say the name. What does not fit 512 bytes is cut over UDP, and comes whole over TCP.
    """

    def __init__(self, name: str) -> None:
        self.name, self.mode = name.lower().rstrip("."), "ok"
        self.addresses: list[str] = []
        self.unsaid = ""
        self.names: dict[str, str] = {}
        self.asked = {"udp": 0, "tcp": 0}
        dns = self

        class Udp(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                query, sock = self.request
                answer = dns.answer(query, "udp")
                if answer:
                    sock.sendto(answer, self.client_address)

        class Tcp(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while len(head := self.rfile.read(2)) == 2:
                    answer = dns.answer(self.rfile.read(struct.unpack("!H", head)[0]), "tcp")
                    if not answer:
                        return
                    self.wfile.write(struct.pack("!H", len(answer)) + answer)

        class TcpServer(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self.servers = [
            socketserver.ThreadingUDPServer(("127.0.0.1", 53), Udp),
            TcpServer(("127.0.0.1", 53), Tcp),
        ]
        for one in self.servers:
            threading.Thread(target=one.serve_forever, daemon=True).start()

    def kill(self) -> None:
        for one in self.servers:
            one.shutdown()
            one.server_close()

    @staticmethod
    def encode(name: str) -> bytes:
        return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"

    def records(self, name: str, kind: int) -> tuple[bool, list[bytes]]:
        """Whether there is such a name, and its records: A (1) and PTR (12)."""
        if name == self.name:
            return True, [socket.inet_aton(a) for a in self.addresses] if kind == 1 else []
        for address, pointed in self.names.items():
            if name == ipaddress.ip_address(address).reverse_pointer:
                return True, [self.encode(pointed)] if kind == 12 else []
            if name == pointed.lower():
                return True, [socket.inet_aton(address)] if kind == 1 else []
        return False, []

    def answer(self, query: bytes, over: str) -> bytes | None:
        self.asked[over] += 1
        if self.mode == "silent":
            return None
        number, _, questions, _, _, _ = struct.unpack("!6H", query[:12])
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
        question = query[12 : at + 5]
        if self.unsaid and ".".join(labels) == ipaddress.ip_address(self.unsaid).reverse_pointer:
            return None
        there, records = self.records(".".join(labels), kind)
        code = {"servfail": 2, "nxdomain": 3}.get(self.mode, 0 if there else 3)
        if code:
            records = []
        body = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(r)) + r for r in records)
        flags, count = 0x8180 | code, len(records)
        if over == "udp" and 12 + len(question) + len(body) > 512:
            flags, count, body = flags | 0x0200, 0, b""
        return struct.pack("!6H", number, flags, questions, count, 0, 0) + question + body
