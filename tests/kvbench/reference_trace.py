#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reference_trace.py FILE -- what a trace amounts to with memory for everything, in the shortest way: per request the leading
hash_ids that any earlier request had are hits. Prints the same names as the "trace" object of kv-bench's JSON report."""
import json
import sys


def reference(path):
    seen = set()
    requests = blocks = hits = 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            ids = json.loads(line)["hash_ids"]
            requests += 1
            blocks += len(ids)
            for block in ids:
                if block not in seen:
                    break
                hits += 1
            seen.update(ids)
    return {"requests": requests, "blocks": blocks, "block_hits": hits, "hit_ratio": hits / blocks if blocks else 0.0, "distinct": len(seen)}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: reference_trace.py FILE")
    print(json.dumps(reference(sys.argv[1])))
