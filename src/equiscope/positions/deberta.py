"""DeBERTa: three products make a score: content to content, content to position, and position to content.

(q . k + q . k_r[d(i, j)] + k . q_r[d(j, i)]) / sqrt(3 K), where d(i, j) is far + i - j, clamped to 0 .. 2 far - 1. The third
term's index is reversed: seen from the key, the query is j - i away. DeBERTa's code and Hugging Face's read it as d(i, j);
`query_table_from_hugging_face` puts the rows where the paper has them.
Source: He et al. 2021, "DeBERTa", section 3.1. Absolute positions before the output layer (section 3.2) are not included.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import take
from equiscope.positions.base import AxisPositions, Position, Role
from equiscope.positions.gaps import allocated, whole
from equiscope.symmetry import Shift


class Deberta(Position):
    """Adds the content-to-position and the position-to-content term; `rotate` divides queries by sqrt(3), to weigh all three alike.

    The tables are the paper's relative embeddings after their projections: columns of head h are h*K .. (h+1)*K - 1.

    max_distance  distinct distances on each side; tables have 2 max_distance rows
    raises        InputError for a max_distance below 1, and for positions that are not finite
    """

    name = "deberta"
    title = "DeBERTa"
    summary = "A score is the sum of three products: content to content, content to position, position to content."
    source = "He 2021, section 3.1"
    formula = "(qᵢ·kⱼ + qᵢ·kʳ[δ(i,j)] + kⱼ·qʳ[δ(j,i)])/√(3K)"
    longer = "–"
    cost = "2·N·(2·far)·K per head, far = max_distance, and 2·N² selected numbers"
    because = "Deberta has a separate row for each signed distance"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "key_table": ("Kʳ", "distance channel", "distances as keys"),
        "query_table": ("Qʳ", "distance channel", "distances as queries"),
    }
    preserves = frozenset({Shift})

    def __init__(self, max_distance: int = 128) -> None:
        super().__init__()
        if max_distance < 1:
            raise InputError(f"max_distance is the number of distinct distances on each side, 1 or more, but got {max_distance}.")
        self.max_distance = max_distance

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.heads = heads
        self.key_table = nn.Parameter(torch.randn(2 * self.max_distance, heads * head_width) * 0.02)
        self.query_table = nn.Parameter(torch.randn(2 * self.max_distance, heads * head_width) * 0.02)

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        return x * 3**-0.5 if role == "query" else x

    def content_bias(self, q: Tensor, k: Tensor, at_q: AxisPositions, at_k: AxisPositions, mask: Tensor | None) -> Tensor:
        """q has been divided by sqrt(3) already."""
        allocated(self, "key_table")
        steps = whole(at_q, at_k)
        keys = q @ self.columns(self.key_table, q)
        s_cp = take(keys, self.index(steps))
        back = -steps.mT  # from the query to the key, a row for each key
        queries = k @ self.columns(self.query_table, k)
        position_scores = take(queries * 3**-0.5, self.index(back))
        s_pc = position_scores.mT
        width = q.shape[-1]
        return (s_cp + s_pc) * width**-0.5

    def columns(self, table: Tensor, like: Tensor) -> Tensor:
        """A table [R, H*K] as columns to multiply with, [H, K, R]; [K, R] for one head without a batch."""
        each = table.unflatten(-1, (self.heads, -1)).transpose(-3, -2) if like.ndim > 2 else table
        return each.mT

    def index(self, steps: Tensor) -> Tensor:
        """max_distance + i - j, within the table."""
        near = steps.clamp(-float(self.max_distance), float(self.max_distance - 1))
        delta = near + self.max_distance
        return delta


def query_table_from_hugging_face(table: Tensor) -> Tensor:
    """Hugging Face's projected relative embeddings for queries [R, H*K], indexed by d(i, j), as rows indexed by d(j, i).

    Row x goes to R - x, R = 2 max_distance. Exact except for keys `max_distance` or more steps after the query, which share the row
    of max_distance - 1 steps here.
    """
    return torch.cat([table[-1:], table.flip(0)[:-1]])
