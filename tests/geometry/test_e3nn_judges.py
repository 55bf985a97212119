"""e3nn's own test of equivariance judges our models of points: whoever uses e3nn knows it, and it shares no line with ours."""

import pytest
import torch
from e3nn.util.test import assert_equivariant, equivariance_error
from tests.geometry.space import places, randomised
from torch import nn

from equiscope.geometry import Features
from equiscope.geometry.model import PointSpec, SpaceModel

FORMS = {"dense": {}, "local": {"cutoff": 4.0}, "filtered": {"cutoff": 4.0, "filtered": True}}
GROUPS = {"E(3)": {"pseudo": 4, "products": 4}, "SE(3)": {"products": 4}}
NUMBERS = torch.tensor([[8, 1, 1, 6, 1], [6, 1, 1, 1, 0]])
IRREPS = {"0e": "0e", "0o": "0o", "1o": "1o", "1e": "1e", "0": "0e", "1": "1o"}


@pytest.fixture(autouse=True)
def wide():
    """e3nn makes its matrices in torch's usual precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def model(form, group):
    spec = PointSpec(("H", "C", "O"), group, 16, **{"vectors": 8} | GROUPS[group] | FORMS[form])
    return randomised(SpaceModel(spec), 0.3)


def answered(one):
    def call(numbers, positions):
        answer = one.energy_and_forces(numbers, positions)
        return [answer.energy[:, None], answer.forces]

    return call


def told(one):
    """Features as e3nn lays them out: the components of an arrow side by side."""

    def call(numbers, positions):
        x = one.features(numbers, positions)
        return [part.mT.flatten(-2) if kind[0] == "1" else part for kind, part in x.items()]

    kinds = one.features(NUMBERS, places(2, 5))
    return call, [f"{part.shape[-1]}x{IRREPS[kind]}" for kind, part in kinds.items()]


def judge(call, irreps_out, parity, judge=assert_equivariant, **settings):
    torch.manual_seed(1)  # e3nn draws its motions from torch's numbers
    inputs = {"args_in": [NUMBERS, places(2, 5, spread=1.5)], "irreps_in": [None, "cartesian_points"]}
    return judge(call, **inputs, irreps_out=irreps_out, do_parity=parity, ntrials=3, **settings)


@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("form", list(FORMS))
def test_e3nn_finds_energies_that_stay_and_forces_that_turn(form, group):
    errors = judge(answered(model(form, group)), ["0e", "1o"], group == "E(3)", tolerance=1e-10)
    assert len(errors) == (4 if group == "E(3)" else 2)  # moved or not, and mirrored or not


@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("form", list(FORMS))
def test_e3nn_finds_features_of_every_kind_right(form, group):
    call, irreps = told(model(form, group))
    assert len(irreps) == (4 if group == "E(3)" else 2)
    judge(call, irreps, group == "E(3)", tolerance=1e-10)


@pytest.mark.parametrize("form", list(FORMS))
def test_e3nn_sees_that_se3_tells_a_mirror(form):
    errors = judge(answered(model(form, "SE(3)")), ["0e", "1o"], True, equivariance_error)
    assert all((found[0] > 1e-6) == bool(mirrored) for (mirrored, _), found in errors.items())


class Biased(nn.Module):
    """A bias on arrows, after a block."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        x = self.block(*args, **kwargs)
        return Features(x | {"1o": x["1o"] + 0.1})


@pytest.mark.parametrize("form", list(FORMS))
def test_e3nn_sees_a_bias_on_arrows(form):
    one = model(form, "E(3)")
    one.blocks[0] = Biased(one.blocks[0])
    with pytest.raises(AssertionError, match="equivariance error was too large"):
        judge(answered(one), ["0e", "1o"], True, tolerance=1e-4)
