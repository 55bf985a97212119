"""T5's relative bias: every head learns a number for each bucket of distances: one distance each near 0, ranges beyond.

Half of a side's buckets contain one distance each; the others widen logarithmically, and one holds all from `max_distance` on.
T5 itself does not divide scores by sqrt(K); that belongs to the attention's score, not to the bias.
Source: Raffel et al. 2020, section 2.1; Hugging Face `T5Attention.compute_bias`.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import bucket
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import allocated, check_finite, gap, of_head
from equiscope.symmetry import Shift


class T5Bias(Position):
    """Adds table[bucket(i - j), head] to the scores. Positions need not be integers: their gaps are rounded.

    buckets        rows of the table, Hugging Face's `relative_attention_bias`, weights as they are
    max_distance   distance from which on all share a bucket
    bidirectional  whether later keys have their own buckets, the upper half (encoders); else they share bucket 0
    raises         InputError for too few buckets, and for positions that are not finite
    """

    name = "t5"
    title = "T5 buckets"
    summary = "Every head learns a number for each bucket of distances, which widen with the distance."
    source = "Raffel 2020, section 2.1"
    formula = "sᵢⱼ + b[bucket(i − j), h]"
    longer = "trained at 512 and 1024 tokens, perplexity degrades beyond, and it is slow [Press 2022, figure 1]"
    cost = "one value per distance and head"
    because = "T5Bias has a separate value for each signed distance"
    relative = True
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"table.weight": ("b", "bucket head", "number of each bucket")}
    preserves = frozenset({Shift})

    def __init__(self, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        near = buckets // 4 if bidirectional else buckets // 2
        if near < 1 or (bidirectional and buckets % 2) or max_distance <= near:
            raise InputError(
                f"T5Bias(buckets={buckets}, max_distance={max_distance}, bidirectional={bidirectional}) leaves no distance with "
                "its own bucket, or no bucket to share. Use an even number of 4 or more buckets and a larger max_distance."
            )
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.table = nn.Embedding.from_pretrained(torch.randn(self.buckets, heads) * width**-0.5, freeze=False)

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        allocated(self, "table")
        check_finite(*at_q, *at_k)
        row = bucket(gap(at_q, at_k), self.buckets, float(self.max_distance), self.bidirectional)
        return of_head(self.table(row), head)
