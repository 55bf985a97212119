"""The page of an evaluation in a real browser: its parts, what is drawn, at 390 px, in the dark, and for a screen reader."""

import pytest

from equiscope.explore import write
from tests.explore.evaluations import evaluation
from tests.journeys.barriers import barriers
from tests.pairwise import each_value

pytestmark = pytest.mark.browser
KINDS = ["classes", "many", "numbers", "bare", "hostile"]


@pytest.fixture
def read(watched, tmp_path):
    """Opens an evaluation."""

    def open_page(kind="classes", fragment="", wide=1280, dark=False, bypass_csp=False):
        tab = watched(wide, dark, bypass_csp=bypass_csp, has_touch=wide < 500)
        path = write(evaluation(kind).short, tmp_path / "evaluation.html")
        tab.goto(f"{path.as_uri()}#{fragment}")
        tab.wait_for_selector("main section.part")
        return tab

    return open_page


def test_the_test_part_is_shown_first_and_a_button_shows_the_other(read):
    tab = read()
    assert tab.locator(".summary").inner_text() == "Accuracy 0.8 on test."
    tab.locator('.parts [data-key="validation"]').focus()
    tab.keyboard.press("Enter")
    tab.locator(".summary", has_text="on validation").wait_for()
    assert tab.locator('.parts [data-key="validation"]').get_attribute("aria-pressed") == "true"
    assert tab.evaluate("location.hash") == "#part=validation"
    tab.go_back()
    tab.locator(".summary", has_text="on test").wait_for()


def test_metrics_stand_beside_simple_models_and_the_second_run(read):
    tab = read()
    assert tab.locator(".beside .who").all_inner_texts() == ["first", "second", "simple model: majority", "simple model: linear"]
    said = tab.locator(".beside").get_attribute("aria-label")
    assert "first 0.8, interval 0.7 to 0.88; second 0.75; simple model: majority 0.3" in said
    assert "no significant difference" in tab.locator('[data-part="differences"] p').inner_text()
    assert tab.locator(".measures").first.locator("tbody tr").nth(2).inner_text().split("\t")[:2] == ["pictures", "12,345"]


def test_confusions_pictures_texts_and_numbers_are_shown(read):
    tab = read()
    assert tab.locator(".confusion tbody tr").count() == 3
    assert tab.locator('.confusion [data-kind="right"]').all_inner_texts() == ["9", "9", "9"]
    pictures = tab.locator(".worst img")
    assert pictures.count() == 10
    assert pictures.first.evaluate("(image) => image.naturalWidth") == 8
    assert read("many").locator('[data-part="confusion"] tbody tr').count() == 30
    tab = read("numbers")
    assert tab.locator(".worst blockquote").inner_text() == "a text\nof two lines"
    assert tab.locator(".plot .dots").get_attribute("d").count("M") == 3500


@each_value(
    pytest.mark.parametrize("kind", KINDS),
    pytest.mark.parametrize("wide", [1280, 390]),
    pytest.mark.parametrize("dark", [False, True]),
)
def test_nothing_keeps_people_from_the_page(read, kind, wide, dark):
    tab = read(kind, wide=wide, dark=dark, bypass_csp=True)
    assert barriers(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert tab.evaluate("window.hit") is None
