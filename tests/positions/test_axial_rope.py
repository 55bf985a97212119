"""Axial RoPE: products know the gap along each axis; rope-vit's, Pixtral's and Qwen2-VL's rotations (P10, P11)."""

import json

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import AxialRope, from_json, to_json

pytestmark = pytest.mark.quick

layouts = pytest.mark.parametrize("pairs", ["interleaved", "half"])


def cells(*shape):
    return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in shape))


@layouts
@pytest.mark.parametrize("settings", [{"axes": 2}, {"axes": 3, "sections": (1, 2, 2), "speeds": "one"}, {"axes": 3}], ids=str)
def test_products_know_only_how_far_apart_two_points_are(pairs, settings):
    """Points in the plane and in space, moved together by any real vector."""
    scheme = AxialRope(pairs=pairs, **settings)
    q, k = torch.randn(2, 3, 7, 12, dtype=torch.float64)
    at = 10 * torch.randn(7, scheme.axes, dtype=torch.float64)
    moved = at + 100 * torch.randn(scheme.axes, dtype=torch.float64)
    here, there = (scheme.rotate(q, p, "query") @ scheme.rotate(k, p, "key").mT for p in (at, moved))
    assert (here - there).abs().max() < 1e-10  # angles of some hundred radians keep 13 digits: measured 4e-13
    still = scheme.rotate(q, at, "query") @ scheme.rotate(k, moved, "key").mT
    assert (still - here).abs().max() > 0.1


def test_it_is_rope_vits_axial_rotation_with_x_first():
    """Computed again from `compute_axial_cis` and `apply_rotary_emb`, in float64."""
    height, width, dim, theta = 3, 5, 16, 100.0
    t = torch.arange(height * width).double()
    speeds = 1.0 / theta ** (torch.arange(0, dim, 4)[: dim // 4].double() / dim)
    angles = torch.cat([torch.outer(t % width, speeds), torch.outer((t / width).floor(), speeds)], -1)
    x = torch.randn(2, height * width, dim, dtype=torch.float64)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    theirs = torch.view_as_real(turned).flatten(-2)
    assert (AxialRope().rotate(x, cells(height, width).flip(-1), "query") - theirs).abs().max() < 1e-14


def test_it_is_pixtrals_rotation():
    pixtral = pytest.importorskip("transformers.models.pixtral.modeling_pixtral")
    transformers = pytest.importorskip("transformers")
    config = transformers.PixtralVisionConfig(hidden_size=32, num_attention_heads=2, image_size=64, patch_size=8)
    rotary, at = pixtral.PixtralVisionRotaryEmbedding(config).double(), cells(4, 6)
    x = torch.randn(2, 24, 16, dtype=torch.float64)
    cos, sin = rotary(x, at)
    theirs, _ = pixtral.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=0)
    scheme = AxialRope(base=config.rope_parameters["rope_theta"], pairs="half", speeds="dealt")
    assert (scheme.rotate(x, at, "query") - theirs).abs().max() < 1e-5  # theirs has float32 angles


def test_sections_of_one_ladder_are_m_rope():
    """Qwen2-VL: half-split pairs, time first and fastest."""
    qwen = pytest.importorskip("transformers.models.qwen2_vl.modeling_qwen2_vl")
    config_class = pytest.importorskip("transformers.models.qwen2_vl.configuration_qwen2_vl").Qwen2VLTextConfig
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
    config = config_class(hidden_size=32, num_attention_heads=2, num_key_value_heads=2, rope_parameters=rope)
    at = cells(2, 3, 4)
    x = torch.randn(1, 2, 24, 16, dtype=torch.float64)
    cos, sin = qwen.Qwen2VLRotaryEmbedding(config)(x, at.T.unsqueeze(1))
    theirs, _ = qwen.apply_rotary_pos_emb(x, x, cos, sin)
    scheme = AxialRope(axes=3, base=1e6, pairs="half", sections=(2, 3, 3), speeds="one")
    assert (scheme.rotate(x, at, "key") - theirs).abs().max() < 1e-6  # theirs has float32 angles


def test_each_axis_turns_the_pairs_of_its_section_and_no_others():
    scheme = AxialRope(axes=3, sections=(1, 2, 1))
    x = torch.randn(1, 12, dtype=torch.float64)
    for axis, columns in enumerate((range(0, 2), range(2, 6), range(6, 8))):
        out = scheme.rotate(x, 0.7 * torch.eye(3, dtype=torch.float64)[axis : axis + 1], "query")
        assert (out != x).nonzero()[:, 1].tolist() == list(columns)


def test_one_axis_is_rope():
    from equiscope.positions import Rope

    x, at = torch.randn(2, 5, 8, dtype=torch.float64), torch.randn(5, 1, dtype=torch.float64)
    assert torch.equal(AxialRope(axes=1, base=10000.0).rotate(x, at, "key"), Rope().rotate(x, at, "key"))


@pytest.mark.parametrize(("settings", "head", "hint"), [
    ({}, 6, "evenly over 2 axes, but a head has 6 columns. Use a multiple of 4, or give sections"),
    ({"axes": 3}, 4, "evenly over 3 axes, but a head has 4 columns. Use a multiple of 6"),
    ({"sections": (3, 2)}, 8, r"in sections of \(3, 2\) pairs, but a head has 8 columns. Use 10 or more"),
    ({}, 7, "a head has 7 columns"),
])  # fmt: skip
def test_heads_that_cannot_be_split_are_refused(settings, head, hint):
    with pytest.raises(ShapeError, match=hint):
        AxialRope(**settings).sized(2 * head, 2, head)


def test_settings_that_contradict_one_another_are_refused():
    with pytest.raises(InputError, match=r"each of 2 axes a pair or more, but got \(1, 2, 3\)"):
        AxialRope(sections=(1, 2, 3))
    with pytest.raises(InputError, match="without sections"):
        AxialRope(sections=(1, 2), speeds="dealt")
    with pytest.raises(ShapeError, match="reads 2 coordinates a token, but got 1"):
        AxialRope().rotate(torch.randn(3, 8), torch.zeros(3, 1), "query")


def test_settings_survive_a_file():
    scheme = AxialRope(axes=3, base=1e6, pairs="half", sections=(2, 3, 3), speeds="one")
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert again.settings == scheme.settings
