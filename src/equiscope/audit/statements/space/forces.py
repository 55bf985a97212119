"""Forces: the energy and the forces among the outputs of a model of points.

They are recognised by name, by shape (one number a set, one vector a point), or by a method `answer`, which our own models have.
Where there is only an energy, the forces are minus its gradient by autograd, as molecular dynamics would use them.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.subject import ModelError, Outputs, Pass, Subject
from equiscope.audit.subject.outputs import SelectedOutputs, flat
from equiscope.symmetry import Inputs

ENERGY = ("energy", "energies", "total_energy", "potential", "potential_energy", "e", "u")
FORCES = ("forces", "force", "f")


@dataclass(frozen=True)
class Forces:
    """Which outputs of a subject are its energy and its forces.

    energy, forces  names of outputs; forces "": by autograd
    uses_own_forces whether `model.energy_and_forces` computes them
    named_energy    whether the model calls it an energy, rather than that one number a set is taken for one
    """

    subject: Subject
    energy: str
    forces: str
    uses_own_forces: bool
    named_energy: bool

    @classmethod
    def of(cls, subject: Subject) -> "Forces | None":
        """The energy and forces of a subject; None where there is no energy. Raises ModelError where the model raises."""
        points = points_of(subject.inputs)
        if points is None:
            return None
        run = subject.in_dtype(subject.dtype)
        for uses_own_forces in (True, False) if callable(getattr(subject.model, "energy_and_forces", None)) else (False,):
            try:
                outputs = _all_outputs(subject, run, run.inputs, uses_own_forces)
            except ModelError:
                if uses_own_forces:
                    continue
                raise
            if (names := _energy_and_forces(outputs, points)) is not None:
                return cls(subject, *names, uses_own_forces, names[0].rpartition(".")[2].lower() in ENERGY)
        return None

    def energy_and_forces(self, run: Pass, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """The energy, and the forces with the shape of the points; float64 on the CPU."""
        if not self.forces:
            outputs = run.outputs_of(lambda model: self._differentiated(model, inputs))
            return outputs["energy"], outputs["forces"]
        outputs = _all_outputs(self.subject, run, inputs, self.uses_own_forces)
        return outputs[self.energy], outputs[self.forces].reshape(next(iter(inputs.of("points").values())).shape)

    def total_energy(self, run: Pass, inputs: Inputs) -> Tensor:
        """The energy, summed over all sets."""
        return _all_outputs(self.subject, run, inputs, self.uses_own_forces)[self.energy].sum()

    def _differentiated(self, model: Any, inputs: Inputs) -> Any:
        with torch.enable_grad():
            fresh = inputs.each(lambda t: t.detach().clone().requires_grad_(), "points")
            points = next(iter(fresh.of("points").values()))
            energy = flat(fresh.call(model))[self.energy]
            slope = None
            if energy.requires_grad:
                (slope,) = torch.autograd.grad(energy.double().sum(), points, allow_unused=True)
        return SelectedOutputs(energy=energy, forces=torch.zeros_like(points) if slope is None else -slope)


def points_of(inputs: Inputs) -> Tensor | None:
    """The points [..., N, 3]; None if there are none."""
    candidates = (t for t in inputs.of("points").values() if t.is_floating_point() and t.shape[-1] == 3)
    return next(candidates, None)


def nearest_distance(inputs: Inputs) -> float:
    """The median distance to the nearest point; 1 for a single point."""
    points = points_of(inputs)
    assert points is not None
    points = points.detach().double().reshape(-1, *points.shape[-2:])[0].cpu()
    far = (points[:, None] - points).norm(dim=-1) + torch.diag(torch.full((len(points),), torch.inf))
    near = far.min(1).values if len(points) > 1 else points.new_zeros(1)
    return near[near > 0].median().item() if bool((near > 0).any()) else 1.0


def outputs_with_forces(run: Pass, inputs: Inputs, forces: Forces | None) -> Outputs:
    """The outputs of the model, with forces added where it has an energy."""
    outputs = dict(run.outputs_of(lambda model: inputs.to(run.dtype).call(model)))
    if forces is not None and (not forces.forces or forces.uses_own_forces):
        outputs["forces"] = forces.energy_and_forces(run, inputs.to(run.dtype))[1]
    return outputs


def _all_outputs(subject: Subject, run: Pass, inputs: Inputs, uses_own_forces: bool) -> Outputs:
    """All outputs, whichever were picked. Gradients are on, because forces are often computed from them."""
    every = copy.copy(subject)
    every.pick = None
    run.subject = every
    fresh = inputs.each(lambda t: t.detach().clone(), "points")
    call: Callable[[Any], Any] = lambda model: fresh.call(model.energy_and_forces if uses_own_forces else model)  # noqa: E731
    try:
        return run.outputs_of(call)
    finally:
        subject.gradients = every.gradients
        run.subject = subject


def _energy_and_forces(outputs: Mapping[str, Tensor], points: Tensor) -> tuple[str, str] | None:
    """The names of energy and forces: by name, otherwise by shape: one number a set, and the shape of the points."""
    last = {n: n.rpartition(".")[2].lower() for n in outputs}
    forces = [n for n, t in outputs.items() if last[n] in FORCES and t.numel() == points.numel()]
    energy = [n for n, t in outputs.items() if last[n] in ENERGY and t.is_floating_point()]
    if energy:
        return energy[0], forces[0] if forces else ""
    if any(not word.isdigit() for word in last.values() if word):  # they have other names
        return None
    point_shaped = [n for n, t in outputs.items() if t.shape == points.shape]
    per_set = [n for n, t in outputs.items() if t.is_floating_point() and t.numel() == math.prod(points.shape[:-2])]
    if len(per_set) != 1 or len(point_shaped) > 1 or (not point_shaped and len(outputs) > 1):
        return None
    return per_set[0], point_shaped[0] if point_shaped else ""
