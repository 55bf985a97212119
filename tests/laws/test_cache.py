"""The law of the cache: decoding token by token gives what the full pass gives, for every scheme, mask and padding."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, VARIED, WIDTH, attending, placed, randomised, title, uneven, words
from tests.pairwise import pairwise

import equiscope as eq
from equiscope.attention import Blocks, Causal, Everything, MultiHeadAttention, Prefix, Window
from equiscope.errors import InputError
from equiscope.positions import NoPosition, Rope
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

ROUNDING = 1e-10  # float64; measured below 1e-14
LENGTH = 7
schemes = pytest.mark.parametrize("scheme", VARIED, ids=title)


def rows(tokens: Tokens, start: int, stop: int) -> Tokens:
    part = slice(start, stop)
    flags = {n: None if (f := getattr(tokens, n)) is None else f[..., part] for n in ("document", "valid")}
    return Tokens(x=tokens.x[..., part, :], positions=tokens.positions[..., part, :], order=tokens.order[..., part], **flags)


def decoded(model, tokens, cuts=range(LENGTH + 1)):
    """Part after part, with a cache."""
    cache, found = model.attention.cache(), []
    for start, stop in zip(list(cuts)[:-1], list(cuts)[1:], strict=True):
        part = rows(tokens, start, stop)
        part = replace(part, x=model.position.embed(part.x, part.positions))
        found.append(model.attention(part, model.position, cache=cache))
    return torch.cat(found, -2), cache


@pairwise(
    schemes,
    pytest.mark.parametrize("mask", [Causal(), Causal() & Window(3)], ids=["causal", "window"]),
    pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"]),
)
def test_token_by_token_equals_the_full_pass(scheme, mask, batch):
    model, tokens = attending(scheme, mask), placed(scheme, words(length=LENGTH, batch=batch))
    found, cache = decoded(model, tokens)
    assert relative_error(found, model(tokens)) < ROUNDING
    assert cache.length == LENGTH
    assert relative_error(decoded(model, tokens, [0, 3, 4, LENGTH])[0], model(tokens)) < ROUNDING


@schemes
def test_a_left_padded_batch_decodes_as_each_of_its_texts_alone(scheme):
    model, tokens = attending(scheme, Causal()), placed(scheme, words(length=LENGTH, batch=(2,)))
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    valid[1, :3] = False
    found, _ = decoded(model, replace(tokens, valid=valid))
    assert relative_error(found[0], model(rows(tokens, 0, LENGTH))[0]) < ROUNDING
    alone = rows(Tokens(x=tokens.x[1], positions=tokens.positions[1], order=tokens.order[1]), 3, LENGTH)
    assert relative_error(found[1, 3:], model(alone)) < ROUNDING


@pytest.mark.parametrize("scheme", [NoPosition(), Rope()], ids=title)
def test_gaps_in_the_places_are_no_matter(scheme):
    model, tokens = attending(scheme, Causal()), uneven(words(length=LENGTH), whole=False)
    assert relative_error(decoded(model, tokens)[0], model(tokens)) < ROUNDING


def test_a_window_lets_go_of_what_nobody_will_see():
    model, tokens = attending(Rope(), Causal() & Window(3)), words(length=LENGTH)
    _, cache = decoded(model, tokens)
    assert cache.rows["k"].shape[-2] == 2  # the next token sees itself and two more
    assert cache.length == LENGTH


def test_grouped_queries_keep_few_heads():
    model = randomised(MultiHeadAttention(WIDTH, 4, head_width=4, kv_heads=2, mask=Causal()))
    tokens, cache = words(length=LENGTH), model.cache()
    found = torch.cat([model(rows(tokens, i, i + 1), Rope(), cache=cache) for i in range(LENGTH)], -2)
    assert cache.rows["k"].shape[-3] == 2
    assert relative_error(found, model(tokens, Rope())) < ROUNDING


@pytest.mark.parametrize("mask", [Everything(), Window(3), Blocks(4), Causal() | Prefix(2)], ids=title)
def test_a_mask_that_looks_ahead_is_refused_when_the_cache_is_made(mask):
    with pytest.raises(InputError, match=r"needs a causal mask.*Use Causal"):
        MultiHeadAttention(WIDTH, HEADS, mask=mask).cache()


def test_a_whole_model_decodes_with_a_cache_for_every_layer():
    attention = eq.Attention(heads=HEADS, position=Rope(), causal=True)
    made = randomised(eq.build(eq.Spec(width=WIDTH, layers=3, vocabulary=11, block=eq.Block(attention=attention), outputs=11)))
    ids, caches = torch.randint(11, (2, LENGTH)), made.caches()
    found = torch.cat([made(ids[:, i : i + 1], caches) for i in range(LENGTH)], -2)
    assert relative_error(found, made(ids)) < ROUNDING


def test_a_model_that_looks_ahead_or_reads_all_rows_has_no_cache():
    with pytest.raises(InputError, match="needs a causal mask"):
        eq.build(eq.Spec(width=WIDTH)).caches()
    with pytest.raises(InputError, match="needs all tokens"):
        eq.build(eq.Spec(width=WIDTH, readout="mean")).caches()


def test_padding_that_comes_late_is_refused():
    model, tokens = attending(Rope(), Causal()), words(length=4, batch=(1,))
    cache = model.attention.cache()
    model.attention(rows(tokens, 0, 2), model.position, cache=cache)
    late = replace(rows(tokens, 2, 4), valid=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(InputError, match="always or never"):
        model.attention(late, model.position, cache=cache)


@schemes
def test_what_an_encoder_says_is_made_once_and_asked_token_by_token(scheme):
    """Cross-attention in decoding: keys and values of the source are held, and each new token asks them."""
    model, tokens = attending(scheme), placed(scheme, words(length=4))
    width = model.position.widened(WIDTH)
    tokens = replace(tokens, x=torch.randn(4, width).double())
    source = placed(scheme, replace(words(1, length=LENGTH), x=torch.randn(LENGTH, width).double()))
    held = model.attention.key_values(source, model.position)
    found = [model.attention(rows(tokens, i, i + 1), model.position, source=held) for i in range(4)]
    assert relative_error(torch.cat(found), model.attention(tokens, model.position, source=source)) < ROUNDING


@pytest.mark.parametrize("mask", [Window(4), Blocks(4)], ids=title)
def test_a_window_keeps_what_the_next_token_after_padding_on_the_right_sees(mask):
    tokens = words(length=11, batch=(2,))
    order = tokens.order.clone()
    order[1, 10] = 5  # the second prompt has five tokens, then padding, then goes on
    valid = torch.ones(2, 11, dtype=torch.bool)
    valid[1, 5:10] = False
    tokens = replace(tokens, order=order, positions=order.unsqueeze(-1).double(), valid=valid)
    model = attending(Rope(), Causal() & mask)
    found, cache = decoded(model, tokens, [0, 10, 11])
    assert relative_error(found[valid], model(tokens)[valid]) < ROUNDING
    assert cache.rows["k"].shape[-2] < 11


def test_a_window_keeps_what_each_of_two_documents_that_take_turns_sees():
    tokens = words(length=10)
    order = torch.stack([torch.arange(5), 100 + torch.arange(5)], -1).flatten()
    tokens = replace(tokens, order=order, document=torch.arange(10) % 2)
    model = attending(NoPosition(), Causal() & Window(3))
    assert relative_error(decoded(model, tokens, range(11))[0], model(tokens)) < ROUNDING


@pytest.mark.parametrize("late", [3, 2])
def test_a_token_that_earlier_ones_would_have_seen_is_refused(late):
    model, tokens = attending(NoPosition(), Causal()), replace(words(length=5), order=torch.tensor([0, 1, 2, 3, late]))
    with pytest.raises(InputError, match="do not rank after those in the cache"):
        decoded(model, tokens, [0, 4, 5])


def test_a_sequence_may_begin_with_nothing():
    model, tokens = attending(NoPosition(), Causal() & Window(3)), words(length=5)
    assert relative_error(decoded(model, tokens, [0, 0, 2, 5])[0], model(tokens)) < ROUNDING


@pytest.mark.parametrize("mask", [Causal(), Causal() & Window(3)], ids=["causal", "window"])
def test_rows_that_are_taken_back_were_never_read(mask):
    model, tokens = attending(Rope(), mask), words(length=LENGTH, batch=(2,))
    cache = model.attention.cache()
    cache.spare = 3
    other = replace(tokens, x=-tokens.x)
    for part, back in ((rows(tokens, 0, 4), 0), (rows(other, 4, LENGTH), 3), (rows(tokens, 4, LENGTH), 0)):
        found = model.attention(part, model.position, cache=cache)
        cache.back(back)
    assert cache.length == LENGTH
    assert relative_error(found, model(tokens)[:, 4:]) < ROUNDING


def test_sequences_that_are_picked_go_on_as_they_would():
    model, tokens = attending(Rope(), Causal()), words(length=LENGTH, batch=(2,))
    cache = model.attention.cache()
    model.attention(rows(tokens, 0, 4), model.position, cache=cache)
    cache.pick(torch.tensor([1, 0, 1]))
    part = rows(tokens, 4, LENGTH)
    chosen = {n: getattr(part, n)[[1, 0, 1]] for n in ("x", "positions", "order") if getattr(part, n).shape[0] == 2}
    found = model.attention(replace(part, **chosen), model.position, cache=cache)
    assert relative_error(found, model(tokens)[[1, 0, 1], 4:]) < ROUNDING


def test_a_window_says_when_too_much_is_taken_back():
    model, tokens = attending(Rope(), Causal() & Window(3)), words(length=LENGTH)
    cache = decoded(model, tokens)[1]
    with pytest.raises(InputError, match="Use a cache with spare=1"):
        cache.back(1)
