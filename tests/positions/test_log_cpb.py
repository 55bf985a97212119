"""Swin v2's bias network: Hugging Face's numbers from the same weights, any window, any number of axes (P9, P10)."""

import json
import math

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import LogCpb, from_json, to_json
from equiscope.positions.log_cpb import from_swin_v2

pytestmark = pytest.mark.quick

HEADS = 3
NUMBER = torch.arange(HEADS)[:, None, None]


def cells(*shape):
    return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in shape))


def biased(scheme, at):
    """The bias of all pairs, [H, N, N]."""
    return scheme.score_bias(NUMBER, tuple(a[..., None] for a in at.unbind(-1)), tuple(a[..., None, :] for a in at.unbind(-1)))


def made(shape=(5, 5), **settings):
    return LogCpb(shape, **settings).sized(HEADS * 4, HEADS, 4).double()


@pytest.mark.slow
@pytest.mark.parametrize(("window", "trained"), [(7, 0), (8, 7), (16, 8), (2, 0)])
def test_attention_weighs_as_hugging_faces_does(window, trained):
    """With queries of zero, Swin v2's weights are the softmax of its bias alone. Its offsets are float32."""
    swin = pytest.importorskip("transformers.models.swinv2.modeling_swinv2")
    config = pytest.importorskip("transformers").Swinv2Config(attention_probs_dropout_prob=0.0)
    theirs = swin.Swinv2SelfAttention(config, 12, HEADS, window, (trained, trained)).double()
    torch.nn.init.zeros_(theirs.query.weight)
    torch.nn.init.zeros_(theirs.query.bias)
    weights = theirs(torch.randn(1, window**2, 12, dtype=torch.float64), output_attentions=True)[1][0]
    mlp, side = theirs.continuous_position_bias_mlp, trained or window
    scheme = from_swin_v2(mlp[0].weight, mlp[0].bias, mlp[2].weight, (side, side))
    assert (biased(scheme, cells(window, window)).softmax(-1) - weights).abs().max() < 1e-6


def test_it_is_the_papers_formula():
    """Computed again pair by pair, in float64."""
    scheme = made((4, 6), hidden=5)
    at = torch.randn(7, 2, dtype=torch.float64) * 10
    found = biased(scheme, at)
    first, bias, second = scheme.mlp[0].weight.detach().T, scheme.mlp[0].bias.detach(), scheme.mlp[2].weight.detach().T
    for i in range(7):
        for j in range(7):
            offset = [8 * (at[i, a] - at[j, a]).item() / (side - 1) for a, side in enumerate((4, 6))]
            read = torch.tensor([math.copysign(math.log2(1 + abs(d)) / 3, d) for d in offset], dtype=torch.float64)
            inner = (read @ first + bias).clamp(min=0)
            assert (found[:, i, j] - 16 * torch.sigmoid(inner @ second)).abs().max() < 1e-12


def test_it_knows_gaps_only_and_tells_sides_apart():
    scheme, at = made(), torch.randn(6, 2, dtype=torch.float64)
    found = biased(scheme, at)
    moved = biased(scheme, at + torch.tensor([0.37, 1000.37], dtype=torch.float64))
    assert (found - moved).abs().max() < 1e-10  # a gap of places near 1000 keeps 13 digits
    assert (found - found.mT).abs().max() > 1e-3
    assert 0 < found.min() < found.max() < 16


def test_a_gap_ten_times_the_window_is_read_as_twice_its_edge():
    from equiscope.positions.log_cpb import compressed

    edge, far = compressed(torch.tensor([6.0, 60.0], dtype=torch.float64), 7)
    assert far / edge == pytest.approx(2.0, abs=1e-12)  # log2(81) / log2(9)


@pytest.mark.parametrize("shape", [(9,), (4, 4), (2, 3, 4)])
def test_any_number_of_axes_a_batch_and_one_head(shape):
    scheme, at = made(shape), torch.randn(2, 1, 5, len(shape), dtype=torch.float64)
    found = biased(scheme, at)
    assert found.shape == (2, HEADS, 5, 5)
    alone = at[1, 0]
    assert (biased(scheme, alone) - found[1]).abs().max() < 1e-13
    at_q, at_k = tuple(a[:, None] for a in alone.unbind(-1)), tuple(a[None] for a in alone.unbind(-1))
    assert (scheme.score_bias(torch.tensor(1), at_q, at_k) - found[1, 1]).abs().max() < 1e-13


def test_a_window_of_one_row_divides_by_nothing():
    assert biased(made((1, 5)), cells(1, 5)).isfinite().all()


def test_a_narrow_network_still_reads_wide_places():
    scheme = made().bfloat16()
    at = cells(2, 3).float() + 3000
    assert torch.equal(biased(scheme, at), biased(scheme, at - 3000))


def test_what_is_missing_or_does_not_fit_is_said():
    with pytest.raises(InputError, match=r"LogCpb\(\) has no parameters yet"):
        biased(LogCpb(), cells(2, 2))
    with pytest.raises(InputError, match=r"shape and hidden are 1 or more, but got \(7, 0\)"):
        LogCpb((7, 0))
    with pytest.raises(ShapeError, match="reads 2 coordinates a token, but got 1"):
        LogCpb().check(torch.zeros(4, 1))


def test_settings_survive_a_file():
    scheme = LogCpb((2, 8, 8), hidden=64)
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert again.settings == scheme.settings
    assert again.axes == 3
