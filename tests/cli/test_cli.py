"""The command line, as a person meets it: numbers out, mistakes in one sentence, no traceback."""

import csv
import io
import json
import math
import subprocess
import sys

import pytest
from tests.explore.short import short_page  # noqa: F401

import equiscope
from equiscope.cli import main
from equiscope.positions import SCHEMES


@pytest.fixture
def equi(monkeypatch, capsys):
    """Run `equiscope` with these words in this process: (exit code, output, what went to the error stream)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["equiscope", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()  # always ends so, as a program does
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def refused(result, *wanted):
    code, out, err = result
    assert code == 2
    assert "Traceback" not in out + err
    plain = " ".join(err.replace("│", " ").split())
    assert all(w in plain for w in wanted), plain


@pytest.mark.parametrize("module", ["equiscope", pytest.param("equiscope.cli", marks=pytest.mark.thorough)])
def test_it_runs_as_a_program_and_a_mistake_is_one_sentence(module):
    found = subprocess.run([sys.executable, "-m", module, "table", "rop"], capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.startswith("equiscope: There is no position scheme called 'rop'. Did you mean rope? Known: none, index")
    assert found.stderr.count("\n") == 1


def test_it_says_its_version(equi):
    assert equi("--version") == (0, f"equiscope {equiscope.__version__}\n", "")


def test_help_lists_the_commands(equi):
    code, out, _ = equi("--help")
    assert code == 0
    assert "explore" in out and "table" in out  # noqa: PT018


# --- table ------------------------------------------------------------------------------------------------------------
def test_the_table_in_text_has_the_papers_numbers_and_norms(equi):
    code, out, err = equi("table", "sinusoidal", "--length", 4, "--width", 8)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 6)
    assert lines[0] == "sinusoidal: encoding, 4 positions, 8 features"
    numbers = lines[3].split()
    assert numbers[0] == "1"
    assert [float(n) for n in numbers[1:9]] == pytest.approx([0.84147, 0.54030, 0.099833, 0.99500, 0.0099998, 0.99995, 0.001, 1])
    assert float(numbers[-1]) == 2


def test_the_table_as_json_and_as_csv_are_the_same_numbers(equi):
    data = json.loads(equi("table", "sinusoidal", "--length", 5, "--width", 6, "--json")[1])
    assert {k: data[k] for k in ("scheme", "length", "width", "what")} == {
        "scheme": "sinusoidal", "length": 5, "width": 6, "what": "encoding",
    }  # fmt: skip
    rows = list(csv.reader(io.StringIO(equi("table", "sinusoidal", "--length", 5, "--width", 6, "--csv")[1])))
    assert rows[0] == ["position", "0", "1", "2", "3", "4", "5", "norm"]
    for i, row in enumerate(rows[1:]):
        assert [float(v) for v in row] == [i, *data["rows"][i], data["norms"][i]]
    assert data["norms"] == pytest.approx([math.sqrt(3)] * 5, rel=1e-15)


@pytest.mark.parametrize("scheme", ["sinusoidal", "concatenated", "rope"])
def test_angles_are_place_times_speed(equi, scheme):
    data = json.loads(equi("table", scheme, "--width", 4, "--angles", "--json")[1])
    assert data["what"] == "radians"
    assert data["rows"] == [pytest.approx([i, i * 0.01]) for i in range(4)]
    assert "norms" not in data


@pytest.mark.parametrize("scheme", [s.name for s in SCHEMES])
def test_every_scheme_gives_a_table_or_says_which_do(equi, scheme):
    result, made = equi("table", scheme), next(s for s in SCHEMES if s.name == scheme)()
    if made.axes not in (1, None):
        refused(result, f"{scheme} reads 2 numbers a place", "Schemes on one axis: none, index")
    elif not made.acts("embed"):
        refused(result, f"{scheme} gives no row of numbers", "index, sinusoidal, learned, concatenated")
    else:
        assert result[0] == 0
        assert len(result[1].splitlines()) == 6


def test_a_long_table_prints_every_row(equi):
    assert len(equi("table", "index", "--length", 2000, "--width", 1)[1].splitlines()) == 2002


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["table", "rop"], ["no position scheme called 'rop'", "Known: none, index"]),
        (["table", "sinusoidal", "--width", 7], ["the width is 7. Use 8 or 6"]),
        (["table", "concatenated", "--width", 7], ["Use 8"]),
        (["table", "index", "--angles"], ["no angles", "sinusoidal, concatenated, rope"]),
        (["table", "rope", "--width", 3, "--angles"], ["pairs of columns"]),
        (["table", "rope"], ["--angles"]),
        (["table", "sinusoidal", "--json", "--csv"], ["Choose one of"]),
        (["table", "sinusoidal", "--length", 0], ["--length"]),
        (["table", "sinusoidal", "--width", "eight"], ["--width"]),
        (["table", "sinusoidal", "--colour"], ["--colour"]),
        (["table"], ["scheme"]),
        (["tabel"], ["tabel"]),
        (["explore", " "], ["The sentence has no words"]),
        (["explore", "--position", "rop", "--json"], ["no position scheme called 'rop'", "rope-half"]),
        (["explore", "--heads", 3, "--width", 4, "--json"], ["3 heads do not divide a width of 4. Use --width 6"]),
        (["explore", "--width", 4096, "--json"], ["--width 1024 or less"]),
        (["explore", "--port", 70000], ["--port"]),
        (["explore", "--seed", -1], ["--seed"]),
    ],
)
def test_a_mistake_gives_one_sentence_and_exit_code_2(equi, words, wanted):
    refused(equi(*words), *wanted)


# --- explore ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("short_page")
def test_explore_prints_the_pages_data(equi):
    code, out, _ = equi("explore", "Only who can", "--position", "rope", "--heads", 2, "--causal", "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["words"], data["scheme"], data["width"], data["heads"], data["causal"]) == (
        ["Only", "who", "can"],
        "rope",
        4,
        2,
        True,
    )


@pytest.mark.usefixtures("short_page")
def test_explore_exports_one_file_and_its_notes(equi, tmp_path):
    target = tmp_path / "a page.html"
    code, out, err = equi("explore", "w " * 300, "--export", target)
    assert code == 0
    assert out.startswith(f"wrote {target} (")
    assert err.startswith("note: The sentence has 300 words")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    refused(equi("explore", "--export", tmp_path / "nowhere" / "x.html"), "cannot be written", "--export")


def test_a_reader_that_goes_away_gives_no_traceback():
    command = [sys.executable, "-m", "equiscope.cli", "table", "index", "--length", "100000", "--width", "1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (1, "")  # typer's answer to a closed pipe
