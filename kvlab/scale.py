# SPDX-License-Identifier: Apache-2.0
"""scale.py -- kv-bench scale: more and more logical clients in one process, each with a session of its own; beside it, a
TCP connection with TLS for each.

A step is one number of clients on one kind, in a process of its own (kvbench/steps/step.c), so that its memory is its own.
The server is sized for the largest step and shared by all, so that figures differ by the clients alone. A step that fails
does not end the command. Connections with TLS stop at the first number that cannot be had, since more cannot be either.
"""
import json
import sys

import child
import conditions
import files
import steps
from document import Refused
from text import count, duration, size, wrap

OK, FAILED, NO_START = 0, 1, 3
FIGURES = ("connect_ns", "connect_p50_ns", "connect_p99_ns", "p50_ns", "p99_ns")
EXCLUDED = ["of latencies: opening sessions and connections, which connect has", "of memory: what the process had at its start"]


def plural(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}"


def made(told, kind, clients, server_memory):
    """The report of a step, from the last line of its process; a figure without a measurement is absent."""
    d = {"connected": 0, "verified": 0, "messages": 0, "failed": 0, "wrong": 0, "threads": 0, "files": 0, "rss": 0, "rss_start": 0, "rss_base": 0,
         "talk_ns": 0, **told}
    memory = max(d["rss"] - d["rss_start"], 0)
    o = {"kind": kind, "clients": clients, "success": d["verified"] / clients, "succeeded": d["verified"], "memory_bytes": memory,
         "server_memory_bytes": server_memory or d.get("peer_memory", 0), "complete": not d.get("stopped")}
    o.update((name, d[name]) for name in ("connected", "messages", "failed", "wrong", "threads", "files"))
    o.update((name, d[name]) for name in ("provider", "libfabric", "wait", "loopback_congestion_control", "stopped", *FIGURES) if d.get(name))
    if d["talk_ns"]:
        o["messages_per_s"] = d["messages"] * 1e9 / d["talk_ns"]
    if d["connected"]:
        o["bytes_per_client"] = memory // d["connected"]
        o["bytes_per_further_client"] = max(d["rss"] - d["rss_base"], 0) // d["connected"] if d["rss_base"] else 0
    return o


class Scale:
    def __init__(self, plan):
        self.plan, self.steps, self.server = plan, [], None
        self.out = sys.stderr if plan["json"] == "-" else sys.stdout
        self.table = None if plan["quiet"] else self.out

    def step(self, kind, clients):
        p, model = self.plan, "pooled" if kind == "sessions" else kind
        args = ["kv-bench-scale-step", model, str(clients), self.server.address, f"{p['timeout_s'] * 1e9:.0f}", *p["options"]]
        step = steps.Step(p["program"], args, self.server, p["timeout_s"])
        if step.told.get("first_error"):
            step.told["stopped"] = step.told["first_error"]["text"]
        if step.ended:
            step.told["stopped"] = step.ended
        if self.server.dead() and not child.received:
            step.told["stopped"] = "the server that kv-bench started died"
        self.steps.append(made(step.told, kind, clients, step.server_memory if kind == "sessions" else 0))
        if self.table:
            self.show_step(self.steps[-1])
        return self.steps[-1]

    def run(self):
        status, tls = OK, not self.plan["no_tls"]
        for clients in self.plan["clients"]:
            if child.received or self.server.dead():
                break
            s = self.step("sessions", clients)
            if not s["complete"] or s["succeeded"] < clients:
                status = FAILED
            if tls and not child.received:
                s = self.step("tls", clients)
                tls = s["complete"]
                status = FAILED if s["wrong"] else status
        return status

    # ---- text ----

    def show_head(self):
        p, out = self.plan, self.table
        print(f"kv-bench scale   {p['version']}", file=out)
        wrap("host       ", p["host_text"], out=out)
        wrap("load       ", f"{plural(p['messages'], 'message')} of {size(p['message_bytes'])} from each client, think time "
                            f"{duration(p['think_s'] * 1e9) if p['think_s'] else 'none'}; one server for all steps", out=out)
        wrap("sessions   ", f"all logical clients share {plural(p['engines'], 'engine')} and {plural(p['num_threads'], 'event loop')}, up to 64 messages "
                            "under way at a time on each engine", out=out)
        if not p["no_tls"]:
            wrap("tls        ", "a TCP connection with TLS 1.3 for each client, to a process that answers with messages of this size; "
                                f"{plural(p['num_threads'], 'thread')}, each with one message under way at a time", out=out)
        print("\n%-8s %7s %8s %9s %9s %7s %8s %8s %6s" % ("", "clients", "success", "connect", "msg/s", "p99", "memory", "each", "thr."), file=out)
        out.flush()

    def show_step(self, s):
        success = "100 %" if s["succeeded"] == s["clients"] else "%.2f %%" % min(100 * s["success"], 99.99)
        times = [duration(s[name]) if s.get(name) else "-" for name in ("connect_ns", "p99_ns")]
        print("%-8s %7d %8s %9s %9s %7s %8s %8s %6d" % (s["kind"], s["clients"], success, times[0], count(s.get("messages_per_s", 0)), times[1],
                                                       size(s["memory_bytes"]), size(s["bytes_per_client"]) if s["connected"] else "-", s["threads"]),
              file=self.table)
        if not s["complete"]:
            wrap("                 ", f"stopped with {s['connected']} of {s['clients']} connected: {s['stopped']}", out=self.table)
        self.table.flush()

    def show_most(self, kind):
        most = [s for s in self.steps if s["kind"] == kind and s["complete"] and s["succeeded"] == s["clients"]]
        if not most:
            print(f"{kind}: no step was complete", file=self.out)
            return
        s = most[-1]
        wrap(f"{kind}: ", f"{plural(s['clients'], 'client')} all succeeded, {size(s['bytes_per_client'])} each with everything, "
                          f"{size(s['bytes_per_further_client'])} each beyond what one alone needs", 11, self.out)

    # ---- the end ----

    def document(self, machine):
        p, fabric = self.plan, next((s for s in self.steps if s.get("provider")), {})
        load = {"message_bytes": p["message_bytes"], "messages": p["messages"], "think_seconds": p["think_s"], "engines": p["engines"],
                "event_loops": p["num_threads"]}
        reported = [{name: value for name, value in s.items() if name not in ("wait", "loopback_congestion_control")} for s in self.steps]
        return {"schema": "kvbench-scale/1", "version": p["version"], "interrupted": bool(child.received), "host": p["host"], "load": load,
                "conditions": conditions.member(fabric, machine, EXCLUDED), "steps": reported}

    def finish(self, machine, status):
        doc = self.document(machine)
        for kind in ("sessions",) if self.plan["no_tls"] else ("sessions", "tls"):
            self.show_most(kind)
        wrap("           ", "connect: until all were; memory: this process beyond its start; each: memory by clients.", out=self.out)
        conditions.show(doc["conditions"], self.out)
        if child.received:
            print(f"kv-bench scale: interrupted by signal {child.received}: the report has the steps that were over, and what the last one had reached",
                  file=sys.stderr)
        try:
            if self.plan["json"]:
                files.write(self.plan["json"], "the JSON report", lambda: (json.dumps(doc, indent=2) + "\n").encode())
        except Refused as why:
            print(f"kv-bench scale: {why}", file=sys.stderr)
            status = FAILED
        self.out.flush()
        if self.out.lost:
            print("kv-bench scale: the report could not be written to standard output", file=sys.stderr)
            status = FAILED
        return 128 + child.received if child.received else status


def main(plan):
    """The exit status."""
    s = Scale(plan)
    child.signals_install()
    try:
        if plan["json"]:
            files.try_open(plan["json"], "the JSON report")
        most = plan["clients"][-1]
        s.server = steps.Server(plan["program"], [*plan["server_args"], str(most + plan["server_spare"]), str(most)])
    except Refused as why:
        print(f"kv-bench scale: {why}", file=sys.stderr)
        return 128 + child.received if child.received else NO_START
    if s.table:
        s.show_head()
    machine = conditions.Machine(plan["program"], s.server.cpu_s())
    status = s.run()
    machine_member = machine.end(s.server.cpu_s())
    status = s.finish(machine_member, status)
    s.server.stop()
    return status
