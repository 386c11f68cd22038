#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""metrics_page.py -- a strict reader of Prometheus' text format 0.0.4, and a rude client of the port that writes it.

page FILE                 the page is well formed; prints its families, a line each
flood URL N               N connections that say nothing, while a scrape is answered
drip URL                  a request that comes byte by byte is cut
names FILE PATH...        each kvrail_ metric that the files of PATH name is in the page, or is a counter of kvclient
                          (docs/reference/counters.md)
"""
import re
import socket
import sys
import time
import urllib.request

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? ([0-9]+(?:\.[0-9]+)?)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')


def labels_of(text: str) -> tuple[tuple[str, str], ...]:
    """Of a sample, in order; each name once."""
    found, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, f"labels {text!r} at {at}"
        found.append((match[1], match[2]))
        at = match.end()
        assert match[3] == "" or at < len(text), f"labels {text!r} end in a comma"
    assert len({name for name, _ in found}) == len(found), f"labels {text!r} repeat a name"
    return tuple(found)


class Page:
    """Families with type and help, and their samples."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self.samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.helps: set[str] = set()
        family = ""
        assert text.endswith("\n"), "the page does not end with a line's end"
        for line in text.split("\n")[:-1]:
            if line.startswith("# HELP "):
                family, help_text = line[7:].split(" ", 1)
                assert family not in self.helps, f"{family}: a second HELP"
                assert help_text.strip(), f"{family}: an empty HELP"
                self.helps.add(family)
            elif line.startswith("# TYPE "):
                name, kind = line[7:].split(" ")
                assert name == family, f"TYPE of {name} behind HELP of {family}"
                assert kind in ("counter", "gauge", "histogram"), line
                assert (kind == "counter") == name.endswith("_total"), line
                assert name not in self.types, f"{name}: a second TYPE"
                self.types[name] = kind
            else:
                self.sample(line, family)
        for name, kind in self.types.items():
            if kind == "histogram":
                self.histogram(name)
            assert any(self.base(n) == name for n, _ in self.samples) or name == "kvrail_requests_total", name

    def base(self, name: str) -> str:
        """The family of a sample."""
        short = re.sub(r"_(bucket|sum|count)$", "", name)
        return short if self.types.get(short) == "histogram" else name

    def sample(self, line: str, family: str) -> None:
        match = SAMPLE.match(line)
        assert match, f"no sample: {line!r}"
        assert self.base(match[1]) == family and family in self.types, f"{line!r} stands behind {family}"
        key = (match[1], labels_of(match[2] or ""))
        assert key not in self.samples, f"{line!r} stands there twice"
        assert match[1].startswith("kvrail_"), line
        assert not re.search(r"_(ns|us|ms|kb|mb)(_|$)", match[1]), f"{line!r} has no base unit"
        self.samples[key] = float(match[3])

    def histogram(self, name: str) -> None:
        buckets = [(dict(labels)["le"], v) for (n, labels), v in self.samples.items() if n == name + "_bucket"]
        bounds = [float(le) for le, _ in buckets]
        assert bounds == sorted(bounds) and bounds[-1] == float("inf") and len(set(bounds)) == len(bounds), name
        counts = [v for _, v in buckets]
        assert counts == sorted(counts), f"{name}: its buckets are not cumulative"
        assert counts[-1] == self.samples[name + "_count", ()], f"{name}: +Inf is not its count"
        assert (name + "_sum", ()) in self.samples, name
        assert len(buckets) <= 21, name


def address_of(url: str) -> tuple[str, int]:
    host, port = url.split("//")[1].rsplit(":", 1)
    return host.strip("[]"), int(port)


def scrape(url: str) -> Page:
    with urllib.request.urlopen(url + "/metrics", timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers
        return Page(answer.read().decode())


def flood(url: str, many: int) -> None:
    held = []
    for i in range(many):
        s = socket.socket()
        s.settimeout(20)
        s.connect(address_of(url))
        if i % 2:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # and no end
        held.append(s)
        if len(held) > 500:
            held.pop(0).close()
        if i % 1000 == 999:
            scrape(url)
    page = scrape(url)
    assert page.samples["kvrail_http_cut_total", ()] > many / 2 - 600, "those that say nothing stay"


def drip(url: str) -> None:
    s = socket.socket()
    s.settimeout(20)
    s.connect(address_of(url))
    request = b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 4000
    for i in range(len(request)):
        try:
            s.sendall(request[i : i + 1])
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError("a request that comes byte by byte is not cut")


def names(file: str, paths: list[str]) -> None:
    with open(file, encoding="utf-8") as f:
        page = Page(f.read())
    known = set(page.types) | {n for n, _ in page.samples}
    used: set[str] = set()
    for path in paths:
        with open(path, encoding="utf-8") as f:
            used |= set(re.findall(r"\bkvrail_[a-z0-9_]+\b", f.read()))
    with open("docs/reference/counters.md", encoding="utf-8") as f:
        counters = {f"kvrail_client_{n}" for n in re.findall(r"`([a-z0-9_]+)`", f.read())}
    known |= counters | {f"{n}_total" for n in counters}
    missing = {n for n in used if n not in known and not n.startswith("kvrail_rule_")}
    assert used and not missing, f"not exported: {sorted(missing)}"


def main(argv: list[str]) -> None:
    if argv[1] == "page":
        with open(argv[2], encoding="utf-8") as f:
            print("\n".join(Page(f.read()).types))
    elif argv[1] == "flood":
        flood(argv[2], int(argv[3]))
    elif argv[1] == "drip":
        drip(argv[2])
    else:
        names(argv[2], argv[3:])


if __name__ == "__main__":
    main(sys.argv)
