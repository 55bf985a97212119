"""Adapt: complete the arguments of a model, so that more statements apply.

Ids for one of our models become its Tokens, which hold their positions. A model that takes `position_ids` gets the positions that
it would count itself, so that they can be shifted.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.inputs.variations import batched, sequence
from equiscope.audit.subject import ModelError, Subject, arguments
from equiscope.audit.subject.outputs import BatchLayout
from equiscope.program.attended.position_tables import patch_side
from equiscope.symmetry import InputKind, Inputs

DECODED = ("decoder_input_ids", "decoder_inputs_embeds", "tgt", "target", "trg", "tgt_ids", "target_ids", "decoder_inputs")
DECODER_MASKS = ("decoder_attention_mask", "tgt_key_padding_mask")


def complete_arguments(subject: Subject) -> Subject:
    """The same call with all arguments explicit. The outputs of the model stay the same, unless lengths are less than the rows."""
    model, inputs = subject.model, subject.inputs
    if callable(getattr(model, "tokens", None)) and hasattr(model, "moving_parts"):
        return subject.like(inputs=_tokens(model, inputs))
    if (pad := pad_id(model)) is not None:
        inputs = replace(inputs, extra=inputs.extra | {"pad": pad})
    if inputs.has("image"):
        inputs = replace(inputs, extra=inputs.extra | {"patch": patch_side(model)})
    return _with_batch_layout(_full_lengths(_add_positions(subject.like(inputs=_layer_kinds(model, _atom_kinds(inputs))))))


def pad_id(model: nn.Module) -> int | None:
    """The padding id from the configuration or from an embedding; None where neither has one."""
    config = getattr(model, "config", None)
    for holder in (config, getattr(config, "text_config", None)):
        value = getattr(holder, "pad_token_id", None)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    tables = (m.padding_idx for m in model.modules() if isinstance(m, nn.Embedding))
    return next((i for i in tables if i is not None), None)


def _with_batch_layout(subject: Subject) -> Subject:
    """Find out whether the model omits the batch axis of a single sequence, or returns a list with one item for each sequence."""
    inputs = subject.inputs
    if inputs.batch is None:
        return subject
    one, run = sequence(inputs, 0), subject.on_copy()
    several = inputs if inputs.batch > 1 else batched(one, one)
    try:
        given = run(inputs)
        if inputs.batch == 1 and all(1 in t.shape for t in given.values()) and not any("0" in name.split(".") for name in given):
            return subject
        layout = BatchLayout.of(run(one), run(several), several.batch or 0)
    except ModelError:  # it takes no other batch
        return subject
    subject.batch_layout = layout
    if layout.squeezed:
        names = ", ".join(name or "the output" for name in layout.squeezed)
        subject.notes.append(f"in a batch of one, {names} has no batch axis; it is compared as if it had one")
    if layout.listed:
        subject.notes.append("the outputs are lists with one item for each sequence; they are compared stacked")
    return subject


def decoder_subject(subject: Subject) -> Subject | None:
    """The same model as a subject whose tokens are those of its decoder; the encoder's inputs stay fixed.

    None for a model whose call has no decoder inputs.
    """
    inputs = subject.inputs
    words = next((n for n in DECODED if isinstance(inputs.values.get(n), Tensor)), None)
    if words is None or inputs.kinds[words] in ("ids", "features"):
        return None
    value = inputs.values[words]
    if value.ndim < (3 if value.is_floating_point() else 2):
        return None
    kinds: dict[str, InputKind] = {
        n: "other" if kind in ("ids", "features", "flags", "position_ids", "lengths") else kind for n, kind in inputs.kinds.items()
    }
    kinds[words] = "features" if value.is_floating_point() else "ids"
    tensors = [n for n, v in inputs.values.items() if isinstance(v, Tensor)]
    kinds |= {n: "flags" for n in tensors if n in DECODER_MASKS}
    kinds |= {n: "pairs" for n in tensors if n == "tgt_mask"}
    order = {words: value} | {n: v for n, v in inputs.values.items() if n != words}
    new_inputs = replace(inputs, values=order, kinds=kinds, extra={n: v for n, v in inputs.extra.items() if n != "completed"})
    return subject.like(inputs=new_inputs)


def _atom_kinds(inputs: Inputs) -> Inputs:
    """Integers named `numbers` beside points are atomic numbers, not ids of tokens."""
    named: dict[str, InputKind] = {n: "atoms" for n in inputs.of("ids") if n == "numbers" and inputs.has("points")}
    return replace(inputs, kinds=inputs.kinds | named)


def _layer_kinds(model: nn.Module, inputs: Inputs) -> Inputs:
    """Inputs of a torch layer with batch_first=False are [N, B, D]; inputs of a Conv1d are a sound [B, C, T]."""
    first = next((m for m in model.modules() if m._parameters and not list(m.children())), None)
    if isinstance(first, nn.Conv1d):
        wave: dict[str, InputKind] = {
            n: "wave" for n, v in inputs.of("features").items() if v.ndim == 3 and v.shape[1] == first.in_channels
        }
        return replace(inputs, kinds=inputs.kinds | wave)
    own = type(model).__module__.startswith("torch.nn")  # in a user's model that flag may be the fault itself
    if not own or not any(getattr(m, "batch_first", True) is False for m in model.modules()):
        return inputs
    changed: dict[str, InputKind] = {n: "steps" for n, v in inputs.of("features").items() if isinstance(v, Tensor) and v.ndim == 3}
    return replace(inputs, kinds=inputs.kinds | changed)


def _tokens(model: nn.Module, inputs: Inputs) -> Inputs:
    (name, value), *_ = inputs.values.items()
    if not isinstance(value, Tensor) or inputs.kinds[name] not in ("ids", "features"):
        return inputs
    with torch.no_grad():
        tokens: Any = model.tokens(value)  # type: ignore[operator]
    return replace(inputs, values=inputs.values | {name: tokens}, kinds=inputs.kinds | {name: "tokens"})


def _add_positions(subject: Subject) -> Subject:
    inputs = subject.inputs
    if inputs.has("position_ids", "coordinates") or "position_ids" not in arguments(subject.model):
        return subject
    main = next((v for v in inputs.of("ids", "features").values() if isinstance(v, Tensor)), None)
    if main is None or inputs.length is None:
        return subject
    lead = main.shape[:-2] if main.is_floating_point() else main.shape[:-1]
    positions = torch.arange(inputs.length, device=main.device).expand(*lead, -1)
    extra = inputs.extra | {"completed": ("position_ids",)}
    values, kinds = inputs.values | {"position_ids": positions}, inputs.kinds | {"position_ids": "position_ids"}
    new_inputs = replace(inputs, values=values, kinds=kinds, extra=extra)
    return subject.like(inputs=new_inputs) if _same_outputs(subject, new_inputs) else subject


def _full_lengths(subject: Subject) -> Subject:
    """Lengths of as many tokens as there are rows: rows of padding cannot be moved among the tokens."""
    n = subject.inputs.length or 0
    short = {name: value for name, value in subject.inputs.of("lengths").items() if not bool((value == n).all())}
    if not short:
        return subject
    full = subject.like(inputs=subject.inputs.with_values({name: torch.full_like(value, n) for name, value in short.items()}))
    full.notes = [f"{name} is {n}, the number of rows, for every sequence; right-padding, batch and causal measure shorter ones too"
                  for name in short]  # fmt: skip
    return full


def _same_outputs(subject: Subject, other: Inputs) -> bool:
    """Whether the outputs are equal: some models count from 2, some expect other shapes."""
    run = subject.in_dtype(subject.dtype)
    try:
        first, second = run(run.inputs), run(other)
    except ModelError:  # keep the original arguments
        return False
    return all(
        n in second and t.shape == second[n].shape and torch.allclose(t, second[n], equal_nan=True) for n, t in first.items()
    )
