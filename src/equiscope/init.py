"""Linear maps as models are made with: weights of variance 1 / inputs, biases of 0; those of small networks as torch has them."""

import math

import torch
from torch import nn


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """`nn.Linear` with weights from N(0, 1 / inputs), so that rows keep their size. Source: LeCun et al. 1998, section 4.6."""
    layer = nn.Linear(inputs, outputs, bias, device="meta")  # its own draw would change every number drawn after it
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
