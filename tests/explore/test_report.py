"""The report page holds the whole record, and nothing in it is read as markup."""

import base64
import gzip
import re

import msgspec
import pytest
from tests.explore.audits import HOSTILE, audit, deep, hostile, planted, promised

from equiscope.errors import InputError
from equiscope.explore import html, write
from equiscope.explore.pages.report import plain
from equiscope.record import Audit, Report, report

pytestmark = pytest.mark.xdist_group("report")
DATA = re.compile(r'<script type="application/octet-stream" id="report">([\w+/=]+)</script>')


def read(page: str) -> Report:
    (data,) = DATA.findall(page)
    return msgspec.json.decode(gzip.decompress(base64.b64decode(data)), type=Report)


@pytest.mark.parametrize("made", [planted, promised, deep, hostile, audit])
def test_the_page_holds_the_record_as_it_is(made):
    assert read(html(report(made()))) == report(made())
    assert read(html(report(made()))).audit == made()


def test_an_audit_goes_through_json_and_back():
    for made in (planted(), promised()):
        assert msgspec.json.decode(msgspec.json.encode(made), type=Audit) == made


def test_a_hostile_model_adds_no_element_to_the_page():
    clean, page = html(report(planted())), html(report(hostile()))
    assert HOSTILE not in page
    assert page.count("<script") == clean.count("<script")
    assert page.count("</script>") == clean.count("</script>")
    assert "<img" not in plain(report(hostile()))


def test_without_a_script_the_page_is_a_table():
    (noscript,) = re.findall(r"<noscript>(.*?)</noscript>", html(report(planted())), re.DOTALL)
    assert noscript.count('<th scope="row">') == len(planted().rows)
    assert report(planted()).summary in noscript
    assert "layers.1.attention" in noscript


def test_the_page_asks_for_nothing():
    page = html(report(planted()))
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="https?:', page)


def test_it_is_written_whole_or_not_at_all(tmp_path):
    path = write(report(planted()), tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == html(report(planted()))
    with pytest.raises(InputError, match="cannot be written"):
        write(report(planted()), tmp_path / "no" / "report.html")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
