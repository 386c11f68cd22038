#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""members.py -- kv-server --members against each source, on good days and bad ones. Speaks TAP.

Servers are real; etcd is Debian's where it is installed, and a fake besides; Kubernetes is a fake.
What a server knows is read from /view. KVRAIL_BUILD: where kv-server is. KVRAIL_TEST_PACE makes waiting times short.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any, Callable, Iterable

sys.path.append(str(Path(__file__).resolve().parents[1]))
from ports import free_ports

from members_fakes import FakeDns, FakeEtcd, FakeKube, b64

BUILD = os.environ.get("KVRAIL_BUILD", "build/release")
PROVIDER = os.environ.get("KVRAIL_TEST_PROVIDER") or "tcp"
SCRATCH = Path(tempfile.mkdtemp(prefix="kvrail-members."))
TRACE = os.environ.get("KVRAIL_TRACE") or "../shared/data/conversation_trace.jsonl"
PATIENCE_S = 240 if "/tsan" in BUILD else 60
LEASE = ["--lease-sec", "2", "--joining-sec", "1"]
running: list[Any] = []
number = failed = 0


class Failed(Exception):
    pass


def soon(what: str | Callable[[], str], true: Callable[[], Any]) -> Any:
    """What `true` returns, once it is true: at most PATIENCE_S later."""
    until = time.monotonic() + PATIENCE_S
    while True:
        value = true()
        if value:
            return value
        if time.monotonic() > until:
            raise Failed(f"not within {PATIENCE_S} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.03)


class KvServer:
    def __init__(
        self, name: str | None, members: str, *more: str, port: int = 0, host: str = "127.0.0.1", **env: str
    ) -> None:
        self.name, self.port = name, port or free_ports()[0]
        self.address = f"{host}:{self.port}"
        self.log = SCRATCH / f"{name}.{self.port}.{time.monotonic_ns()}.log"
        command = [
            f"{BUILD}/kv-server",
            "-l",
            self.address,
            "--provider",
            PROVIDER,
            "--memory-mb",
            "8",
            "--worker-threads",
            "1",
            "--http-addr",
            "127.0.0.1:0",
            "--die-with-parent",
            "--drain-sec",
            "1",
            "--landing-mb",
            "0",
            "--log-level",
            "debug",
            "--members",
            members,
            *more,
        ]
        if name:
            command += ["--node-id", name]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
            text=True,
            env={**os.environ, "KVRAIL_TEST_PACE": "10", **env},
        )
        running.append(self)
        assert self.process.stdout
        self.url = ""
        self.said: list[str] = []  # on its standard output, until it is ready or waits for its first view
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"metrics and health on (http\S+)", line):
                self.url = found[1]
                break
        if not self.url:
            raise Failed(f"kv-server did not start: {self.text()}")

    def is_ready(self) -> tuple[bool, str]:
        """What /readyz says, and why."""
        try:
            return True, self.page("/readyz")
        except urllib.error.HTTPError as e:
            if e.code != 503:
                raise
            return False, e.read().decode()

    def ready(self) -> None:
        soon(lambda: f"{self.name} is ready: {self.is_ready()}", lambda: self.is_ready()[0])

    def text(self) -> str:
        return self.log.read_text()

    def page(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=20) as answer:
            return answer.read().decode()

    def view(self) -> dict[str, Any]:
        return json.loads(self.page("/view"))

    def names(self) -> str:
        """ "a b" of what is up, "a-draining" of what is not."""
        return " ".join(
            m["node_id"] + ("" if m["state"] == "up" else "-" + m["state"])
            for m in self.view()["members"]
        )

    def sees(self, names: str) -> None:
        soon(
            lambda: f"{self.name} sees '{names}', now '{self.names()}'; {self.text()[-3000:]}",
            lambda: self.names() == names,
        )

    def source(self, state: str) -> None:
        soon(
            lambda: f"{self.name}: the source is {state}; {self.view()} {self.text()[-2000:]}",
            lambda: self.view()["source"]["state"] == state,
        )

    def says(self, pattern: str) -> None:
        soon(
            lambda: f"{self.name} logs '{pattern}': {self.text()[-3000:]}",
            lambda: re.search(pattern, self.text()),
        )

    def never_said(self, pattern: str) -> None:
        if re.search(pattern, self.text()):
            raise Failed(f"{self.name} has logged '{pattern}': {self.text()}")

    def end(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        got = self.process.wait(PATIENCE_S)
        if how == signal.SIGTERM and got != 0:
            raise Failed(f"{self.name} ended with {got}: {self.text()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class RealEtcd:
    """One member of Debian's etcd."""

    def __init__(
        self, name: str = "e0", cluster: dict[str, int] | None = None, tls: Path | None = None
    ) -> None:
        (self.client,), self.name, self.token = free_ports(), name, ""
        self.peers = cluster or {name: free_ports()[0]}
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.client}"
        self.tls: ssl.SSLContext | None = None
        self.more: list[str] = []
        if tls:
            self.tls = ssl.create_default_context(cafile=str(tls / "ca.pem"))
            self.tls.load_cert_chain(tls / "client.pem", tls / "client.key")
            self.more = [
                # Its gateway is a client of it, with this certificate: one for servers alone is refused.
                *("--cert-file", str(tls / "any.pem"), "--key-file", str(tls / "any.key")),
                *("--client-cert-auth", "--trusted-ca-file", str(tls / "ca.pem")),
            ]
        self.data = SCRATCH / f"etcd.{name}.{self.client}"
        self.start("new")

    def start(self, state: str) -> None:
        peer = f"http://127.0.0.1:{self.peers[self.name]}"
        self.process = subprocess.Popen(
            [
                "etcd",
                "--name",
                self.name,
                "--data-dir",
                str(self.data),
                "--listen-client-urls",
                self.url,
                "--advertise-client-urls",
                self.url,
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster-state",
                state,
                "--initial-cluster",
                ",".join(f"{n}=http://127.0.0.1:{p}" for n, p in self.peers.items()),
                "--logger",
                "zap",
                "--log-level",
                "error",
                "--unsafe-no-fsync",
                *self.more,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG
        )
        running.append(self)

    def ready(self) -> None:
        def answers() -> bool:
            try:
                return bool(self.ask("kv/range", key=b64("x")))
            except urllib.error.HTTPError:
                return True  # it wants a token
            except (urllib.error.URLError, OSError):
                return False

        soon("etcd answers", answers)

    def ask(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode())
        if self.token:
            request.add_header("Authorization", self.token)
        with urllib.request.urlopen(request, timeout=10, context=self.tls) as answer:
            return json.load(answer)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def again(self) -> None:
        self.start("existing")
        self.ready()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def revoke_all(self) -> None:
        for lease in self.ask("lease/leases")["leases"]:
            self.ask("lease/revoke", ID=lease["ID"])

    def delete(self, key: str) -> None:
        self.ask("kv/deleterange", key=b64(key))

    def put(self, key: str, value: str) -> None:
        self.ask("kv/put", key=b64(key), value=b64(value))

    def auth(self) -> None:
        self.ask("auth/role/add", name="root")
        for user, password in (("root", "root"), ("kv", "secret")):
            self.ask("auth/user/add", name=user, password=password)
            self.ask("auth/user/grant", user=user, role="root")
        self.ask("auth/enable")
        self.login()

    def change_password(self, password: str) -> None:
        self.ask("auth/user/changepw", name="kv", password=password)

    def login(self) -> None:
        self.token = ""
        self.token = self.ask("auth/authenticate", name="root", password="root")["token"]


def test(name: str, run: Callable[[], None]) -> None:
    global number, failed
    number += 1
    try:
        run()
        for one in running:
            if isinstance(one, KvServer):
                one.never_said("Sanitizer|runtime error:")
        print(f"ok {number} - {name}", flush=True)
    except Exception as e:  # noqa: BLE001 -- a test may fail in any way
        failed += 1
        print(f"not ok {number} - {name}")
        text = str(e) if isinstance(e, Failed) else traceback.format_exc()
        print("\n".join("# " + line for line in text.splitlines()), flush=True)
    finally:
        for one in running:
            try:
                if isinstance(one, RealEtcd):
                    one.go_on()
                one.kill()
            except OSError:
                pass
        running.clear()


# ---- list and file ----


def refused_options() -> None:
    for text, *options in (
        ("list:NAME=HOST:PORT", "--members", "a=h:1"),
        ("is listed twice", "--members", "list:a=h:1,a=h:2"),
        ("have an address in common", "--members", "list:a=h:1,b=h:1"),
        ("weight=0", "--members", "list:a=h:1;weight=0"),
        ("neither weight, nor zone", "--members", "list:a=h:1;wait=1"),
        ("whole path", "--members", "file:members"),
        ("port 0", "--members", "dns:kv:0"),
        ("KUBERNETES_SERVICE_HOST", "--members", "k8s:a/b"),
        ("NAMESPACE/SERVICE", "--members", "k8s:a"),
        ("http://", "--members", "etcd:localhost:2379"),
        ("a user in it", "--members", "etcd:http://u:p@h:1"),
        ("last URL", "--members", "etcd:http://h:1/p,http://h:2"),
        ("--advertise", "--members", "etcd:http://h:1", "-l", "0.0.0.0:0", "--insecure"),
        ("nobody can connect", "--members", "list:a=h:1", "--advertise", "[::]:1"),
        ("go together", "--members", "etcd:http://h:1", "--members-user", "u"),
        ("go with --members etcd", "--members", "list:a=h:1", "--weight", "2"),
        ("goes with --members etcd", "--members", "list:a=h:1", "--lease-sec", "5"),
        ("goes with --members etcd", "--members", "list:a=h:1", "--joining-sec", "5"),
        ("goes with --members k8s", "--members", "etcd:http://h:1", "--members-token-file", "/x"),
        ("go with --members", "--zone", "z"),
        ("another --node-id", "--members", "etcd:http://h:1", "--node-id", "a/b"),
        ("not in UTF-8", "--members", "etcd:http://h:1", "--members-user", "\udce4", "--members-password-file", "/x"),
        ("63 characters of ASCII", "--members", "etcd:http://h:1", "--zone", "ä"),
        ("63 characters of ASCII", "--node-id", "ä"),
        ("2s to 60s", "--members", "etcd:http://h:1", "--lease-sec", "61"),
    ):
        got = subprocess.run(
            [f"{BUILD}/kv-server", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = " ".join(got.stderr.split())
        if got.returncode != 2 or text not in said:
            raise Failed(f"{options}: {got.returncode}, not '{text}': {got.stderr}")


def a_list() -> None:
    ports = free_ports(2)
    text = f"list:a=127.0.0.1:{ports[0]};weight=2;zone=z1,b=127.0.0.1:{ports[1]};state=draining"
    a = KvServer("a", text, port=ports[0])
    a.sees("a b-draining")
    member = a.view()["members"][0]
    if (member["weight"], member["zone"]) != (2, "z1") or a.view()["epoch"] == 0:
        raise Failed(str(a.view()))
    metrics = a.page("/metrics")
    for line in (
        'kvrail_members{state="up"} 1',
        'kvrail_members{state="draining"} 1',
        'kvrail_members_source{source="list",state="ok"} 1',
        "kvrail_view_changes_total 1",
    ):
        if line not in metrics.splitlines():
            raise Failed(f"no {line} in {metrics}")
    page = SCRATCH / "metrics"
    page.write_text(metrics)
    subprocess.run(
        ["tests/integration/metrics_page.py", "page", str(page)],
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )
    if shutil.which("promtool"):
        with page.open() as text:
            subprocess.run(["promtool", "check", "metrics"], stdin=text, check=True, timeout=60)
    a.end()


def not_in_the_list() -> None:
    (port,) = free_ports()
    KvServer("a", f"list:b=127.0.0.1:{port}", port=port).says(
        "clients that learn the view refuse this server"
    )
    KvServer("a", f"list:b=127.0.0.1:{port}").says("do not use this server")


def a_file() -> None:
    path = SCRATCH / "members"
    a = KvServer("a", f"file:{path}")
    a.source("unreachable")
    if a.is_ready()[0] or "No such file" not in a.is_ready()[1] or "WAITING" not in a.said[0]:
        raise Failed(f"a server without a view says that it is ready: {a.said} {a.is_ready()}")
    others = [KvServer(n, f"file:{path}") for n in "bcd"]
    lines = [f"{s.name}={s.address}" for s in (a, *others)]
    path.write_text("# all\n\n" + "\n".join(lines) + "\n")
    a.sees("a b c d")
    a.ready()
    if "READY" not in (a.process.stdout.readline() if a.process.stdout else ""):
        raise Failed("no READY with the first view")
    others[0].sees("a b c d")
    epoch = a.view()["epoch"]
    if epoch != others[0].view()["epoch"]:
        raise Failed("two readers of one file do not agree on its epoch")
    path.write_text("\n".join(lines)[:-3])  # half a line
    a.says("does not end with a whole line")
    path.write_text("\n".join(lines[:3]) + "\nd=\n")
    a.source("unreachable")
    path.unlink()
    a.says("No such file")
    if (a.names(), a.view()["epoch"], a.is_ready()[0]) != ("a b c d", epoch, True):
        raise Failed(f"the view has moved: {a.view()}")
    fresh = SCRATCH / "members.new"
    fresh.write_text("\n".join(lines[:3] + [lines[3] + ";state=draining"]) + "\n")
    fresh.rename(path)
    a.sees("a b c d-draining")
    a.says("answers again")
    path.write_text("\n".join(lines[:2]) + "\n")  # half of them: believed
    a.sees("a b")
    a.says("c left, d left")
    a.never_said("event=source_restarted")
    epoch = a.view()["epoch"]
    fresh.write_text("\n".join(lines[:3]) + "\n")
    os.utime(fresh, (1600000000, 1600000000))  # the clock of before was ahead
    fresh.rename(path)
    a.sees("a b c")
    a.says("counts backwards.*event=source_restarted source=file .* to=1600000000000 other=no")
    if a.view()["epoch"] != epoch + 1:
        raise Failed(f"{epoch}: {a.view()}")
    # A file that is there is read before the first READY, by a server that starts.
    started = KvServer("c", f"file:{path}")
    if "READY" not in started.said[0] or started.names() != "a b c":
        raise Failed(f"{started.said} {started.names()}")


def a_large_loss() -> None:
    path = SCRATCH / "many"
    servers = [KvServer(n, f"file:{path}") for n in "abcd"]
    a, b, c, d = servers
    lines = [f"{s.name}={s.address}" for s in servers]
    path.write_text("\n".join(lines) + "\n")
    a.sees("a b c d")
    path.write_text("# none\n")
    a.says(r"names 0 members of the former 4: the others stay while they answer: a, b, c, d")
    c.kill()
    a.sees("a b d")  # who does not answer goes
    if a.view()["source"]["doubted"] != 3 or "kvrail_view_refused_total 1" not in a.page(
        "/metrics"
    ):
        raise Failed(str(a.view()))
    path.write_text(lines[0] + "\n")
    d.kill()
    a.sees("a b")
    path.write_text("\n".join(lines[:2]) + "\n")
    soon("nobody is doubted", lambda: a.view()["source"]["doubted"] == 0)
    b.kill()
    path.write_text(lines[0] + "\n")  # half: believed
    a.sees("a")


def clients_follow() -> None:
    """A client that knows one server learns of the others, and uses them."""
    path = SCRATCH / "followed"
    a, b = (KvServer(n, f"file:{path}") for n in "ab")
    path.write_text(f"a={a.address}\nb={b.address}\n")
    a.sees("a b")

    def stored() -> bool:
        client = [f"{BUILD}/kv-client", "-s", f"a={a.address}", "--provider", PROVIDER]
        for i in range(8):
            subprocess.run(
                [*client, "put", f"k{time.monotonic_ns()}.{i}", "v"],
                check=True,
                timeout=60,
                stdout=subprocess.DEVNULL,
            )
        return any(
            line.startswith("kvrail_puts_total ") and not line.endswith(" 0")
            for line in b.page("/metrics").splitlines()
        )

    soon("a PUT has come to b", stored)


BLOCKS = 'kvrail_blocks{tier="memory"}'
EVICTED = 'kvrail_evicted_total{reason="room"}'
HITS = 'kvrail_get_blocks_total{result="hit",tier="memory"}'


def counted(server: KvServer, name: str) -> int:
    for line in server.page("/metrics").splitlines():
        if line.startswith(name + " "):
            return int(float(line.split()[1]))
    raise Failed(f"{server.name} has no metric {name}")


def all_counted(servers: Iterable[KvServer], values: int) -> None:
    """Servers publish their numbers ten times a second."""
    soon(
        lambda: f"{values} values are counted: {[counted(s, BLOCKS) for s in servers]}",
        lambda: sum(counted(s, BLOCKS) for s in servers) == values,
    )


def bench_begin(
    a: KvServer, report: Path, *more: str, stderr: IO[str] | None = None
) -> subprocess.Popen[bytes]:
    bench = subprocess.Popen(
        [
            f"{BUILD}/kv-bench",
            *("-s", f"a={a.address}", "--provider", PROVIDER, "--json", str(report), "--quiet"),
            *("--num-clients", "2", "--num-threads", "1", "--log-level", "warn", *more),
        ],
        stderr=stderr,
    )
    running.append(bench)
    return bench


def join_costs_nothing() -> None:
    """kv-bench reads what it wrote, and a server joins: no miss, and what the new one has now came by itself."""
    path, report = SCRATCH / "joined", SCRATCH / "joined.json"
    a, b = (KvServer(n, f"file:{path}") for n in "ab")
    path.write_text(f"a={a.address}\nb={b.address}\n")
    a.sees("a b")
    b.sees("a b")
    load = "--num-keys 300 --value-size 4KB --num-workers 4 --duration 8 --verify"
    bench = bench_begin(a, report, *load.split())
    soon("kv-bench reads", lambda: counted(a, "kvrail_gets_total") > 300)
    c = KvServer("c", f"file:{path}")
    path.write_text(f"a={a.address}\nb={b.address}\nc={c.address}\n")
    soon("values come to c", lambda: counted(c, "kvrail_puts_total") > 50)
    soon("c is asked for them", lambda: counted(c, HITS) > 50)
    if bench.wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    read = json.loads(report.read_text())["phases"]["read"]
    if read["misses"] != 0:
        raise Failed(f"misses: {read}")


def join_in_a_trace() -> None:
    """An hour of real conversations; two servers join while it is replayed. Its hits are what they are without that. (By
    one client: of several one may know of a change before another one, and miss what that puts, for as long.)"""
    path, report = SCRATCH / "traced", SCRATCH / "traced.json"
    room = ("--memory-mb", "256")
    servers = [KvServer(n, f"file:{path}", *room) for n in "ab"]

    def members() -> None:
        path.write_text("".join(f"{s.name}={s.address}\n" for s in servers))

    members()
    for s in servers:
        s.sees("a b")
    bench = bench_begin(
        servers[0], report, *f"--trace {TRACE} --value-size 512 --ttl 0 --num-workers 8 --num-clients 1".split()
    )
    for name, puts in (("c", 10000), ("d", 30000)):
        soon("the replay goes on", lambda puts=puts: counted(servers[0], "kvrail_puts_total") > puts)
        servers.append(KvServer(name, f"file:{path}", *room))
        members()
    for s in servers[2:]:
        soon("it has values", lambda s=s: counted(s, "kvrail_puts_total") > 1000)
    if bench.wait(4 * PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    trace = json.loads(report.read_text())["trace"]
    # Without limits of memory 105,710 of the 288,500 blocks are hits (tests/kvbench/test_trace.c).
    if trace["block_hits"] != 105710:
        raise Failed(f"hits: {trace['block_hits']}")


def prompt(s: KvServer, *lines: str, more: Iterable[str] = ()) -> str:
    """What kv-client says to these commands, as one client."""
    client = [f"{BUILD}/kv-client", "-s", f"{s.name}={s.address}", "--provider", PROVIDER, *more]
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(
        client, input=text, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    ).stdout


def grown_up() -> None:
    """A server that is lost believes members that remember the deletes of the 5 s before, too (kvserver/conn/doubt.c).
    A member remembers none from before it began."""
    time.sleep(5.5)


DEAD, ALIVE = ([f"{kind}{i}" for i in range(30)] for kind in ("dead", "alive"))
PUT_ALL = [f"put {key} value" for key in DEAD + ALIVE]
DELETE_DEAD = [f"delete {key}" for key in DEAD]
EXIST = ("exists " + " ".join(ALIVE), "exists " + " ".join(DEAD))


def alive_alone(s: KvServer, more: Iterable[str] = ()) -> None:
    now = prompt(s, *EXIST, more=more)
    if "30 of 30 exist" not in now or "0 of 30 exist" not in now.replace("30 of 30", ""):
        raise Failed(f"of those that nobody deleted, and of those that somebody did: {now}")


def file_write(path: Path, servers: Iterable[KvServer]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(f"{s.name}={s.address}\n" for s in servers))
    fresh.rename(path)


def deletes_while_away(*more: str) -> None:
    """A server is in no list for a while, and keeps its memory. What is deleted meanwhile stays deleted when it is back,
    and all else is there again: the other members say which is which. more: --cluster NAME."""
    path = SCRATCH / f"away{len(more)}"
    servers = [KvServer(n, f"file:{path}", *more) for n in "abc"]

    def members(names: str) -> None:
        file_write(path, [s for s in servers if s.name in names])
        for s in servers[1:]:
            s.sees(" ".join(names))

    members("abc")
    servers[0].sees("a b c")
    prompt(servers[1], *PUT_ALL, more=more)
    grown_up()
    members("bc")
    servers[0].says(r"its values are hidden .* \| event=values_doubted")
    soon(
        "clients go to b and c",
        lambda: "30 of 30" not in prompt(servers[1], EXIST[0], more=more),
    )
    prompt(servers[1], *DELETE_DEAD, more=more)
    members("abc")
    servers[0].sees("a b c")
    servers[0].says(r"\| event=values_judged deleted=30")
    alive_alone(servers[1], more)


def a_stranger_is_not_asked() -> None:
    """The question names the cluster: at the address of the only other member there is a server of another one. So nobody
    says what was deleted, and the values go."""
    path = SCRATCH / "stranger"
    a, b = (KvServer(n, f"file:{path}", "--cluster", c) for n, c in (("a", "blue"), ("b", "green")))
    file_write(path, (a, b))
    a.sees("a b")
    prompt(a, "put k v", more=("--cluster", "blue"))
    file_write(path, (b,))
    a.says(r"\| event=values_doubted")
    file_write(path, (a, b))
    a.says(r"\| event=values_(dropped|judged)")
    a.never_said("event=values_judged")


def deletes_while_still() -> None:
    """A server stands still for longer than clients wait, and the client that deletes meanwhile is gone before it goes on.
    It hides its values before it serves anybody, and asks the others."""
    ports = free_ports(3)
    members = "list:" + ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip("abc", ports))
    a, b, _ = (KvServer(name, members, port=port) for name, port in zip("abc", ports))
    prompt(b, *PUT_ALL)
    a.process.send_signal(signal.SIGSTOP)
    prompt(b, *DELETE_DEAD)  # the first one at a waits until a is taken for dead
    a.process.send_signal(signal.SIGCONT)
    if "0 of 30 exist" not in prompt(b, EXIST[1]).replace("30 of 30", ""):
        raise Failed(f"a deleted key is there: {prompt(b, EXIST[1])}")
    a.says(r"its values are hidden .* \| event=stood_still ms=")
    a.says(r"\| event=values_judged deleted=30")
    alive_alone(b)
    b.never_said("event=stood_still")


def rolling(tmp: str, *secure: str) -> tuple[Path, list[KvServer], Callable[[], None]]:
    """Four servers, a file that names them, and a function that writes it."""
    path = SCRATCH / tmp
    more = ("--drain-sec", "8", "--memory-mb", "64", *secure)
    servers = [KvServer(n, f"file:{path}", *more) for n in "abcd"]

    def members() -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text("".join(f"{s.name}={s.address}\n" for s in servers))
        fresh.rename(path)

    members()
    for s in servers:
        s.sees("a b c d")
    return path, servers, members


def read_of(report: Path) -> dict[str, Any]:
    return json.loads(report.read_text())["phases"]["read"]


def drain_hands_over() -> None:
    """Nobody reads while a server drains: what it had is at the others when it has gone. They join, as after an upgrade
    of one after the other."""
    key, report = SCRATCH / "key", SCRATCH / "handed.json"
    subprocess.run([f"{BUILD}/kv-server", "--make-psk", str(key)], check=True, stdout=subprocess.DEVNULL)
    path, servers, _ = rolling("handed", "--psk-file", str(key))
    path.write_text("".join(f"{s.name}={s.address};state=joining\n" for s in servers))
    servers[1].sees("a-joining b-joining c-joining d-joining")
    load = f"--psk-file {key} --num-keys 400 --value-size 16KB --num-workers 4 --seed 7 --verify".split()
    if bench_begin(servers[0], report, *load).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    all_counted(servers, 400)
    before = counted(servers[1], BLOCKS)
    servers[1].end()
    servers[1].says(rf"drain: {before} of {before} values, .* at other servers \|")
    path.write_text("".join(f"{s.name}={s.address}\n" for s in servers if s.name != "b"))
    servers[0].sees("a c d")
    if bench_begin(servers[0], report, "--no-write", *load).wait(PATIENCE_S) != 0:
        raise Failed("a value is missing")
    if read_of(report)["misses"] != 0 or before < 50:
        raise Failed(f"{before} values were there; {read_of(report)}")


def drain_of_a_list() -> None:
    """The other server began later, so its list is the newer one. It stands still for a while, and is taken for dead:
    what it could not take then it has in the end."""
    ports = free_ports(2)
    members = f"list:a=127.0.0.1:{ports[0]},b=127.0.0.1:{ports[1]}"
    more = ("--drain-sec", "60", "--memory-mb", "64", "--drain-mb", "1")
    a, b = (KvServer(name, members, *more, port=port) for name, port in zip("ab", ports))
    load = "--num-keys 800 --value-size 16KB --num-workers 4 --seed 7".split()
    if bench_begin(a, SCRATCH / "listed.json", *load).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    all_counted((a, b), 800)
    before, had = counted(a, BLOCKS), counted(b, BLOCKS)
    a.process.send_signal(signal.SIGTERM)
    soon("b gets values", lambda: counted(b, BLOCKS) > had)
    b.process.send_signal(signal.SIGSTOP)
    a.says("no heartbeat from it.*event=drain_push_trouble")
    b.process.send_signal(signal.SIGCONT)
    if a.process.wait(PATIENCE_S) != 0:
        raise Failed(a.text())
    a.says(r"event=drain_pushed .* all=yes")
    said = int(re.search(r"event=drain_pushed values=(\d+)", a.text())[1])
    soon(
        lambda: f"b counts {said} to {before} more than {had}; {counted(b, BLOCKS)}: {a.text()}",
        lambda: said <= counted(b, BLOCKS) - had <= before,
    )
    # The lot that was under way may have come to its deadline.
    if before < 300 or said < before - 32:
        raise Failed(f"a had {before}, and put {said}: {a.text()}")


def drain_beside_a_start() -> None:
    """While a server of a list drains, another one starts again: its list is the newer one, and says that the first one
    is up. What that one has left goes to the others all the same."""
    ports = free_ports(3)
    members = "list:" + ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip("abc", ports))
    more = ("--drain-sec", "60", "--memory-mb", "64", "--drain-mb", "1")
    a, b, c = (KvServer(name, members, *more, port=port) for name, port in zip("abc", ports))
    load = "--num-keys 900 --value-size 16KB --num-workers 4 --seed 7".split()
    if bench_begin(a, SCRATCH / "beside.json", *load).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    all_counted((a, b, c), 900)
    before, had = counted(a, BLOCKS), counted(b, BLOCKS)
    a.process.send_signal(signal.SIGTERM)
    soon("b gets values", lambda: counted(b, BLOCKS) > had)
    c.kill()
    c = KvServer("c", members, *more, port=ports[2])
    if a.process.wait(PATIENCE_S) != 0:
        raise Failed(a.text())
    a.says(r"event=drain_pushed .* all=yes")
    said = int(re.search(r"event=drain_pushed values=(\d+)", a.text())[1])
    # The lot that was under way when c ended may have come to its deadline.
    if before < 200 or said < before - 32:
        raise Failed(f"a had {before}, and put {said}: {a.text()}")
    soon(lambda: f"c counts its part: {a.text()}", lambda: counted(c, BLOCKS) > 20)


def drain_while_taken_out() -> None:
    """As with Kubernetes: a server that drains is not ready, and so it is no member any more. It hands over all of it."""
    path, servers, _ = rolling("out", "--drain-sec", "60", "--drain-mb", "1")
    load = "--num-keys 1200 --value-size 16KB --num-workers 4 --seed 7".split()
    if bench_begin(servers[0], SCRATCH / "out.json", *load).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    all_counted(servers, 1200)
    before = counted(servers[1], BLOCKS)
    others = [s for s in servers if s.name != "b"]
    had = sum(counted(s, BLOCKS) for s in others)
    servers[1].process.send_signal(signal.SIGTERM)
    soon("others get values", lambda: sum(counted(s, BLOCKS) for s in others) > had)
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(f"{s.name}={s.address}\n" for s in others))
    fresh.rename(path)
    servers[0].sees("a c d")
    if servers[1].process.poll() is not None:
        raise Failed("the drain ended too soon to tell")
    if servers[1].process.wait(PATIENCE_S) != 0:
        raise Failed(servers[1].text())
    servers[1].says(rf"event=drain_pushed values={before} of={before} .* all=yes")
    soon(
        lambda: f"others count {before} more than {had}: {servers[1].text()}",
        lambda: sum(counted(s, BLOCKS) for s in others) - had == before,
    )
    if before < 200:
        raise Failed(f"b had {before} values only")
    servers[1].never_said("event=member_missing")
    # With DNS it may be taken out before its SIGTERM.
    all_counted(others, 1200)
    before, (a, c, d) = counted(others[1], BLOCKS), others
    fresh.write_text(f"{a.name}={a.address}\n{d.name}={d.address}\n")
    fresh.rename(path)
    for s in others:
        s.sees("a d")
    c.end()
    c.says(rf"event=drain_pushed values={before} of={before} .* all=yes")


def drain_beside_a_stranger() -> None:
    """At the address of a member there is another server: the members that are there get the values all the same."""
    ports = free_ports(3)
    members = "list:" + ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip("abc", ports))
    more = ("--drain-sec", "60", "--memory-mb", "64")
    a, b, x = (KvServer(name, members, *more, port=port) for name, port in zip("abx", ports))
    load = "--num-keys 400 --value-size 16KB --num-workers 4 --seed 7".split()
    if bench_begin(a, SCRATCH / "stranger.json", *load).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    all_counted((a, b), 400)
    before, had = counted(a, BLOCKS), counted(b, BLOCKS)
    a.end()
    a.says(rf"event=drain_pushed values={before} of={before} .* all=yes")
    soon(
        lambda: f"b counts {before} more than {had}, now {counted(b, BLOCKS)}: {a.text()}",
        lambda: counted(b, BLOCKS) - had == before,
    )
    if before < 50 or counted(x, BLOCKS) != 0:
        raise Failed(f"a had {before}, and x has {counted(x, BLOCKS)}: {a.text()}")


def drain_when_full() -> None:
    """All servers have as many clients as they take: a server that drains, and the operator, have places all the same."""
    ports = free_ports(2)
    members = f"list:a=127.0.0.1:{ports[0]},b=127.0.0.1:{ports[1]}"
    more = ("--drain-sec", "60", "--memory-mb", "64", "--max-clients", "2", "--allow-drain")
    a, b = (KvServer(name, members, *more, port=port) for name, port in zip("ab", ports))
    load = "--num-keys 400 --value-size 16KB --num-workers 4 --seed 7 --duration 12 --keep-going --verify".split()
    report = SCRATCH / "full.json"
    bench = bench_begin(a, report, *load)
    soon("kv-bench reads", lambda: counted(a, "kvrail_gets_total") > 500)
    all_counted((a, b), 400)
    before, had = counted(a, BLOCKS), counted(b, BLOCKS)
    done = kv_client(b, "drain", "a")
    if done.returncode != 0 or a.process.wait(PATIENCE_S) != 0:
        raise Failed(f"kv-client drain: {done}; {a.text()[-3000:]}")
    a.says(rf"event=drain_pushed values={before} of={before} .* all=yes")
    if bench.wait(PATIENCE_S) != 0 or read_of(report)["misses"] != 0 or read_of(report)["errors"]:
        raise Failed(f"{read_of(report)}")
    all_counted((b,), 400)
    if before < 50:
        raise Failed(f"a had {before}, b {had}: {a.text()[-3000:]}")


def drain_without_others() -> None:
    """It says why it hands nothing over, and ends."""
    alone = KvServer("a", "list:a=127.0.0.1:1")
    alone.sees("a")
    alone.end()
    alone.says("drain: none of 0 values is pushed to another server: the cluster has no other member that stays")
    (port,) = free_ports()
    dead = KvServer("a", f"list:a=127.0.0.1:{port},b=127.0.0.1:9", "--drain-sec", "4", port=port)
    dead.sees("a b")
    kv_client(dead, "put", "k", "v")
    if kv_client(dead, "get", "k").returncode != 0:
        raise Failed("a has no value to hand over")
    dead.end()  # what it has is not said to be with others
    dead.says(r"drain: none of 1 values is pushed to another server: .*event=drain_push_failed reason=.no other member")
    dead.never_said("event=drain_pushed")
    none = KvServer("a", "list:b=127.0.0.1:9")
    none.sees("b")
    none.end()
    none.says("this server has been in no view of --members")
    off = KvServer("a", "list:a=127.0.0.1:1,b=127.0.0.1:9", "--drain-mb", "0")
    off.end()
    off.says("--drain-mb is 0")


def drain_push_cannot_begin() -> None:
    """Its key was replaced on the disk, and no server knows the new one: it hands over nothing, says why, and ends."""
    key, other = SCRATCH / "its.key", SCRATCH / "other.key"
    for path in (key, other):
        subprocess.run(
            [f"{BUILD}/kv-server", "--make-psk", str(path)], check=True, stdout=subprocess.DEVNULL
        )
    _, servers, _ = rolling("unknown", "--psk-file", str(key))
    other.rename(key)
    servers[1].end()
    servers[1].says(r"drain: none of \d+ values is pushed to another server: .* \| event=drain_push_failed reason=")


def drain_with_certificates() -> None:
    """The members' addresses are in no certificate: a server that drains looks for the name that it is told."""
    certs, path, report = SCRATCH / "member.certs", SCRATCH / "certified", SCRATCH / "certified.json"
    subprocess.run(["scripts/make-test-certs.sh", str(certs)], check=True, capture_output=True)

    def files(of: str) -> list[str]:
        return [
            *("--cert", str(certs / f"{of}.pem"), "--key", str(certs / f"{of}.key")),
            *("--ca", str(certs / "ca.pem"), "--server-name", "localhost"),
        ]

    ports = free_ports(3)
    path.write_text("".join(f"{n}=127.0.0.2:{p}\n" for n, p in zip("abc", ports)))
    servers = []
    for name, port in zip("abc", ports):
        more = files("member") if name != "c" else files("member")[:-2]
        servers.append(KvServer(name, f"file:{path}", "--drain-sec", "8", *more, port=port, host="127.0.0.2"))
    for s in servers:
        s.sees("a b c")
    load = "--num-keys 100 --value-size 4KB --num-workers 2".split()
    if bench_begin(servers[0], report, *load, *files("client")).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    all_counted(servers, 100)
    had = counted(servers[1], BLOCKS)
    servers[1].end()
    servers[1].says(rf"drain: {had} of {had} values, .* at other servers \|")
    servers[2].end()
    servers[2].says(r'does not name "127.0.0.2"')


def kv_client(s: KvServer, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [f"{BUILD}/kv-client", *("-s", f"{s.name}={s.address}", "--provider", PROVIDER), *command],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )


def asked_by_host() -> None:
    """The list has hosts' names, as on Kubernetes, and the view has addresses: what is asked about a server of the list
    is asked of the member that it is, and the member has one line."""
    path = SCRATCH / "hosts"
    servers = [KvServer(n, f"file:{path}") for n in "ab"]
    path.write_text("".join(f"{s.name}={s.address}\n" for s in servers))
    for s in servers:
        s.sees("a b")
    hosts = [f"localhost:{s.port}" for s in servers]
    for lists in ([f"a={hosts[0]}"], hosts[:1], hosts):
        client = [f"{BUILD}/kv-client", "--provider", PROVIDER]
        for host in lists:
            client += ["-s", host]

        def says(*command: str, client: list[str] = client, **more: Any) -> str:
            done = subprocess.run(
                [*client, *command], capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False, **more
            )
            if done.returncode != 0:
                raise Failed(f"{client} {command}: {done.returncode} {done.stdout}{done.stderr}")
            return done.stdout

        if says("ping").count("every shard answered") != len(lists):
            raise Failed("a server of the list is not asked")
        if len(json.loads(says("stat", "--json"))["servers"]) != len(lists):
            raise Failed("a server of the list does not tell")
        members = json.loads(says("cluster", "--json"))["members"]
        if [(m["node_id"], m["answers"]) for m in members] != [("a", True), ("b", True)]:
            raise Failed(f"members: {members}")
        if len(says("top", "--once", "--interval", "0.1s").splitlines()) != 4:
            raise Failed("top has other lines than one for each member")
    # It is still that server when it was restarted.
    asking = subprocess.Popen(
        [f"{BUILD}/kv-client", "--provider", PROVIDER, "-s", hosts[0]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    )
    running.append(asking)
    assert asking.stdin and asking.stdout
    for _ in range(2):

        def answers(ask: IO[str] = asking.stdin, answer: IO[str] = asking.stdout) -> bool:
            ask.write("ping\n")
            ask.flush()
            return bool(select.select([answer], [], [], 0.2)[0])

        soon("the server answers", answers)
        if "every shard answered" not in asking.stdout.readline():
            raise Failed("no ping")
        servers[0].kill()
        while select.select([asking.stdout], [], [], 1)[0]:
            asking.stdout.readline()  # an answer that came before
        servers[0] = KvServer("a", f"file:{path}", port=servers[0].port)
    asking.kill()


def asked_before_there_is_a_view() -> None:
    """A server whose source has not answered cannot say which member an address is: that passes, and is said."""
    path = SCRATCH / "late"
    a = KvServer("a", f"file:{path}")

    def ask() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [f"{BUILD}/kv-client", "--provider", PROVIDER, "-s", a.address, "put", "k", "v"],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            check=False,
        )

    early = ask()
    if early.returncode != 3 or "knows no members of the cluster yet" not in early.stderr:
        raise Failed(f"{early}")
    path.write_text(f"a={a.address}\n")
    soon("it has a view", lambda: ask().returncode == 0)


def kv_client_drains() -> None:
    """An operator ends a server through another one, under load: no call fails, and no client logs a warning."""
    report, errors = SCRATCH / "drained.json", SCRATCH / "drained.err"
    path, servers, members = rolling("drained", "--allow-drain")
    load = "--num-keys 400 --value-size 16KB --num-workers 4 --duration 12 --keep-going --verify".split()
    with errors.open("w") as err:
        bench = bench_begin(servers[0], report, *load, stderr=err)
        soon("kv-bench reads", lambda: counted(servers[0], "kvrail_gets_total") > 500)
        before = counted(servers[1], BLOCKS)
        done = kv_client(servers[0], "drain", "b")
        servers[1].process.send_signal(signal.SIGTERM)  # as Kubernetes does behind a preStop hook: no harm
        if done.returncode != 0 or "b has said goodbye" not in done.stdout or done.stderr:
            raise Failed(f"kv-client drain: {done}")
        if servers[1].process.wait(PATIENCE_S) != 0:
            raise Failed(f"a server that a client drains ends with 0: {servers[1].text()}")
        servers[1].says(r"client \S+ asks for a drain, which begins and takes at most 8")
        servers[1].says(rf"drain: {before} of {before} values, .* at other servers \|")
        del servers[1]
        members()
        servers[0].sees("a c d")
        if bench.wait(2 * PATIENCE_S) != 0:
            raise Failed("kv-bench failed")
    if read_of(report)["misses"] != 0 or errors.read_text():
        raise Failed(f"{read_of(report)}; {errors.read_text()}")


def drain_is_bounded() -> None:
    """What kv-client drain gives as bounds goes before the server's own: bytes per second, and the time."""
    report = SCRATCH / "bounded.json"
    _, servers, _ = rolling("bounded", "--allow-drain")
    load = "--num-keys 2000 --value-size 64KB --num-workers 4 --duration 2".split()
    if bench_begin(servers[0], report, *load).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    held = counted(servers[1], BLOCKS) * 65536
    begun = time.monotonic()
    done = kv_client(servers[0], "drain", servers[1].address, "--drain-sec", "4", "--drain-mb", "2")
    if done.returncode != 4 or servers[1].process.wait(PATIENCE_S) != 0:
        raise Failed(f"kv-client drain: {done}")
    took = time.monotonic() - begun
    report_of = r"(\d+) of (\d+) values, .*; (\d+) are not: the time was over"
    put = re.search(report_of, servers[1].text())
    put_bytes = int(put[1]) * 65536 if put else held
    if not put or int(put[2]) * 65536 != held or re.search(report_of, done.stdout)[0] != put[0]:
        raise Failed(f"{done}; {servers[1].text()[-3000:]}")
    print(f"# {put_bytes >> 10} of {held >> 10} KiB in {took:.1f} s", flush=True)
    # A lot, 32 values, is put before the first rest; three quarters of the time are for values.
    if not 0 < put_bytes <= (2 << 20) + 3 * (2 << 20) < held or took > 4 + 10:
        raise Failed(servers[1].text()[-3000:])


def drain_report(server: KvServer, *args: str) -> tuple[int, dict[str, Any]]:
    """Drain the server by itself: the exit status, and the report."""
    done = kv_client(server, "drain", server.address, "--json", *args)
    if server.process.wait(PATIENCE_S) != 0:
        raise Failed(server.text())
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError as e:
        raise Failed(f"{done}") from e


def put_all(servers: list[KvServer], values: dict[str, str]) -> None:
    """By kv-client, where each key belongs."""
    text = "".join(f"put {key} {value}\n" for key, value in values.items())
    command = [f"{BUILD}/kv-client", "--provider", PROVIDER]
    for s in servers:
        command += ["-s", f"{s.name}={s.address}"]
    subprocess.run(command, input=text, text=True, check=True, timeout=2 * PATIENCE_S)


def drain_of_new_values() -> None:
    """Values that nobody has read yet: all of them are at the other server, also those of the older half."""
    ports = free_ports(2)
    members = f"list:a=127.0.0.1:{ports[0]},b=127.0.0.1:{ports[1]}"
    a, b = (KvServer(n, members, "--allow-drain", "--drain-sec", "8", port=p) for n, p in zip("ab", ports))
    keys = [f"new{i}" for i in range(40)]
    put_all([a, b], {key: "v" * 100 for key in keys})
    all_counted((a, b), 40)
    before = counted(a, BLOCKS)
    status, report = drain_report(a)
    if status != 0 or report["all"] is not True or report["left"] != {} or not 5 < before < 40:
        raise Failed(f"{status} {report}; a had {before}")
    if report["values"] != before or report["of"] != before or report["bytes"] != 100 * before:
        raise Failed(f"{report}; a had {before}")
    there = kv_client(b, "exists", *keys)
    if there.returncode != 0:
        raise Failed(f"a value is lost: {there.stdout}; {a.text()[-2000:]}")


def drain_to_a_full_server() -> None:
    """The other one has no room for all. It keeps what it had, and the report says how many found no room."""
    ports = free_ports(2)
    members = f"list:a=127.0.0.1:{ports[0]},b=127.0.0.1:{ports[1]}"
    more = ("--allow-drain", "--drain-sec", "8", "--eviction", "lru")
    a = KvServer("a", members, "--memory-mb", "64", *more, port=ports[0])
    b = KvServer("b", members, "--memory-mb", "8", *more, port=ports[1])
    put_all([a, b], {f"full{i}": "v" * 5000 for i in range(3000)})
    all_counted((a, b), 3000)
    before, evicted = counted(a, BLOCKS), counted(b, EVICTED)
    status, report = drain_report(a)
    full = report["left"].get("full", 0)
    if status != 4 or report["all"] is not False or full == 0 or report["of"] != before:
        raise Failed(f"{status} {report}; a had {before}")
    if report["values"] + sum(report["left"].values()) != before:
        raise Failed(f"{report}; a had {before}")
    # What is old at a takes nobody's place: only the newer half may.
    if counted(b, EVICTED) - evicted > before // 2 + 1:
        raise Failed(f"b has evicted {counted(b, EVICTED) - evicted} values for {before}")
    a.says(rf"event=drain_pushed values={report['values']} of={before} .* all=no why=.*full")


def drain_of_one_alone() -> None:
    """Nobody is there to take values: kv-client says so."""
    (port,) = free_ports()
    a = KvServer("a", f"list:a=127.0.0.1:{port}", "--allow-drain", port=port)
    a.sees("a")
    kv_client(a, "put", "k", "v")
    done = kv_client(a, "drain", "a")
    if done.returncode != 4 or "0 of 1 value, 0 B, is at other servers; 1 is not: the cluster has no" not in done.stdout:
        raise Failed(f"{done}")
    a.says("drain: none of 1 values is pushed to another server: the cluster has no other member that stays")


def drain_is_refused() -> None:
    """Who may not drain a server, or calls it by a wrong name, is told the way out."""
    (port,) = free_ports()
    a = KvServer("a", f"list:a=127.0.0.1:{port}", port=port)
    a.sees("a")
    no = kv_client(a, "drain", "a")
    if no.returncode != 3 or "send it SIGTERM instead, or start it with --allow-drain" not in no.stderr:
        raise Failed(str(no))
    none = kv_client(a, "drain", "x")
    if none.returncode != 1 or "no server has the name or address x" not in none.stderr:
        raise Failed(str(none))
    if a.process.poll() is not None or "asks for a drain" in a.text():
        raise Failed(a.text())


def rolling_upgrade() -> None:
    """Each of four servers is ended and started again under load: no call fails, and hits are within 0.02."""
    report = SCRATCH / "rolled.json"
    path, servers, members = rolling("rolled")
    load = "--num-keys 1000 --value-size 16KB --num-workers 4 --duration 45 --keep-going --verify".split()
    bench = bench_begin(servers[0], report, *load)
    soon("kv-bench reads", lambda: counted(servers[0], "kvrail_gets_total") > 500)
    for i in range(4):
        old = servers[i]
        old.end()
        servers[i] = KvServer(
            old.name, f"file:{path}", "--drain-sec", "8", "--memory-mb", "64", port=old.port
        )
        servers[i].sees("a b c d")
        soon("it is asked again", lambda: counted(servers[i], "kvrail_gets_total") > 100)
    if bench.wait(2 * PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    read = read_of(report)
    # All values fit the memory of four servers, and of three: without an upgrade every GET is a hit.
    ratio = read["hits"] / (read["hits"] + read["misses"])
    print(f"#: rolling upgrade: hits {ratio:.4f} of {read['ops']} GETs, errors {read['errors']}", flush=True)
    if ratio < 0.98 or read["errors"]:
        raise Failed(f"of {read['ops']} GETs {read['misses']} missed, errors {read['errors']}")


def hot_values() -> None:
    """One of 50 values has nearly all reads: its server alone is asked for it, or with --copies hot both are."""
    path, report = SCRATCH / "hot", SCRATCH / "hot.json"
    a, b = (KvServer(n, f"file:{path}") for n in "ab")
    path.write_text(f"a={a.address}\nb={b.address}\n")
    a.sees("a b")
    b.sees("a b")
    shares, said = {}, {}
    for how in ("1", "hot"):
        before = [counted(s, HITS) for s in (a, b)]
        load = f"--num-keys 50 --value-size 4KB --num-workers 8 --duration 4 --verify --copies {how} --seed 5"
        more = ["--keys-pattern", "hot:0.02:0.95"] + (["--no-write"] if how == "hot" else [])
        if bench_begin(a, report, *load.split(), *more).wait(PATIENCE_S) != 0:
            raise Failed("kv-bench failed")
        said[how] = json.loads(report.read_text())
        reads = said[how]["phases"]["read"]["hits"]

        def asked(before: list[int] = before) -> list[int]:
            return [counted(s, HITS) - n for s, n in zip((a, b), before, strict=True)]

        soon("the servers have counted all GETs", lambda reads=reads: sum(asked()) >= reads)
        shares[how] = min(asked()) / sum(asked())
    copies = said["hot"]["counters"]["cluster"]["copies"]
    # Clients that copy at the same moment count a copy each, and the second PUT finds the first one's bytes.
    twice = sum(counted(s, "kvrail_put_duplicates_total") for s in (a, b))
    print(f"#: hot values: the other server's share is {shares}, {copies} copies, {twice} of them twice", flush=True)
    if said["hot"]["config"]["copies"] != "hot" or said["1"]["config"]["copies"] != 1:
        raise Failed(f"config: {[s['config']['copies'] for s in said.values()]}")
    if said["1"]["counters"]["cluster"]["copies"] != 0 or shares["1"] > 0.05:
        raise Failed("copies were made though nobody asked for them")
    if copies == 0 or shares["hot"] < 0.1:
        raise Failed("the hot value was not read from both servers")
    all_counted((a, b), 50 + copies - twice)


# ---- DNS ----

STUB = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* A resolver for kv.test: lines "ADDRESS NAME" in the file STUB_HOSTS; "hang" and "none" besides. */
static FILE *hosts(void) { return fopen(getenv("STUB_HOSTS"), "r"); }
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		struct addrinfo **out)
{
	int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
		dlsym(RTLD_NEXT, "getaddrinfo");
	char address[64], name[128];
	struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *one;
	FILE *f;
	if (!host || strcmp(host, "kv.test") != 0)
		return next(host, port, hints, out);
	*out = NULL;
	f = hosts();
	while (f && fscanf(f, "%63s %127s", address, name) == 2) {
		if (strcmp(address, "hang") == 0)
			for (;;)
				pause();
		if (strcmp(address, "none") == 0 || next(address, port, &numeric, &one))
			continue;
		one->ai_next = *out;
		*out = one;
	}
	if (f)
		fclose(f);
	return *out ? 0 : EAI_NONAME;
}
int getnameinfo(const struct sockaddr *sa, socklen_t len, char *host, socklen_t cap, char *serv,
		socklen_t scap, int fl)
{
	char text[64], address[64], name[128];
	FILE *f = hosts();
	int rc = EAI_NONAME;
	(void)len, (void)serv, (void)scap, (void)fl;
	inet_ntop(AF_INET, &((const struct sockaddr_in *)sa)->sin_addr, text, sizeof(text));
	while (f && fscanf(f, "%63s %127s", address, name) == 2)
		if (strcmp(text, address) == 0 && strcmp(name, "-") != 0) {
			snprintf(host, cap, "%s", name);
			rc = 0;
		}
	if (f)
		fclose(f);
	return rc;
}
"""


def dns() -> None:
    source, stub, hosts = SCRATCH / "stub.c", SCRATCH / "stub.so", SCRATCH / "hosts"
    source.write_text(STUB)
    subprocess.run(
        [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", str(stub), str(source), "-ldl"],
        check=True,
    )
    hosts.write_text(
        "127.0.0.9 -\n127.0.0.2 kv-0.kv.test\n127.0.0.3 other.example\n127.0.0.10 KV-1.KV.TEST.\n"
    )
    a = KvServer("kv-0", "dns:kv.test:7411", LD_PRELOAD=str(stub), STUB_HOSTS=str(hosts))
    a.sees("127.0.0.3:7411 127.0.0.9:7411 KV-1 kv-0")
    epoch = a.view()["epoch"]
    hosts.write_text("127.0.0.10 KV-1.KV.TEST.\n127.0.0.9 -\n127.0.0.3 -\n127.0.0.2 kv-0.kv.test\n")
    a.page("/view")
    hosts.write_text("none -\n")
    a.source("unreachable")
    if a.view()["epoch"] != epoch:
        raise Failed("an order, or no answer, has moved the epoch")
    hosts.write_text("127.0.0.22 kv-0.kv.test\n127.0.0.10 KV-1.KV.TEST.\n127.0.0.9 -\n")
    a.sees("127.0.0.9:7411 KV-1 kv-0")  # kv-0 has another address, and its name
    if a.view()["members"][2]["address"] != "127.0.0.22:7411":
        raise Failed(str(a.view()))
    hosts.write_text("hang -\n")
    soon("the resolver hangs", lambda: a.view()["source"]["silence_sec"] > 2)
    if a.page("/readyz").strip() != "ok" or a.page("/healthz").strip() != "ok":
        raise Failed("a resolver that hangs has made the server unready")
    a.end()  # in bounded time


def local_name() -> None:
    (port,) = free_ports()
    a = KvServer(None, f"dns:localhost:{port}", port=port)
    soon(
        "localhost is found",
        lambda: f"127.0.0.1:{port}" in a.names() or f"[::1]:{port}" in a.names(),
    )


def own_network() -> str:
    """Why there is none: a resolver's port is 53, and its place /etc/resolv.conf, for a process of its own namespaces."""
    tried = subprocess.run(["unshare", "-mn", "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else "no network of its own may be made here"


def dns_udp() -> None:
    """The system's resolver asks a name server over UDP, in a network of its own: this program runs there again."""
    resolv, nss = SCRATCH / "resolv.conf", SCRATCH / "nsswitch.conf"
    resolv.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    nss.write_text("hosts: dns\n")
    inside = (
        f"ip link set lo up && mount --bind {resolv} /etc/resolv.conf && "
        f'mount --bind {nss} /etc/nsswitch.conf && exec "{sys.executable}" -B "{__file__}" --inside'
    )
    ran = subprocess.run(
        ["unshare", "-mn", "sh", "-c", inside], capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False
    )
    if ran.returncode != 0:
        raise Failed(ran.stdout + ran.stderr)


def dns_udp_inside() -> None:
    dns = FakeDns("kv.test")
    running.append(dns)
    dns.addresses = ["127.0.0.2", "127.0.0.10"]
    dns.names = {"127.0.0.2": "kv-0.kv.test", "127.0.0.10": "KV-1.kv.test"}
    a = KvServer("kv-0", "dns:kv.test:7411")
    a.sees("KV-1 kv-0")
    dns.addresses.append("127.0.0.9")  # which has no name
    a.sees("127.0.0.9:7411 KV-1 kv-0")
    before = list(dns.addresses)
    dns.unsaid, dns.names["127.0.0.8"] = "127.0.0.7", "kv-8.kv.test"
    dns.addresses += ["127.0.0.7", "127.0.0.8"]
    a.sees("127.0.0.9:7411 KV-1 kv-0 kv-8")  # one without an answer holds up nobody
    a.sees("127.0.0.7:7411 127.0.0.9:7411 KV-1 kv-0 kv-8")
    a.says(r"event=members_unnamed address=127.0.0.7:7411 members=1\n")
    dns.addresses = before
    a.sees("127.0.0.9:7411 KV-1 kv-0")
    epoch = a.view()["epoch"]
    for mode in ("servfail", "nxdomain", "silent"):
        dns.mode = mode
        a.source("unreachable")
        if a.view()["epoch"] != epoch or a.page("/readyz").strip() != "ok":
            raise Failed(f"{mode} has changed the view: {a.view()}")
        dns.mode = "ok"
        a.source("ok")
    dns.addresses.reverse()
    asked = dns.asked["udp"]
    soon("it is asked again", lambda: dns.asked["udp"] > asked + 6)
    if a.view()["epoch"] != epoch:
        raise Failed("another order has changed the view")
    dns.addresses = ["127.0.0.22", "127.0.0.10"]
    dns.names["127.0.0.22"] = dns.names.pop("127.0.0.2")
    a.sees("KV-1 kv-0")  # kv-0 has another address, and its name
    if a.view()["members"][1]["address"] != "127.0.0.22:7411":
        raise Failed(str(a.view()))
    # More pods than fit a datagram: the resolver asks again over TCP.
    for i in range(2, 60):
        dns.names[f"127.0.1.{i}"] = f"kv-{i}.kv.test"
    dns.addresses += [f"127.0.1.{i}" for i in range(2, 60)]
    soon(lambda: f"60 members: {a.names()}", lambda: len(a.view()["members"]) == 60)
    if dns.asked["tcp"] == 0:
        raise Failed("nobody asked over TCP")
    if any(":" in m["node_id"] for m in a.view()["members"]):
        raise Failed(f"a member is not called by its name: {a.names()}")


# ---- etcd ----


def etcd_spec(*etcds: Any) -> str:
    return "etcd:" + ",".join(e.url for e in etcds) + "/test/kv"


def etcd_joining(make: Callable[[], Any]) -> None:
    e = make()
    a = KvServer("a", etcd_spec(e), *LEASE)
    a.sees("a")
    b = KvServer("b", etcd_spec(e), "--lease-sec", "2", "--joining-sec", "30")
    a.sees("a b-joining")
    a.says(r"b \(127.0.0.1:[0-9]+\) joins")
    a.sees("a b")
    a.says("b is up")


def a_put_under_way() -> None:
    """What changes between a put and its answer is put, too."""
    e = FakeEtcd()
    config = SCRATCH / "a.conf"
    config.write_text("weight = 3\n")
    a = KvServer("a", etcd_spec(e), "--lease-sec", "20", *LEASE[2:], "--config", str(config))
    b = KvServer("b", etcd_spec(e), *LEASE)
    a.sees("a b")
    b.sees("a b")
    e.put_pause_s = 1
    for weight in (5, 7):
        config.write_text(f"weight = {weight}\n")
        a.process.send_signal(signal.SIGHUP)
        a.says(f"taken: weight = {weight}")
        b.says(f"a has weight {weight}")


def etcd_life(make: Callable[[], Any]) -> None:
    e = make()
    config = SCRATCH / "a.conf"
    config.write_text("weight = 3\n")
    a = KvServer("a", etcd_spec(e), *LEASE, "--config", str(config), "--zone", "z")
    b = KvServer("b", etcd_spec(e), *LEASE, "--advertise", "127.1.2.3:0")
    a.sees("a b")
    b.sees("a b")
    a.says("this server is registered .*event=registered")
    one, two = a.view()["members"]
    if (one["weight"], one["zone"], two["address"]) != (3, "z", f"127.1.2.3:{b.port}"):
        raise Failed(str(a.view()))
    config.write_text("weight = 5\n")
    a.process.send_signal(signal.SIGHUP)
    a.says("taken: weight = 5")
    b.says("a has weight 5")
    soon(
        "both agree on the epoch",
        lambda: a.view()["epoch"] == b.view()["epoch"] or b.view()["epoch"] > 0,
    )
    e.put("/test/kv/strange", "no member")
    e.put("/test/kvother", "not ours")
    a.says(r"is not a member, and is ignored \| event=member_ignored prefix=\S+ key=\S+")
    c = KvServer("c", etcd_spec(e), *LEASE, "--drain-sec", "60")
    b.sees("a b c")
    soon("all agree on the epoch", lambda: len({s.view()["epoch"] for s in (a, b, c)}) <= 2)
    client = [f"{BUILD}/kv-client", "-s", f"c={c.address}", "--provider", PROVIDER]
    subprocess.run([*client, "put", "k", "v"], check=True, timeout=60, stdout=subprocess.DEVNULL)
    with subprocess.Popen([*client, "pin", "k"], stdout=subprocess.PIPE) as pinned:
        assert pinned.stdout
        pinned.stdout.readline()
        pinned.send_signal(signal.SIGSTOP)
        c.process.terminate()  # a client that does not leave keeps the drain going
        try:
            a.says("c is draining")
        finally:  # else we would wait for one that is stopped
            pinned.kill()
    c.end(signal.SIGCONT)
    a.sees("a b")
    b.kill()  # no goodbye: its lease ends
    a.sees("a")
    again = KvServer("a", etcd_spec(e), *LEASE)  # a second server of that name
    a.says("another server, at .* has also registered as a")
    again.kill()
    soon(
        "the first one is back", lambda: [m["address"] for m in a.view()["members"]] == [a.address]
    )


def etcd_lost(make: Callable[[], Any]) -> None:
    """Leases revoked, keys deleted."""
    e = make()
    a, b, c = (KvServer(n, etcd_spec(e), *LEASE) for n in "abc")
    a.sees("a b c")
    e.revoke_all()
    for s in (a, b, c):
        s.says("the lease of this server has expired")
        s.sees("a b c")
    a.never_said(r"view \d+ by etcd: [^\n]*left[^\n]*; 0 member")
    # The view has them while they answer: their keys are back when nobody is doubted.
    soon("nobody is doubted", lambda: a.view()["source"]["doubted"] == 0)
    e.delete("/test/kv/b")
    b.says("b left|view")
    c.sees("a b c")


def etcd_away(make: Callable[[], Any]) -> None:
    """Its lease is gone: no view lacks the server, since it answers, but one of another server may. Its values are hidden
    until it is registered again, and the others have said what was deleted. The same when its key alone is deleted."""
    e = make()
    a, b = (KvServer(n, etcd_spec(e), *LEASE) for n in "ab")
    a.sees("a b")
    b.sees("a b")
    prompt(a, *PUT_ALL)
    prompt(a, *DELETE_DEAD)
    grown_up()
    e.revoke_all()
    for s in (a, b):
        s.says(r"\| event=lease_lost")
        s.says(r"its values are hidden .* \| event=values_doubted")
    for s in (a, b):
        s.says(r"\| event=values_judged deleted=\d")
        s.never_said(r"event=values_dropped|[^\n]*left[^\n]*; 0 member")
    alive_alone(a)
    soon("nobody is doubted", lambda: a.view()["source"]["doubted"] == 0)
    judged = b.text().count("event=values_judged")
    e.delete("/test/kv/b")
    soon("b hides its values again", lambda: b.text().count("event=values_doubted") > judged)
    soon("b has judged again", lambda: b.text().count("event=values_judged") > judged)
    alive_alone(a)


def etcd_stopped(make: Callable[[], Any]) -> None:
    """An etcd that is stopped keeps its connections: the view stays, and heals."""
    e = make()
    a, b = (KvServer(n, etcd_spec(e), *LEASE) for n in "ab")
    a.sees("a b")
    e.stop()
    a.source("unreachable")
    soon("the lease is over", lambda: a.view()["source"]["silence_sec"] > 3)
    if a.names() != "a b" or a.page("/readyz").strip() != "ok":
        raise Failed(f"{a.view()}")
    e.go_on()
    a.source("ok")
    a.sees("a b")
    b.sees("a b")


def etcd_auth(make: Callable[[], Any]) -> None:
    e = make()
    password = SCRATCH / "password"
    password.write_text("secret\n")
    login = ["--members-user", "kv", "--members-password-file", str(password), "--lease-sec", "60", "--joining-sec", "1"]
    a = KvServer("a", etcd_spec(e), *login)  # while there is no authentication yet
    a.sees("a")
    e.auth()
    b = KvServer("b", etcd_spec(e), *login)
    b.sees("a b")
    a.sees("a b")
    password.write_text("wrong\n")
    c = KvServer("c", etcd_spec(e), *login)
    c.says("the user is refused: .*invalid user ID or password")
    d = KvServer("d", etcd_spec(e), *LEASE)
    d.says("it requires --members-user")
    if isinstance(e, FakeEtcd):
        e.forget_tokens()  # as at a restart
    else:
        e.kill()
        e.again()
    a.source("unreachable")
    if a.names() != "a b":
        raise Failed(str(a.view()))
    password.write_text("secret\n")
    for s in (a, b, c):
        s.source("ok")
        s.sees("a b c")


def etcd_password(make: Callable[[], Any]) -> None:
    """The password is changed in etcd, and the servers have the former one for longer than their leases last."""
    e = make()
    e.auth()
    password = SCRATCH / "password"
    login = ["--members-user", "kv", "--members-password-file", str(password), "--lease-sec", "2", "--joining-sec", "1"]
    password.write_text("secret\n")
    a, b = (KvServer(name, etcd_spec(e), *login) for name in "ab")
    for s in (a, b):
        s.sees("a b")
    e.change_password("other")
    for s in (a, b):
        s.source("unreachable")
    time.sleep(5)
    for s in (a, b):
        s.source("unreachable")
        s.never_said("lease_lost|left; |members_doubted")
    password.write_bytes(b"s\xe4cret\n")
    soon("it says why it is no password", lambda: "is not in UTF-8" in a.view()["source"]["trouble"])
    password.write_text("other\n")
    for s in (a, b):
        s.source("ok")
        s.sees("a b")
        s.never_said("lease_lost|left; |members_doubted")


def etcd_prefixes(make: Callable[[], Any]) -> None:
    """A cluster whose prefix is the beginning of another one's."""
    e = make()
    a = KvServer("a", f"etcd:{e.url}", *LEASE)
    b = KvServer("b", f"etcd:{e.url}/kvrail/prod", *LEASE)
    b.sees("b")
    a.sees("a")
    b.end()
    a.says("is not a member, and is ignored")
    if a.names() != "a":
        raise Failed(a.names())


def etcd_full() -> None:
    """An etcd that takes no writes renews leases, and does so in time."""
    e = FakeEtcd()
    config = SCRATCH / "full.conf"
    config.write_text("weight = 3\n")
    a = KvServer("a", etcd_spec(e), *LEASE, "--config", str(config), KVRAIL_TEST_PACE="1")
    b = KvServer("b", etcd_spec(e), *LEASE)
    a.sees("a b")
    b.sees("a b")
    e.full = True
    config.write_text("weight = 5\n")
    a.process.send_signal(signal.SIGHUP)
    a.says("this server cannot be registered: etcdserver: mvcc: database space exceeded")
    time.sleep(6)
    e.full = False
    b.says("a has weight 5")
    for s in (a, b):
        s.never_said("the lease of this server has expired|left; |members_doubted")


def etcd_headless() -> None:
    """An etcd that had no leader for a while hears of all servers before their leases end."""
    e = FakeEtcd()
    lease = ["--lease-sec", "3", "--joining-sec", "1"]
    a, b, c = (KvServer(n, etcd_spec(e), *lease, KVRAIL_TEST_PACE="1") for n in "abc")
    for s in (a, b, c):
        s.sees("a b c")
    e.lose_leader()
    time.sleep(8)
    e.elect()
    for s in (a, b, c):
        s.source("ok")
    time.sleep(4)
    for s in (a, b, c):
        s.never_said("the lease of this server has expired|left; |members_doubted")


def fake_days() -> None:
    """What only the fake can do: lost events, and a compaction between two watches."""
    e = FakeEtcd()
    running.append(e)
    a = KvServer("a", etcd_spec(e), *LEASE)
    a.sees("a")
    e.mute = True
    b = KvServer("b", etcd_spec(e), *LEASE)
    a.sees("a b")  # by the range each minute
    a.says("the watch had missed a change")
    e.mute = False
    b.end()
    a.sees("a")
    e.cut_and_compact()
    a.says("the watch has ended")
    KvServer("c", etcd_spec(e), *LEASE).sees("a c")
    a.sees("a c")
    for i in range(500):  # a storm of changes is some views, and the last of them is right
        e.put("/test/kv/d", json.dumps({"address": f"10.0.0.1:{i + 1}", "state": "up"}))
    soon("a has the last", lambda: a.view()["members"][-1]["address"] == "10.0.0.1:500")
    views = a.text().count("event=view ")
    if views > 200:
        raise Failed(f"{views} views of 500 changes")


def no_watch_lasts() -> None:
    """Watches are cut as they begin: it says so once, and goes on by reading."""
    e = FakeEtcd()
    running.append(e)
    a = KvServer("a", etcd_spec(e), *LEASE)
    a.sees("a")
    for cut in range(5):
        soon("a watch begins", lambda cut=cut: e.watches > cut)
        e.cut_and_compact()
    a.says(r"event=watch_lost reason=")
    b = KvServer("b", etcd_spec(e), *LEASE)
    a.sees("a b")
    b.end()
    a.sees("a")
    if a.text().count("event=watch_lost") != 1:
        raise Failed("it says more than once that no watch lasts")


def real_compaction() -> None:
    """Stopped servers miss what is then compacted."""
    e = one_real()
    a, b = (KvServer(n, etcd_spec(e), "--lease-sec", "60", "--joining-sec", "1") for n in "ab")
    a.sees("a b")
    e.kill()
    e.again()
    for i in range(20):
        e.put("/test/kv/x", str(i))
    e.delete("/test/kv/x")
    revision = int(e.ask("kv/range", key=b64("x"))["header"]["revision"])
    e.ask("kv/compaction", revision=str(revision), physical=True)
    a.source("ok")
    c = KvServer("c", etcd_spec(e), *LEASE)
    for s in (a, b, c):
        s.sees("a b c")


def real_killed() -> None:
    e = one_real()
    a, b = (KvServer(n, etcd_spec(e), *LEASE) for n in "ab")
    a.sees("a b")
    e.kill()
    a.source("unreachable")
    if a.names() != "a b":
        raise Failed(str(a.view()))
    e.again()
    a.source("ok")
    for s in (a, b):
        s.sees("a b")
    b.kill()
    a.sees("a")
    e.kill()
    a.source("unreachable")
    a.end()  # in bounded time though etcd is away


def real_anew() -> None:
    """etcd comes back without its data: it is another source, with epochs of its own."""
    e = one_real()
    a, b = (KvServer(n, etcd_spec(e), *LEASE) for n in "ab")
    a.sees("a b")
    for i in range(400):  # more changes than a slow machine makes by itself below
        e.put("/elsewhere", str(i))
    c = KvServer("c", etcd_spec(e), *LEASE)
    a.sees("a b c")
    epoch = a.view()["epoch"]
    e.kill()
    shutil.rmtree(e.data)
    e.start("new")
    e.ready()
    for s in (a, b, c):
        s.says("this server is registered|the lease of this server has expired|lease")
        s.sees("a b c")
    a.says("is another source now")
    c.end()
    a.sees("a b")
    if a.view()["epoch"] >= epoch:
        raise Failed(f"{a.view()['epoch']} is no epoch of the new etcd: {epoch}")


def marks(e: FakeEtcd) -> list[str]:
    return [v[0] for k, v in e.keys.items() if k == "/test/kv//incarnation"]


def etcd_mark() -> None:
    """An etcd that lost its data is another source, one that was restored is the same and counts backwards."""
    e = one_fake()
    for i in range(40):
        e.put("/elsewhere", str(i))
    a, b = (KvServer(n, etcd_spec(e), *LEASE) for n in "ab")
    for s in (a, b):
        s.sees("a b")
    (mark,) = marks(e)
    backup, epoch = e.backup(), a.view()["epoch"]
    e.delete("/test/kv//incarnation")  # it alone: it comes back as it was
    soon("the mark is put back", lambda: marks(e) == [mark])
    for i in range(40):
        e.put("/elsewhere", str(i))
    c = KvServer("c", etcd_spec(e), *LEASE)
    for s in (a, b, c):
        s.sees("a b c")
        s.never_said("event=source_restarted")
    later = a.view()["epoch"]
    e.begin_anew(backup)
    a.says("counts backwards.*event=source_restarted source=etcd .* other=no")
    for s in (a, b, c):
        s.sees("a b c")
    if a.view()["epoch"] < later or epoch >= later or marks(e) != [mark]:
        raise Failed(f"{a.view()}, {later}, {marks(e)}")
    e.begin_anew()
    for s in (a, b, c):
        s.says("is another source now.*event=source_restarted source=etcd .* other=yes")
        s.sees("a b c")
    soon("another mark", lambda: len(marks(e)) == 1 and marks(e) != [mark])
    c.end()
    a.sees("a b")
    if a.view()["epoch"] >= later or counted(a, "kvrail_members_restarts_total") != 2:
        raise Failed(f"{later}: {a.view()}; {a.text()[-5000:]}")


def etcd_without_mark() -> None:
    """Who may not put the mark is a member all the same, and does not ask for it again and again."""
    e = one_fake()
    e.readonly = True
    a, b = (KvServer(n, etcd_spec(e), *LEASE) for n in "ab")
    a.sees("a b")
    b.ready()
    e.readonly = False
    a.says("is another source now")  # with the mark
    b.says("is another source now")
    a.sees("a b")


def state_dir() -> None:
    """etcd is away, and a machine has lost its power: with --state-dir a server begins with its last view."""
    e = one_fake()
    folder, tight = SCRATCH / "state", SCRATCH / "tight"
    folder.mkdir()
    tight.mkdir(mode=0o500)
    more = ("--state-dir", str(folder))
    a = KvServer("a", etcd_spec(e), *LEASE, *more)
    b = KvServer("b", etcd_spec(e), *LEASE)
    a.sees("a b")
    soon("the view is saved", lambda: (folder / "view").exists())
    time.sleep(0.5)
    e.lose_leader()
    for s in (a, b):
        s.source("unreachable")
        s.kill()
    again = KvServer("a", etcd_spec(e), *LEASE, *more, port=a.port)
    again.ready()
    again.says("begins with its last view, 2 members.*event=saved_view source=etcd")
    again.sees("a b")
    if again.view()["source"]["saved"] is not True or counted(again, "kvrail_view_saved") != 1:
        raise Failed(str(again.view()))
    epoch = again.view()["epoch"]
    without = KvServer("b", etcd_spec(e), *LEASE, port=b.port)
    time.sleep(1)
    if without.is_ready()[0] or counted(without, "kvrail_view_epoch") != 0 or "READY" in "".join(without.said):
        raise Failed("a server without a view is ready")
    # An engine that starts has the view of the server that has one, and puts nothing by its own list.
    report = SCRATCH / "state.json"
    servers = ["-s", f"b={without.address}"]
    load = "--num-keys 40 --value-size 4KB --num-workers 2 --timeout 30s".split()
    if bench_begin(again, report, *servers, *load).wait(PATIENCE_S) != 0:
        raise Failed("kv-bench failed")
    if counted(without, "kvrail_puts_total") != 0:
        raise Failed("a server that is not ready was used")
    without.says("is refused: the server is not ready: it does not know the members of its cluster yet")
    e.elect()
    for s in (again, without):
        s.source("ok")
        s.ready()
        s.sees("a b")
    if again.view()["source"]["saved"] or again.view()["epoch"] < epoch:
        raise Failed(str(again.view()))
    again.end()
    other = KvServer("a", etcd_spec(e), *LEASE, "--cluster", "lab", *more)
    other.says("--state-dir: .*/view is not used: it belongs to another --members or --cluster.*event=saved_view_refused")
    other.ready()
    if os.geteuid() != 0:
        unwritable = KvServer("c", etcd_spec(e), *LEASE, "--state-dir", str(tight))
        unwritable.says("the view cannot be saved in .*Permission denied.*event=view_unsaved")
        unwritable.ready()
    gone = KvServer("d", etcd_spec(e), *LEASE, "--state-dir", str(SCRATCH / "nowhere"))
    gone.says("the view cannot be saved in .*No such file.*event=view_unsaved")
    gone.ready()
    gone.sees(gone.names())


def real_three() -> None:
    ports = dict(zip(("e0", "e1", "e2"), free_ports(3)))
    etcds = [RealEtcd(n, ports) for n in ports]
    for e in etcds:
        e.ready()
    a, b = (KvServer(n, etcd_spec(*etcds), *LEASE) for n in "ab")
    a.sees("a b")
    etcds[0].stop()
    c = KvServer("c", etcd_spec(*etcds), *LEASE)
    for s in (a, b, c):
        s.sees("a b c")
    c.end()
    a.sees("a b")
    # While the other two elect a leader, which takes a second, nobody answers. No member is lost by that.
    for s in (a, b):
        s.never_said(r"view \d+ by etcd: [^\n]*\b[ab] left")
    etcds[0].go_on()
    etcds[1].kill()
    d = KvServer("d", etcd_spec(*etcds), *LEASE)
    for s in (a, b, d):
        s.sees("a b d")


def real_tls() -> None:
    """etcd wants a certificate; who has none, or trusts somebody else, is not in, and says why."""
    certs, others = SCRATCH / "certs", SCRATCH / "others"
    for d in (certs, others):
        subprocess.run(["scripts/make-test-certs.sh", "--odd", str(d)], check=True, capture_output=True)
    e = RealEtcd("tls", tls=certs)
    e.ready()

    def options(of: Path) -> list[str]:
        return [
            *("--members-ca", str(of / "ca.pem")),
            *("--members-cert", str(of / "client.pem"), "--members-key", str(of / "client.key")),
        ]

    a = KvServer("a", etcd_spec(e), *LEASE, *options(certs))
    a.sees("a")
    none = KvServer("b", etcd_spec(e), *LEASE, "--members-ca", str(certs / "ca.pem"))
    none.source("unreachable")
    other = KvServer("c", etcd_spec(e), *LEASE, *options(others))
    other.source("unreachable")
    other.says("certificate")
    e.kill()
    a.source("unreachable")
    e.again()
    a.source("ok")
    KvServer("d", etcd_spec(e), *LEASE, *options(certs))
    a.sees("a d")


def one_real() -> RealEtcd:
    e = RealEtcd()
    e.ready()
    return e


def one_fake() -> FakeEtcd:
    e = FakeEtcd()
    running.append(e)
    return e


def a_dead_endpoint() -> None:
    """The first endpoint is dead from the start, the second one answers."""
    dead, e = f"http://127.0.0.1:{free_ports()[0]}", one_fake()
    a = KvServer("a", f"etcd:{dead},{e.url}/test/kv", *LEASE)
    a.sees("a")
    a.never_said("the view stays")


# ---- Kubernetes ----


def endpoint(
    pod: str,
    address: str,
    ready: bool | None = True,
    serving: bool | None = True,
    terminating: bool = False,
    uid: str = "",
) -> dict[str, Any]:
    return {
        "addresses": [address],
        "zone": "z-" + pod,
        "targetRef": {"kind": "Pod", "name": pod, "uid": uid or "uid-" + pod},
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
    }


class Kube:
    """A fake API server with TLS, and a pod's environment for it."""

    def __init__(self) -> None:
        self.ca, key = SCRATCH / "kube.pem", SCRATCH / "kube.key"
        if not self.ca.exists():
            subprocess.run(
                [
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:P-256",
                    "-nodes",
                    "-keyout",
                    str(key),
                    "-out",
                    str(self.ca),
                    "-days",
                    "2",
                    "-subj",
                    "/CN=kube",
                    "-addext",
                    "subjectAltName=IP:127.0.0.1",
                ],
                check=True,
                capture_output=True,
            )
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.ca, key)
        self.api = FakeKube(tls)
        running.append(self.api)
        self.token = SCRATCH / "token"
        self.token.write_text(self.api.token + "\n")

    def server(
        self, name: str, *more: str, ca: Path | None = None, port: int = 0, host: str = "127.0.0.1"
    ) -> KvServer:
        return KvServer(
            name,
            "k8s:prod/kv",
            "--members-ca",
            str(ca or self.ca),
            "--members-token-file",
            str(self.token),
            *more,
            port=port,
            host=host,
            KUBERNETES_SERVICE_HOST="127.0.0.1",
            KUBERNETES_SERVICE_PORT=str(self.api.server.server_port),
        )


def kube_life() -> None:
    k = Kube()
    k.api.put("kv-1", [endpoint("kv-0", "127.0.0.1"), endpoint("kv-1", "127.0.0.2", None, None)])
    k.api.put(
        "kv-2",
        [
            endpoint("kv-2", "127.0.0.3"),
            endpoint("kv-3", "127.0.0.4", False, False),
            endpoint("kv-0", "127.0.0.1"),
        ],
    )  # twice
    k.api.put("kv-6", [endpoint("kv-0", "fd00::1")], addressType="IPv6")
    a, b = k.server("kv-0"), k.server("kv-1")
    a.sees("kv-0 kv-1 kv-2")
    b.sees("kv-0 kv-1 kv-2")
    if a.view()["epoch"] != 103 or b.view()["epoch"] != 103:
        raise Failed(f"the epoch is not the highest version: {a.view()}")
    first = a.view()["members"][0]
    if (first["address"], first["zone"]) != ("127.0.0.1:7411+[fd00::1]:7411", "z-kv-0"):
        raise Failed(str(first))
    k.api.put(
        "kv-1", [endpoint("kv-0", "127.0.0.1"), endpoint("kv-1", "127.0.0.2", False, True, True)]
    )
    a.sees("kv-0 kv-1-draining kv-2")
    # It ends, and its probe fails: it stays until its endpoint is gone. One that nobody saw serve is none.
    k.api.put(
        "kv-1",
        [
            endpoint("kv-0", "127.0.0.1"),
            endpoint("kv-1", "127.0.0.2", False, False, True),
            endpoint("kv-8", "127.0.0.8", False, False, True),
        ],
    )
    k.api.put("kv-7", [endpoint("kv-7", "127.0.0.7")])
    a.sees("kv-0 kv-1-draining kv-2 kv-7")
    k.api.delete("kv-7")
    k.api.put("kv-1", [endpoint("kv-0", "127.0.0.1")])
    a.sees("kv-0 kv-2")
    k.api.delete("kv-2")
    a.sees("kv-0")
    b.sees("kv-0")
    if k.api.lists > 2:
        raise Failed(f"{k.api.lists} lists: the watch is not used")
    k.api.cut()
    soon("both watch again", lambda: k.api.watches == 4)
    k.api.cut(broken=True)
    soon("and again", lambda: k.api.watches == 6)
    k.api.put("kv-3", [endpoint("kv-4", "127.0.0.5")])
    a.sees("kv-0 kv-4")


def kube_dual_stack() -> None:
    """A pod in an IPv4 and an IPv6 slice is one member with both addresses, whichever of them it listens on."""
    for host, other in (("[::1]", "127.0.0.1"), ("127.0.0.1", "[::1]")):
        k = Kube()
        (port,) = free_ports()
        ports = [{"name": "kvrail", "port": port}]
        k.api.put("kv-4", [endpoint("kv-0", "127.0.0.1")], ports=ports)
        a = k.server("kv-0", port=port, host=host)
        a.sees("kv-0")
        k.api.put("kv-6", [endpoint("kv-0", "::1")], addressType="IPv6", ports=ports)
        both = f"127.0.0.1:{port}+[::1]:{port}"
        soon(
            lambda: f"both addresses are there: {a.view()}",
            lambda: [m["address"] for m in a.view()["members"]] == [both],
        )
        if any(m["incarnation"].strip("0") for m in a.view()["members"]):
            raise Failed(f"an incarnation that no server has: {a.view()}")
        a.says(re.escape(f"has this server, kv-0, at {other}:{port}, and it listens on {host}:{port}"))
        asked = kv_client(a, "put", "k", "v")
        if asked.returncode != 0:
            raise Failed(f"{host}: {asked.stdout}{asked.stderr}")
        k.api.delete("kv-4" if host == "[::1]" else "kv-6")
        soon("one address stays", lambda: "+" not in a.view()["members"][0]["address"])
        # Another pod of the name comes while the former one ends: its addresses alone count.
        k.api.put(
            "kv-9",
            [
                endpoint("kv-0", "127.0.0.9", False, True, True, uid="former"),
                endpoint("kv-0", "127.0.0.8", uid="next"),
            ],
            ports=ports,
        )
        k.api.delete("kv-6" if host == "[::1]" else "kv-4")
        soon(
            lambda: f"the next pod alone: {a.view()}",
            lambda: [m["address"] for m in a.view()["members"]] == [f"127.0.0.8:{port}"],
        )
        a.end()


def kube_restored() -> None:
    """The control plane comes back with old versions: the log and a counter say so, and the epoch grows all the same."""
    k = Kube()
    k.api.version = 5000
    k.api.put("kv-1", [endpoint("kv-0", "127.0.0.1"), endpoint("kv-1", "127.0.0.2")])
    a = k.server("kv-0")
    a.sees("kv-0 kv-1")
    epoch = a.view()["epoch"]
    with k.api.lock:
        k.api.version = 100
        k.api.history.clear()
        k.api.slices.clear()
    k.api.put("kv-1", [endpoint("kv-0", "127.0.0.1"), endpoint("kv-1", "127.0.0.2"), endpoint("kv-2", "127.0.0.3")])
    k.api.cut(broken=True)
    a.sees("kv-0 kv-1 kv-2")
    a.says("counts backwards, and its epoch was 5001 and is 101.*event=source_restarted source=k8s from=5001 to=101")
    if a.view()["epoch"] <= epoch or counted(a, "kvrail_members_restarts_total") != 1:
        raise Failed(str(a.view()))
    b = k.server("kv-1")
    b.sees("kv-0 kv-1 kv-2")
    if b.view()["epoch"] != 101:
        raise Failed(str(b.view()))


class Kubelet:
    """What kubelet and the controller of endpoints do with three pods: a probe that fails three times, each 0.2 s (5 s
    with deploy/kubernetes), ends `serving`; a pod that was told to end is `terminating`, and goes when its process does.
    """

    def __init__(self, kube: Kube, names: str) -> None:
        self.kube = kube
        self.ports = dict(zip(names, free_ports(len(names))))
        self.pods: dict[str, KvServer] = {}
        self.failed = {n: 3 for n in names}
        self.ending: set[str] = set()
        self.shown: dict[str, tuple[bool, bool]] = {}
        self.over = False
        threading.Thread(target=self.run, daemon=True).start()

    def start(self, *more: str) -> list[KvServer]:
        for name, port in self.ports.items():
            self.pods[name] = self.kube.server(name, *more, port=port)
        return list(self.pods.values())

    def look(self, name: str, pod: KvServer) -> None:
        gone = pod.process.poll() is not None
        try:
            good = not gone and pod.is_ready()[0]
        except (OSError, urllib.error.URLError):
            good = False
        self.failed[name] = 0 if good else self.failed[name] + 1
        now = (self.failed[name] < 3, name in self.ending)
        if gone and name in self.shown:
            self.kube.api.delete(f"kv-{name}")
            del self.shown[name]
        elif not gone and now != self.shown.get(name):
            serving, ending = self.shown[name] = now
            self.kube.api.put(
                f"kv-{name}",
                [endpoint(name, "127.0.0.1", serving and not ending, serving, ending)],
                ports=[{"name": "kvrail", "port": self.ports[name]}],
            )

    def run(self) -> None:
        while not self.over and not self.kube.api.closed:
            for name, pod in list(self.pods.items()):
                self.look(name, pod)
            time.sleep(0.2)

    def end(self, name: str) -> None:
        self.ending.add(name)
        self.pods[name].process.send_signal(signal.SIGTERM)


def kube_drains() -> None:
    """A push that takes many times what a failing probe takes: the pod is ready, and a draining member, to its end. No
    read misses."""
    kubelet = Kubelet(Kube(), "abc")
    pods = kubelet.start("--drain-sec", "60", "--drain-mb", "1", "--memory-mb", "64")
    for pod in pods:  # all at once are ready only when they are members, and members only when they are ready
        pod.ready()
        pod.sees("a b c")
    report = SCRATCH / "kubelet.json"
    load = "--num-keys 1200 --value-size 16KB --num-workers 4 --seed 7 --duration 25 --keep-going --verify".split()
    bench = bench_begin(pods[0], report, *load)
    soon("kv-bench reads", lambda: counted(pods[0], "kvrail_gets_total") > 2000)
    all_counted(pods, 1200)
    before = counted(pods[1], BLOCKS)
    begun = time.monotonic()
    kubelet.end("b")
    pods[0].sees("a b-draining c")
    while pods[1].process.poll() is None:
        if pods[0].names() != "a b-draining c" and pods[1].process.poll() is None and "goodbye" not in pods[1].text():
            raise Failed(f"b is no member while it hands over: {pods[0].names()}; {pods[1].text()[-2000:]}")
        time.sleep(0.1)
    took = time.monotonic() - begun
    pods[1].says(rf"event=drain_pushed values={before} of={before} .* all=yes")
    if took < 3 or before < 200:
        raise Failed(f"{before} values took {took:.1f} s: that shows nothing")
    pods[0].sees("a c")
    if bench.wait(PATIENCE_S) != 0 or read_of(report)["misses"] != 0 or read_of(report)["errors"]:
        raise Failed(f"{read_of(report)}")
    kubelet.over = True


def kube_bad_days() -> None:
    k = Kube()
    k.api.put("kv-1", [endpoint("kv-0", "127.0.0.1"), endpoint("kv-1", "127.0.0.2")])
    a = k.server("kv-0")
    a.sees("kv-0 kv-1")
    k.api.bookmark()
    k.api.forget()
    k.api.cut()  # the next watch begins before what is remembered
    a.says("410")
    k.api.put("kv-1", [endpoint("kv-0", "127.0.0.1")])
    a.sees("kv-0")
    k.api.mute = True  # silence
    a.says("silent for too long")
    k.api.mute = False
    k.api.token = "second"  # the old one is refused from the next call on
    k.api.cut()
    a.source("unreachable")
    a.says("the API server answers 401")
    k.token.write_text("second\n")
    a.source("ok")
    k.api.put("kv-9", [endpoint("kv-7", "127.0.0.7")])
    a.sees("kv-0 kv-7")
    k.api.hung = True
    k.api.cut()
    a.source("unreachable")
    if a.names() != "kv-0 kv-7":
        raise Failed(str(a.view()))
    k.api.hung = False
    a.source("ok")
    kube_nonsense(k, a)
    a.end()
    other = SCRATCH / "other.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "/dev/null",
            "-out",
            str(other),
            "-days",
            "2",
            "-subj",
            "/CN=other",
        ],
        check=True,
        capture_output=True,
    )
    stranger = k.server("kv-5", ca=other)
    stranger.source("unreachable")
    stranger.says("certificate")


def kube_nonsense(k: Kube, a: KvServer) -> None:
    """It is asked less and less often, and the view stays."""
    k.api.refusing = True
    k.api.cut()
    before = k.api.lists
    time.sleep(3)
    if k.api.lists - before > 20:  # without a pause that grows they are fifty
        raise Failed(f"{k.api.lists - before} lists in 3 s: watches are refused, and it does not wait")
    k.api.refusing = False
    rubbish: list[tuple[int, Any, str]] = [
        (429, None, "answers 429: not now"),
        (500, None, "answers 500: not now"),
        (200, [1], "cannot be read"),
        (200, {"metadata": {"resourceVersion": "x" * 100}, "items": []}, "cannot be read"),
        (200, {"metadata": {"resourceVersion": "5"}, "items": 7}, "cannot be read"),
        (200, {"metadata": {"resourceVersion": "5"}, "items": [{}] * 300}, "cannot be read"),
    ]
    for status, body, says in rubbish:
        k.api.status, k.api.rubbish = status, body
        k.api.forget()
        k.api.cut()
        a.source("unreachable")
        soon(f"'{says}'", lambda says=says: says in a.view()["source"]["trouble"])
        if a.names() != "kv-0 kv-7":
            raise Failed(str(a.view()))
        k.api.status, k.api.rubbish = 200, None
        a.source("ok")


def main() -> int:
    os.environ.pop("LD_PRELOAD", None)
    real = shutil.which("etcd")
    tests: list[tuple[str, Callable[[], None], str]] = [
        ("options that make no sense are refused", refused_options, ""),
        ("a list is the view", a_list, ""),
        ("a server that its list does not name says so", not_in_the_list, ""),
        ("a file is read again, and half of one is not believed", a_file, ""),
        ("a large loss is not believed while the members answer", a_large_loss, ""),
        ("clients follow what servers learn", clients_follow, ""),
        ("a join under load is no miss, and values follow", join_costs_nothing, ""),
        ("a server that was in no list for a while asks what was deleted", deletes_while_away, ""),
        (
            "a server of a named cluster that was in no list asks what was deleted",
            lambda: deletes_while_away("--cluster", "blue"),
            "",
        ),
        ("a server of another cluster is not asked what was deleted", a_stranger_is_not_asked, ""),
        ("a server that stood still asks what was deleted", deletes_while_still, ""),
        ("a server that drains hands over what was hit", drain_hands_over, ""),
        ("a server of a list hands over, also to one that stood still", drain_of_a_list, ""),
        ("a server hands over while another one starts", drain_beside_a_start, ""),
        ("a server hands over when its source has taken it out", drain_while_taken_out, ""),
        ("a server hands over while a member is another server", drain_beside_a_stranger, ""),
        ("servers that are full: one hands over, and kv-client gets in", drain_when_full, ""),
        ("a server that cannot hand over says why", drain_without_others, ""),
        ("a server whose key nobody knows hands over nothing", drain_push_cannot_begin, ""),
        ("a server with certificates hands over to members that they do not name", drain_with_certificates, ""),
        ("kv-client asks members by the names of their hosts", asked_by_host, ""),
        ("a server that has no view yet says so to kv-client", asked_before_there_is_a_view, ""),
        ("kv-client drain under load is no error and no miss", kv_client_drains, ""),
        ("kv-client drain keeps its bounds", drain_is_bounded, ""),
        ("a drain loses no value that nobody has read", drain_of_new_values, ""),
        ("a drain to a server without room says so", drain_to_a_full_server, ""),
        ("a drain of a server alone says so", drain_of_one_alone, ""),
        ("kv-client drain says who may not", drain_is_refused, ""),
        ("a rolling upgrade of four servers under load", rolling_upgrade, ""),
        ("a hot value is read from two servers", hot_values, ""),
        (
            "the conversation trace, two servers join: hits as if nothing had happened",
            join_in_a_trace,
            "" if os.access(TRACE, os.R_OK) else f"{TRACE} is not here",
        ),
        (
            "DNS: names, addresses, no answer, a resolver that hangs",
            dns,
            (
                "LD_PRELOAD and sanitizers do not go together"
                if "/asan" in BUILD or "/tsan" in BUILD
                else ""
            ),
        ),
        ("DNS: the system's resolver", local_name, ""),
        ("DNS: a name server over UDP and TCP", dns_udp, own_network()),
        ("k8s: slices, conditions, epochs, a cut watch", kube_life, ""),
        ("k8s: IPv4 and IPv6", kube_dual_stack, ""),
        ("k8s: a pod hands over for longer than its probe waits", kube_drains, ""),
        ("k8s: a control plane that was restored", kube_restored, ""),
        ("k8s: 410, silence, a new token, an API server that hangs, a wrong CA", kube_bad_days, ""),
        ("etcd (fake): lost events, compaction", fake_days, ""),
        ("etcd (fake): no watch lasts", no_watch_lasts, ""),
        ("etcd (fake): a dead endpoint is passed over", a_dead_endpoint, ""),
        ("etcd (fake): a change while a put is under way", a_put_under_way, ""),
        ("etcd (fake): it takes no writes for longer than a lease", etcd_full, ""),
        ("etcd (fake): its data are lost, or restored", etcd_mark, ""),
        ("etcd (fake): the mark is refused", etcd_without_mark, ""),
        ("a server begins with the view that it saved", state_dir, ""),
        ("etcd (fake): it has no leader for longer than a lease", etcd_headless, ""),
    ]
    for kind, make, why in (
        ("fake", one_fake, ""),
        ("real", one_real, "" if real else "there is no etcd (Debian: etcd-server)"),
    ):
        for name, run in (
            ("a server that joins is up in time", etcd_joining),
            ("join, leave, die, two of one name", etcd_life),
            ("leases and keys that are lost", etcd_lost),
            ("a server whose lease was lost asks what was deleted", etcd_away),
            ("stopped, and going on", etcd_stopped),
            ("users, tokens, passwords", etcd_auth),
            ("another password for longer than a lease", etcd_password),
            ("a prefix within a prefix", etcd_prefixes),
        ):
            tests.append((f"etcd ({kind}): {name}", lambda run=run, make=make: run(make), why))
    for name, run in (
        ("compaction", real_compaction),
        ("kill -9", real_killed),
        ("its data are lost", real_anew),
        ("three members, one stopped, one killed", real_three),
        ("certificates on both sides", real_tls),
    ):
        tests.append(
            (f"etcd (real): {name}", run, "" if real else "there is no etcd (Debian: etcd-server)")
        )
    if sys.argv[1:] == ["--inside"]:
        test("DNS over UDP, inside", dns_udp_inside)
        return failed != 0
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    tests = [t for t in tests if wanted in t[0]]
    print(f"1..{len(tests)}")
    for name, run, why in tests:
        if why:
            global number
            number += 1
            print(f"ok {number} - {name} # SKIP {why}")
        else:
            test(name, run)
    if failed == 0:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
