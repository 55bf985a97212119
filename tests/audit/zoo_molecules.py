"""Zoo of molecules: energies, forces and vectors of atoms with proven truth. One sound field, and one fault at a time.

Every fault keeps what it does not break: an energy whose forces are wrong turns as it should.
"""

import math

import torch
from torch import Tensor, nn

from equiscope.audit.integrations.calculator_module import CalculatorModule
from equiscope.geometry.model import PointSpec, SpaceModel
from tests.audit.case import Case

CUTOFF = 2.5


class Field(nn.Module):
    """Numbers [B, N] and positions [B, N, 3] to an energy [B]: a function of each distance that ends smoothly at the cutoff.

    fault  "": none; "hard": no envelope; "bent": an envelope whose slope jumps; "frames": directions of atoms are detached;
           "narrow": distances in float32; "products": distances from products; "nearest": of the nearest two only;
           "rooted": lengths without a floor under the root; "cut": the energy is made without gradients
    """

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.table, self.inward, self.outward = nn.Embedding(9, 4), nn.Linear(12, 8), nn.Linear(8, 2)
        self.cutoff, self.fault = CUTOFF, fault

    def weights(self, numbers: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Of each pair [B, N, N, 2], 0 of an atom with itself; and the ways [B, N, N, 3]."""
        kept = positions.dtype
        positions = positions.float() if self.fault == "narrow" else positions
        ways = positions[..., None, :, :] - positions[..., :, None, :]
        square = ways.square().sum(-1)
        itself = torch.eye(numbers.shape[-1], dtype=torch.bool)
        if self.fault == "products":
            modes = torch.cdist(positions, positions, compute_mode="use_mm_for_euclid_dist")
            square = torch.where(itself, 0.0, modes.square())
        far = square.masked_fill(itself, 1.0).sqrt() if self.fault == "rooted" else (square + 1e-2).sqrt()
        share = (1 - square / CUTOFF**2).clamp_min(0)
        share = {"hard": (share > 0).to(share), "bent": share}.get(self.fault, share**4)
        if self.fault == "nearest":
            near = square.masked_fill(itself, math.inf).topk(2, largest=False).indices
            share = torch.zeros_like(square).scatter(-1, near, 1.0)
        kinds = self.table(numbers)
        n = numbers.shape[-1]
        both = [kinds[..., :, None, :].expand(*kinds.shape[:-1], n, 4), kinds[..., None, :, :].expand(*kinds.shape[:-1], n, 4)]
        waves = torch.stack([(k * far).sin() for k in (0.5, 1.0, 1.5, 2.0)], -1).to(kept)
        found = self.outward(self.inward(torch.cat([*both, waves], -1)).tanh())
        return found * share.masked_fill(itself, 0.0).unsqueeze(-1).to(kept), ways.to(kept)

    def forward(self, numbers: Tensor, positions: Tensor) -> Tensor:
        weights, ways = self.weights(numbers, positions)
        frames = (weights[..., :1] * ways).sum(-2)
        frames = frames.detach() if self.fault == "frames" else frames
        angles = (weights[..., 1] * (frames.unsqueeze(-2) * ways).sum(-1)).sum(-1)
        energy: Tensor = (weights[..., 0].sum(-1) + angles).sum(-1)
        return energy.detach() if self.fault == "cut" else energy


class Frames(nn.Module):
    """One arrow of each atom, made without gradients."""

    @torch.no_grad()
    def forward(self, weights: Tensor, ways: Tensor) -> Tensor:
        return (weights.unsqueeze(-1) * ways).sum(-2)


class Angled(Field):
    """As `Field`, with the frames in a module of their own, read with a gain."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.frames, self.gain = Frames(), nn.Parameter(torch.tensor([gain]))

    def forward(self, numbers: Tensor, positions: Tensor) -> Tensor:
        weights, ways = self.weights(numbers, positions)
        frames = self.frames(weights[..., 0], ways)
        angles = weights[..., 1] * (frames.unsqueeze(-2) * ways).sum(-1)
        return (weights[..., 0] + self.gain * angles).sum((-2, -1))


class Driven(nn.Module):
    """An energy and forces beside it, which turn as they should: of this energy, or of another one."""

    def __init__(self, right: bool) -> None:
        super().__init__()
        self.field = Field()
        self.other = self.field if right else Field()

    def forward(self, numbers: Tensor, positions: Tensor) -> dict[str, Tensor]:
        with torch.enable_grad():
            at = positions.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.other(numbers, at).sum(), at)
        return {"energy": self.field(numbers, positions), "forces": -slope}


class Biased(nn.Module):
    """A number is added to every component of an arrow."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((3,), size), requires_grad=size != 0)

    def forward(self, arrows: Tensor) -> Tensor:
        return arrows + self.bias


class Arrows(nn.Module):
    """One arrow of each atom [B, N, 3], and perhaps a bias on it."""

    def __init__(self, size: float = 0.0, fault: str = "") -> None:
        super().__init__()
        self.field, self.bias = Field(fault), Biased(size)

    def forward(self, numbers: Tensor, positions: Tensor) -> Tensor:
        weights, ways = self.field.weights(numbers, positions)
        arrows: Tensor = self.bias((weights[..., :1] * ways).sum(-2))
        return arrows


def molecule(n: int = 6) -> tuple[Tensor, Tensor]:
    return torch.tensor([[8, 1, 1, 6, 1, 1, 8, 6]])[:, :n], 1.2 * torch.randn(1, n, 3)


def lattice() -> tuple[Tensor, Tensor]:
    """A square of one element: every atom has two neighbours that are equally near, and the centre has four."""
    at = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
    return torch.tensor([[6, 1, 1, 1, 1]]), at[None]


def lennard_jones(smooth: bool, cutoff: float | None = 3.0) -> CalculatorModule:
    """ASE's own potential: shifted to 0 at the cutoff, where its forces jump, or switched off smoothly."""
    from ase.calculators.lj import LennardJones

    return CalculatorModule(LennardJones(rc=3.0, sigma=1.0, epsilon=1.0, smooth=smooth), cutoff)


def apart() -> tuple[Tensor, Tensor]:
    """Atoms that do not overlap, in float64."""
    corners = torch.tensor([[0.0, 0, 0], [1.2, 0, 0], [0, 1.3, 0], [0.1, 0, 1.25]], dtype=torch.float64)
    return torch.tensor([18, 18, 18, 18]), corners


def ours(**settings) -> SpaceModel:  # type: ignore[no-untyped-def]
    return SpaceModel(PointSpec(("H", "C", "O"), **{"width": 8, "vectors": 4, "heads": 2, "layers": 1, "radial": 4} | settings))


CONSERVATIVE = [
    Case("molecule, forces by autograd", Field, molecule, "conservative", "holds", says="by autograd"),
    Case("molecule, forces of the energy", lambda: Driven(True), molecule, "conservative", "holds", says="of forces"),
    Case("molecule, forces of another energy", lambda: Driven(False), molecule, "conservative", "broken", says="not the gradient",
         proof="the fields have other parameters"),
    *(Case(f"molecule, forces of another energy, {name}", lambda: Driven(False), molecule, name, "holds",
           proof="both energies have every symmetry, so no test of symmetry finds it")
      for name in ("permute", "rotate", "translate", "reflect")),
    Case("molecule, frames detached", lambda: Field("frames"), molecule, "conservative", "broken", says="something is detached"),
    Case("molecule, frames detached, turned", lambda: Field("frames"), molecule, "rotate", "holds", output="invariant"),
    Case("molecule, frames without gradients", Angled, molecule, "conservative", "broken", where="frames"),
    Case("molecule, frames without gradients, not read yet", lambda: Angled(0.0), molecule, "conservative", "broken",
         where="frames", says="at the given parameters: ", proof="a gain of 0 hides them at the given parameters"),
    Case("molecule, frames without gradients, not read yet, as given", lambda: Angled(0.0), molecule, "conservative", "holds",
         settings={"random_parameters": False}),
    Case("molecule, an energy without gradients", lambda: Field("cut"), molecule, "conservative", "broken", says="detached"),
    Case("molecule, ours, dense", ours, molecule, "conservative", "holds"),
    Case("molecule, ours, local", lambda: ours(cutoff=3.0, filtered=True), molecule, "conservative", "holds"),
    Case("Lennard-Jones of ASE", lambda: lennard_jones(True), apart, "conservative", "holds", says="of forces"),
]  # fmt: skip

QUICK = {"effort": "quick"}

SMOOTH = [
    Case("molecule with an envelope", Field, molecule, "smooth", "holds", says="cutoff 2.5", settings=QUICK),
    Case("molecule with a hard cutoff", lambda: Field("hard"), molecule, "smooth", "broken", says="of 2.5, the cutoff"),
    Case("molecule with a bent envelope", lambda: Field("bent"), molecule, "smooth", "broken", says="forces (",
         proof="the energy reaches 0 at the cutoff, its slope does not"),
    Case("molecule, the nearest two", lambda: Field("nearest"), molecule, "smooth", "broken", says="of all points",
         proof="of two atoms the nearest is always the other one"),
    Case("molecule, lengths without a floor", lambda: Field("rooted"), molecule, "smooth", "broken",
         says="where two points coincide",
         proof="the slope of a root at 0 is infinite, times 0 from the square"),
    Case("molecule, arrows that end smoothly", Arrows, molecule, "smooth", "holds", says="outputs", settings=QUICK),
    Case("molecule, ours alone, dense", ours, molecule, "smooth", "holds", settings=QUICK),
    Case("molecule, ours alone, local", lambda: ours(cutoff=3.0, filtered=True), molecule, "smooth", "holds", says="cutoff 3",
         settings=QUICK),
    Case("Lennard-Jones switched off", lambda: lennard_jones(True), apart, "smooth", "holds"),
    Case("Lennard-Jones shifted", lambda: lennard_jones(False), apart, "smooth", "broken", says="at a distance of 3",
         proof="ASE's documentation: without smooth=True forces jump at the cutoff"),
    Case("Lennard-Jones shifted, cutoff unsaid", lambda: lennard_jones(False, None), apart, "smooth", "broken",
         settings={"effort": "thorough"}, says="at a distance of 3"),
    Case("one atom", Field, lambda: (torch.tensor([[6]]), torch.zeros(1, 1, 3)), "smooth", "not applicable", says="only one point"),
]  # fmt: skip

STABILISER = [
    Case("molecule, arrows", Arrows, molecule, "stabiliser", "holds"),
    Case("molecule, a bias on arrows", lambda: Arrows(0.1), molecule, "stabiliser", "broken", "bias"),
    Case("molecule, a bias on arrows, turned", lambda: Arrows(0.1), molecule, "rotate", "broken", "bias"),
    Case("molecule, a bias on arrows, permuted", lambda: Arrows(0.1), molecule, "permute", "holds",
         proof="every atom gets the same bias"),
    Case("molecule, forces on figures", Field, molecule, "stabiliser", "holds"),
    Case("molecule, arrows to the nearest two", lambda: Arrows(fault="nearest"), molecule, "stabiliser", "broken",
         proof="of four that are equally near two are taken, whichever stand first"),
    Case("molecule, ours on figures", ours, molecule, "stabiliser", "holds"),
    Case("molecule, ours on figures, SE(3)", lambda: ours(group="SE(3)", products=2), molecule, "stabiliser", "holds"),
    Case("points in an order", lambda: nn.Linear(3, 3), lambda: (torch.randn(1, 5, 3),), "stabiliser", "broken"),
]  # fmt: skip

TIES = [
    Case("the nearest two, at random", lambda: Arrows(fault="nearest"), molecule, "permute", "holds",
         settings={"random_parameters": False}, proof="no two are equally near"),
    Case("the nearest two, of equals", lambda: Arrows(fault="nearest"), lattice, "permute", "broken",
         proof="which two of four is decided by their rows"),
]  # fmt: skip

DIGITS = [
    Case("molecule, distances from differences", Field, molecule, "digits", "holds"),
    Case("molecule, distances from products", lambda: Field("products"), molecule, "digits", "broken", says="1000 from the origin"),
    Case("molecule, distances from products, moved", lambda: Field("products"), molecule, "translate", "holds",
         proof="it is rounding, far larger than it need be"),
    Case("molecule, distances in float32", lambda: Field("narrow"), molecule, "digits", "broken", says="float32 inside"),
    Case("molecule, ours far away", ours, molecule, "digits", "holds"),
]  # fmt: skip

CASES: list[Case] = [*CONSERVATIVE, *SMOOTH, *STABILISER, *TIES, *DIGITS]
