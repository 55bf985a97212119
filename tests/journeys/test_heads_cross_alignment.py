"""Word alignment in a real browser: the links are those of the model; by mouse, keys, touch; on a phone."""

import numpy as np
import pytest
import torch
from transformers import MarianConfig, MarianMTModel, T5Config, T5ForConditionalGeneration

from equiscope.explore.heads.predictions import PredictionReader
from equiscope.explore.page import html, write
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.record import TokenSequence
from tests.journeys.test_heads import number
from tests.pairwise import each_value, few

pytestmark = pytest.mark.browser
SOURCE = [" Ein", " alter", " Ra", "sen", "mäher", " läuft", "</s>"]
ANSWER = ["<pad>", " An", " old", " lawn", " mo", "wer"]
PIECES = ([0, 1, 2, 2, 2, 3, 4], [0, 1, 2, 3, 4, 4])
IDS = (torch.tensor([[5, 9, 14, 3, 31, 7, 1]]), torch.tensor([[0, 8, 12, 21, 4, 6]]))


def marian():
    config = MarianConfig(
        vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=32, decoder_ffn_dim=32, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return MarianMTModel._from_config(config, attn_implementation="eager")


def t5():
    config = T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return T5ForConditionalGeneration._from_config(config, attn_implementation="eager")


def looked(kind, page=HeadsPage):
    """A tiny model that translates, and its own weights across [L, H, N, M]."""
    torch.manual_seed(0)
    model = kind().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and ("q" in name or "k" in name) and "emb" not in name:
                weight.mul_(20 if kind is marian else 3)  # so that heads choose
        given = {"input_ids": IDS[0], "decoder_input_ids": IDS[1]}
        theirs = torch.stack([one[0] for one in model(**given, output_attentions=True).cross_attentions]).double().numpy()
    lines = [
        TokenSequence(name=name, kind="words", labels=labels, words=pieces)
        for name, labels, pieces in zip(("text", "answer"), (SOURCE, ANSWER), PIECES, strict=True)
    ]
    return page(model, (), given, lines, "a translation", "tiny", reader=PredictionReader("next", lambda i: f" word{i}")), theirs


@pytest.fixture(scope="module")
def made():
    found = {}

    def of(kind):
        return found.setdefault(kind, looked(kind))

    return of


@pytest.fixture(scope="module")
def opened(made, tmp_path_factory):
    """The file of each model's page, written once."""
    folder, files = tmp_path_factory.mktemp("aligned"), {}

    def page(kind):
        if kind not in files:
            files[kind] = write(made(kind)[0].file(), folder / f"{kind.__name__}.html")
        return files[kind]

    return page


@pytest.fixture
def read(watched, opened):
    def open_page(fragment="", wide=1280, dark=False, kind=marian):
        tab = watched(wide, dark, has_touch=wide < 500)
        tab.goto(f"{opened(kind).as_uri()}#{fragment}")
        tab.wait_for_selector(".aligned path", state="attached")
        return tab

    return open_page


def words(tab, row):
    return tab.locator(".word-row").nth(row).locator("button")


def value(tab):
    return number(tab.locator(".alignment > .summary .value").inner_text())


@each_value(
    pytest.mark.parametrize("chosen", ["", "align=1", "align=0.2"]),
    pytest.mark.parametrize("kind", [marian, t5]),
)
def test_the_links_are_those_of_the_model(read, made, kind, chosen):
    looked, theirs = made(kind)
    layers = looked.content.cross_alignments[0].layers
    if chosen == "":
        wanted = theirs.mean((0, 1))
    elif chosen == "align=1":
        chosen, wanted = f"align={layers[1]}", theirs[1].mean(0)
    else:
        chosen, wanted = f"align={layers[0]}.2", theirs[0, 2]
    tab = read(chosen, kind=kind)
    for row in range(6):
        words(tab, 1).nth(row).click()
        assert value(tab) == pytest.approx(wanted[row].max(), rel=2e-5)
        assert f"attends most to “{SOURCE[int(wanted[row].argmax())].strip()}”" in tab.locator(".alignment > .summary").inner_text()


def test_a_row_stands_for_the_word_that_is_predicted_there(read, made):
    tab, told = read(), made(marian)[0].content.predictions
    last = told.names[int(np.asarray(told.indices.data).reshape(-1, 5)[-1, 0])]
    assert words(tab, 1).all_inner_texts() == [*(word.strip() for word in ANSWER[1:]), last.strip()]
    tab.get_by_role("button", name="input words").click()
    assert [text.strip() for text in words(tab, 1).all_inner_texts()] == [word.strip() for word in ANSWER]
    assert "rows=input" in tab.evaluate("location.hash")


def test_pieces_are_put_together(read, made):
    wanted = made(marian)[1].mean((0, 1))
    tab = read("rows=input")
    tab.get_by_label("whole words").check()
    assert [text.strip() for text in words(tab, 0).all_inner_texts()] == ["Ein", "alter", "Rasenmäher", "läuft", "</s>"]
    assert [text.strip() for text in words(tab, 1).all_inner_texts()] == ["<pad>", "An", "old", "lawn", "mower"]
    columns = np.stack([wanted[:, [i for i, w in enumerate(PIECES[0]) if w == word]].sum(-1) for word in range(5)], -1)
    rows = np.stack([columns[[i for i, w in enumerate(PIECES[1]) if w == word]].mean(0) for word in range(5)])
    for word in range(5):
        words(tab, 1).nth(word).click()
        assert value(tab) == pytest.approx(rows[word].max(), rel=2e-5)


def test_the_share_of_links_on_the_diagonal_is_pythons(read, made):
    looked, _ = made(marian)
    layer = looked.content.cross_alignments[0].layers[1]
    tab = read()
    for head, told in enumerate(looked.content.layers[layer].heads):
        tab.evaluate("(align) => equiscope.heads.set({ align })", [layer, head])
        said = tab.locator(".order").inner_text()
        assert said.startswith(f"{round(6 * told.diagonal)} of 6 strongest links")
        assert f"chance level is {100 * told.diagonal_chance:.0f} %" in said
    tab.locator(".statistics thead").get_by_role("button", name="diagonal").click()
    first = tab.locator(".statistics tbody tr").first.inner_text()
    best = max(h.diagonal for layer in looked.content.layers for h in layer.heads if h.diagonal is not None)
    assert f"{best:.2f} (" in first
    tab.locator(".alignment").get_by_role("button", name="Most diagonal").click()
    assert tab.evaluate("equiscope.heads.state.align.length") == 2


def test_a_word_shows_where_it_goes_and_the_lines_follow(read, made):
    wanted = made(marian)[1].mean((0, 1))
    tab = read()
    assert tab.locator(".aligned path").count() == 6
    words(tab, 1).nth(2).hover()
    assert tab.locator(".aligned path").count() == 5 + int((wanted[2] >= 0.02).sum())
    tab.mouse.move(2, 2)
    words(tab, 0).nth(3).click()
    tab.mouse.move(2, 2)
    assert (
        f"has the largest weight for {int((wanted.argmax(-1) == 3).sum())} target word"
        in tab.locator(".alignment > .summary").inner_text()
    )
    assert value(tab) == pytest.approx(wanted[:, 3].max(), rel=2e-5)


def test_the_same_links_stand_in_a_grid(read, made):
    wanted = made(marian)[1].mean((0, 1))
    tab = read("word=2")
    tab.locator(".alignment summary").click()
    tab.locator(".alignment .map figcaption", has_text="Rows are queries").wait_for()
    field = tab.locator(".alignment .map .field")
    field.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    assert tab.evaluate("equiscope.heads.state.word") == 3
    assert value(tab) == pytest.approx(wanted[3, 1], rel=2e-5)


def test_keys_walk_along_the_words(read, made):
    wanted = made(marian)[1].mean((0, 1))
    tab = read()
    words(tab, 1).first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowLeft"):
        tab.keyboard.press(key)
    assert value(tab) == pytest.approx(wanted[4].max(), rel=2e-5)
    tab.keyboard.press("Enter")
    assert tab.evaluate("equiscope.heads.state.word") == 4
    assert tab.locator(".alignment > .summary").get_attribute("aria-live") == "polite"


def test_the_chosen_head_opens(read):
    tab = read("align=4.1")
    layer = tab.evaluate("equiscope.heads.record.cross_alignments[0].layers[0]")
    tab.evaluate("layer => equiscope.heads.set({ align: [layer, 1] })", layer)
    tab.get_by_role("button", name="Open this head").click()
    assert tab.evaluate("equiscope.heads.state.open") == [layer, 1]


@pytest.mark.parametrize("dark", few([True, False], 1))
def test_it_fits_a_phone_and_is_touched(read, made, dark):
    wanted = made(marian)[1].mean((0, 1))
    tab = read(wide=360, dark=dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    assert tab.locator(".aligned").get_attribute("data-way") == "columns"
    words(tab, 1).nth(3).scroll_into_view_if_needed()
    words(tab, 1).nth(3).tap()
    assert value(tab) == pytest.approx(wanted[3].max(), rel=2e-5)


def test_of_a_long_text_one_head_is_shown(watched, tmp_path):
    made, theirs = looked(marian, type("Small", (HeadsPage,), {"aligned_weights": 10}))
    tab = watched(1280)
    tab.goto(write(made.file(), tmp_path / "page.html").as_uri())
    words(tab, 1).nth(2).click()
    assert value(tab) == pytest.approx(theirs[0, 0, 2].max(), rel=2e-5)
    assert tab.locator(".alignment").get_by_text("the mean of all layers").count() == 0


def test_served_a_head_is_asked_for(browser, made):
    looked, theirs = made(marian)
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    layer = looked.content.cross_alignments[0].layers[1]
    page = html(looked.content, policy=POLICY)
    with server(page, 18595, {"/head": looked.answer_head, "/rerun": looked.answer_rerun}) as running:
        tab.goto(f"{running.url}#align={layer}.3&word=4")
        tab.locator(".alignment > .summary .value").wait_for()
        assert value(tab) == pytest.approx(theirs[1, 3, 4].max(), rel=2e-5)
    context.close()
