# SPDX-License-Identifier: Apache-2.0
"""document.py -- a result as data: the JSON report of kv-bench, of this run or an earlier one.

A file may come from anywhere: each getter looks at the type of a member before it is used. A missing member is None, or
NAN where a number is expected.
"""
import json
import math
import re

from text import printable

RUN, SWEEP = "kvbench/1", "kvbench-sweep/1"
BYTES_MAX = 256 << 20  # of a file
NUMBER_MAX = 1e20  # beyond it nothing is measured
HISTOGRAM_SUB_BITS, HISTOGRAM_BUCKETS = 7, 37  # of base/hist.h
SHORT_S = 0.1  # a phase of less time is one of beginnings


class Refused(Exception):
    """A sentence for people."""


def at(doc, *names):
    for name in names:
        doc = doc.get(name) if isinstance(doc, dict) else None
    return doc


def number(obj, name):
    value = at(obj, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value) if abs(value) < NUMBER_MAX else math.nan


def text(obj, name):
    value = at(obj, name)
    return value if isinstance(value, str) else None


def items(obj, *names):
    value = at(obj, *names)
    return value if isinstance(value, list) else []


def members(obj, *names):
    value = at(obj, *names)
    return value if isinstance(value, dict) else {}


def is_sweep(doc):
    return text(doc, "schema") == SWEEP


# ---- reading ----


def _no_duplicates(pairs):
    obj = dict(pairs)
    if len(obj) != len(pairs):
        raise ValueError("duplicate object key")
    return obj


def _no_constant(name):
    raise ValueError(f"invalid token near {name}")


def _cut_off(raw, error):
    """A report that ends within a word ("nul", "1e") is as cut off as one that ends between two."""
    rest = raw[error.pos:].strip()
    unfinished = any(word.startswith(rest) for word in ("true", "false", "null")) or re.fullmatch(r"[-+.eE\d]{0,40}", rest)
    return "{" in raw and (error.msg.startswith("Unterminated string") or bool(unfinished) or
                           ("escape" in error.msg and error.pos + 6 >= len(raw)))


def _parsed(path, raw):
    def refuse(why):
        return Refused(f"{path} is no report of kv-bench --json: {why}")

    if not raw:
        raise refuse("it is empty")
    try:
        return json.loads(raw, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if _cut_off(raw, error):
            raise refuse("it is cut off; the run that wrote it, or a copy of it, ended too early") from None
        raise refuse(f"line {error.lineno} is no JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise refuse(f"it is no JSON ({error})") from None


def load(path, schemas, version):
    """Read a report of one of these schemas."""
    try:
        with open(path, "rb") as f:
            raw = f.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise OSError(27, "File too large")
        raw = raw.decode("utf-8", "strict")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is no report of kv-bench --json: it is no text in UTF-8") from None
    doc = _parsed(path, raw)
    schema, refuse = text(doc, "schema"), f"{path} is no report of kv-bench --json: "
    if schema is None:
        raise Refused(refuse + "it has no member schema, so another program wrote it")
    if schema not in schemas:
        raise Refused(f"{refuse}its schema is {printable(schema, 92)}, and this kv-bench ({version}) reads "
                      f"{' and '.join(schemas)} here")
    if schema == RUN and not isinstance(at(doc, "phases"), dict):
        raise Refused(refuse + "it has no phases")
    return doc


# ---- phases ----


def phases_all(doc):
    """(name, phase) of each phase of a run."""
    trace = at(doc, "trace") is not None
    every = [("put" if trace else "write", ("write",)), ("get" if trace else "read", ("read",)),
             ("mix put", ("mix", "put")), ("mix exists", ("mix", "exists")),
             ("mixed put", ("mixed", "write")), ("mixed get", ("mixed", "read"))]
    found = [(name, at(doc, "phases", *path)) for name, path in every]
    return [(name, phase) for name, phase in found if phase is not None]


def phases(doc):
    """Those that measured something."""
    return [(name, phase) for name, phase in phases_all(doc) if number(phase, "ops") > 0]


def measured(doc):
    """The phase that a report is about: the reads, else the writes, else None."""
    for name in ("read", "write"):
        if number(at(doc, "phases", name), "ops") > 0:
            return at(doc, "phases", name)
    return None


def histogram(phase):
    """[(upper edge, count)]; [] unless edges rise and counts are above 0."""
    upper, counts = items(phase, "histogram", "upper_ns"), items(phase, "histogram", "count")
    rows = [(number({"n": u}, "n"), number({"n": c}, "n")) for u, c in zip(upper, counts)]
    good = len(upper) == len(counts) and all(u > before for (u, _), before in zip(rows, [-1.0] + [r[0] for r in rows]))
    return rows if good and all(c > 0 for _, c in rows) else []


# ---- the two files of figures ----

TICKS_PER_HALF = 5  # as HdrHistogram prints by default
LEVEL_MAX = 99.9999999999  # nearer to 100 the steps are lost in rounding


def _deviation(rows, mean, total):
    squares, below = 0.0, 0.0
    for upper, n in rows:
        middle = upper - min(upper / (1 << HISTOGRAM_SUB_BITS), upper - below) / 2
        squares += n * (middle - mean) ** 2
        below = upper
    return math.sqrt(squares / total)


def _levels(rows, total):
    """HdrHistogram's iterator: steps halve the distance to 100 %, each half in TICKS_PER_HALF parts."""
    seen = level = 0.0
    for upper, n in rows[:-1]:
        seen += n
        while 100 * seen / total >= level and level < LEVEL_MAX:
            yield "%12.6f %14.12f %10.0f %14.2f\n" % (upper / 1e6, level / 100, seen, 1 / (1 - level / 100))
            level += 100 / (TICKS_PER_HALF * 2.0 ** (math.floor(math.log2(100 / (100 - level))) + 1))
    yield "%12.6f %14.12f %10.0f\n" % (rows[-1][0] / 1e6, 1.0, total)


def hgrm(doc):
    """The latencies as HdrHistogram's percentiles, in ms."""
    phase = measured(doc)
    rows = histogram(phase)
    if not rows:
        raise Refused("there is no histogram to write: no operation succeeded")
    total, mean = sum(n for _, n in rows), number(at(phase, "latency_ns"), "mean")
    return ("%12s %14s %10s %14s\n\n" % ("Value", "Percentile", "TotalCount", "1/(1-Percentile)") + "".join(_levels(rows, total)) +
            "#[Mean    = %12.6f, StdDeviation   = %12.6f]\n" % (mean / 1e6, _deviation(rows, mean, total) / 1e6) +
            "#[Max     = %12.6f, Total count    = %12.0f]\n" % (number(at(phase, "latency_ns"), "max") / 1e6, total) +
            "#[Buckets = %12d, SubBuckets     = %12d]\n" % (HISTOGRAM_BUCKETS, 1 << HISTOGRAM_SUB_BITS))


def _cell(value, scale=1.0):
    return "" if math.isnan(value) else "%.9g" % (value * scale)


def csv(doc):
    """The time series, a line for each window; behind them a line for each event that happened."""
    lines = ["phase,end_s,seconds,ops,ops_per_s,bytes,p50_us,p99_us,max_us"]
    for name, phase in phases(doc):
        for row in items(phase, "series", "windows"):
            seconds = number(row, "seconds")
            cells = [_cell(number(row, "end_s")), _cell(seconds), _cell(number(row, "ops")),
                     _cell(number(row, "ops"), 1 / seconds) if seconds > 0 else "", _cell(number(row, "bytes"))]
            cells += [_cell(number(row, member), 1e-3) for member in ("p50_ns", "p99_ns", "max_ns")]
            lines.append(",".join([name] + cells))
    for event in items(doc, "events"):
        name, done = text(event, "event"), number(event, "done_s")
        if name and not set(name) & set(',"\r\n') and not math.isnan(done):  # others would need quotes
            lines.append(f"event {name},{_cell(done)},,,,,,,")
    return "\n".join(lines) + "\n"
