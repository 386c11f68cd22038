# SPDX-License-Identifier: Apache-2.0
"""sweep.py -- kv-bench sweep: the same load with every combination of workers, value size and clients.

A combination is a cell: pending, partial (some of its runs are made), done, failed, or skipped by the plan. Each run of a
cell is a kv-bench of its own (child.py). A round runs every cell once, in an order of its own: a drift (heat,
neighbours, a filling disk) meets all cells alike, and the spread of a cell contains it.

The document is written anew after every run, and takes its name when it is complete: whatever ends this process, the file
is the one before or the one after. If a disk is full in the middle the sweep goes on; a file that cannot be written at the
end fails it. A file to resume may come from anywhere: all of it is checked before anything is taken.
"""
import json
import os
import random
import socket
import sys
import time

import child
import files
import measured
import page
from document import SHORT_S, SWEEP, Refused, at, items, load, number, text
from state import settings_lone
from text import count, count_of, duration, printable, rate, size, whole, wrap

OK, FAILED, USAGE, NO_START = 0, 1, 2, 3
AXES = ("value_size", "num_clients", "num_workers")
FIGURES = ("ops_per_s", "bytes_per_s", "p50_ns", "p99_ns", "p999_ns", "write_ops_per_s", "write_bytes_per_s", "write_p50_ns",
           "write_p99_ns")
SHARED_CORES = 0.25  # BENCH_SHARED_CORES: others that keep more of the processors busy change the figures

# Conditions that all runs must have alike, and conditions that may change from run to run.
SAME = {"host": ("name", "kernel", "architecture", "processor", "cores", "numa_nodes", "congestion_control"),
        "provider": ("name", "fabric", "domain", "wait", "libfabric", "mode", "security", "loopback_congestion_control"),
        "conditions": ("provider", "wait", "libfabric", "cores", "histogram_error")}
NOISE = ("steal_share", "others_cores", "shared_machine", "core_distance_before_ns", "core_distance_after_ns", "suspended_s")


def some(obj, names):
    return {name: obj[name] for name in names if isinstance(obj, dict) and name in obj}


class Cell:
    def __init__(self, place, skipped=None):
        self.at = place  # of AXES; without value_size the load says it
        self.state, self.reason, self.runs = ("skipped", skipped, []) if skipped else ("pending", "", [])

    def update(self, repeat_runs):
        if self.state not in ("skipped", "failed"):
            self.state = "done" if len(self.runs) >= repeat_runs else "partial" if self.runs else "pending"

    def fail(self, reason):
        self.state, self.reason = "failed", reason[:520]

    def figure(self, member):
        """measured.spread of one member of the runs. None: no run has it; or a run has too few samples for a latency, and
        the others, the faster ones, would speak for all."""
        operations = "write_ops_per_s" if member.startswith("write_") else "ops_per_s"
        values = [run[member] for run in self.runs if member in run]
        if member.endswith("_ns") and any(member not in run and operations in run for run in self.runs):
            return None
        return measured.spread(values) if values else None

    def median(self, member):
        found = self.figure(member)
        return found[0] if found else 0.0

    def shared(self):
        others = self.figure("others_cores")
        return others is not None and others[2] >= SHARED_CORES

    def brief(self):
        """Its one run read for a moment only."""
        return len(self.runs) == 1 and self.runs[0].get("seconds", 1.0) < SHORT_S

    def point(self):
        point = {"state": self.state, **self.at}
        if self.reason:
            point["reason"] = self.reason
        found = {name: self.figure(name) for name in FIGURES} if self.state != "failed" else {}
        found = {name: spread for name, spread in found.items() if spread}
        point.update((name, spread[0]) for name, spread in found.items())
        if found and len(self.runs) > 1:
            point["spread"] = {name: dict(zip(("min", "max", "spread"), spread[1:])) for name, spread in found.items()}
        return {**point, "runs": self.runs}

    def size(self):
        return size(self.at["value_size"]) if "value_size" in self.at else "load"


def run_of(doc, seed):
    """The figures of a run, from its report."""
    read, write = at(doc, "phases", "read"), at(doc, "phases", "write")
    found = {"ops_per_s": (read, "ops_per_s"), "bytes_per_s": (read, "bytes_per_s"), "seconds": (read, "seconds"),
             "p50_ns": (at(read, "latency_ns"), "p50"), "p99_ns": (at(read, "latency_ns"), "p99"),
             "p999_ns": (at(read, "latency_ns"), "p999")}
    if number(write, "duplicates") == 0:  # stored values did not travel again
        found.update({"write_ops_per_s": (write, "ops_per_s"), "write_bytes_per_s": (write, "bytes_per_s"),
                      "write_p50_ns": (at(write, "latency_ns"), "p50"), "write_p99_ns": (at(write, "latency_ns"), "p99")})
    run = some(at(doc, "conditions"), NOISE)
    run.update((name, number(*place)) for name, place in found.items() if number(*place) > 0)
    return {**run, "seed": seed, "time": text(at(doc, "run"), "time") or ""}


class Sweep:
    def __init__(self, plan):
        """plan: made by kv-bench from its options (kvbench/sweep/sweep.c)."""
        self.plan = plan
        self.cells = [Cell(some(c, AXES), c.get("skipped")) for c in plan["cells"]]
        self.same = {}  # of SAME; of the first run
        self.interrupted, self.kept, self.started = 0, 0, time.time()
        self.order_seed = plan["order_seed"] or int(self.started * 1000) & 0xFFFFFFFF
        self.out = sys.stderr if plan["json"] == "-" else sys.stdout

    def order(self, round_):
        """The cells that lack this run, shuffled."""
        cells = [c for c in self.cells if c.state in ("pending", "partial") and len(c.runs) <= round_]
        random.Random(f"{self.order_seed} {round_}").shuffle(cells)
        return cells

    def runs_left(self):
        return sum(max(self.plan["repeat_runs"] - len(c.runs), 0) for c in self.cells if c.state in ("pending", "partial"))

    # ---- a run ----

    def take(self, cell, doc, seed):
        """Take the report of a run into its cell."""
        if at(doc, "verdict", "ok") is not True:
            problems = items(doc, "verdict", "problems")
            raise Refused(problems[0] if problems and isinstance(problems[0], str) else "its verdict is not good, and does not say why")
        now = {group: some(at(doc, group), names) for group, names in SAME.items()}
        for group, values in now.items():
            before = self.same.get(group, values)
            for name, value in values.items():
                if before.get(name) != value:
                    raise Refused(f"it ran under other conditions than the runs before: {group.replace('conditions', 'condition')} {name} is "
                                  f"{json.dumps(value)[:60]}, and was {json.dumps(before[name])[:60] if name in before else 'unknown'}")
        run = run_of(doc, seed)
        if "ops_per_s" not in run:
            raise Refused("it read nothing")
        self.same = self.same or now
        cell.runs.append(run)

    def seed_of(self, cell, round_):
        """On shared servers each run has keys of its own: stored values would not travel again."""
        if not self.plan["servers"]:
            return self.plan["seed"]
        return random.Random(f"{self.plan['seed']} {self.order_seed} {self.cells.index(cell)} {round_}").getrandbits(62)

    def run(self, cell, round_):
        seed, plan = self.seed_of(cell, round_), self.plan
        args = ["kv-bench", *plan["args"], *(f"--{name.replace('_', '-')}={value}" for name, value in cell.at.items()),
                f"--seed={seed}", "--quiet", "--json=-"]
        try:
            doc = child.report(plan["program"], args, plan["timeout_s"], "--cell-timeout", FAILED, plan["log_through"])
            self.take(cell, doc, seed)
        except Refused as why:
            cell.fail(str(why))
        cell.update(plan["repeat_runs"])

    def run_all(self):
        start, done, warned = time.monotonic(), 0, False
        for round_ in range(self.plan["repeat_runs"]):
            for cell in self.order(round_):
                if not self.plan["quiet"] and self.out.isatty():
                    print("%11s %7d %8s %7d ..." % ("running", cell.at["num_workers"], cell.size(), cell.at["num_clients"]),
                          end="", file=self.out, flush=True)
                self.run(cell, round_)
                done += 1
                left = self.runs_left()
                if not self.plan["quiet"]:
                    self.print_run(cell, done, done + left, (time.monotonic() - start) / done * left)
                warned = self.checkpoint(warned)

    def checkpoint(self, warned):
        """Only a file is written in the middle: of a pipe or a device the reader expects one document."""
        path = self.plan["json"]
        try:
            if path and path != "-" and not path.startswith("/dev/"):
                self.save()
            return False
        except Refused as why:
            if not warned:
                print(f"kv-bench sweep: {why}; the sweep goes on, and tries again after the next run", file=sys.stderr)
            return True

    # ---- the document ----

    def verdict(self):
        problems = [f"{c.at['num_workers']} workers, values{' of ' + c.size() if 'value_size' in c.at else ''}, "
                    f"{c.at['num_clients']} clients: {c.reason}" for c in self.cells if c.state == "failed"]
        complete = all(c.state in ("done", "failed", "skipped") for c in self.cells)
        return {"ok": complete and not self.interrupted and not problems, "problems": problems}

    def document(self):
        plan = self.plan
        run = {"version": plan["version"], "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
               "options": plan["options"], "interrupted": self.interrupted or None}
        sweep = {"settings": plan["settings"], "axes": plan["axes"], "order_seed": self.order_seed, "repeat_runs": plan["repeat_runs"],
                 "server": "given, shared by all runs" if plan["servers"] else "one for each run",
                 "points": [c.point() for c in self.cells]}
        return {"schema": SWEEP, "interrupted": bool(self.interrupted), "verdict": self.verdict(),
                "conditions": self.same.get("conditions", {}), "run": run, "host": self.same.get("host", {}),
                "provider": self.same.get("provider", {}), "sweep": sweep}

    def save(self):
        files.write(self.plan["json"], "the JSON report", lambda: (json.dumps(self.document(), indent=2) + "\n").encode())

    # ---- taking up an earlier sweep ----

    def cell_of(self, point):
        """The cell with just the axes of this point."""
        return next((c for c in self.cells if c.at == some(point, AXES)), None)

    def resume_check(self, doc):
        host, version = text(at(doc, "host"), "name"), text(at(doc, "run"), "version")
        if version != self.plan["version"]:
            raise Refused(f"kv-bench {version or 'of an unknown version'} wrote it, and this is {self.plan['version']}; begin another file")
        if host and host != socket.gethostname():
            raise Refused(f"it was measured on {host}, and this is {socket.gethostname()}; begin another file")
        if not isinstance(at(doc, "sweep", "points"), list):
            raise Refused("it has no combinations; the file is damaged")
        for setting, is_of_file in settings_lone(self.plan["settings"], items(doc, "sweep", "settings")):
            raise Refused(f"{setting} is an option of {'its' if is_of_file else 'this'} sweep only; use the same options, or begin another file")
        for point in items(doc, "sweep", "points"):
            if not isinstance(at(point, "runs"), list):
                raise Refused("a combination in it has no list of runs; the file is damaged")
            if not all(number(run, name) > 0 for run in point["runs"] for name in ("ops_per_s", "bytes_per_s", "p50_ns")):
                raise Refused("a run in it lacks a figure; the file is damaged")
            if point["runs"] and not self.cell_of(point):
                raise Refused("it has measured combinations that these lists do not contain, and would lose them; lengthen the lists, or "
                              "begin another file")

    def resume(self, path):
        """Take the runs of an earlier sweep; failed ones are tried again. Without a file the sweep has not begun."""
        if not os.path.exists(path):
            return
        doc = load(path, (SWEEP,), self.plan["version"])
        try:
            self.resume_check(doc)
        except Refused as why:
            raise Refused(f"--resume {path}: {printable(str(why), 320)}") from None
        for point in items(doc, "sweep", "points"):
            cell = self.cell_of(point)
            if cell and cell.state != "skipped" and not cell.runs:
                # Figures must be numbers.
                cell.runs = [{k: v for k, v in run.items() if k in ("time", "shared_machine") or number(run, k) == number(run, k)}
                             for run in point["runs"]]
                self.kept += len(cell.runs)
                cell.update(self.plan["repeat_runs"])
        if self.kept:
            self.same = {group: at(doc, group) for group in SAME if isinstance(at(doc, group), dict) and at(doc, group)}

    # ---- text; no line is wider than 80 columns ----

    def print_head(self):
        plan, skipped, left = self.plan, sum(c.state == "skipped" for c in self.cells), self.runs_left()
        print(f"kv-bench sweep   {plan['version']}", file=self.out)
        wrap("sweep      ", f"{len(self.cells) - skipped} combination{'' if len(self.cells) - skipped == 1 else 's'}"
                            f"{f' ({skipped} more skipped)' if skipped else ''}{', several times each' if plan['repeat_runs'] > 1 else ''}, "
                            f"{left} run{'' if left == 1 else 's'} to make, in an order of seed {self.order_seed}", out=self.out)
        if plan["servers"]:
            wrap("server     ", f"{plan['servers'][0]}{' and others' if len(plan['servers']) > 1 else ''}, shared by all runs: each has keys of "
                                "its own, and finds the memory as full as those before left it", out=self.out)
        else:
            wrap("server     ", "one for each run, started by it: none finds the values or connections of another", out=self.out)
        if self.kept:
            wrap("resume     ", f"{self.kept} run{'' if self.kept == 1 else 's'} of an earlier sweep {'is' if self.kept == 1 else 'are'} kept",
                 out=self.out)
        print("\n%11s %7s %8s %7s %9s %10s %7s %7s %6s" % ("run", "workers", "value", "clients", "ops/s", "bytes/s", "p50", "p99", "left"),
              file=self.out, flush=True)

    def print_run(self, cell, done, every, left_s):
        line = "%11s %7d %8s %7d " % (f"{done}/{every}", cell.at["num_workers"], cell.size(), cell.at["num_clients"])
        if self.out.isatty():
            line = "\r\033[K" + line
        if cell.state == "failed":
            print(line + "%9s %33s" % ("FAILED", left_text(left_s)), file=self.out)
            wrap("            ", cell.reason, out=self.out)
        else:
            run = cell.runs[-1]
            print(line + "%9s %10s %7s %7s %6s" % (count_text(run["ops_per_s"]), rate(run.get("bytes_per_s", 0.0)), time_text(run.get("p50_ns", 0)),
                                                  time_text(run.get("p99_ns", 0)), left_text(left_s)), file=self.out)
        self.out.flush()

    def scaling(self, cell):
        """The rate as a multiple of that of the fewest workers with the same size and clients."""
        for first in self.cells:
            same = all(first.at.get(axis) == cell.at.get(axis) for axis in AXES[:2])
            if same and first.state != "failed" and first.median("ops_per_s") > 0:
                times = cell.median("ops_per_s") / first.median("ops_per_s")
                return ("%.2f" if times < 99.5 else "%.4g") % times
        return ""

    def print_row(self, cell):
        head, ops = "%8s %7d %7d " % (cell.size(), cell.at["num_clients"], cell.at["num_workers"]), cell.figure("ops_per_s")
        if cell.state == "skipped":
            wrap(head, f"  skipped: {cell.reason}", out=self.out)
        elif cell.state == "failed" or not ops:
            print(head + "%9s" % ("FAILED" if cell.state == "failed" else "not run"), file=self.out)
        else:
            spread = " %5.3g %%" % min(100 * ops[3], 9999.0) if len(cell.runs) > 1 else ""
            print(head + "%9s %7.7s %10s %7s %7s%s%s%s" % (count_text(ops[0]), self.scaling(cell), rate(cell.median("bytes_per_s")),
                                                          time_text(cell.median("p50_ns")), time_text(cell.median("p99_ns")), spread,
                                                          " ~" if cell.brief() else "", " *" if cell.shared() else ""), file=self.out)

    def print_table(self):
        several = self.plan["repeat_runs"] > 1
        print("\n%8s %7s %7s %9s %7s %10s %7s %7s%s" % ("value", "clients", "workers", "ops/s", "scaling", "bytes/s", "p50", "p99",
                                                      " spread" if several else ""), file=self.out)
        for before, cell in zip([self.cells[0], *self.cells], self.cells):
            if cell.at.get("value_size") != before.at.get("value_size"):
                print(file=self.out)
            self.print_row(cell)
        print(file=self.out)
        wrap("           ", "Reads. Scaling: operations per second, as a multiple of the fewest workers' with the same size and clients." +
             (" Medians of the runs, also of their percentiles: what one run alone met is not in p99. Spread: of operations per second, "
              "largest less smallest, as a part of the median." if several else ""), out=self.out)
        if self.plan["batch"] > 1:
            wrap("           ", f"A latency is of a batch of {self.plan['batch']} keys, and an operation is a key.", out=self.out)
        if any(c.brief() for c in self.cells):
            wrap("         ~ ", "read for less than 0.1 s, too short for a rate: use --duration 1, --repeat-reads or --repeat-runs", out=self.out)
        if any(c.shared() for c in self.cells):
            wrap("         * ", "others kept processors of this machine busy meanwhile", out=self.out)
        failed = [c.reason for c in self.cells if c.state == "failed"]
        for reason in dict.fromkeys(failed):
            wrap("FAILED     ", f"{count_of(failed.count(reason), 'combination')}: {reason}", out=self.out)
        missing = sum(c.state in ("pending", "partial") for c in self.cells)
        if missing:
            wrap("missing    ", f"{missing} combination{' was' if missing == 1 else 's were'} not, or not often enough, measured (--resume goes on)",
                 out=self.out)
        self.out.flush()

    # ---- the end ----

    def finish(self):
        status = FAILED if any(c.state == "failed" for c in self.cells) else OK
        self.print_table()
        if self.interrupted:
            print(f"kv-bench sweep: interrupted by signal {self.interrupted}: the report has what was measured until then", file=sys.stderr)
        try:
            if self.plan["json"]:
                self.save()
            if self.plan["report"]:
                files.write(self.plan["report"], "the page", lambda: page.page(self.document()).encode())
        except Refused as why:
            print(f"kv-bench sweep: {why}", file=sys.stderr)
            status = FAILED
        if self.out.lost:
            print("kv-bench sweep: the table could not be written to standard output", file=sys.stderr)
            status = FAILED
        return 128 + self.interrupted if self.interrupted else status


def time_text(ns):
    return duration(ns) if ns > 0 else "-"


def count_text(n):
    """ "1,234,567", or less exactly where that is too wide."""
    return count(n) if n < 9999999.5 else "%.3g" % n


def left_text(seconds):
    if seconds <= 0:
        return ""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{min(seconds / 3600, 9999.0):.0f} h"


def main(plan):
    """The exit status."""
    sweep, status = Sweep(plan), USAGE
    child.signals_install()
    try:
        if plan["resume"]:
            sweep.resume(plan["resume"])
        status = NO_START
        for path, what in ((plan["json"], "the JSON report"), (plan["report"], "the page")):
            if path:
                files.try_open(path, what)  # now, so that a wrong path costs no hour
    except Refused as why:
        print(f"kv-bench sweep: {why}{' (try --help)' if status == USAGE else ''}", file=sys.stderr)
        return status
    try:
        if not plan["quiet"]:
            sweep.print_head()
        sweep.checkpoint(False)
        sweep.run_all()
    except child.Interrupted:
        sweep.interrupted = child.received
    return sweep.finish()
