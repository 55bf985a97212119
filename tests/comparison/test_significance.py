"""Statistics: scipy's numbers, the promised rate of errors, and what a spread can decide."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from equiscope.comparison.significance import LEVEL, cdf, compare_pairs, holm, p_value, pooled_variance, quantile, seeds_needed


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 101])
def test_students_distribution_is_scipys(freedom):
    for t in (-40.0, -3.0, -0.5, 0.0, 0.1, 1.0, 4.3, 20.0):
        assert cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), abs=1e-13)
    for p in (0.6, 0.9, 0.975, 0.999, 0.99999):
        assert quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=1e-9, abs=1e-9)


def test_a_paired_test_is_scipys():
    a, b = [1.0, 1.3, 0.9, 1.4], [1.2, 1.25, 1.1, 1.7]
    found = p_value([x - y for x, y in zip(a, b, strict=True)])
    assert found == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)
    assert p_value([0.3]) is None
    assert p_value([0.0, 0.0, 0.0]) == 1
    assert p_value([0.3, 0.3, 0.3]) == 0


def test_holms_rule_by_hand():
    found = holm({("a", "b"): 0.01, ("a", "c"): 0.04, ("b", "c"): 0.03})
    assert found == {("a", "b"): pytest.approx(0.03), ("b", "c"): pytest.approx(0.06), ("a", "c"): pytest.approx(0.06)}


def test_a_planted_difference_is_named_and_a_planted_equality_is_not():
    wrong = named = 0
    for trial in range(400):
        draw = random.Random(trial)
        seeds = {s: draw.gauss(0, 0.5) for s in range(3)}  # what a seed does to all alike cancels
        values = {
            "one": {s: 2.0 + e + draw.gauss(0, 0.01) for s, e in seeds.items()},
            "same": {s: 2.0 + e + draw.gauss(0, 0.01) for s, e in seeds.items()},
            "worse": {s: 2.4 + e + draw.gauss(0, 0.01) for s, e in seeds.items()},
        }
        found = {(p.first, p.second): p for p in compare_pairs(values, "less")}
        wrong += found["one", "same"].decided
        named += found["one", "worse"].decided and found["same", "worse"].decided and found["one", "worse"].better == "one"
    assert wrong <= 400 * LEVEL + 3 * math.sqrt(400 * LEVEL * (1 - LEVEL))
    assert named > 0.95 * 400


def test_the_common_variance_is_that_of_an_analysis_of_variance():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(5, 4)) + draw.normal(size=4)
    rest = x - x.mean(1, keepdims=True) - x.mean(0) + x.mean()
    found = pooled_variance([list(x[i] - x[j]) for i in range(5) for j in range(i)])
    assert found == pytest.approx(2 * (rest**2).sum() / (4 * 3))


SPREADS = {"alike": (1, 1, 1, 1, 1), "one far": (1, 1, 1, 1, 5), "two far": (1, 1, 1, 3, 5), "one near": (0.2, 1, 1, 1, 1)}


@pytest.mark.parametrize("seeds", [3, pytest.param(4, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("spreads", SPREADS.values(), ids=SPREADS)
def test_where_nothing_differs_some_pair_is_named_as_rarely_as_is_promised(spreads, seeds):
    errors = 0
    for trial in range(400):
        draw = random.Random(trial)
        values = {name: {s: draw.gauss(1, 0.1 * sd) for s in range(seeds)} for name, sd in zip("abcde", spreads, strict=True)}
        errors += any(p.decided for p in compare_pairs(values, "more"))
    assert errors <= 400 * LEVEL + 3 * math.sqrt(400 * LEVEL * (1 - LEVEL))


def test_of_five_candidates_three_seeds_find_what_each_pair_alone_would_miss():
    alone = pooled = 0
    for trial in range(100):
        draw = random.Random(trial)
        values = {name: {s: draw.gauss(mean, 1) for s in range(3)} for name, mean in zip("abcde", (0, 0, 4, 8, 20), strict=True)}
        found = [p for p in compare_pairs(values, "less") if {p.first, p.second} != {"a", "b"}]
        pooled += sum(p.decided for p in found)
        alone += sum(compare_pairs({n: values[n] for n in (p.first, p.second)}, "less")[0].p * 10 < LEVEL for p in found)
    assert pooled > 1.3 * alone
    assert pooled > 0.85 * 900


def test_one_that_spreads_far_hides_no_difference_of_others():
    values = {"a": {0: 1.50, 1: 1.52, 2: 1.49}, "b": {0: 1.60, 1: 1.62, 2: 1.59}, "far": {0: 1.4, 1: 1.6, 2: 1.55}}
    found = {(p.first, p.second): p.decided for p in compare_pairs(values, "less")}
    assert found == {("a", "b"): True, ("a", "far"): False, ("b", "far"): False}


def test_the_same_variant_twice_makes_no_other_pair_surer():
    values = {"a": {0: 1.0, 1: 1.3, 2: 0.9}, "b": {0: 1.5, 1: 1.4, 2: 1.6}}
    (plain,) = compare_pairs(values, "less")
    twice = {(p.first, p.second): p for p in compare_pairs({**values, "again": values["a"]}, "less")}
    assert twice["a", "again"].same
    assert not twice["a", "again"].decided
    assert twice["a", "b"].p > plain.p / 3


def test_only_common_seeds_are_compared_and_better_is_a_direction():
    values = {"a": {0: 1.0, 1: 1.1, 2: 1.0}, "b": {1: 2.0, 2: 2.1, 7: 99.0}}
    (pair,) = compare_pairs(values, "more")
    assert pair.difference == pytest.approx((1.1 - 2.0 + 1.0 - 2.1) / 2)
    (significance,) = compare_pairs({"a": {0: 1.0, 1: 1.1, 2: 1.0}, "b": {0: 5.0, 1: 5.1, 2: 5.01}}, "more")
    assert (significance.decided, significance.better) == (True, "b")
    assert compare_pairs({"a": {0: 1.0}, "b": {1: 2.0}}, "more") == []


def test_one_seed_decides_nothing_and_the_very_same_numbers_are_the_same():
    (one,) = compare_pairs({"a": {0: 1.0}, "b": {0: 2.0}}, "less")
    assert (one.low, one.p, one.decided, one.same) == (None, None, False, False)
    (same,) = compare_pairs({"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 2.0}}, "less")
    assert (same.same, same.decided, same.seeds) == (True, False, None)


def test_more_spread_asks_for_more_seeds():
    counts = [seeds_needed(0.1, spread**2, 3, 1) for spread in (0.02, 0.05, 0.1, 0.3)]
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(counts))
    assert counts[-1] > 30
    assert seeds_needed(1e-6, 1.0, 3, 1) is None
