"""Models of points in space: energies that stay when a molecule turns, forces that turn with it.

An energy is a sum over atoms; forces are its gradient, and stress is how it answers to a strain, so all three agree by themselves.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.geometry.attend import Neighbours
from equiscope.geometry.attention import SpaceAttention, everyone
from equiscope.geometry.features import PLAIN, Features, Group, Widths
from equiscope.geometry.maps import Gated, Norm, length
from equiscope.geometry.neighbours import neighbours
from equiscope.spec_base import Count, ModelSpec, Size
from equiscope.symmetry.actions import Action, Permute
from equiscope.symmetry.space import Reflect, Rotate, Translate
from equiscope.tokens.elements import SYMBOLS, named

FEW = 32  # atoms up to which all pairs are computed, where nothing repeats: what lies beyond the cutoff is weighed by 0
POINT = "point"  # the one kind of points without elements: their number is 1


@dataclass(frozen=True)
class PointSpec(ModelSpec):
    """A transformer of points in space.

    elements  symbols of the atoms that there are; the data says it. ("point",) for points without elements, as of a mesh
    group     "E(3)": mirror images are alike; "SE(3)": they may be told apart
    width     numbers of a point; arrows: arrows of a point; mirrored: numbers whose sign a mirror changes, and axes (E(3) only)
    heads     divide width, arrows and mirrored; layers: blocks; inner: features between, in a feed-forward (2 x width unless said)
    carried   ways home of each head; radial: functions of the distance; products: channels of products in a feed-forward
    cutoff    in angstrom, beyond which nobody is seen, so that cost grows with the number of atoms; None: all see all
    filtered  messages are multiplied by functions of the distance (needs radial; lists of neighbours)
    reads     "energy": one number for all atoms; "atoms": features of each; "shape": features of all, their mean; "class": scores
    classes   that a shape is scored for, with reads="class"
    """

    kind: ClassVar[str] = "points"

    elements: tuple[str, ...]
    group: Literal["E(3)", "SE(3)"] = "E(3)"
    width: Size = 64
    arrows: Count = 32
    mirrored: Count = 0
    heads: Size = 4
    layers: Size = 2
    inner: Size | None = None
    carried: Size = 4
    radial: Count = 16
    products: Count = 0
    cutoff: float | None = None
    filtered: bool = False
    reads: Literal["energy", "atoms", "shape", "class"] = "energy"
    classes: Size | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "elements", tuple(self.elements))
        unknown = [symbol for symbol in self.elements if symbol not in SYMBOLS]
        if (unknown or not self.elements) and self.elements != (POINT,):
            raise InputError(f"Elements are symbols such as H and C, each once, but got {self.elements}.")
        if (self.reads == "class") != (self.classes is not None):
            raise InputError(f'Scores of classes are read with reads="class" and classes=2 or so, but reads is "{self.reads}".')
        if self.group == "SE(3)" and self.mirrored:
            raise InputError("SE(3) knows no mirror, so it has no mirrored features. Use E(3), or mirrored=0.")
        if self.filtered and not self.radial:
            raise InputError("Filters are functions of the distance: filtered=True needs radial=8 or so.")
        if self.cutoff is not None and not self.cutoff > 0:
            raise InputError(f"A cutoff is above 0, but got {self.cutoff}.")

    @property
    def widths(self) -> dict[str, int]:
        """Channels of each kind."""
        plain, arrow = PLAIN[self.group]
        more = {"0o": self.mirrored, "1e": self.mirrored} if self.mirrored else {}
        return {plain: self.width, arrow: self.arrows, **more}


@dataclass(frozen=True)
class Answer:
    """energy [B]; forces [B, N, 3], minus the gradient; stress [B, 3, 3], by the volume of the cell, None where none was asked."""

    energy: Tensor
    forces: Tensor
    stress: Tensor | None = None


class SpaceBlock(nn.Module):
    """Norm, attention, residual; norm, feed-forward, residual: features at points to features of the same widths.

    Options are those of `SpaceAttention` and `Gated`.
    """

    def __init__(
        self, widths: Widths, heads: int, inner: int, group: Group = "E(3)", carried: int = 1, radial: int = 0,
        cutoff: float | None = None, filtered: bool = False, products: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention_norm, self.feedforward_norm = Norm(widths, group), Norm(widths, group)
        self.attention = SpaceAttention(widths, heads, group, carried, radial, cutoff, filtered)
        self.feedforward = Gated(widths, inner, group, products)

    def forward(
        self, x: Features, at: Tensor, neighbours: Neighbours | None = None, valid: Tensor | None = None
    ) -> Features:  # fmt: skip
        x = x.plus(self.attention(self.attention_norm(x), at, neighbours, valid))
        return x.plus(self.feedforward(self.feedforward_norm(x)))


class SpaceModel(nn.Module):
    """Atomic numbers [B, N] (0: no atom) and positions [B, N, 3] to energies [B], or to features of each atom.

    Energies are in the unit of `references` and `scale`, which say what an atom alone has and how far energies spread: the data
    decides both (`settle`), as the data's own unit.
    """

    claimed: ClassVar[tuple[type[Action], ...]] = (Permute, Rotate, Translate, Reflect)
    settled: ClassVar[tuple[str, ...]] = ("references", "scale")  # buffers that the data decides: a checkpoint holds them
    references: Tensor
    scale: Tensor
    row: Tensor

    def __init__(self, spec: PointSpec) -> None:
        super().__init__()
        self.spec = spec
        self.facts: dict[str, Any] = {}
        widths, plain = spec.widths, PLAIN[spec.group][0]
        self.plain = plain
        self.table = nn.Parameter(torch.randn(len(spec.elements), spec.width))
        inner, own = spec.inner or 2 * spec.width, {kind: width for kind, width in widths.items() if width}
        self.blocks = nn.ModuleList(
            SpaceBlock(own, spec.heads, inner, spec.group, spec.carried, spec.radial, spec.cutoff, spec.filtered, spec.products)
            for _ in range(spec.layers)
        )
        self.norm = Norm(widths, spec.group)
        self.first, self.last = nn.Linear(sum(widths.values()), spec.width), nn.Linear(spec.width, spec.classes or 1)
        rows = torch.full((len(SYMBOLS) + 1,), -1)
        for i, symbol in enumerate(spec.elements):
            rows[1 if symbol == POINT else SYMBOLS.index(symbol) + 1] = i
        self.register_buffer("row", rows, persistent=False)
        self.register_buffer("references", torch.zeros(len(spec.elements), dtype=torch.float64))
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))

    def forward(self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None, near: Neighbours | None = None) -> Tensor:
        """Energies [B]; with reads="atoms" the numbers that are each atom's, [B, N, width]; shapes [B, width], scores [B, classes].

        cell  [B, 3, 3] of what is periodic, which needs a cutoff
        near  lists made before; their ways have to come from these positions
        """
        x, valid, row = self._features(numbers, positions, cell, near)
        if self.spec.reads == "atoms":
            return x[self.plain]
        hidden = self._told(x)
        if self.spec.reads != "energy":
            shape = (hidden * valid.unsqueeze(-1)).sum(1) / valid.sum(1, keepdim=True).clamp_min(1)  # however many points there are
            return shape if self.spec.reads == "shape" else self.last(shape)
        energy = self._summed(hidden, row, valid)
        return energy if positions.dtype == torch.float64 else energy.to(positions.dtype)

    def energies(self, row: Tensor, valid: Tensor, at: Tensor, near: Neighbours | None = None) -> Tensor:
        """Energies [B] in float64 as `forward` gives them of what was looked at before: nothing is checked, so it can be traced.

        row, valid  [B, N], as `elements` says, and whether there is an atom; near: as `near` says
        """
        return self._summed(self._told(self._between(row, valid, at, near)), row, valid)

    def near(self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None) -> Neighbours | None:
        """Lists of whom each atom sees; None where all see all, and in few atoms in no cell, where what is far is weighed by 0."""
        if cell is not None and self.spec.cutoff is None:
            raise InputError("In a periodic cell all would see infinitely many. Give the spec a cutoff.")
        if self.spec.cutoff is None or (cell is None and positions.shape[1] <= FEW):
            if not bool(positions.detach().isfinite().all()):
                raise InputError("Some coordinates are no numbers (NaN or infinite). Look at the data.")
            return None
        return neighbours(positions, self.spec.cutoff, cell, valid=numbers > 0)

    def elements(self, numbers: Tensor) -> Tensor:
        """Which of the model's elements each atom is, 0 where there is none. Raises InputError for one that it does not know."""
        row = self.row[numbers.clamp(0, len(SYMBOLS))]
        unknown = (numbers != 0) & (row < 0) | (numbers < 0) | (numbers > len(SYMBOLS))
        if bool(unknown.any()):
            other = named(int(numbers[unknown][0]))
            raise InputError(f"This model knows {', '.join(self.spec.elements)}, but there is an atom of {other}.")
        return row.clamp_min(0)

    def features(self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None) -> Features:
        """Of each atom, by kind: numbers [B, N, C], arrows [B, N, 3, C], which turn as the positions do."""
        return self._features(numbers, positions, cell, None)[0]

    def answer(
        self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None, stress: bool = False, learn: bool = False
    ) -> Answer:  # fmt: skip
        """Energy, forces and stress. learn: what is learned from forces, so that they have a gradient themselves."""
        if self.spec.reads != "energy":
            raise InputError(f'Forces are slopes of an energy, but this model reads "{self.spec.reads}".')
        with torch.enable_grad():
            at = positions.detach().requires_grad_()
            strain, moved, box = None, at, cell
            if stress:
                if cell is None:
                    raise InputError("Stress is a force by an area, so it needs a cell. Give one, or leave stress out.")
                strain = torch.zeros_like(cell).requires_grad_()
                bend = torch.eye(3, dtype=at.dtype, device=at.device) + 0.5 * (strain + strain.mT)
                moved, box = at @ bend, cell @ bend
            energy = self(numbers, moved, box)
            asked = [at] if strain is None else [at, strain]
            found = torch.autograd.grad(energy.sum(), asked, create_graph=learn)
        pressed = None
        if strain is not None and cell is not None:
            pressed = found[1] / cell.det().abs()[:, None, None]
        energy = energy if learn else energy.detach()
        return Answer(energy, -found[0], pressed)

    @torch.no_grad()
    def settle(self, references: Tensor, scale: float) -> None:
        """What an atom of each element has alone, and how far energies (or forces) spread: of the training data only."""
        if references.shape != self.references.shape:
            raise ShapeError(f"There are {len(self.references)} elements, but {tuple(references.shape)} reference energies.")
        self.references.copy_(references)
        self.scale.fill_(scale)

    def _features(
        self, numbers: Tensor, positions: Tensor, cell: Tensor | None, near: Neighbours | None
    ) -> tuple[Features, Tensor, Tensor]:
        if numbers.shape != positions.shape[:-1] or positions.shape[-1:] != (3,) or numbers.ndim != 2:
            raise ShapeError(
                f"Atoms are numbers [B, N] and positions [B, N, 3], but got {tuple(numbers.shape)} and {tuple(positions.shape)}."
            )
        valid, row = numbers > 0, self.elements(numbers)
        if near is None:
            near = self.near(numbers, positions, cell)
        kept = positions.dtype == torch.float64 or self.table.dtype == positions.dtype
        return self._between(row, valid, positions if kept else positions.to(self.table.dtype), near), valid, row

    def _between(self, row: Tensor, valid: Tensor, at: Tensor, near: Neighbours | None) -> Features:
        begin = self.table[row] * valid.unsqueeze(-1)
        x = Features({self.plain: begin})
        for name, width in self.spec.widths.items():
            if name != self.plain and width:
                arrow = name[0] == "1"
                x[name] = begin.new_zeros(*begin.shape[:2], *([3] if arrow else []), width)
        if near is None and self.spec.cutoff is not None:
            near = everyone(at, valid)
        for block in self.blocks:
            x = block(x, at, near, valid)
        normed: Features = self.norm(x)
        return normed

    def _told(self, x: Features) -> Tensor:
        told = [length(part) if kind[0] == "1" else part if kind == self.plain else part.square() for kind, part in x.items()]
        return F.silu(self.first(torch.cat(told, -1)))

    def _summed(self, hidden: Tensor, row: Tensor, valid: Tensor) -> Tensor:
        own = self.last(hidden).squeeze(-1).to(self.scale.dtype) * self.scale + self.references[row]
        return torch.where(valid, own, 0.0).sum(-1)
