"""Texts: whatever a file is, its documents come out; whatever is wrong in it is said with file and line."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from functools import partial

import pytest

from equiscope.data import texts as room
from equiscope.data.texts import decoded, files
from equiscope.errors import InputError

HEADER = "<teiHeader><p>not this</p></teiHeader>"
TEI = f'<TEI xmlns="http://www.tei-c.org/ns/1.0">{HEADER}<text><body><head>One</head>{{}}</body></text></TEI>'


texts, stretches, documents = (partial(read, stretch=7) for read in (room.texts, room.stretches, room.documents))


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def archive(path, members):
    with tarfile.open(path, "w:xz") as made:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content.encode())
            made.addfile(entry, io.BytesIO(content.encode()))
    return path


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.txt", "Größe\r\nzwei\n", ["Größe\nzwei\n"]),
        ("with-a-mark.txt", b"\xef\xbb\xbfone", ["one"]),
        ("a.txt.gz", gzip.compress(b"one\ntwo", mtime=0), ["one\ntwo"]),
        ("a.txt.xz", lzma.compress(b"one\ntwo"), ["one\ntwo"]),
        ("a.txt.bz2", bz2.compress(b"one\ntwo"), ["one\ntwo"]),
        ("a.jsonl", '{"text": "one\\n1"}\n\n{"text": "zwölf", "more": 2}\n', ["one\n1", "zwölf"]),
        ("a.csv", 'id,text\n1,one\n2,"two,\nthree"\n', ["one", "two,\nthree"]),
        ("a.tsv", 'text\tid\n"one\t1\ntwo\t2\n', ['"one', "two"]),
        ("a.tsv.gz", gzip.compress(b"text\tid\none, two\t1\n", mtime=0), ["one, two"]),
        ("a.xml", TEI.format("<p>A <hi>long</hi>\n  word</p><lg><l>verse</l></lg>"), ["One\n\nA long word\n\nverse"]),
    ],
)
def test_every_kind_of_file_gives_its_documents(tmp_path, name, content, wanted):
    path = put(tmp_path / name, content)
    assert list(texts([path])) == wanted
    assert "".join(stretches([path])) == "\n\n".join(wanted)


def test_an_archive_and_a_folder_give_their_files_in_the_order_of_names(tmp_path):
    path = archive(tmp_path / "all.tar.xz", {"b.txt": "two", "a.xml": TEI.format("<p>one</p>"), "c.jsonl": '{"text": "three"}'})
    assert list(texts([path])) == ["One\n\none", "two", "three"]
    inner = tmp_path / "folder" / "inner"
    inner.mkdir(parents=True)
    put(inner / "b.txt", "two"), put(inner / "a.txt.gz", gzip.compress(b"one", mtime=0)), put(inner / "picture.png", b"\x89")
    put(inner / ".hidden.txt", "not this")
    assert list(texts(files([tmp_path / "folder"]))) == ["one", "two"]


def test_an_archive_gives_the_texts_that_its_folder_would(tmp_path):
    others = dict.fromkeys(("b/.hidden.txt", "__MACOSX/b/._1.txt", "b/about.json", "b/LICENSE"), "no")
    content = {"b/1.txt": "one", "b/2.txt.GZ": gzip.compress(b"two", mtime=0), "b/3.jsonl": '{"text": "three"}'}
    content |= others | {"b/drawn.png": b"\x89PNG\xff"}
    with tarfile.open(tmp_path / "all.tgz", "w:gz") as made:
        for name, text in content.items():
            bytes_ = text if isinstance(text, bytes) else text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(bytes_)
            made.addfile(entry, io.BytesIO(bytes_))
            file = tmp_path / "folder" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes_)
    assert list(texts([tmp_path / "all.tgz"])) == list(texts(files([tmp_path / "folder"]))) == ["one", "two", "three"]
    with pytest.raises(InputError, match=r"none\.tar has no text in it\. Texts are files that end in"):
        list(texts([archive(tmp_path / "none.tar", {"a.png": "no"})]))


def test_an_archive_of_files_without_endings_is_texts(tmp_path):
    assert list(texts([archive(tmp_path / "a.tar", {"wiki_01": "two", "wiki_00": "one"})])) == ["one", "two"]


def test_json_that_is_not_line_by_line_is_no_plain_text(tmp_path):
    with pytest.raises(InputError, match=r"a\.json is a \.json, which is not read\. Write one object a line"):
        list(texts([put(tmp_path / "a.json", '{"text": "one"}')]))
    assert list(texts([put(tmp_path / "notes", "one")])) == ["one"]


def test_an_archive_of_a_repository_may_hold_pointers(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr("a.csv", POINTER)
    with pytest.raises(InputError, match=r"a\.zip: a\.csv is a pointer of Git LFS"):
        list(texts([tmp_path / "a.zip"]))


def test_a_large_file_is_never_one_string(tmp_path):
    path = put(tmp_path / "a.txt", "word and word\n" * 100)
    found = list(stretches([path]))
    assert max(map(len, found)) <= 7
    assert "".join(found) == "word and word\n" * 100


def test_signs_of_several_bytes_and_ends_of_lines_survive_the_border_of_a_stretch(tmp_path):
    text = "ab\r\ncd\r\n€€€€\r\n😀😀\r\n" * 9
    path = put(tmp_path / "a.txt", text)
    assert "".join(stretches([path])) == text.replace("\r\n", "\n")
    assert decoded(text.encode(), "it") == text.replace("\r\n", "\n")


@pytest.mark.parametrize(("name", "mode"), [("a.tgz", "gz"), ("a.tbz2", "bz2"), ("a.txz", "xz")])
def test_an_archive_of_a_short_name_is_an_archive(tmp_path, name, mode):
    inner = put(tmp_path / "a.txt", "words")
    (tmp_path / "folder").mkdir()
    with tarfile.open(tmp_path / "folder" / name, f"w:{mode}") as made:
        made.add(inner, "a.txt")
    assert list(texts(files([tmp_path / "folder"]))) == ["words"]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"one\ntwo\nth\xffree\n", r"a\.txt, line 3 is not UTF-8: byte 0xff at 10\. Convert the file"),
        ("a.txt", "x" * 50 + "\n\n" + "é", None),
        ("a.txt", ("x" * 50 + "\n\n").encode() + b"\xc3", r"line 3 is not UTF-8: byte 0xc3 at 52"),
        ("a.txt", b"one\ntw\0o\n", r"a\.txt, line 2 has a zero byte, so this is no text"),
        ("a.csv", b"PAR1\x00\xff\x00", r"a\.csv, line 1 has a zero byte, so this is no text"),
        ("a.csv", POINTER, r"a\.csv is a pointer of Git LFS, without the content\. Fetch it: git lfs pull"),
        ("a.csv", "<!DOCTYPE html>\n<p>Not found", r"a\.csv is a web page, and not the file"),
        ("a.jsonl", '[\n{"text": "one"}\n]\n', r"line 1 opens JSON of several lines, .*: jq -c '\.\[\]' FILE > NEW"),
        (
            "a.parquet",
            b"PAR1",
            r"a\.parquet is a \.parquet, which is not read\. Save it as \.csv: python -c .*read_parquet\('FILE'\)",
        ),
        ("a.txt", " \n ", "is empty: there is no text in it"),
        ("a.txt.gz", gzip.compress(b"one" * 100, mtime=0)[:-9], r"a\.txt\.gz is damaged: .* Fetch it again"),
        ("a.txt.xz", b"no such thing", r"is damaged"),
        ("a.tar.xz", b"no such thing", r"is damaged"),
        ("a.jsonl", '{"text": "one"}\n{"text": \n', r"a\.jsonl, line 2 is not JSON"),
        (
            "a.jsonl",
            '{"text": "one"}\n\n{"body": "two", "id": 3}\n',
            r"line 3 has no text 'text'\. .* to one of: body\.$",
        ),
        ("a.csv", "id,body\n1,one\n", r"has the columns id, body, but no 'text'\. Set data\.field"),
        ("a.csv", "id,text\n1,one\n2\n", r"a\.csv, line 3 ends before its 'text'"),
        ("a.csv", 'id,text\n1,one\n2,"two\n3,three\n', r"a\.csv, line 3 is not CSV: a quotation mark is opened there"),
        ("a.jsonl", '{"text": "one"}\n' + "[" * 200_000 + "\n", r"a\.jsonl, line 2 is not JSON: more than 64 brackets"),
        ("a.jsonl", '{"text": "one"}\n' + "1" * 5000, r"a\.jsonl, line 2 is not JSON"),
        ("a.7z", b"7z", r"a\.7z is a \.7z, which is not read\. Unpack it"),
        ("a.zip", b"PK\x03\x04", r"a\.zip is damaged: .*Fetch it again"),
        ("a.xml", "<TEI><text>", "is no XML"),
        ("a.xml", '<?xml version="1.0" encoding="foo"?><TEI/>', "is no XML: unknown encoding"),
        ("a.xml", "<TEI/>", "is no TEI text: it has no body"),
    ],
)
def test_what_cannot_be_read_is_refused_with_file_and_line(tmp_path, name, content, said):
    path = put(tmp_path / name, content)
    if said is None:
        assert list(texts([path])) == [content]
        return
    with pytest.raises(InputError, match=said):
        list(stretches([path]))


def test_what_stands_within_a_paragraph_is_read_once_and_apart(tmp_path):
    quoted = "<p>He sang: <q><l>Roses are red,</l><l>violets blue.</l></q> And left.</p>"
    broken = '<p>Words<lb/>joined, bro<lb break="no"/>ken, <hi>l</hi>it.</p><lg><l>A</l><l>B</l></lg>'
    path = put(tmp_path / "a.xml", TEI.format(quoted + broken).encode())
    wanted = ["One", "He sang: Roses are red, violets blue. And left.", "Words joined, broken, lit.", "A", "B"]
    assert list(texts([path])) == ["\n\n".join(wanted)]


def test_a_cell_more_than_the_first_line_names_is_refused_unless_it_is_empty(tmp_path):
    path = put(tmp_path / "a.csv", b"text\nshort\nlonger,\n")
    assert list(texts([path])) == ["short", "longer"]
    path = put(tmp_path / "b.csv", b"text\nHello, world\n")
    with pytest.raises(InputError, match=r"b\.csv, line 2 has 2 columns, but the first line names 1\. .* between quotation marks"):
        list(texts([path]))
    path = put(tmp_path / "c.tsv", b"text\nHello\tworld\n")
    with pytest.raises(InputError, match=r"c\.tsv, line 2 has 2 columns, .* no tab stands in a cell"):
        list(texts([path]))
    path = put(tmp_path / "d.jsonl", b'{"text": null, "title": "A"}\n')
    with pytest.raises(InputError, match=r"Set data\.field to one of: title\."):
        list(texts([path]))
    path = put(tmp_path / "e.jsonl", b"[1, 2]\n")
    with pytest.raises(InputError, match=r"has no text 'text'\. Correct the line"):
        list(texts([path]))


def test_a_document_may_be_left_before_it_is_read(tmp_path):
    path = put(tmp_path / "a.jsonl", "".join(json.dumps({"text": f"t{i}"}) + "\n" for i in range(3)))
    assert ["".join(d) for i, d in enumerate(documents([path])) if i != 1] == ["t0", "t2"]


def test_a_folder_without_texts_and_a_column_that_there_is_not_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no text in it\. Texts are files that end in \.txt"):
        files([tmp_path / "empty"])


def test_what_datasets_saved_is_read_or_says_what_is_missing(tmp_path):
    try:
        import datasets
    except ImportError:
        (tmp_path / "saved").mkdir()
        put(tmp_path / "saved" / "state.json", "{}"), put(tmp_path / "saved" / "data-00000-of-00001.arrow", b"ARROW1")
        with pytest.raises(InputError, match=r"needs the package datasets\. Install it: pip install datasets"):
            list(texts(files([tmp_path / "saved"])))
        return
    datasets.Dataset.from_dict({"text": ["one", "two"], "id": [1, 2]}).save_to_disk(tmp_path / "saved")
    assert list(texts(files([tmp_path / "saved"]))) == ["one", "two"]
    with pytest.raises(InputError, match=r"has the columns text, id, but no 'body'"):
        list(texts(files([tmp_path / "saved"]), "body"))
