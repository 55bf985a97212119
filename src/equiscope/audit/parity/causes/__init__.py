"""Causes: what explains the first step that differs. Each is a hypothesis that is computed, never read from a name.

A hypothesis takes A's inputs of that step, computes them with one change, and compares the result with B's numbers; then the same
with the sides exchanged. The first one that reproduces the other side is the cause.
"""

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
from equiscope.audit.parity.causes.finding import CAUSES, Finding
from equiscope.audit.parity.causes.replayed import first_nodes
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT

NEXT = 32  # steps of A that may be the one where recorded activations begin to differ
Hypothesis = Callable[[Divergence], Finding | None]

HYPOTHESES: tuple[Hypothesis, ...] = (
    parameters.bias, parameters.transposed, parameters.tied, parameters.other_weights, elementwise.embedding_scale, norms.norm,
    norms.norm_parameters, activations.activation, elementwise.position_offset, sums.changed_term, rotary.rotation,
    attention.attention, attention.value_heads, elementwise.cap, norms.placement, exchanged.fused_layout, elementwise.residual,
    elementwise.factor, exchanged.other_input, exchanged.order_of_parts,
    transplanted.mask, transplanted.number, transplanted.order,
)  # fmt: skip


def find(divergence: Divergence) -> Finding:
    """The first cause that reproduces the other side; an empty one where none does."""
    if divergence.b_step is None:
        return Finding("", "")
    if divergence.b.program is None and not divergence.b_step.op:
        return _of_recorded(divergence)
    if divergence.a.program is None and not divergence.a_step.op:
        return _of_recorded(divergence.mirrored()).mirrored()
    return _first(divergence)


def _first(divergence: Divergence) -> Finding:
    """A cause of the whole difference; where the models differ in several ways, one that explains several steps."""
    found = _confirmed(divergence)
    return found if found.kind else _confirmed(replace(divergence, whole=False))


def _of_recorded(divergence: Divergence) -> Finding:
    """Of recorded activations: they do not hold every value, so that the step that differs is one of A's next."""
    known, region = set(divergence.a_explained), divergence.a_region
    for i, node in enumerate(first_nodes(divergence.a, region, NEXT)):
        if node.op not in MOVEMENT:
            found = _first(replace(divergence, a_step=node, a_region=region[i:], a_explained=frozenset(known)))
            if found.kind:
                return replace(found, at=node.value if found.at is None else found.at)
        known.add(node.value)
    return Finding("", "")


def _confirmed(divergence: Divergence) -> Finding:
    both = divergence, divergence.mirrored()
    for hypothesis in HYPOTHESES:
        for swapped in (False, True):
            side = both[swapped]
            side.reproducing.clear()
            try:
                found = hypothesis(side)
            except (
                RuntimeError,
                ValueError,
                IndexError,
                TypeError,
                KeyError,
            ):  # numbers of a shape that the hypothesis does not have
                found = None
            if found is not None:
                found = replace(found, mend_a=side.reproducing[-1]) if side.reproducing else found
                return found.mirrored() if swapped else found
    return Finding("", "")


__all__ = ["CAUSES", "HYPOTHESES", "Finding", "find"]
