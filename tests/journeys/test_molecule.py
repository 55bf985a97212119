"""The page of a molecule in a real browser: turned by keys, pointer, touch; numbers as Python's; dragged, mirrored, dark, small."""

import re
from pathlib import Path

import pytest
import torch

from equiscope.explore.page import write
from equiscope.explore.pages.molecule import molecule
from equiscope.explore.space.solvers import untrained
from equiscope.record import unpack
from equiscope.symmetry import relative_error
from tests.explore.molecules import ball, handed, turned, xyz
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
MAKE = {
    "handed": lambda path: handed(path, frames=3), "ball": ball,
    "neon": lambda path: xyz(path, ["Ne"], [[[1.0, 2.0, 3.0]]]),
}  # fmt: skip
FEW = 1e-12  # two orders of adding in float64
ANSWERED = """() => {
  const { desk } = equiscope;
  if (!desk || !desk.solvers.idle) return false;
  const by = desk.motion;
  return desk.known.every((one) => one.now && one.still && one.by.every((v, i) => v === by[i]));
}"""
NOW = """(which) => { const { now } = equiscope.desk.known[which];
  return { ...now, each: [...now.each], forces: [...now.forces], weights: [...now.weights], arrows: [...(now.arrows ?? [])] }; }"""
# no WebGL: what a browser without a graphics driver gives
BLIND = """HTMLCanvasElement.prototype.getContext = ((get) => function (kind, ...more) {
  return /webgl/.test(kind) ? null : get.call(this, kind, ...more);
})(HTMLCanvasElement.prototype.getContext)"""
PAINTED = """() => {
  const canvas = document.querySelector(".stage canvas");
  return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0);
}"""
ALONE = "window.Worker = class { constructor() { throw new Error('there is none'); } }"


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("molecules"), {}

    def page(name):
        if name not in made:
            record = molecule(MAKE[name](folder / f"{name}.xyz"))
            made[name] = write(record, folder / f"{name}.html"), record
        return made[name]

    return page


@pytest.fixture
def see(watched, pages):
    """Opens a molecule as its file says; mostly without WebGL, which a machine without a graphics card emulates slowly."""

    def open_page(name="handed", fragment="", wide=1280, dark=False, before=BLIND, rotated=False, **options):
        tab = watched(wide, dark, has_touch=wide < 500, **options)
        if before:
            tab.add_init_script(before)
        still = "" if rotated or "rotation=" in fragment else "&rotation=1,0,0,0"
        tab.goto(f"{pages(name)[0].as_uri()}#{fragment}{still}")
        tab.wait_for_selector("main .stage")
        answered(tab)
        return tab

    return open_page


def answered(tab):
    """After the models have answered where the molecule is now, and the numbers were written."""
    tab.wait_for_function(ANSWERED)
    tab.wait_for_timeout(250)


def stage(tab, side="left"):
    return tab.locator(f'.over[data-side="{side}"]')


def cell(tab, model, column):
    return float(tab.locator(f'.part tr[data-model="{model}"] td').nth(column).get_attribute("data-value"))


def positions(tab):
    return torch.tensor(list(tab.evaluate("[...equiscope.desk.positions]")), dtype=torch.float64).view(-1, 3)


def python(record, at):
    """What the running models say of these places."""
    numbers = torch.tensor(record.atoms)
    return {model.name: model.function()(at) for model in untrained(numbers, 0)}


def same(tab, record):
    """Whether the page's answers are Python's for the places that the page has."""
    wanted = python(record, positions(tab))
    for which, solver in enumerate(record.solvers):
        found = tab.evaluate(NOW, which)
        for name in ("each", "forces", "weights"):
            numbers = torch.tensor(found[name], dtype=torch.float64)
            assert relative_error(numbers, wanted[solver.name][name].flatten()) < FEW, (solver.name, name)
        assert found["energy"] == pytest.approx(float(wanted[solver.name]["energy"]), rel=FEW)
    return wanted


def energies_stay(tab, record, mirrored=False):
    """Energies within 100 floors where the group promises it, and elsewhere far beyond."""
    for solver in record.solvers:
        before, now, difference, floor = (cell(tab, solver.name, column) for column in range(4))
        assert difference == pytest.approx(abs(now - before), abs=1e-14)
        stays = solver.group == "E(3)" or (solver.group == "SE(3)" and not mirrored)
        assert (difference <= 100 * floor) is stays, solver.name
        assert (cell(tab, solver.name, 6) < FEW) is stays, solver.name
        assert tab.locator(f'.part tr[data-model="{solver.name}"] .judged').first.inner_text() == ("holds" if stays else "broken")


def test_it_begins_rotated_so_that_both_verdicts_are_seen(see):
    tab = see(rotated=True)
    assert tab.evaluate("equiscope.desk.known[0].degrees") == pytest.approx(50, abs=0.1)
    first, last = tab.locator(".model-card").all()
    assert first.locator(".judged").all_inner_texts() == ["holds", "holds"]
    assert last.locator(".judged").all_inner_texts() == ["broken", "broken"]
    tab.get_by_role("button", name="Reset rotation").click()
    answered(tab)
    assert "not rotated yet" in first.inner_text()


def test_it_opens_as_the_file_says_and_answers_as_python(see, pages):
    record = pages("handed")[1]
    tab = see(before=None)
    assert relative_error(positions(tab), torch.tensor(unpack(record.frames)[0])) < 1e-15
    same(tab, record)
    assert tab.locator(".notice").inner_text().startswith("All models have untrained weights, drawn with seed 0")
    assert tab.locator(".stage").first.get_attribute("data-renderer") == "webgl"
    assert "5 atoms, rotated by 0, 0 and 0 degrees" in stage(tab).get_attribute("aria-label")
    assert not re.search(r"NaN|undefined|Infinity", tab.locator("main").inner_text())


def test_keys_turn_what_the_models_are_given(see, pages):
    record = pages("handed")[1]
    tab = see()
    before = positions(tab)
    stage(tab).focus()
    for key in ["ArrowRight"] * 3 + ["ArrowUp", "PageUp", "Alt+ArrowLeft"]:
        tab.keyboard.press(key)
    answered(tab)
    by = turned(-1, (0, 1, 0)) @ turned(5, (0, 0, 1)) @ turned(-5, (1, 0, 0)) @ turned(15, (0, 1, 0))
    assert relative_error(positions(tab), before @ by.mT) < FEW
    wanted, start = same(tab, record), python(record, before)
    energies_stay(tab, record)
    for name in ("e3", "se3"):
        assert relative_error(wanted[name]["forces"], start[name]["forces"] @ by.mT) < FEW
    strays = relative_error(wanted["plain"]["forces"], start["plain"]["forces"] @ by.mT)
    assert cell(tab, "plain", 6) == pytest.approx(strays, rel=1e-9)
    assert tab.locator(".model-card").first.get_attribute("data-holds") == "true"
    assert tab.locator(".model-card").last.get_attribute("data-holds") == "false"
    tab.keyboard.press("Control+z")
    assert "rotation=" in tab.evaluate("equiscope.desk.link()")
    tab.get_by_role("button", name="Reset rotation").click()
    answered(tab)
    assert torch.equal(positions(tab), before)


def test_a_pointer_turns_it_and_the_link_keeps_it(see, pages):
    record = pages("handed")[1]
    tab = see(before=None)
    box = stage(tab, "right").bounding_box()
    tab.mouse.move(box["x"] + 15, box["y"] + 15)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 135, box["y"] + 45, steps=6)
    tab.mouse.up()
    answered(tab)
    assert 55 < tab.evaluate("equiscope.desk.known[0].degrees") < 65
    same(tab, record)
    energies_stay(tab, record)
    link = tab.evaluate("equiscope.desk.link()")
    again = see(fragment=link)
    assert relative_error(positions(again), positions(tab)) < 1e-4, "a link has five decimals"


def test_a_slider_turns_it_for_those_who_see_no_picture(see, pages):
    record = pages("handed")[1]
    tab = see()
    before = positions(tab)
    tab.get_by_label("about the vertical axis").fill("90")
    answered(tab)
    assert relative_error(positions(tab), before @ turned(90, (0, 1, 0)).mT) < FEW
    k = record.angles.index(90.0)
    plain = next(one for one in record.solvers if one.name == "plain")
    assert cell(tab, "plain", 2) == pytest.approx(plain.energies[k], rel=1e-9), "the recorded curve, about the same axis"
    assert tab.locator(".curve circle.sample").count() >= 3
    tab.wait_for_function(
        "() => document.querySelector('[role=status]').textContent.includes('plain transformer: energy differs by')"
    )
    assert "E(3) transformer: energy invariant" in tab.locator("[role=status]").inner_text()


def test_a_mirror_tells_the_groups_apart(see, pages):
    record = pages("handed")[1]
    tab = see(fragment="right=se3")
    tab.get_by_label("mirror image").check()
    answered(tab)
    same(tab, record)
    energies_stay(tab, record, mirrored=True)
    assert [card.get_attribute("data-holds") for card in tab.locator(".model-card").all()] == ["true", "false"]
    tab.get_by_label("mirror image").uncheck()
    answered(tab)
    assert [card.get_attribute("data-holds") for card in tab.locator(".model-card").all()] == ["true", "true"]


def test_an_atom_is_chosen_and_its_attention_is_the_models(see, pages):
    record = pages("handed")[1]
    tab = see()
    tab.locator("table.atoms").get_by_role("button", name="Br1").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("equiscope.desk.state.atom") == 4
    tab.get_by_label("layer", exact=True).select_option("1")
    tab.get_by_label("head", exact=True).select_option("2")
    tab.wait_for_timeout(250)
    wanted = python(record, positions(tab))
    rows = tab.locator('[aria-label="attention of the chosen atom"] tbody tr').all()
    found = {
        row.locator("th").inner_text(): [float(td.get_attribute("data-value")) for td in row.locator("td").all()] for row in rows
    }
    assert sorted(found) == ["Br1 (itself)", "C1", "Cl1", "F1", "H1"]
    for name, atom in {"C1": 0, "H1": 1, "F1": 2, "Cl1": 3, "Br1 (itself)": 4}.items():
        weights = [float(wanted[model]["weights"][1, 2, 4, atom]) for model in ("e3", "plain")]
        assert found[name] == pytest.approx(weights, rel=1e-9)
    x, y = tab.evaluate("(() => { const at = equiscope.desk.positions; return [at[0], at[1]]; })()")
    box = stage(tab).bounding_box()
    tab.keyboard.press("Escape")
    assert tab.evaluate("equiscope.desk.state.atom") == 4, "Escape is the stage's"
    stage(tab).focus()
    tab.keyboard.press("n")
    assert tab.evaluate("equiscope.desk.state.atom") == 0
    tab.keyboard.press("p")
    assert tab.evaluate("equiscope.desk.state.atom") == 4
    tab.keyboard.press("Escape")
    assert tab.evaluate("equiscope.desk.state.atom") == -1
    assert abs(x) + abs(y) < 2
    assert box["width"] > 100


def test_a_dragged_atom_moves_and_forces_follow(see, pages):
    record = pages("handed")[1]
    tab = see(fragment="rotation=0.9,0.1,0.4,0.1", before=None)
    before = positions(tab)
    front = int(before[:, 2].argmax())
    at = tab.evaluate("(i) => [...equiscope.desk.seen(i)]", front)
    box = stage(tab).bounding_box()
    reach = tab.evaluate("equiscope.desk.reach") + 1.1  # room for the longest arrow
    scale = box["height"] / 2 / (15**-0.5) / (4 * reach)  # of a view whose half angle has the sine 1/4
    near = 4 * reach / (4 * reach - at[2])
    x, y = box["x"] + box["width"] / 2 + at[0] * scale * near, box["y"] + box["height"] / 2 - at[1] * scale * near
    tab.mouse.click(x, y)
    assert tab.evaluate("equiscope.desk.state.atom") == front
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 30, y - 20, steps=4)
    tab.mouse.up()
    answered(tab)
    moved = positions(tab) - before
    assert moved[front, 0].item() == pytest.approx(30 / scale / near, rel=1e-3)
    assert moved[front, 1].item() == pytest.approx(20 / scale / near, rel=1e-3)
    assert moved[[i for i in range(5) if i != front]].abs().max() < 1e-12
    same(tab, record)
    energies_stay(tab, record)
    stage(tab).focus()
    middle = positions(tab)
    tab.keyboard.press("Shift+ArrowUp")
    tab.keyboard.press("Shift+PageUp")
    tab.get_by_role("button", name="Move it left").click()
    answered(tab)
    step = (positions(tab) - middle)[front]
    assert step.tolist() == pytest.approx([-0.05, 0.05, 0.05], abs=1e-12)
    same(tab, record)
    tab.get_by_role("button", name="Restore positions").click()
    answered(tab)
    assert relative_error(positions(tab), before) < 1e-14


def test_frames_are_replayed(see, pages):
    record = pages("handed")[1]
    tab = see("handed")
    tab.get_by_label("frame", exact=True).fill("2")
    answered(tab)
    assert relative_error(positions(tab), torch.tensor(unpack(record.frames)[2])) < 1e-15
    assert "frame 3" in tab.locator(".frames").inner_text()
    same(tab, record)
    tab.get_by_label("about the horizontal axis").fill("40")
    answered(tab)
    energies_stay(tab, record)


def test_learned_vectors_are_equivariant(see):
    tab = see(fragment="rotation=0.9,0.1,0.4,0.1&right=se3")
    tab.get_by_label("vectors").select_option("2")
    answered(tab)
    assert tab.evaluate("equiscope.desk.state.arrows") == "2"
    found = tab.evaluate("""() => { const { now, still, by } = equiscope.desk.known[0];
      return { now: [...now.arrows], still: [...still.arrows], by: [...by] }; }""")
    now, still = (torch.tensor(found[name]).view(5, 3, 8)[:, :, 2].double() for name in ("now", "still"))
    assert relative_error(now, still @ torch.tensor(found["by"]).view(3, 3).double().mT) < 1e-6
    assert now.norm() > 1e-3


def test_it_turns_by_itself_until_somebody_touches_it(see):
    tab = see(calm=False)
    play = tab.get_by_role("button", name="▶ Rotate")
    play.click()
    tab.wait_for_function("() => equiscope.desk.known[0].degrees > 1")
    stage(tab).focus()
    tab.keyboard.press("ArrowLeft")
    assert tab.get_by_role("button", name="▶ Rotate").get_attribute("aria-pressed") == "false"
    turn = tab.evaluate("equiscope.desk.state.rotation")
    tab.wait_for_timeout(200)
    assert tab.evaluate("equiscope.desk.state.rotation") == turn


def test_one_atom_alone(see, pages):
    tab = see("neon")
    stage(tab).focus()
    tab.keyboard.press("ArrowLeft")
    answered(tab)
    same(tab, pages("neon")[1])
    assert [card.get_attribute("data-holds") for card in tab.locator(".model-card").all()] == ["true", "false"]
    assert " ," not in tab.locator(".model-card").first.text_content()
    assert "equivariant forces: all are 0" in tab.locator(".model-card").first.inner_text()
    assert "differ from the rotated forces by" in tab.locator(".model-card").last.inner_text(), "which are none in nature"
    assert not re.search(r"NaN|undefined|Infinity", tab.locator("main").inner_text())


def test_without_webgl_it_is_drawn_flat(see, pages):
    tab = see()
    assert tab.locator(".stage").first.get_attribute("data-renderer") == "canvas"
    assert tab.evaluate(PAINTED)
    stage(tab).focus()
    tab.keyboard.press("ArrowLeft")
    answered(tab)
    same(tab, pages("handed")[1])


def test_without_a_worker_the_page_computes_itself(see, pages):
    tab = see(before=ALONE)
    stage(tab).focus()
    tab.keyboard.press("ArrowLeft")
    answered(tab)
    same(tab, pages("handed")[1])


@pytest.mark.parametrize(("wide", "dark"), [(390, False), (1280, True)])
def test_it_is_accessible_and_fits(see, wide, dark):
    tab = see(wide=wide, dark=dark, before=None, fragment="atom=1&rotation=0.9,0.1,0.4,0.1", bypass_csp=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert barriers(tab) == []


def test_touch_turns_and_chooses(see):
    tab = see(wide=390)
    stage(tab).scroll_into_view_if_needed()
    box = stage(tab).bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.wait_for_function("() => equiscope.desk.state.atom >= 0")


def test_sixty_atoms_are_rotated(see, pages):
    record = pages("ball")[1]
    tab = see("ball", before=None)
    stage(tab).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        tab.keyboard.press(key)
    answered(tab)
    energies_stay(tab, record)
