"""Numbers that torch's operations move: joined, padded, picked and put by an index, and seen in another shape."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.explore.aten import LOWERED, Lowered, lowered, name_of
from equiscope.explore.tape import Tape, Value, contiguous


@lowered("cat")
def cat(tape: Tape, some: Sequence[Value], dim: int = 0) -> Value:
    """One behind the other along an axis."""
    some = [x for x in some if x.shape != (0,)]  # torch takes an empty list of numbers for nothing, whatever the others are
    dim = dim % len(some[0].shape)
    shape = list(some[0].shape)
    shape[dim] = sum(x.shape[dim] for x in some)

    def make() -> Value:
        made, begin = tape.fresh(shape, some[0].dtype), 0
        for x in some:
            place = made.along(lambda t, x=x, begin=begin: t.narrow(dim, begin, x.shape[dim]))  # type: ignore[misc]
            tape.step("copy", place, x)
            begin += x.shape[dim]
        return made

    return tape.once(("cat", tuple(some), dim), make)


@lowered("repeat")
def _repeat(tape: Tape, x: Value, times: Sequence[int]) -> Value:
    own = [1] * (len(times) - len(x.shape)) + list(x.shape)
    apart = x.seen([n for m in own for n in (1, m)], [s for m in _led(x, len(own)) for s in (0, m)], x.offset)
    wide = apart.expanded([n for many, m in zip(times, own, strict=True) for n in (many, m)])
    return reshaped(tape, wide, [many * m for many, m in zip(times, own, strict=True)])


def _led(x: Value, rank: int) -> list[int]:
    return [0] * (rank - len(x.shape)) + list(x.strides)


def _replacing(view: Callable[..., Tensor]) -> Lowered:
    def how(tape: Tape, base: Value, part: Value, *where: Any, **named: Any) -> Value:
        made = tape.fresh(base.shape, base.dtype)
        tape.step("copy", made, base)
        place = made.along(lambda t: view(t, *where, **named))
        tape.step("copy", place, part.expanded(place.shape))
        return made

    return how


LOWERED["slice_scatter"] = _replacing(torch.ops.aten.slice.Tensor)
LOWERED["select_scatter"] = _replacing(torch.ops.aten.select.int)
LOWERED["diagonal_scatter"] = _replacing(torch.diagonal)


@lowered("copy")
def _copied(tape: Tape, to: Value, x: Value) -> Value:
    return x.expanded(to.shape)


@lowered("constant_pad_nd")
def _pad(tape: Tape, x: Value, pad: Sequence[int], value: float = 0.0) -> Value:
    pairs = [(0, 0)] * (len(x.shape) - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    for axis, (a, b) in enumerate(pairs):  # a negative pad cuts
        x = x.along(lambda t, axis=axis, a=a, b=b: t.narrow(axis, max(-a, 0), t.shape[axis] - max(-a, 0) - max(-b, 0)))  # type: ignore[misc]
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    made = tape.fresh([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)], x.dtype)
    tape.step("copy", made, value)
    tape.step("copy", made.seen(x.shape, made.strides, sum(s * a for s, (a, _) in zip(made.strides, pairs, strict=True))), x)
    return made


# --- by an index
def _rows(tape: Tape, index: Value, length: int) -> Value:
    """An index that may count from the end, from the beginning."""
    if index.slot in tape.bases:
        rows = tape.tensor(index)
        return tape.constant(torch.where(rows < 0, rows + length, rows))
    back = tape.apply("add", index, float(length), dtype=torch.int64)
    return tape.apply("where", tape.apply("lt", index, 0.0, dtype=torch.bool), back, index, dtype=torch.int64)


def _further(tape: Tape, rows: Sequence[Value], jumps: Sequence[int]) -> Value:
    """How many numbers further rows lie, where a row of each axis is a jump."""
    if all(row.slot in tape.bases for row in rows):
        return tape.constant(sum((tape.tensor(row) * jump for row, jump in zip(rows, jumps, strict=True)), torch.tensor(0)))
    parts = [tape.apply("mul", row, float(jump), dtype=torch.int64) for row, jump in zip(rows, jumps, strict=True)]
    return reduce(lambda a, b: tape.apply("add", a, b, dtype=torch.int64), parts)


def _pick(tape: Tape, base: Value, rows: Sequence[Value], jumps: Sequence[int]) -> Value:
    def make() -> Value:
        made = tape.fresh(base.shape, base.dtype)
        tape.step("gather", made, base, further.expanded(base.shape))
        return made

    further = _further(tape, rows, jumps)
    return tape.once(("gather", base, further), make)


@lowered("gather")
def _gather(tape: Tape, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    dim = dim % len(x.shape)
    strides = [0 if axis == dim else stride for axis, stride in enumerate(x.strides)]
    return _pick(tape, x.seen(index.shape, strides, x.offset), [index], [x.strides[dim]])


@lowered("index_select")
def _index_select(tape: Tape, x: Value, dim: int, index: Value) -> Value:
    dim = dim % len(x.shape)
    return _index(tape, x, [None] * dim + [index])


@lowered("flip")
def _flip(tape: Tape, x: Value, dims: Sequence[int]) -> Value:
    for dim in dims:
        x = _index_select(tape, x, dim, tape.constant(torch.arange(x.shape[dim]).flip(0)))
    return x


@lowered("embedding")
def _embedding(tape: Tape, table: Value, index: Value, *rest: Any) -> Value:
    return _index(tape, table, [index])


def _placed(x: Value, indices: Sequence[Value | None]) -> tuple[Value, list[int], tuple[int, ...], int]:
    """Of an index: x in the shape that is asked for, the axes that are chosen, the shape of the indices and where it stands."""
    chosen = [axis for axis, index in enumerate(indices) if index is not None]
    many = tuple(torch.broadcast_shapes(*(index.shape for index in indices if index is not None)))
    rest = [axis for axis in range(len(x.shape)) if axis not in chosen]
    begin = chosen[0] if chosen == list(range(chosen[0], chosen[-1] + 1)) else 0
    order = rest[:begin] + [-1] * len(many) + rest[begin:]
    sizes = iter(many)
    shape = [next(sizes) if axis < 0 else x.shape[axis] for axis in order]
    strides = [0 if axis < 0 else x.strides[axis] for axis in order]
    return x.seen(shape, strides, x.offset), chosen, many, begin


def _lined_up(row: Value, many: tuple[int, ...], begin: int, rank: int) -> Value:
    row = row.expanded(many)
    after = rank - begin - len(many)
    return row.seen([1] * begin + list(many) + [1] * after, [0] * begin + list(row.strides) + [0] * after, row.offset)


def _chosen(tape: Tape, indices: Sequence[Value | None]) -> list[Value | None]:
    """Indices as whole numbers: a mask, which has to be a constant, as the rows where it is True."""
    found: list[Value | None] = []
    for index in indices:
        if index is None or index.dtype != torch.bool:
            found.append(index)
        elif index.slot in tape.bases:
            found += [tape.constant(rows.contiguous()) for rows in tape.tensor(index).bool().nonzero(as_tuple=True)]
        else:
            raise InputError("A computation has fixed shapes, but here a mask that depends on the input picks rows. Use where().")
    return found


@lowered("index")
def _index(tape: Tape, x: Value, indices: Sequence[Value | None]) -> Value:
    indices = _chosen(tape, indices)
    base, chosen, many, begin = _placed(x, indices)
    rows = [_rows(tape, index, x.shape[axis]) for axis, index in enumerate(indices) if index is not None]
    wide = [_lined_up(row, many, begin, len(base.shape)) for row in rows]
    return _pick(tape, base, wide, [x.strides[axis] for axis in chosen])


@lowered("index_put")
def _index_put(tape: Tape, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    indices, made = _chosen(tape, indices), tape.fresh(x.shape, x.dtype)
    tape.step("copy", made, x)
    place, chosen, many, begin = _placed(made, indices)
    rows = [_rows(tape, index, x.shape[axis]) for axis, index in enumerate(indices) if index is not None]
    wide = [_lined_up(row, many, begin, len(place.shape)) for row in rows]
    further = _further(tape, wide, [made.strides[axis] for axis in chosen])
    tape.step("scatter" if accumulate else "put", place, values.expanded(place.shape), further.expanded(place.shape))
    return made


def _scattering(op: str) -> Lowered:
    def how(tape: Tape, x: Value, dim: int, index: Value, src: Value | float) -> Value:
        dim = dim % len(x.shape)
        made = tape.fresh(x.shape, x.dtype)
        tape.step("copy", made, x)
        strides = [0 if axis == dim else stride for axis, stride in enumerate(contiguous(x.shape))]
        cut = src.seen(index.shape, src.strides, src.offset) if isinstance(src, Value) else src
        tape.step(op, made.seen(index.shape, strides, 0), cut, _further(tape, [index], [contiguous(x.shape)[dim]]))
        return made

    return how


LOWERED.update({"scatter_add": _scattering("scatter"), "scatter": _scattering("put")})


# --- views
def viewed(tape: Tape, op: Any, x: Value, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    """A view as torch strides it; what only a copy can be is copied first."""
    if name_of(op) in ("_unsafe_view", "reshape", "_reshape_alias", "view"):
        return reshaped(tape, x, arguments[0])
    made = op(x.outline(), *arguments, **named)
    several = made if isinstance(made, list | tuple) else [made]
    values = tuple(x.seen(one.shape, one.stride(), int(one.storage_offset())) for one in several)
    return values if isinstance(made, list | tuple) else values[0]


def reshaped(tape: Tape, x: Value, shape: Sequence[int]) -> Value:
    """The same numbers in row-major order in another shape."""
    try:
        return x.along(lambda t: t.view(list(shape)))
    except RuntimeError:
        return tape.copy(x).along(lambda t: t.view(list(shape)))
