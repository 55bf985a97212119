"""Files: where a name is looked for, and what is said where it cannot be read."""

import gzip
import hashlib
import lzma
from pathlib import Path

import pytest

from equiscope.data import files
from equiscope.data.files import Missing, digest, find_files, folders, is_archive, open_file, sources
from equiscope.errors import InputError


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to stand in, beside a folder of data and one of recipes."""
    for name in ("work", "data", "recipes"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("EQUISCOPE_DATA", raising=False)
    return tmp_path


def test_what_lies_beside_the_recipe_comes_before_all_else(here):
    for folder in ("recipes", "work", "data"):
        (here / folder / "a.txt").write_text(folder)
    assert find_files("a.txt", here / "recipes")[0].read_text() == "recipes"
    assert find_files("a.txt")[0].read_text() == "work"
    (here / "work" / "a.txt").unlink()
    assert find_files("a.txt")[0].read_text() == "data"


def test_a_folder_that_is_named_is_the_only_one_of_data(here, monkeypatch):
    (here / "data" / "a.txt").write_text("a")
    (here / "mine").mkdir()
    monkeypatch.setenv("EQUISCOPE_DATA", str(here / "mine"))
    with pytest.raises(Missing, match=r"There is no a\.txt\. Looked in: here, .*mine\. Give a path, or set EQUISCOPE_DATA"):
        find_files("a.txt")
    monkeypatch.setenv("EQUISCOPE_DATA", str(here / "nowhere"))
    with pytest.raises(InputError, match=r"EQUISCOPE_DATA is .*nowhere, which is no folder"):
        folders()


def test_a_star_is_many_files_in_order(here):
    for name in ("b.txt", "a.txt", "c.csv"):
        (here / "data" / name).write_text(name)
    assert [path.name for path in find_files("*.txt")] == ["a.txt", "b.txt"]
    assert [path.name for path in find_files(str(here / "data" / "*.txt"))] == ["a.txt", "b.txt"]
    (here / "data" / "[x].txt").write_text("a sign of a pattern in a name")
    assert [path.name for path in find_files("[x].txt")] == ["[x].txt"]
    with pytest.raises(Missing, match=r"There is no file that fits \*\.json\. Looked in: here"):
        find_files("*.json")


def test_an_absolute_name_is_looked_for_where_it_says(here):
    with pytest.raises(Missing, match=r"^There is no /nowhere/a\.txt\. Give a path"):
        find_files("/nowhere/a.txt")
    with pytest.raises(Missing, match="There is no file without a name"):
        find_files("")


@pytest.mark.parametrize("name", ["a**b.txt", "~nobody-of-this-name/x.txt", "a" * 300])
def test_what_cannot_be_a_name_is_said(here, name):
    with pytest.raises(InputError, match=r"cannot be looked for: .*[^.]\. Give another path"):
        find_files(name)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "b/a.TXZ", "a.tbz2"])
def test_an_archive_is_known_by_its_name(name):
    assert is_archive(Path(name))
    assert not is_archive(Path(name + ".txt")) or ".tar" in name


@pytest.mark.parametrize(("name", "pack"), [("a.txt", bytes), ("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress)])
def test_what_is_compressed_is_opened_on_the_way(here, name, pack):
    path = here / "data" / name
    path.write_bytes(pack(b"words"))
    assert open_file(path).read() == b"words"


def test_a_folder_is_no_file(here):
    with pytest.raises(InputError, match=r"data is a folder\. Name the files in it, such as .*data/\*\.txt"):
        digest(here / "data")


def test_a_source_is_the_bytes_of_a_file(here):
    path = here / "data" / "a.txt"
    path.write_bytes(b"words")
    (one,) = sources({"train": [path]})
    assert sources({"train": [Path("../data/a.txt")]}) == [one]
    assert (one.name, one.part, one.bytes, one.sha256) == ("data/a.txt", "train", 5, hashlib.sha256(b"words").hexdigest())


def test_very_many_files_are_one_source_that_notices_any_change(here):
    count = files.MANY + 1
    paths = [here / "data" / f"{i}.txt" for i in range(count)]
    for path in paths:
        path.write_text("words")
    (one,) = sources({"train": paths})
    assert one.name.endswith(f"/data: {count} files")
    assert one.bytes == 5 * count
    paths[0].rename(here / "data" / "00.txt")
    assert sources({"train": [here / "data" / "00.txt", *paths[1:]]})[0].sha256 != one.sha256
