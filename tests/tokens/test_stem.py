"""A stem of convolutions: torch's own agree, step by step as well as at once, and a model with one is built, read and counted."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from equiscope.errors import InputError, ShapeError
from equiscope.models import Attention, Block, InputLayer, Model, Spec, describe
from equiscope.models.presets import tiny
from equiscope.program import watch
from equiscope.program.lower import lowered
from equiscope.symmetry import relative_error
from equiscope.tokens import Stem, Tokens, frames, pack
from equiscope.tokens.stem import neighbours

PLAIN = Attention(heads=2, backend="eager")


def spec(stem=(3, 8, 12), patch=(4, 4), **more):
    input_layer = InputLayer(features=stem[-1], patch=patch, stem=stem)
    return Spec(16, None, input_layer, 1, Block(PLAIN), readout="mean", outputs=5, **more)


def theirs(stem, samples):
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[stem.axes]
    for layer in stem.layers:
        samples = torch.relu(convolve(samples, layer.weight, layer.bias, stride=2, padding=1))
    return samples.flatten(2).transpose(1, 2)


@pytest.mark.parametrize(("axes", "sizes"), [(1, (13,)), (2, (9, 14)), (3, (3, 8, 5))])
def test_at_once_and_step_by_step_a_stem_is_torchs_convolutions(axes, sizes):
    stem = Stem((2, 4, 6), axes).double()
    samples = torch.randn(3, 2, *sizes, dtype=torch.float64)
    for layer in stem.layers:
        torch.nn.init.normal_(layer.bias)
    tokens = stem(samples)
    program = watch(stem, samples)
    watched, ops = program.output, [step.op for step in lowered(program).steps]
    assert torch.allclose(tokens.x, theirs(stem, samples), atol=1e-13)
    assert torch.allclose(watched.x, tokens.x, atol=1e-13)
    assert [op for op in ops if op in ("neighbours", "matmul", "add", "activation")] == 2 * [
        "neighbours", "matmul", "add", "activation",
    ]  # fmt: skip
    assert ops.count("loops") <= 1  # samples to rows, of more axes than one
    assert torch.equal(watched.positions, tokens.positions)
    assert tokens.positions.amax(0).tolist() == [math.ceil(math.ceil(n / 2) / 2) - 1 for n in sizes]


def test_a_convolution_that_is_more_than_its_weights_is_watched_as_it_is():
    class Doubled(torch.nn.Conv1d):
        def forward(self, x):
            return 2 * super().forward(x)

    stem, samples = Stem((2, 4, 6), 1), torch.randn(2, 13)
    stem.layers[1] = Doubled(4, 6, 3, stride=2, padding=1)
    assert torch.equal(watch(stem, samples).output.x, stem(samples).x)


def test_neighbours_of_a_row_and_of_a_corner():
    assert neighbours((5,)).tolist() == [[-1, 0, 1], [1, 2, 3], [3, 4, -1]]
    assert neighbours((2, 4)).tolist() == [[-1, -1, -1, -1, 0, 1, -1, 4, 5], [-1, -1, -1, 1, 2, 3, 5, 6, 7]]


def test_a_model_with_a_stem_takes_pictures_and_says_what_it_costs():
    model, picture = Model(spec()), torch.rand(2, 3, 16, 12)
    assert model(picture).shape == (2, 5)
    assert Spec.of(spec().to_dict()) == spec()
    said = describe(spec(), 12)
    with FlopCounterMode(display=False) as counter:
        model(picture[:1])
    assert said.multiply_adds == counter.get_total_flops() // 2
    assert said.parameters == sum(p.numel() for p in model.parameters())
    assert "convolutions 3 → 8 → 12" in str(said)
    small = tiny(spec())
    assert Model(small)(torch.rand(1, 3, 4, 4)).shape == (1, 4)


def test_a_sound_and_a_video_have_stems_too():
    sound, video = Model(spec((1, 4, 8), (4,))), Model(spec((3, 6), (2, 2, 2)))
    assert sound.tokens(torch.rand(40)).x.shape == (10, 16)
    assert video.tokens(torch.rand(4, 3, 8, 6)).positions.amax(0).tolist() == [1, 3, 2]


def test_a_padded_sound_is_heard_as_it_is_alone_at_its_own_times():
    model = Model(spec((2, 4, 8), (4,))).double()
    for layer in model.input_layer.stem.layers:
        torch.nn.init.normal_(layer.bias)  # so that silence beyond the end does not stay silence by itself
    wave = torch.randn(2, 20, dtype=torch.float64)
    cells = wave.unflatten(-1, (5, 4)).movedim(0, 1).flatten(-2)
    at, order = torch.rand(5, 1), torch.arange(5)
    assert relative_error(model(Tokens(x=cells, positions=at, order=order)), model(wave)) < 1e-12
    padded = torch.cat([cells, torch.randn(3, 8)])
    valid = torch.arange(8) < 5
    tokens = Tokens(x=padded, positions=torch.cat([at, at[-1:].expand(3, 1)]), order=torch.arange(8), valid=valid)
    assert torch.equal(model.tokens(tokens).positions, tokens.positions)
    assert relative_error(model(tokens), model(wave)) < 1e-12
    assert relative_error(model(replace(tokens, valid=None)), model(wave)) > 1e-3
    assert relative_error(model.tokens(Tokens(x=cells, positions=at, order=order)).x, model.tokens(wave).x) < 1e-12


@pytest.mark.parametrize(
    ("stem", "patch", "features", "said"),
    [
        ((3,), (2, 2), 3, "A stem has the samples' channels and those of one convolution or more"),
        ((3, 8), (4, 4), 8, r"make cells of 2 along each axis, but patch is \(4, 4\). Say patch=\(2, 2\)"),
        ((3, 8, 8), (4, 2), 8, r"Say patch=\(4, 4\)"),
        ((3, 8), (2, 2), 12, "The stem gives 8 features a token, but features is 12. Say features=8"),
        ((3, 0, 4), (4, 4), 4, "InputLayer.stem"),
    ],
)
def test_a_stem_that_does_not_fit_is_refused(stem, patch, features, said):
    with pytest.raises(InputError, match=said):
        InputLayer(features=features, patch=patch, stem=stem)


def test_a_picture_with_other_channels_is_refused():
    with pytest.raises(ShapeError, match=r"cuts 4×4 samples of 3 channels"):
        Model(spec())(torch.rand(1, 16, 16))


def test_a_padded_sound_may_have_any_length():
    stem = Stem((2, 4, 6), 1).double()
    sound, valid = torch.randn(2, 2, 30, dtype=torch.float64), torch.ones(2, 8, dtype=torch.bool)
    valid[1, 5:] = False
    alone = stem(sound[1, :, :20])
    assert torch.allclose(stem(sound, valid).x[1, :5], alone.x, atol=1e-13)
    assert torch.equal(stem(sound, valid).x[0], stem(sound).x[0])
    with pytest.raises(ShapeError, match=r"valid is one entry for each of the 8 cells of a sound, but its shape is \(2, 7\)"):
        stem(sound, valid[:, :7])


def test_cells_that_a_model_cut_are_convolved_once():
    input_layer = InputLayer(features=8, patch=(8,), stem=(1, 4, 4, 8))  # as wide as the samples of a cell
    model = Model(Spec(16, None, input_layer, 1, Block(PLAIN), readout="mean", outputs=5))
    sound = torch.randn(2, 64)
    tokens = model.input_layer.cut(sound)
    assert torch.equal(model(tokens), model(sound))
    raw = Tokens.of(sound.unflatten(-1, (8, 8)))
    assert torch.allclose(model(raw), model(sound), atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 32, 32), (32, 32), (3, 0, 32)])
def test_samples_that_do_not_fit_a_stem_are_refused(shape):
    with pytest.raises(ShapeError, match=r"This stem takes samples \[\.\.\., 3, H, W\], but got the shape"):
        Stem((3, 8), 2)(torch.zeros(shape))


def test_packed_sounds_are_not_mixed():
    model = Model(Spec(16, input=InputLayer(features=8, patch=(4,), stem=(1, 4, 8)), outputs=3, readout="each"))
    one, two = (frames(torch.randn(n), 1000, 4.0) for n in (16, 24))
    assert model(one).shape == (4, 3)
    with pytest.raises(InputError, match="packed in one row, which a stem would mix"):
        model(pack([one, two]))
