# SPDX-License-Identifier: Apache-2.0
"""versus.py -- kv-bench versus: the same load on several targets, in alternating rounds.

Each round of each target is a process: kv-bench for KVRail, and the part kv-bench-drive (kvbench/versus/drive.c) for the
others. The order turns round by round. Virtual CPUs move between cores of the host, and the distance of two changes the
figures of both sides: it is taken before, between and after the targets, and a round in which it changed does not count. Nor
does one in which a target cost far more processor time than in its best round, or used fewer cores: client and server
shared a core, or ran on distant cores. A ratio is that of one round, in which the machine was the same for
both; the median over the rounds that count is reported. A target that failed takes no further part; the run goes on with
the others, and fails in the end.
"""
import json
import math
import statistics
import sys
import time

import child
import conditions
import files
import page
from document import Refused, at, items, number, text
from text import count, duration, rate, size, wrap

OK, FAILED, NO_START = 0, 1, 3
TRIES = 3  # rounds at most for each that counts
QUIET_S = 0.2  # before each round
SPARE_S = 600.0  # beside the reads: for the writes, and a server that maps its memory
SHORT_S = 0.5  # a rate of less time says little: caches are cold, and the others' turns on the processors decide
COSTLY, FEW = 1.3, 0.75  # processor time and cores of a round, compared with the best one
FIGURES = ("put", "get", "mixed")

# Why a round does not count: as the report has it, and in the sentence about the round.
WHY = {"target failed": "a target failed", "core distance": "the distance of the CPUs changed",
       "processor time": "took far more processor time than in its best round", "cores used": "used fewer cores than in its best round"}
WHY_COUNTED = {**WHY, "processor time": "a target took far more processor time than in its best", "cores used": "a target used fewer cores than in its best"}


# ---- a run of a target ----


def known(value):
    return value if value > 0 else 0.0


def measure(phase, time_of, ops):
    """A figure of a phase. time_of: the phase with the processor time and page faults, of `ops` operations. If one side
    does not know its part, the sum is unknown."""
    client, server = number(time_of, "cpu_seconds"), number(time_of, "server_cpu_seconds")
    faults = number(time_of, "page_faults") + number(time_of, "server_page_faults")
    m = {"ops_per_s": known(number(phase, "ops_per_s")), "bytes_per_s": known(number(phase, "bytes_per_s")),
         "p50_ns": known(number(at(phase, "latency_ns"), "p50")), "seconds": known(number(phase, "seconds"))}
    if number(at(phase, "latency_ns"), "p99") > 0:
        m["p99_ns"] = number(at(phase, "latency_ns"), "p99")
    if client > 0 and server > 0 and ops > 0:
        m["cpu_ns"] = (client + server) * 1e9 / ops
        m["cores"] = m["cpu_ns"] * m["ops_per_s"] / 1e9
    if faults >= 0 and ops > 0:
        m["page_faults"] = faults / ops
    return m


def mixed_measure(put, get):
    """PUTs and GETs at once: the time is that of both."""
    m = measure(get, None, 0)
    m["ops_per_s"] += known(number(put, "ops_per_s"))
    m["bytes_per_s"] += known(number(put, "bytes_per_s"))
    both = measure({"ops_per_s": m["ops_per_s"]}, get, number(put, "ops") + number(get, "ops"))
    return {**m, **{name: both[name] for name in ("cpu_ns", "cores", "page_faults") if name in both}}


def run_read(doc, mixed):
    """The figures of a target's report."""
    problems, put, get = items(doc, "verdict", "problems"), at(doc, "phases", "write"), at(doc, "phases", "read")
    mixed_put, mixed_get = at(doc, "phases", "mixed", "write"), at(doc, "phases", "mixed", "read")
    if problems and isinstance(problems[0], str):
        raise Refused(problems[0][:400])
    # A GET that found nothing is no operation to compare.
    if number(get, "misses") > 0 or (mixed and number(mixed_get, "misses") > 0):
        raise Refused("GETs missed keys: give it memory for all values, and a --ttl longer than a round")
    if not all(number(p, "ops_per_s") > 0 for p in (put, get) + ((mixed_put, mixed_get) if mixed else ())):
        raise Refused("a phase did nothing: use more --num-keys, or a longer --duration")
    if number(put, "duplicates") > 0:  # PUTs of stored values move nothing
        raise Refused("the server had some of the keys from an earlier run: use another --seed")
    run = {"put": measure(put, put, number(put, "ops")), "get": measure(get, get, number(get, "ops"))}
    if mixed:
        run["mixed"] = mixed_measure(mixed_put, mixed_get)
    return {**run, "cpu_seconds": known(number(get, "cpu_seconds"))}


def server_read(doc):
    """The server of a target, from its report; unknown members are absent."""
    threads = at(doc, "server", "threads") or at(doc, "config", "server_threads")
    found = {"version": text(at(doc, "server"), "version") or text(at(doc, "run"), "version"), "server_threads": threads,
             "client_threads": at(doc, "config", "num_threads")}
    found.update((name, text(at(doc, "conditions"), name)) for name in ("provider", "wait", "libfabric"))
    found["congestion_control"] = text(at(doc, "conditions"), "loopback_congestion_control")
    return {name: value for name, value in found.items() if value and (not name.endswith("threads") or (isinstance(value, int) and value > 0))}


# ---- over the rounds ----


def outside_of(n):
    """How many values at either end of n sorted ones lie outside an interval that contains the median of all with 95 % at
    least: the true median has each value below it with one half, whatever the distribution. None: of so few none has."""
    below = 0.0
    for k in range(n // 2 + 1):
        below += math.comb(n, k) * 0.5 ** n
        if 2 * below > 0.05:
            return k - 1 if k else None
    return None


def spread(values):
    """None of no values."""
    if not values:
        return None
    values, outside = sorted(values), outside_of(len(values))
    s = {"median": statistics.median(values), "low": values[0], "high": values[-1], "rounds": len(values)}
    if outside is not None:
        s.update(ci_low=values[outside], ci_high=values[-1 - outside])
    return s


def spread_text(s):
    if "ci_low" in s:
        return f"{s['median']:.2f} [{s['ci_low']:.2f}, {s['ci_high']:.2f}]"
    return f"{s['median']:.2f} ({s['low']:.2f}-{s['high']:.2f})"


class Round:
    def __init__(self, seed, targets):
        self.seed, self.distances, self.complete = seed, [], True
        self.runs = [{} for _ in range(targets)]  # {}: it did not run
        self.why, self.by = None, 0  # by: the target that is the reason

    def state(self):
        """Of the CPUs: near, mid, far, one CPU, or changed."""
        low, high = min(self.distances), max(self.distances)
        if not conditions.alike(low, high):
            return "changed"
        return "one CPU" if low < 0 else conditions.distance_name(low)


class Versus:
    def __init__(self, plan):
        """plan: made by kv-bench from its options (kvbench/versus/versus.c)."""
        self.plan, self.targets = plan, plan["targets"]
        self.rounds, self.servers, self.failed = [], [{} for _ in self.targets], {}
        self.unsteady, self.started, self.machine = False, time.time(), {}
        self.out = sys.stderr if plan["json"] == "-" else sys.stdout

    def label(self, t):
        return self.targets[t]["label"]

    # ---- rounds ----

    def args(self, t, seed):
        """(name of the process, its arguments, its environment)."""
        target, load = self.targets[t], [*self.plan["load"], f"--seed={seed}"]
        if target["kind"] != "kvrail":
            first = next((s for s, other in zip(self.servers, self.targets) if other["kind"] == "kvrail"), {})
            return ["kv-bench-drive", f"--targets={target['name']}", *load], {"KVBENCH_CONGESTION": first.get("congestion_control", "")}
        own = ["--quiet", "--json=-", "--log-level=warn", f"--num-clients={self.plan['num_clients']}"]
        return ["kv-bench", *own, *([f"--server={target['address']}"] if target["address"] else []), *load, *self.plan["own"]], {}

    def order(self):
        """In the first round KVRail comes first: the others get its congestion control."""
        every = list(range(len(self.targets)))
        if not self.rounds:
            return sorted(every, key=lambda t: self.targets[t]["kind"] != "kvrail")
        return every[::-1] if len(self.rounds) % 2 else every

    def run_round(self):
        r = Round(self.plan["seed"] + len(self.rounds), len(self.targets))
        r.distances.append(conditions.distance_ns(self.plan["program"]))
        for t in self.order():
            if t in self.failed:
                continue
            args, environment = self.args(t, r.seed)
            try:
                doc = child.report(self.plan["program"], args, self.plan["duration_s"] + SPARE_S, environment=environment)
                r.runs[t], self.servers[t] = run_read(doc, self.plan["mixed"]), server_read(doc)
            except Refused as why:
                self.failed[t] = str(why)[:600]
                r.complete = False
            r.distances.append(conditions.distance_ns(self.plan["program"]))
        self.rounds.append(r)

    def counting(self):
        """The rounds that count. Better figures with their warning than none."""
        good = [r for r in self.rounds if not r.why]
        return self.rounds if self.unsteady else good

    def judge(self):
        for r in self.rounds:
            r.why = "target failed" if not r.complete else "core distance" if r.state() == "changed" else None
        for t in range(len(self.targets)):
            for figure in FIGURES:
                self.judge_figure(t, figure)

    def judge_figure(self, t, figure):
        """Rounds of a target far from its best one, of those with measurements of SHORT_S or more."""
        found = [(r, r.runs[t][figure]) for r in self.rounds if figure in r.runs[t]]
        found = [(r, m) for r, m in found if r.why not in ("target failed", "core distance") and "cpu_ns" in m and m["seconds"] >= SHORT_S]
        if not found:
            return
        least, most = min(m["cpu_ns"] for _, m in found), max(m["cores"] for _, m in found)
        for r, m in found:
            if not r.why and (m["cpu_ns"] > COSTLY * least or m["cores"] < FEW * most):
                r.why, r.by = "processor time" if m["cpu_ns"] > COSTLY * least else "cores used", t

    def run_all(self):
        machine, asked = conditions.Machine(self.plan["program"]), self.plan["rounds"]
        try:
            while len(self.counting()) < asked and len(self.rounds) < TRIES * asked and len(self.failed) < len(self.targets) and 0 not in self.failed:
                machine.quiet(QUIET_S)
                self.run_round()
                self.judge()
                self.print_round(self.rounds[-1])
        finally:
            self.machine = machine.end()
            self.unsteady = not self.counting()

    # ---- figures over the rounds ----

    def values(self, t, figure, name):
        """Of the rounds that count in which the target ran; None where a run lacks it."""
        return [r.runs[t].get(figure, {}).get(name) for r in self.counting() if r.runs[t]]

    def median(self, t, figure):
        """{} where nothing was measured. A p99 that a round lacks is not given: those of the others may lie below a p50 of
        all."""
        m = {}
        for name in ("ops_per_s", "bytes_per_s", "p50_ns", "p99_ns", "seconds", "cpu_ns", "page_faults"):
            values = self.values(t, figure, name)
            good = [v for v in values if v is not None and (v > 0 or name == "page_faults")]
            if good and (name != "p99_ns" or len(good) == len(values)):
                m[name] = statistics.median(good)
        if "ops_per_s" not in m:
            return {}
        if "cpu_ns" in m:
            m["cores"] = m["cpu_ns"] * m["ops_per_s"] / 1e9
        return {"bytes_per_s": 0.0, "p50_ns": 0.0, "seconds": 0.0, **m}

    def ratio(self, t, figure, cpu):
        """First / this one, of rates; cpu: of operations by processor time, of which a figure has the inverse."""
        name, values = "cpu_ns" if cpu else "ops_per_s", []
        for r in self.counting():
            mine, other = (r.runs[k].get(figure, {}).get(name, 0) for k in (0, t))
            if mine > 0 and other > 0:
                values.append(other / mine if cpu else mine / other)
        return spread(values)

    # ---- the report ----

    def load_text(self):
        p = self.plan
        batch = f", in batches of {count(p['batch'])}" if p["batch"] > 1 else ""
        offered = f", {p['rate']:g} reads per second ({p['arrivals']} arrivals)" if p["rate"] > 0 else ""
        pattern = f", {p['keys_pattern'][:80]}" if p["keys_pattern"] else ""
        checked = {"every byte": "every byte", "length": "lengths"}.get(p["checked"], "checksums")
        return (f"{p['num_workers']} in flight, {count(p['num_keys'])} keys of {size(p['value_size'])}{batch}, {duration(p['duration_s'] * 1e9)} of reads a "
                f"round{offered}{pattern}, {checked} compared, seed {p['seed']}")

    def target_text(self, t):
        s, name = self.servers[t], self.targets[t]["name"]
        threads = s.get("server_threads")
        return (self.label(t) + ("" if self.label(t) == name else f" is {name}") + (f", version {s['version']}" if "version" in s else "") +
                ": server with " + (f"{threads} thread{'' if threads == 1 else 's'}" if threads else "an unknown number of threads") +
                f", client with {s.get('client_threads', -1)}")

    def conditions(self):
        server = next((s for s in self.servers if "provider" in s), {})
        fabric = {**server, "loopback_congestion_control": server.get("congestion_control")}
        return conditions.member(fabric, self.machine, [f"warm-up: {self.plan['warmup']} operations of each target in each round",
                                                        "making the values", "rounds that do not count"])

    def target(self, t):
        o = {"target": self.targets[t]["name"], "label": self.label(t), "ok": t not in self.failed}
        if t in self.failed:
            o["failed"] = self.failed[t]
        if self.rounds and self.rounds[0].runs[t]:
            o["about"] = self.target_text(t)
        o.update((name, self.servers[t][name]) for name in ("version", "server_threads", "congestion_control", "client_threads") if name in self.servers[t])
        for figure in FIGURES:
            m = self.median(t, figure)
            ratios = {name: self.ratio(t, figure, cpu) for name, cpu in (("ratio", False), ("cpu_ratio", True))} if t else {}
            if m:
                o[figure] = {**m, **{name: s for name, s in ratios.items() if s}}
        return o

    def document(self):
        p, counts = self.plan, self.counting()
        rounds = [{"counts": r in counts, "why": r.why, "cpus": r.state(), "seed": r.seed,
                   "core_distance_ns": [ns if ns > 0 else None for ns in r.distances], "runs": r.runs} for r in self.rounds]
        return {"schema": "kvbench-versus/1", "load": self.load_text(), "interrupted": bool(child.received), "steady": not self.unsteady,
                "run": {"version": p["version"], "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)), "options": p["options"]},
                "conditions": self.conditions(), "in_flight": p["num_workers"], "num_keys": p["num_keys"], "duration_s": p["duration_s"],
                "batch": p["batch"], "value_bytes": p["value_size"], "rate": p["rate"], "checked": p["checked"],
                "counted_rounds": 0 if self.unsteady else len(counts), "targets": [self.target(t) for t in range(len(self.targets))],
                "rounds": rounds}

    # ---- text ----

    def print_head(self):
        wrap("versus  ", self.load_text(), out=self.out)
        print("%-13s" % "of each round" + "".join(" %14.14s" % self.label(t) for t in range(len(self.targets))), file=self.out)
        self.out.flush()

    def print_round(self, r):
        n, good = len(self.rounds), len(self.counting())
        # More than were asked for where some do not count; and no more than are made.
        of = max(min(max(self.plan["rounds"] + n - good, self.plan["rounds"]), TRIES * self.plan["rounds"]), n)
        why = WHY.get(r.why, "")
        if r.why in ("processor time", "cores used"):
            why = f"{self.label(r.by)} {why}"
        wrap("", f"round {n} of {of}: {'does not count: ' + why if r.why else 'CPUs ' + r.state()}", 2, out=self.out)
        rows = (("  GETs/s", "get", "ops_per_s", count), ("  CPU/GET", "get", "cpu_ns", duration), ("  cores", "get", "cores", "{:.2f}".format),
                ("  faults/PUT", "put", "page_faults", "{:.2f}".format))
        for name, figure, member, form in rows:
            cells = [form(run[figure][member]) if member in run.get(figure, {}) else "-" for run in r.runs]
            print("%-13s" % name + "".join(" %14s" % cell for cell in cells), file=self.out)
        self.out.flush()

    def print_figure(self, figure):
        name = figure  # before its first target
        for t in range(len(self.targets)):
            m = self.median(t, figure)
            if not m:
                continue
            print("%-6s %-20s %10s %10s %8s %8s %8s" % (name, self.label(t), count(m["ops_per_s"]), rate(m["bytes_per_s"]), duration(m["p50_ns"]),
                                                       *(duration(m[n]) if n in m else "-" for n in ("p99_ns", "cpu_ns"))), file=self.out)
            name, clock, cpu = "", self.ratio(t, figure, False), self.ratio(t, figure, True)
            if t and clock:
                print("%-6s %-20s %sclock %s" % ("", "  first / this one", f"CPU time {spread_text(cpu)}; " if cpu else "", spread_text(clock)),
                      file=self.out)

    def print_notes(self):
        """PUTs are over when all keys are stored: how many keys make the shortest of them last a second."""
        times = [(self.median(t, "put").get("seconds", 0), t) for t in range(len(self.targets))]
        times = [(s, t) for s, t in times if s > 0]
        if times and min(times)[0] < SHORT_S:
            s, t = min(times)
            wrap("note    ", f"the PUTs of a round take only {duration(s * 1e9)} at {self.label(t)}, too short for a ratio: with --num-keys "
                             f"{math.ceil(self.plan['num_keys'] / s)} they take a second, and each server needs as much more memory", out=self.out)

    def print_counted(self):
        if self.unsteady:
            wrap("rounds  ", f"in none of the {len(self.rounds)} was the machine the same throughout (distance of the CPUs, a target that failed): these "
                             "are medians over all, to be measured again on a machine at rest", out=self.out)
            return
        found = [(sum(r.why == why for r in self.rounds), sentence) for why, sentence in WHY_COUNTED.items()]
        wrap("rounds  ", f"{len(self.counting())} of {len(self.rounds)} count{''.join(f'; {n} not: {s}' for n, s in found if n)}. Ratios: median over "
                         "them, [95 % confidence] or, of fewer than 6 rounds, (lowest-highest)", out=self.out)

    def print_congestion(self):
        names = [s.get("congestion_control") for s in self.servers]
        if len({n for n in names if n}) > 1:
            for t, name in enumerate(names):
                wrap("        " if t else "note    ", f"{self.label(t)} sends with congestion control {name or 'unknown'}", out=self.out)
        for t, target in enumerate(self.targets):
            if names[0] and self.rounds[0].runs[t] and not names[t] and target["kind"] != "program" and "/" not in target["address"]:
                wrap("note    ", f"with which congestion control {self.label(t)} sends is not known, and may be another than {names[0]}: run kv-bench as its "
                                 "user, or root", out=self.out)

    def print_summary(self):
        print(file=self.out)
        ran = [t for t in range(len(self.targets)) if self.rounds and self.rounds[0].runs[t]]
        for t in ran:
            wrap("        " if t != ran[0] else "targets ", self.target_text(t), out=self.out)
        if any(self.median(t, "get") for t in range(len(self.targets))):
            print("\n%-6s %-20s %10s %10s %8s %8s %8s" % ("", "median", "ops/s", "bytes/s", "p50", "p99", "CPU/op"), file=self.out)
            for figure in FIGURES:
                self.print_figure(figure)
            self.print_notes()
        if self.median(0, "get"):  # else nothing was measured, and the verdict says why
            self.print_counted()
            self.print_congestion()
            conditions.show(self.conditions(), self.out)

    # ---- the end ----

    def verdict(self):
        for t, why in sorted(self.failed.items()):
            print(f"kv-bench versus: {self.targets[t]['name']} failed: {why}", file=sys.stderr)
        if child.received:
            print(f"kv-bench versus: interrupted by signal {child.received}: these are the rounds until then", file=sys.stderr)
            return 128 + child.received
        return FAILED if self.failed else OK

    def files_write(self):
        try:
            if self.plan["json"]:
                files.write(self.plan["json"], "the JSON report", lambda: (json.dumps(self.document(), indent=1) + "\n").encode())
            if self.plan["report"]:
                files.write(self.plan["report"], "the page", lambda: page.versus(self.document()).encode())
            self.out.flush()
            if not self.out.lost:
                return OK
            print(f"kv-bench versus: the report could not be written to standard {'output' if self.out is sys.stdout else 'error'}", file=sys.stderr)
        except Refused as why:
            print(f"kv-bench versus: {why}", file=sys.stderr)
        return FAILED


def main(plan):
    """The exit status."""
    v = Versus(plan)
    child.signals_install()
    try:
        for path, what in ((plan["json"], "the JSON report"), (plan["report"], "the page")):
            if path:
                files.try_open(path, what)
    except Refused as why:
        print(f"kv-bench versus: {why}", file=sys.stderr)
        return NO_START
    v.print_head()
    try:
        v.run_all()
    except child.Interrupted:
        pass
    v.print_summary()
    status, written = v.verdict(), v.files_write()
    return status or written
