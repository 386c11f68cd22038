# SPDX-License-Identifier: Apache-2.0
"""state.py -- whether results were measured under the same conditions.

A condition that one result lacks differs: the unknown cannot be compared. Only options have a default. The
distance of two cores is judged apart: on a machine whose virtual CPUs move it changes in every second run, and most
pairs would be refused though nothing differs. Names of hosts and kernels are notes: a container has another name each
time, and kernels may be compared.
"""
import json
import math

from document import at, is_sweep, items, members, number

STOLEN = 0.02  # of the processors' time
ALIKE, NEAR_NS, MID_NS = 1.8, 85.0, 250.0  # distances of two cores, as in kvbench/measure/conditions.c

CONDITIONS = (("provider", "provider", "name"), ("wait mode", "provider", "wait"), ("libfabric", "provider", "libfabric"),
              ("mode", "provider", "mode"), ("way of PUT", "provider", "put"), ("security", "provider", "security"),
              ("architecture", "host", "architecture"), ("processor", "host", "processor"), ("cores", "host", "cores"),
              ("NUMA nodes", "host", "numa_nodes"), ("congestion control", "host", "congestion_control"),
              ("congestion control of loopback", "provider", "loopback_congestion_control"),
              ("shared machine", "conditions", "shared_machine"), ("suspended, seconds", "conditions", "suspended_s"),
              ("driver", "run", "driver"))
SHOWS_ONLY = set("json report hdr csv raw interval progress quiet log_level slow_ms config server".split())


def _text(value):
    """A file's words drive no terminal: JSON escapes everything but printable ASCII."""
    if value is None:
        return "not known"
    if isinstance(value, float):
        digits = "%.6g" % value
        return digits if set(digits) & set(".en") else digits + ".0"
    return json.dumps(value, separators=(",", ":"))[:160]


def _same(a, b):
    return type(a) is type(b) and a == b


def differ(name, a, b):
    """[the sentence], or [] where both are the same."""
    return [] if _same(a, b) else [f"{name}: {_text(a)}, then {_text(b)}"]


def _stolen(a, b):
    """A little is stolen on every virtual machine."""
    x, y = number(a, "steal_share"), number(b, "steal_share")
    if not math.isfinite(x + y) or (x >= STOLEN) == (y >= STOLEN):
        return []  # of one that does not know, the shared machine is said
    return [f"processors' time that the hypervisor stole: {100 * x:.1f} %, then {100 * y:.1f} %"]


def _options(a, b, defaults):
    """An option that a result lacks came after it was made: it had the default."""
    of_a, of_b, found = members(a, "config"), members(b, "config"), []
    for name in dict.fromkeys([*of_a, *of_b]):
        if name not in SHOWS_ONLY:
            found += differ(f"option {name}", of_a.get(name, defaults.get(name) if of_a else None),
                            of_b.get(name, defaults.get(name) if of_b else None))
    servers = items(of_a, "server"), items(of_b, "server")
    return found + (differ("option server", *servers) if len(servers[0]) != len(servers[1]) else [])


def settings_lone(a, b):
    """(setting, is it of b) of each option that only one of two sweeps has."""
    return [(s, False) for s in a if s not in b] + [(s, True) for s in b if s not in a]


def differs(a, b, defaults):
    """A sentence for each condition in which b differs from a; both are of runs, or both of sweeps."""
    found = []
    for name, group, member in CONDITIONS:
        found += differ(name, at(a, group, member), at(b, group, member))
    found += differ("interrupted", at(a, "interrupted"), at(b, "interrupted"))
    if is_sweep(a):
        for setting, is_of_b in settings_lone(items(a, "sweep", "settings"), items(b, "sweep", "settings")):
            found += differ("option", *((None, setting) if is_of_b else (setting, None)))
        return found
    return found + _stolen(at(a, "conditions"), at(b, "conditions")) + _options(a, b, defaults)


def notes(a, b):
    """Differences of two results that do not keep them from being compared."""
    found = differ("host", at(a, "host", "name"), at(b, "host", "name")) + differ("kernel", at(a, "host", "kernel"), at(b, "host", "kernel"))
    x, y = at(a, "conditions"), at(b, "conditions")
    others = number(x, "others_cores"), number(y, "others_cores")
    if at(x, "shared_machine") is True and at(y, "shared_machine") is True and all(map(math.isfinite, others)):
        found.append("shared machine: others took %.2f cores, then %.2f: a difference may be theirs" % others)
    return found


def _worst(point):
    """The worst conditions of all runs of a combination."""
    runs = [run for run in items(point, "runs") if isinstance(run, dict)]
    worst = dict(runs[0]) if runs else {}
    for run in runs:
        if run.get("shared_machine") is True:
            worst["shared_machine"] = True
        if "suspended_s" in run:
            worst["suspended_s"] = run["suspended_s"]
        if number(run, "steal_share") >= 0 and not number(run, "steal_share") <= number(worst, "steal_share"):
            worst["steal_share"] = run["steal_share"]
    return worst


def points_differ(a, b):
    """The same of a combination of sweeps, of conditions that may change from run to run."""
    x, y = _worst(a), _worst(b)
    return (differ("shared machine", at(x, "shared_machine"), at(y, "shared_machine")) +
            differ("suspended, seconds", at(x, "suspended_s"), at(y, "suspended_s")) + _stolen(x, y))


# ---- the distance of two cores ----

SAME, FARTHER, NEARER, OTHER = "same", "farther", "nearer", "other"


def _span(result):
    """(nearest, farthest) of the measurements before and after each run; None: there are none."""
    looks = [number(place, f"core_distance_{when}_ns") for place in [at(result, "conditions"), *items(result, "runs")]
             for when in ("before", "after")]
    looks = [ns for ns in looks if ns > 0]
    return (min(looks), max(looks)) if looks else None


def _alike(a, b):
    return max(a, b) <= ALIKE * min(a, b)


def _distance_name(ns):
    return "near" if ns < NEAR_NS else "mid" if ns < MID_NS else "far"


def _span_text(span):
    if not span:
        return "not known"
    low, high = span
    if _alike(low, high):
        return f"{low:.0f} ns ({_distance_name(low)})"
    return f"{low:.0f} to {high:.0f} ns ({_distance_name(low)} to {_distance_name(high)})"


def distance(a, b):
    """(how far apart two cores were in b, beside a; both as text). Nobody measures it while a run measures: where the
    two looks of a result differ, its CPUs moved at an unknown moment. So the farthest look of one is compared with the
    nearest of the other. OTHER: one is not known, or both changed."""
    x, y = _span(a), _span(b)
    text = f"{_span_text(x)}, then {_span_text(y)}"
    if not x or not y:
        return (SAME if x == y else OTHER), text

    def never_nearer(s, other):
        return s[0] >= other[1] or _alike(s[0], other[1])

    if never_nearer(y, x):
        return (SAME if never_nearer(x, y) else FARTHER), text
    return (NEARER if never_nearer(x, y) else OTHER), text
