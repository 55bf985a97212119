"""Molecules: frames of simulations, or one of each molecule, become atoms with energies and forces, padded to the largest of a
batch.

Energies are learned relative to isolated atoms; the reference energies and the scale of forces come from the training part.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.data.faults import Faults
from equiscope.data.files import sources
from equiscope.data.frame import MoleculeFrame
from equiscope.data.frame_files import FrameFormat, Keys, check_finite, frames
from equiscope.data.isolated_atoms import energies, fit_bonds
from equiscope.data.length_unit import check_length_unit
from equiscope.data.random_rotation import random_rotation, rotated
from equiscope.data.sampler import Sampler, derived_seed
from equiscope.errors import InputError, counted
from equiscope.spec_base import Size
from equiscope.tokens.elements import NUMBERS, SYMBOLS
from equiscope.units import ENERGIES, Energy, Length

Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Part = Literal["train", "validation", "test"]
FITTED = ("atoms", "fitted")  # words of data.references that are no file
SAME = 0.05  # how near a ratio of energies is to that of two units, where it is taken for one
FEWER = 0.5  # of what atoms alone have: an energy below that share, or above its inverse, is in another unit


class LossWeights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the terms in the loss, each divided by the scale of forces.

    energy  weight of the error of the energy per atom
    forces  weight of the error of a force component
    """

    energy: Amount = 1.0
    forces: Amount = 1.0


class Molecules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="molecules", tag_field="task"):
    """Molecules with their energies and forces.

    train       a file of frames (.npz, .xyz or .extxyz, also .gz or .xz), many with *, or an archive (.tar, .zip) of .xyz files
    validation  frames that choose the best weights; by default some frames of `train` are held out
    test        frames that are evaluated once, at the end
    keys        names of the energies, forces, positions and atomic numbers in the files
    unit        of energies in the files; the model and its predictions use eV and Å
    length      unit of positions in the files; forces are in `unit` per `length`
    table       file with the energies, one line for each molecule file: NAME and numbers; in the archive or beside it
    column      of the table; NAME is the first
    drop        frames to leave out of a part's file, by number from 0, e.g. {test = [209, 431]}; files of a table by their own
                number
    where       frames of `train` that belong to another part, by [divisor, remainder] of their number: {test = [5, 1]}
    train_count  number of training frames; by default all that remain
    held_out    number of frames of `train` for the validation part, if neither `validation` nor `where` defines it
    split       which frames are chosen: "random", by the seed; or "first": the first frames are trained on, the last are held out
    references  energy of an isolated atom of each element: "atoms" takes single-atom frames of `train` and fits elements without
                one; "fitted" is a least-squares fit to the training part; or a file of single-atom frames
    scale       of forces, in eV/Å; by default their root mean square in the training part
    loss        of a difference: "absolute", "square", or "huber" (square below 0.01 of the scale)
    weights     of energies and forces in the loss
    random_rotation  whether to rotate each training frame at random, together with its forces: for a model without rotational
                     symmetry
    """

    train: str
    validation: str | None = None
    test: str | None = None
    keys: Keys = msgspec.field(default_factory=Keys)
    unit: Energy = "eV"
    length: Length = "angstrom"
    table: str | None = None
    column: Annotated[int, msgspec.Meta(ge=2)] = 2
    drop: dict[Part, list[Count]] = {}
    where: dict[Literal["validation", "test"], tuple[Count, Count]] = {}
    train_count: Size | None = None
    held_out: Size = 50
    split: Literal["random", "first"] = "random"
    references: str = "atoms"
    scale: Positive | None = None
    loss: Literal["absolute", "square", "huber"] = "absolute"
    weights: LossWeights = msgspec.field(default_factory=LossWeights)
    random_rotation: bool = False

    @property
    def frame_format(self) -> FrameFormat:
        """How its files are read."""
        return FrameFormat(self.keys, self.unit, self.length, self.table, self.column)


class EnergyStatistics(Struct, frozen=True, kw_only=True):
    """Statistics of the training part that a model's output is scaled with.

    elements    symbols, in the order of their atomic numbers; references: energy of an isolated atom of each, in eV
    scale       of forces, in eV/Å; without forces, of the energy per atom in eV
    offset      mean energy per atom above the references, in eV
    """

    elements: list[str]
    references: list[float]
    scale: float
    offset: float

    def __post_init__(self) -> None:
        """Check values from a file: msgspec turns a ValueError into a DecodeError."""
        if not self.elements or len(self.elements) != len(self.references) or not set(self.elements) <= set(SYMBOLS):
            raise ValueError("elements, each with its reference, are needed")
        if not all(map(math.isfinite, (*self.references, self.offset))) or not 0 < self.scale < math.inf:
            raise ValueError("references and offset are finite, and the scale is positive")


class Frames:
    """The frames of a `Molecules` recipe, opened and checked.

    raises  InputError with the file and frame that is missing, unreadable, unlike the others, or in another unit
    """

    def __init__(self, config: Molecules, seed: int = 0, recipe_folder: Path | None = None) -> None:
        self.config, self.seed = config, seed
        named = {"train": config.train, "validation": config.validation, "test": config.test}
        whole, paths, alone = {}, {}, {}  # type: dict[str, list[MoleculeFrame]], dict[str, list[Path]], dict[str, list[MoleculeFrame]]
        read, faults = {}, Faults()  # type: dict[str, list[MoleculeFrame]], Faults
        for part, name in named.items():
            if name is not None:
                read[part], paths[part] = frames(name, config.frame_format, recipe_folder, faults=faults)
                check_finite([frame for frame in read[part] if frame.number not in _dropped(config, part)], faults, part)
        faults.check()
        for part, some in read.items():
            some = without_dropped(config, part, some)
            whole[part], alone[part] = [f for f in some if not f.isolated], [f for f in some if f.isolated]
            if not whole[part]:
                raise InputError(f"{named[part]} has isolated atoms and no molecule. They are references: data.references.")
        _partial_forces(config, "train", whole["train"])
        self.parts = split_frames(config, whole, seed)
        _check_no_overlap(self.parts, set(whole))
        self.periodic = _is_periodic(self.parts)
        self.partial = {part: _partial_forces(config, part, some) for part, some in self.parts.items()}
        if config.references not in FITTED:
            alone["train"], paths["references"] = _references(config, recipe_folder)
        fitted = energy_statistics(config, self.parts["train"])
        self.statistics, self.notes = with_isolated_references(config, self.parts["train"], alone, fitted)
        self.notes += _missing_force_notes(self.parts)
        for part, some in self.parts.items():
            _check_unit(config, part, some, fitted, self.parts["train"])
        for part in set(whole) - {"train"}:
            check_length_unit(config.length, part, self.parts["train"], self.parts[part])
        self.sources = sources(paths)
        self.sampler = Sampler(len(self.parts["train"]), seed)

    @classmethod
    def from_files(cls, config: Molecules, statistics: EnergyStatistics, part: str, names: Sequence[str]) -> Self:
        """New frames as the one part, read like those of a run. Raises InputError for other elements or another unit than the
        run's.
        """
        frames_ = cls.__new__(cls)
        frames_.config, frames_.statistics = config, statistics
        read, paths, faults = [], [], Faults()  # type: list[MoleculeFrame], list[Path], Faults
        for name in names:
            some, files = frames(name, config.frame_format, faults=faults)
            check_finite(some, faults)
            read, paths = [*read, *some], [*paths, *files]
        _check_elements(part, [frame for frame in read if not frame.isolated], statistics, faults)
        faults.check()
        isolated = [frame for frame in read if frame.isolated]
        frames_.parts = {part: [frame for frame in read if not frame.isolated]}
        if not frames_.parts[part]:
            raise InputError(f"{', '.join(names)} has isolated atoms and no molecule to evaluate.")
        frames_.periodic = _is_periodic(frames_.parts)
        lacking = sum(frame.forces is None for frame in frames_.parts[part])
        frames_.partial = {part: config.keys.forces is not None and 0 < lacking < len(frames_.parts[part])}
        frames_.notes = [
            *(
                [
                    f"{counted(len(isolated), 'isolated atom is', 'isolated atoms are')} left out of the evaluation; "
                    f"the first: {isolated[0].name}."
                ]
                if isolated
                else []
            ),
            *_missing_force_notes(frames_.parts),
        ]
        _check_unit(config, part, frames_.parts[part], statistics)
        frames_.sources = sources({part: paths})
        return frames_

    def batch(self, step: int, size: int, share: int = 0, shares: int = 1) -> dict[str, Tensor]:
        """The frames share, share + shares, ... of a step."""
        some, train = self.sampler.batch(step, size)[share::shares], self.parts["train"]
        if self.config.random_rotation:
            rows = [rotated(train[example], random_rotation(self.seed, epoch, example)) for epoch, example in some]
        else:
            rows = [train[example] for _, example in some]
        return joined(rows, self.partial["train"])

    def groups(self, part: str, size: int) -> Iterator[dict[str, Tensor]]:
        """All frames of a part in order, `size` at a time."""
        some = self.parts[part]
        for first in range(0, len(some), size):
            yield joined(some[first : first + size], self.partial[part])


def joined(some: Sequence[MoleculeFrame], partial: bool = False) -> dict[str, Tensor]:
    """Frames padded to the largest: numbers [B, N], 0 for no atom, positions [B, N, 3], energy [B], forces [B, N, 3], cell [B, 3,
    3].

    partial  for a part in which some frames have forces: known [B] marks them; the forces of others are 0
    """
    longest = max(len(frame.numbers) for frame in some)

    def padded(x: Tensor) -> Tensor:
        return torch.cat([x, x.new_zeros(longest - len(x), *x.shape[1:])])

    tensors = {
        "numbers": torch.stack([padded(frame.numbers) for frame in some]),
        "positions": torch.stack([padded(frame.positions) for frame in some]),
        "energy": torch.tensor([frame.energy for frame in some], dtype=torch.float64),
    }
    if partial:
        tensors["known"] = torch.tensor([frame.forces is not None for frame in some])
    forces = [
        padded(frame.positions.new_zeros(frame.positions.shape) if frame.forces is None else frame.forces)
        for frame in some
        if partial or frame.forces is not None
    ]
    cells = [frame.cell for frame in some if frame.cell is not None]
    return tensors | ({"forces": torch.stack(forces)} if forces else {}) | ({"cell": torch.stack(cells)} if cells else {})


# --- parts ------------------------------------------------------------------------------------------------------------
def without_dropped(config: Molecules, part: Part | str, read: list[MoleculeFrame]) -> list[MoleculeFrame]:
    """The frames of a file without those that the recipe drops."""
    dropped = _dropped(config, part)
    if unknown := sorted(dropped - {frame.number for frame in read}):
        raise InputError(
            f"data.drop.{part} leaves {unknown[0]} out, but the frames are {read[0].number} to {read[-1].number}. Correct it."
        )
    kept = [frame for frame in read if frame.number not in dropped]
    if not kept:
        raise InputError(f"data.drop.{part} leaves no frame of the {part} part. Drop fewer.")
    return kept


def _dropped(config: Molecules, part: Part | str) -> set[int]:
    return set(next((rows for name, rows in config.drop.items() if name == part), ()))


def split_frames(config: Molecules, whole: dict[str, list[MoleculeFrame]], seed: int) -> dict[str, list[MoleculeFrame]]:
    """Frames by part: those selected by `where` leave `train`; without a validation part, some are held out."""
    parts: dict[str, list[MoleculeFrame]] = {"train": whole["train"], **{p: some for p, some in whole.items() if p != "train"}}
    for part, (by, rest) in config.where.items():
        if part in whole:
            raise InputError(f"The {part} part is defined twice: by data.{part} and by data.where.{part}. Leave one out.")
        if rest >= by:
            raise InputError(f"data.where.{part} is [{by}, {rest}], but what is left by {by} is less than {by}.")
        parts[part] = [frame for frame in parts["train"] if frame.number % by == rest]
        parts["train"] = [frame for frame in parts["train"] if frame.number % by != rest]
        if not parts[part]:
            raise InputError(f"No frame of {config.train} has a number that leaves {rest} by {by}. Change data.where.{part}.")
    some = parts["train"]
    held = 0 if "validation" in parts else config.held_out
    learned = config.train_count if config.train_count is not None else len(some) - held
    if learned < 1 or learned + held > len(some):
        raise InputError(
            f"{config.train} has {counted(len(some), 'frame')} for this, but {max(learned, 1)} are for training and "
            f"{held} held out. "
            "Change data.train_count or data.held_out."
        )
    if config.split == "random":
        some = sorted(some, key=lambda frame: derived_seed(seed, "held", frame.number, Path(frame.name).name))
    if held:
        parts["validation"] = some[-held:]
    parts["train"] = some[:learned]
    return {part: parts[part] for part in ("train", "validation", "test") if part in parts}


def _is_periodic(parts: Mapping[str, Sequence[MoleculeFrame]]) -> bool:
    """Whether frames are periodic. Raises InputError if some are and some are not."""
    periodic = next((frame for some in parts.values() for frame in some if frame.cell is not None), None)
    free = next((frame for some in parts.values() for frame in some if frame.cell is None), None)
    if periodic is not None and free is not None:
        raise InputError(f"{periodic.name} is periodic, but {free.name} does not. Take one kind at a time.")
    return periodic is not None


def _check_no_overlap(parts: dict[str, list[MoleculeFrame]], own: set[str]) -> None:
    """Raise InputError if a training frame is also in an evaluated part. own: parts with files of their own."""
    training = {_fingerprint(frame): frame for frame in parts["train"]}
    for part, some in parts.items():
        for frame in some:
            if part != "train" and (same := training.get(_fingerprint(frame))):
                raise InputError(
                    f"{frame.name} of the {part} part is also in the training part, as {same.name}. Leave it out: "
                    f"data.drop = {{ {part if part in own else 'train'} = [{frame.number}] }}."
                )


def _fingerprint(frame: MoleculeFrame) -> bytes:
    known = [frame.numbers, frame.positions, *([] if frame.cell is None else [frame.cell])]
    return hashlib.sha256(b"".join(x.contiguous().numpy().tobytes() for x in known)).digest()


# --- levels -----------------------------------------------------------------------------------------------------------
def energy_statistics(
    config: Molecules, train: Sequence[MoleculeFrame], given_references: Mapping[int, float] | None = None
) -> EnergyStatistics:
    """Statistics of the training part. known: energies of isolated atoms, by number; all others are fitted. Sums are rounded
    once.
    """
    there = sorted({number for frame in train for number in frame.numbers.tolist()})
    counts = [[int((frame.numbers == n).sum()) for n in there] for frame in train]
    energies = [frame.energy for frame in train]
    given_references = given_references or {}
    free = [i for i, n in enumerate(there) if n not in given_references]
    rest = [
        energy - math.fsum(row[i] * given_references[n] for i, n in enumerate(there) if n in given_references)
        for row, energy in zip(counts, energies, strict=True)
    ]
    square = [[math.fsum(row[i] * row[j] for row in counts) for j in free] for i in free]
    right = [math.fsum(row[i] * energy for row, energy in zip(counts, rest, strict=True)) for i in free]
    inverse = torch.linalg.pinv(torch.tensor(square, dtype=torch.float64).reshape(len(free), len(free)), rtol=1e-10, hermitian=True)
    fitted = (inverse @ torch.tensor(right, dtype=torch.float64)).tolist()  # where several fit equally well, the smallest
    fitted_references = dict(
        zip([there[i] for i in free], [float(f"{value:.12g}") for value in fitted], strict=True)
    )  # the same on any machine
    references = [{**fitted_references, **given_references}[n] for n in there]
    without_dropped = [
        energy - math.fsum(n * reference for n, reference in zip(row, references, strict=True))
        for row, energy in zip(counts, energies, strict=True)
    ]
    offset = math.fsum(without_dropped) / sum(map(sum, counts))
    scale = config.scale
    if scale is None:
        spread = [x for frame in train if frame.forces is not None for x in frame.forces.flatten().tolist()]
        if not spread:
            spread = [energy / sum(row) - offset for row, energy in zip(counts, without_dropped, strict=True)]
        scale = math.sqrt(math.fsum(x * x for x in spread) / len(spread)) or 1.0
    return EnergyStatistics(elements=[SYMBOLS[n - 1] for n in there], references=references, scale=scale, offset=offset)


def with_isolated_references(
    config: Molecules, train: Sequence[MoleculeFrame], alone: Mapping[str, Sequence[MoleculeFrame]], fitted: EnergyStatistics
) -> tuple[EnergyStatistics, list[str]]:  # fmt: skip
    """The statistics with isolated atoms as references, and notes about them.

    alone   by part: none of them is a training or test example; those of train, or of data.references, are the references
    fitted  the statistics without them
    raises  InputError if they imply impossible binding energies
    """
    notes = [
        f"{len(some)} frames of the {part} part are isolated atoms, so they are not evaluated; the first: {some[0].name}."
        for part, some in alone.items() if some and part != "train"
    ]  # fmt: skip
    isolated = alone.get("train", ())
    if not isolated:
        return fitted, notes
    if config.references == "fitted":
        return fitted, [
            f"{counted(len(isolated), 'isolated atom is', 'isolated atoms are')} left out, as references are fitted; "
            f"the first: {isolated[0].name}.",
            *notes,
        ]
    known, odd = energies(isolated)
    elements = [NUMBERS[symbol] for symbol in fitted.elements]
    own = {n: energy for n, energy in known.items() if n in elements}
    missing = [SYMBOLS[n - 1] for n in elements if n not in own]
    if missing and config.references not in FITTED:
        raise InputError(
            f"{config.references} has no atom of {', '.join(missing)}, only {', '.join(SYMBOLS[n - 1] for n in sorted(known))}. "
            'Add it, or say data.references = "fitted".'
        )
    if not own:
        return fitted, [*odd, *notes]
    statistics = energy_statistics(config, train, own)
    fit_bonds(statistics.offset, config.train if config.references in FITTED else config.references)
    listed = ", ".join(f"{SYMBOLS[n - 1]} {energy:.6g} eV" for n, energy in own.items())
    if config.references in FITTED:
        rest = f" No atom of {', '.join(missing)} is isolated there, so its reference is fitted." if missing else ""
        notes = [f"The isolated atoms in {config.train} are the references, not training examples: {listed}.{rest}", *notes]
    return statistics, [*notes, *odd]


def _references(config: Molecules, recipe_folder: Path | None) -> tuple[list[MoleculeFrame], list[Path]]:
    """The frames of data.references. Raises InputError if one is not a single atom."""
    name = config.references
    alone, paths = frames(
        name, FrameFormat(Keys(energy=config.keys.energy, forces=None), config.unit, config.length), recipe_folder
    )
    for frame in alone:
        if len(frame.numbers) != 1:
            raise InputError(f"{frame.name} has {len(frame.numbers)} atoms, but data.references needs isolated atoms.")
    faults = Faults()
    check_finite(alone, faults)
    faults.check()
    return alone, paths


def _partial_forces(config: Molecules, part: str, some: Sequence[MoleculeFrame]) -> bool:
    """Whether some frames of a part have forces and some do not. Raises InputError if forces are expected and no training frame
    has any.
    """
    without = [frame for frame in some if frame.forces is None]
    if config.keys.forces is not None and part == "train" and len(without) == len(some):
        raise InputError(f'{without[0].missing_forces}. Set data.keys.forces, or "none" to train on energies only.')
    return 0 < len(without) < len(some)


def _missing_force_notes(parts: Mapping[str, Sequence[MoleculeFrame]]) -> list[str]:
    """A note for each part with frames without forces, if forces are expected."""
    lacking = {part: [frame for frame in some if frame.missing_forces] for part, some in parts.items()}
    what = {"train": "their only energies are used"}
    return [
        f"{len(some)} of {len(parts[part])} frames of the {part} part have no forces, so "
        f"{what.get(part, 'only their energies are evaluated')}; the first: {some[0].missing_forces}."
        for part, some in lacking.items() if some
    ]  # fmt: skip


def _check_unit(
    config: Molecules, part: str, some: Sequence[MoleculeFrame], statistics: EnergyStatistics, train: Sequence[MoleculeFrame] = ()
) -> None:
    """Raise InputError if an element is not in the training part, or an energy is off by the ratio of two units.

    train  the training part. Energies are comparable only for compositions that are linear combinations of its own; of other
           frames, or of all if there is no train, only the median one is checked against the ratio of two units
    """
    reference = {NUMBERS[symbol]: value for symbol, value in zip(statistics.elements, statistics.references, strict=True)}
    comparable = _spanned(train, list(reference)) if train else lambda frame: False
    shares: list[tuple[float, float, MoleculeFrame]] = []
    faults = Faults()
    _check_elements(part, some, statistics, faults)
    faults.check()
    for frame in some:
        wanted = sum(reference[n] for n in frame.numbers.tolist()) + statistics.offset * len(frame.numbers)
        if abs(wanted) >= 10 * statistics.scale * len(frame.numbers):  # energies about 0 say nothing of their unit
            shares.append((frame.energy / wanted, wanted, frame))
    others = sorted((one for one in shares if not comparable(one[2])), key=lambda one: one[0])
    for share, wanted, frame in [*(one for one in shares if comparable(one[2])), *others[len(others) // 2 :][:1]]:
        unit = _other_unit(share, config.unit)
        if unit or (comparable(frame) and not FEWER < share < 1 / FEWER):
            raise InputError(
                f"{frame.name} of the {part} part has {frame.energy:.6g} eV where atoms of the training part have {wanted:.6g}: "
                f"{share:.3g} times as much, as if it were in {unit or 'another unit, or computed with another method'}. "
                "Bring all files to one unit, and say it as data.unit."
            )


def _check_elements(part: str, some: Sequence[MoleculeFrame], statistics: EnergyStatistics, faults: Faults) -> None:
    """Add a fault for each frame with an element that the training part does not have."""
    known = {NUMBERS[symbol] for symbol in statistics.elements}
    for frame in some:
        if unknown := sorted({n for n in frame.numbers.tolist() if n not in known}):
            faults.add(
                f"{frame.name} of the {part} part has an atom of {SYMBOLS[unknown[0] - 1]}, but training has only "
                f"{', '.join(statistics.elements)}. Add training data with that element, or leave the frame out.", frame.name,
            )  # fmt: skip


def _other_unit(share: float, own: Energy) -> str:
    """The unit that explains an energy `share` times as large as expected; empty if there is none."""
    return next((unit for unit, size in ENERGIES.items() if unit != own and abs(share * size / ENERGIES[own] - 1) < SAME), "")


def _spanned(train: Sequence[MoleculeFrame], elements: Sequence[int]) -> Callable[[MoleculeFrame], bool]:
    """A function: whether a frame's composition is a linear combination of those of the training part."""

    def counts(frame: MoleculeFrame) -> list[int]:
        numbers = frame.numbers.tolist()
        return [numbers.count(n) for n in elements]

    rows = torch.tensor(sorted({tuple(counts(frame)) for frame in train}), dtype=torch.float64)
    projector = torch.linalg.pinv(rows) @ rows

    def known(frame: MoleculeFrame) -> bool:
        row = torch.tensor(counts(frame), dtype=torch.float64)
        return float((row @ projector - row).abs().max()) < 1e-6 * float(row.max())

    return known
