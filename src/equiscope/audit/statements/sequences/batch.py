"""Batch independence: the output of a sequence does not depend on the other sequences of its batch."""

from collections.abc import Iterator

from torch import Generator

from equiscope.audit.inputs.lengths import cost, largest_batch
from equiscope.audit.inputs.padded import ragged
from equiscope.audit.inputs.padding_mask import mask_name, pads_left
from equiscope.audit.inputs.variations import batched, resampled, resampled_flags, reversed_positions, scaled_values, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.audit.subject.outputs import of_size
from equiscope.errors import counted
from equiscope.program.constants import constants
from equiscope.symmetry import Inputs

LARGE_BATCH = 67  # sequences in a batch that fills any group of up to 64
GROUPS = (4, 8)  # sequences in batches that are measured of any model
MAX_GROUPS, LARGEST = 8, 257  # batches of the sizes that the model's own constants suggest, and the largest of these sizes
OPERATIONS = 2e10  # multiply-adds that they may take


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
        try:
            batch_axes, n = run.subject.batch_axes(run, one, two), one.length or 0
        except ModelError:
            if (run.inputs.batch or 0) < 2:
                raise
            return self._of_fixed_size(run, generator)

        def same(row: int, sizes: tuple[int, int]) -> SameRows:
            return SameRows(slice(None), slice(None), (n, n), (0, row), batch_axes, sizes)

        scaled_pair = batched(one, scaled_values(resampled(one, generator)))
        other = resampled(one, generator) if one.has("ids") else one
        other = reversed_positions(scaled_values(other, -4.0))  # of opposite sign, which exposes a dependence on row 0
        other_first = batched(_other_flags(run, other, generator), one)
        shared = {n: v for n, v in one.values.items() if two.values[n] is v}  # arguments without a batch axis
        other_first = other_first.with_values(shared)
        pairs = [
            RunPair(two, scaled_pair, same(0, (2, 2)), "change the second sequence of two", {"changed": 1}),
            RunPair(one, two, same(0, (1, 2)), "add a second sequence after the first", {"added": 1}),
            RunPair(one, other_first, same(1, (1, 2)), "add another sequence before the first", {"added": 1}),
        ]
        for number in range(max(count - len(pairs), 0) // 2):
            other = resampled(one, generator)
            other_pair = batched(other if number else _other_flags(run, other, generator, 1), one).with_values(shared)
            pairs.append(RunPair(one, other_pair, same(1, (1, 2)), "add another sequence before the first", {"added": 1}))
        pairs = self._ragged(run, one, generator) + pairs[:count]
        if run.high_precision and not run.random:  # some interact only in batches of some sizes
            sizes = self._sizes(run, one, OPERATIONS if count > 4 else OPERATIONS / 8)
            pairs += [_among(run, one, size, batch_axes, generator) for size in sizes]
        if (size := run.inputs.batch or 0) > 1 and run.high_precision and not run.random:
            for row in dict.fromkeys((size - 1, size // 2)):
                text, single = f"run the sequence {row} of {size} alone", sequence(run.inputs, row)
                pairs.append(RunPair(single, run.inputs, same(row, (1, size)), text, {"alone": row}))
        return pairs

    def _sizes(self, run: Pass, one: Inputs, operations: float) -> list[int]:
        """Sizes of the larger batches: a few, those that the model's own constants suggest, and their successors."""
        n, spent = one.length or 0, 0.0
        named = sorted(c for c in constants(run.subject.model)[0] if 2 < c < LARGEST)
        candidates = [LARGE_BATCH, *GROUPS, *(size for c in named for size in (c, c + 1)), LARGE_BATCH // 4]
        sizes = list[int]()
        for size in dict.fromkeys(candidates):
            spent_then = spent + cost(run.subject.model, size, max(n, 1))
            if spent_then > operations or len(sizes) > MAX_GROUPS or largest_batch(run, size, n) < size:
                continue
            sizes, spent = [*sizes, size], spent_then
        return sizes

    def _of_fixed_size(self, run: Pass, generator: Generator) -> list[RunPair]:
        """Other sequences around one in a batch of the given size, for a model that takes no other."""
        size, n = run.inputs.batch or 0, run.inputs.length or 0
        axes = {name: of_size(t, size) for name, t in run(run.inputs).items()}
        batch_axes = {name: found[0] for name, found in axes.items() if found}
        pairs = []
        for row in dict.fromkeys((0, size - 1, size // 2)):
            others = [scaled_values(resampled(sequence(run.inputs, r), generator), -4.0) for r in range(size)]
            own = sequence(run.inputs, row)
            for place in dict.fromkeys((row, (row + 1) % size)):
                rows = [own if r == place else resampled_flags(other, generator) for r, other in enumerate(others)]
                relation = SameRows(slice(None), slice(None), (n, n), (row, place), batch_axes, (size, size))
                text = f"change all sequences of {size} but one, which moves from row {row} to row {place}"
                pairs.append(RunPair(run.inputs, batched(*rows), relation, text, {"row": place}))
        return pairs

    def _ragged(self, run: Pass, one: Inputs, generator: Generator) -> list[RunPair]:
        """Sequences that differ in length, side of the padding, mask and flags, each in the batch and alone."""
        n = one.length or 0
        if (
            n < 3
            or not (one.has("tokens") or (one.has("ids", "features") and mask_name(run.subject)))
            or one.has("pairs", "adjacency")
        ):
            return []
        right = ragged(run.subject, one, (n, n // 2 + 1), False, generator).batch
        sides = [(right, 0), (right, 1)]
        if pads_left(run.subject):
            sides.append((ragged(run.subject, one, (n, n - 1), True, generator).batch, 1))
        rows = [_other_flags(run, sequence(side, row), generator) for side, row in sides]
        batch = batched(*rows)
        try:
            batch_axes = run.subject.batch_axes(run, rows[0], batch)
        except ModelError:  # a mask of another form
            return []
        pairs = []
        for row, single in enumerate(rows):
            relation = SameRows(slice(None), slice(None), (n, n), (0, row), batch_axes, (1, len(rows)))
            text = f"run sequence {row} of {len(rows)}, each with its own mask, alone"
            pairs.append(RunPair(single, batch, relation, text, {"alone": row}))
        return pairs

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        added, one = int(pair.element.get("added", 0)), pair.original
        if added < 2 or one.batch != 1 or not isinstance(pair.relation, SameRows):
            return
        generator = Generator().manual_seed(run.subject.seed)
        for size in sorted({2, 3, *self._sizes(run, one, OPERATIONS)}):
            if size <= added:
                yield _among(run, one, size, pair.relation.batch_axes or {}, generator)


def _among(run: Pass, one: Inputs, size: int, batch_axes: dict[str, int], generator: Generator) -> RunPair:
    """One sequence alone, and among others in a batch of some size."""
    row, n = min(size // 2 + 1, size - 1), one.length or 0
    others = [resampled(one, generator) for _ in range(size - 1)]
    batch = batched(*others[:row], one, *others[row:])
    relation = SameRows(slice(None), slice(None), (n, n), (0, row), batch_axes, (1, size))
    text = f"put it among {counted(size - 1, 'other')}, in row {row} of a batch of {size}"
    twice = batched(one, one)
    shared = {name: value for name, value in one.values.items() if twice.values[name] is value}  # without a batch axis
    return RunPair(one, batch.with_values(shared), relation, text, {"added": size - 1})


def _other_flags(run: Pass, inputs: Inputs, generator: Generator, beyond: int = -1) -> Inputs:
    """The inputs with other flags: also with values that were not given, if the model takes them."""
    varied = resampled_flags(inputs, generator, beyond)
    try:
        run(varied)
    except ModelError:
        return resampled_flags(inputs, generator)
    return varied
