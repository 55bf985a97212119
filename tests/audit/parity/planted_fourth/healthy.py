"""Pairs that compute the same up to rounding: a model and its port, also with changes that do no harm."""

from functools import partial

import torch
from torch import nn

from .families import FAMILIES, pair
from .forms import in_form


class OneByOne(nn.Module):
    """A model that gets the rows of its batch one after the other."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return torch.cat([self.model(*(x[i : i + 1] for x in inputs)) for i in range(len(inputs[0]))])


class RealOnly(nn.Module):
    """The logits of the tokens that are no padding; the others are zero. turned: the padding is moved to the end and back."""

    def __init__(self, model, turned):
        super().__init__()
        self.model, self.turned = model, turned

    def forward(self, ids, mask):
        t = ids.shape[1]
        if not self.turned:
            return self.model(ids, mask) * mask[..., None]
        there = (torch.arange(t)[None] + (t - mask.sum(1, keepdim=True))) % t
        back = (torch.arange(t)[None] + mask.sum(1, keepdim=True)) % t
        x = self.model(ids.gather(1, there), mask.gather(1, there))
        return x.gather(1, back[..., None].expand_as(x)) * mask[..., None]


class WithMore(nn.Module):
    """A model with a parameter and a module that nothing reads."""

    def __init__(self, model):
        super().__init__()
        self.unused, self.more, self.inner = nn.Parameter(torch.randn(3, 5)), nn.Linear(4, 4), model

    def forward(self, *inputs):
        return self.inner(*inputs)


def harmless(family, fault="", form="torch", change=None, swap=False):
    """A pair that computes the same; change gets A and B and returns both."""
    a, b, inputs = pair(family, fault)
    a, b = change(a, b) if change else (a, b)
    b = in_form(b, inputs, form)
    return (b, a, inputs, {}) if swap else (a, b, inputs, {})


def copied_head(a, b):
    a.lm_head.weight = nn.Parameter(a.embed_tokens.weight.detach().clone())
    return a, b


def table_in_float32(a, b):
    a.rotary_emb.inv_freq = a.rotary_emb.inv_freq.float()
    return a, b


def more_dropout(a, b):
    """Each second block of B ends in a Dropout; in evaluation mode it does nothing."""
    b.blocks = nn.Sequential(*(m for block in b.blocks for m in (block, nn.Dropout(0.5)))).eval()
    return a, b


def statistics_in_float64(a, b):
    b.mean, b.variance = (nn.Buffer(x.double()) for x in (b.mean, b.variance))
    return a, b


HEALTHY = {
    f"healthy-{name.replace(' ', '_')}": partial(harmless, name) for name in FAMILIES if name not in ("bert whole", "llama")
} | {
    "healthy-llama-swapped": partial(harmless, "llama", swap=True),
    "healthy-llama-copied_head": partial(harmless, "llama", change=copied_head),
    "healthy-llama-table_in_float32": partial(harmless, "llama", change=table_in_float32),
    "healthy-llama-padding_moved": partial(
        harmless, "llama padded", change=lambda a, b: (RealOnly(a, turned=False), RealOnly(b, turned=True))
    ),
    "healthy-gpt2-more_dropout": partial(harmless, "gpt2", change=more_dropout),
    "healthy-vit-more_parameters": partial(harmless, "vit", change=lambda a, b: (WithMore(a), b)),
    "healthy-mamba-one_by_one": partial(harmless, "mamba", change=lambda a, b: (a, OneByOne(b))),
    "healthy-whisper-bias_of_keys": partial(harmless, "whisper", "keys with the bias of the values"),
    "healthy-tabular-no_bias_of_keys": partial(harmless, "tabular", "no bias of keys", swap=True),
    "healthy-tabular-statistics_in_float64": partial(harmless, "tabular", change=statistics_in_float64),
    "healthy-points-no_radial_bias": partial(harmless, "points", "no radial bias term"),
    "healthy-retrieval-mean_by_length": partial(harmless, "retrieval", "divided by the length with padding"),
    "healthy-vit-onnx": partial(harmless, "vit", form="onnx"),
    "healthy-tabular-onnx": partial(harmless, "tabular", form="onnx", swap=True),
    "healthy-dit-onnx": partial(harmless, "dit", form="onnx"),
    "healthy-gemma-npz": partial(harmless, "gemma", form="npz"),
    "healthy-t5-npz": partial(harmless, "t5", form="npz", swap=True),
    "healthy-moe-safetensors": partial(harmless, "moe", form="safetensors"),
    "healthy-clip-safetensors": partial(harmless, "clip", form="safetensors"),
}
