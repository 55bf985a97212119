"""The SE(3)-Transformer of Fuchs et al. 2020, a reference implementation: exact, not fast.

A feature of degree l has 2l + 1 components and transforms by D(R). Keys and values come from tensor-field kernels: for each pair of
degrees and each J between |l - k| and l + k, spherical harmonics of the relative position, times a learned function of distance,
times Clebsch-Gordan coefficients (equations 8 and 10 of the paper). Weights are softmax over the neighbours of q·k summed over all
degrees, so they are invariant. `SpaceAttention` does with degrees 0 and 1 what this does with all.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.geometry.harmonics import clebsch_gordan, harmonics
from equiscope.geometry.maps import IN_SPACE
from equiscope.geometry.radial import TINY

Fibers = dict[int, Tensor]  # by degree l: [B, N, C, 2l + 1]
HIGHEST = 3  # degree of features; kernels then need harmonics up to twice that


class Kernel(nn.Module):
    """The tensor-field kernel: C channels of each degree to C channels of each, for each pair of points.

    The radial functions are of the distance: two layers with a norm between, as in the paper.
    """

    preserves = IN_SPACE

    def __init__(self, degrees: int, channels: int, hidden: int = 16) -> None:
        super().__init__()
        self.channels = channels
        self.pairs = list(itertools.product(range(degrees + 1), repeat=2))  # from one degree to another
        self.radial = nn.ModuleDict()
        for k, n in self.pairs:
            orders = n + k - abs(n - k) + 1
            self.radial[f"{k}{n}"] = nn.Sequential(
                nn.Linear(1, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, orders * channels * channels)
            )

    def forward(self, x: Fibers, displacement: Tensor) -> Fibers:
        """x and displacements [B, N, M, 3] from i to j: messages [B, N, M, C, 2l + 1] from j to i."""
        distance = (displacement.square().sum(-1, keepdim=True) + TINY).sqrt()
        unit = displacement / distance
        messages: Fibers = {}
        for k, n in self.pairs:
            by_distance = self.radial[f"{k}{n}"](distance).unflatten(-1, (-1, self.channels, self.channels))
            for order, j in enumerate(range(abs(n - k), n + k + 1)):
                mixed = torch.einsum("...j,jlk->...lk", harmonics(j, unit), _basis(j, n, k).to(unit))
                part = torch.einsum("bnmoc,bnmlk,bmck->bnmol", by_distance[..., order, :, :], mixed, x[k])
                messages[n] = messages[n] + part if n in messages else part
        return messages


class FuchsAttention(nn.Module):
    """Attention over all other points within the cutoff: queries from the point itself, keys and values from kernels."""

    preserves = IN_SPACE

    def __init__(self, degrees: int, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.ParameterList(torch.randn(channels, channels) * channels**-0.5 for _ in range(degrees + 1))
        self.own = nn.ParameterList(torch.randn(channels, channels) * channels**-0.5 for _ in range(degrees + 1))
        self.key, self.value = Kernel(degrees, channels), Kernel(degrees, channels)

    def forward(self, x: Fibers, displacement: Tensor, mask: Tensor) -> Fibers:
        """mask [B, N, M]: True = may attend. A point without neighbours gets no messages."""
        keys, values = self.key(x, displacement), self.value(x, displacement)
        scores = displacement.new_zeros(*displacement.shape[:3], self.heads)
        for degree, part in x.items():
            queries = torch.einsum("bnci,co->bnoi", part, self.query[degree]).unflatten(2, (self.heads, -1))
            scores = scores + torch.einsum("bnhci,bnmhci->bnmh", queries, keys[degree].unflatten(3, (self.heads, -1)))
        size = sum(part.shape[2] // self.heads * part.shape[3] for part in x.values())
        scores = (scores * size**-0.5).masked_fill(~mask.unsqueeze(-1), -1e30)
        weights = scores.softmax(2) * mask.unsqueeze(-1)
        out: Fibers = {}
        for degree, part in x.items():
            messages = torch.einsum("bnmh,bnmhci->bnhci", weights, values[degree].unflatten(3, (self.heads, -1))).flatten(2, 3)
            out[degree] = messages + torch.einsum("bnci,co->bnoi", part, self.own[degree])
        return out


class NormNonlinearity(nn.Module):
    """The paper's nonlinearity: the direction of a feature is kept, and its length passes a norm and a ReLU."""

    preserves = IN_SPACE

    def __init__(self, degrees: int, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(degrees + 1))

    def forward(self, x: Fibers) -> Fibers:
        out: Fibers = {}
        for degree, part in x.items():
            size = (part.square().sum(-1) + 1e-4).sqrt()
            out[degree] = part / size.unsqueeze(-1) * F.relu(self.norms[degree](size)).unsqueeze(-1)
        return out


class SE3Transformer(nn.Module):
    """Numbers x [B, N, C] at points at [B, N, 3] to features of every degree, {l: [B, N, C, 2l + 1]}.

    degrees  the highest, 0 to 3; cutoff: no attention beyond it (not smooth: the paper has no envelope); None: all pairs attend
    raises   ShapeError where heads do not divide channels
    """

    def __init__(self, channels: int, degrees: int = 3, heads: int = 1, layers: int = 2, cutoff: float | None = None) -> None:
        super().__init__()
        if heads < 1 or channels % heads:
            raise ShapeError(f"{heads} heads do not divide {channels} channels.")
        if not 0 <= degrees <= HIGHEST:
            raise InputError(f"Degrees go to {HIGHEST} here, but got {degrees}.")
        self.degrees, self.cutoff = degrees, cutoff
        self.attentions = nn.ModuleList(FuchsAttention(degrees, channels, heads) for _ in range(layers))
        self.sizes = nn.ModuleList(NormNonlinearity(degrees, channels) for _ in range(layers))
        self.last = FuchsAttention(degrees, channels, heads)

    def forward(self, x: Tensor, at: Tensor, valid: Tensor | None = None) -> Fibers:
        displacement = at.unsqueeze(1) - at.unsqueeze(2)  # [b, i, j]: from i to j
        mask = ~torch.eye(at.shape[1], dtype=torch.bool, device=at.device).expand(len(at), -1, -1)
        if self.cutoff is not None:
            mask = mask & (displacement.square().sum(-1) < self.cutoff**2)
        if valid is not None:
            mask = mask & valid.unsqueeze(1) & valid.unsqueeze(2)
        fibers: Fibers = {0: x.unsqueeze(-1)}
        for degree in range(1, self.degrees + 1):
            fibers[degree] = x.new_zeros(*x.shape, 2 * degree + 1)
        for attend, sizes in zip(self.attentions, self.sizes, strict=True):
            fibers = sizes(attend(fibers, displacement, mask))
        out: Fibers = self.last(fibers, displacement, mask)
        return out


def _basis(j: int, n: int, k: int) -> Tensor:
    """Coefficients from harmonics of degree j to a matrix from degree k to n, [2j + 1, 2n + 1, 2k + 1], normalised alike."""
    return clebsch_gordan(j, n, k) * (2 * n + 1) ** 0.5
