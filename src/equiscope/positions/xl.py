"""Transformer-XL: scores depend on the distance through sinusoids, with a learned bias of each head on content and distance.

(q . k + q . W r + u . k + v . W r) / sqrt(K), with r the sinusoid of i - j. r is never computed for every pair: its product
with a row x is the product of x rotated by i with the sinusoid of -j, so real positions cost nothing extra and need no
"relative shift".
Source: Dai et al. 2019, section 3.3, in the layout of their code: all sines, then all cosines.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.functional import rotate, sinusoid
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.frequencies import angles, geometric_frequencies
from equiscope.positions.gaps import allocated
from equiscope.symmetry import Shift


class TransformerXL(Position):
    """Adds ((q + v) . W r[i - j] + u . k) / sqrt(K) to the scores. W is one map a head, from the model's width to K.

    base    the slowest pair makes about one period in 2 pi * base steps
    raises  ShapeError for an odd width, where a sine would lack its cosine
    """

    name = "transformer-xl"
    title = "Transformer-XL"
    summary = "Scores depend on the distance through sinusoids, with a learned bias of each head on content and distance."
    source = "Dai 2019, section 3.3"
    formula = "(qᵢ·kⱼ + qᵢ·W r[i − j] + u·kⱼ + v·W r[i − j])/√K"
    longer = "dependencies 450 % longer than a vanilla transformer's, with its memory [Dai 2019]"
    cost = "N²·D per head, for heads of K = D / H: H times the scores' own"
    because = "TransformerXL reads the signed distance"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "weight": ("W_R", "feature channel", "weights of distances"),
        "word": ("u", "head channel", "content bias of each head"),
        "distance": ("v", "head channel", "position bias of each head"),
    }
    preserves = frozenset({Shift})

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        if not base > 0:
            raise InputError(f"base sets the longest period and is larger than 0, but got {base}.")
        self.base = base

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        if width % 2:
            raise ShapeError(f"TransformerXL pairs a sine with a cosine, but the width is {width}. Use {width + 1} or {width - 1}.")
        self.weight = nn.Parameter(torch.randn(width, heads * head_width) * width**-0.5)
        self.word = nn.Parameter(torch.randn(heads, head_width) * 0.02)
        self.distance = nn.Parameter(torch.randn(heads, head_width) * 0.02)

    def content_bias(self, q: Tensor, k: Tensor, at_q: AxisPositions, at_k: AxisPositions, mask: Tensor | None) -> Tensor:
        allocated(self, "weight")
        u, v, weight = self._heads() if q.ndim > 2 else (self.word, self.distance, self.weight)
        projected = (q + v) @ weight.mT
        content = u @ k.mT
        width = q.shape[-1]
        total = self.of_gaps(projected, at_q, at_k) + content
        return total * width**-0.5

    def _heads(self) -> tuple[Tensor, Tensor, Tensor]:
        """u and v [H, 1, K], W [H, D, K]; for one head without a batch they are [1, K] and [D, K] already."""
        u, v = (x.unsqueeze(-2) for x in (self.word, self.distance))
        return u, v, self.weight.unflatten(-1, (self.word.shape[0], -1)).transpose(-3, -2)

    def of_gaps(self, x: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        """x [..., N, D] times the sinusoid of i - j, [..., N, M]: rotate x by i, multiply by the sinusoid of -j.

        a sin(i - j) + b cos(i - j) = (a cos i - b sin i) sin(-j) + (a sin i + b cos i) cos(-j).
        """
        speeds = geometric_frequencies(x.shape[-1] // 2, self.base)
        rotated = rotate(x, angles(at_q[0], speeds), "half")
        key_angles = angles(at_k[0].mT, speeds)
        waves = sinusoid(-key_angles, "half").to(x.dtype)
        return rotated @ waves.mT
