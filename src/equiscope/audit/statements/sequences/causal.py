"""Causality: the output at a token depends on this token and on earlier ones only.

Two tests are needed, because models that read the future can pass either alone: change the later tokens, and remove them. Positions
that depend on the current length, for example, react to the removal only.

Every position of the given input is tried, several in one batch. The model is also run at other lengths (`lengths.py`): the outputs
at the beginning of a longer input equal those of the beginning alone.
"""

import math
from collections.abc import Iterator

from torch import Generator, Tensor

from equiscope.audit.inputs.adapt import DECODED
from equiscope.audit.inputs.lengths import LENGTH_BUDGETS, LengthBudget, cost, largest_batch, length_ladder, resized
from equiscope.audit.inputs.padded import ragged
from equiscope.audit.inputs.padding_mask import mask_name
from equiscope.audit.inputs.variations import batched, changed_tokens, sequence
from equiscope.audit.statements.pairs import RunPair, SameRows, error, measure_pair
from equiscope.audit.statements.statement import Screening, Statement
from equiscope.audit.subject import ModelError, Pass, Subject, shortened
from equiscope.audit.subject.outputs import differing
from equiscope.program.boundaries import positions
from equiscope.record import Coverage
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs

MAX_SINGLE = 64  # positions that are tried one by one where the model accepts no batches
MAX_SUSPECTS = 3  # violations of the screening that are measured as pairs


class CausalOutput(Statement):
    """Outputs before token j do not change when token j and later ones are changed or removed."""

    name = "causal"
    summary = "the output at a token does not depend on later ones"
    of_decoder = True

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features", "steps"):
            return "the inputs have no ordered tokens"
        return "" if (subject.inputs.length or 0) > 1 else "there is only one token"

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        return claims_causal(subject)

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        group = _spread_positions(n, max(count // 4, 1))  # all are screened where batches are possible
        changed = [change_later(run.inputs, j, generator) for j in group]
        return changed + [remove_later(run.inputs, j) for j in group] + (self._ragged(run, generator) if run.high_precision else [])

    def _ragged(self, run: Pass, generator: Generator) -> list[RunPair]:
        """Later tokens of two sequences of different lengths, the shorter of which ends in padding."""
        n, inputs = run.inputs.length or 0, run.inputs
        padded = inputs.has("tokens") or bool(mask_name(run.subject))
        if n < 5 or inputs.batch is None or inputs.has("pairs", "adjacency", "steps") or not padded:
            return []
        base = ragged(run.subject, sequence(inputs, 0), (n, n // 2 + 1), False, generator).batch
        return [change_later(base, n // 4 + 1, generator)]

    def screen(self, run: Pass, effort: str) -> Screening:
        budget = LENGTH_BUDGETS[effort]
        screening = Screening(coverage=Coverage())
        own_errors = _screen_positions(
            run, run.inputs, budget.operations / (4 if run.random else 2), budget, budget.positions if run.random else None
        )
        _add_screened(screening, run, run.inputs, own_errors)
        lengths, rejected, longest = _lengths(run, budget, screening)
        measured_lengths = [n for n in lengths if n != run.inputs.length]
        n = run.inputs.length or 0
        longer_lengths = [m for m in measured_lengths if n < m <= (longest.length or 0)] if longest is not None else []
        batched_lengths = [m for m in longer_lengths if largest_batch(run, 4, m) > 3]
        batched_lengths = batched_lengths or [m for m in longer_lengths if largest_batch(run, 2, m) > 1]
        if longest is not None and batched_lengths:
            longest = shortened(longest, max(batched_lengths)) if max(batched_lengths) < (longest.length or 0) else longest
            count = budget.positions // (4 if run.random else 1)
            errors = _screen_positions(run, longest, budget.operations / 4, budget, count)
            _add_screened(screening, run, longest, errors)
        screening.coverage = Coverage(
            positions=len(own_errors), of=(run.inputs.length or 1) - 1, lengths=sorted(measured_lengths), refused=rejected
        )
        return screening

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        generator = Generator().manual_seed(run.subject.seed)
        is_longer = (pair.original.length or 0) > (run.inputs.length or 0)
        if is_longer and (first := int(pair.element.get("changed", 0))):
            yield change_later(shortened(pair.original, first + 1), first, generator, 1)
        boundaries = run.subject.length_ladder.boundaries if is_longer else ()
        for length in sorted(c for c in boundaries if 1 < c <= (pair.original.length or 0)):
            fewer = shortened(pair.original, length)
            yield change_later(fewer, length - 1, generator, 1)
        for length in (2, 3):
            if (run.inputs.length or 0) > length:
                fewer = shortened(run.inputs, length)
                for j in range(1, length):
                    yield change_later(fewer, j, generator, 1)
                yield remove_later(fewer, length - 1)
        for length in sorted(run.subject.length_ladder.lengths) if is_longer else ():
            if length < (pair.original.length or 0):
                fewer = shortened(pair.original, length)
                yield change_later(fewer, length - 1, generator, 1)
                yield remove_later(fewer, length - 1)
        n = run.inputs.length or 0
        yield from (change_later(run.inputs, j, generator, 1) for j in range(1, n))


def _add_screened(screening: Screening, run: Pass, inputs: Inputs, errors: dict[int, float]) -> None:
    """Add errors by position to a screening, and the worst ones as pairs."""
    screening.errors += errors.values()
    violations = sorted(
        (j for j, e in errors.items() if not e < _threshold(run)), key=lambda j: -errors[j] if errors[j] == errors[j] else -9e9
    )
    generator = Generator().manual_seed(run.subject.seed + 19)
    screening.suspects += [change_later(inputs, j, generator) for j in violations[:MAX_SUSPECTS]]


def _threshold(run: Pass) -> float:
    return 1e-10 if run.high_precision else 1e-3


def _screen_positions(
    run: Pass, inputs: Inputs, operations: float, budget: LengthBudget, max_positions: int | None = None
) -> dict[int, float]:
    """Position j -> how much outputs before it change with the tokens from j on: all positions, where the budget allows it.

    max_positions  positions for which more than one call is made
    """
    n = inputs.length or 0
    if not any(run.subject.axes(run).values()):
        return {}
    most = int(operations / cost(run.subject.model, inputs.batch or 1, n))
    if max_positions is not None:
        batch_room = largest_batch(run, budget.sequences // (inputs.batch or 1), n) - 1
        most = min(most, max(max_positions, batch_room))
    boundaries = _boundaries(run)
    positions_tried = positions(n, boundaries, max(most, 8))
    base = inputs
    if (inputs.batch or 0) > 2:
        base = batched(sequence(inputs, 0), sequence(inputs, (inputs.batch or 1) - 1))
    generator, axes, errors_at = Generator().manual_seed(run.subject.seed + 19), run.subject.axes(run), dict[int, float]()
    threshold = _threshold(run)
    if base.batch is not None:
        try:
            errors_at = _screen_batched(run, base, positions_tried, budget)
        except ModelError:  # a model with a fixed batch size
            errors_at = {}
        worst = max(errors_at, key=lambda j: math.inf if errors_at[j] != errors_at[j] else errors_at[j], default=0)
        if errors_at and (
            errors_at[worst] < threshold or not measure_pair(run, change_later(inputs, worst, generator), axes).error < threshold
        ):
            return errors_at
    errors_at = {}  # no violation outside the batch: its sequences interact, so positions are tried one by one
    for j in positions(n, boundaries, min(MAX_SINGLE, max(most, 8))):
        errors_at[j] = measure_pair(run, change_later(inputs, j, generator), axes).error
    return errors_at


def _boundaries(run: Pass) -> list[int]:
    return (
        length_ladder(run.subject, run, LENGTH_BUDGETS["quick"]).boundaries
        if run.subject.length_ladder is None
        else run.subject.length_ladder.boundaries
    )


def _screen_batched(run: Pass, base: Inputs, positions_tried: list[int], budget: LengthBudget) -> dict[int, float]:
    """Several positions in one call: a batch of the original and of copies with changed later tokens."""
    n, size, axes = base.length or 0, base.batch or 1, run.subject.axes(run)
    original = run(base)
    room = max(largest_batch(run, budget.sequences // size, n) - 1, 1)
    generator, errors_at = Generator().manual_seed(run.subject.seed + 19), dict[int, float]()
    for start in range(0, len(positions_tried), room):
        group = positions_tried[start : start + room]
        groups = [changed_tokens(base, slice(j, n), generator) for j in group]
        outputs = run(batched(base, *groups))
        for number, j in enumerate(group, 1):
            errors = [
                e
                for name, t in original.items()
                if (e := _prefix_error(t, outputs.get(name), axes.get(name, ()), size, number, len(group) + 1, j)) is not None
            ]
            if not errors:  # no output has an axis of sequences
                return {}
            errors_at[j] = max(errors, key=lambda e: float("inf") if e != e else e)
        del outputs
    return errors_at


def _prefix_error(
    original: Tensor, outputs: Tensor | None, axes: tuple[int, ...], size: int, number: int, count: int, j: int
) -> float | None:
    """The error before position j of one copy in a batch against the original; None where the output lacks these axes."""
    if outputs is None or not axes:
        return None
    batch_axes = [i for i in differing(original, outputs, (size, size * count)) if i not in axes]
    if not batch_axes:
        return None
    expected, actual = outputs.narrow(batch_axes[0], 0, size), outputs.narrow(batch_axes[0], number * size, size)
    for axis in axes:
        expected, actual = expected.narrow(axis, 0, j), actual.narrow(axis, 0, j)
    return error(expected, actual)


def _lengths(run: Pass, budget: LengthBudget, screening: Screening) -> tuple[list[int], str, Inputs | None]:
    """Run the first tokens of the longest sequence at every length: their outputs equal those of the longest."""
    subject = run.subject
    if subject.length_ladder is None:
        subject.length_ladder = length_ladder(subject, run, budget)
    lengths = subject.length_ladder.lengths[:: 5 if run.random else 1]
    n, axes = run.inputs.length or 0, subject.axes(run)
    longest, whole, rejected = run.inputs, run(run.inputs), ""
    for length in sorted((m for m in lengths if m > n), reverse=True):
        text = resized(run.inputs, length, Generator().manual_seed(subject.seed + 23))
        if text is None:
            rejected = "these inputs cannot be extended"
            break
        try:
            whole = run(text)
            longest = text
            break
        except ModelError as crash:
            rejected = f"{length} tokens are rejected: {crash}"
    measured_lengths = [longest.length or 0]
    for length in (m for m in [*lengths, n] if m < (longest.length or 0)):
        part = shortened(longest, length)
        try:
            outputs = run.outputs_of(part.call)
        except ModelError:
            continue
        measured_lengths.append(length)
        relation = SameRows(slice(0, length), slice(0, length), (longest.length or 0, length))
        pair = RunPair(longest, part, relation, *_read_first(longest, length))
        common = [(name, t, outputs[name]) for name, t in whole.items() if name in outputs]
        sides = [s for name, t, u in common if (s := relation.output(name, t, u, axes.get(name, ())))]
        worst_error = max((error(*s) for s in sides), default=0.0, key=lambda e: float("inf") if e != e else e)
        screening.errors.append(worst_error)
        if not worst_error < _threshold(run):
            changed = change_later(longest, length, Generator().manual_seed(subject.seed + 19))
            violates = not measure_pair(run, changed, axes).error < _threshold(run)
            screening.suspects.append(changed if violates else pair)  # later tokens, or only their number
    screening.suspects = screening.suspects[: 2 * MAX_SUSPECTS]
    return sorted(set(measured_lengths)), rejected, longest


def _read_first(inputs: Inputs, length: int) -> tuple[str, dict[str, int]]:
    return f"run the first {length} of {inputs.length} tokens only", {"read": length, "of": inputs.length or 0}


def change_later(inputs: Inputs, j: int, generator: Generator, count: int | None = None) -> RunPair:
    """Change token j and those after it, or `count` of them."""
    n = inputs.length or 0
    end = n if count is None else j + count
    text = f"change the tokens {j} to {n - 1} of {n}" if end - j > 1 else f"change token {j} of {n}"
    transformed, relation = changed_tokens(inputs, slice(j, end), generator), SameRows(slice(0, j), slice(0, j), (n, n))
    return RunPair(inputs, transformed, relation, f"{text}, and compare the outputs before it", {"changed": j, "to": end})


def remove_later(inputs: Inputs, j: int) -> RunPair:
    """Remove token j and those after it."""
    n = inputs.length or 0
    relation = SameRows(slice(0, j), slice(0, j), (n, j))
    return RunPair(inputs, shortened(inputs, j), relation, *_read_first(inputs, j))


def _spread_positions(n: int, count: int) -> list[int]:
    """Positions 1 .. n - 1: all, or `count` of them with the last; a single one lies near the middle, off chunk boundaries."""
    if n - 1 <= count:
        return list(range(1, n))
    if count == 1:
        return [n // 2 + 1]
    return sorted({round(1 + i * (n - 2) / max(count - 1, 1)) for i in range(count)})


BIDIRECTIONAL = ("XLMWithLMHeadModel", "XLNetLMHeadModel")  # causal or not depending on other arguments


def claims_causal(subject: Subject) -> tuple[Claimed, str]:
    """Whether the model claims causality: by our spec, or by its configuration."""
    model = subject.model
    if (spec := getattr(model, "spec", None)) is not None and hasattr(spec, "blocks"):
        causal = all(block.attention.joint_mask.is_causal for block in spec.blocks)
        if not causal:
            return "no", "its attention mask is not causal"
        if getattr(spec, "readout", "each") in ("each", "last"):
            return "yes", "every layer has a causal mask"
        return "unknown", ""
    name, config = type(model).__name__, getattr(model, "config", None)
    if config is None:
        return "unknown", ""
    if getattr(config, "is_encoder_decoder", False) and any(subject.inputs.kinds.get(n) in ("ids", "features") for n in DECODED):
        return "yes", f"the decoder of {name} generates token by token"
    if getattr(config, "is_encoder_decoder", False) or name in BIDIRECTIONAL:
        return "unknown", ""
    if "ForCausalLM" in name or name.endswith("LMHeadModel") or getattr(config, "is_decoder", False):
        return "yes", f"{name} generates token by token"
    if any(end in name for end in ("ForMaskedLM", "ForSequenceClassification", "BertModel", "ViT")):
        return "no", f"{name} is bidirectional"
    return "unknown", ""
