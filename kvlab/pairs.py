# SPDX-License-Identifier: Apache-2.0
"""pairs.py -- whether B differs from A, from pairs of measurements made one after the other. Pure.

Windows of one process say how far it varies, and not how far two processes of one program do: where their memory lies
and on which cores they run stays the same for all of a process. So the noise is taken between pairs of processes that
alternate. The test is Wilcoxon's, of the signed ranks of log(b / a), computed exactly with ties: it needs no normal
distribution, and a disturbed run has one rank and no more.

A change counts if it is unlikely by chance (ALPHA, divided by the number of figures) and its estimate
(Hodges and Lehmann's) is above the threshold. "No difference" on a noisy machine means nothing, so the smallest change
that the comparison would have found is part of the answer.
"""
import dataclasses
import math
import statistics

ALPHA = 0.03  # false alarms of all figures of a comparison together: fewer than 1 in 20
POWER = 0.9  # of the reported change
EFFICIENCY = 0.87  # of signed ranks and a threshold, compared with the mean alone

SAME, WORSE, BETTER, UNKNOWN = "no difference", "WORSE", "better", "no verdict"
NORMAL = statistics.NormalDist()


@dataclasses.dataclass
class Verdict:
    change: float  # of B beside A: -0.1 is a tenth less
    low: float  # its interval of confidence, 95 %
    high: float
    p: float  # chance of such a difference, or a greater one, in this direction where there is none
    finds: float  # the smallest change that 9 of 10 such comparisons find
    verdict: str


def _twice_ranks(values):
    """Of values sorted by their distance from 0; equal ones share the mean of their ranks."""
    ranks, i = [], 0
    while i < len(values):
        to = i
        while to < len(values) and abs(values[to]) == abs(values[i]):
            to += 1
        ranks += [i + to + 1] * (to - i)
        i = to
    return ranks


def _chance_above(values):
    """The chance that signs by a coin give a sum of ranks as large as those of the values above 0, or larger."""
    values = sorted(values, key=abs)
    ranks = _twice_ranks(values)
    part = [1.0] + [0.0] * sum(ranks)
    for rank in ranks:
        part = [(p + (part[s - rank] if s >= rank else 0.0)) / 2 for s, p in enumerate(part)]
    return min(sum(part[sum(r for r, v in zip(ranks, values) if v > 0):]), 1.0)


def _student_above(share, freedom):
    """The x above which a share of Student's distribution lies (its first correction of the normal one)."""
    z = NORMAL.inv_cdf(1 - share)
    return z * (1 + (z * z + 1) / (4.0 * freedom))


def _finds(logs, threshold, alpha):
    """Both conditions of a verdict must be met. The deviation itself is an estimate, of few pairs."""
    n = len(logs)
    if 2.0 ** -n > alpha:  # so few pairs prove nothing, however far they are apart
        return math.inf
    error, spare = statistics.stdev(logs) / math.sqrt(n * EFFICIENCY), _student_above(1 - POWER, n - 1)
    found = max((_student_above(alpha, n - 1) + spare) * error, math.log1p(threshold) + spare * error)
    return math.expm1(found) if found < 700 else math.inf


def _interval(means, n):
    """Of Wilcoxon's test: as many means from either end as its normal approximation has."""
    error = math.sqrt(n * (n + 1) * (2.0 * n + 1) / 24)
    k = min(int(max(math.floor(n * (n + 1) / 4 - NORMAL.inv_cdf(0.975) * error), 0)), len(means) - 1)
    return math.expm1(means[k]), math.expm1(means[len(means) - 1 - k])


def judge(a, b, more_is_better, threshold, figures):
    """a, b: as many values above 0. threshold: a change below it is none, as 0.05. figures: how many are judged together."""
    alpha, logs = ALPHA / max(figures, 1), [math.log(y / x) for x, y in zip(a, b)]
    means = sorted((x + y) / 2 for i, x in enumerate(logs) for y in logs[i:])
    shift = statistics.median(means)
    up, finds, (low, high) = shift > 0, _finds(logs, threshold, alpha), _interval(means, len(logs))
    moved = [d if up else -d for d in logs if d]  # pairs without a difference have no sign
    p = _chance_above(moved) if moved else 1.0
    if p <= alpha and abs(shift) > math.log1p(threshold):
        verdict = BETTER if up == more_is_better else WORSE
    else:
        verdict = UNKNOWN if finds > 2 * threshold else SAME
    return Verdict(math.expm1(shift), low, high, p, finds, verdict)
