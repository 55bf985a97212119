"""For the small modules with proven truth, no proof contradicts it, and most are decided."""

import pytest
import torch

from equiscope.audit.proof import STATEMENTS, prove
from equiscope.audit.subject import arguments
from equiscope.symmetry import inputs_of
from tests.audit.case import Case
from tests.audit.zoo import CASES

ASKED = [case for case in CASES if case.statement in STATEMENTS]
FIRST = {(case.statement, case.truth): case for case in reversed(ASKED)}.values()  # one of every statement and truth
CONTRARY = [("broken", "proved"), ("holds", "refuted"), ("undecided", "refuted")]


def answer(case: Case) -> str:
    torch.manual_seed(0)
    model, given = case.factory(), case.inputs() if callable(case.inputs) else case.inputs
    inputs = inputs_of(given, case.settings.get("kwargs"), arguments(model), case.settings.get("kinds"))
    return prove(model, inputs, case.settings.get("pick"), case.settings.get("mode", "eval"), names=(case.statement,))[
        case.statement
    ].answer


def test_no_proof_contradicts_a_truth():
    assert not {case.name for case in FIRST if (case.truth, answer(case)) in CONTRARY}


@pytest.mark.thorough
def test_no_proof_of_all_contradicts_a_truth_and_most_are_decided():
    found = {case.name: (case.truth, answer(case)) for case in ASKED}
    assert not {name: pair for name, pair in found.items() if pair in CONTRARY}
    decided = [pair for pair in found.values() if pair[0] != "undecided"]
    unknown = [name for name, (truth, said) in found.items() if truth != "undecided" and said == "unknown"]
    assert len(unknown) * 8 <= len(decided), unknown
