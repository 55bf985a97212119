"""`equiscope.parity` finds where differences begin and why that somebody else planted, and raises no alarm at healthy pairs.

`known_failures.json` lists the pairs that it gets wrong, with its answer: a test fails when a listed pair passes, so that the list
stays true.
"""

import json
from pathlib import Path

import pytest

from ..table_of_planted import params
from .judged import CASES, HEALTHY, judge, judge_healthy

KNOWN = json.loads(Path(__file__).with_name("known_failures.json").read_text())
DEFAULT = {
    "norm_missing-mixed-torch-queries_and_keys",
    "mixed-bfloat16",
    "rope_base-llama-torch",
    "activation-gpt2-npz",
    "bias_missing-neox-torch",
    "norm_kind-t5-torch",
    "position_offset-bert-torch",
    "softmax_scale-vit-onnx",
    "window-mistral-torch-one_more",
    "head_order-qwen2-torch",
    "soft-cap-gemma2-torch-missing",
    "llama-pairs",
    "gpt2-onnx",
    "bert-padding",
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
