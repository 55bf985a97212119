"""Verdicts: from errors in two precisions to what they say. No tolerance is tuned to a case.

A rounding error shrinks with the precision, a violation does not (as in `symmetry.measure.verdict`). What was not found in n samples
is bounded: with 95 % confidence it happens in less than 3 of n ("rule of three").
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from equiscope.record.audit import Verdict
from equiscope.symmetry.measure import PRECISION, TOLERANCE

BAD = {"undecided": 3, "broken": 4, "approximate": 2, "rounding": 1, "exact": 0}


@dataclass(frozen=True)
class Found:
    """Errors of one statement at one set of parameters: in float64, in the narrower precision, and that one's rounding."""

    wide: list[float]
    narrow: list[float]
    floor32: float
    tolerance: float = TOLERANCE
    precision: float = PRECISION  # of the wide dtype over the narrow one

    @property
    def error(self) -> float:
        """The worst in the wide precision; not a number where one is."""
        return next((e for e in self.wide if e != e), max(self.wide, default=0.0))

    @property
    def verdict(self) -> Verdict:
        errors = [*self.wide, *self.narrow]
        if not self.wide or any(e != e for e in errors):
            return "undecided"
        if max(self.wide) == float("inf"):
            return "broken"
        worst32 = max([self.floor32, *(e for e in self.narrow if e < float("inf"))])
        if self.error == 0:
            return "exact" if max(self.narrow, default=0.0) == 0 else "rounding"
        if self.error < worst32 * self.precision**0.5:
            return "rounding"
        return "approximate" if self.error < self.tolerance else "broken"


def bound(samples: int) -> float:
    """With 95 % confidence, violations happen in less than this share, where none of so many samples showed one."""
    return min(1.0, 3 / samples) if samples else 1.0


def median(errors: Sequence[float]) -> float | None:
    return statistics.median(errors) if errors else None


__all__ = ["BAD", "PRECISION", "Found", "bound", "median"]
