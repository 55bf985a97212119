"""Batch independence: what a sequence gets does not depend on what else is computed beside it."""

from collections.abc import Iterator

from torch import Generator

from equiscope.audit.examples import batched, flagged, louder, sequence, varied
from equiscope.audit.pairs import Pair, Rows
from equiscope.audit.properties.padding import mask_name, ragged
from equiscope.audit.statement import Statement
from equiscope.audit.subject import Pass, Subject
from equiscope.symmetry import Inputs


class Batch(Statement):
    """A row alone equals that row beside others, and does not change when they do."""

    name = "batch"
    summary = "what a sequence gets does not depend on its neighbours in the batch"
    expected = True

    def missing(self, subject: Subject) -> str:
        return "" if subject.inputs.batch is not None else "the inputs have no axis of sequences side by side"

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[Pair]:
        one = sequence(run.inputs, 0)
        beside = batched(one, varied(one, generator))
        across, n = run.subject.batch_axes(run, one, beside), one.length or 0

        def same(row: int, sizes: tuple[int, int]) -> Rows:
            return Rows(slice(None), slice(None), (n, n), (0, row), across, sizes)

        louder_one, in_front = batched(one, louder(varied(one, generator))), batched(varied(one, generator), one)
        in_front = in_front.with_values({n: v for n, v in one.values.items() if beside.values[n] is v})  # of no sequence's own
        made = [
            Pair(beside, louder_one, same(0, (2, 2)), "change the second sequence of two", {"changed": 1}),
            Pair(one, beside, same(0, (1, 2)), "put a second sequence beside the first", {"added": 1}),
            Pair(one, in_front, same(1, (1, 2)), "put another sequence in front of the first", {"added": 1}),
        ]
        for _ in range(max(count - len(made), 0) // 2):
            again = batched(one, varied(one, generator))
            made.append(Pair(beside, again, same(0, (2, 2)), "change the second sequence of two", {"changed": 1}))
        made = self._ragged(run, one, generator) + made[:count]
        if (size := run.inputs.batch or 0) > 2 and run.wide and not run.random:  # some are unlike only among many
            for row in (size - 1, size // 2):
                text, alone = f"read the sequence {row} of {size} alone", sequence(run.inputs, row)
                made.append(Pair(alone, run.inputs, same(row, (1, size)), text, {"alone": row}))
        return made

    def _ragged(self, run: Pass, one: Inputs, generator: Generator) -> list[Pair]:
        """Rows that differ in length, side of the padding, mask and flags, each beside others and alone."""
        n = one.length or 0
        if n < 3 or not (one.has("tokens") or (one.has("ids", "features") and mask_name(run.subject))) or one.has("pairs"):
            return []
        right = ragged(run.subject, one, (n, n // 2 + 1), False, generator).batch
        left = ragged(run.subject, one, (n, n - 1), True, generator).batch
        rows = [flagged(sequence(side, row), generator) for side, row in ((right, 0), (right, 1), (left, 1))]
        batch = batched(*rows)
        across = run.subject.batch_axes(run, rows[0], batch)
        made = []
        for row, alone in enumerate(rows):
            relation = Rows(slice(None), slice(None), (n, n), (0, row), across, (1, len(rows)))
            text = f"read the sequence {row} of {len(rows)}, each with a mask of its own, alone"
            made.append(Pair(alone, batch, relation, text, {"alone": row}))
        return made

    def simpler(self, run: Pass, pair: Pair) -> Iterator[Pair]:
        return iter(())
