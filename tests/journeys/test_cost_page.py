"""The page of cost in a real browser, from disk: by mouse, keyboard and touch; its numbers are those of Python."""

import csv
import re
from pathlib import Path

import pytest

from equiscope.explore.page import write
from equiscope.explore.pages.cost import WORK, cost
from equiscope.models import PRESETS, describe
from equiscope.record.cost import amount
from tests.explore.costs import HOSTILE, PAGES, speeds
from tests.journeys.barriers import barriers
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
GPT = cost().presets[0]


@pytest.fixture(scope="session")
def priced(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("cost"), {}

    def page(name):
        if name not in made:
            content = PAGES[name]()
            made[name] = write(content, folder / f"{name}.html")
        return made[name]

    return page


@pytest.fixture
def read(watched, priced):
    """Opens a page of cost."""

    def open_page(fragment="", name="recorded", wide=1280, dark=False, script=True, bypass_csp=False):
        tab = watched(wide, dark, java_script_enabled=script, bypass_csp=bypass_csp, has_touch=wide < 500)
        tab.goto(f"{priced(name).as_uri()}#{fragment}")
        if script:
            tab.wait_for_selector("main h2")
        return tab

    return open_page


def cells(tab):
    """The table of parts: its formula, multiply-adds, parameters, by name."""
    rows = [row.locator("th, td").all_inner_texts() for row in tab.locator("table.parts tbody tr").all()]
    return {row[0]: (row[1], row[4], row[6]) for row in rows}


def wanted(sizes, has):
    """The same from Python."""
    out = {}
    for work in WORK:
        times = sizes["L"] if work.per_layer else 1
        value = f"{amount(work.full_pass, sizes, has) * times:,}" + ("" if work.counted else " exponentials")
        out[work.name] = value, f"{amount(work.parameters, sizes, has) * times:,}"
    return out


def numbers(tab):
    return {name: found[1:] for name, found in cells(tab).items() if name != "all"}


def slider(tab, letter):
    return tab.locator(f".size[data-size='{letter}'] input[type='range']")


def field(tab, letter):
    return tab.locator(f".size[data-size='{letter}'] input[type='text']")


@pytest.mark.parametrize(("wide", "dark"), few([(360, True), (1280, False)], 1))
def test_every_known_model_has_pythons_numbers(read, wide, dark):
    tab = read(wide=wide, dark=dark)
    for one in cost().presets:
        tab.locator(".known").get_by_role("button", name=one.title, exact=True).click()
        assert numbers(tab) == wanted(one.sizes, one.features)
        said = describe(PRESETS[one.name](), one.sizes["N"] - one.sizes["E"])
        assert cells(tab)["all"][1:] == (f"{said.multiply_adds:,}", f"{said.parameters:,}")
        assert tab.locator(".lede").inner_text().startswith(f"{one.title} on {one.sizes['N']:,} tokens: ")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no sideways scroll"


def test_formulas_are_those_of_the_textbook(read):
    tab = read()
    found = {name: formula for name, (formula, *_) in cells(tab).items()}
    assert (found["projections"], found["QKᵀ"], found["AV"], found["feed-forward"]) == ("4ND²", "N²D", "N²D", "8ND²")
    tab.goto(f"{tab.url.split('#')[0]}#model=llama-1b")
    tab.locator(".lede", has_text="Llama").wait_for()
    assert cells(tab)["projections"][0] == "2ND² + 2NDGK"
    assert cells(tab)["feed-forward"][0] == "12ND²"


def test_the_keyboard_moves_a_size_and_what_hangs_on_it_follows(read):
    tab = read()
    slider(tab, "D").focus()
    tab.keyboard.press("ArrowRight")
    assert slider(tab, "D").get_attribute("aria-valuetext") == "1,024"
    assert tab.evaluate("document.activeElement.type") == "range", "the slider keeps the focus"
    sizes = GPT.sizes | {"D": 1024, "F": 4096, "H": 16, "G": 16}
    assert numbers(tab) == wanted(sizes, GPT.features)
    assert tab.get_by_role("status").filter(has_text="12 heads do not divide a width of 1,024: now 16.").count() == 1
    assert tab.evaluate("location.hash") == "#D=1024&H=16&G=16&F=4096"


def test_a_slider_is_dragged_by_mouse(read):
    tab = read()
    box = slider(tab, "N").bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    for share in (0.6, 0.7, 0.8):
        tab.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
    tab.mouse.up()
    tokens = tab.evaluate("equiscope.running.cost.state.sizes.N")
    assert tokens > 4096
    assert numbers(tab) == wanted(GPT.sizes | {"N": tokens}, GPT.features)
    assert "GPT-2 has 1,024 learned positions" in tab.locator(".notice").inner_text()


def test_touch_sets_a_size_and_opens_a_piece_on_a_phone(read):
    tab = read(wide=360)
    slider(tab, "L").scroll_into_view_if_needed()
    box = slider(tab, "L").bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    layers = tab.evaluate("equiscope.running.cost.state.sizes.L")
    assert layers > 12
    assert numbers(tab) == wanted(GPT.sizes | {"L": layers}, GPT.features)
    tab.locator(".stack").scroll_into_view_if_needed()
    box = tab.locator(".stack [data-work='feed-forward'] rect").first.bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 20)
    told = tab.locator(".where .reading .arithmetic").inner_text()
    value = amount(WORK[5].full_pass, GPT.sizes, GPT.features) * layers
    assert told == f"L × 8ND² = {layers} × 8 · 1,024 · 768² = {value:,}"


def test_a_field_takes_any_number_and_refuses_heads_that_do_not_divide(read):
    tab = read()
    field(tab, "N").fill("1,500")
    field(tab, "N").press("Enter")
    assert numbers(tab) == wanted(GPT.sizes | {"N": 1500}, GPT.features)
    field(tab, "H").fill("7")
    field(tab, "H").press("Enter")
    assert field(tab, "H").get_attribute("aria-invalid") == "true"
    assert tab.locator("#wrong-H").inner_text() == "7 heads do not divide a width of 768. Take 6 or 8."
    assert tab.evaluate("equiscope.running.cost.state.sizes.H") == 12
    field(tab, "H").press("Escape")
    assert field(tab, "H").input_value() == "12"
    assert tab.locator("#wrong-H").inner_text() == ""
    field(tab, "F").fill("3.5")
    field(tab, "F").press("Enter")
    assert numbers(tab) == wanted(GPT.sizes | {"N": 1500, "F": 2688}, GPT.features)
    for text in ("0", "-4", "1e9", "many", "<b>"):
        field(tab, "L").fill(text)
        field(tab, "L").press("Enter")
        assert "layers: a whole number from 1 to 1,000." in tab.locator("#wrong-L").inner_text()


def test_shared_keys_and_a_gate_change_the_numbers(read):
    tab = read()
    field(tab, "G").fill("4")
    field(tab, "G").press("Enter")
    tab.get_by_label("gated feed-forward").check()
    assert numbers(tab) == wanted(GPT.sizes | {"G": 4}, [*GPT.features, "gate"])
    assert tab.evaluate("location.hash") == "#G=4&gate=on"


def test_a_link_brings_the_sizes_back_and_what_makes_no_sense_is_left_out(read):
    tab = read("model=llama-1b&N=333&D=512&B=3&bytes=4&view=heads")
    one = next(p for p in cost().presets if p.name == "llama-1b")
    sizes = one.sizes | {"N": 333, "D": 512, "B": 3}
    assert numbers(tab) == wanted(sizes, one.features)
    assert tab.get_by_label("Numbers as").input_value() == "4"
    assert tab.get_by_role("button", name="heads", exact=True).get_attribute("aria-pressed") == "true"
    tab = read("model=<script>&N=x&D=-1&H=7&bytes=3")
    assert numbers(tab) == wanted(GPT.sizes | {"H": 8, "G": 8}, GPT.features)


def test_pieces_are_read_by_keyboard_with_their_operands(read):
    tab = read()
    stack = tab.get_by_role("slider", name="Multiply-adds and parameters, piece by piece")
    stack.focus()
    tab.keyboard.press("Home")
    heard = stack.get_attribute("aria-valuetext")
    assert heard.startswith(f"projections: {amount(WORK[1].full_pass, GPT.sizes, []) * 12:,} multiply-adds, ")
    assert heard.endswith(f"L × 4ND² = 12 × 4 · 1,024 · 768² = {amount(WORK[1].full_pass, GPT.sizes, []) * 12:,}")
    tab.keyboard.press("ArrowDown")
    step = amount(WORK[1].decoding_step, GPT.sizes, []) * 12
    assert stack.get_attribute("aria-valuetext").startswith(f"projections: {step:,} multiply-adds, ")
    tab.keyboard.press("Escape")
    assert stack.get_attribute("aria-valuetext").startswith("no piece is chosen")


@pytest.mark.parametrize("wide", few([1280, 360], 1))
def test_where_attention_overtakes_is_said_and_marked(read, wide):
    tab = read(wide=wide)
    said = tab.locator(".crossings").inner_text()
    assert "N = 1,536 = 2 D\n(8D² − 4D²) / 2D = 2,359,296 / 1,536" in said
    assert "N = 3,072 = 4 D\n8D² / 2D = 4,718,592 / 1,536" in said
    assert "before both" in said
    marks = tab.locator(".length .plot .crossing").all_text_contents()
    assert marks == ["here: 1,024", "attention: N = 1,536 = 2 D", "QKᵀ and AV only: N = 3,072 = 4 D"]
    field(tab, "N").fill("2000")
    field(tab, "N").press("Enter")
    assert "beyond the first and before the second" in tab.locator(".crossings").inner_text()
    field(tab, "F").fill("2")
    field(tab, "F").press("Enter")
    assert "costs more at every length\n(4D² − 4D²) = 0" in tab.locator(".crossings").inner_text()


def test_a_curve_is_read_by_keyboard_and_stands_in_a_table(read):
    tab = read()
    plot = tab.get_by_role("slider", name="Where attention overtakes")
    plot.focus()
    tab.keyboard.press("Home")
    n = 8
    value = sum(amount(WORK[i].full_pass, GPT.sizes | {"N": n}, []) for i in (1, 2, 4))
    assert plot.get_attribute("aria-valuetext") == f"attention at {n} tokens: {value:,} multiply-adds per layer"
    tab.locator(".length summary").click()
    tab.locator(".length table").wait_for()
    first = tab.locator(".length table tbody tr").first.locator("th, td").all_inner_texts()
    assert first[:2] == ["8", f"{value:,}"]


def test_memory_and_the_cache_are_counted_in_bytes(read):
    tab = read()
    said = {row.get_attribute("data-store"): row.inner_text() for row in tab.locator(".stores li").all()}
    assert f"= {124_439_808 * 2:,} bytes" in said["parameters"]
    assert f"= {2 * 12 * 1024 * 768 * 2:,} bytes" in said["KV cache"]
    assert f"= {12 * 1024 * 1024 * 2:,} bytes" in said["attention matrix, one layer"]
    assert f"= {12 * 1024 * 4:,} bytes" in said["fused kernel, one layer"]
    tab.get_by_label("Numbers as").select_option("4")
    assert f"= {124_439_808 * 4:,} bytes" in tab.locator("[data-store='parameters']").inner_text()
    assert f"= {12 * 1024 * 4:,} bytes" in tab.locator("[data-store='fused kernel, one layer']").inner_text()


def test_a_token_more_with_the_cache_and_without(read):
    tab = read()
    step = sum(amount(w.decoding_step, GPT.sizes, GPT.features) * (12 if w.per_layer else 1) for w in WORK if w.counted)
    said = tab.locator(".generation").inner_text()
    assert f"{step:,} multiply-adds\nL · (12D² + 2ND) + DV\n= 12 · (12 · 768² + 2 · 1,024 · 768) + 768 · 50,257" in said
    assert step == 12 * (12 * 768**2 + 2 * 1024 * 768) + 768 * 50257
    assert f"{describe(PRESETS['gpt2'](), 1024).multiply_adds:,} multiply-adds" in said
    tab.locator(".known").get_by_role("button", name="BERT base").click()
    assert "This model is bidirectional" in tab.locator(".generation").inner_text()
    assert tab.locator("[data-store='KV cache']").count() == 0


@pytest.mark.parametrize("wide", few([360, 1280], 1))
def test_measured_points_are_those_of_the_record(read, wide):
    tab = read(wide=wide)
    found = speeds()
    assert found.cpu in tab.locator(".measured .about").inner_text()
    assert "one thread" in tab.locator(".measured .about").inner_text()
    fitted = [one for one in found.timings if one.fitted]
    assert tab.locator(".measured .plot .sign").count() == len(fitted)
    plot = tab.get_by_role("slider", name="Measured on this machine")
    plot.focus()
    tab.keyboard.press("End")
    largest = max((one for one in fitted if one.part == "attention"), key=lambda one: one.multiply_adds)
    heard = plot.get_attribute("aria-valuetext")
    assert heard.startswith(f"attention, fused kernel, N = {largest.n:,}, D = {largest.d:,}, H = {largest.heads}: ")
    assert float(re.search(r": ([\d.,]+) ms", heard)[1].replace(",", "")) == pytest.approx(largest.median, rel=5e-3)
    assert f"for {largest.multiply_adds:,} multiply-adds" in heard
    tab.get_by_role("button", name="heads", exact=True).click()
    others = {one.heads for one in found.timings if not one.fitted}
    assert tab.locator(".measured .plot .sign").count() == 2 * (len(others) + 1)
    assert "does not change the multiply-adds" in tab.locator(".measured .why").inner_text()
    tab.get_by_role("button", name="tokens", exact=True).click()
    tab.locator(".measured summary").click()
    tab.locator(".measured table").wait_for()
    assert tab.locator(".measured table tbody tr").count() == len(found.timings)


def test_a_page_without_times_shows_formulas_alone(read):
    tab = read(name="formulas")
    assert tab.locator(".measured").count() == 0
    assert numbers(tab) == wanted(GPT.sizes, GPT.features)


def test_a_hostile_name_of_a_processor_is_text(read):
    tab = read(name="hostile")
    assert HOSTILE in tab.locator(".measured .about").inner_text()
    assert tab.locator(".measured img, .measured .about b").count() == 0


def test_pictures_are_saved(read):
    tab = read()
    for part in ("where", "length", "memory", "measured"):
        for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            with tab.expect_download() as saved:
                tab.locator(f".part.{part} .head").get_by_role("button", name=f"as {kind}").click()
            data = Path(saved.value.path()).read_bytes()
            assert saved.value.suggested_filename.endswith(f".{kind.lower()}")
            assert data.startswith(begins)
            assert len(data) > 2000


def test_the_table_is_saved_for_a_spreadsheet(read):
    tab = read()
    with tab.expect_download() as saved:
        tab.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(Path(saved.value.path()).read_text(encoding="utf-8").splitlines()))
    found = {row["part"]: row["multiply-adds"] for row in rows}
    assert found["all"] == str(describe(PRESETS["gpt2"](), 1024).multiply_adds)


@pytest.mark.parametrize("name", ["recorded", "hostile"])
def test_without_javascript_the_page_is_tables(read, name):
    tab = read(name=name, script=False)
    assert "needs JavaScript" in tab.locator("body").inner_text()
    assert tab.get_by_role("cell", name="145,824,153,600").count() == 1
    assert tab.locator("h2").count() == 4
    assert tab.locator("img").count() == 0


@pytest.mark.parametrize(
    ("wide", "dark", "fragment"), few([(1280, False, ""), (360, True, "view=heads&N=5000"), (1280, True, "")], 2)
)
def test_the_page_has_no_barriers(read, wide, dark, fragment):
    tab = read(fragment, wide=wide, dark=dark, bypass_csp=True)
    for summary in tab.locator("summary").all():
        summary.click()
    field(tab, "H").fill("7")
    field(tab, "H").press("Enter")
    assert barriers(tab) == []
