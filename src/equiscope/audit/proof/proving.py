"""Prove: three statements about any module, from its graph of operations alone.

The program runs twice over the field, on letters and on the letters that the statement relates to them. Where all numbers agree,
the outputs are the same formulas, so the statement holds for all inputs and all parameters (at these sizes, rounding aside).
Where they do not, the first operation that breaks it is looked for; it is called refuted only if the running model, at random
parameters, breaks too. Every other case is unknown.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from equiscope.audit.adapt import completed
from equiscope.audit.examples import batched, sequence, varied
from equiscope.audit.pairs import Pair, Rows, measured
from equiscope.audit.proof.formulas import Call, Formulas
from equiscope.audit.proof.program import Leaf, Program, Unexported, leaves, program, rebuilt
from equiscope.audit.proof.variants import Beside, Variant, besides, laters, orders
from equiscope.audit.proof.walk import Random, Walk, module_of, operation
from equiscope.audit.properties.batch import Batch
from equiscope.audit.properties.causal import CausalOutput
from equiscope.audit.statement import Statement, Symmetry
from equiscope.audit.subject import Crashed, Pass, Subject, shortened
from equiscope.audit.where import RIGHT
from equiscope.record import Proof
from equiscope.symmetry import Inputs, Permute

STATEMENTS = ("permute", "causal", "batch")
LENGTHS = (13, 11, 7)  # a longer text is cut to one of these: primes, so that axes are not mixed up when the place is looked for
LONGEST, ROWS, TRIES = 13, 3, 2
LARGE = 1_000_000  # parameters from which on a text is cut to 7 tokens and numbers are drawn once, for the time it takes


def prove(
    model: nn.Module, inputs: Inputs, pick: Any = None, mode: str = "eval", seed: int = 0, names: tuple[str, ...] = STATEMENTS
) -> dict[str, Proof]:
    """Whether a model treats tokens alike whatever their order, reads no later token, and keeps sequences apart.

    inputs   a call of the model; texts are cut to 13 tokens (7 for a large model), and three sequences stand side by side
    pick     which outputs are compared; mode: "eval" or "train"
    returns  permute, causal, batch (or those of `names`) -> proved, refuted or unknown, with the operation and where it stands
    """
    try:
        case = _case(model, completed(model, inputs), pick, mode, seed)
    except (Crashed, Unexported) as failure:
        return {name: Proof(answer="unknown", reason=str(failure)) for name in names}
    return {name: _answer(case, name) for name in names}


@dataclass
class _Case:
    """A model at the sizes at which it is proved."""

    subject: Subject
    program: Program
    parts: list[Leaf]
    axes: dict[str, tuple[int, ...]]
    across: dict[str, tuple[int, ...]]
    tries: int = TRIES
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


def _case(model: nn.Module, inputs: Inputs, pick: Any, mode: str, seed: int) -> _Case:
    failure: Crashed | None = None
    large = sum(p.numel() for p in model.parameters()) > LARGE
    for sized in _sized(inputs, LENGTHS[-1] if large else LONGEST):
        subject = Subject(model, sized, pick, mode, seed)
        run = subject.at(subject.dtype)
        try:
            run(run.inputs)
            axes = subject.axes(run)
        except Crashed as crash:
            failure = crash
            continue
        parts = leaves(sized)
        return _Case(subject, program(subject, sized, parts, list(axes)), parts, axes, _across(subject, run), 1 if large else TRIES)
    assert failure is not None
    raise failure


def _across(subject: Subject, run: Pass) -> dict[str, tuple[int, ...]]:
    """The axis of each output that has one entry a sequence: the one that grows with the batch; the first where none may."""
    if subject.inputs.batch is None:
        return {}
    one = sequence(run.inputs, 0)
    try:
        return {name: (axis,) for name, axis in subject.batch_axes(run, one, batched(one, one)).items()}
    except Crashed:
        return {name: (0,) for name, t in run(run.inputs).items() if t.ndim and t.shape[0] == subject.inputs.batch}


def _sized(inputs: Inputs, longest: int = LONGEST) -> Iterator[Inputs]:
    """Sizes at which it is tried: cut and set side by side, then as given."""
    made = inputs
    if (inputs.length or 0) > longest:
        taken = {s for v in inputs.values.values() if isinstance(v, Tensor) for s in v.shape}
        made = shortened(made, next(n for n in LENGTHS if n <= longest and (n not in taken or n == LENGTHS[-1])))
    if inputs.batch is not None and inputs.batch != ROWS:
        one = sequence(made, 0)
        generator = torch.Generator().manual_seed(0)
        side = one
        for _ in range(ROWS - 1):
            side = batched(side, varied(one, generator))
        yield side
    yield made
    yield inputs


Makes = Callable[[list[Leaf], int, int], Iterator[Variant]]


def _asked(case: _Case, name: str) -> tuple[Makes, int, Statement] | str:
    """How a statement is told in letters; or why it cannot be."""
    if name == "batch":
        if case.batch < 2 or not any(leaf.free and leaf.rows is not None for leaf in case.parts):
            return "the inputs have no axis of sequences side by side"
        if not case.across:
            return "no output has one entry a sequence"
        return besides, case.batch, Batch()
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
    except Random as drawn:
        reason = "it draws random numbers, or it is a graph of its own"
        return Proof(answer="unknown", operation=operation(drawn.node), where=module_of(drawn.node), reason=reason)
    except Exception as error:  # a graph may hold anything: what we cannot walk is not known
        words = " ".join(str(error).split())[:120]
        return Proof(answer="unknown", reason=f"the graph could not be walked: {type(error).__name__}: {words}")


def _first_broken(case: _Case, makes: Makes, size: int, deep: bool = False) -> Variant | None:
    """The first variant whose outputs do not agree, of several choices of letters; None where all do."""
    for seed in range(case.tries):
        plain: dict[str, Tensor] | None = None
        kept: dict[Node, Any] = {}
        for variant in makes(case.parts, size, seed):
            plain = plain or Walk(case.program, seed, deep, kept).outputs(variant.plain)
            moved = Walk(case.program, seed, deep, kept).outputs(variant.moved)
            axes = case.across if isinstance(variant, Beside) else case.axes
            sides = [variant.sides(t, moved[n], axes.get(n, ())) for n, t in plain.items()]
            if not any(s is not None for s in sides) or not all(torch.equal(*s) for s in sides if s is not None):
                return variant
    return None


def _proved(case: _Case, statement: Statement) -> Proof:
    """The graph has one size. What the statement says of others (fewer tokens, a sequence alone) is measured."""
    other = _error(case, statement, lambda pair: not isinstance(pair.moved, Inputs) or _shapes(pair.plain) != _shapes(pair.moved))
    if other is not None and other[0] > other[1]:
        return Proof(answer="unknown", reason=f"it holds at {case.sizes()}, but what comes out depends on how many there are")
    return Proof(
        answer="proved", reason=f"at {case.sizes()}, for all inputs and parameters (tested modulo 2^31 - 1, {case.tries} times)"
    )


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


def _error(case: _Case, statement: Statement, wanted: Callable[[Pair], bool]) -> tuple[float, float] | None:
    """The largest error at random parameters of the pairs that are wanted, and from which on it counts.

    In float64, where the model runs in it, otherwise in its own precision. None where nothing could be measured.
    """
    for dtype, border in ((torch.float64, RIGHT), (case.subject.dtype, 1e-3)):
        try:
            run = case.random.get(dtype) or case.subject.at(dtype, random=True)
            case.random[dtype] = run
            pairs = _pairs(case, statement, run)
        except Crashed:
            continue
        found = []
        for pair in filter(wanted, pairs):
            with suppress(Crashed):  # it may take texts of one length only
                if isinstance(statement, Symmetry) and not statement.found:
                    statement.settle(run, pair, case.axes)
                found.append(measured(run, pair, case.axes).error)
        found = [e for e in found if e == e]
        if found:
            return max(found), border
    return None


def _pairs(case: _Case, statement: Statement, run: Pass) -> list[Pair]:
    """Those that the statement is measured by; of a batch also one of the same size."""
    pairs = list[Pair]()
    with suppress(Crashed):  # it may take batches of one size only
        pairs += statement.pairs(run, 6, torch.Generator().manual_seed(17))
    if isinstance(statement, Batch):
        own = leaves(run.inputs)
        moved = rebuilt(run.inputs, own, tuple(leaf.value if leaf.rows is None else leaf.value.roll(1, leaf.rows) for leaf in own))
        across = {name: axes[0] for name, axes in case.across.items()}
        same = Rows(slice(None), slice(None), (case.length,) * 2, (0, 1), across, (case.batch,) * 2)
        pairs.append(Pair(run.inputs, moved, same, "every sequence in the next row"))
    return pairs


def _culprit(case: _Case, variant: Variant) -> tuple[Node | None, bool]:
    """The operation from which on the outputs are wrong, and whether that is one without a rule."""
    walks = Walk(case.program), Walk(case.program)
    blank = Call(None, (), {})
    bad: set[Node] = set()
    for (node, plain), (_, moved) in zip(
        *(w.steps(v) for w, v in zip(walks, (variant.plain, variant.moved), strict=True)), strict=True
    ):
        if isinstance(plain, (Formulas, Tensor)) and not variant.readable(blank.lifted(plain), blank.lifted(moved)):
            bad.add(node)
        elif isinstance(plain, (tuple, list)) and node.op == "call_function" and isinstance(plain[0], Formulas):
            pairs = zip(plain, moved, strict=True)
            if not all(variant.readable(p.t, m.t) for p, m in list(pairs)[:1] if isinstance(p, Formulas)):
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
