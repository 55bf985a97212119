"""`equiscope explore MOLECULE`: a page on which a molecule is rotated and models are evaluated again."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from equiscope import budgets, trained
from equiscope.budgets import OPENERS
from equiscope.cli.explore import PageOutput, is_run
from equiscope.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from equiscope.explore.space.solvers import Solving
    from equiscope.geometry import PointSpec

KINDS = (".xyz", ".extxyz", ".cjson", ".sdf")
OTHER = "Give the folder of a run that learned molecules, or a spec (.json) with elements."


def is_molecule(words: str) -> bool:
    """Whether an argument names the file of a molecule, existing or not."""
    path = Path(words)
    if (Path(path.stem) if path.suffix.lower() in OPENERS else path).suffix.lower() not in KINDS:
        return False
    return not any(letter.isspace() for letter in words.strip()) or os.path.isfile(words)  # which says no to what is no name at all


def run(
    path: Path, model: str | None, side_by_side: str | None, frame: int, others: list[str], seed: int, output: PageOutput
) -> None:  # fmt: skip
    """Raises InputError for a file that is no molecule, a model that does not take one, and options of other pages."""
    from equiscope.explore.pages.molecule import molecule
    from equiscope.explore.space.solvers import plain

    if others:
        raise InputError(f"{path} is a molecule, which takes no {' and no '.join(others)}. Leave that out.")

    def models(numbers: "Tensor") -> "list[Solving]":
        mine = _solving("given", str(model), numbers, seed)
        return [mine, plain(numbers, seed) if side_by_side is None else _solving("beside", side_by_side, numbers, seed)]

    output.show(molecule(path, None if model is None else models, frame, seed))


def attribution(path: Path, model: str | None, frame: int, others: list[str], seed: int, output: PageOutput) -> None:
    """The page of which atoms decide an energy. Raises InputError as `run` does, and without a model."""
    from equiscope.explore.pages.attribution import of_molecule
    from equiscope.explore.pages.molecule import chosen_frame
    from equiscope.geometry import SpaceModel

    if others:
        raise InputError(f"{path} is a molecule, which takes no {' and no '.join(others)}. Leave that out.")
    if model is None:
        raise InputError("--attribution needs a model. Add --model: the folder of a run that learned molecules, or ethanol.")
    points = chosen_frame(path, frame)
    assert points.numbers is not None
    solving = _solving("given", model, points.numbers, seed)
    if not isinstance(solving.model, SpaceModel):
        raise InputError(f"{model} is no model of points in space, so no atom can be removed from its messages. {OTHER}")
    notes = [] if solving.trained else ["The weights are random: the energies mean nothing in nature."]
    name = model if trained.find(model) else Path(model).resolve().name
    output.show(of_molecule(solving.model, points, f"{name}: {path.name}", name, solving.unit, notes))


def _solving(name: str, source: str, numbers: "Tensor", seed: int) -> "Solving":
    """The model of a run or of a spec. Raises InputError where it is no model of points in space, or reads no energy."""
    from equiscope.checkpoints import load
    from equiscope.data.molecules import EnergyStatistics
    from equiscope.explore.space.solvers import drawn, in_space, learned
    from equiscope.geometry import SpaceModel
    from equiscope.models import Model
    from equiscope.training.molecules import STATISTICS

    path, is_trained = trained.path_of(source), is_run(source)
    model = load(path) if is_trained else drawn(_spec(path), seed)
    if is_trained and isinstance(model, Model) and (path / STATISTICS).is_file():
        solver = learned(name, model, budgets.decoded(budgets.read(path / STATISTICS), EnergyStatistics), numbers)
        return replace(solver, title=f"{path.name} (plain)")
    if not isinstance(model, SpaceModel):
        raise InputError(f"{source} is no model of points in space, which knows elements and places. {OTHER}")
    if model.spec.readout != "energy":
        raise InputError(f'The page shows energies, but {source} reads "{model.spec.readout}". Give a model that reads an energy.')
    solver = in_space(name, model.double().eval(), numbers, None if is_trained else seed, "eV" if is_trained else "")
    return replace(solver, title=f"{path.stem} ({solver.group})")


def _spec(path: Path) -> "PointSpec":
    from equiscope.geometry import PointSpec
    from equiscope.spec_base import read_object

    if path.suffix != ".json":
        raise InputError(f"{path} is no run and no spec of points in space. {OTHER}")
    data = read_object(path, f" {OTHER}", "the spec of a model of points in space")
    if "elements" not in data:
        raise InputError(f"{path} is a spec, but of no model of points in space, which has elements. {OTHER}")
    return PointSpec.of(data)
