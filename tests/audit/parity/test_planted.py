"""A planted difference is named, whichever side has it, and found at the step where it was planted."""

import pytest

import equiscope as eq
from tests.audit.parity import attentions
from tests.audit.parity.configured import CONFIGURED, configured
from tests.audit.parity.families import ids
from tests.audit.parity.planted import cases, pair

OUTSIDE = ("tied head", "output cap", "embedding scale", "position offset")  # planted before the layers or after them
ALL = list(cases())


def parametrized(chosen, default):
    return pytest.mark.parametrize(
        ("family", "second", "changed", "both", "permuted", "kind"),
        [pytest.param(*c[1:], id=c[0], marks=() if c in default else pytest.mark.thorough) for c in chosen],
    )


def of_each_kind(chosen):
    """The first case of each kind of cause."""
    return list({case[-1]: case for case in reversed(chosen)}.values())


ELSEWHERE = {  # kinds that a default pair of test_sets.py or test_further.py has
    "softmax axis", "mode", "residual", "embedding scale", "position offset", "activation", "transposed", "norm placement",
    "norm bias", "norm kind", "epsilon", "softmax scale", "head order", "rope base", "output cap",
}  # fmt: skip
TURNS = {"rope offset", "rope width", "rope scaling"}  # beside rope layout and rope direction, by --thorough
IN_ORDER = [case for case in ALL if not case[-2]]
AGAIN = [case for case in of_each_kind(CONFIGURED) if case[-1] == "softmax scale"]  # the others by --thorough


@parametrized(IN_ORDER, [case for case in of_each_kind(IN_ORDER) if case[-1] not in ELSEWHERE | TURNS])
def test_the_cause_of_a_planted_difference_is_named(family, second, changed, both, permuted, kind):
    a, b = pair(family, second, changed, both, permuted)
    found = eq.parity(a, b, ids(), differences=1)
    assert not found.holds
    assert found.kind == kind
    assert found.cause
    if kind not in OUTSIDE:
        assert found.step_a.module.startswith(("layers.0", "h.0"))
        assert found.step_b.module.startswith("blocks.1" if kind == "residual" else "blocks.0")


@pytest.mark.thorough
@parametrized(ALL, ALL)
def test_the_cause_is_named_in_both_directions_and_with_permuted_weights(family, second, changed, both, permuted, kind):
    a, b = pair(family, second, changed, both, permuted)
    for sides in ((a, b), (b, a)):
        assert eq.parity(*sides, ids(1), differences=1).kind == kind


@pytest.mark.parametrize("case", attentions.CASES, ids=[case[0] for case in attentions.CASES])
def test_a_difference_of_one_attention_is_named_in_both_directions(case):
    _, ours, theirs, kind = case
    sides = attentions.First(**ours), attentions.Second(**theirs)
    for pair_ in (sides, sides[::-1]):
        found = eq.parity(*pair_, attentions.inputs(), differences=1)
        assert found.kind == kind
        assert found.holds == (not kind)


@pytest.mark.parametrize("ours", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["transformers", "ours"])
@pytest.mark.parametrize(
    ("name", "changed", "kind"),
    [pytest.param(*c, marks=() if c in AGAIN else pytest.mark.thorough) for c in CONFIGURED],
)
def test_a_changed_field_of_a_configuration_is_named(name, changed, kind, ours, tmp_path):
    pytest.importorskip("transformers")
    a, b = configured(name, changed, tmp_path, ours)
    assert eq.parity(a, b, ids(), differences=1).kind == kind
