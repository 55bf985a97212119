"""Mixed rotary positions: every pair of columns rotates along its own direction, learned for each head.

An axial pair reads one axis and cannot represent diagonals; a pair that rotates by w_y y + w_x x can. Whatever is learned, the
product of a rotated query and a rotated key depends on the difference of their positions only.
Source: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", section 3.2 (RoPE-Mixed), and their code.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError, wrong_choice
from equiscope.functional import Layout, rotate
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import directed, geometric_frequencies
from equiscope.symmetry import Shift


class MixedRope(Position):
    """Rotates queries and keys along learned directions [sets, A, K/2], in radians a step.

    axes    numbers in a coordinate: 2 for images at (y, x), 3 for points in space
    base    the slowest pair initially makes about one rotation in 2 pi * base steps; 10 as in the paper
    pairs   which columns form a pair: "interleaved" (rope-vit) or "half"
    sets    sets of directions, each shared by adjacent heads; one per head by default. With grouped queries, use as many as key
            heads
    raises  ShapeError for an odd head width and where the sets do not divide the heads; InputError before `sized`

    Directions are a parameter, so as precise as the model's dtype; angles are float32 or better. rope-vit's files have axes
    first, x before y: `directions` is their `freqs.flip(0).transpose(0, 1)`.
    """

    name = "mixed-rope"
    title = "mixed RoPE"
    summary = "Queries and keys are rotated along learned directions, different in every head."
    source = "Heo 2024, section 3.2"
    formula = "qᵢ′·kⱼ′ = qᵢᵀ R((pⱼ−pᵢ)·ω_h) kⱼ"
    longer = "DeiT-S 224 → 384 pixels without tuning: 80.9 → 81.8 %, B 83.8 → 84.4, L 84.8 → 85.6 (rope-vit's README, Heo 2024)"
    cost = "2·N·K products a head for queries, as many for keys; A·K/2 parameters a head"
    because = "MixedRope rotates queries and keys by their position: scores depend on the signed distance along each direction"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"directions": ("ω", "head axis clock", "directions, in radians a step")}
    preserves = frozenset({Shift})

    def __init__(self, axes: int = 2, base: float = 10.0, pairs: Layout = "interleaved", sets: int | None = None) -> None:
        super().__init__()
        if axes < 1 or not base > 0 or (sets is not None and sets < 1):
            raise InputError(f"axes, base and sets are larger than 0, but got {axes}, {base} and {sets}.")
        if pairs not in ("interleaved", "half"):
            raise wrong_choice("MixedRope.pairs", pairs, ["interleaved", "half"])
        self.axes, self.base, self.pairs, self.sets = axes, base, pairs, sets

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        if head_width % 2:
            raise ShapeError(f"MixedRope rotates pairs of columns, but a head has {head_width}. Choose an even head width.")
        sets = self.sets or heads
        if heads % sets:
            raise ShapeError(f"{sets} sets of directions cannot serve {heads} heads alike. Use a divisor of {heads}.")
        axial = axial_directions(self.axes or 1, head_width // 2, self.base)
        rotated = torch.stack([random_rotation(self.axes or 1) @ axial for _ in range(sets)])
        self.directions = nn.Parameter(rotated.to(torch.get_default_dtype()))

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        if not hasattr(self, "directions"):
            raise InputError(
                "This MixedRope() has no directions yet. Call .sized(width, heads, head_width), or build a model with it."
            )
        self.check(positions)
        theta = directed(x, positions, self.directions)
        return rotate(x, theta, self.pairs)


def axial_directions(axes: int, pairs: int, base: float) -> Tensor:
    """Frequencies along each axis, the first axis's pairs first: [A, pairs] float64."""
    each = -(-pairs // axes)
    blocks = torch.einsum("ab,k->abk", torch.eye(axes, dtype=torch.float64), geometric_frequencies(each, base))
    return blocks.reshape(axes, axes * each)[:, :pairs]


def random_rotation(axes: int) -> Tensor:
    """A rotation drawn evenly from all: [A, A] float64, on the CPU."""
    drawn = torch.randn(axes, axes, dtype=torch.float64, device="cpu")
    q, r = torch.linalg.qr(drawn)
    q = q * r.diagonal().sign()  # without this, QR favours some rotations (Mezzadri 2007)
    q[:, 0] *= torch.linalg.det(q)
    return q
