"""How sure a difference is: the same seeds, pair by pair, and all pairs together. No torch.

Seeds are drawn alike for every candidate, so what a seed does to all of them cancels in the differences: Student's paired t-test,
made stricter for the number of pairs by Holm's rule, and an interval by Bonferroni's, which is a little wider.
Sources: Student 1908, "The Probable Error of a Mean"; Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import fmean, stdev
from typing import Literal

from equiscope.record import Pair

LEVEL = 0.05  # how often a comparison in which nothing differs may name a difference
MANY = 128  # seeds; nobody would wait for more


def pairs(values: Mapping[str, Mapping[int, float]], better: Literal["less", "more"]) -> list[Pair]:
    """Every two candidates, on the seeds that both have.

    values  the number that decides, by candidate and seed
    """
    of = {(a, b): [values[a][s] - values[b][s] for s in values[a] if s in values[b]] for a, b in combinations(values, 2)}
    tests = {pair: chance(d) for pair, d in of.items()}
    strict = holm({pair: p for pair, p in tests.items() if p is not None})
    many = max(len(strict), 1)
    return [_pair(a, b, differences, strict.get((a, b)), many, better) for (a, b), differences in of.items() if differences]


def _pair(a: str, b: str, d: Sequence[float], p: float | None, many: int, better: str) -> Pair:
    mean, same = fmean(d), all(x == 0 for x in d)
    if len(d) < 2:
        return Pair(first=a, second=b, difference=mean, same=same)
    half = quantile(1 - LEVEL / many / 2, len(d) - 1) * stdev(d) / math.sqrt(len(d))
    decided = p is not None and p < LEVEL and mean != 0
    return Pair(
        first=a, second=b, difference=mean, low=mean - half, high=mean + half, p=p, decided=decided, same=same,
        better=(a if (mean < 0) == (better == "less") else b) if decided else "",
        seeds=len(d) if decided else wanted(mean, stdev(d), len(d), many),
    )  # fmt: skip


def chance(differences: Sequence[float]) -> float | None:
    """How often seeds alone would give a mean so far from 0, were there no difference; None with one seed.

    Differences that are all the same and not 0 have no spread: such a difference is as sure as can be.
    """
    if len(differences) < 2:
        return None
    mean, spread = fmean(differences), stdev(differences)
    if spread == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * (1 - cdf(abs(mean) / spread * math.sqrt(len(differences)), len(differences) - 1))


def holm(found: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Each probability, made so large that the rule p < LEVEL errs as rarely for all together as for one."""
    order, low, made = sorted(found, key=lambda pair: found[pair]), 0.0, {}
    for place, pair in enumerate(order):
        low = max(low, min(1.0, found[pair] * (len(order) - place)))
        made[pair] = low
    return made


def wanted(mean: float, spread: float, have: int, many: int) -> int | None:
    """With how many seeds a difference of this size and spread would be found every second time; None beyond MANY."""

    def enough(seeds: int) -> bool:
        return abs(mean) >= quantile(1 - LEVEL / many / 2, seeds - 1) * spread / math.sqrt(seeds)

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
