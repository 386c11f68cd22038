#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_kvlab.py -- kvlab without a run: reading results, files of figures, charts, pages, conditions, pairs, sweeps.
Speaks TAP. Everything random is from KVRAIL_SEED."""
import contextlib
import copy
import io
import json
import math
import os
import random
import re
import socket
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kvlab"))
import capacity
import chart
import child
import compare
import document
import figures
import measured
import page
import pairs
import scale
import state
import steps
import sweep
import versus
from document import Refused

SEED = int(os.environ.get("KVRAIL_SEED", "0")) or random.randrange(1 << 32)
ATTACK = "</dd><script>alert('x')</script>\"&"


def made():
    """1,000 reads: 900 of 1 ms, 90 of 2 ms, 9 of 4 ms, 1 of 8 ms; 4 windows; a host with a hostile name."""
    windows = [{"end_s": i / 2, "seconds": 0.5, "ops": 250, "bytes": 1000, "p50_ns": 1000, "p99_ns": 9000, "max_ns": 9500} for i in range(1, 5)]
    read = {"ops": 1000, "ops_per_s": 500.0, "bytes_per_s": 1e6, "latency_ns": {"mean": 1124000, "p50": 1000000, "p99": 2000000, "max": 8000000},
            "histogram": {"upper_ns": [1000000, 2000000, 4000000, 8000000], "count": [900, 90, 9, 1]},
            "series": {"window_s": 0.5, "start_unix_ns": 0, "windows": windows}}
    points = [{"num_workers": w, "value_size": 4096, "ops_per_s": 10 * w} for w in (1, 2)]
    return {"schema": "kvbench/1", "interrupted": True, "verdict": {"ok": False, "problems": [ATTACK]},
            "conditions": {"provider": ATTACK, "cores": 2, "excluded": [ATTACK]}, "run": {"version": "1", "options": ["--json", ATTACK]},
            "host": {"name": ATTACK}, "provider": {"name": ATTACK}, "config": {ATTACK: ATTACK}, "phases": {"write": {"ops": 0}, "read": read},
            "breakdown_ns": {ATTACK: {"mean": 5}, "wire": {"mean": 9}}, "sweep": {"points": points}}


def refused(call, *words):
    try:
        call()
    except Refused as why:
        for word in words:
            assert word in str(why), (word, str(why))
        return
    raise AssertionError(f"was taken, though {words}")


@contextlib.contextmanager
def file_of(data):
    with tempfile.NamedTemporaryFile() as f:
        f.write(data if isinstance(data, bytes) else data.encode())
        f.flush()
        yield f.name


# ---- reading ----


def test_what_is_no_result_is_refused_with_its_reason():
    for data, why in (("", "it is empty"), ('{"schema": "kvbench/1", "phases": {', "it is cut off"), ("\n\nhello", "line 3 is no JSON"),
                      ('{"a": 1}', "another program"), ("[1]", "another program"), ('{"schema": 7}', "another program"),
                      ('{"schema": "kvbench-capacity/1"}', "its schema is kvbench-capacity/1"), ('{"schema": "kvbench/1"}', "no phases"),
                      ('{"schema": "\\u001b[31m"}', "its schema is \\x1b[31m, and"), ('{"a": 1, "a": 2}', "duplicate"),
                      ('{"a": NaN}', "no JSON"), (b'{"a": "\xff"}', "no text in UTF-8"), ("[" * 100000, "no JSON"),
                      ('{"a": %s}' % ("9" * 5000), "")):
        with file_of(data) as path:
            refused(lambda path=path: document.load(path, (document.RUN,), "1"), why, path)
    refused(lambda: document.load("/nonexistent/x.json", (document.RUN,), "1"), "cannot be read: No such file")


def test_a_report_is_cut_off_wherever_it_ends():
    whole = json.dumps({"schema": "kvbench/1", "text": "a \\u00e9 \n", "none": None, "yes": True, "n": [1, -2.5e-7, 1e9], "phases": {}}, indent=1)
    for n in range(1, len(whole)):
        with file_of(whole[:n]) as path:
            refused(lambda path=path: document.load(path, (document.RUN,), "1"), "it is cut off")


# ---- files of figures ----


def test_the_percentile_file_has_the_form_of_hdrhistogram():
    text = document.hgrm(made())
    assert text.startswith("       Value     Percentile TotalCount 1/(1-Percentile)\n\n")
    for line in ("#[Mean    =     1.124000, StdDeviation   =     ", "#[Max     =     8.000000, Total count    =         1000]",
                 "#[Buckets =           37, SubBuckets     =          128]"):
        assert line in text, line
    rows = [[float(x) for x in line.split()] for line in text.split("\n")[2:] if line and line[0] != "#"]
    assert len(rows) > 10 and rows[-1] == [8.0, 1.0, 1000.0]
    assert all(a[:3] <= b[:3] for a, b in zip(rows, rows[1:]))
    assert all(r[2] / 1000 >= r[1] - 1e-9 for r in rows) and all(abs(r[3] - 1 / (1 - r[1])) < 0.01 * r[3] for r in rows[:-1])


def test_huge_counts_end_and_a_broken_histogram_is_none():
    doc = made()
    doc["phases"]["read"]["histogram"] = {"upper_ns": [1, 2], "count": [9000000000000000000, 1]}
    assert document.hgrm(doc)
    for broken in ({}, {"upper_ns": [1], "count": []}, {"upper_ns": [2, 1], "count": [1, 1]}, {"upper_ns": ["a"], "count": [{}]}):
        doc["phases"]["read"]["histogram"] = broken
        refused(lambda: document.hgrm(doc), "no histogram")


def test_the_time_series_has_a_line_for_each_window():
    lines = "".join(f"read,{i / 2:g},0.5,250,500,1000,1,9,9.5\n" for i in range(1, 5))
    doc = made()
    assert document.csv(doc) == "phase,end_s,seconds,ops,ops_per_s,bytes,p50_us,p99_us,max_us\n" + lines
    doc["events"] = [{"event": "kill 2", "done_s": 1.5}, {"event": "a,b", "done_s": 1}, {"event": "stop 1"}]
    assert document.csv(doc).endswith(lines + "event kill 2,1.5,,,,,,,\n")


# ---- pages ----


def test_nothing_from_outside_becomes_markup_or_is_loaded():
    text = page.page(made())
    for never in ("<script", '</dd>"', "http-equiv=\"refresh", "url(", "@import"):
        assert never not in text, never
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;" in text and "Interrupted." in text
    assert all(m.startswith(("http://www.w3.org/2000/svg", "http-equiv")) for m in re.findall(r"http\S*", text))


def test_the_page_has_what_was_asked_for():
    doc = made()
    del doc["sweep"]
    doc["phases"]["read"]["service_ns"] = {"p50": 7000}
    doc["conditions"]["others_cores"] = 0.049923
    doc.update({
        "model": {"tokens_per_s": 6780.9, "prefix_load_s": 4.87, "break_even_tokens": None, "by_layer": {"first_layer_s": 0.0382}},
        "config": {"batch": 8}, "warmup": {"steady": True, "windows": 5}, "roofline": {"get_bytes_per_s": 1e9}, "trace": {"hit_ratio": 0.366},
        "runs": {"count": 2, "bytes_per_s": {"median": 940e6, "min": 876e6, "max": 1e9}, "p50_ns": {"median": 5, "min": 4, "max": 6, "spread": 0.4}},
        "slo": {"quantile": 0.99, "limit_ns": 2000000, "rate_per_s": 110.4, "trials": [
            {"offered_per_s": 221, "latency_ns": 9, "why": "late"}, {"offered_per_s": 110.4, "why": "kept"},
            {"offered_per_s": 300, "why": "<b>"}, {"why": 3}, 7]}})
    text = page.page(doc)
    for wanted in ("<dt>tokens per s</dt><dd>6,781</dd>", "<dt>prefix load</dt><dd>4.87 s</dd>", "Break-even: none",
                   "<dt>first layer</dt><dd>38.2 ms</dd>", "<h2>2 runs</h2>", "<td>p50 of reads</td>",
                   "<h2>Highest rate with p99 within 2 ms: 110 per second</h2>",
                   '<td>bytes/s</td><td>940 MB/s</td><td class="less">876 MB/s</td>', "<tr><td>get, service</td><td></td><td></td><td>7 us</td>",
                   "service: from when they really began", "A latency is of a batch of 8 keys; operations are keys.",
                   "computed: a batch&#39;s median", "<h2>Warm-up until steady</h2>", "<td>above the limit</td>", "<td></td></tr>",
                   "<dt>get bytes per s</dt><dd>1.00 GB/s</dd>", "<dt>hit ratio</dt><dd>36.6 %</dd>", "<dt>others cores</dt><dd>0.05</dd>"):
        assert wanted in text, wanted
    assert text.index("<td>kept</td>") < text.index("<td>above the limit</td>")


def test_the_page_of_a_sweep_has_its_conditions():
    points = [{"state": "done", "runs": [{"shared_machine": False}, {"shared_machine": True}]},
              {"state": "done", "runs": [{"shared_machine": False}]}, {"state": "skipped"}, 3]
    text = page.page({"schema": "kvbench-sweep/1", "sweep": {"settings": ["--num-keys=50"], "points": points}})
    for wanted in ("<strong>Shared machine.</strong> Other processes kept cores busy in 1 of 2 combinations", "done *</td>", "done</td>",
                   "skipped</td>", "*: others kept processors of this machine busy meanwhile.",
                   "Options of each run beside these: <span>--num-keys=50</span>; all others have their defaults."):
        assert wanted in text, wanted


def mutations(value, rng):
    """A document of a stranger: members of any type in any place."""
    odd = [None, True, -1, 0, 1e308, -1e308, 10 ** 400, math.nan, "", "<script>", "\ud800", [], {}, [[]], {"a": 1}, [7, "x", None]]
    if rng.random() < 0.04:
        return rng.choice(odd)
    if isinstance(value, dict):
        return {("<script>" if rng.random() < 0.02 else k): mutations(v, rng) for k, v in value.items() if rng.random() > 0.03}
    return [mutations(v, rng) for v in value] if isinstance(value, list) else value


def test_results_of_strangers_do_no_harm():
    rng, sample = random.Random(SEED), made()
    sample["phases"]["mix"] = {"put": sample["phases"]["read"]}
    sample.update(runs={"count": 2, "ops_per_s": {"median": 1, "each": [1, 2]}}, slo={"trials": [{"offered_per_s": 1}], "quantile": 0.5, "limit_ns": 1},
                  trace={"intervals": [], "before": {"requests": 1, "hit_ratio": 0.5}}, events=[{"event": "kill 1", "done_s": 1}],
                  keep_going={"outages": [{"from_unix_ns": 1, "to_unix_ns": 2}]}, rounds=[{"runs": [{"get": {"ops_per_s": 1}}]}],
                  targets=[{"label": "x", "get": {"ops_per_s": 5, "ratio": {"median": 1, "low": 1, "high": 2}}}])
    for schema in ("kvbench/1", "kvbench-sweep/1"):
        for _ in range(50 * len(few(*range(6)))):
            doc = {**{k: mutations(v, rng) for k, v in copy.deepcopy(sample).items()}, "schema": schema}
            for make in (page.page, page.versus, document.hgrm, document.csv):
                try:
                    text = make(doc)
                    assert make in (document.hgrm, document.csv) or "<script" not in text
                except Refused:
                    pass
        for _ in range(25 * len(few(*range(4)))):
            docs = [{**{k: mutations(v, rng) for k, v in copy.deepcopy(sample).items()}, "schema": schema} for _ in range(2)]
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                comparison = compare.Comparison(["a", "b"], docs, 0.05, True, {}, schema != "kvbench/1")
                assert comparison.same_state() and comparison.compare() in (0, 1, 2)


# ---- charts ----


def points_of(svg, line):
    return len(re.findall("[ML]", re.search(r'"kl s%d" d="([^"]*)"' % line, svg)[1]))


def test_a_wide_heat_map_is_turned():
    for workers in (8, 11):
        points = [{"num_workers": w, "value_size": s << 12, "num_clients": 1, "ops_per_s": w * 1000.0 + s * 100}
                  for w in range(1, workers + 1) for s in (1, 2)]
        svg = figures.scaling({"schema": "kvbench-sweep/1", "sweep": {"points": points}}, True)
        assert (svg.index(">workers</text>") < svg.index(">value</text>")) == (workers > 8)  # the rows' label comes first
        assert ">4 KiB</text>" in svg and ">5.2k</text>" in svg
        assert svg.index(">3.1k</text>") < svg.index(">3.2k</text>")
        assert (svg.index(">3.2k</text>") < svg.index(">4.1k</text>")) == (workers > 8)


def test_windows_of_few_operations_are_drawn():
    doc = made()
    windows = doc["phases"]["read"]["series"]["windows"]
    svg = figures.latency_over_time(doc, True)
    assert points_of(svg, 1) == 4 and ">p99</text>" in svg and ">latency (log)</text>" in svg
    windows += [{"end_s": 2.5, "seconds": 0.5, "ops": 0, "bytes": 0},
                {"end_s": 3.0, "seconds": 0.5, "ops": 7, "bytes": 7, "p50_ns": 900000000, "max_ns": 1000000000},
                {"end_s": 3.5, "seconds": 0.5, "ops": 0, "bytes": 0},
                {"end_s": 3.6, "seconds": 0.1, "ops": 1, "bytes": 7, "p50_ns": 1400000000, "max_ns": 1400000000}]
    svg = figures.latency_over_time(doc, True)
    assert points_of(svg, 0) == 6 and points_of(svg, 1) == 6
    for wanted in (">p99 or longest</text>", "h0M", 'h0"', ">1 s</text>"):  # a lone point is a dot; the axis reaches that far
        assert wanted in svg, wanted
    assert points_of(figures.throughput(doc, True), 0) == 7


def test_a_mix_has_a_line_for_each_kind():
    doc = made()
    doc["phases"]["mix"] = {"put": doc["phases"]["read"], "exists": doc["phases"]["read"]}
    svg = figures.throughput(doc, True)
    assert [points_of(svg, i) for i in range(3)] == [4] * 3 and all(f">{n}</text>" in svg for n in ("GETs", "PUTs", "EXISTS"))
    svg = figures.latency_over_time(doc, True)
    assert [points_of(svg, i) for i in range(4)] == [4] * 4 and ">GET p50</text>" in svg and ">EXISTS p99</text>" in svg


def test_every_figure_is_drawn_or_says_what_is_lacking():
    for draw in figures.FIGURES.values():
        svg = draw(made(), True)
        assert len(svg) > 200 and not re.search("nan|inf|<script", svg)
        refused(lambda draw=draw: draw({"schema": "kvbench/1", "phases": {}}, True), " ")


def test_odd_numbers_make_no_odd_picture():
    for i, odd in enumerate(((0, 0, 0), (1, 1, 1), (math.nan, math.inf, 1), (1e-300, 1e300, 1), (-5, 0, 5), (1e16, 1e16 + 2, 1e16))):
        for scale in ("linear", "log", "nines"):
            points = list(zip((0, 0.5, 0.9), odd))
            svg = chart.chart("odd", chart.Axis("x", "count"), chart.Axis("y", "ns", scale, i % 2 == 0),
                              [chart.Line("a", points), chart.Line("b", points, bars=True)])
            assert not re.search('"-?(nan|inf)', svg), (odd, scale)


def test_a_window_of_no_length_has_no_rate():
    doc = made()
    doc["phases"]["read"]["series"]["window_s"] = -0.5
    doc["phases"]["read"]["series"]["windows"][0]["seconds"] = 0
    assert "<svg" in page.page(doc)


def test_an_axis_has_ticks_in_all_of_its_decades():
    def narrow(low, high):
        return chart.chart("narrow", chart.Axis("x", "count"), chart.Axis("y", "ns", "log"), [chart.Line("a", [(0, low), (1, high)])])

    assert 3 <= narrow(11e6, 19e6).count(" ms<") <= 8  # between 11 and 19 ms there is none of 1, 2 and 5
    svg = narrow(170e3, 75e6)
    assert all(f">{t}<" in svg for t in ("200 us", "1 ms", "5 ms", "50 ms"))


# ---- the same conditions ----


def test_a_condition_that_differs_is_named():
    a, b = made(), made()
    defaults = {"num_workers": 16}
    assert state.differs(a, b, defaults) == []
    b["provider"]["wait"] = "spin"
    b["conditions"]["shared_machine"] = True
    b["host"]["processor"] = "another"
    b["config"].update(num_workers=3, json="elsewhere")
    found = state.differs(a, b, defaults)
    assert len(found) == 4 and found[0] == 'wait mode: not known, then "spin"' and found[1].startswith("processor: ")
    assert found[2:] == ["shared machine: not known, then true", "option num_workers: 16, then 3"]


def test_what_keeps_nobody_from_comparing_is_a_note():
    a, b = made(), made()
    assert state.notes(a, b) == []
    a["host"]["name"], b["host"]["name"] = "ash", "oak\x1b"
    assert state.differs(a, b, {}) == [] and state.notes(a, b) == ['host: "ash", then "oak\\u001b"']


def test_distances_are_told_apart():
    rows = [((60, 60), (58, 84), "same", "60 ns (near), then 58 ns (near)"), ((0, 0), (0, 0), "same", "not known, then not known"),
            ((60, 60), (60, 120), "farther", "60 ns (near), then 60 to 120 ns (near to mid)"),
            ((60, 0), (300, 0), "farther", "60 ns (near), then 300 ns (far)"),
            ((60, 120), (130, 300), "farther", "60 to 120 ns (near to mid), then 130 to 300 ns (mid to far)"),
            ((130, 300), (60, 60), "nearer", "130 to 300 ns (mid to far), then 60 ns (near)"),
            ((60, 300), (130, 130), "other", "60 to 300 ns (near to far), then 130 ns (mid)"),
            ((130, 130), (60, 300), "other", "130 ns (mid), then 60 to 300 ns (near to far)"),
            ((0, 0), (60, 60), "other", "not known, then 60 ns (near)"),
            ((60, 300), (60, 300), "other", "60 to 300 ns (near to far), then 60 to 300 ns (near to far)"),  # CPUs that moved: nobody knows when
            ((60, 300), (310, 310), "farther", "60 to 300 ns (near to far), then 310 ns (far)"),
            ((60, 300), (58, 58), "nearer", "60 to 300 ns (near to far), then 58 ns (near)")]

    def looks(before, after):
        return {**({"core_distance_before_ns": before} if before else {}), **({"core_distance_after_ns": after} if after else {})}

    for a, b, is_, text in rows:
        assert state.distance({"conditions": looks(*a)}, {"conditions": looks(*b)}) == (is_, text), (a, b)
        # A combination of a sweep has those of all its runs.
        assert state.distance({"runs": [looks(a[0], 0), looks(0, a[1])]}, {"runs": [looks(b[1], 0), looks(b[0], 0)]}) == (is_, text)


# ---- pairs: made samples, no clock ----

TRIALS, PAIRS, JUDGED = 200, 15, 6


def few(*cases):
    """In `make check` the first of them."""
    return cases[:1] if os.environ.get("KVRAIL_TEST_SHORT", "0") not in ("", "0") else cases


def value(rng, level, luck, wild):
    """What one process measures: a level that drifts, its own luck, and one run in `wild` that somebody disturbed."""
    x = level * math.exp(rng.gauss(0, luck))
    return x * rng.uniform(0.4, 0.8) if wild and rng.randrange(wild) == 0 else x


def verdicts(rng, luck, change, wild):
    """The verdicts on JUDGED figures, of which B is `change` beside A, of TRIALS comparisons."""
    for _ in range(TRIALS):
        found = set()
        for f in range(JUDGED):
            levels = [50000 * (1 + 0.2 * math.sin(i * 0.7 + f)) for i in range(PAIRS)]
            a = [value(rng, level, luck, wild) for level in levels]
            b = [value(rng, level * (1 + change), luck, wild) for level in levels]
            found.add(pairs.judge(a, b, True, 0.05, JUDGED).verdict)
        yield found


def test_the_same_program_is_rarely_called_worse():
    rng = random.Random(SEED)
    for luck, wild in few((0.4, 8), (0.4, 0), (0.02, 8), (0.02, 0)):
        assert sum(pairs.WORSE in found for found in verdicts(rng, luck, 0, wild)) < TRIALS / 12, (luck, wild)  # 1 in 33, and what chance adds in so few trials


def test_a_tenth_is_found_in_nine_of_ten():
    rng = random.Random(SEED)
    for luck, wild in few((0.02, 20), (0.02, 0), (0.04, 0)):
        assert sum(pairs.WORSE in found for found in verdicts(rng, luck, -0.1, wild)) > TRIALS * 0.88, (luck, wild)


def test_the_power_is_what_it_says():
    rng, trials = random.Random(SEED), 600
    for luck in few(0.06, 0.02, 0.12):
        def judged(change, luck=luck):
            for _ in range(trials):
                a = [value(rng, 1, luck, 0) for _ in range(PAIRS)]
                yield pairs.judge(a, [value(rng, 1 + change, luck, 0) for _ in range(PAIRS)], False, 0.05, JUDGED)

        said = sum(r.finds for r in judged(0)) / trials
        found = sum(r.verdict == pairs.WORSE for r in judged(said)) / trials
        assert 0.84 < found < 0.99, (luck, said, found)


def test_noise_that_would_hide_a_difference_is_no_verdict():
    rng = random.Random(SEED)
    assert sum(pairs.UNKNOWN in found and pairs.WORSE not in found for found in verdicts(rng, 0.3, 0, 0)) > TRIALS * 0.9
    assert sum(found == {pairs.SAME} for found in verdicts(rng, 0.01, 0, 0)) > TRIALS * 0.98


def test_chances_are_exact():
    a = [100.0] * 8
    r = pairs.judge(a, [120.0 + i for i in range(8)], True, 0.05, 1)
    assert abs(r.p - 1 / 256) < 1e-12 and r.verdict == pairs.BETTER and 0.19 < r.low and 0.2 < r.change < 0.27 and r.high < 0.28
    # The smallest goes the other way: sums of 35 and 36 of 36.
    assert abs(pairs.judge(a, [99.9] + [121.0 + i for i in range(7)], True, 0.05, 1).p - 2 / 256) < 1e-12
    r = pairs.judge(a, a, True, 0.05, 1)
    assert r.p == 1 and r.change == 0 and r.verdict == pairs.SAME
    r = pairs.judge(a, [200.0 if i % 2 else 50.0 for i in range(8)], True, 0.05, 1)
    assert r.p > 0.5 and r.verdict == pairs.UNKNOWN


# ---- sweeps ----


def plan(**changed):
    cells = [{"value_size": 4096, "num_clients": 1, "num_workers": w} for w in changed.pop("workers", (1, 2))]
    return {"version": "1", "program": "/bin/false", "options": ["-w", "1,2"], "settings": ["--duration=1s", "--provider=tcp"], "args": [], "cells": cells,
            "axes": {"value_size": [4096]}, "servers": [], "order_seed": 7, "repeat_runs": 2, "timeout_s": 1.0, "seed": 1, "batch": 0, "quiet": False,
            "log_through": False, "json": None, "report": None, "resume": None, **changed}


def take(s, cell, wait="epoll", ops=10.0, **more):
    """A run's report into a cell."""
    doc = {"verdict": {"ok": True, "problems": []}, "conditions": {"provider": "tcp", "wait": wait, "others_cores": 0.1},
           "host": {"name": socket.gethostname(), "cores": 2}, "provider": {"name": "tcp", "wait": wait}, "run": {"time": "now"},
           "phases": {"write": {"duplicates": 0, "ops_per_s": ops / 2},
                      "read": {"ops_per_s": ops, "bytes_per_s": ops * 4096, "seconds": 1.0, "latency_ns": {"p50": 1000, "p99": 9000}}}, **more}
    s.take(s.cells[cell], doc, 1)
    s.cells[cell].update(s.plan["repeat_runs"])


def test_a_round_has_every_cell_once_in_an_order_of_its_own():
    s = sweep.Sweep(plan(workers=range(1, 33)))
    first = s.order(0)
    assert sorted(map(id, first)) == sorted(map(id, s.cells)) and s.order(0) == first and s.order(1) != first
    s.order_seed = 8
    assert s.order(0) != first
    s.cells[3].fail("broken")
    assert len(s.order(0)) == 31


def test_a_run_under_other_conditions_is_not_taken():
    s = sweep.Sweep(plan())
    take(s, 0)
    assert s.cells[0].state == "partial"
    refused(lambda: take(s, 1, "spin"), 'wait is "spin", and was "epoll"')
    refused(lambda: take(s, 1, ops=0), "read nothing")
    refused(lambda: take(s, 1, verdict={"ok": False, "problems": ["3 reads were wrong"]}), "3 reads were wrong")
    refused(lambda: s.take(s.cells[1], [1], 1), "its verdict is not good")
    assert s.cells[1].runs == []
    take(s, 0, ops=30.0)
    assert s.cells[0].state == "done" and s.cells[0].figure("ops_per_s")[:3] == (20.0, 10.0, 30.0)


def test_a_quantile_that_a_run_lacks_is_that_of_none():
    cell = sweep.Cell({})
    cell.runs = [{"ops_per_s": 300, "p50_ns": 5, "p99_ns": 9}, {"ops_per_s": 100, "p50_ns": 7}, {"ops_per_s": 200, "p50_ns": 6, "p99_ns": 8}]
    p99 = measured.OF_POINT[2]
    assert cell.median("p50_ns") == 6 and cell.figure("p99_ns") is None and cell.figure("write_p99_ns") is None
    assert math.isnan(measured.of_point({"runs": cell.runs}, p99).value)
    cell.runs[0].update(write_p99_ns=4, write_ops_per_s=50)  # a run that wrote nothing anew lacks no sample of writing
    assert cell.median("write_p99_ns") == 4
    cell.runs[1]["p99_ns"] = 10
    assert cell.median("p99_ns") == 9 and measured.of_point({"runs": cell.runs}, p99).value == 9


def test_the_table_is_no_wider_than_a_terminal():
    s = sweep.Sweep(plan(workers=(1, 1024, 65535, 65536)))
    s.out = io.StringIO()
    for i in range(4):
        for k in range(2):
            take(s, i, ops=(1.0 if k else 0.001) * (123456789 if i % 3 else 0.5))
    s.cells[2].fail("0" * 20 + " " + "0" * 60)
    s.kept = 4000000000
    s.print_head()
    for cell in s.cells:
        s.print_run(cell, 99999, 99999, 1e12)
    s.print_table()
    assert max(map(len, s.out.getvalue().split("\n"))) <= 80 and "FAILED" in s.out.getvalue() and "65536" in s.out.getvalue()


def test_a_file_gives_back_what_was_measured():
    s = sweep.Sweep(plan(workers=(1, 2, 4)))
    take(s, 0)
    take(s, 0, ops=30.0)
    take(s, 1, ops=50.0)
    s.cells[2].fail("broken")
    with file_of(json.dumps(s.document())) as path:
        s = sweep.Sweep(plan(workers=(1, 2, 4, 8), repeat_runs=3))  # longer lists and more runs are no other sweep
        s.resume(path)
    assert s.kept == 3 and [c.state for c in s.cells] == ["partial", "partial", "pending", "pending"]
    assert s.cells[0].figure("ops_per_s")[:3] == (20.0, 10.0, 30.0)
    refused(lambda: take(s, 2, "spin"), "other conditions")
    s = sweep.Sweep(plan())
    s.resume("/nonexistent/sweep.json")
    assert s.kept == 0


def test_a_file_of_another_sweep_is_refused_with_its_reason():
    def given(text, *words):
        s = sweep.Sweep(plan())
        with file_of(text) as path:
            refused(lambda: s.resume(path), *words)
        assert s.kept == 0 and not any(c.runs for c in s.cells)

    def spoilt(change, *words):
        doc = json.loads(json.dumps(sweep.Sweep(plan()).document()))
        change(doc)
        given(json.dumps(doc), "--resume", *words)

    given("", "it is empty")
    given('{"schema": "kvbench-sweep/1", "sweep":', "it is cut off")
    given('{"schema": "kvbench/1", "phases": {}}', "reads kvbench-sweep/1")
    given('{"schema": "kvbench-sweep/1"}', "of an unknown version")
    spoilt(lambda d: d["run"].update(version="0.0.1"), "kv-bench 0.0.1 wrote it")
    spoilt(lambda d: d["host"].update(name="elsewhere"), "was measured on elsewhere")
    spoilt(lambda d: d["sweep"].update(points="x"), "no combinations")
    spoilt(lambda d: d["sweep"]["points"][0].update(runs=None), "no list of runs")
    spoilt(lambda d: d["sweep"]["points"][0].update(runs=[{"ops_per_s": 5}]), "lacks a figure")
    spoilt(lambda d: d["sweep"]["points"][0].update(runs=[{"ops_per_s": -5, "bytes_per_s": 1.0, "p50_ns": 1}]), "lacks a figure")
    spoilt(lambda d: d["sweep"]["points"][0].update(num_workers=9, runs=[{"ops_per_s": 5, "bytes_per_s": 1.0, "p50_ns": 1}]), "would lose them")
    spoilt(lambda d: d["sweep"].update(settings=["--duration=1s"]), "--provider=tcp is an option of this sweep only")
    spoilt(lambda d: d["sweep"].update(settings=["--duration=1s", "--provider=tcp", "--batch=4"]), "--batch=4 is an option of its sweep only")
    spoilt(lambda d: d["sweep"].update(settings=7), "is an option of this sweep only")


# ---- targets beside each other ----


def rivals(labels=("kvrail", "redis"), **changed):
    targets = [{"kind": "kvrail" if t == "kvrail" else "redis", "name": t, "label": t, "address": ""} for t in labels]
    return versus.Versus({"version": "1", "program": "/bin/false", "options": [], "targets": targets, "load": [], "own": [], "rounds": 7, "num_workers": 3,
                          "num_clients": 1, "num_keys": 1000, "value_size": 4096, "batch": 0, "warmup": 10, "duration_s": 1.0, "rate": 0.0, "mixed": False,
                          "seed": 1, "arrivals": "uniform", "checked": "checksum", "keys_pattern": None, "json": None, "report": None, **changed})


def figure(ops, cpu_ns=35000.0, seconds=1.0, **more):
    return {"ops_per_s": float(ops), "bytes_per_s": 1.0, "p50_ns": 5000.0, "seconds": seconds, "cpu_ns": cpu_ns, "cores": cpu_ns * ops / 1e9, **more}


def round_of(v, *runs, distances=(60, 60)):
    """One more round, with a run of GETs of each target; None: it did not run."""
    r = versus.Round(len(v.rounds), len(v.targets))
    r.distances, r.runs = list(distances), [{"get": run, "cpu_seconds": 0.0} if run else {} for run in runs]
    v.rounds.append(r)
    return r


def test_a_report_of_a_target_that_lacks_figures_is_refused():
    def phases(put, get, mixed=None):
        return {"phases": {"write": put, "read": get, **({"mixed": mixed} if mixed else {})}}

    one = {"ops_per_s": 1}
    for doc, why in (({}, "did nothing"), ([], "did nothing"), ({"phases": 3}, "did nothing"), (phases(one, {}), "did nothing"),
                     (phases({"ops_per_s": 1, "duplicates": 2}, one), "another --seed"),
                     ({**phases(one, one), "verdict": {"problems": ["x"]}}, "x"), (phases(one, {"ops_per_s": 9, "misses": 1}), "GETs missed keys")):
        refused(lambda doc=doc: versus.run_read(doc, False), why)
    assert versus.run_read(phases(one, {"ops_per_s": 9, "misses": 0}), False)["get"]["ops_per_s"] == 9


def test_processor_time_is_of_both_sides():
    """What one side does not say makes the sum unknown; mixed operations share one time."""
    run = versus.run_read({"phases": {
        "write": {"ops": 10, "ops_per_s": 1, "cpu_seconds": 1, "server_cpu_seconds": 2}, "read": {"ops": 4, "ops_per_s": 1, "cpu_seconds": 1},
        "mixed": {"write": {"ops": 3, "ops_per_s": 1}, "read": {"ops": 1, "ops_per_s": 1, "cpu_seconds": 1, "server_cpu_seconds": 1}}}}, True)
    assert run["put"]["cpu_ns"] == 3e8 and "cpu_ns" not in run["get"] and run["mixed"]["cpu_ns"] == 5e8 and run["mixed"]["ops_per_s"] == 2
    v = rivals()
    v.rounds = [versus.Round(1, 2)]
    v.rounds[0].runs = [run, copy.deepcopy(run)]
    v.rounds[0].runs[1]["put"]["cpu_ns"] = 6e8
    assert v.ratio(1, "put", True)["median"] == 2 and v.ratio(1, "get", True) is None  # twice the time: half as good


def test_a_percentile_that_a_round_lacks_is_not_given():
    v = rivals()
    round_of(v, figure(9, p99_ns=200.0), None)
    last = round_of(v, {**figure(9), "p50_ns": 9000.0}, None)
    assert v.median(0, "get")["p50_ns"] == 7000 and "p99_ns" not in v.median(0, "get") and v.median(0, "put") == {}
    last.why = "core distance"
    assert v.median(0, "get")["p99_ns"] == 200


def test_ratios_are_of_rounds_that_count():
    v = rivals()
    for i in range(4):
        round_of(v, figure(100 * (i + 1)), figure(100))
    v.rounds[3].why = "core distance"
    assert v.ratio(1, "get", False) == {"median": 2, "low": 1, "high": 3, "rounds": 3}
    v.rounds[1].runs[1] = {}
    assert v.ratio(1, "get", False)["rounds"] == 2 and v.ratio(1, "put", False) is None and v.median(0, "get")["ops_per_s"] == 200


def test_rounds_of_another_machine_do_not_count():
    """redis of 2 cores: rounds of 57,000 GETs at 34 us, and such of 16,400 at 61 us, in which it and its client were on one."""
    rows = ((57000, 34000, 60, None), (16400, 61000, 60, "processor time"), (56000, 34500, 60, None), (29000, 34100, 60, "cores used"),
            (57000, 33000, 200, "core distance"), (52000, 38000, 60, None), (16000, 60000, 60, "processor time"))
    v = rivals()
    for ops, cpu, distance, _ in rows:
        round_of(v, figure(50000), figure(ops, float(cpu)), distances=(60, distance))
    v.judge()
    assert [r.why for r in v.rounds] == [row[3] for row in rows] and v.rounds[1].by == 1
    round_of(v, figure(50000), figure(80000, 24000.0))  # a later round may be better than all before it
    v.judge()
    assert len(v.counting()) == 1
    for r in v.rounds:  # so short a measurement says nothing of either
        r.runs[1]["get"]["seconds"] = 0.1
    v.judge()
    assert len(v.counting()) == 7
    v.rounds[2].complete = False
    v.judge()
    assert len(v.counting()) == 6 and v.rounds[2].why == "target failed"


def test_a_median_has_an_interval_where_rounds_are_enough():
    """Tables of the sign test have the same: 6 of 6, 9 from the second on, 15 from the fourth on."""
    def of(n):
        return versus.spread([1.0 + i for i in range(n)])

    assert all("ci_low" not in of(n) for n in range(1, 6)) and versus.spread([]) is None
    assert versus.spread_text(of(5)) == "3.00 (1.00-5.00)" and versus.spread_text(of(9)) == "5.00 [2.00, 8.00]"
    for n, outside in ((6, 1), (7, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (25, 8)):
        assert (of(n)["ci_low"], of(n)["ci_high"]) == (outside, n + 1 - outside), n
    rng, inside = random.Random(SEED), 0
    for _ in range(4000):  # 95 % at least contain the median of what the rounds are drawn from, and not nearly all
        s = versus.spread([rng.expovariate(1) for _ in range(9)])
        inside += s["ci_low"] <= math.log(2) <= s["ci_high"]
    assert 4000 * 0.945 < inside < 4000 * 0.985, inside


def test_a_round_in_which_the_distance_changed_is_seen():
    r = versus.Round(1, 1)
    for distances, state_ in (((58, 84, 65), "near"), ((58, 120, 65), "changed"), ((58, 0, 65), "changed"), ((-1, -1), "one CPU"), ((0, 0), "changed")):
        r.distances = distances
        assert r.state() == state_, distances


def test_the_summary_of_rounds_says_what_is_short_or_differs():
    def summary(v):
        v.out = io.StringIO()
        v.print_summary()
        assert max(map(len, v.out.getvalue().split("\n"))) <= 80
        return " ".join(v.out.getvalue().split())

    v = rivals()
    v.machine = {}
    round_of(v, figure(100), figure(100))
    for run in v.rounds[0].runs:
        run["put"] = figure(100)
    assert "too short for" not in summary(v) and " 5.00 us - " in summary(v)  # p99 of too few
    v.rounds[0].runs[1]["put"]["seconds"] = 0.1
    assert "the PUTs of a round take only 100 ms at redis" in summary(v) and "--num-keys 10000 " in summary(v)
    v.servers = [{"congestion_control": "reno"}, {}]
    assert "with which congestion control redis sends is not known" in summary(v)
    v.servers[1] = {"congestion_control": "bbr"}
    assert "kvrail sends with congestion control reno redis sends with congestion control bbr" in summary(v)


# ---- processes: a shell stands for the other kv-bench ----


def shell(script, timeout_s=60.0, **more):
    return child.report("/bin/sh", ["sh", "-c", script], timeout_s, **more)


def test_a_report_is_parsed_and_the_reason_of_none_is_a_line_of_the_log():
    """Our own line is the reason, wherever it stands; without one it is the last line."""
    assert shell("echo 'a line of the log' >&2; echo '{\"ops\": 7}'") == {"ops": 7}
    assert shell("echo '{}'; exit 1", status_max=1) == {}
    for script, why in (("echo '{}'; exit 2", "exit status 2"), ("echo 'kv-bench: no server' >&2; echo 'a hint' >&2; exit 3", "exit status 3: no server"),
                        ("echo first >&2; printf 'second\\tof two\\n' >&2; exit 3", "exit status 3: second of two"),
                        ("yes filler | head -n 5000 >&2; echo the end >&2; kill -9 $$", "its process was ended by signal 9: the end"),
                        ("true", "it wrote no report"), ("echo '{\"cut\": '", "it wrote no report"),
                        ("head -c 70000000 /dev/zero", "its report is longer than 64 MiB")):
        refused(lambda script=script: shell(script, status_max=1), why)
    refused(lambda: shell("sleep 1000", 0.01, timeout_option="--cell-timeout"), "it was not over within 10.0 ms (--cell-timeout)")
    refused(lambda: child.report("/nonexistent/kv-bench", ["kv-bench"], 1.0), "cannot be started: No such file")


def test_a_run_has_a_process_group_and_an_environment_of_its_own():
    assert shell('echo "[$(ps -o pgid= -p $$), $$, $GIVEN]"', environment={"GIVEN": "7"})[2] == 7
    pgid, pid, _ = shell('echo "[$(ps -o pgid= -p $$), $$, 0]"')
    assert pgid == pid != os.getpgid(0)


def test_the_last_line_of_a_step_is_its_result_however_it_ends():
    for script, told, ended, killed_by in (("echo '{\"n\": 1}'; echo '{\"n\": 2, \"final\": true}'", 2, "", 0),
                                           ("echo '{\"n\": 1}'; printf '{\"n\": 2'; exit 3", 1, "ended with status 3 before it was done", 0),
                                           ("echo '{\"n\": 1}'; kill -9 $$", 1, "ended by signal 9 (Killed): for lack of memory, most likely", 9)):
        step = steps.Step("/bin/sh", ["sh", "-c", script], None, 60.0)
        assert step.told["n"] == told and ended in step.ended and step.killed_by == killed_by, vars(step)
    child.received = 2  # a signal that was passed on before the process could receive it
    try:
        assert steps.Step("/bin/sh", ["sh", "-c", "sleep 60"], None, 60.0).ended == "interrupted"
    finally:
        child.received = 0
    real = steps.subprocess.Popen

    def ended(*args, **more):
        process = real(*args, **more)
        process.wait()
        return process

    steps.subprocess.Popen = ended  # it ended in time, and a busy machine shows that only behind its deadline
    try:
        step = steps.Step("/bin/sh", ["sh", "-c", "echo '{\"final\": true}'"], None, -steps.CLOSING_S)
        assert step.ended == "" and step.told == {"final": True}, vars(step)
    finally:
        steps.subprocess.Popen = real
    step = steps.Step("/nonexistent/x", ["x"], None, 60.0)
    assert step.told == {} and "cannot be started: No such file" in step.ended and step.error


# ---- capacity and scale ----


def test_capacity_names_what_ended_each_model():
    told = {"opened": 437, "connected": 437, "endpoints": 437, "threads": 3, "memory_bytes": 400000, "ended_by": "open files", "final": True,
            "first_error": {"code": "limit", "text": "client 437: raise it"}, "provider": "tcp;ofi_rxm", "libfabric": "1.17", "wait": "fd"}
    plan_ = {"version": "1", "program": "/bin/false", "options": [], "models": ["endpoints"], "steps": {"endpoints": [400, 500]}, "timeout_s": 1.0,
             "server": "h:1", "by_name": False, "rails": 1, "buffer_mb": 1, "engines": 4, "host": {"cores": 2}}
    run, real = capacity.Run(plan_, "endpoints", io.StringIO()), steps.Step

    def made_step(program, args, server, timeout_s):
        clients, step = int(args[2]), real("/bin/true", ["true"], server, timeout_s)
        step.told = {**told, **({} if clients == 500 else {"opened": clients, "connected": clients, "verified": clients, "ended_by": None, "first_error": None})}
        step.ended = ""
        return step

    steps.Step = made_step
    try:
        run.run(run.table)
    finally:
        steps.Step = real
    report = run.report()
    assert (report["ended_by"], report["most_verified"], report["ran"]) == ("open files", 437, True)
    assert [s["clients"] for s in report["steps"]] == [400, 500, 437]  # those that were up are opened once more
    assert report["steps"][1]["first_error"] == told["first_error"] and report["steps"][0]["ended_by"] is None and report["steps"][0]["success"] == 1.0
    text = run.table.getvalue()
    assert "endpoints: ended at 500 clients, 437 open, 437 connected, by: open files" in text and max(map(len, text.split("\n"))) <= 80


def test_bytes_of_scale_are_of_those_that_are_connected():
    told = {"connected": 200000, "verified": 199999, "messages": 200000000000, "connect_ns": 999000000000, "talk_ns": 20000000000000, "p99_ns": 999000000000,
            "rss_start": 1 << 20, "rss_base": 3 << 20, "rss": (1 << 20) + 200000 * 8192, "threads": 100000, "stopped": "why " * 100}
    s = scale.made(told, "sessions", 200000, 0)
    assert s["bytes_per_client"] == 8192 and s["bytes_per_further_client"] == (200000 * 8192 - (2 << 20)) // 200000 and not s["complete"]
    assert "bytes_per_client" not in scale.made({**told, "connected": 0}, "tls", 7, 0) and scale.made({}, "tls", 7, 0)["memory_bytes"] == 0
    shown = scale.Scale({"json": None, "quiet": False})
    shown.table = shown.out = io.StringIO()
    shown.steps = [s, scale.made({**told, "verified": 200000, "stopped": ""}, "tls", 200000, 0)]
    for step in shown.steps:
        shown.show_step(step)
    for kind in ("sessions", "tls"):
        shown.show_most(kind)
    text = shown.out.getvalue()
    assert max(map(len, text.split("\n"))) <= 80 and " 99.99 %" in text  # not all is not rounded to all
    assert "sessions: no step was complete" in text and "tls: 200000 clients all succeeded" in " ".join(text.split())


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    only, failed = os.environ.get("KVRAIL_TEST_ONLY", ""), False
    print(f"# KVRAIL_SEED={SEED}\n1..{len(tests)}")
    for i, (name, test) in enumerate(tests, 1):
        name = name[len("test_"):].replace("_", " ")
        try:
            if only and only.strip("*") not in name:
                print(f"ok {i} - {name} # SKIP not chosen")
                continue
            test()
            print(f"ok {i} - {name}", flush=True)
        except Exception:
            failed = True
            print(f"not ok {i} - {name}\n" + "".join(f"# {line}\n" for line in traceback.format_exc().split("\n")), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
