"""The page in a real browser, driven by mouse, keyboard and touch; numbers are compared with Python's, not only looked for."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from contract.golden import Case

from equiscope import record
from equiscope.explore import Choice
from equiscope.explore.pages.sentence import BROKEN, GROUPS, offers, rows
from equiscope.explore.sentence.exhibit import exhibit
from equiscope.program.replay import replay
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens, words
from tests.journeys.barriers import barriers
from tests.journeys.conftest import explored
from tests.pairwise import each_value, few

pytestmark = pytest.mark.browser
CASES = Path(__file__).parents[2] / "contract" / "cases"
LOVE = Choice()
SIX = Choice("only who can prevent forest fires", width=4, heads=2, seed=3)
HOSTILE = "</script><script>window.hacked=1</script> $& {title} constructor __proto__ toString"
Z, Q, A = (f'figure[data-symbol="{symbol}"]' for symbol in "ZQA")
X = 'figure[data-id="X"]'


def numbers(tab, figure: str) -> list[float]:
    tab.wait_for_timeout(150)  # a frame for what is on screen, a quiet moment for the rest
    return [float(text.replace("−", "-")) for text in tab.locator(f"{figure} .cell").all_inner_texts()]


def eventually(tab, condition: str) -> None:
    """Playwright's own waiting evaluates strings, which the page's security policy forbids."""
    for _ in range(40):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never: {condition}")


def exact(tab, scheme: str, role: str, setting: str = "plain") -> torch.Tensor:
    """A value as the page holds it, in full precision."""
    found = tab.evaluate(
        """([scheme, setting, role]) => {
            const { app } = equiscope;
            const input = { rows: app.lab.rows(app.state), start: 0 };
            const { record, program } = app.lab.run(app.state, scheme, setting, input, "test");
            const { shape, data } = program.get(record.roles[role]);
            return { shape, data: [...data] };
        }""",
        [scheme, setting, role],
    )
    return torch.tensor(found["data"], dtype=torch.float64).reshape(found["shape"])


def python(scheme: str, role: str, order: list[int], choice: Choice = LOVE) -> torch.Tensor:
    """The same value from a fresh model in Python."""
    content = explored(choice)
    program = next(p for p in content.programs if p.scheme == scheme and p.setting == "plain")
    leaves = {leaf.id: torch.from_numpy(record.unpack(content.pool[leaf.pool])) for leaf in program.program.leaves}
    leaves["X"] = rows(words(choice.sentence), choice)[order]
    return replay(program.program, leaves)[program.roles[role]]


# --- the engine ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("every", few([5, 1], 1))  # web/tests/golden.test.ts compares all of them in Node
def test_the_browser_gives_pythons_numbers_on_golden_programs(visit, every):
    tab = visit()
    names = sorted(p.name for p in CASES.glob("*.json") if p.name != "words.json")
    assert len(names) > 20
    for name in names[::every]:
        case = msgspec.json.decode((CASES / name).read_bytes(), type=Case)
        if any(step.op == "loops" for step in case.program.steps):
            continue  # they have a page of their own: test_watched.py
        text = (CASES / name).read_text(encoding="utf-8")
        found = tab.evaluate(
            """(text) => { const { program, moves } = JSON.parse(text);
            return JSON.stringify(moves.map((m) => Object.fromEntries([...equiscope.replay(program, m.action, m.edits)]
                .map(([id, { data }]) => [id, [...data].map(String)])))); }""",
            text,
        )
        for move, values in zip(case.moves, json.loads(found), strict=True):
            for step, array in move.values.items():
                wanted = record.unpack(array).astype(float).reshape(-1)
                got = np.array([float(v.replace("Infinity", "inf")) for v in values[step]])
                assert np.allclose(got, wanted, rtol=1e-9, atol=1e-9), f"{name}, {move.name}: {step}"


# --- what a link begins with --------------------------------------------------------------------------------------------
def test_a_link_points_at_a_number_and_ends_the_steps_with_the_weighted_sum(visit):
    tab = visit("until=mixed&point=mixed:0,0")
    assert tab.locator(".explain .result").inner_text() == "2.40"
    assert tab.locator('main figure[data-symbol="Z"] .target').inner_text() == "2.40"
    steps = tab.locator("main .step").count()
    tab.locator('main figure[data-symbol="A"] .cell').first.click()
    eventually(tab, "location.hash.includes('weights%3A0%2C0')")
    tab.get_by_role("button", name="The whole block").click()
    assert tab.locator("main .step").count() > steps


def test_few_schemes_are_compared_until_a_reader_asks_for_more(visit):
    tab = visit("story=slide")
    assert tab.locator(".card").evaluate_all("cards => cards.map(c => c.dataset.scheme)") == ["none", "sinusoidal", "rope"]
    tab.locator(".compared summary").first.click()
    tab.locator(".compared").first.get_by_label("ALiBi", exact=True).check()
    assert tab.locator('.card[data-scheme="alibi"]').count() == 1
    assert "alibi" in tab.url
    tab.locator(".compared").first.get_by_role("button", name="All").click()
    assert tab.locator(".card").count() == len(offers(1))


# --- the choice of schemes ----------------------------------------------------------------------------------------------
def test_schemes_are_listed_under_the_place_where_they_act(visit):
    tab = visit()
    chosen = tab.get_by_label("position scheme").locator("visible=true").first
    groups = chosen.locator("optgroup").evaluate_all("gs => gs.map(g => [g.label, [...g.children].map(o => o.value)])")
    listed = [[name] for name in chosen.locator("> option").evaluate_all("os => os.map(o => o.value)")]
    assert [name for names in [*listed, *(n for _, n in groups)] for name in names] == [o.variant.name for o in offers(1)]
    assert [group for group, _ in groups] == [*GROUPS.values(), BROKEN]


@pytest.mark.parametrize(("causal", "wide"), few([("true", 390), ("false", 1280), ("true", 1280), ("false", 390)], 1))
def test_every_scheme_shows_its_numbers(visit, wide, causal):
    tab = visit(f"causal={causal}", wide=wide, **asdict(SIX))
    for offer in offers(2):
        tab.get_by_label("position scheme").locator("visible=true").first.select_option(offer.variant.name)
        assert tab.locator("main figure").first.get_attribute("data-scheme") == offer.variant.name
        assert tab.locator(".failed:visible").count() == 0, offer.variant.name
        assert not re.search(r"NaN|undefined|\[object", tab.locator("main").inner_text()), offer.variant.name
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide, offer.variant.name


# --- E1: numbers --------------------------------------------------------------------------------------------------------
def test_pointing_at_a_number_shows_its_computation_with_the_operands(visit):
    tab = visit()
    assert numbers(tab, Z) == [2.40, 1.60, 2.16, 1.33, 2.50, 1.75]
    tab.locator(f"{Z} .cell").first.hover()
    assert tab.locator(".arithmetic").inner_text() == "Z[Love, 0] = 0.40·3 + 0.20·2 + 0.40·2 = 2.40"
    lit = tab.locator(".cell.operand").all_inner_texts()
    assert lit == ["3", "2", "2", "0.40", "0.20", "0.40"]
    assert tab.locator(".cell.target").inner_text() == "2.40"


def test_an_edited_number_changes_everything_behind_it_and_undo_takes_it_back(visit):
    tab = visit()
    cell = tab.locator(f"{X} .cell").nth(1)
    cell.focus()
    tab.keyboard.press("Enter")
    tab.keyboard.type("5")
    tab.keyboard.press("Enter")
    edited = rows(words(LOVE.sentence), LOVE)
    edited[0, 1] = 5.0
    made = exhibit(next(o.make() for o in offers(1) if o.variant.name == "none"), 2, 1, 0)
    wanted = made(Tokens.of(edited))["output"].detach()
    assert relative_error(exact(tab, "none", "output"), wanted) < 1e-12  # the two exponentials may differ in the last bit
    eventually(tab, "location.hash.includes('edits')")
    tab.keyboard.press("Control+z")
    assert numbers(tab, Z) == [2.40, 1.60, 2.16, 1.33, 2.50, 1.75]


def test_back_returns_within_the_page_step_by_step(visit):
    tab = visit()
    tab.get_by_role("link", name="Shuffle").click()
    tab.get_by_role("button", name="Reverse").click()
    eventually(tab, "location.hash === '#story=shuffle&order=2%2C1%2C0'")
    tab.go_back()
    eventually(tab, "equiscope.app.state.order.join() === '0,1,2'")
    assert tab.locator(".chip").all_inner_texts() == LOVE.sentence.split()
    tab.go_back()
    eventually(tab, "document.body.dataset.story === 'numbers'")
    tab.go_forward()
    tab.go_forward()
    eventually(tab, "equiscope.app.state.order.join() === '2,1,0'")
    assert tab.locator(".chip").all_inner_texts() == LOVE.sentence.split()[::-1]


def test_a_weight_can_be_edited_by_mouse_and_reset_brings_it_back(visit):
    tab = visit()
    weight = tab.locator('figure[data-symbol="W_Q"] .cell').nth(1)
    weight.dblclick()
    tab.locator(".editor input").fill("2.5")
    tab.locator(".editor button").click()
    assert numbers(tab, Q) == [1, 4.5, 0, 2, 1, 3.5]
    tab.get_by_role("button", name="Reset").click()
    assert numbers(tab, Q) == [1, 1, 0, 2, 1, 0]


def test_arrow_keys_move_across_cells_and_the_cell_is_read_aloud(visit):
    tab = visit()
    tab.locator(f"{Z} .cell").first.focus()
    for key, where in [
        ("ArrowRight", "Z[Love, 1]"),
        ("ArrowDown", "Z[conquers, 1]"),
        ("Home", "Z[conquers, 0]"),
        ("ArrowUp", "Z[Love, 0]"),
    ]:
        tab.keyboard.press(key)
        assert tab.locator(".arithmetic").inner_text().startswith(where)
    eventually(tab, "document.querySelector('.spoken').textContent.includes('0.40·3')")
    assert tab.locator(".spoken").get_attribute("aria-live") == "polite"


def test_a_long_table_rolls_to_the_number_that_was_asked_for(visit, tmp_path):
    tab = visit("scheme=shaw")
    table = tab.locator('figure.long[data-symbol="aᴷ"]')
    height, whole = table.evaluate("f => [f.clientHeight, f.scrollHeight]")
    assert height < whole / 2
    tab.locator('figure[data-symbol="aᴷᵀ"] canvas').click(position={"x": 225, "y": 5})
    top = table.locator(".operand").first.bounding_box()["y"]
    assert table.bounding_box()["y"] < top < table.bounding_box()["y"] + height
    with tab.expect_download() as download:
        tab.get_by_role("button", name="SVG").click()
    download.value.save_as(tmp_path / "page.svg")
    drawn = (tmp_path / "page.svg").read_text(encoding="utf-8")
    assert int(re.search(r'height="(\d+)"', drawn)[1]) > tab.evaluate("document.querySelector('main').scrollHeight") + whole / 2


def test_a_box_of_the_step_graph_leads_to_its_matrix(visit):
    tab = visit()
    tab.get_by_role("link", name="FFN: output of the feed-forward network").click()
    assert tab.locator('figure[data-symbol="FFN"]').evaluate("f => f.contains(document.activeElement)")


def test_circles_have_areas_in_proportion_to_the_weights(visit):
    tab = visit()
    radii = [float(c.get_attribute("r")) for c in tab.locator("[data-circles] circle").all()]
    weights = python("none", "weights", [0, 1, 2]).reshape(-1)
    areas = torch.tensor(radii).double() ** 2
    assert torch.allclose(areas / areas.sum(), weights / weights.sum(), atol=1e-6)


# --- E2: shuffle --------------------------------------------------------------------------------------------------------
def test_without_positions_outputs_travel_with_their_words(visit):
    tab = visit("story=shuffle")
    before = numbers(tab, Z)
    tab.locator(".chip").first.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".chip").all_inner_texts() == ["conquers", "Love", "all"]
    assert numbers(tab, Z) == [*before[2:4], *before[:2], *before[4:]]
    assert tab.locator(".verdict").get_attribute("data-verdict") == "holds"


def marked(tab, figure):
    return tab.locator(f"{figure} >> .cell").evaluate_all("cells => cells.map(cell => cell.classList.contains('changed'))")


def test_numbers_that_a_shuffle_changes_are_marked_by_sign_and_outline(visit):
    output = '[data-part=output] figure[data-id$="feedforward_norm.rms_norm"]'
    tab = visit("story=shuffle&scheme=sinusoidal")
    assert not any(marked(tab, f"{output} >> nth=0")), "nothing is shuffled yet"
    tab.get_by_role("button", name="Reverse").click()
    tab.wait_for_timeout(150)
    plain, moved = (python("sinusoidal", "output", order) for order in ([0, 1, 2], [2, 1, 0]))
    wanted = ((moved - plain[[2, 1, 0]]).abs() > 1e-9).flatten().tolist()
    assert marked(tab, f"{output} >> nth=0") == wanted
    assert marked(tab, f"{output} >> nth=1") == [False] * 6, "g f(X) is what the others are compared with"
    assert marked(tab, X) == [False] * 6, "words move with themselves"
    style = "(cell, of) => getComputedStyle(cell, of)[of ? 'content' : 'outlineStyle']"
    cell = tab.locator(f"{output} .cell.changed").first
    assert (cell.evaluate(style), cell.evaluate(style, "::before")) == ("dashed", '"≠"')
    assert re.fullmatch(r"[\d.−]+, changed, not [\d.−]+", cell.get_attribute("aria-label"))
    assert f"{sum(wanted)}" in tab.locator(".changed-count").inner_text()
    added = tab.locator("[data-part=added] figure.matrix")
    assert numbers(tab, "[data-part=added] figure.matrix") == [0, 1, 0.84, 0.54, 0.91, -0.42]
    assert added.locator(".rowname").all_inner_texts() == ["0", "1", "2"], "positions stay"
    tab.get_by_label("position scheme").select_option("none")
    tab.wait_for_timeout(150)
    assert not any(marked(tab, f"{output} >> nth=0"))
    assert tab.locator("[data-part=added]").count() == 0


def test_what_did_not_travel_flashes_unless_a_person_asked_for_calm(visit):
    flashing = "[...document.querySelectorAll('.cell.changed')].some(cell => cell.getAnimations().length)"
    for calm in (False, True):
        tab = visit("story=shuffle&scheme=sinusoidal", calm=calm)
        tab.get_by_role("button", name="Reverse").click()
        tab.wait_for_timeout(100)
        assert tab.evaluate(flashing) is not calm


def test_a_word_can_be_dragged_by_mouse_and_positions_make_the_shuffle_visible(visit):
    tab = visit("story=shuffle&scheme=rope")
    first, last = tab.locator(".chip").first.bounding_box(), tab.locator(".chip").last.bounding_box()
    tab.mouse.move(first["x"] + 10, first["y"] + 10)
    tab.mouse.down()
    tab.mouse.move(last["x"] + 10, last["y"] + 10, steps=8)
    tab.mouse.up()
    assert tab.locator(".chip").all_inner_texts() == ["conquers", "all", "Love"]
    assert tab.locator(".verdict").get_attribute("data-verdict") == "broken"
    plain, moved = (python("rope", "output", order) for order in ([0, 1, 2], [1, 2, 0]))
    wanted = relative_error(moved, plain[[1, 2, 0]])
    assert float(tab.locator(".verdict").get_attribute("data-error")) == pytest.approx(wanted, rel=1e-9)


def test_the_shuffle_button_gives_another_order_and_a_causal_mask_notices(visit):
    tab = visit("story=shuffle")
    tab.get_by_role("button", name="Shuffle").click()
    eventually(tab, "[...document.querySelectorAll('.chip')].map(c => c.textContent).join(' ') !== 'Love conquers all'")
    tab.get_by_label("causal mask").check()
    assert tab.locator(".verdict").get_attribute("data-verdict") in ("approximate", "broken")  # how far depends on the order
    assert "causal mask" in tab.locator(".claim").inner_text()


# --- E3: positions ------------------------------------------------------------------------------------------------------
def test_two_schemes_stand_side_by_side_and_the_split_scores_sum_to_the_score(visit):
    tab = visit("story=positions&scheme=sinusoidal&versus=none")
    parts = [exact(tab, "sinusoidal", role) for role in ("split-cc", "split-cp", "split-pc", "split-pp")]
    assert relative_error(sum(parts), exact(tab, "sinusoidal", "scores")) < 1e-14  # float64 rounding of four sums
    encoding = numbers(tab, '[data-column=scheme] figure[data-symbol="P"]')
    assert encoding == [0, 1, 0.84, 0.54, 0.91, -0.42]
    verdicts = tab.locator(".scheme .verdict").evaluate_all("vs => vs.map(v => v.dataset.verdict)")
    assert verdicts[0] == "broken"
    assert verdicts[1] == "holds"


def test_every_claim_in_the_table_is_what_was_measured(visit):
    tab = visit("story=positions&schemes=all", **asdict(SIX))
    tab.wait_for_selector("table.laws tbody tr")
    content = explored(SIX)
    for program in (p for p in content.programs if p.setting == "plain"):
        for claim in program.claims:
            cell = tab.locator(f'tr[data-scheme="{program.scheme}"] td[data-action={claim.action}]')
            assert (cell.get_attribute("data-verdict") == "holds") == claim.holds, (program.scheme, claim.action)


def test_the_mean_cannot_tell_who_prevents_forest_fires_without_positions(visit):
    tab = visit("story=positions&scheme=none&versus=sinusoidal")
    tab.locator('[data-example="only who can prevent forest fires"]').click()
    verdict = {s: tab.locator(f"[data-mean={s}] .verdict").get_attribute("data-verdict") for s in ("none", "sinusoidal")}
    assert verdict["none"] == "holds"
    assert verdict["sinusoidal"] in ("approximate", "broken")


def test_the_dog_is_good_has_the_numbers_of_the_docs(visit):
    tab = visit("story=positions")
    tab.locator('[data-example="the dog is good"]').click()
    tab.get_by_role("link", name="Numbers").click()
    assert numbers(tab, X) == [0.1, -0.3, 0.6, 0.2, -0.4, -0.1, 0.2, -0.7]


# --- E4: slide ----------------------------------------------------------------------------------------------------------
def changes(tab, scheme: str) -> dict[str, float]:
    cells = tab.locator(f'[data-part=changes] tr[data-scheme="{scheme}"] td')
    found = cells.evaluate_all("ds => ds.map(d => [d.dataset.role, +d.dataset.error])")
    return dict(found)


def test_while_the_slider_is_dragged_relative_schemes_stay_and_absolute_ones_change(visit):
    tab = visit("story=slide&schemes=all")
    slider = tab.get_by_label("position of the first word").locator("visible=true").first
    box = slider.bounding_box()
    tab.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
    tab.mouse.down()
    seen = set()
    for share in (0.2, 0.5, 0.9):
        tab.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2, steps=4)
        tab.wait_for_timeout(150)
        seen.add(tab.locator(".here").first.get_attribute("data-position"))  # still dragging
        for scheme in ("none", "rope", "rope-half", "alibi"):
            assert max(changes(tab, scheme).values()) < 1e-12, scheme  # rounding: angles up to 60 radians
        for scheme in ("index", "sinusoidal", "learned", "concatenated", "rope-query-only", "rope-two-speeds"):
            assert changes(tab, scheme)["scores"] > 1e-3, scheme
    tab.mouse.up()
    assert len(seen) == 3


def test_rope_gives_the_numbers_of_the_docs_wherever_the_words_stand(visit):
    tab = visit("story=slide&digits=3&scheme=rope")
    for place in (0, 7, 61):
        tab.evaluate("hash => { location.hash = hash }", f"story=slide&slide={place}&digits=3&scheme=rope")
        eventually(tab, f"document.querySelector('.here').dataset.position === '{place}'")
        assert numbers(tab, '.whole [data-symbol="Z"]')[2 * min(place, 21) :][:2] == [2.113, 1.715]


def test_scores_depend_on_the_distance_only_until_a_switch_breaks_it(visit):
    tab = visit("story=slide&scheme=rope")
    line = tab.locator("section", has_text="distance only?").locator("p[data-error]")
    assert float(line.get_attribute("data-error")) < 1e-12
    tab.locator("[data-switch=rope-query-only]").check()
    assert float(line.get_attribute("data-error")) > 1e-2
    tab.locator("[data-switch=rope-two-speeds]").check()
    assert float(line.get_attribute("data-error")) > 1e-2
    tab.locator("[data-switch=rope-two-speeds]").uncheck()
    assert float(line.get_attribute("data-error")) < 1e-12


def test_in_the_whole_paragraph_output_rows_travel_with_their_words(visit):
    tab = visit("story=slide&scheme=alibi&slide=4")
    line = tab.locator(".whole p[data-error]")
    names = tab.locator('.whole [data-symbol="Z"] .rowname').all_inner_texts()
    assert names[4:7] == ["Love", "conquers", "all"]
    assert float(line.get_attribute("data-error")) < 1e-12
    tab.locator(".controls select").first.select_option("index")
    assert float(tab.locator(".whole p[data-error]").get_attribute("data-error")) > 1e-2


# --- E5: clocks ---------------------------------------------------------------------------------------------------------
def test_clock_hands_stand_at_place_times_speed_past_any_trained_length(visit):
    tab = visit("story=clocks&position=300")
    angles = [float(a) for a in tab.locator("[data-angles]").get_attribute("data-angles").split(",")]
    assert angles == pytest.approx([300, 30, 3, 0.3], rel=1e-12)
    assert float(tab.locator("[data-product]").get_attribute("data-product")) == pytest.approx(4, abs=1e-12)
    slider = tab.get_by_role("slider", name="position")
    slider.focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(150)
    assert tab.locator("[data-angles]").get_attribute("data-angles").startswith("301,")


def test_one_sine_collides_a_pair_is_unique_for_one_turn_and_one_rotation_shifts_all(visit):
    tab = visit("story=clocks")
    distinct = {
        w: tab.locator(f"tr[data-waves={w}] td[data-distinct]").get_attribute("data-distinct") for w in ("sine", "pair", "ladder")
    }
    assert distinct == {"sine": "19", "pair": "36", "ladder": "36"}
    assert float(tab.locator("[data-fact=sines-only]").get_attribute("data-value")) == pytest.approx(0.66, abs=0.01)
    assert float(tab.locator("[data-fact=sine-cosine]").get_attribute("data-value")) < 1e-14
    steps = tab.get_by_role("slider", name="steps k")
    for k in (5, 17):
        steps.fill(str(k))
        tab.wait_for_timeout(150)
        line = tab.locator("p[data-error]", has_text=f"k = {k}")
        assert float(line.get_attribute("data-error")) < 1e-13


# --- E10: read-outs -----------------------------------------------------------------------------------------------------
def test_mean_and_class_token_stay_under_shuffling_and_the_others_change(visit):
    tab = visit("story=readouts&scheme=rope")

    def verdicts(scheme: str) -> dict[str, str]:
        found = tab.locator(f"td[data-scheme={scheme}]").evaluate_all(
            "ts => ts.map(t => [t.parentElement.dataset.role, t.dataset.verdict])"
        )
        return dict(found)

    assert verdicts("none") == {
        "mean": "holds",
        "class": "holds",
        "first": "broken",
        "last": "broken",
        "concatenation": "broken",
    }
    assert "holds" not in verdicts("rope").values()


# --- the page itself ----------------------------------------------------------------------------------------------------
def test_a_copied_link_restores_the_page(visit):
    tab = visit("story=shuffle&scheme=alibi")
    tab.get_by_role("button", name="Reverse").click()
    tab.get_by_label("causal mask").check()
    tab.get_by_role("button", name="Copy link").click()
    fragment, shown = tab.url.split("#")[1], numbers(tab, Z)
    again = visit(fragment)
    assert again.locator(".chip").all_inner_texts() == ["all", "conquers", "Love"]
    assert again.get_by_label("causal mask").is_checked()
    assert numbers(again, Z) == shown


@each_value(
    pytest.mark.parametrize("story", ["numbers", "shuffle", "positions", "slide", "clocks", "readouts"]),
    pytest.mark.parametrize("dark", [False, True]),
)
def test_a_story_has_no_barriers_and_fits_a_phone(visit, story, dark):
    tab = visit(f"story={story}&scheme=rope", dark=dark, touch=True, bypass_csp=True)
    tab.locator(".cell").first.click()
    assert barriers(tab, "serious") == []
    tab.set_viewport_size({"width": 360, "height": 900})
    eventually(tab, "document.documentElement.scrollWidth <= 360")
    tab.locator(".cell").first.tap()
    assert "=" in tab.locator(".arithmetic").inner_text()


@pytest.mark.parametrize("waves", few(["__proto__", "constructor", "carry"], 1))
def test_a_link_cannot_stop_the_page(visit, waves):
    tab = visit(
        f"story=clocks&waves={waves}&edits=%7B%22__proto__%22%3A%7B%220%2C0%22%3A5%7D%2C%22words%22%3A%7B%220%2C0%22%3A1e308%7D%7D"
    )
    assert tab.locator("[data-angles]").get_attribute("data-angles").startswith("5,")


def test_words_that_are_names_of_the_language_or_markup_are_only_text(visit):
    tab = visit(sentence=HOSTILE)
    assert tab.evaluate("window.hacked") is None
    assert tab.locator(f"{X} .rowname").all_inner_texts() == HOSTILE.split()
    wanted = rows(words(HOSTILE), Choice())
    assert relative_error(exact(tab, "none", "words"), wanted) == 0
    output = python("none", "output", list(range(len(wanted))), Choice(HOSTILE))
    assert relative_error(exact(tab, "none", "output"), output) < 1e-12


def test_the_slider_and_the_chips_of_the_read_outs_work_by_keyboard_and_undo(visit):
    tab = visit("story=slide")
    tab.get_by_role("slider", name="position of the first word").focus()
    tab.keyboard.press("ArrowRight")
    eventually(tab, "document.querySelector('.here').dataset.position === '12'")
    tab.get_by_role("button", name="Undo").click()
    eventually(tab, "document.querySelector('.here').dataset.position === '11'")
    tab.get_by_role("link", name="Read-outs").click()
    tab.locator(".chip").first.focus()
    tab.keyboard.press("ArrowRight")
    eventually(tab, "document.querySelector('.chip').textContent === 'conquers'")


def test_one_part_of_a_page_can_be_saved(visit, tmp_path):
    tab = visit("story=clocks")
    with tab.expect_download() as download:
        tab.locator("section", has_text="One rotation shifts").locator(".keep").click()
    download.value.save_as(tmp_path / "part.svg")
    text = (tmp_path / "part.svg").read_text(encoding="utf-8")
    assert "the rotation: a 2 × 2 block for every hand" in text
    assert "The hands at this position" not in text


def test_a_broken_link_falls_back_to_the_beginning(visit):
    tab = visit("story=none&order=9,9&words=[1]&slide=-4&edits={]&scheme=nope&head=99")
    assert numbers(tab, Z) == [2.40, 1.60, 2.16, 1.33, 2.50, 1.75]


def test_an_own_sentence_can_be_typed_and_text_is_only_text(visit):
    tab = visit()
    hostile = "<script>window.hacked=1</script> <img src=x onerror=window.hacked=1> &amp; </textarea>"
    tab.get_by_label("your own sentence").fill(hostile)
    tab.keyboard.press("Enter")
    assert tab.locator(f"{X} .rowname").all_inner_texts() == hostile.split()
    tab.get_by_role("link", name="Shift").click()
    assert tab.evaluate("window.hacked") is None
    eventually(tab, "location.hash.includes('hacked')")
    again = visit(tab.url.split("#")[1])
    assert again.evaluate("window.hacked") is None


@pytest.mark.parametrize("stories", few([["slide"], ["shuffle", "positions", "clocks", "readouts"]], 1))
def test_five_hundred_words_give_a_page_and_a_clear_limit(visit, stories):
    tab = visit(sentence=" ".join(f"word{i}" for i in range(500)))
    assert "take 256" in tab.locator(".notice").inner_text()
    canvas = tab.locator(f"{A} canvas")
    canvas.hover(position={"x": 1, "y": 1})
    assert tab.locator(".arithmetic").inner_text().startswith("A[word0, word0] = e^")
    canvas.focus()
    tab.keyboard.press("ArrowRight")
    tab.mouse.move(0, 0)
    assert tab.locator(".arithmetic").inner_text().startswith("A[word0, word1] =")
    for story in stories:
        tab.locator(f"nav [data-story={story}]").click()
        tab.wait_for_selector(f"body[data-story={story}] main h2")


def test_heads_can_be_chosen_and_each_has_its_own_attention(visit):
    tab = visit(**asdict(SIX))
    first = numbers(tab, A)
    tab.locator(".controls label", has_text="head").locator("select").select_option(label="H1")
    wanted = python("none", "weights", list(range(6)), SIX)[1]
    assert numbers(tab, A) == pytest.approx(wanted.reshape(-1).tolist(), abs=0.00501)  # two digits are printed
    assert numbers(tab, A) != first


def test_a_figure_can_be_saved_as_svg_and_png(visit, tmp_path):
    tab = visit()
    for kind, head in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with tab.expect_download() as download:
            tab.get_by_role("button", name=kind, exact=True).click()
        target = tmp_path / download.value.suggested_filename
        download.value.save_as(target)
        assert target.read_bytes().startswith(head)
    text = (tmp_path / "equiscope-numbers.svg").read_text(encoding="utf-8")
    assert ">2.40<" in text
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


def test_rows_glide_unless_a_person_asked_for_calm(visit):
    moving = "document.getAnimations().length"
    for calm in (False, True):
        tab = visit("story=shuffle", calm=calm)
        tab.get_by_role("button", name="Reverse").click()
        tab.wait_for_timeout(50)
        assert (tab.evaluate(moving) > 0) is not calm


def test_pages_are_as_small_as_promised(exported):
    import gzip

    small = exported().read_bytes()
    assert len(gzip.compress(small)) <= 150_000
    large = exported(sentence=" ".join(f"word{i}" for i in range(64)), heads=12, width=96).read_bytes()
    assert len(large) <= 630_000
