"""What the page of tokens holds: the numbers of `equiscope.tokens`, and of torch's own operations on the same file."""

import base64
import struct
import wave as waves
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from equiscope import tokens as eq
from equiscope.errors import EquiscopeError, InputError
from equiscope.explore.page import html
from equiscope.explore.pages import sample_media
from equiscope.explore.pages.tokens import readable, tokens
from equiscope.record import Tokenised, unpack

pytestmark = pytest.mark.xdist_group("tokens-page")
ROOT = Path(__file__).parents[2]
DIGIT = ROOT / "recipes" / "samples" / "fsdd" / "7_theo_11.wav"
FILMS = ROOT.parent / "shared" / "data" / "video"


@pytest.fixture(scope="module")
def made():
    """The page without any file."""
    return tokens(None, None, None)


@pytest.fixture(scope="module")
def spoken():
    return tokens(None, DIGIT, None).sound


@pytest.fixture
def photograph(tmp_path):
    """Three hundred by two hundred pixels of noise, with more blue at the bottom."""
    pixels = np.random.default_rng(0).integers(0, 200, (200, 300, 3), dtype=np.uint8)
    pixels[100:, :, 2] += 50
    path = tmp_path / "photograph.png"
    Image.fromarray(pixels).save(path)
    return path


def bytes_of(text, shape):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(shape).copy())


def written(path, samples, rate=8000):
    with waves.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.asarray(samples, dtype="<i2").tobytes())
    return path


# --- sound -------------------------------------------------------------------------------------------------------------


def test_samples_are_those_of_the_file(spoken):
    with waves.open(str(DIGIT)) as file:
        wanted = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        assert spoken.rate == file.getframerate()
    assert np.array_equal(unpack(spoken.samples), wanted)
    assert spoken.unit == 1 / 32768
    assert not spoken.silent


@pytest.mark.parametrize("number", [0, 1, 2])
def test_tokens_of_a_sound_are_those_of_training(spoken, number):
    cut, (wave, rate) = spoken.cuts[number], eq.read_sound(DIGIT)
    raw = eq.frames(wave, rate, cut.window_ms)
    assert np.array_equal(unpack(cut.frame_positions), raw.positions.numpy())
    assert raw.x.shape[-1] == cut.window
    mel = eq.log_mel(wave, rate, cut.window_ms, cut.hop_ms, mels=cut.mel.shape[1])
    assert np.array_equal(unpack(cut.mel), mel.x.numpy())
    assert np.array_equal(unpack(cut.mel_positions), mel.positions.numpy())
    patches = eq.spectrogram_patches(mel, tuple(cut.patch))
    assert np.array_equal(unpack(cut.patch_positions), patches.positions.numpy())


def test_energies_follow_from_samples_and_bands_as_the_record_says(spoken):
    cut = spoken.cuts[0]
    samples = unpack(spoken.samples) * spoken.unit
    weights, begin = unpack(cut.bands.weights), 0
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(cut.window) / cut.window)
    token = 17
    energies = abs(np.fft.rfft(window * samples[token * cut.hop :][: cut.window])) ** 2
    for band, (first, count) in enumerate(zip(cut.bands.begins, cut.bands.counts, strict=True)):
        heard = energies[first : first + count] @ weights[begin : begin + count]
        assert np.log(max(heard, cut.bands.floor)) == pytest.approx(unpack(cut.mel)[token, band], rel=1e-5)  # float32
        begin += count
    assert begin == len(weights)


def test_a_sound_of_other_than_16_bits_keeps_its_samples(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    samples = np.random.default_rng(0).uniform(-1, 1, (4000, 2)).astype(np.float32)
    path = tmp_path / "stereo.wav"
    soundfile.write(path, samples, 16000, subtype="FLOAT")
    found = tokens(None, path, None).sound
    assert found.unit == 1.0
    assert np.allclose(unpack(found.samples), samples.mean(-1), atol=1e-7)


def test_silence_is_a_page_that_says_so(tmp_path):
    found = tokens(None, written(tmp_path / "silence.wav", [0] * 4000), None).sound
    assert found.silent
    assert unpack(found.cuts[0].mel).tolist() == pytest.approx(np.full((48, 48), np.log(1e-10), dtype=np.float32))


def test_a_short_sound_keeps_the_cuts_that_fit(tmp_path):
    found = tokens(None, written(tmp_path / "short.wav", range(0, 2000, 8)), None).sound  # 250 samples, 31 ms
    assert [cut.window_ms for cut in found.cuts] == [25, 10]
    assert found.cuts[0].patch == []
    assert found.cuts[1].patch == [4, 4]


@pytest.mark.parametrize(
    ("samples", "words"), [([1] * 20, "one frame takes 200"), ([], "without samples"), ([0] * 8000 * 21, "at most 20 s are read")]
)
def test_a_sound_that_cannot_be_cut_is_refused(tmp_path, samples, words):
    with pytest.raises(EquiscopeError, match=words):
        tokens(None, written(tmp_path / "odd.wav", samples), None)


def test_hours_of_sound_are_refused_by_what_the_file_says(tmp_path):
    path = written(tmp_path / "long.wav", [0] * 100)
    bytes_ = bytearray(path.read_bytes())
    many = 3 * 3600 * 8000 * 2
    bytes_[4:8], bytes_[40:44] = struct.pack("<I", many + 36), struct.pack("<I", many)
    path.write_bytes(bytes_)
    with path.open("r+b") as file:
        file.truncate(44 + many)  # a hole: no byte is written
    with pytest.raises(InputError, match="lasts 10800 s; at most 20 s"):
        tokens(None, path, None)


def test_a_fine_sound_is_brought_to_what_a_page_can_hold(tmp_path):
    found = tokens(None, written(tmp_path / "fine.wav", [0, 1000] * 9600, 96000), None).sound
    assert found.rate == 48000
    assert found.samples.shape == [9600]
    assert "96000 samples a second" in found.note


# --- picture -----------------------------------------------------------------------------------------------------------


def test_a_map_of_patches_is_a_convolution(made):
    picture = made.picture
    image = bytes_of(picture.pixels, (*picture.size, 3)).movedim(-1, 0).float() / 255
    assert [cut.side for cut in picture.cuts if cut.kind == "patches"] == [16, 8, 14, 32]
    for cut in picture.cuts:
        if cut.kind != "patches":
            continue
        weight = torch.from_numpy(unpack(cut.projection.weight))
        kernel = weight.T.reshape(4, 3, cut.side, cut.side)
        wanted = F.conv2d(image[None].double(), kernel.double(), stride=cut.side)[0].flatten(1).T
        found = torch.from_numpy(unpack(cut.projection.output)).double()
        assert (found - wanted).abs().max() / wanted.abs().max() < 1e-7  # kept as float32
        assert 0 <= cut.projection.error < 1e-12  # float64 sums of up to 3072 products, measured 0
        assert cut.numbers == weight.shape[0] == 3 * cut.side**2


def test_columns_of_the_map_are_means_and_differences_of_means(made):
    picture, cut = made.picture, made.picture.cuts[0]
    image = bytes_of(picture.pixels, (*picture.size, 3)).double() / 255
    token = 5 * cut.grid[1] + 8
    patch = image[5 * 16 : 6 * 16, 8 * 16 : 9 * 16]
    wanted = [
        patch.mean(),
        patch[:, :8].mean() - patch[:, 8:].mean(),
        patch[:8].mean() - patch[8:].mean(),
        patch[..., 0].mean() - patch[..., 2].mean(),
    ]
    assert unpack(cut.projection.output)[token] == pytest.approx([float(v) for v in wanted], abs=1e-6)


def test_later_less_earlier_of_one_frame_is_nothing():
    assert readable((3, 1, 4, 4))[:, 3].abs().max() == 0
    assert readable((3, 2, 4, 4))[:, 3].double().sum().abs() < 1e-12, "what stands still is nothing"


@pytest.mark.parametrize("way", ["patches", "pixels", "stem"])
def test_cells_lie_where_their_gradient_is(made, way):
    cut = next(cut for cut in made.picture.cuts if cut.kind == way)
    assert len(cut.rows) == cut.grid[0]
    assert len(cut.columns) == cut.grid[1]
    if way != "stem":
        assert cut.rows == [[i * cut.side, (i + 1) * cut.side] for i in range(cut.grid[0])]
        return
    torch.manual_seed(0)
    stem = eq.Stem((3, 4, 4, 4, 4))
    for name, parameter in stem.named_parameters():  # so that no ReLU is closed
        torch.nn.init.uniform_(parameter, 0.1, 1) if "weight" in name else torch.nn.init.zeros_(parameter)
    image = torch.rand(3, *made.picture.size, requires_grad=True)
    row, column = 6, 0
    stem(image).x[row * cut.grid[1] + column].sum().backward()
    rows, columns = (image.grad.abs().sum((0, axis)).nonzero().flatten() for axis in (2, 1))
    assert cut.rows[row] == [int(rows[0]), int(rows[-1]) + 1]
    assert cut.columns[column] == [int(columns[0]), int(columns[-1]) + 1]
    assert cut.rows[6][1] - cut.rows[6][0] == 31


def test_a_picture_is_cut_to_its_middle_and_the_note_says_so(photograph):
    found = tokens(photograph, None, None).picture
    assert found.size == [224, 448]
    assert "It has 300×200 pixels" in found.note
    assert found.name == "photograph.png"
    assert tokens(photograph, None, None).sound is None


def test_a_picture_of_the_right_size_stays_as_it_is(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "same.png")
    found = tokens(tmp_path / "same.png", None, None).picture
    assert np.array_equal(bytes_of(found.pixels, (224, 224, 3)), pixels)
    assert found.note == ""


def test_what_is_no_picture_is_refused(tmp_path):
    path = tmp_path / "letter.png"
    path.write_text("Dear Sir")
    with pytest.raises(InputError, match="cannot be read as a picture: Pillow knows no such format"):
        tokens(path, None, None)
    with pytest.raises(InputError, match="There is no picture"):
        tokens(tmp_path / "none.png", None, None)


def test_a_huge_picture_is_refused_before_it_is_read(tmp_path):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 12_000, 12_000, 8, 2, 0, 0, 0))
    path = tmp_path / "huge.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b""))
    with pytest.raises(InputError, match="has 144 megapixels; at most 100 are read"):
        tokens(path, None, None)


# --- film --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(5))
def test_tubelets_are_those_of_training_and_of_a_convolution(made, number):
    film, cut = made.film, made.film.cuts[number]
    video = bytes_of(film.frames, (*film.size, 3)).movedim(-1, 1).float() / 255
    found = eq.tubelets(video, tuple(cut.size), film.fps)
    assert np.array_equal(unpack(cut.positions), found.positions.numpy())
    assert cut.numbers == found.x.shape[-1]
    assert int(np.prod(cut.grid)) == found.x.shape[-2]
    weight = torch.from_numpy(unpack(cut.projection.weight)).double()
    assert np.allclose(unpack(cut.projection.output), found.x.double() @ weight, atol=1e-6)
    kernel = weight.T.reshape(4, 3, *cut.size)
    slid = F.conv3d(video.double().transpose(0, 1)[None], kernel, stride=tuple(cut.size))[0].flatten(1).T
    assert np.allclose(unpack(cut.projection.output), slid, atol=1e-6)
    assert cut.projection.error < 1e-12


def test_the_ball_is_where_later_less_earlier_is_large(made):
    film, cut = made.film, made.film.cuts[0]
    moved = np.abs(unpack(cut.projection.output)[:, 3]).reshape(cut.grid).max((1, 2))
    assert moved.min() > 0.005, "it moves at every time"
    still = unpack(cut.projection.output)[:, 3].reshape(cut.grid)[0, :, 3]
    assert np.abs(still).max() < 1e-6, "nothing moves where it is not"
    assert film.fps == 8


def test_what_is_no_film_is_refused(tmp_path):
    pytest.importorskip("av")
    path = tmp_path / "letter.mp4"
    path.write_text("Dear Sir")
    with pytest.raises(InputError, match="cannot be read as a film"):
        tokens(None, None, path)
    with pytest.raises(InputError, match="no moving picture in it\\. Give a film; a sound is given with --audio"):
        tokens(None, None, DIGIT)
    with pytest.raises(InputError, match="There is no film"):
        tokens(None, None, tmp_path / "none.mp4")


@pytest.fixture
def tiny(tmp_path):
    """Five frames of 80×60 pixels, each of one grey, as a film without loss."""
    av = pytest.importorskip("av")
    path = tmp_path / "tiny.mkv"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("ffv1", rate=4)
        stream.width, stream.height, stream.pix_fmt = 80, 60, "bgr0"
        for i in range(5):
            frame = av.VideoFrame.from_ndarray(np.full((60, 80, 3), 40 * i, dtype=np.uint8), format="rgb24")
            for packet in stream.encode(frame.reformat(format="bgr0")):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)
    return path


def test_a_short_film_keeps_the_tubelets_that_fill_it(tiny):
    found = tokens(None, None, tiny).film
    assert found.size == [4, 96, 96]
    assert [cut.size[0] for cut in found.cuts] == [2, 1, 4, 2, 2]
    frames = bytes_of(found.frames, (4, 96, 96, 3)).float()
    assert frames.mean((1, 2, 3)).tolist() == pytest.approx([0, 40, 80, 120], abs=1)
    assert "It has 80×60 pixels and 4 frames a second; here are 4 of them, one after another, from 0 s on" in found.note


@pytest.mark.skipif(not FILMS.exists(), reason="the films are not here")
@pytest.mark.parametrize("name", ["bottle-detection.mp4", "car-detection.mp4"])
def test_a_real_film_becomes_tubelets(name):
    pytest.importorskip("av")
    found = tokens(None, None, FILMS / name).film
    assert found.size == [16, 64, 128]
    assert found.fps == pytest.approx(4, abs=0.3)
    moved = np.abs(unpack(found.cuts[0].projection.output)[:, 3])
    assert moved.max() > 0.05, "something moves in what was taken"


def test_frames_are_taken_where_something_moves(tmp_path):
    av = pytest.importorskip("av")
    path = tmp_path / "late.mkv"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("ffv1", rate=4)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "bgr0"
        for i in range(60):
            pixels = np.zeros((64, 64, 3), dtype=np.uint8)
            if 30 <= i < 46:
                pixels[:, 4 * (i - 30) : 4 * (i - 30) + 8] = 255
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="bgr0")):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)
    found = tokens(None, None, path).film
    lit = bytes_of(found.frames, (16, 96, 96, 3)).float().mean((1, 2, 3)) > 10
    assert int(lit.sum()) >= 15
    assert "from 7." in found.note


# --- the page ----------------------------------------------------------------------------------------------------------


def test_without_a_file_there_is_one_of_each(made):
    assert (made.sound.name, made.picture.name, made.film.name) == ("synthetic voice", "synthetic picture", "synthetic film")
    assert made.sound.samples.shape == [8000]
    assert tokens(None, None, None) == made, "made the same each time"


def test_what_is_made_needs_no_extra(made, monkeypatch):
    for name in ("soundfile", "soxr", "av"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    assert tokens(None, None, None) == made


@pytest.mark.parametrize("kind", ["sound", "picture", "film"])
def test_the_page_of_one_thing_is_small(made, kind):
    alone = {name: getattr(made, name) if name == kind else None for name in ("sound", "picture", "film")}
    assert len(html(type(made)(title="", summary="", **alone))) < 700_000


def test_a_page_of_noise_is_small_enough(photograph):
    assert len(html(tokens(photograph, None, None))) < 1_000_000, "the worst picture that there is, twice as wide as high"


def test_drawn_things_have_something_to_see():
    assert len(np.unique(sample_media.meadow(56).reshape(3, -1), axis=1).T) > 20
    assert sample_media.bounce(4, 16).shape == (4, 3, 16, 16)
    assert 0.5 < float(sample_media.voice().abs().max()) <= 1


def test_the_command_prints_the_record_or_refuses(capsys, tmp_path):
    from equiscope.cli import pages
    from equiscope.cli.explore import PageOutput

    def run(**files):
        said = pages.PageInputs(sentence=None, **{kind: files.get(kind) for kind in ("image", "audio", "video")}, seed=0)
        pages.run("tokens", said, [], PageOutput(None, 0, False, json=True))

    run(audio=DIGIT)
    assert msgspec.json.decode(capsys.readouterr().out, type=Tokenised) == tokens(None, DIGIT, None)
    with pytest.raises(InputError, match="There is no picture"):
        run(image=tmp_path / "none.png")
