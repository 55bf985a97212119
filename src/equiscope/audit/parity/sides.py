"""A side of a comparison: every value that one implementation computes, with the step that made it.

A module runs once in float64, with its casts promoted, and once in float32. A file of recorded activations has one precision and
no steps.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.subject.outputs import flat
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.audit.subject.subject import copy_in_dtype
from equiscope.errors import EquiscopeError, InputError
from equiscope.program import Program, watch
from equiscope.program.program import Ref, Step, each
from equiscope.record import ParityStep

# Steps that only move numbers: a value that they make has no numbers of its own.
MOVEMENT = {
    "view", "reshape", "transpose", "permute", "t", "T", "mT", "swapaxes", "movedim", "getitem", "chunk", "split",
    "split_with_sizes", "unbind", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "expand_as", "contiguous",
    "clone", "to", "type_as", "float", "double", "repeat", "repeat_interleave", "narrow", "select", "slice", "cat", "stack",
    "neg", "detach", "view_as_complex", "view_as_real", "view_as", "real", "imag", "tensor_split", "alias", "read", "put",
    "spread", "rearrange", "Reshape", "Transpose", "Slice", "Split", "Concat", "Squeeze", "Unsqueeze", "Expand", "Identity",
    "Cast", "Neg", "SequenceAt",
}  # fmt: skip
CASTS = {"to", "float", "double", "type_as", "type", "clone", "contiguous", "alias", "half", "bfloat16", "convert_element_type"}
SOFTMAX = {"softmax", "_softmax", "safe_softmax", "_safe_softmax", "Softmax"}
LAYERS = {"linear", "layer_norm", "rms_norm", "scaled_dot_product_attention"}  # what they compute is no part of a weight
HIDDEN = -5e3  # scores below it are masked
HALF = (torch.bfloat16, torch.float16)
ONE_PRECISION = 32  # times the rounding error of one pass: where a side has one precision, a larger error is a difference
OUTPUT = "output"  # names of recorded outputs begin so
INFINITE = 1e30  # a masked score is minus infinity or the largest number of the dtype


@dataclass(frozen=True, eq=False)
class Node:
    """A value and the step that made it.

    inputs  the values that the step read; step: of a recorded program; equation: of an einsum of a file
    """

    value: int
    name: str
    op: str
    module: str
    inputs: tuple[int, ...] = ()
    step: Step | None = None
    equation: str = ""


@dataclass(eq=False)
class Side:
    """The values of one implementation, in the order in which they were computed.

    high     numbers in float64, or in the precision of a file; low: in float32
    moving   values that depend on the input; outputs: value by name
    program  of a module; None for files. single: whether there is only the precision of a file
    half     whether parameters are in half precision
    tables   values of the program that stand here with other numbers: tables that are not rounded (see `with_tables_of`), and
             constants that the code rounds to half precision
    low_program  the program in float32; names: of the values of a file
    units    by value of a file, the rounding error of its numbers where it stores them in less than float32
    passes   the errors up to so many times the rounding error of one pass are rounding, where there is one precision
    """

    title: str
    nodes: list[Node]
    high: dict[int, Tensor]
    low: dict[int, Tensor]
    moving: set[int]
    outputs: dict[str, int]
    leaves: set[int] = field(default_factory=set)
    program: Program | None = None
    single: bool = False
    half: bool = False
    notes: list[str] = field(default_factory=list)
    tables: dict[int, Tensor] = field(default_factory=dict)
    low_program: Program | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    units: Mapping[int, float] = field(default_factory=dict)
    passes: float = ONE_PRECISION

    @property
    def is_recorded(self) -> bool:
        """Whether these are recorded activations, of which nobody knows the steps."""
        return self.program is None and not any(node.op for node in self.nodes)

    @property
    def has_outputs(self) -> bool:
        """Whether outputs of the model are known."""
        return not self.is_recorded or any(name.startswith(OUTPUT) for name in self.outputs)

    @cached_property
    def is_ordered(self) -> bool:
        """Whether recorded activations come in the order in which they were computed, as where their names count them.

        A file that sorts other names says nothing.
        """
        names = [node.name for node in self.nodes if not node.name.startswith(OUTPUT)]
        counts = [int(found.group()) if (found := re.search(r"\d+", name)) else -1 for name in names]
        return names != sorted(names) or all(before < after for before, after in pairwise([-1, *counts]))

    def unit(self, value: int) -> float:
        """The rounding error of storing a number of this value beyond float32."""
        return self.units.get(value, 0.0)

    @cached_property
    def maker(self) -> dict[int, Node]:
        """By value, what made it."""
        return {node.value: node for node in self.nodes}

    @cached_property
    def users(self) -> dict[int, list[Node]]:
        """By value, the steps that read it."""
        users: dict[int, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                users.setdefault(value, []).append(node)
        return users

    @cached_property
    def siblings(self) -> dict[int, list[int]]:
        """By value, the values that the same steps computed from the same value with other weights, as the results of experts."""
        kinds: dict[int, Any] = {value: value for value in self.leaves if value in self.moving}
        known: dict[Any, int] = {}
        groups: dict[int, list[int]] = {}
        for node in self.nodes:
            if node.value in self.moving:
                read = tuple(kinds.get(x, tuple(self.high[x].shape)) for x in node.inputs)
                key = (node.op, self.high[node.value].ndim, tuple(self.high[node.value].shape[1:]), read)  # experts get few tokens
                kinds[node.value] = number = known.setdefault(key, -1 - len(known))
                groups.setdefault(number, []).append(node.value)
        return {value: group for group in groups.values() for value in group}

    @cached_property
    def needed(self) -> set[int]:
        """Values that an output depends on."""
        needed = set(self.outputs.values())
        for node in reversed(self.nodes):
            if node.value in needed:
                needed.update(node.inputs)
        return needed

    @cached_property
    def _numbers(self) -> dict[int, Tensor]:
        return {}

    def numbers(self, value: int) -> Tensor:
        """A value as real float64 numbers; what masks as minus infinity does so."""
        if value not in self._numbers:
            self._numbers[value] = canonical(self.high[value])
        return self._numbers[value]

    def is_number(self, value: int) -> bool:
        """Whether it is a tensor of floating-point numbers."""
        t = self.high[value]
        return t.is_floating_point() or t.is_complex()

    def parents(self, value: int) -> list[int]:
        """Values that depend on the input and that the step of this value read."""
        node = self.maker.get(value)
        return [] if node is None else [x for x in dict.fromkeys(node.inputs) if x in self.moving]

    def ancestors(self, value: int, most: int) -> list[int]:
        """Values that this one depends on, nearest first."""
        found, todo = dict[int, None](), self.parents(value)
        while todo and len(found) < most:
            one = todo.pop(0)
            if one not in found:
                found[one] = None
                todo += self.parents(one)
        return list(found)

    def source(self, value: int) -> int:
        """The value that these numbers were moved from, all of them."""
        node = self.maker.get(value)
        while node is not None and node.op in MOVEMENT and len(moved := self.parents(node.value)) == 1:
            if self.high[moved[0]].numel() != self.high[node.value].numel():
                break
            value, node = moved[0], self.maker.get(moved[0])
        return value

    def describe(self, value: int) -> ParityStep:
        """The step of a value, for the record."""
        node = self.maker.get(value)
        shape = list(self.high[value].shape)
        if node is None:
            return ParityStep(module="", operation="input", value=str(value), shape=shape)
        return ParityStep(module=node.module, operation=node.op, value=node.name, shape=shape)


def canonical(t: Tensor) -> Tensor:
    """As real float64 numbers; numbers beyond any that a model computes are infinite."""
    t = t.detach()
    t = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    t = t.double()
    if not t.numel() or torch.linalg.vector_norm(t, torch.inf).item() < INFINITE:
        return t
    return torch.where(t.abs() >= INFINITE, t.sign() * torch.inf, t)


def of_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], title: str, seed: int, low_dtype: torch.dtype | None = None,
) -> Side:  # fmt: skip
    """A module on these inputs, in the mode in which it is. Raises InputError where it raises.

    low_dtype  of the run in low precision: float32 by default
    """
    model = getattr(model, "_orig_mod", model)
    programs, refused = [], ""
    for dtype in (low_dtype or torch.float32, torch.float64):
        copy = copy_in_dtype(model, dtype)
        moved, named = each(args, partial(_cast, dtype)), each(dict(kwargs), partial(_cast, dtype))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                programs.append(_watched(copy, moved, named, title, dtype))
            except InputError as error:
                if dtype != torch.float64:
                    raise
                refused = str(error)
    low, high = programs[0], programs[-1]
    outputs = outputs_of(high)
    narrow = in_float32(high, low)
    notes = []
    if refused:
        notes = [f"{title} does not run in float64, so it was judged in one precision: {refused}"]
    elif not narrow:
        notes = [f"{title} runs other steps in float32 than in float64, so it was judged in float64 alone."]
    moving = high.depending_on("input", "chance")
    moving, leaves = moving | _of_learned_inputs(high, moving), {leaf.id for leaf in high.leaves}
    half, tables = any(p.dtype in HALF for p in model.parameters()), dict[int, Tensor]()
    if not (half or refused):
        high, tables = _with_rounded_constants(high, low)
    return Side(
        title, nodes_of(high), high.values, narrow, moving, outputs, leaves, high, bool(refused), half, notes,
        tables=tables, low_program=low,
    )  # fmt: skip


def _of_learned_inputs(program: Program, moving: Set[int]) -> set[int]:
    """What layers compute from parameters alone, as from the learned queries of a decoder, and what follows from it."""
    learned, found = program.depending_on("parameter"), set[int]()
    for step in program.steps:
        fixed = moving.isdisjoint(step.inputs)
        if fixed and (not found.isdisjoint(step.inputs) or (step.op in LAYERS and not learned.isdisjoint(step.inputs))):
            found.update(value for value, _ in step.outputs)
    return found


def _with_rounded_constants(high: Program, low: Program) -> tuple[Program, dict[int, Tensor]]:
    """The program in float64 with the constants that the code casts to half precision rounded, and these constants by value.

    A cast of a constant to less than the precision of the parameters changes what the model computes; promoted casts undo that.
    """
    varying, rounded = high.depending_on("input", "chance", "parameter"), dict[int, Tensor]()
    for step in high.steps:
        value = step.outputs[0][0] if step.op in CASTS and step.outputs else None
        if value is not None and value not in varying and high.values[value].is_floating_point():
            t = step.call(*each(step.args, lambda x: high.values[x.id] if isinstance(x, Ref) else x), **step.kwargs)
            if t.dtype in HALF and _is_rounded(t, high.values[value], t.dtype):
                rounded[value] = t.double()
    if not rounded:
        return high, {}
    steps, narrow = high.steps, [step for step in low.steps if step.op not in CASTS]
    if not any(step.exits and set(step.inputs) & high.depending_on("input", "chance") for step in steps):
        others = iter(narrow)  # numbers that Python read from such a constant
        same = len(narrow) == sum(step.op not in CASTS for step in steps)
        steps = [_with_numbers_of(step, next(others)) if same and step.op not in CASTS else step for step in steps]
    program = replace(high, steps=steps)
    with promote_float64():
        return replace(program, values=program.run({v: t for v, t in rounded.items()}, strict=False).values), rounded


def _with_numbers_of(step: Step, other: Step) -> Step:
    """A step with the numbers in the arguments of the same step in float32, where they differ by more than its rounding."""

    def nearer(x: Any, y: Any) -> Any:
        if isinstance(x, list | tuple) and isinstance(y, list | tuple) and len(x) == len(y) and not hasattr(x, "_fields"):
            return type(x)(nearer(one, two) for one, two in zip(x, y, strict=True))
        return y if isinstance(x, float) and isinstance(y, float) and abs(x - y) > 2.0**-20 * abs(x) else x

    return replace(step, args=nearer(step.args, other.args)) if step.op == other.op else step


def nodes_of(program: Program) -> list[Node]:
    """The values of a program, in order."""
    names = {value: name for name, value in reversed(program.names.items())}
    return [
        Node(value, names.get(value, str(value)), step.op, step.where, step.inputs, step)
        for step in program.steps
        for value, _ in step.outputs
    ]


def in_float32(high: Program, low: Program) -> dict[int, Tensor]:
    """By value of the run in float64, its numbers in float32."""
    return {value: low.values[narrow] for value, narrow in low_values(high, low).items()}


def low_values(high: Program, low: Program) -> dict[int, int]:
    """By value of the run in float64, that of the run in float32: the same steps in the same order, apart from casts."""
    steps = [[s for s in program.steps if s.op not in CASTS] for program in (high, low)]
    if [(s.op, len(s.outputs)) for s in steps[0]] != [(s.op, len(s.outputs)) for s in steps[1]]:
        return {}
    pairs = [(x, y) for one, other in zip(*steps, strict=True) for (x, _), (y, _) in zip(one.outputs, other.outputs, strict=True)]
    leaves = zip(high.leaves, low.leaves, strict=True) if len(high.leaves) == len(low.leaves) else ()
    pairs += [(one.id, other.id) for one, other in leaves if one.name == other.name]
    return {x: y for x, y in pairs if high.values[x].shape == low.values[y].shape}


def _watched(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], title: str, dtype: torch.dtype) -> Program:
    try:
        if dtype == torch.float64:
            with promote_float64():
                return watch(model, *args, kwargs=kwargs)
        return watch(model, *args, kwargs=kwargs)
    except EquiscopeError:
        raise
    except Exception as error:  # the user's own code
        text = " ".join(str(error).split())[:240]
        raise InputError(f"{title} raised {type(error).__name__} on these inputs: {text}. Give inputs that both take.") from error


def outputs_of(program: Program) -> dict[str, int]:
    """The outputs to compare by name: caches and hidden states are omitted beside others."""
    by_tensor = {id(program.values[value]): value for value in program.outputs.values()}
    found = {}
    for name, t in flat(program.output).items():
        value = by_tensor.get(id(t))
        if value is None:
            value = next(
                (v for v in program.outputs.values() if program.values[v].shape == t.shape and torch.equal(program.values[v], t)),
                None,
            )
        if value is not None and (t.is_floating_point() or t.is_complex()):
            found[name] = value
    if not found:
        raise InputError(f"The model returned no tensor of numbers to compare, but {type(program.output).__name__}.")
    return found


def _cast(dtype: torch.dtype, x: Any) -> Any:
    return x.detach().to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x


def with_tables_of(b: Side, a: Side) -> Side:
    """B with each table of rounded numbers replaced by the equal one of A that is not rounded; a note names it.

    Rotary frequencies that one side stores in float32 and the other computes in float64 are the same numbers. Where parameters are
    in half precision, so may tables be; beside parameters in float32, a table in half precision holds other numbers.
    """
    if a.program is None or b.program is None or b.single:  # what runs in float32 alone has no exact tables
        return b
    fixed = [t for v, t in a.high.items() if v not in a.moving and t.is_floating_point() and t.numel() > 1]
    fixed += [1 / t for t in fixed]  # one side multiplies by frequencies, the other divides by their reciprocals
    numbers = {x for node in a.nodes if node.step is not None for x in _floats((node.step.args, node.step.kwargs))}
    fixed += [torch.tensor(x, dtype=torch.float64) for x in numbers]
    stored = (*HALF, torch.float32) if b.half else (torch.float32,)
    changes, names = {}, []
    for leaf in b.program.leaves:
        t = leaf.value
        if leaf.kind not in ("buffer", "constant") or not t.is_floating_point():
            continue
        dtypes = [dtype for dtype in stored if torch.equal(t, t.to(dtype).to(t.dtype))]
        for other in fixed if dtypes else ():
            if other.numel() == t.numel() and any(_is_rounded(t.flatten(), other.flatten(), dtype) for dtype in dtypes):
                changes[leaf.id] = other.reshape(t.shape)
                names.append(f"{leaf.name} in {str(dtypes[0]).removeprefix('torch.')}")
                break
    if not changes:
        return b
    with promote_float64():
        run = b.program.run({v: t for v, t in (b.tables | changes).items()}, strict=False)
    note = f"{b.title} stores {', '.join(names[:4])}; the numbers are those of {a.title}, rounded."
    high = {v: run.values.get(v, t) for v, t in b.high.items()}
    return replace(b, high=high, notes=[*b.notes, note], tables=b.tables | changes)


def _floats(x: Any) -> Iterator[float]:
    """The finite numbers with a fraction in the arguments of a step."""
    if isinstance(x, float):
        if math.isfinite(x) and not x.is_integer():
            yield x
    elif isinstance(x, Mapping):
        yield from _floats(tuple(x.values()))
    elif isinstance(x, list | tuple):
        for part in x:
            yield from _floats(part)


def _is_rounded(t: Tensor, exact: Tensor, dtype: torch.dtype) -> bool:
    """Whether t is the other tensor rounded to a dtype, and not equal to it; in float32 up to two units in the last place."""
    t, exact = t.double(), exact.double()
    if not bool(exact.isfinite().all()):  # the reciprocal of a bias of zeros
        return False
    error = (t - exact).abs()
    if dtype != torch.float32:
        return torch.equal(t, exact.to(dtype).double()) and bool(error.any())
    return bool((error <= 2.0**-22 * exact.abs()).all()) and bool(error.any())


def rerun(side: Side, changes: dict[int, Tensor], wanted: Iterable[int]) -> dict[int, Tensor]:
    """Values of a recorded program after some were replaced, computed with promoted casts."""
    if side.program is None:
        return {}  # a file cannot run again
    with promote_float64():
        found = side.program.continued(side.high, changes, wanted, side.tables)
    return {value: canonical(found[value]) for value in wanted if value in found}
