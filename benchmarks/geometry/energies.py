"""Energies of atoms and the forces on them, ours and of other libraries.

Each is a function of (numbers, positions) to energy [1], forces [1, N, 3].

Forces are minus the gradient of the energy, so training on forces needs second derivatives. Ours, e3nn's and TensorNet's neighbour
lists are built in every pass; MACE takes its list as an input, as from its data loader.
"""

import torch
from benchmarks.geometry.attention import HEADS, LAYERS, E3nn
from benchmarks.geometry.points import CUTOFF, ELEMENTS
from torch import nn

from equiscope.geometry import pairs
from equiscope.geometry.model import PointSpec, SpaceModel


def ours(channels, form):
    near = {"cutoff": CUTOFF, "filtered": True} if form == "local" else {}
    spec = PointSpec(
        ("H", "C", "N", "O"), width=channels, vectors=channels // 2, heads=HEADS, layers=LAYERS, value_heads=2, radial=8, **near
    )
    return SpaceModel(spec)


class Ours(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, numbers, at):
        found = self.inside.energy_and_forces(numbers, at, learn=True)
        return found.energy, found.forces


class Compiled(nn.Module):
    """A training step of ours as one compiled graph; only the loss uses its forces."""

    def __init__(self, inside):
        super().__init__()
        from equiscope.geometry.forces import ForceLoss

        self.inside = inside
        self.slopes = ForceLoss(inside, lambda energy, forces, _: missed(energy, forces))

    def loss(self, numbers, at):
        return self.slopes({"numbers": numbers, "positions": at})


class Sloped(nn.Module):
    """An energy of (features of elements, positions), with forces as its gradient."""

    def __init__(self, channels, inside):
        super().__init__()
        self.table, self.inside = nn.Embedding(max(ELEMENTS) + 1, channels), inside

    def forward(self, numbers, at):
        at = at.detach().requires_grad_()
        energy = self.inside(self.table(numbers), at)
        return energy[None], -torch.autograd.grad(energy, at, create_graph=True)[0]


class Mace(nn.Module):
    """mace-torch's ScaleShiftMACE: two interactions, harmonics to degree 3, products of up to three (correlation)."""

    def __init__(self, irreps):
        super().__init__()
        import numpy
        from e3nn import o3
        from mace.modules import interaction_classes
        from mace.modules.models import ScaleShiftMACE

        block = interaction_classes["RealAgnosticResidualInteractionBlock"]
        self.inside = ScaleShiftMACE(
            atomic_inter_scale=1.0, atomic_inter_shift=0.0, r_max=CUTOFF, num_bessel=8, num_polynomial_cutoff=5, max_ell=3,
            interaction_cls=block, interaction_cls_first=block, num_interactions=LAYERS, num_elements=len(ELEMENTS),
            hidden_irreps=o3.Irreps(irreps), MLP_irreps=o3.Irreps("16x0e"), atomic_energies=numpy.zeros(len(ELEMENTS)),
            avg_num_neighbors=16.0, atomic_numbers=list(ELEMENTS), correlation=3, gate=nn.functional.silu,
        )  # fmt: skip
        self.listed = None

    def graph(self, numbers, at):
        if self.listed is None or self.listed[0] is not at:
            count = at.shape[1]
            i, j, _ = pairs(at[0].detach(), CUTOFF)
            none = at.new_zeros(len(i), 3)
            rows = (numbers[0, :, None] == torch.tensor(ELEMENTS)).long().argmax(-1)
            self.listed = (at, {
                "edge_index": torch.stack([j, i]), "shifts": none, "unit_shifts": none, "cell": at.new_zeros(3, 3),
                "node_attrs": torch.eye(len(ELEMENTS), dtype=at.dtype)[rows],
                "batch": torch.zeros(count, dtype=torch.long), "ptr": torch.tensor([0, count]),
            })  # fmt: skip
        return self.listed[1]

    def forward(self, numbers, at):
        graph = self.graph(numbers, at)
        found = self.inside({**graph, "positions": at[0].detach().clone().requires_grad_()}, training=True)
        return found["energy"], found["forces"][None]


class TensorNet(nn.Module):
    """torchmd-net's TensorNet, with its warp kernels, which are compiled on the first run."""

    def __init__(self, channels):
        super().__init__()
        from torchmdnet.models.model import create_model

        self.inside = create_model({
            "model": "tensornet", "embedding_dimension": channels, "num_layers": LAYERS, "num_rbf": 16, "rbf_type": "expnorm",
            "trainable_rbf": False, "activation": "silu", "cutoff_lower": 0.0, "cutoff_upper": CUTOFF, "max_z": max(ELEMENTS) + 1,
            "max_num_neighbors": 64, "equivariance_invariance_group": "O(3)", "prior_model": None, "output_model": "Scalar",
            "reduce_op": "sum", "derivative": True, "atom_filter": -1, "check_errors": True, "static_shapes": False,
            "precision": 64 if torch.get_default_dtype() == torch.float64 else 32,
        })  # fmt: skip

    def forward(self, numbers, at):
        energy, forces = self.inside(numbers[0], at[0].detach().requires_grad_(), torch.zeros(at.shape[1], dtype=torch.long))
        return energy[:, 0], forces[None]


class Equiformer(nn.Module):
    """equiformer-pytorch, and a last layer."""

    def __init__(self, channels):
        super().__init__()
        from equiformer_pytorch import Equiformer as Inside

        self.inside = Inside(
            dim=(channels, channels // 2), dim_in=(channels,), num_degrees=2, input_degrees=1, heads=(HEADS, HEADS), depth=LAYERS,
            dim_head=(channels // HEADS, channels // HEADS), num_neighbors=16, reduce_dim_out=False, attend_self=True,
            embedding_grad_frac=1.0,
        )  # fmt: skip
        self.last = nn.Linear(channels, 1)

    def forward(self, x, at):
        return self.last(self.inside(x, at).type0).sum()


CONTESTANTS = {
    "ours, dense": lambda channels: Ours(ours(channels, "dense")),
    "ours, dense, compiled": lambda channels: Compiled(ours(channels, "dense")),
    "ours, local": lambda channels: Ours(ours(channels, "local")),
    "ours, local, compiled": lambda channels: Compiled(ours(channels, "local")),
    "MACE, as many numbers": lambda channels: Mace(f"{channels}x0e"),
    "MACE, half as many, with arrows": lambda channels: Mace(f"{channels // 2}x0e + {channels // 2}x1o"),
    "MACE, 96x0e, as MACE-OFF23(S)": lambda channels: Mace("96x0e"),
    "TensorNet": TensorNet,
    "e3nn, plain inner product": lambda channels: Sloped(channels, E3nn(channels, "plain")),
    "equiformer-pytorch": lambda channels: Sloped(channels, Equiformer(channels)),
}


def step(model, numbers, at):
    """The loss of energy and forces (target: 0), and the gradients of all weights."""
    model.zero_grad(set_to_none=True)
    lost = loss(model, numbers, at)
    lost.backward()
    return lost


def loss(model, numbers, at):
    return model.loss(numbers, at) if isinstance(model, Compiled) else missed(*model(numbers, at))


def missed(energy, forces):
    return (energy / forces.shape[1]).square().sum() + forces.square().mean()
