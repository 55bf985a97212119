"""The drawing of a model in a real browser: seen, opened and walked by keyboard, on a phone, in the dark; numbers as Python's."""

import re

import pytest
import torch
from contract.golden import drawn

from equiscope.explore import drawing, write
from equiscope.program.replay import replay
from equiscope.record import unpack
from tests.journeys.barriers import barriers
from tests.pairwise import each_value, few

pytestmark = pytest.mark.browser
BOX = '.architecture [data-box="{}"]'
ATTENTION = "blocks.0.attention"
SIZES = [(390, False), (1280, True)]


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("drawings"), {}

    def page(name):
        if name not in made:
            made[name] = write(drawing(drawn()[name], name), folder / f"{name}.html")
        return made[name]

    return page


@pytest.fixture
def look(watched, pages):
    """Opens a drawing."""

    def open_page(name="t5", fragment="", wide=1280, dark=False, bypass_csp=False):
        tab = watched(wide, dark, bypass_csp=bypass_csp)
        tab.goto(f"{pages(name).as_uri()}#{fragment}")
        tab.wait_for_selector("svg.architecture")
        return tab

    return open_page


def focused(tab) -> str:
    return tab.evaluate("document.activeElement.dataset.box ?? document.activeElement.id")


@each_value(
    pytest.mark.parametrize(("wide", "dark"), SIZES),
    pytest.mark.parametrize("name", few(drawn(), 3)),
)
def test_every_box_opens_its_numbers(look, name, wide, dark):
    content = drawing(drawn()[name], name)
    tab = look(name, wide=wide, dark=dark)
    assert tab.locator("main .architecture .box").count() == len([b for b in content.boxes if b.kind not in ("sum", "join")])
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    for box in content.boxes:
        if box.kind in ("sum", "join"):
            continue
        tab.evaluate("id => equiscope.desk.open({ id })", box.id)
        assert tab.locator("#opened").inner_text().startswith(box.title)
        assert tab.locator(".panel [data-step]").count() == len(box.steps)
        assert tab.locator(".failed:visible").count() == 0
        assert not re.search(r"NaN|undefined|\[object", tab.locator("main").inner_text()), box.id
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide, box.id


def test_a_box_is_reached_opened_and_left_by_keyboard(look):
    tab = look()
    tab.locator(".controls select").last.focus()
    tab.keyboard.press("Tab")
    assert focused(tab) == "encoder.input"
    for _ in range(2):
        tab.keyboard.press("ArrowUp")
    assert focused(tab) == "encoder.blocks.0.attention_norm"
    tab.keyboard.press("ArrowRight")
    assert focused(tab) == "blocks.0.attention_norm"
    tab.keyboard.press("ArrowUp")
    assert focused(tab) == ATTENTION
    tab.keyboard.press("Enter")
    assert focused(tab) == "opened"
    assert tab.locator("#opened").inner_text() == "Self-attention, decoder"
    assert tab.locator(BOX.format(ATTENTION)).get_attribute("aria-pressed") == "true"
    tab.keyboard.press("Escape")
    assert focused(tab) == ATTENTION
    assert tab.locator("#opened").count() == 0


def test_a_number_of_an_opened_box_shows_its_computation(look):
    tab = look(fragment=f"box={ATTENTION}")
    cell = tab.locator('.panel figure[data-symbol="Q"]').last.locator(".cell").first
    cell.hover()
    tab.wait_for_timeout(100)
    assert tab.locator(".arithmetic").inner_text().startswith("Q[Love, 0] = ")
    assert tab.locator(".panel .cell.operand").count() == 16, "a row of X and a column of W_Q, eight wide"


def test_the_numbers_are_pythons(look):
    content = drawing(drawn()["t5"], "t5")
    leaves = {leaf.id: torch.from_numpy(unpack(content.pool[leaf.pool])) for leaf in content.program.leaves}
    wanted = replay(content.program, leaves)[content.program.outputs[0]]
    tab = look()
    found = tab.evaluate("id => [...equiscope.desk.run.program.get(id).data]", content.program.outputs[0])
    assert torch.allclose(torch.tensor(found, dtype=torch.float64).reshape(wanted.shape), wanted, rtol=1e-9, atol=1e-9)


def test_a_changed_weight_changes_what_comes_after_and_the_link_restores_it(look):
    tab = look(fragment=f"box={ATTENTION}")
    output = '.panel figure[data-symbol="O"] >> nth=-1'
    before = tab.locator(output).inner_text()
    weight = tab.locator('.panel figure[data-symbol="W_V"] .cell').first
    weight.dblclick()
    tab.keyboard.type("9")
    tab.keyboard.press("Enter")
    tab.wait_for_timeout(400)
    after = tab.locator(output).inner_text()
    assert after != before
    again = look(fragment=tab.evaluate("location.hash.slice(1)"))
    assert again.locator(output).inner_text() == after


def test_choosing_an_action_marks_the_parts_that_are_not_equivariant(look):
    tab = look("turns")
    tab.get_by_role("button", name="broken equivariance: permute", exact=True).click()
    marked = tab.locator(".architecture .box.not-equivariant").evaluate_all("found => found.map(one => one.dataset.box)")
    assert marked == next(s.boxes for s in drawing(drawn()["turns"]).claims if s.action == "permute")
    tab.get_by_label("not equivariant to", exact=True).select_option("")
    assert tab.locator(".architecture .box.not-equivariant").count() == 0


def test_a_narrow_window_is_drawn_anew(look):
    tab = look("transformer-base")
    wide = tab.locator("svg.architecture").bounding_box()["width"]
    tab.set_viewport_size({"width": 360, "height": 800})
    tab.wait_for_timeout(200)
    assert tab.locator("svg.architecture").bounding_box()["width"] < min(wide, 360)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


@each_value(
    pytest.mark.parametrize("fragment", ["", f"box={ATTENTION}", "action=permute"]),
    pytest.mark.parametrize("dark", [False, True]),
)
def test_the_drawing_has_no_barriers(look, dark, fragment):
    tab = look(fragment=fragment, dark=dark, bypass_csp=True)
    assert barriers(tab, "serious") == []


def test_the_drawing_is_saved_as_a_picture(look):
    tab = look()
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="SVG").click()
    text = waiting.value.path().read_text(encoding="utf-8")
    assert waiting.value.suggested_filename == "equiscope-t5.svg"
    assert "Cross-attention" in text
    assert not re.search(r"color\(|var\(|marker-end", text), "not every reader of SVG knows it"
