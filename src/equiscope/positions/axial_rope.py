"""Axial rotary positions: each axis rotates some of the pairs, so a product of query and key depends on the gap along each axis.

`Rope` rotates all pairs by one coordinate; here each axis has a section of the pairs. Adding one vector to all positions
leaves every product unchanged.
Sources: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", section 3.1 (RoPE-Axial); Wang et al. 2024,
"Qwen2-VL", section 2.1 (M-RoPE).
"""

from functools import reduce
from typing import Literal

from torch import Tensor

from equiscope.errors import InputError, ShapeError, wrong_choice
from equiscope.functional import Layout, concat, rotate
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import angles, geometric_frequencies
from equiscope.symmetry import Shift

Speeds = Literal["own", "one", "dealt"]


class AxialRope(Position):
    """Rotates queries and keys, each pair of columns by one axis.

    axes      numbers in a coordinate: 2 for images at (y, x), 3 for video at (t, y, x)
    base      the slowest pair makes about one rotation in 2 pi * base steps: 100 for images in rope-vit, 10 000 and more for texts
    pairs     which columns form a pair: "interleaved" (rope-vit) or "half" (Hugging Face)
    sections  pairs of each axis, M-RoPE's mrope_section; equal by default. Columns beyond them pass unchanged
    speeds    "own": each axis has its own frequencies, from 1 radian a step down (rope-vit). "one": one list of frequencies for all
              pairs, split into the sections (M-RoPE: time is fastest). "dealt": one list, dealt to the axes one by one (Pixtral)
    raises    ShapeError where the pairs of a head cannot be split like this

    The first section belongs to the first axis, y for images. rope-vit has x first: use positions (x, y), or reorder weights.
    """

    name = "axial-rope"
    title = "axial RoPE"
    summary = "Queries and keys are rotated, some pairs of columns by each axis: their product depends on the gap along each axis."
    source = "Heo 2024, section 3.1; Wang 2024 (M-RoPE)"
    formula = "qᵢ′·kⱼ′ = Σₐ qᵢᵀ Rₐ((jₐ−iₐ)ω) kⱼ"
    longer = "DeiT-S 224 → 384 pixels without tuning: 80.9 → 80.0 %, B 83.6 → 83.9, L 84.7 → 85.1 (rope-vit's README, Heo 2024)"
    cost = "2·N·K products a head for queries, as many for keys"
    because = "AxialRope rotates queries and keys by their position: scores depend on the signed distance along each axis"
    preserves = frozenset({Shift})

    def __init__(
        self, axes: int = 2, base: float = 100.0, pairs: Layout = "interleaved",
        sections: tuple[int, ...] | None = None, speeds: Speeds = "own",
    ) -> None:  # fmt: skip
        super().__init__()
        if axes < 1 or not base > 0:
            raise InputError(f"axes and base are larger than 0, but got {axes} and {base}.")
        if pairs not in ("interleaved", "half"):
            raise wrong_choice("AxialRope.pairs", pairs, ["interleaved", "half"])
        if speeds not in ("own", "one", "dealt"):
            raise wrong_choice("AxialRope.speeds", speeds, ["own", "one", "dealt"])
        if sections is not None and (len(sections) != axes or min(sections) < 1):
            raise InputError(
                f"sections gives each of {axes} axes a pair or more, but got {tuple(sections)}. Use one number an axis."
            )
        if sections is not None and speeds == "dealt":
            raise InputError('speeds="dealt" gives every axis as many pairs. Use it without sections.')
        self.axes, self.base, self.pairs, self.speeds = axes, base, pairs, speeds
        self.sections = tuple(sections) if sections is not None else None

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.frequencies(head_width)

    def frequencies(self, head_width: int) -> list[Tensor]:
        """Radians a step of the pairs of each axis, float64."""
        parts = self._split(head_width)
        if self.speeds == "own":
            return [geometric_frequencies(part, self.base) for part in parts]
        every = geometric_frequencies(sum(parts), self.base)
        if self.speeds == "dealt":
            return [every[axis :: len(parts)] for axis in range(len(parts))]
        return list(every.split(parts))

    def _split(self, head_width: int) -> list[int]:
        """How many pairs each axis rotates."""
        axes, pairs = self.axes or 1, head_width // 2
        if head_width % 2 or (self.sections is None and pairs % axes) or pairs < sum(self.sections or (axes,)):
            wanted = f"in sections of {self.sections} pairs" if self.sections else f"evenly over {axes} axes"
            least = 2 * (sum(self.sections) if self.sections else axes)
            hint = f"{least} or more" if self.sections else f"a multiple of {least}, or give sections"
            raise ShapeError(f"AxialRope splits pairs of columns {wanted}, but a head has {head_width} columns. Use {hint}.")
        return list(self.sections) if self.sections else [pairs // axes] * axes

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        self.check(positions)
        theta = [angles(positions[..., axis : axis + 1], omega) for axis, omega in enumerate(self.frequencies(x.shape[-1]))]
        return rotate(x, reduce(concat, theta), self.pairs)
