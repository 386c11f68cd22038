#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flat.py -- what a GET costs the client does not depend on how many servers a pool has: instructions in kvclient/, counted by callgrind in the simulation. Speaks TAP.

usage: flat.py [SERVERS...]     (2 16 48; valgrind has address space for some 200)
Environment: KVRAIL_BUILD. What opening and storing cost is taken off: the difference of a run with many GETs and one with few.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ.get("KVRAIL_BUILD", "build/release"), "tests/sim/test_sim_many")
FEW, MANY = 500, 2500


def instructions(servers, gets, folder):
    out = os.path.join(folder, "%d.%d" % (servers, gets))
    subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, PROGRAM, str(servers), str(gets)], check=True, capture_output=True)
    lines = subprocess.run(["callgrind_annotate", "--threshold=100", "--show=Ir", out], check=True, capture_output=True, text=True).stdout
    of_client = re.findall(r"^ *([\d,]+) (?:\([^)]*\))? *(?:/\S*/|\./)?kvclient/[^: ]+:", lines, re.M)
    return sum(int(n.replace(",", "")) for n in of_client)


def main():
    servers = [int(a) for a in sys.argv[1:]] or [2, 16, 48]
    name = "a GET costs the client the same with %s servers, within 5 %%" % ", ".join(map(str, servers))
    print("1..1")
    if not shutil.which("valgrind") or not shutil.which("callgrind_annotate"):
        print("ok 1 - %s # SKIP valgrind is not installed (Debian: valgrind)" % name)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        cost = [(instructions(n, MANY, folder) - instructions(n, FEW, folder)) / (MANY - FEW) for n in servers]
    flat = max(cost) <= 1.05 * min(cost) and min(cost) > 100
    print("%sok 1 - %s" % ("" if flat else "not ", name))
    print("#: instructions per GET: " + ", ".join("%.0f with %d" % (c, n) for c, n in zip(cost, servers)))
    return 0 if flat else 1


sys.exit(main())
