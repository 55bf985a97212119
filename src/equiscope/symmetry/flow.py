"""Flows: a continuous group seen at its beginning, where an element hardly moves anything.

f is equivariant exactly where the derivative of f(g_t x) and of g_t f(x) agree at t = 0, for each direction in which the group
begins. That needs no finite step, so no element is too large or too small to tell.
Source: Gruver et al. 2023, "The Lie derivative for measuring learned equivariance".
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from equiscope.symmetry.inputs import Inputs


@dataclass(frozen=True)
class Flow:
    """One direction.

    text    in words, e.g. "about the z axis, per radian"
    inputs  how fast each moved argument changes: name -> a tensor of its shape (of Tokens, that of `positions`)
    output  how fast an output that moves in this representation changes; None for a representation without a flow
    """

    text: str
    inputs: Callable[[Inputs], dict[str, Tensor]]
    output: Callable[[Tensor, str], Tensor | None]


def still(output: Tensor, representation: str) -> Tensor | None:
    """An invariant output does not change."""
    return output.new_zeros(output.shape) if representation == "invariant" else None
