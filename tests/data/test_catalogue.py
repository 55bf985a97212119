"""The list of data: where each is from, whether it is here, and whether it is what it was."""

import hashlib
import io
import tarfile

import msgspec
import pytest

from equiscope.data import catalogue as room
from equiscope.data.catalogue import Dataset, advice, catalogue, clone_files, commands, content, dataset_named, locate
from equiscope.data.files import Missing, find_files
from equiscope.errors import InputError, UnknownName


def packed(path, files):
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """A catalogue with one data set, `digits`: an archive that was made of two files of a project, and a plain file."""
    files = {"0_ann_5.wav": b"zero", "1_ann_12.wav": b"one"}
    packed(made := tmp_path / "digits.tar.xz", files)
    data = {
        "use": "sounds", "what": "Digits: two", "licence": "none", "share": False, "rule": "none",
        "pages": [{"repository": "someone/digits", "commit": "0123456789abcdef"}],
        "files": [
            {"name": "digits.tar.xz", "bytes": made.stat().st_size, "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
             "content": content([made]), "upstream": ["recordings/*_[5-9].wav", "recordings/*_[1-4][0-9].wav"]},
            {"name": "README", "bytes": 2, "sha256": hashlib.sha256(b"hi").hexdigest(), "upstream": ["README.md"]},
        ],
    }  # fmt: skip
    monkeypatch.setattr(room, "catalogue", lambda: {"digits": msgspec.convert(data, Dataset)})
    (tmp_path / "cloned" / "digits" / "recordings").mkdir(parents=True)
    for name, text in (files | {"0_ann_0.wav": b"held back"}).items():
        (tmp_path / "cloned" / "digits" / "recordings" / name).write_bytes(text)
    (tmp_path / "packed" / "digits").mkdir(parents=True)
    made.rename(tmp_path / "packed" / "digits" / made.name)
    return tmp_path


def test_every_data_set_says_what_it_is_where_it_is_from_and_what_may_be_done():
    sets = catalogue()
    assert {"tinyshakespeare", "eltec_eng", "multi30k", "fashion_mnist", "cifar10_jpeg", "fsdd"} <= set(sets)
    for name, dataset in sets.items():
        assert dataset.what
        assert dataset.licence
        assert dataset.pages
        assert dataset.files
        assert all(len(page.commit) == 40 and page.repository.count("/") == 1 for page in dataset.pages)
        assert all(len(file.sha256) == 64 and file.bytes for file in dataset.files)
        assert all(command.startswith("git clone ") and f" data/{name}" in command for command in commands(name))
    assert {name for name, dataset in sets.items() if not dataset.share} == {"multi30k", "cifar10_jpeg", "meshes"}
    assert "do not redistribute" in sets["multi30k"].terms


def test_what_is_here_is_found_and_summed(digits):
    states = {f.file.name: f.state for f in locate("digits", [digits, digits / "packed"], sums=True)}
    assert states == {"digits.tar.xz": "valid", "README": "missing"}
    assert locate("digits/digits.tar.xz", [digits / "packed"])[0].state == "unchecked"


def test_a_clone_serves_in_the_place_of_an_archive_without_what_is_held_back(digits):
    one, other = locate("digits", [digits / "cloned"], sums=True)
    assert [path.name for path in one.paths] == ["0_ann_5.wav", "1_ann_12.wav"]
    assert (one.state, other.state) == ("valid", "missing")
    assert clone_files("digits/digits.tar.xz", digits / "cloned") == one.paths
    assert clone_files("digits/other.tar.xz", digits / "cloned") == clone_files("nothing/x", digits / "cloned") == []


def test_an_archive_packed_again_is_right_where_what_is_in_it_is(digits):
    path = digits / "packed" / "digits" / "digits.tar.xz"
    packed(path, {"b/1_ann_12.wav": b"one", "b/0_ann_5.wav": b"zero"})
    assert locate("digits", [digits / "packed"], sums=True)[0].state == "valid"


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_what_was_changed_is_wrong(digits, damage):
    path = digits / "packed" / "digits" / "digits.tar.xz"
    path.write_bytes(path.read_bytes()[:-9] if damage is None else damage)
    assert locate("digits", [digits / "packed"], sums=True)[0].state == "invalid"
    with pytest.raises(InputError, match=r"digits\.tar\.xz is damaged: .* Fetch it again\."):
        content([path])


def test_a_changed_file_of_a_clone_is_wrong(digits):
    (digits / "cloned" / "digits" / "recordings" / "0_ann_5.wav").write_bytes(b"another")
    assert locate("digits", [digits / "cloned"], sums=True)[0].state == "invalid"


def test_a_missing_file_is_said_with_where_it_was_looked_for_and_where_it_is_from(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_DATA", str(tmp_path))
    with pytest.raises(Missing) as error:
        find_files("fsdd/fsdd_train_idx05-49.tar.xz", tmp_path / "beside")
    said = str(error.value)
    assert said.startswith("There is no fsdd/fsdd_train_idx05-49.tar.xz. Looked in: ")
    assert f"{tmp_path / 'beside'}, here, {tmp_path}. `equiscope data fsdd` says how to get it: from github.com/" in said


def test_a_recipe_finds_the_files_of_a_clone(digits, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_DATA", str(digits / "cloned"))
    assert [path.name for path in find_files("digits/digits.tar.xz")] == ["0_ann_5.wav", "1_ann_12.wav"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fsdd/x.wav", "`equiscope data fsdd` says how to get it: from github.com/Jakobovski/free-spoken-digit-dataset."),
        ("fssd/x.wav", "Did you mean fsdd?"),
        ("samples/x.txt", "A clone of equiscope has the samples, in recipes/samples."),
        ("zzzzz.txt", "Give a path, or set EQUISCOPE_DATA to the folder that has it."),
        ("", "Give a path, or set EQUISCOPE_DATA to the folder that has it."),
    ],
)
def test_advice_is_the_next_step(name, sentence):
    assert advice(name) == sentence


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        UnknownName, match=r"There is no data set called 'fsd'\. Did you mean fsdd\? Known: tinyshakespeare, eltec_eng"
    ):
        dataset_named("fsd")
