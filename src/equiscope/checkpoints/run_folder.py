"""The folder of a run: safetensors and JSON files, whose digests are stored and compared before a number is used.

It has `best/step-...` (the weights with the best validation score) and `checkpoints/step-...` (the full state for resuming).
Nothing in them is ever executed. A checkpoint is complete or absent: its folder is written under a temporary name, flushed to
disk, and then renamed. One process at a time writes a run. `record.run` reads and writes run.json and metrics.jsonl.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor, nn

from equiscope import budgets, outputs
from equiscope.errors import InputError
from equiscope.models import Built, ModelSpec, build, spec_of
from equiscope.record import Run, read_run

MANIFEST, WEIGHTS, AVERAGE, BEST, STEPS = "checkpoint.json", "model.safetensors", "average.safetensors", "best", "checkpoints"
LOCK = ".lock"
T = TypeVar("T")


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a manifest.

    step   number of optimiser steps done
    facts  other values stored with the tensors
    files  size and digest of each
    """

    folder: Path
    step: int
    facts: dict[str, Any]
    files: dict[str, tuple[int, str]]

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file; empty where the checkpoint has no such file.

        raises  InputError where the file is missing or its size or digest differs from the manifest
        """
        if name not in self.files:
            return {}
        path, (size, digest) = self.folder / name, self.files[name]
        try:
            content = path.read_bytes() if path.is_file() or not path.exists() else b""  # of a pipe or a device nothing
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
            raise InputError(f"{path} is damaged: it has {len(content)} bytes, and is not as it was written ({size} bytes).")
        try:
            return load(content)
        except SafetensorError as error:
            raise InputError(f"{path} is damaged: {error}.") from error


def manifest_digest(manifest: dict[str, Any]) -> str:
    """The digest of a manifest, without its own digest."""
    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def identity(run: Run) -> str:
    """A short hash of the recipe, the model and the data of a run."""
    parts = [run.recipe, run.spec, [(source.part, source.name, source.sha256) for source in run.data]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def read_checkpoint(folder: Path, run: str) -> Checkpoint:
    """The manifest of a checkpoint, verified; its files are verified when they are read.

    run     identity of the run that it has to be of
    raises  InputError where it is damaged, or of another run or step
    """
    path = folder / MANIFEST
    try:
        manifest = budgets.parsed(budgets.text(path))
        if manifest["sha256"] != manifest_digest(manifest):
            raise InputError(f"{path} is damaged: it is not as it was written.")
        files = {name: (int(size), str(digest)) for name, (size, digest) in manifest["files"].items()}
        checkpoint = Checkpoint(folder, int(manifest["step"]), dict(manifest["facts"]), files)
    except FileNotFoundError as error:
        raise InputError(f"{folder} has no {MANIFEST}, so it is no whole checkpoint.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}.") from error
    if manifest.get("run") != run or folder.name != step_name(checkpoint.step):
        raise InputError(f"{path} is of another run, or of another step than its folder says.")
    return checkpoint


def step_name(step: int) -> str:
    """The name of a step's folder."""
    return f"step-{step:09d}"


def checkpoints(run: Path, kind: str = STEPS) -> list[Path]:
    """The checkpoint folders of a run, newest first, whole or not. kind: STEPS or BEST."""
    try:
        return sorted((run / kind).glob("step-*"), reverse=True)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # no such folder can be
            return []
        raise


# --- writing ------------------------------------------------------------------------------------------------------------
@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder. Raises InputError where another process holds it, or the folder cannot be created."""
    outputs.make_folder(folder, "Choose another folder with --out.")
    try:
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=0)  # a lock of the operating system: released when its process ends, also when it is killed
    except Timeout as error:
        raise InputError(f"Another process is training in {folder}. Wait for it, or choose another folder with --out.") from error
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}. Choose another folder with --out.") from error
    try:
        yield
    finally:
        lock.release()


def write_checkpoint(folder: Path, step: int, files: dict[str, dict[str, Tensor]], facts: dict[str, Any], identity: str) -> Path:
    """Write a checkpoint folder. Raises OSError where the disk is full; then nothing has changed.

    identity  of the run, so that a checkpoint of another run is not mistaken for it
    """
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        file_digests = {}
        for name, tensors in files.items():
            if not tensors:
                continue
            content = tensors_to_bytes({key: t.detach().contiguous() for key, t in tensors.items()}, {"format": "pt"})
            _put(part / name, content)
            file_digests[name] = [len(content), hashlib.sha256(content).hexdigest()]
        manifest: dict[str, Any] = {"version": 1, "run": identity, "step": step, "files": file_digests, "facts": facts}
        _put(part / MANIFEST, json.dumps(manifest | {"sha256": manifest_digest(manifest)}, indent=1).encode())
        if folder.exists():  # of the same step, from before a kill; it stays until the new one is complete
            old = _replaced_path(folder)
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.rename(folder)
        _to_disk(folder.parent)
        shutil.rmtree(_replaced_path(folder), ignore_errors=True)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return folder


def _replaced_path(folder: Path) -> Path:
    """The temporary path of a checkpoint that is being replaced."""
    return folder.with_name(f".{folder.name}.old")


def restore(run: Path) -> None:
    """Rename checkpoints back whose replacement was interrupted by a kill."""
    for old in run.glob("*/.step-*.old"):
        if not (folder := old.with_name(old.name.removeprefix(".").removesuffix(".old"))).exists():
            old.rename(folder)


def latest(
    run: Path, fits: Callable[[Checkpoint], T], say: Callable[[str], None], identity: str, until: int | None = None
) -> T | None:  # fmt: skip
    """The result of `fits` for the newest complete checkpoint; incomplete ones are reported. None where there is none.

    until   the last step that counts; None: any
    raises  InputError where there are checkpoints, but none is complete
    """
    wrong = []
    for folder in checkpoints(run):
        if until is not None and folder.name > step_name(until):
            continue
        try:
            return fits(read_checkpoint(folder, identity))
        except InputError as error:
            wrong.append(str(error))
            say(f"{error} It is left out.")
    if wrong:
        raise InputError(f"No checkpoint of {run} is complete. {wrong[0]} Restore it, or start again with another --out.")
    return None


def prune(run: Path, keep: int, step: int, kind: str = STEPS) -> None:
    """Delete all but the newest `keep` checkpoints up to a step, and temporary folders."""
    last = checkpoint_path(run, step, kind)
    saved_tensors = [folder for folder in checkpoints(run, kind) if folder <= last][:keep]
    for folder in [*checkpoints(run, kind), *(run / kind).glob(".step-*")]:
        if folder not in saved_tensors:
            shutil.rmtree(folder, ignore_errors=True)


def checkpoint_path(run: Path, step: int, kind: str = STEPS) -> Path:
    return run / kind / step_name(step)


def _put(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _to_disk(folder: Path) -> None:
    """Flush the entries of a folder to disk, where the system supports that."""
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


# --- the model of a run -------------------------------------------------------------------------------------------------
def load_run(folder: Path, weights: str = "best", dtype: torch.dtype | None = None) -> Built:
    """The model of a run's folder, in eval mode.

    weights  "best" on the validation part, or "last"
    raises   InputError where there is no run, no checkpoint yet, or its files are damaged
    """
    run = read_run(folder, entries=False)
    return build_from(spec_of(run.spec), weights_of(folder, run, weights), dtype)


def weights_of(folder: Path, run: Run, weights: str = "best") -> dict[str, Tensor]:
    """The tensors by name of the model for evaluation: averaged weights where the run averages them. Raises as `load_run`."""
    if weights == "best" and (best := checkpoints(folder, BEST)):
        try:
            return read_checkpoint(best[0], identity(run)).tensors(WEIGHTS)
        except InputError as error:
            raise InputError(f"{error} These were the best weights; the last ones are in {folder / STEPS}.") from error
    folders = checkpoints(folder)
    if not folders:
        raise InputError(f"{folder} has no checkpoint yet. Resume it with `equiscope train {folder}`.")
    latest = read_checkpoint(folders[0], identity(run))
    if weights == "best" and latest.facts.get("best") is not None:  # none are kept where no loss was ever a number
        raise InputError(f"{folder / BEST} is gone, where the best weights were; the last ones are in {folder / STEPS}.")
    return latest.tensors(WEIGHTS) | latest.tensors(AVERAGE)


def saved_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model that a checkpoint holds, by name: its parameters, and the buffers that the data sets."""
    data_buffers: tuple[str, ...] = getattr(model, "data_buffers", ())
    return dict(model.named_parameters()) | {name: model.get_buffer(name) for name in data_buffers}


def _was_unused(model: nn.Module, name: str) -> bool:
    """Whether this is the norm of a feed-forward that the model does not have; earlier versions wrote one."""
    layer, norm, _ = name.rpartition(".feedforward_norm.")
    return bool(norm) and getattr(model.get_submodule(layer), "feedforward", model) is None


def build_from(spec: ModelSpec, tensors: dict[str, Tensor], dtype: torch.dtype | None = None) -> Built:
    """A model with these parameters."""
    model: Built = build(spec)  # other buffers are computed, not loaded
    more = sorted(name for name in tensors.keys() - saved_tensors(model).keys() if not _was_unused(model, name))
    if more:
        raise InputError(
            f"The checkpoint has {more[0]}, which no part of the run's model reads: it was written by another version of "
            "equiscope. Read it with that version, or train again."
        )
    for name, parameter in saved_tensors(model).items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            has = f"a {name} of {tuple(tensors[name].shape)}" if name in tensors else f"no {name}"
            raise InputError(f"The checkpoint has {has}, but the run's model has one of {tuple(parameter.shape)}.")
        learned = isinstance(parameter, nn.Parameter)
        parameter.data = tensors[name].to(dtype if learned and dtype is not None else tensors[name].dtype)
    return model.eval()
