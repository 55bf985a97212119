"""A program: every value of one run of a model and the step that computed it; it can run again with changes.

Leaves are inputs, weights and constants; each step calls a torch function on earlier values. A value is assigned once: an in-place
write is a step that makes a new value, and an alias of a written tensor is read again from its storage.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from equiscope.errors import InputError, UnknownName, counted
from equiscope.program.attention_values import AttentionValues, attention_values
from equiscope.program.source import NOWHERE, SourceLocation
from equiscope.record import display

Kind = Literal["input", "parameter", "buffer", "constant", "chance", "unknown"]
Level = Literal["function", "aten", "alias"]
NewValue = Callable[[Tensor], Tensor]
Edit = Callable[[Tensor, Mapping[int, Tensor]], Tensor]
LAYER = re.compile(r"layers\.(\d+)\.attention")
INDEXED = re.compile(r"(.+)\[(-?\d+)\]")
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
    where    path of the module
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
        counts = ", ".join(counted(kinds.count(kind), kind) for kind in dict.fromkeys(kinds))
        return f"Program of {counted(len(self.steps), 'step')} on {counts}"

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        rows = [
            (self.name(value), step.op, str(list(self.values[value].shape))) for step in self.steps for value, _ in step.outputs
        ]
        if len(rows) > 2 * PRINTED:
            rows = [*rows[:PRINTED], ("…", f"{len(rows) - 2 * PRINTED} more", ""), *rows[-PRINTED:]]
        return rows

    def id(self, value: int | str) -> int:
        """A value by its name, or by its role in attention: "layers.2.attention.weights", "blocks.2.attention.q".

        Roles are q, k, v, scores, weights and output, of a module by its path, or of layers in the order in which their attention
        runs. Raises UnknownName for a value that the program does not have.
        """
        if isinstance(value, int):
            number = value if value in self.values else None
        else:
            number = self.names.get(value)
            number = self._role(value) if number is None else number
        if number is None:
            raise UnknownName("value of this program", value, list(self.names), "program.names has all.")
        return number

    def _role(self, name: str) -> int | None:
        """The value of a role in attention; None for another name."""
        path, _, role = name.rpartition(".")
        if role not in AttentionValues._fields[1:]:
            return None
        attentions = list(attention_values(self))
        layer = LAYER.fullmatch(path)
        found = [one for one in attentions if one.path == path]
        if not found and layer and int(layer[1]) < len(attentions):
            found = [attentions[int(layer[1])]]
        return int(getattr(found[0], role)) if found else None

    def _part(self, name: int | str) -> tuple[int, tuple[Any, ...]]:
        """A value, and the index of its part: of "layers.2.attention.weights[3]" head 3, of other values along their first axis."""
        indexed = INDEXED.fullmatch(name) if isinstance(name, str) and name not in self.names else None
        if indexed is None:
            return self.id(name), ()
        value, number = self.id(indexed[1]), int(indexed[2])
        rank = self.values[value].ndim
        heads = indexed[1] not in self.names and rank > 2  # a role: heads are the third axis from the end
        size = self.values[value].shape[-3 if heads else 0] if rank else 0
        if not -size <= number < size:
            raise InputError(f"{indexed[1]} has {size} {'heads' if heads else 'rows'}, counted from 0, but got [{number}].")
        return value, (..., number, slice(None), slice(None)) if heads else (number,)

    def run(self, changes: Mapping[int | str, "Tensor | float | NewValue"] | None = None, strict: bool = True) -> ProgramRun:
        """Recompute every value after changing some leaves or steps.

            program.run({"layers.2.attention.weights[3]": uniform})                 head 3 attends uniformly
            program.run({"blocks.2.attention.output[3]": lambda z: 0.5 * z})        head 3 counts half

        changes  by id, name or role (see `id`), or a part of one: new numbers that broadcast to it, or a function that gets the
                 recomputed value and returns the new one
        strict   raise where the model may take another branch; else store it in `ProgramRun.divergences`
        raises   ReplayDiverged; UnknownName for an unknown value; InputError for numbers of another shape
        """
        changed: dict[int, list[NewValue]] = {}
        for name, new in (changes or {}).items():
            value, part = self._part(name)
            changed.setdefault(value, []).append(self._new_value(value, part, new))

        def after(value: int, numbers: Tensor) -> Tensor:
            for change in changed.get(value, ()):
                numbers = change(numbers)
            return numbers

        run = ProgramRun({leaf.id: after(leaf.id, leaf.value) for leaf in self.leaves}, self)
        with torch.no_grad():
            for step in self.steps:
                try:
                    self._run_step(step, run, after)
                except ReplayDiverged as error:
                    if strict:
                        raise
                    run.divergences.append(error)
        return run

    def continued(
        self, values: Mapping[int, Tensor], changes: Mapping[int, Tensor], wanted: Iterable[int], replaced: Mapping[int, Tensor]
    ) -> dict[int, Tensor]:
        """The wanted values after some were replaced; only steps that depend on a replaced one run again.

        values  all of one run, of which those that do not depend on a replaced one stay
        replaced  values that were replaced in that run already
        """
        new = {value: with_layout(t, self.values[value]) for value, t in changes.items()}
        run, last = ProgramRun({**values, **new}, self), set(wanted) - set(new)
        changed, depending = set(new), list[tuple[Step, list[int]]]()
        for step in self.steps:
            if not changed.isdisjoint(step.inputs):
                results = [value for value, _ in step.outputs]
                changed.update(results)
                depending.append((step, results))
        needed, again = set(last), list[Step]()
        for step, results in reversed(depending):
            if not needed.isdisjoint(results):
                needed.update(step.inputs)
                again.append(step)
        fixed = {value: with_layout(t, self.values[value]) for value, t in replaced.items()}
        with torch.no_grad():
            for step in reversed(again):
                with suppress(ReplayDiverged):
                    self._run_step(step, run, lambda value, numbers: new.get(value, fixed.get(value, numbers)))
        return {value: run.values[value] for value in (*last, *new) if value in run.values}

    def differentiable(self, changes: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Every value, recomputed after changing some leaves, with the graph by which autograd differentiates it."""
        leaves = {leaf.id: changes.get(leaf.id, leaf.value).detach() for leaf in self.leaves}
        run = ProgramRun({v: t.requires_grad_(t.is_floating_point() or t.is_complex()) for v, t in leaves.items()}, self)
        with torch.enable_grad():
            for step in self.steps:
                with suppress(ReplayDiverged):
                    self._run_step(step, run, lambda _, numbers: numbers)
        return run.values

    def edited(
        self, values: Mapping[int, Tensor], edits: Mapping[int, Edit], replaced: Mapping[int, Tensor]
    ) -> Iterator[tuple[int, Tensor]]:
        """Every value that changes, in order, where some are computed otherwise.

        values  all of one run; replaced: values that were replaced in that run already
        edits   by value, a function of the value as it would be and of all values so far
        """
        run, changed = ProgramRun(dict(values), self), set[int]()
        fixed = {value: with_layout(t, self.values[value]) for value, t in replaced.items()}

        def after(value: int, numbers: Tensor) -> Tensor:
            numbers = fixed.get(value, numbers)
            new = edits[value](numbers, run.values) if value in edits else numbers
            return numbers if new is numbers else with_layout(new.reshape(numbers.shape), self.values[value])

        with torch.no_grad():
            for leaf in self.leaves:
                if leaf.id in edits:
                    run.values[leaf.id] = after(leaf.id, run.values[leaf.id])
                    changed.add(leaf.id)
                    yield leaf.id, run.values[leaf.id]
            for step in self.steps:
                ids = [value for value, _ in step.outputs]
                if any(value in changed for value in step.inputs):
                    with suppress(ReplayDiverged):
                        self._run_step(step, run, after)
                elif any(value in edits for value in ids):
                    run.values.update({value: after(value, run.values[value]) for value in ids})
                else:
                    continue
                changed.update(ids)
                yield from ((value, run.values[value]) for value in ids)

    def _new_value(self, value: int, part: tuple[Any, ...], new: "Tensor | float | NewValue") -> "NewValue":
        """From the recomputed value to the one with a part replaced."""
        recorded = self.values[value]
        shape = recorded[part].shape

        def replaced(numbers: Tensor) -> Tensor:
            given = new(numbers[part]) if callable(new) else new
            given = torch.as_tensor(given, dtype=recorded.dtype, device=recorded.device)
            whole = isinstance(new, Tensor) and not part  # numbers of another shape are a mistake more often than meant
            if given.shape != shape and (whole or not _broadcasts(given.shape, shape)):
                name = f"{self.name(value)}{f'[{part[0] if len(part) == 1 else part[1]}]' if part else ''}"
                raise InputError(f"{name} has shape {list(shape)}, but got {list(given.shape)}.")
            if not part:
                return with_layout(given.expand(shape), recorded)
            changed = numbers.clone()
            changed[part] = given
            return with_layout(changed, recorded)

        return replaced

    def _run_step(self, step: Step, run: ProgramRun, after: Callable[[int, Tensor], Tensor]) -> None:
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
            values[value] = after(value, output)
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


def _broadcasts(given: torch.Size, shape: torch.Size) -> bool:
    return len(given) <= len(shape) and all(n in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False))


def same_value(a: Any, b: Any) -> bool:
    """Whether Python read the same value; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    equal = (a == b) | ((a != a) & (b != b))
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) < 60 else f"{text[:57]}..."
