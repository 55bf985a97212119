"""Predictions: what a model predicts in the recorded pass: a class for the whole input, or the next token after each token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from equiscope.models import Model
from equiscope.record import TokenSequence, pack
from equiscope.record.heads import Predictions
from equiscope.tokens.labels import labels

MOST = 5  # predictions per row
ROWS = 512  # tokens up to which every output is kept; for longer inputs only the last output is kept


@dataclass(frozen=True)
class PredictionReader:
    """How to read the output of a model.

    kind         class: one prediction for the whole input; next: the next token, after each token
    name         label of a class or a token id
    independent  multi-label: each class has its own sigmoid, so the probabilities do not add up to 1
    """

    kind: Literal["class", "next"]
    name: Callable[[int], str]
    independent: bool = False


def predictions(
    output: Any, reader: PredictionReader | None, sequences: Sequence[TokenSequence], last: int = 0
) -> Predictions | None:
    """The most probable predictions for the first input; None where the output has another shape.

    last  index of the sequence whose tokens are the queries of the last attention: taken where its length fits
    """
    logits = _logits(output)
    if reader is None or logits is None or logits.ndim != (2 if reader.kind == "class" else 3) or logits.shape[-1] < 2:
        return None
    rows = logits[:1] if reader.kind == "class" else logits[0]
    fits = [i for i, one in enumerate(sequences) if len(one.labels) == len(rows)]
    if (reader.kind == "next" and not fits) or not bool(rows.isfinite().all()):
        return None
    first = len(rows) - 1 if len(rows) > ROWS else 0
    last_rows = rows[first:].detach().cpu().double()
    probabilities = last_rows.sigmoid() if reader.independent else last_rows.softmax(-1)
    best = probabilities.topk(min(MOST, probabilities.shape[-1]), -1)
    used, indices = np.unique(best.indices.numpy(), return_inverse=True)
    sequence = 0 if reader.kind == "class" else last if last in fits else fits[-1]
    return Predictions(
        kind=reader.kind, names=[reader.name(int(i)) for i in used], 
        indices=pack(indices.reshape(best.indices.shape).astype(np.int64)),
        probabilities=pack(best.values.numpy().astype(np.float32)), sequence=sequence, first_row=first,
    )  # fmt: skip


def _logits(output: Any) -> Tensor | None:
    """The logits in the output of a model: the tensor itself, its first element, or its field `logits`."""
    if isinstance(output, (tuple, list)):
        output = output[0] if output else None
    if isinstance(output, dict):
        output = output.get("logits")
    output = getattr(output, "logits", output)
    return output if isinstance(output, Tensor) and output.is_floating_point() else None


def classes(names: Sequence[str]) -> Callable[[int], str]:
    """Labels of classes; the number of a class that has no name."""
    return lambda i: names[i] if i < len(names) else f"class {i}"


def class_label(i: int) -> str:
    return f"class {i}"


# ------------------------------------------------------------------------------------- which reader fits a model


def token_reader(inner: Any | None) -> PredictionReader:
    """For a language model. inner: a `tokenizers.Tokenizer`; None: ids stay numbers."""
    return PredictionReader("next", str if inner is None else lambda i: labels(inner, [i])[0])


def model_reader(model: nn.Module, inner: Any | None) -> PredictionReader | None:
    """For models of transformers, timm and this package: by what the model declares of its output; None for nothing."""
    if isinstance(model, Model):
        return _ours(model, inner)
    config, name = getattr(model, "config", None), type(model).__name__
    if callable(can_generate := getattr(model, "can_generate", None)) and can_generate():
        return token_reader(inner)
    named = getattr(config, "id2label", None)
    if isinstance(named, dict) and "Classification" in name and "Token" not in name:
        kind = getattr(config, "problem_type", None)
        if kind == "regression":
            return None
        several = kind == "multi_label_classification"
        return PredictionReader("class", lambda i: str(named.get(i, class_label(i))), several)
    settings = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if (settings is not None or type(model).__module__.startswith("timm.")) and getattr(model, "num_classes", None) != 0:
        names = settings.get("label_names") if isinstance(settings, dict) else None
        return PredictionReader("class", classes(list(names)) if names else class_label)
    return None


def _ours(model: Model, inner: Any | None) -> PredictionReader | None:
    spec = model.spec
    if spec.outputs is None:
        return None
    if spec.readout != "each":
        return PredictionReader("class", class_label)
    return token_reader(inner) if spec.vocabulary is not None and spec.outputs == spec.vocabulary else None
