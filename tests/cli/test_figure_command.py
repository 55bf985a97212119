"""`equiscope figure`: a page as a figure of another document."""

import base64
import gzip
import re

import msgspec
import pytest
from tests.cli.test_cli import equi, refused
from tests.explore.audits import audit

from equiscope import explore
from equiscope.explore import figure
from equiscope.record import report

__all__ = ["equi"]  # the fixture


@pytest.fixture
def page(tmp_path):
    """The page of a report, with a title that is markup."""
    content = msgspec.structs.replace(report(audit()), title='a "<b>" & c')
    return explore.write(content, tmp_path / "My report.html")


def test_the_script_is_written_beside_the_page_and_the_tag_is_printed(equi, page):
    code, out, err = equi("figure", page, "--state", "row=causal&only=on", "--part", "summary rows")
    assert (code, err) == (0, "")
    assert (page.parent / "equiscope-figure.js").read_bytes().isascii()
    first, _, *tag = out.splitlines()
    assert re.fullmatch(r"wrote .*equiscope-figure\.js \(\d+ kB\)", first)
    assert tag == [
        '<script src="equiscope-figure.js" defer></script>',
        '<equiscope-figure id="my-report" src="My report.html" state="row=causal&amp;only=on" part="summary rows" '
        'title="a &quot;&lt;b&gt;&quot; &amp; c">',
        "</equiscope-figure>",
    ]


def test_one_piece_of_html_holds_script_page_and_tag(equi, page, tmp_path):
    code, out, _ = equi("figure", page, "--title", "A check", "--embed", tmp_path / "piece.html")
    text = (tmp_path / "piece.html").read_text(encoding="utf-8")
    assert code == 0
    assert out.startswith(f"wrote {tmp_path / 'piece.html'} (")
    packed = re.search(r'data-figure="My report.html">([^<]+)</script>', text)[1]
    assert gzip.decompress(base64.b64decode(packed)).decode() == page.read_text(encoding="utf-8")
    assert text.endswith('<equiscope-figure id="my-report" src="My report.html" title="A check">\n</equiscope-figure>\n')
    assert text.count("</script>") == 2, "no text of the script or of the page ends an element"


def test_what_is_no_page_is_refused(equi, tmp_path):
    other = tmp_path / "other.html"
    other.write_text("<title>mine - equiscope</title>", encoding="utf-8")
    refused(equi("figure", other), "is no page of this version of equiscope. Write it again")
    refused(equi("figure", tmp_path / "none.html"), "cannot be read as a page. Give a file that `equiscope explore")
    other.write_bytes(b"\xff\xfe")
    refused(equi("figure", other), "cannot be read as a page")


def test_where_nothing_can_be_written_is_said(equi, page, tmp_path):
    refused(equi("figure", page, "--embed", tmp_path / "none" / "piece.html"), "Choose another file with --embed.")


@pytest.mark.parametrize(("name", "wanted"), [("love.html", "love"), ("Täst 2.html", "t-st-2"), ("日本.html", "figure")])
def test_an_id_is_a_word_of_plain_letters(tmp_path, name, wanted):
    assert figure.name_of(tmp_path / name) == wanted


def test_a_page_is_its_own_frame(page):
    text = page.read_text(encoding="utf-8")
    assert text.index(figure.LINK) < text.index("<style>"), "what hides parts of the page runs first"
