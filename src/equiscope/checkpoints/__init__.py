"""Checkpoints: a Hugging Face folder becomes a model, and a model becomes such a folder.

Only config.json and safetensors files are read, so that loading runs no code from the folder.
"""

import functools
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from equiscope import trained
from equiscope.checkpoints import bert, bloom, files, gpt2, llama, marian, neox, run_folder, strict, t5, vit
from equiscope.checkpoints.family import Family
from equiscope.checkpoints.fields import ParsedConfig
from equiscope.checkpoints.strict import FLOATS, WeightsError
from equiscope.errors import EquiscopeError, InputError, UnknownName
from equiscope.geometry import SpaceModel
from equiscope.models import Built, Model, ModelSpec, Network, spec_of
from equiscope.models.build import possible_sizes
from equiscope.record.run import RUN, read_run

FAMILIES: tuple[Family, ...] = (
    gpt2.GPT2, *llama.FAMILIES, neox.NEOX, bloom.BLOOM, *bert.FAMILIES, *vit.FAMILIES, *t5.FAMILIES, marian.MARIAN,
)  # fmt: skip

FACTS = (  # fields of config.json that every family writes back, unless they follow from the spec
    "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_eos_token_id", "id2label", "label2id",
    "pooler_act", "pooler_output_size", "max_position_embeddings",
)  # fmt: skip
REWRITTEN = frozenset({  # fields that describe the written folder, or its writer
    "architectures", "model_type", "dtype", "torch_dtype", "transformers_version", "equiscope_version", "_name_or_path",
    "pruned_heads", "_num_labels", "id2label", "label2id", "quantization_config", "auto_map",
})  # fmt: skip


def load(folder: str | Path, dtype: torch.dtype | None = None) -> Built:
    """The model of a Hugging Face folder (config.json and safetensors, in one file or in shards), or of a run; in eval mode.

    folder   its path; or the name of a trained model that comes along, of `trained.NAMES`
    dtype    of the parameters; by default that of the files. Where those hold several, that of the config, or the widest
    returns  the model; its `origin` lists sentences about where every tensor comes from, and what was ignored
    raises   InputError where a file is missing, damaged, a pickle, or a field of the config is not supported;
             WeightsError where tensors are missing, extra, of another shape, or not finite
    """
    folder = files.path_of(trained.path_of(folder) if isinstance(folder, str) else folder)
    if dtype is not None and dtype not in FLOATS:
        raise InputError(f"The dtype of a model is one of torch's {', '.join(FLOATS.values())}, but got {dtype!r}.")
    if (folder / RUN).is_file():
        return run_folder.load_run(folder, dtype=dtype)
    config = files.read_config(folder)
    family = _family(config, folder)
    reading = _read(family, config)
    weights, taken = strict.without_wrappers(files.read_weights(folder), family.expected_names(reading.spec))
    with torch.device("meta"), possible_sizes():
        model = Model(family.resolve(reading.spec, weights.tensors))
    fit = family.load_tensors(model, weights.tensors, dtype or _common(family, config, weights.tensors))
    model.facts, model.family = {name: value for name, value in config.items() if value is not None}, family.name
    model.origin = strict.origin(weights, fit, taken, reading.ignored, config)
    return model.eval()


def read_spec(folder: str | Path) -> ModelSpec:
    """The spec of a Hugging Face folder, by its config.json alone, of a run or of a trained model. Raises InputError as `load`."""
    folder = files.path_of(trained.path_of(folder) if isinstance(folder, str) else folder)
    if (folder / RUN).is_file():
        return spec_of(read_run(folder, entries=False).spec)
    config = files.read_config(folder)
    return _read(_family(config, folder), config).spec


def save(model: Built, folder: str | Path, family: str | None = None) -> Path:
    """Write config.json and model.safetensors, as `transformers` reads them; an existing folder keeps its other files.

    family   model_type to write, where several could represent the model; by default that of its checkpoint, or llama
    raises   InputError where no family can represent this spec, with the reason of each; where the folder cannot be written
    """
    if isinstance(model, Network):
        raise InputError(f'No family of checkpoints holds a baseline "{model.spec.baseline}". The folder of its run keeps it.')
    if isinstance(model, SpaceModel):
        raise InputError("No family of checkpoints holds a model of points in space. The folder of its run keeps it.")
    if not isinstance(model, Model):
        raise InputError(f"A checkpoint is written of a model that build or load made, but got {type(model).__name__}.")
    folder = files.path_of(folder)
    families = [f for f in FAMILIES if family is None or f.name == family]
    if not families:
        raise UnknownName("family", family or "", [f.name for f in FAMILIES])
    reasons: list[str] = []
    for one in sorted(families, key=lambda f: f.name != model.family):
        try:
            config = one.config(model.spec.without_dropout)
        except InputError as error:
            reasons.append(f"{one.name}: {error}")
            continue
        facts = {
            name: value for name, value in model.facts.items()
            if name in FACTS and (name not in one.derived_fields or name not in config)
        }  # fmt: skip
        kept = _preserved_fields(one, config, model.facts) if one.name == model.family else {}
        full_config = dict.fromkeys(FACTS[:3]) | config | kept | facts
        if "id2label" in full_config and "label2id" not in facts:
            full_config["label2id"] = {name: int(i) for i, name in cast(dict[str, str], full_config["id2label"]).items()}
        files.write(folder, full_config, one.tensors_of(model))
        return folder
    raise InputError("No family of checkpoints holds this model. " + " ".join(reasons))


def _preserved_fields(family: Family, config: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Fields of the config that a model came with, by which the family reads the same model: dropout, what training begins with."""
    spec = family.read(config)
    kept: dict[str, Any] = {}
    for name, value in before.items():
        if name in REWRITTEN or (name in family.derived_fields and name in config) or config.get(name) == value:
            continue
        with suppress(InputError):
            if family.read(config | kept | {name: value}) == spec:
                kept[name] = value
    return kept


def _read(family: Family, config: dict[str, Any]) -> ParsedConfig:
    """The spec of a config. Raises InputError also where its fields break the arithmetic of a spec."""
    strict.refuse_quantised(config)
    try:
        return family.read_config(config)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, EquiscopeError):
            raise
        raise InputError(f"config.json of a {family.name} does not fit together: {type(error).__name__}: {error}.") from error


def _common(family: Family, config: dict[str, Any], tensors: dict[str, Tensor]) -> torch.dtype | None:
    """The dtype for weights where the files hold several; None where they hold one."""
    held = {tensor.dtype for name, tensor in tensors.items() if tensor.dtype in FLOATS and not family.ignores(name)}
    if len(held) < 2:
        return None
    dtype_name = str(config.get("dtype") or config.get("torch_dtype")).removeprefix("torch.")
    named = {name: dtype for dtype, name in FLOATS.items()}
    return named[dtype_name] if dtype_name in named else functools.reduce(torch.promote_types, held)


def _family(config: dict[str, Any], folder: Path) -> Family:
    """The family of a config. Raises InputError if no family reads it; the message lists the families and the other way to load."""
    strict.refuse_code(config, folder)
    model_type = config.get("model_type")
    known = ", ".join(f.name for f in FAMILIES)
    if not isinstance(model_type, str):
        problem = "names no model_type" if model_type is None else f"says model_type {model_type!r}, which is no word"
        raise InputError(f"{folder / files.CONFIG} {problem}. load reads {known}.")
    family = next((f for f in FAMILIES if f.name == model_type), None)
    if family is None:
        raise InputError(
            f"{folder} holds a {model_type}, which is no family that load reads; it reads {known}. `equiscope check {folder}` and "
            f"`equiscope explore TEXT --model {folder}` take it, where transformers is installed and has its class."
        )
    return family


__all__ = ["FAMILIES", "Family", "WeightsError", "load", "read_spec", "save"]
