"""Hypothesis: elements of an action as a strategy, so that a property-based test can draw and shrink them.

Hypothesis is imported on use. An element shrinks towards the simplest one: a permutation towards an exchange of two neighbours, a
shift towards 1.
"""

from typing import Any

from torch import Generator

from equiscope.errors import InputError
from equiscope.symmetry import Action, Inputs, Permute, Shift, inputs_of, named

SHIFT = 1000  # as far as a check shifts


def elements(action: type[Action] | str, *inputs: Any, **kwargs: Any) -> Any:
    """Elements of an action for a model that is called with these arguments (or with one `Inputs`).

    raises  InputError where the action does not apply to these inputs, or Hypothesis is not installed
    """
    try:
        from hypothesis import strategies as st
    except ImportError as error:
        raise InputError("Strategies need Hypothesis, which is not installed. Do: pip install hypothesis") from error
    action_class = named(action) if isinstance(action, str) else action
    named_inputs = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Inputs) else inputs_of(inputs, kwargs)
    if issubclass(action_class, Action) and (why := action_class.missing(named_inputs)):
        raise InputError(f"There is no element of {action_class.name!r} for these inputs: {why}. Given: {named_inputs.describe()}.")
    if action_class is Permute:
        return _permutations(named_inputs.length or 0)
    if action_class is Shift and not named_inputs.has("tokens", "coordinates"):
        return st.integers(1, SHIFT).map(Shift)
    simple = list(action_class.simpler(named_inputs)) if issubclass(action_class, Action) else []
    sampled = st.integers(0, 2**31 - 1).map(lambda seed: action_class.sample(named_inputs, Generator().manual_seed(seed)))
    return st.one_of(st.sampled_from(simple), sampled) if simple else sampled


def _permutations(length: int) -> Any:
    """Permutations of `length` tokens, composed of exchanges so that fewer are simpler; never the identity."""
    from hypothesis import strategies as st

    exchange = st.tuples(st.integers(0, length - 2), st.integers(0, length - 2))

    def order(exchanges: list[tuple[int, int]]) -> Permute:
        rows = list(range(length))
        for i, step in exchanges:
            j = (i + 1 + step) % length
            rows[i], rows[j] = rows[j], rows[i]
        return Permute(tuple(rows))

    changing = st.lists(exchange, min_size=1, max_size=2 * length).map(order)
    return changing.filter(lambda g: g.order != tuple(range(length)))


__all__ = ["elements"]
