"""Toy model: a small model with the same architecture, run on a small input, so that a drawing's numbers fit on a page.

Every part of the spec stays: grouped, gated, tied, parallel and masked parts. Only sizes shrink. A model that is already small is
used itself, with its own weights.
"""

import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from equiscope import record
from equiscope.errors import EquiscopeError, InputError, counted
from equiscope.explore.sentence.exhibit import numbers, seed_word
from equiscope.models import Attention, Block, FeedForward, InputLayer, Model, Spec, build
from equiscope.positions import Position
from equiscope.program import watch
from equiscope.program.lower import lowered
from equiscope.tokens import Tokens, spelled

WORDS, SOURCE = ["Love", "conquers", "all"], ["all", "is", "good", "Love"]
VOCABULARY = ["Love", "conquers", "all", "is", "good"]
GRIDS = {1: (4,), 2: (2, 3), 3: (2, 2, 2)}  # cells of a small input, for 1, 2 and 3 axes
HEAD_WIDTHS = (4, 8, 12, 16, 24, 32, 48, 64)
SMALL = {"max_distance": 4, "hidden": 4, "length": 16, "buckets": 8}  # settings of schemes that make tables
OWN = 30_000  # parameters up to which a model is used itself
WIDEST = 32


@dataclass(frozen=True)
class ToyRun:
    """A recorded model. own: the model itself, not a toy model with a layer of each kind; axis_names: labels along its axes."""

    model: Model
    program: record.ProgramRecord
    own: bool
    axis_names: dict[str, list[str]]
    note: str


class NamedInputModel(nn.Module):
    """A model whose inputs name their tensors: tokens and positions."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, target: "_NamedInput", source_input: "_NamedInput | None" = None) -> Tensor:
        source = None
        if source_input is not None and self.model.encoder is not None:
            source = source_input.tokens(self.model.encoder)
        return self.model(target.tokens(self.model), source=source)


class _NamedInput:
    """Tokens, which name their tensors; or ids or samples, with the positions that the model gives them."""

    def __init__(self, model: Model, value: Tensor | Tokens) -> None:
        self.value = value
        self.named_tokens = value if isinstance(value, Tokens) else model.tokens(value)
        self.kinds = torch.zeros_like(value) if model.spec.input.types is not None and isinstance(value, Tensor) else None

    def leaves(self, axis: str = "token") -> Iterator[tuple[Tensor, tuple[str, str, str, tuple[str, ...], str]]]:
        if isinstance(self.value, Tensor):
            yield self.value, ("ids", "i", "numbers of the words", (axis,), "content")
        if self.kinds is not None:
            yield self.kinds, ("kinds", "κ", "kind of every word", (axis,), "content")
        for t, note in self.named_tokens.leaves(axis):
            if t is not self.named_tokens.x or isinstance(self.value, Tokens):
                yield t, note

    def tokens(self, model: Model) -> Tokens:
        """What the model reads."""
        if isinstance(self.value, Tokens):
            return self.value
        return replace(
            model.tokens(self.value, types=self.kinds), positions=self.named_tokens.positions, order=self.named_tokens.order
        )


def toy_run(spec: Spec, own: Model | None = None, seed: int = 0) -> ToyRun:
    """Record the model itself where it is small and available, else a toy model with readable random weights."""
    if own is not None and _fits(own):
        return _watched(deepcopy(own).double().eval(), True, "The numbers are those of this model itself.")
    model = toy_model(spec, seed)
    width, layers, a = model.spec.width, model.spec.layers, model.spec.blocks[0].attention
    note = (
        f"The numbers are those of a toy model of the same architecture: {width} wide, {counted(a.heads, 'head')} of "
        f"{a.head_width or width // a.heads}, {counted(layers, 'layer')}, with random weights of few decimals."
    )
    return _watched(model, False, note)


def runs(spec: Spec) -> list[tuple[Block, int]]:
    """The alternating blocks, and the number of consecutive layers of each: three with RoPE and one without are two entries."""
    block_runs: list[tuple[Block, int]] = []
    for block in spec.cycle:
        if block_runs and alike(spec, block_runs[-1][0], block):
            block_runs[-1] = (block, block_runs[-1][1] + 1)
        else:
            block_runs.append((block, 1))
    return [(block_runs[0][0], spec.layers)] if len(block_runs) == 1 else block_runs


def alike(spec: Spec, one: Block, other: Block) -> bool:
    """Whether two blocks are equal; schemes are objects, so their JSON is compared."""
    a, b = (replace(spec, layers=1, block=block).to_dict()["block"] if block != Block() else {} for block in (one, other))
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


# --- the toy model ---------------------------------------------------------------------------------------------------
def toy_model(spec: Spec, seed: int = 0) -> Model:
    """In float64. The head width grows until every scheme fits. Raises InputError where none fits."""
    for head_width in HEAD_WIDTHS:
        try:
            model = build(shrunk(spec, head_width)).double().eval()
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(_readable(name, tuple(parameter.shape), seed))
            _watched(model, False, "")
        except EquiscopeError as error:
            if head_width == HEAD_WIDTHS[-1]:
                raise InputError(f"No toy model of this architecture could be run: {error}") from error
        else:
            return model
    raise AssertionError("HEAD_WIDTHS is empty")


def shrunk(spec: Spec, head_width: int) -> Spec:
    """The same parts with small sizes; heads of `head_width`."""
    heads = _heads(spec.blocks[0].attention)
    width = heads * head_width
    blocks = tuple(_block(block, spec.width, width, head_width) for block, _ in runs(spec))
    vocabulary = len(VOCABULARY) if spec.vocabulary else None
    outputs = spec.outputs and (vocabulary if spec.outputs == spec.vocabulary else min(spec.outputs, 3))
    input_layer = spec.input
    patch = tuple(min(size, 2) for size in input_layer.patch) if input_layer.patch else None
    channels = min(input_layer.channels, 3) if input_layer.map else 1  # raw numbers have to fit into the width
    stem = (channels, 3) if input_layer.stem else None
    features = input_layer.features and (channels * math.prod(patch) if patch and not stem else min(input_layer.features, 3))
    return replace(
        spec, width=width, vocabulary=vocabulary, layers=len(blocks), block=blocks,
        outputs=outputs,
        input=InputLayer(
            features=features, map=input_layer.map, patch=patch, stem=stem, positions=input_layer.positions,
            types=input_layer.types and min(input_layer.types, 2),
            scale=_scale(input_layer.scale, spec.width, width), norm=input_layer.norm, registers=input_layer.registers,
            columns=input_layer.columns and tuple(min(size, 3) for size in input_layer.columns[:2]),
        ),
        output=replace(spec.output, scale=_scale(spec.output.scale, spec.width, width)),
        encoder=shrunk(spec.encoder, width // _heads(spec.encoder.blocks[0].attention)) if spec.encoder else None,
    )  # fmt: skip


def _heads(a: Attention) -> int:
    """Two heads, or four for two key heads that share."""
    kv = a.kv_heads or a.heads
    return 1 if a.heads == 1 else 2 if kv in (1, a.heads) else 4


def _block(block: Block, before: int, width: int, head_width: int) -> Block:
    f = block.feedforward
    inner = None if f is None or f.inner is None else width if f.inner <= before else 2 * width
    return replace(
        block, attention=_attention(block.attention, head_width), cross=block.cross and _attention(block.cross, head_width),
        feedforward=f and FeedForward(inner or 2 * width, f.activation, f.bias, f.gated),
    )  # fmt: skip


def _attention(a: Attention, head_width: int) -> Attention:
    heads, kv = _heads(a), a.kv_heads or a.heads
    before = a.head_width or 0
    return replace(
        a, heads=heads, kv_heads=None if kv == a.heads else 1 if kv == 1 else heads // 2, head_width=head_width,
        value_width=head_width if a.value_width else None, window=a.window and min(a.window, 2), mask=a.mask.small(2),
        position=_scheme(a.position), scale=_scale(a.scale, before, head_width),
    )  # fmt: skip


def _scheme(scheme: Position) -> Position:
    """The same scheme with short tables, for the small input's grid."""
    note = scheme.settings
    small: dict[str, Any] = {k: min(note[k], size) for k, size in SMALL.items() if isinstance(note.get(k), (int, float))}
    if "buckets" in small:
        small["max_distance"] = 8
    if isinstance(note.get("shape"), tuple):
        small["shape"] = GRIDS[len(note["shape"])]
    if isinstance(note.get("stretch"), int):
        small["stretch"] = None
    return type(scheme)(**note | small)


def _scale(by: float | None, before: int, now: int) -> float | None:
    """A factor sqrt(D) or 1 / sqrt(D) follows the width; any other stays."""
    for power in (0.5, -0.5):
        if by is not None and before and math.isclose(by, before**power, rel_tol=1e-6):
            return now**power
    return by


def _readable(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    if seed_word(name).endswith("gain"):
        return torch.ones(shape, dtype=torch.float64)
    if name.endswith("embedding.weight"):
        return spelled(VOCABULARY, shape[1], seed)
    return numbers(name, shape, 8, seed + 1)


# --- a small input ---------------------------------------------------------------------------------------------------
def _fits(model: Model) -> bool:
    size = sum(p.numel() for p in model.parameters())
    narrow = model.spec.width <= WIDEST and model.spec.layers <= 4
    return size <= OWN and narrow and not any(p.is_meta for p in model.parameters())


def _watched(model: Model, own: bool, note: str) -> ToyRun:
    words, names = _input(model.spec, WORDS)
    named = {"token": names, **_vocabulary(model.spec)}
    inputs: list[_NamedInput] = [_NamedInput(model, words)]
    if model.encoder is not None:
        source, named["source"] = _input(model.encoder.spec, SOURCE)
        inputs.append(_NamedInput(model.encoder, source))
    program = lowered(watch(NamedInputModel(model), *inputs), arrays=False)
    return ToyRun(model, program, own, named, note)


def _input(spec: Spec, words: list[str]) -> tuple[Tensor | Tokens, list[str]]:
    """Ids, cells of a small picture, or rows of numbers; and what to call them."""
    axes = _axes(spec)
    tables = [n for b in spec.blocks if isinstance(n := b.attention.position.settings.get("length"), int)]
    words = words[: min(tables)] if tables else words
    if spec.vocabulary:
        known = spec.vocabulary == len(VOCABULARY)
        step = max(spec.vocabulary // 7, 1)
        ids = [VOCABULARY.index(word) if known else i * step % spec.vocabulary for i, word in enumerate(words)]
        return torch.tensor(ids), words if known else [f"id {i}" for i in ids]
    wide = spec.input.features or spec.width
    axes = len(spec.input.patch) if spec.input.patch else axes
    if axes > 1 or spec.input.patch:
        grid = _grid(spec, axes)
        names = [f"cell {','.join(map(str, at))}" for at in _cells(grid)]
        if spec.input.stem and spec.input.patch:
            return spelled(names, spec.input.channels * math.prod(spec.input.patch)).reshape(_samples(spec.input, grid)), names
        cells = Tokens.on_grid(spelled(names, wide).reshape(*grid, wide), axes)
        return cells.by_index() if spec.input.positions == "index" else cells, names
    return Tokens.of(spelled(words, wide)), words


def _samples(input_layer: InputLayer, grid: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a sound, a picture, a video whose cells make this grid."""
    assert input_layer.patch is not None
    sizes = tuple(cells * size for cells, size in zip(grid, input_layer.patch, strict=True))
    return (*sizes[:-2], input_layer.channels, *sizes[-2:])


def _axes(spec: Spec) -> int:
    """Numbers in a coordinate: as many as samples have axes, or as the schemes read; Fourier features say it in a setting."""
    schemes = [b.attention.position for b in spec.blocks]
    return max([s.axes or s.settings.get("axes") or 1 for s in schemes])


def _grid(spec: Spec, axes: int) -> tuple[int, ...]:
    """A few cells, or all of a scheme's own grid where that is smaller."""
    shapes = [s for b in spec.blocks if isinstance(s := b.attention.position.settings.get("shape"), tuple) and len(s) == axes]
    return tuple(min(count, *(shape[a] for shape in shapes)) if shapes else count for a, count in enumerate(GRIDS[axes]))


def _cells(grid: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [tuple(int(i) for i in place) for place in torch.cartesian_prod(*(torch.arange(n) for n in grid)).reshape(-1, len(grid))]


def _vocabulary(spec: Spec) -> Mapping[str, list[str]]:
    if spec.vocabulary != len(VOCABULARY):
        return {}
    return {"vocabulary": VOCABULARY, **({"output": VOCABULARY} if spec.outputs == spec.vocabulary else {})}
