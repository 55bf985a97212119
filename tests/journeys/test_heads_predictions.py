"""What the model says beside where it looked, in a real browser: a ViT of timm, one of our runs, a language model."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import GPT2Config, GPT2LMHeadModel

from equiscope.explore.heads.predictions import PredictionReader, class_label
from equiscope.explore.page import html, write
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.record import TokenSequence, unpack
from equiscope.record.token_sequence import patch_sequence
from equiscope.training import load_run, load_task
from tests.cli.test_cli import equi
from tests.journeys.heads import photo
from tests.journeys.test_heads import IDS, SENTENCE, number, printed
from tests.pairwise import few
from tests.pictures_of_timm import vit as timm_vit

__all__ = ["equi"]  # the fixture
pytestmark = pytest.mark.browser
RECIPES = Path(__file__).parents[2] / "recipes"
CHOSEN = [(0, 0, 0, 5), (1, 3, 7, 2), (1, 2, 0, 0)]  # layer, head, row, column


def read(tab, path, fragment=""):
    tab.goto(f"{path.as_uri()}#{fragment}")
    tab.wait_for_selector("main h2")
    return tab


def told(tab):
    """Answers and probabilities as a person reads them."""
    rows = tab.locator(".prediction-list li").all()
    return {row.locator("bdi").inner_text(): number(row.locator("b").get_attribute("title")) for row in rows}


def numbers_are(tab, looked):
    for layer, head, row, column in CHOSEN:
        tab.evaluate("([l, h, n, m]) => equiscope.heads.set({ open: [l, h], row: n, column: m })", [layer, head, row, column])
        assert printed(tab) == pytest.approx(looked.attentions[layer].recomputed_weights(head)[row, column].item(), rel=2e-5)


@pytest.fixture(scope="module")
def timms():
    model, pixels = timm_vit()
    with torch.no_grad():
        chances = model(pixels).double().softmax(-1)[0]
    line = patch_sequence([4, 4], 3, photo(32))
    return HeadsPage(model, (pixels,), {}, [line], "a ViT of timm", "timm", reader=PredictionReader("class", class_label)), chances


def test_a_vit_of_timm_says_its_classes_and_where_it_looked(watched, timms, tmp_path):
    looked, chances = timms
    tab = read(watched(1280), write(looked.file(), tmp_path / "page.html"))
    assert told(tab) == pytest.approx({f"class {i}": float(p) for i, p in enumerate(chances)}, rel=1e-5)
    assert tab.locator(".predictions img").is_visible()
    numbers_are(tab, looked)
    assert tab.locator(".before button").all_inner_texts() == ["class", "register 1", "register 2"]


def test_the_class_token_is_shown_in_every_head_at_once(watched, timms, tmp_path):
    looked, _ = timms
    tab = read(watched(1280), write(looked.file(), tmp_path / "page.html"), "head=1.0&query=0")
    pictures = tab.locator(".strip button")
    assert pictures.count() == 4
    for head in range(4):
        row = looked.attentions[1].recomputed_weights(head)[0]
        best = int(row[3:].argmax())
        where = f"row {best // 4}, column {best % 4}"
        wanted = f"H{head}: {row[3:].sum():.2f} of the weight on patches, most on {where}, "
        said = pictures.nth(head).get_attribute("aria-label")
        assert said.startswith(wanted)
        assert number(said.removeprefix(wanted)) == pytest.approx(float(row[3:].max()), rel=1e-5)
    assert len({one.locator("canvas").evaluate("c => c.toDataURL()") for one in pictures.all()}) == 4
    pictures.nth(2).focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("equiscope.heads.state.open") == [1, 2]
    assert pictures.nth(2).get_attribute("aria-pressed") == "true"


def test_served_the_other_heads_are_asked_for_too(browser, timms):
    looked, _ = timms
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    page = html(looked.content, policy=POLICY)
    with server(page, 18395, {"/head": looked.answer_head}, {"/rerun": looked.answer_rerun}) as running:
        tab.goto(f"{running.url}#head=0.1&query=0")
        tab.locator(".strip button").nth(3).get_by_text("H3").wait_for()
        for head in range(4):
            share = float(looked.attentions[0].recomputed_weights(head)[0, 3:].sum())
            assert tab.locator(".strip button").nth(head).inner_text() == f"H{head} · {share:.2f}"
    context.close()


def test_a_click_on_the_photograph_asks_that_patch(watched, timms, tmp_path):
    looked, _ = timms
    tab = read(watched(1280), write(looked.file(), tmp_path / "page.html"), "head=0.1")
    box = tab.locator(".photo").bounding_box()
    tab.locator(".photo").click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.3})
    place = 3 + 1 * 4 + 2
    assert tab.evaluate("equiscope.heads.state.row") == place
    row = looked.attentions[0].recomputed_weights(1)[place]
    assert printed(tab) == pytest.approx(float(row.max()), rel=2e-5)
    assert "“row 1, column 2”" in tab.locator(".layer-strip summary").inner_text()


@pytest.mark.parametrize("readout", few(["class", "mean"], 1))
def test_one_of_our_runs_says_the_garment_and_where_it_looks(watched, equi, tmp_path, readout):
    run, file, page = tmp_path / "run", tmp_path / "garment.png", tmp_path / "page.html"
    changes = ("--small", "--set", "budget.steps=1", "--set", "optimiser.warmup=0", "--set", f"model.readout={readout}")
    code, _, err = equi("train", RECIPES / "fashion-mnist.toml", *changes, "--out", run)
    assert code == 0, err
    Image.fromarray((255 * np.tri(28)).astype(np.uint8)).save(file)
    assert equi("explore", "--model", run, "--image", file, "--export", page)[0] == 0
    model, (_, task) = load_run(run).eval(), load_task(run)
    with torch.no_grad():
        asked = task.model_inputs(model, str(file))
        chances = model(*asked.args).double().softmax(-1)[0]
    tab = read(watched(1280), page, "head=0.0&query=0")
    wanted = {task.classes[int(i)]: float(chances[i]) for i in chances.topk(5).indices}
    assert told(tab) == pytest.approx(wanted, rel=1e-5)
    assert tab.locator(".predictions img").is_visible()
    looked = HeadsPage(model, asked.args, {}, asked.sequences, "a run", "run")
    for layer, head, row, column in [(0, 0, 0, 5), (1, 1, 9, 2)]:
        tab.evaluate("([l, h, n, m]) => equiscope.heads.set({ open: [l, h], row: n, column: m })", [layer, head, row, column])
        assert printed(tab) == pytest.approx(looked.attentions[layer].recomputed_weights(head)[row, column].item(), rel=2e-5)
    assert tab.locator(".strip button").count() == looked.attentions[1].heads
    assert tab.locator(".before button").all_inner_texts() == (["class"] if readout == "class" else [])


def test_a_language_model_says_the_next_token_after_the_chosen_one(watched, tmp_path):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=32)).eval()
    line = TokenSequence(name="text", kind="words", labels=SENTENCE[:8])
    content = HeadsPage(
        model, (IDS,), {}, [line], "a tiny GPT-2", "gpt2", reader=PredictionReader("next", lambda i: f" word{i}")
    ).file()
    with torch.no_grad():
        chances = model(IDS).logits[0].double().softmax(-1)
    tab = read(watched(1280), write(content, tmp_path / "page.html"))
    for fragment, row in (("", 7), ("head=0.0&query=2", 2)):
        tab.evaluate("hash => { location.hash = hash }", fragment)
        tab.locator(".predictions p", has_text=f"“{SENTENCE[row]}”").wait_for()
        best = chances[row].topk(5)
        wanted = {f"word{int(i)}": float(p) for p, i in zip(best.values, best.indices, strict=True)}
        assert told(tab) == pytest.approx(wanted, rel=1e-5)


def test_rolled_out_layers_lie_over_the_photograph(watched, timms, tmp_path):
    looked, _ = timms
    content = looked.file()
    tab = read(watched(1280), write(content, tmp_path / "page.html"), "head=2.0&query=0&key=5")
    assert printed(tab) == pytest.approx(unpack(content.rollout[0].tensors.weights)[0, 0, 5], rel=1e-6)
    assert tab.locator(".strip button").count() == 2


@pytest.mark.parametrize("dark", few([True, False], 1))
def test_it_fits_a_phone_and_is_touched(watched, timms, tmp_path, dark):
    looked, _ = timms
    tab = read(watched(360, dark, has_touch=True), write(looked.file(), tmp_path / "page.html"), "head=0.0&query=0")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.locator(".strip button").nth(1).scroll_into_view_if_needed()
    tab.locator(".strip button").nth(1).tap()
    assert tab.evaluate("equiscope.heads.state.open") == [0, 1]
    assert re.findall(r"NaN|undefined|\[object", tab.locator("body").inner_text()) == []
