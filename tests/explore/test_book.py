"""The book: its text with links that lead somewhere, as one file, as a folder, and within its budget of bytes."""

import base64
import gzip
import re

import pytest

from equiscope.cli.book import FIGURES, pages
from equiscope.explore import book, figure

BUDGET = 250_000  # bytes, compressed, of all that is asked for until the figures of the first chapter are there

pytestmark = pytest.mark.xdist_group("book")


@pytest.fixture(scope="module")
def text():
    return book.html()


@pytest.fixture(scope="module")
def figures():
    return pages(" ".join(book.WORDS))


def test_every_figure_of_the_text_has_a_page():
    assert set(book.figure_names()) <= set(FIGURES)


def test_the_page_is_whole_without_scripts(text):
    plain = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    chapters = re.findall(r'<section class="chapter" id="([^"]+)"', plain)
    assert chapters == sorted(chapters) != []
    assert all(f'href="#{chapter}"' in plain for chapter in chapters)
    assert len(re.findall("<h1", plain)) == 1


def test_an_id_stands_once(text):
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_links_to_other_pages_lead_to_them_or_name_them(text):
    assert 'class="elsewhere" href' not in text
    assert '<span class="path">(docs/' in text
    beside = book.html(docs="../")
    assert '<span class="path">' not in beside
    assert set(re.findall(r'class="elsewhere" href="(\.\./\w+)/', beside)) <= {"../howto", "../reference", "../learn", "../why"}


def test_words_of_a_person_are_data_only():
    hostile = "</script><script>window.hacked=1</script>"
    assert hostile not in book.html([hostile])
    assert "\\u003c/script>" in book.html([hostile])


def test_a_file_carries_each_page_once(tmp_path):
    made = []
    fake = {name: lambda name=name: made.append(name) or f"<p>{name}" for name in FIGURES}
    written = book.write_file(tmp_path / "book.html", fake).read_text(encoding="utf-8")
    assert made == book.figure_names()
    for name in made:
        (packed,) = re.findall(rf'data-figure="figures/{name}.html">([^<]+)<', written)
        assert gzip.decompress(base64.b64decode(packed)).decode() == f"<p>{name}"
    assert "http-equiv" in written
    assert not re.search(r'(?:src|href)="https?:', re.sub(r'<a [^>]*href="https?:[^>]*>', "", written))


def test_a_folder_is_a_site(tmp_path):
    fake = {name: lambda name=name: f"<p>{name}" for name in FIGURES}
    site = book.write_folder(tmp_path / "site", fake)
    names = {f"{book.FOLDER}/{name}.html" for name in book.figure_names()}
    assert {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()} == {
        "index.html",
        figure.SCRIPT,
        *names,
    }
    assert '<script type="application/octet-stream"' not in (site / "index.html").read_text(encoding="utf-8")


def test_the_first_chapter_is_within_its_budget(text, figures):
    first = text[: text.index('<section class="chapter"', text.index('<section class="chapter"') + 1)]
    names = dict.fromkeys(re.findall(r'src="figures/(\w+)\.html"', first))
    sizes = {"index": len(gzip.compress(text.encode()))} | {name: len(gzip.compress(figures[name]().encode())) for name in names}
    assert sum(sizes.values()) <= BUDGET, sizes
