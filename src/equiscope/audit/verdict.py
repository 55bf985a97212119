"""Verdict: from errors in two precisions to what they say. No tolerance is tuned to a case.

A rounding error shrinks with the precision, a violation does not (as in `symmetry.measure.verdict`). What was not found in n
samples is bounded: with 95 % confidence it happens in less than 3 of n ("rule of three").
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from equiscope.audit.statements.pairs import Sample
from equiscope.record.audit import Verdict
from equiscope.symmetry.measure import PRECISION, TOLERANCE, shrinks

BAD = {"broken": 4, "undecided": 3, "approximate": 2, "holds": 1, "not applicable": 0}


@dataclass(frozen=True)
class Found:
    """Errors of one statement at one set of parameters: in float64, in the narrower precision, and that one's rounding."""

    wide: list[float]
    narrow: list[float]
    floor32: float
    tolerance: float = TOLERANCE
    precision: float = PRECISION  # of the wide dtype over the narrow one
    explained: str = ""  # tables in float32 whose rounding is as large
    alone: bool = False  # whether there is one precision only: then what is small may be rounding or not
    samples: list[Sample] = field(default_factory=list)  # in the wide precision, those that were measured as pairs
    narrow_samples: list[Sample] = field(default_factory=list)

    def of_output(self, name: str) -> "Found":
        """The same of one output."""
        wide = [s.outputs[name] for s in self.samples if name in s.outputs]
        narrow = [s.outputs[name] for s in self.narrow_samples if name in s.outputs]
        return replace(self, wide=wide, narrow=narrow, samples=[], narrow_samples=[])

    @property
    def error(self) -> float:
        """The worst in the wide precision; not a number where one is and nothing else is broken."""
        worst = max((e for e in self.wide if e == e), default=0.0)
        return worst if worst >= self.tolerance else next((e for e in self.wide if e != e), worst)

    @property
    def verdict(self) -> Verdict:
        errors = [*self.wide, *self.narrow]
        if not self.wide or (any(e != e for e in errors) and not self.error >= self.tolerance):
            return "undecided"  # one sample that is broken is broken, whatever the others say
        if float("inf") in self.wide:
            return "broken"
        if self.alone and 0 < self.error < self.tolerance:
            return "undecided"
        if self.error == 0 or self._shrinks or self.explained:
            return "holds"
        return "approximate" if self.error < self.tolerance else "broken"

    @property
    def tables(self) -> str:
        """The tables that made it rounding: it does not shrink with the precision, but is no larger than theirs."""
        return "" if self._shrinks or self.error == 0 else self.explained

    @property
    def _shrinks(self) -> bool:
        narrow = max([self.floor32, *(e for e in self.narrow if e < float("inf"))])  # a NaN is not less
        return shrinks(self.error, narrow, self.precision)


def bound(samples: int) -> float:
    """With 95 % confidence, violations happen in less than this share, where none of so many samples showed one."""
    return min(1.0, 3 / samples) if samples else 1.0


def median(errors: Sequence[float]) -> float | None:
    return statistics.median(errors) if errors else None
