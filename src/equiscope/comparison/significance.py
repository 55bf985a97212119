"""Significance of differences between candidates: paired t-tests over seeds, corrected for all pairs. No torch.

All candidates are trained with the same seeds, so the effect of a seed on all of them cancels in the differences: Student's t-test
on the paired differences, with p-values adjusted for the number of pairs by Holm's rule, and Bonferroni confidence intervals, which
are a little wider.

Three seeds say little about the spread of one difference, and more about the pooled spread. So each pair is tested twice: against
its own variance, and against the pooled variance of all pairs if that is larger (the residual of a two-way analysis of variance,
times 2), whose degrees of freedom are those of all candidates together, capped at three times its own. A fifth of the error rate
goes to the first test and the rest to the second. In the simulated comparisons of the tests without a true difference, even if one
candidate spreads five times as far as the others, at most one in twenty reports a difference; of true differences with three seeds
and five candidates it finds a third more than the paired test alone.
Sources: Student 1908, "The Probable Error of a Mean"; Fisher 1925, "Statistical Methods for Research Workers"; Holm 1979, "A Simple
Sequentially Rejective Multiple Test Procedure".
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import fmean, variance
from typing import Literal

from equiscope.record import PairedDifference

LEVEL = 0.05  # how often a comparison in which nothing differs may name a difference
OWN_SHARE = 0.2  # share of that rate for a pair's own variance, where there are others
POOLED = 3  # times the degrees of freedom of one pair that the variance of all may have
MOST_SEEDS = 128  # seeds; nobody would wait for more


def compare_pairs(values: Mapping[str, Mapping[int, float]], better: Literal["less", "more"]) -> list[PairedDifference]:
    """Test every pair of candidates on the seeds that both have.

    values  the metric, by candidate and seed
    """
    of = {(a, b): [values[a][s] - values[b][s] for s in values[a] if s in values[b]] for a, b in combinations(values, 2)}
    others = sum(len(seeds) > 1 for seeds in values.values()) - 1
    shared = pooled_variance([d for d in of.values() if len(d) > 1 and any(d)])
    tests = {pair: p_value(d, shared, others) for pair, d in of.items()}
    strict = holm({pair: p for pair, p in tests.items() if p is not None})
    many = max(len(strict), 1)
    return [_pair(a, b, d, strict.get((a, b)), shared, others, many, better) for (a, b), d in of.items() if d]


def _pair(
    a: str, b: str, d: Sequence[float], p: float | None, shared: float, others: int, many: int, better: str
) -> PairedDifference:  # fmt: skip
    mean, same = fmean(d), not any(d)
    if len(d) < 2:
        return PairedDifference(first=a, second=b, difference=mean, same=same)
    own = variance(d)
    half = 0.0 if same else half_interval(own, shared, len(d), others, many)
    decided = p is not None and p < LEVEL and mean != 0
    return PairedDifference(
        first=a, second=b, difference=mean, low=mean - half, high=mean + half, p=p, decided=decided, same=same,
        better=(a if (mean < 0) == (better == "less") else b) if decided else "",
        seeds=len(d) if decided else seeds_needed(mean, own, len(d), many, shared, others),
    )  # fmt: skip


def pooled_variance(differences: Sequence[Sequence[float]]) -> float:
    """The mean variance of the differences of pairs, weighted by degrees of freedom; 0 if there is none."""
    weights = [len(d) - 1 for d in differences]
    return sum(w * variance(d) for w, d in zip(weights, differences, strict=True)) / sum(weights) if weights else 0.0


def tests_of(own: float, shared: float, seeds: int, others: int) -> list[tuple[float, float, int]]:
    """The tests of one pair: share of the error rate, variance, degrees of freedom.

    own     variance of its differences; shared: the pooled variance
    others  number of other candidates; with a single pair there is one test
    """
    if others < 2:
        return [(1.0, own, seeds - 1)]
    return [(OWN_SHARE, own, seeds - 1), (1 - OWN_SHARE, max(own, shared), (seeds - 1) * min(others, POOLED))]


def p_value(differences: Sequence[float], shared: float = 0.0, others: int = 1) -> float | None:
    """Probability of a mean this far from 0 if there is no difference; None with one seed.

    If all differences are equal and not 0, they have no spread, and the p-value is 0.
    """
    if len(differences) < 2:
        return None
    if not any(differences):
        return 1.0
    mean, count = abs(fmean(differences)), len(differences)
    p_values = [
        2 * (1 - cdf(mean / math.sqrt(square / count), freedom)) / share if square else 0.0
        for share, square, freedom in tests_of(variance(differences), shared, count, others)
    ]
    return min(1.0, *p_values)


def half_interval(own: float, shared: float, seeds: int, others: int, many: int) -> float:
    """Half the width of the confidence interval, simultaneous for all pairs: the shorter one of the tests."""
    return min(
        quantile(1 - LEVEL * share / many / 2, freedom) * math.sqrt(square / seeds)
        for share, square, freedom in tests_of(own, shared, seeds, others)
    )


def holm(p_values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """p-values adjusted such that p < LEVEL keeps the family-wise error rate (Holm 1979)."""
    order, low, adjusted = sorted(p_values, key=lambda pair: p_values[pair]), 0.0, {}
    for rank, pair in enumerate(order):
        low = max(low, min(1.0, p_values[pair] * (len(order) - rank)))
        adjusted[pair] = low
    return adjusted


def seeds_needed(mean: float, own: float, have: int, many: int, shared: float = 0.0, others: int = 1) -> int | None:
    """Seeds with which a difference of this size and variance is found with probability 1/2; None beyond MOST_SEEDS."""

    def enough(seeds: int) -> bool:
        return abs(mean) >= half_interval(own, shared, seeds, others, many)

    low, high = max(have, 1), MOST_SEEDS
    if mean == 0 or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def cdf(t: float, freedom: int) -> float:
    """Of Student's distribution with a whole number of degrees of freedom: a finite sum.

    source  Abramowitz & Stegun 1964, 26.7.3 and 26.7.4
    """
    angle = math.atan2(t, math.sqrt(freedom))
    c2, term, total = math.cos(angle) ** 2, 1.0, 0.0
    odd = freedom % 2
    for k in range(1 + odd, freedom, 2):  # 1 + c2/2 + c2^2 3/(2*4) + ... even; c + c^3 2/3 + c^5 2*4/(3*5) + ... odd
        total += term
        term *= c2 * k / (k + 1)
    area = 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * total) if odd else math.sin(angle) * total
    return 0.5 + area / 2


@cache
def quantile(probability: float, freedom: int) -> float:
    """The inverse of `cdf` for a probability above 0.5, by bisection."""
    low, high = 0.0, 1.0
    while cdf(high, freedom) < probability:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2
