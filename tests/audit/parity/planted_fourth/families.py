"""The models and their ports."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from ..planted_third.start import trained
from . import bert, clip, decoders, dit, gpt, mamba, moe, points, retrieval, t5, tabular, vit, whisper


@dataclass(frozen=True)
class Family:
    """A model, its port and their inputs."""

    model: Callable[[], nn.Module]
    port: Callable[..., nn.Module]
    inputs: Callable[[], tuple]


def decoder(inputs=lambda: (decoders.tokens(),), **options):
    return Family(partial(decoders.Decoder, decoders.Config(**options)), decoders.Port, inputs)


def experts(**options):
    return Family(partial(moe.Moe, moe.Config(**options)), moe.Port, moe.tokens)


def whole_sentences():
    """Ids and segments of bert.padded with a mask of ones."""
    ids, _, segments = bert.padded()
    return ids, torch.ones_like(ids), segments


def scaled_table():
    """The tabular model with running statistics that are not 0 and 1."""
    model = tabular.FTTransformer()
    model.scaler.running_mean.normal_(1, 0.5)
    model.scaler.running_var.uniform_(0.5, 4)
    return model


FAMILIES = {
    "llama": decoder(),
    "llama padded": decoder(decoders.left_padded),
    "llama scaled": decoder(llama3=True),
    "llama partial": decoder(rotary=8),
    "mistral": decoder(window=4),
    "qwen3": decoder(qk_norm=True),
    "gemma": decoder(gemma=True, cap=2.0, final_cap=3.0, window=4),
    "sinks": decoder(sinks=True, window=4),
    "gpt2": Family(gpt.GPT2, gpt.Port, gpt.tokens),
    "nanochat": Family(partial(gpt.GPT2, cap=1.5), gpt.Port, gpt.tokens),
    "bert": Family(bert.Bert, bert.Port, bert.padded),
    "bert whole": Family(bert.Bert, bert.Port, whole_sentences),
    "t5": Family(t5.T5, t5.Port, t5.inputs),
    "vit": Family(vit.VisionTransformer, vit.Port, vit.images),
    "clip": Family(clip.CLIP, clip.Port, clip.inputs),
    "whisper": Family(whisper.Whisper, whisper.Port, whisper.inputs),
    "moe": experts(),
    "mixtral": experts(window=3),
    "grok": experts(cap=1.0),
    "gpt-oss": experts(sinks=True),
    "glm": experts(rotary=4),
    "mamba": Family(mamba.Mamba, mamba.Port, mamba.tokens),
    "dit": Family(dit.DiT, dit.Port, dit.inputs),
    "retrieval": Family(retrieval.Retriever, retrieval.Port, retrieval.padded),
    "points": Family(points.PointTransformer, points.Port, points.inputs),
    "tabular": Family(scaled_table, tabular.Port, tabular.inputs),
}


def pair(family, fault="", layer=-1, mode=""):
    """A, B and the inputs. mode: the side that is left in training mode, or bfloat16 for both."""
    torch.manual_seed(sum(map(ord, family)))
    f = FAMILIES[family]
    a = trained(f.model())
    if family == "gemma":  # so that 1 + weight is exact
        for p in a.parameters():
            p.data.mul_(4096).round_().div_(4096)
    b = f.port(a, fault, layer).eval()
    inputs = f.inputs()
    inputs = inputs[0] if isinstance(inputs[0], tuple) else inputs
    if mode == "bfloat16":
        a, b = a.bfloat16(), b.bfloat16()
    elif mode:
        (a if mode == "a" else b).train()
    return a, b, inputs
