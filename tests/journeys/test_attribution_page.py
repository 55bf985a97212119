"""The page of an answer in a real browser: scores and tokens are chosen by pointer and keys; what it shows is the record."""

import pytest

import equiscope as eq
from equiscope import trained
from equiscope.cli import heads
from equiscope.explore.page import html, write
from equiscope.explore.pages.attribution import attribution, attribution_response, of_molecule
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.tokens.points import read_points
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser
REQUESTS = {"text": heads.ModelInput("To be, or not to be"), "picture": heads.ModelInput(image=trained.examples("clothes")[3])}
MODELS = {"text": "characters", "picture": "clothes"}


@pytest.fixture(scope="module")
def contents():
    made = {}
    for kind, request in REQUESTS.items():
        ready = heads._prepare(MODELS[kind], request, 0)
        made[kind] = attribution(ready.model, ready.args, ready.kwargs, ready.sequences, ready.reader, kind, MODELS[kind])
    points = read_points(trained.examples("ethanol")[0])
    made["molecule"] = of_molecule(eq.load("ethanol"), points, "ethanol", "ethanol", "eV")
    return made


@pytest.fixture
def read(watched, contents, tmp_path):
    def open_page(kind, fragment="", wide=1280, dark=False):
        file = write(contents[kind], tmp_path / f"{kind}.html")
        tab = watched(wide, dark, bypass_csp=True, has_touch=wide < 500)
        tab.goto(f"{file.as_uri()}#{fragment}")
        tab.locator("[data-part='parts'] tbody tr").first.wait_for()
        return tab

    return open_page


def test_a_token_is_chosen_by_pointer_and_keys(read, contents):
    tab, content = read("text"), contents["text"]
    tab.locator(".field").first.locator("[data-i='4']").click()
    said = tab.locator(".chosen")
    said.filter(has_text="“,”" if content.sequence.labels[4] == "," else "“e”").wait_for()
    assert f"changes the {content.metric} by" in said.inner_text()
    assert tab.locator("[data-i='4'][aria-selected='true']").count() == 2, "in both views"
    tab.locator(".field .text").nth(1).focus()
    tab.keyboard.press("ArrowRight")
    tab.locator("[data-i='5'][aria-selected='true']").first.wait_for()
    assert "token=5" in tab.url
    tab.keyboard.press("Home")
    tab.locator("[data-i='0'][aria-selected='true']").first.wait_for()


def test_a_score_is_chosen_and_the_link_names_it(read, contents):
    tab = read("text")
    assert tab.locator(".field h3").nth(1).inner_text() == "rollout"
    tab.get_by_role("button", name="direct share").click()
    tab.locator(".field h3", has_text="direct share").wait_for()
    assert "score=2" in tab.url
    assert tab.locator("tr[data-name='direct share'] button").get_attribute("aria-pressed") == "true"
    tab.go_back()
    tab.locator(".field h3", has_text="rollout").wait_for()
    wanted = {one.name: one.correlation for one in contents["text"].scores}
    for row in tab.locator(".scores tbody tr").all():
        number = row.locator(".number").inner_text().replace("−", "-").strip()
        assert float(number) == pytest.approx(wanted[row.get_attribute("data-name")], abs=0.006)


def test_parts_stand_by_size_and_sum_to_the_logit(read, contents):
    tab, content = read("text", "order=size"), contents["text"]
    names = tab.locator(".shares tbody th").all_inner_texts()
    assert names == [one.name for one in sorted(content.parts, key=lambda one: -abs(one.share))]
    assert float(tab.locator(".shares tfoot td").first.inner_text()) == pytest.approx(content.value, abs=1e-3)
    tab.get_by_role("button", name="In the order of the model").click()
    tab.locator(".shares tbody th").first.filter(has_text="embeddings").wait_for()


def test_the_lens_is_a_table_of_layers(read, contents):
    tab, content = read("text"), contents["text"]
    assert tab.locator(".lens tbody th").all_inner_texts() == [one.name for one in content.lens]
    tab.locator(".every summary").click()
    cells = tab.locator(".grid-of-answers tbody tr").first.locator("td")
    assert cells.count() == len(content.sequence.labels)
    assert cells.first.get_attribute("data-same") == "true"


def test_patches_lie_on_the_picture_and_arrow_keys_move_by_rows(read):
    tab = read("picture", "token=9")
    tab.locator("[data-i='9'][aria-selected='true']").first.wait_for()
    tab.locator(".patches").first.focus()
    tab.keyboard.press("ArrowDown")
    tab.locator("[data-i='16'][aria-selected='true']").first.wait_for()
    assert "row 2, column 1" in tab.locator(".chosen").inner_text()
    assert tab.locator(".lens thead th").count() == 5, "one answer: no share of rows"


def test_a_served_page_explains_other_answers_and_other_tokens(browser, unchecked):
    ready = heads._prepare("characters", REQUESTS["text"], 0)

    def make(token, answer):
        args = ready.model, ready.args, ready.kwargs, ready.sequences, ready.reader, "served", "characters", (), token, answer
        return attribution(*args, served=True)

    first = make(None, None)
    second = first.candidates[1]
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    with server(html(first, policy=POLICY), 18790, runs={"/attribution": attribution_response(make)}) as running:
        tab.goto(running.url)
        tab.locator(f"[data-ask='{second.index}']").click()
        tab.locator(f"[data-ask='{second.index}'][aria-pressed='true']").wait_for()
        wanted = make(None, second.index)
        assert float(tab.locator(".shares tfoot td").first.inner_text().replace("−", "-")) == pytest.approx(wanted.value, abs=1e-3)
        assert f"answer={second.index}" in tab.url
        tab.locator("select[data-ask='after']").select_option("3")
        tab.locator("[data-part='answer']", has_text="read at token 3").wait_for()
        tab.go_back()
        tab.locator(f"[data-ask='{second.index}'][aria-pressed='true']").wait_for()
    context.close()


def test_atoms_lie_in_a_plane_and_earlier_layers_have_energies(read, contents):
    tab, content = read("molecule"), contents["molecule"]
    assert tab.locator("[data-part='tokens'] h2").inner_text() == "Which atoms decide?"
    tab.locator(".atoms").first.locator("[data-i='2']").click()
    tab.locator(".chosen", has_text="O2").wait_for()
    rows = tab.locator(".lens tbody td").all_inner_texts()
    assert [float(x.replace("−", "-")) for x in rows] == pytest.approx([one.value for one in content.lens], abs=6e-4)


@pytest.mark.parametrize(
    ("kind", "wide", "dark"), [("text", 1280, False), ("picture", 390, True), ("molecule", 390, False), ("molecule", 1280, True)]
)
def test_everybody_can_read_it(read, kind, wide, dark):
    tab = read(kind, wide=wide, dark=dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert barriers(tab) == []
