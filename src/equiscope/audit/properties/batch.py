"""Batch independence: what a sequence gets does not depend on what else is computed beside it."""

from collections.abc import Iterator

from torch import Generator

from equiscope.audit.examples import batched, louder, sequence, varied
from equiscope.audit.pairs import Pair, Rows
from equiscope.audit.statement import Statement
from equiscope.audit.subject import Pass, Subject


class Batch(Statement):
    """Row 0 alone equals row 0 beside others, and does not change when they do."""

    name = "batch"
    summary = "what a sequence gets does not depend on its neighbours in the batch"
    expected = True

    def missing(self, subject: Subject) -> str:
        return "" if subject.inputs.batch is not None else "the inputs have no axis of sequences side by side"

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[Pair]:
        one = sequence(run.inputs, 0)
        made = []
        n = one.length or 0
        for i in range(max(count // 2, 1)):
            beside = batched(one, varied(one, generator))
            again = batched(one, louder(varied(one, generator)) if i == 0 else varied(one, generator))
            same = Rows(slice(None), slice(None), (n, n), (0, 0))
            made.append(Pair(beside, again, same, "change the second sequence of two", {"changed": 1}))
            if i == 0:
                made.append(Pair(one, beside, same, "put a second sequence beside the first", {"added": 1}))
                made.append(Pair(one, batched(varied(one, generator), one), Rows(slice(None), slice(None), (n, n), (0, 1)),
                                 "put another sequence in front of the first", {"added": 1}))  # fmt: skip
        return made[:count]

    def simpler(self, run: Pass, pair: Pair) -> Iterator[Pair]:
        return iter(())
