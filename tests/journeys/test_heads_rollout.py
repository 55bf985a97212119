"""Attention rollout on the page, in a real browser: after the layers, over words and over patches, with what it is not."""

import pytest

from equiscope.explore.page import html
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.record import unpack
from tests.journeys.test_heads import gpt2, number, opened, printed, read, vit

__all__ = ["opened", "read"]  # fixtures
pytestmark = pytest.mark.browser


def test_it_stands_after_the_layers_and_its_number_is_pythons(read):
    tab = read("gpt2", "head=2.0&query=6&key=3")
    made, _ = gpt2()
    kept = unpack(made.file().rollout[0].tensors.weights)
    assert tab.locator(".mosaic h3").all_inner_texts()[-1] == "text: rollout, mean and maximum"
    assert tab.locator(".detail h2").inner_text() == "Attention rollout, mean over heads"
    assert printed(tab) == pytest.approx(kept[0, 6, 3], rel=1e-6)
    assert "it does not explain what the model predicts" in tab.locator(".counted").inner_text()
    assert not tab.locator(".change").is_visible(), "no mask or query makes it"
    tab.get_by_role("button", name="Next head").click()
    assert tab.locator(".detail h2").inner_text() == "Attention rollout, maximum over heads"
    assert tab.get_by_role("button", name="Next head").is_disabled()
    assert printed(tab) == pytest.approx(kept[1, 6, 3], rel=1e-6)


def test_figures_of_heads_do_not_count_it(read):
    tab = read("gpt2")
    assert "8 of 8 heads" in tab.locator(".statistics").inner_text()
    counts = [number(text) for text in tab.locator(".legend span").all_inner_texts()]
    assert sum(counts) == 8
    assert "2 layers, 8 heads" in tab.locator(".facts").inner_text()


def test_it_lies_over_the_picture(read):
    tab = read("vit", "head=2.0&query=0")
    kept = unpack(vit()[0].file().rollout[0].tensors.weights)
    assert tab.locator(".photo img").is_visible()
    assert "“class” 0 attends to" in tab.locator(".seeing > .summary").inner_text()
    tab.evaluate("equiscope.heads.set({ row: 0, column: 5 })")
    assert printed(tab) == pytest.approx(kept[0, 0, 5], rel=1e-6)


def test_of_many_tokens_it_is_asked_for(browser):
    kept = unpack(gpt2()[0].file().rollout[0].tensors.weights)
    made, _ = gpt2(type("Short", (HeadsPage,), {"rollout_tokens": 4}))
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    with server(html(made.content, policy=POLICY), 18695, {"/head": made.answer_head, "/rerun": made.answer_rerun}) as running:
        tab.goto(f"{running.url}#head=2.1&query=6&key=3")
        tab.locator("[data-step='weight'] b").wait_for()
        assert printed(tab) == pytest.approx(kept[1, 6, 3], rel=1e-6)
    context.close()
