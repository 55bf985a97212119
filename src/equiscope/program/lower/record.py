"""From a program to the page's record: page operations, and loops for what is left.

Each value that an output needs is planned once, from the outputs back: lifted together with earlier calls, moved, one operation, or
loops. A value with none of these becomes a leaf with its recorded numbers, and a note names it.
"""

from collections.abc import Collection
from typing import Any, cast

import msgspec
import numpy as np
import torch
from msgspec import UNSET
from torch import Tensor

from equiscope import record
from equiscope.errors import counted
from equiscope.program.axes import backward, output_axes
from equiscope.program.lower.direct import DIRECT, WEIGHT
from equiscope.program.lower.graph import Apply, Expression, Graph
from equiscope.program.lower.lift import LIFTED
from equiscope.program.lower.loops import Loops
from equiscope.program.lower.movement import Movement
from equiscope.program.lower.names import axes_of, letter_of, named, named_leaf, named_part, operation_in, symbol_of
from equiscope.program.lower.roles import names
from equiscope.program.lower.shapes import shape_of
from equiscope.program.program import Program, Ref, ValueLabel


def lowered(
    program: Program, arrays: bool = True, title: str = "", array_cache: dict[bytes, record.Array] | None = None
) -> record.ProgramRecord:
    """The program as a record that a page can run.

    arrays  store the numbers of steps too; those of leaves are always stored
    packed  packed arrays by their bytes: records that share this dict share their arrays
    """
    plans = _Plans(program)
    writer = _Writer(program, plans, arrays, {} if array_cache is None else array_cache)
    for step in program.steps:
        for value, _ in step.outputs:
            if value in plans.chosen:
                writer.write(value)
    outputs = [writer.emit(Ref(value)) for value in dict.fromkeys(program.outputs.values())]
    notes = [*program.notes, *_exits(program), *_opaque_notes(writer.leaves)]
    named = {path: writer.emit(Ref(value)) for path, value in program.outputs.items() if path and not path.isdigit()}
    program_record = record.ProgramRecord(
        title=title, leaves=writer.leaves, steps=writer.steps, outputs=outputs, named=named or UNSET, notes=notes or UNSET
    )
    return _named(program_record, writer)


def _named(program_record: record.ProgramRecord, writer: "_Writer") -> record.ProgramRecord:
    """With symbols of attention, else the variables of the model's code."""
    roles = names(program_record)
    axes = backward(program_record, writer.shapes)
    steps = []
    for step in program_record.steps:
        variable, text = writer.source_names.get(step.id, ("", ""))
        symbol, label = roles.get(step.id, ("", ""))
        symbol, label = step.symbol or symbol or variable, step.label or label or text
        steps.append(msgspec.structs.replace(step, symbol=symbol, label=label, axes=list(axes[step.id])))
    leaves = [msgspec.structs.replace(leaf, axes=list(axes[leaf.id])) for leaf in program_record.leaves]
    return msgspec.structs.replace(program_record, leaves=leaves, steps=steps)


def _exits(program: Program) -> list[str]:
    """Notes on numbers that Python read and that depend on an input: the model may have branched on them."""
    moving = program.depending_on("input", "parameter", "chance")
    exit_steps = [step for step in program.steps if step.exits and any(x in moving for x in step.inputs)]
    if not exit_steps:
        return []
    places = ", ".join(dict.fromkeys(step.where or "the model itself" for step in exit_steps))
    numbers, them = counted(len(exit_steps), "number"), "it" if len(exit_steps) == 1 else "them"
    return [
        f"Python read {numbers} ({places}) and may have branched on {them}. This page keeps the branch that was "
        "watched; watch the model again on other numbers."
    ]


def _opaque_notes(leaves: list[record.LeafRecord]) -> list[str]:
    opaque = [leaf.id for leaf in leaves if leaf.kind == "opaque"]
    if not opaque:
        return []
    return [
        f"{counted(len(opaque), 'value has no steps here and does', 'values have no steps here and do')} not change "
        f"when earlier values change: {', '.join(opaque[:6])}."
    ]


class _Plans:
    """The expression that computes each needed value on the page; None where there is none.

    chosen  by value, for values that steps compute and that can change
    transposed  weights that only linear maps read: shown as [in, out], as in formulas
    """

    def __init__(self, program: Program) -> None:
        self.graph = Graph(program)
        self.movement = Movement(self.graph)
        self.loops = Loops(self.graph, self.movement)
        self.chosen: dict[int, Expression | None] = {}
        self._simple: dict[int, Expression | None] = {}
        needed = set(program.outputs.values())
        for step in reversed(program.steps):
            for value, _ in step.outputs:
                if value in needed and value in self.graph.moving:
                    plan = self.simple(value)
                    plan = self.loops.of(value, self.is_visible) if plan is None else plan
                    self.chosen[value] = plan
                    needed.update(_reads(plan))
        plans = [plan for plan in self.chosen.values() if plan is not None]
        weights = {x for plan in plans for x in _weights(plan)}
        self.transposed = weights - {x for plan in plans for x in _reads(plan, weights)} - set(program.outputs.values())

    def is_visible(self, value: int) -> bool:
        """Whether the page shows a value other than by loops."""
        return value not in self.graph.maker or value not in self.graph.moving or self.simple(value) is not None

    def simple(self, value: int) -> Expression | None:
        """The operations that compute a value, where there are any."""
        if value not in self._simple:
            self._simple[value] = self._operations(value)
        return self._simple[value]

    def _operations(self, value: int) -> Expression | None:
        step, place = self.graph.maker[value]
        numbers = self.graph.program.values
        if isinstance(place, int) and len(step.outputs) == 1:
            for lift in LIFTED.get(step.op, ()):
                if (plan := lift(self.graph, step)) is not None:
                    return plan
        if numbers[value].is_complex():
            return None  # the page has real numbers: loops take it in
        moved = self.movement.expression(value, self.is_visible)
        if moved is not None:
            return moved
        if operation := str(getattr(step.call, "operation", "")):  # a function of ours (`equiscope.functional.semantic`)
            inputs, params = parameters(step.call, step.args, step.kwargs)
            return Apply(operation, tuple(inputs), params)
        plan = DIRECT[step.op](self.graph, step) if step.op in DIRECT else None
        if plan is None or step.outputs[0][0] != value or any(numbers[x].is_complex() for x in _reads(plan)):
            return None
        return plan


def _reads(plan: Expression | None, weights: Collection[int] = ()) -> set[int]:
    """The values that an expression reads; a transpose of one of these weights does not count."""
    if isinstance(plan, Ref):
        return {plan.id}
    if not isinstance(plan, Apply) or _transposed(plan) in weights:
        return set()
    return {value for x in plan.inputs for value in _reads(x, weights)}


def _weights(plan: Expression) -> set[int]:
    """The weights of linear maps in an expression."""
    if not isinstance(plan, Apply):
        return set()
    return {_transposed(plan)} if plan.label == WEIGHT else {value for x in plan.inputs for value in _weights(x)}


def _transposed(plan: Apply) -> int:
    """The value that an expression is the transpose of; -1 where it is none."""
    return plan.inputs[0].id if plan.op == "transpose" and isinstance(plan.inputs[0], Ref) else -1


class _Writer:
    """Writes leaves and steps in order, each once."""

    def __init__(self, program: Program, plans: _Plans, arrays: bool, array_cache: dict[bytes, record.Array]) -> None:
        self.program, self.plans, self.arrays, self.array_cache = program, plans, arrays, array_cache
        self.program_leaves = {leaf.id: leaf for leaf in program.leaves}
        self.names = {value: name for name, value in reversed(program.names.items())}
        self.leaves: list[record.LeafRecord] = []
        self.steps: list[record.StepRecord] = []
        self.ids: dict[object, str] = {}
        self.source_names: dict[str, tuple[str, str]] = {}  # by id of a step: variable and expression of the model's code
        self.used_names = set(program.names)  # by what is not a value of the program
        self.axes: dict[str, tuple[str, ...]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def write(self, value: int) -> None:
        """Write the expression of a value under the value's own name."""
        plan = self.plans.chosen[value]
        if plan is None:
            self._opaque(value)
        elif isinstance(plan, Apply) and _transposed(plan) not in self.plans.transposed:
            self.ids[value] = self._step(plan, value)
        else:
            self.ids[value] = self.emit(plan)

    def emit(self, x: Expression, where: str = "", part: str = "") -> str:
        """The id of an expression, written at its first use. part: the value that it is a part of."""
        if isinstance(x, Apply):
            if _transposed(x) in self.plans.transposed and _transposed(x) in self.program_leaves:
                return self._leaf(_transposed(x), transposed=True)
            return self._step(x, None, where, part)
        if isinstance(x, Tensor):
            return self._constant(x, where)
        if x.id not in self.ids:
            self.ids[x.id] = self._leaf(x.id)
        return self.ids[x.id]

    def _step(self, plan: Apply, value: int | None, where: str = "", part: str = "") -> str:
        if value is not None:
            where, part = self._display_module(self.plans.graph.maker[value][0].where), self.names[value]
        inputs = [self.emit(x, where, part) for x in plan.inputs]
        key = (plan.op, tuple(inputs), str(plan.params), id(plan.loops) if plan.loops else None)
        if key in self.ids:
            return self.ids[key]
        shapes = [self.shapes[i] for i in inputs]
        numbers = self.program.values[value] if value is not None else None
        shape = shape_of(plan.op, shapes, plan.params) if numbers is None else tuple(numbers.shape)
        axes = self._axes(plan, inputs, shapes, shape)
        ident = part if value is not None else self._unique(f"{part}.{plan.op}")
        symbol, label = self._label(plan, value, where, part)
        self.steps.append(
            record.StepRecord(
                id=ident, symbol=symbol, label=label, axes=list(axes), op=plan.op, inputs=inputs, params=plan.params, where=where,
                array=self._array(numbers) if self.arrays and numbers is not None else None,
                **({"loops": plan.loops} if plan.loops is not None else {}),
            )
        )  # fmt: skip
        return self._remember(key, ident, axes, shape)

    def _label(self, plan: Apply, value: int | None, where: str, part: str) -> tuple[str, str]:
        """Symbol and label of a step; stores its variable and expression in the model's code."""
        if value is None:
            whole = self.program.labels.get(self.program.names.get(part, -1))
            return named_part(plan, whole.symbol if whole is not None else "")
        called = self.program.labels.get(value)
        if called is not None:
            return called.symbol, called.label
        variable, text = named(self.plans.graph.maker[value][0].source, operation_in(plan, where))
        self.source_names[self.names[value]] = letter_of(plan, where) or variable, text
        return "", ""

    def _display_module(self, where: str) -> str:
        """The module under which a step is displayed: for a part with a legend, the module around it."""
        while where in self.program.inside:
            where = self.program.inside[where]
        return where

    def _axes(self, plan: Apply, inputs: list[str], shapes: list[tuple[int, ...]], shape: tuple[int, ...]) -> tuple[str, ...]:
        if plan.op != "loops":
            axes = tuple(output_axes(plan.op, [self.axes[i] for i in inputs], shapes, plan.params))
            if len(axes) == len(shape):
                return axes
        return axes_of(shape, [self.axes[i] for i in inputs], shapes)

    def _leaf(self, value: int, transposed: bool = False) -> str:
        """transposed: of a weight [out, in] its transpose."""
        leaf, t = self.program_leaves.get(value), self.program.values[value]
        if leaf is None:  # it follows from constants alone
            step = self.plans.graph.maker[value][0]
            return self._constant(t, step.where, *named(step.source, ""))
        called, where = named_leaf(leaf, self.program.legend.get(leaf.name))
        called = self.program.labels.get(value, called)
        if leaf.kind == "constant":
            return self._constant(t, where, called.symbol, called.label)
        if not transposed:
            return self._write_leaf(leaf.name, t, called, where)
        ident = f"{leaf.name}.mT"
        return ident if ident in self.shapes else self._write_leaf(ident, t.mT, called, where)

    def _constant(self, t: Tensor, where: str, symbol: str = "", label: str = "") -> str:
        numbers = tuple(t.detach().flatten().tolist()) if t.numel() < 64 else id(t)
        key = ("constant", str(t.dtype), tuple(t.shape), numbers)
        if key not in self.ids:
            called = ValueLabel(symbol or symbol_of(t), ("",) * t.ndim, label or "a constant of the model's code", "constant")
            where = self._display_module(where)
            self.ids[key] = self._write_leaf(self._unique(f"{where}.constant" if where else "constant"), t, called, where)
        return self.ids[key]

    def _opaque(self, value: int) -> None:
        step, t = self.plans.graph.maker[value][0], self.program.values[value]
        label = f"{step.op}: the page has no steps for it, so it does not change"
        called = ValueLabel(step.op, axes_of(tuple(t.shape), [], []), label, "opaque")
        self.ids[value] = self._write_leaf(self.names[value], t, called, step.where)

    def _write_leaf(self, ident: str, t: Tensor, called: ValueLabel, where: str) -> str:
        array = self._array(t.real if t.is_complex() else t)
        kind = cast(record.program.LeafKind, called.kind)
        axes = called.axes if len(called.axes) == t.ndim else ("batch",) * (t.ndim - len(called.axes)) + called.axes
        leaf_record = record.LeafRecord(
            id=ident, symbol=called.symbol, label=called.label, axes=list(axes), kind=kind, where=where, array=array
        )  # fmt: skip
        self.leaves.append(leaf_record)
        return self._remember(None, ident, axes, tuple(t.shape))

    def _remember(self, key: object, ident: str, axes: tuple[str, ...], shape: tuple[int, ...]) -> str:
        self.axes[ident], self.shapes[ident] = tuple(axes), shape
        if key is not None:
            self.ids[key] = ident
        return ident

    def _unique(self, name: str) -> str:
        unique_name, n = name, 1
        while unique_name in self.used_names:
            n += 1
            unique_name = f"{name}~{n}"
        self.used_names.add(unique_name)
        return unique_name

    def _array(self, t: Tensor) -> record.Array:
        values: np.ndarray = _plain(t.detach().cpu()).numpy()
        key = str((values.dtype, values.shape)).encode() + values.tobytes()
        if key not in self.array_cache:
            self.array_cache[key] = record.pack(values)
        return self.array_cache[key]


def _plain(t: Tensor) -> Tensor:
    if t.dtype in (torch.bfloat16, torch.float16):
        return t.float()
    return t if t.dtype.is_floating_point or t.dtype == torch.bool else t.long()


def parameters(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What a call of a function of ours gives to its operation: its inputs and its parameters, those with defaults too."""
    bound = call.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    plain = {name: x for name, x in bound.arguments.items() if isinstance(x, (bool, int, float, str))}
    return [x for name, x in bound.arguments.items() if name not in plain and x is not None], plain
