"""Case: a small module, a statement about it, and the truth, with its proof in a line."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from equiscope.audit import check
from equiscope.record import Row
from equiscope.symmetry.registry import ACTIONS

VIOLATED = ("approximate", "broken")


@dataclass(frozen=True)
class Case:
    """What a module really does.

    factory    makes the module; parameters come from torch's random numbers, so that a seed gives another one
    inputs     makes the positional arguments, or the arguments themselves
    statement  the name of an action or a property, or a statement itself (`Symmetry`)
    truth      "holds", "broken", "not applicable", "undecided"; "refused" where the model cannot be called at all
    where      the module that breaks it; empty where that is the whole or is not asked
    subgroup   what does hold, in words; output: how the output moves. None: not asked
    says       words that the row has to hold in its note or cause, or the refusal
    settings   further arguments of `check`
    proof      why that is the truth
    """

    name: str
    factory: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]] | tuple[Any, ...]
    statement: Any
    truth: str
    where: str = ""
    says: str = ""
    subgroup: str | None = None
    output: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    proof: str = ""

    def row(self, seed: int = 0) -> Row:
        """The row of the check."""
        given = self.inputs() if callable(self.inputs) else self.inputs
        action = (
            any(a.name == self.statement for a in ACTIONS)
            if isinstance(self.statement, str)
            else hasattr(self.statement, "on_input")
        )
        asked = {"actions": [self.statement] if action else [], "properties": [] if action else [self.statement]}
        settings = {"proof": False} | self.settings  # proofs have tests of their own over these modules
        return check(self.factory(), *given, **asked, seed=seed, **settings).rows[0]


def faults(case: Case, row: Row) -> list[str]:
    """What the package got wrong, in words; empty where it is right."""
    wanted = VIOLATED if case.truth == "broken" else (case.truth,)
    found = []
    if row.verdict not in wanted:
        found.append(
            f"{case.truth} is the truth, {row.verdict} was said (error {row.error}, note {row.note!r}, cause {row.cause!r})"
        )
    if case.where and row.where != case.where:
        found.append(f"{case.where} breaks it, {row.where!r} was said")
    if case.subgroup is not None and row.subgroup != case.subgroup:
        found.append(f"what is left is {case.subgroup!r}, {row.subgroup!r} was said")
    if case.output is not None and row.output != case.output:
        found.append(f"the output moves as {case.output!r}, {row.output!r} was said")
    if case.says and case.says not in f"{row.note} {row.cause}":
        found.append(f"{case.says!r} is not in the note {row.note!r} nor in the cause {row.cause!r}")
    if case.truth in ("undecided", "not applicable") and not row.note:
        found.append("no reason is given")
    return found
