"""Files of a checkpoint folder: config.json, and safetensors in one file or in shards. Pickles are never opened."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from equiscope import __version__, budgets
from equiscope.errors import InputError
from equiscope.spec_base import read_object

CONFIG, ONE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class Weights:
    """The tensors of a folder by name, and the file that each comes from."""

    tensors: dict[str, Tensor]
    files: dict[str, str]


def path_of(folder: str | Path) -> Path:
    """A path. Raises InputError for what is none, such as a name that is too long."""
    if not isinstance(folder, (str, os.PathLike)):
        raise InputError(f"A folder is a path, but got {folder!r}.")
    try:
        Path(folder).is_dir()
    except (OSError, ValueError) as error:  # ValueError: it has a zero byte
        raise InputError(f"{str(folder)[:80]!r} is no path of a folder: {getattr(error, 'strerror', None) or error}.") from error
    return Path(folder)


def read_config(folder: Path) -> dict[str, Any]:
    """The object in config.json. Raises InputError where it is not there or is none."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}. Give one with {CONFIG} and {ONE}.")
    if (folder / ADAPTER).exists() and not (folder / CONFIG).exists():
        raise InputError(
            f"{folder} holds an adapter ({ADAPTER}), which is no model by itself. Merge it with its base model first: in PEFT, "
            "model.merge_and_unload().save_pretrained(folder)."
        )
    return read_object(folder / CONFIG)


def read_weights(folder: Path) -> Weights:
    """Every tensor of the folder by its name, mapped from disk until it is used.

    raises  InputError where there are only pickles, a shard is missing, a file is damaged, or a name stands in two shards
    """
    names = [ONE] if (folder / ONE).exists() else shards(folder)
    weights, origin = dict[str, Tensor](), dict[str, str]()
    for name in names:
        path = folder / name
        if not path.exists():
            raise InputError(f"{INDEX} names the shard {name}, which is not in {folder}. Fetch it again.")
        try:
            with safe_open(path, "pt") as opened:
                tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118  # no mapping
        except (SafetensorError, OSError, RuntimeError) as error:
            budgets.regular(path)
            raise InputError(f"{path} is damaged or incomplete ({error}). Fetch it again.") from error
        if twice := sorted(weights.keys() & tensors.keys()):
            raise InputError(f"{twice[0]} stands in two files of {folder}. Which one counts is not known: remove one.")
        weights |= tensors
        origin |= dict.fromkeys(tensors, name)
    return Weights(weights, origin)


def shards(folder: Path) -> list[str]:
    """The files that an index names. Raises InputError where there is none, and where weights are a pickle."""
    if (folder / INDEX).exists():
        places = read_object(folder / INDEX).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(n, str) and Path(n).name == n for n in places.values()):
            raise InputError(f"{folder / INDEX} should say in weight_map which file of the folder holds each tensor.")
        return sorted(set(places.values()))
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        raise InputError(
            f"{folder} holds its weights in {pickles[0]}, a pickle, which can run any code when it is opened; it was not opened. "
            "Convert it where you trust it: transformers' model.save_pretrained(folder, safe_serialization=True) writes "
            f"{ONE}."
        )
    if others := sorted(path.name for path in folder.glob("*.safetensors")):
        raise InputError(
            f"{folder} has {', '.join(others[:3])}, but no {INDEX}, which says what is in each of several files. Add it; or rename "
            f"a file that holds all tensors to {ONE}."
        )
    raise InputError(f"{folder} has no {ONE} and no {INDEX}, which hold the weights. Add them, or give a folder that has them.")


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """config.json and model.safetensors; both are complete before either takes its place. Raises InputError where they cannot."""
    parts = {ONE: folder / f".{ONE}", CONFIG: folder / f".{CONFIG}"}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / INDEX).exists():
            raise InputError(f"{folder} holds a checkpoint in shards, which would stand beside the new one. Give another folder.")
        save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, parts[ONE], {"format": "pt"})
        parts[CONFIG].write_text(json.dumps(config | {"equiscope_version": __version__}, indent=2) + "\n", encoding="utf-8")
        for name, part in parts.items():
            part.replace(folder / name)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{folder} cannot be written: {error}. Give another folder, or make room.") from error
