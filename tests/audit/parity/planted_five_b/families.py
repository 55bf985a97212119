"""The models and their ports."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from ..planted_third.start import trained
from . import detector, forecaster, parallel, recommender, reranker, unet


@dataclass(frozen=True)
class Family:
    """A model, its port and their inputs."""

    model: Callable[[], nn.Module]
    port: Callable[..., nn.Module]
    inputs: Callable[[], tuple]


def decoder(inputs=parallel.tokens, **options):
    return Family(partial(parallel.Decoder, parallel.Config(**options)), parallel.Ported, inputs)


FAMILIES = {
    "detector": Family(detector.Detector, detector.Ported, detector.images),
    "unet": Family(unet.UNet, unet.Ported, unet.noisy),
    "recommender": Family(recommender.SASRec, recommender.Ported, recommender.left_padded),
    "forecaster": Family(forecaster.used, forecaster.Ported, forecaster.series),
    "gptj": decoder(),
    "falcon": decoder(parallel.left_padded, heads=4, groups=2, rotates=(False, False), alibi=True, two_norms=True, packed=True),
    "cohere": decoder(
        heads=4, groups=2, rotates=(True, False), windows=(4, 0), biases=False, tied=True, logit_scale=0.25
    ),
    "reranker": Family(reranker.Reranker, reranker.Ported, reranker.sentences),
}  # fmt: skip


def pair(family, fault="", layer=-1, mode=""):
    """A, B and the inputs. mode: the side that is left in training mode, or bfloat16 for both."""
    torch.manual_seed(sum(map(ord, family)))
    f = FAMILIES[family]
    a = trained(f.model())
    b = f.port(a, fault, layer).eval()
    inputs = f.inputs()
    if mode == "bfloat16":
        a, b = a.bfloat16(), b.bfloat16()
    elif mode:
        (a if mode == "a" else b).train()
    return a, b, inputs
