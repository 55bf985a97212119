"""Padding: rows that a mask marks as padding do not change the outputs at the tokens.

Padding on the left moves every token to a later row. A model that takes the row number as the position then computes other outputs,
unless it gets the positions. A model that takes `position_ids` gets those that count tokens only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.audit.diagnose.localize import EXACT
from equiscope.audit.inputs.adapt import DECODED
from equiscope.audit.inputs.variations import batched, changed_tokens, resampled, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows, error, measure_pair
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import ModelError, Pass, Subject, arguments, shortened
from equiscope.errors import counted
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import LENGTHS, InputKind

MASKS = ("attention_mask", "src_key_padding_mask", "key_padding_mask", "padding_mask")
DECODER_MASKS = ("decoder_attention_mask", "tgt_key_padding_mask")
TRUE_IS_PADDING = ("tgt_key_padding_mask", "src_key_padding_mask", "key_padding_mask")  # True is padding


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
            return "the inputs have a mask for this length"
        if not (name := mask_name(subject)):
            return "the model takes no padding mask"
        if self.left and not pads_left(subject):
            lengths = next(iter(inputs.of("lengths")), name)
            return f"{lengths} counts the first tokens of each sequence, so padding cannot come before them"
        return ""

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        pairs = [self.pair(run, run.inputs, size, generator) for size in [1, 2, max(n // 2, 3), n][: max(count // 2, 1)]]
        return [*pairs[:1], *self._ragged(run, generator), *pairs[1:]]

    def _ragged(self, run: Pass, generator: Generator) -> list[RunPair]:
        """Sequences of several lengths in one batch: each gives the output that it gives alone."""
        n = run.inputs.length or 0
        if run.inputs.batch is None or n < 3:
            return []
        single = sequence(run.inputs, 0)
        ragged_batch = ragged(run.subject, single, (n, n // 2 + 1, 2), self.left, generator)
        batch_axes = run.subject.batch_axes(run, ragged_batch.singles[0], ragged_batch.batch)
        pairs = []
        for index, (alone, size) in enumerate(zip(ragged_batch.singles, ragged_batch.lengths, strict=True)):
            token_rows = slice(n - size, None) if self.left else slice(0, size)
            text = f"a sequence of {size} tokens beside longer ones, padded on the {'left' if self.left else 'right'} to {n}"
            relation = SameRows(
                slice(None), token_rows, (size, n), (0, index), batch_axes, (1, len(ragged_batch.lengths)), pooled=True
            )
            pairs.append(RunPair(alone, ragged_batch.batch, relation, text, {"size": n - size, "row": index}))
        return pairs[1:]  # the first sequence has no padding

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        generator = Generator().manual_seed(run.subject.seed)
        for length in (1, 2, 3):
            if (run.inputs.length or 0) > length:
                yield self.pair(run, shortened(run.inputs, length), 1, generator)
        yield self.pair(run, run.inputs, 1, generator)

    def explain_secondary(self, run: Pass, pair: RunPair, output: str) -> str:
        """Whether a pooled output reads a position that is padding: then it changes with the values there."""
        if not isinstance(pair.transformed, Inputs):
            return ""
        size, transformed = int(pair.element["size"]), run(pair.transformed)
        n = pair.transformed.length or 0
        for position in range(size) if self.left else range(n - size, n):
            other = changed_tokens(pair.transformed, slice(position, position + 1), Generator().manual_seed(run.subject.seed))
            try:
                if not error(transformed[output], run(other)[output]) < EXACT:
                    return f"it reads position {position}, which is padding"
            except ModelError:
                return ""
        return "it depends on the amount or the place of the padding, and on no single value there"

    def pair(self, run: Pass, inputs: Inputs, size: int, generator: Generator) -> RunPair:
        n = inputs.length or 0
        original = padded(run.subject, inputs, 0, self.left, generator)
        transformed = padded(run.subject, inputs, size, self.left, generator)
        token_rows = slice(size, None) if self.left else slice(0, n)
        side = "left" if self.left else "right"
        text = f"{counted(size, 'row')} of padding to the {side} of {counted(n, 'token')}"
        return RunPair(original, transformed, SameRows(slice(None), token_rows, (n, n + size), pooled=True), text, {"size": size})


class LeftPadding(_Padding):
    """Padding before the tokens."""

    name, summary, left = "left-padding", "padding before the tokens does not change their outputs", True

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        pairs = super().pairs(run, count, generator)
        if run.high_precision and not run.random and not self.remark:
            self.remark = _without_positions(run, pairs[0])
        return pairs


class RightPadding(_Padding):
    """Padding after the tokens."""

    name, summary, left = "right-padding", "padding after the tokens does not change their outputs", False


def _without_positions(run: Pass, pair: RunPair) -> str:
    """A remark on padding without `position_ids`."""
    assert isinstance(pair.transformed, Inputs)
    if "position_ids" not in pair.original.values:
        return ""
    sides = [
        replace(i, values={n: v for n, v in i.values.items() if n != "position_ids"}) for i in (pair.original, pair.transformed)
    ]
    if any("position_ids" in i.positional for i in sides):
        return ""
    try:
        max_error = measure_pair(run, replace(pair, original=sides[0], transformed=sides[1]), run.subject.axes(run)).error
    except ModelError:
        return ""
    return f"without position_ids it does not hold: {max_error:.1e} with one row of padding" if not max_error < 1e-9 else ""


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


def mask_name(subject: Subject) -> str:
    """The name of the padding mask among the arguments, or of the lengths; empty where the model takes neither."""
    names, kinds = arguments(subject.model), subject.inputs.kinds
    decoded = any(n in DECODED and kinds[n] != "other" for n in kinds)
    if decoded:
        return next((n for n in DECODER_MASKS if n in kinds or n in names), "")
    lengths = () if subject.inputs.batch is None else (*subject.inputs.of("lengths"), *LENGTHS)
    found = next((n for n in MASKS if n in kinds or n in names), "")
    return found or next((n for n in lengths if n in names and kinds.get(n, "lengths") == "lengths"), "")


def pads_left(subject: Subject) -> bool:
    """Whether padding before the tokens can be marked: lengths count the first rows of a sequence."""
    return not subject.inputs.has("lengths") and mask_name(subject) not in LENGTHS


def padded(subject: Subject, inputs: Inputs, size: int, left: bool, generator: Generator) -> Inputs:
    """The inputs with `size` more rows, marked as padding: the model's padding id, or other tokens where it has none.

    Positions count the tokens only. Size 0 gives the mask without padding. A padding mask among the inputs is replaced: every
    given row counts as a token, or else the outputs at its padding, which are arbitrary, would be compared.
    """
    if inputs.has("tokens"):
        return inputs.each(lambda t: _tokens(t, size, left, generator), "tokens")
    name = mask_name(subject)
    changed: dict[str, Any] = {}
    for n, value in inputs.of("ids", "features", "flags").items():
        axis = value.ndim - (2 if inputs.kinds[n] == "features" else 1)
        if n == name:
            continue
        changed[n] = _with_padding_rows(
            value, size, axis, left, generator, inputs.extra.get("pad") if inputs.kinds[n] == "ids" else None
        )
    main = next(v for n, v in inputs.of("ids", "features").items())
    lead = main.shape[:-2] if main.is_floating_point() else main.shape[:-1]
    rows = changed[next(iter(inputs.of("ids", "features")))].shape[len(lead)]
    is_token = torch.ones(*lead, rows - size, dtype=torch.bool, device=main.device)
    is_token = torch.nn.functional.pad(is_token, (size, 0) if left else (0, size))
    lengths = dict.fromkeys([*inputs.of("lengths"), *([name] if name in LENGTHS else [])])
    if name not in lengths:
        changed[name] = ~is_token if name in TRUE_IS_PADDING else is_token.long()
    count = is_token.sum(-1)
    changed |= {n: count.to(inputs.values[n]) if isinstance(inputs.values.get(n), Tensor) else count for n in lengths}
    if name == "src_key_padding_mask" and "memory_key_padding_mask" in arguments(subject.model):
        changed["memory_key_padding_mask"] = ~is_token  # the decoder attends to the same sequence
    positions = "decoder_position_ids" if name in DECODER_MASKS else "position_ids"
    if positions in arguments(subject.model) or positions in inputs.values:
        original = inputs.values.get(positions)
        start = original[..., :1] if isinstance(original, Tensor) else 0
        changed[positions] = (is_token.long().cumsum(-1) - 1).clamp(min=0) + start
    new: dict[str, InputKind] = {n: "position_ids" if n == positions else "lengths" if n in lengths else "flags" for n in changed}
    return replace(inputs, values=inputs.values | changed, kinds=new | inputs.kinds)


def _with_padding_rows(value: Tensor, size: int, axis: int, left: bool, generator: Generator, pad: int | None = None) -> Tensor:
    """The value with `size` more rows on one side: the padding id, or copies of rows drawn at random."""
    pick = torch.randint(value.shape[axis], (size,), generator=generator)
    padding = value.index_select(axis, pick.to(value.device))
    if pad is not None:
        padding = torch.full_like(padding, pad)
    return torch.cat([padding, value] if left else [value, padding], axis)


def _tokens(tokens: Any, size: int, left: bool, generator: Generator) -> Any:
    x = _with_padding_rows(tokens.x, size, tokens.x.ndim - 2, left, generator)
    lead = tokens.x.shape[:-2]
    n = tokens.x.shape[-2]
    is_token = tokens.valid if tokens.valid is not None else torch.ones(*lead, n, dtype=torch.bool, device=x.device)
    sides = (size, 0) if left else (0, size)
    valid = torch.nn.functional.pad(is_token.expand(*lead, n), sides)
    at = tokens.positions
    at = torch.cat([at[..., :1, :].expand(*at.shape[:-2], size, -1), at] if left
                   else [at, at[..., -1:, :].expand(*at.shape[:-2], size, -1)], -2)  # fmt: skip
    order = torch.cat([tokens.order[..., :1].expand(*tokens.order.shape[:-1], size), tokens.order] if left
                      else [tokens.order, tokens.order[..., -1:].expand(*tokens.order.shape[:-1], size)], -1)  # fmt: skip
    document = None
    if tokens.document is not None:
        edge = tokens.document[..., :1] if left else tokens.document[..., -1:]
        padding = edge.expand(*tokens.document.shape[:-1], size)
        document = torch.cat([padding, tokens.document] if left else [tokens.document, padding], -1)
    return replace(tokens, x=x, positions=at, order=order, document=document, valid=valid, counted=None)
