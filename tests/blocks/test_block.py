"""A block is torch's own encoder layer on the same weights, and every part of it can be left out (M1)."""

import pytest
import torch
from tests.drawn import HEADS, WIDTH, randomised, words
from tests.recorded import recorded
from torch import nn

from equiscope.attention import Causal, Everything, MultiHeadAttention
from equiscope.blocks import FeedForwardNetwork, TransformerBlock, norm
from equiscope.program.replay import replay
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


def pair(order, activation, causal=False):
    """Ours with random numbers, and torch's encoder layer with the same."""
    mask = Causal() if causal else Everything()
    ours = randomised(
        TransformerBlock(
            MultiHeadAttention(WIDTH, HEADS, bias=True, mask=mask), FeedForwardNetwork(WIDTH, 12, activation),
            (norm(WIDTH), norm(WIDTH)), order,
        )
    )  # fmt: skip
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 12, dropout=0.0, activation=activation, batch_first=True, norm_first=order == "pre"
    ).double()
    a, f = ours.attention, ours.feedforward
    numbers = {
        "self_attn.in_proj_weight": torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]),
        "self_attn.in_proj_bias": torch.cat([a.q_proj.bias, a.k_proj.bias, a.v_proj.bias]),
        "self_attn.out_proj.weight": a.o_proj.weight, "self_attn.out_proj.bias": a.o_proj.bias,
        "linear1.weight": f.up_proj.weight, "linear1.bias": f.up_proj.bias,
        "linear2.weight": f.down_proj.weight, "linear2.bias": f.down_proj.bias,
        "norm1.weight": ours.attention_norm.weight, "norm1.bias": ours.attention_norm.bias,
        "norm2.weight": ours.feedforward_norm.weight, "norm2.bias": ours.feedforward_norm.bias,
    }  # fmt: skip
    theirs.load_state_dict(numbers)
    return ours, theirs


@pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_block_equals_torchs_encoder_layer_on_the_same_weights(order, activation, causal):
    ours, theirs = pair(order, activation, causal)
    tokens = words(batch=(3,))
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
    assert relative_error(ours(tokens), theirs(tokens.x, src_mask=hidden)) < 1e-12  # float64: rounding only


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_is_the_same_fused_and_step_by_step(kind):
    made, x = randomised(norm(WIDTH, kind)), 100 * torch.randn(5, WIDTH, dtype=torch.float64)
    program = recorded(made, x)
    found = replay(program)[program.outputs[0]]
    assert relative_error(found, made(x)) < 1e-14  # float64: eight terms a row
    assert len(program.steps) == (3 if kind == "layer" else 2)


@pytest.mark.parametrize(("kind", "size"), [("layer", "std"), ("rms", "rms")])
def test_a_fresh_norm_brings_every_row_to_one_size(kind, size):
    y = norm(64, kind).double()(5 + 30 * torch.randn(7, 64, dtype=torch.float64))
    found = y.std(-1, unbiased=False) if size == "std" else y.square().mean(-1).sqrt()
    assert (found - 1).abs().max() < 1e-6  # eps = 1e-5 against a variance of about 900
    assert kind == "rms" or y.mean(-1).abs().max() < 1e-14


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "tanh"])
def test_the_feed_forward_treats_every_token_alike_and_alone(activation):
    forward, x = randomised(FeedForwardNetwork(WIDTH, 12, activation)), words().x
    kinds = {"relu": nn.ReLU(), "gelu": nn.GELU(), "silu": nn.SiLU(), "tanh": nn.Tanh()}
    wanted = forward.down_proj(kinds[activation](forward.up_proj(x)))
    assert relative_error(forward(x), wanted) < 1e-14
    assert relative_error(forward(x[2]), forward(x)[2]) < 1e-14


def test_every_part_may_be_absent():
    attention, tokens = randomised(MultiHeadAttention(WIDTH, HEADS)), words()
    assert torch.equal(TransformerBlock(attention, residual=False)(tokens), attention(tokens))
    assert torch.equal(TransformerBlock(attention)(tokens), tokens.x + attention(tokens))
    forward = randomised(FeedForwardNetwork(WIDTH, 12, bias=False))
    both = TransformerBlock(attention, forward)(tokens)
    assert torch.equal(both, tokens.x + attention(tokens) + forward(tokens.x + attention(tokens)))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_pre_norm_keeps_the_stream_and_post_norm_brings_it_to_size(order):
    ours, tokens = pair(order, "gelu")[0], words()
    for layer in (ours.attention_norm, ours.feedforward_norm):
        layer.weight.data.fill_(1.0)
        layer.bias.data.zero_()
    grown = ours(type(tokens)(x=tokens.x * 1e6, positions=tokens.positions, order=tokens.order))
    assert (grown.norm() > 1e5) if order == "pre" else (grown.norm() < 10)
