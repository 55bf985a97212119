"""Budgets: a small file that unfolds to much, a pipe that says nothing, brackets without end: one sentence, little memory."""

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import threading
import tracemalloc
from functools import partial

import pytest

from equiscope import budgets
from equiscope.data.texts import stretches, texts
from equiscope.errors import InputError, OverBudget

ZEROS = bytes(2**20)
PACKERS = {".gz": gzip, ".xz": lzma, ".bz2": bz2}


def tar(content, mode):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        one = tarfile.TarInfo("a.txt")
        one.size = len(content)
        archive.addfile(one, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("name", ["a.xyz.gz", "a.sdf.xz", "a.bin.bz2", "UPPER.GZ", "twice.gz.gz"])
def test_a_file_that_unfolds_to_too_much_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(PACKERS[path.suffix.lower()].compress(ZEROS) * 64)
    tracemalloc.start()
    with pytest.raises(OverBudget, match="unfolds to more than"):
        budgets.unpacked(path, least=2**16)
    assert tracemalloc.get_traced_memory()[1] < 2**24  # of the 64 MB that it unfolds to
    tracemalloc.stop()


@pytest.mark.parametrize("kind", PACKERS)
def test_what_is_read_as_it_unfolds_is_refused_where_it_is_too_much(kind):
    packed = PACKERS[kind].compress(ZEROS)
    whole, stretch = (budgets.Limited(PACKERS[kind].open(io.BytesIO(packed)), "a.txt", 2**16) for _ in range(2))
    with pytest.raises(OverBudget, match="unfolds to more than"):
        whole.read()
    with pytest.raises(OverBudget, match="unfolds to more than"):
        list(iter(partial(stretch.read, 1000), b""))


@pytest.mark.parametrize("name", ["a.txt.gz", pytest.param("a.tar.gz", marks=pytest.mark.thorough)])
def test_texts_that_unfold_to_too_much_are_refused(tmp_path, name):
    path, text = tmp_path / name, b" " * (budgets.UNFOLDED + 1)
    path.write_bytes(tar(text, "w:gz") if ".tar" in name else gzip.compress(text, 1))
    with pytest.raises(OverBudget, match=r"unfolds to more than|holds more than"):
        sum(map(len, stretches([path])))


@pytest.mark.parametrize("cut", [1, 5, 11, 20, 30])
@pytest.mark.parametrize("kind", PACKERS)
def test_a_file_that_ends_in_the_middle_is_damaged(tmp_path, kind, cut):
    path = tmp_path / f"a.txt{kind}"
    path.write_bytes(PACKERS[kind].compress(b"some words " * 99)[:cut])
    with pytest.raises(InputError, match="damaged"):
        list(texts([path]))


@pytest.mark.parametrize("name", ["a.json", "a.toml", "a.xyz", "a.png", "model.safetensors"])
def test_a_pipe_that_says_nothing_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(OverBudget, match="gave nothing for"):
        budgets.read(tmp_path / name, patience=0.2)


@pytest.mark.parametrize("most", [0, 1, 1000, 2**16, 2**20])
def test_what_never_ends_is_refused(most):
    with pytest.raises(OverBudget, match="no regular file, and gives more than"):
        budgets.read("/dev/zero", most)


@pytest.mark.parametrize("content", [b"", b"two words", b"\0" * 10**5, b"\xff\xfe", "é".encode()], ids=range(5))
def test_a_file_is_read_at_once(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    tracemalloc.start()
    assert budgets.read(tmp_path / "file", budgets.WHOLE) == content
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


@pytest.mark.parametrize("content", [b"x", b"two words", b"\0" * 10**5, b"\xff\xfe", "é".encode()], ids=range(5))
def test_a_pipe_is_read_to_its_end(tmp_path, content):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(content))
    writer.start()
    assert budgets.read(path) == content
    writer.join()


@pytest.mark.parametrize(
    "content",
    [
        "[" * 10**5,
        '{"a":' * 10**5,
        "[" * 10**5 + "]" * 10**5,
        '"\\ud800"',
        '{"\\udfff": 1}',
        '["a", "\\ud83d"]',
        "9" * 9999,
        "{",
        "",
    ],
    ids=range(9),
)
def test_json_that_cannot_be_plain_data_is_a_value_error(content):
    with pytest.raises(ValueError, match=r"."):
        budgets.parsed(content)


@pytest.mark.parametrize("content", ['{"a": NaN}', "[-Infinity]", '"\\ud83d\\ude00"', '"é"', "[[[]]]"])
def test_json_as_configs_have_it_is_read(content):
    assert json.dumps(budgets.parsed(content)) == json.dumps(json.loads(content))


@pytest.mark.parametrize("make", [lambda x: [x], lambda x: {"a": x}, lambda x: [0, x], lambda x: [{"b": x}], lambda x: {"a": [x]}])
def test_plain_data_has_a_depth(make):
    flat, deep = 0, 0
    for _ in range(30):
        flat = make(flat)
    for _ in range(70):
        deep = make(deep)
    assert not budgets.too_deep(flat)
    assert budgets.too_deep(deep)
