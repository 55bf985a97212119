"""The model runs again from the page in a real browser: who notices is said, the numbers are those of the moved tokens."""

import threading
from contextlib import contextmanager

import pytest
import torch
from transformers import BloomConfig, BloomModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from equiscope.explore.page import html, write
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.record import TokenSequence
from tests.journeys.heads import SENTENCE
from tests.journeys.test_heads import IDS, TINY, number, printed

pytestmark = pytest.mark.browser
ORDER = [3, 0, 5, 1, 2, 4, 7, 6]


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=150, bos_token_id=0, eos_token_id=0)
    )


def llama():
    return LlamaForCausalLM(LlamaConfig(**TINY, vocab_size=50))


def bloom():
    return BloomModel(BloomConfig(vocab_size=50, hidden_size=32, n_layer=2, n_head=4))


def looked(kind, ids=IDS, labels=tuple(SENTENCE[:8])):
    torch.manual_seed(0)
    model = kind().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in name and "ln" not in name:
                weight.mul_(4)  # so that heads choose
    return HeadsPage(
        model, (ids,), {}, [TokenSequence(name="text", kind="words", labels=list(labels))], "a model that runs again", "x"
    )


@pytest.fixture
def served(browser):
    """served(looked, again=...) -> a tab on its page; `again` answers instead of the model."""

    @contextmanager
    def open_page(made, fragment="", rerun=None, wide=1280):
        context, troubles = browser.new_context(viewport={"width": wide, "height": 900}, reduced_motion="reduce"), []
        tab = context.new_page()
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        page = html(made.content, policy=POLICY)
        with server(page, 18795, {"/head": made.answer_head}, {"/rerun": rerun or made.answer_rerun}) as running:
            tab.goto(f"{running.url}#{fragment}")
            tab.wait_for_selector("main h2")
            yield tab
        context.close()
        assert troubles == []

    return open_page


def press(tab, name):
    tab.locator(".rerun").get_by_role("button", name=name).click()


def test_a_slide_is_noticed_by_learned_places_and_back_leads_to_the_first_run(served):
    made = looked(gpt2)
    with served(made, "head=1.2&query=6&key=3") as tab:
        tab.locator("[data-step='weight'] b").wait_for()
        before = printed(tab)
        press(tab, "Shift the text")
        tab.locator(".rerun-result .lede", has_text="L0 is the first layer that changes under the shift").wait_for()
        assert tab.locator(".rerun-result tbody tr[data-changed='true']").count() == 2
        tab.evaluate("equiscope.heads.set({ open: [1, 2], row: 6, column: 3 })")
        tab.locator("[data-step='weight'] b").wait_for()
        other = made._runs[1].attentions[1].recomputed_weights(2)[6, 3].item()
        assert printed(tab) == pytest.approx(other, rel=1e-5)
        assert abs(before - other) > 1e-6
        press(tab, "Back to the first run")
        tab.evaluate("equiscope.heads.set({ open: [1, 2], row: 6, column: 3 })")
        tab.locator("[data-step='weight'] b").wait_for()
        assert printed(tab) == before
        assert tab.locator(".rerun-result").inner_text() == ""


def test_angles_do_not_notice_and_the_differences_are_told(served):
    with served(looked(llama)) as tab:
        press(tab, "Shift the text")
        tab.locator(".rerun-result .lede", has_text="Every layer is invariant to the shift").wait_for()
        far, floor = (number(tab.locator(f".rerun-result tbody tr:first-child td:nth-child({i})").inner_text()) for i in (2, 3))
        assert far < floor < 1e-2


def test_a_shuffle_moves_the_words_and_the_weights_are_those_of_the_moved_tokens(served):
    made, asked = looked(gpt2), []

    def rerun(question):
        asked.append([int(i) for i in question["order"].split(",")])
        return made.answer_rerun(question)

    with served(made, "head=0.1", rerun) as tab:
        press(tab, "Shuffle the tokens")
        tab.locator(".rerun-result .lede", has_text="under the shuffle").wait_for()
        order = asked[0]
        assert sorted(order) == list(range(8))
        tab.locator(".text .token").first.wait_for()
        assert [t.strip() for t in tab.locator(".text .token").all_inner_texts()] == [SENTENCE[i] for i in order]
        alone = looked(gpt2, IDS[:, order])
        tab.evaluate("equiscope.heads.set({ open: [0, 1], row: 5, column: 2 })")
        tab.locator("[data-step='weight'] b").wait_for()
        assert printed(tab) == pytest.approx(alone.attentions[0].recomputed_weights(1)[5, 2].item(), rel=1e-5)


def test_while_the_model_runs_a_person_reads_it_and_a_stale_answer_is_dropped(served):
    made, begun, waits = looked(gpt2), threading.Event(), threading.Event()

    def rerun(question):
        if question.get("offset") == "100":
            begun.set()
            waits.wait(20)
        return made.answer_rerun(question)

    with served(made, rerun=rerun) as tab:
        press(tab, "Shift the text")
        tab.locator(".rerun .summary", has_text="The model runs").wait_for()
        assert begun.wait(20)  # or it would be taken back before it begins
        tab.get_by_label("shift in positions").fill("7")
        press(tab, "Shift the text")
        tab.wait_for_timeout(300)
        assert tab.locator(".rerun-result").inner_text() == "", "one model runs at a time"
        waits.set()
        tab.locator(".rerun-result", has_text="shifted by 7 positions").wait_for()
        tab.wait_for_timeout(500)
        assert "shifted by 7 positions" in tab.locator(".rerun-result").inner_text()


def test_what_the_model_cannot_be_asked_is_said(served):
    with served(looked(bloom)) as tab:
        assert "No shift: BloomModel takes no position_ids" in tab.locator(".rerun").inner_text()
        assert tab.locator(".rerun").get_by_role("button", name="Shift the text").count() == 0
    with served(looked(gpt2)) as tab:
        tab.get_by_label("shift in positions").fill("900")
        press(tab, "Shift the text")
        tab.locator(".rerun .summary", has_text="has positions 0 to 149, but the last token would have position 907").wait_for()


def test_a_file_says_why_it_cannot(watched, tmp_path):
    tab = watched(390)
    tab.goto(write(looked(gpt2).file(), tmp_path / "file.html").as_uri())
    tab.wait_for_selector("main h2")
    assert "This file does not contain the model" in tab.locator(".rerun").inner_text()
    assert tab.locator(".rerun button").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
