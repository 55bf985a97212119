"""Hypothesis: elements of an action as a strategy, so that a property test of yours draws them and shrinks them.

Hypothesis is imported when it is asked for. A drawn element shrinks towards the simplest: a permutation towards one exchange of
two neighbours, a shift towards 1.
"""

from typing import Any

from torch import Generator

from equiscope.errors import InputError
from equiscope.symmetry import Action, Inputs, Permute, Shift, inputs_of, named

SHIFT = 1000  # as far as a check shifts


def elements(action: type[Action] | str, *inputs: Any, **kwargs: Any) -> Any:
    """Elements of this action for a model that is called with these arguments (or with one `Inputs`).

    raises InputError where the action moves nothing of what is given, or Hypothesis is not installed
    """
    try:
        from hypothesis import strategies as st
    except ImportError as error:
        raise InputError("Strategies need Hypothesis, which is not installed. Do: pip install hypothesis") from error
    group = named(action) if isinstance(action, str) else action
    given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Inputs) else inputs_of(inputs, kwargs)
    if issubclass(group, Action) and (why := group.missing(given)):
        raise InputError(f"There is no element of {group.name!r} for these inputs: {why}. Given: {given.describe()}.")
    if group is Permute:
        return _orders(given.length or 0)
    if group is Shift and not given.has("tokens", "coordinates"):
        return st.integers(1, SHIFT).map(Shift)
    simple = list(group.simpler(given)) if issubclass(group, Action) else []
    drawn = st.integers(0, 2**31 - 1).map(lambda seed: group.sample(given, Generator().manual_seed(seed)))
    return st.one_of(st.sampled_from(simple), drawn) if simple else drawn


def _orders(length: int) -> Any:
    """Orders of so many tokens, made of exchanges, so that fewer are simpler; never the order that changes nothing."""
    from hypothesis import strategies as st

    exchange = st.tuples(st.integers(0, length - 2), st.integers(0, length - 2))

    def order(exchanges: list[tuple[int, int]]) -> Permute:
        rows = list(range(length))
        for i, step in exchanges:
            j = (i + 1 + step) % length
            rows[i], rows[j] = rows[j], rows[i]
        return Permute(tuple(rows))

    moving = st.lists(exchange, min_size=1, max_size=2 * length).map(order)
    return moving.filter(lambda g: g.order != tuple(range(length)))


__all__ = ["elements"]
