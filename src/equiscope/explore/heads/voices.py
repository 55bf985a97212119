"""How the answer of a model is read, whoever wrote it: names of classes, or pieces of text."""

from typing import Any

from torch import nn

from equiscope.explore.heads.says import Voice, classes, numbered
from equiscope.models import Model
from equiscope.tokens.labels import labels


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
