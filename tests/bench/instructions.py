#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""instructions.py [--limit PERCENT] [SIZE...] -- how many instructions one GET takes, by phase (`make bench-phases`).

One side runs under callgrind, the other as it is, so that the counted side always has work waiting: looks at a completion
queue that find nothing are a property of valgrind's slowness otherwise. Two runs of two lengths are subtracted, which leaves
the GETs. What our functions execute themselves counts by what the function is for (the tables below; anything unnamed shows up
as "other"), and what libraries execute counts by the function of ours that called them.

Callgrind sees no kernel, and no AVX-512: the checksum is the one for AVX2. It would count each byte of a "rep movsb", so that libc is
told to copy with vectors. The counts hardly depend on the load of the machine;
those of completion queues do a little, because they are shared by as many GETs as happened to be there.

With --limit: exit status 1 if what kv-bench itself executes for a GET (its key, its latency, its counts) is more than so
much of both sides' instructions. Its two looks at the clock are in it, but for the kernel's part of them: valgrind hides the vDSO,
and a system call is in no count. What it does once in a second or once in a run is not counted.

Environment: KVRAIL_BUILD (build/release), WORKERS (32), LOCAL (off; auto: by shared memory, as the option --local of kv-bench), PER (file: also every function, per GET, one line each).
"""
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("KVRAIL_BUILD", "build/release"))
WORKERS = os.environ.get("WORKERS", "32")
LOCAL = os.environ.get("LOCAL", "off")
SIZES = ["4KB", "64KB", "1MB"]
KEYS = 32
CLOCK = "monotonic_now"
ONCE = "kvbench/measure/conditions.c"  # two threads spin in it, before and after the phases
ROUNDS = {"1MB": (8, 72)}  # of KEYS reads, in the shorter and in the longer run
LIMIT_S = 170

# (phase, file, function): the first that matches. The file is the one in which the function is defined.
COMMON = [
    ("tags of frames", r"base/(mac|seal|window)\.c|wire/seal\.c", ""),
    ("clock", r"base/clock\.c", ""),
    ("clock", r"loop/(loop|current)\.c", r"clock|loop_now"),
    ("send a message", r"engine/msg\.c", ""),
    ("send a message", r"engine/fabric/fabric\.c", r"fab_send"),
    ("send a message", r"engine/(link|pump)\.c", ""),
    ("completions", r"engine/(rail|fabric/cq|engine|notify|attach|region|peer|signals|fence)\.c", ""),
    ("completions", r"engine/fabric/fabric\.c", r"fab_(recv|cq)"),
    ("loop and coroutines", r"loop/|switch", ""),
]
CLIENT = [
    ("clock", r"base/clock\.c", ""),
    ("tags of frames", r"base/(mac|seal|window)\.c|wire/seal\.c", ""),
    ("submit", r"base/hash\.c", r"key"),
    ("checksum", r"base/hash\.c", ""),
    ("checksum", r"kvclient/\w+/get\.c", r"take|bring|hash"),
    ("kv-bench itself", r"kvbench/|base/(hist|prng)|base/rand", ""),
    ("kv-bench itself", "", r"^(bench|phase)_"),
    ("completions", r"kvclient/\w+/(client|node|workers)\.c", ""),
    ("take the reply", r"kvclient/\w+/reply\.c|wire/reply\.c|wire/frame\.c", ""),
    ("take the reply", r"kvclient/\w+/request\.c", r"map_(get|del|find)|quiet|immediate"),
    ("take the reply", r"kvclient/\w+/link\.c", r"kc_req_end|credit"),
    ("frame the request", r"kvclient/\w+/link\.c", r"flush|frame|send|queue|id_take|time_left|link_run"),
    ("frame the request", r"wire/", ""),
    ("frame the request", r"kvclient/\w+/request\.c", r"map_put"),
    ("return", r"kvclient/", r"release|recycle|return|give|count|lend|call_end|call_code|left_by|feed|trace_end|keep"),
    ("submit", r"kvclient/|base/", ""),
    ("submit", "", r"^kv?c_"),  # into which a function of a system header was inlined first
]
SERVER = [
    ("look up", r"store/(store|block|index|expire|heat|evict|evict_\w+)\.c|base/hash\.c", ""),
    ("look up", r"kvserver/\w+/get\.c", r"get_begin"),
    ("post the data", r"engine/xfer\.c", ""),
    ("post the data", r"engine/fabric/fabric\.c", r"write"),
    ("post the data", r"kvserver/\w+/(get|request|region|answers|pack|loopcall|target)\.c|store/", ""),
    ("make the reply", r"kvserver/\w+/reply\.c|wire/reply\.c", ""),
    ("take the request", r"kvserver/\w+/\w+\.c|wire/|base/", ""),
]
ORDER = {
    "client": ["submit", "frame the request", "tags of frames", "send a message", "completions", "take the reply", "checksum", "return", "loop and coroutines",
               "clock", "kv-bench itself", "other"],
    "server": ["completions", "tags of frames", "take the request", "look up", "post the data", "make the reply", "send a message", "loop and coroutines", "clock",
               "other"],
}


def phase_of(side, file, function):
    for phase, where, name in (CLIENT if side == "client" else []) + COMMON + (SERVER if side == "server" else []):
        if re.search(where, file) and re.search(name, function):
            return phase
    return "other"


def parse(path, program):
    """Of a callgrind file: {(file, function, called library function or ''): instructions} of the functions of one program."""
    names = {"ob": {}, "fl": {}, "fn": {}}
    costs = collections.Counter()
    asked = collections.Counter()  # the time: by kv-bench, and by all
    ob = fl = fn = cob = cfn = None
    calling = False

    def name(kind, text):
        m = re.match(r"\((\d+)\)(?: (.*))?$", text)
        if not m:
            return text
        if m.group(2) is not None:
            names[kind][m.group(1)] = m.group(2)
        return names[kind].get(m.group(1), "?")

    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            line = line.rstrip("\n")
            m = re.match(r"(c?ob|c?f[lien])=(.*)$", line)
            if m:
                key, value = m.group(1), m.group(2)
                if key == "ob":
                    ob = name("ob", value)
                elif key == "cob":
                    cob = name("ob", value)
                elif key == "fn":
                    fn = name("fn", value)
                elif key == "cfn":
                    cfn = name("fn", value)
                else:
                    value = name("fl", value)
                    if key == "fl":
                        fl = value
            elif line.startswith("calls="):
                calling = True
                if cfn == CLOCK:
                    asked["all"] += int(line[len("calls="):].split()[0])
                    asked["kv-bench"] += int(line[len("calls="):].split()[0]) if "kvbench/" in (fl or "") else 0
            elif re.match(r"[+\-*\d]", line):
                cost = int((line.split() + ["0"])[1])
                ours = ob is not None and os.path.basename(ob) == program
                if calling:
                    if ours and cob is not None and cob != ob:
                        costs[(fl, fn, os.path.basename(cob) + ":" + cfn)] += cost
                    calling, cob, cfn = False, None, None
                elif ours:
                    costs[(fl, fn, "")] += cost
    # Who asks for the time pays for the answer.
    for (file, function, library), cost in list(costs.items()):
        if function == CLOCK and asked["kv-bench"]:
            part = cost * asked["kv-bench"] / asked["all"]
            costs[(file, function, library)] -= part
            costs[("kvbench/", "the time", library)] += part
    return costs


def callgrind(out):
    env = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "tests/valgrind/uring.so"),
               GLIBC_TUNABLES="glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000")
    return env, ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out]


def run(side, size, rounds, scratch):
    """Instructions of the counted side in a run that reads every key `rounds` times."""
    out = os.path.join(scratch, "callgrind.out")
    env, grind = callgrind(out)
    ready = os.path.join(scratch, "ready")
    server = [os.path.join(BUILD, "kv-server"), "--listen-addr", "127.0.0.1:0", "--provider", "tcp", "--memory-mb", "128", "--worker-threads", "1",
              "--log-level", "error", "--die-with-parent", "--ready-fd", "3"]
    bench = [os.path.join(BUILD, "kv-bench"), "--provider", "tcp", "--num-workers", WORKERS, "--num-clients", "4", "--num-threads", "1",
             "--num-keys", str(KEYS), "--value-size", size, "--warmup", "0", "--timeout", "60", "--peer-timeout", "60",
             "--interval", "3600", "--quiet", "--local", LOCAL, "--repeat-reads"]
    on = [env if side == s else None for s in ("server", "client")]
    shell = ["sh", "-c", 'r=$1; shift; exec "$@" 3>"$r" >/dev/null 2>&1', "sh", ready]
    open(ready, "w").close()
    child = subprocess.Popen(shell + (grind if side == "server" else []) + server, env=on[0])
    try:
        begun = time.monotonic()
        while not open(ready).read().startswith("READY "):
            if child.poll() is not None or time.monotonic() - begun > 60:
                sys.exit("the server did not start: " + " ".join(server))
            time.sleep(0.05)
        address = open(ready).read().split()[1]
        # PUTs are many requests each on tcp, and not always equally many at a time: they are not the counted client's.
        for command, e in ((bench + ["1"], None), ((grind if side == "client" else []) + bench + [str(rounds), "--no-write"], on[1])):
            done = subprocess.run(command + ["--server", address], env=e, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=LIMIT_S)
            if done.returncode != 0:
                sys.exit("kv-bench failed:\n" + done.stdout)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)
    return parse(out, "kv-bench" if side == "client" else "kv-server")


def measure(side, size, scratch):
    short, long = ROUNDS.get(size, (8, 136))
    costs = run(side, size, long, scratch)
    costs.subtract(run(side, size, short, scratch))
    gets = (long - short) * KEYS
    phases = collections.defaultdict(lambda: [0.0, 0.0])
    for (file, function, library), cost in costs.items():
        if (file or "").endswith(ONCE):
            continue
        phases[phase_of(side, file or "", function or "")][1 if library else 0] += cost / gets
    if os.environ.get("PER"):
        with open(os.environ["PER"], "a", encoding="utf-8") as per:
            for (file, function, library), cost in costs.most_common():
                if cost >= gets:
                    per.write(f"{side}\t{size}\t{phase_of(side, file, function)}\t{file}:{function}\t{library}\t{cost / gets:.0f}\n")
    return phases


def share_of_bench(client, server):
    own = client["kv-bench itself"]
    return 100 * sum(own) / sum(sum(p) for side in (client, server) for p in side.values())


def table(side, sizes, scratch):
    figures = [measure(side, size, scratch) for size in sizes]
    print(f"**Instructions per GET, {side}** ({WORKERS} workers)\n")
    print("| phase | " + " | ".join(f"{s}, ours | libraries" for s in sizes) + " |")
    print("|---|" + "---|---|" * len(sizes))
    for phase in ORDER[side]:
        if any(round(n) for f in figures for n in f[phase]):
            print(f"| {phase} | " + " | ".join(f"{f[phase][0]:,.0f} | {f[phase][1]:,.0f}" for f in figures) + " |")
    print("| all | " + " | ".join(" | ".join(f"**{sum(p[i] for p in f.values()):,.0f}**" for i in (0, 1)) for f in figures) + " |\n", flush=True)
    return figures


def main():
    args, limit = sys.argv[1:], None
    if args[:1] == ["--limit"] and len(args) > 1:
        limit, args = float(args[1]), args[2:]
    sizes = args or SIZES
    if any(s.startswith("-") for s in sizes):
        sys.exit(__doc__)
    for needed in ("tests/valgrind/uring.so", "kv-server", "kv-bench"):
        if not os.path.exists(os.path.join(BUILD, needed)):
            sys.exit(f"{needed} is not built (make bench-phases builds it; it needs valgrind with its headers)")
    with tempfile.TemporaryDirectory() as scratch:
        client, server = (table(side, sizes, scratch) for side in ("client", "server"))
    shares = [share_of_bench(c, s) for c, s in zip(client, server)]
    print("kv-bench itself, of both sides: " + ", ".join(f"{share:.2f} % ({size})" for size, share in zip(sizes, shares)))
    if limit is not None and max(shares) > limit:
        sys.exit(f"that is more than {limit:g} %: PER=FILE lists its functions")


main()
