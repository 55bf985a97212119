"""Pictures: what is read is what lies there, parts are those that were asked for, and what is wrong is named."""

import gzip
import io
import json
import struct
import tarfile
import warnings
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from equiscope.data import Images
from equiscope.data.images import Pictures, normal
from equiscope.data.picture_files import LABELS, PICTURES, converted, list_pictures, picture, read_idx
from equiscope.data.views import Views
from equiscope.errors import InputError

SAMPLES = Path(__file__).parents[2] / "recipes" / "samples"
REAL = Path(__file__).parents[3] / "shared" / "data"
FASHION = (str(SAMPLES / "fashion-images.gz"), str(SAMPLES / "fashion-labels.gz"))


def images_idx(images: np.ndarray) -> bytes:
    return struct.pack(">4I", 0x803, *images.shape) + images.tobytes()


def labels_idx(labels: list[int]) -> bytes:
    return struct.pack(">2I", 0x801, len(labels)) + bytes(labels)


def pair(folder: Path, count: int = 20, labels: list[int] | None = None) -> tuple[str, str]:
    """idx files of pictures 3×4, number i all of the level i, of the classes 0, 1, 0, 1, ..."""
    images = np.repeat(np.arange(count, dtype=np.uint8), 12).reshape(count, 3, 4)
    (folder / "images").write_bytes(images_idx(images))
    (folder / "labels").write_bytes(labels_idx(labels or [i % 2 for i in range(count)]))
    return str(folder / "images"), str(folder / "labels")


def classes(folder: Path, sizes: dict[str, int], shape: tuple[int, ...] = (6, 5, 3)) -> Path:
    """FOLDER/pictures/class/00.png, number i all of the level i."""
    for name, count in sizes.items():
        place = folder / "pictures" / name
        place.mkdir(parents=True)
        for i in range(count):
            Image.fromarray(np.full(shape, i, np.uint8)).save(place / f"{i:02}.png")
    return folder / "pictures"


def levels(pictures: Pictures, part: str) -> list[int]:
    return pictures.parts[part].images[:, 0, 0, 0].tolist()


def refusal(**config) -> str:
    with pytest.raises(InputError) as caught:
        Pictures(Images(**config))
    return str(caught.value)


def test_an_idx_file_is_its_header_and_its_bytes(tmp_path):
    images, labels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4), [7, 1]
    for name, pack in (("plain", bytes), ("packed.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(images_idx(images)))
        assert np.array_equal(read_idx(tmp_path / name, PICTURES), images)
        (tmp_path / name).write_bytes(pack(labels_idx(labels)))
        assert read_idx(tmp_path / name, LABELS).tolist() == labels


def test_the_last_are_tested_and_those_before_them_held_out(tmp_path):
    pictures = Pictures(Images(train=pair(tmp_path), test_held_out=4, held_out=3))
    assert levels(pictures, "train") == list(range(13))
    assert levels(pictures, "validation") == [13, 14, 15]
    assert levels(pictures, "test") == [16, 17, 18, 19]
    assert pictures.parts["test"].targets == ["0", "1", "0", "1"]
    assert [source.part for source in pictures.sources] == ["train", "train"]


def test_a_share_is_held_out(tmp_path):
    assert levels(Pictures(Images(train=pair(tmp_path), held_out=0.25)), "validation") == [15, 16, 17, 18, 19]


def test_of_folders_the_last_of_each_class_are_held_out(tmp_path):
    pictures = Pictures(Images(train=str(classes(tmp_path, {"cat": 8, "dog": 6})), test_held_out=2, held_out=1))
    assert pictures.classes == ("cat", "dog")
    assert levels(pictures, "train") == [0, 1, 2, 3, 4, 0, 1, 2]
    assert levels(pictures, "validation") == [5, 3]
    assert levels(pictures, "test") == [6, 7, 4, 5]
    assert pictures.parts["test"].targets == ["cat", "cat", "dog", "dog"]
    assert pictures.parts["train"].images.shape == (8, 3, 6, 5)


def test_an_archive_and_a_table_read_as_their_folder_does(tmp_path):
    folder = classes(tmp_path, {"cat": 3, "dog": 3})
    (folder / "cat" / "._00.png").write_bytes(b"what a system hides beside a picture")
    with tarfile.open(tmp_path / "all.tar.xz", "w:xz") as archive:
        archive.add(folder, "train")
    files = sorted(folder.glob("*/[0-9]*.png"))
    rows = [{"path": str(f.relative_to(tmp_path)), "label": f.parent.name} for f in files]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "all.csv").write_text("path,label\n" + "\n".join(f"{r['path']}, {r['label']} " for r in rows))
    folder_too = Pictures(Images(train=str(folder), held_out=1))
    archive_too = Pictures(Images(train=str(tmp_path / "all.tar.xz"), held_out=1))
    for part in ("train", "validation"):
        assert torch.equal(folder_too.parts[part].images, archive_too.parts[part].images)
        assert folder_too.parts[part].targets == archive_too.parts[part].targets
    for table in ("all.csv", "all.jsonl"):
        found = Pictures(Images(train=str(tmp_path / table), validation=str(tmp_path / table)))
        assert found.parts["train"].targets == ["cat"] * 3 + ["dog"] * 3
        assert levels(found, "train") == [0, 1, 2, 0, 1, 2]


def test_what_is_larger_than_memory_is_the_same_in_a_mapped_file(tmp_path):
    folder = str(classes(tmp_path, {"cat": 4, "dog": 3}))
    held = Pictures(Images(train=folder, held_out=1))
    mapped = Pictures(Images(train=folder, held_out=1), bytes_in_memory=0)
    for part in ("train", "validation"):
        assert torch.equal(held.parts[part].images, mapped.parts[part].images)


def test_pictures_are_resized_and_made_grey_where_that_is_asked(tmp_path):
    folder = str(classes(tmp_path, {"cat": 2, "dog": 2}, (8, 16, 3)))
    pictures = Pictures(Images(train=folder, held_out=1, size=(4, 4), channels=1, std=(0.1,)))
    assert pictures.parts["train"].images.shape == (2, 1, 4, 4)


def test_a_transparent_a_palette_and_a_turned_picture_are_read_as_they_are_seen(tmp_path):
    place = tmp_path / "p"
    for name in ("cat", "dog"):
        (place / name).mkdir(parents=True)
    red = Image.new("RGB", (4, 4), (250, 0, 0))
    red.convert("RGBA").save(place / "cat" / "0.png")
    red.quantize(4).save(place / "cat" / "1.png")
    turned = Image.new("RGB", (4, 4))
    turned.paste((250, 0, 0), (0, 0, 4, 2))  # above
    exif = Image.Exif()
    exif[0x0112] = 3  # the camera stood on its head
    turned.save(place / "dog" / "0.png", exif=exif)
    ink = Image.new("RGBA", (4, 4))  # black, and only its transparency shows something
    ink.putpixel((0, 0), (0, 0, 0, 255))
    ink.save(place / "dog" / "1.png")
    red.save(place / "dog" / "2.png")
    images = Pictures(Images(train=str(place), held_out=1)).parts["train"].images
    assert images[0, :, 0, 0].tolist() == [250, 0, 0]
    assert images[1, :, 0, 0].tolist() == [0, 0, 0]
    assert images[1, :, 3, 0].tolist() == [250, 0, 0]
    assert images[2, 0, 0].tolist() == [0, 255, 255, 255]


def test_mean_and_deviation_are_those_of_the_training_part(tmp_path):
    pictures = Pictures(Images(train=pair(tmp_path), held_out=4))
    known = torch.arange(16).double() / 255
    assert abs(float(pictures.mean) - float(known.mean())) < 1e-7
    assert abs(float(pictures.std) - float(known.std(correction=0))) < 1e-7
    said = Pictures(Images(train=pair(tmp_path), mean=(0.5,), std=(0.25,)))
    assert (float(said.mean), float(said.std)) == (0.5, 0.25)
    x = normal(said.parts["validation"].images, said.mean, said.std)
    assert float(x[0, 0, 0, 0]) == pytest.approx((18 / 255 - 0.5) / 0.25)


@pytest.mark.parametrize(
    "augment", [{}, {"flip": 0.5, "shift": 1, "mixup": 1.0}, {"cutmix": 1.0, "mix_probability": 0.5, "erase": 1.0}]
)
def test_one_process_and_two_learn_from_the_same_batch(augment):
    config = msgspec.convert({"train": FASHION, "augment": augment}, Images)
    whole, parted = Pictures(config, seed=5), Pictures(config, seed=5)
    for step in (3, 88):  # within an epoch of 720, and over its end
        one = whole.batch(step, 9)
        two = [parted.batch(step, 9, share, 2) for share in (0, 1)]
        for name, tensor in one.items():
            for share in (0, 1):
                assert torch.equal(two[share][name], tensor[share::2])


def test_every_example_comes_once_an_epoch(tmp_path):
    pictures = Pictures(Images(train=pair(tmp_path), held_out=4, mean=(0.0,), std=(1.0,)))
    seen = torch.cat([pictures.batch(step, 4)["inputs"][:, 0, 0, 0] for step in range(4)])
    assert sorted((seen * 255).round().int().tolist()) == list(range(16))


@pytest.mark.skipif(not (REAL / "fashion_mnist").exists(), reason="needs the real pictures, which the split is a statement about")
def test_fashion_mnist_is_split_as_it_is_said():
    names = tuple(str(REAL / "fashion_mnist" / f"train-{n}-ubyte.gz") for n in ("images-idx3", "labels-idx1"))
    pictures = Pictures(Images(train=names, test_held_out=10_000, held_out=5_000))
    images, labels = read_idx(Path(names[0]), PICTURES), read_idx(Path(names[1]), LABELS)
    for part, rows in (("train", slice(0, 45_000)), ("validation", slice(45_000, 50_000)), ("test", slice(50_000, 60_000))):
        assert np.array_equal(pictures.parts[part].images[:, 0].numpy(), images[rows])
        assert pictures.parts[part].targets == [str(label) for label in labels[rows]]
    assert set(pictures.parts) == {"train", "validation", "test"}


@pytest.mark.skipif(not (REAL / "cifar10_jpeg").exists(), reason="needs the real pictures, which the split is a statement about")
def test_the_cifar_subset_is_split_as_it_is_said():
    path = REAL / "cifar10_jpeg" / "cifar10_train_10k.tar.xz"
    pictures = Pictures(Images(train=str(path), test_held_out=200, held_out=80))
    assert {part: len(p) for part, p in pictures.parts.items()} == {"train": 7200, "validation": 800, "test": 2000}
    with tarfile.open(path) as archive:
        for part, place, name in (("train", 719, "0719"), ("validation", 0, "0720"), ("test", 0, "0800"), ("test", 199, "0999")):
            content = archive.extractfile(f"train/airplane/{name}.jpg").read()
            wanted = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).transpose(2, 0, 1)
            assert np.array_equal(pictures.parts[part].images[place].numpy(), wanted)


def test_the_sample_is_pictures_of_ten_classes():
    pictures = Pictures(Images(train=FASHION, test_held_out=100, held_out=100))
    assert pictures.parts["train"].images.shape == (600, 1, 28, 28)
    assert [len(set(p.targets)) for p in pictures.parts.values()] == [10, 10, 10]


def test_a_file_that_is_no_idx_file_or_is_cut_is_refused(tmp_path):
    images, labels = pair(tmp_path)
    assert "is no idx file of pictures: it begins with 0x00000801, not 0x00000803" in refusal(train=(labels, images))
    assert "pictures first" in refusal(train=(labels, images))
    content = Path(images).read_bytes()
    Path(images).write_bytes(content[:-5])
    assert f"{images} says 20×3×4 = 240 bytes, but has 235." in refusal(train=(images, labels))
    Path(images).write_bytes(content[:7])
    assert "images is no idx file of pictures: it is too short, 7 bytes where 16 stand in front" in refusal(train=(images, labels))
    Path(images).write_bytes(b"")
    assert "images" in refusal(train=(images, labels))
    packed = tmp_path / "images.gz"
    packed.write_bytes(gzip.compress(content, mtime=0)[:60])
    assert f"{packed} cannot be read" in refusal(train=(str(packed), labels))


def test_labels_that_do_not_belong_to_the_pictures_are_refused(tmp_path):
    images, labels = pair(tmp_path)
    Path(labels).write_bytes(labels_idx([0, 1] * 9))
    assert f"{images} has 20 pictures, but {labels} has 18 labels" in refusal(train=(images, labels))
    Path(labels).write_bytes(labels_idx([0, 1] * 9 + [7, 1]))
    said = refusal(train=(images, labels), classes=("left", "right"))
    assert f"{labels}: label 19 is 7, but there are 2 classes" in said
    Path(labels).write_bytes(labels_idx([0, 1] * 10))
    assert "no picture of the class 'other'" in refusal(train=(images, labels), classes=("left", "right", "other"))
    Path(labels).write_bytes(labels_idx([0] * 20))
    assert "There is one class" in refusal(train=(images, labels))


def test_more_than_there_is_cannot_be_held_out(tmp_path):
    assert "data.held_out = 20 takes 20 of 20 pictures of the training part" in refusal(train=pair(tmp_path), held_out=20)
    folder = str(classes(tmp_path, {"cat": 5, "dog": 2}))
    assert "data.test_held_out = 2 takes 2 of 2 pictures of the class 'dog'" in refusal(train=folder, test_held_out=2)
    assert "Leave one of them out" in refusal(train=folder, test_held_out=1, test=folder)


def test_a_view_shows_something(tmp_path):
    said = refusal(train=pair(tmp_path), views=Views(shift=3))
    assert "data.views.shift = 3 moves pictures of 3×4 pixels out of sight" in said


def test_folders_within_a_class_are_of_that_class(tmp_path):
    folder = classes(tmp_path, {"dark": 3, "light": 3})
    (folder / "dark" / "more").mkdir()
    (folder / "dark" / "02.png").rename(folder / "dark" / "more" / "9.png")
    for hidden in (".ipynb_checkpoints", "__MACOSX"):
        (folder / "dark" / hidden).mkdir()
        (folder / "dark" / hidden / "0.png").write_bytes((folder / "dark" / "00.png").read_bytes())
    found = list_pictures(folder, Images(train=""))
    assert found.targets == ["dark"] * 3 + ["light"] * 3
    assert found.names[2].endswith("9.png")


def test_a_file_has_one_class(tmp_path):
    folder = classes(tmp_path, {"dark": 3, "light": 3})
    (folder / "table.csv").write_text("path,label\ndark/00.png,dark\nlight/00.png,light\n./dark/../dark/00.png,light\n")
    with pytest.raises(InputError, match=r"line 4: .* is 'light', but a line before says 'dark' of the same file"):
        list_pictures(folder / "table.csv", Images(train=""))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_in_lab_is_read(tmp_path, channels):
    plain = Image.new("RGB", (4, 3), (200, 100, 50))
    ImageCms.applyTransform(
        plain, ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
    ).save(tmp_path / "lab.tif")
    read = picture(tmp_path / "lab.tif", "lab.tif")
    assert read.mode == "LAB"
    assert np.allclose(converted(read, (3, 4), channels), converted(plain, (3, 4), channels), atol=3)


def test_a_picture_that_cannot_be_read_is_named(tmp_path):
    folder = classes(tmp_path, {"cat": 3, "dog": 3})
    bad = folder / "dog" / "01.png"
    whole = bad.read_bytes()
    for content in (b"no picture", whole[: len(whole) // 2]):
        bad.write_bytes(content)
        assert f"{bad} cannot be read as a picture" in refusal(train=str(folder))
    bad.write_bytes(b"")
    assert f"{bad} is empty" in refusal(train=str(folder))
    Image.fromarray(np.zeros((6, 5), np.uint16)).save(bad)
    assert f"{bad} has more than 8 bits a colour" in refusal(train=str(folder))


def test_a_large_picture_is_read_without_a_warning_and_a_larger_one_is_refused(tmp_path, monkeypatch):
    folder = classes(tmp_path, {"cat": 3, "dog": 3})
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)  # of 30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Pictures(Images(train=str(folder), held_out=1)).parts["train"]) == 4
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)  # Pillow's limit is twice this
    assert "00.png cannot be read as a picture: Image size (30 pixels) exceeds limit" in refusal(train=str(folder))


def test_a_quotation_mark_between_tabs_takes_no_row_in(tmp_path):
    classes(tmp_path, {"cat": 2})
    (tmp_path / "t.tsv").write_text('label\tpath\n"cat\tpictures/cat/00.png\ndog\tpictures/cat/01.png\n')
    assert list_pictures(tmp_path / "t.tsv", Images(train="")).targets == ['"cat', "dog"]


def test_a_picture_of_another_size_is_named_with_what_brings_all_to_one(tmp_path):
    folder = classes(tmp_path, {"cat": 3, "dog": 3})
    odd = folder / "dog" / "02.png"
    Image.fromarray(np.zeros((7, 5, 3), np.uint8)).save(odd)
    assert f"{odd} has 7×5 pixels, but those before it 6×5. Set data.size = [6, 5]" in refusal(train=str(folder))


def test_folders_without_classes_or_pictures_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "has no folders, one for each class" in refusal(train=str(tmp_path / "empty"))
    folder = classes(tmp_path, {"cat": 3})
    (folder / "dog").mkdir()
    assert f"{folder / 'dog'} has no picture" in refusal(train=str(folder))
    (folder / "dog").rmdir()
    assert "There is one class, 'cat'" in refusal(train=str(folder))
    (tmp_path / "notes.txt").write_text("no pictures")
    assert "is no folder, archive" in refusal(train=str(tmp_path / "notes.txt"))
    assert "is 4 files" in refusal(train=str(folder / "cat" / "*")) or "files" in refusal(train=str(folder / "cat" / "*"))


def test_a_run_knows_when_a_picture_of_a_folder_or_a_table_changed(tmp_path):
    folder = classes(tmp_path, {"cat": 2, "dog": 2})
    rows = [f"{f.relative_to(tmp_path)},{f.parent.name}" for f in sorted(folder.glob("*/*.png"))]
    (tmp_path / "all.csv").write_text("\n".join(["path,label", *rows]))
    for name in (str(folder), str(tmp_path / "all.csv")):
        before, again = (Pictures(Images(train=name, held_out=1, std=(1, 1, 1))).sources for _ in range(2))
        assert before == again
        picture = folder / "dog" / "01.png"
        Image.fromarray(np.full((6, 5, 3), len(name), np.uint8)).save(picture)
        (after,) = Pictures(Images(train=name, held_out=1, std=(1, 1, 1))).sources
        assert after.sha256 != before[0].sha256
        assert (after.name, after.part) == (before[0].name, "train")


def test_classes_of_two_parts_are_the_same(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, other = classes(tmp_path / "a", {"cat": 2, "dog": 2}), classes(tmp_path / "b", {"cat": 1, "cow": 1})
    assert "has the class 'cow', which is none of: cat, dog" in refusal(train=str(first), validation=str(other))


def test_an_archive_that_is_damaged_or_mixes_parts_is_refused(tmp_path):
    folder = classes(tmp_path, {"cat": 2, "dog": 2})
    path = tmp_path / "all.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "train")
        archive.add(folder, "test")
    assert "has the parts test, train. Unpack it" in refusal(train=str(path))
    path.write_bytes(path.read_bytes()[:200])
    assert f"{path} is damaged" in refusal(train=str(path))
    with tarfile.open(path, "w:gz"):
        pass
    assert "has no pictures" in refusal(train=str(path))


def test_a_line_of_a_table_that_does_not_fit_is_named(tmp_path):
    classes(tmp_path, {"cat": 2})
    table = tmp_path / "t.csv"
    table.write_text("path,label\npictures/cat/00.png,cat\npictures/cat/09.png,cat\n")
    assert f"{table}, line 3: there is no file {tmp_path / 'pictures/cat/09.png'}" in refusal(train=str(table))
    table.write_text("path,label\npictures/cat/00.png,\n")
    assert f"{table}, line 2 has no class in 'label'" in refusal(train=str(table))
    table.write_text("file,class\nx,y\n")
    assert f"{table} has the columns file, class, but no 'path' and no 'label'." in refusal(train=str(table))
    table.write_text("path,label\n")
    assert f"{table} is empty" in refusal(train=str(table))
    table.write_text('path,label\n"' + "x" * 200_000 + '",cat\n')
    assert f"{table}, line 2 is not CSV: field larger than" in refusal(train=str(table))
    lines = tmp_path / "t.jsonl"
    lines.write_text('{"path": "pictures/cat/00.png", "label": "cat"}\n{"path": \n')
    assert f"{lines}, line 2 is not JSON" in refusal(train=str(lines))
    lines.write_text("[" * 200_000)
    assert f"{lines}, line 1 is not JSON: more than 64 brackets" in refusal(train=str(lines))


def test_numbers_of_channels_that_do_not_fit_are_refused(tmp_path):
    names = pair(tmp_path)
    assert "data.mean has one number for each of 1 channels" in refusal(train=names, mean=(0.1, 0.2, 0.3))
    assert "std above 0" in refusal(train=names, std=(0.0,))
    assert "std above 0" in refusal(train=names, std=(1e-40,))
    assert "data.classes names '1' twice" in refusal(train=names, classes=("0", "1", "1"))
    Path(names[0]).write_bytes(images_idx(np.zeros((20, 3, 4), np.uint8)))
    assert "of one even colour" in refusal(train=names)
