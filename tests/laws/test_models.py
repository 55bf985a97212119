"""Laws of whole models: what `derive` says of a spec is what `measure` finds, for every scheme, norm and read-out."""

import pytest
import torch
from tests.drawn import HEADS, LENGTH, LISTED, WIDTH, placed, randomised, title, uneven, words
from tests.pairwise import each_value, pairwise

import equiscope as eq
from equiscope.models import READOUTS
from equiscope.positions import Alibi, Index, NoPosition, Rope, Sinusoidal
from equiscope.symmetry import CLAIMED, Permute, Reverse, Shift, closed, derive, measure, named, relative_error

KEPT = ("holds",)
LOST = ("broken", "approximate")


def model(position, readout="each", norm=eq.Norm(order="post"), causal=False, seed=0, layers=1, **block):  # noqa: B008
    attention = eq.Attention(heads=HEADS, position=position, causal=causal, bias=True)
    part = eq.Block(attention=attention, norm=norm, feedforward=eq.FeedForward(inner=10), **block)
    return randomised(eq.build(eq.Spec(width=WIDTH, layers=layers, block=part, readout=readout)), seed)


def verdicts(made, tokens=None):
    """What is claimed of each action, and the verdict of a measurement on one element of it."""
    tokens, generator = tokens or placed(made.position, words()), torch.Generator().manual_seed(5)
    claims = {claim.action: claim.holds for claim in derive(made)}
    axes = tokens.positions.shape[-1]
    near = Shift(17) if axes == 1 else Shift(tuple(range(3, 3 + axes)))  # inside every table
    elements = {a: near if a is Shift else a.sample(tokens, generator) for a in CLAIMED}
    return {a: (claims[a.name], measure(made, tokens, element).verdict) for a, element in elements.items()}


def agree(made, tokens=None, exceptions=()):
    for action, (holds, verdict) in verdicts(made, tokens).items():
        if action not in exceptions:
            assert verdict in (KEPT if holds else LOST), f"{action.name}: derived {holds}, measured {verdict}"


norms = pytest.mark.parametrize(
    "norm",
    [None, eq.Norm(order="post"), eq.Norm("rms", order="post"), eq.Norm("rms")],
    ids=["none", "post", "rms-post", "rms-pre"],
)


@pairwise(
    pytest.mark.parametrize("scheme", LISTED, ids=title),
    norms,
    pytest.mark.parametrize("readout", READOUTS),
)
def test_what_is_derived_is_what_is_measured(scheme, norm, readout):
    agree(model(scheme, readout, norm))


@each_value(
    pytest.mark.parametrize("readout", ["each", "mean", "class"]),
    pytest.mark.parametrize("scheme", LISTED, ids=title),
)
def test_a_causal_mask_is_derived_as_it_is_measured(scheme, readout):
    agree(model(scheme, readout, causal=True, layers=2))


@each_value(pytest.mark.parametrize("readout", READOUTS), pytest.mark.parametrize("scheme", LISTED, ids=title))
def test_pre_norm_models_keep_what_is_derived(scheme, readout):
    """Only the kept ones: a LayerNorm before attention may hide what a scheme adds (see below)."""
    for action, (holds, verdict) in verdicts(model(scheme, readout, eq.Norm(order="pre"))).items():
        assert verdict in KEPT or not holds, action.name


@pytest.mark.parametrize("scheme", [NoPosition(), Rope(), Alibi()], ids=title)
def test_two_layers_and_uneven_places_agree_too(scheme):
    agree(model(scheme, layers=2), uneven(words(), whole=False))


@pytest.mark.parametrize("scheme", [Index(), Sinusoidal(waves="sine")], ids=title)
def test_a_layer_norm_removes_what_is_the_same_in_every_feature(scheme):
    """Index, and sines of one speed, add one number to all features, and a LayerNorm subtracts the mean. An RMSNorm does not."""
    made = model(scheme, norm=eq.Norm("layer", order="pre"))
    assert all(holds for holds, _ in verdicts(made).values())
    assert {verdict for _, verdict in verdicts(made).values()} <= {"holds"}
    assert verdicts(model(scheme, norm=eq.Norm("rms", order="pre")))[Permute][1] in LOST


@pytest.mark.parametrize("readout", READOUTS)
def test_without_positions_only_mean_and_class_token_do_not_notice_a_shuffle(readout):
    made, tokens = model(NoPosition(), readout), words()
    order = [2, 0, 1, 5, 3, 4]
    moved, plain = made(Permute(tuple(order)).on_input(tokens)), made(tokens)
    wanted = plain[order] if readout == "each" else plain
    if readout in ("each", "mean", "class"):
        assert relative_error(moved, wanted) < 1e-12  # float64: rounding only
    else:
        assert relative_error(moved, wanted) > 1e-2


def test_a_class_token_stays_behind_the_last_word_when_the_words_turn_round():
    """So ALiBi's Reverse does not survive it; without positions the claim follows from Permute's."""
    claims = {c.action: c for c in derive(model(Alibi(), "class"))}
    assert (claims["reverse"].holds, claims["reverse"].decided_by) == (False, "readout")
    assert {c.action: c.holds for c in derive(model(NoPosition(), "class"))}["reverse"]


@pytest.mark.quick
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_derived_claims_are_closed_and_name_the_part_that_decides(scheme, readout):
    made = model(scheme, readout)
    claims = derive(made)
    holding = frozenset(named(c.action) for c in claims if c.holds)
    assert closed(holding) == holding
    parts = dict(made.named_modules())
    for claim in claims:
        assert claim.reason
        assert claim.holds or named(claim.action) not in parts[claim.decided_by].preserves


@pytest.mark.parametrize("element", [Shift(3), Reverse(), Permute(tuple(reversed(range(LENGTH))))], ids=str)
def test_a_batch_is_measured_like_a_sequence(element):
    assert measure(model(NoPosition()), words(batch=(2,)), element).verdict in KEPT
    assert measure(model(Sinusoidal()), words(batch=(2,)), element).verdict in LOST
