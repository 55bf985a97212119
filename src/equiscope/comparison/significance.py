"""Significance: a verdict on every pair of candidates, from paired t-tests over seeds. No torch.

Every candidate is trained with the same seeds, so the effect of a seed on all of them cancels in their differences.

difference   a paired t-test (`scipy.stats.ttest_rel`), with p-values adjusted for all pairs by Holm's rule: at most 5 % of
             comparisons call any pair different whose true difference is 0
equivalence  two one-sided paired t-tests (TOST) against the smallest effect that matters, each at a level of 2.5 % / number of
             pairs: at most 2.5 % of comparisons call any pair equivalent whose true difference is that large or larger
interval     at the level 1 - 5 % / number of pairs (Bonferroni). If Holm's rule decides a pair, the end nearer to 0 is computed
             at the level at which Holm's rule tests the pair, so it is closer to the mean

The rates assume that the differences over seeds are normally distributed. Each verdict can be read off the interval: equivalent
if it lies within the smallest effect on both sides of 0; otherwise different if it excludes 0; otherwise undecided.

Sources: Student 1908, "The Probable Error of a Mean"; Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure";
Schuirmann 1987, "A Comparison of the Two One-Sided Tests Procedure"; Browne 1995, "On the Use of a Pilot Sample for Sample Size
Determination".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import special, stats  # type: ignore[import-untyped]

from equiscope.record import PairedDifference
from equiscope.record.comparison import Verdict

LEVEL = 0.05  # share of comparisons of equal candidates that may report a difference
POWER = 0.8  # probability with which the recommended number of seeds finds a difference as large as the smallest effect
MOST_SEEDS = 128  # largest number that is recommended
QUANTILES = 128  # number of quantiles of the measured spread over which a probability is averaged
NO_SPREAD = 1e-12  # a spread of the differences, relative to the largest one, that may be rounding alone
Pair = tuple[str, str]


class PairedTests(NamedTuple):
    """Paired t-tests, one for each pair: mean difference, its standard error, degrees of freedom, p-value of no difference."""

    pairs: list[Pair]
    means: Float[np.ndarray, "pairs"]
    errors: Float[np.ndarray, "pairs"]
    freedom: Int[np.ndarray, "pairs"]
    p: Float[np.ndarray, "pairs"]


def compare_pairs(
    values: Mapping[str, Mapping[int, float]], better: Literal["less", "more"], smallest_effect: float | None = None,
    level: float = LEVEL, recommend: bool = True,
) -> list[PairedDifference]:  # fmt: skip
    """Test every pair of candidates on the seeds that both have.

    values           the metric, by candidate and seed
    smallest_effect  smallest difference that matters; without it no pair is equivalent
    level            significance level of the current look (looks.py)
    recommend        whether to compute how many seeds would decide an undecided pair
    """
    common = {(a, b): [(values[a][s], values[b][s]) for s in values[a] if s in values[b]] for a, b in combinations(values, 2)}
    tests = paired_tests({pair: numbers for pair, numbers in common.items() if has_spread(numbers)})
    judged = {(one.first, one.second): one for one in _judged(tests, better, smallest_effect, level, recommend)}
    return [judged.get(pair) or _untested(pair, numbers) for pair, numbers in common.items() if numbers]


def has_spread(numbers: Sequence[tuple[float, float]]) -> bool:
    """Whether a t-test is defined: there are at least two differences, and they are not all equal."""
    differences = [a - b for a, b in numbers]
    return len(numbers) > 1 and max(differences) - min(differences) > NO_SPREAD * max(map(abs, differences))


def _untested(pair: Pair, numbers: Sequence[tuple[float, float]]) -> PairedDifference:
    verdict: Verdict = "identical" if len(numbers) > 1 and all(a == b for a, b in numbers) else "undecided"
    return PairedDifference(first=pair[0], second=pair[1], difference=fmean(a - b for a, b in numbers), verdict=verdict)


def paired_tests(numbers: Mapping[Pair, Sequence[tuple[float, float]]]) -> PairedTests:
    """Test all pairs on their metrics with each common seed; pairs with the same number of seeds in one call of scipy."""
    pairs = sorted(numbers, key=lambda pair: len(numbers[pair]))
    results = []
    for count, group in groupby(pairs, key=lambda pair: len(numbers[pair])):
        first, second = np.moveaxis(np.array([numbers[pair] for pair in group]), 2, 0)  # each [pairs, seeds]
        difference, p = first - second, stats.ttest_rel(first, second, axis=1).pvalue
        errors = difference.std(axis=1, ddof=1) / math.sqrt(count)
        results.append((difference.mean(axis=1), errors, np.full(len(difference), count - 1), p))
    columns = [np.concatenate(column) for column in zip(*results, strict=True)] or [np.zeros(0)] * 4
    return PairedTests(pairs, *columns)


def _judged(
    tests: PairedTests, better: str, smallest_effect: float | None, level: float, recommend: bool
) -> Iterator[PairedDifference]:  # fmt: skip
    many, share = len(tests.pairs), level / LEVEL
    adjusted, lows, highs = holm(tests.p / share), *intervals(tests, level)
    equivalent = None if smallest_effect is None else np.minimum(1, 2 * many / share * tost(tests, smallest_effect))
    for at, (a, b) in enumerate(tests.pairs):
        mean, low, high = (float(column[at]) for column in (tests.means, lows, highs))
        verdict = read_off(low, high, smallest_effect)
        deviation = float(tests.errors[at]) * math.sqrt(tests.freedom[at] + 1)
        yield PairedDifference(
            first=a, second=b, difference=mean, low=low, high=high, p=float(adjusted[at]), verdict=verdict,
            p_equivalent=None if equivalent is None else float(equivalent[at]),
            better="" if verdict != "different" else a if (mean < 0) == (better == "less") else b,
            seeds=recommended(deviation, int(tests.freedom[at]) + 1, smallest_effect, mean, many)
            if recommend and verdict == "undecided" else None,
        )  # fmt: skip


def intervals(tests: PairedTests, level: float) -> tuple[Float[np.ndarray, "pairs"], Float[np.ndarray, "pairs"]]:
    """Lower and upper ends of the confidence intervals of all pairs, at the level of Bonferroni.

    If Holm's rule decides a pair, the end nearer to 0 is computed at the level at which the rule tests the pair.
    """
    if not tests.pairs:
        return tests.means, tests.means
    far = bound(level / len(tests.pairs), tests.freedom) * tests.errors
    near = bound(holm_levels(tests.p, level), tests.freedom) * tests.errors
    return tests.means - np.where(tests.means > 0, near, far), tests.means + np.where(tests.means > 0, far, near)


def bound(
    level: float | Float[np.ndarray, "pairs"], freedom: int | Int[np.ndarray, "pairs"]
) -> float | Float[np.ndarray, "pairs"]:  # fmt: skip
    """The t such that |t| is larger with probability `level`: the two-sided critical value of Student's distribution."""
    return -special.stdtrit(freedom, np.asarray(level) / 2)


def read_off(low: float, high: float, smallest_effect: float | None) -> Verdict:
    """The verdict that an interval supports."""
    if smallest_effect is not None and -smallest_effect < low and high < smallest_effect:
        return "equivalent"
    return "undecided" if low <= 0 <= high else "different"


def tost(tests: PairedTests, smallest_effect: float) -> Float[np.ndarray, "pairs"]:
    """The p-value of the hypothesis that a pair differs by the smallest effect or more, from TOST (Schuirmann 1987).

    It is the larger p-value of the two one-sided tests.
    """
    return np.asarray(special.stdtr(tests.freedom, (np.abs(tests.means) - smallest_effect) / tests.errors))


def holm(p: Float[np.ndarray, "pairs"]) -> Float[np.ndarray, "pairs"]:
    """Adjusted p-values: calling every pair with p < LEVEL different keeps the family-wise error rate at LEVEL (Holm 1979)."""
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def holm_levels(p: Float[np.ndarray, "pairs"], level: float) -> Float[np.ndarray, "pairs"]:
    """The level at which Holm's rule tests each of m pairs: from level / m to level if it decides the pair, else level / m."""
    order = np.argsort(p)
    steps = level / np.arange(len(p), 0, -1)
    decided = np.logical_and.accumulate(p[order] < steps)
    levels = np.empty_like(p)
    levels[order] = np.where(decided, steps, level / len(p))
    return levels


def recommended(deviation: float, seeds: int, smallest_effect: float | None, difference: float, pairs: int = 1) -> int | None:
    """Number of seeds of a new comparison that decides a pair with probability POWER; None above MOST_SEEDS.

    deviation   standard deviation of the differences of the pair in a comparison with `seeds` seeds. Few seeds estimate it
                badly, so its upper confidence limit at POWER is used (Browne 1995)
    difference  the measured one, which the new comparison shall find if there is no smallest effect
    pairs       number of pairs of the comparison
    """
    limit = upper_deviation(deviation, seeds)
    if smallest_effect is None:
        return seeds_needed(limit, abs(difference), pairs)
    return seeds_needed(limit, smallest_effect, pairs, equivalence=True)


def upper_deviation(deviation: float, seeds: int) -> float:
    """The upper confidence limit, at POWER, of a standard deviation that was measured with this number of seeds."""
    return deviation * math.sqrt((seeds - 1) / float(special.chdtri(seeds - 1, POWER)))


def seeds_needed(deviation: float, effect: float, pairs: int = 1, equivalence: bool = False) -> int | None:
    """Least number of seeds that finds a difference as large as `effect` with probability POWER; None above MOST_SEEDS.

    deviation    standard deviation of the differences over seeds
    pairs        number of pairs of the comparison: each is tested at LEVEL / pairs, the first step of Holm's rule
    equivalence  whether the seeds must also show with probability POWER that equal candidates are equivalent within `effect`
    """

    def enough(seeds: int) -> bool:
        level, scale = LEVEL / pairs, effect / deviation * math.sqrt(seeds)
        finds = power(scale, seeds, level) >= POWER
        return finds and (not equivalence or equivalence_power(scale, seeds, level) >= POWER)

    low, high = 1, MOST_SEEDS
    if effect <= 0 or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def power(scale: float, seeds: int, level: float) -> float:
    """Probability that a paired t-test at this level calls a true difference of `scale` standard errors different from 0."""
    bounds = bound(level, seeds - 1) * _spreads(seeds)
    return float(np.mean(special.ndtr(scale - bounds) + special.ndtr(-scale - bounds)))


def equivalence_power(scale: float, seeds: int, level: float) -> float:
    """Probability that the 1 - level interval of two equal candidates lies within `scale` standard errors on both sides of 0."""
    bounds = bound(level, seeds - 1) * _spreads(seeds)
    return float(np.mean(np.clip(2 * special.ndtr(scale - bounds) - 1, 0, None)))


def _spreads(seeds: int) -> Float[np.ndarray, "quantiles"]:
    """Quantiles of the standard deviation measured with this number of seeds, divided by the true one."""
    above = 1 - (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.sqrt(np.asarray(special.chdtri(seeds - 1, above)) / (seeds - 1))
