"""Checkpoint: everything that going on needs, in safetensors and JSON, whole or not there at all.

A folder is written under another name, brought to disk, and only then gets its own.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from safetensors.torch import save
from torch import Tensor

from equiscope.errors import InputError
from equiscope.pretrained.runs import MANIFEST, STEPS, Checkpoint, checkpoints, name_of, read_checkpoint, seal

T = TypeVar("T")


def write(folder: Path, step: int, files: dict[str, dict[str, Tensor]], facts: dict[str, Any], identity: str) -> Path:
    """A checkpoint folder. Raises OSError where the disk is full; then nothing has changed.

    identity  of the run, so that no checkpoint of another one is taken for it
    """
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        said = {}
        for name, tensors in files.items():
            if not tensors:
                continue
            content = save({key: t.detach().contiguous() for key, t in tensors.items()}, {"format": "pt"})
            _put(part / name, content)
            said[name] = [len(content), hashlib.sha256(content).hexdigest()]
        manifest: dict[str, Any] = {"version": 1, "run": identity, "step": step, "files": said, "facts": facts}
        _put(part / MANIFEST, json.dumps(manifest | {"sha256": seal(manifest)}, indent=1).encode())
        if folder.exists():  # of this very step, from before a kill; it is there until the new one is
            old = _aside(folder)
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.rename(folder)
        _to_disk(folder.parent)
        shutil.rmtree(_aside(folder), ignore_errors=True)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return folder


def _aside(folder: Path) -> Path:
    """Where a checkpoint waits while another one of its step takes its place."""
    return folder.with_name(f".{folder.name}.old")


def restore(run: Path) -> None:
    """Give checkpoints that wait aside their names back, where a kill came before the other one had it."""
    for old in run.glob("*/.step-*.old"):
        if not (folder := old.with_name(old.name.removeprefix(".").removesuffix(".old"))).exists():
            old.rename(folder)


def newest(run: Path, fits: Callable[[Checkpoint], T], say: Callable[[str], None], identity: str) -> T | None:
    """What `fits` makes of the newest checkpoint that is whole; those that are not are named. None where there is none.

    raises  InputError where there are checkpoints, but none is whole
    """
    wrong = []
    for folder in checkpoints(run):
        try:
            return fits(read_checkpoint(folder, identity))
        except InputError as error:
            wrong.append(str(error))
            say(f"{error} It is left out.")
    if wrong:
        raise InputError(f"No checkpoint of {run} is whole. {wrong[0]} Bring it back, or begin again with another --out.")
    return None


def thin(run: Path, keep: int, step: int, kind: str = STEPS) -> None:
    """Leave only the newest `keep` checkpoints up to a step, and nothing half written; later ones were not whole."""
    last = place(run, step, kind)
    kept = [folder for folder in checkpoints(run, kind) if folder <= last][:keep]
    for folder in [*checkpoints(run, kind), *(run / kind).glob(".step-*")]:
        if folder not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def place(run: Path, step: int, kind: str = STEPS) -> Path:
    return run / kind / name_of(step)


def _put(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _to_disk(folder: Path) -> None:
    """Names in a folder survive a power cut, where the system can promise that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
