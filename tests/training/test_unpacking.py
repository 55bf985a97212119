"""`equiscope new ARCHIVE`: the files go into a folder beside the recipe, and refusals name the file in the archive."""

import json
import shutil
import tarfile
import zipfile

import numpy as np
import pytest

from equiscope.cli.new import new
from equiscope.errors import InputError
from equiscope.training.draft import look_into, timing
from equiscope.training.draft.listing import named_groups
from tests.cli.test_cli import equi, refused  # noqa: F401
from tests.training.test_draft import SAMPLES, opened, pictures
from tests.training.test_targets import tones


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "STEPS", 2)
    return tmp_path


def packed(folder, ending):
    """The folder as an archive, without the folder."""
    kind = {"zip": "zip", "tar.gz": "gztar", "tar": "tar"}[ending]
    shutil.make_archive(str(folder), kind, folder)
    shutil.rmtree(folder)
    return folder.with_name(f"{folder.name}.{ending}")


def words(folder):
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"{part}.conll").write_text("\n".join(f"Ann{i + 30 * (part == 'test')} B-PER\nleft O\n" for i in range(30)))


def sounds(folder):
    folder.mkdir()
    for name in ("high", "low"):
        shutil.copytree(SAMPLES / "fsdd", folder / name)


def pitches(folder):
    folder.mkdir()
    tones(folder)


def reviews(folder):
    folder.mkdir()
    rows = [f"text number {i} says {i * i},{('good', 'bad')[i % 2]}" for i in range(60)]
    (folder / "reviews.csv").write_text("text,label\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("write", "ending", "task"),
    [
        (pictures, "zip", "images"), (pictures, "tar.gz", "images"), (words, "zip", "tags"), (pitches, "tar", "sounds"),
        (reviews, "zip", "texts"),
    ],
)  # fmt: skip
def test_an_archive_is_a_folder_beside_the_recipe(here, write, ending, task):
    write(here / "data set")
    archive = packed(here / "data set", ending)
    found = look_into([archive.name])
    assert found.folder is not None
    assert found.draft.understood[0].endswith("unpacked into the folder data_set.")
    assert ".unpacked" not in json.dumps([found.draft.recipe(), found.draft.understood, found.draft.files, found.draft.example])
    assert found.draft.data["task"] == task
    assert sorted(path.name for path in here.iterdir() if path.name.startswith(".")) == []
    opened(found.draft)


def test_explaining_writes_nothing_and_says_the_same(equi, here):  # noqa: F811
    pictures(here / "pets")
    packed(here / "pets", "zip")
    code, out, _ = equi("new", "pets.zip", "--explain")
    assert (code, [path.name for path in here.iterdir()]) == (0, ["pets.zip"])
    assert "pets has 24 pictures of 2 classes" in out
    assert equi("new", "pets.zip", "--minutes", 60)[0] == 0
    assert (here / "pets" / "cat").is_dir()
    (here / "pets.toml").unlink()
    refused(equi("new", "pets.zip"), "pets, which is there already", "equiscope new pets")


def test_a_refusal_names_the_file_in_the_archive_and_leaves_nothing(here):
    pictures(here / "pets")
    (here / "pets" / "dog" / "000.png").write_bytes(b"no picture")
    packed(here / "pets", "zip")
    with pytest.raises(InputError, match=r"^pets\.zip: dog/000\.png"):
        look_into(["pets.zip"])
    pictures(here / "more")
    packed(here / "more", "zip")
    with pytest.raises(InputError, match="Give more --minutes"):
        new(["more.zip"], None, None, 1e-6, explain=False, json=False, force=False)
    assert sorted(path.name for path in here.iterdir()) == ["more.zip", "pets.zip"]


@pytest.mark.parametrize("name", ["../out.png", "/out.png", "a/../../out.png", "c:out.png"])
def test_a_file_outside_the_folder_is_refused(here, name):
    with zipfile.ZipFile("bad.zip", "w") as file:
        file.writestr(name, b"x")
    with pytest.raises(InputError, match="would be written outside the folder"):
        look_into(["bad.zip"])
    assert [path.name for path in here.iterdir()] == ["bad.zip"]


def test_empty_and_damaged_archives_are_refused(here):
    tarfile.open("empty.tar", "w").close()
    (here / "bad.zip").write_bytes(b"PK\3\4 nothing")
    with pytest.raises(InputError, match=r"empty\.tar has no file in it"):
        look_into(["empty.tar"])
    with pytest.raises(InputError, match=r"bad\.zip is damaged"):
        look_into(["bad.zip"])


def test_groups_of_the_parts_are_a_column_which_the_simple_model_reads(here):
    """Each person has pictures of both classes: the folds of the simple model do not divide a person."""
    pictures(here / "pets", each=30)
    for name in ("cat", "dog"):
        for i, file in enumerate(sorted((here / "pets" / name).iterdir())):
            file.rename(file.with_name(f"p{i % 6}_{i}.png"))
    files = sorted((here / "pets").rglob("*.png"))
    assert set(named_groups(files, [file.parent.name for file in files])) == {f"p{i}" for i in range(6)}
    found = look_into(["pets"])
    assert found.draft.data["group"] == "group"
    task = opened(found.draft)
    of_part = {part: set(task.simple_groups(part)) for part in task.parts}
    assert not of_part["train"] & of_part["test"]
    assert len(of_part["train"]) > 1
    assert np.all([group.startswith("p") for group in of_part["train"]])
