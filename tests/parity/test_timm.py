"""Schemes for pictures beside timm's: tables, networks, sinusoids and turns on a grid (P8, P9, P10).

timm's own start imports torchvision, which its formulas do not need: they are imported from their files one by one.
"""

import importlib
import importlib.machinery
import sys
import types
from pathlib import Path

import pytest
import torch

from equiscope.positions import AxialRope, LearnedNd, MixedRope, SinusoidalNd
from equiscope.positions.learned_nd import resized as resized_grid
from equiscope.positions.log_cpb import from_swin_v2
from equiscope.positions.swin import from_swin_table, resized
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

HEADS, WIDTH, SHAPE = 3, 16, (4, 5)
SINGLE = 3e-7  # timm computes places and angles in float32: rounding is 6e-8 a step


@pytest.fixture
def timm(monkeypatch):
    """Gives a file of timm.layers by name, without running what stands around it."""
    found = importlib.machinery.PathFinder.find_spec("timm")
    if found is None:
        pytest.skip("timm is not installed")
    root = Path(found.origin).parent
    for name, folder in (("timm", root), ("timm.layers", root / "layers")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        monkeypatch.setitem(sys.modules, name, package)
    yield lambda name: importlib.import_module(f"timm.layers.{name}")
    for name in [n for n in sys.modules if n.startswith("timm.layers.")]:
        del sys.modules[name]


def cells(*shape):
    return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in shape))


def biased(scheme, at):
    """The bias of all pairs, [H, N, M]."""
    number = torch.arange(HEADS)[:, None, None]
    return scheme.score_bias(number, tuple(a[..., None] for a in at.unbind(-1)), tuple(a[..., None, :] for a in at.unbind(-1)))


def test_a_window_table_is_read_as_theirs(timm):
    theirs = timm("pos_embed_rel").RelPosBias(SHAPE, HEADS, dtype=torch.float64)
    theirs.relative_position_bias_table.data.normal_()
    scheme = from_swin_table(theirs.relative_position_bias_table, SHAPE)
    assert torch.equal(biased(scheme, cells(*SHAPE)), theirs.get_bias()[0])


def test_a_window_table_becomes_larger_as_theirs(timm):
    scheme = from_swin_table(torch.randn(13 * 13, HEADS, dtype=torch.float64))
    theirs = timm("pos_embed_rel").resize_rel_pos_bias_table_simple(scheme.table.weight.detach(), (12, 12), (23 * 23, HEADS))
    assert relative_error(resized(scheme, (12, 12)).table.weight, theirs) < 1e-14


def test_a_network_of_bent_gaps_reads_them_as_theirs(timm):
    theirs = timm("pos_embed_rel").RelPosMlp(SHAPE, HEADS, mode="swin", pretrained_window_size=(7, 6)).double().eval()
    first, second = theirs.mlp.fc1, theirs.mlp.fc2
    scheme = from_swin_v2(first.weight, first.bias, second.weight, (7, 6))
    assert relative_error(biased(scheme, cells(*SHAPE)), theirs.get_bias()[0]) < SINGLE


@pytest.mark.parametrize("between", [True, False], ids=["sine beside cosine", "all sines first"])
def test_sinusoids_on_a_grid_are_theirs(timm, between):
    theirs = timm("pos_embed_sincos").build_sincos2d_pos_embed(SHAPE, WIDTH, interleave_sin_cos=between, dtype=torch.float64)
    ours = SinusoidalNd().encode(cells(*SHAPE), WIDTH)
    if not between:  # theirs: sines of both axes, then cosines of both
        ours = ours.unflatten(-1, (2, 2, -1)).transpose(-3, -2).flatten(-3)
    assert relative_error(ours, theirs) < SINGLE


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("shape", [(6, 9), (3, 2)])
def test_a_learned_grid_is_resized_as_theirs(timm, shape, smooth):
    scheme = LearnedNd(SHAPE)
    scheme.table = torch.nn.Embedding(20, WIDTH)
    old = scheme.table.weight.detach()[None]
    theirs = timm("pos_embed").resample_abs_pos_embed(old, list(shape), list(SHAPE), 0, antialias=smooth)[0]
    assert relative_error(resized_grid(scheme, shape, smooth).table.weight, theirs) < SINGLE


@pytest.mark.parametrize("half", [False, True], ids=["interleaved", "half"])
def test_queries_turn_along_two_axes_as_theirs(timm, half):
    rotary = timm("pos_embed_sincos")
    table = rotary.RotaryEmbeddingCat(WIDTH, temperature=50.0, in_pixels=False, feat_shape=SHAPE, rotate_half=half).get_embed()
    x = torch.randn(2, HEADS, 20, WIDTH, dtype=torch.float64)
    ours = AxialRope(base=50.0, pairs="half" if half else "interleaved").rotate(x, cells(*SHAPE), "query")
    assert relative_error(ours, rotary.apply_rot_embed_cat(x, table.double(), half=half)) < SINGLE


def test_queries_turn_along_learned_directions_as_theirs(timm):
    rotary = timm("pos_embed_sincos")
    speeds = rotary.init_random_2d_freqs(WIDTH, 1, HEADS, dtype=torch.float64)[:, 0]  # [2, H, K/2]
    scheme, at = MixedRope(), cells(*SHAPE)
    scheme.directions = torch.nn.Parameter(speeds.transpose(0, 1).clone())
    x = torch.randn(2, HEADS, 20, WIDTH, dtype=torch.float64)
    table = rotary.get_mixed_freqs(speeds, *at.unbind(-1), dtype=torch.float64)
    assert relative_error(scheme.rotate(x, at, "query"), rotary.apply_rot_embed_cat(x, table)) < SINGLE
