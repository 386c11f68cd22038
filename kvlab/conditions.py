# SPDX-License-Identifier: Apache-2.0
"""conditions.py -- the machine while a command measured: other users of its processors, and the distance of two of them;
and under which conditions figures came about, as text and as a member of the report, like kv-bench's own
(kvbench/measure/conditions.c, kvbench/report/conditions.c)."""
import os
import resource
import subprocess
import time

from document import HISTOGRAM_SUB_BITS
from text import wrap

SHARED_CORES = 0.25  # of other processes: from here on the machine counts as shared
ALIKE, NEAR_NS, MID_NS = 1.8, 85.0, 250.0  # distances of two cores; the edges are a guess
SLEPT_MIN_S = 0.01  # less is the time between two looks at clocks
QUANTILE_ERROR = 1.0 / (1 << HISTOGRAM_SUB_BITS)


def distance_ns(program):
    """Round trip of a cache line between the first two CPUs: 0 where others kept them busy, below 0 with one CPU."""
    try:
        return float(subprocess.run(["kv-bench-distance"], executable=program, capture_output=True, text=True, check=False).stdout)
    except (OSError, ValueError):
        return 0.0


def alike(a, b):
    """Whether two distances are the same as far as a measurement can tell. An unknown one is like none."""
    if a < 0 or b < 0:
        return a < 0 and b < 0
    return a > 0 and b > 0 and max(a, b) <= ALIKE * min(a, b)


def distance_name(ns):
    return "near" if ns < NEAR_NS else "mid" if ns < MID_NS else "far"


def _processors():
    """(all, idle, stolen) seconds of all processors so far. None: not known."""
    try:
        with open("/proc/stat", encoding="ascii") as f:
            ticks = [int(n) / os.sysconf("SC_CLK_TCK") for n in f.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(ticks), ticks[3] + ticks[4], ticks[7]) if len(ticks) == 8 else None


def _slept():
    """CLOCK_MONOTONIC stands still while the machine is suspended. Somebody else may run between two looks."""
    return min(-time.clock_gettime(time.CLOCK_MONOTONIC) + time.clock_gettime(time.CLOCK_BOOTTIME) for _ in range(3))


def _own():
    """Processor time of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _busy(before, now):
    return (now[0] - before[0]) - (now[1] - before[1]) - (now[2] - before[2])


class Machine:
    """From its making until end(). server_s: processor time of our own server."""

    def __init__(self, program, server_s=0.0):
        self.program, self.member = program, {}
        self.before = distance_ns(program)
        self.own, self.slept, self.start, self.stat = _own() + server_s, _slept(), time.monotonic(), _processors()
        self.quiet_busy = self.quiet_s = 0.0

    def quiet(self, seconds):
        """Measured servers are other processes as well: others are counted while all servers rest."""
        before, start = _processors(), time.monotonic()
        time.sleep(seconds)
        now = _processors()
        if before and now:
            self.quiet_busy += max(_busy(before, now), 0.0)
            self.quiet_s += time.monotonic() - start

    def end(self, server_s=0.0):
        """The members of the report's conditions; a figure without a measurement is absent."""
        now, seconds = _processors(), time.monotonic() - self.start
        if self.stat and now and seconds >= 0.1 and now[0] > self.stat[0]:  # ticks of 10 ms say nothing about less
            others = (_busy(self.stat, now) - (_own() + server_s - self.own)) / seconds
            if self.quiet_s > 0:
                others = self.quiet_busy / self.quiet_s
            self.member.update(steal_share=max((now[2] - self.stat[2]) / (now[0] - self.stat[0]), 0.0), others_cores=max(others, 0.0),
                               shared_machine=others >= SHARED_CORES)
        after = distance_ns(self.program)
        self.member.update((f"core_distance_{when}_ns", ns) for when, ns in (("before", self.before), ("after", after)) if ns > 0)
        if _slept() - self.slept >= SLEPT_MIN_S:
            self.member["suspended_s"] = _slept() - self.slept
        return self.member


def _congestion():
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as f:
            return f.readline().strip()
    except OSError:
        return ""


def member(fabric, machine, excluded, quantiles=True):
    """conditions of a report. fabric: provider, wait, libfabric, loopback_congestion_control, as far as they are known."""
    made = {name: fabric[name] for name in ("provider", "wait", "libfabric") if fabric.get(name)}
    made.update(cores=len(os.sched_getaffinity(0)), **machine)
    if _congestion():
        made["congestion_control"] = _congestion()
    if fabric.get("loopback_congestion_control"):
        made["loopback_congestion_control"] = fabric["loopback_congestion_control"]
    if quantiles:
        made["histogram_error"] = QUANTILE_ERROR
    return {**made, "excluded": excluded}


def show(c, out):
    """The same as text."""
    parts = [c.get("provider"), c.get("wait") and f"wait {c['wait']}", c.get("libfabric") and f"libfabric {c['libfabric']}",
             c.get("loopback_congestion_control") and f"congestion control {c['loopback_congestion_control']} (loopback)"]
    if parts[0]:
        wrap("fabric      ", ", ".join(p for p in parts if p), out=out)
    cores = f"{c['cores']} core{'' if c['cores'] == 1 else 's'}"
    if "steal_share" in c:
        took = "%.2f core%s" % (c["others_cores"], "" if c["others_cores"] == 1 else "s")
        wrap("conditions  ", "%s; stolen %.1f %% of the processors' time; other processes took %s%s" % (
            cores, 100 * c["steal_share"], took,
            ": this machine is shared, and figures vary with it" if c["shared_machine"] else ""), out=out)
    else:
        wrap("conditions  ", f"{cores}; too short to measure other processes", out=out)
    if "core_distance_before_ns" in c and "core_distance_after_ns" in c:
        wrap("            ", "a round trip of a cache line between two cores: %.0f ns before the run, %.0f ns after" % (
            c["core_distance_before_ns"], c["core_distance_after_ns"]), out=out)
    if "suspended_s" in c:
        wrap("            ", "this machine was suspended for %.1f s during the run: no figure contains that time, and operations in flight may "
                             "have failed" % c["suspended_s"], out=out)
    if "histogram_error" in c:
        wrap("            ", "a quantile is at most %.1f %% above the true one, never below" % (100 * c["histogram_error"]), out=out)
    wrap("left out    ", "; ".join(c["excluded"]), out=out)
