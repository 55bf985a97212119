"""Modules of torch.nn with inputs, for docs/gallery.py: equiscope check docs/why/torch_modules.py:encoder"""

import torch
from torch import nn


def encoder():
    """Two layers of nn.TransformerEncoder."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), torch.randn(2, 7, 16)


class Causal(nn.Module):
    """nn.TransformerEncoder with the mask that torch makes for a decoder."""

    def __init__(self):
        super().__init__()
        self.encoder = encoder()[0]

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        return self.encoder(x, mask=mask, is_causal=True)


def causal_encoder():
    return Causal().eval(), torch.randn(2, 7, 16)


def lstm():
    """Two layers of nn.LSTM; the outputs, without the state."""
    return First(nn.LSTM(16, 16, 2, batch_first=True)), torch.randn(2, 7, 16)


class First(nn.Module):
    """The first output of a module."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]
