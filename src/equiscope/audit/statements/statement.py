"""Statements about a model: each makes the pairs of runs that check it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, ClassVar, Protocol, Union, runtime_checkable

import torch
from torch import Generator

from equiscope.audit.inputs.lengths import longest
from equiscope.audit.statements.pairs import Equivariant, RunPair, error
from equiscope.audit.subject import ModelError, Pass, Subject, shortened
from equiscope.record import Coverage, Row
from equiscope.record.audit import Claimed, Verdict
from equiscope.symmetry import Action, Inputs

Output = str | dict[str, str] | None


@runtime_checkable
class CustomAction(Protocol):
    """A user's own action: it transforms the inputs; `on_output` (optional) transforms the outputs, `sample` draws elements."""

    def on_input(self, inputs: Any, /) -> Any:
        """The transformed inputs."""


ActionChoice = str | type[Any] | CustomAction  # a name, a class, or one element
PropertyChoice = Union[str, type["Statement"], "Statement"]


@dataclass
class Screening:
    """Many samples of a statement, several in one call of the model.

    errors    of every sample
    suspects  pairs that reproduce the worst errors, to be measured on their own
    """

    errors: list[float] = field(default_factory=list)
    suspects: list[RunPair] = field(default_factory=list)
    coverage: Coverage | None = None


TRANSFORMS = 1e-9  # in float64: an output with a smaller error transforms in this way


class Statement:
    """Something that may be true of a model.

    expected         of every sound model: the check fails where it does not hold (sequences of a batch are independent)
    by_default       whether `check` measures it where no property is named
    of_decoder       whether it is about the decoder of an encoder-decoder
    inside           whether tensors inside the model satisfy the relation too, so that the first that does not is the fault
    missing_verdict  the verdict where something is missing: undecided where another machine could measure it
    deciding_part    the part that the model's own claim names; set by `claimed`
    remark           a note for the row; set by `pairs`
    """

    name: str
    summary: str
    kind: ClassVar[Any] = "property"
    expected: bool = False
    by_default: bool = True
    of_decoder: bool = False
    inside: bool = True
    missing_verdict: ClassVar[Verdict] = "not applicable"
    remark: str = ""
    deciding_part: str = ""

    def missing(self, subject: Subject) -> str:
        """Why the statement does not apply to this model and these inputs; empty where it applies."""
        return ""

    def own_row(self, subject: Subject, tolerance: float, count: int) -> Row | None:
        """The row of a property that is measured in its own way (a drift, a layout); None where pairs of runs decide."""
        return None

    def screen(self, run: Pass, effort: str) -> Screening:
        """Samples that are cheaper together than as pairs: all positions of the input, several in a batch; other lengths."""
        return Screening()

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        """About `count` pairs of runs; the same for the same generator."""
        raise AssertionError(f"{type(self).__name__} makes no pairs")

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        """Candidates for a smaller counterexample, the smallest first."""
        return iter(())

    def subgroups(self, run: Pass) -> Iterator[tuple[str, list[RunPair]]]:
        """Weaker statements that may hold where this one does not: description and pairs."""
        return iter(())

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        """Whether the model claims it, and why."""
        return "unknown", ""

    def output(self) -> str:
        """How the output transforms, in a word."""
        return ""

    def explain_secondary(self, run: Pass, pair: RunPair, output: str) -> str:
        """How an output that does not decide violates the statement, in words."""
        return ""

    def cause(self, run: Pass, pair: RunPair, where: str) -> str:
        """The cause in words, beyond the module; empty where none is known."""
        from equiscope.audit.diagnose.cause import cause  # imports the properties itself

        return cause(self.name, run, pair, where)


class Symmetry(Statement):
    """The outputs transform under every element of an action.

    output           "invariant", "permuted", "vector", ... for all outputs or by name; None infers what holds
    representations  output name -> how it transforms, given or inferred
    """

    kind: ClassVar[Any] = "action"

    def __init__(self, action: Any, output: Output = None) -> None:  # or a user's own class
        self.action: type[Action] | Action = action
        self.requested_output = output
        group: Any = action if isinstance(action, type) else type(action)
        self.group, self.name, self.summary = group, getattr(group, "name", group.__name__), getattr(group, "summary", "")
        self.inside = getattr(group, "inside", False)
        self.representations: dict[str, str] = {}
        self.ambiguous = False  # whether an output may transform in more than one way
        self.undistinguished = False  # whether several ways had no error: an output that is zero satisfies all

    def missing(self, subject: Subject) -> str:
        return self.group.missing(subject.inputs) if issubclass(self.group, Action) else ""

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        inputs = run.inputs
        action_inputs = inputs if self.is_builtin else inputs.single
        if isinstance(self.action, type):
            many = getattr(self.action, "samples", None)
            elements = (
                many(action_inputs, generator, count)
                if many
                else [self.action.sample(action_inputs, generator) for _ in range(count)]
            )
        else:
            elements = [self.action]
        return [self.pair(inputs, element) for element in elements] + self._far(run)

    def _far(self, run: Pass) -> list[RunPair]:
        """Elements far beyond those that are drawn, if the model accepts them: some models have a limit."""
        far = getattr(self.action, "far", None)
        if far is None or not isinstance(self.action, type) or not run.high_precision or run.random:
            return []
        pairs = [self.pair(run.inputs, element) for element in far(run.inputs, longest(run.subject.model))]
        return [pair for pair in pairs if _is_accepted(run, pair.transformed)]

    def pair(self, inputs: Inputs, element: Any) -> RunPair:
        """The pair for one element."""
        action_inputs = inputs if self.is_builtin else inputs.single
        transformed = element.on_input(action_inputs)
        if not isinstance(transformed, Inputs):
            transformed = inputs.with_values({next(iter(inputs.values)): transformed})
        text = element.describe() if hasattr(element, "describe") else str(element)
        original = element.element() if hasattr(element, "element") else {}
        return RunPair(
            inputs, transformed, Equivariant(_complete(element), self.representations, inputs.length, inputs), text, original
        )

    def infer_representations(self, run: Pass, pair: RunPair, axes: dict[str, tuple[int, ...]]) -> None:
        """Infer from one pair how each output transforms, where it is not given. Several ways may have no error for this pair."""
        original, transformed = pair.outputs(run)
        relation = pair.relation
        assert isinstance(relation, Equivariant)
        self.undistinguished = self.ambiguous = False
        for name, t in original.items():
            requested = self.requested_output.get(name) if isinstance(self.requested_output, dict) else self.requested_output
            ways = relation.action.possible_representations(requested, t, axes.get(name, ()), run.inputs)
            if len(ways) == 1 or name not in transformed:
                self.representations[name] = ways[0]
                continue
            self.ambiguous = True
            errors = [error(*relation.action.sides(t, transformed[name], way, axes.get(name, ()))) for way in ways]
            right = [way for way, x in zip(ways, errors, strict=True) if x < TRANSFORMS]  # of several, the most common
            self.undistinguished = self.undistinguished or len(right) > 1
            self.representations[name] = (
                right[0] if right else ways[min(range(len(ways)), key=lambda i: (errors[i] != errors[i], errors[i]))]
            )

    def distinguishing_pair(self, run: Pass, pair: RunPair) -> RunPair:
        """The pair that distinguishes the ways to transform; this one, where any pair does."""
        make = getattr(self.group, "distinguishing", None)
        element = make(run.inputs) if make and self.is_builtin and isinstance(self.action, type) else None
        return pair if element is None else self.pair(run.inputs, element)

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        if not self.is_builtin:
            return
        sizes = [length for length in (2, 3) if (run.inputs.length or 0) > length]
        shortens = self.group.shortens and not run.inputs.has("edges")
        candidates = [*(shortened(run.inputs, length) for length in sizes if shortens), run.inputs]

        def of(inputs: Inputs) -> Iterator[RunPair]:
            return (self.pair(inputs, element) for element in self.group.simpler(inputs))

        series = [of(inputs) for inputs in candidates]
        if hasattr(self.group, "far"):  # a small offset is simpler than a short input
            yield from filter(None, chain.from_iterable(zip_longest(*series)))
        else:
            yield from chain.from_iterable(series)

    def subgroups(self, run: Pass) -> Iterator[tuple[str, list[RunPair]]]:
        if isinstance(self.action, type) and self.is_builtin:
            for words, elements in self.action.subgroups(run.inputs):
                if elements:
                    yield words, [self.pair(run.inputs, element) for element in elements]

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        from equiscope.symmetry import derive

        ours = hasattr(subject.model, "moving_parts") or hasattr(subject.model, "claimed")
        if not ours or not self.is_builtin or not isinstance(self.action, type):
            return "unknown", ""
        claim = next((c for c in derive(subject.model) if c.action == self.name), None)
        if claim is None:
            return "unknown", ""
        self.deciding_part = claim.decided_by if claim.decided_by in dict(subject.model.named_modules()) else ""
        deciding_part = f"{claim.decided_by}: {claim.reason}" if claim.decided_by else claim.reason
        return ("yes" if claim.holds else "no"), deciding_part

    def output(self) -> str:
        ways = sorted(set(self.representations.values()))
        if len(ways) <= 1:
            return ways[0] if ways else ""
        return ", ".join(f"{name}: {way}" for name, way in self.representations.items())

    @property
    def is_builtin(self) -> bool:
        return bool(getattr(self.group, "acts_on", ()))


def _is_accepted(run: Pass, inputs: Any) -> bool:
    if next(run.model.parameters(), torch.empty(0)).device.type == "cuda":  # an index out of range ends the process
        return False
    try:
        run(inputs)
    except ModelError:
        return False
    return True


def _complete(element: Any) -> Action:
    """A user's own element as an Action."""
    if isinstance(element, Action):
        return element

    class Own(Action):
        """A user's element as an Action."""

        name = getattr(type(element), "name", type(element).__name__)
        summary = ""

        def on_output(self, output: torch.Tensor) -> torch.Tensor:
            transformed: torch.Tensor = element.on_output(output) if hasattr(element, "on_output") else output
            return transformed

    return Own()
