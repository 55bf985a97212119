"""`equiscope.parity` at a third set of pairs, whose author had not read it.

`first_run.json` keeps what the first run said of each wrong pair; `known_failures.json` lists those that it gets wrong today: a
test fails when a listed pair passes, so that the list stays true.
"""

import json
from pathlib import Path

import pytest
import torch

from ..planted_by_others.judged import judge, judge_healthy
from ..table_of_planted import params
from .cases import CASES, FAMILIES, HEALTHY, pair

KNOWN = json.loads(Path(__file__).with_name("known_failures.json").read_text())
DEFAULT = {
    "llama-head_order-torch",
    "moe-norm_kind-torch",
    "t5-activation-safetensors",
    "gpt2-position_offset-onnx",
    "healthy-whisper-torch",
}


def difference(family, fault="", at=-1):
    """The largest difference of the outputs in float64, relative to the largest output."""
    a, b, inputs, _ = pair(family, fault, at)
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        x, y = a.double()(*inputs), b.double()(*inputs)
    return ((x - y).abs().max() / x.abs().max()).item()


def test_names_are_distinct_and_the_lists_know_them():
    names = [c.name for c in CASES] + list(HEALTHY)
    assert len(set(names)) == len(names)
    assert set(KNOWN) | DEFAULT <= set(names)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_and_its_port_agree(family):
    assert difference(family) < 1e-12  # float64: rounding only, measured 2e-15


def test_what_is_planted_changes_the_output():
    """A norm that casts in another order is equal in float64: only half precision tells."""
    for family, fault, at, *_ in (case.make.args for case in CASES):
        assert (difference(family, fault, at) > 1e-8) == (fault != "cast"), (family, fault)


def test_each_cause_of_the_issue_is_planted_in_three_families():
    families = {}
    for case in CASES:
        for kind in case.kinds:
            families.setdefault(kind, set()).add(case.family)
    assert all(
        len(families[kind]) >= 3
        for kind in (
            "rope base", "rope scaling", "rope layout", "head order", "head width", "softmax scale", "epsilon", "norm kind",
            "norm placement", "cast", "soft-cap", "window", "mask alignment", "padding side", "tied head", "bias", "activation",
            "embedding scale", "position offset", "mode",
        )
    )  # fmt: skip


@pytest.mark.parametrize("name", params([c.name for c in CASES], DEFAULT))
def test_the_first_differing_step_and_its_cause_are_found(name):
    answer = judge(next(c for c in CASES if c.name == name))
    assert (answer.step and answer.cause) != (name in KNOWN), answer


@pytest.mark.parametrize("name", params(HEALTHY, DEFAULT))
def test_a_healthy_pair_raises_no_alarm(name):
    answer = judge_healthy(name, HEALTHY[name])
    assert answer.step != (name in KNOWN), answer
