"""Asserts: one statement about a model, as a line of a test suite.

Each runs `check` for that one statement and says in plain sentences what broke, how little is enough, where and why. No tolerance
has to be chosen: what holds up to rounding passes. An answer that cannot be had is no pass: the reason is in the message.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from equiscope.audit.checking import check
from equiscope.audit.statements.statement import Output
from equiscope.record import Row
from equiscope.record.report import finding


def assert_equivariant(
    model: nn.Module, *inputs: Any, action: Any, output: Output = None, tolerance: float | None = None, **settings: Any
) -> Row:
    """The output moves as the action says.

    action     a name ("permute", "shift", ...), an Action, or a class of your own with sample, on_input, on_output
    output     how outputs move: "invariant", "permuted", ... for all, or by name; None takes the way that holds
    tolerance  a true violation below it passes; None: only what is rounding does
    settings   as for `check`: kwargs, kinds, pick, mode, effort, seed
    returns    the row of the audit
    raises     AssertionError in plain sentences
    """
    return assert_holds(model, *inputs, actions=[action], output=output, tolerance=tolerance, **settings)


def assert_invariant(model: nn.Module, *inputs: Any, action: Any, tolerance: float | None = None, **settings: Any) -> Row:
    """The output stays the same, whatever the action does to the inputs. As `assert_equivariant` otherwise."""
    return assert_holds(model, *inputs, actions=[action], output="invariant", tolerance=tolerance, **settings)


def assert_causal(model: nn.Module, *inputs: Any, tolerance: float | None = None, **settings: Any) -> Row:
    """What is said at a token does not depend on later ones."""
    return assert_holds(model, *inputs, properties=["causal"], tolerance=tolerance, **settings)


def assert_cache_exact(model: nn.Module, *inputs: Any, tolerance: float | None = None, **settings: Any) -> Row:
    """Reading token after token with a cache gives what one pass gives."""
    return assert_holds(model, *inputs, properties=["cache"], tolerance=tolerance, **settings)


def assert_batch_independent(model: nn.Module, *inputs: Any, tolerance: float | None = None, **settings: Any) -> Row:
    """What a sequence gets does not depend on its neighbours in the batch."""
    return assert_holds(model, *inputs, properties=["batch"], tolerance=tolerance, **settings)


def assert_padding_exact(
    model: nn.Module, *inputs: Any, sides: Sequence[str] = ("left", "right"), tolerance: float | None = None, **settings: Any
) -> list[Row]:
    """Empty places in front of a text and behind it change nothing for its words. sides: "left", "right" or both."""
    names = [f"{side}-padding" for side in sides]
    return [assert_holds(model, *inputs, properties=[name], tolerance=tolerance, **settings) for name in names]


def assert_holds(
    model: nn.Module, *inputs: Any, actions: Sequence[Any] = (), properties: Sequence[Any] = (), tolerance: float | None = None,
    **settings: Any,
) -> Row:  # fmt: skip
    """Each of these statements holds: what the others call, for actions and properties without a line of their own."""
    said: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
    audit = check(model, *inputs, actions=list(actions), properties=list(properties), **said, **settings)
    passing = ("holds",) if tolerance is None else ("holds", "approximate")
    asked = audit.rows[: len(actions) + len(properties)]  # `pure`, which is always asked, stands behind them
    wrong = [row for row in asked if row.verdict not in passing]
    if wrong:
        told = [_told(row, finding(audit, row)) for row in wrong]
        raise AssertionError("\n".join(told))
    return asked[-1]


def _told(row: Row, sentences: list[str]) -> str:
    """What broke in one line, and the evidence under it."""
    if row.verdict in ("undecided", "not applicable"):
        return f"{row.name}: {row.verdict}, so nothing was shown ({row.summary}).\n  {row.note or 'No reason was given.'}"
    size = "broken" if row.verdict == "broken" else "broken a little (verdict: approximate)"
    return "\n  ".join([f"{row.name}: {size}: {row.summary}.", *sentences])
