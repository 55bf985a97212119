"""Audit: what was claimed about a model, what was measured, and the evidence. Plain data, no torch."""

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct, field

from equiscope.errors import counted, sentences, suggestion
from equiscope.record import display
from equiscope.record.array import Array
from equiscope.record.program import VERSION

TOLERANCE = 1e-2  # below which a violation is approximate, where no other is requested
Verdict = Literal["holds", "approximate", "broken", "not applicable", "undecided"]
Claimed = Literal["yes", "no", "unknown"]


CELLS = ("statement", "claimed", "verdict", "error", "module", "")


class Mark(Struct, frozen=True, kw_only=True):
    """How far a module's output is from what the symmetry asks of it, on the way through the model.

    module  its path; depth: in how many modules it stands
    error   relative; None where the output cannot be compared (it has no rows of tokens, say)
    """

    module: str
    error: float | None
    depth: int = 0


class Counterexample(Struct, frozen=True, kw_only=True):
    """The smallest input found for which the statement fails; `equiscope.audit.replay` measures it again.

    text     in words, e.g. "exchange the tokens 3 and 4 of 7"; error: the relative error there
    parameters  at which it was found: "given" or "random"
    element  the element of the action, or what a property changed, by the names of its fields
    inputs   what the model was given, by the names of its arguments; empty where that would be too large
    """

    text: str
    error: float
    element: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    parameters: str = "given"


class Proof(Struct, frozen=True, kw_only=True):
    """What the graph of operations says without running it.

    answer     proved, refuted or unknown
    operation  the one that refutes, or the first without a rule
    where      the module it stands in
    reason     for which sizes it is proved, or why it is unknown
    """

    answer: Literal["proved", "refuted", "unknown"]
    operation: str = ""
    where: str = ""
    reason: str = ""


class OutputVerdict(Struct, frozen=True, kw_only=True):
    """What became of one of several outputs: a `pooler_output` beside a `last_hidden_state`.

    name     of the output, or of a change or an engine; verdict: as of a row; error: as of a row
    decides  whether the verdict of the row follows from this output too
    note     what this output does, in words: "reads position 0, which is padding"
    """

    name: str
    verdict: Verdict
    error: float | None = None
    decides: bool = True
    note: str = ""


class Coverage(Struct, frozen=True, kw_only=True):
    """The part of the positions and lengths that was measured.

    positions  of the given input that were tried; of: so many
    lengths    of inputs made longer or shorter than the given one at which it was asked too
    refused    why no longer ones were asked, where the model did not take them
    """

    positions: int = 0
    of: int = 0
    lengths: list[int] = field(default_factory=list)
    refused: str = ""


class Row(Struct, frozen=True, kw_only=True):
    """One statement about a model, and its verdict.

    name       of the action or property; kind: action or property; summary: what it states, in words
    verdict    holds, approximate, broken, not applicable or undecided
    output     how the output transforms: "invariant", "permuted", "vector", ...: as requested, else as measured
    claimed    yes, no or unknown; reason: the part that decides
    error      worst relative error of all samples, in float64 where the model runs in it; median: of the samples
    errors     of every sample
    lie_derivative   of a continuous group: the rate of violation at the identity, relative to the output, per unit of the group's
                     direction
    error32    worst relative error in float32; floor: the rounding error of one pass in that precision
    samples    number of samples
    violation_bound  upper bound on the rate of violations at 95 % confidence: 3/samples where no sample shows one
    where      first module at which it breaks; cause: the operation there, in words
    parameters  at which the error is largest: "given" or "random"
    subgroup   that holds where the whole group does not: "shifts by 4"
    fails      whether this row makes the exit code 1: it is claimed, requested or expected of every model, and does not hold
    accepted   the reason in the baseline file for which a row that does not hold does not fail
    note       the reason of `undecided` or `not applicable`, or a remark: a constant model, a float32 table
    outputs    the verdict on each output of a model with several
    coverage   the positions and lengths that were measured, where they are part of the statement
    counterexample  the smallest input found for which it fails; null where none was found
    trail      how far the output of each module is from what the statement asks, on the way through the model
    proof      what the graph of operations says, where one was tried
    passes     number of calls of the model; seconds: that it took
    """

    name: str
    kind: Literal["action", "property"]
    verdict: Verdict
    summary: str = ""
    output: str = ""
    claimed: Claimed = "unknown"
    reason: str = ""
    error: float | None = None
    median: float | None = None
    errors: list[float] = field(default_factory=list)
    error32: float | None = None
    lie_derivative: float | None = None
    floor: float | None = None
    samples: int = 0
    violation_bound: float | None = None
    where: str = ""
    cause: str = ""
    parameters: str = ""
    subgroup: str = ""
    fails: bool = False
    accepted: str = ""
    note: str = ""
    outputs: list[OutputVerdict] = field(default_factory=list)
    coverage: Coverage | None = None
    counterexample: Counterexample | None = None
    trail: list[Mark] = field(default_factory=list)
    proof: Proof | None = None
    passes: int = 0
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the verdict is that it holds, up to rounding."""
        return self.verdict == "holds"

    @property
    def cells(self) -> tuple[str, ...]:
        """Name, claim, verdict, error, module and whether it fails, as a table prints them."""
        error = "" if self.error is None else f"{self.error:.1e}"
        return self.name, self.claimed, self.verdict, error, self.where, "fails" if self.fails else ""

    def __repr__(self) -> str:
        """The statement in one line, with its cause or note."""
        parts = [f"{self.name}: {self.verdict}"]
        parts += [] if self.error is None else [f"error {self.error:.1e}"]
        parts += [f"in {self.where}"] if self.where else []
        return ", ".join(parts) + (f". {self.cause or self.note}" if self.cause or self.note else "")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html(self.summary or self.name, CELLS, [self.cells])


class ServedModel(Struct, frozen=True, kw_only=True):
    """How a served model was asked.

    api       completions or chat completions
    requests  that were made; budget: how many might be made
    prompt_tokens, completion_tokens  of the requests, as the server counts
    noise     by how much rounding typically changes a logprob on this server, in nats
    size      spread of the logprobs at one position, in nats; errors are relative to it
    """

    api: str
    requests: int
    budget: int
    prompt_tokens: int
    completion_tokens: int
    noise: float
    size: float


class Audit(Struct, frozen=True, kw_only=True):
    """Everything one `equiscope check` found.

    version    of the record; another version has other fields
    target     as it was named; model: the class; parameters: their number
    dtype, device  of the parameters
    inputs     in words, with kinds and shapes
    rows       a row for each statement
    seed, effort, mode, tolerance  as requested
    seconds    that the check took; versions: of equiscope, torch and Python; notes: in sentences
    served     how it was asked, where the model is one that a server runs: target is then its address
    passes     calls of the model, by dtype; sequences: rows of the batches that they were given, by dtype
    finished   False if the check ran out of time or was stopped: rows that it did not reach are undecided
    """

    version: int = VERSION
    target: str
    model: str
    parameters: int
    dtype: str
    device: str
    inputs: str
    rows: list[Row]
    seed: int = 0
    effort: str = "default"
    mode: str = "eval"
    tolerance: float = TOLERANCE
    passes: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    finished: bool = True
    versions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    served: ServedModel | None = None

    @property
    def failed(self) -> list[Row]:
        """Rows that make the exit code 1."""
        return [row for row in self.rows if row.fails]

    @property
    def accepted(self) -> list[Row]:
        """Rows that would fail if a baseline file did not accept them."""
        return [row for row in self.rows if row.accepted]

    @property
    def decided(self) -> bool:
        """Whether anything of what was asked was decided: where nothing was, that is no pass, and the exit code is 1 too.

        `pure` is always asked, so it counts only where nothing else was asked.
        """
        requested_rows = [row for row in self.rows if row.name != "pure"] or self.rows
        return not self.rows or any(row.verdict not in ("undecided", "not applicable") for row in requested_rows)

    def __repr__(self) -> str:
        """A heading, and a line for each statement; `equiscope.audit.table` prints them with counterexamples."""
        return display.text(self._heading, [row.cells for row in self.rows])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html(self._heading, CELLS, [row.cells for row in self.rows])

    @property
    def _heading(self) -> str:
        return f"{self.target}: {counted(len(self.rows), 'statement')}, {len(self.failed)} failed"

    def __getitem__(self, name: str) -> Row:
        """The row of that name. Raises KeyError with the names there are."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(sentences(f"{name!r}.", suggestion(name, [row.name for row in self.rows])))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)
