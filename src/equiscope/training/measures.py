"""Measures: metrics of a model on examples, with 95 % intervals over the examples.

Every metric here is a function of sums over examples: an accuracy, a mean error, a root mean square, F1, BLEU. So resampling the
examples gives its interval, and that of the difference of two models on the same examples.

rates   of examples that are right: Wilson's interval
others  bootstrap percentiles of RESAMPLES resamples, drawn with a fixed seed, so that a command repeats its numbers

Sources: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference"; Efron 1979, "Bootstrap Methods";
McNemar 1947 for the p-value of two rates on the same examples.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

RESAMPLES = 2000
AT_ONCE = 2**22  # indices that are drawn together
NORMAL = 1.959963984540054  # 97.5 % of the normal distribution are below it
Sums = Float[np.ndarray, "examples sums"]
Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Measure:
    """A metric as a function of sums over examples.

    sums   of each example [N, K]
    value  sums [..., K] to metrics [...]
    rate   whether each example is right (1) or wrong (0)
    unit   of the metric; empty for a number without one
    """

    name: str
    sums: Sums
    value: Callable[[np.ndarray], np.ndarray]
    rate: bool = False
    unit: str = ""

    @property
    def point(self) -> float:
        """The metric over all examples."""
        return float(self.value(self.sums.sum(0)[None])[0])


class TrueAndPredicted(NamedTuple):
    """Predicted numbers beside the true ones: true, predicted [N], in `unit`."""

    name: str
    unit: str
    true: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True)
class Outcomes:
    """What a model answers on a part of the data, example by example.

    names, answers, targets  of each example, as a person reads them
    errors    how wrong each answer is: the largest are shown
    measures  metrics, the decisive one first; extra: further numbers, such as a count
    classes   names of classes, and true, predicted: the index of the class of each example
    parity    of numbers
    more      further values of each example, for a file: probabilities, predicted numbers, forces
    whole     whether these are all metrics of a finished run; otherwise `final` has further ones
    """

    names: Sequence[str]
    answers: Sequence[str]
    targets: Sequence[str]
    errors: np.ndarray
    measures: Sequence[Measure]
    extra: Mapping[str, float] = field(default_factory=dict)
    classes: Sequence[str] = ()
    true: np.ndarray | None = None
    predicted: np.ndarray | None = None
    parity: Sequence[TrueAndPredicted] = ()
    more: Sequence[Mapping[str, Any]] = ()
    whole: bool = True

    @property
    def values(self) -> dict[str, float]:
        """The metrics and the further numbers by name."""
        return {one.name: one.point for one in self.measures} | dict(self.extra)


# --- measures -------------------------------------------------------------------------------------------------------------
def _ratio(sums: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def _root(sums: np.ndarray) -> np.ndarray:
    return np.sqrt(_ratio(sums))


def _explained(sums: np.ndarray) -> np.ndarray:
    count, total, square, missed = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - missed / (square - total**2 / count))


def _f1(sums: np.ndarray) -> np.ndarray:
    """Of hits [..., C], predicted [..., C] and true [..., C], one after another: the mean F1 of the classes that occur."""
    hits, predicted, true = np.split(sums, 3, axis=-1)
    with np.errstate(invalid="ignore"):
        each = np.where(predicted + true > 0, 2 * hits / np.maximum(predicted + true, 1), np.nan)
        there = ~np.isnan(each)
        return np.asarray(np.where(there, each, 0.0).sum(-1) / np.maximum(there.sum(-1), 1))


def mean(name: str, totals: Any, counts: Any = None, unit: str = "") -> Measure:
    """The sum of `totals` over the sum of `counts` (by default one an example)."""
    totals = np.asarray(totals, dtype=np.float64)
    counts = np.ones_like(totals) if counts is None else np.asarray(counts, dtype=np.float64)
    return Measure(name, np.stack([totals, counts], -1), _ratio, unit=unit)


def rate(name: str, right: Any) -> Measure:
    """The share of the examples that are right: bool [N]."""
    right = np.asarray(right, dtype=np.float64)
    return Measure(name, np.stack([right, np.ones_like(right)], -1), _ratio, rate=True)


def root_mean_square(name: str, squares: Any, counts: Any = None, unit: str = "") -> Measure:
    """The root of the sum of `squares` over the sum of `counts`."""
    one = mean(name, squares, counts)
    return Measure(name, one.sums, _root, unit=unit)


def explained(name: str, true: np.ndarray, predicted: np.ndarray) -> Measure:
    """R²: the share of the variance of `true` [N] that `predicted` [N] explains; 0 for its mean, and less for worse."""
    true = np.asarray(true, dtype=np.float64)
    sums = np.stack([np.ones_like(true), true - true.mean(), (true - true.mean()) ** 2, (true - predicted) ** 2], -1)
    return Measure(name, sums, _explained)


def f1(name: str, true: np.ndarray, predicted: np.ndarray) -> Measure:
    """F1 as the mean over classes (macro F1): bool [N, C] each, or one column for F1 over all labels together (micro F1)."""
    true, predicted = np.asarray(true, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    return Measure(name, np.concatenate([true * predicted, predicted, true], -1), _f1)


def exponential(name: str, of: Measure) -> Measure:
    """exp(of), such as a perplexity of a loss."""
    return Measure(name, of.sums, lambda sums: np.exp(np.minimum(of.value(sums), 700.0)))


def scaled(name: str, of: Measure, scale: float) -> Measure:
    """A metric in another unit."""
    return Measure(name, of.sums, lambda sums: of.value(sums) * scale)


def edits(a: Sequence[str], b: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that make one sequence of the other (Levenshtein 1966)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


# --- intervals ------------------------------------------------------------------------------------------------------------
def wilson(right: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate, `right` of `count`."""
    share, z = right / count, NORMAL
    middle, wide = share + z * z / (2 * count), z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    low, high = ((middle + side * wide) / (1 + z * z / count) for side in (-1, 1))
    return low if right > 0 else 0.0, high if right < count else 1.0  # exactly, where rounding would be shown


def intervals(measures: Sequence[Measure], seed: int = 0) -> list[Interval]:
    """The 95 % interval of each measure; None where fewer than two examples say nothing of a spread."""
    drawn = dict(_resampled([one for one in measures if not one.rate], seed))
    found: list[Interval] = []
    for one in measures:
        if len(one.sums) < 2:
            found.append(None)
        elif one.rate:
            found.append(wilson(float(one.sums[:, 0].sum()), len(one.sums)))
        else:
            found.append(_percentiles(drawn[one.name]))
    return found


class Difference(NamedTuple):
    """The first model's metric minus the second's; p: McNemar's exact p-value, for rates."""

    value: float
    interval: Interval
    p: float | None = None


def differences(first: Sequence[Measure], second: Sequence[Measure], seed: int = 0) -> dict[str, Difference]:
    """Of the metrics of two models on the same examples, in the same order; by name. The examples are resampled for both."""
    pairs = [(a, b) for a in first for b in second if a.name == b.name and len(a.sums) == len(b.sums)]
    drawn = [dict(_resampled([pair[side] for pair in pairs], seed)) for side in (0, 1)]
    found = {}
    for a, b in pairs:
        spread = _percentiles(drawn[0][a.name] - drawn[1][b.name]) if len(a.sums) > 1 else None
        found[a.name] = Difference(a.point - b.point, spread, _mcnemar(a, b) if a.rate and b.rate else None)
    return found


def _mcnemar(a: Measure, b: Measure) -> float:
    """The exact p-value of two equal rates, from the examples that one of the models alone has right."""
    from scipy import stats  # type: ignore[import-untyped]

    only = [int(((x.sums[:, 0] > 0.5) & (y.sums[:, 0] < 0.5)).sum()) for x, y in ((a, b), (b, a))]
    return float(stats.binomtest(only[0], sum(only)).pvalue) if sum(only) else 1.0


def _percentiles(drawn: np.ndarray) -> Interval:
    kept = drawn[np.isfinite(drawn)]
    return (float(np.quantile(kept, 0.025)), float(np.quantile(kept, 0.975))) if len(kept) else None


def _resampled(measures: Sequence[Measure], seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """The values of each measure over RESAMPLES resamples of its examples; of equally many examples, the same resamples."""
    for count in sorted({len(one.sums) for one in measures}):
        same = [one for one in measures if len(one.sums) == count]
        values: dict[str, list[np.ndarray]] = {one.name: [] for one in same}
        draw, left, most = np.random.default_rng(seed), RESAMPLES, max(1, AT_ONCE // max(count, 1))
        while left:
            rows = min(left, most)
            chosen = draw.integers(0, count, (rows, count)) + count * np.arange(rows)[:, None]
            weights = np.bincount(chosen.ravel(), minlength=rows * count).reshape(rows, count).astype(np.float64)
            for one in same:
                values[one.name].append(one.value(weights @ one.sums))
            left -= rows
        yield from ((name, np.concatenate(parts)) for name, parts in values.items())
