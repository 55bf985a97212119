"""Models of points in space: energies are invariant, and forces equivariant, to rotations, translations and permutations.

The energy is a sum over atoms. Forces are its negative gradient, stress is its derivative by a strain: all three are consistent.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.geometry.attend import Neighbours
from equiscope.geometry.attention import SpaceAttention, all_pairs
from equiscope.geometry.features import PLAIN, Features, Group, Widths
from equiscope.geometry.maps import EquivariantFeedForward, EquivariantNorm, length
from equiscope.geometry.neighbours import neighbours
from equiscope.spec_base import Count, ModelSpec, Size
from equiscope.symmetry.actions import Action, Permute
from equiscope.symmetry.space import Reflect, Rotate, Translate
from equiscope.tokens.elements import SYMBOLS, named

FEW = 32  # atoms up to which all pairs are computed in a system without a cell: weights beyond the cutoff are 0
POINT = "point"  # the kind of points without elements; their atomic number is 1


@dataclass(frozen=True)
class PointSpec(ModelSpec):
    """A transformer of points in space.

    elements     symbols of the elements; the data sets them. ("point",) for points without elements, such as those of a mesh
    group        "E(3)": mirror images have the same outputs; "SE(3)": they may differ
    width        scalar features of a point; vectors: vector features (l = 1); pseudo: pseudoscalars and as many pseudovectors,
                 whose sign a reflection changes (E(3) only)
    heads        divide width, vectors and pseudo; layers: blocks; inner: hidden features of a feed-forward (2 x width by default)
    value_heads  relative positions that each head sums; radial: radial basis functions; products: channels of tensor products in a
                 feed-forward
    cutoff       in angstrom: no attention beyond it, so that cost grows with the number of atoms; None: all pairs attend
    filtered     messages are multiplied by functions of the distance (needs radial; uses neighbour lists)
    readout      "energy": one number for all atoms; "atoms": features of each; "shape": the mean of their features; "class":
                 logits, or numbers, of the whole
    classes      number of classes or numbers, with readout="class"
    """

    kind: ClassVar[str] = "points"

    elements: tuple[str, ...]
    group: Literal["E(3)", "SE(3)"] = "E(3)"
    width: Size = 64
    vectors: Count = 32
    pseudo: Count = 0
    heads: Size = 4
    layers: Size = 2
    inner: Size | None = None
    value_heads: Size = 4
    radial: Count = 16
    products: Count = 0
    cutoff: float | None = None
    filtered: bool = False
    readout: Literal["energy", "atoms", "shape", "class"] = "energy"
    classes: Size | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "elements", tuple(self.elements))
        unknown = [symbol for symbol in self.elements if symbol not in SYMBOLS]
        if (unknown or not self.elements) and self.elements != (POINT,):
            raise InputError(f"Elements are symbols such as H and C, each once, but got {self.elements}.")
        if (self.readout == "class") != (self.classes is not None):
            raise InputError(f'Logits need readout="class" and classes=2 or so, but readout is "{self.readout}".')
        if self.group == "SE(3)" and self.pseudo:
            raise InputError("SE(3) has no reflections, so it has no pseudoscalars. Use E(3), or pseudo=0.")
        if self.filtered and not self.radial:
            raise InputError("Filters are functions of the distance: filtered=True needs radial=8 or so.")
        if self.cutoff is not None and not self.cutoff > 0:
            raise InputError(f"A cutoff is above 0, but got {self.cutoff}.")

    @property
    def widths(self) -> dict[str, int]:
        """Channels of each kind."""
        plain, arrow = PLAIN[self.group]
        more = {"0o": self.pseudo, "1e": self.pseudo} if self.pseudo else {}
        return {plain: self.width, arrow: self.vectors, **more}


@dataclass(frozen=True)
class EnergyForces:
    """energy [B]; forces [B, N, 3], its negative gradient; stress [B, 3, 3], by the volume of the cell, None unless requested."""

    energy: Tensor
    forces: Tensor
    stress: Tensor | None = None


class SpaceBlock(nn.Module):
    """Norm, attention, residual; norm, feed-forward, residual: features at points to features of the same widths.

    Options are those of `SpaceAttention` and `EquivariantFeedForward`.
    """

    def __init__(
        self, widths: Widths, heads: int, inner: int, group: Group = "E(3)", value_heads: int = 1, radial: int = 0,
        cutoff: float | None = None, filtered: bool = False, products: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention_norm, self.feedforward_norm = EquivariantNorm(widths, group), EquivariantNorm(widths, group)
        self.attention = SpaceAttention(widths, heads, group, value_heads, radial, cutoff, filtered)
        self.feedforward = EquivariantFeedForward(widths, inner, group, products)

    def forward(
        self, x: Features, at: Tensor, neighbours: Neighbours | None = None, valid: Tensor | None = None
    ) -> Features:  # fmt: skip
        x = x.plus(self.attention(self.attention_norm(x), at, neighbours, valid))
        return x.plus(self.feedforward(self.feedforward_norm(x)))


class SpaceModel(nn.Module):
    """Atomic numbers [B, N] (0: no atom) and positions [B, N, 3] to energies [B], or to features of each atom.

    Energies are in the unit of the data, which sets two buffers (`set_scale`): `references`, the energy of an isolated atom of each
    element, and `scale`, the spread of energies.
    """

    claimed: ClassVar[tuple[type[Action], ...]] = (Permute, Rotate, Translate, Reflect)
    data_buffers: ClassVar[tuple[str, ...]] = ("references", "scale")  # buffers that the data sets: a checkpoint holds them
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
            SpaceBlock(own, spec.heads, inner, spec.group, spec.value_heads, spec.radial, spec.cutoff, spec.filtered, spec.products)
            for _ in range(spec.layers)
        )
        self.norm = EquivariantNorm(widths, spec.group)
        self.first, self.last = nn.Linear(sum(widths.values()), spec.width), nn.Linear(spec.width, spec.classes or 1)
        rows = torch.full((len(SYMBOLS) + 1,), -1)
        for i, symbol in enumerate(spec.elements):
            rows[1 if symbol == POINT else SYMBOLS.index(symbol) + 1] = i
        self.register_buffer("row", rows, persistent=False)
        self.register_buffer("references", torch.zeros(len(spec.elements), dtype=torch.float64))
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))

    def forward(self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None, near: Neighbours | None = None) -> Tensor:
        """Energies [B]; with readout="atoms" the scalars of each atom, [B, N, width]; "shape" [B, width]; "class" [B, classes].

        cell  [B, 3, 3] of a periodic system, which needs a cutoff
        near  neighbour lists; their displacements must be those of these positions
        """
        x, valid, row = self._features(numbers, positions, cell, near)
        if self.spec.readout == "atoms":
            return x[self.plain]
        hidden = self._readout_features(x)
        if self.spec.readout != "energy":
            shape = (hidden * valid.unsqueeze(-1)).sum(1) / valid.sum(1, keepdim=True).clamp_min(
                1
            )  # independent of the number of points
            return shape if self.spec.readout == "shape" else self.last(shape)
        energy = self._total_energy(hidden, row, valid)
        return energy if positions.dtype == torch.float64 else energy.to(positions.dtype)

    def energies(self, row: Tensor, valid: Tensor, at: Tensor, near: Neighbours | None = None) -> Tensor:
        """Energies [B] in float64, as `forward` gives them, from checked inputs: nothing is checked here, so it can be traced.

        row, valid  [B, N], the result of `elements`, and whether there is an atom; near: the result of `near`
        """
        return self._total_energy(self._readout_features(self._run_blocks(row, valid, at, near)), row, valid)

    def near(self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None) -> Neighbours | None:
        """Neighbour lists; None where all pairs attend, and for few atoms without a cell, where weights beyond the cutoff are 0."""
        if cell is not None and self.spec.cutoff is None:
            raise InputError("In a periodic cell every atom has infinitely many neighbours. Give the spec a cutoff.")
        if self.spec.cutoff is None or (cell is None and positions.shape[1] <= FEW):
            if not bool(positions.detach().isfinite().all()):
                raise InputError("Some coordinates are NaN or infinite. Check the data.")
            return None
        return neighbours(positions, self.spec.cutoff, cell, valid=numbers > 0)

    def elements(self, numbers: Tensor) -> Tensor:
        """The index of each atom's element in the spec, 0 for padding. Raises InputError for an element that is not in the spec."""
        row = self.row[numbers.clamp(0, len(SYMBOLS))]
        unknown = (numbers != 0) & (row < 0) | (numbers < 0) | (numbers > len(SYMBOLS))
        if bool(unknown.any()):
            other = named(int(numbers[unknown][0]))
            raise InputError(f"This model knows {', '.join(self.spec.elements)}, but there is an atom of {other}.")
        return row.clamp_min(0)

    def features(self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None) -> Features:
        """Features of each atom by kind: scalars [B, N, C], and vectors [B, N, 3, C], which rotate with the positions."""
        return self._features(numbers, positions, cell, None)[0]

    def energy_and_forces(
        self, numbers: Tensor, positions: Tensor, cell: Tensor | None = None, stress: bool = False, learn: bool = False
    ) -> EnergyForces:  # fmt: skip
        """Energy, forces and stress. learn: keep the graph, so that a loss of the forces has a gradient."""
        if self.spec.readout != "energy":
            raise InputError(f'Forces are gradients of an energy, but the readout of this model is "{self.spec.readout}".')
        with torch.enable_grad():
            at = positions.detach().requires_grad_()
            strain, strained, box = None, at, cell
            if stress:
                if cell is None:
                    raise InputError("Stress is a force by an area, so it needs a cell. Give one, or leave stress out.")
                strain = torch.zeros_like(cell).requires_grad_()
                bend = torch.eye(3, dtype=at.dtype, device=at.device) + 0.5 * (strain + strain.mT)
                strained, box = at @ bend, cell @ bend
            energy = self(numbers, strained, box)
            variables = [at] if strain is None else [at, strain]
            gradients = torch.autograd.grad(energy.sum(), variables, create_graph=learn)
        stress_tensor = None
        if strain is not None and cell is not None:
            stress_tensor = gradients[1] / cell.det().abs()[:, None, None]
        energy = energy if learn else energy.detach()
        return EnergyForces(energy, -gradients[0], stress_tensor)

    @torch.no_grad()
    def set_scale(self, references: Tensor, scale: float) -> None:
        """Set the energy of an isolated atom of each element, and the spread of energies (or forces), from training data."""
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
        keep_dtype = positions.dtype == torch.float64 or self.table.dtype == positions.dtype
        return self._run_blocks(row, valid, positions if keep_dtype else positions.to(self.table.dtype), near), valid, row

    def _run_blocks(self, row: Tensor, valid: Tensor, at: Tensor, near: Neighbours | None) -> Features:
        begin = self.table[row] * valid.unsqueeze(-1)
        x = Features({self.plain: begin})
        for name, width in self.spec.widths.items():
            if name != self.plain and width:
                arrow = name[0] == "1"
                x[name] = begin.new_zeros(*begin.shape[:2], *([3] if arrow else []), width)
        if near is None and self.spec.cutoff is not None:
            near = all_pairs(at, valid)
        for block in self.blocks:
            x = block(x, at, near, valid)
        normed: Features = self.norm(x)
        return normed

    def _readout_features(self, x: Features) -> Tensor:
        invariants = [length(part) if kind[0] == "1" else part if kind == self.plain else part.square() for kind, part in x.items()]
        return F.silu(self.first(torch.cat(invariants, -1)))

    def _total_energy(self, hidden: Tensor, row: Tensor, valid: Tensor) -> Tensor:
        own = self.last(hidden).squeeze(-1).to(self.scale.dtype) * self.scale + self.references[row]
        return torch.where(valid, own, 0.0).sum(-1)
