"""How sure a difference is: the same seeds, pair by pair, and all pairs together. No torch.

Seeds are drawn alike for every candidate, so what a seed does to all of them cancels in the differences: Student's t-test on these,
made stricter for the number of pairs by Holm's rule, and an interval by Bonferroni's, which is a little wider.

Three seeds say little about the spread of one difference, and more about that of all of them. So each is tested twice: against its
own variance, and against the mean one of all pairs where that is larger (the residual of a two-way analysis of variance, times 2),
whose degrees of freedom are those of all candidates together, three times its own at most. A fifth of the promised rate of errors
goes to the first test and the rest to the second. In the drawn comparisons of the tests without a difference, also where one
candidate spreads five times as far as the others, at most one in twenty names one; of true differences with three seeds and five
candidates a third more are found than by each pair alone.
Sources: Student 1908, "The Probable Error of a Mean"; Fisher 1925, "Statistical Methods for Research Workers"; Holm 1979, "A Simple
Sequentially Rejective Multiple Test Procedure".
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import fmean, variance
from typing import Literal

from equiscope.record import Pair

LEVEL = 0.05  # how often a comparison in which nothing differs may name a difference
OWN = 0.2  # share of that rate for a pair's own variance, where there are others
TOGETHER = 3  # times the degrees of freedom of one pair that the variance of all may have
MANY = 128  # seeds; nobody would wait for more


def pairs(values: Mapping[str, Mapping[int, float]], better: Literal["less", "more"]) -> list[Pair]:
    """Every two candidates, on the seeds that both have.

    values  the number that decides, by candidate and seed
    """
    of = {(a, b): [values[a][s] - values[b][s] for s in values[a] if s in values[b]] for a, b in combinations(values, 2)}
    others = sum(len(seeds) > 1 for seeds in values.values()) - 1
    shared = common([d for d in of.values() if len(d) > 1 and any(d)])
    tests = {pair: chance(d, shared, others) for pair, d in of.items()}
    strict = holm({pair: p for pair, p in tests.items() if p is not None})
    many = max(len(strict), 1)
    return [_pair(a, b, d, strict.get((a, b)), shared, others, many, better) for (a, b), d in of.items() if d]


def _pair(
    a: str, b: str, d: Sequence[float], p: float | None, shared: float, others: int, many: int, better: str
) -> Pair:  # fmt: skip
    mean, same = fmean(d), not any(d)
    if len(d) < 2:
        return Pair(first=a, second=b, difference=mean, same=same)
    own = variance(d)
    half = 0.0 if same else reach(own, shared, len(d), others, many)
    decided = p is not None and p < LEVEL and mean != 0
    return Pair(
        first=a, second=b, difference=mean, low=mean - half, high=mean + half, p=p, decided=decided, same=same,
        better=(a if (mean < 0) == (better == "less") else b) if decided else "",
        seeds=len(d) if decided else wanted(mean, own, len(d), many, shared, others),
    )  # fmt: skip


def common(differences: Sequence[Sequence[float]]) -> float:
    """The mean variance of the differences of pairs, each counted by its seeds less one; 0 where there is none."""
    weights = [len(d) - 1 for d in differences]
    return sum(w * variance(d) for w, d in zip(weights, differences, strict=True)) / sum(weights) if weights else 0.0


def rules(own: float, shared: float, seeds: int, others: int) -> list[tuple[float, float, int]]:
    """The tests of one pair: share of the rate of errors, variance, degrees of freedom.

    own     variance of its differences; shared: that of all pairs
    others  candidates beside one; with a single pair there is one test
    """
    if others < 2:
        return [(1.0, own, seeds - 1)]
    return [(OWN, own, seeds - 1), (1 - OWN, max(own, shared), (seeds - 1) * min(others, TOGETHER))]


def chance(differences: Sequence[float], shared: float = 0.0, others: int = 1) -> float | None:
    """How often seeds alone would give a mean so far from 0, were there no difference; None with one seed.

    Differences that are all the same and not 0 have no spread: such a difference is as sure as can be.
    """
    if len(differences) < 2:
        return None
    if not any(differences):
        return 1.0
    mean, count = abs(fmean(differences)), len(differences)
    found = [
        2 * (1 - cdf(mean / math.sqrt(square / count), freedom)) / share if square else 0.0
        for share, square, freedom in rules(variance(differences), shared, count, others)
    ]
    return min(1.0, *found)


def reach(own: float, shared: float, seeds: int, others: int, many: int) -> float:
    """Half of the interval in which a true difference lies, for all pairs together: the shorter one of the tests."""
    return min(
        quantile(1 - LEVEL * share / many / 2, freedom) * math.sqrt(square / seeds)
        for share, square, freedom in rules(own, shared, seeds, others)
    )


def holm(found: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Each probability, made so large that the rule p < LEVEL errs as rarely for all together as for one."""
    order, low, made = sorted(found, key=lambda pair: found[pair]), 0.0, {}
    for place, pair in enumerate(order):
        low = max(low, min(1.0, found[pair] * (len(order) - place)))
        made[pair] = low
    return made


def wanted(mean: float, own: float, have: int, many: int, shared: float = 0.0, others: int = 1) -> int | None:
    """With how many seeds a difference of this size and variance would be found every second time; None beyond MANY."""

    def enough(seeds: int) -> bool:
        return abs(mean) >= reach(own, shared, seeds, others, many)

    low, high = max(have, 1), MANY
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
    """Where the distribution reaches a probability above 0.5, by halving."""
    low, high = 0.0, 1.0
    while cdf(high, freedom) < probability:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2
