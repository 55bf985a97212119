"""Causality: the output at a token depends on it and on what came before, on nothing later.

Two tests, since either alone is passed by models that read the future: change what comes later, and leave it out. A clock that
follows the current length sees how much is to come although it sees no word of it.

Every position of the given input is tried, several in one batch. And the text is read at other lengths (`lengths.py`): what a
longer text says of its beginning is what the beginning alone says.
"""

import math
from collections.abc import Iterator

from torch import Generator, Tensor

from equiscope.audit.inputs.adapt import DECODED
from equiscope.audit.inputs.lengths import LENGTH_BUDGETS, LengthBudget, cost, largest_batch, length_ladder, positions, resized
from equiscope.audit.inputs.variations import batched, changed_tokens, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows, error, measure_pair
from equiscope.audit.statements.sequences.padding import mask_name, ragged
from equiscope.audit.statements.statement import Screening, Statement
from equiscope.audit.subject import Crashed, Pass, Subject, shortened
from equiscope.audit.subject.outputs import differing
from equiscope.record import Coverage
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs

SINGLE = 64  # positions that are tried one by one where the model takes no batches
TOLD = 3  # pairs of what looked wrong that are measured on their own


class CausalOutput(Statement):
    """Outputs before token j do not change with token j and those after it, nor when they are not there."""

    name = "causal"
    summary = "the output at a token does not depend on later ones"
    of_decoder = True

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features", "steps"):
            return "there are no tokens in an order"
        return "" if (subject.inputs.length or 0) > 1 else "there is one token only"

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        return says_causal(subject)

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        some = _spread(n, max(count // 4, 1))  # all are screened where they can stand side by side
        changed = [later(run.inputs, j, generator) for j in some]
        return changed + [without(run.inputs, j) for j in some] + (self._ragged(run, generator) if run.high_precision else [])

    def _ragged(self, run: Pass, generator: Generator) -> list[RunPair]:
        """Later words of two texts of unlike lengths, the shorter of which ends in padding."""
        n, inputs = run.inputs.length or 0, run.inputs
        padded = inputs.has("tokens") or bool(mask_name(run.subject))
        if n < 5 or inputs.batch is None or inputs.has("pairs", "steps") or not padded:
            return []
        base = ragged(run.subject, sequence(inputs, 0), (n, n // 2 + 1), False, generator).batch
        return [later(base, n // 4 + 1, generator)]

    def screen(self, run: Pass, effort: str) -> Screening:
        budget = LENGTH_BUDGETS[effort]
        found = Screening(coverage=Coverage())
        own = _positions(
            run, run.inputs, budget.operations / (4 if run.random else 2), budget, budget.positions if run.random else None
        )
        _take(found, run, run.inputs, own)
        lengths, refused, longest = _lengths(run, budget, found)
        tried = [n for n in lengths if n != run.inputs.length]
        n = run.inputs.length or 0
        longer = [m for m in tried if n < m <= (longest.length or 0)] if longest is not None else []
        roomy = [m for m in longer if largest_batch(run, 4, m) > 3] or [m for m in longer if largest_batch(run, 2, m) > 1]
        if longest is not None and roomy:
            longest = shortened(longest, max(roomy)) if max(roomy) < (longest.length or 0) else longest
            _take(
                found,
                run,
                longest,
                _positions(run, longest, budget.operations / 4, budget, budget.positions // (4 if run.random else 1)),
            )
        found.coverage = Coverage(positions=len(own), of=(run.inputs.length or 1) - 1, lengths=sorted(tried), refused=refused)
        return found

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        generator = Generator().manual_seed(run.subject.seed)
        longer = (pair.original.length or 0) > (run.inputs.length or 0)
        for length in (
            sorted(c for c in run.subject.length_ladder.boundaries if 1 < c <= (pair.original.length or 0)) if longer else ()
        ):
            fewer = shortened(pair.original, length)
            yield later(fewer, length - 1, generator, 1)
        for length in (2, 3):
            if (run.inputs.length or 0) > length:
                fewer = shortened(run.inputs, length)
                for j in range(1, length):
                    yield later(fewer, j, generator, 1)
                yield without(fewer, length - 1)
        for length in sorted(run.subject.length_ladder.lengths) if longer else ():
            if length < (pair.original.length or 0):
                fewer = shortened(pair.original, length)
                yield later(fewer, length - 1, generator, 1)
                yield without(fewer, length - 1)
        n = run.inputs.length or 0
        yield from (later(run.inputs, j, generator, 1) for j in range(1, n))


def _take(found: Screening, run: Pass, inputs: Inputs, errors: dict[int, float]) -> None:
    """Errors by position into what was found; the worst ones as pairs of their own."""
    found.errors += errors.values()
    wrong = sorted(
        (j for j, e in errors.items() if not e < _border(run)), key=lambda j: -errors[j] if errors[j] == errors[j] else -9e9
    )
    generator = Generator().manual_seed(run.subject.seed + 19)
    found.suspects += [later(inputs, j, generator) for j in wrong[:TOLD]]


def _border(run: Pass) -> float:
    return 1e-10 if run.high_precision else 1e-3


def _positions(run: Pass, inputs: Inputs, work: float, budget: LengthBudget, enough: int | None = None) -> dict[int, float]:
    """Position j -> how much outputs before it change with the tokens from j on: all positions, where the work allows it.

    enough  positions for which more than one call is made
    """
    n = inputs.length or 0
    most = int(work / cost(run.subject.model, inputs.batch or 1, n))
    if enough is not None:
        beside = largest_batch(run, budget.sequences // (inputs.batch or 1), n) - 1
        most = min(most, max(enough, beside))
    ends = _borders(run)
    places = positions(n, ends, max(most, 8))
    base = inputs
    if (inputs.batch or 0) > 2:
        base = batched(sequence(inputs, 0), sequence(inputs, (inputs.batch or 1) - 1))
    generator, axes, found = Generator().manual_seed(run.subject.seed + 19), run.subject.axes(run), dict[int, float]()
    if base.batch is not None:
        try:
            found = _together(run, base, places, budget)
        except Crashed:  # one size of a batch only
            found = {}
        worst = max(found, key=lambda j: math.inf if found[j] != found[j] else found[j], default=0)
        if found and (
            found[worst] < _border(run) or not measure_pair(run, later(inputs, worst, generator), axes).error < _border(run)
        ):
            return found
    found = {}  # alone it is not there: sequences of a batch meet, so they are read one after another
    for j in positions(n, ends, min(SINGLE, max(most, 8))):
        found[j] = measure_pair(run, later(inputs, j, generator), axes).error
    return found


def _borders(run: Pass) -> list[int]:
    return (
        length_ladder(run.subject, run, LENGTH_BUDGETS["quick"]).boundaries
        if run.subject.length_ladder is None
        else run.subject.length_ladder.boundaries
    )


def _together(run: Pass, base: Inputs, places: list[int], budget: LengthBudget) -> dict[int, float]:
    """Several positions in one call: the text as it is, and beside it texts whose later tokens are others."""
    n, size, axes = base.length or 0, base.batch or 1, run.subject.axes(run)
    original = run(base)
    room = max(largest_batch(run, budget.sequences // size, n) - 1, 1)
    generator, found = Generator().manual_seed(run.subject.seed + 19), dict[int, float]()
    for start in range(0, len(places), room):
        some = places[start : start + room]
        groups = [changed_tokens(base, slice(j, n), generator) for j in some]
        made = run(batched(base, *groups))
        for number, j in enumerate(some, 1):
            errors = [
                e
                for name, t in original.items()
                if (e := _before(t, made.get(name), axes.get(name, ()), size, number, len(some) + 1, j)) is not None
            ]
            found[j] = max(errors, default=0.0, key=lambda e: float("inf") if e != e else e)
        del made
    return found


def _before(
    original: Tensor, made: Tensor | None, axes: tuple[int, ...], size: int, number: int, count: int, j: int
) -> float | None:
    """The error of one group of a batch beside the first group, before position j; None where the output has no such axes."""
    if made is None or not axes:
        return None
    across = [i for i in differing(original, made, (size, size * count)) if i not in axes]
    if not across:
        return None
    wanted, other = made.narrow(across[0], 0, size), made.narrow(across[0], number * size, size)
    for axis in axes:
        wanted, other = wanted.narrow(axis, 0, j), other.narrow(axis, 0, j)
    return error(wanted, other)


def _lengths(run: Pass, budget: LengthBudget, found: Screening) -> tuple[list[int], str, Inputs | None]:
    """Run the first tokens of the longest sequence at every length: their outputs equal those of the longest."""
    subject = run.subject
    if subject.length_ladder is None:
        subject.length_ladder = length_ladder(subject, run, budget)
    lengths = subject.length_ladder.lengths[:: 5 if run.random else 1]
    n, axes = run.inputs.length or 0, subject.axes(run)
    longest, whole, refused = run.inputs, run(run.inputs), ""
    for length in sorted((m for m in lengths if m > n), reverse=True):
        text = resized(run.inputs, length, Generator().manual_seed(subject.seed + 23))
        if text is None:
            refused = "these inputs cannot be made longer"
            break
        try:
            whole = run(text)
            longest = text
            break
        except Crashed as crash:
            refused = f"{length} tokens are not taken: {crash}"
    tried = [longest.length or 0]
    for length in (m for m in [*lengths, n] if m < (longest.length or 0)):
        part = shortened(longest, length)
        try:
            made = run.outputs_of(part.call)
        except Crashed:
            continue
        tried.append(length)
        pair = RunPair(
            longest, part, SameRows(slice(0, length), slice(0, length), (longest.length or 0, length)), *_read(longest, length)
        )
        sides = [
            s for name, t in whole.items() if name in made and (s := pair.relation.output(name, t, made[name], axes.get(name, ())))
        ]
        off = max((error(*s) for s in sides), default=0.0, key=lambda e: float("inf") if e != e else e)
        found.errors.append(off)
        if not off < _border(run):
            found.suspects.append(pair)
    found.suspects = found.suspects[: 2 * TOLD]
    return sorted(set(tried)), refused, longest


def _read(inputs: Inputs, length: int) -> tuple[str, dict[str, int]]:
    return f"read the first {length} of {inputs.length} tokens only", {"read": length, "of": inputs.length or 0}


def later(inputs: Inputs, j: int, generator: Generator, count: int | None = None) -> RunPair:
    """Change token j and those after it, or `count` of them."""
    n = inputs.length or 0
    end = n if count is None else j + count
    text = f"change the tokens {j} to {n - 1} of {n}" if end - j > 1 else f"change the token {j} of {n}"
    transformed = changed_tokens(inputs, slice(j, end), generator)
    return RunPair(
        inputs,
        transformed,
        SameRows(slice(0, j), slice(0, j), (n, n)),
        f"{text}, and look at those before it",
        {"changed": j, "to": end},
    )


def without(inputs: Inputs, j: int) -> RunPair:
    """Leave token j out and those after it."""
    n = inputs.length or 0
    relation = SameRows(slice(0, j), slice(0, j), (n, j))
    return RunPair(inputs, shortened(inputs, j), relation, *_read(inputs, j))


def _spread(n: int, count: int) -> list[int]:
    """Places 1 .. n - 1: all, or so many with the last; one alone in the middle, where no border of a chunk hides it."""
    if n - 1 <= count:
        return list(range(1, n))
    if count == 1:
        return [n // 2 + 1]
    return sorted({round(1 + i * (n - 2) / max(count - 1, 1)) for i in range(count)})


BOTH_WAYS = ("XLMWithLMHeadModel", "XLNetLMHeadModel")  # read as their other arguments say


def says_causal(subject: Subject) -> tuple[Claimed, str]:
    """Whether the model itself says so: our spec, or its configuration."""
    model = subject.model
    if (spec := getattr(model, "spec", None)) is not None and hasattr(spec, "blocks"):
        causal = all(block.attention.joint_mask.is_causal for block in spec.blocks)
        if not causal:
            return "no", "its attention sees all tokens"
        if getattr(spec, "readout", "each") in ("each", "last"):
            return "yes", "every layer has a causal mask"
        return "unknown", ""
    name, config = type(model).__name__, getattr(model, "config", None)
    if config is None:
        return "unknown", ""
    if getattr(config, "is_encoder_decoder", False) and any(subject.inputs.kinds.get(n) in ("ids", "features") for n in DECODED):
        return "yes", f"the decoder of {name} writes token after token"
    if getattr(config, "is_encoder_decoder", False) or name in BOTH_WAYS:
        return "unknown", ""
    if "ForCausalLM" in name or name.endswith("LMHeadModel") or getattr(config, "is_decoder", False):
        return "yes", f"{name} writes token after token"
    if any(end in name for end in ("ForMaskedLM", "ForSequenceClassification", "BertModel", "ViT")):
        return "no", f"{name} reads all tokens at once"
    return "unknown", ""
