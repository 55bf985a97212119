"""Initialisation of linear maps: weights of variance 1 / inputs and zero biases; torch's default for small networks."""

import math

import torch
from torch import nn


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """`nn.Linear` with weights from N(0, 1 / inputs), which preserve the norm of rows. Source: LeCun et al. 1998, section 4.6."""
    layer = nn.Linear(inputs, outputs, bias, device="meta")  # on meta, because its own initialisation would consume random numbers
    layer.weight = nn.Parameter((torch.randn(inputs, outputs) / math.sqrt(inputs)).mT.contiguous())
    if bias:
        layer.bias = nn.Parameter(torch.zeros(outputs))
    return layer


def uniform(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """`nn.Linear` with weights and biases from U(-1 / sqrt(inputs), 1 / sqrt(inputs)), torch's default, drawn as [in, out]."""
    layer, bound = nn.Linear(inputs, outputs, bias, device="meta"), inputs**-0.5
    layer.weight = nn.Parameter((bound * (2 * torch.rand(inputs, outputs) - 1)).mT.contiguous())
    if bias:
        layer.bias = nn.Parameter(bound * (2 * torch.rand(outputs) - 1))
    return layer
