"""Padding: empty places beside a text, which a flag marks, change nothing for the words.

Padding on the left moves every word to a later row. A model that counts its places from the row number then reads another
text, unless it is told the places; a model that is given `position_ids` is given those that count words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.audit.diagnose.localize import RIGHT
from equiscope.audit.inputs.adapt import DECODED
from equiscope.audit.inputs.variations import batched, changed_tokens, resampled, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows, error, measure_pair
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import Crashed, Pass, Subject, arguments, shortened
from equiscope.symmetry import Inputs

MASKS = ("attention_mask", "src_key_padding_mask", "key_padding_mask", "padding_mask")
DECODER_MASKS = ("decoder_attention_mask", "tgt_key_padding_mask")
TORCH = ("tgt_key_padding_mask", "src_key_padding_mask", "key_padding_mask")  # True is padding


class _Padding(Statement):
    expected = True
    left: bool

    def missing(self, subject: Subject) -> str:
        inputs = subject.inputs
        if inputs.has("tokens"):
            return ""
        if not inputs.has("ids", "features"):
            return "there are no tokens to pad"
        if inputs.has("pairs"):
            return "a mask for this length is given"
        return "" if mask_name(subject) else "the model takes no padding mask"

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        made = [self.pair(run, run.inputs, size, generator) for size in [1, 2, max(n // 2, 3), n][: max(count // 2, 1)]]
        return [*made[:1], *self._ragged(run, generator), *made[1:]]

    def _ragged(self, run: Pass, generator: Generator) -> list[RunPair]:
        """Sequences of several lengths in one batch: each gives the output that it gives alone."""
        n = run.inputs.length or 0
        if run.inputs.batch is None or n < 3:
            return []
        one = sequence(run.inputs, 0)
        beside = ragged(run.subject, one, (n, n // 2 + 1, 2), self.left, generator)
        across = run.subject.batch_axes(run, beside.alone[0], beside.batch)
        made = []
        for row, (alone, size) in enumerate(zip(beside.alone, beside.lengths, strict=True)):
            here = slice(n - size, None) if self.left else slice(0, size)
            text = f"a text of {size} tokens beside longer ones, padded on the {'left' if self.left else 'right'} to {n}"
            relation = SameRows(slice(None), here, (size, n), (0, row), across, (1, len(beside.lengths)), pooled=True)
            made.append(RunPair(alone, beside.batch, relation, text, {"size": n - size, "row": row}))
        return made[1:]

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        generator = Generator().manual_seed(run.subject.seed)
        for length in (1, 2, 3):
            if (run.inputs.length or 0) > length:
                yield self.pair(run, shortened(run.inputs, length), 1, generator)
        yield self.pair(run, run.inputs, 1, generator)

    def explain_secondary(self, run: Pass, pair: RunPair, output: str) -> str:
        """Whether a summary is read at a row that is padding: then it changes with what stands there."""
        if not isinstance(pair.transformed, Inputs):
            return ""
        size, transformed = int(pair.element["size"]), run(pair.transformed)
        n = pair.transformed.length or 0
        for row in range(size) if self.left else range(n - size, n):
            other = changed_tokens(pair.transformed, slice(row, row + 1), Generator().manual_seed(run.subject.seed))
            try:
                if not error(transformed[output], run(other)[output]) < RIGHT:
                    return f"it reads row {row}, which is padding here"
            except Crashed:
                return ""
        return "it depends on where the padding is"

    def pair(self, run: Pass, inputs: Inputs, size: int, generator: Generator) -> RunPair:
        n = inputs.length or 0
        original = padded(run.subject, inputs, 0, self.left, generator)
        transformed = padded(run.subject, inputs, size, self.left, generator)
        here = slice(size, None) if self.left else slice(0, n)
        side = "left" if self.left else "right"
        text = f"{size} empty place{'s' * (size > 1)} to the {side} of {n} token{'s' * (n > 1)}"
        return RunPair(original, transformed, SameRows(slice(None), here, (n, n + size), pooled=True), text, {"size": size})


class LeftPadding(_Padding):
    """Empty places in front of a text."""

    name, summary, left = "left-padding", "empty places in front of a text change nothing", True

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        made = super().pairs(run, count, generator)
        if run.high_precision and not run.random and not self.remark:
            self.remark = _forgotten(run, made[0])
        return made


class RightPadding(_Padding):
    """Empty places behind a text."""

    name, summary, left = "right-padding", "empty places behind a text change nothing", False


def _forgotten(run: Pass, pair: RunPair) -> str:
    """What happens to those who pad but forget to say the places."""
    assert isinstance(pair.transformed, Inputs)
    if "position_ids" not in pair.original.values:
        return ""
    sides = [
        replace(i, values={n: v for n, v in i.values.items() if n != "position_ids"}) for i in (pair.original, pair.transformed)
    ]
    if any("position_ids" in i.positional for i in sides):
        return ""
    try:
        off = measure_pair(run, replace(pair, original=sides[0], transformed=sides[1]), run.subject.axes(run)).error
    except Crashed:
        return ""
    return f"without position_ids it does not hold: {off:.1e} with one empty place" if not off < 1e-9 else ""


@dataclass(frozen=True)
class Ragged:
    """Texts of several lengths side by side, padded to the longest; and each alone, without padding."""

    batch: Inputs
    alone: list[Inputs]
    lengths: tuple[int, ...]


def ragged(subject: Subject, one: Inputs, lengths: tuple[int, ...], left: bool, generator: Generator) -> Ragged:
    """Rows that differ in length, tokens and mask; the first is the given sequence. All are padded on one side."""
    longest = max(lengths)
    texts = [one, *(resampled(one, generator) for _ in lengths[1:])]
    parts = [shortened(text, size) if size < (one.length or 0) else text for text, size in zip(texts, lengths, strict=True)]
    rows = [padded(subject, part, longest - size, left, generator) for part, size in zip(parts, lengths, strict=True)]
    alone = [padded(subject, part, 0, left, generator) for part in parts]
    return Ragged(batched(*rows), alone, lengths)


def mask_name(subject: Subject) -> str:
    """The argument that says what is padding; empty where the model has none."""
    taken, kinds = arguments(subject.model), subject.inputs.kinds
    decoded = any(n in DECODED and kinds[n] != "other" for n in kinds)
    masks = DECODER_MASKS if decoded else MASKS  # of an encoder-decoder's own words, or of what its decoder writes
    return next((n for n in masks if n in subject.inputs.values or n in taken), "")


def padded(subject: Subject, inputs: Inputs, size: int, left: bool, generator: Generator) -> Inputs:
    """So many more rows, marked as padding: the model's own id for it, or other words where it names none; places count the words.
    Size 0 gives the mask without padding.

    What a given mask hides counts as words here: at padding a model may say anything.
    """
    if inputs.has("tokens"):
        return inputs.each(lambda t: _tokens(t, size, left, generator), "tokens")
    name = mask_name(subject)
    changed: dict[str, Any] = {}
    for n, value in inputs.of("ids", "features", "flags").items():
        axis = value.ndim - (2 if inputs.kinds[n] == "features" else 1)
        if n == name:
            continue
        changed[n] = _beside(value, size, axis, left, generator, inputs.extra.get("pad") if inputs.kinds[n] == "ids" else None)
    main = next(v for n, v in inputs.of("ids", "features").items())
    lead = main.shape[:-2] if main.is_floating_point() else main.shape[:-1]
    rows = changed[next(iter(inputs.of("ids", "features")))].shape[len(lead)]
    real = torch.ones(*lead, rows - size, dtype=torch.bool, device=main.device)
    real = torch.nn.functional.pad(real, (size, 0) if left else (0, size))
    changed[name] = ~real if name in TORCH else real.long()
    if name == "src_key_padding_mask" and "memory_key_padding_mask" in arguments(subject.model):
        changed["memory_key_padding_mask"] = ~real  # a decoder reads the same text: the mask is its user's to hand on
    positions = "decoder_position_ids" if name in DECODER_MASKS else "position_ids"
    if positions in arguments(subject.model) or positions in inputs.values:
        given = inputs.values.get(positions)
        start = given[..., :1] if isinstance(given, Tensor) else 0
        changed[positions] = (real.long().cumsum(-1) - 1).clamp(min=0) + start
    known = {n: inputs.kinds.get(n, "position_ids" if n == positions else "flags") for n in changed}
    return replace(inputs, values=inputs.values | changed, kinds=inputs.kinds | known)


def _beside(value: Tensor, size: int, axis: int, left: bool, generator: Generator, pad: int | None = None) -> Tensor:
    """Rows of the same kind in front or behind: those of padding, or drawn among those that are there."""
    pick = torch.randint(value.shape[axis], (size,), generator=generator)
    more = value.index_select(axis, pick.to(value.device))
    if pad is not None:
        more = torch.full_like(more, pad)
    return torch.cat([more, value] if left else [value, more], axis)


def _tokens(tokens: Any, size: int, left: bool, generator: Generator) -> Any:
    x = _beside(tokens.x, size, tokens.x.ndim - 2, left, generator)
    lead = tokens.x.shape[:-2]
    n = tokens.x.shape[-2]
    real = tokens.valid if tokens.valid is not None else torch.ones(*lead, n, dtype=torch.bool, device=x.device)
    room = (size, 0) if left else (0, size)
    valid = torch.nn.functional.pad(real.expand(*lead, n), room)
    at = tokens.positions
    at = torch.cat([at[..., :1, :].expand(*at.shape[:-2], size, -1), at] if left
                   else [at, at[..., -1:, :].expand(*at.shape[:-2], size, -1)], -2)  # fmt: skip
    order = torch.cat([tokens.order[..., :1].expand(*tokens.order.shape[:-1], size), tokens.order] if left
                      else [tokens.order, tokens.order[..., -1:].expand(*tokens.order.shape[:-1], size)], -1)  # fmt: skip
    document = None
    if tokens.document is not None:
        edge = tokens.document[..., :1] if left else tokens.document[..., -1:]
        more = edge.expand(*tokens.document.shape[:-1], size)
        document = torch.cat([more, tokens.document] if left else [tokens.document, more], -1)
    return replace(tokens, x=x, positions=at, order=order, document=document, valid=valid, counted=None)
