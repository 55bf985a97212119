"""Prove: three statements about any module, from its graph of operations alone.

The program runs twice over the field, on letters and on the letters that the statement relates to them. Where all numbers agree,
the outputs are the same formulas, so the statement holds whatever the words and the parameters are, at the sizes of the graph and
with every other argument as it was given. It is proved at the given size, where that is not too much work, and at a larger one. A
proof names both, and what it held fixed.

Where the numbers do not agree, the first operation that breaks it is looked for; it is called refuted only if the running model, at
random parameters, breaks too. Every other case is unknown.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from equiscope.audit.diagnose.localize import EXACT
from equiscope.audit.inputs.adapt import complete_arguments
from equiscope.audit.inputs.lengths import LONGEST, constants, cost, longest, positions, resized
from equiscope.audit.inputs.variations import batched, resampled, sequence
from equiscope.audit.proof.exported_program import Leaf, Program, Unexported, leaves, program, rebuilt
from equiscope.audit.proof.formulas import Formulas, lifted
from equiscope.audit.proof.variants import Beside, Later, Variant, besides, laters, orders
from equiscope.audit.proof.walk import Random, Walk, module_of, operation
from equiscope.audit.statements.pairs import RunPair, SameRows, measure_pair
from equiscope.audit.statements.sequences.batch import BatchIndependence
from equiscope.audit.statements.sequences.causal import CausalOutput
from equiscope.audit.statements.sequences.padding import mask_name, ragged
from equiscope.audit.statements.statement import Statement, Symmetry
from equiscope.audit.subject import Crashed, Pass, Subject, shortened
from equiscope.record import Proof
from equiscope.symmetry import Inputs, Permute

STATEMENTS = ("permute", "causal", "batch")
LENGTHS = (13, 11, 7)  # a text that is too long is cut to one of these: primes, so that axes are not mixed up
ROWS, TRIES = 3, 2
LARGE = 1_000_000  # parameters from which on numbers are drawn once, for the time it takes
WORK = 3e8  # multiply-adds over the field, about: some seconds
FEW = 7  # positions that are tried at the larger size


def prove(
    model: nn.Module, inputs: Inputs, pick: Any = None, mode: str = "eval", seed: int = 0, names: tuple[str, ...] = STATEMENTS
) -> dict[str, Proof]:
    """Whether a model treats tokens alike whatever their order, reads no later token, and keeps sequences apart.

    inputs   a call of the model. Three sequences stand side by side, with masks of their own; a text that is too long for the work
             of a proof is cut to 13 tokens or fewer
    pick     which outputs are compared; mode: "eval" or "train"
    returns  permute, causal, batch (or those of `names`) -> proved, refuted or unknown, with the operation and where it stands
    """
    return proofs_of(complete_arguments(Subject(model, inputs, pick, mode, seed)), names)


def proofs_of(subject: Subject, names: tuple[str, ...] = STATEMENTS) -> dict[str, Proof]:
    """As `prove`. Calls of the model are counted with those of the subject."""
    try:
        case = _case(subject)
    except (Crashed, Unexported) as failure:
        return {name: Proof(answer="unknown", reason=str(failure)) for name in names}
    found = {name: _answer(case, name) for name in names}
    if any(proof.answer == "proved" for proof in found.values()):
        larger = _larger(case)
        found = {
            name: _prove_larger(name, proof, case, larger) if proof.answer == "proved" else proof for name, proof in found.items()
        }
    return found


def _prove_larger(name: str, proof: Proof, case: "_Case", larger: "_Case | None") -> Proof:
    """A proof at one size, asked at the larger one too."""
    if larger is None:
        return Proof(answer="proved", reason=_sentence(case, case.sizes()))
    asked = _asked(larger, name)
    if isinstance(asked, str):
        return Proof(answer="proved", reason=_sentence(case, case.sizes()))
    makes, size, _ = asked
    cuts: list[int] = []

    def some(parts: list[Leaf], size: int, seed: int) -> Iterator[Variant]:
        wanted = set(positions(size, larger.boundaries, FEW))
        for variant in makes(parts, size, seed):
            if not isinstance(variant, Later) or variant.place in wanted:
                cuts.append(variant.place if isinstance(variant, Later) else 0)
                yield variant

    try:
        broken = _first_broken(larger, some, size)
    except Exception as error:  # a longer text may take another way through the model
        reason = f"it holds at {case.sizes()}, but the graph of {larger.sizes()} could not be walked: {type(error).__name__}"
        return Proof(answer="unknown", reason=reason)
    if broken is not None:
        return Proof(answer="unknown", reason=f"its form has it at {case.sizes()}, but not at {larger.sizes()}")
    there = (
        f"{larger.sizes()} (there from the tokens {', '.join(map(str, sorted(set(cuts))))} on)"
        if name == "causal"
        else larger.sizes()
    )
    return Proof(answer="proved", reason=_sentence(case, f"{case.sizes()} and at {there}"))


def _sentence(case: "_Case", sizes: str) -> str:
    """Of which sizes and which arguments a proof speaks."""
    free = list(dict.fromkeys(leaf.argument for leaf in case.parts if leaf.free))
    fixed = list(dict.fromkeys(_named(leaf) for leaf in case.parts if not leaf.free))
    held = f", with {', '.join(fixed)} as they were given" if fixed else ""
    tested = f"tested modulo 2^31 - 1, {case.tries} time{'s'[: case.tries != 1]}"
    return f"at {sizes}, for all values of {', '.join(free)} and of the parameters{held} ({tested})"


def _named(leaf: Leaf) -> str:
    return f"{leaf.argument}.{leaf.part}" if leaf.part else leaf.argument


@dataclass
class _Case:
    """A model at the sizes at which it is proved."""

    subject: Subject
    program: Program
    parts: list[Leaf]
    axes: dict[str, tuple[int, ...]]
    across: dict[str, tuple[int, ...]]
    tries: int = TRIES
    boundaries: list[int] = field(default_factory=list)
    random: dict[torch.dtype, Pass] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return self.subject.inputs.length or 0

    @property
    def batch(self) -> int:
        return self.subject.inputs.batch or 0

    def sizes(self) -> str:
        words = f"{self.length} tokens" if self.length else "this size"
        return f"{self.batch} × {words}" if self.batch else words


def _case(subject: Subject) -> _Case:
    failure: Crashed | None = None
    tries = 1 if sum(p.numel() for p in subject.model.parameters()) > LARGE else TRIES
    for sized in _sized(subject.model, subject.inputs, tries):
        try:
            return _of(subject.like(inputs=sized), tries)
        except Crashed as crash:
            failure = crash
    assert failure is not None
    raise failure


def _of(subject: Subject, tries: int) -> _Case:
    """One size. Raises Crashed where the model does not take it, Unexported where there is no graph."""
    run = subject.in_dtype(subject.dtype)
    run(run.inputs)
    axes, parts = subject.axes(run), leaves(subject.inputs)
    return _Case(subject, program(subject, subject.inputs, parts, list(axes)), parts, axes, _across(subject, run), tries)


def _larger(case: _Case) -> _Case | None:
    """The same at a larger size, beyond the blocks and windows that the model speaks of; None where there is none."""
    subject, n = case.subject, case.length
    named = sorted(c for c in constants(subject.model)[0] if c <= 128)
    most = min(longest(subject.model) or LONGEST, LONGEST)
    wanted = [2 * c + 1 for c in reversed(named)] + [2 * n + 1, n + 2]
    for length in (m for m in wanted if n < m <= most):
        if FEW * cost(subject.model, 2, length) * case.tries > WORK:
            continue
        one = sequence(subject.inputs, 0) if subject.inputs.batch is not None else subject.inputs
        text = resized(one, length, torch.Generator().manual_seed(1))
        if text is None:
            return None
        if text.batch is not None:
            text = batched(text, resampled(text, torch.Generator().manual_seed(2)))
        try:
            made = _of(subject.like(inputs=text), case.tries)
        except (Crashed, Unexported):
            continue
        made.boundaries = named
        return made
    return None


def _across(subject: Subject, run: Pass) -> dict[str, tuple[int, ...]]:
    """The axis of each output that has one entry a sequence: the one that grows with the batch; the first where none may."""
    if subject.inputs.batch is None:
        return {}
    one = sequence(run.inputs, 0)
    try:
        return {name: (axis,) for name, axis in subject.batch_axes(run, one, batched(one, one)).items()}
    except Crashed:
        return {name: (0,) for name, t in run(run.inputs).items() if t.ndim and t.shape[0] == subject.inputs.batch}


def _sized(model: nn.Module, inputs: Inputs, tries: int) -> Iterator[Inputs]:
    """Sizes at which it is tried: as given, cut where that is too much work; with sequences of several lengths side by side."""
    made, n = inputs, inputs.length or 0
    if n > LENGTHS[-1] and n * cost(model, ROWS, n) * tries > WORK:
        taken = {s for v in inputs.values.values() if isinstance(v, Tensor) for s in v.shape}
        fits = [m for m in LENGTHS if m < n and (m * cost(model, ROWS, m) * tries <= WORK or m == LENGTHS[-1])]
        made = shortened(made, next((m for m in fits if m not in taken), LENGTHS[-1]))
    if inputs.batch is not None:
        yield from _beside(model, sequence(made, 0))
    yield made
    yield inputs


def _beside(model: nn.Module, one: Inputs) -> Iterator[Inputs]:
    """Three sequences: with masks of their own, where the model takes masks; and of one length."""
    generator, n = torch.Generator().manual_seed(0), one.length or 0
    if n > 4 and mask_name(Subject(model, one)) in one.values:
        yield ragged(Subject(model, one), one, (n, n - 2, n // 2), False, generator).batch
    yield batched(one, *(resampled(one, generator) for _ in range(ROWS - 1)))


Makes = Callable[[list[Leaf], int, int], Iterator[Variant]]


def _asked(case: _Case, name: str) -> tuple[Makes, int, Statement] | str:
    """How a statement is told in letters; or why it cannot be."""
    if name == "batch":
        if case.batch < 2 or not any(leaf.free and leaf.rows is not None for leaf in case.parts):
            return "the inputs have no axis of sequences side by side"
        if not case.across:
            return "no output has one entry a sequence"
        return besides, case.batch, BatchIndependence()
    if not any(leaf.free and leaf.words is not None for leaf in case.parts) or case.length < 2:
        return "there are no tokens in an order" if not case.length else "there is one token only"
    if name == "causal":
        if not any(case.axes.values()):
            return "no output has one entry a token"
        return laters, case.length, CausalOutput()
    return orders, case.length, Symmetry(Permute)


def _answer(case: _Case, name: str) -> Proof:
    asked = _asked(case, name)
    if isinstance(asked, str):
        return Proof(answer="unknown", reason=asked)
    makes, size, statement = asked
    try:
        broken = _first_broken(case, makes, size)
        if broken is None:
            return _proved(case, statement)
        return _not_proved(case, name, makes, size, statement, broken)
    except Random as error:
        reason = "it draws random numbers, or it is a graph of its own"
        return Proof(answer="unknown", operation=operation(error.node), where=module_of(error.node), reason=reason)
    except Exception as error:  # a graph may hold anything: what we cannot walk is not known
        words = " ".join(str(error).split())[:120]
        return Proof(answer="unknown", reason=f"the graph could not be walked: {type(error).__name__}: {words}")


def _first_broken(case: _Case, makes: Makes, size: int, deep: bool = False) -> Variant | None:
    """The first variant whose outputs do not agree, of several choices of letters; None where all do."""
    for seed in range(case.tries):
        original: dict[str, Tensor] | None = None
        kept: dict[Node, Any] = {}
        for variant in makes(case.parts, size, seed):
            original = original or Walk(case.program, seed, deep, kept).outputs(variant.original)
            transformed = Walk(case.program, seed, deep, kept).outputs(variant.transformed)
            axes = case.across if isinstance(variant, Beside) else case.axes
            sides = [variant.sides(t, transformed[n], axes.get(n, ())) for n, t in original.items()]
            if not any(s is not None for s in sides) or not all(torch.equal(*s) for s in sides if s is not None):
                return variant
    return None


def _proved(case: _Case, statement: Statement) -> Proof:
    """The graph has one size. What the statement says of others (fewer tokens, a sequence alone) is measured."""
    other = _error(
        case,
        statement,
        lambda pair: not isinstance(pair.transformed, Inputs) or _shapes(pair.original) != _shapes(pair.transformed),
    )
    if other is not None and other[0] > other[1]:
        return Proof(answer="unknown", reason=f"it holds at {case.sizes()}, but what comes out depends on how many there are")
    return Proof(answer="proved")


def _shapes(inputs: Inputs) -> list[Any]:
    return [getattr(getattr(v, "x", v), "shape", None) for v in inputs.values.values()]


def _not_proved(case: _Case, name: str, makes: Makes, size: int, statement: Statement, broken: Variant) -> Proof:
    node, unruled = _culprit(case, broken)
    said: dict[str, Any] = {"operation": operation(node) if node else "", "where": module_of(node) if node else ""}
    if unruled:
        return Proof(answer="unknown", reason="there is no rule for this operation", **said)
    found = _error(case, statement, lambda pair: True)
    if found is None:
        return Proof(answer="unknown", reason="its form breaks it, and the model could not be measured", **said)
    if found[0] > found[1]:
        return Proof(answer="refuted", reason=f"here {BREAKS[name]}; measured at random parameters: {found[0]:.1e}", **said)
    if _first_broken(case, makes, size, deep=True) is None:
        reason = "it holds if large negative numbers in a mask count as minus infinity: exp gives exactly 0 there by underflow only"
        return Proof(answer="unknown", reason=reason, **said)
    return Proof(answer="unknown", reason="its form breaks it here, but the numbers do not show it", **said)


BREAKS = {
    "permute": "something that knows the place meets something that moves with the tokens",
    "causal": "a token reads a later one",
    "batch": "a sequence reads another one",
}


def _error(case: _Case, statement: Statement, wanted: Callable[[RunPair], bool]) -> tuple[float, float] | None:
    """The largest error at random parameters of the pairs that are wanted, and from which on it counts.

    In float64, where the model runs in it, otherwise in its own precision. None where nothing could be measured.
    """
    for dtype, border in ((torch.float64, EXACT), (case.subject.dtype, 1e-3)):
        try:
            run = case.random.get(dtype) or case.subject.in_dtype(dtype, random=True)
            case.random[dtype] = run
            pairs = _pairs(case, statement, run)
        except Crashed:
            continue
        found = []
        for pair in filter(wanted, pairs):
            with suppress(Crashed):  # it may take texts of one length only
                if isinstance(statement, Symmetry) and not statement.representations:
                    statement.infer_representations(run, pair, case.axes)
                found.append(measure_pair(run, pair, case.axes).error)
        found = [e for e in found if e == e]
        if found:
            return max(found), border
    return None


def _pairs(case: _Case, statement: Statement, run: Pass) -> list[RunPair]:
    """Those that the statement is measured by; of a batch also one of the same size."""
    pairs = list[RunPair]()
    with suppress(Crashed):  # it may take batches of one size only
        pairs += statement.pairs(run, 24 if statement.name == "causal" else 6, torch.Generator().manual_seed(17))
    if isinstance(statement, BatchIndependence):
        own = leaves(run.inputs)
        transformed = rebuilt(
            run.inputs, own, tuple(leaf.value if leaf.rows is None else leaf.value.roll(1, leaf.rows) for leaf in own)
        )
        across = {name: axes[0] for name, axes in case.across.items()}
        same = SameRows(slice(None), slice(None), (case.length,) * 2, (0, 1), across, (case.batch,) * 2)
        pairs.append(RunPair(run.inputs, transformed, same, "every sequence in the next row"))
    return pairs


def _culprit(case: _Case, variant: Variant) -> tuple[Node | None, bool]:
    """The operation from which on the outputs are wrong, and whether that is one without a rule."""
    walks = Walk(case.program), Walk(case.program)
    bad: set[Node] = set()
    for (node, original), (_, transformed) in zip(
        *(w.steps(v) for w, v in zip(walks, (variant.original, variant.transformed), strict=True)), strict=True
    ):
        if isinstance(original, (Formulas, Tensor)) and not variant.readable(lifted(original), lifted(transformed)):
            bad.add(node)
        elif isinstance(original, (tuple, list)) and node.op == "call_function" and isinstance(original[0], Formulas):
            pairs = zip(original, transformed, strict=True)
            if not all(variant.readable(p.whole, m.whole) for p, m in list(pairs)[:1] if isinstance(p, Formulas)):
                bad.add(node)
    ends = [node for _, node in case.program.outputs if node is not None]
    node = next((n for n in ends if n in bad), next(iter(ends), None))
    while node is not None and node.name.startswith("clone") and node not in bad and node.all_input_nodes:
        node = node.all_input_nodes[0]  # every part is right, but the output does not have one entry a token
    while node is not None:
        before = next((n for n in node.all_input_nodes if n in bad), None)
        if before is None:
            break
        node = before
    return node, node in walks[0].unruled
