"""Bad input gets a sentence, and the smallest and emptiest inputs get an answer."""

import math
from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, attending, placed, title, words
from tests.pairwise import pairwise

import equiscope as eq
from equiscope.attention import AttentionContext, Causal, Edges, Everything, MultiHeadAttention, Sigmoid, Window
from equiscope.errors import InputError, ShapeError
from equiscope.positions import Alibi, Kerple, MixedRope, NoPosition, Pope, Rope, SwinBias, T5Bias, TransformerXL
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

schemes = pytest.mark.parametrize("scheme", LISTED, ids=title)


@pairwise(
    schemes,
    pytest.mark.parametrize("batch", [(), (2,), (0,)], ids=str),
    pytest.mark.parametrize("backend", ["eager", "sdpa", "chunked"]),
)
def test_no_token_asks_for_nothing(scheme, batch, backend):
    model = attending(scheme, Causal(), backend=backend)
    out = model(placed(scheme, words(length=0, batch=batch)))
    assert out.shape == (*batch, 0, model.position.widened(WIDTH))


@pytest.mark.parametrize("backend", ["eager", "sdpa", "chunked"])
@schemes
def test_one_token_sees_itself(scheme, backend):
    out = attending(scheme, Causal(), backend=backend)(placed(scheme, words(length=1)))
    assert out.isfinite().all()


@schemes
def test_coordinates_that_are_no_numbers_are_refused(scheme):
    tokens = placed(scheme, words())
    with pytest.raises(InputError, match="NaN"):
        attending(scheme, Causal())(
            replace(tokens, positions=tokens.positions.masked_fill(tokens.positions == tokens.positions.max(), math.nan))
        )


@schemes
def test_coordinates_with_another_number_of_axes_are_refused(scheme):
    if scheme.axes is None:
        pytest.skip("reads any number of axes")
    model = attending(scheme)
    tokens = placed(scheme, words(), axes=scheme.axes + 1)
    with pytest.raises(ShapeError, match=rf"reads {scheme.axes} coordinates? a token, but got {scheme.axes + 1}"):
        model.attention(replace(tokens, x=torch.zeros(6, model.position.widened(WIDTH)).double()), model.position)


def test_a_graph_of_another_size_than_the_sequence_is_refused():
    attention = MultiHeadAttention(WIDTH, HEADS, mask=Edges([(0, 1)], nodes=2)).double()
    with pytest.raises(InputError, match=r"nodes 0..1, but the tokens have ranks 0..5"):
        attention(words())
    with pytest.raises(InputError, match=r"got the edge \(0, 7\). Use nodes=8"):
        Edges([(0, 7)], nodes=2)


def test_a_table_of_more_than_two_to_the_31_weights_is_refused_before_it_is_made():
    long = Tokens.of(torch.zeros(50_000, 2))
    with pytest.raises(ShapeError, match=r"2,500,000,000 weights, more than 2\^31. Use backend=.chunked."):
        MultiHeadAttention(2, 1, backend="eager")(long)


@pytest.mark.parametrize("settings", [{"kv_heads": 3}, {"kv_heads": 0}])
def test_key_heads_that_do_not_divide_the_query_heads_are_refused(settings):
    with pytest.raises(ShapeError, match=r"cannot serve 4 query heads alike. Use a divisor of 4"):
        MultiHeadAttention(8, 4, **settings)


@pytest.mark.parametrize("make", [lambda: Window(0), lambda: eq.attention.Blocks(0), lambda: eq.attention.Dilated(-1)])
def test_masks_of_no_size_are_refused(make):
    with pytest.raises(ShapeError, match="at least 1"):
        make()


def test_places_are_known_to_count_only_as_long_as_they_are_the_same_tensors():
    tokens = Tokens.of(torch.randn(4, 2))
    assert tokens.is_consecutive
    assert tokens.to(torch.float64).is_consecutive
    assert replace(tokens, x=tokens.x + 1).is_consecutive
    assert not replace(tokens, positions=tokens.positions * 2).is_consecutive
    assert not replace(tokens, order=tokens.order.flip(0)).is_consecutive


@pytest.mark.parametrize("mask", [Everything(), Causal()], ids=title)
@schemes
def test_what_a_plan_finds_out_about_places_changes_no_number(scheme, mask):
    """Even places take a value for each distance, others a table; a causal mask over growing ranks takes none."""
    tokens, model = placed(scheme, words(batch=(2,))), attending(scheme, mask, backend="sdpa")
    apart = replace(
        tokens, positions=torch.cat([tokens.positions[:1], tokens.positions[1:] + 2])
    )  # each sequence steady, with its own start
    assert relative_error(model(apart)[0], model(tokens)[0]) < 1e-12
    known, slow = model(tokens), attending(scheme, mask, backend="eager")(tokens)
    assert relative_error(known, slow) < 1e-12


def test_ranks_that_do_not_grow_with_the_rows_are_no_row_numbers():
    model, tokens = attending(NoPosition(), Causal(), backend="sdpa"), words()
    turned = replace(tokens, order=tokens.order.flip(0))
    assert relative_error(model(turned), attending(NoPosition(), Causal(), backend="eager")(turned)) < 1e-12
    assert relative_error(model(turned), model(tokens)) > 1e-3


@pytest.mark.parametrize("scheme", [Rope(), Alibi(), T5Bias()], ids=title)
def test_a_place_that_was_changed_by_hand_is_seen(scheme):
    tokens, model = Tokens.of(words().x), attending(scheme, Causal())
    plain = model(tokens)
    tokens.positions[2] += 5
    assert relative_error(model(tokens), plain) > 1e-4
    assert relative_error(model(tokens), attending(scheme, Causal(), backend="eager")(tokens)) < 1e-12


def test_a_rank_that_was_changed_by_hand_is_seen():
    tokens, model = Tokens.of(words().x), attending(NoPosition(), Causal())
    plain = model(tokens)
    tokens.order[2] += 5
    assert relative_error(model(tokens), plain) > 1e-4


def test_a_number_that_was_lost_by_hand_is_seen():
    tokens, model = Tokens.of(words().x), attending(Rope(), Causal())
    tokens.positions[2] = math.nan
    with pytest.raises(InputError, match="NaN"):
        model(tokens)


def test_padding_without_a_place_is_refused():
    valid = torch.tensor([False, True, True, True, True, True])
    tokens = replace(words(), valid=valid)
    tokens.positions[0] = math.nan
    with pytest.raises(InputError, match="NaN"):
        attending(Rope(), Causal())(tokens)


def test_places_are_looked_at_on_their_own_device():
    tokens, model = Tokens.of(words().x), attending(Rope(), Causal())
    with torch.device("meta"):
        context = AttentionContext(model.position, tokens, tokens)
        assert context.is_row_causal(Causal())


def test_places_at_both_ends_of_the_world_are_numbers():
    tokens = Tokens.of(words().x)
    tokens.positions[0], tokens.positions[1] = -math.inf, math.inf  # their sum is none
    NoPosition().check(tokens.positions)
    tokens.positions[2] = math.nan
    with pytest.raises(InputError, match="NaN"):
        NoPosition().check(tokens.positions)


def test_causality_told_by_rows_makes_no_table(monkeypatch):
    monkeypatch.setattr("equiscope.attention.context.dense_mask", lambda *_: pytest.fail("a table of all pairs"))
    for scheme in (NoPosition(), Rope(), Alibi()):
        attending(scheme, Causal(), backend="sdpa")(Tokens.of(words(batch=(2,)).x))


@pytest.mark.parametrize("far", [1.7e9, math.inf], ids=["seconds of an epoch", "infinite"])
def test_places_too_large_to_count_are_not_taken_for_steps_of_one(far):
    """In float32 the neighbours of 1.7e9 are 128 apart: all of these places are one."""
    tokens = words().to(torch.float32)
    tokens = replace(tokens, positions=torch.full_like(tokens.positions, far))
    assert AttentionContext(Alibi().sized(WIDTH, HEADS, WIDTH // HEADS), tokens, tokens).distance_bias(HEADS) is None
    if far < math.inf:
        found, wanted = (attending(s, Causal()).float()(tokens) for s in (Alibi(), NoPosition()))
        assert relative_error(found, wanted) < 1e-6
    else:
        with pytest.raises(InputError, match="NaN or infinite"):
            attending(T5Bias(), Causal()).float()(tokens)


@pytest.mark.usefixtures("unchecked")
def test_a_norm_that_there_is_not_is_refused():
    with pytest.raises(InputError, match=r'norm cannot be .*: it should be "rms", "layer" or None\. Did you mean layer\?'):
        MultiHeadAttention(8, 2, norm="layernorm")


@pytest.mark.parametrize("scheme", [T5Bias(), Alibi(), SwinBias((8, 8)), Pope(), Kerple()], ids=title)
def test_a_scheme_that_was_made_for_other_heads_is_refused(scheme):
    tokens = placed(scheme, words())
    with pytest.raises(ShapeError, match="was sized for 1 heads, but the attention has 2"):
        MultiHeadAttention(WIDTH, HEADS).double()(tokens, scheme.sized(WIDTH, 1, WIDTH))


@pytest.mark.usefixtures("unchecked")
def test_features_that_do_not_fit_are_refused():
    attention = MultiHeadAttention(WIDTH, HEADS, source_width=3)
    with pytest.raises(ShapeError, match="reads tokens of 8 features, but got 5"):
        attention(Tokens.of(torch.randn(4, 5)), source=Tokens.of(torch.randn(4, 3)))
    with pytest.raises(ShapeError, match="reads source of 3 features, but got 8"):
        attention(Tokens.of(torch.randn(4, 8)))
    with pytest.raises(InputError, match=r"tokens are torch\.int64\. Look ids up"):
        attention(Tokens.of(torch.ones(4, 8, dtype=torch.long)))


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_what_padding_holds_reaches_nobody(value, backend):
    tokens = words(batch=(2,))
    valid = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    model = attending(Rope(), Causal(), backend=backend)
    wanted = model(replace(tokens, valid=valid))[valid]
    x = tokens.x.clone()
    x[~valid] = value
    assert torch.equal(model(replace(tokens, x=x, valid=valid))[valid], wanted)


@pytest.mark.parametrize("backend", ["eager", "sdpa", "chunked"])
@pytest.mark.parametrize("scheme", [MixedRope(axes=1), TransformerXL(), Alibi(), T5Bias()], ids=title)
def test_places_of_some_batch_axes_serve_all_of_them(scheme, backend):
    tokens = words(batch=(2, 2))
    at = torch.stack([torch.arange(6.0), 3 * torch.arange(6.0)]).double().unsqueeze(-1)
    model = attending(scheme, Causal(), backend=backend)
    whole = model(replace(tokens, positions=at.expand(2, 2, 6, 1)))
    assert relative_error(model(replace(tokens, positions=at)), whole) < 1e-13


def test_nobody_to_ask_gives_nothing_also_to_a_sigmoid():
    attention = MultiHeadAttention(WIDTH, HEADS, mask=Causal(), normalizer=Sigmoid()).double()
    for n in (1, 3):
        assert attention(words(length=n, batch=(2,)), source=words(length=0, batch=(2,))).shape == (2, n, WIDTH)
    hidden = replace(words(length=0, batch=(2,)), valid=torch.zeros(2, 0, dtype=torch.bool))
    assert attending(Alibi(), Causal())(hidden).shape == (2, 0, WIDTH)


def test_one_head_without_a_batch_is_turned_by_pope_as_with_one():
    model, tokens = attending(Pope(), Causal(), heads=1), words()
    assert relative_error(model(tokens), model(replace(tokens, x=tokens.x[None]))[0]) < 1e-14
    assert model.attention.attend(tokens, model.position)[1].shape == (6, 6)


def test_batches_that_do_not_match_are_refused():
    attention = MultiHeadAttention(WIDTH, HEADS).double()
    with pytest.raises(ShapeError, match=r"A batch of \(2,\) cannot attend to one of \(3,\)"):
        attention(words(batch=(2,)), source=words(batch=(3,)))


@pytest.mark.usefixtures("unchecked")
def test_flags_of_another_batch_are_refused():
    with pytest.raises(ShapeError, match=r"x is a batch of \(2,\), but valid is one of \(3,\)"):
        replace(words(batch=(2,)), valid=torch.ones(3, 6, dtype=torch.bool))
