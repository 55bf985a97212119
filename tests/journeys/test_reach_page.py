"""The page of reach in a real browser: a token is marked by pointer, touch and keys; what it shows is the record."""

import pytest

from equiscope.explore.page import write
from equiscope.explore.pages.reach import reach
from equiscope.record import unpack
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page():
    return reach()


@pytest.fixture(scope="module")
def file(page, tmp_path_factory):
    return write(page, tmp_path_factory.mktemp("reach") / "reach.html")


@pytest.fixture
def read(watched, file):
    def open_page(fragment="", wide=1280, dark=False):
        tab = watched(wide, dark, bypass_csp=True, has_touch=wide < 500)
        tab.goto(f"{file.as_uri()}#{fragment}")
        tab.wait_for_selector(".sentences p")
        return tab

    return open_page


def effects(tab):
    return {
        one.get_attribute("data-network"): float(one.get_attribute("data-effect"))
        for one in tab.locator(".sentences [data-network]").all()
    }


def recorded(page, weights, token, length=64):
    return {one.name: float(unpack(one.influence[weights])[token, length - 1]) for one in page.networks}


def test_keys_choose_a_token_and_its_effects_are_those_of_the_record(read, page):
    tab = read("token=20")
    tab.locator(".rows").focus()
    for key, token in (("ArrowRight", 21), ("PageUp", 29), ("Home", 0), ("End", 63), ("ArrowLeft", 62)):
        tab.keyboard.press(key)
        assert tab.locator(".rows").get_attribute("aria-valuenow") == str(token)
        assert effects(tab) == pytest.approx(recorded(page, "random", token))
    tab.get_by_role("button", name="trained weights").click()
    assert effects(tab) == pytest.approx(recorded(page, "trained", 62))
    assert "weights=trained" in tab.url


def test_a_pointer_marks_the_token_under_it(read, page):
    tab = read()
    box = tab.locator(".rows").bounding_box()
    tab.mouse.click(box["x"] + box["width"] * 10.5 / 64, box["y"] + 60)
    assert effects(tab) == pytest.approx(recorded(page, "random", 10))


def test_a_shorter_text_keeps_the_token_inside(read, page):
    tab = read("token=60")
    slider = tab.get_by_label("tokens in the text").first
    slider.fill("12")
    assert effects(tab) == pytest.approx(recorded(page, "random", 11, 12))


def test_the_table_has_the_steps_and_times_of_the_chosen_length(read, page):
    tab = read("timed=1024")
    at = page.timed_lengths.index(1024)
    rows = tab.locator("tbody tr[data-network]")
    assert [int(row.locator("td").first.get_attribute("data-steps")) for row in rows.all()] == [
        one.steps[at] for one in page.networks
    ]


@pytest.mark.parametrize(("wide", "dark"), [(1280, False), (390, True)])
def test_it_fits_and_has_no_barriers(read, wide, dark):
    tab = read("weights=trained&token=3", wide, dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert barriers(tab, "serious") == []
