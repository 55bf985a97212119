"""Two models beside each other in a real browser: numbers of both are numpy's; what changed most leads to its head."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from equiscope.explore.page import html, write
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.record import TokenSequence
from tests.journeys.heads import SENTENCE
from tests.journeys.test_heads import IDS, number, printed
from tests.pairwise import few

pytestmark = pytest.mark.browser


def eager(seed, layers):
    torch.manual_seed(seed)
    sizes = {"vocab_size": 50, "n_embd": 32, "n_head": 4, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel._from_config(GPT2Config(**sizes, n_layer=layers), attn_implementation="eager").eval()
    with torch.no_grad():
        for name, table in model.named_parameters():
            if "c_attn.weight" in name:
                table.mul_(15)  # so that heads choose
        theirs = model(input_ids=IDS, output_attentions=True).attentions
    return model, [one[0].double().numpy() for one in theirs]


@pytest.fixture(scope="module")
def made():
    """Two models looked at, of which the first has a layer more, and the weights of both."""
    looked, theirs = [], []
    for seed, name, layers in ((0, "before", 3), (1, "after", 2)):
        model, weights = eager(seed, layers)
        looked.append(
            HeadsPage(model, (IDS,), {}, [TokenSequence(name="text", kind="words", labels=SENTENCE[:8])], "two models", name)
        )
        theirs.append(weights)
    looked[0].set_side_by_side(looked[1], ["before", "<b>after</b>"])
    return looked[0], theirs


@pytest.fixture(scope="module")
def opened(made, tmp_path_factory):
    return write(made[0].file(), tmp_path_factory.mktemp("beside") / "both.html")


@pytest.fixture
def read(watched, opened):
    def open_page(fragment="", wide=1280, dark=False):
        tab = watched(wide, dark, has_touch=wide < 500)
        tab.goto(f"{opened.as_uri()}#{fragment}")
        tab.wait_for_selector("main h2")
        return tab

    return open_page


def press(tab, name, where=".seeing"):
    tab.locator(where).get_by_role("button", name=name, exact=True).click()


def test_the_number_of_both_models_is_their_own(read, made):
    one, other = made[1]
    tab = read("head=1.2&query=6&key=3")
    assert printed(tab) == pytest.approx(one[1][2][6, 3], rel=2e-5)
    told = tab.locator(".seeing > .summary").inner_text()
    assert number(told.split("; ")[1].split(" in ")[0]) == pytest.approx(other[1][2][6, 3], rel=2e-5)
    press(tab, "<b>after</b>")
    assert printed(tab) == pytest.approx(other[1][2][6, 3], rel=2e-5)
    assert tab.locator(".products input").count() == 0, "of another model nothing is written"
    press(tab, "difference")
    assert "more weight in <b>after</b> than in before" in tab.locator(".map figcaption").first.inner_text()
    assert "side=difference" in tab.evaluate("location.hash")


def test_what_changed_most_comes_first_and_opens_its_head(read, made):
    one, other = made[1]
    apart = {(i, h): (np.abs(one[i][h] - other[i][h]).sum(-1) / 2).mean() for i in range(2) for h in range(4)}
    tab = read()
    rows = tab.locator(".head-pairs tbody tr")
    assert rows.count() == 8
    (layer, head), far = max(apart.items(), key=lambda item: item[1])
    assert rows.first.locator("th").inner_text() == f"L{layer}H{head}"
    assert number(rows.first.locator(".far").inner_text()) == pytest.approx(far, abs=6e-5)
    rows.first.get_by_role("button").click()
    assert tab.evaluate("equiscope.heads.state.open") == [layer, head]
    assert f"Distance of the two heads: {far:.4f}" in tab.locator(".pair-distance").inner_text()


def test_a_layer_without_a_partner_says_so(read, made):
    tab = read("head=2.0&query=6&key=3&side=other")
    assert "so this one has no counterpart" in tab.locator(".pair-distance").inner_text()
    assert printed(tab) == pytest.approx(made[1][0][2][0][6, 3], rel=2e-5)
    assert not tab.locator(".second").is_visible()


def test_the_overview_shows_either_model_or_the_difference(read):
    tab = read()
    seen = []
    for name in ("before", "<b>after</b>", "difference"):
        press(tab, name, ".overview")
        seen.append(tab.locator(".mosaic canvas").evaluate("c => c.toDataURL()"))
    assert len(set(seen)) == 3


@pytest.mark.parametrize("dark", few([True, False], 1))
def test_it_fits_a_phone(read, dark):
    tab = read("head=0.0", wide=390, dark=dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.locator("#app b b").count() == 0


def test_served_both_are_asked_for(browser, made):
    looked, (_, other) = made
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    with server(html(looked.content, policy=POLICY), 18895, {"/head": looked.answer_head}) as running:
        tab.goto(f"{running.url}#head=1.0&query=5&key=1&side=other")
        tab.locator("[data-step='weight'] b").wait_for()
        assert printed(tab) == pytest.approx(other[1][0][5, 1], rel=2e-5)
    context.close()
