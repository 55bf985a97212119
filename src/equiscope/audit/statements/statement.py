"""Statements: what can be said about a model and checked; each makes pairs of runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Generator

from equiscope.audit.statements.pairs import Equivariant, RunPair, error
from equiscope.audit.subject import Pass, Subject, shortened
from equiscope.record import Coverage, Row
from equiscope.record.audit import Claimed, Verdict
from equiscope.symmetry import Action, Inputs

Output = str | dict[str, str] | None


@dataclass
class Screening:
    """Many samples of a statement, taken several in one call of the model.

    errors    of every sample
    suspects  pairs that show what looked wrong, to be measured on their own
    """

    errors: list[float] = field(default_factory=list)
    suspects: list[RunPair] = field(default_factory=list)
    coverage: Coverage | None = None


SAME = 1e-9  # in float64: below it an output moves in this way


class Statement:
    """Something that may be true of a model.

    expected   of every model: a row that makes the check fail where it does not hold (a batch's rows do not meet)
    of_decoder whether it is asked of the decoder of an encoder-decoder
    inside     whether the numbers inside follow the relation too, so that the first that does not is the culprit
    lacking    the verdict where something is missing: undecided where another machine could answer
    decided    the part that the model's own claim names, once `claimed` was asked
    remark     what was noticed besides, for the note of the row; set while pairs are made
    """

    name: str
    summary: str
    kind: ClassVar[Any] = "property"
    expected: bool = False
    of_decoder: bool = False
    inside: bool = True
    lacking: ClassVar[Verdict] = "not applicable"
    remark: str = ""
    decided: str = ""

    def missing(self, subject: Subject) -> str:
        """Why it cannot be asked of this model and these inputs; empty where it can."""
        return ""

    def own(self, subject: Subject, tolerance: float, count: int) -> Row | None:
        """The row of a property that is measured in its own way (a drift, a layout); None where pairs of runs tell."""
        return None

    def screen(self, run: Pass, effort: str) -> Screening:
        """Samples that are cheaper together than as pairs: every position of the input, several in a batch; other lengths."""
        return Screening()

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        """So many pairs of runs, about; the same for the same generator."""
        raise AssertionError(f"{type(self).__name__} makes no pairs")

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        """Where a smaller counterexample is looked for, the smallest first."""
        return iter(())

    def subgroups(self, run: Pass) -> Iterator[tuple[str, list[RunPair]]]:
        """What may hold where the whole does not."""
        return iter(())

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        """What the model says itself, and why."""
        return "unknown", ""

    def output(self) -> str:
        """How the output moves, in a word."""
        return ""

    def explain_secondary(self, run: Pass, pair: RunPair, output: str) -> str:
        """What an output that does not decide does, in words, where it is not what the statement says."""
        return ""

    def cause(self, run: Pass, pair: RunPair, where: str) -> str:
        """What is wrong, in words, beyond what the localisation says; empty where that says enough."""
        from equiscope.audit.diagnose.cause import cause  # it asks the properties in turn

        return cause(self.name, run, pair, where)


class Symmetry(Statement):
    """The output moves as an action says, for any element of it.

    output  "invariant", "permuted", "vector", ... for all outputs or by name; None finds out what holds
    """

    kind: ClassVar[Any] = "action"

    def __init__(self, action: Any, output: Output = None) -> None:  # or a class of the user's own
        self.action: type[Action] | Action = action
        self.asked = output
        group: Any = action if isinstance(action, type) else type(action)
        self.group, self.name, self.summary = group, getattr(group, "name", group.__name__), getattr(group, "summary", "")
        self.inside = getattr(group, "inside", False)
        self.representations: dict[str, str] = {}
        self.ambiguous = False  # whether an output may move in more than one way
        self.undistinguished = False  # whether more than one way of moving served: a head that begins at zero tells nothing

    def missing(self, subject: Subject) -> str:
        return self.group.missing(subject.inputs) if issubclass(self.group, Action) else ""

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        inputs = run.inputs
        given = inputs if self.listed else inputs.alone
        if isinstance(self.action, type):
            many = getattr(self.action, "samples", None)
            elements = many(given, generator, count) if many else [self.action.sample(given, generator) for _ in range(count)]
        else:
            elements = [self.action]
        return [self.pair(inputs, element) for element in elements]

    def pair(self, inputs: Inputs, element: Any) -> RunPair:
        """The pair of one element."""
        given = inputs if self.listed else inputs.alone
        transformed = element.on_input(given)
        if not isinstance(transformed, Inputs):
            transformed = inputs.with_values({next(iter(inputs.values)): transformed})
        text = element.told() if hasattr(element, "told") else str(element)
        original = element.element() if hasattr(element, "element") else {}
        return RunPair(
            inputs, transformed, Equivariant(_complete(element), self.representations, inputs.length, inputs), text, original
        )

    def infer_representations(self, run: Pass, pair: RunPair, axes: dict[str, tuple[int, ...]]) -> None:
        """Find out how each output moves, from one pair, where nobody said. Ways that this pair cannot tell apart stay open."""
        original, transformed = pair.outputs(run)
        relation = pair.relation
        assert isinstance(relation, Equivariant)
        self.undistinguished = self.ambiguous = False
        for name, t in original.items():
            said = self.asked.get(name) if isinstance(self.asked, dict) else self.asked
            ways = relation.action.ways(said, t, axes.get(name, ()), run.inputs)
            if len(ways) == 1 or name not in transformed:
                self.representations[name] = ways[0]
                continue
            self.ambiguous = True
            errors = [error(*relation.action.sides(t, transformed[name], way, axes.get(name, ()))) for way in ways]
            right = [way for way, x in zip(ways, errors, strict=True) if x < SAME]  # of ways that serve alike, the likeliest
            self.undistinguished = self.undistinguished or len(right) > 1
            self.representations[name] = (
                right[0] if right else ways[min(range(len(ways)), key=lambda i: (errors[i] != errors[i], errors[i]))]
            )

    def distinguishing_pair(self, run: Pass, pair: RunPair) -> RunPair:
        """The pair by which the ways of moving are told apart; this one, where any will do."""
        make = getattr(self.group, "telling", None)
        element = make(run.inputs) if make and self.listed and isinstance(self.action, type) else None
        return pair if element is None else self.pair(run.inputs, element)

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        if not self.listed:
            return
        for length in (2, 3):
            if (run.inputs.length or 0) > length and self.group.shortens and not run.inputs.has("edges"):
                fewer = shortened(run.inputs, length)
                yield from (self.pair(fewer, element) for element in self.group.simpler(fewer))
        yield from (self.pair(run.inputs, element) for element in self.group.simpler(run.inputs))

    def subgroups(self, run: Pass) -> Iterator[tuple[str, list[RunPair]]]:
        if isinstance(self.action, type) and self.listed:
            for words, elements in self.action.subgroups(run.inputs):
                if elements:
                    yield words, [self.pair(run.inputs, element) for element in elements]

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        from equiscope.symmetry import derive

        ours = hasattr(subject.model, "moving_parts") or hasattr(subject.model, "claimed")
        if not ours or not self.listed or not isinstance(self.action, type):
            return "unknown", ""
        claim = next((c for c in derive(subject.model) if c.action == self.name), None)
        if claim is None:
            return "unknown", ""
        self.decided = claim.decided_by if claim.decided_by in dict(subject.model.named_modules()) else ""
        decided = f"{claim.decided_by}: {claim.reason}" if claim.decided_by else claim.reason
        return ("yes" if claim.holds else "no"), decided

    def output(self) -> str:
        ways = sorted(set(self.representations.values()))
        if len(ways) <= 1:
            return ways[0] if ways else ""
        return ", ".join(f"{name}: {way}" for name, way in self.representations.items())

    @property
    def listed(self) -> bool:
        return bool(getattr(self.group, "acts_on", ()))


def _complete(element: Any) -> Action:
    """A user's own element, with what an Action adds."""
    if isinstance(element, Action):
        return element

    class Own(Action):
        """Somebody's element, as an Action."""

        name = getattr(type(element), "name", type(element).__name__)
        summary = ""

        def on_output(self, output: torch.Tensor) -> torch.Tensor:
            transformed: torch.Tensor = element.on_output(output) if hasattr(element, "on_output") else output
            return transformed

    return Own()
