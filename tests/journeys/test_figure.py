"""Figures and exercises in documents of every kind: from the files of docs/howto/hosts, in Chromium, offline.

Quarto is not run: its HTML writer is pandoc's, which runs where it is installed.
"""

import json
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import pytest

from equiscope.explore import figure
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser
HOSTS = Path(__file__).parents[2] / "docs" / "howto" / "hosts"
if not HOSTS.exists():
    pytest.skip("docs/ is not in the source archive", allow_module_level=True)
REVEAL = Path(__file__).parents[2] / "web" / "node_modules" / "reveal.js"
ROWS = "figure[data-id$='feedforward_norm.rms_norm'] .line"  # of the output


@pytest.fixture(scope="session")
def beside(tmp_path_factory, exported):
    """A folder with the example files, and beside them what `equiscope figure` writes."""
    folder = tmp_path_factory.mktemp("hosts")
    shutil.copytree(HOSTS, folder, dirs_exist_ok=True)
    shutil.copy(exported(), folder / "love.html")
    (folder / figure.SCRIPT).write_text(figure.script(), encoding="utf-8")
    options = {"state": "story=shuffle", "part": "strip output"}
    (folder / "love-figure.html").write_text(figure.embedded(folder / "love.html", **options), encoding="utf-8")
    return folder


@pytest.fixture
def read(watched, beside):
    """Opens a document of the folder."""

    def open_document(name="plain.html", wide=1280, dark=False, folder=beside, ready="equiscope-figure iframe", **options):
        tab = watched(wide, dark, **options)
        tab.goto((folder / name).as_uri())
        tab.wait_for_selector(ready)
        return tab

    return open_document


def inside(tab, selector="equiscope-figure"):
    """The page of a figure, when it is drawn."""
    tab.locator(selector).first.scroll_into_view_if_needed()
    element = tab.locator(f"{selector} iframe").first
    frame = element.element_handle().content_frame()
    frame.wait_for_selector("main", state="attached")
    return frame


def visible(frame):
    """Names of the parts that are on screen."""
    return frame.evaluate(
        "[...new Set([...document.querySelectorAll('[data-part]')].filter((e) => e.checkVisibility() && e.offsetHeight)"
        ".flatMap((e) => e.dataset.part.split(' ')))]"
    )


def words(frame):
    """The words of the output's rows, as they stand."""
    return frame.locator("[data-part=output] figure.matrix").first.locator(".rowname").all_inner_texts()


def written(folder, beside, body):
    """A document with this content beside the figure's files."""
    text = (
        '<!doctype html><html lang="en"><head><title>t</title><script src="{}"></script></head><body><main>{}</main></body></html>'
    )
    (folder / "made.html").write_text(text.format(figure.SCRIPT, body), encoding="utf-8")
    for name in ("love.html", figure.SCRIPT):
        shutil.copy(beside / name, folder / name)
    return folder


def until(tab, holds):
    for _ in range(100):
        if holds():
            return
        tab.wait_for_timeout(50)
    raise AssertionError("it did not come to that")


def test_a_figure_shows_the_parts_that_it_names_and_the_others_on_demand(read):
    tab = read()
    frame = inside(tab, "#shuffled")
    assert set(visible(frame)) == {"strip", "verdict", "output"}
    frame.get_by_role("button", name="more").click()
    assert {"inside", "controls"} <= set(visible(frame))
    assert not {"title", "tools", "tabs", "sentence", "footer"} & set(visible(frame))
    frame.get_by_role("button", name="less").click()
    assert "inside" not in visible(frame)


def test_a_figure_is_a_named_frame_without_an_origin_as_high_as_its_page(read):
    tab = read()
    frame = inside(tab, "#shuffled")
    element = tab.locator("#shuffled iframe")
    assert element.get_attribute("title") == tab.locator("#shuffled").get_attribute("title")
    assert "allow-same-origin" not in element.get_attribute("sandbox")
    assert frame.evaluate("origin") == "null"
    until(tab, lambda: frame.evaluate("document.documentElement.scrollHeight <= innerHeight + 1"))
    before = element.bounding_box()["height"]
    frame.get_by_role("button", name="more").click()
    until(tab, lambda: element.bounding_box()["height"] > before + 50)
    assert tab.get_by_text("With JavaScript").is_hidden(), "the text for readers without JavaScript"


def test_what_a_reader_does_is_the_state_of_the_figure(read):
    tab = read()
    tab.evaluate("addEventListener('equiscope-state', (e) => (window.heard ??= []).push([e.target.id, e.detail.state]))")
    frame = inside(tab, "#shuffled")
    assert tab.evaluate("window.heard") is None, "nobody has done anything"
    frame.get_by_role("button", name="Reverse").click()
    until(tab, lambda: tab.evaluate("window.heard"))
    assert tab.evaluate("heard.at(-1)") == ["shuffled", "story=shuffle&order=2%2C1%2C0"]
    assert tab.evaluate("document.getElementById('shuffled').state") == "story=shuffle&order=2%2C1%2C0"
    assert tab.locator("#shuffled a").get_attribute("href") == "love.html#story=shuffle&order=2%2C1%2C0"
    tab.locator("#shuffled").get_by_role("button", name="reset").click()
    until(tab, lambda: words(frame) == ["Love", "conquers", "all"])
    assert tab.evaluate("history.length") == 1 or tab.evaluate("location.hash") == ""


def test_changes_of_a_reader_and_of_the_text_are_undone_one_by_one(read):
    tab = read()
    frame, undo = inside(tab, "#shuffled"), tab.locator("#shuffled").get_by_role("button", name="undo")
    assert undo.is_disabled()
    frame.get_by_role("button", name="Reverse").click()
    until(tab, lambda: undo.is_enabled())
    tab.wait_for_timeout(800)  # changes that follow at once are one step
    tab.get_by_role("link", name="all Love conquers").click()
    until(tab, lambda: words(frame) == ["all", "Love", "conquers"])
    undo.click()
    until(tab, lambda: words(frame) == ["all", "conquers", "Love"])
    undo.click()
    until(tab, lambda: words(frame) == ["Love", "conquers", "all"])
    assert undo.is_disabled()


def test_a_link_of_the_text_changes_the_figure(read):
    tab = read()
    frame = inside(tab, "#shuffled")
    tab.get_by_role("link", name="all Love conquers").click()
    until(tab, lambda: words(frame) == ["all", "Love", "conquers"])
    assert frame.locator("[data-part=verdict] .verdict").get_attribute("data-verdict") == "holds"
    tab.get_by_role("link", name="with sinusoidal positions").click()
    until(tab, lambda: frame.locator("[data-part=verdict] .verdict").get_attribute("data-verdict") == "broken")
    assert "with sinusoidal positions" in tab.locator("#shuffled [role=status]").inner_text()


def test_a_figure_is_loaded_when_the_reader_comes_near(read, beside, tmp_path):
    text = (beside / "plain.html").read_text(encoding="utf-8")
    far = tmp_path / "far.html"
    far.write_text(text.replace("<h2>An exercise", '<div style="height:400vh"></div><h2>An exercise'), encoding="utf-8")
    for name in ("love.html", figure.SCRIPT):
        shutil.copy(beside / name, tmp_path / name)
    tab = read("far.html", folder=tmp_path)
    inside(tab, "#shuffled")
    assert tab.locator("#attention iframe").count() == 0
    tab.get_by_role("heading", name="An exercise").scroll_into_view_if_needed()
    assert "queries" in visible(inside(tab, "#attention"))


def test_of_many_figures_those_far_away_are_taken_down_and_keep_their_state_and_room(read, beside, tmp_path):
    one = '<equiscope-figure id="f{}" src="love.html" state="story=shuffle" part="strip output" title="{}"></equiscope-figure>'
    room = '<div style="height:150vh"></div>'
    tab = read("made.html", folder=written(tmp_path, beside, room.join(one.format(i, i) for i in range(12))))
    inside(tab, "#f0").get_by_role("button", name="Reverse").click()
    until(tab, lambda: tab.evaluate("document.getElementById('f0').state") == "story=shuffle&order=2%2C1%2C0")
    tab.evaluate("document.activeElement.blur()")  # the one that holds the focus stays
    top = "document.getElementById('f11').getBoundingClientRect().top + scrollY"
    for i in range(1, 12):
        words(inside(tab, f"#f{i}"))
    assert tab.locator("equiscope-figure iframe").count() == 8
    assert tab.locator("#f0 iframe").count() == 0
    before = tab.evaluate(top)
    tab.locator("#f0").scroll_into_view_if_needed()
    frame = inside(tab, "#f0")
    until(tab, lambda: words(frame) == ["all", "conquers", "Love"])
    assert tab.locator("equiscope-figure iframe").count() == 8
    until(tab, lambda: abs(tab.evaluate(top) - before) < 1)


def test_the_line_of_arithmetic_and_the_focus_stay_on_screen(read):
    tab = read()
    frame = inside(tab, "#attention")
    tab.set_viewport_size({"width": 1280, "height": 500})
    tab.evaluate("document.getElementById('attention').scrollIntoView()")
    tab.wait_for_timeout(300)
    edge = tab.locator("#attention iframe").bounding_box()
    below = edge["y"] + edge["height"] - 500
    assert below > 100, "the figure is higher than the screen"
    bar = "document.querySelector('.explain').getBoundingClientRect().bottom - innerHeight"
    until(tab, lambda: abs(frame.evaluate(bar) + below) < 2)
    last = frame.locator("[data-symbol=A] .cell").last
    frame.locator("[data-symbol=X] .cell").first.focus()
    last.press("Shift")  # a key, so that the focus counts as one of a keyboard
    last.focus()
    until(tab, lambda: tab.locator("#attention iframe").bounding_box()["y"] < edge["y"] - 50)
    box = last.bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 500


def test_open_shows_the_whole_page_with_the_state_of_the_figure(read, watched, beside):
    tab = read()
    inside(tab, "#shuffled").get_by_role("button", name="Reverse").click()
    until(tab, lambda: "order" in tab.locator("#shuffled a").get_attribute("href"))
    with tab.context.expect_page() as opened:
        tab.locator("#shuffled").get_by_role("link", name="open").click()
    whole = opened.value
    whole.wait_for_selector("nav.tabs")
    assert whole.evaluate("equiscope.app.state.order") == [2, 1, 0]
    packed = watched()
    packed.goto((beside / "love-figure.html").as_uri())
    packed.wait_for_selector("equiscope-figure iframe")
    packed.evaluate("document.querySelector('equiscope-figure').merge('order=2,1,0')")
    with packed.context.expect_page() as opened:
        packed.locator("equiscope-figure").get_by_role("link", name="open").click()
    whole = opened.value
    whole.wait_for_selector("nav.tabs")
    assert whole.evaluate("equiscope.app.state.order") == [2, 1, 0]


# ------------------------------------------------------------------------------------------------------------------ exercises

RIGHT = {"model.blocks.0.attention.q_proj.weight.mT": {"0,0": 0, "0,1": 0, "1,1": 0}}


def status(tab):
    return tab.locator("equiscope-exercise [role=status]")


def edit(frame, row, column, number):
    """Change a number of W_Q by keyboard."""
    cell = frame.locator(f"[data-symbol='W_Q'] [data-r='{row}'][data-c='{column}']")
    cell.focus()
    cell.press("Enter")
    frame.locator(".editor input").fill(str(number))
    frame.locator(".editor input").press("Enter")


def test_an_exercise_is_predicted_tried_and_marked_by_the_figure(read):
    tab = read()
    tab.evaluate("addEventListener('equiscope-solved', (e) => (window.solved = e.detail.state))")
    frame, exercise = inside(tab, "#attention"), tab.locator("equiscope-exercise")
    exercise.get_by_role("button", name="Check").click()
    assert status(tab).inner_text() == "Predict first: choose one of the answers."
    exercise.get_by_label("Two").check()
    exercise.get_by_role("button", name="Check").click()
    until(tab, lambda: status(tab).inner_text().startswith("✗ Not yet. The row of “"))
    exercise.get_by_role("button", name="Hint").click()
    assert exercise.locator("[data-hint]").is_visible()
    for row, column in ((0, 0), (0, 1)):
        edit(frame, row, column, 0)
    exercise.get_by_role("button", name="Check").click()
    until(tab, lambda: status(tab).inner_text().startswith("✗ Not yet."))
    edit(frame, 1, 1, 0)
    until(tab, lambda: status(tab).inner_text().startswith("✓ Right. Every row of A is uniform: each weight is 0.333."))
    assert "“Three”" in status(tab).inner_text()
    assert tab.evaluate("solved") == "predicted=1&hints=1&solved=1"
    edit(frame, 1, 1, 1)
    until(tab, lambda: status(tab).inner_text().startswith("✗ Not yet."))


def test_the_answer_is_shown_in_the_figure_and_is_no_solution_of_the_reader(read):
    tab = read()
    tab.evaluate("addEventListener('equiscope-solved', () => (window.solved = true))")
    frame, exercise = inside(tab, "#attention"), tab.locator("equiscope-exercise")
    assert exercise.locator("[data-answer]").is_hidden()
    exercise.get_by_role("button", name="Reveal").click()
    until(tab, lambda: status(tab).inner_text().startswith("✓ Shown. Every row of A is uniform"))
    assert exercise.locator("[data-answer]").is_visible()
    assert json.loads(frame.evaluate("JSON.stringify(equiscope.app.state.edits)")) == RIGHT
    assert tab.evaluate("window.solved") is None
    exercise.get_by_role("button", name="Try again").click()
    until(tab, lambda: frame.evaluate("JSON.stringify(equiscope.app.state.edits)") == "{}")
    assert exercise.locator("[data-answer]").is_hidden()


def test_an_exercise_is_solved_with_the_keyboard_alone(read):
    tab = read()
    frame = inside(tab, "#shuffled")
    frame.get_by_role("button", name="Reverse").wait_for()
    inside(tab, "#attention")
    focused = """(() => {
        let at = document.activeElement;
        while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
        return at.tagName;
    })()"""
    within = "document.hasFocus() ? [...document.querySelectorAll('*')].indexOf(document.activeElement) : -1"

    def press_tab():
        """The figure is another process: between the two the focus is on BODY for a moment."""
        before = at = tab.evaluate(focused), frame.evaluate(within)
        tab.keyboard.press("Tab")
        for _ in range(100):
            at = tab.evaluate(focused), frame.evaluate(within)
            if at != before and at[0] != "BODY" and (at[0] == "IFRAME") == (at[1] > 1):
                return at[0]
            tab.wait_for_timeout(50)
        raise AssertionError(f"after Tab the focus stays {before}, {at}")

    tab.get_by_role("link", name="with sinusoidal positions").focus()
    assert press_tab() == "IFRAME", "the focus goes in"
    steps = 0
    while (at := press_tab()) == "IFRAME" and steps < 40:
        steps += 1
    assert at == "BUTTON", "and out again: reset"
    tab.locator("equiscope-exercise").get_by_label("One").focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    until(tab, lambda: status(tab).inner_text().startswith("✗ Not yet."))
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    until(tab, lambda: status(tab).inner_text().startswith("✓ Shown.") and "Your prediction was right." in status(tab).inner_text())


def test_states_of_exercises_can_be_kept_and_set(read):
    tab = read()
    tab.evaluate("document.querySelector('equiscope-exercise').state = 'predicted=2&hints=1&solved=1'")
    assert tab.get_by_role("radio", name="Three").is_checked()
    assert status(tab).inner_text().startswith("✓ Solved.")
    assert tab.locator("[data-hint]").is_visible()
    assert tab.evaluate("document.querySelector('equiscope-exercise').state") == "predicted=2&hints=1&solved=1"


def test_what_cannot_be_shown_or_marked_says_why(read, beside, tmp_path):
    body = (
        '<equiscope-figure id="a" src="love.html" part="stirp" title="a"></equiscope-figure>'
        '<equiscope-exercise id="b" figure="a" goal="fame"><p>Be famous.</p></equiscope-exercise>'
        '<equiscope-exercise id="c" figure="z" goal="fame"><p>Be famous.</p></equiscope-exercise>'
    )
    tab = read("made.html", folder=written(tmp_path, beside, body))
    assert inside(tab, "#a").locator(".failed").last.inner_text().startswith("This page has no part “stirp”. It has: ")
    for name in "bc":
        tab.locator(f"#{name}").get_by_role("button", name="Check").click()
    until(tab, lambda: "has no goal “fame”. It has: uniform-attention, " in tab.locator("#b [role=status]").inner_text())
    assert "There is no figure with the id “z”" in tab.locator("#c [role=status]").inner_text()


# ---------------------------------------------------------------------------------------------------------- where it stands


def test_a_page_in_the_document_works_in_a_sandboxed_frame_in_memory(watched, beside):
    tab = watched()
    tab.goto((beside / "sandboxed.html").as_uri())
    host = tab.wait_for_selector("iframe").content_frame()
    host.wait_for_selector("equiscope-figure iframe")
    frame = host.wait_for_selector("equiscope-figure iframe").content_frame()
    frame.wait_for_selector("main .words")
    assert set(visible(frame)) == {"strip", "output"}
    before = tab.evaluate("history.length")
    frame.get_by_role("button", name="Reverse").click()
    until(tab, lambda: host.evaluate("document.querySelector('equiscope-figure').state") == "story=shuffle&order=2%2C1%2C0")
    host.evaluate("document.querySelector('equiscope-figure').merge('order=2,0,1')")
    until(tab, lambda: words(frame) == ["all", "Love", "conquers"])
    assert tab.evaluate("history.length") == before
    host.get_by_role("button", name="reset").click()
    until(tab, lambda: words(frame) == ["Love", "conquers", "all"])


@pytest.fixture
def served(beside):
    """The folder on a server of this machine -> its address."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(beside))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_files_of_a_web_server_are_shown_in_a_sandboxed_frame_too(browser, served):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab, asked = context.new_page(), []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{served}/plain.html")
    inside(tab, "#shuffled").get_by_role("button", name="Reverse").click()
    until(tab, lambda: tab.evaluate("document.getElementById('shuffled').state") == "story=shuffle&order=2%2C1%2C0")
    tab.set_content(f'<iframe src="{served}/plain.html" sandbox="allow-scripts" width="900" height="800"></iframe>')
    host = tab.wait_for_selector("iframe").content_frame()
    frame = host.wait_for_selector("#shuffled iframe").content_frame()
    frame.wait_for_selector("main .words")
    frame.get_by_role("button", name="Reverse").click()
    until(tab, lambda: host.evaluate("document.getElementById('shuffled').state") == "story=shuffle&order=2%2C1%2C0")
    assert {url.partition("#")[0].rpartition("/")[2] for url in asked} <= {"plain.html", "love.html", figure.SCRIPT, "favicon.ico"}
    context.close()


def test_state_lives_in_memory_where_a_frame_has_no_history(watched, beside):
    tab = watched()
    tab.add_init_script("if (parent !== window) History.prototype.replaceState = () => { throw new Error('no history') }")
    tab.goto((beside / "love-figure.html").as_uri())
    frame = tab.wait_for_selector("equiscope-figure iframe").content_frame()
    frame.wait_for_selector("main .words")
    frame.get_by_role("button", name="Reverse").click()
    until(tab, lambda: tab.evaluate("document.querySelector('equiscope-figure').state") == "story=shuffle&order=2%2C1%2C0")
    tab.evaluate("document.querySelector('equiscope-figure').state = 'story=shuffle&order=2,0,1'")
    until(tab, lambda: words(frame) == ["all", "Love", "conquers"])


@pytest.mark.parametrize(("wide", "dark"), [(1280, False), (390, True)])
def test_nothing_keeps_anybody_from_figures_and_exercises(read, wide, dark):
    tab = read(wide=wide, dark=dark, has_touch=wide < 500)
    for name in ("#shuffled", "#attention"):
        frame = inside(tab, name)
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert barriers(frame, "serious") == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.locator("equiscope-exercise").get_by_role("button", name="Reveal").click()
    until(tab, lambda: status(tab).inner_text().startswith("✓ Shown."))
    assert barriers(tab, "moderate", within="main") == []


def test_a_figure_is_dark_where_the_text_is_bright(read):
    tab = read()
    tab.emulate_media(color_scheme="null")  # else what a test emulates holds in every frame
    frame = inside(tab, "#shuffled")
    for dark in (True, False):
        tab.evaluate("dark => { document.body.style.color = dark ? '#eee' : '#111'; }", dark)
        until(tab, lambda dark=dark: frame.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark)


def test_on_paper_a_figure_that_is_not_loaded_shows_its_text(read, beside, tmp_path):
    body = (
        '<div style="height:300vh"></div>'
        '<equiscope-figure src="love.html" title="Three words"><p>Words in a row.</p></equiscope-figure>'
        '<equiscope-figure src="love.html" title="No text"></equiscope-figure>'
    )
    tab = read("made.html", folder=written(tmp_path, beside, body), ready="equiscope-figure")
    tab.emulate_media(media="print")
    assert tab.get_by_text("Words in a row.").is_visible()
    assert tab.locator("equiscope-figure .blank").last.is_visible()
    assert tab.get_by_role("button", name="reset").count() == 0


def test_a_document_of_sphinx_in_myst_and_in_restructuredtext(watched, beside, tmp_path):
    pytest.importorskip("myst_parser")
    shutil.copytree(beside / "sphinx", tmp_path / "source")
    (tmp_path / "source" / "_static").mkdir()
    for name in ("love.html", figure.SCRIPT):
        shutil.copy(beside / name, tmp_path / "source" / "_static")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(tmp_path / "source"), str(tmp_path / "built")]
    subprocess.run(command, check=True, timeout=240)
    for name in ("index.html", "restructured.html"):
        tab = watched()
        tab.goto((tmp_path / "built" / name).as_uri())
        assert set(visible(inside(tab))) == {"strip", "output"}
        if name == "index.html":
            tab.get_by_role("link", name="all Love conquers").click()
            until(tab, lambda tab=tab: words(inside(tab)) == ["all", "Love", "conquers"])


@pytest.mark.skipif(not REVEAL.exists(), reason="reveal.js is not here: `npm ci` in web/ brings it")
def test_a_slide_of_reveal_js(watched, beside):
    if not (beside / "reveal.js").exists():
        shutil.copytree(REVEAL, beside / "reveal.js")
    tab = watched()
    tab.goto((beside / "slides.html").as_uri())
    tab.wait_for_selector(".reveal.ready")
    tab.keyboard.press("ArrowRight")
    frame = inside(tab)
    frame.wait_for_selector("main .words")
    tab.wait_for_timeout(1000)  # the slide moves in
    box = tab.locator("equiscope-figure iframe").bounding_box()
    button = frame.get_by_role("button", name="Reverse").evaluate("b => b.getBoundingClientRect().toJSON()")
    scale = box["width"] / frame.evaluate("innerWidth")  # reveal.js scales its slides, which Playwright's click does not follow
    assert scale != 1
    tab.mouse.click(box["x"] + scale * (button["x"] + 5), box["y"] + scale * (button["y"] + 5))
    until(tab, lambda: words(frame) == ["all", "conquers", "Love"])
    assert box["y"] + box["height"] <= 900


@pytest.mark.skipif(not shutil.which("pandoc"), reason="Install pandoc, which Quarto writes HTML with, to run this.")
def test_a_page_of_quarto_as_pandoc_writes_it(watched, beside):
    subprocess.run(["pandoc", "-s", "quarto.qmd", "-f", "markdown", "-t", "html", "-o", "quarto.html"], cwd=beside, check=True)
    tab = watched()
    tab.goto((beside / "quarto.html").as_uri())
    assert set(visible(inside(tab))) == {"strip", "output"}


LAB = [name for name in ("ipykernel", "nbconvert") if find_spec(name) is None]


@pytest.mark.slow
@pytest.mark.skipif(bool(LAB), reason=f"Install {' '.join(LAB)} to run this.")
def test_a_notebook_that_nbconvert_exports(tmp_path, browser):
    shutil.copy(HOSTS / "notebook.ipynb", tmp_path)
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "notebook.ipynb"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    context = browser.new_context(offline=True)
    tab = context.new_page()
    tab.goto((tmp_path / "notebook.html").as_uri(), wait_until="domcontentloaded")  # nbconvert's own scripts are on a network
    assert set(visible(inside(tab))) == {"strip", "output"}
    context.close()
