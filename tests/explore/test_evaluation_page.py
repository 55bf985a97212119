"""The page of an evaluation holds the record without the answers that it does not show; without a script it is tables."""

import base64
import gzip
import re

import msgspec
import pytest
from tests.explore.evaluations import HOSTILE, PICTURE, evaluation

import equiscope as eq
from equiscope.explore import html
from equiscope.explore.pages.evaluation import plain
from equiscope.record import EvaluationRecord
from equiscope.record.evaluation import DRAWN

DATA = re.compile(r'<script type="application/octet-stream" id="evaluationrecord">([\w+/=]+)</script>')


@pytest.mark.parametrize("kind", ["classes", "numbers", "bare"])
def test_the_page_holds_the_short_record(tmp_path, kind):
    found = evaluation(kind)
    text = eq.export(found, tmp_path / "a.html").read_text()
    (data,) = DATA.findall(text)
    held = msgspec.json.decode(gzip.decompress(base64.b64decode(data)), type=EvaluationRecord)
    assert held == found.short
    assert not any(part.examples for part in held.parts)
    assert not re.search(r'(?:src|href)="https?:', text)


def test_of_many_numbers_some_are_shown_at_regular_intervals():
    (part,) = evaluation("numbers").short.parts
    (one,) = part.numbers
    assert len(one.true) == len(one.predicted) == 3500 <= DRAWN
    assert one.true[:2] == evaluation("numbers").parts[0].numbers[0].true[:4:2]


def test_without_a_script_the_page_is_tables_with_pictures():
    text = plain(evaluation())
    assert text.count("<table>") == 2 * 3 + 1
    assert text.count(f'<img src="{PICTURE}"') == 20
    assert "12,345" in text
    assert "answer" not in plain(evaluation("bare"))


def test_a_name_adds_no_element():
    assert "<img src=x" not in html(evaluation("hostile").short)
    assert HOSTILE not in plain(evaluation("hostile"))
