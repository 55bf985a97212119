"""Causes: what explains the first step that differs. Each is a hypothesis that is computed, never read from a name.

A hypothesis takes A's inputs of that step, computes them with one change, and compares the result with B's numbers; then the same
with the sides exchanged. The first one that reproduces the other side is the cause.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from equiscope.audit.parity.causes import (
    activations,
    attention,
    elementwise,
    exchanged,
    norms,
    parameters,
    rotary,
    sums,
    transplanted,
)
from equiscope.audit.parity.causes.finding import CAUSES, NUMERIC, Finding
from equiscope.audit.parity.causes.recorded import RecordedTensors, cause_of_recorded, dropout
from equiscope.audit.parity.causes.replayed import first_nodes
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT

NEXT = 64  # steps of A that may be the one where recorded activations begin to differ
Hypothesis = Callable[[Divergence], Finding | None]

HYPOTHESES: dict[Hypothesis, str] = {  # in the order in which they are tried -> what is changed, in words
    parameters.bias: "a bias", parameters.transposed: "a transposed weight", parameters.tied: "a tied head",
    parameters.other_weights: "other parameters", elementwise.embedding_scale: "the scale of the embedding", norms.norm: "a norm",
    norms.norm_parameters: "the parameters of a norm", activations.activation: "an activation",
    elementwise.position_offset: "positions", sums.changed_term: "a term of a sum", rotary.rotation: "a rotary embedding",
    rotary.of_tables: "tables of sines", rotary.of_values: "a rotation",
    attention.softmax_axis: "the axis of a softmax", attention.attention: "the scores of attention",
    attention.value_heads: "the order of heads", elementwise.cap: "a soft-cap",
    norms.placement: "the placement of a norm", exchanged.fused_layout: "the layout of a fused projection",
    elementwise.residual: "a residual", elementwise.factor: "a factor", elementwise.term: "the factor of a term",
    exchanged.other_input: "what a step reads", exchanged.in_sum: "what a sum adds",
    exchanged.order_of_parts: "the order of parts", transplanted.mask: "a mask",
    transplanted.number: "a number in the code", transplanted.rows: "which rows a step reads",
    transplanted.order: "the order of numbers", exchanged.left_out: "a step", exchanged.skipped: "a block",
    transplanted.table: "a table of integers", transplanted.constants: "constants",
    parameters.in_another_order: "the order of a parameter", parameters.of_sibling: "the parameters of other layers",
}  # fmt: skip


# Beside recorded activations: what A alone can compute, besides causes/recorded.
BESIDE: tuple[Hypothesis, ...] = (
    elementwise.position_offset, sums.changed_term, attention.value_heads, norms.placement, exchanged.fused_layout,
    elementwise.residual, elementwise.factor, exchanged.other_input, exchanged.order_of_parts, transplanted.mask,
    parameters.of_sibling,
)  # fmt: skip


def find(divergence: Divergence) -> Finding:
    """The first cause that reproduces the other side. Where none does: no kind, and as evidence what was tried."""
    if divergence.b_step is None:
        return Finding("", "")
    tried = Counter[str]()
    if divergence.b.is_recorded and divergence.a.program is not None:
        found = _of_recorded(divergence, tried)
    elif divergence.a.is_recorded and divergence.b.program is not None:
        found = _of_recorded(divergence.mirrored(), tried).mirrored()
    else:
        found = _first(divergence, tried)
    return found if found.kind else Finding("", "", evidence=_changes(tried))


def _changes(tried: Counter[str]) -> str:
    """What was tried, in words."""
    changes = ", ".join(f"{what} ({count})" for what, count in tried.items() if count)
    return f"{tried.total()} changes of one side, of which none gives the other side's outputs: {changes}" if changes else ""


def _first(divergence: Divergence, tried: Counter[str]) -> Finding:
    """A cause of the whole difference; where the models differ in several ways, one that explains several steps."""
    near = dict.fromkeys(HYPOTHESES, True)
    found = _confirmed(divergence, tried, near)
    for other in () if found.kind else divergence.others():
        found = _confirmed(other, Counter(), dict.fromkeys(HYPOTHESES, True))
        if found.kind:
            if other.a_step is not divergence.a_step:
                return replace(found, at_a=other.a_step.value)
            return replace(found, at_b=None if other.b_step is None else other.b_step.value)
    return found if found.kind else _confirmed(replace(divergence, whole=False), Counter(), near)


def _of_recorded(divergence: Divergence, tried: Counter[str]) -> Finding:
    """Beside recorded activations: the step that differs is one of A's next, as they do not hold every value."""
    recording = RecordedTensors(divergence)
    found = dropout(recording) or cause_of_recorded(recording, tried)
    if found.kind:
        return found
    near = recording.nearest
    for whole in (True, False):
        known, region = set(divergence.a_explained), divergence.a_region
        for i, node in enumerate(first_nodes(divergence.a, region, NEXT)):
            if node.op not in MOVEMENT:
                here = replace(
                    divergence, a_step=node, a_region=region[i:], a_explained=frozenset(known), gives=recording.gives, whole=whole
                )
                found = _confirmed(here, tried if whole else Counter(), dict.fromkeys(BESIDE, True), mirrored=False)
                if found.kind:
                    return replace(found, at_a=node.value if found.at_a is None else found.at_a)
            known.add(node.value)
            if near is not None and node.value == near[0]:
                break
    return Finding("", "")


def _confirmed(divergence: Divergence, tried: Counter[str], near: dict[Hypothesis, bool], mirrored: bool = True) -> Finding:
    """The first hypothesis among the near ones; then near are those with which numbers of the other side appeared."""
    both = (divergence, divergence.mirrored()) if mirrored else (divergence,)
    for hypothesis, is_near in list(near.items()):
        words, start = HYPOTHESES[hypothesis], len(divergence.replays)
        for swapped, side in enumerate(both) if is_near else ():
            side.reproducing.clear()
            before = len(side.replays)
            try:
                found = hypothesis(side)
            except NUMERIC:
                found = None
            tried[words] += len(side.replays) - before
            if found is not None:
                found = replace(found, mend_a=side.reproducing[-1]) if side.reproducing else found
                return found.mirrored() if swapped else found
        near[hypothesis] = any(divergence.replays[start:])
    return Finding("", "")


__all__ = ["CAUSES", "HYPOTHESES", "Finding", "find"]
