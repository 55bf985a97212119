"""Order statistics: sort, top-k, median and mode over the field. They have no loops, but known symmetries.

The values do not depend on the order of the inputs; their indices do.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.field import function, ordered, unordered


def _sorted(name: str, result: Any, x: Tensor, *rest: Any, dim: int = -1, **keywords: Any) -> tuple[Tensor, ...]:
    settings = (name, repr(rest), repr(keywords))
    axes_given = [a for a in rest[name == "topk" :] if not isinstance(a, bool)]
    axis = (axes_given[0] if axes_given else dim) % max(x.ndim, 1)
    number = torch.arange(result[0].shape[axis] if x.ndim else 1).view([-1 if d == axis else 1 for d in range(x.ndim)])
    summaries = unordered(settings, x, [axis], True), ordered(settings, x, [axis], True)
    return tuple(function((*settings, n), *torch.broadcast_tensors(t, number)) for n, t in enumerate(summaries))


def _median(name: str, result: Any, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return unordered(name, x, list(range(x.ndim)))
    return unordered(name, x, [dim % max(x.ndim, 1)], keepdim), ordered(name, x, [dim % max(x.ndim, 1)], keepdim)


ORDER_STATISTICS: dict[str, Callable[..., Any]] = {
    "sort": _sorted, "topk": _sorted, "median": _median, "mode": _median, "nanmedian": _median,
}  # fmt: skip
