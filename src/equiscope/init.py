"""Initialisation of linear maps: weights of variance 1 / inputs and zero biases; torch's default for small networks."""

import math

import torch
from torch import Tensor, nn


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """`nn.Linear` with weights from N(0, 1 / inputs), which preserve the norm of rows. Source: LeCun et al. 1998, section 4.6."""
    weight = torch.randn(inputs, outputs).div_(math.sqrt(inputs)).mT.contiguous()
    return _layer(weight, torch.zeros(outputs) if bias else None)


def uniform(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """`nn.Linear` with weights and biases from U(-1 / sqrt(inputs), 1 / sqrt(inputs)), torch's default, drawn as [in, out]."""
    bound = inputs**-0.5
    weight = (bound * (2 * torch.rand(inputs, outputs) - 1)).mT.contiguous()
    return _layer(weight, bound * (2 * torch.rand(outputs) - 1) if bias else None)


def _layer(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """`nn.Linear` of these numbers, without its own initialisation, which would consume random numbers and takes longer."""
    layer = nn.Linear.__new__(nn.Linear)
    nn.Module.__init__(layer)
    layer.out_features, layer.in_features = weight.shape
    layer.weight = nn.Parameter(weight)
    layer.register_parameter("bias", None if bias is None else nn.Parameter(bias))
    return layer
