"""The page of a run in a real browser: read by mouse and keyboard, heard, on a phone, in the dark, hostile; and while it trains."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from equiscope.explore import Live, write
from equiscope.explore.server import server
from equiscope.record import Run, Score, read_run, run_report, unpack
from tests.explore.runs import HOSTILE, attention, hostile, long, lost, pictured, point, run, translated
from tests.journeys.barriers import barriers
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
RUNS = {
    "run": run, "translated": translated, "pictured": pictured, "hostile": hostile, "long": long, "lost": lost,
    "going": lambda: run(done=30), "empty": lambda: run(done=0, samples=[], scores=[]),
}  # fmt: skip


@pytest.fixture
def read(watched, tmp_path):
    """Opens a run's page."""

    def open_page(name="run", fragment="", wide=1280, dark=False, script=True, bypass_csp=False):
        tab = watched(wide, dark, java_script_enabled=script, bypass_csp=bypass_csp, has_touch=wide < 500)
        tab.goto(f"{write(run_report(RUNS[name]()), tmp_path / f'{name}.html').as_uri()}#{fragment}")
        tab.wait_for_selector("main .curves .plot svg" if script else "h1")
        return tab

    return open_page


def readout(tab):
    """The numbers under the curve: what the record says, in full."""
    cells = tab.locator(".readout > div").all()
    return {c.locator("dt").inner_text(): float(c.locator("dd").get_attribute("data-value")) for c in cells}


def wait_for_step(tab, step):
    tab.locator(f'.readout > :first-child dd[data-value="{step}"]').wait_for()


def wait_until_after(tab, step, seconds=120):
    """Until the page has a later one. (A predicate in the page would need eval, which its policy forbids.)"""
    for _ in range(10 * seconds):
        if curve(tab).count() and readout(tab).get("step", 0) > step:
            return
        tab.wait_for_timeout(100)
    pytest.fail(f"the page never showed a step after {step}")


def curve(tab):
    return tab.get_by_role("slider", name="Loss by step")


def test_the_page_begins_with_what_came_of_it(read):
    tab = read()
    assert tab.locator("h1").inner_text() == run().title
    assert tab.locator(".summary").inner_text() == run_report(run()).summary
    assert "ab" * 32 in tab.locator(".provenance").inner_text()
    assert tab.locator("table.by-step tbody tr").count() == len(run().scores)


def test_pointing_reads_the_number_of_the_record(read):
    tab = read()
    box = curve(tab).bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    tab.locator('.readout > :first-child dd:not([data-value="60"])').wait_for()
    told = readout(tab)
    expected = run().points[int(told["step"]) - 1]
    assert 25 < expected.step < 35
    assert (told["training loss"], told["learning rate"], told["gradient norm"]) == (expected.loss, expected.rate, expected.norm)


def test_the_keyboard_walks_along_the_curve_and_is_told_where_it_is(read):
    tab = read()
    curve(tab).focus()
    for key, step in (("Home", 1), ("ArrowRight", 2), ("PageUp", 5), ("ArrowLeft", 4), ("End", 60)):
        tab.keyboard.press(key)
        wait_for_step(tab, step)
        assert readout(tab)["training loss"] == run().points[step - 1].loss
        assert curve(tab).get_attribute("aria-valuetext").startswith(f"step {step}: training loss ")
    assert "validation loss 1.25" in curve(tab).get_attribute("aria-valuetext")
    tab.keyboard.press("Escape")
    assert readout(tab)["step"] == 60


def test_the_curve_is_a_table_too(read):
    tab = read()
    tab.get_by_text("The curve as a table").click()
    rows = tab.locator(".points tbody tr")
    rows.first.wait_for()
    assert rows.count() == 60
    assert rows.nth(9).locator("td").first.inner_text() == f"{run().points[9].loss:.7g}"


def test_answers_and_attention_follow_the_slider(read):
    tab = read()
    assert tab.locator(".samples").inner_text() == "abcd after 60"
    tab.get_by_role("slider", name="after this step").focus()
    tab.keyboard.press("Home")
    assert tab.locator(".samples").inner_text() == "abcd after 0"
    assert "at=0" in tab.evaluate("location.hash")
    tab.get_by_role("button", name="L0H1").click()
    field = tab.get_by_role("application", name="weights of L0H1")
    field.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    weight = attention(step=0)[0, 1, 1, 1]
    assert tab.locator(".reading").inner_text() == f"“↵” 1 attends to “↵” 1: {weight:g}"
    again = read(fragment=tab.evaluate("location.hash.slice(1)"))
    assert again.locator(".samples").inner_text() == "abcd after 0"
    assert "L0H1" in again.locator(".enlarged h4").inner_text()


def test_all_steps_are_played(read):
    tab = read()
    tab.get_by_role("button", name="Play").click()
    seen = set()
    for _ in range(40):
        seen.add(tab.locator(".sliding output").inner_text())
        if len(seen) == 4 and tab.get_by_role("button", name="Play").count():  # it has ended
            break
        tab.wait_for_timeout(100)
    assert seen == {"0", "20", "40", "60"}
    assert tab.get_by_role("button", name="Play").count() == 1


def test_a_translation_shows_what_was_wanted_and_where_it_looked(read):
    tab = read("translated")
    assert tab.locator(".compared .output").inner_text() == "A dog sleeps.correct"
    assert tab.locator(".columns span").all_inner_texts() == ["Ein", "Hund", "schläft", ".", "</s>"]
    assert tab.locator(".mosaic button").count() == 3 * 4


def test_a_picture_is_lit_where_its_class_looked(read):
    tab = read("pictured")
    field = tab.get_by_role("application", name="weights of L1H0")
    assert field.locator("canvas").count() == 2
    field.focus()
    tab.keyboard.press("ArrowDown")
    assert tab.locator(".reading").inner_text() == f"“7”: {unpack(pictured().samples[-1].attention)[1, 0, 0, 7]:g}"


def test_what_was_chosen_is_in_the_link(read):
    tab = read()
    tab.get_by_role("button", name="Logarithmic").click()
    tab.get_by_label("x axis").select_option("time")
    tab.get_by_label("Smoothing").select_option("10")
    hash = tab.evaluate("location.hash.slice(1)")
    assert sorted(hash.split("&")) == ["axis=log", "over=time", "smooth=10"]
    again = read(fragment=hash)
    assert again.get_by_role("button", name="Logarithmic").get_attribute("aria-pressed") == "true"
    assert "mean of the last 10 steps" in again.locator(".key").inner_text()


def test_the_record_is_saved_as_python_reads_it(read):
    tab = read()
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="Download record").click()
    assert msgspec.json.decode(waiting.value.path().read_bytes(), type=Run) == run()


@pytest.mark.parametrize("name", few(RUNS, 2))
def test_nothing_is_wider_than_the_window(read, name):
    tab = read(name)
    tab.get_by_text("The curve as a table").click()
    for wide in (1280, 768, 360):
        tab.set_viewport_size({"width": wide, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    slips = re.findall(r"NaN|undefined|\[object|\bnull\b|Infinity", tab.locator("body").inner_text())
    assert slips == []


def test_a_hostile_run_is_text_and_nothing_else(read):
    tab = read("hostile")
    tab.wait_for_timeout(100)
    assert tab.evaluate("window.stolen") is None
    assert HOSTILE in tab.locator("h1").inner_text()
    assert tab.locator("#app script, #app img").count() == 0


def test_without_a_script_there_are_tables(read):
    tab = read(script=False)
    assert run_report(run()).summary in tab.locator(".bare-report").inner_text()
    assert tab.locator("table").count() == 4


@pytest.mark.parametrize(
    ("name", "wide", "dark"), few([("run", 1280, False), ("translated", 360, True), ("pictured", 1280, False)], 2)
)
def test_the_page_has_no_barriers(read, name, wide, dark):
    tab = read(name, dark=dark, wide=wide, bypass_csp=True)
    tab.get_by_text("The curve as a table").click()
    assert barriers(tab, "moderate") == []


# --- while it trains ---------------------------------------------------------------------------------------------------


@pytest.fixture
def tab(browser):
    """A tab that may speak to this machine; what it throws fails the test."""
    troubles, context = [], browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    made = context.new_page()
    made.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    made.on("request", lambda asked: troubles.append(asked.url) if not re.match(r"http://127\.0\.0\.1:\d+/", asked.url) else None)
    yield made
    context.close()
    assert troubles == []


def test_the_curve_grows_while_the_page_is_open(tab):
    live = Live(run(done=0, samples=[], scores=[]), [])
    with server(live.page, 18965, {"/entries": live.answer}) as made:
        tab.goto(made.url)
        assert "Beginning" in tab.locator(".summary").inner_text()
        for last in (5, 12):
            for step in range(last - 4, last + 1):
                live.add(point(step))
            wait_for_step(tab, last)
            assert readout(tab)["training loss"] == point(last).loss
        curve(tab).focus()
        tab.keyboard.press("Home")
        live.add(Score(step=12, part="validation", values={"loss": 2.5}, best=True))
        tab.locator("table.by-step").wait_for()
        assert readout(tab)["step"] == 1, "what is pointed at stays"
        live.state(run())
        tab.get_by_text(run_report(run()).summary).wait_for()
    tab.wait_for_timeout(1500)
    assert tab.locator(".summary").inner_text() == run_report(run()).summary
    assert tab.locator(".notice").count() == 0, "a run that has ended needs no server"


def free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_training_is_watched_through_a_kill_and_on_to_its_end(tab, tmp_path):
    folder, port, steps = tmp_path / "run", free(), 500  # so many that it goes on while the page is read
    command = [
        sys.executable, "-m", "equiscope.cli", "train", str(ROOT / "recipes" / "shakespeare-char-cpu.toml"), "--small",
        "--set", f"budget.steps={steps}", "--set", "evaluation.every=125", "--set", "data.context=16", "--set", "model.width=32",
        "--out", str(folder), "--live", "--no-browser", "--port", str(port),
    ]  # fmt: skip
    settings = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True, "env": os.environ | {"OMP_NUM_THREADS": "1"}}

    def begun(training) -> None:
        for line in training.stderr:
            if "can be watched at" in line:
                assert f"http://127.0.0.1:{port}/" in line
                return
        pytest.fail("the training never said where it can be watched")

    with subprocess.Popen(command, **settings) as training:
        begun(training)
        tab.goto(f"http://127.0.0.1:{port}/")
        wait_until_after(tab, 5)
        training.send_signal(signal.SIGKILL)
    tab.get_by_text("No response: the training or the page's server has ended").wait_for()
    before = read_run(folder)
    with subprocess.Popen(command, **settings) as training:
        begun(training)
        tab.get_by_text("No response: the training or the page's server has ended").wait_for(state="detached", timeout=60_000)
        tab.get_by_text(f"Finished after {steps} steps").wait_for(timeout=120_000)
        training.communicate(timeout=60)
        assert training.returncode == 0
    after = read_run(folder)
    assert after.points[: len(before.points)][0].loss == before.points[0].loss
    assert len(after.points) == steps
    assert readout(tab)["training loss"] == after.points[-1].loss
    assert tab.locator("table.by-step tbody tr").count() == len(after.scores) == 5
