"""What the ports share: a fault in all layers or in one, and parameters that are copied."""

from torch import nn


class Port(nn.Module):
    """fault: what is planted, empty for none; layer: where, -1 for every layer."""

    def __init__(self, fault="", layer=-1):
        super().__init__()
        self.fault, self.layer = fault, layer

    def has(self, fault, layer=-1):
        return self.fault == fault and self.layer in (-1, layer)


def copied(p):
    """A parameter of its own with these numbers."""
    return nn.Parameter(p.detach().clone().contiguous())
