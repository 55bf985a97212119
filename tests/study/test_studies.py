"""What holds for every listed study: it can be repeated, saved, loaded and drawn."""

import json
import math
import pkgutil

import pytest
import torch
from tests.pairwise import few

from equiscope import study
from equiscope.errors import InputError, UnknownName
from equiscope.study import STUDIES, plot, study_named
from equiscope.study.base import Curve, ResultTable, no_progress, time_interleaved

pytestmark = pytest.mark.xdist_group("findings")
NAMES = [s.name for s in STUDIES]
every = pytest.mark.parametrize("name", NAMES)


def without_times(result):
    """What does not depend on the clock."""
    rows = [[c for h, c in zip(result.table.heading, r, strict=True) if "(ms)" not in h] for r in result.table.rows]
    return result.numbers, rows, [n for n in result.notes if " ms" not in n]


def test_every_file_of_the_room_is_listed():
    files = {m.name.replace("_", "-") for m in pkgutil.iter_modules(study.__path__)} - {"base", "plot", "claims", "speed", "recall"}
    assert files == set(NAMES)
    assert len(NAMES) == len(set(NAMES))


@every
def test_a_study_asks_a_question_and_names_its_source(name):
    assert study_named(name).question.endswith("?")
    assert study_named(name).source


@pytest.mark.parametrize("name", few(NAMES, 4))
def test_the_same_seed_finds_the_same(found, name):
    first, again = without_times(found(name)), without_times(study_named(name).run(quick=True))
    assert first == again


def test_another_seed_finds_something_else(found):
    assert study_named("scaling").run(seed=1, quick=True).numbers != found("scaling").numbers


def test_a_study_leaves_torch_as_it_was():
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    study_named("lookup").run(seed=5, quick=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="A seed is 0 or larger, but got -1"):
        study_named("lookup").run(seed=-1)


def test_an_unknown_study_lists_the_known_ones():
    with pytest.raises(UnknownName, match=r"no study called 'scalling'. Did you mean scaling. Known: lookup, scaling"):
        study_named("scalling")


@every
def test_a_finding_is_plain_data_that_json_holds(found, name):
    data = json.loads(found(name).to_json())
    assert (data["study"], data["seed"], data["quick"]) == (name, 0, True)
    assert data["question"] == study_named(name).question
    assert data["environment"]["torch"] == torch.__version__
    assert all(v is None or math.isfinite(v) for v in data["numbers"].values())


@every
def test_an_answer_quotes_numbers_that_it_measured(found, name):
    answer = found(name).answer
    assert any(c.isdigit() for c in answer)
    assert answer.endswith(".")
    assert "nan" not in answer


@every
def test_curves_and_rows_are_as_long_as_their_axes(found, name):
    result = found(name)
    assert result.table.rows
    assert all(len(row) == len(result.table.heading) for row in result.table.cells())
    for panel in result.panels:
        assert bool(panel.matrix) != bool(panel.lines)
        assert all(len(line.x) == len(line.y) > 1 for line in panel.lines)


@pytest.mark.parametrize("name", few(NAMES, 3))
def test_a_finding_can_be_drawn(found, name, tmp_path):
    pytest.importorskip("matplotlib")
    assert plot.draw(found(name), tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_drawing_is_the_same_bytes_twice(found, tmp_path):
    pytest.importorskip("matplotlib")
    pictures = [plot.draw(found("lookup"), tmp_path / f"{i}.svg").read_bytes() for i in (0, 1)]
    assert pictures[0] == pictures[1]
    assert b"<svg" in pictures[0]


def test_a_picture_of_another_kind_is_refused(found, tmp_path):
    with pytest.raises(InputError, match=r"PNG or SVG, but the name is 'a.gif'"):
        plot.draw(found("lookup"), tmp_path / "a.gif")


def test_without_matplotlib_the_message_says_what_to_install(found, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install -e '\.\[study\]' in the clone"):
        plot.draw(found("lookup"), tmp_path / "a.png")


def test_numbers_are_written_as_a_person_writes_them():
    values = (None, True, "word", 1024, 0.0, 0.31415, 12345.678, 1.6e-05, 4.4e-16, 3e12)
    wanted = ("–", "yes", "word", "1024", "0", "0.314", "12346", "1.60e-05", "4.4e-16", "3.00e+12")
    assert tuple(map(study.fmt, values)) == wanted
    assert ResultTable(["N", "sort (ms)"], [[4, 0.5]]).cells() == [["4", "0.5 ms"]]


def test_rivals_alternate_and_the_first_round_is_not_counted():
    calls = []
    taken = time_interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3)
    assert "".join(calls) == "abababab"
    assert all(0 <= low <= middle <= high for middle, low, high in taken.values())


def test_progress_wraps_the_long_loops():
    seen = []

    def each(items, what):
        seen.append(what)
        return no_progress(items)

    study_named("scaling").run(quick=True, each=each)
    assert seen == ["widths"]
    assert isinstance(study_named("lookup").run(quick=True).panels[0].lines[0], Curve)
