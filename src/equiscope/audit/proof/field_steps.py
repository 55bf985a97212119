"""Steps over the field: what `program.loops` writes as loops for a page runs here on numbers modulo a prime.

So an operation of torch has one rule, its loops, and this file says what each of some forty steps is of formulas: sums, products
and what only moves numbers are exact; of every other function nothing is assumed but what it is at 0, 1 and infinity.
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
    bilinear,
    constant,
    function,
    inverse,
    key,
    listed,
    mixed,
    multiply,
    negative,
    plain,
    power,
    product,
    symmetric,
    total,
)  # fmt: skip
from equiscope.program.loops.interpret import EACH
from equiscope.program.loops.loop_ir import LoopIR, Value, contiguous

Given = Value | float


class FieldSteps(LoopIR):
    """The loop IR, with numbers of the field in its slots.

    deep  large negative constants count as minus infinity
    """

    def __init__(self, deep: bool = False) -> None:
        super().__init__()
        self.deep = deep
        self.numbers: dict[int, Tensor] = {}  # by slot; of a constant from the first time that it is read

    # --- numbers
    def fresh(self, shape: Sequence[int], dtype: torch.dtype = torch.float64) -> Value:
        made = super().fresh(shape, dtype)
        self.numbers[made.slot] = torch.zeros(self.sizes[made.slot], dtype=torch.long)
        return made

    def lifted(self, t: Tensor, dtype: torch.dtype) -> Value:
        """Numbers of the field as a value. Where they repeat along an axis they are kept once."""
        held = [1 if stride == 0 else n for n, stride in zip(t.shape, t.stride(), strict=True)]
        narrow = t if held == list(t.shape) else t.as_strided(held, t.stride(), t.storage_offset())
        slot = len(self.sizes)
        self.sizes.append(narrow.numel())
        flat = narrow.contiguous().view(-1)
        self.numbers[slot] = flat.clone() if flat.storage_offset() else flat  # strides count from the beginning of the storage
        return Value(slot, tuple(held), contiguous(held), 0, dtype).expanded(t.shape)

    def constant(self, tensor: Tensor) -> Value:
        made = super().constant(tensor.detach().to(torch.float64 if tensor.is_floating_point() else tensor.dtype))
        self.numbers.pop(made.slot, None)  # is lifted when it is read
        return made

    def read(self, x: Given) -> Tensor:
        """The numbers of a value."""
        if not isinstance(x, Value):
            return constant(torch.tensor(float(x), dtype=torch.float64), self.deep)
        if x.slot not in self.numbers:
            self.numbers[x.slot] = constant(self.bases[x.slot], self.deep)
        return self.numbers[x.slot].as_strided(x.shape, x.strides, x.offset)

    # --- steps
    def apply(self, op: str, *operands: Given, dtype: torch.dtype = torch.float64) -> Value:
        shape = torch.broadcast_shapes(*(x.shape for x in operands if isinstance(x, Value)))
        if all(x.slot in self.bases for x in operands if isinstance(x, Value)):
            return self.constant(_real(op, [self.tensor(x) if isinstance(x, Value) else x for x in operands], dtype).expand(shape))
        known = [self._plain(x) for x in operands]
        given = list(torch.broadcast_tensors(*map(self.read, known)))
        made = EXACT[op](known, given) if op in EXACT else _function(op, known, given)
        if op not in MOVING and sum(isinstance(x, Value) for x in known) == 1:
            made = self._at_known(op, known, made)
        return self.lifted(made.expand(shape), dtype)

    def _plain(self, x: Given) -> Given:
        """A number where a value is one everywhere."""
        number = self.number(x) if isinstance(x, Value) else x
        return x if number is None else bool(number) if _truth(x) else number

    def _at_known(self, op: str, operands: Sequence[Given], made: Tensor) -> Tensor:
        """What a function of one number really is at 0, at 1 and at what is not finite: tanh(0) = 0, exp(-inf) = 0."""
        unknown = next(x for x in operands if isinstance(x, Value))
        points = [0, 1, LOW, HIGH, NONE] if unknown.dtype.is_floating_point else [0, 1]
        numbers = np.array([0.0, 1.0, float("-inf"), float("inf"), float("nan")][: len(points)])
        real = _real(op, [numbers if isinstance(x, Value) else x for x in operands], torch.float64)
        for point, found in zip(points, constant(real, self.deep), strict=True):
            made = torch.where(self.read(unknown) == point, found, made)
        return made

    def join(self, op: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        t, dims = self.read(x), [axis % len(x.shape) for axis in axes] if x.shape else []
        if op == "sum":
            return self.lifted(total(t, dims, keep), torch.float64)
        if op == "prod":
            made = product(t, dims, keep)
        elif x.dtype == torch.bool:
            made = product(t, dims, keep) if op == "amin" else (1 - product((1 - t) % PRIME, dims, keep)) % PRIME
        else:
            made = _extreme(op, t, dims, keep)
        return self.lifted(made, x.dtype)

    def top(self, x: Value, axes: Sequence[int]) -> Value:
        """Nothing overflows here: softmax is exp over its sum."""
        return self.constant(
            torch.zeros([1 if axis in axes or axis - len(x.shape) in axes else n for axis, n in enumerate(x.shape)])
        )

    def dot(self, a: Value, b: Value, axes: Sequence[int], keep: bool = False) -> Value:
        shape = torch.broadcast_shapes(a.shape, b.shape)
        summed = [axis % len(shape) for axis in axes]
        x, y = (self.read(value.expanded(shape)) for value in (a, b))
        made = _contracted(x, y, summed)
        return self.lifted(made if keep else made.squeeze(tuple(summed)), torch.float64)

    def copy(self, x: Value) -> Value:
        made = self.fresh(x.shape, x.dtype)
        self.step("copy", made, x)
        return made

    def pick(self, base: Value, rows: Sequence[Value], jumps: Sequence[int], lengths: Sequence[int]) -> Value:
        """Rows by numbers that the model computes are a function of all rows and the number."""
        if all(row.slot in self.bases for row in rows):
            further = self.tensor(self.further(rows, jumps).expanded(base.shape))
            return self.lifted(self.numbers_of(base)[self._places(base) + further], base.dtype)
        narrow = [1 if stride == 0 else n for n, stride in zip(base.shape, base.strides, strict=True)]
        fibres = self.numbers_of(base).as_strided([*narrow, *lengths], [*base.strides, *jumps], base.offset)
        content = listed("rows", fibres, list(range(len(narrow), fibres.ndim)))
        numbers = function("index", *torch.broadcast_tensors(*map(self.read, rows)))
        return self.lifted(function("row", *torch.broadcast_tensors(content, numbers)).expand(base.shape), base.dtype)

    def step(self, op: str, to: Value, *operands: Given) -> None:
        numbers = self.numbers[to.slot]
        given = self.read(operands[0])
        if op == "copy":
            numbers.as_strided(to.shape, to.strides, to.offset).copy_(given)
            return
        further = operands[1]
        if not isinstance(further, Value) or further.slot not in self.bases:
            raise NoRule  # where it is written depends on the numbers
        where = (self._places(to) + self.tensor(further.expanded(to.shape))).flatten()
        given = given.expand(to.shape).flatten()
        if op == "put":
            numbers[where] = given
        elif plain(given, numbers):
            numbers.index_add_(0, where, given).remainder_(PRIME)
        else:
            raise NoRule

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        return make()

    def numbers_of(self, x: Value) -> Tensor:
        """All numbers of a value's slot."""
        self.read(x)
        return self.numbers[x.slot]

    def _places(self, x: Value) -> Tensor:
        return torch.arange(self.sizes[x.slot]).as_strided(x.shape, x.strides, x.offset)


def _real(op: str, operands: Sequence[Any], dtype: torch.dtype) -> Tensor:
    """A step on known numbers."""
    with np.errstate(all="ignore"):
        made = EACH[op](*(np.asarray(x, dtype=np.float64) for x in operands))
    return torch.from_numpy(np.asarray(made)).to(dtype)


def _function(op: str, operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    """A function of the entries that stand at one place. What is one number everywhere belongs to its name."""
    words = tuple("·" if isinstance(x, Value) else repr(float(x)) for x in operands)
    values = [t for x, t in zip(operands, given, strict=True) if isinstance(x, Value)]
    return function((op, words) if len(words) > 1 else op, *values)


def _contracted(a: Tensor, b: Tensor, axes: list[int]) -> Tensor:
    """The sum of a * b along axes, which stay with length 1. What is not a number makes all that it is in not a number."""
    none = [(t == NONE) if bool((t == NONE).any()) else None for t in (a, b)]
    spoilt = None
    for where in none:
        if where is not None:
            here = where.any(axes[0], keepdim=True) if len(axes) == 1 else where.sum(axes, keepdim=True) > 0
            spoilt = here if spoilt is None else spoilt | here
    a, b = (t if where is None else t.masked_fill(where, 0) for t, where in zip((a, b), none, strict=True))
    made = _product(a, b, axes)
    return made if spoilt is None else made.masked_fill(spoilt, NONE)


def _product(a: Tensor, b: Tensor, axes: list[int]) -> Tensor:
    """As a product of matrices: axes of both, of a alone, of b alone, and those that are summed."""
    moves = [(sa != 0, sb != 0) for sa, sb in zip(a.stride(), b.stride(), strict=True)]
    shape, every = a.shape, range(a.ndim)
    a, b = (
        t.as_strided([n if s else 1 for n, s in zip(shape, t.stride(), strict=True)], t.stride(), t.storage_offset())
        for t in (a, b)
    )
    alone = [axis for axis in axes if moves[axis] != (True, True)]
    many = 1
    for axis in alone:  # a sum of one factor
        in_a, in_b = moves[axis]
        a = total(a, [axis], True) if in_a else a
        b = total(b, [axis], True) if in_b else b
        many *= 1 if in_a or in_b else shape[axis]
    summed = [axis for axis in axes if axis not in alone]
    both = [axis for axis in every if axis not in axes and moves[axis] == (True, True)]
    left = [axis for axis in every if axis not in axes and moves[axis] == (True, False)]
    right = [axis for axis in every if axis not in axes and moves[axis] == (False, True)]
    rest = [axis for axis in every if axis not in (*both, *left, *right, *summed)]

    def matrix(t: Tensor, first: list[int], second: list[int]) -> Tensor:
        order = [*both, *first, *second, *(axis for axis in every if axis not in (*both, *first, *second))]
        sizes = [int(np.prod([shape[axis] for axis in some])) for some in (both, first, second)]
        return t.permute(order).reshape(sizes)

    made = bilinear(torch.matmul, matrix(a, left, summed), matrix(b, summed, right))
    order = [*both, *left, *right, *summed, *rest]
    made = made.view([shape[axis] if axis in (*both, *left, *right) else 1 for axis in order])
    made = made.permute([order.index(axis) for axis in every]).expand([1 if axis in axes else n for axis, n in enumerate(shape)])
    return made if many == 1 else made * many % PRIME


# --- what a step is of formulas
def _plus(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    return _either(operands, given) if all(map(_truth, operands)) else add(*given)


def _minus(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    return add(given[0], negative(given[1]))


def _times(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    """An infinity keeps its sign beside a number that is known to be positive."""
    for (endless, other), known in zip((given, given[::-1]), operands[::-1], strict=True):
        if isinstance(known, (int, float)) and not plain(endless):
            finite = multiply(endless.masked_fill(endless >= PRIME, 1), other)
            signed = endless if known > 0 else negative(endless)
            made = torch.where(endless < PRIME, finite, signed)
            return made.masked_fill(endless >= PRIME, NONE) if known == 0 else made
    return multiply(*given)


def _over(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    if isinstance(operands[1], (int, float)) and not plain(given[0]):
        return _times((operands[0], 1 / operands[1] if operands[1] else float("nan")), [given[0], inverse(given[1])])
    return multiply(given[0], inverse(given[1]))


def _raised(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    exponent = operands[1]
    if isinstance(exponent, (int, float)) and exponent == int(exponent) and abs(exponent) <= 64:
        made = power(given[0], abs(int(exponent)))
        return made if exponent >= 0 else inverse(made)
    return _function("pow", operands, given)


def select(chosen: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where true, b where false: chosen * a + (1 - chosen) * b, for truth values that are letters too."""
    made = add(multiply(chosen, a), multiply((1 - chosen) % PRIME, b))
    made = torch.where((a >= PRIME) | (b >= PRIME), function("where", chosen, a, b), made)
    made = torch.where(a == b, a, made)
    return torch.where(chosen == 1, a, torch.where(chosen == 0, b, made))


def _both(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    return given[0] * given[1] % PRIME


def _either(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    a, b = given
    return (a + b - a * b % PRIME) % PRIME


def _equal(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    """A letter, unless both are the same formula or one of them alone is infinite. Of truth values it is exact."""
    a, b = given
    if all(map(_truth, operands)):
        return (1 - (a + b - 2 * (a * b % PRIME))) % PRIME
    made = torch.where(a == b, 1, symmetric("eq", a, b)).masked_fill((a == NONE) | (b == NONE), 0)
    return made.masked_fill(((a >= PRIME) | (b >= PRIME)) & (a != b), 0)


def _unequal(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
    return (1 - _equal(operands, given)) % PRIME


def _larger(name: str) -> Callable[[Sequence[Given], list[Tensor]], Tensor]:
    """Of two: minus infinity is never the largest, and infinity never the smallest."""

    def rule(operands: Sequence[Given], given: list[Tensor]) -> Tensor:
        a, b = given
        least = LOW if name == "maximum" else HIGH
        made = torch.where(a == b, a, symmetric(name, a, b))
        return torch.where(a == least, b, torch.where(b == least, a, made))

    return rule


def _extreme(op: str, x: Tensor, dims: list[int], keep: bool) -> Tensor:
    """The largest or the smallest: an infinity of the other end is never it beside others."""
    many = int(np.prod([x.shape[d] for d in dims]))
    if many == 1:
        return total(x, dims, keep)
    least = LOW if op == "amax" else HIGH
    each = mixed(x, key(op, "each")).masked_fill(x == least, 0)
    made = mixed(each.sum(dims, keep) % PRIME, key(op))
    return made.masked_fill((x == least).sum(dims, keep) == many, least)


def _truth(x: Given) -> bool:
    return isinstance(x, bool) or (isinstance(x, Value) and x.dtype == torch.bool)


EXACT: dict[str, Callable[[Sequence[Given], list[Tensor]], Tensor]] = {
    "add": _plus, "sub": _minus, "mul": _times, "div": _over, "neg": lambda _, given: negative(given[0]), "pow": _raised,
    "where": lambda _, given: select(*given), "and": _both, "or": _either,
    "not": lambda _, given: (1 - given[0]) % PRIME, "eq": _equal, "ne": _unequal, "maximum": _larger("maximum"),
    "minimum": _larger("minimum"), "copy": lambda _, given: given[0],
}  # fmt: skip
MOVING = ("add", "sub", "mul", "div", "neg", "where", "and", "or", "not", "copy")  # exact for all numbers
