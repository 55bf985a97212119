"""The axis legend: one letter, one meaning, in annotations, formulas and messages.

    B  sequences in a batch          H  heads
    N  tokens that ask (queries)     K  width of a head's queries and keys
    M  tokens that answer (keys)     V  width of a head's values
    D  width of the model            A  axes of a coordinate (1 for text, 2 for images, 3 for space)

Leading axes are free ("..."): a part takes [N, D], [B, N, D] or more. Rows are tokens, so maps act as `x @ W`.
"""

from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

Features = Float[Tensor, "*batch N D"]  # one row a token
Coordinates = Real[Tensor, "*#batch N A"]  # where each token is, floats or integers; one list may serve a whole batch
Order = Int[Tensor, "*#batch N"]  # which token comes first; what a causal mask reads
Flags = Bool[Tensor, "*#batch N"]

__all__ = ["Coordinates", "Features", "Flags", "Order"]
