"""Isotropic RoPE: directions spread evenly, so that a score falls alike whichever way one goes (P10, P11)."""

import json
import math

import numpy as np
import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import AxialRope, IsotropicRope, from_json, to_json
from equiscope.positions.isotropic_rope import spread

pytestmark = pytest.mark.quick


def test_it_is_the_rotation_of_the_posts_code():
    """GoldenGateRoPE2d, computed again: heads x pairs directions, half-split pairs, x before y."""
    heads, pairs, low, high = 3, 8, 0.05, 2.0
    omega = low * (high / low) ** np.linspace(0, 1, pairs)
    phi = np.arange(heads * pairs).reshape(heads, pairs) * math.pi * (math.sqrt(5) - 1) / 2
    y, x = (a.reshape(-1) for a in np.meshgrid(np.arange(4.0), np.arange(5.0), indexing="ij"))
    theta = omega * (np.cos(phi)[:, None] * x[:, None] + np.sin(phi)[:, None] * y[:, None])
    given = np.random.default_rng(0).normal(size=(heads, 20, 2 * pairs))
    a, b = given[..., :pairs], given[..., pairs:]
    theirs = np.concatenate([a * np.cos(theta) - b * np.sin(theta), a * np.sin(theta) + b * np.cos(theta)], -1)
    scheme = IsotropicRope(slowest=low, fastest=high, pairs="half", sets=heads)
    found = scheme.rotate(torch.from_numpy(given), torch.from_numpy(np.stack([y, x], -1)), "query")
    assert np.abs(found.numpy() - theirs).max() < 1e-13


def test_on_three_axes_directions_are_those_of_the_posts_code():
    """_phi and make_directions, computed again."""
    root = 2.0
    for _ in range(10):
        root = (1 + root) ** (1 / 4)
    z = torch.fmod(torch.arange(1, 33, dtype=torch.float64)[:, None] * (1 / root) ** torch.arange(1, 4, dtype=torch.float64), 1.0)
    theirs = torch.nn.functional.normalize(torch.erfinv(2 * z - 1), dim=-1)
    assert (spread(32, 3) - theirs).abs().max() < 1e-4  # their root has ten steps of iteration: seven digits


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_directions_are_spread_evenly(axes):
    """Their second moments are those of all directions, 1/A on every axis. Of 256 random ones they are off by 0.025."""
    u = spread(256, axes)
    assert (u.norm(dim=-1) - 1).abs().max() < 1e-14
    off = (u.T @ u / 256 - torch.eye(axes) / axes).abs().max()
    assert off < {2: 0.002, 3: 0.005, 4: 0.03}[axes]  # on four axes and more the sequence is no better than chance
    if axes == 2:
        folded = (torch.atan2(u[:, 0], u[:, 1]) % math.pi).sort().values
        gaps = torch.cat([folded.diff(), folded[:1] + math.pi - folded[-1:]])
        assert len(gaps.mul(1e9).round().unique()) <= 4  # the three-gap theorem, and rounding
        assert gaps.max() / gaps.min() < 2.7  # golden ratio squared, 2.618


def unevenness(scheme, radius, width=64):
    """Standard deviation over 360 directions of the score of a constant query and key that far apart, of 1 at distance 0."""
    turn = torch.arange(360, dtype=torch.float64) * (2 * math.pi / 360)
    at = radius * torch.stack([turn.sin(), turn.cos()], -1)
    one = torch.ones(1, width, dtype=torch.float64) / width**0.5
    keys = scheme.rotate(one.expand(360, width), at, "key")
    return (scheme.rotate(one, torch.zeros(1, 2, dtype=torch.float64), "query") @ keys.T).std().item()


@pytest.mark.parametrize("radius", [3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
def test_scores_depend_on_the_direction_less_than_with_axial_rope(radius):
    """Both with 32 pairs and speeds from 1 to about 0.01: 0.23 to 0.73 of axial RoPE's spread, 0.94 and more from 48 steps on."""
    even, axial = unevenness(IsotropicRope(), radius), unevenness(AxialRope(), radius)
    assert even < 0.75 * axial


def test_next_door_axial_rope_is_the_more_even_one():
    """Its axes have the same speeds, so what scores lose to second order is the same in every direction; here it is so nearly."""
    assert unevenness(AxialRope(), 1.0) < 0.001 < 0.002 < unevenness(IsotropicRope(), 1.0) < 0.004


@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("axes", [2, 3])
def test_products_know_only_how_far_apart_two_points_are(axes, sets):
    scheme = IsotropicRope(axes=axes, sets=sets)
    q, k = torch.randn(2, 3, 4, 7, 16, dtype=torch.float64)
    at = 10 * torch.randn(7, axes, dtype=torch.float64)
    moved = at + 100 * torch.randn(axes, dtype=torch.float64)
    here, there = (scheme.rotate(q, p, "query") @ scheme.rotate(k, p, "key").mT for p in (at, moved))
    assert (here - there).abs().max() < 1e-10  # angles of some hundred radians keep 13 digits


def test_one_set_serves_any_heads_and_one_head_without_a_batch():
    x, at = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.randn(2, 5, 2, dtype=torch.float64)
    together = IsotropicRope().rotate(x, at, "key")
    assert torch.equal(IsotropicRope().rotate(x[1, 2], at[1], "key"), together[1, 2])


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"axes is 1. On a line, use Rope\(\)"):
        IsotropicRope(axes=1)
    with pytest.raises(InputError, match=r"slowest=2\.0, fastest=1\.0"):
        IsotropicRope(slowest=2.0)
    with pytest.raises(ShapeError, match=r"a head has 5\. Choose an even head width"):
        IsotropicRope().sized(10, 2, 5)
    with pytest.raises(ShapeError, match="3 sets of directions cannot serve 4 heads alike"):
        IsotropicRope(sets=3).sized(32, 4, 8)
    with pytest.raises(ShapeError, match="reads 3 coordinates a token, but got 2"):
        IsotropicRope(axes=3).rotate(torch.zeros(2, 8), torch.zeros(2, 2), "query")


def test_settings_survive_a_file():
    scheme = IsotropicRope(axes=3, slowest=0.1, fastest=4.0, pairs="half", sets=2)
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert again.settings == scheme.settings
