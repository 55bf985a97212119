"""For the small modules with proven truth, no proof contradicts it, and most are decided."""

import torch

from equiscope.audit.proof import STATEMENTS, prove
from equiscope.audit.subject import arguments
from equiscope.symmetry import inputs_of
from tests.audit.case import Case
from tests.audit.zoo import CASES

ASKED = [case for case in CASES if case.statement in STATEMENTS]


def answer(case: Case) -> str:
    torch.manual_seed(0)
    model, given = case.factory(), case.inputs() if callable(case.inputs) else case.inputs
    inputs = inputs_of(given, case.settings.get("kwargs"), arguments(model), case.settings.get("kinds"))
    return prove(model, inputs, case.settings.get("pick"), case.settings.get("mode", "eval"), names=(case.statement,))[
        case.statement
    ].answer


def test_no_proof_contradicts_a_truth_and_most_are_decided():
    found = {case.name: (case.truth, answer(case)) for case in ASKED}
    contrary = [("broken", "proved"), ("holds", "refuted"), ("undecided", "refuted")]
    assert not {name: pair for name, pair in found.items() if pair in contrary}
    decided = [pair for pair in found.values() if pair[0] != "undecided"]
    unknown = [name for name, (truth, said) in found.items() if truth != "undecided" and said == "unknown"]
    assert len(unknown) * 8 <= len(decided), unknown
