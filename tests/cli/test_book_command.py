"""`equiscope book`: served, as one file, as a folder; words that are none are refused."""

import re

import pytest
from tests.cli.test_cli import equi, refused

from equiscope.cli import book as command
from equiscope.explore import book

__all__ = ["equi"]  # the fixture


@pytest.fixture
def quick(monkeypatch):
    """Figures that are made in no time."""
    monkeypatch.setattr(
        command, "pages", lambda words, home="": {name: lambda name=name: f"<p>{name}: {words}" for name in command.FIGURES}
    )


def test_one_file(equi, quick, tmp_path):
    target = tmp_path / "book.html"
    code, out, err = equi("book", "--out", target)
    assert code == 0
    assert out.startswith(f"wrote {target} (")
    assert err.split() == [word for name in book.figure_names() for word in ("figure", name)]
    assert 'id="words">{"own":["Love","conquers","all"]' in target.read_text(encoding="utf-8")


def test_a_folder_with_own_words(equi, quick, tmp_path):
    code, out, _ = equi("book", "--out", tmp_path / "site", "--words", "only who can prevent forest fires")
    assert code == 0
    assert "open index.html" in out
    figure, index = ((tmp_path / "site" / name).read_text(encoding="utf-8") for name in ("figures/sentence.html", "index.html"))
    assert figure == "<p>sentence: only who can prevent forest fires"
    assert '{"own":["only","who"' in index


def test_it_is_served_with_its_figures(equi, quick, monkeypatch):
    asked = {}
    monkeypatch.setattr(command, "serve", lambda page, port, browser, frames: asked.update(page=page, frames=frames))
    assert equi("book", "--no-browser")[0] == 0
    assert "<h1" in asked["page"]
    assert {re.sub(r"\W", "/", path).split("/")[2] for path in asked["frames"]} == set(book.figure_names())


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--words", "  "], "The sentence has no words"),
        (["--out", "/nowhere/book.html"], "Choose another file or folder with --out."),
    ],
)
def test_what_cannot_be_is_refused(equi, arguments, wanted):
    refused(equi("book", *arguments), wanted)
