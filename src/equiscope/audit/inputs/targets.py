"""Targets: a name on the command line becomes a model and the arguments of its call.

    module:factory, path/to/file.py:factory    a callable, class or module object of the user
    a folder                                   a checkpoint: config.json and safetensors; ./gpt2 where it has a preset's name
    a folder                                   a run
    characters                                 a trained model that comes with the package
    transformers:LlamaForCausalLM              a class or configuration of transformers, made tiny, with random weights
    timm:vit_tiny_patch16_224                  a model of timm, with random weights
    spec.json, gpt2                            a spec of ours, or a preset at a small size

A factory may return the model alone, (model, inputs) or (model, args, kwargs).
"""

import importlib
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equiscope import trained
from equiscope.audit.inputs.example_inputs import inputs_for
from equiscope.audit.inputs.tiny_config import config_class_of, tiny
from equiscope.checkpoints import files, load
from equiscope.checkpoints.sentence_encoder import is_sentence_encoder, load_sentence_encoder
from equiscope.checkpoints.transformers_models import load_with_transformers
from equiscope.errors import EquiscopeError, InputError, UnknownName, did_you_mean, one_line, sentences
from equiscope.models import PRESETS, build
from equiscope.models import tiny as small
from equiscope.record.run import RUN

USAGE = ("Give module:factory, path/to/file.py:factory, a checkpoint folder, transformers:CLASS, timm:NAME, "
       f"a spec.json, a trained model ({', '.join(trained.NAMES)}), or a preset ({', '.join(PRESETS)}).")  # fmt: skip

PICKLE = "is a pickle, which can run any code when it is opened; it is not read. Name a function that loads it: FILE.py:factory."
NUMBERS = "holds numbers and no module. Name the folder of the checkpoint, or compare a model with it: equiscope parity MODEL FILE."
WITHOUT_MODULE = dict.fromkeys((pattern.removeprefix("*") for pattern in files.PICKLES), PICKLE) | dict.fromkeys(
    (".npz", ".safetensors", ".onnx"), NUMBERS
)


class Target(NamedTuple):
    """A model, the arguments of its call, their kinds, and the title of its report.

    notes      where the weights of a checkpoint come from, and what was tolerated
    untrained  whether the weights are known to be random; those of the user's own code may be trained
    generated  whether the arguments were made here, and did not come with the model
    refusal    why no arguments could be made
    """

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kinds: dict[str, str]
    title: str
    notes: tuple[str, ...] = ()
    untrained: bool = False
    generated: bool = False
    refusal: InputError | None = None


def target(text: str, *, seed: int = 0, needs_inputs: bool = True) -> Target:
    """The model that a text names, with inputs. A user's model keeps its mode; any other is in evaluation mode.

    seed          of random weights and inputs
    needs_inputs  whether it is an error that no inputs can be made; else the target has a `refusal`

    raises  InputError where there is no such model, it raises, or no inputs can be made; the message says which
    """
    text = text.strip()
    if not text:
        raise InputError(f"No model was named. {USAGE}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = _target(text, seed)
    if needs_inputs and found.refusal is not None:
        raise found.refusal
    return found


def _target(text: str, seed: int) -> Target:
    head, _, name = text.partition(":")
    if name and head in ("transformers", "timm"):
        return _untrained((_transformers(name) if head == "transformers" else _timm(name)).eval(), text, seed)
    if text in PRESETS:  # a folder of that name is ./NAME
        return _untrained(build(small(PRESETS[text]())).eval(), f"{text} (the same parts at a small size)", seed)
    if _is_folder(path := trained.find(text) or Path(text)):
        model, notes = _folder(path)
        return _ready(model.eval(), text, seed)._replace(notes=tuple(notes))
    if path.suffix == ".json":
        return _untrained(build(path).eval(), text, seed)
    if ":" in text:
        return _factory(text, seed)
    if path.suffix == ".py":
        raise InputError(
            f"{text} is a file. Name what to check in it: {text}:NAME, a class, a module or a function that makes one."
        )
    if path.suffix in WITHOUT_MODULE and os.path.isfile(text):
        raise InputError(f"{text} {WITHOUT_MODULE[path.suffix]}")
    raise InputError(sentences(f"There is no model {text!r}.", did_you_mean(text, [*PRESETS, *trained.NAMES]), USAGE))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long for a name, or a character that no name has
        return False


def _untrained(model: nn.Module, title: str, seed: int) -> Target:
    return _ready(model, title, seed)._replace(untrained=True)


def _ready(model: nn.Module, title: str, seed: int) -> Target:
    try:
        example = inputs_for(model, seed=seed)
    except InputError as error:
        return Target(model, (), {}, {}, title, generated=True, refusal=error)
    return Target(model, example.args, example.kwargs, example.kinds, title, generated=True)


# ------------------------------------------------------------------------------------------------------------ user's own code


def _factory(text: str, seed: int) -> Target:
    return _from_object(named_object(text), text, seed)


def named_object(text: str) -> Any:
    """What module:NAME or FILE.py:NAME names. Raises InputError where there is none."""
    module_name, _, name = text.rpartition(":")
    if not name or not module_name:
        raise InputError(f"{text!r} names no {'factory' if module_name else 'module'}. {USAGE}")
    obj: Any = _file(Path(module_name)) if module_name.endswith(".py") else _module(module_name, text)
    for part in name.split("."):
        if not hasattr(obj, part):
            names = [n for n, v in vars(obj).items() if not n.startswith("_") and callable(v)] if hasattr(obj, "__dict__") else []
            raise UnknownName(f"class or function of {module_name}", part, names, "" if names else "It has none.")
        obj = getattr(obj, part)
    return obj


def _from_object(obj: Any, text: str, seed: int) -> Target:
    """A model and inputs from an object, a class or a function."""
    if not isinstance(obj, nn.Module):
        if not callable(obj):
            raise InputError(f"{text} is {_a(obj)}, which is neither a torch.nn.Module nor something that makes one.")
        try:
            obj = obj()
        except EquiscopeError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code
            raise InputError(f"{text} was called without arguments and raised {one_line(error)}. {_advice(obj)}") from error
    model, *example = obj if isinstance(obj, (tuple, list)) else (obj,)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"{text} returned {_a(model)}, not a torch.nn.Module. Return the model, (model, inputs) or (model, args, kwargs)."
        )
    if not example:
        return _ready(model, text, seed)
    args, kwargs = _call_arguments(example, text)
    return Target(model, args, kwargs, {}, text)


def _call_arguments(example: list[Any], text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(inputs) or (args, kwargs) of a factory."""
    if len(example) == 2 and isinstance(example[1], Mapping):
        return (tuple(example[0]) if isinstance(example[0], (tuple, list)) else (example[0],)), dict(example[1])
    if len(example) > 1 and not all(isinstance(g, Tensor) for g in example):
        raise InputError(f"{text} returned {len(example) + 1} values. Return the model, (model, inputs) or (model, args, kwargs).")
    (first, *rest) = example
    if rest:
        return tuple(example), {}
    if isinstance(first, Mapping):
        return (), dict(first)
    return (tuple(first) if isinstance(first, (tuple, list)) else (first,)), {}


def _advice(obj: Any) -> str:
    """What to do about a call that failed."""
    try:
        needed = [p.name for p in inspect.signature(obj).parameters.values() if p.default is p.empty and p.kind in (0, 1, 3)]
    except (TypeError, ValueError):
        needed = []
    return (
        f"It needs {', '.join(needed)}: give a function without arguments that makes the model."
        if needed
        else "Correct it, or name another."
    )


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    name = f"equiscope_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look there
    with _importable(path.resolve().parent):
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # the user's own code
            sys.modules.pop(name, None)
            raise InputError(f"{path} could not be read: {one_line(error)}.") from error
    return module


def _module(name: str, text: str) -> ModuleType:
    with _importable(Path.cwd()):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                raise InputError(
                    f"There is no module {error.name!r}, requested by {text!r}: not installed, and not in this folder. {USAGE}"
                ) from error
            raise InputError(f"{name} could not be read: it needs {error.name!r}, which is not installed.") from error
        except (Exception, SystemExit) as error:  # the user's own code
            raise InputError(f"{name} could not be read: {one_line(error)}.") from error


class _importable:
    """Inside, a folder comes first on the import path."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __enter__(self) -> None:
        sys.path.insert(0, self.folder)

    def __exit__(self, *_: object) -> None:
        if self.folder in sys.path:
            sys.path.remove(self.folder)


# ------------------------------------------------------------------------------------------------- other people's libraries


def _library(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        raise InputError(f"{name} models need {missing}, which is not installed. Install it: pip install {missing}") from error
    except Exception as error:  # a broken installation
        raise InputError(f"{name} is installed but cannot be loaded: {one_line(error)}.") from error
    if name == "transformers":
        module.logging.set_verbosity_error()
        module.logging.disable_progress_bar()
    return module


def _transformers(name: str) -> nn.Module:
    """A model class, or the model of a configuration class, with random weights and a small size."""
    library = _library("transformers")
    cls = getattr(library, name, None)
    if not inspect.isclass(cls):
        known = [n for n in dir(library) if n.endswith(("Model", "ForCausalLM", "Config"))]
        raise UnknownName("class of transformers", name, known, "Its documentation lists them.")
    if issubclass(cls, library.PreTrainedConfig):
        return _of_config(library, cls)
    if not issubclass(cls, library.PreTrainedModel):
        raise InputError(f"transformers.{name} is neither a model nor a configuration. Give a class such as LlamaForCausalLM.")
    return model_of(cls, tiny(config_class_of(cls)))


def _of_config(library: ModuleType, config_class: type) -> nn.Module:
    """The model class of a configuration: one that generates text, otherwise the base model."""
    config = tiny(config_class)
    for auto in (library.AutoModelForCausalLM, library.AutoModelForSeq2SeqLM, library.AutoModelForMaskedLM, library.AutoModel):
        if config_class in auto._model_mapping:
            model = auto._model_mapping[config_class]
            return model_of(model[0] if isinstance(model, (tuple, list)) else model, config)
    raise InputError(f"transformers has no model for {config_class.__name__} alone. Name a model class: transformers:CLASS.")


def model_of(model_class: type, config: Any) -> nn.Module:
    """A class of transformers with random weights. A causal language model gets `is_decoder`: BERT and others need it to be causal.

    raises  InputError where the class cannot be built, with its message
    """
    if any(word in model_class.__name__ for word in ("CausalLM", "LMHead", "Decoder")):
        for flag in ("is_decoder", "causal"):
            if isinstance(getattr(config, flag, None), bool):
                setattr(config, flag, True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model: nn.Module = model_class(config)
    except Exception as error:  # other people's code
        raise InputError(
            f"{model_class.__name__} could not be built from a small {type(config).__name__}: {one_line(error)}."
        ) from error
    return model.eval()


def _timm(name: str) -> nn.Module:
    """With random weights; for a small picture where the model accepts its size as an argument."""
    _torchvision()
    library = _library("timm")
    if not library.is_model(name):
        raise UnknownName("model of timm", name, library.list_models(), "timm.list_models() lists them.")
    for sizes in ({"img_size": 64}, {}):
        try:
            model: nn.Module = library.create_model(name, pretrained=False, **sizes)
            if sizes:
                inputs_for(model.eval())
            return model.eval()
        except Exception as error:  # a model of one size, or without that argument
            failed = error
    raise InputError(f"timm could not make {name}: {one_line(failed)}.") from failed


def _torchvision() -> None:
    """timm imports torchvision, whose CUDA build fails on a CPU because its own operators are missing: define them first."""
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            return
        for loaded in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[loaded]
        for operator in ("nms", "qnms"):
            _OPERATORS.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except Exception:  # timm itself raises a clearer error
        return


_OPERATORS = torch.library.Library("torchvision", "FRAGMENT")  # its definitions live as long as this object


def _folder(folder: Path) -> tuple[nn.Module, list[str]]:
    """The model of a checkpoint or of a run, and the origin of its tensors. The class of a checkpoint is the one that config.json
    names, or ours where transformers is not installed."""
    if (folder / RUN).is_file():
        return load(folder), []
    if is_sentence_encoder(folder):
        encoder = load_sentence_encoder(folder)
        return encoder, encoder.notes
    files.read_config(folder)  # its errors come before those of a missing library
    if importlib.util.find_spec("transformers") is None:
        model: Any = load(folder)
        return model, list(model.origin)
    return load_with_transformers(folder, _library("transformers"))


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}" if value is not None else "nothing (None)"
