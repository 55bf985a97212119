"""Over modules whose truth is proven, the check says the truth: both signs, three seeds, the default effort."""

import importlib
import pkgutil

import pytest
import torch

import tests.audit
from tests.audit.case import Case, faults

ZOOS = [m.name for m in pkgutil.iter_modules(tests.audit.__path__) if m.name.startswith("zoo")]
CASES: list[Case] = [case for zoo in ZOOS for case in importlib.import_module(f"tests.audit.{zoo}").CASES]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_check_says_the_truth(case, seed):
    torch.manual_seed(seed)
    assert not faults(case, case.row(seed))


def test_no_two_cases_have_one_name():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
