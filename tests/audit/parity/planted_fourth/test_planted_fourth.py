"""The fourth set of pairs: without the plant they agree, with it they differ; torch alone compares them."""

from types import SimpleNamespace

import pytest

from equiscope.record.parity import ParityStep
from tests.pairwise import few

from ..outputs import difference
from .cases import CASES, HEALTHY
from .families import FAMILIES, pair


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_and_its_port_agree(family):
    assert difference(*pair(family)) < 1e-12  # float64: rounding only, measured 2e-14


@pytest.mark.parametrize("name", [n for n, make in HEALTHY.items() if make.keywords.get("form", "torch") == "torch"])
def test_a_harmless_change_changes_nothing(name):
    a, b, inputs, _ = HEALTHY[name]()
    assert difference(a, b, inputs) < (1e-6 if name.endswith("table_in_float32") else 1e-12)  # the rounding of a table in float32


@pytest.mark.parametrize("family", few(FAMILIES, 6))
def test_what_is_planted_changes_the_output(family):
    """A norm that casts in another order is equal in float64: only half precision tells."""
    for case in (c for c in CASES if c.family == family and c.form == "torch"):
        _, fault, layer, mode, *_ = case.make.args
        d = difference(*pair(family, fault, layer, "" if mode == "bfloat16" else mode))
        assert (d < 1e-12) if mode == "bfloat16" else (d > 1e-6), (case.name, d)


def test_each_cause_is_planted_in_three_families():
    """Families of one file count once."""
    families = {}
    for case in CASES:
        families.setdefault(case.cause, set()).add(FAMILIES[case.family].port)
    few = {cause: len(found) for cause, found in families.items() if len(found) < 3}
    assert not set(few) - {"rope direction", "rope width", "soft-cap", "sink", "softmax axis", "embedding scale"}, few
    assert len({c.name for c in CASES} | set(HEALTHY)) == len(CASES) + len(HEALTHY)


def answer(a, b, kind=""):
    """What `equiscope.parity` would say of these two steps."""
    step_a, step_b = (ParityStep(module=module, operation="", value=value) for module, value in (a, b))
    return SimpleNamespace(step_a=step_a, step_b=step_b, kind=kind)


def test_an_answer_is_right_only_on_its_own_side_and_under_its_own_name():
    case = {c.name: c for c in CASES}
    mixer, attention = ("stack.0.mixer", "x"), ("layers.0.self_attn", "x")
    assert case["llama-tiled-torch"].right_step(answer(attention, mixer))
    assert not case["llama-tiled-torch"].right_step(answer(attention, ("stack.1.mixer", "x")))
    assert not case["llama-tiled-torch"].right_step(answer(("layers.0.self_attn.o_proj", "x"), mixer))
    assert case["llama-backwards-torch-swapped"].right_step(answer(mixer, attention))
    assert not case["llama-backwards-torch-swapped"].right_step(answer(attention, mixer))
    assert case["llama-base-npz"].right_step(answer(("rotary_emb", "x"), ("", "t001/stack/0/mixer")))
    assert not case["llama-base-npz"].right_step(answer(("rotary_emb", "x"), ("", "t004/stack/0")))
    assert case["sinks-no_sink-torch"].right_cause(answer(attention, mixer))
    assert not case["sinks-no_sink-torch"].right_cause(answer(attention, mixer, "mask"))
    assert not case["llama-tiled-torch"].right_cause(answer(attention, mixer))
