"""Parameters as these ports store them."""

import torch

from ..planted_five_a.copies import kept


def affine(*layers):
    """The matrices of the layers side by side as [in, out], and their biases; zeros where there is none."""
    biases = [x.weight.new_zeros(len(x.weight)) if x.bias is None else x.bias for x in layers]
    return kept(torch.cat([x.weight for x in layers]).T), kept(torch.cat(biases))


def gain(norm):
    """The weight and the bias of a norm."""
    return kept(norm.weight), kept(norm.bias)
