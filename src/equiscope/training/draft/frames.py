"""Frames: molecules with energies, and forces where there are any."""

import hashlib
import math
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from equiscope.budgets import DAMAGED
from equiscope.data.faults import Faults
from equiscope.data.frame_files import cell_of, check_memory, molecule_files
from equiscope.errors import InputError, counted
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.points import read_frames
from equiscope.training.draft import points
from equiscope.training.draft.draft import RecipeDraft, extent, listed, title_of
from equiscope.training.draft.points import ENERGY
from equiscope.units import ENERGIES

FORCES = ("forces", "force", "REF_forces", "dft_forces", "F", "gradient")
POSITIONS, NUMBERS = ("coords", "R", "positions", "pos"), ("nuclear_charges", "z", "numbers", "atomic_numbers", "Z")
ATOM = {1: -13.6, 6: -1030.0, 7: -1486.0, 8: -2042.0, 9: -2713.0, 14: -7880.0, 16: -10835.0, 17: -12520.0}  # eV, all electrons
UNIT_KEYS = ("energy_unit", "energy_units", "unit", "units")  # in the comment of a frame
SPELLINGS = {name.lower(): name for name in ENERGIES} | {"ha": "hartree", "rydberg": "Ry"}


def of_files(path: Path) -> RecipeDraft:
    """A file of frames, or a folder of such: molecules with energies; or with other values, which become the task points."""
    files = molecule_files(path) if path.is_dir() else [path]
    if files[0].suffix.lower() != ".npz" and not any(name in ENERGY for name in read_frames(files[0])[0].values):
        return points.of_frames(path, files)
    content = _FrameFiles()
    for file in files:
        _npz(file, content) if file.suffix.lower() == ".npz" else _xyz(file, content)
    keys, numbers, energies, forced = content.keys, content.numbers, content.energies, content.forced
    first: dict[bytes, int] = {}
    twice = [row for row, one in enumerate(content.prints) if first.setdefault(one, row) < row]
    if not energies:
        raise InputError(f"{path} has molecules without energies, so there is nothing to learn. Name files with energies.")
    single = [row for row in numbers if len(row) == 1]
    left_out = set(twice)
    molecules = [
        (row, energy) for i, (row, energy) in enumerate(zip(numbers, energies, strict=True)) if len(row) > 1 and i not in left_out
    ]
    if len(molecules) < 20:
        raise InputError(f"{path} has {counted(len(molecules), 'molecule')} with energies, and 20 or more are needed.")
    elements = sorted({n for row, _ in molecules for n in row})
    compositions = [row for row, _ in molecules]
    formulas = {tuple(sorted(row)) for row, _ in molecules}
    unit, why, doubts = _stated_unit(content.units, *_unit(molecules))
    held = max(2, min(1000, len(molecules) // 10))
    understood = [
        f"{path} has {counted(len(molecules), 'frame')} of {counted(len(formulas), 'composition')}, of "
        f"{extent(list(map(len, compositions)))} atoms ({', '.join(SYMBOLS[n - 1] for n in elements)}).",
        f"Energies are called {keys['energy']}" + (f", forces {keys['forces']}." if forced else "; there are no forces."),
        why,
    ]
    if content.periodic:
        understood.append("They are periodic: an atom sees others, and their images, up to 5 Å away (model.cutoff).")
    warnings = doubts
    if unit == "?":
        warnings.append("The unit of the energies is not known: set data.unit before you trust a number.")
    if single:
        understood.append(f"Isolated atoms: {counted(len(single), 'frame')}. They are the reference energies, not examples.")
    divisor = 10
    data: dict[str, Any] = {
        "task": "molecules", "train": str(path), "keys": keys if forced else keys | {"forces": "none"},
        "unit": "eV" if unit == "?" else unit, "where": {"test": [divisor, 1]}, "held_out": held,
    }  # fmt: skip
    if twice:
        data["drop"] = {"train": twice}
        understood.append(
            f"{counted(len(twice), 'frame is a copy', 'frames are copies')} of an earlier one, and left out (data.drop): "
            f"{listed(list(map(str, twice)), 5)}."
        )
    understood.append(f"Every tenth frame is the test part, and {held} of the others choose the weights.")
    if len(formulas) * 3 < len(molecules):
        warnings.append(
            "Several frames have one composition: if they follow each other in one simulation, the test part is of moments near "
            "those learned from, and says nothing of another molecule."
        )
    small = len(molecules) < 300
    model = {
        "width": 32 if small else 64, "vectors": 16 if small else 32, "heads": 4, "layers": 2 if small else 3, "products": 8,
        "radial": 16, **({"cutoff": 5.0} if content.periodic or max(len(r) for r, _ in molecules) >= 30 else {}),
    }  # fmt: skip
    optimiser = {
        "kind": "muon", "rate": 2e-3, "muon_rate": 1e-2, "floor": 0.01, "decay": 0.0, "clip": 10.0, "betas": [0.9, 0.98],
        "average": 0.99,
    }  # fmt: skip
    comments = {
        "data.keys": "names in the files",
        "data.unit": "of the energies; forces are in it per Å",
        "data.where": "frames whose number leaves 1, divided by 10",
        "model.width": "of points in space: energies do not change when a molecule is rotated, and forces rotate with it",
    }
    example = [str(files[-1])]
    return RecipeDraft(
        title_of(path), data, model, len(molecules) * 9 // 10 - held, 100 if small else 60, 8 if forced else 32, understood,
        optimiser, {"samples": 2}, warnings, comments, {}, example,
    )  # fmt: skip


@dataclass
class _FrameFiles:
    """What files hold: the names of values, and of each frame its atomic numbers, energy and a digest of its atoms and places.

    forced  how many frames have forces; periodic: whether a frame is
    units   words for the unit of energies, which frames state
    """

    keys: dict[str, str] = field(default_factory=dict)
    numbers: list[list[int]] = field(default_factory=list)
    energies: list[float] = field(default_factory=list)
    prints: list[bytes] = field(default_factory=list)
    forced: int = 0
    periodic: bool = False
    units: set[str] = field(default_factory=set)

    def add(self, numbers: list[int], energy: float, at: np.ndarray) -> None:
        self.numbers.append(numbers)
        self.energies.append(energy)
        self.prints.append(hashlib.sha256(str(numbers).encode() + np.ascontiguousarray(at).tobytes()).digest())


def _npz(file: Path, content: _FrameFiles) -> None:
    keys = content.keys
    try:
        check_memory(file)
        with np.load(file, allow_pickle=False) as held:
            names = held.files
            for what, known in (("energy", ENERGY), ("forces", FORCES), ("positions", POSITIONS), ("numbers", NUMBERS)):
                if name := next((name for name in known if name in names), None):
                    keys.setdefault(what, name)
                elif what != "forces":
                    raise InputError(
                        f"{file} has the arrays {listed(names)}: none is known as {what} of molecules ({', '.join(known)}), and "
                        "pictures are called images and labels. Rename them, or write the recipe by hand: docs/howto/data.md."
                    )
            at, z = held[keys["positions"]], held[keys["numbers"]]
            rows = np.broadcast_to(z, at.shape[:2]) if z.ndim == 1 else z
            energies = np.asarray(held[keys["energy"]], np.float64).reshape(-1).tolist()
            for row, energy, places in zip(rows.tolist(), energies, at, strict=False):
                content.add([n for n in row if n > 0], energy, places)
            content.forced += len(at) if "forces" in keys else 0
    except (*DAMAGED, MemoryError, NotImplementedError, RuntimeError, SyntaxError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} cannot be read: {str(error).rstrip('.')}. Give an .npz file of numbers.") from error


def _xyz(file: Path, content: _FrameFiles) -> None:
    keys, faults = content.keys, Faults("Take these frames out.")
    for row, frame in enumerate(read_frames(file)):
        where = f"{file}, frame {row}"
        known = [keys["energy"]] if "energy" in keys else ENERGY
        energy = next((name for name in known if isinstance(frame.values.get(name), int | float)), None)
        if energy is None:
            values = listed([name for name in frame.values if name != "comment"]) or "none"
            if "energy" not in keys:
                raise InputError(
                    f"{where} has no known energy ({', '.join(ENERGY)}); its values are: {values}. Write its name "
                    "into a recipe as data.keys.energy: docs/howto/data.md."
                )
            faults.add(f"{where} has no {keys['energy']}; its values are: {values}.", where)
            continue
        keys.setdefault("energy", energy)
        if force := next((name for name in FORCES if isinstance(frame.values.get(name), torch.Tensor)), None):
            keys.setdefault("forces", force)
            content.forced += 1
        value = frame.values[energy]
        assert isinstance(value, int | float)
        assert frame.numbers is not None
        if not math.isfinite(value):
            faults.add(f"{where} has the energy {value}.", where)
        with faults.caught(where):
            content.periodic = content.periodic or cell_of(frame, where) is not None
        content.units.update(str(frame.values[key]) for key in UNIT_KEYS if key in frame.values)
        content.add(frame.numbers.tolist(), float(value), frame.positions.numpy())
    faults.check()


def _stated_unit(stated: set[str], guess: str, why: str) -> tuple[str, str, list[str]]:
    """The unit that the frames state, or else the guess; why; and what is doubtful."""
    if not stated:
        return guess, why, []
    words = listed([repr(word) for word in sorted(stated)])
    unit = SPELLINGS.get(next(iter(stated)).lower()) if len(stated) == 1 else None
    if unit is None:
        known = ", ".join(ENERGIES)
        return guess, why, [f"Frames state the unit {words}, which is not one of {known}, so it is not used. Set data.unit."]
    doubts = [] if guess in (unit, "?") else [f"Frames state the unit {words}. However: {why} Set data.unit to the right one."]
    return unit, f"Energies are in {unit}, as the frames state.", doubts


def _unit(molecules: list[tuple[list[int], float]]) -> tuple[str, str]:
    """The unit in which the energies are about those of all electrons of these atoms; "?" where none fits."""
    rows = [(sum(ATOM[n] for n in row), energy) for row, energy in molecules if all(n in ATOM for n in row)]
    if rows and all(energy for _, energy in rows):
        ratio = float(np.median([energy / wanted for wanted, energy in rows]))
        for unit, size in ENERGIES.items():
            if 0.8 < ratio * size < 1.25:
                return unit, f"By their size the energies are in {unit}: those of all electrons of these atoms."
    counts = Counter(len(row) for row, _ in molecules)
    mean = sum(energy for _, energy in molecules) / sum(n * count for n, count in counts.items())
    if -12 < mean < -2:
        return "eV", f"{mean:.2g} an atom: taken for eV of bound valence electrons. See that it is so."
    return "?", f"{mean:.3g} an atom on average: no unit in which that is usual is known."
