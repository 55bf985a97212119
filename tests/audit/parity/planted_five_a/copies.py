"""Modules with copies of given tensors, as a port makes them."""

from torch import nn


def kept(tensor):
    """A parameter with the numbers of a tensor."""
    return nn.Parameter(tensor.detach().clone())


def linear(weight, bias=None):
    """nn.Linear with this weight [out, in] and bias."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight = kept(weight)
    if bias is not None:
        layer.bias = kept(bias)
    return layer


def layer_norm(norm, eps=None):
    """nn.LayerNorm with the numbers of another one."""
    layer = nn.LayerNorm(norm.weight.shape[0], eps=norm.eps if eps is None else eps)
    layer.weight, layer.bias = kept(norm.weight), kept(norm.bias)
    return layer
