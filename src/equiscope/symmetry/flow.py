"""Flows: generators of a continuous group, its derivative at the identity.

f is equivariant if and only if the derivatives of f(g_t x) and of g_t f(x) agree at t = 0 for each generator. That needs no finite
step, so no element is too large or too small.
Source: Gruver et al. 2023, "The Lie derivative for measuring learned equivariance".
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from equiscope.symmetry.inputs import Inputs


@dataclass(frozen=True)
class Flow:
    """One generator.

    text    description, e.g. "about the z axis, per radian"
    inputs  rate of change of each transformed argument: name -> a tensor of its shape (for Tokens, of `positions`)
    output  rate of change of an output in this representation; None for a representation without one
    """

    text: str
    inputs: Callable[[Inputs], dict[str, Tensor]]
    output: Callable[[Tensor, str], Tensor | None]


def still(output: Tensor, representation: str) -> Tensor | None:
    """An invariant output does not change."""
    return output.new_zeros(output.shape) if representation == "invariant" else None
