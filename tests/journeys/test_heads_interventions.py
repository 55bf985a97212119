"""A person changes the model on its served page: the answer is that of `eq.intervene`, also in the ten copied lines."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import torch
from transformers import BertConfig, BertModel

import equiscope as eq
from equiscope import trained
from equiscope.cli.heads import ModelInput, page_of, routes
from equiscope.explore.heads.model_inputs import LabelledInputs
from equiscope.explore.page import html, write
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.interventions import head, move, stream
from equiscope.record import TokenSequence
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser
KING, BOSS = "The king is dead, long live", "The boss is dead, long live"
IDS, OTHER = (torch.tensor([list(text.encode())]) for text in (KING, BOSS))


@pytest.fixture(scope="module")
def characters():
    return page_of("characters", ModelInput(text=KING))


@pytest.fixture
def served(browser, unchecked):
    """served(page, fragment, wide, ...) -> a tab on the page, served as the command serves it. runs: replaces handlers."""

    @contextmanager
    def open_page(made, fragment="", wide=1280, dark=False, runs=None, **options):
        context = browser.new_context(
            viewport={"width": wide, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce", **options
        )
        troubles, tab = [], context.new_page()
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        answers, own, frames = routes(made)
        with server(html(made.content, policy=POLICY), 18595, answers, own | (runs or {}), frames=frames) as running:
            tab.goto(f"{running.url}#{fragment}")
            tab.wait_for_selector("main h2")
            yield tab
        context.close()
        assert troubles == []

    return open_page


def press(tab, name, within=".model-actions", exact=True):
    tab.locator(within).get_by_role("button", name=name, exact=exact).click()


def answered(tab, changes):
    """The answer by token or class, once the page shows that of these changes, in words."""
    tab.wait_for_function(
        """words => equiscope.heads.answers.effect && !equiscope.heads.answers.busy
            && [...document.querySelectorAll('.model-changes span')].map(one => one.textContent).join('|') === words
            && equiscope.heads.answers.effect.changes.length === equiscope.heads.state.changes.length""",
        arg="|".join(changes),
    )
    rows = tab.locator(".answer tbody tr").evaluate_all(
        "rows => rows.map(row => [row.dataset.id, ...[...row.querySelectorAll('[data-value]')].map(cell => cell.dataset.value)])"
    )
    return {int(id_): [float(x) for x in numbers] for id_, *numbers in rows}


def agrees(found, effect, token=-1):
    """Whether the numbers on the page are those of an effect."""
    before, after = (x.double().softmax(-1).squeeze(0) for x in (effect.before, effect.after))
    before, after = (x if x.ndim == 1 else x[token] for x in (before, after))
    assert len(found) >= 5
    for id_, numbers in found.items():
        assert numbers == pytest.approx([before[id_].item(), after[id_].item()], rel=1e-5)


def test_a_head_is_pressed_and_set_to_0_and_all_comes_back_by_undo_and_by_link(served, characters):
    effect = eq.intervene(eq.load("characters"), IDS, head(2, 3).zero())
    words = ["Set the output of L2H3 to 0"]
    with served(characters) as tab:
        tab.locator(".mosaic .field").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
            tab.keyboard.press(key)
        tab.locator(".detail h2", has_text="L2H3").wait_for()
        press(tab, "Set to 0")
        agrees(answered(tab, words), effect)
        assert "Forward passes: 1." in tab.locator(".model-answer .summary").inner_text()
        assert "→" in tab.locator(".model-actions .summary").inner_text()
        link = tab.url
        assert "change=zero_output_2.3" in link
        press(tab, "↶ Undo", ".model-answer")
        tab.locator(".model-answer .summary", has_text="Nothing is changed.").wait_for()
        assert tab.locator(".model-changes li").count() == 0
        assert tab.locator(".answer thead th").all_inner_texts() == ["token", "before"]
        press(tab, "↷ Redo", ".model-answer")
        agrees(answered(tab, words), effect)
        tab.get_by_role("button", name="Remove: Set the output of L2H3 to 0").click()
        tab.locator(".model-answer .summary", has_text="Nothing is changed.").wait_for()
        again = tab.context.new_page()
        again.goto(link)
        agrees(answered(again, words), effect)
        assert again.locator(".detail h2").inner_text() == "L2H3"


def test_an_edge_a_token_and_a_number_are_changed_one_after_another(served, characters):
    model, wanted = eq.load("characters"), [head(1, 1).cut(9, 8)]
    words = ["L1H1: “\u2068i\u2069” (9) no longer attends to “\u2068␣\u2069” (8)"]
    with served(characters, "head=1.1&query=9&key=8") as tab:
        press(tab, "Remove this edge")
        agrees(answered(tab, words), eq.intervene(model, IDS, wanted))
        tab.get_by_label("position", exact=True).fill("3")
        press(tab, "Move to position")
        words.append("Move “\u2068i\u2069” (9) to position 3")
        wanted.append(move(9, 3))
        agrees(answered(tab, words), eq.intervene(model, IDS, wanted))
        tab.get_by_label("weight", exact=True).fill("0.25")
        press(tab, "Set its weight to")
        words.append("L1H1: the weight of “\u2068i\u2069” (9) on “\u2068␣\u2069” (8) is 0.25")
        wanted.append(head(1, 1).weights.on(9, entry=8).set(0.25))
        agrees(answered(tab, words), eq.intervene(model, IDS, wanted))
        one = tab.locator(".products input").first
        feature = int(one.get_attribute("data-key").removeprefix("q"))
        one.fill("-2.5")
        one.press("Enter")
        press(tab, "Set it to −2.5 in the model")
        words.append(f"L1H1: feature {feature} of q of “\u2068i\u2069” (9) is -2.5")
        wanted.append(head(1, 1).q.on(9, entry=feature).set(-2.5))
        agrees(answered(tab, words), eq.intervene(model, IDS, wanted))
        press(tab, "Remove all", ".model-answer")
        tab.evaluate("equiscope.heads.set({ row: 20, column: undefined })")
        press(tab, "Answer after it")
        press(tab, "Freeze its pattern")
        found = answered(tab, ["Freeze the pattern of L1H1"])
        agrees(found, eq.intervene(model, IDS, head(1, 1).weights.freeze()), 20)
        assert "“n” 20" in " ".join(tab.locator(".answer-after").inner_text().split())


def test_a_head_and_a_token_are_taken_from_a_second_text(served, characters):
    model = eq.load("characters")
    with served(characters, "head=1.1&query=4") as tab:
        patch = tab.locator(".model-actions").get_by_role("button", name="From the second input", exact=True)
        assert patch.is_disabled()
        tab.get_by_label("second input", exact=True).fill(BOSS)
        tab.get_by_label("second input", exact=True).press("Enter")
        tab.locator(".pairs [data-differs='true']").nth(3).wait_for()
        assert tab.locator(".pairs [data-differs='true']").all_inner_texts() == ["k\nb", "i\no", "n\ns", "g\ns"]
        second = model(OTHER)[0, -1].double().softmax(-1)
        row = tab.locator(".answer tbody tr").first
        assert row.locator("td").last.get_attribute("title") == f"{second[int(row.get_attribute('data-id'))].item():.7g}"
        patch.click()
        words = ["Take the output of L1H1 from the second input"]
        agrees(answered(tab, words), eq.intervene(model, IDS, head(1, 1).patch(OTHER)))
        tab.locator(".pairs button").nth(6).click()
        press(tab, "From the second input, entering L1")
        words.append("Take “\u2068n\u2069” (6) entering L1 from the second input")
        agrees(answered(tab, words), eq.intervene(model, IDS, [head(1, 1).patch(OTHER), stream(1).on(6).patch(OTHER)]))
        tab.get_by_label("second input", exact=True).fill("The boss")
        tab.get_by_label("second input", exact=True).press("Enter")
        tab.locator(".model-answer .summary", has_text="The second input has 8 tokens and the first 27").wait_for()


def test_the_ten_lines_are_copied_and_give_the_same_number_in_a_process(served, characters, tmp_path):
    with served(characters, "head=2.3&change=zero_output_2.3") as tab:
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        found = answered(tab, ["Set the output of L2H3 to 0"])
        tab.locator(".plain-torch summary", has_text="The same in plain torch: 9 lines").click()
        press(tab, "Copy", ".plain-torch")
        tab.locator(".model-answer [role=status]", has_text="Lines copied.").wait_for()
        lines = tab.evaluate("navigator.clipboard.readText()")
        assert lines == tab.locator(".plain-torch pre").inner_text()
        assert len([line for line in lines.splitlines() if line.strip()]) == 9
        assert "equiscope" not in lines
        tab.evaluate("navigator.clipboard.writeText('')")
        press(tab, "Copy with model and inputs", ".plain-torch")
        tab.wait_for_function("navigator.clipboard.readText().then(text => text.includes('eq.load'))")
        script = tmp_path / "copied.py"
        script.write_text(
            tab.evaluate("navigator.clipboard.readText()") + "\nprint(output[0, -1].double().softmax(-1).tolist())\n",
            encoding="utf-8",
        )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, env=os.environ, check=False)
    assert run.returncode == 0, run.stderr
    chances = [float(x) for x in run.stdout.strip().strip("[]").split(",")]
    for id_, (_, after) in found.items():
        assert after == pytest.approx(chances[id_], rel=1e-6)


def test_heads_are_ranked_and_the_file_keeps_what_was_computed(served, watched, tmp_path):
    page = page_of("characters", ModelInput(text=KING))
    with served(page, "change=zero_output_2.3") as tab:
        answered(tab, ["Set the output of L2H3 to 0"])
        tab.locator(".ranking").get_by_role("button", name="set to 0").click()
        tab.locator(".ranking .summary", has_text="16 of 16 heads, 4 forward calls of up to 16 copies").wait_for()
        assert "“s” in nats" in tab.locator(".ranking .summary").inner_text()
        effects = tab.locator(".ranked button").evaluate_all("all => all.map(one => Number(one.dataset.effect))")
        ranking = eq.Experiment(eq.load("characters"), IDS, eq.interventions.log_probability(115)).rank()
        for row in ranking.rows:
            assert effects[4 * row.site.layer + row.site.index] == pytest.approx(row.effect, abs=1e-5)
        tab.locator(".answer tbody th button").nth(1).click()
        tab.locator(".ranking .summary", has_text="16 of 16 heads").and_(tab.locator(":text('“␣” in nats')")).wait_for()
        assert tab.locator(".ranked button[tabindex='0']").count() == 1  # one tab stop: arrow keys move
        tab.locator(".ranked button[tabindex='0']").focus()
        for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
            tab.keyboard.press(key)
        tab.locator(".detail h2", has_text="L1H2").wait_for()
        assert tab.locator(".ranked [aria-pressed='true']").get_attribute("data-ranked") == "1.2"
        file = tmp_path / "saved.html"
        with tab.expect_download() as saved:
            tab.get_by_role("link", name="Save as file").click()
        saved.value.save_as(file)
    offline = watched()
    offline.goto(f"{file.as_uri()}#head=0.0")
    offline.locator(".model-answer").get_by_role("button", name="Set the output of L2H3 to 0").click()
    agrees(answered(offline, ["Set the output of L2H3 to 0"]), eq.intervene(eq.load("characters"), IDS, head(2, 3).zero()))
    assert offline.locator(".model-actions").count() == 0
    offline.locator(".ranking").get_by_role("button", name="set to 0").click()
    offline.locator(".ranking .summary", has_text="16 of 16 heads").wait_for()
    offline.locator(".ranking").get_by_role("button", name="set to its mean").click()
    offline.locator(".ranking .summary", has_text="This ranking is not in the file, and it needs the model.").wait_for()
    offline.evaluate("location.hash = 'change=zero_output_0.0'")
    offline.locator(".model-answer .summary", has_text="This answer is not in the file").wait_for()


def test_while_the_model_runs_a_person_reads_it_and_may_cancel_a_ranking(served, characters):
    begun, waits = threading.Event(), threading.Event()

    def slow(query):
        if query["layer"] == "1":
            begun.set()
            waits.wait(20)
        return characters.interventions.answer_rank(query)

    with served(characters, "rank=mean", runs={"/rank": slow}) as tab:
        assert begun.wait(20)
        tab.locator(".ranking .summary", has_text="The model runs … Change of the").wait_for()
        assert "4 of 16 heads" in tab.locator(".ranking .summary").inner_text()
        press(tab, "Cancel", ".ranking")
        waits.set()
        tab.locator(".ranking [hidden]", has_text="Cancel").wait_for(state="attached")
        assert tab.locator(".ranked button").count() == 4
        press(tab, "Close", ".ranking")
        tab.locator(".ranking .summary", has_text="Each of 16 heads alone is changed").wait_for()
        assert "rank" not in tab.url


def test_a_change_that_the_model_refuses_is_said(served, characters):
    with served(characters, "change=set_q_1.1_5.99_1") as tab:
        tab.locator(".model-answer .summary", has_text="A row has 32 numbers, counted from 0").wait_for()
        assert tab.locator(".model-changes li").count() == 1
        press(tab, "Remove all", ".model-answer")
        tab.locator(".model-answer .summary", has_text="Nothing is changed.").wait_for()


def test_a_garment_is_changed_and_patched_from_another_picture(served):
    page = page_of("clothes", ModelInput(image=trained.examples("clothes")[6]))
    dress = page_of("clothes", ModelInput(image=trained.examples("clothes")[3])).interventions._inputs[0]
    shirt, model = page.interventions._inputs[0], eq.load("clothes")
    with served(page, "head=1.2&query=0&key=7") as tab:
        press(tab, "Remove this edge")
        words = ["L1H2: “\u2068class\u2069” (0) no longer attends to “\u2068row 0, column 6\u2069” (7)"]
        agrees(answered(tab, words), eq.intervene(model, shirt, head(1, 2).cut(0, 7)))
        tab.get_by_label("Second input").select_option("dress")
        tab.get_by_role("img", name="the second input picture").wait_for()
        press(tab, "From the second input")
        words.append("Take the output of L1H2 from the second input")
        agrees(answered(tab, words), eq.intervene(model, shirt, [head(1, 2).cut(0, 7), head(1, 2).patch(dress)]))


def test_a_model_without_predictions_answers_with_a_cosine(served):
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4))
    ids = torch.arange(6)[None]
    line = TokenSequence(name="text", kind="words", labels=list("abcdef"))
    page = HeadsPage(model.eval(), (ids,), {}, [line], "a tiny BERT", "bert")
    page.set_second_input(lambda text: LabelledInputs((ids.flip(1),), {}, [line]))
    with served(page, "head=1.2") as tab:
        press(tab, "Set to 0")
        answered(tab, ["Set the output of L1H2 to 0"])
        assert tab.locator(".answer tbody th").inner_text() == "cosine with the unchanged vector"
        effect = eq.intervene(model, ids, head(1, 2).zero())
        before, after = (x[0].double().mean(0) for x in (effect.before, effect.after))
        shown = tab.locator(".answer tbody td").nth(1)
        assert float(shown.get_attribute("data-value")) == pytest.approx(torch.cosine_similarity(before, after, 0).item(), rel=1e-9)
        tab.get_by_label("second input", exact=True).fill("backwards")
        tab.get_by_label("second input", exact=True).press("Enter")
        tab.locator(".answer tbody th", has_text="cosine with the second input").wait_for()
        assert tab.locator(".model-actions").get_by_role("button", name="Answer after it").count() == 0


def test_a_file_without_answers_says_what_needs_the_model(watched, tmp_path):
    tab = watched(390)
    tab.goto(write(page_of("characters", ModelInput(text="a")).file(), tmp_path / "page.html").as_uri())
    tab.locator(".model-answer", has_text="This file does not contain the model.").wait_for()
    assert tab.locator(".ranking, .model-actions").count() == 0
    assert tab.locator(".predictions").count() == 1


@pytest.mark.parametrize(("wide", "dark"), [(390, True), (1280, False)])
def test_it_has_no_barriers_and_fits_a_phone(served, characters, wide, dark):
    link = "head=2.3&query=9&key=8&change=zero_output_2.3&rank=zero&second=The+boss+is+dead,+long+live"
    with served(characters, link, wide, dark, has_touch=True, bypass_csp=True) as tab:
        answered(tab, ["Set the output of L2H3 to 0"])
        tab.locator(".ranking .summary", has_text="16 of 16 heads").wait_for()
        tab.locator(".plain-torch summary").tap()
        assert barriers(tab) == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide
        tab.locator(".model-actions").get_by_role("button", name="Remove this edge").tap()
        answered(tab, ["Set the output of L2H3 to 0", "L2H3: “\u2068i\u2069” (9) no longer attends to “\u2068␣\u2069” (8)"])
