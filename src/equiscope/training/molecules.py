"""Molecules: the energy of atoms in space, and the forces, its negative gradient. Metrics are mean absolute errors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.data.faults import Faults
from equiscope.data.frame_files import frames
from equiscope.data.molecules import EnergyStatistics, Frames, MoleculeFrame, Molecules, joined
from equiscope.data.random_rotation import random_rotation
from equiscope.errors import InputError, UnknownName
from equiscope.geometry import SpaceModel
from equiscope.geometry.forces import ForceLoss
from equiscope.models import Built, Model
from equiscope.record import Sample
from equiscope.tokens.elements import NUMBERS, SYMBOLS
from equiscope.training.answers import Numbers
from equiscope.training.atom_domain import AtomDomain
from equiscope.training.atom_drawing import drawn
from equiscope.training.baseline_atoms import AtomTransformer, atom_transformer_spec
from equiscope.training.folder import read_settings, write_settings
from equiscope.training.measures import Outcomes, TrueAndPredicted, mean, root_mean_square, wilson
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction, Task, batches
from equiscope.units import electronvolts

AT_ONCE = 64  # frames that are evaluated together
PAIRS = 2**18  # of atoms that are answered together
STATISTICS = "elements.json"
MILLI = 1e3
LEVELLED = 500  # frames, at most, of the training part that say where energies lie on average
NOT_FINITE = "the model's prediction is NaN or infinite. Its atoms are too far apart, or too near: correct it, or leave it out."
NEAR = 0.01  # of the scale: where a loss of Huber's kind turns from square to absolute


class BeyondAtoms(Numbers, frozen=True, kw_only=True):
    """Energies in eV beyond that of a molecule's atoms and their mean binding, of which the metrics are those of the task."""

    without_input: ClassVar[str] = "energies of atoms"

    def outcomes(self, names: Sequence[str], outputs: Tensor, targets: Tensor, of: str) -> Outcomes:
        """energy: mean absolute error; energy rms: root of the mean square, in meV."""
        missed = MILLI * (outputs - targets).double().abs()[:, 0].numpy()
        found = [mean("energy", missed, unit="meV"), root_mean_square("energy rms", missed**2, unit="meV")]
        predicted, true = ([f"{x:.4f} eV" for x in one[:, 0].tolist()] for one in (outputs, targets))
        return Outcomes(names, predicted, true, missed, found, {of: float(len(missed))})


class MoleculesTask(Task):
    """A model learns energies of molecules and forces on their atoms."""

    name: ClassVar[str] = "molecules"
    single: ClassVar[bool] = True
    in_space: ClassVar[bool] = True
    ordered = ""  # places are numbers of an atom

    frames: Frames  # none in the task of a run without data

    def __init__(self, recipe: Recipe, statistics: EnergyStatistics, frames: Frames | None = None) -> None:
        super().__init__(recipe)
        assert isinstance(recipe.data, Molecules)
        self.config, self.statistics = recipe.data, statistics
        if frames is not None:
            self.frames, self.sources, self.notes = frames, frames.sources, frames.notes
        self.force_loss: ForceLoss | None = None
        self.atom_domain: AtomDomain | None = None  # of a run

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's frames."""
        assert isinstance(recipe.data, Molecules)
        weights, forces = recipe.data.weights, recipe.data.keys.forces is not None
        if weights.energy == 0 and (weights.forces == 0 or not forces):
            raise InputError("data.weights are all 0. Give the energy, or existing forces, a weight above 0.")
        frames = Frames(recipe.data, recipe.seed, recipe_folder)
        return cls(recipe, frames.statistics, frames)

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        task = cls(recipe, read_settings(folder / STATISTICS, EnergyStatistics, "what atoms this run knows"))
        task.atom_domain = AtomDomain.read(folder)
        return task

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        task = cls.from_run(recipe, folder)
        return cls(recipe, task.statistics, Frames.from_files(task.config, task.statistics, NEW, names))

    def save(self, folder: Path) -> None:
        write_settings(folder / STATISTICS, self.statistics)

    def store_domain(self, folder: Path) -> None:
        if (domain := AtomDomain.of(self.frames)) is not None:
            domain.write(folder)

    def far(self, part: str, folder: Path, outcomes: Outcomes) -> tuple[np.ndarray, str] | None:
        errors = outcomes.errors
        if self.frames.periodic or (domain := AtomDomain.read(folder)) is None:
            return None
        distances = domain.distances(self.frames.parts[part])
        far = distances > 1
        if not far.any():
            return distances, ""
        low, high = wilson(int(far.sum()), len(far))
        others = "" if far.all() else f", of the others {errors[~far].mean():.3g} meV"
        return distances, (
            f"{far.sum()} of {len(far)} frames are unlike the training part (distance above 1; {far.mean():.1%}, {low:.1%} to "
            f"{high:.1%}). The mean error of their energies is {errors[far].mean():.3g} meV{others}."
        )

    def number_count(self, part: str) -> int:
        return len(self.frames.parts.get(part, ()))

    @property
    def forceful(self) -> bool:
        """Whether the files have forces."""
        return self.config.keys.forces is not None

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        if "block" in spec:
            return atom_transformer_spec(spec, self.statistics, self.frames.periodic)
        there = self.statistics.elements
        known = list(spec.get("elements", there))
        if missing := [symbol for symbol in there if symbol not in known]:
            raise InputError(
                f"The model knows {', '.join(known)}, but the molecules have {', '.join(missing)} too. Add that, or choose another."
            )
        if spec.get("readout", "energy") != "energy":
            raise InputError(f'model.readout is "{spec["readout"]}", but an energy is learned. Leave it out.')
        if spec.get("cutoff") is None and self.frames.periodic:
            raise InputError(
                "The frames are periodic, so every atom would have infinitely many neighbours. Set model.cutoff, in Å."
            )
        return spec | {"elements": known}

    def init_model(self, model: Built) -> Built:
        """Set references and scale from the data, and the bias of the last map to the mean remaining energy."""
        if isinstance(model, Model):
            return model
        space, statistics = model, self.statistics
        assert isinstance(space, SpaceModel)
        known = dict(zip(statistics.elements, statistics.references, strict=True))
        references = [known.get(symbol, 0.0) for symbol in space.spec.elements]
        space.set_scale(torch.tensor(references, dtype=torch.float64), statistics.scale)
        nn.init.constant_(space.last.bias, statistics.offset / statistics.scale)
        return space

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        size = self.recipe.budget.batch
        tensors = self.frames.batch(step, size, share, shares)
        return Batch(tensors, size, int((tensors["numbers"] > 0).sum()), len(tensors["numbers"]), tensors["numbers"].shape[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Errors of the energy per atom and of the force components of each molecule, in units of the scale."""
        weights = self.config.weights
        t, space = batch.tensors | {"weights": torch.tensor([weights.energy, weights.forces])}, _in_space(model, self.statistics)
        forces = "forces" in t and self.config.weights.forces != 0
        if self.recipe.engine.compile and torch.is_grad_enabled() and isinstance(space, SpaceModel):
            if self.force_loss is None or self.force_loss.model is not space:
                self.force_loss = ForceLoss(space, self._missed, forces=forces)
            return self.force_loss(t)
        if not forces:
            return self._missed(space(t["numbers"], t["positions"], t.get("cell")), None, t)
        predicted = space.energy_and_forces(t["numbers"], t["positions"], t.get("cell"), learn=True)
        return self._missed(predicted.energy, predicted.forces, t)

    def _missed(self, energy: Tensor, forces: Tensor | None, t: dict[str, Tensor]) -> Tensor:
        weights, scale, atoms = t["weights"], self.statistics.scale, (t["numbers"] > 0).sum(-1)
        lost = weights[0] * self._lost((energy - t["energy"]) / (atoms * scale))
        if forces is not None:
            missed = self._lost((forces - t["forces"]) / scale)
            pulled = missed.sum((-1, -2)) / (3 * atoms)  # where there is no atom, nothing is missed
            lost = lost + weights[1] * (torch.where(t["known"], pulled, 0.0) if "known" in t else pulled)
        return lost.sum().float()

    def _lost(self, x: Tensor) -> Tensor:
        if self.config.loss == "absolute":
            return x.abs()
        return x.square() if self.config.loss == "square" else F.huber_loss(x, torch.zeros_like(x), "none", NEAR) / NEAR

    @property
    def parts(self) -> Sequence[str]:
        return tuple(self.frames.parts)

    @property
    def signatures(self) -> Mapping[str, str]:  # type: ignore[override]
        """Units of the metrics."""
        units = {"energy": "mean absolute error of a molecule's energy in meV", "energy rms": "root of its mean square, in meV"}
        if self.forceful:
            units = {
                "forces": "mean absolute error of a component in meV/Å", **units, "forces rms": "root of its mean square, in meV/Å",
            }  # fmt: skip
        if self.forceful:
            units["rotated forces"] = "mean change of a component under a rotation of its molecule, rotated back, in meV/Å"
        units["rotated energy"] = "mean change of an energy under a rotation of its molecule, in meV"
        return units | {"energy an atom": "mean absolute error in meV"} | self._own("as energy")

    def _own(self, value: Any) -> dict[str, Any]:
        """The error of the energy in the files' unit, if that is another one and there are no forces."""
        return {} if self.forceful or self.config.unit in ("eV", "meV") else {f"energy in {self.config.unit}": value}

    @contextmanager
    def calibrated(self, model: Built) -> Iterator[None]:
        """Inside, the last bias is set such that the mean error of training energies is 0; in training it converges last."""
        bias = model.last.bias if isinstance(model, SpaceModel) else getattr(model.output_layer, "bias", None)
        if bias is None:
            yield
            return
        train, original = self.frames.parts["train"], bias.detach().clone()
        shift = self._missing(model, train[:: math.ceil(len(train) / LEVELLED)])
        with torch.no_grad():
            bias += shift if math.isfinite(shift) else 0.0
        try:
            yield
        finally:
            with torch.no_grad():
                bias.copy_(original)

    @torch.no_grad()
    def _missing(self, model: Built, some: Sequence[MoleculeFrame]) -> float:
        """Mean error of the energy per atom, in units of the model's scale."""
        space, device, missed = _in_space(model, self.statistics), next(model.parameters()).device, []
        for first in range(0, len(some), AT_ONCE):
            t = {name: x.to(device) for name, x in joined(some[first : first + AT_ONCE]).items()}
            missed.append((t["energy"] - space(t["numbers"], t["positions"], t.get("cell"))) / (t["numbers"] > 0).sum(-1))
        return float(torch.cat(missed).mean() / (model.scale if isinstance(model, SpaceModel) else self.statistics.scale))

    @torch.no_grad()
    def evaluate(self, model: Built, part: str = "validation") -> dict[str, float]:
        """forces: mean absolute error in meV/Å, if there are any; energy: in meV."""
        space, device = _in_space(model, self.statistics), next(model.parameters()).device
        energies, each, forces = [], [], []
        for t in self.frames.groups(part, AT_ONCE):
            t = {name: tensor.to(device) for name, tensor in t.items()}
            there = t["numbers"] > 0
            if "forces" in t:
                predicted = space.energy_and_forces(t["numbers"], t["positions"], t.get("cell"))
                energy = predicted.energy
                forces.append((predicted.forces - t["forces"])[there & t["known"][:, None] if "known" in t else there].flatten())
            else:
                energy = space(t["numbers"], t["positions"], t.get("cell"))
            energies.append(energy - t["energy"])
            each.append(energies[-1] / there.sum(-1))
        missed = MILLI * torch.cat(energies).cpu()
        values = {"energy": _mean(missed), "energy an atom": _mean(MILLI * torch.cat(each).cpu()), "energy rms": _root(missed)}
        if forces:
            pulled = MILLI * torch.cat(forces).cpu()
            values = {"forces": _mean(pulled), **values, "forces rms": _root(pulled)}
        own = self._own(values["energy"] / MILLI / electronvolts(self.config.unit))
        return {**values, **own, "frames": float(len(missed))}

    def final(self, model: Built, part: str) -> dict[str, float]:
        """And the change of predictions under a random rotation of each molecule: rounding only, for a rotationally symmetric
        model.
        """
        space, device, first = _in_space(model, self.statistics), next(model.parameters()).device, 0
        energies, forces = [], []
        for t in self.frames.groups(part, AT_ONCE):
            many = len(t["numbers"])
            by = torch.stack([random_rotation(self.recipe.seed, part, row) for row in range(first, first + many)]).to(device)
            t = {name: tensor.to(device) for name, tensor in t.items()}
            numbers, cell = t["numbers"], t.get("cell")
            plain = space.energy_and_forces(numbers, t["positions"], cell)
            moved = space.energy_and_forces(numbers, t["positions"] @ by.mT, None if cell is None else cell @ by.mT)
            energies.append(moved.energy - plain.energy)
            forces.append((moved.forces - plain.forces @ by.mT)[numbers > 0].flatten())
            first += many
        errors = {"rotated energy": _mean(MILLI * torch.cat(energies).cpu())}
        if self.forceful:
            errors = {"rotated forces": _mean(MILLI * torch.cat(forces).cpu()), **errors}
        return self.evaluate(model, part) | errors

    @torch.no_grad()
    def outcomes(self, model: Built, part: str) -> Outcomes:
        """The errors of energies and forces, frame by frame; `final` adds the changes under rotations."""
        space, device = _in_space(model, self.statistics), next(model.parameters()).device
        true, predicted, atoms, forces = [], [], [], []  # type: list[float], list[float], list[int], list[tuple[float, float, int]]
        faults = Faults()
        for frame in self.frames.parts[part] if part == NEW else ():
            with faults.caught(frame.name):
                _check(frame, space)
        faults.check()
        for t in self.frames.groups(part, AT_ONCE):
            t = {name: tensor.to(device) for name, tensor in t.items()}
            there = t["numbers"] > 0
            if "forces" in t:
                found = space.energy_and_forces(t["numbers"], t["positions"], t.get("cell"))
                energy, missed = found.energy, MILLI * (found.forces - t["forces"]).double()
                known = there & t["known"][:, None] if "known" in t else there
                missed = torch.where(known[..., None], missed, 0.0)
                each = (missed.abs().sum((1, 2)), missed.square().sum((1, 2)), 3 * known.sum(-1))
                forces += list(zip(*(x.tolist() for x in each), strict=True))
            else:
                energy = space(t["numbers"], t["positions"], t.get("cell"))
            true, predicted, atoms = true + t["energy"].tolist(), predicted + energy.tolist(), atoms + there.sum(-1).tolist()
        for frame, value in zip(self.frames.parts[part], predicted, strict=True) if part == NEW else ():
            if not math.isfinite(value):
                faults.add(f"{frame.name}: {NOT_FINITE}", frame.name)
        faults.check()
        missed_energy = MILLI * np.abs(np.array(predicted) - np.array(true))
        found_measures = [
            mean("energy", missed_energy, unit="meV"), mean("energy an atom", missed_energy / np.array(atoms), unit="meV"),
            root_mean_square("energy rms", missed_energy**2, unit="meV"),
        ]  # fmt: skip
        if forces:
            absolute, square, count = np.array(forces).T
            found_measures = [
                mean("forces", absolute, count, "meV/Å"), *found_measures,
                root_mean_square("forces rms", square, count, "meV/Å"),
            ]  # fmt: skip
        names = [frame.name for frame in self.frames.parts[part]]
        return Outcomes(
            names, [f"{x:.4f} eV" for x in predicted], [f"{x:.4f} eV" for x in true], missed_energy, found_measures,
            {"frames": float(len(names))}, parity=[TrueAndPredicted("energy", "eV", np.array(true), np.array(predicted))],
            more=[{"energy": x, "true energy": y} for x, y in zip(predicted, true, strict=True)], whole=False,
        )  # fmt: skip

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        return [{"picture": drawn(self.frames.parts[part][row])} for row in rows]

    @property
    def simple_answer(self) -> Numbers:
        return BeyondAtoms(names=["energy"], mean=[0.0], deviation=[1.0])

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """How many atoms of each element a molecule has; its energy beyond those of its atoms and their mean binding."""
        known = [NUMBERS[symbol] for symbol in self.statistics.elements]
        counts = np.array([[(frame.numbers == n).sum() for n in known] for frame in self.frames.parts[part]], dtype=np.float64)
        energies = np.array([frame.energy for frame in self.frames.parts[part]])
        beyond = energies - counts @ np.array(self.statistics.references) - counts.sum(-1) * self.statistics.offset
        return counts, torch.from_numpy(beyond)[:, None].float()

    @torch.no_grad()
    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The energy of every frame in eV and, among the arrays, the forces in eV/Å. inputs: files, folders, archives of frames."""
        if options:
            raise UnknownName("option of the task molecules", next(iter(options)), [], "It has none.")
        space, device, predictions = _in_space(model, self.statistics), next(model.parameters()).device, []  # type: Any, Any, list[Prediction]
        faults = Faults()
        inputs_read = [
            frame for name in inputs for frame in frames(name, self.config.frame_format, labelled=False, faults=faults)[0]
        ]
        for frame in inputs_read:
            with faults.caught(frame.name):
                _check(frame, space)
        faults.check()
        for _, alike in groupby(inputs_read, lambda frame: frame.cell is None):
            group = list(alike)
            for few in batches([len(frame.numbers) for frame in group], AT_ONCE, PAIRS):
                t = {name: x.to(device) for name, x in joined(group[few]).items()}
                predicted = space.energy_and_forces(t["numbers"], t["positions"], t.get("cell"))
                known = self.atom_domain if group[0].cell is None else None
                far = known.distances(group[few]) if known is not None else np.full(len(group[few]), np.nan)
                predictions += map(self._prediction, group[few], predicted.energy.tolist(), predicted.forces.cpu(), far.tolist())
        return predictions

    def _prediction(self, frame: MoleculeFrame, energy: float, forces: Tensor, distance: float) -> Prediction:
        """forces [N, 3], with padding after those of the frame; distance: from the training part, NaN where it is unknown."""
        forces = forces[: len(frame.numbers)]
        if not (math.isfinite(energy) and bool(forces.isfinite().all())):
            raise InputError(f"{frame.name}: {NOT_FINITE}")
        far = {"distance": distance} if math.isfinite(distance) else {}
        warning = f"{frame.name} is unlike the training part (distance {distance:.3g}, limit 1)." if distance > 1 else ""
        if not self.forceful:
            each = {"eV an atom": energy / len(forces)}
            return Prediction(frame.name, f"{energy:.6f} eV", each, arrays={"energy": energy, **far}, warning=warning)
        largest = float(forces.norm(dim=-1).max())
        return Prediction(
            frame.name,
            f"{energy:.6f} eV",
            {"largest force": largest},
            arrays={"energy": energy, "forces": forces.tolist(), **far, **_geometry(frame)},
            warning=warning,
        )

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        raise InputError("A model of points in space has no row of words, patches or slices to look at. Ask it: equiscope predict.")

    @torch.no_grad()
    def samples(self, model: Built, step: int) -> list[Sample]:
        """Predicted energies of frames at regular intervals in the validation part."""
        frames_, count, space = self.frames.parts["validation"], self.recipe.evaluation.samples, _in_space(model, self.statistics)
        device, samples = next(model.parameters()).device, []  # type: Any, list[Sample]
        for frame in [frames_[i * len(frames_) // count] for i in range(min(count, len(frames_)))]:
            cell = None if frame.cell is None else frame.cell[None].to(device)
            energy = float(space(frame.numbers[None].to(device), frame.positions[None].to(device), cell))
            given = frame.name.rpartition("/")[2]
            samples.append(Sample(step=step, prompt=given, answer=f"{energy:.4f} eV", target=f"{frame.energy:.4f} eV"))
        return samples


def _in_space(model: nn.Module, statistics: EnergyStatistics) -> SpaceModel | AtomTransformer:
    """The model, or a transformer over atoms wrapped with the same interface."""
    if isinstance(model, Model):
        return AtomTransformer(model, statistics)
    if not isinstance(model, SpaceModel):
        raise InputError(f"Energies are of a model of points in space, but this is a {type(model).__name__}.")
    return model


def _geometry(frame: MoleculeFrame) -> dict[str, Any]:
    """The atoms of a frame, for a file of predicted frames."""
    symbols = [SYMBOLS[n - 1] for n in frame.numbers.tolist()]
    cell = {} if frame.cell is None else {"cell": frame.cell.tolist(), "pbc": list(frame.periodic)}
    return {"symbols": symbols, "positions": frame.positions.tolist(), **cell}


def _check(frame: MoleculeFrame, space: SpaceModel | AtomTransformer) -> None:
    """Raises InputError for a frame that the model cannot predict."""
    if not bool(frame.positions.isfinite().all()):
        raise InputError(f"{frame.name} has coordinates that are NaN or infinite. Give another file.")
    try:
        space.elements(frame.numbers)
    except InputError as error:
        raise InputError(f"{frame.name}: {error}") from error
    _, place, many = frame.positions.unique(dim=0, return_inverse=True, return_counts=True)
    if bool((many > 1).any()):
        first, second = (place == many.argmax()).nonzero()[:2, 0].tolist()
        raise InputError(f"{frame.name}: atoms {first + 1} and {second + 1} have the same position. Move one, or leave it out.")
    if frame.cell is not None and (isinstance(space, AtomTransformer) or space.spec.cutoff is None):
        raise InputError(
            f'{frame.name} is periodic, but this model has no cutoff. Say pbc="F F F" in the file, or train with model.cutoff.'
        )


def _mean(x: Tensor) -> float:
    return float(x.double().abs().mean())


def _root(x: Tensor) -> float:
    return float(x.double().square().mean().sqrt())
