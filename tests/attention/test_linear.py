"""Linear attention: its fast form is its readable one, it is a recurrence, and what it refuses (A7, A9)."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, placed, randomised, title, uneven, words
from tests.pairwise import pairwise
from tests.recorded import recorded

from equiscope.attention import Causal, Everything, LinearAttention, Window
from equiscope.attention.linear import CHUNK, FEATURES
from equiscope.errors import InputError
from equiscope.positions import NoPosition, Rope, Sinusoidal
from equiscope.program.replay import replay
from equiscope.symmetry import Permute, Shift, relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

ROUNDING = 1e-12  # float64; measured below 1e-14
VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False] * 2 + [True] * 4])
ABLE = [s for s in LISTED if not any(s.acts(place) for place in ("score_bias", "content_bias", "value_bias"))]
masks = pytest.mark.parametrize("mask", [Everything(), Causal()], ids=title)


def made(mask=None, seed=0, **settings):
    return randomised(LinearAttention(WIDTH, HEADS, mask=mask, **settings), seed)


def by_hand(attention, tokens, turn=lambda x, at: x):
    """The formula, query by query and key by key: one text, everything visible that the mask and the padding allow."""
    k_width, causal = attention.head_width, isinstance(attention.mask, Causal)
    q, k, v = (tokens.x @ w for w in (attention.q_proj.weight.mT, attention.k_proj.weight.mT, attention.v_proj.weight.mT))
    out = torch.zeros(len(q), HEADS * k_width, dtype=torch.float64)
    for h in range(HEADS):
        part = slice(h * k_width, (h + 1) * k_width)
        fq, fk = (torch.nn.functional.elu(t[:, part]) + 1 for t in (q, k))
        for i in range(len(q)):
            above, below = torch.zeros(k_width, dtype=torch.float64), 0.0
            for j in range(len(k)):
                if causal and tokens.order[j] > tokens.order[i]:
                    continue
                above += (
                    turn(fq[i : i + 1], tokens.positions[i : i + 1])[0]
                    @ turn(fk[j : j + 1], tokens.positions[j : j + 1])[0]
                    * v[j, part]
                )
                below += fq[i] @ fk[j]
            out[i, part] = above / below
    return out @ attention.o_proj.weight.mT


@masks
def test_it_is_the_formula_of_katharopoulos(mask):
    attention, tokens = made(mask), words()
    assert relative_error(attention(tokens), by_hand(attention, tokens)) < ROUNDING


@masks
def test_rope_turns_the_features_above_the_line_only(mask):
    attention, tokens, rope = made(mask), words(start=3), Rope()
    wanted = by_hand(attention, tokens, lambda x, at: rope.rotate(x, at, "query"))
    assert relative_error(attention(tokens, rope), wanted) < ROUNDING


def cases():
    tokens = words(batch=(3,))
    document = torch.tensor([0, 0, 0, 1, 1, 2])
    yield "plain", tokens
    yield "alone", words()
    yield "padded", replace(tokens, valid=VALID)
    yield "packed", replace(tokens, document=document.expand(3, 6).clone())
    yield "packed, each in its way", replace(tokens, document=torch.stack([document, document.flip(0).neg() + 2, document * 0]))
    yield "documents that come back", replace(tokens, document=torch.tensor([0, 1, 0, 1, 2, 0]).expand(3, 6).clone())
    yield "ranks from right to left", replace(tokens, order=tokens.order.flip(-1))
    yield "long", Tokens.of(torch.randn(2, 3 * CHUNK + 5, WIDTH, dtype=torch.float64))
    long = Tokens.of(torch.randn(2, 2 * CHUNK + 5, WIDTH, dtype=torch.float64))
    texts = torch.stack([torch.arange(2 * CHUNK + 5) // 50, torch.arange(2 * CHUNK + 5) // CHUNK])
    yield "long and packed", replace(long, document=texts)


@pairwise(
    pytest.mark.parametrize(("case", "tokens"), list(cases()), ids=[name for name, _ in cases()]),
    masks,
    pytest.mark.parametrize("feature", FEATURES),
)
def test_the_fast_form_equals_the_readable_one(case, tokens, mask, feature):
    for position in (NoPosition(), Rope()):
        attention = made(mask, feature=feature)
        x = tokens.x.clone().requires_grad_()
        fast, slow = attention(replace(tokens, x=x), position), attention.attend(replace(tokens, x=x), position)[0]
        assert relative_error(fast, slow) < ROUNDING
        grads = [torch.autograd.grad(out.square().sum(), [x, *attention.parameters()], retain_graph=True) for out in (fast, slow)]
        assert all(a.isfinite().all() for a in grads[0])
        assert max(relative_error(a, b) for a, b in zip(*grads, strict=True)) < 1e-10


@masks
@pytest.mark.parametrize("scheme", ABLE, ids=title)
def test_schemes_that_embed_or_turn_are_taken_and_watched(scheme, mask):
    position = scheme.sized(WIDTH, HEADS, WIDTH // HEADS)
    tokens = placed(position, words())
    tokens = replace(tokens, x=position.embed(tokens.x, tokens.positions))
    attention = randomised(LinearAttention(position.widened(WIDTH), HEADS, head_width=WIDTH // HEADS, mask=mask))
    fast = attention(tokens, position)
    program = recorded(attention, tokens, kwargs={"position": position})
    assert relative_error(replay(program)[program.outputs[0]], fast) < ROUNDING


@pytest.mark.parametrize("scheme", [s for s in LISTED if s not in ABLE], ids=title)
def test_schemes_that_act_on_scores_are_refused(scheme):
    with pytest.raises(InputError, match=r"never computes them. Use a scheme that embeds or rotates"):
        made()(words(), scheme)


def test_masks_that_need_pairs_are_refused():
    with pytest.raises(InputError, match=r"Everything\(\) and Causal\(\), but got 'window'"):
        LinearAttention(WIDTH, mask=Window(3))
    with pytest.raises(InputError, match="needs a causal mask"):
        made().cache()


# --- as a recurrence ---------------------------------------------------------------------------------------------------
def part(tokens, start, stop):
    flags = {n: None if (f := getattr(tokens, n)) is None else f[..., start:stop] for n in ("document", "valid")}
    at, order = tokens.positions[..., start:stop, :], tokens.order[..., start:stop]
    return Tokens(x=tokens.x[..., start:stop, :], positions=at, order=order, **flags)


def decoded(attention, tokens, position, cuts):
    sums = attention.cache()
    pairs = itertools.pairwise(cuts)
    return torch.cat([attention(part(tokens, a, b), position, cache=sums) for a, b in pairs], -2), sums


@pytest.mark.parametrize(
    "flags", [{}, {"valid": VALID}, {"document": torch.tensor([0, 0, 1, 1, 1, 4])}], ids=["plain", "pad", "packed"]
)
@pytest.mark.parametrize("position", [NoPosition(), Rope()], ids=title)
def test_step_by_step_equals_the_full_pass(position, flags):
    attention, tokens = made(Causal()), replace(words(batch=(3,)), **flags)
    if "document" in flags:
        tokens = replace(tokens, document=flags["document"].expand(3, 6))
    for cuts in (range(7), [0, 4, 6], [0, 6]):
        found, sums = decoded(attention, tokens, position, list(cuts))
        assert relative_error(found, attention(tokens, position)) < 1e-10
        assert sums.length == 6


@pytest.mark.slow
def test_the_sums_do_not_grow_and_forget_nothing():
    attention, tokens = made(Causal()), Tokens.of(torch.randn(1000, WIDTH, dtype=torch.float64))
    found, sums = decoded(attention, tokens, Rope(), [0, 500, *range(501, 1001)])
    assert sums.product.shape == (HEADS, 4, 4)
    assert relative_error(found, attention(tokens, Rope())) < 1e-10
    other = replace(tokens, x=torch.cat([tokens.x[:1] * -2, tokens.x[1:]]))
    change = attention(other)[-1] - attention(tokens)[-1]
    assert 1e-5 < change.norm() / attention(tokens)[-1].norm() < 1  # the first of a thousand words still counts


def test_sums_are_read_in_order():
    attention, tokens = made(Causal()), words()
    sums = attention.cache()
    attention(part(tokens, 3, 5), cache=sums)
    with pytest.raises(InputError, match="these ranks do not grow"):
        attention(part(tokens, 4, 6), cache=sums)
    with pytest.raises(InputError, match="others have none"):
        attention(replace(part(tokens, 5, 6), document=torch.tensor([0])), cache=sums)
    with pytest.raises(InputError, match="Number the texts of a packed row upwards"):
        attention(replace(tokens, document=torch.tensor([0, 1, 1, 0, 2, 2])), cache=attention.cache())


# --- laws --------------------------------------------------------------------------------------------------------------
def test_weights_of_a_row_sum_to_one_unless_they_turned():
    tokens = replace(words(batch=(3,)), valid=VALID)
    sums = made(Causal()).attend(tokens)[1].sum(-1)[:, 0]
    wanted = torch.tensor([[1] * 6, [1] * 6, [0, 0, 1, 1, 1, 1]]).double()  # a row whose keys are all padding gives 0
    assert relative_error(sums, wanted) < ROUNDING
    assert (made(Causal()).attend(words(), Rope())[1].sum(-1) - 1).abs().max() > 0.01


def test_padding_has_no_influence():
    attention, tokens = made(Causal()), replace(words(batch=(3,)), valid=VALID)
    other = replace(tokens, x=torch.where(VALID[..., None], tokens.x, tokens.x + 5))
    assert torch.equal(attention(tokens)[VALID], attention(other)[VALID])
    alone = attention(part(replace(tokens, x=tokens.x[2], positions=tokens.positions[2], order=tokens.order[2], valid=None), 2, 6))
    assert relative_error(attention(tokens)[2, 2:], alone) < ROUNDING


def test_words_travel_and_texts_move_as_in_softmax_attention():
    tokens, order = words(), Permute((3, 1, 4, 0, 5, 2))
    attention = made()
    assert relative_error(attention(order.on_input(tokens)), order.on_output(attention(tokens))) < ROUNDING
    assert relative_error(attention(Shift(1000).on_input(tokens), Rope()), attention(tokens, Rope())) < ROUNDING
    apart = uneven(tokens, whole=False)
    assert relative_error(attention(Shift(0.5).on_input(apart), Rope()), attention(apart, Rope())) < ROUNDING


@masks
@pytest.mark.parametrize("length", [0, 1])
def test_no_token_and_one_get_an_answer(length, mask):
    for batch in ((), (2,), (0,)):
        out = made(mask)(words(length=length, batch=batch), Rope())
        assert out.shape == (*batch, length, WIDTH)
        assert out.isfinite().all()


def test_cross_attention_reads_another_sequence():
    attention, tokens, other = made(), words(), words(seed=1, length=9)
    assert relative_error(attention(tokens, Rope(), source=other), attention.attend(tokens, Rope(), source=other)[0]) < ROUNDING


def test_it_is_another_function_than_softmax_attention_and_says_how_far():
    errors = [made(seed=seed).approximation_error(words(seed)) for seed in range(3)]
    assert all(0.1 < error < 2 for error in errors)
    attention = made()
    attention.q_proj.weight.data.zero_()  # nobody asks for anything: every key counts alike... in softmax
    attention.k_proj.weight.data.zero_()
    assert attention.approximation_error(words()) < ROUNDING


def test_a_row_of_half_precision_numbers_is_summed_in_single():
    attention, tokens = made(Causal()), Tokens.of(torch.randn(300, WIDTH, dtype=torch.float64))
    exact = attention(tokens)
    assert relative_error(attention.bfloat16()(tokens.to(torch.bfloat16)), exact) < 0.03  # eps 8e-3, not times 300 rows


def test_it_keeps_no_table_of_pairs():
    """Numbers kept for the backward pass: they grow with N, not with its square."""
    kept = []
    for length in (256, 512):
        sizes = {}

        def pack(tensor, sizes=sizes):
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        attention, tokens = made(Causal()).float(), Tokens.of(torch.randn(length, WIDTH))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            attention(tokens)
        kept.append(sum(sizes.values()))
    assert math.log2(kept[1] / kept[0]) < 1.1


def test_an_encoding_that_is_added_beforehand_is_no_matter():
    tokens = words()
    embedded = replace(tokens, x=Sinusoidal().embed(tokens.x, tokens.positions))
    assert relative_error(made()(embedded, Sinusoidal()), made()(embedded)) == 0


def test_an_earlier_document_and_padding_of_any_size_reach_nobody():
    """exp overflows on the first half; 0 times infinity would be NaN."""
    attention = randomised(LinearAttention(WIDTH, HEADS, mask=Causal(), feature="exp"))
    tokens = words(length=6)
    x = torch.cat([tokens.x[:3] * 1e4, tokens.x[3:]])
    wanted = attention(replace(Tokens.of(tokens.x[3:])))
    packed = replace(Tokens.of(x), document=torch.tensor([0, 0, 0, 1, 1, 1]))
    assert relative_error(attention(packed)[3:], wanted) < 1e-13
    padded = replace(Tokens.of(x), valid=torch.tensor([False] * 3 + [True] * 3))
    assert relative_error(attention(padded)[3:], wanted) < 1e-13


@pytest.mark.compile
@pytest.mark.parametrize("tokens", ["documents", "order"])
def test_compiled_it_keeps_documents_and_the_order_apart(tokens):
    """A compiler does not read the numbers: unless the steps are consecutive in one document, it takes the sums of pairs."""
    attention, plain = made(Causal()), words()
    given = {
        "documents": replace(plain, document=torch.tensor([0, 0, 0, 1, 1, 1])),
        "order": replace(plain, order=torch.tensor([2, 0, 1, 5, 4, 3])),
    }[tokens]
    compiled = torch.compile(attention, backend="eager")
    assert relative_error(compiled(given), attention(given)) < ROUNDING
