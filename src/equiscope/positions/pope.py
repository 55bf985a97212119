"""PoPE: the content of a token sets a length, its position an angle; the two are separate (polar coordinates).

Every column c of a query or key becomes a vector of length softplus(x_c) and angle position * w_c, so a head of K columns has K
frequencies (RoPE: K/2), and queries and keys become twice as wide: a cosine and a sine each. Their product is the
sum of |q_c| |k_c| cos((j - i) w_c + d_c), with a learned phase d_c for every head and column.
Source: Gopalakrishnan et al. 2025, "Decoupling the What and Where with Polar Coordinate Positional Embeddings" (2509.10534).
"""

import math
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import concat, sinusoid
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import angles, geometric_frequencies
from equiscope.symmetry import Shift

Begin = Literal["zero", "uniform"]


class Pope(Position):
    """Maps queries and keys to polar coordinates: lengths from their content, angles from their position.

    base    the slowest column makes about one rotation in 2 pi * base steps
    begin   initial value of the learned phases: "zero" (for longer texts), or "uniform" in [-2 pi, 0]
    raises  InputError before `sized`

    The phase rotates the query by -d, which equals rotating the key by +d, so keys shared by grouped queries stay shared.
    While all phases are zero, a cosine does not distinguish earlier from later keys.
    """

    name = "pope"
    title = "PoPE"
    summary = "The content of a token sets a length, its position an angle."
    source = "Gopalakrishnan 2025"
    formula = "sᵢⱼ = Σ_c softplus(q_c)·softplus(k_c)·cos((j−i)ω_c + δ_c)"
    longer = "beats RoPE (124 M to 774 M parameters) and, untuned, YaRN on longer texts (2509.10534)"
    cost = "queries and keys twice as wide: N²·K more products a head"
    because = "Pope encodes positions as angles: scores depend on the signed distance"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"phase": ("δ", "head channel", "phase of each column")}
    preserves = frozenset({Shift})

    def __init__(self, base: float = 10000.0, begin: Begin = "zero") -> None:
        super().__init__()
        if not base > 0:
            raise InputError(f"base sets the longest period and is larger than 0, but got {base}.")
        self.base, self.begin = base, begin

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        phase = torch.zeros(heads, head_width) if self.begin == "zero" else torch.rand(heads, head_width) * -2 * math.pi
        self.phase = nn.Parameter(phase)

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        """x [..., H, N, K] to [..., H, N, 2K]: K sines, then K cosines, each times its length."""
        if not hasattr(self, "phase"):
            raise InputError("This Pope() has no phases yet. Call .sized(width, heads, head_width), or build a model with it.")
        theta = angles(positions, geometric_frequencies(x.shape[-1], self.base))
        if theta.ndim > 2 and theta.ndim < x.ndim:
            theta = theta.unsqueeze(-3)
        if role == "query":
            phase = self.phase.clamp(-2 * math.pi, 0.0)
            phase = phase.unsqueeze(-2) if x.ndim > 2 else phase
            theta = theta - phase
        length = F.softplus(x)
        ends = sinusoid(theta, "half")
        return (concat(length, length) * ends).to(x.dtype)
