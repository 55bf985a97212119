"""Tabs in a real browser ask one server: a slider that is dragged ends with its newest answer, a model that fails is no end."""

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from equiscope.explore.page import html
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from tests.journeys.barriers import barriers
from tests.journeys.test_heads_rerun import gpt2, looked, press
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SLIDER = "drag to shift the text"


@pytest.fixture
def tabs(browser):
    """tabs(looked, again) -> what opens a tab on the page; `again` answers instead of the model."""

    @contextmanager
    def open_server(made, rerun):
        context, troubles = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce"), []
        with server(html(made.content, policy=POLICY), 18895, {"/head": made.answer_head}, {"/rerun": rerun}) as running:

            def tab(fragment=""):
                opened = context.new_page()
                opened.on("pageerror", lambda error: troubles.append(str(error)))
                opened.goto(f"{running.url}#{fragment}")
                opened.wait_for_selector("main h2")
                return opened

            yield tab
        context.close()
        assert troubles == []

    return open_server


def drag(tab, steps=40):
    """Pull the slider over most of its length without waiting for anything; returns where it stands."""
    slider = tab.get_by_label(SLIDER)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + box["width"] * 0.1, middle)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 0.13, middle, steps=steps)
    tab.mouse.up()
    return int(slider.input_value())


def answered(tab, places):
    tab.locator(".rerun-result", has_text=f"shifted by {places} positions").wait_for()
    assert tab.get_by_label("shift in positions").input_value() == str(places)
    assert tab.locator(".rerun > .summary").inner_text() == ""


def test_a_slider_that_is_dragged_ends_with_its_newest_answer(tabs):
    made, begun, asked = looked(gpt2), [], []
    free = threading.Event()

    def rerun(question):
        begun.append(int(question["offset"]))
        assert free.wait(20)
        return made.answer_rerun(question)

    with tabs(made, rerun) as open_tab:
        tab = open_tab("head=0.1")
        tab.on("request", lambda request: asked.append(request.url) if "/rerun" in request.url else None)
        last = drag(tab)
        assert len(asked) > 5, "it asks while it is dragged"
        tab.locator(".rerun > .summary", has_text="The model runs").wait_for()
        tab.wait_for_timeout(300)
        free.set()
        answered(tab, last)
        assert begun[-1] == last
        assert len(begun) <= 3, "what is stale is not begun"
        tab.wait_for_timeout(500)
        answered(tab, last)


def test_the_keys_move_it_as_well(tabs):
    made = looked(gpt2)
    with tabs(made, made.answer_rerun) as open_tab:
        tab = open_tab()
        tab.get_by_label("shift in positions").fill("40")
        slider = tab.get_by_label(SLIDER)
        assert slider.input_value() == "40"
        slider.focus()
        for _ in range(12):
            tab.keyboard.press("ArrowRight")
        answered(tab, 52)


def test_two_tabs_show_two_runs(tabs):
    made = looked(gpt2)
    with tabs(made, made.answer_rerun) as open_tab:
        both = [open_tab("head=0.0"), open_tab("head=0.0")]
        for tab, places in zip(both, (5, 9), strict=True):
            tab.get_by_label("shift in positions").fill(str(places))
        for tab in both:
            press(tab, "Shift the text")
        for tab, places in zip(both, (5, 9), strict=True):
            answered(tab, places)
            run = next(run for run in made._runs.values() if run.content.rerun.offset == places)
            row = tab.evaluate("equiscope.heads.weights(0, 0, 5)")
            assert row == pytest.approx(run.attentions[0].recomputed_weights(0)[5].tolist(), rel=1e-5)


def test_while_a_model_runs_another_tab_opens_and_reads(tabs):
    made, free, begun = looked(gpt2), threading.Event(), threading.Event()

    def rerun(question):
        begun.set()
        assert free.wait(20)
        return made.answer_rerun(question)

    with tabs(made, rerun) as open_tab:
        tab = open_tab()
        press(tab, "Shift the text")
        assert begun.wait(20)
        other = open_tab("head=1.2&query=6&key=3")
        other.locator("[data-step='weight'] b").wait_for()
        press(tab, "Cancel")
        assert tab.locator(".rerun > .summary").inner_text() == "Cancelled."
        free.set()
        tab.wait_for_timeout(500)
        assert tab.locator(".rerun-result").inner_text() == ""


def test_a_model_that_fails_is_told_and_runs_again(tabs):
    made, fail = looked(gpt2), [MemoryError("4 GB"), RuntimeError("<b>device</b> lost\nTraceback")]

    def rerun(question):
        if fail:
            raise fail.pop()
        return made.answer_rerun(question)

    with tabs(made, rerun) as open_tab:
        tab = open_tab()
        said = tab.locator(".rerun > .summary")
        press(tab, "Shift the text")
        tab.locator(".rerun > .summary", has_text="This could not be computed").wait_for()
        assert said.inner_text() == (
            "This could not be computed (RuntimeError: <b>device</b> lost). The page still works: request something else."
        )
        press(tab, "Shift the text")
        tab.locator(".rerun > .summary", has_text="There is not enough memory for this (MemoryError: 4 GB)").wait_for()
        press(tab, "Shift the text")
        answered(tab, 100)


@pytest.mark.parametrize("dark", few([True, False], 1))
def test_the_slider_fits_a_phone_and_is_named(tabs, dark):
    made = looked(gpt2)
    with tabs(made, made.answer_rerun) as open_tab:
        tab = open_tab()
        tab.emulate_media(color_scheme="dark" if dark else "light")
        tab.set_viewport_size({"width": 360, "height": 740})
        press(tab, "Shift the text")
        answered(tab, 100)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360
        assert barriers(tab, "moderate", within=".rerun") == []
