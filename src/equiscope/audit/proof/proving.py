"""Prove three statements about any module from its exported graph.

The program runs twice over the field: on indeterminates, and on those that the statement relates to them. Where all numbers agree,
the outputs are the same formulas, so the statement holds for all tokens and all parameters, at the sizes of the graph and with
every other argument as given. The proof is done at the given size, where the cost allows it, and at a larger one. It names both
sizes and the arguments that were fixed.

Where the numbers do not agree, the first operation that breaks the statement is found. The answer is *refuted* only if the running
model, at random parameters, breaks it too. Every other case is *unknown*.
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
from equiscope.audit.inputs.lengths import LONGEST, cost, longest, resized
from equiscope.audit.inputs.padded import ragged
from equiscope.audit.inputs.padding_mask import mask_name
from equiscope.audit.inputs.variations import batched, distinct_flags, resampled, sequence
from equiscope.audit.proof.exported_program import (
    ExportedProgram,
    ExportError,
    ProofLeaf,
    export_program,
    proof_leaves,
    with_leaf_values,
)
from equiscope.audit.proof.formulas import Formulas, in_field
from equiscope.audit.proof.variants import (
    ChangedSuffix,
    MovedSequence,
    ProofVariant,
    changed_suffixes,
    moved_sequences,
    token_permutations,
)
from equiscope.audit.proof.walk import RandomOperation, Walk, module_of, operation
from equiscope.audit.statements.pairs import RunPair, SameRows, measure_pair
from equiscope.audit.statements.sequences.batch import BatchIndependence
from equiscope.audit.statements.sequences.causal import CausalOutput
from equiscope.audit.statements.statement import Statement, Symmetry
from equiscope.audit.subject import ModelError, Pass, Subject, shortened
from equiscope.errors import counted
from equiscope.program.boundaries import positions
from equiscope.program.constants import constants
from equiscope.record import Proof
from equiscope.symmetry import Inputs, Permute

STATEMENTS = ("permute", "causal", "batch")
LENGTHS = (13, 11, 7)  # longer inputs are cut to one of these: primes, so that axes are not confused
ROWS, TRIES = 3, 2
LARGE = 1_000_000  # for more parameters, the indeterminates are drawn once only
WORK = 3e8  # multiply-adds over the field, approximately: a few seconds
FEW = 7  # positions that are tried at the larger size


def prove(
    model: nn.Module, inputs: Inputs, pick: Any = None, mode: str = "eval", seed: int = 0, names: tuple[str, ...] = STATEMENTS
) -> dict[str, Proof]:
    """Prove or refute permutation equivariance, causality and batch independence of a model.

    inputs   a call of the model. The proof uses a batch of three sequences with masks of their own, cut to 13 tokens or fewer where
             the cost requires it
    pick     the outputs to compare; mode: "eval" or "train"
    returns  permute, causal, batch (or those of `names`) -> proved, refuted or unknown, with the operation and its module
    """
    return proofs_of(complete_arguments(Subject(model, inputs, pick, mode, seed)), names)


def proofs_of(subject: Subject, names: tuple[str, ...] = STATEMENTS) -> dict[str, Proof]:
    """As `prove`. Calls of the model are counted with those of the subject."""
    try:
        case = _make_case(subject)
    except (ModelError, ExportError) as failure:
        return {name: Proof(answer="unknown", reason=str(failure)) for name in names}
    proofs = {name: _prove_statement(case, name) for name in names}
    if any(proof.answer == "proved" for proof in proofs.values()):
        larger = _larger_case(case)
        proofs = {
            name: _prove_larger(name, proof, case, larger) if proof.answer == "proved" else proof for name, proof in proofs.items()
        }
    return proofs


def _prove_larger(name: str, proof: Proof, case: "_Case", larger: "_Case | None") -> Proof:
    """Repeat a proof at the larger size."""
    if larger is None:
        return Proof(answer="proved", reason=_sentence(case, case.sizes()))
    variants = _variants_for(larger, name)
    if isinstance(variants, str):
        return Proof(answer="proved", reason=_sentence(case, case.sizes()))
    make_variants, size, _ = variants
    cut_positions: list[int] = []

    def selected_variants(leaves: list[ProofLeaf], size: int, seed: int) -> Iterator[ProofVariant]:
        selected = set(positions(size, larger.boundaries, FEW))
        for variant in make_variants(leaves, size, seed):
            if not isinstance(variant, ChangedSuffix) or variant.position in selected:
                cut_positions.append(variant.position if isinstance(variant, ChangedSuffix) else 0)
                yield variant

    try:
        broken = _first_broken(larger, selected_variants, size)
    except Exception as error:  # a longer input may take another branch
        reason = f"it holds at {case.sizes()}, but the graph of {larger.sizes()} could not be evaluated: {type(error).__name__}"
        return Proof(answer="unknown", reason=reason)
    if broken is not None:
        return Proof(answer="unknown", reason=f"it is proved at {case.sizes()}, but not at {larger.sizes()}")
    larger_sizes = (
        f"{larger.sizes()} (there from the tokens {', '.join(map(str, sorted(set(cut_positions))))} on)"
        if name == "causal"
        else larger.sizes()
    )
    return Proof(answer="proved", reason=_sentence(case, f"{case.sizes()} and at {larger_sizes}"))


def _sentence(case: "_Case", sizes: str) -> str:
    """The sizes and the arguments that a proof covers, in words."""
    free_arguments = list(dict.fromkeys(leaf.argument for leaf in case.leaves if leaf.free))
    fixed = list(dict.fromkeys(_leaf_name(leaf) + _same_rows(leaf) for leaf in case.leaves if not leaf.free))
    fixed_note = f", with fixed {', '.join(fixed)}" if fixed else ""
    tested = f"tested modulo 2^31 - 1, {counted(case.tries, 'time')}"
    return f"at {sizes}, for all values of {', '.join(free_arguments)} and of the parameters{fixed_note} ({tested})"


def _same_rows(leaf: ProofLeaf) -> str:
    """A note on an argument whose rows are equal: a model that reads one row for all sequences is not found then."""
    rows = [] if leaf.batch_axis is None else leaf.value.unbind(leaf.batch_axis)
    return " (equal in all sequences)" if len(rows) > 1 and all(torch.equal(row, rows[0]) for row in rows) else ""


def _leaf_name(leaf: ProofLeaf) -> str:
    return f"{leaf.argument}.{leaf.part}" if leaf.part else leaf.argument


@dataclass
class _Case:
    """A model with the sizes of a proof."""

    subject: Subject
    program: ExportedProgram
    leaves: list[ProofLeaf]
    axes: dict[str, tuple[int, ...]]
    batch_axes: dict[str, tuple[int, ...]]
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


def _make_case(subject: Subject) -> _Case:
    failure: ModelError | None = None
    tries = 1 if sum(p.numel() for p in subject.model.parameters()) > LARGE else TRIES
    for sized in _sized_inputs(subject.model, subject.inputs, tries):
        try:
            return _sized_case(subject.like(inputs=sized), tries)
        except ModelError as crash:
            failure = crash
    assert failure is not None
    raise failure


def _sized_case(subject: Subject, tries: int) -> _Case:
    """The case of one size. Raises ModelError where the model rejects it, ExportError where there is no graph."""
    run = subject.in_dtype(subject.dtype)
    run(run.inputs)
    axes, leaves = subject.axes(run), proof_leaves(subject.inputs)
    return _Case(
        subject, export_program(subject, subject.inputs, leaves, list(axes)), leaves, axes, _batch_axes(subject, run), tries
    )


def _larger_case(case: _Case) -> _Case | None:
    """The case at a larger size, beyond the blocks and windows of the model; None where there is none."""
    subject, n = case.subject, case.length
    named = sorted(c for c in constants(subject.model)[0] if c <= 128)
    most = min(longest(subject.model) or LONGEST, LONGEST)
    selected = [2 * c + 1 for c in reversed(named)] + [2 * n + 1, n + 2]
    for length in (m for m in selected if n < m <= most):
        if FEW * cost(subject.model, 2, length) * case.tries > WORK:
            continue
        one = sequence(subject.inputs, 0) if subject.inputs.batch is not None else subject.inputs
        text = resized(one, length, torch.Generator().manual_seed(1))
        if text is None:
            return None
        generator = torch.Generator().manual_seed(2)
        batches = [text]
        if text.batch is not None:
            batch = batched(text, resampled(text, generator))
            batches = [distinct_flags(batch, generator), batch]
        for batch in batches:
            try:
                result = _sized_case(subject.like(inputs=batch), case.tries)
            except (ModelError, ExportError):
                continue
            result.boundaries = named
            return result
    return None


def _batch_axes(subject: Subject, run: Pass) -> dict[str, tuple[int, ...]]:
    """The batch axis of each output: the one that grows with the batch; the first for a model with a fixed batch size."""
    if subject.inputs.batch is None:
        return {}
    one = sequence(run.inputs, 0)
    try:
        return {name: (axis,) for name, axis in subject.batch_axes(run, one, batched(one, one)).items()}
    except ModelError:
        return {name: (0,) for name, t in run(run.inputs).items() if t.ndim and t.shape[0] == subject.inputs.batch}


def _sized_inputs(model: nn.Module, inputs: Inputs, tries: int) -> Iterator[Inputs]:
    """Sizes to try: the given one, cut where the cost requires it; first as a batch of sequences of several lengths."""
    result, n = inputs, inputs.length or 0
    if n > LENGTHS[-1] and n * cost(model, ROWS, n) * tries > WORK:
        sizes_in_use = {s for v in inputs.values.values() if isinstance(v, Tensor) for s in v.shape}
        fitting = [m for m in LENGTHS if m < n and (m * cost(model, ROWS, m) * tries <= WORK or m == LENGTHS[-1])]
        result = shortened(result, next((m for m in fitting if m not in sizes_in_use), LENGTHS[-1]))
    if inputs.batch is not None:
        yield from _batched_inputs(model, result)
    yield result
    yield inputs


def _batched_inputs(model: nn.Module, inputs: Inputs) -> Iterator[Inputs]:
    """Batches of three sequences: with masks and flags of their own, where the model takes those; and of one length."""
    generator, one = torch.Generator().manual_seed(0), sequence(inputs, 0)
    n, size = one.length or 0, inputs.batch or 1
    given = batched(one, *(resampled(sequence(inputs, row % size), generator) for row in range(1, ROWS)))
    batches = [given]
    if n > 4 and not one.has("lengths") and mask_name(Subject(model, one)) in one.values:  # tokens move, lengths cannot
        batches.insert(0, ragged(Subject(model, one), one, (n, n - 2, n // 2), False, generator).batch)
    for batch in batches:
        flagged = distinct_flags(batch, generator)
        if any(value is not batch.values[name] for name, value in flagged.values.items()):
            yield flagged
    yield from batches


VariantMaker = Callable[[list[ProofLeaf], int, int], Iterator[ProofVariant]]


def _variants_for(case: _Case, name: str) -> tuple[VariantMaker, int, Statement] | str:
    """The variants of a statement, the size of their axis, and the statement; or why there are none."""
    if name == "batch":
        if case.batch < 2 or not any(leaf.free and leaf.batch_axis is not None for leaf in case.leaves):
            return "the inputs have no batch axis"
        if not case.batch_axes:
            return "no output has one entry for each sequence"
        return moved_sequences, case.batch, BatchIndependence()
    if not any(leaf.free and leaf.token_axes for leaf in case.leaves) or case.length < 2:
        return "the inputs have no ordered tokens" if not case.length else "there is only one token"
    if name == "causal":
        if not any(case.axes.values()):
            return "no output has one entry for each token"
        return changed_suffixes, case.length, CausalOutput()
    return token_permutations, case.length, Symmetry(Permute)


def _prove_statement(case: _Case, name: str) -> Proof:
    variants = _variants_for(case, name)
    if isinstance(variants, str):
        return Proof(answer="unknown", reason=variants)
    make_variants, size, statement = variants
    try:
        broken = _first_broken(case, make_variants, size)
        if broken is None:
            return _proved(case, statement)
        return _not_proved(case, name, make_variants, size, statement, broken)
    except RandomOperation as error:
        reason = "it draws random numbers, or it is a subgraph without a rule"
        return Proof(answer="unknown", operation=operation(error.node), where=module_of(error.node), reason=reason)
    except Exception as error:  # a graph may contain anything
        words = " ".join(str(error).split())[:120]
        return Proof(answer="unknown", reason=f"the graph could not be evaluated: {type(error).__name__}: {words}")


def _first_broken(case: _Case, make_variants: VariantMaker, size: int, masks_infinite: bool = False) -> ProofVariant | None:
    """The first variant whose outputs do not agree, for several choices of the indeterminates; None where all agree."""
    for seed in range(case.tries):
        original: dict[str, Tensor] | None = None
        constants: dict[Node, Any] = {}
        for variant in make_variants(case.leaves, size, seed):
            original = original or Walk(case.program, seed, masks_infinite, constants).outputs(variant.original)
            transformed = Walk(case.program, seed, masks_infinite, constants).outputs(variant.transformed)
            axes = case.batch_axes if isinstance(variant, MovedSequence) else case.axes
            sides = [variant.sides(t, transformed[n], axes.get(n, ())) for n, t in original.items()]
            if not any(s is not None for s in sides) or not all(torch.equal(*s) for s in sides if s is not None):
                return variant
    return None


def _proved(case: _Case, statement: Statement) -> Proof:
    """The graph has one size. What the statement says about others (fewer tokens, a sequence alone) is measured."""
    other = _measured_error(
        case,
        statement,
        lambda pair: not isinstance(pair.transformed, Inputs) or _shapes(pair.original) != _shapes(pair.transformed),
    )
    if other is not None and other[0] > other[1]:
        reason = f"it holds at {case.sizes()}, but the output depends on the number of tokens or sequences"
        return Proof(answer="unknown", reason=reason)
    return Proof(answer="proved")


def _shapes(inputs: Inputs) -> list[Any]:
    return [getattr(getattr(v, "x", v), "shape", None) for v in inputs.values.values()]


def _not_proved(
    case: _Case, name: str, make_variants: VariantMaker, size: int, statement: Statement, broken: ProofVariant
) -> Proof:
    node, without_rule = _culprit(case, broken)
    location: dict[str, Any] = {"operation": operation(node) if node else "", "where": module_of(node) if node else ""}
    if without_rule:
        return Proof(answer="unknown", reason="there is no rule for this operation", **location)
    measured = _measured_error(case, statement, lambda pair: True)
    if measured is None:
        return Proof(answer="unknown", reason="the graph breaks it, and the model could not be measured", **location)
    if measured[0] > measured[1]:
        return Proof(answer="refuted", reason=f"{BREAKS[name]} here; measured at random parameters: {measured[0]:.1e}", **location)
    if _first_broken(case, make_variants, size, masks_infinite=True) is None:
        reason = "it holds if large negative numbers in a mask count as minus infinity: exp gives exactly 0 there by underflow only"
        return Proof(answer="unknown", reason=reason, **location)
    return Proof(answer="unknown", reason="the graph breaks it here, but the measurement does not", **location)


BREAKS = {
    "permute": "values that depend on the position meet values that move with the tokens",
    "causal": "a token depends on a later one",
    "batch": "a sequence depends on another one",
}


def _measured_error(case: _Case, statement: Statement, selected: Callable[[RunPair], bool]) -> tuple[float, float] | None:
    """The largest error of the selected pairs at random parameters, and the threshold above which it is a violation.

    Measured in float64 where the model runs in it, otherwise in its own precision. None where nothing could be measured.
    """
    for dtype, threshold in ((torch.float64, EXACT), (case.subject.dtype, 1e-3)):
        try:
            run = case.random.get(dtype) or case.subject.in_dtype(dtype, random=True)
            case.random[dtype] = run
            pairs = _pairs(case, statement, run)
        except ModelError:
            continue
        errors = []
        for pair in filter(selected, pairs):
            with suppress(ModelError):  # the length may be fixed
                if isinstance(statement, Symmetry) and not statement.representations:
                    statement.infer_representations(run, pair, case.axes)
                errors.append(measure_pair(run, pair, case.axes).error)
        errors = [e for e in errors if e == e]
        if errors:
            return max(errors), threshold
    return None


def _pairs(case: _Case, statement: Statement, run: Pass) -> list[RunPair]:
    """The pairs that measure the statement; for a batch also one of the same size."""
    pairs = list[RunPair]()
    with suppress(ModelError):  # the batch size may be fixed
        pairs += statement.pairs(run, 24 if statement.name == "causal" else 6, torch.Generator().manual_seed(17))
    if isinstance(statement, BatchIndependence):
        own_leaves = proof_leaves(run.inputs)
        transformed = with_leaf_values(
            run.inputs,
            own_leaves,
            tuple(leaf.value if leaf.batch_axis is None else leaf.value.roll(1, leaf.batch_axis) for leaf in own_leaves),
        )
        batch_axes = {name: axes[0] for name, axes in case.batch_axes.items()}
        relation = SameRows(slice(None), slice(None), (case.length,) * 2, (0, 1), batch_axes, (case.batch,) * 2)
        pairs.append(RunPair(run.inputs, transformed, relation, "move every sequence to the next row"))
    return pairs


def _culprit(case: _Case, variant: ProofVariant) -> tuple[Node | None, bool]:
    """The first operation that breaks the statement, and whether it has no rule."""
    walks = Walk(case.program), Walk(case.program)
    violating: set[Node] = set()
    for (node, original), (_, transformed) in zip(
        *(w.steps(v) for w, v in zip(walks, (variant.original, variant.transformed), strict=True)), strict=True
    ):
        if isinstance(original, (Formulas, Tensor)) and not variant.readable(in_field(original), in_field(transformed)):
            violating.add(node)
        elif isinstance(original, (tuple, list)) and node.op == "call_function" and isinstance(original[0], Formulas):
            pairs = zip(original, transformed, strict=True)
            if not all(variant.readable(p.whole, m.whole) for p, m in list(pairs)[:1] if isinstance(p, Formulas)):
                violating.add(node)
    output_nodes = [node for _, node in case.program.outputs if node is not None]
    node = next((n for n in output_nodes if n in violating), next(iter(output_nodes), None))
    while node is not None and node.name.startswith("clone") and node not in violating and node.all_input_nodes:
        node = node.all_input_nodes[0]  # every operation is right, but the output does not have one entry for each token
    while node is not None:
        before = next((n for n in node.all_input_nodes if n in violating), None)
        if before is None:
            break
        node = before
    return node, node in walks[0].without_rule
