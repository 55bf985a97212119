"""Pictures: patches are a convolution, come back, and a packed picture is read as if it were alone (T2)."""

import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from tests.drawn import randomised

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.positions import AxialRope
from equiscope.symmetry import relative_error
from equiscope.tokens import Stem, pack_images, patches, pixels, read_image, unpatch

ROUNDING = 1e-12  # float64: a sum in another order


@pytest.mark.parametrize("size", [(4, 4), (2, 6), (1, 1), (8, 12)], ids=str)
def test_patches_and_a_linear_map_are_a_convolution_with_stride(size):
    image, conv = torch.randn(2, 3, 8, 12, dtype=torch.float64), torch.nn.Conv2d(3, 5, size, stride=size).double()
    tokens = patches(image, size)
    assert relative_error(tokens.x @ conv.weight.flatten(1).T + conv.bias, conv(image).flatten(2).mT) < ROUNDING


def test_a_patch_is_flattened_by_channel_row_column_and_placed_by_row_column():
    image = torch.arange(2 * 4 * 6.0).view(2, 4, 6)
    tokens = patches(image, (2, 3))
    assert tokens.x[1].tolist() == image[:, :2, 3:].flatten().tolist()
    assert tokens.positions.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert tokens.order.tolist() == [0, 1, 2, 3]
    assert torch.equal(pixels(image).x[7], image[:, 1, 1])
    assert pixels(image).positions[7].tolist() == [1, 1]


def test_a_grid_has_an_axis_for_each_coordinate_and_one_for_features():
    assert eq.Tokens.on_grid(torch.zeros(2, 3, 5), axes=2).positions.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert eq.Tokens.on_grid(torch.zeros(7, 4, 5), axes=1).x.shape == (7, 4, 5)
    with pytest.raises(ShapeError, match=r"A grid with 2 axes needs features of 3 axes or more, but got shape \(3, 5\)"):
        eq.Tokens.on_grid(torch.zeros(3, 5), axes=2)


def test_patches_come_back_as_the_picture_in_whatever_order_they_stand():
    image, shuffle = torch.randn(2, 3, 6, 8), torch.randperm(12)
    tokens = patches(image, (2, 2))
    moved = eq.Tokens(x=tokens.x[:, shuffle], positions=tokens.positions[shuffle] + 100, order=tokens.order)
    assert torch.equal(unpatch(tokens, (2, 2)), image)
    assert torch.equal(unpatch(moved, (2, 2)), image)
    with pytest.raises(ShapeError, match="11 patches do not fill 3×4 cells once each"):
        unpatch(eq.Tokens(x=tokens.x[:, :-1], positions=tokens.positions[:-1], order=tokens.order[:-1]), (2, 2))
    with pytest.raises(ShapeError, match="a multiple of 25 numbers, but a token has 12"):
        unpatch(tokens, (5, 5))


@pytest.mark.parametrize(
    ("shape", "size", "words"),
    [
        ((3, 30, 33), (16, 16), "30×33 pixels is not a whole number of 16×16 patches. Crop it to 16×32, pad it, or resize it."),
        ((3, 8, 33), (16, 16), "8×33 pixels is not a whole number of 16×16 patches. Pad it, or resize it."),
        ((3, 0, 16), (16, 16), "0×16 pixels is not a whole number"),
        ((3, 8, 8), (0, 2), "at least 1 along each axis, but size is 0×2"),
    ],
)
def test_a_picture_that_patches_do_not_fill_is_refused_with_a_next_step(shape, size, words):
    with pytest.raises(ShapeError, match=words):
        patches(torch.zeros(shape), size)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", [16, (16,), (16.0, 16), (4, 4, 4)])
def test_a_size_that_is_no_pair_is_refused(size):
    picture = torch.zeros(3, 32, 32)
    cut = patches(picture)
    for way in (lambda: patches(picture, size), lambda: pack_images([picture], size), lambda: unpatch(cut, size)):
        with pytest.raises(ShapeError, match=r"The size of patches is 2 whole numbers, e\.g\. \(16, 16\), but got"):
            way()
    assert torch.equal(patches(picture, [16, 16]).x, cut.x)
    assert torch.equal(patches(picture, (np.int64(16), np.int64(16))).x, cut.x)


def test_packed_pictures_are_read_as_each_alone():
    images = [torch.randn(4, 2 * h, 2 * w, dtype=torch.float64) for h, w in ((2, 3), (4, 1), (1, 1))]
    block = eq.Block(attention=eq.Attention(heads=2, position=AxialRope()))
    model = randomised(eq.build(eq.Spec(width=16, layers=2, block=block)))
    row = pack_images(images, (2, 2))
    assert row.document.tolist() == [0] * 6 + [1] * 4 + [2]
    assert row.positions[6].tolist() == [0, 0]
    alone = torch.cat([model(patches(image, (2, 2))) for image in images])
    assert relative_error(model(row), alone) < ROUNDING


@pytest.mark.usefixtures("unchecked")
def test_packed_pictures_have_the_same_channels():
    with pytest.raises(ShapeError, match="Part 0 has 12 features a token, part 1 has 4"):
        pack_images([torch.zeros(3, 2, 2), torch.zeros(1, 2, 2)], (2, 2))


def test_a_stem_sees_over_the_border_of_its_patch_and_no_other_picture():
    stem, image = Stem((3, 8, 16, 32)).double(), torch.randn(2, 3, 24, 17, dtype=torch.float64)
    tokens = stem(image)
    assert tokens.x.shape == (2, 9, 32)
    assert tokens.positions.tolist() == [[r, c] for r in range(3) for c in range(3)]
    assert torch.allclose(stem(image[0]).x, tokens.x[0], atol=1e-14)
    changed = image.clone()
    changed[0, :, 7, 7] += 1  # in the patch of (0, 0), next to the others
    assert (stem(changed).x[0] != tokens.x[0]).any(-1).tolist() == [True, True, False, True, True, False, False, False, False]
    with pytest.raises(ShapeError, match=r"one convolution or more, e.g. \(3, 64\), over 1 to 3 axes, but got \(3,\) over 2"):
        Stem((3,))


def test_a_picture_file_is_read_as_pillow_has_it(data):
    path = data("photos/chelsea.png")
    image = read_image(path)
    assert image.shape == (3, 300, 451)
    assert Image.open(path).getpixel((100, 50)) == tuple((image[:, 50, 100] * 255).round().int().tolist())
    assert 0 <= image.min() < image.max() <= 1
    assert patches(read_image(path, size=(224, 224))).x.shape == (196, 768)


def test_a_camera_that_was_held_sideways_is_turned_upright_and_grey_has_three_colours(tmp_path):
    grey, exif = Image.new("L", (4, 2), 51), Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    grey.save(tmp_path / "grey.jpg", exif=exif)
    assert read_image(tmp_path / "grey.jpg").shape == (3, 4, 2)
    assert torch.allclose(read_image(tmp_path / "grey.jpg"), torch.tensor(0.2), atol=1 / 255)


def test_what_is_no_picture_is_refused(tmp_path):
    (tmp_path / "note.png").write_text("no picture")
    Image.new("I;16", (2, 2)).save(tmp_path / "deep.png")
    with pytest.raises(InputError, match=r"note.png cannot be read as a picture: .* Give a file that Pillow reads"):
        read_image(tmp_path / "note.png")
    with pytest.raises(InputError, match="No such file"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(InputError, match="more than 8 bits a colour"):
        read_image(tmp_path / "deep.png")


def test_readers_load_their_packages_only_when_they_read():
    asked = ("PIL", "soundfile", "soxr", "av", "trimesh", "tokenizers", "transformers")
    code = f"import sys, equiscope.tokens; print([name for name in {asked} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_more_than_eight_bits_a_colour_are_refused_in_colour_too(tmp_path):
    rows = b"".join(b"\x00" + bytes(12) for _ in range(2))  # two rows of two pixels, 16 bits a colour

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 2, 2, 16, 2, 0, 0, 0)
    path = tmp_path / "deep.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    with pytest.raises(InputError, match="more than 8 bits a colour"):
        read_image(path)


def test_pictures_without_channels_and_sizes_of_nothing_are_refused(tmp_path, unchecked):
    with pytest.raises(ShapeError, match=r"A picture is \[\.\.\., C, H, W\]"):
        patches(torch.zeros(8, 8), (2, 2))
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="1 or more"):
        read_image(tmp_path / "a.png", (0, 4))
    damaged = bytearray((tmp_path / "a.png").read_bytes())
    damaged[12:16] = b"xxxx"
    (tmp_path / "b.png").write_bytes(damaged)
    with pytest.raises(InputError, match="cannot be read as a picture"):
        read_image(tmp_path / "b.png")
