"""The models and their ports."""

import torch

from ..planted_third.start import trained
from . import bart, conformer, deepseek, gemma3, retnet, swin

FAMILIES = {
    "conformer": (conformer.Conformer, conformer.Port, conformer.inputs),
    "bart": (bart.Bart, bart.Port, bart.inputs),
    "gemma3": (gemma3.Gemma3, gemma3.Port, gemma3.inputs),
    "deepseek": (deepseek.DeepseekV3, deepseek.Port, deepseek.inputs),
    "retnet": (retnet.RetNet, retnet.Port, retnet.inputs),
    "swin": (swin.SwinTransformer, swin.Port, swin.inputs),
}


def pair(family, fault="", layer=-1, mode=""):
    """A, B and the inputs. mode: the side that is left in training mode."""
    model, port, inputs = FAMILIES[family]
    torch.manual_seed(sum(map(ord, family)))
    a = trained(model())
    if family == "conformer":
        for layer_a in a.layers:
            layer_a.conv.batch_norm.running_mean.normal_(0, 0.5)
            layer_a.conv.batch_norm.running_var.uniform_(0.3, 2)
        a.decoder.bias.data.mul_(1024).round_().div_(1024)  # so that bias + 2 is exact in float32
    if family == "gemma3":  # so that 1 + weight is exact in float32
        for p in a.parameters():
            p.data.mul_(4096).round_().div_(4096)
    b = port(a, fault, layer).eval()
    x = inputs()
    if mode:
        (a if mode == "a" else b).train()
    return a, b, x
