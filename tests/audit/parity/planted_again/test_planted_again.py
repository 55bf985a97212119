"""`equiscope.parity` at pairs for which nothing in it was mended.

`known_failures.json` lists the pairs that it gets wrong, with its answer: a test fails when a listed pair passes, so that the list
stays true.
"""

import json
from pathlib import Path

import pytest

from ..planted_by_others.judged import judge, judge_healthy
from ..table_of_planted import params
from .cases import CASES, HEALTHY

KNOWN = json.loads(Path(__file__).with_name("known_failures.json").read_text())
DEFAULT = {
    "nano-bias-torch",
    "nano-position_offset-onnx",
    "nano-norm_bias-npz",
    "window-rope_layout-torch",
    "alibi-slopes-torch",
    "recurrent-transposed-torch",
    "experts-softmax_axis-torch",
    "healthy-recurrent-torch",
}


def test_names_are_distinct_and_the_lists_know_them():
    names = [c.name for c in CASES] + list(HEALTHY)
    assert len(set(names)) == len(names)
    assert set(KNOWN) | DEFAULT <= set(names)


@pytest.mark.parametrize("name", params([c.name for c in CASES], DEFAULT))
def test_the_first_differing_step_and_its_cause_are_found(name):
    answer = judge(next(c for c in CASES if c.name == name))
    assert (answer.step and answer.cause) != (name in KNOWN), answer


@pytest.mark.parametrize("name", params(HEALTHY, DEFAULT))
def test_a_healthy_pair_raises_no_alarm(name):
    answer = judge_healthy(name, HEALTHY[name])
    assert answer.step != (name in KNOWN), answer
