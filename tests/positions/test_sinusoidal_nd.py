"""Sinusoids on a grid: each axis has a part of the width; the layouts of MAE and of others (P10)."""

import json

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import SinusoidalNd, from_json, to_json

pytestmark = pytest.mark.quick


def grid(*shape):
    """Cells in reading order, [cells, A]."""
    return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in shape))


def test_rows_first_it_is_what_hugging_face_builds():
    vit_mae = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")
    theirs = vit_mae.build_2d_sinusoidal_position_embedding(5, 7, embed_dim=24, dtype=torch.float64)
    assert (SinusoidalNd().encode(grid(5, 7), 24) - theirs).abs().max() < 1e-14


def test_columns_first_it_is_what_a_masked_autoencoder_carries():
    """Its code meant rows first, but swapped two names; weights rely on it. Numbers are float32 there."""
    vit_mae = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")
    config = pytest.importorskip("transformers").ViTMAEConfig(hidden_size=24, image_size=48, patch_size=8)
    embeddings = vit_mae.ViTMAEEmbeddings(config)
    embeddings.initialize_weights()
    theirs = embeddings.position_embeddings[0, 1:].detach()
    assert (SinusoidalNd(order=(1, 0)).encode(grid(6, 6), 24) - theirs).abs().max() < 1e-6
    assert (SinusoidalNd().encode(grid(6, 6), 24) - theirs).abs().max() > 0.1


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_every_axis_turns_its_own_part_only(layout):
    at = torch.tensor([[0.5, 2.0, -3.0]], dtype=torch.float64)
    scheme = SinusoidalNd(axes=3, layout=layout, order=(2, 0, 1))
    here = scheme.encode(at, 24).unflatten(-1, (3, 8))
    for axis, part in ((2, 0), (0, 1), (1, 2)):
        there = scheme.encode(at + torch.eye(3, dtype=torch.float64)[axis], 24).unflatten(-1, (3, 8))
        changed = (there != here).any(-1).squeeze(0).tolist()
        assert changed == [p == part for p in range(3)]


def test_the_product_of_two_places_knows_their_gap_only():
    near, far = grid(4, 5), grid(4, 5) + torch.tensor([17.25, -300.5], dtype=torch.float64)
    products = [p @ p.T for p in (SinusoidalNd().encode(at, 16) for at in (near, far))]
    assert (products[0] - products[1]).abs().max() < 1e-11  # angles of 300 radians keep 13 digits


@pytest.mark.parametrize(("axes", "width", "hint"), [(2, 6, "4 or 8"), (3, 16, "12 or 18"), (3, 4, "such as 6.")])
def test_a_width_that_does_not_divide_is_refused(axes, width, hint):
    with pytest.raises(ShapeError, match=f"{axes} axes as many sines as cosines, but the width is {width}.*{hint}"):
        SinusoidalNd(axes=axes).sized(width, 1, width)


def test_an_order_names_every_axis_once():
    with pytest.raises(InputError, match=r"order names each of the axes 0..1 once, but got \(0, 0\)"):
        SinusoidalNd(order=(0, 0))


def test_places_with_another_number_of_axes_are_refused():
    with pytest.raises(ShapeError, match="reads 2 coordinates a token, but got 3"):
        SinusoidalNd().encode(grid(2, 2, 2), 8)


def test_settings_survive_a_file():
    scheme = SinusoidalNd(axes=3, base=50.0, layout="interleaved", order=(2, 0, 1))
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert again.settings == scheme.settings
    assert from_json("sinusoidal-nd").settings == SinusoidalNd().settings
