"""Audit: measures which symmetries and properties any torch.nn.Module has, with evidence.

Names are loaded on first use: pytest imports the plugin in this package at every start, which needs no torch and costs no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equiscope.audit.checking import check
    from equiscope.audit.integrations.asserts import (
        assert_batch_independent,
        assert_cache_exact,
        assert_causal,
        assert_equivariant,
        assert_holds,
        assert_invariant,
        assert_padding_exact,
    )
    from equiscope.audit.integrations.calculator_module import CalculatorModule
    from equiscope.audit.parity.causes.finding import CAUSES
    from equiscope.audit.replaying import replay
    from equiscope.audit.statements.properties import PROPERTIES
    from equiscope.audit.statements.statement import Statement, Symmetry
    from equiscope.audit.terminal import summary, table

_NAMES = {
    "CAUSES": "parity.causes.finding",
    "CalculatorModule": "integrations.calculator_module",
    "PROPERTIES": "statements.properties",
    "Statement": "statements.statement",
    "Symmetry": "statements.statement",
    "assert_batch_independent": "integrations.asserts",
    "assert_cache_exact": "integrations.asserts",
    "assert_causal": "integrations.asserts",
    "assert_equivariant": "integrations.asserts",
    "assert_holds": "integrations.asserts",
    "assert_invariant": "integrations.asserts",
    "assert_padding_exact": "integrations.asserts",
    "check": "checking",
    "replay": "replaying",
    "summary": "terminal",
    "table": "terminal",
}

__all__ = [
    "CAUSES",
    "PROPERTIES",
    "CalculatorModule",
    "Statement",
    "Symmetry",
    "assert_batch_independent",
    "assert_cache_exact",
    "assert_causal",
    "assert_equivariant",
    "assert_holds",
    "assert_invariant",
    "assert_padding_exact",
    "check",
    "replay",
    "summary",
    "table",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"equiscope.audit has no {name!r}. It has: {', '.join(__all__)}.")
