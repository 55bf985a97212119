"""Run: recipe, data, metrics and results of one training. Plain data, no torch.

On disk a run is a folder: run.json is this record without its long lists, metrics.jsonl has one line for each of their entries,
written as they come, so that a run that is killed has lost none of them.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from equiscope import outputs
from equiscope.budgets import decoded, read
from equiscope.errors import InputError, counted
from equiscope.record import display
from equiscope.record.array import Array
from equiscope.record.program import VERSION

State = Literal["running", "finished", "stopped", "failed"]
RUN, METRICS = "run.json", "metrics.jsonl"


class DataFile(Struct, frozen=True, kw_only=True):
    """A file that was learned from or measured on. part: "train", "validation", "test"."""

    name: str
    part: str
    bytes: int
    sha256: str


class Point(Struct, frozen=True, kw_only=True, tag="point", tag_field="entry"):
    """After one step of the optimiser.

    step       steps done, 1 after the first
    loss       mean over the step's batch, before the step
    rate       of learning
    norm       of the gradient, before clipping
    seconds    of training, evaluation and saving left out
    tokens     that were read in one second
    mfu        model FLOPs utilization: the rate of the model's products, of this machine's measured rate; None where unknown
    """

    step: int
    loss: float
    rate: float
    norm: float
    seconds: float
    tokens: float
    mfu: float | None = None


class Score(Struct, frozen=True, kw_only=True, tag="score", tag_field="entry"):
    """A measurement on a part of the data. best: whether it was the best so far, by the task's first number.

    values  by their names; one that is no number, or endless, is None when it is read again
    """

    step: int
    part: str
    values: Mapping[str, float | None]
    best: bool = False


class Sample(Struct, frozen=True, kw_only=True, tag="sample", tag_field="entry"):
    """The output of the model for a fixed example during training. target: the correct output, if there is one.

    tokens     of the example, and attention: of every layer and head [L, H, N, M], where it was looked at: how much each of the N
               tokens drew from each of the M
    source     the M tokens, where they are others: those that an encoder reads, or the patches of a picture
    grid       rows and columns in which these M stand, where they are patches
    picture    what was given, where it is a picture: [rows, columns] or [rows, columns, 3], 0 to 255
    """

    step: int
    prompt: str
    answer: str
    target: str | None = None
    tokens: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    grid: list[int] | None = None
    picture: Array | None = None
    attention: Array | None = None


Entry = Point | Score | Sample


class Run(Struct, frozen=True, kw_only=True):
    """A run.

    recipe      as it was resolved, every field said; spec: of the model
    versions    of what computed it; machine: where
    recipe_folder   the folder of the recipe, where data is looked for first
    processes   how many computed it together, last
    multiply_adds  of one step's forward pass
    result      what was measured at the end, by part
    reason      why it stopped or failed
    notes       what a reader should know: what of the data was left out, what the model cannot know
    """

    version: int = VERSION
    title: str
    task: str
    recipe: dict[str, Any]
    spec: dict[str, Any]
    data: list[DataFile]
    seed: int
    versions: dict[str, str]
    machine: dict[str, Any]
    recipe_folder: str = "."
    processes: int = 1
    parameters: int = 0
    multiply_adds: float = 0.0
    steps: int
    state: State = "running"
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    result: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def __repr__(self) -> str:
        """Title, state and results."""
        return display.text(self._heading, self._rows)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html(self._heading, ("part", "metric", "value"), self._rows)

    @property
    def _heading(self) -> str:
        why = f", {self.reason}" if self.reason else ""
        sizes = f"{counted(self.steps, 'step')}, {counted(self.parameters, 'parameter')}, {self.seconds:,.0f} s of training"
        return f"{self.title}: {self.state}{why}, {sizes}"

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (part, name, "no number" if value is None else f"{value:.4g}")
            for part, values in self.result.items()
            for name, value in values.items()
        ]


def read_run(folder: Path, entries: bool = True) -> Run:
    """The record of a run's folder. entries: with its points, scores and samples.

    raises  InputError where there is no run, or its record is damaged
    """
    path = folder / RUN
    try:
        run = decoded(read(path), Run)
    except FileNotFoundError as error:
        raise InputError(f"{folder} is no run: it has no {RUN}. Give a folder that `equiscope train` has made.") from error
    except NotADirectoryError as error:
        raise InputError(
            f"{folder} is a file, but a run is a folder with {RUN}. Give a folder that `equiscope train` has made."
        ) from error
    except OSError as error:
        raise InputError(
            f"{path}, the record of a run, cannot be read: {error.strerror}. Give a folder that `equiscope train` has made."
        ) from error
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is damaged: {error}. Restore it, or train again in another folder.") from error
    if run.version != VERSION:
        raise InputError(
            f"{path} has version {run.version}, but this equiscope reads version {VERSION}. Train again in another folder."
        )
    return gathered(run, read_entries(folder)) if entries else run


def gathered(run: Run, entries: list[Entry]) -> Run:
    """The run with these entries."""
    return msgspec.structs.replace(
        run, points=[e for e in entries if isinstance(e, Point)], scores=[e for e in entries if isinstance(e, Score)],
        samples=[e for e in entries if isinstance(e, Sample)],
    )  # fmt: skip


def read_entries(folder: Path, until: int | None = None) -> list[Entry]:
    """Lines of metrics.jsonl, up to a step. A last line that was cut by a kill is left out.

    raises  InputError where another line is damaged, or the file cannot be read
    """
    path = folder / METRICS
    try:
        lines = read(path).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Put that right, or move it away: the run goes on.") from error
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            entry = decoded(line, Entry)
        except msgspec.DecodeError as error:
            if number == len(lines):
                break
            raise InputError(
                f"{path}, line {number} is damaged: {error}. "
                "Delete that line: what it said of one step is lost, and the run goes on."
            ) from error
        if until is None or entry.step <= until:
            entries.append(entry)
    return entries


class Entries:
    """The lines of metrics.jsonl, up to a step at first: what came later is computed again.

    steps   how many of them are of a step
    """

    def __init__(self, folder: Path, until: int) -> None:
        kept = read_entries(folder, until=until)
        self.steps = sum(isinstance(entry, Point) for entry in kept)
        outputs.put(folder / METRICS, b"".join(msgspec.json.encode(entry) + b"\n" for entry in kept))
        self._file = (folder / METRICS).open("ab", buffering=0)

    def add(self, entry: Entry) -> None:
        """Write a line. Raises OSError where the disk is full."""
        line = msgspec.json.encode(entry) + b"\n"
        if self._file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file.name))

    def sync(self) -> None:
        """They are on the disk, before a checkpoint says that they are done."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def write_run(run: Run, folder: Path) -> None:
    """Write run.json, whole or not at all; the long lists stay in metrics.jsonl."""
    short = msgspec.structs.replace(run, points=[], scores=[], samples=[])
    outputs.put(folder / RUN, msgspec.json.format(msgspec.json.encode(short), indent=1) + b"\n")
