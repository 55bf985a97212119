"""Measured property: a property that is measured in its own way rather than by pairs of runs.

Whatever the model's code raises while it is measured becomes an undecided row with the reason, never a traceback.
"""

import math
from collections.abc import Sequence
from typing import Any

from equiscope.audit.statements.pairs import error
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import ModelError, Outputs, Subject
from equiscope.audit.verdict import StatementErrors, median
from equiscope.record import Row
from equiscope.record.audit import Verdict


class Undecided(Exception):
    """The property cannot be decided; the message says why."""


class MeasuredProperty(Statement):
    """A property with its own measurement: `measure` makes the row, or raises Undecided with the reason."""

    def own_row(self, subject: Subject, tolerance: float, count: int) -> Row | None:
        try:
            return self.measure(subject, tolerance, count)
        except (Undecided, ModelError) as reason:
            return self.row("undecided", note=str(reason))
        except Exception as error:  # a model that is used in an unusual way may raise anything
            text = " ".join(str(error).split())[:160]
            return self.row("undecided", note=f"{type(error).__name__} while it was measured: {text}")

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        """The row. count: the number of samples that the effort allows."""
        raise AssertionError(f"{type(self).__name__} does not define measure()")

    def row(self, verdict: Verdict, errors: Sequence[float] = (), **fields: Any) -> Row:
        """A row of this property. Its error is the worst of these; fields: of the Row."""
        recorded = [e if math.isfinite(e) else -1.0 for e in errors]
        worst = max(errors, default=None, key=lambda e: math.inf if e != e else e)
        finite = worst is not None and math.isfinite(worst)
        measured = {"error": worst if finite else None, "median": median(recorded), "errors": recorded, "samples": len(recorded)}
        return Row(
            name=self.name, kind="property", verdict=verdict, summary=self.summary, **{**measured, "parameters": "given", **fields}
        )


def verdict_of(high_errors: Sequence[float], low_errors: Sequence[float], floor: float, tolerance: float) -> Verdict:
    """The verdict from errors in float64 and in float32."""
    return StatementErrors(list(high_errors), list(low_errors), floor if floor == floor else 0.0, tolerance).verdict


def max_error(expected: Outputs, actual: Outputs) -> float:
    """The worst relative error of the outputs that both have; NaN where one is not finite."""
    errors = [error(t, actual[n]) for n, t in expected.items() if n in actual]
    return max(errors, default=0.0, key=lambda e: math.inf if e != e else e)


__all__ = ["MeasuredProperty", "Undecided", "max_error", "verdict_of"]
