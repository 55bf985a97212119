"""Padded inputs: more rows on one side of the inputs of a model, and all that marks them as padding.

What marks them is the model's padding mask or its `lengths`; positions, where the model takes any, count the tokens only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from equiscope.audit.inputs.adapt import DECODER_MASKS
from equiscope.audit.inputs.padding_mask import all_tokens, mask_name, token_axis, written
from equiscope.audit.inputs.variations import batched, resampled
from equiscope.audit.subject import Subject, arguments, shortened
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import LENGTHS, InputKind


@dataclass(frozen=True)
class Ragged:
    """Sequences of several lengths in one batch, padded to the longest; and each alone, without padding."""

    batch: Inputs
    singles: list[Inputs]
    lengths: tuple[int, ...]


def ragged(subject: Subject, single: Inputs, lengths: tuple[int, ...], left: bool, generator: Generator) -> Ragged:
    """Rows that differ in length, tokens and mask; the first is the given sequence. All are padded on one side."""
    longest = max(lengths)
    texts = [single, *(resampled(single, generator) for _ in lengths[1:])]
    parts = [shortened(text, size) if size < (single.length or 0) else text for text, size in zip(texts, lengths, strict=True)]
    rows = [padded(subject, part, longest - size, left, generator) for part, size in zip(parts, lengths, strict=True)]
    singles = [padded(subject, part, 0, left, generator) for part in parts]
    return Ragged(batched(*rows), singles, lengths)


def padded(subject: Subject, inputs: Inputs, size: int, left: bool, generator: Generator) -> Inputs:
    """The inputs with `size` more rows, marked as padding: the model's padding id, or other tokens where it has none.

    Size 0 gives the mask without padding. A padding mask among the inputs is replaced: every given row counts as a token, or else
    the outputs at its padding, which are arbitrary, would be compared.
    """
    if inputs.has("tokens"):
        return inputs.each(lambda t: _padded_tokens(t, size, left, generator), "tokens")
    mask = mask_name(subject)
    rows: dict[str, Any] = {}
    for name, value in inputs.of("ids", "features", "flags").items():
        if name != mask:
            pad_id = inputs.extra.get("pad") if inputs.kinds[name] == "ids" else None
            rows[name] = _with_rows(value, size, token_axis(inputs, name), left, generator, pad_id)
    is_token = all_tokens(inputs, size, left)
    lengths = _lengths(inputs, mask, is_token.sum(-1))
    masks = _masks(subject, mask, is_token) if mask not in lengths else {}
    positions = _positions(subject, inputs, mask, is_token)
    new = _kinds(positions, "position_ids") | _kinds(lengths, "lengths") | _kinds([*rows, *masks], "flags")
    return replace(inputs, values=inputs.values | rows | masks | lengths | positions, kinds=new | inputs.kinds)


def _masks(subject: Subject, mask: str, is_token: Tensor) -> dict[str, Tensor]:
    """The padding mask in the form that the model takes, and that of the decoder over the same sequence."""
    masks = {mask: written(subject, mask, is_token)}
    if mask == "src_key_padding_mask" and "memory_key_padding_mask" in arguments(subject.model):
        masks["memory_key_padding_mask"] = ~is_token
    return masks


def _lengths(inputs: Inputs, mask: str, count: Tensor) -> dict[str, Tensor]:
    """The number of tokens of each sequence, for each argument that takes it."""
    names = dict.fromkeys([*inputs.of("lengths"), *([mask] if mask in LENGTHS else [])])
    given = {name: inputs.values.get(name) for name in names}
    return {name: count.to(value) if isinstance(value, Tensor) else count for name, value in given.items()}


def _positions(subject: Subject, inputs: Inputs, mask: str, is_token: Tensor) -> dict[str, Tensor]:
    """Positions that count the tokens from the first given one, if the model takes positions; padding on the left has the first."""
    name = "decoder_position_ids" if mask in DECODER_MASKS else "position_ids"
    if name not in arguments(subject.model) and name not in inputs.values:
        return {}
    given = inputs.values.get(name)
    first = given[..., :1] if isinstance(given, Tensor) else 0
    return {name: (is_token.long().cumsum(-1) - 1).clamp(min=0) + first}


def _kinds(names: Iterable[str], kind: InputKind) -> dict[str, InputKind]:
    return dict.fromkeys(names, kind)


def _with_rows(value: Tensor, size: int, axis: int, left: bool, generator: Generator, pad_id: int | None = None) -> Tensor:
    """The value with `size` more rows on one side: the padding id, or copies of rows drawn at random."""
    pick = torch.randint(value.shape[axis], (size,), generator=generator)
    padding = value.index_select(axis, pick.to(value.device))
    if pad_id is not None:
        padding = torch.full_like(padding, pad_id)
    return torch.cat([padding, value] if left else [value, padding], axis)


def _padded_tokens(tokens: Any, size: int, left: bool, generator: Generator) -> Any:
    """Tokens of this package with `size` more rows, of which `valid` says that they are padding."""
    *lead, n = tokens.x.shape[:-1]
    x = _with_rows(tokens.x, size, tokens.x.ndim - 2, left, generator)
    is_token = tokens.valid if tokens.valid is not None else torch.ones(*lead, n, dtype=torch.bool, device=x.device)
    valid = F.pad(is_token.expand(*lead, n), (size, 0) if left else (0, size))
    positions = _repeated(tokens.positions, size, -2, left)
    order = _repeated(tokens.order, size, -1, left)
    document = None if tokens.document is None else _repeated(tokens.document, size, -1, left)
    return replace(tokens, x=x, positions=positions, order=order, document=document, valid=valid, counted=None)


def _repeated(value: Tensor, size: int, axis: int, left: bool) -> Tensor:
    """The value with its first or its last row `size` more times."""
    edge = value.narrow(axis, 0 if left else value.shape[axis] - 1, 1)
    shape = list(value.shape)
    shape[axis] = size
    return torch.cat([edge.expand(shape), value] if left else [value, edge.expand(shape)], axis)
