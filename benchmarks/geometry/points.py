"""Points with a given density and a minimum distance."""

import torch

CUTOFF, NEAR = 5.0, 16  # angstrom; neighbours of a point, on average
ELEMENTS = (1, 6, 7, 8)


def places(count, near=NEAR):
    """[1, N, 3] of a perturbed lattice, where each point has `near` others within the cutoff on average, or all, if fewer."""
    x = lattice(count)
    apart = (x[:, None] - x).norm(dim=-1)[~torch.eye(count, dtype=torch.bool)].sort().values
    last = min(count * near, len(apart)) - 1
    reach = (apart[last] + apart[min(last + 1, len(apart) - 1)]) / 2 + 1e-3 * (last + 1 == len(apart))
    return (x * CUTOFF / reach)[None]


def spread(count, near=NEAR):
    """The same for many points, in float64, where only those at the surface have fewer neighbours."""
    side = (4 / 3 * torch.pi * CUTOFF**3 / near) ** (1 / 3)
    return lattice(count).double()[None] * side


def lattice(count):
    """[N, 3]: the points of a cubic lattice nearest its centre, each displaced at random."""
    generator = torch.Generator().manual_seed(0)
    side = int((6 * count / torch.pi) ** (1 / 3)) + 2
    x = torch.cartesian_prod(*[torch.arange(float(side))] * 3) - side / 2
    x = x[x.norm(dim=-1).argsort(stable=True)[:count]]
    return x + 0.4 * (torch.rand(x.shape, generator=generator) - 0.5)


def atoms(count):
    """Atomic numbers [1, N]."""
    kinds = torch.randint(len(ELEMENTS), (1, count), generator=torch.Generator().manual_seed(1))
    return torch.tensor(ELEMENTS)[kinds]


def features(count, channels):
    """[1, N, C]."""
    return torch.randn(1, count, channels, generator=torch.Generator().manual_seed(2))
