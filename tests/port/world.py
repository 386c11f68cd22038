# SPDX-License-Identifier: Apache-2.0
"""world.py -- the programs that are attacked, and what must hold of them whatever a stranger does.

A World is a kv-server with a key and two shards, an honest process that embeds the library (honest.c), and for the attacks on it a kv-bench; all on 127.0.0.1. It
stores canaries, remembers how much memory and how many descriptors each process has, and judges: every judge's sentence says what no longer holds. A world that was
harmed is thrown away and made anew, so that each attack is judged on its own.
"""
import ctypes
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = "127.0.0.1"
MEMORY_MIB = 64      # a process may grow by so much
FDS_BACK_S = 6       # by then it has as many descriptors as before ...
FDS_SLACK = 3        # ... or so many more: a connection of the control port may come or go
WAITING_MAX = 64     # connections of an honest client's host that may wait at a door meanwhile (engine/door/private.h), each for 5 s at most
CONNECT_S = 2        # a new honest client is served by then, on a machine that has nothing else to do
CALLS_S = 2.5        # the honest process makes 100 calls by then, likewise
TIMEOUT_S = 2        # of the honest process's calls, and of the server's silence, likewise
SPIN = 0.85          # a thread that wanted the processor for so much of the time is no thread at rest ...
SLEPT = 3            # ... unless it slept so often in the meantime
CANARIES = 48
EVIL = "evil0001"    # what the attacks try to store
SANITIZERS = re.compile(r"ERROR: \w*Sanitizer|runtime error:|WARNING: ThreadSanitizer")


def build_dir():
    return os.path.join(ROOT, os.environ.get("KVRAIL_BUILD", "build/release"))


def canary(i):
    """Key i. Of 24 bytes, as the honest process's keys are, or of 80: what fits the frames of a PIN and of a GET with such keys."""
    return ("canary/%017d" % i) if i % 2 else ("canary/%073d" % i)


def sanitized():
    return any(m in build_dir() for m in ("asan", "tsan"))


# ---- what /proc knows ----

def listeners(pid):
    """Ports on which a process listens, by descriptor: a number goes to the earlier one."""
    inode = {}
    with open("/proc/%d/net/tcp" % pid) as f:
        for line in f.readlines()[1:]:
            word = line.split()
            if word[3] == "0A":
                inode[word[9]] = int(word[1].split(":")[1], 16)
    found = []
    for fd in sorted(os.listdir("/proc/%d/fd" % pid), key=int):
        try:
            link = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            continue
        if link.startswith("socket:[") and link[8:-1] in inode:
            found.append(inode[link[8:-1]])
    return found


def listening():
    """Ports on which anybody listens on this machine's loopback. The kernel names listeners first."""
    found = []
    with open("/proc/net/tcp") as f:
        f.readline()
        for line in f:
            word = line.split(None, 4)
            if word[3] != "0A":
                break
            if word[1].startswith("0100007F"):
                found.append(int(word[1].split(":")[1], 16))
    return found


def memory_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def wanted_ns(pid):
    """Of each thread, the time that it ran or waited for a processor, that it ran, and how often it slept."""
    out = {}
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (pid, tid)) as f:
                ran, waited = f.read().split()[:2]
            with open("/proc/%d/task/%s/status" % (pid, tid)) as f:
                slept = int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", f.read(), re.M).group(1))
            out[tid] = int(ran) + int(waited), int(ran), slept
        except (OSError, ValueError):
            pass
    return out


def patience():
    """How many times longer than on an idle machine something takes now. Others use the processors, too, and each has 1.25 times our share for every step that we are
    niced: beside the other tests of make check (scripts/run-tests.sh) a busy neighbour has nine times as much."""
    with open("/proc/loadavg") as f:
        one_minute, _, _, running = f.read().split()[:4]
    sharing = max(float(one_minute), int(running.split("/")[0])) / os.cpu_count()
    return 1 + max(0, sharing - 1) * 1.25 ** max(0, os.nice(0))


def patient(seconds):
    """So many seconds of an idle machine; an hour at most, as programs allow."""
    return min(round(seconds * patience(), 1), 3600)


def turns_in_circles(before, after, dt):
    """On a busy machine whoever wakes waits for long: only one that does not sleep at all, or really ran all the time, never rests."""
    wanted, ran, slept = (now - then for now, then in zip(after, before))
    return ran > SPIN * dt or (wanted > SPIN * dt and slept < SLEPT)


class Process:
    """A program of ours, its logs and what it had at rest."""

    def __init__(self, name, command, scratch, **more):
        self.name, self.log = name, os.path.join(scratch, name + ".err")
        with open(self.log, "wb") as err:
            self.p = subprocess.Popen(command, stderr=err, **more)
        self.pid, self.kib, self.fds, self.judged_end = self.p.pid, 0, 0, False

    def log_tail(self, lines=6):
        with open(self.log, errors="replace") as f:
            return f.read().splitlines()[-lines:]

    def remember(self):
        self.kib, self.fds = memory_kib(self.pid), descriptors(self.pid)

    def broken(self):
        """Why it is not alive and well; None."""
        with open(self.log, errors="replace") as f:
            text = f.read()
        found = SANITIZERS.search(text)
        if found:
            line = text[found.start():].splitlines()
            return "%s: %s" % (self.name, " ".join(line[:1] + [l.strip() for l in line if re.match(r"\s+#[0-3] ", l)][:4]))
        rc = self.p.poll()
        if rc is None:
            return None
        return "%s %s" % (self.name, "was killed by %s" % signal.Signals(-rc).name if rc < 0 else "ended with status %d" % rc)

    def kill(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        for f in (self.p.stdin, self.p.stdout):
            if f:
                f.close()


class World:
    def __init__(self, provider, seed, server_options=(), warm=0):
        self.provider, self.seed, self.server_options, self.warm, self.silences = provider, seed, server_options, warm, {}
        self.tmp = tempfile.TemporaryDirectory(prefix="kvrail-port.")
        self.dir = self.tmp.name
        self.psk = os.path.join(self.dir, "psk")
        with open(os.open(self.psk, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write("port:%s\n" % os.urandom(32).hex())
        self.server = self.honest = self.bench = self.victim = None
        self.counts, self.turns, self.counters, self.restarts, self.restless = (0, 0, 0), [], {}, 0, set()
        self.environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:quarantine_size_mb=16:" + os.environ.get("ASAN_OPTIONS", ""))
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    # -- programs --

    def tool(self, name):
        return os.path.join(build_dir(), name)

    def client(self, *args, text=None, limit=None):
        """kv-client with the key. Returns (status, output); status None: it took longer."""
        limit = limit or patient(10)
        command = [self.tool("kv-client"), "--server", self.address, "--psk-file", self.psk, "--provider", self.provider, "--timeout", str(limit), *args]
        try:
            r = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit + patient(3), env=self.environment)
            return r.returncode, r.stdout
        except subprocess.TimeoutExpired as e:
            return None, (e.stdout or b"").decode(errors="replace") if isinstance(e.stdout, bytes) else e.stdout or ""

    def start(self):
        r, w = os.pipe()
        self.server = Process("kv-server", [self.tool("kv-server"), "--listen-addr", HOME + ":0", "--memory-mb", "128", "--prefault", "start", "--worker-threads", "2", "--provider", self.provider,
                                            "--psk-file", self.psk, "--log-level", "warn", "--ready-fd", str(w), *self.server_options], self.dir,
                              pass_fds=[w], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=self.environment)
        os.close(w)
        with os.fdopen(r) as ready:
            line = ready.readline()
        if not line.startswith("READY "):
            raise RuntimeError("kv-server did not begin: " + " / ".join(self.server.log_tail()))
        self.address = line.split()[1]
        self.control = int(self.address.rsplit(":", 1)[1])
        rc, out = self.client(text="".join("put %s %s\n" % (canary(i), "song-of-%d" % i) for i in range(CANARIES)))
        if rc != 0:
            raise RuntimeError("the canaries could not be stored: " + out)
        self.honest_start()
        self.settle()
        # A provider without a descriptor to wait on is polled.
        self.restless = {"kv-server", "honest", "kv-bench"} if self.provider == "net" else set(self.spinning())
        self.judge_new_client()

    def honest_start(self):
        self.honest = Process("honest", [self.tool("tests/port/honest"), "--server", self.address, "--psk-file", self.psk, "--provider", self.provider,
                                         "--seed", str(self.seed + self.restarts), "--pace-us", "12000" if sanitized() else "8000",
                                         "--timeout-ms", str(round(1000 * patient(TIMEOUT_S))), *(["--warm", str(self.warm)] if self.warm else [])], self.dir,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.restarts += 1
        self.end_line = None
        self.counts = (0, 0, 0)
        self.reader = threading.Thread(target=self.read_counts, args=(self.honest.p.stdout,), daemon=True)
        self.reader.start()
        limit, first = time.monotonic() + patient(30 + self.warm / 1000), 300 + self.warm
        while self.counts[0] < first and time.monotonic() < limit and self.honest.p.poll() is None:
            time.sleep(0.05)
        if self.counts[0] < first:
            raise RuntimeError("the honest process did not begin: " + " / ".join(self.honest.log_tail()))

    def victim_alive(self):
        """A client with the key whose connections an insider uses. Nobody asks what becomes of its calls."""
        if self.victim and self.victim.p.poll() is not None:
            self.victim.kill()
            self.victim = None
        if not self.victim:
            self.victim = Process("victim", [self.tool("tests/port/honest"), "--server", self.address, "--psk-file", self.psk, "--provider", self.provider, "--clients", "1",
                                             "--seed", str(self.seed + 1000 + self.restarts), "--pace-us", "8000"], self.dir,
                                  stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=self.environment)
            self.restarts += 1
            time.sleep(0.5)
            self.settle()
        return self.victim

    def read_counts(self, out):
        try:
            for line in out:
                word = line.split()
                if word and word[0] == "END":
                    self.end_line, word = [int(w) for w in word[1:]], word[1:]
                if len(word) >= 3:
                    self.counts = tuple(int(w) for w in word[:3])
        except ValueError:
            pass

    def bench_start(self):
        """kv-bench, whose client processes are attacked; returns when its reads have begun."""
        self.bench_json, out = os.path.join(self.dir, "bench.json"), os.path.join(self.dir, "bench.out")
        with open(out, "wb") as f:
            self.bench = Process("kv-bench", [self.tool("kv-bench"), "--server", self.address, "--psk-file", self.psk, "--provider", self.provider, "--verify", "--keep-going",
                                              "--duration", "3600", "--rate", "300", "--timeout", str(patient(TIMEOUT_S)), "--peer-timeout", str(patient(TIMEOUT_S)), "--num-clients", "2", "--num-threads", "2", "--num-keys", "100",
                                              "--value-size", "64KB", "--buffer-mb", "16", "--warmup", "0", "--log-level", "error", "--json", self.bench_json], self.dir,
                                 stdout=f, stdin=subprocess.DEVNULL, env=self.environment)
        limit = time.monotonic() + patient(30)
        while time.monotonic() < limit and self.bench.p.poll() is None:
            with open(out, errors="replace") as f:
                if re.search(r"^\[1/4\]", f.read(), re.M):
                    self.settle()
                    return
            time.sleep(0.1)
        with open(out, errors="replace") as f:
            raise RuntimeError("kv-bench did not begin: " + f.read()[-400:] + " / ".join(self.bench.log_tail()))

    def bench_judge(self):
        """Stop it, and say what it lost."""
        why = self.bench.broken()
        if why is None:
            self.bench.p.send_signal(signal.SIGINT)
            try:
                self.bench.p.wait(patient(15))
            except subprocess.TimeoutExpired as e:
                why = "kv-bench does not end: %g s after SIGINT it is still there" % e.timeout
        if why is None:
            try:
                with open(self.bench_json) as f:
                    report = json.load(f)
                errors, wrong, late = report["phases"]["read"]["errors"], report["verify"]["wrong"], report["keep_going"]["overdue"]
                if errors or wrong or late:
                    why = "kv-bench: errors %s, wrong values %d, overdue %d" % (errors, wrong, late)
                elif report["verify"]["checked"] == 0:
                    why = "kv-bench checked no value"
            except (OSError, ValueError, KeyError) as e:
                why = "kv-bench left no report (%s), status %s" % (e, self.bench.p.returncode)
        self.bench.kill()
        self.bench = None
        return [why] if why else []

    def processes(self):
        return [p for p in (self.server, self.honest, self.bench) if p]

    def settle(self):
        """Memory and descriptors at rest, from which growth counts."""
        time.sleep(0.3)
        for p in self.processes():
            p.remember()

    def ports(self, target):
        """Fabric listeners of a target: all but the control port."""
        return [p for p in listeners(getattr(self, target).pid) if p != self.control]

    # -- what must hold --

    def stat(self):
        """Counters, flat, and the turns of each shard; None: the server did not say."""
        rc, out = self.client("stat", "--shards", "--json", limit=patient(CONNECT_S))
        try:
            server = json.loads(out)["servers"][0]
        except (ValueError, KeyError, IndexError):
            return None, "kv-client stat: status %s, %s" % (rc, " ".join(out.split())[:200])
        flat = {name: value for group in server["counters"].values() for name, value in group.items()}
        return flat, [s["fabric"]["turns"] for s in server["shards"]]

    def judge_new_client(self):
        """A client that comes now is served, by every shard, and each has made turns since the last time."""
        flat, turns = self.stat()
        if flat is None:
            return ["a new honest client is not served: %s" % turns]
        stuck = [i for i, (was, now) in enumerate(zip(self.turns, turns)) if now <= was]
        self.counters, self.turns = flat, turns
        return ["shard %s makes no turn" % stuck] if stuck else []

    def judge_keys(self):
        rc, out = self.client("exists", *[canary(i) for i in range(CANARIES)], EVIL, limit=patient(5))
        if rc is None or "exist" not in out:
            return ["the canaries cannot be asked for: " + " ".join(out.split())[:200]]
        there = {line.split(" ", 1)[1]: line[0] == "1" for line in out.splitlines() if re.match(r"[01] \S+$", line)}
        gone = sum(1 for i in range(CANARIES) if not there.get(canary(i)))
        return (["FORGED: %d of %d canaries are gone" % (gone, CANARIES)] if gone else []) + (["FORGED: a foreign key is stored"] if there.get(EVIL) else [])

    def spinning(self):
        """Processes with a thread that never rests, three times in a row, and more often on a busy machine, where one that calls waits for the processor most of the time; those that never rested before are not looked at."""
        hot = {}
        for look in range(round(3 * patience())):
            before, t0 = {p.name: wanted_ns(p.pid) for p in self.processes() if p.p.poll() is None}, time.monotonic_ns()
            time.sleep(0.2)
            dt = time.monotonic_ns() - t0
            now = {}
            for p in self.processes():
                if p.p.poll() is None and p.name in before:
                    after, was = wanted_ns(p.pid), before[p.name]
                    now[p.name] = {t for t in after if t in was and turns_in_circles(was[t], after[t], dt)}
            hot = {name: now[name] & hot.get(name, now[name]) for name in now if look == 0 or name in hot}
            hot = {name: threads for name, threads in hot.items() if threads}
            if not hot:
                break
        return {name: len(threads) for name, threads in hot.items() if name not in self.restless}

    def judge_size(self, since, place):
        """Memory now; descriptors by FDS_BACK_S after the attack, or never more than may wait."""
        bad, until = [], since + patient(FDS_BACK_S)
        for p in self.processes():
            room = p.fds + FDS_SLACK + (WAITING_MAX * len(listeners(p.pid)) if place in ("neighbour", "twin") and p.p.poll() is None else 0)
            while p.p.poll() is None and descriptors(p.pid) > room and time.monotonic() < until:
                time.sleep(0.1)
            if p.p.poll() is not None:
                continue
            fds, kib = descriptors(p.pid), memory_kib(p.pid)
            if fds > room:
                bad.append("%s has %d descriptors %d s later, %d before" % (p.name, fds, until - since, p.fds))
            if kib > p.kib + MEMORY_MIB * 1024 * (3 if sanitized() else 1):
                bad.append("%s grew from %d to %d MiB" % (p.name, p.kib // 1024, kib // 1024))
        return bad

    def judge_honest(self, before):
        """No call lost, no wrong byte, and calls go on."""
        bad = []
        start, limit = self.counts[0], time.monotonic() + patient(CALLS_S)
        while self.counts[0] < start + 100 and time.monotonic() < limit and self.honest.p.poll() is None:
            time.sleep(0.05)
        calls, lost, wrong = self.counts
        if calls < start + 100:
            bad.append("the honest process made but %d calls" % (calls - start))
        if lost > before[1]:
            bad.append("%d honest calls were lost (%s)" % (lost - before[1], self.honest_says("KV_E")))
        if wrong > before[2]:
            bad.append("%d WRONG answers (%s)" % (wrong - before[2], self.honest_says("WRONG")))
        return bad

    def honest_says(self, word):
        lines = [l for l in self.honest.log_tail(400) if word in l and l.startswith("honest: worker")]
        return lines[-1].split(": ", 2)[2] if lines else ""

    def alive(self):
        return [why for why in (p.broken() for p in self.processes()) if why]

    def judge(self, before, since, place):
        """All of it, the cheap and the deadly first."""
        bad = self.alive()
        if bad:
            return bad
        bad += self.judge_honest(before)
        bad += self.judge_size(since, place)
        bad += ["%s: %d threads never rest" % hot for hot in self.spinning().items()]
        bad += self.judge_new_client()
        if not any("not served" in why for why in bad):
            bad += self.judge_keys()
        return bad + self.alive()

    def end_honest(self):
        """Its input ends: it must close its pool and go."""
        limit = patient(10)
        if self.honest.p.poll() is not None:
            return self.alive()
        self.honest.p.stdin.close()
        try:
            self.honest.p.wait(limit)
        except subprocess.TimeoutExpired:
            return ["the honest process does not end: kvc_pool_close has not returned after %g s" % limit]
        self.reader.join(2)
        return ["honest ended without a word"] if self.end_line is None else []

    def close(self):
        for p in self.processes() + ([self.victim] if self.victim else []):
            p.kill()
        self.tmp.cleanup()


# ---- the attacker's sockets ----

RST = struct.pack("ii", 1, 0)


class Line:
    """One connection of the attacker's. Everything that is sent is best effort: a door that closes is what is hoped for."""

    answered = False  # the answer to the connect request was read

    def __init__(self, source, port, wait=2.0):
        self.s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s.settimeout(wait)
        self.s.bind((source, 0))
        self.s.connect((HOME, port))

    def send(self, data):
        try:
            self.s.sendall(data)
            return True
        except OSError:
            return False

    def read(self, n):
        got, self.silent = b"", False
        try:
            while len(got) < n:
                more = self.s.recv(n - len(got))
                if not more:
                    break
                got += more
        except socket.timeout:
            self.silent = True
        except OSError:
            pass
        return got

    def close(self, reset=False):
        try:
            if reset:
                self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        except OSError:
            pass
        self.s.close()


LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_GETFD = 438  # the same on every architecture


class Borrowed:
    """Another process's socket, with which that process goes on after each sending. Nothing is read, and no flag of it is changed: it is the same open file."""

    def __init__(self, process, fd):
        self.process, self.silent = process, False
        self.s = socket.socket(fileno=fd)

    @classmethod
    def take(cls, process, port):
        """The process's connection to this port; None: it has none, or it may not be taken."""
        inode = set()
        try:
            with open("/proc/%d/net/tcp" % process.pid) as f:
                for word in (line.split() for line in f.readlines()[1:]):
                    if word[3] == "01" and int(word[2].split(":")[1], 16) == port:
                        inode.add(word[9])
            for fd in os.listdir("/proc/%d/fd" % process.pid):
                link = os.readlink("/proc/%d/fd/%s" % (process.pid, fd))
                if link.startswith("socket:[") and link[8:-1] in inode:
                    pidfd = os.pidfd_open(process.pid)
                    got = LIBC.syscall(PIDFD_GETFD, pidfd, int(fd), 0)
                    os.close(pidfd)
                    return cls(process, got) if got >= 0 else None
        except OSError:
            pass
        return None

    def send(self, data):
        """All of it within a second, while its owner stands still: between two of its messages, nearly always."""
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            limit, view = time.monotonic() + 1, memoryview(data)
            while view and time.monotonic() < limit:
                if select.select([], [self.s], [], 0.1)[1]:
                    view = view[self.s.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL):]
            return not view
        except OSError:
            return False
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def close(self, reset=False):
        self.s.close()
