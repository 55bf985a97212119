"""A run's folder, read and written: safetensors and JSON, each file's digest written down and compared before a number is used.

It has `best/step-...` (the weights that did best on the validation part) and `checkpoints/step-...` (everything that
going on needs). Nothing in them is ever executed. A checkpoint is whole or not there at all: its folder is written under another
name, brought to disk, and only then gets its own. One process at a time writes a run. The record beside, run.json and
metrics.jsonl, is read and written by `record.run`.
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

from equiscope import budgets
from equiscope.errors import InputError
from equiscope.models import Built, ModelSpec, build, spec_of
from equiscope.record import Run, read_run

MANIFEST, WEIGHTS, AVERAGE, BEST, STEPS = "checkpoint.json", "model.safetensors", "average.safetensors", "best", "checkpoints"
LOCK = ".lock"
T = TypeVar("T")


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a manifest.

    step   steps done
    facts  what was written down beside the tensors
    files  size and digest of each
    """

    folder: Path
    step: int
    facts: dict[str, Any]
    files: dict[str, tuple[int, str]]

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file; none where the checkpoint has no such file.

        raises  InputError where the file is missing, shorter, longer or other than it was when it was written
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


def seal(manifest: dict[str, Any]) -> str:
    """The digest of a manifest without its own."""
    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def identity(run: Run) -> str:
    """What a run is of, in a few letters: its recipe, model and data."""
    said = [run.recipe, run.spec, [(source.part, source.name, source.sha256) for source in run.data]]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def read_checkpoint(folder: Path, run: str) -> Checkpoint:
    """The manifest of a checkpoint, verified; its files are verified when they are read.

    run     identity of the run that it has to be of
    raises  InputError where it is damaged, or of another run or step
    """
    path = folder / MANIFEST
    try:
        manifest = budgets.parsed(budgets.text(path))
        if manifest["sha256"] != seal(manifest):
            raise InputError(f"{path} is damaged: it is not as it was written.")
        files = {name: (int(size), str(digest)) for name, (size, digest) in manifest["files"].items()}
        found = Checkpoint(folder, int(manifest["step"]), dict(manifest["facts"]), files)
    except FileNotFoundError as error:
        raise InputError(f"{folder} has no {MANIFEST}, so it is no whole checkpoint.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}.") from error
    if manifest.get("run") != run or folder.name != name_of(found.step):
        raise InputError(f"{path} is of another run, or of another step than its folder says.")
    return found


def name_of(step: int) -> str:
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
def held(folder: Path) -> Iterator[None]:
    """Nobody else trains in this folder meanwhile. Raises InputError where somebody does, or it cannot be made."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, but a run is a folder. Choose another one with --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=0)  # of the system's kind: it is gone when its process is, also by a kill
    except Timeout as error:
        raise InputError(f"Another process is training in {folder}. Wait for it, or choose another folder with --out.") from error
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}. Choose another folder with --out.") from error
    try:
        yield
    finally:
        lock.release()


def write_checkpoint(folder: Path, step: int, files: dict[str, dict[str, Tensor]], facts: dict[str, Any], identity: str) -> Path:
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
            content = tensors_to_bytes({key: t.detach().contiguous() for key, t in tensors.items()}, {"format": "pt"})
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


# --- the model of a run -------------------------------------------------------------------------------------------------
def load_run(folder: Path, weights: str = "best", dtype: torch.dtype | None = None) -> Built:
    """The model of a run's folder, in eval mode.

    weights  "best" on the validation part, or "last"
    raises   InputError where there is no run, no checkpoint yet, or its files are damaged
    """
    run = read_run(folder, entries=False)
    return filled(spec_of(run.spec), weights_of(folder, run, weights), dtype)


def weights_of(folder: Path, run: Run, weights: str = "best") -> dict[str, Tensor]:
    """The tensors by name, of the model that is evaluated: averaged ones, where the run averages. Raises as `load_run`."""
    if weights == "best" and (best := checkpoints(folder, BEST)):
        try:
            return read_checkpoint(best[0], identity(run)).tensors(WEIGHTS)
        except InputError as error:
            raise InputError(f"{error} These were the best weights; the last ones are in {folder / STEPS}.") from error
    made = checkpoints(folder)
    if not made:
        raise InputError(f"{folder} has no checkpoint yet. Let `equiscope train {folder}` go on.")
    newest = read_checkpoint(made[0], identity(run))
    if weights == "best" and newest.facts.get("best") is not None:  # none are kept where no loss was ever a number
        raise InputError(f"{folder / BEST} is gone, where the best weights were; the last ones are in {folder / STEPS}.")
    return newest.tensors(WEIGHTS) | newest.tensors(AVERAGE)


def kept(model: nn.Module) -> dict[str, Tensor]:
    """What a checkpoint holds of a model by name: its parameters, and the buffers that the data sets."""
    data_buffers: tuple[str, ...] = getattr(model, "data_buffers", ())
    return dict(model.named_parameters()) | {name: model.get_buffer(name) for name in data_buffers}


def _was_unused(model: nn.Module, name: str) -> bool:
    """Whether this was the norm of a feed-forward that there is not, which models had before."""
    layer, norm, _ = name.rpartition(".feedforward_norm.")
    return bool(norm) and getattr(model.get_submodule(layer), "feedforward", model) is None


def filled(spec: ModelSpec, tensors: dict[str, Tensor], dtype: torch.dtype | None = None) -> Built:
    """A model with these parameters."""
    model: Built = build(spec)  # other buffers are computed, not loaded
    more = sorted(name for name in tensors.keys() - kept(model).keys() if not _was_unused(model, name))
    if more:
        raise InputError(
            f"The checkpoint has {more[0]}, which no part of the run's model reads: it was written by another version."
        )
    for name, parameter in kept(model).items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            has = f"a {name} of {tuple(tensors[name].shape)}" if name in tensors else f"no {name}"
            raise InputError(f"The checkpoint has {has}, but the run's model has one of {tuple(parameter.shape)}.")
        learned = isinstance(parameter, nn.Parameter)
        parameter.data = tensors[name].to(dtype if learned and dtype is not None else tensors[name].dtype)
    return model.eval()
