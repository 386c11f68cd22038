#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""port.py -- every attack of the table against every target, from every place, and what must hold all the same. Speaks TAP.

usage: port.py [--each] [--only NAME[,NAME]] [--target NAME[,...]] [--place NAME[,...]] [--seed N] [--report FILE] [--list]
Environment: KVRAIL_BUILD; PORT_SHORT=1: what `make check` has time for; PORT_SECONDS: of mutations in all (60; 4 when short);
KVRAIL_PORT_PROVIDERS: over which providers (default: tcp, and tcp-native or net where libfabric has it; when short tcp alone).

The attacks of a family are made one after another and judged once; where something does not hold, each of them is made again alone, in a world of its own, to say
which it was. --each does so at once. All traffic stays on loopback, and every process is one that this program has started. Rejected: one world for everything. A
harmed process does not recover by itself, and one attack's harm would be laid at the door of the next.
"""
import argparse
import json
import os
import random
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attacks
import formats
import mutate
from world import World

SHORT = os.environ.get("PORT_SHORT", "") not in ("", "0")
GROUPS = {"forged": "message", "place": "message", "request": "message"}  # of families, when short; all others are one
LONG_S = 300
BITE = ("ack", "tagged", "half-request", "silent-5000")
TARGETS = {"server": "kv-server", "honest": "an embedding process", "bench": "kv-bench"}


class Tap:
    def __init__(self):
        self.n = self.failed = 0
        self.results = []

    def line(self, ok, name, why=(), note="", **more):
        self.n += 1
        self.failed += not ok
        print("%sok %d - %s%s" % ("" if ok else "not ", self.n, name, note), flush=True)
        for w in why:
            print("# " + w)
        sys.stdout.flush()
        self.results.append(dict(more, name=name, ok=ok, why=list(why), note=note))

    def skip(self, name, reason, **more):
        self.line(True, name, note=" # SKIP " + reason, **more)

    def plan(self):
        print("1..%d" % self.n)


class Runner:
    def __init__(self, args):
        self.args, self.tap, self.world, self.provider = args, Tap(), None, None
        self.worlds, self.met, self.warm = 0, [], 0

    # -- worlds --

    def world_for(self, provider, target):
        if self.world and (self.world.provider != provider or self.world.alive()):
            self.drop()
        if not self.world:
            self.world = World(provider, self.args.seed + self.worlds, warm=self.warm)
            self.worlds += 1
        if target == "bench" and not self.world.bench:
            self.world.bench_start()
        return self.world

    def drop(self):
        if self.world:
            self.world.close()
        self.world = None

    # -- one judgement --

    def make(self, rows, provider, target, place):
        """The attacks of rows, one after another. Returns what does not hold."""
        try:
            w = self.world_for(provider, target)
        except RuntimeError as e:
            self.drop()
            return ["the honest world does not begin: %s" % e]
        if place == "insider":
            w.victim_alive()
        before, was = w.counts, dict(w.counters)
        met = []
        for row in rows:
            a = attacks.Attacker(w, target, place, random.Random("%d %s %s %s" % (self.args.seed, row.name, target, place)), SHORT)
            met.append(a)
            row.run(a)
            if w.alive():
                break
        time.sleep(0.2)
        bad = w.judge(before, time.monotonic(), place)
        stolen = sum(a.stolen() for a in met)
        if place == "insider" and not any(a.greeted for a in met):
            bad.append("nothing was tried: no connection of the victim's could be taken")
        if stolen:
            bad.append("%d bytes that were meant for an honest peer arrived at the attacker" % stolen)
        closing = []
        if bad and target == "honest":
            closing = w.end_honest()  # while the attacker is still there
        if w.bench:
            bad += w.bench_judge()  # likewise
        for a in met:
            a.leave()
        bad += closing
        if not bad:
            bad += w.judge_honest((0,) + w.counts[1:]) + w.judge_size(time.monotonic(), None)
        if not bad and target == "server" and any(row.counts for row in rows):
            bad += w.judge_new_client() or self.counted(rows, place, was, w.counters)
        if bad:
            self.drop()
        self.met = met
        return bad

    @staticmethod
    def counted(rows, place, was, now):
        """Counters that these attacks must move, as far as the server has them."""
        bad = []
        for row in rows:
            have = [c for c in row.counts.get(place, ()) if c in now]
            if have and not any(now[c] > was.get(c, 0) for c in have):
                bad.append("%s: none of the counters %s rose" % (row.name, ", ".join(have)))
        return bad

    def tell(self, row, provider, target, place, bad):
        name = "%s, %s from %s: %s" % (provider, target, place, row.name)
        more = dict(provider=provider, target=target, place=place, attack=row.name)
        if bad and place in row.residual:
            self.tap.line(True, name, bad, " # SKIP residual: " + row.residual[place], **more)
        else:
            self.tap.line(not bad, name, bad, **more)

    def family(self, rows, provider, target, place):
        together, t0 = len(rows) > 1 and not self.args.each, time.monotonic()
        crowd = self.make(rows, provider, target, place) if together else []
        held, failed = together and not crowd, self.tap.failed
        if together and self.args.verbose:
            print("# together: %.1f s: %s" % (time.monotonic() - t0, " ".join("%s %d/%d/%d" % (r.name, a.greeted, a.accepted, a.refused) for r, a in zip(rows, self.met))))
        if held:
            for row in rows:
                self.tell(row, provider, target, place, [])
            return
        for row in rows:
            t0 = time.monotonic()
            bad = self.make([row], provider, target, place)
            if self.args.verbose:
                a = self.met[0]
                print("# %s: %.1f s, %d greeted, %d accepted, %d turned away" % (row.name, time.monotonic() - t0, a.greeted, a.accepted, a.refused))
            self.tell(row, provider, target, place, bad)
        if crowd and self.tap.failed == failed and not any(place in row.residual for row in rows):
            self.tap.line(False, "%s, %s from %s: all of %s together" % (provider, target, place, "/".join(dict.fromkeys(r.family for r in rows))), crowd,
                          provider=provider, target=target, place=place, attack="together")

    # -- all of it --

    def rows(self, provider, target, place):
        kind = formats.FORMATS[provider].name
        return [r for r in attacks.TABLE if kind in r.formats and target in r.targets and place in r.places and (r.short or not SHORT) and
                (not self.args.only or r.name in self.args.only)]

    def provider_run(self, provider):
        for target in self.args.target:
            for place in self.args.place:
                if place == "insider" and target != "server":
                    continue
                rows = self.rows(provider, target, place)
                group = (lambda r: GROUPS.get(r.family, "message" if r.family == "message" else "load")) if SHORT else (lambda r: r.family)
                for name in dict.fromkeys(map(group, rows)):
                    self.family([r for r in rows if group(r) == name], provider, target, place)

    def mutations(self, provider, seconds):
        """In turn against each target, from each place."""
        turns = [(t, p) for t in self.args.target if t != "bench" for p in self.args.place if p != "insider" or t == "server"]
        for target, place in turns:
            name = "%s, %s from %s: mutations" % (provider, target, place)
            runs, bad, met = 0, [], mutate.Tally()
            limit = time.monotonic() + seconds / len(turns)
            while time.monotonic() < limit and len(bad) < 8:
                try:
                    w = self.world_for(provider, target)
                except RuntimeError as e:
                    bad.append(str(e))
                    self.drop()
                    continue
                seed = self.args.seed + runs
                runs += 1
                before = w.counts
                a = attacks.Attacker(w, target, place, random.Random(seed), SHORT)
                mutate.slice_run(a, seed, min(limit, time.monotonic() + 10), met)
                now = w.judge(before, time.monotonic(), place)
                a.leave()
                if now:
                    bad.append("seed %d: after %d connections: %s" % (seed, a.greeted, "; ".join(now)))
                    self.drop()
            self.tap.line(not bad, name, bad, provider=provider, target=target, place=place, attack="mutations")
            print("#: %s: seed %d, %d connections, %d of them accepted, %d messages" % (name, self.args.seed, met.connections, met.accepted, met.messages))

    def bites(self, provider):
        """A table that harms nobody proves nothing: without a doorkeeper some attack must."""
        name, harm = "%s: without a doorkeeper the attacks do harm" % provider, []
        for attack in BITE:
            self.drop()
            try:
                self.world = World(provider, self.args.seed, ["--door", "off"])
            except RuntimeError as e:
                self.tap.line(False, name, [str(e)], provider=provider, attack="bite")
                return
            harm += self.make([r for r in attacks.TABLE if r.name == attack], provider, "server", "stranger")
            if harm:
                break
        self.drop()
        self.tap.line(bool(harm), name, [] if harm else ["%s harmed nobody" % ", ".join(BITE)], provider=provider, attack="bite")

    def run(self):
        t0 = time.monotonic()
        for provider in self.args.provider:
            self.warm = 0
            try:
                World(provider, self.args.seed).close()
            except RuntimeError as e:
                why = str(e).replace("\n", " ")
                if "is not here" in why:
                    self.tap.skip("%s: all attacks" % provider, why[:160])
                else:
                    self.tap.line(False, "%s: all attacks" % provider, [why])
                continue
            if self.args.attacks:
                self.provider_run(provider)
                if not SHORT and not self.args.only:
                    self.bites(provider)
            if self.args.seconds > LONG_S:
                self.drop()  # what comes grows for minutes by itself
                self.warm = 320000
            if self.args.seconds > 0:
                self.mutations(provider, self.args.seconds / len(self.args.provider))
        self.drop()
        self.tap.plan()
        held = sum(r["ok"] for r in self.tap.results)
        print("#: seed %d, %d worlds, %d of %d held, %.0f s" % (self.args.seed, self.worlds, held, self.tap.n, time.monotonic() - t0))
        if self.args.report:
            with open(self.args.report, "w") as out:
                json.dump(self.tap.results, out, indent=1)
        return 1 if self.tap.failed else 0


def libfabric_has():
    """The formats of the libfabric that is installed: native tcp from 1.18 on, its ancestor `net` in 1.17."""
    import ctypes
    version = ctypes.CDLL("libfabric.so.1").fi_version()
    return ["tcp", "tcp-native" if version >= (1 << 16 | 18) else "net"]


def arguments():
    words = lambda s: [w for w in s.replace(",", " ").split() if w]
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--each", action="store_true", help="judge every attack alone")
    p.add_argument("--only", type=words, help="these attacks")
    p.add_argument("--target", type=words, default=["server", "honest"] if SHORT else list(TARGETS))
    p.add_argument("--place", type=words, default=["stranger", "twin"] if SHORT else list(attacks.PLACES), help="of " + " ".join(attacks.PLACES))
    p.add_argument("--provider", type=words)
    p.add_argument("--seed", type=int, default=int(os.environ.get("KVRAIL_SEED") or random.SystemRandom().randrange(1 << 31)))
    p.add_argument("--seconds", type=float, default=float(os.environ.get("PORT_SECONDS") or (4 if SHORT else 60)), help="of mutations")
    p.add_argument("--no-attacks", dest="attacks", action="store_false", help="mutations alone")
    p.add_argument("--report", help="results as JSON")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    args.provider = args.provider or words(os.environ.get("KVRAIL_PORT_PROVIDERS", "")) or (["tcp"] if SHORT else libfabric_has())
    return args


def main():
    args = arguments()
    if args.list:
        for row in attacks.TABLE:
            print("%-24s %-12s %s" % (row.name, "+".join(row.formats), row.family))
        return 0
    runner = Runner(args)
    print("# seed %d, providers %s" % (args.seed, " ".join(args.provider)), flush=True)
    try:
        return runner.run()
    finally:
        runner.drop()


sys.exit(main())
