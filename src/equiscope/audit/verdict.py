"""Verdict: from errors in two precisions to what they say. No tolerance is tuned to a case.

A rounding error shrinks with the precision, a violation does not (as in `symmetry.measure.verdict`). What was not found in n
samples is bounded: with 95 % confidence it happens in less than 3 of n ("rule of three").
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from equiscope.audit.statements.pairs import MeasuredPair
from equiscope.record.audit import Verdict
from equiscope.symmetry.measure import PRECISION, TOLERANCE, shrinks

BAD = {"broken": 4, "undecided": 3, "approximate": 2, "holds": 1, "not applicable": 0}


@dataclass(frozen=True)
class StatementErrors:
    """Errors of one statement at one set of parameters: in float64, in the narrower precision, and that one's rounding."""

    high_errors: list[float]
    low_errors: list[float]
    low_floor: float
    tolerance: float = TOLERANCE
    precision: float = PRECISION  # of the wide dtype over the narrow one
    explaining_tables: str = ""  # tables in float32 whose rounding is as large
    one_precision: bool = False  # whether there is one precision only: then what is small may be rounding or not
    high_samples: list[MeasuredPair] = field(default_factory=list)  # in the wide precision, those that were measured as pairs
    low_samples: list[MeasuredPair] = field(default_factory=list)

    def of_output(self, name: str) -> "StatementErrors":
        """The same of one output."""
        high_errors = [s.outputs[name] for s in self.high_samples if name in s.outputs]
        low_errors = [s.outputs[name] for s in self.low_samples if name in s.outputs]
        return replace(self, high_errors=high_errors, low_errors=low_errors, high_samples=[], low_samples=[])

    @property
    def error(self) -> float:
        """The worst in the wide precision; not a number where one is and nothing else is broken."""
        worst = max((e for e in self.high_errors if e == e), default=0.0)
        return worst if worst >= self.tolerance else next((e for e in self.high_errors if e != e), worst)

    @property
    def verdict(self) -> Verdict:
        errors = [*self.high_errors, *self.low_errors]
        if not self.high_errors or (any(e != e for e in errors) and not self.error >= self.tolerance):
            return "undecided"  # one sample that is broken is broken, whatever the others say
        if float("inf") in self.high_errors:
            return "broken"
        if self.one_precision and 0 < self.error < self.tolerance:
            return "undecided"
        if self.error == 0 or self._shrinks or self.explaining_tables:
            return "holds"
        return "approximate" if self.error < self.tolerance else "broken"

    @property
    def unshrunk_tables(self) -> str:
        """The tables that made it rounding: it does not shrink with the precision, but is no larger than theirs."""
        return "" if self._shrinks or self.error == 0 else self.explaining_tables

    @property
    def _shrinks(self) -> bool:
        low_errors = max([self.low_floor, *(e for e in self.low_errors if e < float("inf"))])  # a NaN is not less
        return shrinks(self.error, low_errors, self.precision)


def bound(samples: int) -> float:
    """With 95 % confidence, violations happen in less than this share, where none of so many samples showed one."""
    return min(1.0, 3 / samples) if samples else 1.0


def median(errors: Sequence[float]) -> float | None:
    return statistics.median(errors) if errors else None
