"""The book in a real browser, walked from the first to the last chapter by keyboard and by touch.

Chapters, figures and exercises are read from the page, so that every chapter that is written is walked.
"""

import json
from html import escape
from urllib.parse import parse_qsl

import pytest

from equiscope.cli.book import pages
from equiscope.explore import book
from tests.journeys.barriers import barriers

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("book")]
WORDS = " ".join(book.WORDS)
MINE = "only who can prevent forest fires"
AROUND = '<!doctype html><title>around</title><iframe sandbox="allow-scripts" style="width:100%;height:880px" srcdoc="'


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return book.write_folder(tmp_path_factory.mktemp("book") / "site", pages(WORDS, "../index.html"))


@pytest.fixture(scope="module")
def file(site, tmp_path_factory):
    """One offline file, with the same pages of figures."""
    made = {path.stem: path.read_text for path in (site / book.FOLDER).iterdir()}
    return book.write_file(tmp_path_factory.mktemp("book") / "book.html", made)


@pytest.fixture
def read(watched, site):
    """read("03-shuffle", wide=390) -> the tab with the book there."""

    def open_book(at="", wide=1280, dark=False, touch=False, calm=True, page=None):
        tab = watched(wide, dark, calm, has_touch=touch, bypass_csp=True)
        tab.goto(f"{(page or site / 'index.html').as_uri()}#{at}")
        tab.wait_for_selector("#text section")
        return tab

    return open_book


def chapters(tab):
    return tab.locator("#text > section.chapter").evaluate_all("all => all.map((one) => one.id)")


def here(tab):
    """The chapter that the bar names."""
    return tab.locator("#bar .here").inner_text()


def eventually(tab, condition, argument=None):
    for _ in range(200):
        if tab.evaluate(condition, argument):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never: {condition} {argument}")


THERE = """(id) => { const figure = document.getElementById(id); return figure.shadowRoot.querySelector("slot").hidden; }"""


def open_figure(tab, name):
    """Bring a figure on screen, and wait until its page is there."""
    tab.evaluate("(id) => document.getElementById(id).scrollIntoView({ block: 'center' })", name)
    eventually(tab, THERE, name)
    return tab.locator(f"#{name}").element_handle()


def frame_of(tab, name):
    frame = tab.evaluate_handle("(id) => document.getElementById(id).shadowRoot.querySelector('iframe')", name)
    return frame.as_element().content_frame()


def failures(frame):
    return frame.locator(".failed:visible").all_inner_texts()


# --- first screen -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [390, 1280])
def test_the_first_screen_has_a_sentence_a_figure_and_one_thing_to_do(read, wide):
    tab = read(wide=wide, touch=wide == 390)
    open_figure(tab, "first")
    tab.evaluate("scrollTo(0, 0)")
    low = tab.evaluate("innerHeight")
    for part, least in {"h1": 30, ".question": 50, ".question strong": 20, "#first": 0.6 * low - 100}.items():
        box = tab.locator(f"section.cover {part}").first.bounding_box()
        assert low - box["y"] > least, part  # so many pixels of it are on screen
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide


# --- the walk -----------------------------------------------------------------------------------------------------------


def walk(tab, on):
    """Every chapter in order, by `on`; yields the id of each with its figures and exercises."""
    ids = chapters(tab)
    for chapter in ids:
        on(tab)
        eventually(tab, "(id) => location.hash === `#${id}` || location.hash.startsWith(`#${id}?`)", chapter)
        assert abs(tab.evaluate("(id) => document.getElementById(id).getBoundingClientRect().top", chapter)) < 200
        inside = [
            tab.evaluate(f"(id) => [...document.getElementById(id).querySelectorAll('{kind}')].map((one) => one.id)", chapter)
            for kind in ("equiscope-figure", "equiscope-exercise")
        ]  # fmt: skip
        yield chapter, *inside


def by_keyboard(tab):
    tab.keyboard.press("ArrowRight")


def by_touch(tab):
    tab.locator("#bar .after").tap()


@pytest.mark.parametrize(("wide", "dark", "on"), [(1280, False, by_keyboard), (390, True, by_touch)])
def test_the_book_is_walked_from_the_first_to_the_last_chapter(read, wide, dark, on):
    tab, wrong = read(wide=wide, dark=dark, touch=on is by_touch), []
    for chapter, figures, exercises in walk(tab, on):
        for figure in figures:
            open_figure(tab, figure)
            wrong += [(figure, said) for said in failures(frame_of(tab, figure))]
        wrong += [(one, said) for one in exercises for said in solve(tab, one, touch=on is by_touch)]
        wrong += [(chapter, "too wide")] * (tab.evaluate("document.documentElement.scrollWidth") > wide)
        wrong += [(chapter, *found) for found in barriers(tab, "serious", f"[id='{chapter}']")]
        tab.evaluate("(id) => document.getElementById(id).scrollIntoView()", chapter)
    assert wrong == []
    assert len(chapters(tab)) == len(tab.locator("#contents > ol > li").all())


def solve(tab, exercise, touch=False):
    """What is wrong with an exercise: it must be marked wrong (or not yet) before, and right with the state of its answer."""
    element, reset = tab.locator(f"[id='{exercise}']"), "(id) => document.getElementById(id).reset()"

    def press(name):
        button = element.get_by_role("button", name=name)
        (button.tap if touch else button.click)()

    status, figure = element.get_by_role("status"), element.get_attribute("figure")
    tab.evaluate(reset, figure)
    element.scroll_into_view_if_needed()
    if element.locator("input[type=radio]").count():
        press("Check")
        if not said(tab, exercise, "Predict first", tries=60):  # a figure that grew moved the button from under the finger
            press("Check")
        if "Predict first" not in status.inner_text():
            yield f"asks for no prediction: {status.inner_text()}"
        element.locator("input[data-right]").first.check(force=True)
    press("Check")
    if not said(tab, exercise, "✗ Not yet."):
        yield f"is not wrong before: {status.inner_text()}"
    answer = element.locator("[data-answer]").get_attribute("state")
    if answer is None:  # what is revealed is words: a person has to do it by hand
        press("Reveal")
        yield from [] if element.locator("[data-answer]").is_visible() else ["reveals nothing"]
        return
    tab.evaluate("([id, state]) => { const one = document.getElementById(id); one.reset(); one.merge(state); }", [figure, answer])
    if not said(tab, exercise, "✓ Right."):
        yield f"is not right with its answer: {status.inner_text()}"
    elif "solved=1" not in tab.evaluate("(id) => document.getElementById(id).state", exercise):
        yield "does not keep that it is solved"


def said(tab, exercise, words, tries=600):
    """Whether the exercise says so, sooner or later."""
    for _ in range(tries):
        if tab.locator(f"[id='{exercise}']").get_by_role("status").inner_text().startswith(words):
            return True
        tab.wait_for_timeout(50)
    return False


# --- there and back -----------------------------------------------------------------------------------------------------


def test_back_and_forward_return_to_where_a_reader_was(read):
    tab = read()
    first, second = chapters(tab)[:2]
    tab.evaluate("scrollTo(0, 300)")
    tab.wait_for_timeout(400)
    at = tab.evaluate("scrollY")
    tab.locator(f"#contents a[href='#{second}']").first.click()
    eventually(tab, "(id) => location.hash === `#${id}`", second)
    tab.go_back()
    eventually(tab, "(y) => Math.abs(scrollY - y) < 2", at)
    tab.go_forward()
    eventually(tab, "(id) => Math.abs(document.getElementById(id).getBoundingClientRect().top) < 100", second)
    assert tab.title() == f"{here(tab)} - equiscope"
    tab.keyboard.press("ArrowLeft")
    eventually(tab, "(id) => location.hash === `#${id}`", first)


def test_a_change_of_a_figure_is_in_the_address_and_back_undoes_it(read):
    tab = read()
    open_figure(tab, "first")
    tab.evaluate("""() => document.querySelector("#first").after(
        Object.assign(document.createElement("a"), { href: "#first?order=2,0,1", textContent: "try it" }))""")
    tab.get_by_text("try it", exact=True).first.click()
    eventually(tab, "() => location.hash.includes('first=')")
    assert "order=2%252C0%252C1" in tab.evaluate("location.hash") or "order%3D2%252C0%252C1" in tab.evaluate("location.hash")
    words = "() => document.getElementById('first').state.includes('order')"
    assert tab.evaluate(words)
    address = tab.evaluate("location.hash")
    tab.go_back()
    eventually(tab, f"() => !({words})()")
    again = read(address.removeprefix("#"))
    open_figure(again, "first")
    assert dict(parse_qsl(again.evaluate("document.getElementById('first').state")))["order"] == "2,0,1"


def test_one_file_needs_nothing_beside_it(read, file):
    tab = read(page=file)
    open_figure(tab, "first")
    assert failures(frame_of(tab, "first")) == []


def test_in_a_sandbox_without_history_the_state_is_in_memory(watched, file, tmp_path):
    around = tmp_path / "around.html"
    around.write_text(f'{AROUND}{escape(file.read_text(encoding="utf-8"))}"></iframe>', encoding="utf-8")
    tab = watched()
    tab.goto(around.as_uri())
    inner = tab.frame_locator("iframe").first
    first = inner.locator("#text > section.chapter h2").first.inner_text()
    inner.locator("#bar .after").click()
    assert inner.locator("#bar .here").inner_text() == first
    figure = inner.locator("section.chapter equiscope-figure").first
    figure.scroll_into_view_if_needed()
    figure.locator("iframe").content_frame.locator("main").wait_for()


# --- words and claims ---------------------------------------------------------------------------------------------------


def test_own_words_are_shown_and_the_text_stays_true(read, site, tmp_path):
    fake = {path.stem: path.read_text for path in (site / book.FOLDER).iterdir()}
    own = book.write_folder(tmp_path / "own", fake | {"sentence": pages(MINE)["sentence"]}, MINE.split())
    tab = read(page=own / "index.html")
    open_figure(tab, "first")
    assert "forest" in frame_of(tab, "first").locator("main").inner_text()
    line = tab.locator(".whose:has(+ #first)")
    assert "This figure shows your words." in line.inner_text()
    line.get_by_role("button").click()
    eventually(tab, "() => document.querySelector('.whose:has(+ #first)').textContent.includes('words of the text')")
    frame_of(tab, "first").get_by_text("conquers").first.wait_for()
    about = tab.locator("equiscope-figure[src$='sentence.html']").evaluate_all(
        "all => all.filter((one) => /(order|edits|point)=/.test(one.getAttribute('state'))).map((one) => one.getAttribute('state'))"
    )
    assert about != []
    assert all(dict(parse_qsl(state))["words"] == json.dumps(list(book.WORDS), separators=(",", ":")) for state in about)


def test_a_claim_opens_where_it_is_named(read):
    tab = read()
    button = tab.locator("button.claim").first
    button.click()
    ledger = json.loads(tab.locator("#ledger").text_content())
    entry = ledger[button.get_attribute("data-claim")]
    aside = tab.locator("aside.ledger").first
    assert entry["figure"] in aside.inner_text()
    assert entry["command"] in aside.inner_text()
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    assert tab.locator("aside.ledger").count() == 0
