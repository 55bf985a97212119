"""The loop IR: steps over strided numbers, written while a function of tensors is read, and at the end a `record.Computation`.

What is the same is written once, what does not depend on an input is a constant, and axes along which all operands repeat
themselves are left out: a product with an expanded number costs no more than with the number.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from equiscope import record
from equiscope.record.computation import Computation, Constant, Loop, TensorSlot


@dataclass(frozen=True)
class Value:
    """Numbers of a slot, seen in a shape: like torch's tensor, but known before there are any. Strides of single places are 0."""

    slot: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    def view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> "Value":
        """The same numbers in another shape."""
        strides = [0 if n == 1 else stride for n, stride in zip(shape, strides, strict=True)]
        return Value(self.slot, tuple(shape), tuple(strides), offset, self.dtype)

    def expanded(self, shape: Sequence[int]) -> "Value":
        """Broadcast to a shape, as torch does: from the right."""
        before = len(shape) - len(self.shape)
        own = [stride if n == m else 0 for n, m, stride in zip(self.shape, shape[before:], self.strides, strict=True)]
        return self.view(shape, [0] * before + own, self.offset)

    def along(self, view: Callable[[Tensor], Tensor]) -> "Value":
        """What one of torch's views makes of it. Raises RuntimeError where only a copy has that shape."""
        moved = view(self.outline())
        return self.view(moved.shape, moved.stride(), int(moved.storage_offset()))

    def outline(self) -> Tensor:
        """A tensor of this shape and these strides without numbers."""
        last = self.offset + _far([n - 1 for n in self.shape], self.strides)
        return torch.empty(max(last, 0) + 1, device="meta", dtype=self.dtype).as_strided(self.shape, self.strides, self.offset)


class LoopIR:
    """Steps that were written, and slots of inputs, constants and results."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.bases: dict[int, Tensor] = {}  # constants, one axis each
        self.steps: list[Loop] = []
        self._written: dict[object, Value] = {}
        self._constants: dict[object, int] = {}
        self._products: dict[int, tuple[Value, Value]] = {}  # what was multiplied, by the slot of the product

    # --- numbers
    def fresh(self, shape: Sequence[int], dtype: torch.dtype = torch.float64) -> Value:
        """A slot of its own, in row-major order."""
        self.sizes.append(math.prod(shape))
        whole = Value(len(self.sizes) - 1, (), (), 0, dtype)
        return whole.view(shape, contiguous(shape), 0)

    def constant(self, tensor: Tensor) -> Value:
        """A tensor that no input changes: equal numbers share a slot, a transposed table that of the table."""
        x, dtype = tensor.detach(), tensor.dtype
        if x.numel() and bool((x == x.flatten()[0]).all()):
            base, shape, strides, offset = x.flatten()[:1].clone(), x.shape, (0,) * x.ndim, 0
        elif x.untyped_storage().nbytes() <= 2 * x.numel() * x.element_size():
            base = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
            shape, strides, offset = x.shape, x.stride(), int(x.storage_offset())
        else:
            base, shape, strides, offset = x.reshape(-1), x.shape, contiguous(x.shape), 0
        key = (dtype, base.cpu().numpy().tobytes())
        if key not in self._constants:
            self._constants[key] = self.fresh((base.numel(),)).slot
            self.bases[self._constants[key]] = base.clone()
        return Value(self._constants[key], (), (), 0, dtype).view(shape, strides, offset)

    def tensor(self, value: Value) -> Tensor:
        """The numbers of a constant."""
        return self.bases[value.slot].as_strided(value.shape, value.strides, value.offset)

    def number(self, value: Value) -> float | None:
        """The one number that a constant is everywhere."""
        if value.slot in self.bases and not any(value.strides) and all(value.shape):
            return float(self.bases[value.slot][value.offset])
        return None

    def computation(self, inputs: dict[str, Value], outputs: dict[str, Value]) -> Computation:
        """The record of what the outputs need."""
        wholes = {name: self._whole(value, set(inputs.values())) for name, value in outputs.items()}
        needed, kept = {value.slot for value in wholes.values()}, []
        for step in reversed(self.steps):
            if step.to[0] in needed:
                needed |= {view[0] for view in step.of if isinstance(view, list)}
                kept.append(step)
        given = {value.slot for value in inputs.values()}
        slots = {slot: i for i, slot in enumerate(slot for slot in range(len(self.sizes)) if slot in needed | given)}
        return Computation(
            inputs={name: TensorSlot(slots[value.slot], list(value.shape)) for name, value in inputs.items()},
            outputs={name: TensorSlot(slots[value.slot], list(value.shape)) for name, value in wholes.items()},
            constants=[Constant(slots[slot], packed_constant(base)) for slot, base in self.bases.items() if slot in needed],
            sizes=[self.sizes[slot] for slot in slots],
            steps=[_renumbered(step, slots) for step in reversed(kept)],
        )

    def _whole(self, value: Value, inputs: set[Value]) -> Value:
        """The same numbers as a slot of their own in row-major order."""
        plain = value.view(value.shape, contiguous(value.shape), 0)
        is_whole = value == plain and self.sizes[value.slot] == math.prod(value.shape)
        return value if is_whole and value not in inputs and value.slot not in self.bases else self.copy(value)

    # --- steps
    def apply(self, op: str, *operands: Value | float, dtype: torch.dtype = torch.float64) -> Value:
        """An operation on each number, broadcast."""
        shape = torch.broadcast_shapes(*(x.shape for x in operands if isinstance(x, Value)))
        wide = [x.expanded(shape) if isinstance(x, Value) else x for x in operands]
        simple = self._simple(op, wide)
        if simple is not None:
            return replace(simple, dtype=dtype)
        held = tuple(1 if self._repeats(wide, axis) else n for axis, n in enumerate(shape))
        narrow = [x.view(held, x.strides, x.offset) if isinstance(x, Value) else x for x in wide]

        def make() -> Value:
            result = self.fresh(held, dtype)
            self.step(op, result, *narrow)
            if op == "mul" and all(isinstance(x, Value) for x in narrow):
                self._products[result.slot] = (narrow[0], narrow[1])  # type: ignore[assignment]
            return result

        return self.once((op, tuple(narrow), dtype), make).expanded(shape)

    def join(self, op: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """Sum, largest, ... along axes; the sum of a product is one step, which makes no product."""
        axes = [axis % len(x.shape) for axis in axes] if x.shape else []
        parts = self._factors(x, axes) if op == "sum" else None
        if parts is not None:
            return self.dot(*parts, axes, keep)
        once = [axis for axis in axes if not x.strides[axis]] if op != "prod" else []
        many = math.prod(x.shape[axis] for axis in once) if op == "sum" else 1
        result = self._joined(op, axes, [x], once)
        result = self.apply("mul", result, many) if many != 1 else replace(result, dtype=x.dtype if op != "sum" else result.dtype)
        return result if keep else without(result, axes)

    def top(self, x: Value, axes: Sequence[int]) -> Value:
        """What is subtracted before exp so that nothing overflows: the largest along axes, which stay with length 1."""
        return self.join("amax", x, axes, True)

    def dot(self, a: Value, b: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """The sum of products, broadcast, along axes: every product of matrices is one."""
        shape = torch.broadcast_shapes(a.shape, b.shape)
        axes = [axis % len(shape) for axis in axes]
        result = self._joined("dot", axes, [a.expanded(shape), b.expanded(shape)], [])
        return result if keep else without(result, axes)

    def copy(self, x: Value) -> Value:
        """The same numbers in row-major order, in a slot of their own."""

        def make() -> Value:
            result = self.fresh(x.shape, x.dtype)
            self.step("copy", result, x)
            return result

        return self.once(("copy", x), make)

    def pick(self, base: Value, rows: Sequence[Value], jumps: Sequence[int], lengths: Sequence[int]) -> Value:
        """Entries chosen by number.

        base     in the shape that comes out, with stride 0 along the axes that are chosen
        rows     of each chosen axis the row; jumps: its stride; lengths: how many rows it has
        """

        def make() -> Value:
            result = self.fresh(base.shape, base.dtype)
            self.step("gather", result, base, further.expanded(base.shape))
            return result

        further = self.further(rows, jumps)
        return self.once(("gather", base, further), make)

    def further(self, rows: Sequence[Value], jumps: Sequence[int]) -> Value:
        """How many numbers further rows lie, where a row of each axis is a jump."""
        if all(row.slot in self.bases for row in rows):
            return self.constant(sum((self.tensor(row) * jump for row, jump in zip(rows, jumps, strict=True)), torch.tensor(0)))
        parts = [self.apply("mul", row, float(jump), dtype=torch.int64) for row, jump in zip(rows, jumps, strict=True)]
        return reduce(lambda a, b: self.apply("add", a, b, dtype=torch.int64), parts)

    def step(self, op: str, to: Value, *operands: Value | float) -> None:
        """Write a step; `to` says its shape."""
        of = [self._read(x, to) for x in operands]
        views = [to, *(x for x in of if isinstance(x, Value))]
        shape, strides = merged(to.shape, [view.strides for view in views])
        written = [[view.slot, view.offset, *steps] for view, steps in zip(views, strides, strict=True)]
        rest = iter(written[1:])
        read = [next(rest) if isinstance(x, Value) else float(x) for x in of]
        self.steps.append(Loop(op, shape, written[0], read))

    def _read(self, x: Value | float, to: Value) -> Value | float:
        """A number where an operand is one everywhere; what JSON has no number for lies in a slot."""
        number = self.number(x) if isinstance(x, Value) else x
        if number is None or math.isfinite(number):
            return x if number is None else number
        return self.constant(torch.tensor(number, dtype=torch.float64)).expanded(to.shape)

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        """What was made before by the same words, or else is made now."""
        if key not in self._written:
            self._written[key] = make()
        return self._written[key]

    def _joined(self, op: str, axes: Sequence[int], operands: list[Value], once: Sequence[int]) -> Value:
        """Joined along axes, which stay with length 1; `once`: axes of which one place is enough."""
        held = [1 if axis in once else n for axis, n in enumerate(operands[0].shape)]
        free = [axis for axis in range(len(held)) if axis not in axes and self._repeats(operands, axis)]
        narrow = [1 if axis in free else n for axis, n in enumerate(held)]
        views = [x.view(narrow, x.strides, x.offset) for x in operands]

        def make() -> Value:
            result = self.fresh([1 if axis in axes else n for axis, n in enumerate(narrow)])
            self.step(op, result.view(narrow, result.strides, 0), *views)
            return result

        result = self.once((op, tuple(views), tuple(axes)), make)
        return result.expanded([1 if axis in axes else n for axis, n in enumerate(operands[0].shape)])

    def _factors(self, x: Value, axes: Sequence[int]) -> tuple[Value, Value] | None:
        """The two operands of the product that x is, or that it is a part of, in the order of x's axes."""
        operands = self._products.get(x.slot)
        if operands is None or any(x.shape[axis] > 1 and not x.strides[axis] for axis in axes):
            return None
        held = operands[0].shape
        steps = contiguous(held)
        begins = [x.offset // step % n if n > 1 else 0 for n, step in zip(held, steps, strict=True)]
        places = {step: axis for axis, (n, step) in enumerate(zip(held, steps, strict=True)) if n > 1}
        axis_of_stride = [places.get(stride) if stride else None for stride in x.strides]
        for axis, n, stride in zip(axis_of_stride, x.shape, x.strides, strict=True):
            if stride and (axis is None or begins[axis] + n > held[axis] or axis_of_stride.count(axis) > 1):
                return None
        a, b = (
            y.view(x.shape, [0 if axis is None else y.strides[axis] for axis in axis_of_stride], y.offset + _far(begins, y.strides))
            for y in operands
        )
        return a, b

    def _repeats(self, operands: Sequence[Value | float], axis: int) -> bool:
        return all(not x.strides[axis] for x in operands if isinstance(x, Value))

    def _simple(self, op: str, operands: list[Value | float]) -> Value | None:
        """What needs no step: a product with 1, a sum with 0, a choice that is made already."""
        numbers = [self.number(x) if isinstance(x, Value) else x for x in operands]
        values = [x if isinstance(x, Value) else None for x in operands]
        if op in ("mul", "add"):
            neutral = 1.0 if op == "mul" else 0.0
            return values[1] if numbers[0] == neutral else values[0] if numbers[1] == neutral else None
        if (op == "sub" and numbers[1] == 0) or (op == "div" and numbers[1] == 1):
            return values[0]
        if op == "where" and numbers[0] is not None:
            return values[1] if numbers[0] else values[2]
        return None


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of row-major order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def without(x: Value, axes: Sequence[int]) -> Value:
    """Without axes of length 1."""
    left = [axis for axis in range(len(x.shape)) if axis not in axes]
    return x.view([x.shape[axis] for axis in left], [x.strides[axis] for axis in left], x.offset)


def merged(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The same loop with as few axes as possible: none of length 1, and neighbours that every view runs through as one."""
    axes = [axis for axis, n in enumerate(shape) if n != 1]
    short: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis in axes:
        n = shape[axis]
        if short and all(own[-1] == view[axis] * n for own, view in zip(steps, strides, strict=True)):
            short[-1] *= n
            for own, view in zip(steps, strides, strict=True):
                own[-1] = view[axis]
            continue
        short.append(n)
        for own, view in zip(steps, strides, strict=True):
            own.append(view[axis])
    return short, steps


def packed_constant(base: Tensor) -> record.Array:
    """A constant as data: in float32 where that holds the same numbers."""
    x: np.ndarray = base.detach().cpu().numpy()
    if x.dtype == np.float64:
        with np.errstate(over="ignore"):
            short = x.astype(np.float32)
        x = short if np.array_equal(short.astype(np.float64), x, equal_nan=True) else x
    elif x.dtype.kind in "iu":
        x = x.astype(np.int64)
    return record.pack(x)


def _far(index: Sequence[int], strides: Sequence[int]) -> int:
    return sum(i * stride for i, stride in zip(index, strides, strict=True))


def _renumbered(step: Loop, slots: dict[int, int]) -> Loop:
    def moved(view: list[int]) -> list[int]:
        return [slots[view[0]], *view[1:]]

    of = [moved(view) if isinstance(view, list) else view for view in step.of]
    return Loop(step.op, step.shape, moved(step.to), of)
