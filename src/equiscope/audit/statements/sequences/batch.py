"""Batch independence: what a sequence gets does not depend on what else is computed beside it."""

from collections.abc import Iterator

from torch import Generator

from equiscope.audit.inputs.lengths import cost, largest_batch
from equiscope.audit.inputs.variations import batched, resampled, resampled_flags, reversed_positions, scaled_values, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows
from equiscope.audit.statements.sequences.padding import mask_name, ragged
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import Pass, Subject
from equiscope.symmetry import Inputs

MANY = 67  # sequences side by side: a group of 64 or fewer is full among them
WORK = 2e10  # multiply-adds that these may take


class BatchIndependence(Statement):
    """A row alone equals that row beside others, and does not change when they do."""

    name = "batch"
    summary = "what a sequence gets does not depend on its neighbours in the batch"
    expected = True

    def missing(self, subject: Subject) -> str:
        return "" if subject.inputs.batch is not None else "the inputs have no axis of sequences side by side"

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        one = sequence(run.inputs, 0)
        beside = batched(one, resampled(one, generator))
        across, n = run.subject.batch_axes(run, one, beside), one.length or 0

        def same(row: int, sizes: tuple[int, int]) -> SameRows:
            return SameRows(slice(None), slice(None), (n, n), (0, row), across, sizes)

        louder_one = batched(one, scaled_values(resampled(one, generator)))
        other = resampled(one, generator) if one.has("ids") else one
        in_front = batched(
            resampled_flags(reversed_positions(scaled_values(other, -4.0)), generator), one
        )  # of other signs: who asks row 0 betrays itself
        shared = {n: v for n, v in one.values.items() if beside.values[n] is v}  # of no sequence's own
        in_front = in_front.with_values(shared)
        made = [
            RunPair(beside, louder_one, same(0, (2, 2)), "change the second sequence of two", {"changed": 1}),
            RunPair(one, beside, same(0, (1, 2)), "put a second sequence beside the first", {"added": 1}),
            RunPair(one, in_front, same(1, (1, 2)), "add another sequence before the first", {"added": 1}),
        ]
        for _ in range(max(count - len(made), 0) // 2):
            again = batched(resampled(one, generator), one).with_values(shared)
            made.append(RunPair(one, again, same(1, (1, 2)), "add another sequence before the first", {"added": 1}))
        made = self._ragged(run, one, generator) + made[:count]
        if run.high_precision and not run.random:  # some meet only where there are many
            most = min(MANY if count > 4 else MANY // 4, int(WORK / cost(run.subject.model, 1, max(n, 1))))
            many = largest_batch(run, most, n) if most > 3 else 1
            if many > 3:
                others, row = [resampled(one, generator) for _ in range(many - 1)], many // 2 + 1
                crowd = batched(*others[:row], one, *others[row:]).with_values(shared)
                text = f"add {many - 1} other sequences after the first"
                made.append(RunPair(one, crowd, same(row, (1, many)), text, {"added": many - 1}))
        if (size := run.inputs.batch or 0) > 1 and run.high_precision and not run.random:
            for row in dict.fromkeys((size - 1, size // 2)):
                text, alone = f"read the sequence {row} of {size} alone", sequence(run.inputs, row)
                made.append(RunPair(alone, run.inputs, same(row, (1, size)), text, {"alone": row}))
        return made

    def _ragged(self, run: Pass, one: Inputs, generator: Generator) -> list[RunPair]:
        """Rows that differ in length, side of the padding, mask and flags, each beside others and alone."""
        n = one.length or 0
        if n < 3 or not (one.has("tokens") or (one.has("ids", "features") and mask_name(run.subject))) or one.has("pairs"):
            return []
        right = ragged(run.subject, one, (n, n // 2 + 1), False, generator).batch
        left = ragged(run.subject, one, (n, n - 1), True, generator).batch
        rows = [resampled_flags(sequence(side, row), generator) for side, row in ((right, 0), (right, 1), (left, 1))]
        batch = batched(*rows)
        across = run.subject.batch_axes(run, rows[0], batch)
        made = []
        for row, alone in enumerate(rows):
            relation = SameRows(slice(None), slice(None), (n, n), (0, row), across, (1, len(rows)))
            text = f"run sequence {row} of {len(rows)}, each with its own mask, alone"
            made.append(RunPair(alone, batch, relation, text, {"alone": row}))
        return made

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        return iter(())
