"""Field steps: the loop IR of `program.loops`, executed on numbers modulo a prime.

An operation of torch thus has one rule, its loops, and this file defines each of about forty steps on formulas. Sums, products and
moves are exact; for every other function only its values at 0, 1 and infinity are known.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equiscope.audit.proof.field import (
    HIGH,
    LOW,
    NONE,
    PRIME,
    NoRule,
    add,
    all_finite,
    bilinear,
    constant,
    function,
    hash_key,
    hashed,
    inverse,
    multiply,
    negative,
    ordered,
    power,
    product,
    symmetric,
    total,
)  # fmt: skip
from equiscope.program.loops.interpret import EACH
from equiscope.program.loops.loop_ir import LoopIR, Value, contiguous

Operand = Value | float


class FieldSteps(LoopIR):
    """The loop IR with numbers of the field in its slots.

    masks_infinite  large negative constants count as minus infinity
    """

    def __init__(self, masks_infinite: bool = False) -> None:
        super().__init__()
        self.masks_infinite = masks_infinite
        self.numbers: dict[int, Tensor] = {}  # by slot; a constant is added when it is first read

    # --- numbers
    def fresh(self, shape: Sequence[int], dtype: torch.dtype = torch.float64) -> Value:
        result = super().fresh(shape, dtype)
        self.numbers[result.slot] = torch.zeros(self.sizes[result.slot], dtype=torch.long)
        return result

    def to_value(self, t: Tensor, dtype: torch.dtype) -> Value:
        """Numbers of the field as a value. Repetitions along an axis are stored once."""
        unique_shape = [1 if stride == 0 else n for n, stride in zip(t.shape, t.stride(), strict=True)]
        unique = t if unique_shape == list(t.shape) else t.as_strided(unique_shape, t.stride(), t.storage_offset())
        slot = len(self.sizes)
        self.sizes.append(unique.numel())
        flat = unique.contiguous().view(-1)
        self.numbers[slot] = flat.clone() if flat.storage_offset() else flat  # strides count from the start of the storage
        return Value(slot, tuple(unique_shape), contiguous(unique_shape), 0, dtype).expanded(t.shape)

    def constant(self, tensor: Tensor) -> Value:
        result = super().constant(tensor.detach().to(torch.float64 if tensor.is_floating_point() else tensor.dtype))
        self.numbers.pop(result.slot, None)  # converted when it is read
        return result

    def read(self, x: Operand) -> Tensor:
        """The numbers of a value."""
        if not isinstance(x, Value):
            return constant(torch.tensor(float(x), dtype=torch.float64), self.masks_infinite)
        if x.slot not in self.numbers:
            self.numbers[x.slot] = constant(self.bases[x.slot], self.masks_infinite)
        return self.numbers[x.slot].as_strided(x.shape, x.strides, x.offset)

    # --- steps
    def apply(self, op: str, *operands: Operand, dtype: torch.dtype = torch.float64) -> Value:
        shape = torch.broadcast_shapes(*(x.shape for x in operands if isinstance(x, Value)))
        if all(x.slot in self.bases for x in operands if isinstance(x, Value)):
            return self.constant(_real(op, [self.tensor(x) if isinstance(x, Value) else x for x in operands], dtype).expand(shape))
        operand_values = [self._as_scalar(x) for x in operands]
        elements = list(torch.broadcast_tensors(*map(self.read, operand_values)))
        result = EXACT[op](operand_values, elements) if op in EXACT else _function(op, operand_values, elements)
        if op not in EXACT_EVERYWHERE and sum(isinstance(x, Value) for x in operand_values) == 1:
            result = self._at_special_values(op, operand_values, result)
        return self.to_value(result.expand(shape), dtype)

    def _as_scalar(self, x: Operand) -> Operand:
        """A number, where a value is constant; otherwise the value."""
        number = self.number(x) if isinstance(x, Value) else x
        return x if number is None else bool(number) if _truth(x) else number

    def _at_special_values(self, op: str, operands: Sequence[Operand], result: Tensor) -> Tensor:
        """The true values of a function of one number at 0, at 1 and at infinities: tanh(0) = 0, exp(-inf) = 0."""
        variable = next(x for x in operands if isinstance(x, Value))
        points = [0, 1, LOW, HIGH, NONE] if variable.dtype.is_floating_point else [0, 1]
        numbers = np.array([0.0, 1.0, float("-inf"), float("inf"), float("nan")][: len(points)])
        real = _real(op, [numbers if isinstance(x, Value) else x for x in operands], torch.float64)
        for point, special in zip(points, constant(real, self.masks_infinite), strict=True):
            result = torch.where(self.read(variable) == point, special, result)
        return result

    def join(self, op: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        t, dims = self.read(x), [axis % len(x.shape) for axis in axes] if x.shape else []
        if op == "sum":
            return self.to_value(total(t, dims, keep), torch.float64)
        if op == "prod":
            result = product(t, dims, keep)
        elif x.dtype == torch.bool:
            result = product(t, dims, keep) if op == "amin" else (1 - product((1 - t) % PRIME, dims, keep)) % PRIME
        else:
            result = _extreme(op, t, dims, keep)
        return self.to_value(result, x.dtype)

    def top(self, x: Value, axes: Sequence[int]) -> Value:
        """Zeros: nothing overflows in the field, so softmax needs no maximum."""
        return self.constant(
            torch.zeros([1 if axis in axes or axis - len(x.shape) in axes else n for axis, n in enumerate(x.shape)])
        )

    def dot(self, a: Value, b: Value, axes: Sequence[int], keep: bool = False) -> Value:
        shape = torch.broadcast_shapes(a.shape, b.shape)
        summed = [axis % len(shape) for axis in axes]
        x, y = (self.read(value.expanded(shape)) for value in (a, b))
        result = _contracted(x, y, summed)
        return self.to_value(result if keep else result.squeeze(tuple(summed)), torch.float64)

    def copy(self, x: Value) -> Value:
        result = self.fresh(x.shape, x.dtype)
        self.step("copy", result, x)
        return result

    def pick(self, base: Value, rows: Sequence[Value], jumps: Sequence[int], lengths: Sequence[int]) -> Value:
        """Rows selected by indices that the model computes are a function of all rows and the index."""
        if all(row.slot in self.bases for row in rows):
            index_offset = self.tensor(self.further(rows, jumps).expanded(base.shape))
            return self.to_value(self.numbers_of(base)[self._flat_indices(base) + index_offset], base.dtype)
        unique = [1 if stride == 0 else n for n, stride in zip(base.shape, base.strides, strict=True)]
        rows_read = self.numbers_of(base).as_strided([*unique, *lengths], [*base.strides, *jumps], base.offset)
        content = ordered("rows", rows_read, list(range(len(unique), rows_read.ndim)))
        numbers = function("index", *torch.broadcast_tensors(*map(self.read, rows)))
        return self.to_value(function("row", *torch.broadcast_tensors(content, numbers)).expand(base.shape), base.dtype)

    def step(self, op: str, to: Value, *operands: Operand) -> None:
        numbers = self.numbers[to.slot]
        elements = self.read(operands[0])
        if op == "copy":
            numbers.as_strided(to.shape, to.strides, to.offset).copy_(elements)
            return
        index_offset = operands[1]
        if not isinstance(index_offset, Value) or index_offset.slot not in self.bases:
            raise NoRule  # the target depends on unknown numbers
        target = (self._flat_indices(to) + self.tensor(index_offset.expanded(to.shape))).flatten()
        elements = elements.expand(to.shape).flatten()
        if op == "put":
            numbers[target] = elements
        elif all_finite(elements, numbers):
            numbers.index_add_(0, target, elements).remainder_(PRIME)
        else:
            raise NoRule

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        return make()

    def numbers_of(self, x: Value) -> Tensor:
        """All numbers of a value's slot."""
        self.read(x)
        return self.numbers[x.slot]

    def _flat_indices(self, x: Value) -> Tensor:
        return torch.arange(self.sizes[x.slot]).as_strided(x.shape, x.strides, x.offset)


def _real(op: str, operands: Sequence[Any], dtype: torch.dtype) -> Tensor:
    """A step on constants."""
    with np.errstate(all="ignore"):
        result = EACH[op](*(np.asarray(x, dtype=np.float64) for x in operands))
    return torch.from_numpy(np.asarray(result)).to(dtype)


def _function(op: str, operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    """An elementwise function. Constant operands belong to its name."""
    words = tuple("·" if isinstance(x, Value) else repr(float(x)) for x in operands)
    values = [t for x, t in zip(operands, elements, strict=True) if isinstance(x, Value)]
    return function((op, words) if len(words) > 1 else op, *values)


def _contracted(a: Tensor, b: Tensor, axes: list[int]) -> Tensor:
    """The sum of a * b along axes, which keep length 1. NaN spreads to every sum that contains it."""
    none = [(t == NONE) if bool((t == NONE).any()) else None for t in (a, b)]
    spoilt = None
    for spoilt_by in none:
        if spoilt_by is not None:
            here = spoilt_by.any(axes[0], keepdim=True) if len(axes) == 1 else spoilt_by.sum(axes, keepdim=True) > 0
            spoilt = here if spoilt is None else spoilt | here
    a, b = (t if spoilt_by is None else t.masked_fill(spoilt_by, 0) for t, spoilt_by in zip((a, b), none, strict=True))
    result = _product(a, b, axes)
    return result if spoilt is None else result.masked_fill(spoilt, NONE)


def _product(a: Tensor, b: Tensor, axes: list[int]) -> Tensor:
    """The same as a product of matrices, by axes of both, of a only, of b only, and summed ones."""
    varies = [(sa != 0, sb != 0) for sa, sb in zip(a.stride(), b.stride(), strict=True)]
    shape, every = a.shape, range(a.ndim)
    a, b = (
        t.as_strided([n if s else 1 for n, s in zip(shape, t.stride(), strict=True)], t.stride(), t.storage_offset())
        for t in (a, b)
    )
    single_factor = [axis for axis in axes if varies[axis] != (True, True)]
    repetitions = 1
    for axis in single_factor:  # a sum of one factor
        in_a, in_b = varies[axis]
        a = total(a, [axis], True) if in_a else a
        b = total(b, [axis], True) if in_b else b
        repetitions *= 1 if in_a or in_b else shape[axis]
    summed = [axis for axis in axes if axis not in single_factor]
    both = [axis for axis in every if axis not in axes and varies[axis] == (True, True)]
    left = [axis for axis in every if axis not in axes and varies[axis] == (True, False)]
    right = [axis for axis in every if axis not in axes and varies[axis] == (False, True)]
    rest = [axis for axis in every if axis not in (*both, *left, *right, *summed)]

    def matrix(t: Tensor, first: list[int], second: list[int]) -> Tensor:
        order = [*both, *first, *second, *(axis for axis in every if axis not in (*both, *first, *second))]
        sizes = [int(np.prod([shape[axis] for axis in some])) for some in (both, first, second)]
        return t.permute(order).reshape(sizes)

    result = bilinear(torch.matmul, matrix(a, left, summed), matrix(b, summed, right))
    order = [*both, *left, *right, *summed, *rest]
    result = result.view([shape[axis] if axis in (*both, *left, *right) else 1 for axis in order])
    result = result.permute([order.index(axis) for axis in every]).expand(
        [1 if axis in axes else n for axis, n in enumerate(shape)]
    )
    return result if repetitions == 1 else result * repetitions % PRIME


# --- steps on formulas
def _plus(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    return _either(operands, elements) if all(map(_truth, operands)) else add(*elements)


def _minus(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    return add(elements[0], negative(elements[1]))


def _times(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    """The product. An infinity keeps its sign beside a positive constant."""
    for (infinite, other), factor in zip((elements, elements[::-1]), operands[::-1], strict=True):
        if isinstance(factor, (int, float)) and not all_finite(infinite):
            finite = multiply(infinite.masked_fill(infinite >= PRIME, 1), other)
            signed = infinite if factor > 0 else negative(infinite)
            result = torch.where(infinite < PRIME, finite, signed)
            return result.masked_fill(infinite >= PRIME, NONE) if factor == 0 else result
    return multiply(*elements)


def _over(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    if isinstance(operands[1], (int, float)) and not all_finite(elements[0]):
        return _times((operands[0], 1 / operands[1] if operands[1] else float("nan")), [elements[0], inverse(elements[1])])
    return multiply(elements[0], inverse(elements[1]))


def _raised(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    exponent = operands[1]
    if isinstance(exponent, (int, float)) and exponent == int(exponent) and abs(exponent) <= 64:
        result = power(elements[0], abs(int(exponent)))
        return result if exponent >= 0 else inverse(result)
    return _function("pow", operands, elements)


def select(chosen: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where true, b where false: chosen * a + (1 - chosen) * b, also for unknown truth values."""
    result = add(multiply(chosen, a), multiply((1 - chosen) % PRIME, b))
    result = torch.where((a >= PRIME) | (b >= PRIME), function("where", chosen, a, b), result)
    result = torch.where(a == b, a, result)
    return torch.where(chosen == 1, a, torch.where(chosen == 0, b, result))


def _both(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    return elements[0] * elements[1] % PRIME


def _either(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    a, b = elements
    return (a + b - a * b % PRIME) % PRIME


def _equal(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    """An indeterminate, unless both are the same formula or only one is infinite. Exact for truth values."""
    a, b = elements
    if all(map(_truth, operands)):
        return (1 - (a + b - 2 * (a * b % PRIME))) % PRIME
    result = torch.where(a == b, 1, symmetric("eq", a, b)).masked_fill((a == NONE) | (b == NONE), 0)
    return result.masked_fill(((a >= PRIME) | (b >= PRIME)) & (a != b), 0)


def _unequal(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
    return (1 - _equal(operands, elements)) % PRIME


def _extremum(name: str) -> Callable[[Sequence[Operand], list[Tensor]], Tensor]:
    """The maximum or minimum of two: minus infinity is never the maximum, infinity never the minimum."""

    def rule(operands: Sequence[Operand], elements: list[Tensor]) -> Tensor:
        a, b = elements
        identity = LOW if name == "maximum" else HIGH
        result = torch.where(a == b, a, symmetric(name, a, b))
        return torch.where(a == identity, b, torch.where(b == identity, a, result))

    return rule


def _extreme(op: str, x: Tensor, dims: list[int], keep: bool) -> Tensor:
    """The maximum or minimum along axes: the opposite infinity is the result only where it is the only value."""
    repetitions = int(np.prod([x.shape[d] for d in dims]))
    if repetitions == 1:
        return total(x, dims, keep)
    identity = LOW if op == "amax" else HIGH
    each = hashed(x, hash_key(op, "each")).masked_fill(x == identity, 0)
    result = hashed(each.sum(dims, keep) % PRIME, hash_key(op))
    return result.masked_fill((x == identity).sum(dims, keep) == repetitions, identity)


def _truth(x: Operand) -> bool:
    return isinstance(x, bool) or (isinstance(x, Value) and x.dtype == torch.bool)


EXACT: dict[str, Callable[[Sequence[Operand], list[Tensor]], Tensor]] = {
    "add": _plus, "sub": _minus, "mul": _times, "div": _over, "neg": lambda _, elements: negative(elements[0]), "pow": _raised,
    "where": lambda _, elements: select(*elements), "and": _both, "or": _either,
    "not": lambda _, elements: (1 - elements[0]) % PRIME, "eq": _equal, "ne": _unequal, "maximum": _extremum("maximum"),
    "minimum": _extremum("minimum"), "copy": lambda _, elements: elements[0],
}  # fmt: skip
EXACT_EVERYWHERE = ("add", "sub", "mul", "div", "neg", "where", "and", "or", "not", "copy")  # exact for all numbers
