"""Layout: operations that move entries and compute nothing run on the field's numbers as they are.

Rows that are picked by numbers which the model computes (a table's rows by ids) are a function of the table and the number.
"""

from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.field import NoRule, function, listed
from equiscope.audit.proof.formulas import Call, Formulas, Rule

SHAPED = ("view", "reshape", "_unsafe_view", "view_copy")
MOVES = (
    *SHAPED, "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "slice", "select", "split",
    "split_with_sizes", "unbind", "chunk", "flip", "roll", "repeat", "diagonal", "unfold", "narrow", "tril", "triu", "movedim",
    "cat", "stack", "slice_scatter", "select_scatter", "diagonal_scatter", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "flatten", "unflatten", "rot90", "expand_copy", "split_copy", "unbind_copy",
    "split_with_sizes_copy", "select_copy", "slice_copy", "permute_copy", "squeeze_copy", "unsqueeze_copy",
)  # fmt: skip


def _moved(call: Call) -> Any:
    """The operation itself, on the field's numbers."""

    def inner(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(inner(v) for v in value)
        return call.lifted(value) if isinstance(value, (Formulas, Tensor)) else value

    if call.name in SHAPED and isinstance(call.args[1], torch.dtype):
        raise NoRule  # the same bytes as other numbers
    if call.name in SHAPED:  # what was laid out in another way in memory may need a copy
        return call.lifted(call.args[0]).reshape(call.args[1])
    made = call.op(*(inner(a) for a in call.args), **{n: inner(v) for n, v in call.kwargs.items()})
    return tuple(made) if isinstance(made, (list, tuple)) else made


def _padded(call: Call) -> Tensor:
    value = call.lifted(call.arg(2, "value", 0))
    return torch.nn.functional.pad(call.lifted(call.args[0]), call.args[1], value=int(value))


def _copied(call: Call) -> Tensor:
    if call.args[0].dtype != call.args[1].dtype and not call.args[0].dtype.is_floating_point:
        raise NoRule
    return call.lifted(call.args[1]).expand(call.args[0].t.shape if isinstance(call.args[0], Formulas) else call.args[0].shape)


def _table(call: Call) -> Tensor:
    weight, ids = call.args[:2]
    return rows(call.lifted(weight), 0, ids)


def rows(t: Tensor, dim: int, ids: Any) -> Tensor:
    """Rows along an axis; the ids' axes come instead of it."""
    if not isinstance(ids, Formulas):
        return t.index_select(dim, ids.flatten()).unflatten(dim, ids.shape)
    content = listed("rows", t, [dim])  # of every fibre along the axis
    left, right = content.shape[:dim], content.shape[dim:]
    number = ids.t.view(*[1] * len(left), *ids.t.shape, *[1] * len(right))
    return function("row", *torch.broadcast_tensors(content.view(*left, *[1] * ids.t.ndim, *right), number))


def _index_select(call: Call) -> Tensor:
    x, dim, ids = call.args
    return rows(call.lifted(x), dim % call.lifted(x).ndim, ids)


def _index(call: Call) -> Tensor:
    x, ids = call.lifted(call.args[0]), call.args[1]
    if not any(isinstance(i, Formulas) for i in ids):
        return x[tuple(slice(None) if i is None else i for i in ids)]
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in ids):
        raise NoRule  # how much comes out depends on the numbers
    used = [d for d, i in enumerate(ids) if i is not None]
    shape = torch.broadcast_shapes(*((i.t if isinstance(i, Formulas) else i).shape for i in ids if i is not None))
    numbers = function("index", *torch.broadcast_tensors(*(call.lifted(ids[d]) % x.shape[d] if not isinstance(ids[d], Formulas)
                                                          else ids[d].t for d in used)))  # fmt: skip
    content = listed("rows", x, used, keep=True)
    zeros = torch.zeros(shape, dtype=torch.long)
    content = content[tuple(zeros if d in used else slice(None) for d in range(x.ndim))]
    count = max(zeros.numel(), 1)
    places = torch.arange(count).view([count if d == used[0] else 1 for d in range(x.ndim)])
    places = places.expand([count if d == used[0] else 1 if d in used else x.shape[d] for d in range(x.ndim)])
    first = torch.arange(count).view(shape)
    where = places[tuple(first if d == used[0] else zeros if d in used else slice(None) for d in range(x.ndim))]
    return function("row", content, numbers.flatten()[where])


def _gather(call: Call) -> Tensor:
    x, dim, ids = call.args[:3]
    t = call.lifted(x)
    if not isinstance(ids, Formulas):
        return t.gather(dim, ids)
    dim %= t.ndim
    for d, size in enumerate(ids.t.shape):
        t = t if d == dim else t.narrow(d, 0, size)
    content = listed("rows", t, [dim], keep=True).expand(ids.t.shape)
    return function("row", content, ids.t)


def _index_put(call: Call) -> Tensor:
    x, ids, values = call.args[:3]
    if call.arg(3, "accumulate", False) or any(isinstance(i, Formulas) for i in ids):
        raise NoRule
    made: Tensor = torch.ops.aten.index_put.default(call.lifted(x), ids, call.lifted(values))
    return made


def _scattered(call: Call) -> Tensor:
    x, dim, ids, values = call.args[:4]
    if isinstance(ids, Formulas) or call.kwargs.get("reduce"):
        raise NoRule
    values = call.lifted(values)
    return call.lifted(x).scatter(dim, ids, values if values.ndim else values.expand(ids.shape))


def _filled_like(call: Call) -> Tensor:
    """Shape only: what it was made like is not read."""
    fill = {"zeros_like": 0, "ones_like": 1, "new_zeros": 0, "new_ones": 1, "empty_like": 0, "new_empty": 0}.get(call.name)
    if fill is None:
        fill = call.args[-1] if call.name in ("full_like", "new_full") else call.kwargs.get("fill_value")
    return call.lifted(fill).expand(call.made.shape)


FILLED = ("full_like", "zeros_like", "ones_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty")
RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVES, _moved), "constant_pad_nd": _padded, "copy": _copied, "embedding": _table, "index_select": _index_select,
    "index": _index, "gather": _gather, "index_put": _index_put, "scatter": _scattered,
    **dict.fromkeys(FILLED, _filled_like),
}  # fmt: skip
