"""Asserts: one statement about a model as a line of a test suite.

Each runs `check` for one statement. Its message gives the error, the smallest counterexample, the module and the cause. No
tolerance has to be chosen: what holds up to rounding passes. An undecided statement does not pass, and the message says why.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from torch import nn

from equiscope.audit.checking import check
from equiscope.audit.listeners import accepted
from equiscope.audit.statements.statement import ActionChoice, Output, PropertyChoice
from equiscope.record import Row
from equiscope.record.report import finding

__tracebackhide__ = True  # pytest shows the line of the test and the message, not the functions of this file


def assert_equivariant(
    model: nn.Module, *inputs: Any, action: ActionChoice, output: Output = None, tolerance: float | None = None, **settings: Any
) -> Row:
    """The outputs transform under the action.

    action     a name ("permute", "shift", ...), an Action, or a class of your own with sample, on_input, on_output
    output     how the outputs transform: "invariant", "permuted", ... for all, or by name; None: inferred
    tolerance  a violation below it passes; None: only rounding passes
    settings   as for `check`: kwargs, kinds, pick, mode, effort, seed
    returns    the row of the audit
    raises     AssertionError with the evidence
    """
    return assert_holds(model, *inputs, actions=[action], output=output, tolerance=tolerance, **settings)


def assert_invariant(model: nn.Module, *inputs: Any, action: ActionChoice, tolerance: float | None = None, **settings: Any) -> Row:
    """The outputs do not change under the action. Arguments as for `assert_equivariant`."""
    return assert_holds(model, *inputs, actions=[action], output="invariant", tolerance=tolerance, **settings)


def assert_causal(model: nn.Module, *inputs: Any, tolerance: float | None = None, **settings: Any) -> Row:
    """The output at a token does not depend on later ones."""
    return assert_holds(model, *inputs, properties=["causal"], tolerance=tolerance, **settings)


def assert_cache_exact(model: nn.Module, *inputs: Any, tolerance: float | None = None, **settings: Any) -> Row:
    """Running token by token with a cache gives the outputs of one pass."""
    return assert_holds(model, *inputs, properties=["cache"], tolerance=tolerance, **settings)


def assert_batch_independent(model: nn.Module, *inputs: Any, tolerance: float | None = None, **settings: Any) -> Row:
    """The output of a sequence does not depend on the others in its batch."""
    return assert_holds(model, *inputs, properties=["batch"], tolerance=tolerance, **settings)


def assert_padding_exact(
    model: nn.Module, *inputs: Any, sides: Sequence[str] = ("left", "right"), tolerance: float | None = None, **settings: Any
) -> list[Row]:
    """Padding does not change the outputs at the tokens. sides: "left", "right" or both."""
    names = [f"{side}-padding" for side in sides]
    return [assert_holds(model, *inputs, properties=[name], tolerance=tolerance, **settings) for name in names]


def assert_holds(
    model: nn.Module,
    *inputs: Any,
    actions: Sequence[ActionChoice] = (),
    properties: Sequence[PropertyChoice] = (),
    tolerance: float | None = None,
    proof: bool | None = False,
    **settings: Any,
) -> Row:
    """Each of these statements holds: for actions and properties without an assert of their own. Returns the last row.

    A row that the baseline file of a pytest session accepts need not hold: its `accepted` has the reason.

    proof  as for `check`; False by default, as what is measured decides
    """
    limits: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
    audit = check(model, *inputs, actions=list(actions), properties=list(properties), proof=proof, **limits, **settings)
    passing = ("holds",) if tolerance is None else ("holds", "approximate")
    requested = audit.rows[: len(actions) + len(properties)]  # `pure`, which is always measured, comes after them
    judged = [replace(row, fails=row.verdict not in passing) for row in requested]
    judged = accepted(replace(audit, rows=judged)).rows
    failing = [row for row in judged if row.fails]
    if failing:
        messages = [_message(row, finding(audit, row)) for row in failing]
        raise AssertionError("\n".join(messages))
    return judged[-1]


def _message(row: Row, sentences: list[str]) -> str:
    """The violation in one line, and the evidence below it."""
    if row.verdict in ("undecided", "not applicable"):
        return f"{row.name}: {row.verdict}, so nothing was shown ({row.summary}).\n  {row.note or 'No reason was given.'}"
    return "\n  ".join([f"{row.name}: {row.verdict}: {row.summary}.", *sentences])
