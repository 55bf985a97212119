"""The page of a comparison in a real browser, from disk: read, walked by keyboard, touched, heard, on a phone, in the dark."""

import csv
import re
from pathlib import Path

import msgspec
import pytest

from equiscope.explore import write
from equiscope.record import Comparison
from tests.explore.comparisons import COMPARISONS, HOSTILE, comparison, mixed
from tests.journeys.barriers import barriers
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
PLOTS = {"Learning curves": "curves", "Extrapolation beyond the training size": "extrapolation", "Quality against cost": "cost"}


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("compared"), {}

    def page(name):
        if name not in made:
            made[name] = write(COMPARISONS[name](), folder / f"{name}.html")
        return made[name]

    return page


@pytest.fixture
def read(watched, compared):
    """Opens a comparison's page."""

    def open_page(name="five", fragment="", wide=1280, dark=False, script=True, bypass_csp=False):
        tab = watched(wide, dark, java_script_enabled=script, bypass_csp=bypass_csp, has_touch=wide < 500)
        tab.goto(f"{compared(name).as_uri()}#{fragment}")
        tab.wait_for_selector("main" if script else "h1")
        return tab

    return open_page


def plot(tab, title):
    return tab.get_by_role("slider", name=title)


def said(tab, title):
    return plot(tab, title).get_attribute("aria-valuetext")


@pytest.mark.parametrize(("wide", "dark"), few([(390, True), (1280, False)], 1))
def test_the_answer_is_the_first_heading(read, wide, dark):
    tab = read(wide=wide, dark=dark)
    assert tab.get_by_role("heading").first.inner_text() == comparison().answer
    assert tab.locator("h1").count() == 1
    assert tab.locator("h1").bounding_box()["y"] < 250
    assert comparison().question in tab.locator(".question").inner_text()
    assert tab.locator("header .notes li").all_inner_texts() == comparison().notes


@pytest.mark.parametrize("wide", few([1280, 390], 1))
def test_candidates_stand_in_the_order_of_the_record_with_every_seed(read, wide):
    tab = read(wide=wide)
    rows = tab.locator("table.standing tbody tr")
    assert rows.locator(".who").all_inner_texts() == [c.name for c in comparison().candidates]
    assert tab.locator("table.standing .strip .seed").count() == len(comparison().trials)
    first = [t.value for t in comparison().trials if t.candidate == comparison().candidates[0].name]
    heard = rows.first.locator(".strip").get_attribute("aria-label")
    assert all(f"{value:.4f}" in heard for value in first)
    assert f"{sum(first) / 3:.4f} ± " in rows.first.locator(".value").inner_text()
    assert tab.get_by_role("table", name="Candidates, best first").count() == 1


@pytest.mark.parametrize("name", ["five", "equal"])
def test_pairs_have_their_verdict_interval_and_p_value(read, name):
    tab, pairs = read(name), COMPARISONS[name]().pairs
    rows = tab.locator("table.differences tbody tr")
    assert rows.count() == len(pairs)
    for row, pair in zip(rows.all(), pairs, strict=True):
        words = {
            "different": f"{pair.better} is better",
            "equivalent": "equivalent",
            "undecided": "undecided; a new comparison needs",
        }
        assert row.locator(".summary").inner_text().startswith(words[pair.verdict])
        p = pair.p_equivalent if pair.verdict == "equivalent" else pair.p
        shown = row.locator(".p").inner_text()
        assert p < 1e-4 if shown == "< 0.0001" else float(shown) == pytest.approx(p, rel=0.05)
        low, high = (float(end.replace("−", "-")) for end in row.locator("td.interval").inner_text().split(" to "))
        assert (low > 0 or high < 0) == (pair.verdict == "different")
    different = sum(pair.verdict == "different" for pair in pairs)
    assert tab.locator(".against [data-kind='better']").count() == different
    assert tab.locator(".against [data-kind='equivalent']").count() == 2 * sum(pair.verdict == "equivalent" for pair in pairs)
    assert tab.locator(".differences rect.limit").count() == (len(pairs) if name == "equal" else 0)


def test_the_smallest_effect_is_a_fact_of_the_comparison(read):
    assert "smallest effect that matters\n0.02" in read("equal").locator(".facts").first.inner_text()
    assert "No smallest effect was fixed" in read().locator(".pairs .about").inner_text()


def test_the_same_variant_twice_is_called_the_same(read):
    tab = read("twice")
    assert tab.locator("table.differences .summary").all_inner_texts().count("identical") == 1
    assert "pre-norm again is better" in tab.locator("table.differences").inner_text()


@pytest.mark.parametrize("wide", few([390, 1280], 1))
def test_the_keyboard_reaches_a_point_and_its_reading_is_announced(read, wide):
    tab = read(wide=wide)
    plot(tab, "Learning curves").focus()
    tab.keyboard.press("End")
    assert re.match(r"rope, step 2000: validation loss 1\.\d+, from 1\.\d+ to 1\.\d+ over 3 seeds$", said(tab, "Learning curves"))
    tab.keyboard.press("ArrowLeft")
    assert said(tab, "Learning curves").startswith("rope, step 1900: ")
    tab.keyboard.press("ArrowDown")
    assert said(tab, "Learning curves").startswith("alibi, step 1900: ")
    assert tab.locator(".curves .reading li").count() == 5
    assert tab.locator(".curves .reading li[data-lit='true']").inner_text().startswith("alibi")
    tab.keyboard.press("Escape")
    assert tab.locator(".curves .reading li").count() == 0


def test_a_size_that_cannot_be_read_is_told_with_its_reason(read):
    tab = read()
    plot(tab, "Extrapolation").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    assert said(tab, "Extrapolation").startswith("learned at 2× (128 tokens of context): not supported. Its table has 64 rows")
    assert tab.locator(".extrapolation .cross").count() == 3
    assert "Its table has 64 rows" in tab.locator(".extrapolation .remarks").inner_text()


def test_pointing_reads_and_leaving_forgets(read):
    tab = read()
    plot(tab, "Quality").scroll_into_view_if_needed()
    box = plot(tab, "Quality").bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40)
    assert "none" in tab.locator(".cost .reading .place").inner_text()
    assert "training time\n3:1" in tab.locator(".cost .reading .facts").inner_text()
    tab.mouse.move(5, 5)
    assert tab.locator(".cost .reading .place").count() == 0


def test_touch_reads(read):
    tab = read(wide=390)
    plot(tab, "Learning curves").scroll_into_view_if_needed()
    box = plot(tab, "Learning curves").bounding_box()
    tab.touchscreen.tap(box["x"] + 150, box["y"] + 100)
    assert tab.locator(".curves .reading li").count() == 5


def test_who_is_drawn_is_chosen_and_is_in_the_link(read):
    tab = read()
    legend = tab.locator(".curves .legend")
    legend.get_by_role("button", name="none").click()
    legend.get_by_role("button", name="learned").click()
    assert legend.get_by_role("button", name="learned").evaluate("b => b === document.activeElement")
    tab.get_by_label("Band").select_option("seeds")
    hash = tab.evaluate("location.hash.slice(1)")
    assert hash == "without=4.3&band=seeds"
    again = read(fragment=hash)
    assert again.locator(".curves .series").count() == again.locator(".extrapolation .series").count() == 3
    assert again.locator(".curves .thread").count() == 9
    again.locator(".curves .legend").get_by_role("button", name="Show all").click()
    assert again.locator(".curves .series").count() == 5


def test_each_plot_is_a_table_too_and_a_picture(read):
    tab = read()
    for title, name in PLOTS.items():
        part = tab.locator(f".{name}")
        part.get_by_text("As a table").click()
        part.locator("tbody tr").first.wait_for()
        assert part.locator("tbody tr").count() == (21 if title == "Learning curves" else 5)
        for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            with tab.expect_download() as waiting:
                part.get_by_role("button", name=f"as {kind}").click()
            assert waiting.value.suggested_filename == f"Shakespeare-letter-by-letter-{name}.{kind.lower()}"
            content = waiting.value.path().read_bytes()
            assert content.startswith(begins)
            assert len(content) > 5000


def test_the_record_and_its_table_are_saved(read):
    tab = read("mixed")
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="Save as JSON").click()
    assert msgspec.json.decode(waiting.value.path().read_bytes(), type=Comparison) == mixed()
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(waiting.value.path().read_text(encoding="utf-8").splitlines()))
    assert [(r["candidate"], int(r["seed"]), r["state"]) for r in rows] == [(t.candidate, t.seed, t.state) for t in mixed().trials]
    assert [float(r["value"]) for r in rows if r["value"]] == [t.value for t in mixed().trials if t.value is not None]


def test_what_failed_is_told_and_the_others_are_drawn(read):
    tab = read("mixed")
    told = tab.locator("table.standing tbody tr").last.inner_text()
    assert "seeds 0 and 1 failed: The loss is no number after step 140." in told
    assert "seed 2 is not finished" in told
    assert "no result" in told
    assert "leaves the plot" in tab.locator(".curves .remarks").inner_text()


def test_of_one_seed_no_spread_is_shown(read):
    tab = read("once")
    assert "there is no spread" in tab.locator(".candidates .about").inner_text()
    assert "±" not in tab.locator("table.standing").inner_text()
    assert set(tab.locator("table.differences .summary").all_inner_texts()) == {"undecided: no spread to test it with"}
    assert tab.locator(".plot .band, .strip .band").count() == 0


def test_of_many_pairs_some_are_shown_until_all_are_asked_for(read):
    tab = read("many")
    rows = tab.locator("table.differences tbody tr")
    assert rows.count() == 12
    tab.get_by_role("button", name="All 66 pairs").click()
    assert rows.count() == 66


def test_symmetries_stand_side_by_side(read):
    tab = read()
    rows = tab.locator("table.respected tbody tr")
    for row, found in zip(rows.all(), comparison().candidates, strict=True):
        assert row.locator("td .judged").all_inner_texts() == list(found.verdicts.values())


@pytest.mark.parametrize("name", few(COMPARISONS, 2))
def test_nothing_is_wider_than_the_window(read, name):
    tab = read(name)
    for summary in tab.locator("summary").all():
        summary.click()
    for wide in (1280, 768, 390, 360):
        tab.set_viewport_size({"width": wide, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    slips = re.findall(r"NaN|undefined|\[object|\bnull\b|Infinity", tab.locator("body").inner_text())
    assert slips == []


def test_on_paper_every_pair_is_there_and_no_button(read):
    tab = read("many")
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("table.differences tbody tr").count() == 66
    assert tab.locator("button:visible").count() == 0
    assert len(tab.pdf()) > 10_000


def test_a_hostile_comparison_is_text_and_nothing_else(read):
    tab = read("hostile")
    tab.wait_for_timeout(100)
    assert tab.evaluate("window.stolen") is None
    assert tab.locator("h1").inner_text() == HOSTILE
    assert tab.locator("#app script, #app img").count() == 0


def test_without_a_script_there_are_tables(read):
    tab = read(script=False)
    assert tab.locator("h1").inner_text() == comparison().answer
    assert tab.locator("table").count() == 4


@pytest.mark.parametrize(
    ("name", "wide", "dark"),
    few([("five", 390, True), ("many", 1280, False), ("mixed", 390, False), ("five", 1280, False), ("many", 1280, True)], 2),
)
def test_the_page_has_no_barriers(read, name, wide, dark):
    tab = read(name, dark=dark, wide=wide, bypass_csp=True)
    for summary in tab.locator("summary").all():
        summary.click()
    assert barriers(tab) == []
