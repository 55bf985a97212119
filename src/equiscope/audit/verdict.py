"""Compute the verdict on a statement from its errors in two precisions. No tolerance is tuned to a model.

A rounding error shrinks with the precision; a violation does not (as in `symmetry.measure.verdict`). If n samples show no
violation, violations occur with 95 % confidence in less than 3/n of all cases ("rule of three").
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from equiscope.audit.statements.pairs import MeasuredPair
from equiscope.record.audit import Verdict
from equiscope.symmetry.measure import PRECISION, TOLERANCE, shrinks

SEVERITY = {"broken": 4, "undecided": 3, "approximate": 2, "holds": 1, "not applicable": 0}


@dataclass(frozen=True)
class StatementErrors:
    """Errors of one statement at one set of parameters.

    high_errors        in high precision (float64, if the model supports it); low_errors: in low precision
    low_floor          the rounding error of one pass in low precision
    precision          machine epsilon of the high precision divided by that of the low precision
    explaining_tables  float32 tables of the model whose rounding is as large as the error
    one_precision      whether there is only one precision: a small error may then be rounding or a violation
    high_samples       the pairs that were measured in high precision; low_samples: in low precision
    """

    high_errors: list[float]
    low_errors: list[float]
    low_floor: float
    tolerance: float = TOLERANCE
    precision: float = PRECISION
    explaining_tables: str = ""
    one_precision: bool = False
    high_samples: list[MeasuredPair] = field(default_factory=list)
    low_samples: list[MeasuredPair] = field(default_factory=list)

    def of_output(self, name: str) -> "StatementErrors":
        """Return the errors of one output."""
        high_errors = [s.errors[name] for s in self.high_samples if name in s.errors]
        low_errors = [s.errors[name] for s in self.low_samples if name in s.errors]
        return replace(self, high_errors=high_errors, low_errors=low_errors, high_samples=[], low_samples=[])

    @property
    def error(self) -> float:
        """The largest error in high precision; NaN if an error is NaN and no other error reaches the tolerance."""
        worst = max((e for e in self.high_errors if e == e), default=0.0)
        return worst if worst >= self.tolerance else next((e for e in self.high_errors if e != e), worst)

    @property
    def verdict(self) -> Verdict:
        errors = [*self.high_errors, *self.low_errors]
        if not self.high_errors or (any(e != e for e in errors) and not self.error >= self.tolerance):
            return "undecided"  # a broken sample decides the verdict, even if other errors are NaN
        if float("inf") in self.high_errors:
            return "broken"
        if self.one_precision and 0 < self.error < self.tolerance:
            return "undecided"
        if self.error == 0 or self._shrinks or self.explaining_tables:
            return "holds"
        return "approximate" if self.error < self.tolerance else "broken"

    @property
    def deciding_tables(self) -> str:
        """The tables that explain the error, if it does not shrink with the precision."""
        return "" if self._shrinks or self.error == 0 else self.explaining_tables

    @property
    def _shrinks(self) -> bool:
        low_errors = max([self.low_floor, *(e for e in self.low_errors if e < float("inf"))])  # NaN < inf is False
        return shrinks(self.error, low_errors, self.precision)


def violation_bound(samples: int) -> float:
    """Upper bound, with 95 % confidence, on the fraction of violations, if none of the samples shows one."""
    return min(1.0, 3 / samples) if samples else 1.0


def median(errors: Sequence[float]) -> float | None:
    """Return the median, or None without errors."""
    return statistics.median(errors) if errors else None
