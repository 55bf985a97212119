"""Says: what a model answers in the pass that is watched: a class of all that it read, or the token that follows each one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from equiscope.models import Model
from equiscope.record import Line, pack
from equiscope.record.heads import Says
from equiscope.tokens.labels import labels

MOST = 5  # answers that are told
ROWS = 512  # tokens up to which an answer is kept after each; of more, the last alone


@dataclass(frozen=True)
class Voice:
    """How to read what a model gives.

    kind   class: one answer to all of the input; next: which token follows, after each token
    name   what the number of an answer stands for
    apart  each class is likely or not for itself: their probabilities do not add up to 1
    """

    kind: Literal["class", "next"]
    name: Callable[[int], str]
    apart: bool = False


def says(output: Any, voice: Voice | None, lines: Sequence[Line], last: int = 0) -> Says | None:
    """The likeliest answers of the first input; None where the output is not of such a shape.

    lines   of the tokens; last: the number of the one whose tokens asked last, which is taken where it fits
    """
    found = _logits(output)
    if voice is None or found is None or found.ndim != (2 if voice.kind == "class" else 3) or found.shape[-1] < 2:
        return None
    rows = found[:1] if voice.kind == "class" else found[0]
    fits = [place for place, line in enumerate(lines) if len(line.labels) == len(rows)]
    if (voice.kind == "next" and not fits) or not bool(rows.isfinite().all()):
        return None
    first = len(rows) - 1 if len(rows) > ROWS else 0
    some = rows[first:].detach().cpu().double()
    chances = some.sigmoid() if voice.apart else some.softmax(-1)
    best = chances.topk(min(MOST, chances.shape[-1]), -1)
    used, which = np.unique(best.indices.numpy(), return_inverse=True)
    line = 0 if voice.kind == "class" else last if last in fits else fits[-1]
    return Says(
        kind=voice.kind, names=[voice.name(int(i)) for i in used], which=pack(which.reshape(best.indices.shape).astype(np.int64)),
        shares=pack(best.values.numpy().astype(np.float32)), line=line, first=first,
    )  # fmt: skip


def _logits(output: Any) -> Tensor | None:
    """The numbers, one an answer, wherever a model keeps them."""
    if isinstance(output, (tuple, list)):
        output = output[0] if output else None
    if isinstance(output, dict):
        output = output.get("logits")
    output = getattr(output, "logits", output)
    return output if isinstance(output, Tensor) and output.is_floating_point() else None


def classes(names: Sequence[str]) -> Callable[[int], str]:
    """What a class is called; its number where it has no name."""
    return lambda i: names[i] if i < len(names) else f"class {i}"


def numbered(i: int) -> str:
    return f"class {i}"


# ------------------------------------------------------------------------------------- how the answer of a model is read


def of_tokens(inner: Any | None) -> Voice:
    """Of a model that writes. inner: a `tokenizers.Tokenizer`; None: ids stay numbers."""
    return Voice("next", str if inner is None else lambda i: labels(inner, [i])[0])


def of_target(model: nn.Module, inner: Any | None) -> Voice | None:
    """Of transformers', timm's and our models: by what the model itself says of its answer. None where it says nothing."""
    if isinstance(model, Model):
        return _ours(model, inner)
    config, name = getattr(model, "config", None), type(model).__name__
    if callable(writes := getattr(model, "can_generate", None)) and writes():
        return of_tokens(inner)
    named = getattr(config, "id2label", None)
    if isinstance(named, dict) and "Classification" in name and "Token" not in name:
        kind = getattr(config, "problem_type", None)
        if kind == "regression":
            return None
        several = kind == "multi_label_classification"
        return Voice("class", lambda i: str(named.get(i, numbered(i))), several)
    told = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if (told is not None or type(model).__module__.startswith("timm.")) and getattr(model, "num_classes", None) != 0:
        known = told.get("label_names") if isinstance(told, dict) else None
        return Voice("class", classes(list(known)) if known else numbered)
    return None


def _ours(model: Model, inner: Any | None) -> Voice | None:
    spec = model.spec
    if spec.outputs is None:
        return None
    if spec.readout != "each":
        return Voice("class", numbered)
    return of_tokens(inner) if spec.vocabulary is not None and spec.outputs == spec.vocabulary else None
