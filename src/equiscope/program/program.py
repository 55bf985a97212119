"""A program: every value of one run of a model and the step that computed it; it can run again with changes.

Leaves are inputs, weights and constants; each step calls a torch function on earlier values. A value is assigned once: an in-place
write is a step that makes a new value, and an alias of a written tensor is read again from its storage.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from equiscope.errors import InputError, UnknownName
from equiscope.program.source import NOWHERE, SourceLocation
from equiscope.record import display

Kind = Literal["input", "parameter", "buffer", "constant", "chance", "unknown"]
Level = Literal["function", "aten", "alias"]
PRINTED = 15  # steps at each end of a long program that an interpreter prints


@dataclass(frozen=True)
class Ref:
    """A value of the program, where a call had a tensor."""

    id: int


@dataclass(frozen=True)
class Written:
    """An output that is an argument written in place: the index among the call's tensor arguments."""

    argument: int


@dataclass(eq=False)
class Leaf:
    """A value that the program reads and does not compute.

    kind   chance: random numbers that the model drew; unknown: made by code that was not recorded, an error
    where  path of the module that used it first
    source location in the model's code, for constants
    """

    id: int
    name: str
    kind: Kind
    value: Tensor
    where: str = ""
    source: SourceLocation = NOWHERE


@dataclass(eq=False)
class Step:
    """A call of a torch function.

    op       its name without underscores: `iadd` and `add_` are "add"
    args     of the call, with a Ref for each tensor
    outputs  values that it computes, and the index of each among the call's results
    where    path of the module; call_index: which call of that module
    level    "function": as the model calls it; "aten": an ATen call outside a recorded function; "alias": a storage read again
             after a write
    python_value  the value that Python read, for a step whose result leaves torch (`exits`)
    source   location in the model's code
    """

    op: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[tuple[int, int | Written]]
    where: str = ""
    call_index: int = 0
    level: Level = "function"
    python_value: Any = None
    exits: bool = False
    inputs: tuple[int, ...] = ()
    source: SourceLocation = NOWHERE


class ReplayDiverged(InputError):
    """With these changes the model may take another branch: the recorded steps may not be what it computes.

    step  whose Python value differs; recorded: the value when it was watched; replayed: the value now
    """

    def __init__(self, step: Step, replayed: Any) -> None:
        super().__init__(step, replayed)
        self.step, self.recorded, self.replayed = step, step.python_value, replayed

    def __str__(self) -> str:
        where = self.step.where or "the model"
        return (
            f"In {where} Python called {self.step.op}: it got {_short(self.recorded)} when the model was watched, and "
            f"would now get {_short(self.replayed)}, so the model may take another branch. Watch it again on these numbers."
        )


@dataclass
class ProgramRun:
    """All values of one replay, by id or by name. divergences: steps whose Python value differs from the recorded one."""

    values: dict[int, Tensor]
    program: "Program"
    divergences: list[ReplayDiverged] = field(default_factory=list)

    def __getitem__(self, value: int | str) -> Tensor:
        return self.values[self.program.id(value)]

    @property
    def outputs(self) -> dict[str, Tensor]:
        """The model's outputs by path ("" for a single tensor)."""
        return {path: self.values[value] for path, value in self.program.outputs.items()}


class ValueLabel(NamedTuple):
    """Symbol, axes and label of a value: from the legend of a module, or from an input that names itself."""

    symbol: str
    axes: tuple[str, ...]
    label: str
    kind: str = ""


@dataclass(repr=False)
class Program:
    """Leaves, steps in the order in which they ran, and every recorded value.

    outputs  value by path in the model's output; output: the output itself
    names    value by name: leaves by the model's names, results of steps as "layers.0.attention.softmax"
    legend   by name of a parameter, a buffer or a submodule: its label, or the label of what it returns
    inside   by path of a submodule in a legend: the module whose legend it is
    labels   by value: of inputs that name themselves, and of what submodules in a legend return
    notes    what was recorded and cannot be replayed
    """

    leaves: list[Leaf] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    values: dict[int, Tensor] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    output: Any = None
    legend: dict[str, ValueLabel] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)
    labels: dict[int, ValueLabel] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """Counts, and the steps with their shapes; of a long program its first and last ones."""
        return display.text(self._heading, self._rows)

    def _repr_html_(self) -> str:
        """What a notebook shows. `eq.show(program)` is the page, with every number."""
        return display.html(self._heading, ("value", "operation", "shape"), self._rows)

    @property
    def _heading(self) -> str:
        kinds = [leaf.kind for leaf in self.leaves]
        counts = ", ".join(f"{kinds.count(kind)} {kind}{'s' * (kinds.count(kind) > 1)}" for kind in dict.fromkeys(kinds))
        return f"Program of {len(self.steps)} steps on {counts}"

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        rows = [
            (self.name(value), step.op, str(list(self.values[value].shape))) for step in self.steps for value, _ in step.outputs
        ]
        if len(rows) > 2 * PRINTED:
            rows = [*rows[:PRINTED], ("…", f"{len(rows) - 2 * PRINTED} more", ""), *rows[-PRINTED:]]
        return rows

    def id(self, value: int | str) -> int:
        """A value by its name. Raises UnknownName for one that the program does not have."""
        number = self.names.get(value) if isinstance(value, str) else value if value in self.values else None
        if number is None:
            raise UnknownName("value of this program", value, list(self.names), "program.names has all.")
        return number

    def run(self, changes: Mapping[int | str, Tensor] | None = None, strict: bool = True) -> ProgramRun:
        """Recompute every value after changing some leaves or steps.

        changes  new numbers by id or name; a changed step is not run
        strict   raise where the model may take another branch; else store it in `ProgramRun.divergences`
        raises   ReplayDiverged; UnknownName for an unknown value; InputError for numbers of another shape
        """
        changed = {self.id(name): value for name, value in (changes or {}).items()}
        for name, value in changed.items():
            if value.shape != self.values[name].shape:
                raise InputError(f"{self.name(name)} has shape {list(self.values[name].shape)}, but got {list(value.shape)}.")
            changed[name] = with_layout(value, self.values[name])
        run = ProgramRun({leaf.id: changed.get(leaf.id, leaf.value) for leaf in self.leaves}, self)
        with torch.no_grad():
            for step in self.steps:
                try:
                    self._run_step(step, run, changed)
                except ReplayDiverged as error:
                    if strict:
                        raise
                    run.divergences.append(error)
        return run

    def _run_step(self, step: Step, run: ProgramRun, changed: dict[int, Tensor]) -> None:
        values = run.values
        written = {index.argument for _, index in step.outputs if isinstance(index, Written)}
        arguments: list[Tensor] = []

        def read(x: Any) -> Any:
            if not isinstance(x, Ref):
                return x
            arguments.append(values[x.id].clone() if len(arguments) in written else values[x.id])
            return arguments[-1]

        args, kwargs = each(step.args, read), each(step.kwargs, read)
        result = step.call(*args, **kwargs)
        results = list(leaves_of(result))
        for value, index in step.outputs:
            output = arguments[index.argument] if isinstance(index, Written) else results[index]
            values[value] = changed.get(value, output)
        if step.exits and not same_value(result, step.python_value):
            raise ReplayDiverged(step, result)

    def name(self, value: int) -> str:
        """The name of a value."""
        return next((name for name, one in self.names.items() if one == value), str(value))

    def needed(self) -> list[Step]:
        """The steps that the outputs depend on."""
        wanted, steps = set(self.outputs.values()), []
        for step in reversed(self.steps):
            if any(value in wanted for value, _ in step.outputs):
                wanted.update(step.inputs)
                steps.append(step)
        return steps[::-1]

    def depending_on(self, *kinds: Kind) -> set[int]:
        """Values that depend on leaves of these kinds, including the leaves."""
        values = {leaf.id for leaf in self.leaves if leaf.kind in kinds}
        for step in self.steps:
            if any(value in values for value in step.inputs):
                values.update(value for value, _ in step.outputs)
        return values


def each(some: Any, what: Callable[[Any], Any]) -> Any:
    """Nested arguments with a function applied to every entry that is no container."""
    if isinstance(some, (list, tuple)) and not isinstance(some, torch.Size):
        items = [each(x, what) for x in some]
        return items if isinstance(some, list) else type(some)(*items) if hasattr(some, "_fields") else tuple(items)
    if isinstance(some, dict):
        return {key: each(x, what) for key, x in some.items()}
    if isinstance(some, slice):
        return slice(*(each(x, what) for x in (some.start, some.stop, some.step)))
    return what(some)


def leaves_of(some: Any) -> Iterator[Any]:
    """The entries of nested arguments or results, in order."""
    if isinstance(some, (list, tuple)):
        for x in some:
            yield from leaves_of(x)
    elif isinstance(some, dict):
        yield from leaves_of(list(some.values()))
    elif isinstance(some, slice):
        yield from leaves_of([some.start, some.stop, some.step])
    else:
        yield some


def with_layout(t: Tensor, like: Tensor) -> Tensor:
    """The same numbers with the strides and dtype of the recorded tensor, so that its views stay views."""
    t = t.detach().to(like.dtype)
    if t.stride() == like.stride() or any(step == 0 and n > 1 for n, step in zip(like.shape, like.stride(), strict=True)):
        return t
    return torch.empty_like(like).copy_(t)


def same_value(a: Any, b: Any) -> bool:
    """Whether Python read the same value; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    equal = (a == b) | ((a != a) & (b != b))
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) < 60 else f"{text[:57]}..."
