"""Mixed RoPE: learned directions for each head; products still know the difference of places only (P10, P11)."""

import json

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import MixedRope, from_json, to_json
from equiscope.positions.frequencies import geometric_frequencies

pytestmark = pytest.mark.quick

HEADS, K = 4, 16


def made(**settings):
    return MixedRope(**settings).sized(HEADS * K, HEADS, K).double()


def test_it_is_rope_vits_mixed_rotation():
    """Computed again from `init_2d_freqs`, `compute_mixed_cis` and `apply_rotary_emb`, in float64: axes first, x before y."""
    height, width = 3, 5
    freqs = torch.randn(2, HEADS, K // 2, dtype=torch.float64)
    t = torch.arange(height * width).double()
    t_x, t_y = t % width, (t / width).floor()
    angles = t_x[None, :, None] * freqs[0][:, None] + t_y[None, :, None] * freqs[1][:, None]
    x = torch.randn(2, HEADS, height * width, K, dtype=torch.float64)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    scheme = made()
    scheme.directions.data = freqs.flip(0).transpose(0, 1)
    found = scheme.rotate(x, torch.stack([t_y, t_x], -1), "query")
    assert (found - torch.view_as_real(turned).flatten(-2)).abs().max() < 1e-14


@pytest.mark.parametrize("axes", [2, 3])
def test_directions_begin_as_axial_ladders_turned_at_random(axes):
    """Lengths are the paper's ladder, 10^(-4k/K) in the plane; the blocks of one head stand at right angles; heads differ."""
    torch.manual_seed(1)
    scheme = MixedRope(axes=axes).sized(HEADS * 12, HEADS, 12).double()
    blocks = scheme.directions.detach().unflatten(-1, (axes, -1)).permute(0, 2, 3, 1)  # head, block, pair, axis
    assert (blocks.norm(dim=-1) - geometric_frequencies(6 // axes, 10.0)).abs().max() < 1e-6  # drawn in float64, kept in float32
    units = torch.nn.functional.normalize(blocks, dim=-1)[:, :, 0]
    assert (units @ units.mT - torch.eye(axes)).abs().max() < 1e-6
    assert torch.linalg.det(units).sub(1).abs().max() < 1e-6  # rotations, not mirrors
    assert (units[0] - units[1]).abs().max() > 0.05


@pytest.mark.parametrize("pairs", ["interleaved", "half"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_products_know_only_how_far_apart_two_points_are(axes, pairs):
    scheme = made(axes=axes, pairs=pairs)
    scheme.directions.data.normal_()
    q, k = torch.randn(2, 3, HEADS, 7, K, dtype=torch.float64)
    at = 10 * torch.randn(3, 7, axes, dtype=torch.float64)
    moved = at + 50 * torch.randn(axes, dtype=torch.float64)
    here, there = (scheme.rotate(q, p, "query") @ scheme.rotate(k, p, "key").mT for p in (at, moved))
    assert (here - there).abs().max() < 1e-10  # angles of a hundred radians keep 13 digits
    mirrored = scheme.rotate(q, -at, "query") @ scheme.rotate(k, -at, "key").mT
    assert (mirrored - here).abs().max() > 0.1


@pytest.mark.parametrize("sets", [1, 2, 4])
def test_sequences_places_and_heads_alone_give_the_same_as_together(sets):
    scheme, x = made(sets=sets), torch.randn(3, HEADS, 5, K, dtype=torch.float64)
    at = torch.randn(5, 2, dtype=torch.float64)
    together = scheme.rotate(x, at, "key")
    assert torch.equal(scheme.rotate(x, at.expand(3, 5, 2), "key"), together)
    assert torch.equal(scheme.rotate(x[1], at, "key"), together[1])
    for head in range(HEADS):
        alone = MixedRope(sets=1).sized(K, 1, K).double()
        alone.directions.data = scheme.directions.data[head * sets // HEADS][None]
        assert torch.equal(alone.rotate(x[1, head], at, "key"), together[1, head])


def test_grouped_queries_turn_with_the_keys_that_serve_them():
    scheme = made(sets=2)
    q, k = torch.randn(HEADS, 5, K, dtype=torch.float64), torch.randn(2, 5, K, dtype=torch.float64)
    at, by = torch.randn(5, 2, dtype=torch.float64), torch.tensor([3.5, -20.25], dtype=torch.float64)
    here, there = (scheme.rotate(q, p, "query") @ scheme.rotate(k, p, "key").repeat_interleave(2, 0).mT for p in (at, at + by))
    assert (here - there).abs().max() < 1e-12
    with pytest.raises(ShapeError, match=r"4 sets of directions cannot serve 2 heads alike\. With grouped queries"):
        made().rotate(k, at, "key")


def test_directions_are_learned():
    scheme = made()
    out = scheme.rotate(torch.randn(HEADS, 5, K, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64), "query")
    out.sin().sum().backward()
    assert scheme.directions.grad.abs().min() > 0


def test_angles_stay_wide_where_the_model_is_narrow():
    """Directions are then rounded, angles are not: a place of 1000 keeps its whole part."""
    scheme = made().bfloat16()
    x = torch.randn(HEADS, 1, K).bfloat16()
    found = scheme.rotate(x, torch.tensor([[1000.0, 1001.0]]), "query")
    wide = scheme.double()  # the rounded directions
    theirs = wide.rotate(x.double(), torch.tensor([[1000.0, 1001.0]], dtype=torch.float64), "query")
    assert found.dtype == torch.bfloat16
    assert (found.double() - theirs).abs().max() < 0.03  # bfloat16 of the result


def test_what_is_missing_or_does_not_fit_is_said():
    with pytest.raises(InputError, match=r"no directions yet.*sized"):
        MixedRope().rotate(torch.zeros(2, 3, 8), torch.zeros(3, 2), "query")
    with pytest.raises(ShapeError, match=r"a head has 7\. Choose an even head width"):
        MixedRope().sized(14, 2, 7)
    with pytest.raises(ShapeError, match=r"3 sets of directions cannot serve 4 heads alike\. Use a divisor of 4"):
        MixedRope(sets=3).sized(32, 4, 8)
    with pytest.raises(ShapeError, match="reads 2 coordinates a token, but got 1"):
        made().rotate(torch.zeros(HEADS, 3, K), torch.zeros(3, 1), "query")


def test_settings_survive_a_file():
    scheme = MixedRope(axes=3, base=5.0, pairs="half", sets=2)
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert again.settings == scheme.settings


def test_a_base_of_nothing_is_refused():
    with pytest.raises(InputError, match=r"are larger than 0, but got 2, 0\.0"):
        MixedRope(base=0.0)
