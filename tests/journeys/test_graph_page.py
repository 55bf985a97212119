"""The page of a graph in a real browser: edges removed by mouse, keyboard, touch; numbers as Python's; dark, hostile."""

import re
from pathlib import Path

import pytest
import torch

from equiscope.explore.page import write
from equiscope.explore.pages.graph import graph, table
from equiscope.program.replay import replay
from tests.journeys.barriers import barriers
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
LOVE = "Love conquers all"
LONG = "it is the long words like incomprehensibilities that show whether sixteen nodes fit into a picture"
HOSTILE = "</script><script>window.stolen=1</script> <img/src=x/onerror='window.stolen=1'> 👩‍👩‍👧 שלום ẹ́ ا 日本語 the the"
HALF_WAY = """path => {
  const at = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
  return [at.x, at.y];
}"""
TOLERANCE = 1e-12  # two orders of adding in float64


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("graphs"), {}

    def page(sentence):
        if sentence not in made:
            record = graph(sentence, 0)
            made[sentence] = write(record, folder / f"{len(made)}.html"), record
        return made[sentence]

    return page


@pytest.fixture
def see(watched, pages):
    """Opens a graph."""

    def open_page(sentence=LOVE, fragment="", wide=1280, dark=False, **options):
        tab = watched(wide, dark, has_touch=wide < 500, **options)
        tab.goto(f"{pages(sentence)[0].as_uri()}#{fragment}")
        tab.wait_for_selector("main .edge.there")
        return tab

    return open_page


def python(record, edges, order=None):
    """Values by role, as Python computes them under this mask; for words in another order where one is given."""
    order = torch.arange(len(record.words)) if order is None else torch.tensor(order)
    x = replay(record.program)[record.roles["words"]]
    given = {record.roles["words"]: x[order], record.roles["edges"]: edges[order][:, order]}
    found = replay(record.program, given)
    return {role: found[ident] for role, ident in record.roles.items()}


def same(tab, wanted):
    """Whether every number of the page's program is Python's."""
    for role in ("weights", "messages", "output"):
        found = tab.evaluate("role => [...equiscope.desk.value(role).data]", role)
        assert torch.allclose(torch.tensor(found, dtype=torch.float64), wanted[role].flatten(), rtol=0, atol=TOLERANCE), role


def shown(tab, row="tbody tr:not([hidden])"):
    """The numbers of a table of messages, row by row, in full."""
    lines = tab.locator(f".messages .scroll:visible >> nth=0 >> {row}").all()
    return [[float(cell.get_attribute("data-value")) for cell in line.locator(".cell").all()] for line in lines]


def settled(tab):
    """After the numbers were drawn: changes wait for a frame."""
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def cell(tab, row, column):
    return tab.locator(f'.adjacency td[data-r="{row}"][data-c="{column}"]')


def edge(tab, to, sender):
    return tab.locator(f'.edge[data-to="{to}"][data-from="{sender}"]')


def test_the_messages_are_pythons_and_sum_to_the_output(see, pages):
    record = pages(LOVE)[1]
    tab = see()
    wanted = python(record, table("complete", 3))
    same(tab, wanted)
    for word in range(3):
        tab.locator(f'.node[data-word="{word}"] .dot').click()
        settled(tab)
        *messages, total = shown(tab)
        for sender, numbers in enumerate(messages):
            expected = [wanted["weights"][word, sender], *wanted["values"][sender], *wanted["messages"][word, sender]]
            assert numbers == pytest.approx([float(one) for one in expected], abs=TOLERANCE)
        assert total == pytest.approx(wanted["output"][word].tolist(), abs=TOLERANCE)
        assert [sum(column) for column in zip(*(line[-2:] for line in messages), strict=True)] == pytest.approx(total)


def test_an_edge_is_removed_by_mouse_and_every_number_is_that_of_the_mask(see, pages):
    record = pages(LOVE)[1]
    tab = see()
    cell(tab, 0, 2).click()
    settled(tab)
    edges = table("complete", 3)
    edges[0, 2] = False
    same(tab, python(record, edges))
    assert tab.locator(".change").inner_text() == "Removed: all → Love."
    assert tab.locator(".cost").inner_text().startswith("8 of the 9 messages of full attention: 32 multiply-adds")
    assert len(shown(tab)) == 3, "two messages and their sum"
    hit = edge(tab, 0, 1).locator(".hit")
    at = hit.evaluate(HALF_WAY)
    tab.mouse.move(*at)
    settled(tab)
    assert tab.locator(".arithmetic").inner_text().startswith("A[Love, conquers] = e^")
    tab.mouse.click(*at)
    settled(tab)
    edges[0, 1] = False
    same(tab, python(record, edges))
    tab.get_by_role("button", name="Undo").click()
    settled(tab)
    edges[0, 1] = True
    same(tab, python(record, edges))
    tab.keyboard.press("Control+z")
    settled(tab)
    same(tab, python(record, table("complete", 3)))


def test_a_word_without_incoming_edges_has_output_zero(see):
    tab = see(fragment="word=1")
    for sender in range(3):
        cell(tab, 1, sender).click()
    settled(tab)
    assert tab.locator(".messages .count").inner_text() == "No edge leads to conquers: it receives no message, so its output is 0."
    assert tab.evaluate("[...equiscope.desk.value('output').data].slice(2, 4)") == [0, 0]
    assert tab.locator('.node[data-word="1"]').get_attribute("aria-label") == "conquers: 0 incoming messages, output 0, 0"
    assert not re.search(r"NaN|undefined|Infinity", tab.locator("main").inner_text())


def test_the_keyboard_walks_words_edges_and_cells(see, pages):
    tab = see()
    record, edges = pages(LOVE)[1], table("complete", 3)
    tab.locator('.node[data-word="0"]').focus()
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.dataset.word") == "1"
    assert tab.locator(".messages h2").inner_text() == "Messages to conquers"
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("conquers → conquers: weight ")
    tab.keyboard.press("Enter")
    settled(tab)
    edges[1, 1] = False
    same(tab, python(record, edges))
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "conquers → conquers: no edge. Enter adds it"
    tab.keyboard.press("Enter")
    settled(tab)
    same(tab, python(record, table("complete", 3)))
    tab.keyboard.press("Escape")
    assert tab.evaluate("document.activeElement.dataset.word") == "1"
    tab.keyboard.press("Delete")
    settled(tab)
    hidden = table("complete", 3)
    hidden[1] = hidden[:, 1] = False
    same(tab, python(record, hidden))
    tab.keyboard.press("Delete")
    cell(tab, 0, 0).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    settled(tab)
    edges = table("complete", 3)
    edges[1, 2] = False
    same(tab, python(record, edges))
    assert cell(tab, 1, 2).get_attribute("aria-label") == "all → conquers: no edge"
    tab.locator(".messages td.cell:visible").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
    assert tab.locator(".arithmetic").inner_text().startswith("M[conquers, conquers, 0] = ")


def test_a_message_explains_its_computation(see, pages):
    tab = see()
    wanted = python(pages(LOVE)[1], table("complete", 3))
    message = tab.locator(".messages tbody tr:visible").nth(1).locator(".cell").nth(3)
    message.hover()
    settled(tab)
    weight, value = float(wanted["weights"][0, 1]), float(wanted["values"][1, 0])
    assert tab.locator(".arithmetic").inner_text() == f"M[Love, conquers, 0] = {weight:.2f}·{value:g} = {weight * value:.2f}"
    lit = tab.locator(".messages .cell.operand:visible")
    assert [float(one.get_attribute("data-value")) for one in lit.all()] == pytest.approx([weight, value])
    tab.locator(".messages .total .cell").first.hover()
    settled(tab)
    assert lit.count() == 6, "three weights, three values"


def test_touch_removes_edges_and_hides_words_on_a_phone(see, pages):
    tab = see(wide=360)
    record = pages(LOVE)[1]
    cell(tab, 0, 0).tap()
    settled(tab)
    edges = table("complete", 3)
    edges[0, 0] = False
    same(tab, python(record, edges))
    tab.locator(".picture").scroll_into_view_if_needed()
    tab.touchscreen.tap(*edge(tab, 0, 2).locator(".hit").evaluate(HALF_WAY))
    settled(tab)
    edges[0, 2] = False
    same(tab, python(record, edges))
    tab.locator('.node[data-word="2"] .dot').tap()
    settled(tab)
    assert tab.locator(".messages h2").inner_text() == "Messages to all"
    tab.get_by_role("button", name="Hide all").tap()
    settled(tab)
    edges[2] = edges[:, 2] = False
    same(tab, python(record, edges))
    assert "all is hidden" in tab.locator(".messages .count").inner_text()
    tab.get_by_role("button", name="Show all").tap()
    settled(tab)
    edges = table("complete", 3)
    edges[0, 0] = edges[0, 2] = False
    same(tab, python(record, edges))


def test_example_graphs_are_masks(see, pages):
    tab = see(LONG)
    for name in ("causal", "chain", "ring", "star", "tree"):
        tab.get_by_label("graph", exact=True).select_option(name)
        settled(tab)
        same(tab, python(pages(LONG)[1], table(name, 16)))
        assert tab.evaluate("equiscope.desk.link()") == f"graph={name}"


def test_numbers_move_with_their_words(see, pages):
    record = pages(LONG)[1]
    tab = see(LONG, fragment="graph=causal")
    before = tab.evaluate("equiscope.desk.weight(7, 3)")
    tab.get_by_role("button", name="Shuffle").click()
    settled(tab)
    order = tab.evaluate("equiscope.desk.state.order")
    assert order != list(range(16))
    same(tab, python(record, table("causal", 16), order))
    assert tab.evaluate("equiscope.desk.weight(7, 3)") == pytest.approx(before, abs=TOLERANCE)
    assert tab.locator(".shuffle .verdict").get_attribute("data-verdict") == "holds"
    again = see(LONG, fragment=tab.evaluate("equiscope.desk.link()"))
    assert again.evaluate("equiscope.desk.state.order") == order


def test_random_edges_are_as_many_as_requested(see):
    tab = see(LONG)
    slider = tab.get_by_role("slider", name="random edges")
    slider.focus()
    tab.keyboard.press("Home")
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
    settled(tab)
    assert tab.locator(".edge.there").count() == 5
    tab.get_by_role("button", name="Resample").click()
    settled(tab)
    assert tab.evaluate("equiscope.desk.messages") == 5
    tab.get_by_role("button", name="Undo").click()
    slider.focus()
    tab.keyboard.press("Control+z")
    settled(tab)
    assert tab.evaluate("equiscope.desk.messages") == 4, "each press of a key is a change of its own"
    assert tab.get_by_label("graph", exact=True).input_value() == "yours"


def test_outgoing_messages_are_shown_on_demand(see, pages):
    tab = see(fragment="graph=causal")
    assert tab.locator(".leaving").is_hidden()
    tab.get_by_role("button", name="Outgoing messages").click()
    settled(tab)
    assert tab.locator(".leaving tbody tr:visible").count() == 3
    assert tab.locator(".edge.leaves.there").count() == 2, "the self-loop counts as incoming"
    wanted = python(pages(LOVE)[1], table("causal", 3))
    last = tab.locator(".leaving tbody tr:visible").nth(2).locator(".cell").all()
    assert [float(one.get_attribute("data-value")) for one in last][3:] == pytest.approx(wanted["messages"][2, 0].tolist())


def test_the_link_restores_what_was_done_and_nonsense_is_left_out(see):
    tab = see()
    cell(tab, 0, 1).click()
    tab.locator('.node[data-word="2"] .dot').click()
    tab.keyboard.press("Delete")
    settled(tab)
    link = tab.evaluate("equiscope.desk.link()")
    again = see(fragment=link)
    state = "({ ...equiscope.desk.state })"
    assert again.evaluate(state) == tab.evaluate(state)
    odd = see(fragment="edges=zz&hide=9.9&word=-1&order=1.1.1&digits=x&edits=[1]&graph=none")
    assert odd.evaluate("equiscope.desk.link()") == ""


def test_a_changed_number_changes_what_follows(see, pages):
    tab = see()
    tab.get_by_text("From words to weights").click()
    given = tab.locator('.program figure[data-id$="X"] .cell, .program figure[data-id="X"] .cell').first
    given.dblclick()
    tab.keyboard.type("2")
    tab.keyboard.press("Enter")
    settled(tab)
    record = pages(LOVE)[1]
    x = torch.tensor([[2.0, 2], [0, 2], [1, 1]], dtype=torch.float64)
    wanted = replay(record.program, {record.roles["words"]: x})
    same(tab, {role: wanted[ident] for role, ident in record.roles.items()})


def test_the_picture_is_saved_as_it_is_seen(see):
    tab = see(fragment="graph=chain")
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="SVG").click()
    text = waiting.value.path().read_text(encoding="utf-8")
    assert waiting.value.suggested_filename == "equiscope-graph.svg"
    assert all(f">{word}</text>" in text for word in LOVE.split())
    assert len(re.findall(r'class="edge[^"]*" [^>]*display="inline"', text)) == 8, "seven edges, and the missing one to Love"


def test_the_answer_shows_what_was_measured(see, pages):
    tab = see()
    for reason in pages(LOVE)[1].reasons:
        for fact in reason.measurements:
            assert float(tab.locator(f'[data-fact="{fact.name}"]').get_attribute("data-value")) == fact.value
        if reason.figures:
            table = tab.get_by_role("region", name=reason.claim)
            found = [float(one.get_attribute("data-value")) for one in table.locator("td").all()]
            assert found == [number for row in reason.figures.numbers for number in row]


def test_without_a_script_there_are_tables(watched, pages, tmp_path):
    record = pages(HOSTILE)[1]
    tab = watched(360, java_script_enabled=False)
    tab.goto(write(record, tmp_path / "plain.html").as_uri())
    assert tab.locator("table").count() == 5
    assert HOSTILE.split()[0] in tab.locator("tbody").first.inner_text()
    assert tab.locator("noscript script, noscript img").count() == 0


@pytest.mark.parametrize("sentence", few([HOSTILE, LONG, LOVE, "one"], 2), ids=["hostile", "long", "love", "one"])
def test_nothing_is_wider_than_the_window(see, sentence):
    tab = see(sentence, fragment="sends=on")
    tab.get_by_text("From words to weights").click()
    for wide in (1280, 768, 360):
        tab.set_viewport_size({"width": wide, "height": 900})
        settled(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide
        box = tab.locator("svg.circle").bounding_box()
        for name in tab.locator(".node .name").all():
            inside = name.bounding_box()
            assert inside["x"] >= box["x"] - 2
            assert inside["x"] + inside["width"] <= box["x"] + box["width"] + 2
    assert tab.evaluate("window.stolen") is None
    assert tab.locator("#app script, #app img").count() == 0


@pytest.mark.parametrize(("sentence", "wide", "dark"), [(LOVE, 1280, False), (HOSTILE, 360, True)])
def test_the_page_has_no_barriers(see, sentence, wide, dark):
    tab = see(sentence, fragment="graph=chain&hide=0&word=1&sends=on", wide=wide, dark=dark, bypass_csp=True)
    tab.get_by_text("From words to weights").click()
    assert barriers(tab, "moderate") == []
