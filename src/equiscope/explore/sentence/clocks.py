"""The tour of the clocks: small programs about encodings alone, traced like any model.

A shift by k rotates every hand by a fixed angle: p[i + k] = p[i] R, with one R for all i. On the page a value has the name of its
variable here.
"""

import torch
from torch import Tensor, nn

from equiscope.functional import rotate
from equiscope.positions import Sinusoidal
from equiscope.positions.frequencies import angles, geometric_frequencies
from equiscope.program import watch
from equiscope.program.lower import lowered
from equiscope.record import Fact, ProgramRecord
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

PLACES = 48


class Ladder(nn.Module):
    """Encodings of positions, and their products with one another."""

    def __init__(self, scheme: Sinusoidal, width: int) -> None:
        super().__init__()
        self.scheme, self.width = scheme, width

    def forward(self, tokens: Tokens) -> dict[str, Tensor]:
        p = self.scheme.encode(tokens.positions, self.width)
        return {"products": p @ p.mT, "encoding": p}


class Carry(nn.Module):
    """The rotation R that maps p[i] to p[i + k], applied at two positions, beside the encodings p_k of the positions i + k."""

    def __init__(self, scheme: Sinusoidal, width: int) -> None:
        super().__init__()
        self.scheme, self.width = scheme, width

    def forward(self, tokens: Tokens, step: "Displacement") -> dict[str, Tensor]:
        frequencies = self.scheme.frequencies(self.width)
        p = self.scheme.encode(tokens.positions, self.width)
        unit = torch.eye(self.width, dtype=torch.float64)
        back = -angles(step.by, frequencies)
        R = rotate(unit, back, "interleaved")
        pR = p @ R
        positions = tokens.positions + step.by
        p_k = self.scheme.encode(positions, self.width)
        difference = pR - p_k
        return {"difference": difference, "encoding": p, "rotation": R, "rotated": pR, "shifted": p_k}


def tour(width: int = 8) -> dict[str, ProgramRecord]:
    """The programs by name: ladder, pair and sine (encodings of 48 positions), and carry (positions 10 and 30, k = 5)."""
    places = Tokens.of(torch.zeros(PLACES, 1, dtype=torch.float64))
    schemes = {"ladder": (Sinusoidal(), width), "pair": (Sinusoidal(waves="pair"), 2), "sine": (Sinusoidal(waves="sine"), 1)}
    programs = {
        name: lowered(watch(Ladder(scheme, size), places), arrays=False, title=name) for name, (scheme, size) in schemes.items()
    }
    two = Tokens(x=torch.zeros(2, 1), positions=torch.tensor([[10.0], [30.0]]).double(), order=torch.tensor([10, 30]))
    step = Displacement(torch.tensor([[5.0]]).double())
    programs["carry"] = lowered(watch(Carry(Sinusoidal(), width), two, step), arrays=False, title="carry")
    return programs


class Displacement:
    """The size of a shift, as an input that names itself."""

    def __init__(self, by: Tensor) -> None:
        self.by = by

    def leaves(self, axis: str = "") -> list[tuple[Tensor, tuple[str, str, str, tuple[str, ...], str]]]:
        return [(self.by, ("k", "k", "size of the shift", ("", "axis"), "constant"))]


def best_map_error(encoding: Tensor, steps: int = 5) -> float:
    """Relative error of the best linear map from p[i] to p[i + steps], fitted to all rows of an encoding [N, D]."""
    before, after = encoding[:-steps], encoding[steps:]
    return relative_error(before @ torch.linalg.lstsq(before, after, driver="gelsd").solution, after)


def facts() -> list[Fact]:
    """Why sines come with cosines: the best linear step with and without them, width 8, 105 positions."""
    radians = torch.arange(105, dtype=torch.float64)[:, None] * geometric_frequencies(4, 10000.0)
    sines, both = best_map_error(radians.sin()), best_map_error(torch.cat([radians.sin(), radians.cos()], 1))
    source = "equiscope.explore.sentence.clocks.best_map_error"
    return [
        Fact(
            name="sines-only",
            value=sines,
            text="the best linear map from p[i] to p[i + 5] with sines only leaves",
            source=source,
        ),
        Fact(name="sine-cosine", value=both, text="with sine and cosine it leaves", source=source),
    ]
