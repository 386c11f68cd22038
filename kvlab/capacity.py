# SPDX-License-Identifier: Apache-2.0
"""capacity.py -- kv-bench capacity: the models, one after the other, each step by step until one fails.

A server is started for each model, and a process for each step (kvbench/steps/step.c). Meeting a limit is the purpose,
and so a success. The command fails for a wrong byte, for a GET that failed while nothing was short, for a killed step, and
for a model that is asked for by name and cannot begin.
"""
import errno
import json
import signal
import sys
import time

import child
import conditions
import files
import steps
from document import Refused
from text import duration, size, wrap

OK, FAILED, NO_START = 0, 1, 3
CONFIRMS, CONFIRM_S = 4, 10.0
SERVER_FILES_MARGIN = 40  # the server keeps some for itself
COUNTS = ("opened", "connected", "verified", "wrong", "threads", "files", "endpoints", "queue_pairs", "completion_queues", "memory_regions")
REPORTED = ("clients", *COUNTS, "memory_bytes", "opening_seconds", "reading_seconds", "kernel", "ended_by", "first_error", "success",
            "server_memory_bytes", "server_files")


def plural(n, noun="client"):
    return f"{n} {noun}{'' if n == 1 else 's'}"


def start_end(error):
    """Even the process of a step takes something."""
    return {errno.EMFILE: "open files", errno.ENFILE: "open files", errno.EAGAIN: "threads", errno.ENOMEM: "memory"}.get(error, "not usable")


class Step:
    """One number of clients."""

    def __init__(self, run, clients, timeout_s):
        plan, server = run.plan, run.server
        self.d = {**dict.fromkeys(COUNTS, 0), "clients": clients, "rss": 0, "rss_start": 0, "open_ns": 0, "talk_ns": 0,
                  "kernel": {"queue_pairs": None, "completion_queues": None, "memory_regions": None}, "ended_by": None, "first_error": None,
                  "provider": "", "domain": "", "libfabric": "", "wait": "", "loopback_congestion_control": ""}
        args = ["kv-bench-capacity-step", run.model, str(clients), server.address if server else "", f"{timeout_s * 1e9:.0f}", *plan["options"]]
        step = steps.Step(plan["program"], args, server, timeout_s)
        self.d.update(step.told)
        self.d.update(success=self.d["connected"] / clients, server_memory_bytes=step.server_memory, server_files=step.server_files,
                      memory_bytes=max(self.d["rss"] - self.d["rss_start"], 0), opening_seconds=self.d["open_ns"] / 1e9,
                      reading_seconds=self.d["talk_ns"] / 1e9)
        self.judge(step)
        if server and not step.error:
            self.look_at(server)

    def end(self, by, text, code="internal"):
        self.d["ended_by"], self.d["first_error"] = by, {"code": code, "text": text}

    def ended_badly(self, by, how):
        before = self.d["first_error"]
        if by == "interrupted" or not before:
            self.end(by, f"{how}, with {self.d['opened']} of {plural(self.d['clients'])} open", before["code"] if before else "internal")
        else:
            self.end(self.d["ended_by"], f"{before['text'][:255]}; then {how}", before["code"])

    def judge(self, step):
        """The end of the step as this process saw it."""
        if step.error:
            self.end(start_end(step.error.errno), step.ended)
        elif step.killed_by == signal.SIGKILL:
            self.ended_badly("memory", step.ended)
        elif step.ended:
            self.ended_badly("killed", step.ended)
        if child.received and self.d["ended_by"] != "interrupted":
            self.ended_badly("interrupted", "interrupted")

    def look_at(self, server):
        """A server without a free descriptor accepts nobody, and clients that wait for it see only the time pass."""
        if server.dead() and self.d["ended_by"] != "interrupted":
            self.end("server", f"the server that kv-bench started died, with {self.d['connected']} of {plural(self.d['clients'])} connected")
        limit = server.files()[1]
        if self.d["ended_by"] == "time" and limit and self.d["server_files"] + SERVER_FILES_MARGIN >= limit:
            self.end("open files", f"the server has {self.d['server_files']} files open and may have {limit}: raise `ulimit -n`; "
                                   f"{self.d['first_error']['text'][:255]}", "limit")

    def report(self):
        return {name: self.d[name] for name in REPORTED}

    def show(self, out):
        d = self.d
        each = d["memory_bytes"] // d["opened"] if d["opened"] else 0
        print("%7d %8d %5d %5d %5d %5d %4d %8s %8s %8s %7s" % (
            d["clients"], d["verified"], d["queue_pairs"] or d["endpoints"], d["completion_queues"], d["memory_regions"], d["files"], d["threads"],
            size(d["memory_bytes"]), size(each), size(d["server_memory_bytes"]) if d["server_memory_bytes"] else "-",
            duration(d["opening_seconds"] * 1e9) if d["opening_seconds"] else "-"), file=out)
        if d["ended_by"]:
            print("%7s %d connected (%.1f %%), ended by %s" % ("", d["connected"], 100 * d["success"], d["ended_by"]), file=out)
        out.flush()


class Run:
    """A model."""

    def __init__(self, plan, model, table):
        self.plan, self.model, self.table = plan, model, table  # table: None with --quiet
        self.ran, self.why_not, self.steps, self.last = False, "", [], 0
        self.server = None

    def step(self, clients, timeout_s):
        """False: it is not complete. Every process has a thread: one without has never told anything."""
        s = Step(self, clients, timeout_s)
        never = s.d["ended_by"] == "not usable" or (s.d["ended_by"] != "interrupted" and s.d["threads"] == 0)
        if never and s.d["connected"] == 0 and not self.steps:  # if an earlier step ran, the model ran
            self.ran, self.why_not = False, s.d["first_error"]["text"]
            return False
        self.steps.append(s)
        if self.table:
            s.show(self.table)
        return not s.d["ended_by"]

    def confirm(self, took_s):
        """The library opens all clients of a pool or none, so the open clients before a failure have read nothing. As many are
        opened once more, and each of them reads; fewer are tried a few times, since the resources of connections may be
        short as well. None of these steps may take much longer than the one that failed."""
        d, before = self.steps[self.last].d, self.steps[self.last - 1].d["clients"] if self.last else 0
        n, timeout_s = d["opened"], min(self.plan["timeout_s"], CONFIRM_S + 2 * took_s)
        if self.model != "endpoints" or d["ended_by"] in ("time", "killed", "data", "interrupted"):
            return
        for _ in range(CONFIRMS):
            if n <= before or (self.server and self.server.dead()) or self.step(n, timeout_s) or child.received:
                return
            n -= max(n // 8, 1)

    def run_steps(self):
        self.ran, complete, begun = True, True, 0.0
        for clients in self.plan["steps"][self.model]:
            begun = time.monotonic()
            complete = self.step(clients, self.plan["timeout_s"])
            self.last = max(len(self.steps) - 1, 0)
            if not complete:
                break
        if not complete and self.steps:
            self.confirm(time.monotonic() - begun)

    def run(self, out):
        if self.table:
            self.show_head()
        try:
            if self.model != "verbs" and not self.plan["server"]:
                most = self.plan["steps"][self.model][-1]
                self.server = steps.Server(self.plan["program"], [*self.plan["server_args"], str(most + self.plan["server_spare"]), str(most)])
            self.run_steps()
        except Refused as why:
            self.why_not = str(why)
        if not child.received:
            self.show_end(out)
        if self.server:
            self.server.stop()  # if it ended the step, the step says so already

    def status(self):
        if not self.ran:
            return NO_START if self.plan["by_name"] or self.model != "verbs" else OK
        if any(s.d["wrong"] or s.d["ended_by"] in ("data", "killed") for s in self.steps):
            return FAILED
        first = self.steps[0].d if self.steps else {}
        # If the server served no client at all, there is no figure.
        return NO_START if first.get("ended_by") == "server" and first["connected"] == 0 else OK

    def telling(self):
        """A step that knows its fabric; {}: none does."""
        return next((s.d for s in self.steps if s.d["provider"]), {})

    def report(self):
        t = self.telling()
        made = {"ran": self.ran, "steps": [s.report() for s in self.steps], "most_verified": max([s.d["verified"] for s in self.steps], default=0),
                **{name: t.get(name, "") for name in ("provider", "domain", "libfabric")}}
        if not self.ran:
            made["why_not"] = self.why_not
        if self.steps:
            made["ended_by"] = self.steps[self.last].d["ended_by"]
        return made

    def show_head(self):
        p, out = self.plan, self.table
        if self.model == "endpoints":
            wrap("\nendpoints: ", f"{p['rails']} for each client (endpoint, completion queue), smallest buffers, {p['buffer_mb']} MiB of receive buffer", 11, out)
        elif self.model == "verbs":
            wrap("\nverbs: ", "a queue pair, two completion queues and two memory regions for each client, without libfabric", 7, out)
        else:
            print(f"\npooled: all clients share {plural(p['engines'], 'engine')}", file=out)
        print("%7s %8s %5s %5s %5s %5s %4s %8s %8s %8s %7s" % ("clients", "verified", "EPs", "CQs", "MRs", "files", "thr.", "memory", "each", "server",
                                                              "opening"), file=out)

    def show_end(self, out):
        if not self.ran or not self.steps:
            wrap("", f"{self.model}: did not run: {self.why_not}", 11, out)
            return
        d, t = self.steps[self.last].d, self.telling()
        if t:
            print(f"{self.model}: " + ", ".join(x for x in (t["provider"], t["domain"], t["libfabric"] and f"libfabric {t['libfabric']}") if x), file=out)
        if d["kernel"]["queue_pairs"] is not None:
            counted = [d["kernel"][name] or 0 for name in ("queue_pairs", "completion_queues", "memory_regions")]
            wrap("           ", "the kernel counted, of all processes: %d queue pairs, %d completion queues, %d memory regions" % tuple(counted), out=out)
        if not d["ended_by"]:
            print(f"{self.model}: {'' if d['clients'] == 1 else 'all '}{plural(d['clients'])} worked; no limit was met", file=out)
        else:
            print(f"{self.model}: ended at {plural(d['clients'])}, {d['opened']} open, {d['connected']} connected, by: {d['ended_by']}", file=out)
            wrap("           ", d["first_error"]["text"], out=out)


def document(plan, runs, machine):
    fabric = next((r.telling() for r in runs.values() if r.telling()), {})
    excluded = ["of memory: what the process had at its start", "of the time of opening: making values, starting processes"]
    return {"schema": "kvbench-capacity/1", "version": plan["version"], "interrupted": bool(child.received),
            "conditions": conditions.member(fabric, machine, excluded, quantiles=False), "host": plan["host"],
            "models": {name: run.report() for name, run in runs.items()}}


def main(plan):
    """The exit status."""
    out = sys.stderr if plan["json"] == "-" else sys.stdout
    table, status, runs = None if plan["quiet"] else out, OK, {}
    child.signals_install()
    try:
        if plan["json"]:
            files.try_open(plan["json"], "the JSON report")
    except Refused as why:
        print(f"kv-bench: {why}", file=sys.stderr)
        return NO_START
    if table:
        print(f"kv-bench capacity   {plan['version']}", file=table)
        wrap("host       ", plan["host_text"], out=table)
        print("server     " + (plan["server"] or f"started by kv-bench for each model, {plural(plan['server_threads'], 'data thread')}, on this host"),
              file=table)
    machine = conditions.Machine(plan["program"])
    for model in plan["models"]:
        if not child.received:
            runs[model] = Run(plan, model, table)
            runs[model].run(out)
            status = max(status, runs[model].status())
    if child.received:
        print(f"kv-bench: interrupted by signal {child.received}; everything is closed, the report has the steps that were over", file=sys.stderr)
    for model in plan["models"]:  # one that a signal left no time for
        runs.setdefault(model, Run(plan, model, table))
    doc = document(plan, runs, machine.end())
    print(file=out)
    conditions.show(doc["conditions"], out)
    try:
        if plan["json"]:
            files.write(plan["json"], "the JSON report", lambda: (json.dumps(doc, indent=2) + "\n").encode())
    except Refused as why:
        print(f"kv-bench: {why}", file=sys.stderr)
        status = status or FAILED
    out.flush()
    if out.lost:
        print(f"kv-bench: the report could not be written to standard {'output' if out is sys.stdout else 'error'}", file=sys.stderr)
        status = status or FAILED
    return 128 + child.received if child.received else status
