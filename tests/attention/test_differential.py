"""Differential attention: equal to Hugging Face's DiffLlama and to a plain loop, with everything that multi-head attention has."""

import math
from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, placed, randomised, title, words
from tests.judges import transformers
from tests.pairwise import each_value
from tests.recorded import recorded

from equiscope.attention import Causal, DifferentialAttention, Everything, Prefix, Sigmoid, Softmax, Window
from equiscope.attention.differential import initial_lambda
from equiscope.errors import InputError, ShapeError
from equiscope.positions import NoPosition, Rope
from equiscope.program.replay import replay
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

ROUNDING = 1e-12
VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False] * 2 + [True] * 4])
HALF = WIDTH // HEADS // 2


def made(scheme=None, mask=None, heads=HEADS, half=4, **settings):
    position = (scheme or NoPosition()).sized(WIDTH, heads, half)
    width = position.widened(WIDTH)
    return randomised(DifferentialAttention(width, heads, half, mask=mask, **settings)), randomised(position)


def embedded(position, tokens):
    return replace(tokens, x=position.embed(tokens.x, tokens.positions))


@pytest.mark.parametrize(("layer", "start"), [(1, 0.2), (2, 0.8 - 0.6 * math.exp(-0.3)), (100, 0.8)])
def test_lambda_starts_small_in_the_first_layer(layer, start):
    assert initial_lambda(layer) == pytest.approx(start, abs=1e-12)


def test_it_is_the_loop_of_the_paper():
    (attention, _), tokens = made(mask=Causal(), layer=3), words()
    x = tokens.x
    lam = sum(s * torch.exp(attention.query_lambda[i] @ attention.key_lambda[i]) for i, s in ((0, 1), (1, -1))) + initial_lambda(3)
    out = []
    for h in range(HEADS):
        columns = slice(h * 8, h * 8 + 8)
        q, k, v = (
            (x @ w)[:, columns] for w in (attention.q_proj.weight.mT, attention.k_proj.weight.mT, attention.v_proj.weight.mT)
        )
        rows = []
        for i in range(6):
            a = [torch.stack([q[i, p] @ k[j, p] / 2 for j in range(i + 1)]).softmax(0) for p in (slice(0, 4), slice(4, 8))]
            z = (a[0] - lam * a[1]) @ v[: i + 1]
            rows.append(z / (z.square().mean() + 1e-5).sqrt() * attention.norm.weight * (1 - initial_lambda(3)))
        out.append(torch.stack(rows))
    assert relative_error(attention(tokens), torch.cat(out, -1) @ attention.o_proj.weight.mT) < ROUNDING


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("index", [0, 5])
def test_it_equals_hugging_faces_diffllama_on_the_same_weights(index, groups, implementation):
    """Theirs puts all first halves of queries and keys first, and splits values likewise."""
    heads, half, kv = 4, 6, 4 // groups
    config = transformers.DiffLlamaConfig(
        hidden_size=WIDTH, num_attention_heads=2 * heads, num_key_value_heads=2 * kv, head_dim=half, attention_bias=False,
        attn_implementation=implementation,
    )  # fmt: skip
    theirs = transformers.models.diffllama.modeling_diffllama.DiffLlamaAttention(config, index).double()
    ours = randomised(DifferentialAttention(WIDTH, heads, half, mask=Causal(), kv_heads=kv, layer=index + 1))
    ours.norm.weight.data.fill_(1.0)  # theirs has none
    with torch.no_grad():
        for name in ("q_proj", "k_proj", "v_proj"):
            halves = getattr(ours, name).weight.unflatten(0, (-1, 2, half)).transpose(0, 1).flatten(0, 2)
            getattr(theirs, name).weight.copy_(halves)
        theirs.o_proj.weight.copy_(ours.o_proj.weight)
        for i in (0, 1):
            getattr(theirs, f"lambda_q{i + 1}").copy_(ours.query_lambda[i])
            getattr(theirs, f"lambda_k{i + 1}").copy_(ours.key_lambda[i])
    theirs.groupnorm.eps = 1e-5
    tokens = words(batch=(3,))
    clocks = torch.arange(6)[:, None] * torch.tensor([10000 ** (-2 * i / half) for i in range(half // 2)], dtype=torch.float64)
    angles = torch.cat([clocks, clocks], -1)[None]
    hidden = torch.full((6, 6), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    wanted = theirs(tokens.x, (angles.cos(), angles.sin()), hidden)[0]
    error = relative_error(ours(tokens, Rope(pairs="half")), wanted)
    assert error < 1e-6  # they make lambda, and the eager softmax, in float32


@each_value(
    pytest.mark.parametrize("mask", [Everything(), Causal(), Causal() & Window(3), Causal() | Prefix(2)], ids=title),
    pytest.mark.parametrize("scheme", [s for s in LISTED if s.name != "shaw"], ids=title),
)
def test_every_scheme_and_mask_on_every_backend(scheme, mask):
    """And the readable steps give the same, padded too."""
    found = []
    for backend in ("eager", "sdpa", "chunked"):
        attention, position = made(scheme, mask, backend=backend)
        tokens = embedded(position, placed(scheme, replace(words(batch=(3,)), valid=VALID)))
        found.append(attention(tokens, position))
    assert all(relative_error(out, found[0]) < ROUNDING for out in found[1:])
    tokens = embedded(position, placed(scheme, words()))
    program = recorded(attention, tokens, kwargs={"position": position})
    assert relative_error(replay(program)[program.outputs[0]], attention(tokens, position)) < ROUNDING


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("scheme", [s for s in LISTED if s.name in ("none", "rope", "alibi", "t5", "xl", "pope")], ids=title)
def test_token_by_token_equals_the_full_pass(scheme, kv_heads):
    attention, position = made(scheme, Causal(), kv_heads=kv_heads)
    tokens, cache = embedded(position, words(batch=(2,))), attention.cache()

    def part(i):
        at, order = tokens.positions[..., i : i + 1, :], tokens.order[..., i : i + 1]
        return Tokens(x=tokens.x[..., i : i + 1, :], positions=at, order=order)

    found = torch.cat([attention(part(i), position, cache=cache) for i in range(6)], -2)
    assert relative_error(found, attention(tokens, position)) < 1e-10
    assert cache.rows["v"].shape[-3:] == (kv_heads, 6, 8)


def test_keys_that_are_held_give_the_same():
    (attention, position), tokens, other = made(Rope()), words(), words(seed=1, length=9)
    assert torch.equal(
        attention(tokens, position, source=attention.key_values(other, position)), attention(tokens, position, other)
    )


def test_one_head_without_a_batch_needs_no_axis_for_heads():
    (attention, _), tokens = made(heads=1), words()
    assert relative_error(attention(tokens), attention(replace(tokens, x=tokens.x[None]))[0]) < ROUNDING


def test_a_row_of_weights_sums_to_one_less_lambda():
    attention, _ = made(norm="rms")
    out, weights = attention.attend(words())
    assert relative_error(weights.sum(-1), (1 - attention.lambda_()).expand(HEADS, 6)) < ROUNDING
    assert relative_error(out, attention(words())) < ROUNDING


@pytest.mark.parametrize("normalizer", [Softmax(sink=True), Sigmoid()], ids=title)
def test_other_weights_than_softmax_are_taken(normalizer):
    attention, _ = made(normalizer=normalizer, norm="layer")
    assert attention.runs_on(words()) == "eager"
    assert attention(words()).isfinite().all()


def test_what_both_halves_see_alike_cancels():
    """With equal halves and lambda at 1 nothing is left."""
    attention, _ = made()
    with torch.no_grad():
        for layer in (attention.q_proj, attention.k_proj):
            weight = layer.weight.unflatten(0, (HEADS, 2, 4))
            weight[:, 1] = weight[:, 0]
        attention.query_lambda.zero_()
    attention.start = 1.0
    assert attention.attend(words())[1].abs().max() < 1e-15


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="3 heads of two halves do not divide a width of 8"):
        DifferentialAttention(8, 3)
    with pytest.raises(ShapeError, match="counted from 1, but got layer=0"):
        DifferentialAttention(8, 2, layer=0)
    with pytest.raises(InputError, match="needs a causal mask"):
        DifferentialAttention(8, 2).cache()
    shaw = next(s for s in LISTED if s.name == "shaw")
    attention, position = made(shaw)
    with pytest.raises(ShapeError, match="adds rows of 4 numbers to the values, but they have 8"):
        attention(words(), position)
