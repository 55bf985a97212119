"""Verdicts on pairs: scipy's numbers, what the interval says, and how many seeds would decide."""

import random
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from equiscope.comparison.significance import (
    LEVEL,
    POWER,
    compare_pairs,
    equivalence_power,
    holm,
    holm_levels,
    power,
    recommended,
    seeds_needed,
    upper_deviation,
)  # fmt: skip

A, B = [1.0, 1.3, 0.9, 1.4], [1.2, 1.25, 1.1, 1.7]


def by_seed(*columns):
    return {name: dict(enumerate(column)) for name, column in zip("abcdefgh", columns, strict=False)}


def drawn(seed, means, spreads=(0.1,) * 5, seeds=5):
    draw = random.Random(seed)
    return by_seed(*([draw.gauss(mean, sd) for _ in range(seeds)] for mean, sd in zip(means, spreads, strict=False)))


def test_one_pair_is_scipys_paired_t_test():
    (pair,) = compare_pairs(by_seed(A, B), "less")
    found = stats.ttest_rel(A, B)
    assert pair.p == pytest.approx(found.pvalue, rel=1e-12)
    assert (pair.low, pair.high) == pytest.approx(tuple(found.confidence_interval(0.95)), rel=1e-12)
    assert pair.p_equivalent is None


def test_equivalence_is_two_one_sided_tests_of_scipy():
    (pair,) = compare_pairs(by_seed(A, B), "less", smallest_effect=0.5)
    up = stats.ttest_rel(A, np.add(B, 0.5), alternative="less").pvalue
    down = stats.ttest_rel(A, np.subtract(B, 0.5), alternative="greater").pvalue
    assert pair.p_equivalent == pytest.approx(2 * max(up, down), rel=1e-9)  # doubled: each at 2.5 %, as the interval at 95 %
    assert (pair.verdict, pair.better) == ("equivalent", "")
    (pair,) = compare_pairs(by_seed(A, B), "less", smallest_effect=0.3)
    assert pair.verdict == "undecided"


def test_holms_rule_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm_levels(np.array([0.01, 0.04, 0.03]), 0.05) == pytest.approx([0.05 / 3] * 3)
    assert holm_levels(np.array([0.01, 0.04, 0.02]), 0.05) == pytest.approx([0.05 / 3, 0.05, 0.05 / 2])


@pytest.mark.parametrize("level", [LEVEL, 0.01])
@pytest.mark.parametrize("smallest_effect", [None, 0.05, 0.3])
def test_no_verdict_contradicts_its_interval_or_its_p_value(level, smallest_effect):
    verdicts = set()
    for seed in range(100):
        values = drawn(seed, (1, 1, 1.05, 1.2, 2), (0.01, 0.01, 0.05, 0.1, 0.3))
        for pair in compare_pairs(values, "less", smallest_effect, level, recommend=False):
            verdicts.add(pair.verdict)
            assert pair.low <= pair.difference <= pair.high
            excludes = pair.low > 0 or pair.high < 0
            assert excludes == (pair.p < LEVEL)
            if smallest_effect is None:
                assert (pair.verdict == "different") == excludes
                continue
            within = -smallest_effect < pair.low and pair.high < smallest_effect
            assert within == (pair.verdict == "equivalent") == (pair.p_equivalent < LEVEL)
            assert (pair.verdict == "different") == (excludes and not within)
    assert verdicts == {"different", "undecided"} | ({"equivalent"} if smallest_effect == 0.3 else verdicts & {"equivalent"})


def test_the_interval_is_bonferronis_where_the_rule_of_holm_decides_nothing():
    values = drawn(3, (1, 1, 1))
    for pair in compare_pairs(values, "less"):
        a, b = (list(values[name].values()) for name in (pair.first, pair.second))
        wanted = stats.ttest_rel(a, b).confidence_interval(1 - LEVEL / 3)
        assert (pair.verdict, pair.low, pair.high) == ("undecided", pytest.approx(wanted.low), pytest.approx(wanted.high))


def test_a_planted_difference_is_found_and_a_planted_equality_is_not_called_different():
    wrong = found = equivalent = 0
    for trial in range(200):
        draw = random.Random(trial)
        effects = [draw.gauss(0, 0.5) for _ in range(4)]  # of a seed on all alike: it cancels
        values = by_seed(*([mean + e + draw.gauss(0, 0.01) for e in effects] for mean in (2, 2, 2.4)))
        pairs = {(p.first, p.second): p for p in compare_pairs(values, "less", 0.2, recommend=False)}
        wrong += pairs["a", "b"].verdict == "different"
        equivalent += pairs["a", "b"].verdict == "equivalent"
        found += pairs["a", "c"].better == "a" and pairs["b", "c"].better == "b"
    assert wrong <= 200 * LEVEL + 3 * (200 * LEVEL) ** 0.5
    assert equivalent > 0.9 * 200
    assert found > 0.95 * 200


def test_one_candidate_with_a_large_spread_hides_no_difference_of_others():
    values = by_seed((1.50, 1.52, 1.49), (1.60, 1.62, 1.59), (1.4, 1.6, 1.55))
    values["a"][0] += 1e-3  # a pair needs some spread
    assert [p.verdict for p in compare_pairs(values, "less")] == ["different", "undecided", "undecided"]


def test_only_common_seeds_are_compared_and_better_is_a_direction():
    values = {"a": {0: 1.0, 1: 1.1, 2: 1.0}, "b": {1: 2.0, 2: 2.1, 7: 99.0}, "c": {9: 1.0}}
    (pair,) = compare_pairs(values, "more")
    assert pair.difference == pytest.approx((1.1 - 2.0 + 1.0 - 2.1) / 2)
    for better, name in (("more", "b"), ("less", "a")):
        (pair,) = compare_pairs(by_seed((1.0, 1.1, 1.0), (5.0, 5.1, 5.01)), better)
        assert (pair.verdict, pair.better) == ("different", name)


def test_without_a_spread_there_is_no_test_and_no_verdict():
    (one,) = compare_pairs(by_seed((1.0,), (2.0,)), "less", 0.1)
    (constant,) = compare_pairs(by_seed((0.94, 0.95, 0.93), (0.93, 0.94, 0.92)), "more", 0.1)  # accuracy of few samples
    for pair in (one, constant):
        assert (pair.low, pair.p, pair.p_equivalent, pair.verdict, pair.better) == (None, None, None, "undecided", "")
    (same,) = compare_pairs(by_seed((1.0, 2.0), (1.0, 2.0)), "less")
    assert (same.verdict, same.difference, same.p) == ("identical", 0, None)


def test_the_same_variant_twice_is_no_further_test():
    values = by_seed((1.0, 1.3, 0.9), (1.5, 1.4, 1.6))
    (plain,) = compare_pairs(values, "less")
    pairs = {(p.first, p.second): p for p in compare_pairs({**values, "again": values["a"]}, "less")}
    assert pairs["a", "again"].verdict == "identical"
    assert pairs["a", "b"].p == pytest.approx(2 * plain.p)  # of two pairs, a and again against b


@pytest.mark.parametrize(("scale", "seeds"), [(0.5, 34), (0.8, 15), (1.0, 10)])
def test_seeds_for_80_percent_power_are_those_of_the_tables(scale, seeds):
    """Of a paired t-test at 5 %, two-sided: G*Power 3.1 gives 34, 15 and 10 for d_z = 0.5, 0.8 and 1."""
    assert seeds_needed(1.0, scale) == seeds


def test_power_is_that_of_the_noncentral_t_distribution():
    for seeds, scale in ((4, 3.0), (8, 2.0), (20, 3.5)):
        bound = stats.t.isf(0.025, seeds - 1)
        exact = stats.nct.sf(bound, seeds - 1, scale) + stats.nct.cdf(-bound, seeds - 1, scale)
        assert power(scale, seeds, 0.05) == pytest.approx(exact, abs=1e-3)


def test_equivalence_power_is_measured():
    draw, seeds, scale, level = np.random.default_rng(0), 6, 5.0, 0.05
    d = draw.normal(size=(20_000, seeds))
    half = stats.t.isf(level / 2, seeds - 1) * d.std(1, ddof=1) / seeds**0.5
    measured = (np.abs(d.mean(1)) + half < scale / seeds**0.5).mean()
    assert equivalence_power(scale, seeds, level) == pytest.approx(measured, abs=0.01)  # 3 standard errors of 20,000 draws


def test_more_spread_and_more_pairs_ask_for_more_seeds():
    counts = [seeds_needed(spread, 0.1) for spread in (0.02, 0.05, 0.1, 0.3)]
    assert all(a < b for a, b in pairwise(counts))
    assert seeds_needed(0.1, 0.1, pairs=10) > seeds_needed(0.1, 0.1)
    assert seeds_needed(0.1, 0.1, equivalence=True) > seeds_needed(0.1, 0.1)
    assert seeds_needed(1.0, 1e-6) is None


def test_a_spread_of_few_seeds_is_taken_at_its_upper_limit():
    assert upper_deviation(1.0, 3) == pytest.approx((2 / stats.chi2.ppf(1 - POWER, 2)) ** 0.5)
    assert upper_deviation(1.0, 3) > upper_deviation(1.0, 10) > 1
    assert recommended(0.1, 3, 0.2, 0.0) > recommended(0.1, 10, 0.2, 0.0)
    assert recommended(0.1, 5, None, -0.2) == seeds_needed(upper_deviation(0.1, 5), 0.2)
