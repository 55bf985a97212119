"""The tour of the clocks: small programs about encodings alone, traced like any model.

Moving by k turns every hand by a fixed angle: p[i+k] = p[i] R_k, with one R_k for all i.
"""

import torch
from torch import Tensor, nn

from equiscope.position import Sinusoidal
from equiscope.position.frequencies import angles
from equiscope.record import Trace
from equiscope.tokens import Tokens
from equiscope.trace import constant, ops, watch

PLACES = 48


class Ladder(nn.Module):
    """Encodings of places, and their products with one another."""

    def __init__(self, scheme: Sinusoidal, width: int) -> None:
        super().__init__()
        self.scheme, self.width = scheme, width

    def forward(self, tokens: Tokens) -> Tensor:
        p = self.scheme.encode(tokens.at, self.width)
        return ops.matmul(p, ops.transpose(p, name="Pᵀ", label="the encodings, as columns"), name="PPᵀ", label="products of places")


class Carry(nn.Module):
    """The rotation that carries p[i] to p[i+k], applied to two places at once, beside the real p[i+k]."""

    def __init__(self, scheme: Sinusoidal, width: int) -> None:
        super().__init__()
        self.scheme, self.width = scheme, width

    def forward(self, tokens: Tokens, step: Tensor) -> Tensor:
        frequencies = self.scheme.frequencies(self.width)
        start = self.scheme.encode(tokens.at, self.width)
        unit = constant(torch.eye(self.width, dtype=torch.float64), "I", "unit matrix", "feature feature")
        back = ops.scale(angles(step, frequencies), -1.0, name="−kω", label="how far every hand turns, the other way")
        turn = ops.rotate(unit, back, "interleaved", name="R_k", label="the rotation for k steps")
        carried = ops.matmul(start, turn, name="P·R_k", label="the first places, carried")
        arrived = ops.add(tokens.at, step, name="t+k", label="the places k steps on")
        there = self.scheme.encode(arrived, self.width)
        return ops.subtract(carried, there, name="P·R_k−P", label="what is left between them")


def tour(width: int = 8) -> dict[str, Trace]:
    """The programs by name: ladder, pair and sine (encodings of 48 places), and carry (places 10 and 30, k = 5)."""
    places = Tokens.of(torch.zeros(PLACES, 1, dtype=torch.float64))
    kinds = {"ladder": width, "pair": 2, "sine": 1}
    made = {
        waves: watch(Ladder(Sinusoidal(waves=waves), size), places, arrays=False, title=waves)  # type: ignore[arg-type]
        for waves, size in kinds.items()
    }
    two = Tokens(x=torch.zeros(2, 1), at=torch.tensor([[10.0], [30.0]]).double(), order=torch.tensor([10, 30]))
    step = Step(torch.tensor([[5.0]]).double())
    made["carry"] = watch(_Stepping(Carry(Sinusoidal(), width)), two, step, arrays=False, title="carry")
    return made


class Step:
    """How far to go, as an input that names itself."""

    def __init__(self, by: Tensor) -> None:
        self.by = by

    def leaves(self, axis: str = "") -> list[tuple[Tensor, tuple[str, str, str, tuple[str, ...], str]]]:
        return [(self.by, ("k", "k", "steps to go", ("", "axis"), "constant"))]


class _Stepping(nn.Module):
    def __init__(self, carry: Carry) -> None:
        super().__init__()
        self.carry = carry

    def forward(self, tokens: Tokens, step: Step) -> Tensor:
        return self.carry(tokens, step.by)
