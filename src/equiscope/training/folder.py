"""Folder: the task's files in a run's folder, and whether a folder holds this very run."""

import filecmp
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec
import torch
from msgspec import Struct

from equiscope import __version__, budgets
from equiscope.errors import InputError, reason
from equiscope.record.run import RUN, DataFile, Run, read_run, write_run
from equiscope.training.reading import differences, recipe
from equiscope.training.task import Task

S = TypeVar("S", bound=Struct)
TASK = ".task-"  # prefix of temporary folders with the files of a task


def start_or_resume(folder: Path, fresh: Run, task: Task) -> Run:
    """The run of a folder: a fresh one, or the one that is there.

    raises  InputError if the existing run has another recipe, other data or another model, with the differences
    """
    if (folder / RUN).exists():
        there = read_run(folder, entries=False)
        known = recipe(there.recipe, str(folder / RUN)).to_dict()  # with the fields that have come since
        _same(folder, differences(known, fresh.recipe))
        same_data(folder, there, task)
        _same(folder, differences(there.spec, fresh.spec))
    elif any(not path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{folder} holds other files, and no run. Choose another folder with --out.")
    else:
        there = fresh
        write_run(fresh, folder)
    with task_files(task, folder) as files:
        for file in files:
            file.replace(folder / file.name)
    return there


def same_data(folder: Path, run: Run, task: Task) -> None:
    """Raise InputError if a task's files, or what was derived from them (a tokenizer, class names), differ from those of a run."""
    for part in dict.fromkeys(source.part for source in [*run.data, *task.sources]):
        old, new = ([source for source in sources if source.part == part] for sources in (run.data, task.sources))
        for before, now in zip_longest(old, new):
            if before is None or now is None or before.sha256 != now.sha256:
                raise InputError(
                    f"{folder} was trained on other data: {_source_text(part, before)}, now {_source_text(part, now)}. "
                    "Bring the old file back, or train in another folder with --out."
                )
    with task_files(task) as files:
        for file in files:
            stored = folder / file.name
            if stored.exists() and not (stored.is_file() and filecmp.cmp(stored, file, shallow=False)):
                raise InputError(
                    f"{stored} is another than the data makes now: a file that the recipe names has changed, or the package that "
                    "made it. Bring that back, or train in another folder with --out."
                )


def write_settings(path: Path, settings: Struct) -> None:
    """Write the settings of a task as JSON, for `read_settings`."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(settings), indent=1) + b"\n")


def read_settings(path: Path, kind: type[S], what: str) -> S:
    """Read what `write_settings` wrote. what: its content, for the error. Raises InputError if it cannot be read."""
    try:
        settings: S = budgets.decoded(budgets.read(path), kind)
        return settings
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path}, which says {what}, cannot be read: {reason(error)}. Train again, or bring it back.") from error


@contextmanager
def task_files(task: Task, folder: Path | None = None) -> Iterator[list[Path]]:
    """The files that a run stores of its task; in the run's folder they are written whole, to be moved into place."""
    for left in folder.glob(f"{TASK}*") if folder is not None else []:  # by a kill
        shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=TASK, dir=folder) as part:
        task.save(Path(part))
        yield sorted(Path(part).iterdir())


def _same(folder: Path, changed: list[str]) -> None:
    if changed:
        raise InputError(
            f"{folder} holds a run of another recipe, which going on would spoil: {'; '.join(changed[:5])}"
            f"{f'; and {len(changed) - 5} more' if len(changed) > 5 else ''}. Choose another folder with --out."
        )


def moved(there: Run) -> list[str]:
    """Differences of versions and machine since the run began that may change rounding: "torch 2.12.0, now 2.13.0"."""
    now = {**versions(), "threads": machine()["threads"], "cpu": machine()["cpu"]}
    then = {**there.versions, "threads": there.machine.get("threads"), "cpu": there.machine.get("cpu")}
    return [f"{name} {then.get(name)}, now {value}" for name, value in now.items() if then.get(name) != value]


def versions() -> dict[str, str]:
    """Versions of the software that determines the numbers."""
    return {"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()}


def machine() -> dict[str, Any]:
    """The machine on which the run is computed."""
    facts: dict[str, Any] = {"cpu": processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    return facts | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def processor() -> str:
    """The name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


def _source_text(part: str, source: DataFile | None) -> str:
    return f"no more files of the {part} part" if source is None else f"{source.name} with sha256 {source.sha256[:12]}…"
