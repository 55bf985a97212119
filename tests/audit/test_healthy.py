"""The default check raises no false alarm on classes that are taken to be sound: one of them here, all sixty with --thorough."""

import importlib.util
import inspect
from pathlib import Path

import pytest

from equiscope.audit import check
from equiscope.audit.inputs.targets import target
from tests.pairwise import few

from .healthy import FIXED, FOUND, HEALTHY, SHORT

CONFIRM = Path(__file__).parents[2] / "docs" / "why" / "confirm" / "in_transformers.py"


def failed(name, **how):
    model, args, kwargs, kinds, *_ = target(f"transformers:{name}")
    audit = check(model, *args, kwargs=kwargs, kinds=kinds, **how)
    return {row.name: (row.verdict, row.error, row.where) for row in audit.failed}


@pytest.mark.parametrize("name", few(SHORT, 1))
def test_a_sound_class_has_no_failing_row(name):
    assert failed(name, effort="quick", proof=False) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("name", HEALTHY)
def test_a_sound_class_has_no_failing_row_in_the_default_check(name):
    assert failed(name) == {}


def test_a_class_leaves_the_list_only_with_a_confirmed_finding():
    spec = importlib.util.spec_from_file_location("in_transformers", CONFIRM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    confirmed = {function.__name__: inspect.getdoc(function) for function in module.FINDINGS}
    assert len(FIXED) == len(set(FIXED)) == 60
    assert set(FOUND) <= set(FIXED)
    assert set(FOUND.values()) <= set(confirmed)
