"""Strict loading: the checks of weights from outside, the same for every command and every class.

Missing tensors, tensors of another shape, tensors with NaN or infinity, and tensors that no part of the model reads are errors that
name each tensor; nothing is ever initialised at random. Two kinds of extra tensors are ignored and reported: computed buffers
(positions, rotary frequencies), and heads or poolers that the requested model does not have. Prefixes of wrappers (torch.compile,
DistributedDataParallel, FSDP) are removed and reported.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from equiscope.checkpoints.files import CONFIG, Weights
from equiscope.errors import InputError, short_repr

FLOATS = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16"}
WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module")  # names that no model has itself
PARALLEL = "module"  # which a model may have as a name of its own
BUFFERS = re.compile(
    r"(.*\.)?(position_ids|(rotary_emb\.|rotary_pos_emb\.)?(original_)?inv_freq|num_batches_tracked|embeddings\.token_type_ids)"
)
HEADS = re.compile(  # after which nothing of the model comes
    r"(cls\.predictions|cls\.seq_relationship|lm_head|mlm_head|v_head|value_head|score|classifier|distillation_classifier|cls_classifier"
    r"|pre_classifier|vocab_transform|vocab_layer_norm|vocab_projector|qa_outputs|qa_output|embed_out|logits_proj|sequence_summary"
    r"|multiple_choice_head|sop_classifier|discriminator_predictions|generator_predictions|generator_lm_head|final_logits_bias"
    r"|classification_head|(\w+\.)?pooler)(\..*)?"
)
COUNTS = re.compile(r"\w*layers?|depth|\w*blocks|num_stages|num_labels|\w*num_\w*experts")  # of what is made one by one
MOST, LABELS = 1000, 10**6  # of those, whatever the number of tensors; and of labels
SHOWN = 3  # tensors of each kind that a sentence names


@dataclass(frozen=True)
class ShapeMismatch:
    """A tensor whose shape differs from the config."""

    name: str
    actual: tuple[int, ...]
    expected: tuple[int, ...]


class WeightsError(InputError):
    """Weights that do not fit: names of tensors that are missing, extra, of another shape, or not finite."""

    def __init__(self, fit: "Fit", owner: str) -> None:
        self.missing, self.extra, self.shapes, self.nonfinite = fit.missing, fit.extra, fit.shapes, fit.nonfinite
        kinds = [
            [f"{name} is missing" for name in fit.missing],
            [f"{one.name} is {one.actual}, but the config makes it {one.expected}" for one in fit.shapes],
            [f"{name} belongs to no part" for name in fit.extra],
            [f"{name} holds {what}" for name, what in fit.nonfinite.items()],
        ]
        listed = [sentence for kind in kinds for sentence in kind[:SHOWN]]
        more = sum(map(len, kinds)) - len(listed)
        super().__init__(
            f"The weights do not fit {CONFIG} of {owner}: {'; '.join(listed)}{f', and {more} more' if more else ''}. No number is "
            "made up for them: give the checkpoint whole, with the config and the names that it was written with."
        )


@dataclass
class Fit:
    """How the tensors of a folder match the parameters of a model.

    used       names that were loaded into the model
    missing    names that the model needs and the folder lacks
    extra      names that no part of the model reads
    ignored    extra tensors that change nothing: name -> reason
    nonfinite  name -> NaN or infinity
    """

    used: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    shapes: list[ShapeMismatch] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    nonfinite: dict[str, str] = field(default_factory=dict)

    def add_unused(self, name: str, has: Collection[str], why: str = "") -> None:
        """Record an unread tensor: ignored where it is a computed buffer or a head that the model does not have, else extra.

        has  names of the tensors that the model has
        why  a reason of the model's own family to let it by
        """
        reason = unused_reason(name, has) or why
        if reason:
            self.ignored[name] = reason
        else:
            self.extra.append(name)

    def raise_on_mismatch(self, owner: str) -> "Fit":
        """Itself. Raises WeightsError where anything does not fit."""
        if self.missing or self.shapes or self.extra or self.nonfinite:
            raise WeightsError(self, owner)
        return self


def unused_reason(name: str, has: Collection[str]) -> str:
    """Why an unread tensor changes nothing; empty where it could."""
    if BUFFERS.fullmatch(name):
        return "a buffer, computed"
    head = HEADS.fullmatch(name)
    if head and not any(one == head[1] or one.startswith(f"{head[1]}.") for one in has):
        return "a head or pooler that this model does not have"
    return ""


def nonfinite_tensors(tensors: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, str]:
    """Which of these tensors hold NaN or infinity."""
    kinds = dict[str, str]()
    for name in names:
        tensor = tensors[name]
        if tensor.dtype not in FLOATS or not tensor.numel():
            continue
        low, high = (float(end) for end in torch.aminmax(tensor.detach()))  # needs no second tensor of that size, and NaN wins
        if low != low or high != high:
            kinds[name] = "NaN"
        elif abs(low) == float("inf") or high == float("inf"):
            kinds[name] = "infinity"
    return kinds


def require_float_dtypes(tensors: Mapping[str, Tensor], names: Iterable[str]) -> None:
    """Raise InputError for a weight whose dtype is not a floating-point type, such as a quantised one."""
    for name in names:
        if tensors[name].dtype not in FLOATS:
            raise InputError(
                f"{name} is {str(tensors[name].dtype).removeprefix('torch.')}, but weights here are {', '.join(FLOATS.values())}. "
                "Take a checkpoint that is not quantised."
            )


# --------------------------------------------------------------------------------------------------------------- names


def without_wrappers(weights: Weights, wanted: Collection[str]) -> tuple[Weights, str]:
    """The same tensors by the names that a model has, and the prefixes that were removed.

    Of several ways to rename, the first is chosen that finds most of the expected names: unchanged, without names of wrappers,
    without `module` in the middle, and without a prefix that all names share.
    raises  InputError where two tensors would get one name
    """
    names = list(weights.tensors)
    plain = {name: _without(name, WRAPPERS) for name in names}
    tries = [dict(zip(names, names, strict=True)), plain, {name: _without(one, (PARALLEL,)) for name, one in plain.items()}]
    tries += [{name: one.removeprefix(lead) for name, one in reading.items()} for reading in tries[1:] for lead in _leads(reading)]
    best = max(tries, key=lambda reading: len(set(wanted).intersection(reading.values())))  # the first of equals
    if twice := [name for name, count in Counter(best.values()).items() if count > 1]:
        two = [name for name in names if best[name] == twice[0]]
        raise InputError(f"{two[0]} and {two[1]} are both {twice[0]} without what wrappers put before it. Remove one.")
    taken = sorted({_taken(name, now) for name, now in best.items() if name != now})
    tensors = {best[name]: tensor for name, tensor in weights.tensors.items()}
    return Weights(tensors, {best[name]: file for name, file in weights.files.items()}), ", ".join(taken)


def _without(name: str, parts: Collection[str]) -> str:
    return ".".join(part for part in name.split(".") if part not in parts)


def _leads(reading: Mapping[str, str]) -> Iterable[str]:
    """Prefixes that all names share, shortest first."""
    split = [name.split(".") for name in reading.values()]
    for depth in range(1, min((len(one) for one in split), default=1)):
        if len({tuple(one[:depth]) for one in split}) > 1:
            return
        yield ".".join(split[0][:depth]) + "."


def _taken(name: str, now: str) -> str:
    """What was removed from one name: a prefix, or parts in the middle."""
    if name.endswith(f".{now}"):
        return f"{name.removesuffix(now)}"
    kept, gone = now.split("."), list[str]()
    for part in name.split("."):
        if kept and part == kept[0]:
            kept.pop(0)
        else:
            gone.append(part)
    return f"{'.'.join(gone)}."


# ---------------------------------------------------------------------------------------------------------------- words


def refuse_counts(config: dict[str, Any], tensors: int, path: str = "") -> None:
    """Raise InputError where a config has more layers, experts or labels than its weights can have, as each is allocated."""
    for name, value in config.items():
        most = max(LABELS if name == "num_labels" else MOST, tensors)
        if isinstance(value, dict):
            refuse_counts(value, tensors, f"{path}{name}.")
        elif COUNTS.fullmatch(name) and isinstance(value, int | float) and value > most:
            raise InputError(
                f"{CONFIG} says {path}{name} = {short_repr(value)}, but the weights are {tensors} tensors, not that many. "
                "Correct the config."
            )


def refuse_quantised(config: Mapping[str, Any]) -> None:
    """Raises InputError for a config that says its weights are quantised."""
    settings = config.get("quantization_config")
    if settings:
        method = settings.get("quant_method") if isinstance(settings, dict) else settings
        raise InputError(
            f"{CONFIG} says quantization_config (of {method!r}), but weights here are {', '.join(FLOATS.values())}. Take a "
            "checkpoint that is not quantised."
        )


def refuse_code(config: Mapping[str, Any], folder: object) -> None:
    """Raises InputError for a folder whose model is code of its own: `auto_map` names it, and no class of a library is named."""
    if config.get("auto_map") and not config.get("architectures"):
        entry = config["auto_map"]
        named = next(iter(entry.values()), entry) if isinstance(entry, dict) else entry
        raise InputError(
            f"{folder} needs code of its own: its {CONFIG} says auto_map ({named!r}) and names no class in architectures. Code of "
            "a folder is never run here: read it yourself, import its class, and give that as module:factory."
        )


def origin(
    weights: Weights, fit: Fit, taken: str = "", ignored: Collection[str] = (), config: Mapping[str, Any] | None = None
) -> list[str]:  # fmt: skip
    """Sentences about where every tensor comes from, and what was ignored."""
    counted = Counter(weights.files[name] for name in fit.used)
    total, files = len(fit.used), sorted(counted)
    where = files[0] if len(files) == 1 else f"{len(files)} files, {files[0]} to {files[-1]}" if files else "no file"
    sentences = [f"{total} of {total} tensors from {where}", "none missing"]
    if fit.ignored:
        names = ", ".join(list(fit.ignored)[:SHOWN])
        more = f" and {len(fit.ignored) - SHOWN} more" if len(fit.ignored) > SHOWN else ""
        sentences.append(f"{len(fit.ignored)} extra ignored: {names}{more} ({'; '.join(sorted(set(fit.ignored.values())))})")
    if taken:
        sentences.append(f"prefix {taken} taken off")
    notes = [f"Weights: {'; '.join(sentences)}."]
    plain = [name for name in ignored if name != "auto_map"]
    if plain:
        notes.append(f"Fields of {CONFIG} that change no number and were not read: {', '.join(plain)}.")
    if config is not None and config.get("auto_map"):
        notes.append(
            f"{CONFIG} says auto_map, which names code of the folder: it was not run, and the library's own class was taken."
        )
    return notes
