#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py -- a storm of real processes: servers join, leave, drain, die, stand still and have wrong lists of members, under soak.c's calls. Speaks TAP.

usage: soak.py [--seconds N] [--seed N] [--only EVENT[,EVENT]] [--keep] [--list]
Environment: KVRAIL_BUILD; KVRAIL_SEED: the seed; KVRAIL_TEST_PROVIDER: over which provider (tcp).

Four servers, and a fifth that comes and goes, each with a list of members of its own (--members file:), so that views can differ. Every event begins and ends with
all of them well, and at no time more than one is in trouble; soak.c's head says what must hold. The seed repeats events and calls, but not the order of threads and
processes. The last line has all figures. Traffic stays on loopback; every process is one that this program has started, and ends with it.
"""
import argparse
import ctypes
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("KVRAIL_BUILD", "build/release"))
PROVIDER = os.environ.get("KVRAIL_TEST_PROVIDER") or "tcp"
NAMES = "abcde"
SPARE = "e"
READY_S = 60        # a second, and what a busy machine adds
DRAIN_S = 3
END_S = 30          # by then a server has ended; DRAIN_S and what a busy machine adds
LOAD_END_S = 90     # the longest call has 20 s; 60 s after its limit soak.c ends itself
DEAD = "127.0.0.66:9"  # nobody listens there
CALM_S = 5          # at the end


class Broken(Exception):
    """Something of the storm itself went wrong: a server that does not start, or does not end."""


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Server:
    def __init__(self, storm, name, port):
        self.storm, self.name, self.address = storm, name, "127.0.0.1:%d" % port
        self.list = os.path.join(storm.folder, name + ".members")
        self.state = os.path.join(storm.folder, name + ".state")
        self.log = open(os.path.join(storm.folder, name + ".log"), "a")
        self.process = None
        os.mkdir(self.state)

    @property
    def member(self):
        return "%s=%s" % (self.name, self.address)

    def list_write(self, members):
        with open(self.list + ".new", "w") as f:
            f.write("".join(m + "\n" for m in members))
        os.rename(self.list + ".new", self.list)

    def start(self):
        ready, told = os.pipe()
        command = [BUILD + "/kv-server", "--listen-addr", self.address, "--node-id", self.name, "--memory-mb", "96", "--worker-threads", "1", "--provider", PROVIDER,
                   "--members", "file:" + self.list, "--state-dir", self.state, "--drain-sec", str(DRAIN_S), "--allow-drain", "--log-level", "warn",
                   "--landing-mb", "32", "--ready-fd", str(told)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=[told], preexec_fn=dies_with_us)
        os.close(told)
        line = os.read(ready, 256) if select.select([ready], [], [], READY_S)[0] else b""
        os.close(ready)
        if not line.startswith(b"READY"):
            raise Broken("server %s %s; its log ends with: %s" % (self.name, self.unready(), " / ".join(self.said()) or "nothing"))

    def unready(self):
        """Why it is not ready: it has ended, or it takes too long."""
        try:
            return "ended with status %d before it was ready" % self.process.wait(1)
        except subprocess.TimeoutExpired:
            return "was not ready within %d s" % READY_S

    def said(self):
        with open(self.log.name, errors="replace") as f:
            return f.read().splitlines()[-5:]

    def wait(self, status):
        try:
            ended = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Broken("server %s had not ended %d s after it was asked to" % (self.name, END_S))
        if ended != status:
            raise Broken("server %s ended with status %d" % (self.name, ended))
        self.process = None

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.wait(0)

    def kill(self):
        self.process.kill()
        self.wait(-signal.SIGKILL)

    def check(self):
        if self.process and self.process.poll() is not None:
            raise Broken("server %s ended by itself, with status %d" % (self.name, self.process.returncode))


class Storm:
    def __init__(self, args, folder):
        self.args, self.folder, self.random = args, folder, random.Random(args.seed)
        first = int(subprocess.check_output([sys.executable, os.path.join(ROOT, "tests/ports.py"), str(len(NAMES))]))
        self.server = {n: Server(self, n, first + i) for i, n in enumerate(NAMES)}
        self.inside = [n for n in NAMES if n != SPARE]  # who is a member
        self.load, self.until, self.events = None, 0, {}

    # -- small things --

    def chance(self, p):
        return self.random.random() < p

    def pause(self, least, most):
        """Also looks whether all that should run does."""
        end = time.monotonic() + self.random.uniform(least, most)
        while time.monotonic() < end:
            time.sleep(max(0, min(0.2, end - time.monotonic())))
            self.check()

    def check(self):
        for s in self.server.values():
            s.check()
        if self.load and self.load.poll() is not None:
            raise Broken("the load has ended by itself, with status %d" % self.load.returncode)

    def note(self, text):
        try:
            self.load.stdin.write((text + "\n").encode())
            self.load.stdin.flush()
        except OSError:
            self.check()

    def one(self, but=()):
        return self.server[self.random.choice([n for n in self.inside if n not in but])]

    def members(self, but=(), also=()):
        return [self.server[n].member for n in self.inside if n not in but] + list(also)

    def lists_write(self, members, but=()):
        """One server after the other hears of it, in any order."""
        names = [n for n in NAMES if n not in but]
        self.random.shuffle(names)
        for n in names:
            self.server[n].list_write(members)
            if self.chance(0.4):
                self.pause(0, 1.5)

    def restart(self, s, how=None):
        """By its end in order, by kv-client drain, or by its death."""
        how = how or self.random.choice(["end", "drain", "kill"])
        self.note("gone %s: %s" % (s.name, how))
        if how == "drain":
            self.drained(s)
        else:
            getattr(s, how)()
        self.pause(0, self.random.choice([0.1, 1, 5]))
        s.start()
        self.note("ready %s" % s.name)
        self.pause(1, 2)

    def drained(self, s):
        # Its own answer may be that the server was gone before it could say so; soak.c judges what is lost.
        said = subprocess.run([BUILD + "/kv-client", "--server", s.member, "--provider", PROVIDER, "--timeout", "20", "drain", s.name],
                              stdin=subprocess.DEVNULL, stdout=s.log, stderr=s.log, preexec_fn=dies_with_us)
        if said.returncode > 4:  # 4: not all values were handed over
            raise Broken("kv-client drain ended with status %d" % said.returncode)
        s.wait(0)

    # -- events: all is well before and after each --

    def kill(self):
        self.restart(self.one(), "kill")

    def drain(self):
        self.restart(self.one(), self.random.choice(["end", "drain"]))

    def still(self):
        """A server stands still; meanwhile the others may have another view."""
        s = self.one()
        self.note("still %s" % s.name)
        s.process.send_signal(signal.SIGSTOP)
        seconds = self.random.choice([0.2, 1, 2.5, 5, 12]) * self.random.uniform(0.8, 1)
        end = time.monotonic() + seconds
        if seconds > 4 and self.chance(0.4):
            self.note("a view without %s, which stands still" % s.name)
            self.lists_write(self.members(but=[s.name]), but=[s.name])
        self.pause(max(0, end - time.monotonic()), max(0, end - time.monotonic()))
        s.process.send_signal(signal.SIGCONT)
        self.note("runs %s" % s.name)
        self.pause(0.5, 3)
        self.lists_write(self.members())
        self.pause(1, 3)

    def leave(self):
        """A member leaves, runs on or ends, and comes back."""
        s = self.one()
        ends = self.random.choice(["end", "kill", None, None])
        self.note("%s leaves%s" % (s.name, ", and ends" if ends else ""))
        self.lists_write(self.members(but=[s.name]))
        self.pause(0.5, 4)
        if ends:
            self.note("gone %s: %s" % (s.name, ends))
            getattr(s, ends)()
        self.pause(2, 10)
        if ends:
            s.start()
            self.note("ready %s" % s.name)
        self.note("%s is back" % s.name)
        self.lists_write(self.members())
        self.pause(1, 4)

    def join(self):
        """The fifth server joins, serves for a while, and leaves."""
        s = self.server[SPARE]
        s.list_write(self.members(also=[s.member]))
        s.start()
        self.note("%s joins" % s.name)
        self.inside.append(SPARE)
        self.lists_write(self.members())
        self.pause(3, 15)
        self.inside.remove(SPARE)
        self.note("%s leaves" % s.name)
        if self.chance(0.5):
            self.note("gone %s" % s.name)
            s.end()
            self.pause(0, 3)
            self.lists_write(self.members())
            self.note("ready all but %s" % s.name)
        else:
            self.lists_write(self.members())
            self.pause(1, 5)
            s.end()
        self.pause(1, 3)

    def stale(self):
        """One server starts with a wrong list; others are restarted with the right one, as in an upgrade."""
        s = self.one()
        wrong = self.random.choice([["z=" + DEAD], [s.member, "z=" + DEAD], [s.member], self.members(but=[self.one(but=[s.name]).name])])
        self.note("%s has a wrong list: %s" % (s.name, " ".join(wrong)))
        s.list_write(wrong)
        self.restart(s)
        for n in self.random.sample([n for n in self.inside if n != s.name], self.random.randint(1, 3)):
            self.restart(self.server[n])
        self.pause(0, 5)
        self.note("the list of %s is right" % s.name)
        s.list_write(self.members())
        self.pause(1, 4)

    def lie(self):
        """One server says that all others drain, and then that they are gone."""
        s = self.one()
        self.note("%s lies" % s.name)
        s.list_write([s.member] + [m + ";state=draining" for m in self.members(but=[s.name])])
        self.pause(1, 5)
        s.list_write([s.member, "z=" + DEAD])
        self.pause(2, 8)
        self.note("%s says the truth" % s.name)
        s.list_write(self.members())
        self.pause(1, 4)

    def dead(self):
        """All lists name a member that nobody reaches."""
        self.note("a dead member")
        self.lists_write(self.members(also=["z=" + DEAD]))
        self.pause(3, 10)
        self.note("no dead member")
        self.lists_write(self.members())
        self.pause(1, 4)

    def sourceless(self):
        """A server starts while its list is not there, with the view that it saved."""
        s = self.one()
        self.note("%s has no list" % s.name)
        os.unlink(s.list)
        self.pause(0, 2)
        self.restart(s)
        self.pause(0, 4)
        self.note("%s has its list" % s.name)
        s.list_write(self.members())
        self.pause(1, 4)

    EVENTS = {"kill": kill, "drain": drain, "still": still, "leave": leave, "join": join, "stale": stale, "lie": lie, "dead": dead, "sourceless": sourceless}

    # -- the run --

    def start(self):
        self.lists_write(self.members())
        for n in self.inside:
            self.server[n].start()
        command = [BUILD + "/tests/chaos/soak", "--seconds", str(self.args.seconds + 600), "--seed", str(self.args.seed), "--provider", PROVIDER,
                   "--pace-us", str(self.args.pace_us), "--log", str(self.args.log)]
        for n in self.inside:
            command += ["--server", self.server[n].member]
        self.log = open(os.path.join(self.folder, "load.log"), "w+")
        self.out = open(os.path.join(self.folder, "load.json"), "w+")
        self.load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.out, stderr=self.log, preexec_fn=dies_with_us)

    def blow(self):
        """Each kind of event comes in turn, in any order, so that a short run has them all."""
        self.until = time.monotonic() + self.args.seconds
        self.pause(1, 2)
        bag = []
        while time.monotonic() + CALM_S < self.until:
            if not bag:
                bag = [e for e in self.EVENTS if not self.args.only or e in self.args.only]
                self.random.shuffle(bag)
            event = bag.pop()
            self.events[event] = self.events.get(event, 0) + 1
            self.EVENTS[event](self)
            self.pause(0.2, 3)
        self.pause(CALM_S, CALM_S)

    def finish(self):
        """What the load says, and its status."""
        self.note("stop")
        try:
            status = self.load.wait(LOAD_END_S)
        except subprocess.TimeoutExpired:
            self.load.send_signal(signal.SIGABRT)
            raise Broken("the load had not ended within %d s" % LOAD_END_S)
        self.load = None
        self.out.seek(0)
        text = self.out.read()
        if status > 1 or not text.strip():
            raise Broken("the load ended with status %d" % status)
        return json.loads(text)

    def end(self):
        for n in self.inside:
            self.server[n].end()

    def drop(self):
        for p in [s.process for s in self.server.values()] + [self.load]:
            if p and p.poll() is None:
                p.kill()
                p.wait()

    def said(self):
        """What the load has found, and what happened around its first findings."""
        self.log.flush()
        with open(self.log.name) as f:
            lines = f.read().splitlines()
        found = [i for i, l in enumerate(lines) if l.startswith("soak: ") and any(w.isupper() and len(w) > 3 for w in l.split()[2:3])]
        shown = sorted({j for i in found[:5] for j in range(max(0, i - 12), i + 1)} | set(found[:100]))
        return [lines[i] for i in shown]


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def line(self, ok, name, why=()):
        self.n += 1
        self.failed += not ok
        print("%sok %d - %s" % ("" if ok else "not ", self.n, name))
        for w in why if not ok else ():
            print("# " + w)
        sys.stdout.flush()


def figures(storm, seed, seconds, r):
    calls = ", ".join("%s %d (%s)" % (k, sum(v.values()), " ".join("%s %d" % i for i in v.items())) for k, v in r["calls"].items() if v)
    events = " ".join("%s %d" % e for e in sorted(storm.events.items()))
    return ("seed %d, %d s, events [%s], view changes seen by clients %d; calls %d: %s; wrong bytes %d, late bytes %d, calls late %d (worst %.1f ms past the limit), "
            "late because of the machine %d (worst %.1f ms; it stood still for %.1f ms at most, and was quiet for %.0f %% of the time), cancels %d (late %d), "
            "deleted values that came back %d, outlived %d, within 3 s of the DELETE %d, unexpected codes %d, collateral %d; copies %d, repairs %d, failovers %d, "
            "deletes told later %d" % (
                seed, seconds, events, r["views"], sum(sum(v.values()) for v in r["calls"].values()), calls, r["wrong_bytes"], r["late_bytes"], r["late"],
                r["worst_ms"], r["late_machine"], r["worst_machine_ms"], r["worst_stall_ms"], 100 * r["quiet"], r["cancels"], r["cancels_late"], r["came_back"],
                r["outlived"], r["brief"], r["unexpected"], r["collateral"], r["copies"], r["repairs"], r["failovers"], r["deletes_owed"]))


def judge(tap, storm, r):
    said = storm.said()
    tap.line(sum(v.get("ok", 0) for v in r["calls"].values()) > 0, "calls succeed", said)
    tap.line(not r["wrong_bytes"] and not r["late_bytes"], "no byte is wrong, and none comes late", said)
    tap.line(not r["came_back"] and not r["outlived"], "what was deleted or has expired stays away", said)
    tap.line(not r["late"], "every call, cancel and close ends in time", said)
    tap.line(not r["unexpected"], "every code is explained", said)
    tap.line(not r["collateral"], "with 6 s a call survives the trouble of one server", said)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seconds", type=int, default=60)
    p.add_argument("--seed", type=lambda t: int(t, 0), default=int(os.environ.get("KVRAIL_SEED") or "1", 0))
    p.add_argument("--only", type=lambda t: t.split(","))
    p.add_argument("--pace-us", type=int, default=20000,
                   help="between two calls of a thread, about; with less a client deletes more than the 1,024 keys that it can tell a server which stood still")
    p.add_argument("--log", type=int, default=2, help="level of the load's log")
    p.add_argument("--keep", action="store_true", help="keep the scratch folder")
    p.add_argument("--list", action="store_true", help="list the events")
    args = p.parse_args()
    if args.only and not set(args.only) <= set(Storm.EVENTS):
        p.error("the events are " + ", ".join(Storm.EVENTS))
    return args


def main():
    args, tap, result, line = arguments(), Tap(), 1, ""
    if args.list:
        print("\n".join("%-12s %s" % (n, (f.__doc__ or "").strip()) for n, f in Storm.EVENTS.items()))
        return 0
    for s in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
        signal.signal(s, lambda *_: sys.exit(130))
    folder = tempfile.mkdtemp(prefix="kvrail-soak.")
    print("1..7\n# soak.py --seconds %d --seed %d" % (args.seconds, args.seed), flush=True)
    storm = Storm(args, folder)
    try:
        storm.start()
        storm.blow()
        r = storm.finish()
        judge(tap, storm, r)
        line = figures(storm, args.seed, args.seconds, r)
        storm.end()
        tap.line(True, "servers serve all the time, and end in order")
    except Broken as e:
        print("# " + str(e))
        while tap.n < 7:
            tap.line(False, "the storm went to its end", [str(e)] + storm.said()[-40:])
    finally:
        storm.drop()
        if args.keep:
            print("# kept: " + folder)
        else:
            shutil.rmtree(folder)
    print("#: " + line)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
