"""Models of molecules as one function of the positions: energies, forces, attention between atoms, and vectors.

That function is what a page runs again for every rotation, so it is plain tensor work, without a list of neighbours that a rotation
could change.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.checkpoints import load
from equiscope.data.molecules import EnergyStatistics
from equiscope.errors import InputError
from equiscope.explore.space.in_space import rotation_report
from equiscope.geometry import PointSpec, SpaceModel
from equiscope.models import Attention, Block, InputLayer, Model, Spec, build
from equiscope.models.readout import READOUTS
from equiscope.program.loops import with_forces
from equiscope.program.modes import Functions
from equiscope.tokens import Tokens
from equiscope.tokens.elements import NUMBERS, SYMBOLS

BOND = 1.3  # angstrom: longer than any O-H bond of a molecule in motion
Answers = dict[str, Tensor]
Made = Callable[[Tensor], Answers]


@dataclass(frozen=True)
class Solving:
    """A model in float64, with its title and notes. answers: places [N, 3] in angstrom to

    energy [1] or [], each [N], forces [N, 3], weights [layers, heads, N, N] (row: query), arrows [N, 3, C] where there are some
    """

    name: str
    title: str
    about: str
    group: str
    model: nn.Module
    make: Callable[[nn.Module], Made]
    trained: bool = False
    seed: int | None = None
    unit: str = ""

    def function(self, dtype: torch.dtype = torch.float64) -> Made:
        """The function in a precision; what it answers has no history."""
        energy_function = self.make(copy.deepcopy(self.model).to(dtype))
        return lambda positions: {name: value.detach() for name, value in energy_function(positions).items()}


def untrained(numbers: Tensor, seed: int) -> list[Solving]:
    """Three small transformers with random weights: two of points in space, and one that reads raw coordinates."""
    elements = tuple(SYMBOLS[int(n) - 1] for n in numbers.unique())
    size: dict[str, Any] = {"width": 16, "vectors": 8, "heads": 4, "layers": 2, "radial": 8}
    both = [("e3", PointSpec(elements, "E(3)", **size)), ("se3", PointSpec(elements, "SE(3)", products=8, **size))]
    solvers = [in_space(name, drawn(spec, seed), numbers, seed=seed) for name, spec in both]
    return [*solvers, plain(numbers, seed)]


def usual(numbers: Tensor, at: Tensor, seed: int) -> list[Solving]:
    """The models of a page for which a person named none: untrained ones, of which the trained one of ethanol replaces the first
    where the atoms, at positions [N, 3] in angstrom, are ethanol.
    """
    models = untrained(numbers, seed)
    if not is_ethanol(numbers, at):
        return models
    model = load("ethanol")
    assert isinstance(model, SpaceModel)
    learned_one = in_space("e3", model.double(), numbers, unit="eV")
    return [replace(learned_one, title=f"trained {learned_one.title}"), *models[1:]]


def is_ethanol(numbers: Tensor, at: Tensor) -> bool:
    """Whether these atoms are one molecule of ethanol: C2H6O with an O-H bond, which its isomer dimethyl ether does not have."""
    if sorted(numbers.tolist()) != [1] * 6 + [6, 6, 8]:
        return False
    return bool(((at[numbers == 1] - at[numbers == 8]).norm(dim=-1) < BOND).any())


def in_space(name: str, model: SpaceModel, numbers: Tensor, seed: int | None = None, unit: str = "") -> Solving:
    """A model of points in space. seed: of weights that are drawn; None: they are learned. Raises InputError for other elements."""
    model.elements(numbers)
    group = model.spec.group
    title = f"{group} transformer"
    same = "It gives a mirror image the same energy." if group == "E(3)" else "It may give a mirror image another energy."
    about = f"Features are scalars and vectors; scores are dot products of equal kinds. {same}"
    return Solving(name, title, about, group, model, lambda m: _space_answers(m, numbers), seed is None, seed, unit)


def plain(numbers: Tensor, seed: int) -> Solving:
    """An ordinary transformer: an atom's token is its element and its three coordinates."""
    kinds = numbers.unique()
    block = Block(attention=Attention(heads=4, backend="eager"))
    spec = Spec(width=32, input=InputLayer(features=len(kinds) + 3), layers=2, block=block, outputs=1)
    about = "An ordinary transformer: a token is an element and three coordinates. No part of it is equivariant to rotations."
    which = F.one_hot((numbers[:, None] == kinds).long().argmax(-1), len(kinds))
    return Solving(
        "plain", "plain transformer", about, "none", drawn(spec, seed), lambda m: _plain_answers(m, which), False, seed
    )  # fmt: skip


def learned(name: str, model: Model, statistics: EnergyStatistics, numbers: Tensor) -> Solving:
    """An ordinary transformer that has learned molecules, in eV: of the mean row for each atom, as its run trained it.

    raises  InputError for an element that it has not learned, and for a head that is no linear map
    """
    known = [NUMBERS[symbol] for symbol in statistics.elements]
    if other := next((n for n in numbers.tolist() if n not in known), None):
        raise InputError(f"This model knows {', '.join(statistics.elements)}, but there is an atom of {SYMBOLS[other - 1]}.")
    if model.spec.output.hidden is not None:
        raise InputError("The energy of an atom is shown, but this model's head is no linear map. Train one without head.hidden.")
    rows = (numbers[:, None] == torch.tensor(known)).long().argmax(-1)
    own = torch.tensor(statistics.references, dtype=torch.float64)[rows] + statistics.offset
    about = "An ordinary transformer that has learned molecules: a token is an element and three coordinates from the middle."
    return Solving(
        name, "plain transformer", about, "none", model.double().eval(),
        lambda m: _plain_answers(_each(m), F.one_hot(rows, len(known)), own, statistics.scale), True, None, "eV",
    )  # fmt: skip


def _each(model: nn.Module) -> nn.Module:
    """The same with a row for each atom: the mean of linear maps is the map of the mean."""
    assert isinstance(model, Model)
    model.readout = READOUTS["each"](model.spec.width)
    return model


def drawn(spec: Any, seed: int) -> Any:
    """A model in float64 whose weights are drawn by a seed, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(spec).double().eval()


def _space_answers(model: nn.Module, numbers: Tensor) -> Made:
    assert isinstance(model, SpaceModel)
    rows = model.elements(numbers.unsqueeze(0))
    return with_forces(lambda positions: rotation_report(model, rows, positions))


def _plain_answers(model: nn.Module, which: Tensor, own: Tensor | None = None, scale: float = 1.0) -> Made:
    """own: of each atom, what is added to its energy of the model's, times scale; then places are taken from their middle."""
    assert isinstance(model, Model)
    order = torch.arange(len(which))

    def energy(positions: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        at = positions if own is None else positions - positions.mean(0)
        noted: list[Tensor] = []
        with _noting_softmax(noted):
            output = model(Tokens(x=torch.cat([which.to(at.dtype), at], -1), positions=order[:, None], order=order)).squeeze(-1)
        each = output if own is None else own + output.double() * scale
        return each.sum(), (each, torch.stack([w.reshape(-1, len(which), len(which)) for w in noted]))

    def answers(positions: Tensor) -> Answers:
        # under torch.func an attention takes its readable path, which can become a computation
        slope, (total, (each, weights)) = torch.func.grad_and_value(energy, has_aux=True)(positions)
        return {"energy": total, "each": each, "forces": -slope, "weights": weights}

    return answers


def _noting_softmax(weights: list[Tensor]) -> Functions:
    """Keeps what softmax gave: an ordinary attention computed step by step weighs with nothing else."""

    def handler(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if "softmax" in getattr(func, "__name__", ""):
            weights.append(result)
        return result

    return Functions(handler)


def formula(numbers: Tensor) -> str:
    """`C2 H6 O`, as Hill writes it: carbon, hydrogen, then by the alphabet."""
    symbols = [SYMBOLS[int(n) - 1] for n in numbers]
    first = ["C", "H"] if "C" in symbols else []
    order = [s for s in first if s in symbols] + sorted(set(symbols) - set(first))
    return " ".join(f"{s}{symbols.count(s) if symbols.count(s) > 1 else ''}" for s in order)
