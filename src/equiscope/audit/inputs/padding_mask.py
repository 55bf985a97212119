"""The padding mask: which argument of a model marks its tokens, and how it is written.

A mask named `attention_mask` is true at tokens, a `key_padding_mask` at padding. Of other names libraries disagree: `padding_mask`
is true at padding in fairseq, and at tokens in Keras. For those the running model decides; and of a mask of pairs too.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from equiscope.audit.inputs.adapt import DECODED, DECODER_MASKS
from equiscope.audit.inputs.variations import changed_tokens
from equiscope.audit.subject import ModelError, Pass, Subject, arguments
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import LENGTHS, InputKind

TRUE_IS_TOKEN = ("attention_mask", "decoder_attention_mask")
TRUE_IS_PADDING = ("tgt_key_padding_mask", "src_key_padding_mask", "key_padding_mask")
MASKS = ("attention_mask", "src_key_padding_mask", "key_padding_mask", "padding_mask", "pad_mask")


def mask_name(subject: Subject) -> str:
    """The name of the padding mask among the arguments, or of the lengths; empty where the model takes neither."""
    names, kinds = arguments(subject.model), subject.inputs.kinds
    decoded = any(n in DECODED and kinds[n] != "other" for n in kinds)
    if decoded:
        return next((n for n in DECODER_MASKS if n in kinds or n in names), "")
    lengths = () if subject.inputs.batch is None else (*subject.inputs.of("lengths"), *LENGTHS)
    mask = next((n for n in MASKS if n in kinds or n in names), "")
    return mask or next((n for n in lengths if n in names and kinds.get(n, "lengths") == "lengths"), "")


def pads_left(subject: Subject) -> bool:
    """Whether padding before the tokens can be marked: lengths count the first rows of a sequence."""
    return not subject.inputs.has("lengths") and mask_name(subject) not in LENGTHS


def token_axis(inputs: Inputs, name: str) -> int:
    """The axis of the tokens of ids [..., N], flags [..., N] or features [..., N, D]."""
    return int(inputs.values[name].ndim) - (2 if inputs.kinds[name] == "features" else 1)


def all_tokens(inputs: Inputs, size: int = 0, left: bool = False) -> Tensor:
    """Which rows are tokens, bool [..., N + size]: all but `size` rows of padding."""
    name, main = next(iter(inputs.of("ids", "features").items()))
    shape = main.shape[: token_axis(inputs, name) + 1]
    return F.pad(torch.ones(shape, dtype=torch.bool, device=main.device), (size, 0) if left else (0, size))


def written(subject: Subject, mask: str, is_token: Tensor) -> Tensor:
    """The padding mask [..., N] in the form that the model takes. is_token: bool [..., N]."""
    dtype, true_is_padding = _form(subject, mask)
    return (~is_token if true_is_padding else is_token).to(dtype)


def read(subject: Subject, mask: str, value: Tensor) -> Tensor:
    """Which rows are tokens, bool [..., N], by a value of the padding mask."""
    return value.eq(0) if _form(subject, mask)[1] else value.ne(0)


def _form(subject: Subject, mask: str) -> tuple[torch.dtype, bool]:
    """The dtype of the mask, and whether it is true at padding."""
    if mask not in subject.mask_forms:
        subject.mask_forms[mask] = _form_of(subject, mask)
    return subject.mask_forms[mask]


def _form_of(subject: Subject, mask: str) -> tuple[torch.dtype, bool]:
    """By its name, or else by measurement: the flag with which the first token influences the other outputs less marks padding."""
    if mask in TRUE_IS_PADDING:  # a given float is added to the scores
        return torch.bool, True
    run, given, by_name = subject.in_dtype(subject.dtype), subject.inputs.values.get(mask), mask in TRUE_IS_TOKEN
    if isinstance(given, Tensor) and by_name:
        return given.dtype, False
    dtypes = (given.dtype,) if isinstance(given, Tensor) else (torch.int64, torch.bool) if by_name else (torch.bool, torch.int64)
    for dtype in dtypes:
        inputs = [_flagged(run.inputs, mask, dtype, flag) for flag in (0, 1)]
        try:
            if by_name:
                run(inputs[0])
                return dtype, False
            return dtype, _influence(run, inputs[1]) < _influence(run, inputs[0])
        except ModelError:  # it takes another dtype
            continue
    return dtypes[0], False


def masks_where_true(subject: Subject, mask: str) -> bool:
    """Whether a boolean mask [N, N] of queries and keys masks the keys at which it is true, by measurement.

    One column is set apart: the first token influences the other outputs less where that column alone is masked.
    """
    run = subject.in_dtype(subject.dtype)
    first = torch.zeros_like(subject.inputs.values[mask])
    first[:, 0] = True
    only_first, all_others = (_influence(run, run.inputs.with_values({mask: value})) for value in (first, ~first))
    return only_first < all_others


def _flagged(inputs: Inputs, mask: str, dtype: torch.dtype, flag: int) -> Inputs:
    """The inputs with a mask that is `flag` at the first token, and not at all others."""
    first, kinds = all_tokens(inputs).long().cumsum(-1).eq(1), dict[str, InputKind]({mask: "flags"})
    return replace(inputs, values=inputs.values | {mask: (first if flag else ~first).to(dtype)}, kinds=kinds | inputs.kinds)


def _influence(run: Pass, inputs: Inputs) -> float:
    """How much the outputs of the other tokens depend on the first one.

    Outputs that are not finite, of rows that may attend to nothing, are left out.
    """
    original, axes, largest = run(inputs), run.subject.axes(run), 0.0
    changed = run(changed_tokens(inputs, slice(0, 1), Generator().manual_seed(run.subject.seed)))
    for name, before in original.items():
        if before.is_floating_point() and before.shape == changed[name].shape:
            difference = (changed[name] - before).abs()
            for axis in axes.get(name, ()):
                difference = difference.narrow(axis, 1, difference.shape[axis] - 1)
            largest = max([largest, *difference[difference.isfinite()].tolist()])
    return largest
