"""Files of frames: molecules with computed energies and forces, in the names and units of each file.

All values are converted to eV, Å and eV/Å; names and units are never guessed.
"""

import math
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from equiscope import budgets
from equiscope.budgets import DAMAGED, OPENERS, archive, undamaged
from equiscope.data.faults import Faults
from equiscope.data.files import find_files, is_archive, is_hidden, member_name, open_file
from equiscope.data.frame import MoleculeFrame
from equiscope.data.isolated_atoms import charge, is_isolated
from equiscope.errors import InputError, counted, did_you_mean, sentences
from equiscope.geometry import filled
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.molecule_files import xyz
from equiscope.tokens.points import Points, read_frames
from equiscope.units import Energy, Length, angstrom, electronvolts

EMPTY = 200.0  # angstrom, farther than any cutoff
ENDINGS = (".npz", ".xyz", ".extxyz", ".sdf", ".cjson")
FRAMES = f"Frames are in files that end in {', '.join(ENDINGS)}; in an archive, in .xyz or .extxyz."


class Keys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names in a file of frames.

    energy   of a frame
    forces   on each atom; "none" if the files have no forces
    positions  of the atoms, in .npz
    numbers  atomic numbers, in .npz: of each frame, or common to all
    """

    energy: str = "energy"
    forces: str | None = "forces"
    positions: str = "coords"
    numbers: str = "nuclear_charges"


@dataclass(frozen=True)
class FrameFormat:
    """How files are read: names, units, and the table of energies with its column."""

    keys: Keys
    unit: Energy = "eV"
    length: Length = "angstrom"
    table: str | None = None
    column: int = 2

    @property
    def energy(self) -> float:
        return electronvolts(self.unit)

    @property
    def angstrom(self) -> float:
        return angstrom(self.length)


def frames(
    name: str, frame_format: FrameFormat, recipe_folder: Path | None = None, labelled: bool = True, faults: Faults | None = None
) -> tuple[list[MoleculeFrame], list[Path]]:  # fmt: skip
    """All frames of the files of a name, including folders and archives, and those files.

    A frame without forces records why: whether that is an error depends on the other frames.
    labelled  whether to read energies and forces; otherwise an energy is NaN
    faults    to which those of the files are added; by default they are raised
    raises  InputError with the file and frame that has no energy, unequal lengths or NaN
    """
    paths = [file for path in find_files(name, recipe_folder) for file in (molecule_files(path) if path.is_dir() else [path])]
    read: list[MoleculeFrame] = []
    energies: dict[str, float] | None = None
    own = Faults() if faults is None else faults
    known, count = bool(own.found), 0
    for path in paths:
        if not is_archive(path) and _kind(path) not in ENDINGS:
            own.add(f"{path} is no file of frames. {FRAMES}", str(path))
            continue
        if path.suffix.lower() == ".npz":
            with own.caught(str(path)):
                some = _arrays(path, frame_format, count, labelled)
                read, count = [*read, *some], count + len(some)
            continue
        if labelled and frame_format.table is not None and (energies is None or is_archive(path)):
            energies = _table(path, frame_format, recipe_folder)
        for where, content in point_files(path):
            with own.caught(where):
                points = content()
                for row, one in enumerate(points):
                    label = f"{where}, frame {row}" if len(points) > 1 else where
                    number = count if energies is None else _number_of(where)
                    count += 1
                    with own.caught(label):
                        read.append(_frame(one, label, number, where, frame_format, energies, labelled))
    if not read and bool(own.found) == known:
        own.add(f"{name} holds no frames. {FRAMES}")
    if faults is None:
        own.check()
    return read, paths


def molecule_files(folder: Path) -> list[Path]:
    """The molecule files in a folder and its subfolders, sorted."""
    inner = budgets.listed(folder.rglob("*"), folder)
    files = sorted(f for f in inner if _kind(f) in ENDINGS and f.is_file() and not is_hidden(f.relative_to(folder)))
    if not files:
        raise InputError(f"{folder} has no file of molecules ({', '.join(ENDINGS)}).")
    return files


def _kind(path: Path) -> str:
    """The file's suffix, without that of its compression."""
    return next((s for s in map(str.lower, reversed(path.suffixes)) if s not in OPENERS), "")


def point_files(path: Path) -> Iterator[tuple[str, Callable[[], list[Points]]]]:
    """Each molecule file, and a function that reads its points."""
    if not is_archive(path):
        yield str(path), lambda: read_frames(path)
        return
    with undamaged(path), archive(path) as held:
        for one in held:
            if Path(one.name).suffix.lower() in (".xyz", ".extxyz") and not is_hidden(Path(one.name)):
                where = f"{path}: {one.name}"
                yield where, partial(xyz, Path(where), held.read(one))


def _frame(
    one: Points, name: str, number: int, where: str, frame_format: FrameFormat, energies: dict[str, float] | None, labelled: bool
) -> MoleculeFrame:  # fmt: skip
    keys, names = frame_format.keys, ", ".join(one.values) or "none"
    if one.numbers is None:
        raise InputError(f"{name} has points without elements, which are no molecule. Give .xyz, .extxyz, .sdf or .cjson.")
    if _kind(Path(member_name(where))) not in (".xyz", ".extxyz"):
        frame_format = replace(frame_format, length="angstrom")  # the format says it
    if not labelled:
        frame = _checked(name, number, one.numbers, one.positions, math.nan, None, cell_of(one, name), frame_format)
        return replace(frame, periodic=periodic_of(one, name))
    if energies is not None:
        file = Path(member_name(where)).name
        if file not in energies:
            raise InputError(f"{frame_format.table} has no energy for {file}. Leave the file out, or add its line.")
        energy: Any = energies[file]
    else:
        if keys.energy not in one.values:
            next_step = sentences(did_you_mean(keys.energy, one.values), "Set data.keys.energy.")
            raise InputError(f"{name} has no value {keys.energy!r}; its values are: {names}. {next_step}")
        energy = one.values[keys.energy]
        if isinstance(energy, bool) or not isinstance(energy, int | float):
            raise InputError(
                f"{name}: {keys.energy} is {energy!r}, but an energy is one number. Correct it, or set data.keys.energy."
            )
    forces = None if keys.forces is None else one.values.get(keys.forces)
    missing_forces = ""
    if keys.forces is not None and not isinstance(forces, Tensor):
        forces, missing_forces = None, f"{name} has no forces {keys.forces!r}; its values are: {names}"
    frame = _checked(name, number, one.numbers, one.positions, energy, forces, cell_of(one, name), frame_format)
    isolated = is_isolated(name, frame.numbers, frame.cell, one.values)
    return replace(
        frame, isolated=isolated, charge=charge(one.values), missing_forces=missing_forces, periodic=periodic_of(one, name)
    )


def periodic_of(one: Points, name: str) -> tuple[bool, ...]:
    """Along which vectors of their cell points are periodic. Raises InputError if `pbc` is neither T nor F, or without a cell."""
    pbc = one.values.get("pbc", one.cell is not None)
    words = pbc if isinstance(pbc, list) else re.findall(r"\w+", pbc) if isinstance(pbc, str) else [pbc]
    words = list(words[0]) if len(words) == 1 and re.fullmatch("[TFtf]{3}", str(words[0])) else words
    words = [str(int(word)) if word in (0.0, 1.0) else str(word).lower() for word in words]  # 1.0 and True are 1
    if odd := [word for word in words if word not in REPEATS]:
        raise InputError(f"{name} says pbc = {pbc}, but {odd[0]!r} is neither T nor F.")
    periodic = tuple(REPEATS[word] for word in words)
    if len(periodic) not in (0, 1, 3):
        raise InputError(f"{name} says pbc = {pbc}, which is neither one word nor one for each of three vectors.")
    if any(periodic) and one.cell is None:
        raise InputError(f'{name} is periodic, but says no Lattice. Add it, or say pbc="F F F".')
    return periodic if len(periodic) == 3 else (bool(periodic) and periodic[0],) * 3


def cell_of(one: Points, name: str) -> Tensor | None:
    """The cell of points that are periodic; None if they are not. Where they are periodic along some of its vectors only, as a
    slab is, images along the others are EMPTY away. Raises InputError as `periodic_of`.
    """
    periodic = periodic_of(one, name)
    if one.cell is None or not any(periodic):
        return None
    try:
        return one.cell if all(periodic) else filled(one.cell, periodic, one.positions, EMPTY)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


REPEATS = {"t": True, "true": True, "1": True, "yes": True, "f": False, "false": False, "0": False, "no": False, "none": False}


def _checked(
    name: str, number: int, numbers: Tensor, at: Tensor, energy: float, forces: Tensor | None, cell: Tensor | None,
    frame_format: FrameFormat,
) -> MoleculeFrame:  # fmt: skip
    if not len(numbers):
        raise InputError(f"{name} has no atom: none of its atomic numbers is above 0. Correct it, or leave it out.")
    if not bool(((numbers >= 1) & (numbers <= len(SYMBOLS))).all()):
        raise InputError(
            f"{name} has atoms with numbers {numbers.tolist()[:8]}, but elements are 1 to {len(SYMBOLS)}. Correct them."
        )
    if forces is not None and forces.shape != at.shape:
        raise InputError(f"{name} has {counted(len(at), 'atom')}, but forces of shape {tuple(forces.shape)}.")
    by, long = frame_format.energy, frame_format.angstrom
    forces = None if forces is None else forces.double() * (by / long)
    cell = None if cell is None else cell.double() * long
    return MoleculeFrame(name, number, numbers.long(), at.double() * long, float(energy) * by, forces, cell)


def _arrays(path: Path, frame_format: FrameFormat, begin: int, labelled: bool) -> list[MoleculeFrame]:
    """Frames of an .npz file: positions [F, N, 3], energies [F], forces [F, N, 3], elements [N] or [F, N], 0 for no atom."""
    keys = frame_format.keys
    if labelled and frame_format.table is not None:
        raise InputError(f"data.table says energies of files of one molecule each, but {path} is .npz. Leave one of them out.")
    arrays: dict[str, Any] = {}
    missing_forces = ""
    try:
        check_memory(path)
        with np.load(path, allow_pickle=False) as file:
            for field, key in msgspec.structs.asdict(keys).items():
                if key is None or (not labelled and field in ("energy", "forces")):
                    continue
                if key not in file.files:
                    missing_forces = f"{path} has no array {key!r}; it has: {', '.join(file.files)}"
                    if field == "forces":
                        continue
                    raise InputError(sentences(f"{missing_forces}.", did_you_mean(key, file.files), f"Set data.keys.{field}."))
                arrays[field] = file[key]
    except (*DAMAGED, MemoryError, NotImplementedError, RuntimeError, SyntaxError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        why = "it holds Python objects, which are not read" if "allow_pickle" in str(error) else str(error).rstrip(".")
        raise InputError(f"{path} cannot be read: {why}. Give an .npz file of numbers.") from error
    for field, array in arrays.items():
        if array.dtype.kind not in "iuf":
            raise InputError(
                f"{path}: {getattr(keys, field)} has values of the type {array.dtype}, and real numbers are needed. Save those."
            )
    at = arrays["positions"]
    shape = at.shape
    if at.ndim != 3 or shape[2] != 3:
        raise InputError(f"{path}: {keys.positions} has shape {shape}, but places are [frames, atoms, 3].")
    energies = np.atleast_1d(arrays.get("energy", np.full(len(at), np.nan)))
    energies = energies.reshape(-1) if energies.size == len(energies) else energies
    numbers = np.broadcast_to(arrays["numbers"], shape[:2]) if arrays["numbers"].shape == shape[1:2] else arrays["numbers"]
    wanted = {"energy": shape[:1], "forces": shape, "numbers": shape[:2]}
    for field, array in (("energy", energies), ("forces", arrays.get("forces")), ("numbers", numbers)):
        if array is not None and array.shape != wanted[field]:
            raise InputError(
                f"{path}: {getattr(keys, field)} has shape {array.shape}, but {keys.positions} is of {shape[0]} frames with "
                f"{shape[1]} atoms. They have to be of the same frames."
            )
    frames_, all_forces = [], arrays.get("forces")
    for row in range(shape[0]):
        there = numbers[row] > 0
        forces = None if all_forces is None else torch.from_numpy(all_forces[row][there].astype(np.float64))
        frame = _checked(
            f"{path}, frame {row}", begin + row, torch.from_numpy(numbers[row][there].astype(np.int64)),
            torch.from_numpy(at[row][there].astype(np.float64)), float(energies[row]), forces, None, frame_format,
        )  # fmt: skip
        frames_.append(replace(frame, isolated=len(frame.numbers) == 1, missing_forces=missing_forces))
    return frames_


def check_memory(path: Path) -> None:
    """Raise InputError for what is not an .npz file, or one whose arrays are larger than the budget."""
    budgets.regular(path, "an .npz file of numbers")
    with zipfile.ZipFile(path) as held:
        total, most = sum(one.file_size for one in held.infolist()), budgets.unfolded(path)
    if total > most:
        raise budgets.OverBudget(
            f"{path} unfolds to {budgets.size(total)}, but at most {budgets.size(most)} are read. Save fewer frames in a file."
        )


def check_finite(some: Sequence[MoleculeFrame], faults: Faults, part: str = "") -> None:
    """Add a fault for each frame with NaN or infinite values. part: of a recipe, which can leave frames out."""
    way = f"Leave it out by its number: data.drop.{part}." if part else "Take it out of the file."
    for frame in some:
        values = {"coordinates": frame.positions, "energies": torch.tensor(frame.energy), "forces": frame.forces}
        if what := [name for name, one in values.items() if one is not None and not bool(one.isfinite().all())]:
            faults.add(f"{frame.name} has {' and '.join(what)} that are no numbers (NaN or infinite). {way}", frame.name)


def _number_of(where: str) -> int:
    """The number in the name of a file with one molecule."""
    digits = "".join(sign for sign in Path(member_name(where)).stem if sign.isdecimal())
    if not digits:
        raise InputError(f"{where} has no number in its name, by which data.drop and data.where could name it. Rename it.")
    return int(digits)


def _table(path: Path, frame_format: FrameFormat, recipe_folder: Path | None) -> dict[str, float]:
    """Energies by file name, from a table within the archive or beside it: NAME, and numbers in columns."""
    assert frame_format.table is not None
    table, where = None, frame_format.table
    try:
        if is_archive(path):
            with archive(path) as held:
                for one in held:
                    if frame_format.table in (one.name, Path(one.name).name):
                        table = held.read(one)
        if table is None:
            where = str(find_files(frame_format.table, recipe_folder)[0])
            with open_file(Path(where)) as file:
                table = file.read()
        lines = table.decode("utf-8").splitlines()
    except DAMAGED as error:
        raise error if isinstance(error, InputError) else InputError(f"{where} cannot be read: {error}.") from error
    energies = {}
    for at, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        try:
            energies[words[0]] = float(words[frame_format.column - 1])
        except (ValueError, IndexError) as error:
            raise InputError(
                f"{where}, line {at} has no number in column {frame_format.column}: {line[:60]!r}. Set data.column."
            ) from error
    return energies
