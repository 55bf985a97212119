"""Parity: whether two implementations compute the same, and if not, where they first differ and why. Plain data, no torch."""

from typing import Any, Literal

from msgspec import Struct, field

from equiscope.record import display
from equiscope.record.audit import Verdict
from equiscope.record.program import VERSION
from equiscope.record.report import percent

WEIGHT_CELLS = ("in A", "in B", "state", "bits", "scales", "difference")
UNKNOWN = "no listed cause reproduces the difference"
CELLS = ("compared", "verdict", "error", "rounding", "in A", "in B")


class ParityStep(Struct, frozen=True, kw_only=True):
    """A step of one of the two implementations.

    module     path of the module; empty for the model itself
    operation  as torch or ONNX calls it; empty for a tensor of a dump
    value      name of the result in the program; shape: its shape
    """

    module: str
    operation: str
    value: str
    shape: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        where = self.module or "the model"
        return f"{self.operation} in {where}" if self.operation else self.value


class ParityRow(Struct, frozen=True, kw_only=True):
    """One comparison: an output of the two models, or the last pair of values that agree.

    name     of the output; verdict: holds, approximate, broken, not applicable or undecided
    error    relative difference in float64, where both run in it; error32: in float32
    floor    the rounding error of one pass of A in float32
    a, b     the step on each side
    accepted  the reason in the baseline file for which a difference does not fail
    note     how the two tensors were aligned, or why nothing was decided
    """

    name: str
    verdict: Verdict
    error: float | None = None
    error32: float | None = None
    floor: float | None = None
    a: ParityStep | None = None
    b: ParityStep | None = None
    accepted: str = ""
    note: str = ""

    @property
    def fails(self) -> bool:
        """Whether it makes the exit code 1."""
        return self.verdict not in ("holds", "not applicable") and not self.accepted

    @property
    def cells(self) -> tuple[str, ...]:
        """Name, verdict, errors and both steps, as a table prints them."""
        error = self.error if self.error is not None else self.error32
        numbers = ("" if x is None else f"{x:.1e}" if x else "0" for x in (error, self.floor))
        return self.name, self.verdict, *numbers, *("" if s is None else str(s) for s in (self.a, self.b))

    def __repr__(self) -> str:
        """The comparison in one line."""
        return f"{self.name}: {self.verdict}" + (f", error {self.error:.1e}" if self.error is not None else "")


class ParityPair(Struct, frozen=True, kw_only=True):
    """A step of A beside that of B.

    a, b               the steps; None where the other side has none that belongs to it
    state              equal up to rounding; "differs": the first step that differs; "unpaired": no equal value on the other side
    error              relative difference of the numbers, in the precision in which the sides were aligned
    row, column        of the first number that is printed: the last axis is a row of numbers, all other axes are rows
    numbers_a          a block of A's numbers; None: a number that is not finite
    numbers_b          the same block of B's; empty where it prints the same
    """

    state: Literal["equal", "differs", "unpaired"]
    a: ParityStep | None = None
    b: ParityStep | None = None
    error: float | None = None
    row: int = 0
    column: int = 0
    numbers_a: list[list[float | None]] = field(default_factory=list)
    numbers_b: list[list[float | None]] = field(default_factory=list)


class ParityLayer(Struct, frozen=True, kw_only=True):
    """A layer of A beside that of B.

    a, b    paths of the modules; empty for steps outside the layers
    paired  steps with an equal one on the other side; differs: whether the first difference is here; pairs: in order
    """

    a: str
    b: str
    paired: int
    differs: bool = False
    pairs: list[ParityPair] = field(default_factory=list)


class ParityDifference(Struct, frozen=True, kw_only=True):
    """A difference behind the first one.

    kind, cause, evidence  as of the first difference
    step_a, step_b         the first step that differs once A goes on from B's numbers of the earlier differences
    repeated               modules of A in which the same difference was found again
    """

    kind: str
    cause: str
    evidence: str
    step_a: ParityStep | None = None
    step_b: ParityStep | None = None
    repeated: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The step on both sides."""
        return _steps(self.step_a, self.step_b)

    def __str__(self) -> str:
        again = f", again in {', '.join(self.repeated)}" if self.repeated else ""
        return f"{self.cause or UNKNOWN} ({self.where}{again})"


class ParityWeight(Struct, frozen=True, kw_only=True):
    """A weight matrix of a quantized model beside that of the other one.

    a, b    names; empty where the other side has none that is similar
    module  path in the quantized model
    state   "quantized": the nearest numbers of a grid; "equal"; "other": another weight, or not the nearest numbers
    bits    that the integers of one scale need; None where the numbers are on no grid
    scales  what shares one
    error   relative difference; steps: the largest distance of a number, in steps of the grid
    note    what is wrong with the numbers
    """

    a: str
    b: str
    module: str
    state: Literal["quantized", "equal", "other"]
    bits: int | None = None
    scales: str = ""
    error: float | None = None
    steps: float | None = None
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Both names, the state, bits, scales and difference, as a table prints them."""
        bits, error = "" if self.bits is None else str(self.bits), "" if self.error is None else percent(self.error)
        return self.a, self.b, f"{self.state}: {self.note}" if self.note else self.state, bits, self.scales, error


class ParityDrift(Struct, frozen=True, kw_only=True):
    """How far two models that differ in their precision are apart.

    layer  path in A; error: relative difference at its end
    """

    layer: str
    error: float


class ParityAnswers(Struct, frozen=True, kw_only=True):
    """How many answers of an output change. An answer is the largest number on the last axis.

    output   its name; count: answers; changed: those that are others in B
    rank     the worst rank in B of A's top answer, counted from 1
    error    relative difference of the numbers
    """

    output: str
    count: int
    changed: int
    rank: int
    error: float

    def __str__(self) -> str:
        return (
            f"{self.output}: {self.changed} of {self.count} top answers change; A's top answer has at worst rank {self.rank} in B. "
            f"The numbers differ by {percent(self.error)}."
        )


class Parity(Struct, frozen=True, kw_only=True):
    """What `equiscope.parity` found.

    version    of the record; another version has other fields
    a, b       titles of the two sides
    verdict    the worst of the outputs
    step_a     the first step whose result has no equal on the other side, of A; step_b: of B
    cause      the difference that explains it, in words; kind: its name in `equiscope.audit.CAUSES`; both empty where no
               listed cause reproduces it
    evidence   what was computed to confirm the cause; where there is none, which changes were tried
    further    differences behind the first one, in the order in which A computes
    rows       a comparison for each output
    aligned    values of A with an equal value in B; values: of A, in all; ties: of the aligned ones, values that order decided
    seed       as requested; seconds: that it took; versions: of equiscope, torch and Python; notes: in sentences
    layers     both sides step by step, with blocks of their numbers; of long programs the first steps
    weights    of a quantized model: its weight matrices in the order in which they are read
    drift      of models that differ in their precision alone: how far apart they are after each layer
    answers    of these: how many answers of each output change
    """

    version: int = VERSION
    a: str
    b: str
    verdict: Verdict
    rows: list[ParityRow]
    step_a: ParityStep | None = None
    step_b: ParityStep | None = None
    kind: str = ""
    cause: str = ""
    evidence: str = ""
    further: list[ParityDifference] = field(default_factory=list)
    aligned: int = 0
    values: int = 0
    ties: int = 0
    seed: int = 0
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    layers: list[ParityLayer] = field(default_factory=list)
    weights: list[ParityWeight] = field(default_factory=list)
    drift: list[ParityDrift] = field(default_factory=list)
    answers: list[ParityAnswers] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The title of its page."""
        return f"{self.a} and {self.b}"

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        if self.holds:
            return "Both compute the same, up to rounding."
        if self.verdict == "undecided":
            return "Nothing could be decided: an output is not a finite number."
        if self.differs_in_precision:
            return f"They differ in precision alone ({self.cause})."
        if self.further:
            causes = [self.cause or UNKNOWN, *(one.cause or UNKNOWN for one in self.further)]
            return f"They differ in {len(causes)} ways: {'; '.join(causes)}."
        return f"They differ: {self.cause}." if self.cause else f"They differ, and {UNKNOWN}."

    @property
    def holds(self) -> bool:
        """Whether both compute the same, up to rounding."""
        return self.verdict == "holds"

    @property
    def differs_in_precision(self) -> bool:
        """Whether only the precision of the weights, or their quantization, is between the two."""
        return self.kind in ("precision", "quantization")

    @property
    def failed(self) -> bool:
        """Whether the exit code is 1: an output differs that no baseline file accepts, or nothing is decided.

        A model in a lower precision, or a quantized one, that is the same otherwise does not fail.
        """
        if self.differs_in_precision:
            return False
        return any(row.fails for row in self.rows) or not (self.rows or self.holds)

    @property
    def where(self) -> str:
        """The first step that differs, on both sides; empty where none does."""
        return _steps(self.step_a, self.step_b)

    def __getitem__(self, name: str) -> ParityRow:
        """The row of that name. Raises KeyError."""
        return next(row for row in self.rows if row.name == name) if name in [r.name for r in self.rows] else _unknown(name)

    def __repr__(self) -> str:
        """The verdict, the outputs, the first step that differs and its cause."""
        lines = [display.text(self._heading, [row.cells for row in self.rows])]
        lines += [f"first difference: {self.where}"] if self.where else []
        lines += [f"cause: {self.cause}"] if self.cause else []
        lines += [f"difference {i}: {one}" for i, one in enumerate(self.further, 2)]
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = [row.cells for row in self.rows]
        for name, step in (("first difference", self.where), ("cause", self.cause)):
            rows += [(name, step, "", "", "", "")] if step else []
        rows += [(f"difference {i}", str(one), "", "", "", "") for i, one in enumerate(self.further, 2)]
        return display.html(self._heading, CELLS, rows)

    @property
    def _heading(self) -> str:
        return f"{self.a} and {self.b}: {self.verdict}. {self.aligned} of {self.values} values of A have an equal in B"


def _steps(a: ParityStep | None, b: ParityStep | None) -> str:
    return "; ".join(f"{side}: {step}" for side, step in (("A", a), ("B", b)) if step is not None)


def _unknown(name: str) -> Any:
    raise KeyError(name)
