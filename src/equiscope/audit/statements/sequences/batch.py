"""Batch independence: the output of a sequence does not depend on the other sequences of its batch."""

from collections.abc import Iterator

from torch import Generator

from equiscope.audit.inputs.lengths import cost, largest_batch
from equiscope.audit.inputs.variations import batched, resampled, resampled_flags, reversed_positions, scaled_values, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows
from equiscope.audit.statements.sequences.padding import mask_name, ragged
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import Pass, Subject
from equiscope.symmetry import Inputs

LARGE_BATCH = 67  # sequences in the largest batch: it fills any group of up to 64
OPERATIONS = 2e10  # multiply-adds that it may take


class BatchIndependence(Statement):
    """A sequence alone gives the output that it gives in a batch, whatever the others are."""

    name = "batch"
    summary = "the output of a sequence does not depend on the others in its batch"
    expected = True

    def missing(self, subject: Subject) -> str:
        return "" if subject.inputs.batch is not None else "the inputs have no batch axis"

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        one = sequence(run.inputs, 0)
        two = batched(one, resampled(one, generator))
        batch_axes, n = run.subject.batch_axes(run, one, two), one.length or 0

        def same(row: int, sizes: tuple[int, int]) -> SameRows:
            return SameRows(slice(None), slice(None), (n, n), (0, row), batch_axes, sizes)

        scaled_pair = batched(one, scaled_values(resampled(one, generator)))
        other = resampled(one, generator) if one.has("ids") else one
        other_first = batched(
            resampled_flags(reversed_positions(scaled_values(other, -4.0)), generator), one
        )  # of opposite sign, which exposes a dependence on row 0
        shared = {n: v for n, v in one.values.items() if two.values[n] is v}  # arguments without a batch axis
        other_first = other_first.with_values(shared)
        pairs = [
            RunPair(two, scaled_pair, same(0, (2, 2)), "change the second sequence of two", {"changed": 1}),
            RunPair(one, two, same(0, (1, 2)), "add a second sequence after the first", {"added": 1}),
            RunPair(one, other_first, same(1, (1, 2)), "add another sequence before the first", {"added": 1}),
        ]
        for _ in range(max(count - len(pairs), 0) // 2):
            other_pair = batched(resampled(one, generator), one).with_values(shared)
            pairs.append(RunPair(one, other_pair, same(1, (1, 2)), "add another sequence before the first", {"added": 1}))
        pairs = self._ragged(run, one, generator) + pairs[:count]
        if run.high_precision and not run.random:  # some interact only in large batches
            max_batch = min(LARGE_BATCH if count > 4 else LARGE_BATCH // 4, int(OPERATIONS / cost(run.subject.model, 1, max(n, 1))))
            batch_size = largest_batch(run, max_batch, n) if max_batch > 3 else 1
            if batch_size > 3:
                others, row = [resampled(one, generator) for _ in range(batch_size - 1)], batch_size // 2 + 1
                many_batch = batched(*others[:row], one, *others[row:]).with_values(shared)
                text = f"add {batch_size - 1} other sequences after the first"
                pairs.append(RunPair(one, many_batch, same(row, (1, batch_size)), text, {"added": batch_size - 1}))
        if (size := run.inputs.batch or 0) > 1 and run.high_precision and not run.random:
            for row in dict.fromkeys((size - 1, size // 2)):
                text, single = f"run the sequence {row} of {size} alone", sequence(run.inputs, row)
                pairs.append(RunPair(single, run.inputs, same(row, (1, size)), text, {"alone": row}))
        return pairs

    def _ragged(self, run: Pass, one: Inputs, generator: Generator) -> list[RunPair]:
        """Sequences that differ in length, side of the padding, mask and flags, each in the batch and alone."""
        n = one.length or 0
        if n < 3 or not (one.has("tokens") or (one.has("ids", "features") and mask_name(run.subject))) or one.has("pairs"):
            return []
        right = ragged(run.subject, one, (n, n // 2 + 1), False, generator).batch
        left = ragged(run.subject, one, (n, n - 1), True, generator).batch
        rows = [resampled_flags(sequence(side, row), generator) for side, row in ((right, 0), (right, 1), (left, 1))]
        batch = batched(*rows)
        batch_axes = run.subject.batch_axes(run, rows[0], batch)
        pairs = []
        for row, single in enumerate(rows):
            relation = SameRows(slice(None), slice(None), (n, n), (0, row), batch_axes, (1, len(rows)))
            text = f"run sequence {row} of {len(rows)}, each with its own mask, alone"
            pairs.append(RunPair(single, batch, relation, text, {"alone": row}))
        return pairs

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        return iter(())
