#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reference_trace.py FILE [POLICY BLOCKS] -- what a trace amounts to, in the shortest way: per request the leading hash_ids that
are there are hits and used; the others are stored in order, and one that is there all the same is used. With memory for everything, or for
so many blocks under a policy of kv-server's --eviction. Prints the same names as the "trace" object of kv-bench's JSON report."""
import json
import sys
from collections import OrderedDict


class Ghosts(OrderedDict):
    def __init__(self, room):
        super().__init__()
        self.room = room

    def add(self, block):
        self[block] = True
        if len(self) > self.room:
            self.popitem(last=False)


class Cache(OrderedDict):
    """Oldest first. With memory for everything nothing else is needed."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def use(self, block):
        pass

    def evict(self):
        pass

    def store(self, block):
        if len(self) >= self.room:
            self.evict()
        self[block] = 0


class Lru(Cache):
    def use(self, block):
        self.move_to_end(block)

    def evict(self):
        self.popitem(last=False)


class Clock(Cache):
    """The textbook's: a hit block goes round to the newest end. (kv-server's goes back to where its last hit puts it.)"""

    hits, ghosts = 1, 0

    def __init__(self, room):
        super().__init__(room)
        self.gone = Ghosts(room * self.ghosts)

    def use(self, block):
        self[block] = min(self[block] + 1, self.hits)

    def evict(self):
        while True:
            block, hits = self.popitem(last=False)
            if not hits:
                return self.gone.add(block)
            self[block] = hits - 1

    def store(self, block):
        super().store(block)
        self[block] = 1 if self.gone.pop(block, False) else 0


class Clock2g(Clock):
    hits, ghosts = 3, 1


class Sieve(Cache):
    """O(n) per eviction from a list; hand: the block to look at next."""

    hand = None

    def use(self, block):
        self[block] = 1

    def evict(self):
        if self.hand is None:
            self.hand = next(iter(self))
        order = list(self)
        at = order.index(self.hand)
        while self[order[at]]:
            self[order[at]] = 0
            at = (at + 1) % len(order)
        self.hand = order[at + 1] if at + 1 < len(order) else None
        del self[order[at]]


POLICIES = {"lru": Lru, "clock": Clock, "clock2g": Clock2g, "sieve": Sieve}


def reference(path, policy=None, blocks=0):
    cache = POLICIES[policy](blocks) if policy else Cache(float("inf"))
    seen = set()
    requests = asked = hits = 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            ids = json.loads(line)["hash_ids"]
            requests += 1
            asked += len(ids)
            seen.update(ids)
            prefix = True
            for block in ids:
                prefix = prefix and block in cache
                hits += prefix
                if block in cache:
                    cache.use(block)
                else:
                    cache.store(block)
    return {"requests": requests, "blocks": asked, "block_hits": hits, "hit_ratio": hits / asked if asked else 0.0, "distinct": len(seen)}


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit("usage: reference_trace.py FILE [POLICY BLOCKS]")
    print(json.dumps(reference(sys.argv[1], *([sys.argv[2], int(sys.argv[3])] if len(sys.argv) == 4 else []))))
