"""The law of the static cache: token by token gives what the full pass gives, with the same shapes in every step."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from tests.drawn import VARIED, attending, placed, title, words
from tests.laws.test_cache import LENGTH, ROUNDING, rows

from equiscope.attention import Blocks, Causal, Everything, Window
from equiscope.attention.static_cache import StaticCache
from equiscope.errors import InputError
from equiscope.models import Attention, Block, Spec, build
from equiscope.positions import Alibi, Rope
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

schemes = pytest.mark.parametrize("scheme", VARIED, ids=title)
masks = pytest.mark.parametrize("mask", [Causal(), Causal() & Window(3), Causal() & Blocks(2)], ids=title)


def decoded(model, tokens, cuts):
    cache, found = StaticCache(model.attention.mask, LENGTH + 2), []
    for start, stop in pairwise(cuts):
        part = rows(tokens, start, stop)
        part = replace(part, x=model.position.embed(part.x, part.positions))
        found.append(model.attention(part, model.position, cache=cache))
    return torch.cat(found, -2), cache


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
@schemes
def test_token_by_token_equals_the_full_pass(scheme, batch):
    model, tokens = attending(scheme, Causal()), placed(scheme, words(length=LENGTH, batch=batch))
    with torch.no_grad():
        found, cache = decoded(model, tokens, list(range(LENGTH + 1)))
        assert relative_error(found, model(tokens)) < ROUNDING
    assert cache.length == LENGTH
    assert cache.rows["k"].shape[-2] == LENGTH + 2


@masks
def test_part_after_part_equals_the_full_pass(mask):
    model, tokens = attending(Rope(), mask), words(length=LENGTH, batch=(2,))
    with torch.no_grad():
        assert relative_error(decoded(model, tokens, [0, 3, 4, LENGTH])[0], model(tokens)) < ROUNDING


def test_a_padded_batch_decodes_as_each_text_alone():
    model, tokens = attending(Rope(), Causal()), words(length=LENGTH, batch=(2,))
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    valid[1, :3] = False
    with torch.no_grad():
        found, _ = decoded(model, replace(tokens, valid=valid), list(range(LENGTH + 1)))
        assert relative_error(found[1, 3:], model(replace(tokens, valid=valid))[1, 3:]) < ROUNDING


def test_rows_that_are_taken_back_were_never_read():
    model, tokens = attending(Rope(), Causal()), words(length=LENGTH, batch=(2,))
    cache, other = StaticCache(Causal(), LENGTH), replace(tokens, x=-tokens.x)
    with torch.no_grad():
        for part, back in ((rows(tokens, 0, 4), 0), (rows(other, 4, LENGTH), LENGTH - 4), (rows(tokens, 4, LENGTH), 0)):
            found = model.attention(part, model.position, cache=cache)
            cache.back(back)
        assert relative_error(found, model(tokens)[:, 4:]) < ROUNDING


def test_what_does_not_fit_is_said():
    model, tokens = attending(Rope(), Causal()), words(length=LENGTH)
    cache = StaticCache(Causal(), 5)
    with torch.no_grad():
        model.attention(rows(tokens, 0, 4), model.position, cache=cache)
        with pytest.raises(InputError, match=r"holds 5 rows, but got 4 \+ 2"):
            model.attention(rows(tokens, 4, 6), model.position, cache=cache)
    with pytest.raises(InputError, match="only 4 are stored"):
        cache.back(5)
    with pytest.raises(InputError, match="needs a causal mask"):
        StaticCache(Everything(), 5)
    with pytest.raises(InputError, match="at least 1"):
        StaticCache(Causal(), 0)


@pytest.mark.compile
@pytest.mark.parametrize("position", [Rope(pairs="half"), Alibi()], ids=title)
def test_a_compiled_step_is_made_once_and_gives_the_same(position):
    torch.manual_seed(0)
    block = Block(Attention(heads=2, position=position, causal=True))
    model = build(Spec(16, vocabulary=40, outputs=40, layers=2, block=block)).eval()
    ids = torch.randint(40, (2, 9))
    caches = [StaticCache(cache.mask, 12) for cache in model.caches()]
    torch.compiler.reset()
    step = torch.compile(lambda tokens: model(tokens, caches), fullgraph=True, backend="aot_eager")
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        wanted = model(ids)
        model(model.tokens(ids[:, :4]), caches)
        for i in range(4, 9):
            x = model.tokens(ids[:, i : i + 1]).x
            place = torch.full((1, 1), float(i))
            found = step(Tokens(x=x, positions=place, order=place[:, 0].long()))
            assert relative_error(found[:, 0], wanted[:, i]) < 1e-5
