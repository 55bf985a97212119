"""Baseline networks in textbook form, from torch's own layers.

No layer mixes sequences of a batch: norms are over channels, not over the batch.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.models.baselines import Baseline
from equiscope.record import Claim
from equiscope.record.description import Description, Part
from equiscope.symmetry import Shift, derive
from equiscope.tokens import Tokens

State = list[tuple[Tensor, Tensor]]  # of each layer: hidden and cell state, [1, B, D] each


class Network(nn.Module):
    """The interface that baselines share with `Model`: `spec`, `blocks`, `facts`, and `forward`."""

    encoder = None

    def __init__(self, spec: Baseline) -> None:
        super().__init__()
        self.spec = spec
        self.facts: dict[str, Any] = {}
        self.blocks = nn.ModuleList()
        self.drop = nn.Dropout(spec.dropout)
        self.output_layer = nn.Linear(spec.width, spec.outputs)
        nn.init.normal_(self.output_layer.weight, std=1 / math.sqrt(spec.width))
        nn.init.zeros_(self.output_layer.bias)


class Lstm(Network):
    """Ids [..., N] to logits of the next token after each, [..., N, outputs], through a recurrent state.

    Forget gates start at sigmoid(1), so that the state persists at first (Jozefowicz et al. 2015); torch adds two biases.
    """

    because: ClassVar[str] = "the state is of what was read before, in this order"
    preserves = frozenset({Shift})

    def __init__(self, spec: Baseline) -> None:
        super().__init__(spec)
        self.embedding = nn.Embedding(spec.vocabulary or 1, spec.width)
        for _ in range(spec.layers):
            layer = nn.LSTM(spec.width, spec.width, batch_first=True)
            for name, p in layer.named_parameters():
                if name.startswith("bias"):
                    nn.init.zeros_(p)
                if name == "bias_ih_l0":  # gates stand as input, forget, cell, output
                    nn.init.ones_(p.data[spec.width : 2 * spec.width])
            self.blocks.append(layer)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.forward_state(inputs)[0]

    def forward_state(self, ids: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits of the next token after each id, and the state after the last; continues from a given state.

        raises  InputError for inputs that are not ids
        """
        if ids.is_floating_point():
            raise InputError(f"This model has a vocabulary and takes ids (integers), but got {ids.dtype}.")
        x: Tensor = self.embedding(ids.reshape(-1, ids.shape[-1]))
        after: State = []
        for i, layer in enumerate(self.blocks):
            x, kept = layer(x, None if state is None else state[i])
            x = self.drop(x)
            after.append(kept)
        answers: Tensor = self.output_layer(x)
        return answers.reshape(*ids.shape, -1), after


class Mlp(Network):
    """An image [..., C, H, W], or the tokens of a sound, flattened; outputs [..., outputs].

    A longer sound is cut to `shape`, and a shorter one is padded with zeros.
    """

    def __init__(self, spec: Baseline) -> None:
        super().__init__(spec)
        assert spec.shape is not None
        for layer in range(spec.layers):
            self.blocks.append(_linear(spec.width if layer else math.prod(spec.shape), spec.width))

    def forward(self, inputs: Tokens | Tensor) -> Tensor:
        assert self.spec.shape is not None
        x = _whole(inputs, self.spec.shape) if isinstance(inputs, Tokens) else inputs
        if x.shape[-len(self.spec.shape) :] != self.spec.shape:
            raise ShapeError(f"This model takes {self.spec.shape} numbers at once, but got the shape {tuple(x.shape)}.")
        x = x.flatten(-len(self.spec.shape))
        for layer in self.blocks:
            x = self.drop(layer(x).relu())
        answers: Tensor = self.output_layer(x)
        return answers


class ConvNet(Network):
    """Images [..., C, H, W] of any size to outputs [..., outputs]."""

    def __init__(self, spec: Baseline) -> None:
        super().__init__(spec)
        assert spec.shape is not None
        for layer in range(spec.layers):
            self.blocks.append(Convolved(spec.width if layer else spec.shape[0], spec.width, 2 if layer % spec.halve == 0 else 1))

    def forward(self, inputs: Tensor) -> Tensor:
        channels = (self.spec.shape or (1,))[0]
        if inputs.ndim < 3 or inputs.shape[-3] != channels:
            raise ShapeError(f"This model takes pictures [..., {channels}, H, W], but got the shape {tuple(inputs.shape)}.")
        x = inputs.reshape(-1, *inputs.shape[-3:])
        for layer in self.blocks:
            x = self.drop(layer(x))
        answers: Tensor = self.output_layer(x.mean((-2, -1)))
        return answers.reshape(*inputs.shape[:-3], -1)


class Convolved(nn.Module):
    """A 3×3 convolution with zero padding, a norm over channels, ReLU. Equivariant to translations away from the edge."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.kernel = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        nn.init.normal_(self.kernel.weight, std=math.sqrt(2 / (9 * before)))
        self.norm = nn.LayerNorm(after)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.kernel(x).movedim(-3, -1)).movedim(-1, -3)
        return y.relu()


NETWORKS: dict[str, type[Network]] = {"lstm": Lstm, "mlp": Mlp, "convnet": ConvNet}


def _whole(tokens: Tokens, shape: tuple[int, ...]) -> Tensor:
    """Tokens [..., N, F] cut or padded with zeros to the length of `shape`; padding is set to zero."""
    x = tokens.x if tokens.valid is None else tokens.x * tokens.valid[..., None]
    return nn.functional.pad(x, (0, 0, 0, shape[0] - x.shape[-2]))


def _linear(before: int, after: int) -> nn.Linear:
    layer = nn.Linear(before, after)
    nn.init.normal_(layer.weight, std=math.sqrt(2 / before))
    nn.init.zeros_(layer.bias)
    return layer


# --- cost, without building -----------------------------------------------------------------------------------------------
def described(spec: Baseline, tokens: int | None = None, source: int = 128) -> Description:
    """Parameters and multiply-adds. tokens: length of a text; other baselines use `shape`."""
    tokens = (128 if tokens is None else tokens) if spec.baseline == "lstm" else 1
    if tokens < 1:
        raise InputError(f"A description is of one token or more, but got tokens={tokens}.")
    claims: tuple[Claim, ...] = ()  # about tokens: what is taken whole has none
    if spec.baseline == "lstm":
        with torch.device("meta"):
            claims = tuple(derive(NETWORKS[spec.baseline](spec)))
    return Description(tokens, None, tuple(_parts(spec, tokens)), claims, pairs=False)


def _parts(spec: Baseline, tokens: int) -> Iterator[Part]:
    d, out = spec.width, spec.outputs
    if spec.baseline == "lstm":
        assert spec.vocabulary is not None
        yield Part("embedding", f"table of {spec.vocabulary}", (tokens, d), spec.vocabulary * d, 0)
        yield Part("blocks", "LSTM, four gates", (tokens, d), 8 * d * d + 8 * d, tokens * 8 * d * d, spec.layers)
        yield Part("output_layer", "a map of its own", (tokens, out), d * out + out, tokens * d * out)
        return
    assert spec.shape is not None
    for layer in range(spec.layers):
        before = d if layer else spec.shape[0] if spec.baseline == "convnet" else math.prod(spec.shape)
        if spec.baseline == "mlp":
            yield Part(f"blocks.{layer}", "relu", (d,), before * d + d, before * d)
        else:
            rows, columns = spec.sizes[layer]
            what = "3×3" + (", every second place" if layer % spec.halve == 0 else "")
            yield Part(f"blocks.{layer}", what, (d, rows, columns), 9 * before * d + 2 * d, rows * columns * 9 * before * d)
    yield Part("output_layer", "a map of its own", (out,), d * out + out, d * out)
