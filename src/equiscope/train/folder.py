"""Folder: where a run lives. One process at a time writes it; what is there is never lost."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch
from filelock import FileLock, Timeout

from equiscope import __version__
from equiscope.errors import InputError
from equiscope.record.run import METRICS, RUN, Entry, Run, Source, read_entries, read_run, write_run
from equiscope.train.recipe import differences

LOCK = ".lock"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Nobody else trains in this folder meanwhile. Raises InputError where somebody does, or it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(f"Another process is training in {folder}. Wait for it, or choose another folder with --out.") from error
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}. Choose another folder with --out.") from error
    try:
        yield
    finally:
        lock.release()


def begun(folder: Path, fresh: Run) -> Run:
    """The run of a folder: a fresh one, or the one that is there.

    raises  InputError where the one that is there is of another recipe, other data or another model, naming what differs
    """
    if not (folder / RUN).exists():
        if any(path.name != LOCK for path in folder.iterdir()):
            raise InputError(f"{folder} holds other files, and no run. Choose another folder with --out.")
        write_run(fresh, folder)
        return fresh
    there = read_run(folder, entries=False)
    changed = differences(there.recipe, fresh.recipe) + differences(there.spec, fresh.spec)
    if changed:
        raise InputError(
            f"{folder} holds a run of another recipe, which going on would spoil: {'; '.join(changed[:5])}"
            f"{f'; and {len(changed) - 5} more' if len(changed) > 5 else ''}. Choose another folder with --out."
        )
    old, new = ({(s.part, s.name): s for s in run.data} for run in (there, fresh))
    for key in sorted(old.keys() | new.keys()):
        if key not in new or key not in old or old[key].sha256 != new[key].sha256:
            raise InputError(
                f"{folder} was trained on other data: {_said(old.get(key), key)}, now {_said(new.get(key), key)}. "
                "Bring the old file back, or choose another folder with --out."
            )
    return there


def cut(folder: Path, step: int) -> list[Entry]:
    """Leave only the entries up to a step, and return them: what came later is computed again."""
    kept = read_entries(folder, until=step)
    part = folder / f".{METRICS}"
    part.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in kept))
    part.replace(folder / METRICS)
    return kept


@contextmanager
def appended(folder: Path) -> Iterator[Any]:
    """A function that adds an entry to metrics.jsonl."""
    with (folder / METRICS).open("ab") as file:

        def add(entry: Entry) -> None:
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()

        yield add


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    return {"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()}


def machine() -> dict[str, Any]:
    """Where it is computed."""
    found: dict[str, Any] = {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found["cpu"] = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return found | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def _said(source: Source | None, key: tuple[str, str]) -> str:
    return f"{key[1]} is not there" if source is None else f"{key[1]} with sha256 {source.sha256[:12]}…"
