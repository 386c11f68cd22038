# SPDX-License-Identifier: Apache-2.0
"""compare.py -- kv-bench compare: whether a later result is worse than an earlier one, and not only by chance.

A difference counts if it is above the threshold and above both noises together (measured.py), so that the two ranges do
not meet; of results of one process each it must be above ALONE as well. Where the noise is not known there is no
verdict. Of sweeps each combination is compared, and shown where it differs: most do not.

A difference that the distance of two cores explains (state.distance) is the machine's: it is shown and not judged. Any
other is judged: a worse figure with nearer cores needs no second run.

With --ab the processes of two programs take turns (pairs.py).
"""
import dataclasses
import math
import os
import sys

import child
import measured
import pairs
import state
from document import RUN, SHORT_S, SWEEP, Refused, at, is_sweep, items, load, number, phases, phases_all, text
from document import measured as measured_phase
from text import count, duration, printable, size, wrap

OK, FAILED, NO_VERDICT = 0, 1, 2

# Two processes of one program differ by as much, on a machine at rest as well: memory lies elsewhere, threads are on
# other cores, for as long as they live. Their windows do not show it.
ALONE = 0.1

WORSE, SAME, BETTER, UNSURE = "WORSE", "no difference", "better", "within the noise: no difference that is sure"
SHOWN, SHORT = "differs, but its noise is not known: not judged", "differs, but of less than 0.1 s: not judged"
FEW, MOVED = "differs, of too few windows or runs: no verdict", "differs as the distance of two cores does"

PARTS = {"before the event": "before", "five minutes after it": "five_minutes", "later": "later"}


def say(sentence):
    print(f"kv-bench compare: {sentence}", file=sys.stderr)


def change_of(first, later):
    """From nothing, anything is more."""
    if first.value > 0:
        return later.value / first.value - 1
    return math.inf if later.value > 0 else 0.0


def judge(metric, first, last, threshold, alone):
    """alone: each is of one process. A ratio of a replay is its trace's, and has no noise."""
    change, noise = change_of(first, last), first.noise + last.noise
    worse = -change if metric.more_is_better else change
    if not abs(change) > threshold:
        return SAME
    if not metric.is_ratio and change > -1 and math.isfinite(change):
        if not math.isfinite(noise):
            return FEW
        if not abs(change) > max(noise, ALONE if alone else 0.0):
            return UNSURE
    return WORSE if worse > 0 else BETTER


def figure_text(metric, value):
    if metric.is_ratio:
        return "%.4f" % value
    return count(value) if metric.more_is_better else duration(value)


@dataclasses.dataclass
class Comparison:
    paths: list
    docs: list
    threshold: float  # a share
    force: bool
    defaults: dict  # options of kv-bench, for results that an older one wrote
    sweeps: bool = False
    distance: tuple = (state.SAME, "")
    verdicts: list = dataclasses.field(default_factory=list)
    known: int = 0  # figures of known noise, or without any
    unlike: int = 0  # combinations measured under different conditions
    absent: int = 0  # combinations that a later result did not measure
    failed: int = 0  # combinations that failed in the last result

    def name_of(self, i):
        """The end of a path tells files apart."""
        return self.paths[i][-34:]

    def explained(self, verdict):
        """Whether the distance of two cores is reason enough for a verdict."""
        return not self.force and ((verdict == WORSE and self.distance[0] in (state.FARTHER, state.OTHER)) or
                                   (verdict == BETTER and self.distance[0] in (state.NEARER, state.OTHER)))

    def figure(self, name, metric, values):
        """One figure of all results; one that a result did not measure is not compared. A rate or a ratio may be 0, since
        it may have fallen to that. A latency of 0 is that of no call."""
        if not all(math.isfinite(v.value) and (v.value >= 0 if metric.more_is_better else v.value > 0) for v in values):
            return
        first, last = values[0], values[-1]
        verdict = judge(metric, first, last, self.threshold, not self.sweeps)
        if metric.shown_only and verdict != SAME:
            verdict = SHOWN
        elif verdict != SAME and any(v.is_short and not math.isfinite(v.noise) for v in (first, last)):
            verdict = SHORT
        elif self.explained(verdict):
            verdict = MOVED
        self.verdicts.append(verdict)
        self.known += not metric.shown_only and (metric.is_ratio or verdict == WORSE or math.isfinite(first.noise + last.noise))
        if self.sweeps and verdict == SAME:
            return
        wrap("", f"{name} {metric.name}: {verdict}" + (f", {self.distance[1]}: not judged" if verdict == MOVED else ""), 2)
        for i, v in enumerate(values):
            self.row(i, metric, first, v)

    def row(self, i, metric, first, v):
        noise = "%.1f %%" % (100 * v.noise) if math.isfinite(v.noise) else "unknown"
        change = "" if i == 0 else "%+.1f %%" % (100 * change_of(first, v)) if math.isfinite(change_of(first, v)) else "from 0"
        print("  %-34s %12s %10s %10s" % (self.name_of(i), figure_text(metric, v.value), noise, change))

    def phase(self, name, metrics):
        def find(doc):
            return at(doc, "trace", PARTS[name]) if name in PARTS else dict(phases_all(doc)).get(name)

        for metric in metrics:
            self.figure(name, metric, [measured.of_phase(doc, find(doc), metric) for doc in self.docs])

    # ---- sweeps ----

    def point_measured(self, point, i, name):
        """Whether a later result has the figures of the first. A failed combination has none, even with runs before the
        failure."""
        failed = text(point, "state") == "failed"
        if not failed and items(point, "runs"):
            return True
        self.absent += 1
        self.failed += failed and i == len(self.docs) - 1
        reason = text(point, "reason")
        print(f"{name} {'FAILED' if failed else 'not measured'} in {self.name_of(i)}{': ' + printable(reason) if reason else ''}")
        return False

    def point(self, first):
        name, points = point_name(first), [point_like(doc, first) for doc in self.docs]
        if not items(first, "runs"):
            return  # there is nothing to be worse than
        if not all(self.point_measured(p, i, name) for i, p in enumerate(points) if i > 0):
            return
        differences = [sentence for p in points[1:] for sentence in state.points_differ(first, p)]
        for sentence in differences:
            say(f"{name} {sentence}")
        self.unlike += bool(differences)
        if differences and not self.force:
            return
        self.distance = state.distance(first, points[-1])
        for metric in measured.OF_POINT:
            self.figure(name, metric, [measured.of_point(p, metric) for p in points])

    def all_points(self):
        for point in items(self.docs[0], "sweep", "points"):
            self.point(point)
        same = self.verdicts.count(SAME)
        if same:
            print(f"{same} figures without a difference are not shown")
        if self.absent:
            print(f"{self.absent} of the first's combinations {'was' if self.absent == 1 else 'were'} not measured again, "
                  f"{self.failed} of them failed in the last")
        if self.unlike and not self.force:
            print(f"{self.unlike} combinations were measured under different conditions, and are not compared")

    # ---- all of it ----

    def same_state(self):
        found = 0
        for path, doc in zip(self.paths[1:], self.docs[1:]):
            differences = state.differs(self.docs[0], doc, self.defaults)
            found += len(differences)
            for sentence in differences:
                say(f"{path}: {sentence}")
        if found and not self.force:
            say(f"{found} condition{' differs' if found == 1 else 's differ'} from {self.paths[0]}'s: these results do not compare. "
                "Measure again as it was then, or --force")
            return False
        for path, doc in zip(self.paths[1:], self.docs[1:]):
            for sentence in state.notes(self.docs[0], doc):
                wrap("note    ", f"{path}: {sentence}")
        return True

    def compare(self):
        self.distance = state.distance(self.docs[0], self.docs[-1])
        print("  %-34s %12s %10s %10s" % ("", "figure", "noise", "change"))
        if self.sweeps:
            self.all_points()
        else:
            for name, _ in phases(self.docs[0]):
                self.phase(name, measured.OF_PHASE)
            for name in PARTS:
                self.phase(name, measured.OF_PART)
        return self.verdict()

    def verdict(self):
        worse, moved, few, judged = (self.verdicts.count(WORSE), self.verdicts.count(MOVED), self.verdicts.count(FEW), len(self.verdicts))
        if not judged and not self.failed:
            say("these results have no figure in common" +
                (" that was measured under the same conditions (--force compares all the same)" if self.unlike else ""))
            return NO_VERDICT
        if few or not self.known:
            wrap("note    ", f"no verdict on {few if self.known else judged} figures: how far they vary is not known. It takes eight "
                             "windows of a phase (--duration, --interval), or three runs (--repeat-runs, also of a sweep)")
        print("%u of %u figures worse by more than %g %% and their noise" % (worse, judged, 100 * self.threshold))
        if not self.sweeps and UNSURE in self.verdicts:
            wrap("note    ", "each is of one process, and two of one program differ by up to %g %%: a smaller change than that is "
                             "found by kv-bench compare --ab, which repeats processes" % (100 * ALONE))
        if moved:
            wrap("note    ", f"{moved} differ as the distance of two cores does, which is the machine's: measure again (virtual CPUs "
                             "move: another run may find them where they were), or --force")
        if worse or self.failed:
            return FAILED
        return NO_VERDICT if moved or few or not self.known else OK


def point_like(doc, point):
    axes = ("value_size", "num_clients", "num_workers")
    return next((p for p in items(doc, "sweep", "points") if all(at(p, a) == at(point, a) for a in axes)), None)


def point_name(point):
    value = number(point, "value_size")
    return (f"{size(value)}, " if 1 <= value < 1e18 else "") + "%.0f clients, %.0f workers," % (
        number(point, "num_clients"), number(point, "num_workers"))


def compare_files(paths, version, threshold, force, defaults):
    docs = [load(path, (RUN, SWEEP), version) for path in paths]
    sweeps = is_sweep(docs[0])
    for path, doc in zip(paths, docs):
        if is_sweep(doc) != sweeps:
            raise Refused(f"a sweep compares with sweeps only, a run with runs: {path} is a {'run' if sweeps else 'sweep'}")
    comparison = Comparison(paths, docs, threshold, force, defaults, sweeps)
    return comparison.compare() if comparison.same_state() else NO_VERDICT


# ---- two programs ----

AB_TIMEOUT_S = 3600.0  # of one run
AB_OPTIONS = ["--quiet", "--json=-", "--duration=2", "--num-keys=2000", "--log-level=warn"]  # the last of two counts


def ab_program(given):
    path = os.path.join(given, "kv-bench") if os.path.isdir(given) else given
    if not os.access(path, os.X_OK):
        raise Refused(f"{given} is no kv-bench, nor a folder with one")
    return path


def ab_measure(program, options):
    try:
        return child.report(program, ["kv-bench", *AB_OPTIONS, *options], AB_TIMEOUT_S)
    except Refused as why:
        raise Refused(f"a run of {program} failed, so nothing is compared: {why}") from None


def ab_pairs(programs, options, count_of_pairs):
    """The documents of A and of B. The order turns from pair to pair, so that neither is always the second."""
    docs = ([], [])
    for i in range(count_of_pairs):
        for side in (1, 0) if i % 2 else (0, 1):
            docs[side].append(ab_measure(programs[side], options))
        a, b = (number(measured_phase(d[-1]), "ops_per_s") for d in docs)
        if a > 0 and b > 0:
            print(f"pair {i + 1} of {count_of_pairs}   A {count(a)}   B {count(b)} ops/s   {100 * (b / a - 1):+.1f} %", flush=True)
    return docs


def ab_figures(docs):
    """(name, metric, values of A, values of B). A figure that a run lacks, or that took a moment there, is not judged."""
    for name, _ in phases(docs[0][0]):
        for metric in measured.OF_POINT:
            found = [[dict(phases(doc)).get(name) for doc in side] for side in docs]
            values = [[measured.figure(phase, metric) for phase in side] for side in found]
            long = all(number(phase, "seconds") >= SHORT_S for side in found for phase in side)
            if long and all(v > 0 and math.isfinite(v) for side in values for v in side):
                yield f"{name} {metric.name}", metric, values[0], values[1]


def compare_programs(programs, options, count_of_pairs, threshold):
    programs = [ab_program(p) for p in programs]
    child.signals_install()
    for letter, program in zip("AB", programs):
        print(f"{letter}       {program}")
    figures = list(ab_figures(ab_pairs(programs, options, count_of_pairs)))
    print("\n%-14s %11s %11s %8s %-15s" % ("", "A", "B", "change", "95 %"))
    if not figures:
        raise Refused("no figure was measured for %g s in each run: give both a longer --duration" % SHORT_S)
    judged = []
    for name, metric, a, b in figures:
        r = pairs.judge(a, b, metric.more_is_better, threshold, len(figures))
        medians = [figure_text(metric, measured.spread(side)[0]) for side in (a, b)]
        print("%-14.14s %11s %11s %+6.1f %% %-15s %s" % (name, *medians, 100 * r.change,
                                                        "[%+.1f, %+.1f]" % (100 * r.low, 100 * r.high), r.verdict))
        judged.append((r.finds, name, r.verdict))
    finds, noisiest, _ = max(judged)
    wrap("power   ", "with %u pairs and this noise 9 of 10 such comparisons find a change of %.1f %% in each figure (%s is the "
                     "noisiest); fewer than 1 in 20 call a program worse that is the same" % (count_of_pairs, 100 * finds, noisiest))
    worse, unknown = (sum(v == kind for _, _, v in judged) for kind in (pairs.WORSE, pairs.UNKNOWN))
    if unknown and not worse:
        wrap("verdict ", "none for %u of %u figures: noise would hide a change of %g %%. Use more --pairs, longer runs "
                         "(-- --duration 10), or a machine at rest" % (unknown, len(figures), 200 * threshold))
    else:
        wrap("verdict ", "%u of %u figures are worse by more than %g %%" % (worse, len(figures), 100 * threshold))
    return FAILED if worse else NO_VERDICT if unknown else OK


def main(defaults, args, version):
    """defaults: the options of kv-bench. args: threshold in percent, force, pairs (0: files), then the files, or two programs
    and their options."""
    threshold, force, count_of_pairs, rest = float(args[0]) / 100, args[1] == "1", int(args[2]), args[3:]
    try:
        if count_of_pairs:
            return compare_programs(rest[:2], rest[2:], count_of_pairs, threshold)
        return compare_files(rest, version, threshold, force, defaults)
    except Refused as why:
        say(why)
        return NO_VERDICT
    except child.Interrupted:
        return 128 + child.received
