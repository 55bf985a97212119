"""xPos: RoPE that fades with the distance; torchscale's numbers; no word for the text's length (P9)."""

import json

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import Rope, XPos, from_json, to_json
from equiscope.positions.rope import half_from_interleaved
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

layouts = pytest.mark.parametrize("pairs", ["interleaved", "half"])


def places(*values):
    return torch.tensor(values).double().reshape(-1, 1)


def torchscale(x, at, downscale, gamma=0.4, scale_base=512, base=10000):
    """As in microsoft/torchscale (`XPOS`), computed again for places that are given."""
    width = x.shape[-1]
    zeta = (torch.arange(0, width, 2).double() + gamma * width) / ((1 + gamma) * width)
    scale = zeta ** (at / scale_base)
    angle = at / base ** (torch.arange(width // 2).double() / (width // 2))
    scale = 1 / scale if downscale else scale
    sine, cosine = ((t * scale).repeat_interleave(2, -1) for t in (angle.sin(), angle.cos()))
    other = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * cosine + other * sine


@pytest.mark.parametrize("settings", [{}, {"gamma": 0.8, "scale_base": 64.0, "base": 500.0}], ids=str)
@pytest.mark.parametrize(("role", "downscale"), [("query", False), ("key", True)])
def test_it_is_torchscales(role, downscale, settings):
    x, at = torch.randn(3, 2, 6, 8).double(), places(0, 1, 2, 30, 400.5, -7)
    found = XPos(**settings).rotate(x, at, role)
    assert relative_error(found, torchscale(x, at, downscale, **settings)) < 1e-13  # exp of a product against a power


@layouts
def test_a_query_and_a_key_know_only_how_far_apart_they_are(pairs):
    q, k = torch.randn(2, 2, 1, 8).double()
    scheme = XPos(pairs=pairs)
    for distance in (-7, 0, 2.5, 40):
        pairs_of = [
            (scheme.rotate(q, places(m + distance), "query"), scheme.rotate(k, places(m), "key")) for m in (0, 1, 17.25, -999)
        ]
        products = torch.stack([(a * b).sum(-1) for a, b in pairs_of])
        assert products.std(0, unbiased=False).max() < 1e-11  # float64: angles up to 1000 keep 13 digits


@layouts
def test_products_fade_by_zeta_for_every_step_back(pairs):
    """Each pair fades as ζ^((i - j) / B) times what RoPE would give."""
    zeta = (torch.arange(4) / 4 + 0.4) / 1.4
    columns = [(0, 1), (2, 3), (4, 5), (6, 7)] if pairs == "interleaved" else [(0, 4), (1, 5), (2, 6), (3, 7)]
    for pair, (a, b) in enumerate(columns):
        q, k = torch.zeros(2, 1, 1, 8).double()
        q[..., [a, b]], k[..., [a, b]] = torch.randn(2, 2).double()
        products = [
            (scheme.rotate(q, places(300), "query") * scheme.rotate(k, places(100), "key")).sum()
            for scheme in (XPos(pairs=pairs), Rope(pairs=pairs))
        ]
        assert (products[0] / products[1]).item() == pytest.approx(zeta[pair].item() ** (200 / 512), rel=1e-6)  # zeta is float32


def test_what_a_word_was_does_not_depend_on_the_words_after_it():
    """x-transformers centres the powers on the current length and fails this."""
    x, at = torch.randn(2, 600, 8), torch.arange(600.0)[:, None]
    for role in ("query", "key"):
        found, wanted = XPos().rotate(x, at, role)[:, :9], XPos().rotate(x[:, :9], at[:9], role)
        assert relative_error(found, wanted) < 1e-6  # float32: torch's exp differs by an ulp between long and short rows


def test_the_layouts_are_a_permutation_of_each_other():
    x, at = torch.randn(2, 6, 8).double(), places(0, 1, 2, 3, 50, 60)
    wanted = half_from_interleaved(XPos().rotate(x, at, "key").movedim(-1, 0), 1).movedim(0, -1)
    assert (
        XPos(pairs="half").rotate(half_from_interleaved(x.movedim(-1, 0), 1).movedim(0, -1), at, "key") - wanted
    ).abs().max() < 1e-14


def test_a_batch_has_places_of_its_own_for_every_text():
    x, at = torch.randn(3, 2, 6, 8).double(), torch.rand(3, 6, 1).double() * 100
    found = XPos().rotate(x, at, "query")
    assert found.shape == x.shape
    for row in range(3):
        assert (found[row] - XPos().rotate(x[row], at[row], "query")).abs().max() < 1e-14


def test_half_precision_stays_half_and_is_scaled_in_float32():
    x, at = torch.randn(2, 4, 8), torch.arange(1000.0, 1004.0)[:, None]
    found = XPos().rotate(x.bfloat16(), at, "query")
    assert found.dtype == torch.bfloat16
    wanted = XPos().rotate(x.bfloat16().double(), at.double(), "query")
    assert ((found - wanted).abs().max() / wanted.abs().max()) < 2**-7  # bfloat16 keeps 8 bits, rounded twice


def test_far_from_zero_float32_overflows_as_the_docstring_says():
    x = torch.ones(1, 1, 8)
    assert XPos().rotate(x, torch.tensor([[36_000.0]]), "key").isfinite().all()
    assert not XPos().rotate(x, torch.tensor([[37_000.0]]), "key").isfinite().all()
    assert XPos(scale_base=5120.0).rotate(x, torch.tensor([[300_000.0]]), "key").isfinite().all()


def test_its_settings_survive_a_file():
    scheme = XPos(base=500.0, pairs="half", gamma=0.5, scale_base=100.0)
    assert repr(from_json(json.loads(json.dumps(to_json(scheme))))) == repr(scheme)


def test_an_odd_head_and_an_empty_scale_are_refused():
    with pytest.raises(ShapeError, match=r"a head has 7. Choose an even head width"):
        XPos().sized(14, 2, 7)
    with pytest.raises(InputError, match=r"larger than 0, but got 10000.0, 0.0 and 512.0"):
        XPos(gamma=0.0)
