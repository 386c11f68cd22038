#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-rooms.py -- calls go down: from a room to rooms below it, and in no circle of files inside a room. Speaks TAP.

The calls are those that the linker sees: what one object needs and another of the same layer defines (nm). A call that
comes up goes through a struct of functions that the lower room declares, and is none here. KVRAIL_BUILD: where the
objects are. Includes are check-layers.sh's, but for one rule: a room's private.h is included in that room alone (and in
tests). The client's internal names do not begin as its public ones do.
"""
import collections
import os
import re
import subprocess
import sys

# Rooms from the top down; "." is the layer's own folder. A layer that is not named has no rooms.
ROOMS = {
    "engine": [".", "fabric", "door"],
    "kvclient": [".", "pool", "queue", "call", "copies", "transfer", "route", "logical", "conn", "request", "seal", "core"],
    "kvserver": [".", "push", "http", "member", "server", "conn", "events", "ops", "shard", "tier", "tenant"],
    "kvbench": [".", "sweep", "scale", "capacity", "steps", "fabric", "hits", "versus", "report", "load", "measure", "setup", "model"],
}
LAYERS = "base host probe loop wire bootstrap local engine store kvclient kvserver kvbench kvcli kvdoctor".split()
# Circles that are left, each as a set of files: they may shrink and not grow.
LEFT = {}


def calls(build, layer):
    """{(caller, callee): functions}, files without folder of the layer and extension."""
    objects = [os.path.join(d, f) for d, _, names in os.walk(os.path.join(build, layer)) for f in names
               if f.endswith((".c.o", ".S.o"))]
    objects = [o for o in objects if os.path.exists(os.path.relpath(o, build)[:-2])]  # none of a file that has moved
    short = {o: os.path.relpath(o, os.path.join(build, layer))[:-4] for o in objects}
    defined, needed = {}, collections.defaultdict(set)
    if objects:
        listing = subprocess.run(["nm", "-gA", *objects], capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            o, symbol = line.split(":", 1)
            part = symbol.split()
            if part[0] == "U":
                needed[o].add(part[1])
            elif len(part) == 3:
                defined[part[2]] = o
    arrows = collections.defaultdict(set)
    for o in objects:
        for name in needed[o]:
            if defined.get(name, o) != o:
                arrows[short[o], short[defined[name]]].add(name)
    return sorted(short.values()), arrows


def room_of(file):
    return file.split("/")[0] if "/" in file else "."


def circles(files, arrows):
    """Tarjan: the groups of files that reach each other."""
    to = collections.defaultdict(list)
    for a, b in sorted(arrows):
        if a in files and b in files:
            to[a].append(b)
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in to[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = stack[stack.index(v):]
            del stack[stack.index(v):]
            if len(group) > 1:
                found.append(sorted(group))

    for f in files:
        if f not in index:
            visit(f)
    return found


def private_offences(sources):
    """sources: {path: text}. The includes of a private.h of another room."""
    found = []
    for path, text in sorted(sources.items()):
        for room in re.findall(r'^#include "(.*)/private\.h"', text, re.M):
            if os.path.dirname(path) != room:
                found.append(f"{path} includes {room}/private.h, which is that room's own")
    return found


def names(text):
    return set(re.findall(r"\b(?:kvc|KVC)_\w+", text))


def prefix_offences(sources, public):
    """The client's public names begin with kvc_, its internal ones with kc_."""
    return [f"{path}: {name} is not in kvclient.h: internal names begin with kc_"
            for path, text in sorted(sources.items()) for name in sorted(names(text) - public)]


def sources_read(layers):
    paths = (os.path.join(d, f) for layer in layers for d, _, names in os.walk(layer) for f in names)
    return {p: open(p, encoding="utf-8").read() for p in paths if p.endswith((".c", ".h"))}


def main():
    build = os.environ.get("KVRAIL_BUILD", "build/release")
    number = failed = 0

    def result(name, findings):
        nonlocal number, failed
        number += 1
        failed += bool(findings)
        print(f"{'not ok' if findings else 'ok'} {number} - {name}")
        for line in findings:
            print(f"# {line}")

    print(f"1..{len(LAYERS) + len(ROOMS) + 4}")
    public = names(open("kvclient/kvclient.h", encoding="utf-8").read())
    result("names that begin with kvc_ are those of kvclient.h", prefix_offences(sources_read(LAYERS), public))
    result("a planted internal name with the public prefix is found",
           [] if len(prefix_offences({"kvclient/planted.c": "kvc_planted(kvc_get_await);"}, public)) == 1 else ["it is not"])
    result("a private header is included in its room alone", private_offences(sources_read(LAYERS)))
    planted = {"kvclient/pool/planted.c": '#include "kvclient/route/private.h"\n',
               "kvclient/route/own.c": '#include "kvclient/route/private.h"\n'}
    found = private_offences(planted)
    result("a planted include of another room's private header is found",
           [] if len(found) == 1 and "planted.c" in found[0] else [f"found: {found}"])
    for layer in LAYERS:
        files, arrows = calls(build, layer)
        if layer in ROOMS:
            rank = {room: i for i, room in enumerate(ROOMS[layer])}
            up = [f"{a} calls {b} above it: {', '.join(sorted(names))}" for (a, b), names in sorted(arrows.items())
                  if rank.get(room_of(b), -1) < rank.get(room_of(a), -1)]
            up += [f"{layer}/{r} is in no table of rooms: scripts/check-rooms.py"
                   for r in sorted({room_of(f) for f in files} - set(rank))]
            result(f"{layer}: calls go down", up)
        bad = []
        for room in sorted({room_of(f) for f in files}):
            for group in circles([f for f in files if room_of(f) == room], arrows):
                if not any(set(group) <= left for left in LEFT.get(layer, [])):
                    bad.append(f"in a circle: {' '.join(group)}")
        result(f"{layer}: no circle of files inside a room", bad)
    return 1 if failed else 0


sys.exit(main())
