"""FIRE: a small network reads the distance of a key as a share of the largest distance that the query can have.

b(i, j) = f(psi(i - j) / psi(max(L, i))), psi(x) = log(1 + c x). As i grows the share stays between 0 and 1, whatever the
length of the text. But it depends on i, so FIRE is not shift-equivariant beyond the threshold L, unlike the other relative
biases.
Source: Li et al. 2024, "Functional Interpolation for Relative Positions", section 3 and the code in its appendix.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import NETWORK, allocated, apply_network, distances, network, norm

SMALL = 1e-6  # of the paper's code: the first token's share is 0 / psi(0) if the threshold is 0


class Fire(Position):
    """Adds a network of one hidden layer, applied to the share. Made for a causal mask and positions that count from 0.

    The paper defines it for keys before the query; for later keys |i - j| replaces i - j, so that nothing becomes NaN. On several
    axes distances are Euclidean, also that of the query from position 0, which replaces i in the maximum: our extension.

    length  the threshold L at the start; a learned factor moves it
    hidden  width of the network
    raises  InputError where a size is not positive
    """

    name = "fire"
    title = "FIRE"
    summary = "A small network reads each distance as a share of the largest distance of the query."
    source = "Li 2024, section 3"
    formula = "sᵢⱼ + f(ψ(i − j) / ψ(max(L, i))), ψ(x) = log(1 + c·x)"
    longer = "2.5 × the training length in arithmetic, as torchtune's issue 2325 reports it"
    cost = "a small network for N² pairs, again for the gradient; one table of N²·H for all layers"
    axes = None
    because = "Fire divides the distance by the query's absolute position"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "rate": ("c", ".", "how early the logarithm bends"),
        "threshold": ("ℓ", ".", "factor on the threshold"),
        **NETWORK,
    }
    preserves = frozenset()

    def __init__(self, length: float = 512.0, hidden: int = 32) -> None:
        super().__init__()
        if not length > 0 or hidden < 1:
            raise InputError(f"length and hidden are larger than 0, but got {length} and {hidden}.")
        self.length, self.hidden = length, hidden

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.rate, self.threshold = nn.Parameter(torch.tensor([0.1])), nn.Parameter(torch.ones(1))
        self.mlp = network(1, self.hidden, heads)

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        allocated(self, "mlp")
        position = at_q[0] if len(at_q) == 1 else norm(at_q)
        least = size(self.threshold) * self.length
        room = torch.maximum(position, least)
        wide = torch.promote_types(position.dtype, torch.float32)  # positions may be integers
        small = torch.full((1,), SMALL, dtype=wide, device=position.device)
        whole = self.bent(room) + small
        part = self.bent(distances(at_q, at_k)) / whole
        return apply_network(self.mlp, part.unsqueeze(-1), head)

    def bent(self, x: Tensor) -> Tensor:
        """psi(x) = log(1 + |c| x)."""
        return torch.log1p(size(self.rate) * x)


def size(x: Tensor) -> Tensor:
    """|x|: the larger of x and -x."""
    return torch.maximum(x, -x)
