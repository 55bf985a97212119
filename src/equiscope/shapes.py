"""The axis legend: one letter, one meaning, in annotations, formulas and messages.

    B  sequences in a batch          H  heads
    N  query tokens                  K  width of a head's queries and keys
    M  key tokens                    V  width of a head's values
    D  width of the model            A  axes of a coordinate (1 for text, 2 for images, 3 for space)

Leading axes are free ("..."): a part takes [N, D], [B, N, D] or more. Rows are tokens, so maps act as `x @ W`.
"""

from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

Features = Float[Tensor, "*batch N D"]  # one row a token
Coordinates = Real[Tensor, "*#batch N A"]  # positions of the tokens, floats or integers; one list may serve a whole batch
Order = Int[Tensor, "*#batch N"]  # ranks; what a causal mask reads
Flags = Bool[Tensor, "*#batch N"]

__all__ = ["Coordinates", "Features", "Flags", "Order"]
