"""A program: every number of one run of a model and the step that made it, which can run again with changes.

Leaves were given; each step calls a function of torch on earlier values. A value is assigned once: what writes in place here is a
step that makes a new value, and an alias of what was written is read again out of the storage.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from equiscope.errors import InputError, UnknownName
from equiscope.program.source import NOWHERE, Source
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
    """Of a call's outputs one that is an argument, written in place: which of the tensors among its arguments."""

    argument: int


@dataclass(eq=False)
class Leaf:
    """Numbers that were given.

    kind   chance: drawn by the model, and kept as it was drawn; unknown: made by code that the capture did not see, an error
    where  the module that used it first
    source of what the model's code made: where it stands there
    """

    id: int
    name: str
    kind: Kind
    value: Tensor
    where: str = ""
    source: Source = NOWHERE


@dataclass(eq=False)
class Step:
    """A call of torch.

    op       its name, without underscores: an `iadd` and an `add_` are an "add"
    args     of the call, with a Ref where a tensor stood
    outputs  values that it made, and where each stands among the call's results
    where    the module path; turn: which call of that module
    level    "function" as the model wrote it; "aten" as torch made it of something that is not one function; "alias" a storage read
             again after a write
    said     what Python heard, of a step by which a number left torch
    source   where in the model's code it was made
    """

    op: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[tuple[int, int | Written]]
    where: str = ""
    turn: int = 0
    level: Level = "function"
    said: Any = None
    exits: bool = False
    inputs: tuple[int, ...] = ()
    source: Source = NOWHERE


class WatchAgain(InputError):
    """With these changes the model would have gone another way: what was recorded is not what it computes.

    step  that said something else; said: then; says: now
    """

    def __init__(self, step: Step, says: Any) -> None:
        super().__init__(step, says)
        self.step, self.said, self.says = step, step.said, says

    def __str__(self) -> str:
        where = self.step.where or "the model"
        return (
            f"In {where} Python asked for {self.step.op}, heard {_short(self.said)} when it was watched, and would now hear "
            f"{_short(self.says)}: the model may go another way. Watch it again on these numbers."
        )


@dataclass
class Numbers:
    """All values of one run, by id or by name, and where a number that left torch would have been another."""

    values: dict[int, Tensor]
    program: "Program"
    left: list[WatchAgain] = field(default_factory=list)

    def __getitem__(self, value: int | str) -> Tensor:
        return self.values[self.program.id(value)]

    @property
    def outputs(self) -> dict[str, Tensor]:
        """What the model returns, by its path in what was returned ("" where it is one tensor)."""
        return {path: self.values[value] for path, value in self.program.outputs.items()}


class Called(NamedTuple):
    """What a value is called where people read of it: by the legend of a module, or by an input that names itself."""

    symbol: str
    axes: tuple[str, ...]
    label: str
    kind: str = ""


@dataclass(repr=False)
class Program:
    """Leaves, steps in the order in which they ran, and every value as it was.

    outputs  value by path in what the model returned; output: that itself
    names    value by name: leaves as the model calls them, what steps made as "layers.0.attention.softmax"
    legend   by name of a parameter, a buffer or a submodule what the module around calls it, or what it returns
    inside   by path of a submodule in a legend: the module whose legend it is
    called   by value, of inputs that name themselves and of what submodules in a legend return
    notes    what was seen and could not be followed
    """

    leaves: list[Leaf] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    values: dict[int, Tensor] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    output: Any = None
    legend: dict[str, Called] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)
    called: dict[int, Called] = field(default_factory=dict)
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
        found = self.names.get(value) if isinstance(value, str) else value if value in self.values else None
        if found is None:
            near = [name for name in self.names if str(value).split(".")[-1] in name][:12] or list(self.names)[:12]
            raise UnknownName("value", value, near)
        return found

    def run(self, changes: Mapping[int | str, Tensor] | None = None, strict: bool = True) -> Numbers:
        """Every value again, after some leaves or steps were given other numbers.

        changes  other numbers by id or name; a changed step is not run
        strict   raise where the model would have gone another way; else it is said in `Numbers.left`
        raises   WatchAgain; UnknownName for a value that is not there; InputError for numbers of another shape
        """
        changed = {self.id(name): value for name, value in (changes or {}).items()}
        for name, value in changed.items():
            if value.shape != self.values[name].shape:
                raise InputError(f"{self.name(name)} has shape {list(self.values[name].shape)}, but got {list(value.shape)}.")
            changed[name] = laid_out(value, self.values[name])
        numbers = Numbers({leaf.id: changed.get(leaf.id, leaf.value) for leaf in self.leaves}, self)
        with torch.no_grad():
            for step in self.steps:
                try:
                    self._again(step, numbers, changed)
                except WatchAgain as error:
                    if strict:
                        raise
                    numbers.left.append(error)
        return numbers

    def _again(self, step: Step, numbers: Numbers, changed: dict[int, Tensor]) -> None:
        values = numbers.values
        written = {place.argument for _, place in step.outputs if isinstance(place, Written)}
        given: list[Tensor] = []

        def read(x: Any) -> Any:
            if not isinstance(x, Ref):
                return x
            given.append(values[x.id].clone() if len(given) in written else values[x.id])
            return given[-1]

        args, kwargs = each(step.args, read), each(step.kwargs, read)
        result = step.call(*args, **kwargs)
        results = list(leaves_of(result))
        for value, place in step.outputs:
            made = given[place.argument] if isinstance(place, Written) else results[place]
            values[value] = changed.get(value, made)
        if step.exits and not same(result, step.said):
            raise WatchAgain(step, result)

    def name(self, value: int) -> str:
        """What a value is called."""
        return next((name for name, one in self.names.items() if one == value), str(value))

    def needed(self) -> list[Step]:
        """The steps that the outputs are made of."""
        wanted, found = set(self.outputs.values()), []
        for step in reversed(self.steps):
            if any(value in wanted for value, _ in step.outputs):
                wanted.update(step.inputs)
                found.append(step)
        return found[::-1]

    def following(self, *kinds: Kind) -> set[int]:
        """Values that depend on leaves of these kinds, themselves among them."""
        found = {leaf.id for leaf in self.leaves if leaf.kind in kinds}
        for step in self.steps:
            if any(value in found for value in step.inputs):
                found.update(value for value, _ in step.outputs)
        return found


def each(some: Any, what: Callable[[Any], Any]) -> Any:
    """Arguments with something done to everything that is no container."""
    if isinstance(some, (list, tuple)) and not isinstance(some, torch.Size):
        made = [each(x, what) for x in some]
        return made if isinstance(some, list) else type(some)(*made) if hasattr(some, "_fields") else tuple(made)
    if isinstance(some, dict):
        return {key: each(x, what) for key, x in some.items()}
    if isinstance(some, slice):
        return slice(*(each(x, what) for x in (some.start, some.stop, some.step)))
    return what(some)


def leaves_of(some: Any) -> Iterator[Any]:
    """What stands in arguments or results, one after another."""
    if isinstance(some, (list, tuple)):
        for x in some:
            yield from leaves_of(x)
    elif isinstance(some, dict):
        yield from leaves_of(list(some.values()))
    elif isinstance(some, slice):
        yield from leaves_of([some.start, some.stop, some.step])
    else:
        yield some


def laid_out(t: Tensor, like: Tensor) -> Tensor:
    """The same numbers with the strides and dtype that the recorded ones have, so that views of them stay views."""
    t = t.detach().to(like.dtype)
    if t.stride() == like.stride() or any(step == 0 and n > 1 for n, step in zip(like.shape, like.stride(), strict=True)):
        return t
    return torch.empty_like(like).copy_(t)


def same(a: Any, b: Any) -> bool:
    """Whether Python heard the same; what is not a number is the same as itself."""
    if type(a) is not type(b):
        return False
    found = (a == b) | ((a != a) & (b != b))
    return bool(found.all()) if hasattr(found, "all") else bool(found)


def _short(said: Any) -> str:
    text = " ".join(str(said).split())
    return text if len(text) < 60 else f"{text[:57]}..."
