"""`equiscope study`, as a person meets it; and the page that is made from it."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_cli import equi  # noqa: F401

from equiscope.study import STUDIES

pytestmark = pytest.mark.xdist_group("findings")
SCRIPT = Path(__file__).parents[2] / "docs" / "studies.py"


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.exists():
        pytest.skip("docs/ is not in the source archive")
    spec = importlib.util.spec_from_file_location("studies", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_help_needs_no_torch():
    code = (
        "import sys, equiscope.cli.app as a; sys.argv = ['equiscope', 'study', '--help']\ntry: a.app()\nexcept SystemExit: pass\n"
    )
    code += "assert not {'torch', 'matplotlib'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_pictures_are_not_loaded_before_one_is_asked_for():
    code = "import sys, equiscope.cli.study\nassert 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_alone_it_lists_the_questions(equi):  # noqa: F811
    code, out, err = equi("study")
    assert (code, err) == (0, "")
    assert all(s.name in out and s.question in out for s in STUDIES)
    assert [s["name"] for s in json.loads(equi("study", "--json")[1])] == [*(s.name for s in STUDIES), "claims"]


def test_an_unknown_name_is_one_sentence_with_the_list(equi):  # noqa: F811
    code, out, err = equi("study", "scalling")
    assert (code, out) == (2, "")
    assert err.startswith("equiscope: There is no study called 'scalling'. Did you mean scaling? Known: lookup, scaling, depth")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--out", "x"], "--out writes one study"),
        (["lookup", "--out", __file__], "is a file, and no folder. Choose another folder with --out"),
        (["lookup", "--seed", -1], "--seed"),
    ],
)
def test_a_mistake_is_refused_with_the_next_step(equi, words, wanted):  # noqa: F811
    code, _, err = equi("study", *words)
    assert code == 2
    assert wanted in err


def test_an_answer_in_text_has_its_table_and_notes(equi):  # noqa: F811
    code, out, err = equi("study", "lookup", "--quick")
    assert (code, err) == (0, "")
    assert out.startswith("What does attention return?")
    assert "largest weight" in out
    assert "Seed 0, quick form." in out


def test_an_answer_as_json_is_data_alone(equi):  # noqa: F811
    code, out, err = equi("study", "collide", "--quick", "--json", "--seed", 3)
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert (data["study"], data["seed"], data["numbers"]["one sine"]) == ("collide", 3, 19)


def test_out_writes_the_finding_and_its_pictures(equi, tmp_path):  # noqa: F811
    pytest.importorskip("matplotlib")
    code, _, err = equi("study", "lookup", "--quick", "--out", tmp_path / "new")
    assert code == 0
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["lookup.json", "lookup.png", "lookup.svg"]
    assert json.loads((tmp_path / "new" / "lookup.json").read_text(encoding="utf-8"))["study"] == "lookup"
    assert err.count("wrote ") == 3


# --- the page ---------------------------------------------------------------------------------------------------------
def test_the_page_has_a_section_and_a_picture_for_every_study(script):
    text = script.PAGE.read_text(encoding="utf-8")
    for s in STUDIES:
        assert f"## {s.name}: {s.question}" in text
        assert (script.PICTURES / f"study-{s.name}.png").stat().st_size < 150_000


def test_the_check_forgives_rounding_and_times_and_nothing_else(script):
    line = "It leaves 0.658 and 8.6e-16 of 36, in 1.2 ms."
    assert script.alike(line, "It leaves 0.66 and 3.1e-16 of 36, in 17 ms.")
    assert not script.alike(line, "It leaves 0.758 and 8.6e-16 of 36, in 1.2 ms.")
    assert not script.alike(line, "It leaves 0.658 and 8.6e-06 of 36, in 1.2 ms.")
    assert not script.alike(line, "It takes 0.658 and 8.6e-16 of 36, in 1.2 ms.")


def test_a_page_drifts_where_words_or_numbers_do(script, found, capsys):
    result = found("lookup")
    page = script.page([result])
    assert script.drift(page, page.replace("one thread", "a hundred")) == []  # the machine is not compared
    assert script.drift(page, page.replace("look-up", "lookup", 1))
    assert script.drift(page, script.page([])) == ["lookup: only in one of them"]
    elsewhere = page.replace("Data: seeded random numbers", "Data: others").replace("largest weight", "smallest weight")
    assert script.drift(page, elsewhere) == []
    assert "lookup is not compared" in capsys.readouterr().out
