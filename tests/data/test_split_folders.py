"""Folders of parts are taken as parts, or refused in words; classes may have any name."""

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equiscope.data import Images, Language, Sounds
from equiscope.data.images import Pictures
from equiscope.data.language import Passages
from equiscope.data.sounds import Recordings
from equiscope.errors import InputError

DIGITS = Path(__file__).parents[2] / "recipes" / "samples" / "fsdd"


def pictures(folder, *places, count=4):
    """Pictures in folders of a folder, each another one."""
    for place in places:
        (folder / place).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            pixels = np.random.default_rng(hash((place, i)) % 2**32).integers(0, 255, (8, 8), np.uint8)
            Image.fromarray(pixels).save(folder / place / f"{i}.png")
    return folder


def seen(folder, **said):
    return Pictures(Images(**{"train": str(folder), "held_out": 1, **said}))


PARTS = {
    "train and val": (("train", "val"), {"validation": 8}),
    "three": (("train", "valid", "test"), {"validation": 8, "test": 8}),
    "capitals": (("Train", "Validation", "TEST"), {"validation": 8, "test": 8}),
    "long names": (("training", "eval", "testing"), {"validation": 8, "test": 8}),
    "train and test": (("train", "test"), {"validation": 2, "test": 8}),
    "train alone": (("train",), {"validation": 2}),
}


@pytest.mark.parametrize("name", PARTS)
def test_class_folders_in_folders_of_parts_are_the_classes(tmp_path, name):
    folders, sizes = PARTS[name]
    found = seen(pictures(tmp_path, *(f"{part}/{kind}" for part in folders for kind in ("cat", "dog"))))
    assert found.classes == ("cat", "dog")
    assert {part: len(some) for part, some in found.parts.items() if part != "train"} == sizes
    assert len(found.parts["train"]) == 8 - (2 if "validation" not in PARTS[name][1] or sizes["validation"] == 2 else 0)
    assert "is a folder of parts" in found.notes[0]
    assert [source.part for source in found.sources] == ["train", *(p for p in ("validation", "test") if sizes.get(p) == 8)]


CLASSES = {
    "a class called train": ("train", "car", "bus"),
    "two classes of such names among others": ("train", "test", "car"),
    "folders within a class": ("train/steam", "train/electric", "car"),
    "val is a dog": ("val", "rex"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_that_have_such_names_stay_classes(tmp_path, name):
    found = seen(pictures(tmp_path, *CLASSES[name]))
    assert found.classes == tuple(sorted({place.partition("/")[0] for place in CLASSES[name]}))
    assert found.notes == []


WRONG = {
    "files in both": (("train", "val"), {}, "train and val with files in them: as parts they lack a folder for each class"),
    "a test without classes": (("train/cat", "train/dog", "test"), {}, r"test has no folder for each class, as .*train has"),
    "a class beside": (("train/cat", "val/cat", "dog"), {}, "has the parts train and val, and beside them dog"),
    "nothing to learn from": (("val/cat", "test/cat"), {}, "no folder train to learn from"),
    "two of one part": (("train/a", "val/a", "valid/a"), {}, "two folders of the validation part: val and valid"),
    "said twice": (
        ("train/a", "train/b", "val/a"),
        {"validation": "elsewhere"},
        "The validation part is defined twice: by the",
    ),
    "counted twice": (("train/a", "train/b", "test/a"), {"test_held_out": 1}, "The test part is defined twice"),
    "another class in val": (("train/a", "train/b", "val/c"), {}, "has the class 'c', which is none of: a, b"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_neither_is_refused_in_words(tmp_path, name):
    places, said, sentence = WRONG[name]
    with pytest.raises(InputError, match=sentence):
        seen(pictures(tmp_path, *places), **said)


def packed(folder, path):
    with tarfile.open(path, "w") as archive:
        archive.add(folder, folder.name)
    return path


@pytest.mark.parametrize("places", [("train/a", "train/b", "val/a", "val/b"), ("x/y/train/a", "x/y/Test/a"), ("train", "val")])
def test_an_archive_of_parts_is_to_be_unpacked(tmp_path, places):
    with pytest.raises(InputError, match=r"has the parts .*train.*\. Unpack it"):
        seen(packed(pictures(tmp_path / "set", *places), tmp_path / "set.tar"))


def test_an_archive_of_classes_may_have_one_of_that_name(tmp_path):
    assert seen(packed(pictures(tmp_path / "set", "train", "car"), tmp_path / "set.tar")).classes == ("car", "train")


def test_a_folder_that_systems_hide_is_no_part(tmp_path):
    pictures(tmp_path, "train/a", "train/b", "val/a", "val/b", "__MACOSX/a", ".cache/a")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "names.json").write_text("{}")
    assert set(seen(tmp_path).parts) == {"train", "validation"}


# ----------------------------------------------------------------------------------------------------- sounds and texts


def recordings(folder, places):
    for place, (digit, index) in places.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DIGITS / f"{digit}_theo_{index}.wav", folder / place)
    return folder


def test_recordings_in_folders_of_parts(tmp_path):
    index = sorted({path.stem.rpartition("_")[2] for path in DIGITS.glob("0_theo_*.wav")})
    places = {f"{part}/{digit}/{i}.wav": (digit, i) for digit in (0, 1) for part, i in zip(("train", "val"), index, strict=False)}
    found = Recordings(Sounds(train=str(recordings(tmp_path / "a", places))))
    assert {r.target for r in found.parts["train"]} == {"0", "1"}
    assert {part: len(some) for part, some in found.parts.items()} == {"train": 2, "validation": 2}
    recordings(
        tmp_path / "b", {f"{part}/{d}_{i}.wav": (d, i) for part, i in zip(("train", "val"), index, strict=False) for d in (0, 1)}
    )
    with pytest.raises(InputError, match="as parts they lack a folder for each class"):
        Recordings(Sounds(train=str(tmp_path / "b")))
    with pytest.raises(InputError, match="has the parts train, val"):
        Recordings(Sounds(train=str(packed(tmp_path / "a", tmp_path / "a.tar"))))
    named = Recordings(Sounds(train=str(tmp_path / "b"), pattern="{label}_{index}"))
    assert {part: len(some) for part, some in named.parts.items()} == {"train": 2, "validation": 2}


TEXT = "to be or not to be, that is the question, " * 4


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (("train/a.txt", "val/b.txt"), {"train", "validation"}),
        (("train/a.txt", "test/b.txt"), {"train", "validation", "test"}),
        (("Train/x/a.txt", "Dev/b.txt", "README.md", "LICENSE.txt"), {"train", "validation"}),
        (("a.txt", "b.txt"), {"train", "validation"}),
        (("train/a.txt", "more/b.txt"), {"train", "validation"}),
    ],
)
def test_texts_in_folders_of_parts(tmp_path, files, parts):
    for i, file in enumerate(files):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"{TEXT}{i}")
    found = Passages(Language(train=str(tmp_path), context=4))
    assert set(found.ids) == parts
    own = {source.part for source in found.sources}
    assert own == {"train"} | ({"validation"} if files[1].lower().startswith(("val", "dev")) else set()) | (parts & {"test"})
    if "validation" in own:
        assert "".join(found.text("validation")) == f"{TEXT}1"


def test_texts_beside_folders_of_parts_are_refused(tmp_path):
    for file in ("train/a.txt", "test/b.txt", "book.txt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(TEXT)
    with pytest.raises(InputError, match=r"has the parts test and train, and beside them book\.txt"):
        Passages(Language(train=str(tmp_path), context=4))
    (tmp_path / "book.txt").unlink()
    with pytest.raises(InputError, match=r"has the parts test, train\. Unpack it"):
        Passages(Language(train=str(packed(tmp_path, tmp_path.parent / f"{tmp_path.name}.tar")), context=4))
