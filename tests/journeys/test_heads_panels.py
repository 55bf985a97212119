"""Nobody meets a barrier on the panels of the page of all heads: two models, moved tokens, all layers, links, answers, sounds."""

import pytest

from equiscope.explore.heads.predictions import PredictionReader, class_label
from equiscope.explore.page import html, write
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.record import TokenSequence
from equiscope.record.token_sequence import patch_sequence
from tests.journeys.barriers import barriers
from tests.journeys.heads import photo
from tests.journeys.test_heads import IDS, SENTENCE
from tests.journeys.test_heads_cross_alignment import looked as translated
from tests.journeys.test_heads_cross_alignment import marian
from tests.journeys.test_heads_rerun import gpt2, looked
from tests.journeys.test_heads_side_by_side import eager
from tests.journeys.test_heads_sound import content as sounding
from tests.pairwise import each_value
from tests.pictures_of_timm import vit as timm_vit

pytestmark = pytest.mark.browser


def barriers_of_all(tab):
    """With all that folds out."""
    for summary in tab.locator("summary").all():
        if summary.is_visible() and not summary.evaluate("s => s.parentElement.open"):
            summary.click()
    return barriers(tab)


def beside():
    pair = [
        HeadsPage(eager(seed, 2)[0], (IDS,), {}, [TokenSequence(name="text", kind="words", labels=SENTENCE[:8])], "two models", "x")
        for seed in (0, 1)
    ]
    pair[0].set_side_by_side(pair[1], ["before", "after"])
    return pair[0].file()


def picture():
    model, pixels = timm_vit()
    return HeadsPage(
        model, (pixels,), {}, [patch_sequence([4, 4], 3, photo(32))], "a ViT", "timm", reader=PredictionReader("class", class_label)
    ).file()


PAGES = {
    "beside": (beside, "head=0.1&side=difference"),
    "rolled": (lambda: looked(gpt2).file(), "head=2.0"),
    "across": (lambda: translated(marian)[0].file(), "word=2&whole=on"),
    "says": (picture, "head=1.0&query=0"),
    "sound": (sounding, "head=0.1&query=79"),
}


@each_value(
    pytest.mark.parametrize("name", list(PAGES)),
    pytest.mark.parametrize(("wide", "dark"), [(1280, False), (360, True)]),
)
def test_a_panel_has_no_barriers(watched, tmp_path, name, wide, dark):
    made, fragment = PAGES[name]
    tab = watched(wide, dark, bypass_csp=True, has_touch=wide < 500)
    tab.goto(f"{write(made(), tmp_path / 'page.html').as_uri()}#{fragment}")
    tab.wait_for_selector("main h2")
    assert barriers_of_all(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert tab.evaluate("document.querySelectorAll('*').length") < 2000


@pytest.mark.parametrize(("wide", "dark"), [(1280, True), (360, False)])
def test_moved_tokens_meet_no_barrier(browser, wide, dark):
    made = looked(gpt2)
    context = browser.new_context(
        viewport={"width": wide, "height": 900}, reduced_motion="reduce", bypass_csp=True, color_scheme="dark" if dark else "light"
    )
    tab = context.new_page()
    with server(html(made.content, policy=POLICY), 18495, {"/head": made.answer_head, "/rerun": made.answer_rerun}) as running:
        tab.goto(f"{running.url}#head=1.2")
        for name in ("Shuffle the tokens", "Shift the text"):
            tab.get_by_role("button", name=name).click()
            tab.locator(".rerun-result .lede").wait_for()
        assert barriers_of_all(tab) == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    context.close()
