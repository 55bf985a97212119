"""Report row: from the errors of a statement to its row."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from equiscope.audit.request import Request
from equiscope.audit.subject import Subject
from equiscope.audit.verdict import BAD, Found, bound, median
from equiscope.record import OutputVerdict, Row


@dataclass(frozen=True)
class Reporter:
    """Makes rows. It holds what is known of the model besides: whether time sufficed, and what its character is."""

    subject: Subject
    finished: bool
    draws: bool
    restless: bool
    constant: dict[str, bool]

    def row(self, one: Request) -> Row:
        """What is said of one statement, and what it was measured without."""
        row = self._row(one)
        if self.subject.without and row.name != "pure" and row.verdict in BAD and row.error is not None:
            note = f"the model is not pure: measured {', '.join(self.subject.without)}"
            row = msgspec.structs.replace(row, note="; ".join(filter(None, [row.note, note])))
        return row

    def _row(self, one: Request) -> Row:
        statement = one.statement
        claimed, reason = statement.claimed(self.subject)
        said = {"name": statement.name, "kind": statement.kind, "summary": statement.summary, "claimed": claimed, "reason": reason}
        if one.why_not:
            return Row(verdict=one.statement.lacking, note=one.why_not, passes=one.passes, **said)
        if one.crashed:
            return Row(verdict="undecided", note=one.crashed, passes=one.passes, **said)
        if one.row is not None:
            return msgspec.structs.replace(
                one.row, claimed=claimed, reason=reason, fails=self._fails(one, one.row.verdict, claimed), passes=one.passes
            )
        if (why := self._not_measured(one)) or one.given is None:
            return Row(verdict="undecided", note=why, passes=one.passes, **said)
        tried = [(one.given, "given"), *([(one.random, "random")] if one.random is not None and one.random.wide else [])]
        worst, parameters = max(tried, key=lambda t: BAD[t[0].verdict])  # a tie goes to the given ones
        verdict, notes = worst.verdict, [n for n in dict.fromkeys([*one.notes, statement.remark]) if n]
        samples = sum(len(f.wide) for f, _ in tried)
        held = verdict == "holds"
        if (held and one.refused) or (not held and self.restless):
            random = "it draws random numbers in evaluation, so one run cannot tell a broken symmetry from noise"
            why = "; ".join(notes) if held else random
            return Row(verdict="undecided", note=why, passes=one.passes, seconds=one.seconds, **said)
        outputs = _outputs([f for f, _ in tried], one.aside)
        return Row(
            verdict=verdict, output=statement.output(), error=_known(worst.error), median=median(worst.wide),
            errors=[e if math.isfinite(e) else -1.0 for e in worst.wide], error32=_known(max(worst.narrow, default=math.nan)),
            floor=worst.floor32 * worst.precision, samples=samples, bound=bound(samples) if held else None,
            where="" if held else self._where(one), cause="" if held else one.cause, parameters=parameters,
            subgroup="" if held else one.subgroup, fails=self._fails(one, verdict, claimed),
            note="; ".join(self._notes(one, worst, parameters, claimed, notes)), outputs=outputs, coverage=one.coverage,
            counterexample=None if held else one.small, trail=[] if held or one.place is None else one.place.trail,
            passes=one.passes, lie=one.lie, seconds=one.seconds, **said,
        )  # fmt: skip

    def _not_measured(self, one: Request) -> str:
        """Why nothing was measured; empty where something was."""
        if one.given is None or not one.given.wide:
            noted = "; ".join(dict.fromkeys(one.notes))
            return noted or ("time ran out before it was measured" if not self.finished else "nothing could be measured")
        if not one.compared:
            entry = "sequence" if one.statement.name == "batch" else "token"
            return f"no output has one entry a {entry}, so there is nothing to compare"
        if not one.moving:
            return "no change of these inputs could be tried. Give larger inputs"
        return ""

    def _notes(self, one: Request, worst: Found, parameters: str, claimed: str, notes: list[str]) -> list[str]:
        """What else is to be said of a row that was measured, the most important first."""
        verdict, held = worst.verdict, worst.verdict == "holds"
        if self.draws and not self.restless:
            notes.append("it draws random numbers in evaluation; measured without its dropout")
        if held and all(self.constant.values()):
            notes.append("constant: other inputs get the very same answer, so it says nothing about the model")
        if worst.tables and held:
            notes.insert(0, f"no larger than the rounding of tables that the model keeps in float32 ({worst.tables})")
        if held and claimed == "no":
            notes.insert(0, "not claimed, but measured to hold")
        if verdict == "undecided":
            alone = f"in one precision {worst.error:.1e} cannot be told from rounding" if worst.alone else ""
            notes.insert(0, one.cause or alone or "an error is not finite")
        if parameters == "random" and not held and one.given is not None:
            notes.insert(0, f"at the given parameters: {one.given.verdict} ({one.given.error:.1e})")
        return notes

    def _where(self, one: Request) -> str:
        """The module that breaks it; where that is the whole model, the part of it that its own claim names."""
        if one.place is None:
            return ""
        whole = one.place.module == type(self.subject.model).__name__
        return one.statement.decided if whole and one.statement.decided else one.place.module

    def _fails(self, one: Request, verdict: str, claimed: str) -> bool:
        return verdict in ("approximate", "broken") and (
            claimed == "yes" or one.requested or (one.statement.expected and claimed != "no")
        )


def _outputs(tried: list[Found], aside: dict[str, str]) -> list[OutputVerdict]:
    """The verdict of each output, where there are several."""
    names = list(dict.fromkeys(name for found in tried for s in found.samples for name in s.outputs))
    made: list[OutputVerdict] = []
    for name in names if len(names) > 1 else ():
        worst: Any = max((f.of_output(name) for f in tried if f.samples), key=lambda f: BAD[f.verdict])
        note = aside.get(name, "")
        made.append(
            OutputVerdict(name=name, verdict=worst.verdict, error=_known(worst.error), decides=name not in aside, note=note)
        )
    return made


def _known(error: float) -> float | None:
    """JSON knows no infinity."""
    return error if math.isfinite(error) else None
