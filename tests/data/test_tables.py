"""Tables as people have them: whatever separates the cells, the columns that are wanted are found, or their lack is said."""

import io
from pathlib import Path

import pytest

from equiscope.data.tables import records, separator_notes
from equiscope.data.texts import texts
from equiscope.errors import InputError
from equiscope.training import open_task, recipe

TWO = [("to be, or not", "1"), ('a "word"; here', "2"), ("a line\nand another | one", "3")]


def cell(text, sign):
    return '"' + text.replace('"', '""') + '"' if any(s in text for s in (sign, '"', "\n")) else text


def written(sign, rows=TWO, head=("text", "label"), end="\n"):
    return "".join(sign.join(cell(one, sign) for one in row) + end for row in (head, *rows))


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_cells_are_apart_however_they_are_separated(tmp_path, sign, end, begin):
    path = tmp_path / "a.csv"
    path.write_bytes((begin + written(sign, end=end)).encode())
    assert list(texts([path], "text")) == [text for text, _ in TWO]
    assert list(texts([path], "label")) == ["1", "2", "3"]
    assert len(separator_notes([path], ["text"])) == (sign != ",")


OTHERS = {
    "said by a first line, as Excel does": ("a.csv", "sep=;\ntext;label\na,b;1\n", ["a,b"]),
    "a table between tabs that is none": ("a.tsv", 'text,label\n"a, b",1\n', ["a, b"]),
    "between tabs quotation marks are signs": ("a.tsv", 'text\tlabel\n"a\t1\n', ['"a']),
    "spaces around names": ("a.csv", "label; text\n1;a\n", ["a"]),
    "quoted names": ("a.csv", '"label";"text"\n1;"a;b"\n', ["a;b"]),
    "one column with other signs in it": ("a.csv", "text\na;b|c\n", ["a;b|c"]),
    "a name that holds another sign": ("a.csv", "text,a;b\nx,1\n", ["x"]),
    "rows that end early": ("a.csv", "text;label;more\na;1\n", ["a"]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms_of_tables(tmp_path, name):
    file, content, expected = OTHERS[name]
    (tmp_path / file).write_text(content)
    assert list(texts([tmp_path / file], "text")) == expected


WRONG = {
    "no such column": ("body;label\na;1\n", r"has the columns body, label \(between semicolons\), but no 'text'\. Set data\.field"),
    "no names at all": ("the man who went;1\nher dog;0\n", r"names no columns.*\(between semicolons\).*in front: text"),
    "numbers for names": ("word,1\nother,0\n", r"names no columns, but reads like data: word, 1"),
    "an empty name": ("word,\nother,0\n", r"names no columns"),
    "nothing": ("", r"a\.csv is empty: it has no first line that names columns"),
    "too many cells": ("text;label\na;b;c\n", r"line 2 has 3 columns, but .* 2\. See that a cell that holds a semicolon"),
    "an open quotation mark": ('text;label\n"a;b\nc;d\n', r"line 2 is not CSV: a quotation mark is opened there and not closed"),
    "an open quotation mark below sep=": ('sep=;\ntext;label\na;1\n"a;b\nc;d\n', r"line 4 is not CSV: a quotation mark is opened"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_table_is_a_sentence(tmp_path, name):
    content, said = WRONG[name]
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=said):
        list(texts([tmp_path / "a.csv"], "text"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_what_some_programs_call_unicode_is_to_be_converted(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes("\ufeff".encode(encoding) * (encoding != "utf-16") + written(";").encode(encoding))
    with pytest.raises(InputError, match="iconv -f UTF-16 -t UTF-8"):
        list(texts([path], "text"))


@pytest.mark.parametrize(("encoding", "order"), [("utf-16-le", "LE"), ("utf-16-be", "BE")])
def test_unicode_of_two_bytes_is_recognised_without_a_mark(tmp_path, encoding, order):
    (tmp_path / "a.csv").write_bytes(written(";").encode(encoding))
    with pytest.raises(InputError, match=f"is UTF-16 without a mark that says so.*iconv -f UTF-16{order} -t UTF-8"):
        list(texts([tmp_path / "a.csv"], "text"))


def test_rows_say_their_lines_also_below_a_first_line_of_excel():
    found = list(records(io.StringIO('sep=;\na;b\n"1\n2";3\n4;5\n'), "a.csv", ("a", "b"), ""))
    assert found == [(4, {"a": "1\n2", "b": "3"}), (5, {"a": "4", "b": "5"})]


PARALLEL = [("a dog", "ein Hund"), ("a cat", "eine Katze"), ("two dogs", "zwei Hunde"), ("no cat", "keine Katze")]
SOUNDS = Path(__file__).parents[2] / "recipes" / "samples" / "fsdd"


@pytest.mark.parametrize("task", ["language", "translation", "sounds"])
def test_a_run_notes_what_separates_columns(tmp_path, task):
    path = tmp_path / "a.csv"
    sounds = [(str(path), path.name[0]) for path in sorted(SOUNDS.glob("[01]_*.wav"))]
    tables = {"language": ([("to be or not to be " * 4, "1")], ("text", "label")), "translation": (PARALLEL, ("source", "target"))}
    path.write_text(written("|" if task == "sounds" else ";", *tables.get(task, (sounds, ("path", "label")))))
    data = {"language": {"context": 4}, "translation": {"vocabulary": 260, "held_out": 0.5}, "sounds": {"held_out": 0.3}}[task]
    found = open_task(
        recipe({
            "title": "t", "data": {"task": task, "train": str(path), **data}, "model": {"width": 8},
            "budget": {"steps": 1, "batch": 1},
        })
    )  # fmt: skip
    assert f"{path} has its columns between {'bars' if task == 'sounds' else 'semicolons'}, by its first line." in found.notes
