"""No position (NoPE): attention reads a set. With a causal mask the order still enters, through the mask.

Source: Vaswani et al. 2017 without section 3.5; Kazemnejad et al. 2023 for decoders.
"""

from equiscope.positions.base import Position
from equiscope.symmetry import Permute, Reverse, Shift


class NoPosition(Position):
    """Acts nowhere, so it preserves every action on positions."""

    name = "none"
    title = "none"
    summary = "The model reads a set of tokens without their positions."
    formula = "sᵢⱼ = qᵢ·kⱼ/√K"
    longer = "as a decoder the best of five schemes, trained on 20 tokens and tested on 40 (Kazemnejad 2023)"
    cost = "nothing"
    axes = None
    source = "Vaswani 2017, without positions"
    preserves = frozenset({Permute, Shift, Reverse})
