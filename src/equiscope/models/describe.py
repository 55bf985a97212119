"""Describes a spec without building its weights: shapes, parameters, multiply-adds, and the actions that the model respects.

The model is built on torch's "meta" device, so that a large one costs nothing. Multiply-adds are counted as torch's
FlopCounterMode counts them (halved): every pair of tokens, masked or not; no softmax, norm, activation or position scheme.
Kinds of attention that skip pairs are counted as if they did not.
"""

import itertools
import math
from typing import cast

import torch
from torch import nn

from equiscope import blocks
from equiscope.attention import Everything, ScaledDot
from equiscope.errors import InputError, counted
from equiscope.models import spec as specs
from equiscope.models.build import Model, possible_sizes
from equiscope.positions import LearnedNd
from equiscope.record.description import Description, Part
from equiscope.symmetry import derive


def described(spec: "specs.Spec", tokens: int | None = None, source: int = 128) -> Description:
    """The description of a spec for a sequence of this many tokens; a class token, registers and columns are added.

    tokens  128 by default, or the number of cells of a learned grid
    """
    for many in (source, 1 if tokens is None else tokens):
        if isinstance(many, bool) or not isinstance(many, int) or many < 1:
            raise InputError(f"A description is of one token or more, but got tokens={tokens!r} and source={source!r}.")
    if tokens is None:
        position = spec.blocks[0].attention.position
        tokens = math.prod(position.shape) if isinstance(position, LearnedNd) else 128
    with torch.device("meta"), possible_sizes():
        model = Model(spec)
    rows = tokens + spec.prefix_tokens
    parts = list(_parts(model, "", tokens, rows, source)) if spec.encoder is None else [
        *_parts(_encoder(model), "encoder.", source, source, 0, shared=spec.shared), *_parts(model, "", tokens, rows, source)
    ]  # fmt: skip
    return Description(tokens, source if spec.encoder else None, tuple(parts), tuple(derive(model)))


def _encoder(model: Model) -> Model:
    assert model.encoder is not None
    return model.encoder


def _stem(input_layer: specs.InputLayer) -> int:
    """Multiply-adds of the convolutions for one token: those before the last one have more output positions."""
    axes, channels = len(input_layer.patch or ()), input_layer.stem or ()
    costs = [3**axes * before * after for before, after in itertools.pairwise(channels)]
    return sum(cost << axes * later for later, cost in enumerate(reversed(costs)))


def _parts(model: Model, path: str, tokens: int, rows: int, source: int, shared: bool = False) -> list[Part]:
    spec, d = model.spec, model.spec.width
    parts: list[Part] = []

    def add(name: str, what: str, shape: tuple[str | int, ...], part: nn.Module | None, cost: int, times: int = 1) -> None:
        if part is not None:
            own = _count(part) - (spec.width * (spec.outputs or 0) if name == "output_layer" and spec.tied else 0)
            parts.append(Part(path + name, what, shape, own, cost, times))

    if spec.vocabulary:
        what = "shared table" if shared else f"table of {spec.vocabulary}"
        parts.append(Part(f"{path}embedding", what, (tokens, d), 0 if shared else spec.vocabulary * d, 0))
    if _count(model.input_layer) or spec.input.features:
        raw = spec.input.features or 0
        what = f"{raw} numbers a token{'' if spec.input.map else ', as they are'}" if raw else "kinds and norm"
        what = f"convolutions {' → '.join(map(str, spec.input.stem))}" if spec.input.stem else what
        add("input_layer", what, (tokens, d), model.input_layer, tokens * (raw * d * spec.input.map + _stem(spec.input)))
    for i, scheme in enumerate(model.schemes):
        add("position" if i == 0 else f"others.{i - 1}", scheme.title, ("N", "A"), scheme, 0)
    add("columns", f"{counted(len(spec.input.columns or ()), 'column')} beside the input", (rows, d), model.columns, 0)
    if _count(model.readout):
        add("readout", model.readout.title, (rows, d), model.readout, 0)
    for first, times in _runs(spec.blocks):
        block, block_spec = cast(blocks.TransformerBlock, model.blocks[first]), spec.blocks[first]
        wide = model.position.widened(d)
        name = f"blocks.{first}" if times == 1 else f"blocks.{first}-{first + times - 1}"
        add(
            f"{name}.attention",
            _attention_text(block_spec.attention),
            (rows, wide),
            block.attention,
            _attention(block_spec.attention, wide, rows, rows, wide),
            times,
        )
        if block_spec.cross is not None and spec.encoder is not None:
            cost = _attention(block_spec.cross, wide, rows, source, spec.encoder.width)
            add(f"{name}.cross", _attention_text(block_spec.cross) + ", of the source", (rows, wide), block.cross, cost, times)
        if block_spec.feedforward is not None:
            f = block_spec.feedforward
            inner = f.inner or 4 * wide
            what = f"{f.activation}{', gated' if f.gated else ''}, {inner} inside"
            add(f"{name}.feedforward", what, (rows, wide), block.feedforward, rows * wide * inner * (3 if f.gated else 2), times)
        norms = [n for n in (block.attention_norm, block.cross_norm, block.feedforward_norm) if n is not None]
        if norms and block_spec.norm is not None:
            add(f"{name}.norms", f"{block_spec.norm.kind}, {block_spec.norm.order}", (rows, wide), nn.ModuleList(norms), 0, times)
    add("norm", "after the last layer", (rows, model.position.widened(d)), model.norm, 0)
    if model.output_layer is not None:
        out, wide = spec.outputs or 0, model.position.widened(d)
        answers = rows if spec.readout == "each" else 1
        shape: tuple[str | int, ...] = (rows, out) if spec.readout == "each" else (out,)
        cost = answers * wide * (out + (wide if spec.output.hidden else 0))
        add("output_layer", "the table, transposed" if spec.tied else "a map of its own", shape, model.output_layer, cost)
    return parts


def _runs(blocks: tuple["specs.Block", ...]) -> list[tuple[int, int]]:
    """The start and length of each run of equal layers."""
    plain = [specs.Spec(1, block=b).to_json() if b.cross is None else repr(b) for b in blocks]
    starts = [i for i in range(len(plain)) if i == 0 or plain[i] != plain[i - 1]]
    return [(start, stop - start) for start, stop in zip(starts, [*starts[1:], len(plain)], strict=True)]


def _attention_text(a: "specs.Attention") -> str:
    shared = f", {a.kv_heads} of keys" if a.kv_heads not in (None, a.heads) else ""
    who = "causal" if a.causal else "all"
    window = f", {a.window} back" if a.window else ""
    mask = "" if isinstance(a.mask, Everything) else f", {a.mask.title}"
    score = "" if isinstance(a.score, ScaledDot) else f", {a.score.name}"
    cap = f", scores up to {a.cap:g}" if a.cap is not None else ""
    kind = "" if a.kind.name == "softmax" else f", {a.kind}"
    return f"{a.heads} heads{shared}, {who}{window}{mask}{score}{cap}{kind}, {a.position.title}"


def _attention(a: "specs.Attention", width: int, rows: int, keys: int, source: int) -> int:
    differential = (
        a.kind.name == "differential"
    )  # a head is two halves, each of which attends to all values; head_width is of a half
    half = a.head_width or width // (2 * a.heads)
    k = 2 * half if differential else a.head_width or width // a.heads
    v, g = (k if differential else a.value_width or k), a.kv_heads or a.heads
    maps = rows * width * a.heads * k + keys * source * g * (k + v) + rows * a.heads * v * width
    scores = 2 * a.score.multiply_adds(rows, keys, a.heads, half) if differential else a.score.multiply_adds(rows, keys, a.heads, k)
    return maps + scores + rows * keys * a.heads * (2 * v if differential else v) + 2 * half * differential


def _count(part: nn.Module) -> int:
    return sum(p.numel() for p in part.parameters())
