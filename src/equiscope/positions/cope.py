"""CoPE: the distance to a key is a count of the tokens in between, and the query decides which tokens count.

Gates g_ik = sigmoid(q_i . k_k / sqrt(K)); the position of key j is p_ij = the sum of gates from j to i, so with all gates open it
counts tokens. The score gains q_i . e[p_ij] / sqrt(K), between two rows of e by linear interpolation.
Source: Golovneva et al. 2024, "Contextual Position Encoding", section 4; scaled as in their released code (the listing in
their appendix leaves q . e unscaled).
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import later, take
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import allocated
from equiscope.symmetry import Shift


class Cope(Position):
    """Adds q . e[p] / sqrt(K) to the scores, p counted over the keys from j on that the query may attend to.

    Made for a causal mask, under which the count ends at the query itself; without one it runs to the end of the text.

    max_distance  the largest count with a row; the table has max_distance + 1 rows, shared by all heads
    raises        InputError for a max_distance below 1
    """

    name = "cope"
    title = "CoPE"
    summary = "The distance to a key is the number of tokens in between that the query counts."
    source = "Golovneva 2024, section 4"
    formula = "qᵢ·(kⱼ + e[pᵢⱼ])/√K, pᵢⱼ = Σₖ₌ⱼ..ᵢ σ(qᵢ·kₖ/√K)"
    longer = "100 % on selective copying outside its training distribution [Golovneva 2024]"
    cost = "N² gates per head, never fused"
    because = "Cope counts tokens from the key to the query, so the direction matters"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"table": ("e", "count channel", "row of each count")}
    preserves = frozenset({Shift})

    def __init__(self, max_distance: int = 64) -> None:
        super().__init__()
        if max_distance < 1:
            raise InputError(f"max_distance is the largest count with a row of its own, 1 or more, but got {max_distance}.")
        self.max_distance = max_distance

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.table = nn.Parameter(torch.randn(self.max_distance + 1, head_width) * 0.02)

    def content_bias(self, q: Tensor, k: Tensor, at_q: AxisPositions, at_k: AxisPositions, mask: Tensor | None) -> Tensor:
        allocated(self, "table")
        width, wide = q.shape[-1], torch.promote_types(q.dtype, torch.float32)
        (positions,) = at_k
        count = later(self.gates(q, k, mask), positions).clamp(0.0, float(self.max_distance))
        below = count.floor()
        above = (below + 1).clamp(0.0, float(self.max_distance))
        each = (q @ self.table.mT).to(wide) * width**-0.5
        low, high = take(each, below), take(each, above)
        share = count - below
        return (low + share * (high - low)).to(q.dtype)

    def gates(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """How much each query counts each key, [..., N, M] in 0 .. 1, in float32 or better, because hundreds are summed."""
        width = q.shape[-1]
        scores = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) * width**-0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.sigmoid()
