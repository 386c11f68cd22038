# SPDX-License-Identifier: Apache-2.0
"""measured.py -- figures of a result, and how far they vary.

A figure's noise is that of repeated runs where there are three or more, else that of its windows where there are eight
or more: half of the distance from the tenth to the ninetieth percent, as a share of the median.
"""
import dataclasses
import math
import statistics

from document import SHORT_S, at, items, measured, number

WINDOWS_MIN, RUNS_MIN, RUNS_NOISE_MIN = 8, 2, 3


@dataclasses.dataclass
class Metric:
    name: str
    path: tuple  # of the figure in a phase
    in_runs: str = None  # of repeated runs, and of a sweep's combination
    in_rows: str = None  # of a window
    more_is_better: bool = False
    is_ratio: bool = False
    shown_only: bool = False  # of few calls, often of one: nothing tells chance from change


OF_PHASE = [Metric("ops/s", ("ops_per_s",), "ops_per_s", "ops", more_is_better=True),
            Metric("p50", ("latency_ns", "p50"), "p50_ns", "p50_ns"),
            Metric("p99", ("latency_ns", "p99"), "p99_ns", "p99_ns"),
            Metric("p99 of misses", ("missed_ns", "p99"), shown_only=True),
            Metric("p99 of failures", ("failed_ns", "p99"), shown_only=True)]
OF_POINT = OF_PHASE[:3]
OF_PART = [Metric("hit ratio", ("hit_ratio",), more_is_better=True, is_ratio=True), Metric("get p99", ("get_p99_ns",)),
           Metric("longest call", ("longest_ns",), shown_only=True)]


@dataclasses.dataclass
class Measured:
    value: float = math.nan  # NAN, and a latency of 0: not measured
    noise: float = math.nan  # half the range, as a share of value; NAN: not known
    is_short: bool = False  # of a phase of less than SHORT_S


def spread(values):
    """(median, least, most, their distance as a share of the median)."""
    median, low, high = statistics.median(values), min(values), max(values)
    return median, low, high, (high - low) / median if median > 0 else 0.0


def figure(phase, metric):
    return number(at(phase, *metric.path[:-1]), metric.path[-1])


def _of_runs(values):
    median, _, _, wide = spread(values)
    return Measured(median, wide / 2 if len(values) >= RUNS_NOISE_MIN and median > 0 else math.nan)


def _windows_noise(phase, metric):
    values, window = [], number(at(phase, "series"), "window_s")
    for row in items(phase, "series", "windows"):
        seconds = number(row, "seconds")
        value = number(row, metric.in_rows) / (seconds if metric.more_is_better else 1) if seconds > 0.9 * window else math.nan
        if math.isfinite(value):
            values.append(value)
    if len(values) < WINDOWS_MIN:
        return math.nan
    values.sort()
    low, median, high = (values[int(q * (len(values) - 1) + 0.5)] for q in (0.1, 0.5, 0.9))
    return (high - low) / 2 / median if median > 0 else math.nan


def of_phase(doc, phase, metric):
    """Of a phase of a run, or of a part of a replay."""
    if metric.in_runs and phase is not None and phase is measured(doc):
        each = [number({"n": n}, "n") for n in items(doc, "runs", metric.in_runs, "each")]
        each = [n for n in each if math.isfinite(n)]
        if len(each) >= RUNS_MIN:
            return _of_runs(each)
    noise = _windows_noise(phase, metric) if metric.in_rows else math.nan
    return Measured(figure(phase, metric), noise, number(phase, "seconds") < SHORT_S)


def of_point(point, metric):
    """Of a combination of a sweep. A run that has too few samples for a quantile leaves it unknown: the runs with enough
    samples are the faster ones."""
    runs = items(point, "runs")
    values = [number(run, metric.in_runs) for run in runs]
    good = [v for v in values if (v >= 0 if metric.more_is_better else v > 0)]
    if len(good) < len(values) and not metric.more_is_better:
        good = []
    if len(good) >= RUNS_MIN:
        return _of_runs(good)
    return Measured(good[0] if good else math.nan, is_short=bool(runs) and number(runs[0], "seconds") < SHORT_S)
