"""The page of a molecule: rotate it, and see which outputs of a model are invariant, which rotate with it, and which do neither."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path

import torch
from torch import Tensor

from equiscope.budgets import regular
from equiscope.errors import InputError, counted
from equiscope.explore import page
from equiscope.explore.page import PLAIN
from equiscope.explore.space import elements
from equiscope.explore.space.solvers import Answers, Solving, formula, usual
from equiscope.program.loops import computation
from equiscope.record import Molecule, pack, unpack
from equiscope.record.molecule import Solver, SolverOutput, Species
from equiscope.symmetry.measure import PRECISION, relative_error
from equiscope.symmetry.motions import Y, rotation
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.points import Points, read_frames

KINDS = (".xyz", ".extxyz", ".cjson", ".sdf")
ATOMS, FRAMES = 150, 500  # the most that a page shows
ANGLES = tuple(float(angle) for angle in range(0, 181, 5))
TURNS = 6  # in which the rounding floor is looked for
Models = Callable[[Tensor], Sequence[Solving]]
LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SUMMARY = (
    "Every model computes again on the rotated coordinates. The energy of an equivariant model is unchanged up to rounding, and "
    "its forces rotate with the molecule. A plain transformer fails both."
)


def molecule(path: Path, models: Models | None = None, frame: int = 0, seed: int = 0) -> Molecule:
    """What the page holds.

    models  of atoms with these numbers [N]; by default untrained ones with this seed, and for ethanol a trained one
    frame   the first frame that is shown, counted from 0
    raises  InputError for a file without atoms, with too many, or with coordinates that are no numbers; what read_frames raises
    """
    frames = _frames(path)
    chosen = _frame(path, frames, frame)
    numbers = _numbers(path, chosen)
    same = [one for one in frames if one.numbers is not None and torch.equal(one.numbers, numbers)]
    at = next(i for i, one in enumerate(same) if one is chosen)
    first = max(0, min(at - FRAMES // 2, len(same) - FRAMES))
    displayed = same[first : first + FRAMES]
    places = torch.stack([one.positions - one.positions.mean(0) for one in displayed])
    if not bool(places.isfinite().all()):
        raise InputError(f"{path} has coordinates that are no numbers (NaN or infinite). Give another file.")
    solver_models = usual(numbers, places[at - first], seed) if models is None else models(numbers)
    with _one_thread():
        solvers = [solved(model, places[at - first]) for model in solver_models]
    short = formula(numbers).replace(" ", "").translate(LOW)
    return Molecule(
        title=f"Rotating {path.name} ({short}): which model is equivariant?", summary=SUMMARY,
        file=path.name, elements=_elements(numbers),
        atoms=numbers.tolist(),
        frames=pack(places.numpy()), captions=[_caption(one) for one in displayed], frame=at - first, axis=list(Y),
        angles=list(ANGLES),
        solvers=solvers, notes=_notes(frames, same, displayed, solver_models),
    )  # fmt: skip


def chosen_frame(path: Path, frame: int = 0) -> Points:
    """One frame of a file, counted from 0. Raises InputError as `molecule` does."""
    chosen = _frame(path, _frames(path), frame)
    _numbers(path, chosen)
    if not bool(chosen.positions.isfinite().all()):
        raise InputError(f"{path} has coordinates that are no numbers (NaN or infinite). Give another file.")
    return chosen


def _frame(path: Path, frames: list[Points], frame: int) -> Points:
    if not 0 <= frame < len(frames):
        raise InputError(
            f"{path} has {counted(len(frames), 'frame')}, but frame {frame} was requested. "
            f"Frames are counted from 0: request 0{f' to {len(frames) - 1}' * (len(frames) != 1)}."
        )
    return frames[frame]


def _frames(path: Path) -> list[Points]:
    if not {suffix.lower() for suffix in path.suffixes} & set(KINDS):
        raise InputError(f"{path} is no file of a molecule. Give one of {', '.join(KINDS)}.")
    regular(path, f"a molecule: {', '.join(KINDS)}")
    return read_frames(path)


def _numbers(path: Path, points: Points) -> Tensor:
    if points.numbers is None:
        raise InputError(f"{path} has points without elements, which are no molecule.")
    if len(points.numbers) > ATOMS:
        raise InputError(f"{path} has {len(points.numbers)} atoms, and the page draws {ATOMS} at most. Give a smaller molecule.")
    if bool((points.numbers < 1).any()):
        raise InputError(f"{path} has an atom without an element. Give every atom its symbol.")
    return points.numbers


def _elements(numbers: Tensor) -> list[Species]:
    return [
        Species(number=n, symbol=SYMBOLS[n - 1], name=elements.name(n), radius=elements.radius(n), colour=elements.colour(n))
        for n in numbers.unique().tolist()
    ]  # fmt: skip


def _caption(points: Points) -> str:
    """What the file says of a frame: its comment or title, or its numbers by their names."""
    text = points.values.get("comment") or points.values.get("title")
    if isinstance(text, str):
        return text.strip()[:80]
    energies = [f"{name} {value:.6g}" for name, value in points.values.items() if isinstance(value, float)]
    return ", ".join(energies)[:80]


def _notes(frames: list[Points], same: list[Points], displayed: list[Points], models: Sequence[Solving]) -> list[str]:
    notes = []
    if drawn := [model for model in models if not model.trained]:
        some = f"The {' and the '.join(model.title for model in drawn)} {'has' if len(drawn) == 1 else 'have'}"
        who = "All models have" if len(drawn) == len(models) else some
        notes.append(
            f"{who} untrained weights, drawn with seed {drawn[0].seed}: the energies mean nothing in nature. What an equivariant "
            "model keeps under a rotation, it keeps for any weights."
        )
    if len(same) < len(frames):
        notes.append(f"{len(frames) - len(same)} of {len(frames)} frames hold other atoms and are left out.")
    if len(displayed) < len(same):
        notes.append(f"The file has {len(same)} frames of these atoms, of which the page holds {len(displayed)}.")
    if any(one.cell is not None for one in displayed):
        notes.append("The file has a periodic cell, which is left out: the molecule is drawn and computed alone.")
    return notes


def solved(model: Solving, at: Tensor) -> Solver:
    """What a page needs of a model, measured at places [N, 3] float64."""
    function = model.function()
    start = function(at)
    turned = [function(at @ (by := rotation(Y, angle)).mT) | {"by": by} for angle in ANGLES]
    layers, heads = start["weights"].shape[:2]
    return Solver(
        name=model.name, title=model.title, about=model.about, group=model.group, trained=model.trained, seed=model.seed,  # type: ignore[arg-type]
        unit=model.unit, parameters=sum(p.numel() for p in model.model.parameters()), layers=layers, heads=heads,
        vectors=start["arrows"].shape[-1] if "arrows" in start else 0,
        start=SolverOutput(energy=float(start["energy"]), atom_energies=start["each"].tolist(),
            forces=pack(start["forces"].numpy())),
        floors=floors(model, at),
        energies=[float((one["energy"] - start["energy"]).abs()) for one in turned],
        forces=[relative_error(one["forces"], start["forces"] @ one["by"].mT) for one in turned],
        computation=computation(function, {"positions": at}),
    )  # fmt: skip


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread: the products are so small that several would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def floors(model: Solving, at: Tensor) -> dict[str, float]:
    """Rounding floors in float64: what float32 misses at worst in some turns, times 2^-29. Of forces relative, else in the unit."""
    worst = {"energy": 0.0, "each": 0.0, "forces": 0.0}
    exact, rough = model.function(), model.function(torch.float32)
    for i in range(TURNS):
        places = at @ rotation(Y, 360.0 * i / TURNS + 7.0).mT
        fine, coarse = exact(places), rough(places.float())
        worst["energy"] = max(worst["energy"], _missed(fine, coarse, "energy"))
        worst["each"] = max(worst["each"], _missed(fine, coarse, "each"))
        worst["forces"] = max(worst["forces"], relative_error(coarse["forces"].double(), fine["forces"]))
    return {name: PRECISION * value for name, value in worst.items()}


def _missed(fine: Answers, coarse: Answers, name: str) -> float:
    return float((fine[name] - coarse[name].double()).abs().max())


def plain(content: Molecule) -> str:
    """Atoms and energies as tables, as markup, for a browser without JavaScript."""
    places = unpack(content.frames)[content.frame]
    symbols = {one.number: one.symbol for one in content.elements}
    names = [f"{symbols[n]}{content.atoms[: i + 1].count(n)}" for i, n in enumerate(content.atoms)]
    atoms = [[name, *(f"{value:.4f}" for value in place)] for name, place in zip(names, places.tolist(), strict=True)]
    models = [
        [
            s.title,
            f"{s.start.energy:.6g} {s.unit}".strip(),
            page.number(max(s.energies)),
            page.number(s.floors["energy"]),
            page.number(max(s.forces)),
        ]
        for s in content.solvers
    ]
    heads = ["model", "energy", "energy moves by", "rounding floor", "forces differ by, of their size"]
    return (
        f'<div class="bare-report"><h1>{escape(content.title)}</h1>\n<p>{escape(content.summary)}</p>\n<p>{PLAIN}</p>\n'
        + "".join(f"<p>{escape(note)}</p>\n" for note in content.notes)
        + page.table("Turned about the upright axis, at most", heads, models)
        + page.table("Atoms, in Å from their middle", ["atom", "x", "y", "z"], atoms)
        + "</div>"
    )
