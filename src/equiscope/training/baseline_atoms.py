"""A transformer over atoms without rotational symmetry: positions enter as three more features of a token. A baseline.

It can learn the symmetry from randomly rotated frames (`data.random_rotation`); evaluation measures how well it does.
The energy is a mean over atoms, the forces are its negative gradient, as for a model of points in space.
"""

from typing import Any

import torch
from torch import Tensor

from equiscope.data.molecules import EnergyStatistics
from equiscope.errors import InputError
from equiscope.geometry import EnergyForces
from equiscope.models import Model
from equiscope.tokens import Tokens
from equiscope.tokens.elements import NUMBERS, named

LEARNED = "An ordinary transformer (model.block) of molecules"


def atom_transformer_spec(spec: dict[str, Any], statistics: EnergyStatistics, periodic: bool) -> dict[str, Any]:
    """The fields of a Spec with those that the data determines: a feature per element and three coordinates, one output.

    Attention runs eagerly, since training on forces needs second derivatives.
    raises  InputError if the recipe contradicts the data, or frames are periodic
    """
    if periodic:
        raise InputError(
            f"{LEARNED} has no periodic cell, but the frames are periodic. Use a model of points in space, with a cutoff."
        )
    features, fields = len(statistics.elements) + 3, dict(spec)
    layer = {"features": features} | fields.pop("input", {})
    decided: dict[str, tuple[Any, Any]] = {
        "input.features": (layer["features"], features),
        "outputs": (fields.get("outputs", 1), 1),
    }
    decided |= {"readout": (fields.get("readout", "mean"), "mean"), "vocabulary": (fields.get("vocabulary"), None)}
    for name, (stated, decided_value) in decided.items():
        if stated != decided_value:
            raise InputError(
                f"{LEARNED} has {name} = {decided_value!r}, but model.{name} is {stated!r}. Leave it out: the data determines it."
            )
    block = fields.pop("block", {})
    blocks = [_with_eager_backend(one) for one in block] if isinstance(block, list | tuple) else _with_eager_backend(block)
    return fields | {"block": blocks, "input": layer, "readout": "mean", "outputs": 1}


class AtomTransformer:
    """A transformer over atoms with the interface of a `SpaceModel`. statistics: of the training part."""

    def __init__(self, model: Model, statistics: EnergyStatistics) -> None:
        self.model, self.statistics = model, statistics
        self.known = [NUMBERS[symbol] for symbol in statistics.elements]

    def __call__(self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None) -> Tensor:
        """Energies [B] in eV, from atomic numbers [B, N] (0: no atom) and positions [B, N, 3] in Å, which are centred first."""
        if cell is not None:
            raise InputError(f"{LEARNED} has no periodic cell. Leave it out, or use a model of points in space.")
        row, there = self.elements(numbers), (numbers > 0).unsqueeze(-1)
        many = there.sum((1, 2))
        at = torch.where(there, positions - (positions * there).sum(1, keepdim=True) / many.clamp_min(1)[:, None, None], 0.0)
        which = torch.nn.functional.one_hot(row, len(self.known)) * there
        kind = next(self.model.parameters()).dtype
        x = torch.cat([which.to(kind), at.to(kind)], -1)
        order = torch.arange(x.shape[1], device=x.device)
        each = self.model(Tokens(x=x, positions=at.to(kind), order=order, valid=there.squeeze(-1))).squeeze(-1)
        references = torch.tensor(self.statistics.references, dtype=torch.float64, device=x.device)
        own = (references[row] * there.squeeze(-1)).sum(-1)
        return own + many * (each.double() * self.statistics.scale + self.statistics.offset)

    def elements(self, numbers: Tensor) -> Tensor:
        """Index of the element of each atom, 0 where there is none. Raises InputError for an element that was not in training."""
        same = numbers.unsqueeze(-1) == torch.tensor(self.known, device=numbers.device)
        unknown = (numbers != 0) & ~same.any(-1)
        if bool(unknown.any()):
            other = named(int(numbers[unknown][0]))
            raise InputError(f"This model knows {', '.join(self.statistics.elements)}, but there is an atom of {other}.")
        return same.long().argmax(-1)

    def energy_and_forces(
        self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None, learn: bool = False
    ) -> EnergyForces:
        """Energy and forces, as `SpaceModel.energy_and_forces`."""
        with torch.enable_grad():
            at = positions.detach().requires_grad_()
            energy = self(numbers, at, cell)
            (slope,) = torch.autograd.grad(energy.sum(), at, create_graph=learn)
        return EnergyForces(energy if learn else energy.detach(), -slope)


def _with_eager_backend(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"attention": block.get("attention", {}) | {"backend": "eager"}}
