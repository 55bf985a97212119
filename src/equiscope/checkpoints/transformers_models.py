"""Loads a checkpoint into the class of transformers that its config.json names, with the same checks as our own families.

transformers reads no file of the folder: it gets the config and the tensors that were read here. So no code of the folder, no
pickle and no other file is opened, whatever the config asks for, and standard input answers no question.
"""

import inspect
import io
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from equiscope.checkpoints import files, strict
from equiscope.checkpoints.fields import EVERYWHERE, architectures
from equiscope.checkpoints.strict import Fit, ShapeMismatch
from equiscope.errors import EquiscopeError, InputError, one_line
from equiscope.spec_base import read_object

GENERATION = "generation_config.json"
UNSAFE = re.compile(  # fields by which a config chooses code, files or kernels to be fetched: never passed on
    r"auto_map|custom_pipelines|_?(attn|attention|experts)_implementation(_\w+)?|fusion_config|kernel_config|use_kernels?"
    r"|transformers_weights|distributed_config|_commit_hash|_?name_or_path"
)
OLDER = re.compile(r"rope_\w+|partial_rotary_factor|rotary_\w+")  # converted to current fields
TRAINED = re.compile(r"(.*\.)?masked_spec_embed")  # used in training only and missing in old files: then set to 0


def load_with_transformers(folder: Path, library: ModuleType) -> tuple[nn.Module, list[str]]:
    """The model in eval mode, and sentences about where its tensors come from.

    library  the module transformers
    raises   InputError where the folder needs code of its own, or names a class that transformers does not have; WeightsError where
             tensors are missing, extra, of another shape, or not finite
    """
    config = files.read_config(folder)
    strict.refuse_code(config, folder)
    strict.refuse_quantised(config)
    names = architectures(config)
    weights = files.read_weights(folder)
    strict.refuse_counts(config, len(weights.tensors))
    with warnings.catch_warnings(), no_standard_input():
        warnings.simplefilter("ignore")
        configuration, kind = _config_and_class(library, config, names, folder)
        pooled = {"add_pooling_layer": False} if _has_no_pooler(kind, weights.tensors) else {}
        model, report = _loaded(kind, configuration, weights, pooled, folder)
        wanted = _names(model)
        weights, taken = strict.without_wrappers(weights, wanted)
        if taken:
            model, report = _loaded(kind, configuration, weights, pooled, folder)
    fit = _fit(model, weights, report, wanted)
    fit.raise_on_mismatch(f"a {kind.__name__}")
    _set_generation_config(model, library, folder)
    notes = strict.origin(weights, fit, taken, config=config)
    if unread := _unread(configuration, config):
        lacks = f"that a {type(configuration).__name__} does not have, or that choose code, were not read"
        notes.append(f"Fields of {files.CONFIG} {lacks}: {', '.join(unread)}.")
    if pooled:
        notes.append(f"The folder has no pooler, so this {kind.__name__} was made without one.")
    if not names:
        notes.append(f"{files.CONFIG} names no class in architectures, so this is the plain {kind.__name__}.")
    return model.eval(), notes


@contextmanager
def no_standard_input() -> Iterator[None]:
    """Standard input is empty inside: a library that asks whether to run code of the folder gets no answer."""
    before, sys.stdin = sys.stdin, io.StringIO()
    try:
        yield
    finally:
        sys.stdin = before


def _config_and_class(library: ModuleType, config: dict[str, Any], names: list[str], folder: Path) -> tuple[Any, Any]:
    """The configuration and the class of a checkpoint."""
    path = folder / files.CONFIG
    model_class = next(
        (c for n in names if inspect.isclass(c := getattr(library, n, None)) and issubclass(c, library.PreTrainedModel)), None
    )
    if names and model_class is None:
        raise InputError(
            f"{path} names {', '.join(names)}, which is no model of transformers {library.__version__}. "
            "Code of the folder is not run: check the class itself as module:factory."
        )
    model_type = config.get("model_type")
    mapping = library.models.auto.configuration_auto.CONFIG_MAPPING
    if model_class is None and (not isinstance(model_type, str) or model_type not in mapping):
        raise InputError(
            f"{path} names no class in architectures, and its model_type is {model_type!r}, which transformers "
            f"{library.__version__} does not have. Say its class in architectures, or check the class itself as module:factory."
        )
    kind = getattr(model_class, "config_class", None) or (
        mapping[model_type] if isinstance(model_type, str) and model_type in mapping else None
    )
    if kind is None:
        raise InputError(f"{path} names {names[0]}, whose configuration transformers does not say. Check it as module:factory.")
    try:
        configuration = kind.from_dict(_part(_safe(config), kind))
        if model_class is None:
            plain = library.AutoModel._model_mapping[type(configuration)]
            model_class = plain[0] if isinstance(plain, (tuple, list)) else plain
    except Exception as error:  # a field of another type, one that does not fit another, a configuration without a plain model
        raise InputError(f"{path} could not be read by transformers: {one_line(error)}.") from error
    return configuration, model_class


def _unread(configuration: Any, config: dict[str, Any]) -> list[str]:
    """The fields that are not read: those that a configuration of this class does not have, and those that are not passed on."""
    own = {
        *inspect.signature(type(configuration).__init__).parameters,
        *vars(type(configuration)()),
        *configuration.attribute_map,
        "auto_map",
    } | EVERYWHERE
    inner = {name for name, value in config.items() if isinstance(value, dict) and name.endswith("_config")}
    lost = [n for n, v in config.items() if v is not None and n not in own | inner and not OLDER.fullmatch(n)]
    return sorted({*lost, *(n for n in config if n not in own and UNSAFE.fullmatch(n))})


def _loaded(kind: Any, config: Any, weights: files.Weights, pooled: dict[str, Any], folder: Path) -> tuple[Any, dict[str, Any]]:
    """The model with these tensors, and the loading report of transformers."""
    with torch.device("meta"):  # torch lists its functions now, as transformers replaces one of them while it loads
        torch.empty(0)
    try:
        model, report = kind.from_pretrained(
            None, config=config, state_dict=dict(weights.tensors), output_loading_info=True, ignore_mismatched_sizes=True,
            trust_remote_code=False, local_files_only=True, use_safetensors=True, **pooled,
        )  # fmt: skip
    except Exception as error:  # code and data of others may raise anything
        raise InputError(f"{folder} could not be read by transformers: {one_line(error)}.") from error
    return model, report


def _spellings(name: str, model: Any) -> set[str]:
    """The names that a file may use for a tensor: with and without the prefix of the base model."""
    prefix = f"{model.base_model_prefix}." if model.base_model_prefix else ""
    return {name, f"{prefix}{name}", name.removeprefix(prefix)}


def _names(model: Any) -> set[str]:
    return {spelling for name in model.state_dict() for spelling in _spellings(name, model)}


def _safe(value: Any) -> Any:
    """A config, nested ones included, without fields that choose code."""
    if isinstance(value, dict):
        return {name: _safe(one) for name, one in value.items() if not (isinstance(name, str) and UNSAFE.fullmatch(name))}
    return [_safe(one) for one in value] if isinstance(value, list) else value


def _part(config: dict[str, Any], kind: Any) -> dict[str, Any]:
    """The part of a composite config for this class, as transformers chooses it."""
    inner = config.get(kind.base_config_key) if kind.base_config_key else None
    if isinstance(inner, dict):
        return inner
    if config.get("model_type") not in (None, kind.model_type):
        return next((v for v in config.values() if isinstance(v, dict) and v.get("model_type") == kind.model_type), config)
    return config


def _has_no_pooler(kind: Any, tensors: dict[str, Any]) -> bool:
    """Whether the class would add an optional pooler that the folder does not have."""
    takes = "add_pooling_layer" in inspect.signature(kind.__init__).parameters
    return takes and not any("pooler." in name for name in tensors)


def _fit(model: Any, weights: files.Weights, report: dict[str, Any], wanted: set[str]) -> Fit:
    """How every tensor was used."""
    fit, unread = Fit(), [re.compile(pattern) for pattern in model._keys_to_ignore_on_load_unexpected or ()]
    computed, state = {name for name, _ in model.named_non_persistent_buffers()}, model.state_dict()
    for name in weights.tensors:
        spellings = _spellings(name, model)
        if spellings & report["unexpected_keys"]:
            fit.add_unused(name, wanted, "a buffer, computed" if spellings & computed else "")
        elif name not in wanted and (strict.BUFFERS.fullmatch(name) or any(pattern.search(name) for pattern in unread)):
            fit.ignored[name] = "no weight of such a model"
        else:
            fit.used.append(name)
    whole = {name for name in fit.used for one in _spellings(name, model) & state.keys() if not state[one].is_floating_point()}
    strict.require_float_dtypes(weights.tensors, (name for name in fit.used if name not in whole))
    for name in (name for name in state if name in report["missing_keys"]):
        if TRAINED.fullmatch(name):
            with torch.no_grad():
                model.get_parameter(name).zero_()
        else:
            fit.missing.append(name)
    fit.shapes = [
        ShapeMismatch(name, tuple(stored), tuple(expected)) for name, stored, expected in sorted(report["mismatched_keys"])
    ]
    fit.nonfinite = strict.nonfinite_tensors(weights.tensors, fit.used)
    return fit


def _set_generation_config(model: Any, library: ModuleType, folder: Path) -> None:
    """Set the generation config of the folder on a model that generates."""
    if not model.can_generate() or not (folder / GENERATION).exists():
        return
    try:
        model.generation_config = library.GenerationConfig.from_dict(_safe(read_object(folder / GENERATION)))
    except EquiscopeError:
        raise
    except Exception as error:  # a field of another type
        raise InputError(f"{folder / GENERATION} could not be read by transformers: {one_line(error)}.") from error
