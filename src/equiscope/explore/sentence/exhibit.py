"""The exhibit: one layer whose weights a person can read, with every read-out at its end.

Weights are random numbers rounded to few decimals, so that the products on the page come out as they are printed; for the
smallest page they are given, and give the numbers that the docs quote.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from equiscope import blocks
from equiscope.attention import score_split
from equiscope.models import READOUTS, Attention, Block, ClassToken, FeedForward, Model, Norm, Readout, Spec, build
from equiscope.positions import Added, Concatenated, Position
from equiscope.tokens import Tokens

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
    "up_proj": "inward", "down_proj": "outward", "gate_proj": "gate", "input_layer.proj": "entry.features",
    "output_layer.lm_head.weight": "head.weight", "output_layer.lm_head.bias": "head.bias", "output_layer.dense": "head.map",
    "embedding.weight": "embedding.table", "types.weight": "types", "table": "table",
    "mlp.0": "first", "mlp.2": "second",
}  # fmt: skip


class Rows:
    """Where rows stand, as an input that names itself: a class token's row among them."""

    def __init__(self, tokens: Tokens) -> None:
        self.positions, self.order, self.valid = tokens.positions, tokens.order, tokens.valid

    def leaves(self, axis: str = "") -> Iterator[tuple[Tensor, tuple[str, str, str, tuple[str, ...], str]]]:
        yield self.positions, ("positions", "t", "positions of the tokens", ("token", "axis"), "coordinate")
        yield self.order, ("order", "o", "ranks of the tokens", ("token",), "order")
        if self.valid is not None:
            yield self.valid, ("valid", "v", "whether a row is a token", ("token",), "valid")


class Exhibit(nn.Module):
    """A one-layer model that returns its rows, by name with everything that a page shows of what leads to them or follows.

    With a class token the read-out is that token's row; without, the four read-outs that need no row of their own.
    """

    def __init__(self, model: Model, split: bool) -> None:
        super().__init__()
        self.model = model
        self.block: blocks.TransformerBlock = cast(blocks.TransformerBlock, model.blocks[0])
        self.split = split
        self.readouts = nn.ModuleList(READOUTS[n](model.spec.width) for n in ("mean", "first", "last", "concatenation"))
        ends = {f"readouts.{i}": one for i, one in enumerate(self.readouts)} | {"model.readout": model.readout}
        self.legend = {path: (one.name, "", one.title) for path, one in ends.items()}

    def forward(self, tokens: Tokens, rows: "Rows | None" = None) -> dict[str, Tensor]:
        """rows: where the rows of the attention stand, if a page is to move them; else the class token's is worked out."""
        position = self.model.position
        P: Tensor | None = None
        if isinstance(position, (Added, Concatenated)):
            P = position.encode(tokens.positions, tokens.x.shape[-1])
            X_P = position.put(tokens.x, P)
        else:
            X_P = position.embed(tokens.x, tokens.positions)
        opened = self.model.readout.prepend(replace(tokens, x=X_P))  # nothing is added to a class token for its place
        opened = opened if rows is None else replace(opened, positions=rows.positions, order=rows.order, valid=rows.valid)
        y = self.block(opened, position)
        outputs = {"output": y, "input": opened.x} | ({} if P is None else {"encoding": P})
        if isinstance(self.model.readout, ClassToken):
            return outputs | {"class": self.model.readout(y, opened)}
        apt = list(self.readouts) if tokens.valid is None else self.readouts[:1]  # of a padded text the page reads the mean only
        outputs |= {cast(Readout, readout).name: readout(y, opened) for readout in apt}
        if P is None or not self.split or not isinstance(position, Added):
            return outputs
        return outputs | self._split(tokens.x, P)

    def inputs(self, tokens: Tokens) -> tuple[Tokens] | tuple[Tokens, Rows]:
        """What a page gives it."""
        if not isinstance(self.model.readout, ClassToken):
            return (tokens,)
        with torch.no_grad():
            wide = replace(tokens, x=tokens.x.new_zeros(len(tokens.x), self.model.readout.row.shape[-1]))
            return tokens, Rows(self.model.readout.prepend(wide))

    def _split(self, x: Tensor, encoding: Tensor) -> dict[str, Tensor]:
        attention = self.block.attention
        parts = score_split(x, encoding, attention.q_proj.weight.mT, attention.k_proj.weight.mT, attention.heads)
        return dict(zip(("split-cc", "split-cp", "split-pc", "split-pp"), parts, strict=True))


def exhibit(position: Position, width: int, heads: int, seed: int, causal: bool = False, class_token: bool = False) -> Exhibit:
    """A fresh exhibit in float64. Raises ShapeError where the scheme does not fit the width."""
    attention = Attention(heads=heads, position=position, causal=causal)
    inner = 3 if width == 2 else 2 * width
    block = Block(attention=attention, norm=Norm("rms", "post"), feedforward=FeedForward(inner, "relu"))
    model = build(Spec(width=width, block=block, readout="class" if class_token else "each")).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(numbers(name, tuple(parameter.shape), width, seed, seed_word(name).rpartition(".")[-1]))
    return Exhibit(model, split=not causal).eval()


def numbers(name: str, shape: tuple[int, ...], width: int, seed: int, word: str = "") -> Tensor:
    """Given where they exist and fit; else from the seed and a word alone, the same for every scheme.

    word  by default `seed_word` of the parameter's name; weights [out, in, ...] are drawn as [in, out]
    """
    given = GIVEN.get(".".join(name.split(".")[-2:]))
    if word and seed == 0 and width == 2 and given is not None and torch.tensor(given).shape == shape:
        return torch.tensor(given, dtype=torch.float64)
    if word == "gain":
        return torch.ones(shape, dtype=torch.float64)
    word = word or seed_word(name)
    across = name.endswith(("_proj.weight", ".proj.weight", "lm_head.weight", "dense.weight", "mlp.0.weight", "mlp.2.weight"))
    kernel = "stem.layers" in name and len(shape) > 2  # of a convolution, [out, in, ...]
    drawn = (math.prod(shape[1:]), shape[0]) if kernel else shape[::-1] if across else shape
    generator = torch.Generator().manual_seed(seed * 1000 + sum(word.encode()))
    size = 1.0 if word == "table" else 0.1 if word.endswith("bias") else 1 / math.sqrt(drawn[0])
    values = (torch.randn(drawn, generator=generator, dtype=torch.float64) * size).round(decimals=1 if width <= 4 else 2)
    if kernel:
        return values.mT.unflatten(1, (*shape[2:], shape[1])).movedim(-1, 1) + 0.0
    return (values.mT if across else values) + 0.0  # plus zero, so that no number is a minus zero


def seed_word(name: str) -> str:
    """The word for a parameter's numbers."""
    for end, word in SEEDS.items():
        for kind, rest in (("", ""), (".weight", ""), (".bias", "_bias")):
            if name.endswith(end + kind):
                return name.removesuffix(end + kind) + word + rest
    return name
