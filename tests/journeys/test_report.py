"""The report of a check in a real browser: opened by mouse and keyboard, heard, on a phone, in the dark, on paper, and hostile."""

import json
import re

import msgspec
import pytest

from equiscope.explore import write
from equiscope.record import Audit, Counterexample, pack, report
from tests.explore.audits import HOSTILE, audit, deep, hostile, planted, promised, row
from tests.journeys.barriers import barriers
from tests.pairwise import each_value, few

pytestmark = pytest.mark.browser
AUDITS = {"planted": planted, "promised": promised, "hostile": hostile, "deep": deep, "empty": audit}


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("reports"), {}

    def page(name):
        if name not in made:
            made[name] = write(report(AUDITS[name]()), folder / f"{name}.html")
        return made[name]

    return page


@pytest.fixture
def read(watched, reports, tmp_path):
    """Opens a report."""

    def open_page(name="planted", fragment="", wide=1280, dark=False, script=True, bypass_csp=False, made=None):
        tab = watched(wide, dark, java_script_enabled=script, bypass_csp=bypass_csp, has_touch=wide < 500)
        path = reports(name) if made is None else write(report(made), tmp_path / "report.html")
        tab.goto(f"{path.as_uri()}#{fragment}")
        tab.wait_for_selector("main table.rows" if script else "table")
        return tab

    return open_page


def opener(tab, name):
    return tab.locator(f'[data-open="{name}"]')


def opened(tab):
    return tab.locator("tr.opened").evaluate_all("rows => rows.map((row) => row.dataset.row)")


def test_the_page_begins_with_the_sentence_and_the_first_row_that_fails(read):
    tab = read()
    assert tab.locator(".summary").inner_text() == report(planted()).summary
    assert tab.locator("tr.stated").count() == len(planted().rows)
    assert opened(tab) == [planted().failed[0].name]


def test_every_row_is_told_with_its_verdict_and_its_error(read):
    tab = read()
    for one in planted().rows:
        line = tab.locator(f'tr.stated[data-row="{one.name}"]')
        assert one.verdict in line.locator(".judge").inner_text()
        assert ("fails" in line.locator(".judge").inner_text()) == one.fails
        drawn = line.locator(".errors circle").count()
        assert drawn == len(one.errors)


def test_a_row_is_opened_and_closed_by_mouse_and_by_its_line(read):
    tab = read(fragment="row=")
    assert opened(tab) == []
    opener(tab, "causal").click()
    assert opened(tab) == ["causal"]
    tab.locator('tr.stated[data-row="permute"] .worst').first.click()
    assert opened(tab) == ["causal", "permute"]
    opener(tab, "causal").click()
    assert opened(tab) == ["permute"]


def test_rows_are_walked_opened_and_closed_by_keyboard(read):
    tab = read(fragment="row=")
    opener(tab, "deterministic").focus()
    for _ in range(2):
        tab.keyboard.press("ArrowDown")
    assert tab.evaluate("document.activeElement.dataset.open") == "causal"
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    tab.keyboard.press("Enter")
    assert opened(tab) == ["causal"]
    assert tab.evaluate("document.activeElement.dataset.open") == "causal", "the focus stays"
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    panel = opener(tab, "causal").get_attribute("aria-controls")
    assert "Smallest counterexample" in tab.locator(f"#{panel}").inner_text()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Escape")
    assert opened(tab) == []
    assert tab.evaluate("document.activeElement.dataset.open") == "causal"


def test_a_link_opens_its_row_and_follows_what_is_opened(read):
    tab = read(fragment="row=permute")
    assert opened(tab) == ["permute"]
    opener(tab, "batch").click()
    again = read(fragment=tab.evaluate("location.hash.slice(1)"))
    assert sorted(opened(again)) == ["batch", "permute"]
    tab.evaluate("location.hash = 'row=causal'")
    tab.locator('tr.opened[data-row="causal"]').wait_for()
    assert opened(tab) == ["causal"]


def test_only_what_fails_is_left_where_asked(read):
    tab = read()
    press = tab.get_by_role("button", name="Failures only")
    press.click()
    assert tab.locator("tr.stated").count() == len(planted().failed)
    assert tab.get_by_role("button", name="Failures only").get_attribute("aria-pressed") == "true"
    tab.get_by_role("button", name="Failures only").click()
    assert tab.locator("tr.stated").count() == len(planted().rows)
    assert read("promised").get_by_role("button", name="Failures only").count() == 0


def test_the_culprit_is_marked_on_the_way_through_the_model(read):
    tab = read(fragment="row=causal")
    culprit = tab.locator("table.trail tr.culprit")
    assert culprit.get_attribute("data-module") == planted()["causal"].where == "layers.1.attention"
    assert "breaks here" in culprit.inner_text()
    before = tab.locator('table.trail tr[data-module="layers.0.attention"]')
    assert before.count() == 0, "a layer that is right is folded"
    tab.get_by_role("button", name="layers.0", exact=True).click()
    assert before.count() == 1
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true", "the focus stays"
    opener(tab, "batch").click()
    assert before.count() == 1, "another row leaves it as it is"


def test_a_model_of_hundreds_of_modules_is_folded_and_can_be_unfolded(read):
    tab = read("deep")
    assert tab.locator("table.trail tbody tr").count() < 15
    for button in tab.locator("table.trail .more button").all():
        button.click()
    assert tab.locator("table.trail [data-module]").count() == 401


def test_the_counterexample_shows_what_was_changed(read):
    tab = read(fragment="row=permute")
    shown = planted()["permute"].counterexample
    assert shown.text.lower() in tab.locator(".evidence").inner_text().lower()
    moved = sum(i != j for i, j in enumerate(shown.element["order"]))
    sequences = shown.inputs["input_ids"].shape[0]
    assert tab.locator(".tokens .marked").count() == 2 * moved * sequences, "in the order given, and in the order moved"


def test_positions_stay_where_words_are_moved(read):
    import numpy as np

    ids = pack(np.arange(6, dtype=np.int64).reshape(1, 6))
    inputs, element = {"ids": ids, "position_ids": ids}, {"order": [1, 0, 2, 3, 4, 5]}
    found = Counterexample(text="exchange 0 and 1", error=0.5, element=element, inputs=inputs)
    made = audit(row("permute", kind="action", counterexample=found), inputs="ids: ids [1, 6], position_ids: position_ids [1, 6]")
    tab = read(made=made)
    assert tab.locator(".input").nth(0).locator(".marked").count() == 4
    assert tab.locator(".input").nth(1).locator(".marked").count() == 0


def test_the_record_is_saved_as_python_reads_it(read):
    tab = read()
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="Download record").click()
    assert waiting.value.suggested_filename == "models-small.json"
    assert msgspec.json.decode(waiting.value.path().read_bytes(), type=Audit) == planted()


def test_the_record_is_copied(read):
    tab = read()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Copy as JSON").click()
    said = tab.locator("header [role=status]:not(:empty)")
    said.wait_for()
    if said.inner_text() == "Copied.":  # a page in a file is not let everywhere
        assert json.loads(tab.evaluate("navigator.clipboard.readText()"))["target"] == "models:small"


@each_value(
    pytest.mark.parametrize("wide", [360, 768, 1280]),
    pytest.mark.parametrize("name", few(["planted", "hostile", "deep", "promised", "empty"], 3)),
)
def test_nothing_is_wider_than_the_window(read, name, wide):
    tab = read(name, wide=wide)
    if AUDITS[name]().rows and tab.locator("tr.opened").count() == 0:
        tab.get_by_role("button", name="Open all").click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    said = str(report(AUDITS[name]()))
    text = tab.locator("main").inner_text().replace("a finite number, not NaN", "")  # a statement
    slips = re.findall(r"NaN|undefined|\[object|\bnull\b", text)
    assert [word for word in slips if word not in said] == []


def test_a_hostile_model_is_text_and_nothing_else(read):
    tab = read("hostile")
    tab.wait_for_timeout(100)
    assert tab.evaluate("window.stolen") is None
    assert HOSTILE in tab.locator("h1").inner_text()
    assert HOSTILE in tab.locator(".evidence").inner_text()
    assert tab.locator("#app script, #app img").count() == 0


def test_without_a_script_there_is_a_table(read):
    tab = read(script=False)
    assert tab.locator("tbody tr").count() == len(planted().rows)
    assert report(planted()).summary in tab.locator(".bare-report").inner_text()


def test_a_narrow_table_is_still_heard_as_a_table(read):
    tab = read(wide=360)
    heard = tab.locator("table.rows").aria_snapshot()
    assert heard.startswith("- table")
    for role in ("columnheader", "rowheader", "cell"):
        assert role in heard


def test_paper_shows_the_evidence_of_what_fails(read):
    tab = read(fragment="row=")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert sorted(opened(tab)) == sorted(r.name for r in planted().failed)
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened(tab) == []


@each_value(
    pytest.mark.parametrize("name", ["planted", "promised"]),
    pytest.mark.parametrize("wide", [360, 1280]),
    pytest.mark.parametrize("dark", [False, True]),
)
def test_the_report_has_no_barriers(read, name, dark, wide):
    tab = read(name, dark=dark, wide=wide, bypass_csp=True, fragment="row=permute&row=causal")
    tab.locator(".legend summary").click()
    assert barriers(tab, "moderate") == []
