"""Padding: rows that a mask marks as padding do not change the outputs at the tokens.

Padding on the left moves every token to a later row. A model that takes the row number as the position then computes other outputs,
unless it gets the positions. A model that takes `position_ids` gets those that count tokens only.
"""

from collections.abc import Iterator
from dataclasses import replace

from torch import Generator

from equiscope.audit.diagnose.localize import EXACT
from equiscope.audit.inputs.padded import padded, ragged
from equiscope.audit.inputs.padding_mask import mask_name, pads_left
from equiscope.audit.inputs.variations import changed_tokens, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows, error, measure_pair
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import ModelError, Pass, Subject, shortened
from equiscope.errors import counted
from equiscope.symmetry import Inputs


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
        if inputs.has("adjacency"):
            return "the inputs have an adjacency for this length"
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
