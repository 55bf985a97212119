"""A molecule that is rotated: its atoms, and models that are evaluated for every rotation."""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.computation import Computation
from equiscope.record.program import VERSION


class Species(Struct, frozen=True, kw_only=True):
    """How atoms of one kind are drawn. radius: covalent, in angstrom; colour: #rrggbb."""

    number: int
    symbol: str
    name: str
    radius: float
    colour: str


class SolverOutput(Struct, frozen=True, kw_only=True):
    """The output of a model for one geometry: energy in the model's unit, per atom [N], forces [N, 3] per angstrom."""

    energy: float
    atom_energies: list[float]
    forces: Array


class Solver(Struct, frozen=True, kw_only=True):
    """A model on the page.

    group    equivariant to reflections too ("E(3)") or to rotations ("SE(3)"); "none": a transformer that reads raw coordinates
    trained  whether its weights were trained; else they are random from `seed`
    unit     of energies; empty where there is none
    start    the output that Python computed for the first displayed frame
    floors   rounding floors in float64, from float32 errors at some rotations: of the energy and of an atom's energy, in the unit;
             of forces, relative to their size
    energies, forces  |E(Rx) - E(x)| in the unit, and |F(Rx) - R F(x)| / |F(x)|, at the record's `angles` about `axis`
    computation  from `positions` [N, 3] to `energy`, `each` [N], `forces` [N, 3], `weights` [layers, heads, N, N] and, where
             there are some, `vectors` [N, 3, C]
    """

    name: str
    title: str
    about: str
    group: Literal["E(3)", "SE(3)", "none"]
    trained: bool
    seed: int | None
    unit: str
    parameters: int
    layers: int
    heads: int
    vectors: int
    start: SolverOutput
    floors: dict[str, float]
    energies: list[float]
    forces: list[float]
    computation: Computation


class Molecule(Struct, frozen=True, kw_only=True):
    """A page of a molecule.

    atoms   atomic numbers
    frames  [F, N, 3] in angstrom, each about the middle of its atoms; captions: a line for each
    frame   the first that is shown, counted from 0
    axis    rotation axis of the recorded curves; angles: in degrees
    """

    version: int = VERSION
    title: str
    summary: str
    file: str
    elements: list[Species]
    atoms: list[int]
    frames: Array
    captions: list[str]
    frame: int
    axis: list[float]
    angles: list[float]
    solvers: list[Solver]
    notes: list[str] = field(default_factory=list)
