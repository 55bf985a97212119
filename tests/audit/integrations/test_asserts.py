"""Asserts pass where a statement holds, and their message explains the violation where it does not."""

import pytest

import equiscope as eq
from equiscope.audit import (
    assert_batch_independent,
    assert_cache_exact,
    assert_causal,
    assert_equivariant,
    assert_holds,
    assert_invariant,
    assert_padding_exact,
)
from tests.audit.zoo import AddAt, Attend, Batched, Causal, Layers, Pooled, Table, features, placed
from tests.audit.zoo_behaviour import Factor, NotNumbers


def test_a_set_is_equivariant_and_its_mean_is_invariant():
    assert assert_equivariant(Attend(), *features(), action="permute").verdict == "holds"
    assert assert_invariant(Pooled(), *features(), action="permute").output == "invariant"


def test_what_is_equivariant_is_not_invariant():
    with pytest.raises(AssertionError, match=r"permute: broken"):
        assert_invariant(Attend(), *features(), action="permute")


def test_the_message_says_what_broke_how_little_is_enough_and_where():
    with pytest.raises(AssertionError) as failure:
        assert_equivariant(Layers(attend=Attend(), places=Table()), *features(), action=eq.symmetry.Permute)
    said = str(failure.value)
    assert said.startswith("permute: broken: permute the tokens.")
    assert "exchange the tokens 0 and 1 of 2" in said
    assert "places" in said


def test_nothing_is_proved_unless_asked():
    assert assert_causal(Causal(), *features()).proof is None
    assert assert_causal(Causal(), *features(), proof=True).proof.answer == "proved"


def test_a_model_that_reads_the_future_is_found():
    assert_causal(Causal(), *features())
    with pytest.raises(AssertionError, match=r"(?s)causal: broken.*change token 1 of 2.*second"):
        assert_causal(Layers(first=Causal(), second=Causal(reach=2)), *features())


def test_a_sequence_that_depends_on_its_batch_is_found():
    assert_batch_independent(Batched(), *features())
    with pytest.raises(AssertionError, match="batch: broken"):
        assert_batch_independent(Batched(), *features(), mode="train")


def test_a_violation_passes_only_where_a_tolerance_is_given():
    faint = Factor(Layers(places=Table(), attend=Attend()), plus=1e4)
    with pytest.raises(AssertionError, match="permute: approximate"):
        assert_equivariant(faint, *features(), action="permute")
    assert assert_equivariant(faint, *features(), action="permute", tolerance=1e-2).verdict == "approximate"
    with pytest.raises(AssertionError, match="broken"):
        assert_equivariant(faint, *features(), action="permute", tolerance=1e-9)


@pytest.mark.parametrize(("model", "action", "why"), [(NotNumbers(), "permute", "not finite"), (Attend(), "shift", "no ")])
def test_an_answer_that_cannot_be_had_is_no_pass(model, action, why):
    with pytest.raises(AssertionError, match=f"(?s)(undecided|not applicable), so nothing was shown.*{why}"):
        assert_equivariant(model, *features(), action=action)


def test_a_cache_and_padding_need_a_model_that_has_them():
    with pytest.raises(AssertionError, match=r"cache: not applicable.*\n.*keeps no cache"):
        assert_cache_exact(Attend(), *features())
    with pytest.raises(AssertionError, match="takes no padding mask"):
        assert_padding_exact(Attend(), *features(), sides=["left"])


def test_several_violations_are_reported_together():
    with pytest.raises(AssertionError) as failure:
        assert_holds(AddAt("span"), *placed(), actions=["permute", "shift", "reverse"])
    said = str(failure.value)
    assert "permute: broken" in said
    assert "reverse: broken" in said
    assert "shift" not in said


def test_an_unknown_action_lists_those_there_are():
    with pytest.raises(eq.errors.UnknownName, match="permute"):
        assert_equivariant(Attend(), *features(), action="permutation")
