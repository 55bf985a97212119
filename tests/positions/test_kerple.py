"""KERPLE: both laws against plain numbers, their ranges, and a power that is exact and differentiable at distance 0 (P9)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import Alibi, Kerple, from_json, to_json
from equiscope.positions.kerple import power
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

PLACES = [-7.0, 0.0, 0.25, 1.0, 2.0, 2.0, 40.0]
kinds = pytest.mark.parametrize("kind", ["log", "power"])


def table(scheme, at=PLACES, heads=2):
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return scheme.score_bias(torch.arange(heads)[:, None, None], (at,), (at.T,))


@kinds
def test_the_bias_is_the_papers_law(kind):
    scheme = randomised(Kerple(kind).sized(8, 2, 4))
    found = table(scheme)
    for h in range(2):
        raw1, raw2 = scheme.strength[h].item(), scheme.shape[h].item()
        r1 = math.log1p(math.exp(raw1))
        r2 = math.log1p(math.exp(raw2)) if kind == "log" else 2 / (1 + math.exp(-raw2))
        law = (lambda d, r2=r2: math.log(1 + r2 * d)) if kind == "log" else (lambda d, r2=r2: d**r2)
        wanted = torch.tensor([[-r1 * law(abs(i - j)) for j in PLACES] for i in PLACES], dtype=torch.float64)
        assert relative_error(found[h], wanted) < 1e-14


def test_a_power_of_nothing_is_nothing_and_so_is_its_slope():
    steps, exponent = torch.tensor([0.0, 1.0, 2.0, 1000.0]).double(), torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    found = power(steps, exponent)
    assert found[:2].tolist() == [0.0, 1.0]
    assert relative_error(found, steps**0.3) < 1e-14
    (slope,) = torch.autograd.grad(found.sum(), exponent)
    wanted = sum(d**0.3 * math.log(d) for d in (1.0, 2.0, 1000.0))  # d^r log d; torch's own pow agrees, and 0^r has none
    assert slope.item() == pytest.approx(wanted, rel=1e-12)


@kinds
def test_gradients_reach_every_head_and_are_numbers(kind):
    scheme = Kerple(kind).sized(8, 2, 4).double()
    (table(scheme) * torch.randn(2, 7, 7)).sum().backward()
    for parameter in scheme.parameters():
        assert parameter.grad.isfinite().all()
        assert (parameter.grad != 0).all()


@kinds
def test_before_training_the_constants_lie_where_their_code_draws_them(kind):
    """Theirs: r1 of the logarithm and r2 of the power uniform on 0 .. 2, the other two on 0 .. 1."""
    found = table(Kerple(kind).sized(8, 500, 4).double(), [0.0, 1.0, 1e9], heads=500)
    one = -found[:, 1, 0]
    assert one.min() > 0
    assert one.max() < (1 if kind == "power" else 2 * math.log(2))
    if kind == "power":
        exponent = torch.log(-found[:, 2, 0] / one) / math.log(1e9)
        assert exponent.min() > 0
        assert 1 < exponent.max() < 2


def test_alibi_is_a_power_law_with_exponent_one():
    scheme, alibi = Kerple("power").sized(8, 2, 4).double(), Alibi().sized(8, 2, 4)
    with torch.no_grad():
        scheme.strength.copy_(torch.tensor(alibi.rates).double().expm1().log())  # the inverse of softplus
        scheme.shape.zero_()  # 2 sigmoid(0) = 1
    assert relative_error(table(scheme), table(alibi)) < 1e-14


def test_on_a_plane_distance_is_euclids():
    scheme, (x, y) = randomised(Kerple().sized(8, 1, 8)), torch.randn(2, 5, dtype=torch.float64)
    found = scheme.score_bias(torch.tensor(0), (x[:, None], y[:, None]), (x[None], y[None]))
    away = torch.hypot(x[:, None] - x, y[:, None] - y)
    on_a_line = scheme.score_bias(torch.tensor(0), (away.reshape(-1, 1),), (torch.zeros(1, 1).double(),)).reshape(5, 5)
    assert relative_error(found, on_a_line) < 1e-14


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_law_names_the_two():
    with pytest.raises(InputError, match=r'kind cannot be .*: it should be "log" or "power"'):
        Kerple("linear")


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"Kerple\(\) has no parameters yet"):
        table(Kerple())


def test_settings_survive_a_file():
    scheme = Kerple("power")
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings
