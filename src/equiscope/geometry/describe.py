"""The cost of a model of points in space, without building it.

Every matrix is applied once for each atom, and three times where it maps vectors; attention is over every pair of atoms.
"""

import torch
from torch import nn

from equiscope.errors import InputError
from equiscope.geometry.features import is_vector
from equiscope.geometry.maps import EquivariantLinear
from equiscope.geometry.model import PointSpec, SpaceBlock, SpaceModel
from equiscope.record.description import Description, Part
from equiscope.symmetry import derive

READ = {
    "energy": "an energy of each atom", "atoms": "features of each atom", "shape": "features of all", "class": "scores of classes",
}  # fmt: skip


def described(spec: PointSpec, atoms: int | None = None, source: int = 0) -> Description:
    """Parameters and multiply-adds of one energy, with attention over all pairs; forces cost about twice as much again."""
    atoms = 32 if atoms is None else atoms
    if atoms < 1:
        raise InputError(f"A description is of one atom or more, but got {atoms}.")
    with torch.device("meta"):
        model = SpaceModel(spec)
    block, width = model.blocks[0], spec.width
    assert isinstance(block, SpaceBlock)
    attention = block.attention
    each = (
        (attention.value_size + 5) + (attention.value_size + 4 * spec.value_heads) + spec.radial
    )  # queries with keys, weights with what they carry
    pairs = atoms * atoms * spec.heads * each
    kinds = ", ".join(f"{width} {kind}" for kind, width in spec.widths.items() if width)
    reach = "all pairs" if spec.cutoff is None else f"within {spec.cutoff:g} Å"
    parts = (
        Part("table", f"elements {', '.join(spec.elements)}", (atoms, width), model.table.numel(), 0),
        Part(
            "blocks",
            f"{spec.heads} heads, {reach}, {kinds}",
            (atoms, width),
            _size(block),
            atoms * _products(block) + pairs,
            spec.layers,
        ),
        Part(
            "output_layer",
            READ[spec.readout],
            {"atoms": (atoms, width), "shape": (width,), "class": (spec.classes or 1,)}.get(spec.readout, (1,)),
            _size(model.norm, model.first, model.last),
            atoms * _products(model.first, model.last),
        ),
    )
    return Description(atoms, None, parts, tuple(derive(model)))


def _size(*parts: nn.Module) -> int:
    return sum(p.numel() for part in parts for p in part.parameters())


def _products(*parts: nn.Module) -> int:
    """Multiply-adds of the matrices of some parts, for one atom."""
    maps = [module for part in parts for module in part.modules()]
    plain = sum(m.weight.numel() for m in maps if isinstance(m, nn.Linear))
    typed = [(kind, w.numel()) for m in maps if isinstance(m, EquivariantLinear) for kind, w in m.weights.items()]
    return plain + sum(size * (3 if is_vector(kind) else 1) for kind, size in typed)
