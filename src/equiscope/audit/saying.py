"""Saying: from the errors of a statement to its row."""

import math
from dataclasses import dataclass

import msgspec

from equiscope.audit.asking import Asked
from equiscope.audit.subject import Subject
from equiscope.audit.verdicts import BAD, bound, median
from equiscope.record import Row


@dataclass(frozen=True)
class Saying:
    """What is known of the model besides: whether time sufficed, and what its character is."""

    subject: Subject
    finished: bool
    draws: bool
    restless: bool
    constant: dict[str, bool]

    def row(self, one: Asked) -> Row:
        """What is said of one statement."""
        statement = one.statement
        claimed, reason = statement.claimed(self.subject)
        said = {"name": statement.name, "kind": statement.kind, "summary": statement.summary, "claimed": claimed, "reason": reason}
        if one.why_not or one.crashed:
            return Row(verdict="undecided", note=one.why_not or one.crashed, passes=one.passes, **said)
        if one.row is not None:
            return msgspec.structs.replace(
                one.row, claimed=claimed, reason=reason, fails=self._fails(one, one.row.verdict, claimed), passes=one.passes
            )
        if one.given is None or not one.given.wide:
            why = "; ".join(dict.fromkeys(one.notes)) or (
                "time ran out before it was measured" if not self.finished else "nothing could be measured"
            )
            return Row(verdict="undecided", note=why, passes=one.passes, **said)
        if not one.compared:
            entry = "sequence" if statement.name == "batch" else "token"
            return Row(
                verdict="undecided",
                note=f"no output has one entry a {entry}, so there is nothing to compare",
                passes=one.passes,
                **said,
            )
        tried = [(one.given, "given"), *([(one.random, "random")] if one.random is not None and one.random.wide else [])]
        if not one.moving:
            why = "nothing is changed in these inputs, so nothing is tried. Give inputs with more in them"
            return Row(verdict="undecided", note=why, passes=one.passes, **said)
        worst, parameters = max(tried, key=lambda t: BAD[t[0].verdict])  # a tie goes to the given ones
        verdict, notes = worst.verdict, [n for n in dict.fromkeys([*one.notes, statement.remark]) if n]
        samples = sum(len(f.wide) for f, _ in tried)
        held = verdict in ("exact", "rounding")
        if (held and one.refused) or (not held and self.restless):
            random = "it draws random numbers in evaluation, so one run cannot tell a broken symmetry from noise"
            why = "; ".join(notes) if held else random
            return Row(verdict="undecided", note=why, passes=one.passes, seconds=one.seconds, **said)
        if self.draws and not self.restless:
            notes.append("it draws random numbers in evaluation; measured without its dropout")
        if held and all(self.constant.values()):
            notes.append("constant: other inputs get the very same answer, so it says nothing about the model")
        if worst.tables and held:
            notes.insert(0, f"no larger than the rounding of tables that the model keeps in float32 ({worst.tables})")
        if verdict == "undecided":
            alone = f"in one precision {worst.error:.1e} cannot be told from rounding" if worst.alone else ""
            notes.insert(0, one.cause or alone or "an error is not finite")
        if parameters == "random" and not held:
            notes.insert(0, f"at the given parameters: {one.given.verdict} ({one.given.error:.1e})")
        return Row(
            verdict=verdict, output=statement.output(), error=_known(worst.error), median=median(worst.wide),
            errors=[e if math.isfinite(e) else -1.0 for e in worst.wide], error32=_known(max(worst.narrow, default=math.nan)),
            floor=worst.floor32 * worst.precision, samples=samples, bound=bound(samples) if held else None,
            where="" if held else self._where(one), cause="" if held else one.cause, parameters=parameters,
            subgroup="" if held else one.subgroup, fails=self._fails(one, verdict, claimed), note="; ".join(notes),
            counterexample=None if held else one.small, trail=[] if held or one.place is None else one.place.trail,
            passes=one.passes, lie=one.lie, seconds=one.seconds, **said,
        )  # fmt: skip

    def _where(self, one: Asked) -> str:
        """The culprit; where that is the whole model, the part of it that its own claim names."""
        if one.place is None:
            return ""
        whole = one.place.module == type(self.subject.model).__name__
        return one.statement.decided if whole and one.statement.decided else one.place.module

    def _fails(self, one: Asked, verdict: str, claimed: str) -> bool:
        return verdict in ("approximate", "broken") and (
            claimed == "yes" or one.requested or (one.statement.expected and claimed != "no")
        )


def _known(error: float) -> float | None:
    """JSON knows no infinity."""
    return error if math.isfinite(error) else None
