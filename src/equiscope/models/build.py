"""Build: a spec becomes an ordinary module. Positions enter the tokens once, and queries, keys and scores in every layer."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from equiscope import attention, blocks
from equiscope.errors import InputError, ShapeError
from equiscope.models import spec as specs
from equiscope.models.readout import READOUTS
from equiscope.tokens import Embedding, Tokens
from equiscope.trace import ops


def build(source: "specs.Spec | dict[str, Any] | str | Path") -> "Model":
    """A model with fresh random parameters (torch's global seed). Raises where the spec does not fit together, and says where."""
    return Model(specs.Spec.of(source))


class Model(nn.Module):
    """Tokens, features [..., N, D], or ids [..., N] in; what the read-out takes out."""

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "head": ("W_out", "feature output", "output map"),
    }

    def __init__(self, spec: "specs.Spec") -> None:
        super().__init__()
        self.spec = spec
        parts = spec.block.attention
        head_width = parts.head_width or spec.width // parts.heads
        self.embedding = Embedding(spec.vocabulary, spec.width) if spec.vocabulary else None
        self.position = parts.position.sized(spec.width, parts.heads, head_width)
        width = self.position.widened(spec.width)
        self.readout = READOUTS[spec.readout](spec.width)
        self.blocks = nn.ModuleList(_block(spec.block, width) for _ in range(spec.layers))
        norm = spec.block.norm
        self.norm = blocks.Norm(width, norm.kind, norm.eps) if norm is not None and norm.order == "pre" else None
        own = spec.outputs and not spec.tied
        self.head = nn.Parameter(torch.randn(width, spec.outputs or 0) / math.sqrt(width)) if own else None

    def forward(self, inputs: Tokens | Tensor, caches: list[attention.Cache] | None = None) -> Tensor:
        """caches: one a layer, from `caches()`; inputs then are the tokens that come next, at places that go on."""
        tokens = self.readout.open(self.tokens(inputs, caches[0].length if caches else 0))
        self.position.check(tokens.at)
        tokens = replace(tokens, x=self.position.embed(tokens.x, tokens.at))
        plan = attention.Plan(self.position, tokens, tokens)
        for layer, block in enumerate(self.blocks):
            tokens = replace(tokens, x=block(tokens, self.position, plan, caches[layer] if caches else None))
        y = tokens.x if self.norm is None else self.norm(tokens.x)
        y = self.readout(y, tokens)
        head: Tensor | None = self.head
        if self.spec.tied and self.embedding is not None:
            head = ops.transpose(self.embedding.table, name="Eᵀ", label="embedding table, transposed")
        return y if head is None else ops.affine(y, head, None, name="out", label="the model's answer")

    def caches(self) -> list[attention.Cache]:
        """An empty cache for every layer. Raises InputError where the model looks ahead, or its read-out needs all rows."""
        if self.readout.name not in ("each", "last"):
            raise InputError(f"The read-out {self.readout.name!r} needs all rows, which a cache does not keep. Use each or last.")
        return [cast(blocks.Block, block).attention.cache() for block in self.blocks]

    def tokens(self, inputs: Tokens | Tensor, start: int = 0) -> Tokens:
        """Ids are looked up, bare features get places start, start + 1, ..."""
        if isinstance(inputs, Tokens):
            tokens = inputs
        elif self.embedding is not None:
            if inputs.is_floating_point():
                raise InputError(f"This model has a vocabulary and takes ids (integers), but got {inputs.dtype}.")
            tokens = Tokens.of(self.embedding(inputs), start)
        else:
            tokens = Tokens.of(inputs, start)
        if tokens.x.shape[-1] != self.spec.width:
            raise ShapeError(f"The model is {self.spec.width} wide, but the tokens have {tokens.x.shape[-1]} features.")
        return tokens


def _block(spec: "specs.Block", width: int) -> blocks.Block:
    a, f, n = spec.attention, spec.feedforward, spec.norm
    heads = attention.MultiHeadAttention(
        width, heads=a.heads, head_width=a.head_width, value_width=a.value_width, bias=a.bias, backend=a.backend,
        mask=_mask(a), kv_heads=a.kv_heads, norm=a.qk_norm,
    )  # fmt: skip
    forward = blocks.FeedForward(width, f.inner or 4 * width, f.activation, f.bias, f.gated) if f is not None else None
    norms = (blocks.Norm(width, n.kind, n.eps), blocks.Norm(width, n.kind, n.eps)) if n is not None else None
    return blocks.Block(
        heads, forward, norms, order=n.order if n is not None else "pre", residual=spec.residual, parallel=spec.parallel
    )


def _mask(a: "specs.Attention") -> attention.Mask:
    mask = attention.Causal() if a.causal else attention.Everything()
    if a.window is None:
        return mask
    return mask & attention.Window(a.window) if a.causal else attention.Window(a.window)
