# SPDX-License-Identifier: Apache-2.0
"""figures.py -- charts from a document. A chart whose figures the document lacks is refused with the reason."""
import math

import chart
from chart import Axis, Line, Mark
from document import Refused, at, histogram, is_sweep, items, measured, members, number, phases, text
from text import size

MARKS_MAX, BINS, HEAT_MAX, HEAT_WIDE = 256, 60, 12, 8
NO_HISTOGRAM = "this result has no histogram: no operation succeeded, or an older kv-bench wrote it"


def percentiles(doc, alone):
    """The curve ends where one sample is left: beyond it nothing was measured."""
    lines = []
    for name, phase in phases(doc)[:chart.LINES_MAX]:  # --mix and --mixed exclude each other
        rows, points, below = histogram(phase), [], 0.0
        total = sum(n for _, n in rows)
        for upper, n in rows:
            points.append((below / total, upper))
            below += n
            points.append((min(below, total - 1) / total, upper))
        if points:
            lines.append(Line(name, points))
    if not lines:
        raise Refused(NO_HISTOGRAM)
    return chart.chart("Latency by percentile", Axis("operations at or below", "share", "nines"), Axis("latency", "ns", "log"),
                       lines, alone=alone)


def latencies(doc, alone):
    """Buckets are finer than a picture: they are added up into bins of equal width on the logarithmic axis."""
    phase = measured(doc)
    rows = histogram(phase)
    if not rows:
        raise Refused(NO_HISTOGRAM)
    low, high = math.log10(max(rows[0][0], 1.0)) - 0.02, math.log10(max(rows[-1][0], 1.0)) + 0.001
    bins = [0.0] * BINS
    for upper, n in rows:
        place = (math.log10(max(upper, 1.0)) - low) / (high - low) * BINS
        if 0 <= place < BINS:
            bins[int(place)] += n
    points = [(10.0 ** (low + (high - low) * (i + 1) / BINS), n) for i, n in enumerate(bins)]
    reads = phase is at(doc, "phases", "read")
    return chart.chart("Latency of reads" if reads else "Latency of writes", Axis("latency", "ns", "log"),
                       Axis("operations", "count", from_zero=True), [Line("operations", points, bars=True)], alone=alone)


# ---- over time ----


def _marks(doc, phase):
    """Outages as bands, events as lines."""
    start, marks = number(at(phase, "series"), "start_unix_ns"), []
    for outage in items(doc, "keep_going", "outages"):
        begin, end = (number(outage, "from_unix_ns") - start) / 1e9, (number(outage, "to_unix_ns") - start) / 1e9
        if math.isfinite(begin) and math.isfinite(end):
            marks.append(Mark(begin, end))
    for event in items(doc, "events"):
        done = number(event, "done_s")
        if math.isfinite(done):
            marks.append(Mark(done, done, text(event, "event") or "event"))
    return marks[:MARKS_MAX]


def _kinds(doc):
    """(name of the rate, name of the p99, phase) of the operations that one phase made at the same time."""
    phase = measured(doc)
    reads = phase is not None and phase is at(doc, "phases", "read")
    kinds = [("GETs" if reads else "PUTs", "p99", phase)]
    for name, member in (("PUT", "put"), ("EXISTS", "exists")):
        other = at(doc, "phases", "mix", member)
        if number(other, "ops") > 0:
            kinds.append(("PUTs" if name == "PUT" else name, name + " p99", other))
    return kinds


class _Series:
    """A kind over time. A short last window has no rate; its latencies count all the same."""

    def __init__(self, phase):
        self.ops, self.p50, self.late, self.sparse = [], [], [], False
        window = number(at(phase, "series"), "window_s")
        for row in items(phase, "series", "windows"):
            seconds, end = number(row, "seconds"), number(row, "end_s")
            p99, longest = number(row, "p99_ns"), number(row, "max_ns")
            whole = seconds > 0 and seconds > window / 2
            if whole:
                self.ops.append((end, number(row, "ops") / seconds))
            if whole or math.isfinite(longest):
                self.p50.append((end, number(row, "p50_ns")))
                self.late.append((end, p99 if math.isfinite(p99) else longest))
                self.sparse |= not math.isfinite(p99) and math.isfinite(longest)


def _over_time(doc, latency, alone):
    kinds = [(rate, p99, _Series(phase)) for rate, p99, phase in _kinds(doc)]
    title = "Latency over time" if latency else "Throughput over time"
    if len(kinds[0][2].ops) < 2:
        raise Refused("the phase was over before a second window of the time series (--interval makes them shorter)")
    if latency:
        several = len(kinds) > 1
        lines = [Line("GET p50" if several else "p50", kinds[0][2].p50)]
        lines += [Line(p99 if several or not s.sparse else "p99 or longest", s.late) for _, p99, s in kinds]
        if several and any(s.sparse for _, _, s in kinds):
            title = "Latency over time (of few: the longest)"
    else:
        lines = [Line(rate, s.ops) for rate, _, s in kinds]
    lines = [line for line in lines if any(math.isfinite(y) for _, y in line.points)][:chart.LINES_MAX]
    y = Axis("latency", "ns", "log") if latency else Axis("operations per second", "count", from_zero=True)
    return chart.chart(title, Axis("since the phase began", "s", from_zero=True), y, lines, _marks(doc, measured(doc)), alone)


def throughput(doc, alone):
    return _over_time(doc, False, alone)


def latency_over_time(doc, alone):
    return _over_time(doc, True, alone)


def breakdown(doc, alone):
    rows = [(name, max(number(part, "mean"), 0.0)) for name, part in members(doc, "breakdown_ns").items()
            if name != "total" and math.isfinite(number(part, "mean"))]
    if not rows:
        raise Refused("the run was without --breakdown")
    return chart.bars("Where the time of a GET goes (means)", rows[:16], "ns", alone)


# ---- scaling ----


def _thin(seen):
    """At most HEAT_MAX of the numbers, the first and the last among them."""
    seen = sorted(seen)
    if len(seen) <= HEAT_MAX:
        return seen
    return [seen[(i * (len(seen) - 1) + (HEAT_MAX - 1) // 2) // (HEAT_MAX - 1)] for i in range(HEAT_MAX)]


def scaling(doc, alone):
    """A sweep's points. Of several numbers of clients the best counts."""
    best, clients = {}, set()
    for point in items(doc, "sweep", "points"):
        rate = number(point, "ops_per_s")
        place = number(point, "value_size"), number(point, "num_workers")
        if not math.isfinite(rate):
            continue
        clients.add(number(point, "num_clients"))
        if all(map(math.isfinite, place)):
            best[place] = max(best.get(place, -math.inf), rate)
    sizes, workers = {p[0] for p in best}, {p[1] for p in best}
    if len(sizes) * len(workers) < 2:
        raise Refused("this sweep has measured less than two combinations of workers and value size" if is_sweep(doc)
                      else "this result is of no sweep")
    rows, columns = _thin(sizes), _thin(workers)
    title = "Operations per second"
    if len(rows) < len(sizes) or len(columns) < len(workers):
        title += " (some columns and rows)"
    elif len({c for c in clients if math.isfinite(c)}) > 1:
        title += " (best number of clients)"
    value = {(r, c): best[size_, worker] for r, size_ in enumerate(rows) for c, worker in enumerate(columns) if (size_, worker) in best}
    names, counts = [size(v) for v in rows], ["%.0f" % v for v in columns]
    if len(columns) > HEAT_WIDE and len(rows) <= HEAT_WIDE:  # more columns than a telephone shows apart become rows
        return chart.heat(title, "value", "workers", names, counts, {(c, r): v for (r, c), v in value.items()}, alone)
    return chart.heat(title, "workers", "value", counts, names, value, alone)


FIGURES = {"percentiles": percentiles, "histogram": latencies, "throughput": throughput, "latency": latency_over_time,
           "breakdown": breakdown, "scaling": scaling}
