"""Checkpoint: everything that going on needs, in safetensors and JSON, whole or not there at all.

One format for any number of processes: what is spread over them is gathered to write and spread again to read, by
torch.distributed.checkpoint. A folder is written under another name, brought to disk, and only then gets its own.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as gathered

from equiscope.errors import InputError
from equiscope.pretrained.runs import MANIFEST, STEPS, Checkpoint, checkpoints, read_checkpoint, seal

OPTIMISER = "optimiser.safetensors"


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter by name, whole, on the CPU of the first process."""
    options = gathered.StateDictOptions(full_state_dict=True, cpu_offload=True)
    named = {name for name, _ in _bare(model)}
    return {name: t for name, t in gathered.get_model_state_dict(model, options=options).items() if name in named}


def optimiser_state(model: nn.Module, optimisers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """What the optimisers remember of each parameter, as "exp_avg/name"; their settings come from the recipe."""
    options = gathered.StateDictOptions(full_state_dict=True, cpu_offload=True)
    found: dict[str, Tensor] = {}
    for optimiser in optimisers:
        state = gathered.get_optimizer_state_dict(model, optimiser, options=options)["state"]
        found |= {
            f"{what}/{name}": value if isinstance(value, Tensor) else torch.tensor(float(value))
            for name, held in state.items()
            for what, value in held.items()  # type: ignore[union-attr]
        }
    return found


def set_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Give the model these parameters. Raises InputError where they are others than its own."""
    own = dict(_bare(model))
    if own.keys() != tensors.keys():
        wrong = sorted(own.keys() ^ tensors.keys())[0]
        raise InputError(f"The checkpoint {'has no' if wrong in own else 'has a'} {wrong}: it is of another model.")
    options = gathered.StateDictOptions(full_state_dict=True, strict=False)
    gathered.set_model_state_dict(model, dict(tensors), options=options)


def set_optimiser_state(model: nn.Module, optimisers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    """Give the optimisers what they remembered."""
    options = gathered.StateDictOptions(full_state_dict=True)
    for optimiser in optimisers:
        now = gathered.get_optimizer_state_dict(model, optimiser, options=options)
        names = {name for group in now["param_groups"] for name in group["params"]}
        state: dict[str, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            what, _, name = key.partition("/")
            if name in names:
                state.setdefault(name, {})[what] = value
        gathered.set_optimizer_state_dict(model, optimiser, {"state": state, "param_groups": now["param_groups"]}, options=options)


def write(folder: Path, step: int, files: dict[str, dict[str, Tensor]], facts: dict[str, Any]) -> Path:
    """A checkpoint folder. Raises OSError where the disk is full; then nothing has changed."""
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
        manifest: dict[str, Any] = {"version": 1, "step": step, "files": said, "facts": facts}
        _put(part / MANIFEST, json.dumps(manifest | {"sha256": seal(manifest)}, indent=1).encode())
        if folder.exists():  # of this very step, from before a kill
            shutil.rmtree(folder)
        part.rename(folder)
        _to_disk(folder.parent)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return folder


def newest(run: Path, fits: Callable[[Checkpoint], Any], say: Callable[[str], None]) -> Any:
    """What `fits` makes of the newest checkpoint that is whole; those that are not are named. None where there is none.

    raises  InputError where there are checkpoints, but none is whole
    """
    wrong = []
    for folder in checkpoints(run):
        try:
            return fits(read_checkpoint(folder))
        except InputError as error:
            wrong.append(str(error))
            say(f"{error} It is left out; going on from the one before.")
    if wrong:
        raise InputError(f"No checkpoint of {run} is whole. {wrong[0]} Give another --out to begin again.")
    return None


def thin(run: Path, keep: int, kind: str = STEPS) -> None:
    """Leave only the newest `keep` checkpoints, and nothing half written."""
    for folder in [*checkpoints(run, kind)[keep:], *(run / kind).glob(".step-*")]:
        shutil.rmtree(folder, ignore_errors=True)


def place(run: Path, step: int, kind: str = STEPS) -> Path:
    return run / kind / f"step-{step:09d}"


def _bare(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Parameters under the names that they have in a spec's model."""
    return [(name.replace("_checkpoint_wrapped_module.", ""), p) for name, p in model.named_parameters()]


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
