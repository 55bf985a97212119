"""Domain of a run of molecules: how far the surroundings of atoms lie from those of the training part.

An atom is described by the inverse distances, in 1/Å, to its nearest atoms of each element, nearest first. Its distance is that to
the most similar of the stored training atoms of the same element, and the distance of a frame is that of its most unusual atom. The
limit comes from the validation part, which the model has not learned from: 1 % of its frames are beyond it. No network takes part,
so the distance says that a frame is unlike the training part, and not how wrong the model is.

Sources: farthest-point sampling: Gonzalez 1985, "Clustering to Minimize the Maximum Intercluster Distance"; a distance to the
training part as a sign of error: Janet et al. 2019, "A Quantitative Uncertainty Metric Controls Error in Neural Network-driven
Chemical Discovery", doi:10.1039/C9SC02298H.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from equiscope import budgets, outputs
from equiscope.data.molecules import Frames, MoleculeFrame
from equiscope.errors import InputError

FILE = "atom_domain.safetensors"
CENTRES = 1024  # training atoms of each element that are stored
FRAMES = 2000  # of the training part, at most, from which they are chosen
NEIGHBOURS = 32  # of each element, at most, that describe an atom
HEALTHY = 0.99  # of the validation part that is within the limit
SMALLEST = 1e-3  # limit in 1/Å, above the rounding of what is stored: for a validation part that repeats the training part


class AtomDomain:
    """Stored surroundings of training atoms.

    centres  of each atomic number [K, elements, neighbours], in 1/Å; limit: of a frame's distance, in 1/Å
    """

    def __init__(self, centres: dict[int, Tensor], limit: float) -> None:
        self.centres, self.limit = dict(sorted(centres.items())), limit

    @classmethod
    def of(cls, frames: Frames) -> "AtomDomain | None":
        """The domain of a training part; None for periodic frames, whose atoms have neighbours in other cells."""
        train, validation = frames.parts["train"], frames.parts.get("validation", [])
        if frames.periodic or not validation:
            return None
        some = train[:: -(-len(train) // FRAMES)]
        elements = sorted({n for frame in train for n in frame.numbers.tolist()})
        width = min(NEIGHBOURS, max(len(frame.numbers) for frame in some) - 1)
        found = [surroundings(frame, elements, width) for frame in some]
        numbers = torch.cat([frame.numbers for frame in some])
        rows = torch.cat(found)
        centres = {e: _spread_out(rows[numbers == e]).half().float() for e in elements if bool((numbers == e).any())}
        known = cls(centres, 1.0)
        limit = float(np.quantile(known.distances(validation), HEALTHY, method="higher"))
        return cls(centres, max(limit, SMALLEST))

    def distances(self, frames: Sequence[MoleculeFrame]) -> np.ndarray:
        """Of each frame, in units of the limit: above 1 it lies far from the training part."""
        return np.array([self._distance(frame) for frame in frames])

    def _distance(self, frame: MoleculeFrame) -> float:
        if not set(frame.numbers.tolist()) <= set(self.centres):
            return float("inf")
        width = max(next(iter(self.centres.values())).shape[-1], min(NEIGHBOURS, len(frame.numbers) - 1))
        rows, worst = surroundings(frame, list(self.centres), width), 0.0
        for element, centres in self.centres.items():
            if bool((mine := frame.numbers == element).any()):
                wide = torch.nn.functional.pad(centres, (0, width - centres.shape[-1]))
                nearest = torch.cdist(rows[mine].flatten(1), wide.flatten(1)).amin(-1)
                worst = max(worst, float(nearest.max()))
        return worst / self.limit

    def write(self, folder: Path) -> None:
        """Store the domain in a run's folder."""
        tensors = {f"centres.{element}": rows.half().contiguous() for element, rows in self.centres.items()}
        outputs.put(folder / FILE, save(tensors | {"limit": torch.tensor(self.limit, dtype=torch.float64)}))

    @classmethod
    def read(cls, folder: Path) -> "AtomDomain | None":
        """The domain of a run; None if it has none. Raises InputError if its file cannot be read."""
        if not (folder / FILE).is_file():
            return None
        try:
            tensors = load(budgets.read(folder / FILE))
            limit = float(tensors.pop("limit"))
            if not (tensors and limit > 0):
                raise ValueError("it needs atoms and a limit above 0")
            return cls({int(name.removeprefix("centres.")): rows.float() for name, rows in tensors.items()}, limit)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise InputError(
                f"{folder / FILE} cannot be used: {error}. Delete it: then nothing is said about frames unlike the training part."
            ) from error


def surroundings(frame: MoleculeFrame, elements: Sequence[int], width: int) -> Float[Tensor, "N elements width"]:
    """The inverse distances, in 1/Å, from each atom to its `width` nearest atoms of each element, nearest first; 0 for none."""
    inverse = 1 / torch.cdist(frame.positions.double(), frame.positions.double()).fill_diagonal_(torch.inf)
    found = torch.zeros(len(inverse), len(elements), width)
    for i, element in enumerate(elements):
        near = inverse[:, frame.numbers == element].sort(-1, descending=True).values[:, :width]
        found[:, i, : near.shape[-1]] = near.float()
    return found


def _spread_out(rows: Float[Tensor, "N elements width"]) -> Tensor:
    """At most `CENTRES` rows, each the farthest from those before it."""
    flat, chosen = rows.flatten(1), [0]
    far = (flat - flat[0]).norm(dim=-1)
    while len(chosen) < min(CENTRES, len(rows)) and float(far.max()) > 0:
        chosen.append(int(far.argmax()))
        far = torch.minimum(far, (flat - flat[chosen[-1]]).norm(dim=-1))
    return rows[chosen]
