"""The page of any module's program: numbers are read, changed, and what follows is what Python computes."""

import pytest
import torch
from playwright.sync_api import expect

import equiscope as eq
from equiscope import program
from equiscope.program.lower import lowered
from tests.program.zoo import ZOO, built

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("watched")]
NAMES = ["hand-written attention", "encoder layer", "GPT-2", "Llama", "timm ViT"]
ROUNDING = {"Llama": 1e-6}  # it casts to float32, and the page computes in float64
NUMBERS = """async (edits) => {
  const desk = equiscope.desk;
  desk.set({ edits });
  return desk.programRecord.outputs.map((id) => [...desk.run.program.get(id).data]);
}"""


@pytest.fixture
def opened(watched, tmp_path):
    """Opens the page of a module of the zoo: opened(name) -> (tab, the program in Python)."""

    def open_page(name, fragment=""):
        case = ZOO[name]
        model, args, kwargs = built(case), case.args(), case.kwargs()
        made = program.watch(model, *args, kwargs=kwargs)
        path = eq.export(eq.watch(model, *args, kwargs=kwargs), tmp_path / "page.html")
        tab = watched()
        tab.goto(f"{path.as_uri()}#{fragment}")
        tab.wait_for_selector("main .matrix")
        return tab, made

    return open_page


def answer(tab, made, edits):
    """What the page's program returns, by value of the program in Python."""
    values = dict.fromkeys(made.outputs.values())
    found = tab.evaluate(NUMBERS, edits)
    return {value: torch.tensor(numbers, dtype=torch.float64) for value, numbers in zip(values, found, strict=True)}


def changed(t, number=0.25):
    """Its first number replaced."""
    t = t.clone()
    t[(0,) * t.ndim] = number
    return t


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_computes_is_what_python_computes(opened, name):
    """As it is, with a weight of the model changed, with an attention weight changed, and with both."""
    tab, made = opened(name)
    record = lowered(made)
    ids = {one.id for one in [*record.leaves, *record.steps]}
    weight = next(leaf.name for leaf in made.leaves if leaf.kind == "parameter" and leaf.value.ndim == 2)
    attention = next(made.name(step.outputs[0][0]) for step in made.steps if "softmax" in step.op)
    for some in ([], [weight], [attention], [weight, attention]):
        expected, edits, done = made.run(), {}, []
        for value in some:  # the other cells of a changed step are what they are after the change before it
            before = expected[value]
            edits[value if value in ids else f"{value}.mT"] = {",".join("0" * before.ndim): 0.25}
            expected = made.run({other: expected[other] for other in done} | {value: changed(before)})
            done.append(value)
        for value, numbers in answer(tab, made, edits).items():
            wanted = expected[value].double().flatten()
            assert (numbers - wanted).abs().max() < ROUNDING.get(name, 1e-10) * max(1.0, wanted.abs().max()), (
                some,
                made.name(value),
            )


def test_a_person_opens_a_module_reads_a_number_and_changes_it(opened):
    tab, made = opened("hand-written attention")
    tab.locator("details[data-module=q_proj] summary").click()
    cell = tab.locator('details[data-module=q_proj] figure[data-id="q_proj.linear"] .cell').first
    cell.click()
    assert "=" in tab.locator(".arithmetic").inner_text()
    out = tab.locator('.ends figure[data-id="o_proj.linear"] .cell').first
    before = out.inner_text()
    cell.dblclick()
    tab.keyboard.type("5")
    tab.keyboard.press("Enter")
    expected = made.run({"q_proj.linear": changed(made.run()["q_proj.linear"], 5.0)}).outputs[""]
    expect(out).to_have_text(f"{expected[0, 0, 0]:.3f}".replace("-", "−"))
    expect(tab.locator(".explain .note")).to_contain_text("set by hand")
    tab.locator("button", has_text="Undo").click()
    expect(out).to_have_text(before)


def test_a_link_brings_back_what_was_opened_and_changed(opened):
    tab, _ = opened("hand-written attention", "digits=2&edits=%7B%22input.0%22%3A%7B%220%2C0%2C0%22%3A7%7D%7D")
    assert tab.locator('.ends figure[data-id="input.0"] .cell').first.inner_text() in ("7", "7.00")


def test_loops_say_that_they_explain_no_cell(opened):
    tab, _ = opened("equivariant vectors")
    tab.locator("main details summary").first.click()
    figure = tab.locator(".step", has=tab.locator(".equation", has_text="sum(")).locator("figure").last
    figure.locator(".cell").first.click()
    assert "a cell of a loop has no explanation" in tab.locator(".explain .note").inner_text()
