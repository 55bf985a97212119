"""Build the row of a statement in the audit from its errors."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from equiscope.audit.request import Request
from equiscope.audit.subject import Subject
from equiscope.audit.verdict import SEVERITY, StatementErrors, median, violation_bound
from equiscope.record import OutputVerdict, Row


@dataclass(frozen=True)
class Reporter:
    """Builds rows from facts about the whole model: whether the check finished, whether the model is random or constant."""

    subject: Subject
    finished: bool
    is_random: bool
    random_without_dropout: bool
    is_constant: dict[str, bool]

    def row(self, request: Request) -> Row:
        """Return the row of one statement. If the model is impure, a note says how side effects were excluded."""
        row = self._row(request)
        if self.subject.workarounds and row.name != "pure" and row.error is not None:
            note = f"the model is not pure: measured {', '.join(self.subject.workarounds)}"
            row = msgspec.structs.replace(row, note="; ".join(filter(None, [row.note, note])))
        return row

    def _row(self, request: Request) -> Row:
        statement = request.statement
        claimed, reason = statement.claimed(self.subject)
        common = {
            "name": statement.name,
            "kind": statement.kind,
            "summary": statement.summary,
            "claimed": claimed,
            "reason": reason,
        }
        if request.missing:
            return Row(verdict=request.statement.missing_verdict, note=request.missing, passes=request.passes, **common)
        if request.crash:
            return Row(verdict="undecided", note=request.crash, passes=request.passes, **common)
        if request.own_row is not None:
            return msgspec.structs.replace(
                request.own_row,
                claimed=claimed,
                reason=reason,
                fails=self._fails(request, request.own_row.verdict, claimed),
                passes=request.passes,
            )
        if (obstacle := self._why_not_measured(request)) or request.given_errors is None:
            return Row(verdict="undecided", note=obstacle, passes=request.passes, **common)
        measured = [
            (request.given_errors, "given"),
            *(
                [(request.random_errors, "random")]
                if request.random_errors is not None and request.random_errors.high_errors
                else []
            ),
        ]
        worst, parameters = max(measured, key=lambda t: SEVERITY[t[0].verdict])  # the given ones in a tie
        verdict, notes = worst.verdict, [n for n in dict.fromkeys([*request.notes, statement.remark]) if n]
        samples = sum(len(f.high_errors) for f, _ in measured)
        holds = verdict == "holds"
        if (holds and request.rejected) or (not holds and self.random_without_dropout):
            random = "the output is random in evaluation mode, so noise hides whether the statement holds"
            obstacle = "; ".join(notes) if holds else random
            return Row(verdict="undecided", note=obstacle, passes=request.passes, seconds=request.seconds, **common)
        outputs = _outputs([f for f, _ in measured], request.secondary)
        location = None if holds else request.location
        return Row(
            verdict=verdict, output=statement.output(), error=_finite_or_none(worst.error), median=median(worst.high_errors),
            errors=[e if math.isfinite(e) else -1.0 for e in worst.high_errors],
            error32=_finite_or_none(max(worst.low_errors, default=math.nan)),
            floor=worst.low_floor * worst.precision, samples=samples, violation_bound=violation_bound(samples) if holds else None,
            where="" if holds else self._location(request), cause="" if holds else request.cause, parameters=parameters,
            subgroup="" if holds else request.subgroup, fails=self._fails(request, verdict, claimed),
            note="; ".join(self._notes(request, worst, parameters, claimed, notes)), outputs=outputs, coverage=request.coverage,
            counterexample=None if holds else request.counterexample, trail=[] if location is None else location.trail,
            passes=request.passes, lie_derivative=request.lie_derivative, seconds=request.seconds, **common,
        )  # fmt: skip

    def _why_not_measured(self, request: Request) -> str:
        """Return why nothing was measured, or an empty string if something was."""
        if request.given_errors is None or not request.given_errors.high_errors:
            noted = "; ".join(dict.fromkeys(request.notes))
            return noted or ("the check stopped before it was measured" if not self.finished else "nothing could be measured")
        if not request.outputs_compared:
            entry = "sequence" if request.statement.name == "batch" else "token"
            return f"no output has one entry for each {entry}, so there is nothing to compare"
        if not request.inputs_changed:
            return "no change of these inputs is possible. Give larger inputs"
        return ""

    def _notes(self, request: Request, worst: StatementErrors, parameters: str, claimed: str, notes: list[str]) -> list[str]:
        """Return the notes on a measured row, the most important one first."""
        verdict, holds = worst.verdict, worst.verdict == "holds"
        if self.is_random and not self.random_without_dropout:
            notes.append("the model draws random numbers in evaluation mode; measured with dropout off")
        if holds and all(self.is_constant.values()):
            notes.append("the output is constant: other inputs give the same output, so this row says little about the model")
        if worst.deciding_tables and holds:
            notes.insert(0, f"not larger than the rounding of the model's float32 tables ({worst.deciding_tables})")
        if holds and claimed == "no":
            notes.insert(0, "not claimed, but measured to hold")
        if verdict == "undecided":
            alone = f"in one precision {worst.error:.1e} cannot be distinguished from rounding" if worst.one_precision else ""
            notes.insert(0, request.cause or alone or "an error is not finite")
        if parameters == "random" and not holds and request.given_errors is not None:
            notes.insert(0, f"at the given parameters: {request.given_errors.verdict} ({request.given_errors.error:.1e})")
        return notes

    def _location(self, request: Request) -> str:
        """Return the module that breaks the statement; if it is the whole model, the part that the model's own claim names."""
        if request.location is None:
            return ""
        whole = request.location.module == type(self.subject.model).__name__
        return request.statement.deciding_part if whole and request.statement.deciding_part else request.location.module

    def _fails(self, request: Request, verdict: str, claimed: str) -> bool:
        return verdict in ("approximate", "broken") and (
            claimed == "yes" or request.requested or (request.statement.expected and claimed != "no")
        )


def _outputs(measured: list[StatementErrors], secondary: dict[str, str]) -> list[OutputVerdict]:
    """Return the verdict of each output, if there are several."""
    names = list(dict.fromkeys(name for errors in measured for s in errors.high_samples for name in s.errors))
    verdicts: list[OutputVerdict] = []
    for name in names if len(names) > 1 else ():
        worst: Any = max((f.of_output(name) for f in measured if f.high_samples), key=lambda f: SEVERITY[f.verdict])
        note = secondary.get(name, "")
        verdicts.append(
            OutputVerdict(
                name=name, verdict=worst.verdict, error=_finite_or_none(worst.error), decides=name not in secondary, note=note
            )
        )
    return verdicts


def _finite_or_none(error: float) -> float | None:
    """Replace inf and NaN by None, because JSON does not support them."""
    return error if math.isfinite(error) else None
