"""Causes: what explains the first step that differs. Each is a hypothesis that is computed, never read from a name.

A hypothesis takes A's inputs of that step, computes them with one change, and compares the result with B's numbers; then the same
with the sides exchanged. The first one that reproduces the other side is the cause.
"""

from collections.abc import Callable

from equiscope.audit.parity.causes import activations, attention, elementwise, norms, parameters, rotary
from equiscope.audit.parity.causes.finding import CAUSES, Finding
from equiscope.audit.parity.divergence import Divergence

Hypothesis = Callable[[Divergence], Finding | None]

HYPOTHESES: tuple[Hypothesis, ...] = (
    parameters.bias, parameters.transposed, parameters.other_weights, elementwise.embedding_scale, norms.norm,
    norms.norm_parameters, activations.activation, elementwise.position_offset, rotary.rotation, attention.attention,
    attention.value_heads, elementwise.cap, norms.placement, elementwise.residual, elementwise.factor,
)  # fmt: skip


def find(divergence: Divergence) -> Finding:
    """The first cause that reproduces the other side; an empty one where none does."""
    if divergence.b_step is None:
        return Finding("", "")
    for hypothesis in HYPOTHESES:
        for exchanged in (False, True):
            try:
                found = hypothesis(divergence.mirrored() if exchanged else divergence)
            except (
                RuntimeError,
                ValueError,
                IndexError,
                TypeError,
                KeyError,
            ):  # numbers of a shape that the hypothesis does not have
                found = None
            if found is not None:
                return found.mirrored() if exchanged else found
    return Finding("", "")


__all__ = ["CAUSES", "HYPOTHESES", "Finding", "find"]
