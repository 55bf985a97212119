"""The page of a comparison holds its record, begins with the answer, and nothing in it is read as markup."""

import base64
import gzip
import re
from html import escape
from statistics import fmean

import msgspec
import pytest
from tests.explore.comparisons import COMPARISONS, HOSTILE, comparison, hostile, mixed, once, twice

from equiscope.errors import InputError
from equiscope.explore.page import BUNDLES, html, write
from equiscope.explore.pages.compare import plain
from equiscope.record import Comparison

DATA = re.compile(r'<script type="application/octet-stream" id="comparison">([\w+/=]+)</script>')


def read(page: str) -> Comparison:
    (data,) = DATA.findall(page)
    return msgspec.json.decode(gzip.decompress(base64.b64decode(data)), type=Comparison)


@pytest.mark.parametrize("name", list(COMPARISONS))
def test_the_page_holds_the_record_as_it_is(name):
    found = COMPARISONS[name]()
    assert read(html(found)) == found


def test_without_a_script_the_answer_comes_first_and_all_runs_are_tables():
    said = plain(comparison())
    assert said.index(f"<h1>{comparison().answer}</h1>") < said.index("<table>")
    assert said.count("<table>") == 4
    mean = fmean(t.value for t in comparison().trials if t.candidate == "rope")
    for text in (f"<td>{mean:.6g} ± ", "<td>undecided</td>", "<td>refused</td>", "ab" * 32, escape(comparison().command)):
        assert text in said


def test_a_comparison_without_an_answer_begins_with_its_title():
    assert "<h1>Bare</h1>" in plain(COMPARISONS["empty"]())


def test_of_one_seed_no_spread_is_written():
    assert "±" not in plain(once()).partition("<h2>")[2]


def test_what_failed_is_told_with_its_reason():
    said = plain(mixed())
    assert "failed: The loss is no number after step 140." in said
    assert "<td>no number</td>" in said
    assert "stopped: Stopped after 1,500 steps." in said


def test_the_same_variant_twice_is_not_called_better():
    said = plain(twice())
    assert "<td>pre-norm</td><td>pre-norm again</td><td>0</td><td></td><td></td><td>identical</td>" in said
    assert "<td>pre-norm is better</td>" in said


def test_a_hostile_comparison_adds_no_element_to_the_page():
    clean, page = html(comparison()), html(hostile())
    assert HOSTILE not in page
    assert page.count("<script") == clean.count("<script")
    assert page.count("</script>") == clean.count("</script>")
    assert "<img" not in plain(hostile())


def test_the_page_asks_for_nothing():
    page = html(comparison())
    assert "default-src 'none'" in page
    assert "connect-src" not in page
    assert not re.search(r'(?:src|href)="https?:', page)


def test_its_bundle_is_small():
    assert sum((BUNDLES / f"compare.{kind}").stat().st_size for kind in ("js", "css")) < 600_000


def test_it_is_written_whole_or_not_at_all(tmp_path):
    path = write(comparison(), tmp_path / "compared.html")
    assert path.read_text(encoding="utf-8") == html(comparison())
    with pytest.raises(InputError, match="cannot be written"):
        write(comparison(), tmp_path / "no" / "compared.html")
