"""Answered: properties that are measured in a way of their own, not by pairs of runs alone.

Whatever other people's code raises on the way becomes an undecided row with the reason, never a traceback of ours.
"""

import math
from collections.abc import Sequence
from typing import Any

from equiscope.audit.statements.pairs import error
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import Crashed, Outputs, Subject
from equiscope.audit.verdict import StatementErrors, median
from equiscope.record import Row
from equiscope.record.audit import Verdict


class Undecided(Exception):
    """It cannot be told; the message says why."""


class MeasuredProperty(Statement):
    """A property with an answer of its own: `answer` makes the row, or raises Undecided with the reason."""

    def own(self, subject: Subject, tolerance: float, count: int) -> Row | None:
        try:
            return self.measure(subject, tolerance, count)
        except (Undecided, Crashed) as reason:
            return self.row("undecided", note=str(reason))
        except Exception as raised:  # a model that is used in an unusual way may raise anything
            text = " ".join(str(raised).split())[:160]
            return self.row("undecided", note=f"{type(raised).__name__} while it was measured: {text}")

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        """The row."""
        raise AssertionError(f"{type(self).__name__} does not say how it is measured")

    def row(self, verdict: Verdict, errors: Sequence[float] = (), **said: Any) -> Row:
        """A row of this property; the worst error decides what is written as its error."""
        shown = [e if math.isfinite(e) else -1.0 for e in errors]
        worst = max(errors, default=None, key=lambda e: math.inf if e != e else e)
        finite = worst is not None and math.isfinite(worst)
        facts = {"error": worst if finite else None, "median": median(shown), "errors": shown, "samples": len(shown)}
        return Row(
            name=self.name, kind="property", verdict=verdict, summary=self.summary, **{**facts, "parameters": "given", **said}
        )


def verdict_of(wide: Sequence[float], narrow: Sequence[float], floor: float, tolerance: float) -> Verdict:
    """From errors in float64 and in float32."""
    return StatementErrors(list(wide), list(narrow), floor if floor == floor else 0.0, tolerance).verdict


def max_error(wanted: Outputs, found: Outputs) -> float:
    """The worst relative error of the outputs that both have; not a number where one is not finite."""
    errors = [error(t, found[n]) for n, t in wanted.items() if n in found]
    return max(errors, default=0.0, key=lambda e: math.inf if e != e else e)


__all__ = ["MeasuredProperty", "Undecided", "max_error", "verdict_of"]
