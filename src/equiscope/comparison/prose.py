"""Prose: numbers, p-values and lists of names, as an answer writes them."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from equiscope.comparison.significance import LEVEL

DECIMALS = 12  # at most


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds."""
    return f"{number(fmean(values))}{f' ± {number(stdev(values))}' if len(values) > 1 else ''}"


def number(value: float) -> str:
    return f"{value:.4g}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def decimal_digits(value: float, digits: int) -> int:
    """Digits after the point that show so many significant digits of a value."""
    return min(DECIMALS, max(0, digits - 1 - math.floor(math.log10(value)))) if value > 0 else digits


def p_text(p: float | None) -> str:
    """A p-value with two digits, or as many as keep it on its side of the level."""
    assert p is not None
    if p < 1e-4:
        return "p < 0.0001"
    return next(
        f"p = {text}" for text in (f"{p:.{digits}g}" for digits in (2, 3, 4, 6, 17)) if (float(text) < LEVEL) == (p < LEVEL)
    )


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"; of names with commas "a; b; and c"."""
    return _joined(names, "and")


def alternatives(names: Sequence[str]) -> str:
    """ "a, b or c"; of names with commas "a; b; or c"."""
    return _joined(names, "or")


def _joined(names: Sequence[str], word: str) -> str:
    if len(names) == 1:
        return names[0]
    if any("," in name for name in names):
        return f"{'; '.join(names[:-1])}; {word} {names[-1]}"
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
