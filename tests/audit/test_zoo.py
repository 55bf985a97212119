"""Over modules whose truth is proven, the check says the truth, both signs; more cases and other seeds are thorough."""

import importlib
import pkgutil

import pytest
import torch

import tests.audit
from equiscope.audit import PROPERTIES
from equiscope.errors import InputError
from equiscope.symmetry import ACTIONS
from tests.audit.case import Case, faults
from tests.drawn import SEEDS

ZOOS = [m.name for m in pkgutil.iter_modules(tests.audit.__path__) if m.name.startswith("zoo")]
CASES: list[Case] = [case for zoo in ZOOS for case in importlib.import_module(f"tests.audit.{zoo}").CASES]


NUMBER = [sum((c.statement, c.truth) == (case.statement, case.truth) for c in CASES[:i]) for i, case in enumerate(CASES)]
FIRST = {case.statement: case for case in reversed(CASES) if case.truth == "broken"}  # of every statement the first violation
MARKED = [  # of every statement and verdict one case is in the default run, and one violation in the quick one
    pytest.param(case, marks=pytest.mark.quick if case in FIRST.values() else pytest.mark.thorough if number > 0 else [])
    for case, number in zip(CASES, NUMBER, strict=True)
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", MARKED, ids=lambda case: case.name)
def test_the_check_says_the_truth(case, seed):
    torch.manual_seed(seed)
    if case.truth == "refused":
        with pytest.raises(InputError, match=case.says):
            case.row(seed)
    else:
        assert not faults(case, case.row(seed))


def test_no_two_cases_have_one_name():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("statement", [*(a.name for a in ACTIONS), *(p.name for p in PROPERTIES)])
def test_every_action_and_property_has_a_case_that_holds_and_one_that_does_not(statement):
    truths = {case.truth for case in CASES if case.statement == statement}
    if statement in ("engines", "embedding"):
        return  # tests/audit/statements/test_engines.py and test_embedding.py
    if statement == "device" and not torch.cuda.is_available():
        assert truths == {"undecided"}  # there is no second device to disagree
    else:
        assert {"holds", "broken"} <= truths
