"""The page of masks in a real browser: its weights are Python's; by mouse, keyboard and touch; on a phone, in the dark, hostile."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from equiscope.attention import Blocks, Causal, Dilated, Everything, Prefix, Window
from equiscope.explore.page import write
from equiscope.explore.pages.masks import BEGIN, masks, model
from equiscope.record import unpack
from equiscope.tokens import Tokens, vocabulary
from tests.journeys.barriers import barriers
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
THREE, SIX = "Love conquers all", "the dog is on the lawn"
ODD = (
    "</script><script>window.stolen=1</script> <img/src=x/onerror=window.stolen=1> 👩\u200d👩\u200d👧 שלום 日本語 \u202eright "
    + "a" * 300
)
LONG = " ".join(f"word{i}" for i in range(12))


@cache
def made(sentence):
    return masks(sentence, 0)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The file of each sentence, written once."""
    folder, files = tmp_path_factory.mktemp("masks"), {}

    def page(sentence):
        if sentence not in files:
            files[sentence] = write(made(sentence), folder / f"{len(files)}.html")
        return files[sentence]

    return page


@pytest.fixture
def read(watched, opened):
    """Opens the page of a sentence."""

    def open_page(sentence=THREE, fragment="", wide=1280, dark=False, **options):
        tab = watched(wide, dark, has_touch=wide < 500, **options)
        tab.goto(f"{opened(sentence).as_uri()}#{fragment}")
        tab.wait_for_selector("main h2")
        return tab

    return open_page


def weights(sentence, mask, before=0, second=None):
    """Of the first layer, by the model's own attention: [H, N, N]. before: empty places; second: where another text begins."""
    words = sentence.split()
    known = vocabulary([BEGIN, *words])
    small = model(list(known), 0)
    block = small.blocks[0]
    block.attention.mask = mask
    x = block.attention_norm(small.tokens(torch.tensor([known[word] for word in words])).x)
    x = torch.cat([x.new_zeros(before, x.shape[-1]), x])
    tokens = Tokens.of(x, -before)
    if before:
        tokens = replace(tokens, valid=tokens.order >= 0)
    if second:
        tokens = replace(tokens, document=(tokens.order >= second).long())
    with torch.no_grad():
        return block.attention.attend(tokens, small.position)[1]


def number(text):
    return float(text.replace("−", "-"))


def computed(tab, head):
    return torch.tensor(tab.evaluate("h => equiscope.masks.weights(h)", head), dtype=torch.float64)


def part(tab, title):
    return tab.locator("section.part", has=tab.get_by_role("heading", name=title))


def cell(place, row, column, wide):
    return place.locator(".pair-cell").nth(row * wide + column)


def drawn(tab):
    """The states and the texts of all cells of the first grid."""
    found = tab.evaluate("[...document.querySelectorAll('.mask-panel .pair-cell')].map(c => [c.dataset.state, c.textContent])")
    return [state for state, _ in found], [text for _, text in found]


def settled(tab, fragment):
    """Until the page shows what a link says. (A predicate in the page would need eval, which its policy forbids.)"""
    rules = fragment.split("&")[0].removeprefix("mask=") or "causal"
    for _ in range(100):
        if ".".join(tab.evaluate("equiscope.masks.state.rules.map(r => r.n ? `${r.name}-${r.n}` : r.name)")) == rules:
            return
        tab.wait_for_timeout(20)
    pytest.fail(f"the page never showed {fragment}")


# --- the attention mask -------------------------------------------------------------------------------------------------
MASKS = {
    "mask=full": (Everything(), {}),
    "": (Causal(), {}),
    "mask=window-3": (Window(3), {}),
    "mask=causal.window-2": (Causal() & Window(2), {}),
    "mask=causal.dilated-2": (Causal() & Dilated(2), {}),
    "mask=blocks-4": (Blocks(4), {}),
    "mask=causal.prefix-3&join=or": (Causal() | Prefix(3), {}),
    "mask=window-2.dilated-3&join=or": (Window(2) | Dilated(3), {}),
    "mask=causal.texts-2": (Causal(), {"second": 2}),
    "mask=causal.padded-3": (Causal(), {"before": 3}),
    "mask=padded-2.window-2": (Window(2), {"before": 2}),
    "mask=full.causal": (Causal(), {}),
    "mask=full.causal&join=or": (Everything(), {}),
}


def test_the_weights_on_the_page_are_those_of_the_models_attention(read):
    tab = read(SIX, "mask=full")
    for fragment, (mask, more) in MASKS.items():
        tab.evaluate("f => { location.hash = f }", fragment)
        wanted = weights(SIX, mask, **more)
        settled(tab, fragment)
        for head in range(2):
            assert (computed(tab, head) - wanted[head]).abs().max() < 1e-12
        states, texts = drawn(tab)
        count = wanted.shape[-1]
        assert states == ["attended" if w > 0 else "masked" for w in wanted[0].flatten().tolist()]
        if count <= 8:
            seen = [(text, w) for text, w in zip(texts, wanted[0].flatten().tolist(), strict=True) if w]
            assert [number(text) for text, _ in seen] == pytest.approx([w for _, w in seen], abs=0.0051)


def test_pointing_says_in_words_and_numbers_why(read):
    tab = read(THREE)
    place = part(tab, "The attention mask")
    cell(place, 1, 2, 3).hover()
    assert place.locator(".reason").inner_text() == "“conquers” 1 cannot attend to “all” 2: “all” 2 comes after “conquers” 1."
    assert place.locator("[data-step='not_after'] .how").inner_text().replace("\u2009", "") == "2 ≤ 1"
    assert place.locator("[data-step='not_after'] .result").inner_text() == "no"
    cell(place, 2, 0, 3).click()
    assert place.locator(".reason").inner_text().startswith("“all” 2 can attend to “Love” 0: “Love” 0 does not come after “all” 2")
    found = {
        r.get_attribute("data-step"): number(r.locator(".result").inner_text().lstrip("= "))
        for r in place.locator(".rung:has(.result)").all()
        if r.get_attribute("data-step") != "not_after"
    }
    assert found["softmax"] == pytest.approx(weights(THREE, Causal())[0, 2, 0].item(), abs=5.1e-5)
    assert found["scale"] == pytest.approx(found["matmul"] / 2, abs=1e-4)
    assert "cell=2.0" in tab.evaluate("location.hash")


def test_a_fully_masked_row_is_zero_and_says_so(read):
    tab = read(THREE, "mask=causal.padded-2")
    place = part(tab, "The attention mask")
    assert "all 0" in place.locator(".row-end").first.inner_text()
    cell(place, 1, 0, 5).click()
    assert "all its weights are 0, and attention adds nothing to it" in place.locator(".reason").inner_text()
    assert computed(tab, 0)[:2].abs().max() == 0


def test_patterns_rules_and_numbers_are_chosen(read):
    tab = read(SIX)
    place = part(tab, "The attention mask")
    place.get_by_role("button", name="sliding window").click()
    assert place.get_by_role("button", name="sliding window").get_attribute("aria-pressed") == "true"
    slider = place.get_by_role("slider", name="window")
    slider.focus()
    tab.keyboard.press("ArrowRight")
    assert slider.evaluate("s => s === document.activeElement"), "the slider stays while it is moved"
    assert tab.evaluate("location.hash") == "#mask=causal.window-3"
    assert (computed(tab, 0) - weights(SIX, Causal() & Window(3))[0]).abs().max() < 1e-12
    place.get_by_label("combine").select_option("or")
    assert (computed(tab, 0) - weights(SIX, Causal() | Window(3))[0]).abs().max() < 1e-12
    place.get_by_label("combine").select_option("")
    assert tab.evaluate("location.hash") == ""
    place.get_by_label("head").select_option("1")
    assert number(cell(place, 5, 0, 6).inner_text()) == pytest.approx(weights(SIX, Causal())[1, 5, 0].item(), abs=0.0051)


def test_arrow_keys_walk_across_the_grid(read):
    tab = read(SIX)
    place = part(tab, "The attention mask")
    cell(place, 5, 0, 6).focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "End", "ArrowLeft"):
        tab.keyboard.press(key)
    assert tab.evaluate("equiscope.masks.state.cell") == [4, 4]
    assert place.locator(".reason").inner_text() == "“the” 4 can attend to itself: it is the same position."
    assert place.locator(".pair-cell[tabindex='0']").count() == 1
    tab.keyboard.press("Tab")
    assert not tab.evaluate("document.activeElement.matches('.mask-panel .pair-cell')")


# --- the examples of a sentence ----------------------------------------------------------------------------------------
def test_the_sentence_makes_an_example_of_each_word(read):
    tab = read(THREE)
    place = part(tab, "The training examples of one sentence")
    rows = [" ".join(r.inner_text().split()[:-1]) for r in place.locator("button.lesson").all()]
    assert rows == ["‹begin› → Love", "‹begin› Love → conquers", "‹begin› Love conquers → all"]
    figures = {d.locator("dt").inner_text(): d.locator("dd").first.inner_text() for d in place.locator(".figures > div").all()}
    assert (figures["examples"], figures["read at once"], figures["read one by one"]) == ("3", "3 tokens", "6 tokens")
    losses = [one.full_pass_loss for one in made(THREE).examples]
    assert number(figures["mean loss"]) == pytest.approx(sum(losses) / 3, abs=5.1e-5)
    assert [number(r.locator(".loss").inner_text()) for r in place.locator("button.lesson").all()] == pytest.approx(
        losses, abs=5.1e-4
    )


def test_a_row_lights_its_example_and_an_example_its_row(read):
    tab = read(THREE)
    place = part(tab, "The training examples of one sentence")
    cell(place, 2, 0, 3).click()
    assert place.locator("button.lesson[data-lit]").inner_text().startswith("‹begin› Love conquers")
    place.locator("button.lesson").first.hover()
    assert place.locator(".words-row[data-lit] .row-name").inner_text() == "‹begin›"
    assert "“Love” a probability of" in place.locator(".reason").inner_text()
    place.locator("button.lesson").first.focus()
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate("equiscope.masks.state.lesson") == 1


# --- the receptive field -----------------------------------------------------------------------------------------------
def test_what_is_drawn_is_what_was_measured(read):
    tab = read(SIX)
    place = part(tab, "The receptive field")
    for layers, window in [(1, 1), (2, 2), (3, 3), (4, 2), (4, 6)]:
        tab.evaluate("(change) => equiscope.masks.set(change)", {"layers": layers, "window": window})
        nodes = tab.evaluate("[...document.querySelectorAll('circle.node')].map(c => ({ ...c.dataset }))")
        assert len(nodes) == (layers + 1) * 6
        found = unpack(made(SIX).influence)[layers - 1, window - 1]
        for node in nodes:
            felt = bool(found[int(node["layer"]), int(node["word"])] > 0)
            assert node["felt"] == node["drawn"] == str(felt).lower()
        reach = place.locator(".figures > div").first
        assert reach.locator("dd").first.inner_text().split()[0] == str(layers * (window - 1))


def test_a_node_says_its_measured_number_to_mouse_and_keys(read):
    tab = read(SIX, "layers=2&window=3")
    place = part(tab, "The receptive field")
    place.locator("circle[data-layer='0'][data-word='1']").hover()
    size = unpack(made(SIX).influence)[1, 2, 0, 1]
    told = re.search(r"has norm (\S+?)\.$", place.locator(".reason").inner_text())
    assert number(told[1]) == pytest.approx(size, abs=5.1e-5)
    place.locator("circle[tabindex='0']").focus()
    tab.keyboard.press("ArrowLeft")
    assert "has norm exactly 0" in place.locator(".reason").inner_text()
    assert "5 words back are more than 2 × (3 − 1) = 4" in place.locator(".reason").inner_text()
    place.get_by_role("slider", name="layers").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("equiscope.masks.state.layers") == 3


# --- decoding ----------------------------------------------------------------------------------------------------------
def test_decoding_reads_earlier_keys_and_values_from_the_cache(read):
    tab = read(SIX)
    place = part(tab, "Decoding with a KV cache")
    for _ in range(2):
        place.get_by_role("button", name="Next").click()
    keys = [cell(place, 1, word, 6).get_attribute("data-state") for word in range(6)]
    assert keys == ["cached", "cached", "cached", "new", "blank", "blank"]
    row = [number(cell(place, 3, word, 6).inner_text()) for word in range(4)]
    assert row == pytest.approx(weights(SIX, Causal())[0, 3, :4].tolist(), abs=0.0051)
    assert "Keys and values of “the” 0, “dog” 1, “is” 2 come from the cache." in place.locator(".reason").inner_text()
    figures = {d.locator("dt").inner_text(): d.locator("dd").first.inner_text() for d in place.locator(".figures > div").all()}
    found = made(SIX)
    assert figures["with the cache"].replace(",", "") == str(found.cached_multiply_adds[3])
    assert figures["without"].replace(",", "") == str(found.full_multiply_adds[3])
    place.get_by_role("button", name="Back").focus()
    tab.keyboard.press("ArrowLeft")
    place.get_by_role("slider", name="step").focus()
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate("equiscope.masks.state.step") == 1


def test_a_sliding_window_evicts(read):
    tab = read(SIX, "step=4&keep=3")
    place = part(tab, "Decoding with a KV cache")
    keys = [cell(place, 1, word, 6).get_attribute("data-state") for word in range(6)]
    assert keys == ["evicted", "evicted", "cached", "cached", "new", "blank"]
    assert "After the step “is” 2 is evicted: no later query can attend to it" in place.locator(".reason").inner_text()
    cell(place, 2, 0, 6).hover()
    assert (
        place.locator(".detail").inner_text() == "The value of “the” 0 was evicted after step 2: no later query can attend to it."
    )
    assert [cell(place, 3, word, 6).get_attribute("data-state") for word in range(5)] == ["masked"] * 2 + ["attended"] * 3


# --- the whole page ----------------------------------------------------------------------------------------------------
def test_the_link_restores_what_was_chosen(read):
    fragment = "mask=causal.prefix-3&join=or&cell=1.2&head=1&lesson=3&step=3&window=4&layers=3&keep=2"
    tab = read(SIX, fragment)
    tab.evaluate("equiscope.masks.set({ cell: [1, 2] })")
    assert sorted(tab.evaluate("location.hash.slice(1)").split("&")) == sorted(fragment.split("&"))
    tab.evaluate("location.hash = 'mask=nonsense&cell=0.x&layers=9&keep=-1'")
    tab.wait_for_timeout(100)
    assert tab.evaluate("equiscope.masks.state.layers") == 2


def test_a_finger_reads_a_cell(read):
    tab = read(THREE, wide=390)
    place = part(tab, "The attention mask")
    cell(place, 0, 2, 3).tap()
    assert place.locator(".reason").inner_text().startswith("“Love” 0 cannot attend to “all” 2")
    part(tab, "Decoding with a KV cache").get_by_role("button", name="Next").tap()
    assert tab.evaluate("equiscope.masks.state.step") == 2


@pytest.mark.parametrize("sentence", few([ODD, LONG, THREE, "Love"], 2))
def test_nothing_is_wider_than_the_window(read, sentence):
    tab = read(sentence)
    for wide in (1280, 768, 360):
        tab.set_viewport_size({"width": wide, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    slips = re.findall(r"NaN|undefined|\[object|\bnull\b|Infinity", tab.locator("body").inner_text())
    assert slips == []


def test_hostile_words_are_text_and_nothing_else(read):
    tab = read(ODD)
    assert tab.evaluate("window.stolen") is None
    assert tab.locator("#app script, #app img").count() == 0
    assert ODD.split()[0] in tab.locator(".facts").inner_text()


def test_a_part_is_saved_as_a_picture(read):
    tab = read()
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="Save “The receptive field” as SVG").click()
    assert waiting.value.path().read_text(encoding="utf-8").count("<circle") >= 9


def test_without_a_script_there_are_tables(watched, tmp_path):
    tab = watched(java_script_enabled=False)
    tab.goto(write(made(THREE), tmp_path / "plain.html").as_uri())
    assert "needs JavaScript" in tab.locator("body").inner_text()
    rows = [row.locator("td").all_inner_texts() for row in tab.locator("table").first.locator("tbody tr").all()]
    assert [row[:2] for row in rows] == [["‹begin›", "Love"], ["‹begin› Love", "conquers"], ["‹begin› Love conquers", "all"]]
    assert tab.locator("table").count() == 3


@pytest.mark.parametrize(("sentence", "wide", "dark"), few([(SIX, 1280, False), (THREE, 360, True), (LONG, 1280, True)], 2))
def test_the_page_has_no_barriers(read, sentence, wide, dark):
    tab = read(sentence, "mask=causal.padded-1&step=1&keep=2", wide=wide, dark=dark, bypass_csp=True)
    assert barriers(tab, "moderate") == []
