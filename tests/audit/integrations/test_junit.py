"""JUnit: an audit for a continuous-integration server."""

from xml.etree import ElementTree as xml

import pytest

from equiscope.audit.integrations.junit import junit
from tests.explore.audits import CONTROL, HOSTILE, audit, hostile, planted, promised, row


def cases(made):
    return {case.get("name"): case for case in xml.fromstring(junit(made)).iter("testcase")}


def test_every_row_is_a_case_and_the_totals_are_theirs():
    made = planted()
    found, suite = cases(made), next(xml.fromstring(junit(made)).iter("testsuite"))
    assert list(found) == [r.name for r in made.rows]
    assert int(suite.get("tests")) == len(found)
    assert int(suite.get("failures")) == len([c for c in found.values() if c.find("failure") is not None]) == len(made.failed)
    assert int(suite.get("skipped")) == len([c for c in found.values() if c.find("skipped") is not None])


def test_a_failure_says_where_and_what_is_the_smallest_counterexample():
    failure = cases(planted())["causal"].find("failure")
    assert failure.get("type") == "broken"
    assert "layers.1.attention" in failure.get("message")
    assert planted()["causal"].counterexample.text in failure.text
    assert "equiscope check models:small --property causal" in failure.text


def test_a_cause_is_in_the_message():
    failure = cases(audit(row(where="mask", cause="every token sees the next")))["causal"].find("failure")
    assert "in mask: every token sees the next" in failure.get("message")


def test_what_could_not_be_decided_is_skipped_with_the_reason():
    made = audit(row(verdict="undecided", fails=False, note="not finite"), row("cache", verdict="not applicable", fails=False))
    assert [c.find("skipped").get("message") for c in cases(made).values()] == ["not finite", "not applicable"]


def test_a_symmetry_that_nobody_promised_is_no_failure():
    case = cases(promised())["permute"]
    assert case.find("failure") is None
    assert case.find("skipped") is None
    assert "does not promise it" in case.find("system-out").text


@pytest.mark.parametrize("text", [HOSTILE, CONTROL, "\ud800 \uffff ]]> & \" '"])
def test_any_text_of_a_model_makes_xml_that_can_be_read(text):
    document = junit(hostile(text))
    assert "\x1b" not in document
    failure = next(xml.fromstring(document.encode("utf-8")).iter("failure"))
    assert text == CONTROL or text.startswith("\ud800") or text in failure.text


def test_rows_with_the_same_name_have_different_ids():
    assert list(cases(audit(row(), row(), row("other")))) == ["causal", "causal~2", "other"]


def test_an_audit_without_rows_is_an_empty_suite():
    assert cases(audit()) == {}
