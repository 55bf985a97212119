"""Numbers that torch's operations move: joined, padded, picked and put by an index, and seen in another shape."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.program.loops.aten import LOWERED, Lowered, lowered, name_of
from equiscope.program.loops.loop_ir import LoopIR, Value, contiguous


@lowered("cat")
def cat(ir: LoopIR, some: Sequence[Value], dim: int = 0) -> Value:
    """One behind the other along an axis."""
    some = [x for x in some if x.shape != (0,)]  # torch takes an empty list of numbers for nothing, whatever the others are
    dim = dim % len(some[0].shape)
    shape = list(some[0].shape)
    shape[dim] = sum(x.shape[dim] for x in some)

    def make() -> Value:
        joined, begin = ir.fresh(shape, some[0].dtype), 0
        for x in some:
            place = joined.along(lambda t, x=x, begin=begin: t.narrow(dim, begin, x.shape[dim]))  # type: ignore[misc]
            ir.step("copy", place, x)
            begin += x.shape[dim]
        return joined

    return ir.once(("cat", tuple(some), dim), make)


@lowered("repeat")
def _repeat(ir: LoopIR, x: Value, times: Sequence[int]) -> Value:
    own = [1] * (len(times) - len(x.shape)) + list(x.shape)
    apart = x.view([n for m in own for n in (1, m)], [s for m in _led(x, len(own)) for s in (0, m)], x.offset)
    wide = apart.expanded([n for many, m in zip(times, own, strict=True) for n in (many, m)])
    return reshaped(ir, wide, [many * m for many, m in zip(times, own, strict=True)])


def _led(x: Value, rank: int) -> list[int]:
    return [0] * (rank - len(x.shape)) + list(x.strides)


def _replacing(view: Callable[..., Tensor]) -> Lowered:
    def how(ir: LoopIR, base: Value, part: Value, *where: Any, **named: Any) -> Value:
        result = ir.fresh(base.shape, base.dtype)
        ir.step("copy", result, base)
        place = result.along(lambda t: view(t, *where, **named))
        ir.step("copy", place, part.expanded(place.shape))
        return result

    return how


LOWERED["slice_scatter"] = _replacing(torch.ops.aten.slice.Tensor)
LOWERED["select_scatter"] = _replacing(torch.ops.aten.select.int)
LOWERED["diagonal_scatter"] = _replacing(torch.diagonal)


@lowered("as_strided")
def _as_strided(ir: LoopIR, x: Value, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Value:
    """Of numbers that lie row by row: the strides are those of the whole."""
    return ir.copy(x).view(shape, strides, offset)


@lowered("as_strided_scatter")
def _as_strided_scatter(ir: LoopIR, x: Value, part: Value, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Value:
    result = ir.fresh(x.shape, x.dtype)
    ir.step("copy", result, x)
    ir.step("copy", result.view(shape, strides, offset), part.expanded(shape))
    return result


@lowered("copy")
def _copied(ir: LoopIR, to: Value, x: Value) -> Value:
    return x.expanded(to.shape)


@lowered("constant_pad_nd")
def _pad(ir: LoopIR, x: Value, pad: Sequence[int], value: float = 0.0) -> Value:
    pairs = [(0, 0)] * (len(x.shape) - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    for axis, (a, b) in enumerate(pairs):  # a negative pad cuts
        x = x.along(lambda t, axis=axis, a=a, b=b: t.narrow(axis, max(-a, 0), t.shape[axis] - max(-a, 0) - max(-b, 0)))  # type: ignore[misc]
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    padded = ir.fresh([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)], x.dtype)
    ir.step("copy", padded, value)
    ir.step("copy", padded.view(x.shape, padded.strides, sum(s * a for s, (a, _) in zip(padded.strides, pairs, strict=True))), x)
    return padded


# --- by an index
def _rows(ir: LoopIR, index: Value, length: int) -> Value:
    """An index that may count from the end, from the beginning."""
    if index.slot in ir.bases:
        rows = ir.tensor(index)
        return ir.constant(torch.where(rows < 0, rows + length, rows))
    back = ir.apply("add", index, float(length), dtype=torch.int64)
    return ir.apply("where", ir.apply("lt", index, 0.0, dtype=torch.bool), back, index, dtype=torch.int64)


@lowered("gather")
def _gather(ir: LoopIR, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    dim = dim % len(x.shape)
    strides = [0 if axis == dim else stride for axis, stride in enumerate(x.strides)]
    return ir.pick(x.view(index.shape, strides, x.offset), [_rows(ir, index, x.shape[dim])], [x.strides[dim]], [x.shape[dim]])


@lowered("index_select")
def _index_select(ir: LoopIR, x: Value, dim: int, index: Value) -> Value:
    dim = dim % len(x.shape)
    return _index(ir, x, [None] * dim + [index])


@lowered("flip")
def _flip(ir: LoopIR, x: Value, dims: Sequence[int]) -> Value:
    for dim in dims:
        x = _index_select(ir, x, dim, ir.constant(torch.arange(x.shape[dim]).flip(0)))
    return x


@lowered("embedding")
def _embedding(ir: LoopIR, table: Value, index: Value, *rest: Any) -> Value:
    return _index(ir, table, [index])


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
    return x.view(shape, strides, x.offset), chosen, many, begin


def _lined_up(row: Value, many: tuple[int, ...], begin: int, rank: int) -> Value:
    row = row.expanded(many)
    after = rank - begin - len(many)
    return row.view([1] * begin + list(many) + [1] * after, [0] * begin + list(row.strides) + [0] * after, row.offset)


def _chosen(ir: LoopIR, indices: Sequence[Value | None]) -> list[Value | None]:
    """Indices as whole numbers: a mask, which has to be a constant, as the rows where it is True."""
    indices_of_axes: list[Value | None] = []
    for index in indices:
        if index is None or index.dtype != torch.bool:
            indices_of_axes.append(index)
        elif index.slot in ir.bases:
            indices_of_axes += [ir.constant(rows.contiguous()) for rows in ir.tensor(index).bool().nonzero(as_tuple=True)]
        else:
            raise InputError("A computation has fixed shapes, but here a mask that depends on the input picks rows. Use where().")
    return indices_of_axes


@lowered("index")
def _index(ir: LoopIR, x: Value, indices: Sequence[Value | None]) -> Value:
    indices = _chosen(ir, indices)
    base, chosen, many, begin = _placed(x, indices)
    rows = [_rows(ir, index, x.shape[axis]) for axis, index in enumerate(indices) if index is not None]
    wide = [_lined_up(row, many, begin, len(base.shape)) for row in rows]
    return ir.pick(base, wide, [x.strides[axis] for axis in chosen], [x.shape[axis] for axis in chosen])


@lowered("index_put")
def _index_put(ir: LoopIR, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    indices, result = _chosen(ir, indices), ir.fresh(x.shape, x.dtype)
    ir.step("copy", result, x)
    place, chosen, many, begin = _placed(result, indices)
    rows = [_rows(ir, index, x.shape[axis]) for axis, index in enumerate(indices) if index is not None]
    wide = [_lined_up(row, many, begin, len(place.shape)) for row in rows]
    further = ir.further(wide, [result.strides[axis] for axis in chosen])
    ir.step("scatter" if accumulate else "put", place, values.expanded(place.shape), further.expanded(place.shape))
    return result


def _scattering(op: str) -> Lowered:
    def how(ir: LoopIR, x: Value, dim: int, index: Value, src: Value | float) -> Value:
        dim = dim % len(x.shape)
        result = ir.fresh(x.shape, x.dtype)
        ir.step("copy", result, x)
        strides = [0 if axis == dim else stride for axis, stride in enumerate(contiguous(x.shape))]
        cut = src.view(index.shape, src.strides, src.offset) if isinstance(src, Value) else src
        ir.step(
            op, result.view(index.shape, strides, 0), cut, ir.further([_rows(ir, index, x.shape[dim])], [contiguous(x.shape)[dim]])
        )
        return result

    return how


LOWERED.update({"scatter_add": _scattering("scatter"), "scatter": _scattering("put")})


# --- views
def viewed(ir: LoopIR, op: Any, x: Value, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    """A view as torch strides it; what only a copy can be is copied first."""
    if name_of(op) in ("_unsafe_view", "reshape", "_reshape_alias", "view"):
        return reshaped(ir, x, arguments[0])
    outlines = op(x.outline(), *arguments, **named)
    several = outlines if isinstance(outlines, list | tuple) else [outlines]
    values = tuple(x.view(one.shape, one.stride(), int(one.storage_offset())) for one in several)
    return values if isinstance(outlines, list | tuple) else values[0]


def reshaped(ir: LoopIR, x: Value, shape: Sequence[int]) -> Value:
    """The same numbers in row-major order in another shape."""
    try:
        return x.along(lambda t: t.view(list(shape)))
    except RuntimeError:
        return ir.copy(x).along(lambda t: t.view(list(shape)))
