"""Queries, keys and values with gradients, and what must be the same whichever way computes them."""

import torch

N = 300  # more than two blocks, and a rest


def made(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def rows(heads=3, n=N, batch=2, width=4):
    return [made(batch, n, heads, width, seed=s).transpose(1, 2) for s in range(3)]


def gradients(outputs, inputs):
    return torch.autograd.grad(
        sum((out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum() for out in outputs), inputs, retain_graph=True
    )


def same(ours, theirs, tolerance=1e-12):  # float64: rounding, measured 2e-15
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() <= tolerance * b.norm()
