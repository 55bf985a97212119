"""What has no loops, and of which more is known than that it is a function of what it reads: sorted numbers and their like.

The values have no order in what they read; their places do.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.field import collected, function, listed


def _sorted(name: str, made: Any, x: Tensor, *rest: Any, dim: int = -1, **named: Any) -> tuple[Tensor, ...]:
    settings = (name, repr(rest), repr(named))
    given = [a for a in rest[name == "topk" :] if not isinstance(a, bool)]
    axis = (given[0] if given else dim) % max(x.ndim, 1)
    number = torch.arange(made[0].shape[axis] if x.ndim else 1).view([-1 if d == axis else 1 for d in range(x.ndim)])
    both = collected(settings, x, [axis], True), listed(settings, x, [axis], True)
    return tuple(function((*settings, n), *torch.broadcast_tensors(t, number)) for n, t in enumerate(both))


def _middle(name: str, made: Any, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return collected(name, x, list(range(x.ndim)))
    return collected(name, x, [dim % max(x.ndim, 1)], keepdim), listed(name, x, [dim % max(x.ndim, 1)], keepdim)


ORDER_STATISTICS: dict[str, Callable[..., Any]] = {
    "sort": _sorted, "topk": _sorted, "median": _middle, "mode": _middle, "nanmedian": _middle,
}  # fmt: skip
