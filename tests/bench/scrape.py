#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scrape.py PID URL [N] -- what N scrapes (500) of URL/metrics cost the kv-server with this PID: the time of each, and
the processor time of each of its threads, which is counted by the kernel and does not depend on what else runs.

build/release/kv-server --listen-addr 127.0.0.1:7411 --memory-mb 64 --http-addr 127.0.0.1:9411 &
tests/bench/scrape.py $! http://127.0.0.1:9411
"""
import sys
import time
import urllib.request
from pathlib import Path


def threads(pid: str) -> dict[str, int]:
    """Processor time of each thread in ns, by name and number."""
    return {
        f"{(t / 'comm').read_text().strip()} {t.name}": int((t / "schedstat").read_text().split()[0])
        for t in Path(f"/proc/{pid}/task").iterdir()
    }


def scrape(url: str) -> bytes:
    with urllib.request.urlopen(url + "/metrics", timeout=20) as answer:
        return answer.read()


def main(argv: list[str]) -> None:
    pid, url, many = argv[1], argv[2], int(argv[3]) if len(argv) > 3 else 500
    page = scrape(url)
    before, began, times = threads(pid), time.monotonic(), []
    for _ in range(many):
        start = time.perf_counter()
        scrape(url)
        times.append(time.perf_counter() - start)
    after, seconds = threads(pid), time.monotonic() - began
    times.sort()
    p50, p99 = times[many // 2] * 1e3, times[many * 99 // 100] * 1e3
    print(f"{many} scrapes of {len(page):,} bytes in {seconds:.2f} s: p50 {p50:.2f} ms, p99 {p99:.2f} ms,", end=" ")
    print(f"at most {times[-1] * 1e3:.2f} ms")
    for name in sorted(after):
        print(f"{name:24} {(after[name] - before.get(name, 0)) / many / 1e3:8.1f} us of a processor for each")


if __name__ == "__main__":
    main(sys.argv)
