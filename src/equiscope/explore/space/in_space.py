"""A model of points in space as a computation: energy, energies per atom, forces and attention weights."""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.geometry import PLAIN, Features, attend
from equiscope.geometry.model import SpaceModel
from equiscope.program.hooks import hooked
from equiscope.program.loops import computation, with_forces
from equiscope.record.computation import Computation


def checked(model: SpaceModel, numbers: Tensor, positions: Tensor) -> tuple[SpaceModel, Tensor]:
    """A copy of the model in float64, and which of its elements the atoms are, [1, N]."""
    if numbers.ndim != 1 or positions.shape != (len(numbers), 3):
        raise ShapeError(
            f"Atoms are numbers [N] and positions [N, 3], but got {tuple(numbers.shape)} and {tuple(positions.shape)}."
        )
    if model.spec.readout != "energy":
        raise InputError(f'Atoms decide an energy, but this model reads "{model.spec.readout}". Build it with readout="energy".')
    return copy.deepcopy(model).double().eval(), model.elements(numbers.unsqueeze(0))


def in_space(model: SpaceModel, numbers: Tensor, positions: Tensor) -> Computation:
    """A model as a function of the positions of these atoms.

    numbers   [N] atomic numbers; positions: [N, 3], at which the model is read
    returns   a record with the input positions [N, 3] and the outputs energy [1] and each [N], in the model's unit; forces [N, 3];
              numbers [N, width] and, where it has some, arrows [N, 3, C] of its last features; weights [layers, heads, N, N] of
              attention, whose rows sum to 1. All pairs are looked at: beyond a cutoff the model itself lets weights vanish
    raises    InputError for an element that the model does not know, and for a model that reads no energy
    """
    double, rows = checked(model, numbers, positions)
    double.requires_grad_(False)
    return computation(
        with_forces(lambda positions: rotation_report(double, rows, positions)), {"positions": positions.detach().double()}
    )


def rotation_report(model: SpaceModel, rows: Tensor, positions: Tensor) -> dict[str, Tensor]:
    """Energy, and what lies on the way to it, of one molecule [N, 3]. rows: which of the model's elements its atoms are, [1, N]."""
    outputs: dict[str, Any] = {}
    ends = [("features", model.norm), ("each", model.last)]
    with hooked(ends, after=lambda name, _, output: outputs.update({name: output})), recording_weights() as weights:
        energy = model.energies(rows, torch.ones_like(rows, dtype=torch.bool), positions.unsqueeze(0))
    features: Features = outputs["features"]
    plain, arrow = PLAIN[model.spec.group]
    each = outputs["each"].squeeze(-1) * model.scale + model.references[rows]
    report = {"energy": energy, "each": each[0], "numbers": features[plain][0], "weights": torch.cat(weights)}
    return {**report, "arrows": features[arrow][0]} if arrow in features else report


@contextmanager
def recording_weights() -> Iterator[list[Tensor]]:
    """Context in which every attention in space also returns its weights [B, H, N, N]: its output for one-hot values."""
    weights: list[Tensor] = []
    before = {name: getattr(attend, name) for name in ("dense", "local")}

    def recording(function: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
        def both(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
            bound = inspect.signature(function).bind(*args, **kwargs)
            q = bound.arguments["q"]
            bound.arguments["v"] = torch.eye(q.shape[2], dtype=q.dtype, device=q.device).expand(*q.shape[:3], -1)
            for name in ("filters", "vectors"):  # what is done to messages, not who sends them
                bound.arguments.pop(name, None)
            weights.append(function(*bound.args, **bound.kwargs)[0])
            return function(*args, **kwargs)

        return both

    try:
        for name, function in before.items():
            setattr(attend, name, recording(function))
        yield weights
    finally:
        for name, function in before.items():
            setattr(attend, name, function)
