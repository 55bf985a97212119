"""Special cases, built: convolutions, recurrences and mixing matrices, equal to torch's own (A9)."""

import pytest
import torch
from tests.drawn import HEADS, WIDTH, randomised, title, words
from torch import nn

from equiscope.attention import (
    Causal,
    LinearAttention,
    convolution_as_attention,
    convolution_as_dense,
    recurrence_of,
    tokens_mlp_as_attention,
    unrolled_rnn_as_mlp,
)  # fmt: skip
from equiscope.errors import InputError, ShapeError
from equiscope.positions import NoPosition, Rope
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

ROUNDING = 1e-10  # float64; measured below 1e-14
CONVOLUTIONS = {
    "1d valid": (nn.Conv1d(3, 5, 4), (9,)),
    "1d zeros": (nn.Conv1d(3, 2, 3, padding=1), (7,)),
    "1d circular": (nn.Conv1d(3, 3, 5, padding=2, padding_mode="circular"), (7,)),
    "1d stride, dilation, no bias": (nn.Conv1d(2, 4, 3, stride=2, dilation=2, padding=3, bias=False), (10,)),
    "1d groups": (nn.Conv1d(4, 6, 3, padding="same", groups=2), (5,)),
    "2d valid": (nn.Conv2d(3, 2, 3), (5, 6)),
    "2d zeros": (nn.Conv2d(2, 3, (3, 2), padding=(1, 1)), (4, 5)),
    "2d circular": (nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), (5, 4)),
    "2d stride, dilation": (nn.Conv2d(2, 3, (3, 2), stride=(2, 1), dilation=(1, 2), padding=(2, 0)), (6, 5)),
    "2d each channel alone": (nn.Conv2d(4, 4, 3, padding=1, groups=4), (4, 4)),
}
convolutions = pytest.mark.parametrize(("conv", "size"), list(CONVOLUTIONS.values()), ids=list(CONVOLUTIONS))


def picture(conv, size):
    return torch.randn(2, conv.in_channels, *size, dtype=torch.float64)


@convolutions
def test_a_convolution_is_a_dense_layer(conv, size):
    conv = randomised(conv)
    x = picture(conv, size)
    assert relative_error(convolution_as_dense(conv, size)(x.flatten(1)), conv(x).flatten(1)) < ROUNDING


def test_the_dense_weight_repeats_itself_along_diagonals():
    valid, ring = (
        convolution_as_dense(nn.Conv1d(1, 1, 3, **border), (6,)).weight
        for border in ({}, {"padding": 1, "padding_mode": "circular"})
    )
    assert all(torch.equal(row, valid[0].roll(i)) for i, row in enumerate(valid))  # Toeplitz
    assert all(torch.equal(row, ring[0].roll(i)) for i, row in enumerate(ring))  # and on a ring, circulant
    assert (valid != 0).sum() == 4 * 3


@pytest.mark.parametrize("sharpness", [100.0, None], ids=["soft", "hard"])
@convolutions
def test_a_convolution_is_attention_with_a_head_for_each_number_of_its_kernel(conv, size, sharpness):
    conv = randomised(conv)
    made, x = convolution_as_attention(conv, sharpness), picture(conv, size)
    assert made.attention.heads == conv.kernel_size[0] * (conv.kernel_size[1] if len(size) > 1 else 1)
    assert relative_error(made(x), conv(x)) < ROUNDING


def test_a_blunt_bias_is_a_blurred_convolution():
    conv = randomised(nn.Conv2d(2, 3, 3, padding=1))
    x = picture(conv, (5, 5))
    errors = [relative_error(convolution_as_attention(conv, alpha)(x), conv(x)) for alpha in (1.0, 10.0, 30.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1
    assert errors[1] < 0.1
    assert errors[2] < 1e-5  # exp(-15): half the sharpness lies between a hit and the sink


def test_a_convolution_as_attention_shares_no_numbers_with_the_convolution():
    conv = nn.Conv1d(2, 2, 3)
    made, x = convolution_as_attention(conv), torch.randn(1, 2, 5)
    before = made(x)
    conv.weight.data.zero_()
    assert torch.equal(made(x), before)
    assert not any(p is q for p in made.parameters() for q in conv.parameters())


@pytest.mark.parametrize("make", [convolution_as_attention, lambda conv: convolution_as_dense(conv, (5,))])
def test_borders_that_are_mirrors_are_refused(make):
    with pytest.raises(InputError, match=r'"zeros" \(padding 0: valid\) or "circular", but got \'reflect\''):
        make(nn.Conv1d(2, 2, 3, padding=1, padding_mode="reflect"))


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="does not fit into"):
        convolution_as_dense(nn.Conv1d(2, 2, 9), (5,))
    with pytest.raises(ShapeError, match="reads 1 axes"):
        convolution_as_dense(nn.Conv1d(2, 2, 3), (5, 5))
    with pytest.raises(InputError, match="but got Linear"):
        convolution_as_attention(nn.Linear(2, 2))
    with pytest.raises(InputError, match="pads one side more"):
        convolution_as_attention(nn.Conv1d(2, 2, 2, padding="same"))(torch.randn(1, 2, 5))
    with pytest.raises(InputError, match="A sharpness is larger than 0"):
        convolution_as_attention(nn.Conv1d(2, 2, 2), 0.0)


@pytest.mark.parametrize("position", [NoPosition(), Rope()], ids=title)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
def test_causal_linear_attention_is_a_recurrence(batch, position):
    attention, tokens = randomised(LinearAttention(WIDTH, HEADS, mask=Causal(), bias=True)), words(length=130, batch=batch)
    assert relative_error(recurrence_of(attention)(tokens, position), attention(tokens, position)) < ROUNDING


def test_an_attention_that_looks_ahead_is_no_recurrence():
    with pytest.raises(InputError, match="needs a causal mask"):
        recurrence_of(LinearAttention(WIDTH))


@pytest.mark.parametrize("shape", [(6, 6), (3, 6), (1, 1)], ids=str)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
def test_a_fixed_mixing_of_tokens_is_attention_with_fixed_weights(batch, shape):
    mixing, x = torch.randn(shape, dtype=torch.float64), torch.randn(*batch, shape[1], 5, dtype=torch.float64)
    made = tokens_mlp_as_attention(mixing, 5)
    assert relative_error(made(x), mixing @ x) < ROUNDING
    weights = made.attention.attend(*made.tokens(x)[:1], made.position, made.tokens(x)[1])[1]
    assert weights.shape == (*batch, 2, shape[0], shape[1] + 1)
    assert (weights >= 0).all()
    assert (weights.sum(-1) - 1).abs().max() < 1e-14
    assert (
        relative_error(made.scale * (weights[..., 0, :, :-1] - weights[..., 1, :, :-1]), mixing.expand(*batch, *shape)) < ROUNDING
    )


def test_a_mixing_of_one_sign_leaves_the_other_head_to_the_null_key():
    made = tokens_mlp_as_attention(torch.eye(3, dtype=torch.float64), 2)
    weights = made.attention.attend(
        *made.tokens(torch.randn(3, 2).double())[:1], made.position, made.tokens(torch.randn(3, 2).double())[1]
    )[1]
    assert torch.equal(weights[1, :, -1], torch.ones(3).double())
    assert (tokens_mlp_as_attention(torch.zeros(3, 3).double(), 2)(torch.randn(3, 2).double()) == 0).all()


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "plain"])
def test_an_unrolled_rnn_is_a_deep_mlp_with_tied_weights(bias, nonlinearity):
    rnn = randomised(nn.RNN(3, 5, bias=bias, nonlinearity=nonlinearity, batch_first=True))
    mlp, x = unrolled_rnn_as_mlp(rnn, 20), torch.randn(2, 20, 3, dtype=torch.float64)
    assert relative_error(mlp(x), rnn(x)[0]) < ROUNDING
    assert len(mlp.layers) == 20
    assert len(list(mlp.parameters())) == 1 + bias  # as many layers as steps, one set of weights


def test_an_mlp_of_another_depth_than_the_text_is_refused():
    with pytest.raises(ShapeError, match="has 4 layers, but got 5 steps"):
        unrolled_rnn_as_mlp(nn.RNN(3, 5), 4)(torch.randn(5, 3))
    with pytest.raises(InputError, match="one layer and one direction"):
        unrolled_rnn_as_mlp(nn.RNN(3, 5, num_layers=2), 4)
    with pytest.raises(ShapeError, match="at least one layer"):
        unrolled_rnn_as_mlp(nn.RNN(3, 5), 0)


def test_a_token_mlp_is_two_attentions_with_fixed_weights_around_its_activation():
    n, hidden, width = 6, 9, 5
    theirs = nn.Sequential(nn.Linear(n, hidden, bias=False), nn.GELU(), nn.Linear(hidden, n, bias=False)).double()
    x = torch.randn(2, n, width, dtype=torch.float64)
    first, second = (tokens_mlp_as_attention(theirs[i].weight.detach(), width) for i in (0, 2))
    assert relative_error(second(nn.functional.gelu(first(x))), theirs(x.mT).mT) < ROUNDING
