# SPDX-License-Identifier: Apache-2.0
"""outages.py REPORT TIMES -- what a kv-bench --keep-going met, beside the times at which a server was broken and whole again.

REPORT is kv-bench's JSON; TIMES has lines "down|rising|ready UNIX_NS". Prints calls, deadlines, bytes, and for each time that a server was whole again how long it
took until the last client was served (0: no call failed, and none waited for 200 ms). Exit status 1: a code that no broken server explains, a client that was not
served again, nothing verified.
"""
import json
import sys

EXPLAINED = ("timeout", "peer_down", "busy", "no_memory")
BELONGS_NS = 1_000_000_000  # an outage that begins so soon after a server is whole again is that server's


def recoveries(marks, outages, timeout_ns):
    """Milliseconds from each "ready" to the end of the last outage of that time."""
    found, since = [], None
    for n, (what, at) in enumerate(marks):
        if what == "down" and since is None:
            since = at
        if what == "ready" and since is not None:
            until = next((t for w, t in marks[n + 1:] if w == "down"), 1 << 62)
            ends = [o["to_unix_ns"] for o in outages
                    if o["to_unix_ns"] > since and since - timeout_ns < o["from_unix_ns"] < min(at + BELONGS_NS, until)]
            found.append(max([0] + [(e - at) / 1e6 for e in ends]))
            since = None
    return found


def main():
    report = json.load(open(sys.argv[1]))
    marks = [(w, int(t)) for w, t in (line.split() for line in open(sys.argv[2]))]
    kept, errors, verify = report["keep_going"], report["phases"]["read"]["errors"], report["verify"]
    ms = recoveries(marks, kept["outages"], int(report["config"]["timeout"] * 1e9))
    print("kv-bench --verify: calls %d, errors {%s}, by deadline + 250 ms %d/%d (longest %.0f ms), values checked %d, wrong %d, stored again %d, outages %d" % (
        kept["calls"], ", ".join("%s: %d" % e for e in errors.items()), kept["calls"] - kept["overdue"], kept["calls"], kept["longest_ns"] / 1e6,
        verify["checked"], verify["wrong"], kept["stored_again"], kept["outages_count"]))
    if ms:
        print("kv-bench: whole again %d times, every client served again after ms [%s], at most %.0f, more than 1 s %d times" % (
            len(ms), ", ".join("%.0f" % r for r in ms), max(ms), sum(r > 1000 for r in ms)))
    strange = {c: n for c, n in errors.items() if c not in EXPLAINED}
    if strange:
        print("codes that no broken server explains: %s" % strange)
    if kept["outages_open"]:
        print("%d clients were not served again" % kept["outages_open"])
    return 1 if strange or kept["outages_open"] or verify["checked"] == 0 else 0


sys.exit(main())
