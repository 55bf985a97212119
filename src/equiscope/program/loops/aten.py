"""torch's operations, by name, and the function that writes each as loops, which a module `lower_...` beside this one holds.

What is not in the list torch takes apart into what is (`parts`), and of a view torch itself says how it strides.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

Lowered = Callable[..., Any]  # (ir, *arguments, **named) to a Value, or to a tuple of them
LOWERED: dict[str, Lowered] = {}

VIEWS = {
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "slice",
    "select", "unbind", "split_with_sizes", "split", "diagonal", "unfold", "narrow", "movedim",
}  # fmt: skip
ALIASES = {
    "detach",
    "alias",
    "clone",
    "contiguous",
    "lift_fresh",
    "lift_fresh_copy",
    "lift",
}  # no later call writes into the result
LIKE = {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"}  # read a shape, and no numbers
COMPOSED = (  # torch's core has these whole
    "gelu", "leaky_relu", "elu", "hardtanh", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
)  # fmt: skip


def lowered(*names: str) -> Callable[[Lowered], Lowered]:
    """Enter a function into the list."""

    def listed(how: Lowered) -> Lowered:
        LOWERED.update(dict.fromkeys(names, how))
        return how

    return listed


def operation_names() -> set[str]:
    """Names of all operations that a computation can have."""
    return {*LOWERED, *VIEWS, *ALIASES, *LIKE, "getitem"}


@cache
def parts() -> dict[Any, Any]:
    """Operations that are not in the list, and what torch makes them of."""
    more = get_decompositions([getattr(torch.ops.aten, name) for name in COMPOSED])
    return {op: how for op, how in {**core_aten_decompositions(), **more}.items() if name_of(op) not in operation_names()}


def name_of(op: Any) -> str:
    """aten.add.Tensor is an "add"."""
    return str(op._schema.name).removeprefix("aten::") if hasattr(op, "_schema") else str(getattr(op, "__name__", op))
