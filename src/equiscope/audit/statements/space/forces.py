"""Forces: what a model of points gives as energy and as forces, however it gives them.

By name, by shape (one number a set, one arrow a point), or by a method `answer`, as our own models have one. Where there is an
energy alone, forces are minus its gradient by autograd: so whoever moves atoms by it takes them.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.subject import Crashed, Outputs, Pass, Subject
from equiscope.audit.subject.outputs import Picked, flat
from equiscope.symmetry import Inputs

ENERGY = ("energy", "energies", "total_energy", "potential", "potential_energy", "e", "u")
FORCES = ("forces", "force", "f")


@dataclass(frozen=True)
class Forces:
    """Where energy and forces of a subject are found.

    energy, forces  names of outputs; forces "": by autograd
    answered        whether `model.answer` gives them
    said            whether the model calls it an energy, rather than that one number a set is taken for one
    """

    subject: Subject
    energy: str
    forces: str
    answered: bool
    said: bool

    @classmethod
    def of(cls, subject: Subject) -> "Forces | None":
        """None where there is no energy. Raises Crashed where the model does."""
        points = places(subject.inputs)
        if points is None:
            return None
        run = subject.in_dtype(subject.dtype)
        for answered in (True, False) if callable(getattr(subject.model, "answer", None)) else (False,):
            try:
                outputs = _whole(subject, run, run.inputs, answered)
            except Crashed:
                if answered:
                    continue
                raise
            if (names := _named(outputs, points)) is not None:
                return cls(subject, *names, answered, names[0].rpartition(".")[2].lower() in ENERGY)
        return None

    def both(self, run: Pass, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Energy, and forces shaped like the points; float64 on the CPU."""
        if not self.forces:
            made = run.outputs_of(lambda model: self._differentiated(model, inputs))
            return made["energy"], made["forces"]
        made = _whole(self.subject, run, inputs, self.answered)
        return made[self.energy], made[self.forces].reshape(next(iter(inputs.of("points").values())).shape)

    def alone(self, run: Pass, inputs: Inputs) -> Tensor:
        """The energy, summed over all sets."""
        return _whole(self.subject, run, inputs, self.answered)[self.energy].sum()

    def _differentiated(self, model: Any, inputs: Inputs) -> Any:
        with torch.enable_grad():
            fresh = inputs.each(lambda t: t.detach().clone().requires_grad_(), "points")
            points = next(iter(fresh.of("points").values()))
            energy = flat(fresh.call(model))[self.energy]
            slope = None
            if energy.requires_grad:
                (slope,) = torch.autograd.grad(energy.double().sum(), points, allow_unused=True)
        return Picked(energy=energy, forces=torch.zeros_like(points) if slope is None else -slope)


def places(inputs: Inputs) -> Tensor | None:
    """The points [..., N, 3], if there are any."""
    found = (t for t in inputs.of("points").values() if t.is_floating_point() and t.shape[-1] == 3)
    return next(found, None)


def gap(inputs: Inputs) -> float:
    """How far the nearest point is, as a rule; 1 where there is one point."""
    points = places(inputs)
    assert points is not None
    points = points.detach().double().reshape(-1, *points.shape[-2:])[0].cpu()
    far = (points[:, None] - points).norm(dim=-1) + torch.diag(torch.full((len(points),), torch.inf))
    near = far.min(1).values if len(points) > 1 else points.new_zeros(1)
    return near[near > 0].median().item() if bool((near > 0).any()) else 1.0


def answers(run: Pass, inputs: Inputs, forces: Forces | None) -> Outputs:
    """What the model returns, and forces beside it where it has an energy."""
    made = dict(run.outputs_of(lambda model: inputs.to(run.dtype).call(model)))
    if forces is not None and (not forces.forces or forces.answered):
        made["forces"] = forces.both(run, inputs.to(run.dtype))[1]
    return made


def _whole(subject: Subject, run: Pass, inputs: Inputs, answered: bool) -> Outputs:
    """All outputs, whichever were picked: with gradients, since forces are often made by them."""
    every = copy.copy(subject)
    every.pick = None
    run.subject = every
    fresh = inputs.each(lambda t: t.detach().clone(), "points")
    call: Callable[[Any], Any] = lambda model: fresh.call(model.answer if answered else model)  # noqa: E731
    try:
        return run.outputs_of(call)
    finally:
        subject.gradients = every.gradients
        run.subject = subject


def _named(outputs: Mapping[str, Tensor], points: Tensor) -> tuple[str, str] | None:
    """Names of energy and forces: by name, else the one output shaped like the points and the one that is a number a set."""
    last = {n: n.rpartition(".")[2].lower() for n in outputs}
    forces = [n for n, t in outputs.items() if last[n] in FORCES and t.numel() == points.numel()]
    energy = [n for n, t in outputs.items() if last[n] in ENERGY and t.is_floating_point()]
    if energy:
        return energy[0], forces[0] if forces else ""
    if any(not word.isdigit() for word in last.values() if word):  # they have names, but others
        return None
    shaped = [n for n, t in outputs.items() if t.shape == points.shape]
    numbers = [n for n, t in outputs.items() if t.is_floating_point() and t.numel() == math.prod(points.shape[:-2])]
    if len(numbers) != 1 or len(shaped) > 1 or (not shaped and len(outputs) > 1):
        return None
    return numbers[0], shaped[0] if shaped else ""
