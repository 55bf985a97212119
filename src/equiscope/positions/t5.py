"""T5's relative bias: every head learns a number for each bucket of distances, near ones alone, far ones together.

Half of a side's buckets hold one distance each; the others widen with the logarithm, and from `far` on there is one.
T5 itself does not divide scores by sqrt(K); that belongs to the attention's score, not to the bias.
Source: Raffel et al. 2020, section 2.1; Hugging Face `T5Attention.compute_bias`.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import bucket
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import allocated, gap, numbers, of_head
from equiscope.symmetry import Action, Shift


class T5Bias(Position):
    """Adds table[bucket(i - j), head] to the scores. Places need not be whole numbers: their gaps are rounded.

    buckets  rows of the table, Hugging Face's `relative_attention_bias`, weights as they are
    far      from so many steps on, all distances share a bucket
    both     whether keys after the query have buckets of their own, the upper half (encoders); else they share bucket 0
    raises   InputError for too few buckets, and for places that are no numbers
    """

    name = "t5"
    title = "T5 buckets"
    summary = "Every head learns a number for each bucket of distances: near ones alone, far ones together."
    source = "Raffel 2020, section 2.1"
    formula = "sᵢⱼ + b[bucket(i − j), h]"
    longer = "trained at 512 and 1024 words, perplexity degrades beyond, and it is slow [Press 2022, figure 1]"
    cost = "one value per distance and head"
    because = "T5Bias has a number of its own for each side and distance"
    relative = True
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"table.weight": ("b", "bucket head", "number of each bucket")}

    def __init__(self, buckets: int = 32, far: int = 128, both: bool = True) -> None:
        super().__init__()
        near = buckets // 4 if both else buckets // 2
        if near < 1 or (both and buckets % 2) or far <= near:
            raise InputError(
                f"T5Bias(buckets={buckets}, far={far}, both={both}) gives no distance a bucket of its own, or none is left "
                "to share. Use an even number of 4 or more buckets and a larger far, as T5 has 32 and 128."
            )
        self.buckets, self.far, self.both = buckets, far, both

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift})

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.table = nn.Embedding.from_pretrained(torch.randn(self.buckets, heads) * width**-0.5, freeze=False)

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        allocated(self, "table")
        numbers(*at_q, *at_k)
        row = bucket(gap(at_q, at_k), self.buckets, float(self.far), self.both)
        return of_head(self.table(row), head)
