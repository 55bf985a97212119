"""The exhibit: one layer whose weights a person can read, with every read-out at its end.

Weights are random numbers rounded to few decimals, so that the products on the page come out as they are printed; for the
smallest page they are given, and give the numbers that the docs quote.
"""

import math
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from equiscope import blocks
from equiscope.attention import score_split
from equiscope.models import READOUTS, Attention, Block, ClassToken, FeedForward, Model, Norm, Spec, build
from equiscope.position import Added, Position
from equiscope.tokens import Tokens
from equiscope.trace import ops

PLACES = 64  # rows of a learned table: as far as a sentence can slide
GIVEN = {  # width 2, one head: the example of the docs
    "q_proj.weight": [[1, 0], [-1, 1]],
    "k_proj.weight": [[1, 1], [0, -1]],
    "v_proj.weight": [[1, 1], [0, 1]],
    "o_proj.weight": [[0.5, 0.5], [-0.5, 1]],
    "up_proj.weight": [[1, 0.5], [-1, 1], [0.5, -1]],
    "up_proj.bias": [0.1, 0, 0.2],
    "down_proj.weight": [[0.5, 0.5, -0.5], [0, -1, 0.5]],
    "down_proj.bias": [0, 0.1],
    "readout.row": [[0.5, 0.5]],
}


SEEDS = {  # the word that a parameter's numbers are drawn by, where it is not its name
    "q_norm.weight": "query_gain", "k_norm.weight": "key_gain", "norm.weight": "norm.gain", "norm.bias": "norm.shift",
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "output",
    "up_proj": "inward", "down_proj": "outward", "gate_proj": "gate", "entry.proj": "entry.features",
    "head.lm_head.weight": "head.weight", "head.lm_head.bias": "head.bias", "head.dense": "head.map",
    "embedding.weight": "embedding.table", "types.weight": "types",
}  # fmt: skip


class Exhibit(nn.Module):
    """A one-layer model that returns its rows and everything that can be read out of them.

    With a class token the read-out is that token's row; without, the four read-outs that need no row of their own.
    """

    def __init__(self, model: Model, split: bool) -> None:
        super().__init__()
        self.model = model
        self.block: blocks.Block = cast(blocks.Block, model.blocks[0])
        self.split = split
        self.readouts = nn.ModuleList(READOUTS[n](model.spec.width) for n in ("mean", "first", "last", "concatenation"))

    def forward(self, tokens: Tokens) -> list[Tensor]:
        position = self.model.position
        encoding: Tensor | None = None
        if isinstance(position, Added):
            encoding = position.encode(tokens.at, tokens.x.shape[-1])
            x = position.put(tokens.x, encoding)
        else:
            x = position.embed(tokens.x, tokens.at)
        opened = self.model.readout.open(replace(tokens, x=x))  # nothing is added to a class token for its place
        y = self.block(opened, position)
        if isinstance(self.model.readout, ClassToken):
            return [y, self.model.readout(y, opened)]
        apt = self.readouts if tokens.valid is None else self.readouts[:1]  # of a padded text the page reads the mean only
        readouts = [readout(y, opened) for readout in apt]
        return [y, *readouts, *(self._split(tokens.x, encoding) if self.split and encoding is not None else ())]

    def _split(self, x: Tensor, encoding: Tensor) -> tuple[Tensor, ...]:
        attention = self.block.attention
        return score_split(x, encoding, ops.weight(attention.q_proj), ops.weight(attention.k_proj), attention.heads)


def exhibit(position: Position, width: int, heads: int, seed: int, causal: bool = False, class_token: bool = False) -> Exhibit:
    """A fresh exhibit in float64. Raises ShapeError where the scheme does not fit the width."""
    attention = Attention(heads=heads, position=position, causal=causal)
    inner = 3 if width == 2 else 2 * width
    block = Block(attention=attention, norm=Norm("rms", "post"), feedforward=FeedForward(inner, "relu"))
    made = build(Spec(width=width, block=block, readout="class" if class_token else "each")).double()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(numbers(name, tuple(parameter.shape), width, seed, seed_word(name).rpartition(".")[-1]))
    return Exhibit(made, split=not causal).eval()


def numbers(name: str, shape: tuple[int, ...], width: int, seed: int, word: str = "") -> Tensor:
    """Given where they exist and fit; else from the seed and a word alone, the same for every scheme.

    word  `seed_word` of the parameter's name unless said; weights [out, in] of linear maps are drawn as [in, out]
    """
    given = GIVEN.get(".".join(name.split(".")[-2:]))
    if word and seed == 0 and width == 2 and given is not None and torch.tensor(given).shape == shape:
        return torch.tensor(given, dtype=torch.float64)
    if word == "gain":
        return torch.ones(shape, dtype=torch.float64)
    word = word or seed_word(name)
    across = name.endswith(("_proj.weight", ".proj.weight", "lm_head.weight", "dense.weight"))
    drawn = shape[::-1] if across else shape
    generator = torch.Generator().manual_seed(seed * 1000 + sum(word.encode()))
    size = 1.0 if word == "table" else 0.1 if word.endswith("bias") else 1 / math.sqrt(drawn[0])
    made = (torch.randn(drawn, generator=generator, dtype=torch.float64) * size).round(decimals=1 if width <= 4 else 2)
    return (made.mT if across else made) + 0.0  # plus zero, so that no number is a minus zero


def seed_word(name: str) -> str:
    """The word for a parameter's numbers."""
    for end, word in SEEDS.items():
        for kind, rest in (("", ""), (".weight", ""), (".bias", "_bias")):
            if name.endswith(end + kind):
                return name.removesuffix(end + kind) + word + rest
    return name
