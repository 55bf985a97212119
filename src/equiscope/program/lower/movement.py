"""Movement: a chain of views, transposes, slices and copies as one operation of the page.

The calls are applied to the indices 0, 1, 2, ... of the first value of the chain, which shows where each number comes from:
whatever the calls were, heads are heads. Movements that no operation of the page covers become copies in loops.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from equiscope.program.lower.graph import Apply, Expression, Graph
from equiscope.program.program import Ref, each, leaves_of

MOVES = {
    "view", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "expand", "expand_as", "view_as", "reshape_as", "flatten",
    "unflatten", "contiguous", "clone", "getitem", "select", "narrow", "slice", "split", "chunk", "unbind", "tensor_split",
    "split_with_sizes", "T", "mT", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "repeat", "repeat_interleave", "detach",
    "alias", "data", "lift_fresh", "flip", "roll", "tile", "broadcast_to", "ravel", "_reshape_alias", "index_select", "real",
}  # fmt: skip
SHAPED = {"expand_as", "view_as", "reshape_as"}  # they read only the shape of the second tensor
PAIRS = {"transpose", "columns", "pick", "column", "row", "broadcast_heads"}  # operations that may be followed by another
AFTER_HEADS = {"heads", "transpose", "repeat_heads"}
MOST = 2**22  # indices that are moved


class Movement:
    """For each value that was only moved: its source value, and the index of each number in it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._found: dict[int, tuple[int, Tensor] | None] = {}

    def of(self, value: int) -> tuple[int, Tensor] | None:
        """The first value of the chain, and the indices of these numbers in it."""
        if value not in self._found:
            self._found[value] = self._moved(value)
        return self._found[value]

    def source(self, value: int) -> int | None:
        """The value one call earlier, for a value that was only moved."""
        step, place = self.graph.maker.get(value, (None, 0))
        if step is None or step.op not in MOVES or not isinstance(place, int) or not step.inputs:
            return None
        first = next((x for x in leaves_of(step.args) if isinstance(x, Ref)), None)
        rest = () if step.op in SHAPED else step.inputs[1:]
        tensors = self.graph.program.values
        if first is None or any(x in self.graph.moving for x in rest) or tensors[value].numel() > MOST:
            return None
        return first.id if tensors[first.id].dtype == tensors[value].dtype else None

    def _moved(self, value: int) -> tuple[int, Tensor] | None:
        source = self.source(value)
        if source is None:
            return None
        base, places = self.of(source) or (source, flat_indices(self.graph.tensor(Ref(source))))
        if places.numel() > MOST:
            return None
        try:
            return base, self.apply_call(value, places)
        except (RuntimeError, IndexError, TypeError):  # a view that only the strides of the real one allow
            return None

    def apply_call(self, value: int, numbers: Tensor) -> Tensor:
        """The result of the call that computed a value, applied to other numbers."""
        step, place = self.graph.maker[value]
        first = step.inputs[0]
        args, kwargs = each((step.args, step.kwargs), lambda x: self._argument(x, first, numbers))
        assert isinstance(place, int)
        return list(leaves_of(step.call(*args, **kwargs)))[place]

    def _argument(self, x: Any, first: int, numbers: Tensor) -> Any:
        if not isinstance(x, Ref):
            return x
        return numbers if x.id == first else self.graph.tensor(x)

    def chain(self, value: int) -> Iterator[int]:
        """The earlier values of the chain, nearest first."""
        source = self.source(value)
        while source is not None:
            yield source
            source = self.source(source)

    def expression(self, value: int, is_visible: Callable[[int], bool]) -> Expression | None:
        """The operation of the page that moves so, on the nearest earlier value for which there is one.

        known  whether an earlier value of a chain is something that the page shows
        """
        origin = self.of(value)
        if origin is None:
            return None
        base, places = origin
        shown = [v for v in self.chain(value) if v == base or is_visible(v)]
        for depth in (1, 2):
            for v in shown if depth == 1 else [base]:
                moved = flat_indices(self.graph.tensor(Ref(base))) if v == base else self.of(v)[1]  # type: ignore[index]
                result = _search(Ref(v), moved, places, depth)
                if result is not None:
                    return result
        return None


def flat_indices(t: Tensor) -> Tensor:
    """0, 1, 2, ... in the shape of a tensor."""
    return torch.arange(t.numel()).view(t.shape)


def _search(start: Expression, here: Tensor, there: Tensor, depth: int) -> Expression | None:
    """An operation, or a chain of `depth` operations, that maps one to the other."""
    if here.shape == there.shape and torch.equal(here, there):
        return start
    if depth == 0:
        return None
    for op, params, moved in _steps(here, there):
        if moved.shape != there.shape if depth == 1 else op not in PAIRS and op != "heads":
            continue
        plan = _search(Apply(op, (start,), params), moved, there, depth - 1)
        if plan is not None and not (op == "heads" and depth == 2 and isinstance(plan, Apply) and plan.op not in AFTER_HEADS):
            return plan
    return None


def _steps(x: Tensor, to: Tensor) -> Iterator[tuple[str, dict[str, Any], Tensor]]:
    """The operations of the page on indices; `to` determines the number of heads, the columns and the row."""
    rank, first = x.ndim, int(to.flatten()[0]) if to.numel() else 0
    if rank == 0 or not to.numel():
        return
    width = x.shape[-1]
    if rank >= 2:
        yield "transpose", {}, x.transpose(-2, -1)
        counts = {n for n in (*to.shape[-3:-2], *to.shape[-2:-1]) if n > 1 and width % n == 0}
        for count in sorted(counts):
            yield "heads", {"count": count}, x.unflatten(-1, (count, -1)).transpose(-3, -2)
    if rank >= 3:
        yield "join", {}, x.transpose(-3, -2).flatten(-2)
        times = to.shape[-3] // x.shape[-3] if to.ndim >= 3 else 1
        if times > 1 and times * x.numel() == to.numel():
            yield "repeat_heads", {"times": times}, x.repeat_interleave(times, -3)
    matches = (x == first).nonzero()
    if len(matches):
        at = matches[0].tolist()
        for wide in {*to.shape[-1:], width // 2, width // 3} - {0, width}:
            if at[-1] + wide <= width:
                yield "columns", {"start": at[-1], "stop": at[-1] + wide}, x[..., at[-1] : at[-1] + wide]
        if rank >= 2:
            yield "pick", {"index": at[-2]}, x.select(-2, at[-2])
    yield "column", {}, x.unsqueeze(-1)
    yield "row", {}, x.unsqueeze(-2)
    if rank >= 2:
        yield "broadcast_heads", {}, x.unsqueeze(-3)
        yield "flatten", {}, x.flatten(-2)
    if width == 1:
        yield "squeeze", {}, x.squeeze(-1)
