"""The model that the book checks: a decoder whose mask is off by one in its third layer. The chapter writes it too."""

import torch
from torch import Tensor, nn


class MaskedAttention(nn.Module):
    """Attention of one head, written by hand. diagonal: 1 for a causal mask; 2 lets a token attend to the next one."""

    def __init__(self, width: int, diagonal: int) -> None:
        super().__init__()
        self.qkv_proj, self.o_proj, self.diagonal = nn.Linear(width, 3 * width), nn.Linear(width, width), diagonal

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[-2]
        q, k, v = self.qkv_proj(x).chunk(3, -1)
        masked = torch.ones(n, n, dtype=torch.bool).triu(self.diagonal)
        weights = (q @ k.transpose(-1, -2)).masked_fill(masked, float("-inf")).softmax(-1)
        mixed: Tensor = self.o_proj(weights @ v)
        return mixed


class DecoderLayer(nn.Module):
    """Attention after a norm, added to the residual stream."""

    def __init__(self, width: int, diagonal: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), MaskedAttention(width, diagonal)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm(x))


class Decoder(nn.Module):
    """Four layers between an embedding and logits over 50 tokens; the third attends to the next token."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(50, width), nn.Linear(width, 50)
        self.layers = nn.Sequential(*(DecoderLayer(width, diagonal) for diagonal in (1, 1, 2, 1)))

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(self.embed(ids)))
        return logits
