"""Presets: specs of well-known models, by name. Each is a function, so that a size can be changed: `gpt2(layers=2)`.

Weights are random; `eq.load` reads trained ones. Sources stand beside each.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from equiscope.models.spec import Attention, Block, FeedForward, InputLayer, Norm, OutputLayer, Spec
from equiscope.positions import AxialRope, Fourier, Learned, LearnedNd, Rope, Sinusoidal
from equiscope.positions.scaling import Llama3


def gpt2(width: int = 768, layers: int = 12, heads: int = 12, vocabulary: int = 50257, length: int = 1024, bias: bool = True,
         activation: Any = "gelu-tanh") -> Spec:  # fmt: skip
    """Radford et al. 2019; with `bias=False` and activation "gelu" nanoGPT's."""
    attention = Attention(heads=heads, position=Learned(length), causal=True, bias=bias)
    block = Block(attention, Norm(bias=bias), FeedForward(None, activation, bias))
    return Spec(width, vocabulary, layers=layers, block=block, outputs=vocabulary, tied=True)


def llama(width: int = 2048, layers: int = 16, heads: int = 32, kv_heads: int = 8, inner: int = 8192, vocabulary: int = 128256,
          tied: bool = True, factor: float = 32.0) -> Spec:  # fmt: skip
    """Llama 3.2 1B; Llama 3.1 8B with its sizes and factor 8: grouped queries, RoPE with their scaling, RMSNorm, SwiGLU."""
    position = Rope(base=5e5, pairs="half", scaling=Llama3(factor, 1.0, 4.0, 8192))
    attention = Attention(heads=heads, kv_heads=kv_heads, position=position, causal=True)
    block = Block(attention, Norm("rms"), FeedForward(inner, "silu", bias=False, gated=True))
    return Spec(width, vocabulary, layers=layers, block=block, outputs=vocabulary, tied=tied)


def bert(width: int = 768, layers: int = 12, heads: int = 12, vocabulary: int = 30522, length: int = 512) -> Spec:
    """Devlin et al. 2019, with the output layer for masked tokens."""
    block = Block(Attention(heads=heads, position=Learned(length), bias=True), Norm(order="post", eps=1e-12), FeedForward())
    output = OutputLayer(bias=True, hidden="gelu", norm=True)
    return Spec(width, vocabulary, InputLayer(types=2, norm=True), layers, block, outputs=vocabulary, tied=True, output=output)


def transformer(width: int = 512, layers: int = 6, heads: int = 8, vocabulary: int = 37000) -> Spec:
    """Vaswani et al. 2017: encoder and decoder, sinusoids, post-norm, one table for both and the output layer."""
    input_layer = InputLayer(scale=width**0.5)

    def block(decoder: bool) -> Block:
        own = Attention(heads=heads, position=Sinusoidal(), causal=decoder)
        return Block(own, Norm(order="post"), FeedForward(activation="relu"), cross=Attention(heads=heads) if decoder else None)

    encoder = Spec(width, vocabulary, input_layer, layers, block(False))
    return Spec(
        width, vocabulary, input_layer, layers, block(True), outputs=vocabulary, tied=True, encoder=encoder, shared=True,
    )  # fmt: skip


def vit(width: int = 768, layers: int = 12, heads: int = 12, patch: int = 16, image: int = 224, classes: int = 1000) -> Spec:
    """Dosovitskiy et al. 2021; Ti and S as in Touvron et al. 2021."""
    grid = (image // patch, image // patch)
    attention = Attention(heads=heads, position=LearnedNd(grid), bias=True)
    input_layer = InputLayer(features=3 * patch * patch, patch=(patch, patch))
    block = Block(attention, Norm(eps=1e-6))
    return Spec(width, None, input_layer, layers, block, readout="class", outputs=classes, output=OutputLayer(bias=True))


def sound(width: int = 192, layers: int = 4, heads: int = 4, frame: int = 400, classes: int = 10) -> Spec:
    """Raw frames of a sound, of `frame` samples, as tokens; positions in frames."""
    attention = Attention(heads=heads, position=Sinusoidal(), bias=True)
    input_layer = InputLayer(features=frame, patch=(frame,))
    return Spec(width, None, input_layer, layers, Block(attention), readout="mean", outputs=classes, output=OutputLayer(bias=True))


def video(
    width: int = 192, layers: int = 4, heads: int = 4, tubelet: tuple[int, int, int] = (2, 16, 16), classes: int = 10
) -> Spec:
    """Tubelets (Arnab et al. 2021) with RoPE along time, row and column."""
    attention = Attention(heads=heads, position=AxialRope(axes=3), bias=True)
    input_layer = InputLayer(features=3 * tubelet[0] * tubelet[1] * tubelet[2], patch=tubelet)
    return Spec(width, None, input_layer, layers, Block(attention), readout="mean", outputs=classes, output=OutputLayer(bias=True))


def points(width: int = 64, layers: int = 3, heads: int = 4, features: int = 8, outputs: int = 1) -> Spec:
    """A set of points in space, each with some features and a position [3]: a plain transformer, not invariant to rotations."""
    attention = Attention(heads=heads, position=Fourier(axes=3), bias=True)
    return Spec(width, None, InputLayer(features=features), layers, Block(attention), readout="mean", outputs=outputs)


PRESETS: dict[str, Callable[..., Spec]] = {
    "gpt2": gpt2,
    "gpt2-medium": partial(gpt2, width=1024, layers=24, heads=16),
    "gpt2-large": partial(gpt2, width=1280, layers=36, heads=20),
    "gpt2-xl": partial(gpt2, width=1600, layers=48, heads=25),
    "nanogpt-char": partial(gpt2, width=384, layers=6, heads=6, vocabulary=65, length=256, bias=False, activation="gelu"),
    "nanogpt-char-cpu": partial(gpt2, width=128, layers=4, heads=4, vocabulary=65, length=64, bias=False, activation="gelu"),
    "llama-1b": llama,
    "llama-8b": partial(llama, width=4096, layers=32, inner=14336, tied=False, factor=8.0),
    "bert-base": bert,
    "bert-large": partial(bert, width=1024, layers=24, heads=16),
    "transformer-base": transformer,
    "transformer-big": partial(transformer, width=1024, heads=16),
    "vit-ti": partial(vit, width=192, heads=3),
    "vit-s": partial(vit, width=384, heads=6),
    "vit-b": vit,
    "sound": sound,
    "video": video,
    "points": points,
}


def tiny(spec: Spec, width: int = 24, vocabulary: int = 40, layers: int = 2) -> Spec:
    """The same priors at a small size, for tests and pages. Heads and patches are reduced, schemes are kept."""
    first = spec.blocks[0].attention
    heads = next(h for h in (4, 3, 2, 1) if first.heads % h == 0)

    def small(a: Attention) -> Attention:
        shared = None if a.kv_heads in (None, a.heads) else heads // 2 if heads > 1 else None
        head_width = None if a.head_width is None else width // heads
        value_width = None if a.value_width is None else width // heads
        scale = None if a.scale is None else a.scale if a.scale == 1 else (width // heads) ** -0.5
        window = None if a.window is None else min(a.window, 4)
        return replace(a, heads=heads, kv_heads=shared, head_width=head_width, value_width=value_width, window=window,
                       mask=a.mask.small(4), scale=scale, position=_small(a.position))  # fmt: skip

    blocks = tuple(
        replace(
            b, attention=small(b.attention), cross=small(b.cross) if b.cross else None,
            feedforward=replace(b.feedforward, inner=2 * width) if b.feedforward else None,
        )
        for b in spec.cycle
    )  # fmt: skip
    input_layer, words = spec.input, vocabulary if spec.vocabulary else None
    if input_layer.patch is not None and input_layer.features is not None:
        channels, patch = input_layer.channels, tuple(min(size, 2) for size in input_layer.patch)
        stem = (channels, 4) if input_layer.stem else None
        input_layer = replace(input_layer, patch=patch, stem=stem, features=4 if stem else channels * math.prod(patch))
    elif not input_layer.map:
        input_layer = replace(input_layer, features=min(input_layer.features or 1, width))
    scale = input_layer.scale if input_layer.scale is None else width**0.5
    outputs = None if spec.outputs is None else vocabulary if spec.outputs == spec.vocabulary else min(spec.outputs, 4)
    output = spec.output if spec.output.scale is None else replace(spec.output, scale=width**-0.5)
    turns, input_layer = len(blocks), replace(input_layer, scale=scale, separator=None)
    return replace(
        spec, width=width, vocabulary=words, input=input_layer, layers=max(turns, layers // turns * turns),
        block=blocks, outputs=outputs, output=output,
        encoder=tiny(spec.encoder, width, vocabulary, layers) if spec.encoder else None,
    )  # fmt: skip


def _small(position: Any) -> Any:
    """A learned grid with few cells; other schemes unchanged."""
    if isinstance(position, LearnedNd):
        return LearnedNd(tuple(min(size, 4) for size in position.shape), position.between)
    return position
