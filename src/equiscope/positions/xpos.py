"""xPos: RoPE whose products also decay with the distance, each pair of columns at its own rate.

Queries are rotated and multiplied by z^(i/B), keys rotated and multiplied by z^(-j/B): the product has the factor z^((i-j)/B)
with z below 1, so it falls for earlier keys. For later keys it grows, so the scheme is meant for causal masks. Nothing here
depends on the length of the text (x-transformers centres the powers on the current length, so a longer text changes the
encoding of earlier tokens). The price: far from zero the factors overflow, float32 at about 36 000 steps and float16 at about
4 500 for the default scale_base. Begin a text near zero, or choose a larger scale_base.
Source: Sun et al. 2022, "A Length-Extrapolatable Transformer", section 3.
"""

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.functional import Layout, rotate
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import angles, geometric_frequencies, one_axis
from equiscope.symmetry import Shift


class XPos(Position):
    """Rotates queries and keys, and makes their product decay.

    base        the slowest pair makes about one rotation in 2 pi * base steps
    pairs       which columns form a pair: "interleaved" or "half"
    gamma       pair k of W decays by z_k = (k/W + gamma) / (1 + gamma) in scale_base steps: the smaller, the more
    scale_base  steps in which a pair decays by z_k
    raises      ShapeError for an odd head width
    """

    name = "xpos"
    title = "xPos"
    summary = "Queries and keys are rotated by their position, and their product decays with the distance."
    source = "Sun 2022, section 3"
    formula = "qᵢ′·kⱼ′ = Σₖ ζₖ^((i−j)/B) · Re(qₖ* kₖ e^(i(j−i)ωₖ))"
    longer = "its paper's table ticks length extrapolation twice, under blockwise causal attention (2212.10554)"
    cost = "3·N·K products a head for queries, as many for keys"
    because = "XPos rotates and scales queries and keys by their position: scores depend on the signed distance"
    preserves = frozenset({Shift})

    def __init__(self, base: float = 10000.0, pairs: Layout = "interleaved", gamma: float = 0.4, scale_base: float = 512.0) -> None:
        super().__init__()
        if not (base > 0 and gamma > 0 and scale_base > 0):
            raise InputError(f"base, gamma and scale_base are larger than 0, but got {base}, {gamma} and {scale_base}.")
        self.base, self.pairs, self.gamma, self.scale_base = base, pairs, gamma, scale_base

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.rates(head_width)

    def rates(self, head_width: int) -> Tensor:
        """ln(z) / scale_base of each column: its decay per step, as an exponent. [K] float64, at most 0."""
        if head_width % 2:
            raise ShapeError(f"XPos rotates pairs of columns, but a head has {head_width}. Choose an even head width.")
        pair = torch.arange(head_width // 2, dtype=torch.float64)
        rate = torch.log((pair / (head_width // 2) + self.gamma) / (1 + self.gamma)) / self.scale_base
        return rate.repeat_interleave(2) if self.pairs == "interleaved" else torch.cat([rate, rate])

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        sign = 1.0 if role == "query" else -1.0
        theta = angles(positions, geometric_frequencies(x.shape[-1] // 2, self.base))
        rotated = rotate(x, theta, self.pairs)
        factors = self._factors(positions, sign * self.rates(x.shape[-1]))
        if factors.ndim > 2 and factors.ndim < x.ndim:
            factors = factors.unsqueeze(-3)
        return (rotated * factors).to(x.dtype)

    def _factors(self, positions: Tensor, rates: Tensor) -> Tensor:
        """Factor on every column: positions [..., N, 1] to [..., N, K], float32 or better."""
        dtype = torch.promote_types(positions.dtype, torch.float32)
        power = one_axis(positions).to(dtype) * rates.to(positions.device, dtype)
        return power.exp()
