"""Lengths: the sequence lengths and positions at which a model is measured.

Some faults occur only at some lengths: a leak within complete blocks of 64 tokens does not appear at 13. The lengths therefore
come from the model itself: integers in its modules, its buffers, its configuration and its code, and positions where a mask is
irregular, with their neighbours and doubles; powers of two with their neighbours; and one length beyond 257, or the longest that
the model accepts.
"""

from dataclasses import dataclass, field
from typing import Any

from torch import Generator, nn

from equiscope.audit.inputs.variations import lengthened
from equiscope.audit.subject import ModelError, Pass, Subject, shortened
from equiscope.program.boundaries import LONG_LENGTH, boundaries, lengths_around
from equiscope.program.constants import LARGEST
from equiscope.program.sizes_in_use import recording_sizes
from equiscope.symmetry import Inputs

LONGEST = 2 * LARGEST + 1
TOKENS = 8192  # in one call at most


@dataclass(frozen=True)
class LengthBudget:
    """Budget for lengths and positions at one effort.

    work       multiply-adds of one statement, approximately: sequences * tokens * (parameters + tokens * 64)
    calls      calls of the model at other lengths than the given one
    positions  positions that are tried at the longest of these
    sequences  sequences in one call
    """

    operations: float
    calls: int
    positions: int
    sequences: int = 128


LENGTH_BUDGETS = {
    "quick": LengthBudget(4e10, 6, 8),
    "default": LengthBudget(8e11, 15, 12),
    "thorough": LengthBudget(8e12, 96, 1000),
}


@dataclass
class LengthLadder:
    """Lengths at which a model is measured.

    boundaries  where blocks, chunks and windows of the model end
    lengths     the other lengths to measure at, without the given one
    """

    boundaries: list[int]
    lengths: list[int] = field(default_factory=list)


def cost(model: nn.Module, sequences: int, length: int) -> float:
    """Approximate multiply-adds of one call; embeddings cost nothing."""
    return sequences * length * (weights(model) + 64.0 * length)


def weights(model: nn.Module) -> int:
    """The number of parameters that multiply something: all but embeddings that are not tied."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    tied = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    return sum(p.numel() for p in model.parameters() if id(p) not in tables or id(p) in tied)


def length_ladder(subject: Subject, run: Pass, budget: LengthBudget) -> LengthLadder:
    """The lengths at which to measure this model, the most informative first; none where its inputs have no length."""
    n = subject.inputs.length
    if n is None:
        return LengthLadder([])
    sizes, irregular = _recorded(run) if budget.calls > 6 else ([], set())
    likely, others = boundaries(subject.model, sizes, irregular)
    most = longest(subject.model)
    candidates = [LONG_LENGTH if most is None or most > LONG_LENGTH else most, *lengths_around(likely, others)]
    lengths, spent = list[int](), 0.0
    for length in dict.fromkeys(candidates):
        if length < 2 or length == n or length > (most or LONGEST) or len(lengths) >= budget.calls:
            continue
        call_cost = cost(subject.model, 1, length)
        if spent + call_cost > budget.operations / 2:
            continue
        lengths.append(length)
        spent += call_cost
    return LengthLadder([*likely, *others], lengths)


def longest(model: nn.Module) -> int | None:
    """The longest input according to the configuration; None where it has no limit."""
    config = getattr(model, "config", None)
    text = getattr(config, "text_config", config)
    for name in (
        "max_position_embeddings",
        "n_positions",
        "max_target_positions",
        "max_seq_len",
        "max_seq_length",
        "n_ctx",
        "block_size",
    ):
        value = getattr(text, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            return value
    return None


def _recorded(run: Pass) -> tuple[list[set[int]], set[int]]:
    """Sizes by which the running model splits and reshapes, at each of two lengths; and where its masks are irregular."""
    recorded_sizes, irregular = list[set[int]](), set[int]()
    for length in (run.inputs.length or 0, LONG_LENGTH, 67, 37):
        inputs = resized(run.inputs, length, Generator().manual_seed(3))
        if inputs is None or len(recorded_sizes) == 2:
            continue

        def record(model: nn.Module, inputs: Inputs = inputs) -> Any:
            sizes: set[int] = set()
            with recording_sizes(sizes, irregular):
                result = inputs.call(model)
            recorded_sizes.append(sizes)
            return result

        try:
            run.outputs_of(record)
        except ModelError:
            continue
    return recorded_sizes, irregular


# ------------------------------------------------------------------------------------------------------ inputs of a length


def resized(inputs: Inputs, length: int, generator: Generator) -> Inputs | None:
    """The same inputs at another length: the first tokens, or more tokens appended; None where they cannot be extended."""
    n = inputs.length or 0
    return inputs if length == n else shortened(inputs, length) if length < n else lengthened(inputs, length, generator)


def largest_batch(run: Pass, sequences: int, length: int) -> int:
    """The largest batch of inputs of that length whose outputs take at most half of the parameters' memory, or 64 MiB."""
    sequences = min(sequences, TOKENS // max(length * (run.inputs.batch or 1), 1))
    numbers = sum(t.numel() for t in run(run.inputs).values()) * length / max(run.inputs.length or 1, 1)
    parameter_bytes = sum(p.numel() * p.element_size() for p in run.subject.model.parameters())
    room = max(parameter_bytes / 2, 64 * 2**20)
    return max(1, min(sequences, int(room / (8 * max(numbers, 1)))))
