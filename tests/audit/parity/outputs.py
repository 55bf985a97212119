"""How far two models of a planted pair are apart, by torch alone."""

import torch


def difference(a, b, inputs):
    """The largest difference of any output in float64, relative to the largest number of that output."""
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]
    torch.manual_seed(0)
    with torch.no_grad():
        x, y = a.double()(*inputs), b.double()(*inputs)
    x, y = (z if isinstance(z, tuple) else (z,) for z in (x, y))
    return max(((p - q).abs().max() / p.abs().max()).item() for p, q in zip(x, y, strict=True))
