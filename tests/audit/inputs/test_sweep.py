"""The sweep over other libraries, on a few classes: sound ones hold, and confirmed findings are found again."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs"))

import sweep  # noqa: E402

HOLDS = ("LlamaForCausalLM", "BloomForCausalLM", "MixtralForCausalLM")
BROKEN = {
    "GPT2LMHeadModel": {sweep.MASK_ALONE, "shift"},
    "FalconMambaForCausalLM": {"cache"},
    "MoshiForCausalLM": {"cache"},
    "ProphetNetForCausalLM": {"causal", "left-padding", sweep.MASK_ALONE, "right-padding"},
}


def broken(rows):
    return {column for column, row in rows.items() if row.verdict in ("approximate", "broken")}


@pytest.mark.thorough  # by default tests/audit/test_healthy.py has one such class
@pytest.mark.parametrize("name", HOLDS)
def test_what_is_sound_is_found_sound(name):
    assert broken(sweep.audit_of(sweep.tiny_model(name), effort="quick")) == set()


@pytest.mark.parametrize("name", [n if n == "GPT2LMHeadModel" else pytest.param(n, marks=pytest.mark.thorough) for n in BROKEN])
def test_what_was_confirmed_without_us_is_found_again(name):
    assert broken(sweep.audit_of(sweep.tiny_model(name), effort="quick")) == BROKEN[name]


def test_a_rope_that_depends_on_the_length_breaks_causality_and_the_cache():
    model = sweep.tiny_model("LlamaForCausalLM", rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
                       max_position_embeddings=8)  # fmt: skip
    asked = {"actions": [], "effort": "quick", "pick": "logits", "proof": False}
    audit = sweep.check(model, kwargs={"input_ids": sweep.WORDS}, properties=["causal", "cache"], **asked)
    assert broken({row.name: row for row in audit}) >= {"causal", "cache"}
    short = sweep.check(model, kwargs={"input_ids": sweep.WORDS[:, :7]}, properties=["causal"], **asked)
    assert short.rows[0].verdict == "holds"


def test_all_generating_classes_are_tried_and_most_can_be_built():
    names = sweep.classes()
    assert len(names) > 100
    assert len(set(names)) == len(names)


def test_options_of_x_transformers_with_a_cache_that_forgets():
    pytest.importorskip("x_transformers")
    for name, wrong in (("rotary", set()), ("shift_tokens, no table", {"cache"})):
        audit = sweep.check(sweep.Adapted(sweep.wrapped(*sweep.OPTIONS[name])), kwargs={"input_ids": sweep.WORDS}, effort="quick",
                            properties=["causal", "cache"], actions=[], pick=sweep._logits, proof=False)  # fmt: skip
        assert broken({row.name: row for row in audit}) == wrong
