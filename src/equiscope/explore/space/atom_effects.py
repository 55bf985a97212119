"""Which atoms decide an energy: what cheap scores say of each atom, beside the measured effect of removing it.

An atom is removed in two ways. *Silent*: no other atom receives its messages, in any block; its own energy stays in the sum.
*Deleted*: it is not in the molecule, and the energy of an isolated atom is taken off. A model of energies is a sum over atoms, so
the energy of each atom is a direct share, and the shares sum to the energy.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.explore.space.in_space import checked, rotation_report
from equiscope.geometry import SpaceModel
from equiscope.geometry.attention import all_pairs
from equiscope.interventions.attribution.rollout import rollout
from equiscope.interventions.attribution.token_effects import ATTENTION, DELETED, ROLLOUT, SHARE, TokenEffects
from equiscope.program.hooks import hooked

LIMITS = (
    "Removed means that no other atom receives this atom's messages, in any block; its own energy stays in the sum. The model has "
    "learned whole molecules alone, so its energy of such a molecule is no energy of chemistry."
)


def atom_effects(model: SpaceModel, numbers: Tensor, positions: Tensor) -> TokenEffects:
    """Scores and measured effects of each atom on the energy, in float64.

    numbers   [N] atomic numbers; positions: [N, 3] in the model's unit of length
    raises    InputError for a model that reads no energy, and for an element that it does not know
    """
    double, rows = checked(model, numbers, positions)
    n, at = len(numbers), positions.double().unsqueeze(0)
    with torch.no_grad():
        whole = rotation_report(double, rows, at[0])
        valid = torch.ones(n, n, dtype=torch.bool)
        near = all_pairs(at.expand(n, -1, -1), valid)
        silent = ~torch.eye(n, dtype=torch.bool)[:, None, :].expand(n, n, n) | torch.eye(n, dtype=torch.bool)
        many = rows.expand(n, -1), at.expand(n, -1, -1)
        quiet = double.energies(many[0], valid, many[1], replace(near, mask=near.mask & silent))
        kept = ~torch.eye(n, dtype=torch.bool)
        without = double.energies(many[0], kept, many[1], all_pairs(many[1], kept))
    energy, references = whole["energy"][0], double.references[rows[0]]
    weights = whole["weights"].mean(1)
    scores = {
        ATTENTION: weights[-1].mean(0),
        ROLLOUT: rollout(weights).mean(0),
        SHARE: whole["each"] - references,
        DELETED: energy - (without + references),
    }
    return TokenEffects(
        list(range(n)), "energy", float(energy), [float(x) for x in quiet - energy],
        {name: [float(x) for x in score] for name, score in scores.items()}, list(range(n)), 3, [], LIMITS,
    )  # fmt: skip


def energies_of_layers(model: SpaceModel, numbers: Tensor, positions: Tensor) -> list[float]:
    """The energy that the model's last part reads from the features before the first block and after each: [layers + 1]."""
    double, rows = checked(model, numbers, positions)
    valid, at = torch.ones_like(rows, dtype=torch.bool), positions.double().unsqueeze(0)
    energies, entered = [], dict[int, Any]()

    def before(i: int, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        entered[i] = args[0]

    with torch.no_grad():
        for ran in range(len(double.blocks) + 1):
            skipped = [(i, block) for i, block in enumerate(double.blocks) if i >= ran]
            with hooked(skipped, before=before, after=lambda i, *_: entered[i]):
                energies.append(float(double.energies(rows, valid, at)))
    return energies
