"""Finding: a cause that was confirmed, with what was computed to confirm it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

NUMERIC = (RuntimeError, ValueError, IndexError, TypeError, KeyError)  # of numbers of a shape that a hypothesis does not have
CAUSES = {  # what `Parity.kind` can be -> in words
    "precision": "lower precision", "quantization": "quantized weights", "quantization scale": "scale of a quantized weight",
    "quantization axis": "axis of the scales of a quantized weight", "quantization zero point": "zero point of a quantized weight",
    "quantization rounding": "rounding of a quantized weight", "quantization kernel": "kernel of a quantized module",
    "cast": "cast before the weight",
    "mode": "dropout or training mode", "weights": "a parameter differs", "bias": "bias missing", "transposed": "weight transposed",
    "tied head": "tied head", "activation": "activation", "epsilon": "epsilon of the norm", "norm kind": "kind of norm",
    "norm weight": "weight of the norm", "norm bias": "bias of the norm", "norm placement": "placement of the norm",
    "embedding scale": "scale of the embedding", "scale": "a constant factor", "softmax scale": "scale of the softmax",
    "position offset": "offset of positions", "soft-cap": "soft-cap of scores", "output cap": "soft-cap of the output",
    "mask": "mask", "window": "window of the mask", "mask alignment": "alignment of the mask", "padding side": "padding side",
    "causal": "causal mask", "head order": "head order of grouped queries", "head width": "head width",
    "rope base": "base of the rotary embedding", "rope scaling": "scaling of the rotary embedding",
    "rope layout": "pair layout of the rotary embedding", "rope width": "rotated width of the rotary embedding",
    "rope offset": "offset of rotary positions", "rope direction": "direction of the rotation", "rope": "rotary embedding missing",
    "position bias": "position bias of the scores", "softmax axis": "axis of the softmax", "residual": "residual connection",
    "exchanged": "a step reads another value",
    "fused layout": "layout of a fused projection", "all-reduce": "sum over the processes (all-reduce)",
    "shard order": "order of the shards", "count": "how often a term counts",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """kind: a key of CAUSES; empty where no cause was confirmed. a, b: what each side does.

    evidence  what confirmed it; {0} stands for the first side and {1} for the second
    at_a      a value of A at whose step the difference begins, where it is not the first unexplained one; at_b: of B
    mend_a    values with which A computes B's numbers; mend_b: with which B computes A's
    """

    kind: str
    a: str
    b: str = ""
    evidence: str = ""
    at_a: int | None = None
    at_b: int | None = None
    mend_a: Mapping[int, Tensor] = field(default_factory=dict)
    mend_b: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The cause in one sentence."""
        return f"{CAUSES[self.kind]}: {self.a} in A, {self.b} in B" if self.kind else ""

    def mirrored(self) -> "Finding":
        """The same with A and B exchanged."""
        evidence = self.evidence.format("{1}", "{0}")
        return Finding(self.kind, self.b, self.a, evidence, self.at_b, self.at_a, self.mend_b, self.mend_a)

    @property
    def proof(self) -> str:
        """The evidence with the names of the sides."""
        return self.evidence.format("A", "B")
