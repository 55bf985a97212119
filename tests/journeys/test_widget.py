"""A page in a notebook's cell: chosen there and read in Python, the other way round, and what an exported notebook keeps.

One test runs a real JupyterLab, where it is installed beside equiscope: pip install jupyterlab ipykernel nbconvert, then
python -m pytest -m "browser and slow" tests/journeys/test_widget.py. Others stand in for a notebook with a plain page.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import equiscope as eq
from equiscope.explore import page
from equiscope.explore.notebook import PageCell
from equiscope.explore.pages.sentence import Choice
from tests.journeys.barriers import AXE

pytestmark = pytest.mark.browser
IDS = torch.tensor([[5, 9, 14, 3, 5, 31]])
WORDS = ["the", "dog", "found", "its", "lawn", "</script>"]
NOTEBOOK = """<!doctype html><html lang="en"><head><title>A notebook</title><style>
  * { letter-spacing: 7px !important; } p { display: none; } body { color: %s; background: %s; }
</style></head><body><main><h1>A notebook</h1><div id="cell"></div></main>
<script>
  const state = %s, heard = {};
  window.model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; },
    save_changes: () => window.python("state", { link: state.link }),
    send: async (message) => {
      const { status, body } = await window.python("asked", message);
      const bytes = new TextEncoder().encode(body);
      fire("msg:custom", { ...message, status }, [new DataView(bytes.buffer)]);
    },
    on: (event, listener) => (heard[event] ??= new Set()).add(listener),
    off: (event, listener) => heard[event]?.delete(listener),
  };
  window.fire = (event, ...given) => heard[event]?.forEach((listener) => listener(...given));
  window.fromPython = (link) => { state.link = link; fire("change:link"); };
  window.listeners = () => Object.values(heard).reduce((sum, one) => sum + one.size, 0);
  window.mount = async (text) => {
    const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    const module = (await import(address)).default;
    window.away = await module.render({ model, el: document.getElementById("cell") });
  };
</script></body></html>"""


def gpt2():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=24, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    ).eval()


def number(frame):
    """The weight that the page explains."""
    return float(frame.wait_for_selector("[data-step='weight'] b").inner_text())


class Cell:
    """A cell of a notebook that is none: a plain page, with a model object as anywidget gives it, and Python behind it."""

    def __init__(self, tab, shown, folder, dark):
        self.tab, self.shown = tab, shown
        state = {"_page": shown.document(), "_title": "equiscope: a page", "height": shown.height, "link": shown.link}
        written = json.dumps(state).replace("</", "<\\/")
        file = folder / "notebook.html"
        file.write_text(NOTEBOOK % (("#eee", "#111", written) if dark else ("#111", "#fff", written)))
        tab.emulate_media(color_scheme="null")  # else what a test emulates holds in every frame
        tab.expose_function("python", self._heard)
        tab.goto(file.as_uri())
        tab.evaluate("(text) => mount(text)", page.bundled("widget.js"))
        self.frame = tab.wait_for_selector("iframe").content_frame()
        self.frame.wait_for_selector("h1")

    def _heard(self, what, message):
        if what == "state":
            self.shown.link = message["link"]
            return None
        status, body = self.shown.answer(message["ask"])
        return {"status": status, "body": body.decode()}

    def choose(self, **chosen):
        self.shown.selection = chosen
        self.tab.evaluate("(link) => fromPython(link)", self.shown.link)

    def until(self, holds):
        for _ in range(100):
            if holds():
                return
            self.tab.wait_for_timeout(50)
        raise AssertionError(f"it did not come to that: {self.shown.selection}")


@pytest.fixture
def cell(watched, tmp_path):
    """cell(shown) -> a notebook's cell with it."""

    def make(shown=None, wide=1280, dark=False):
        return Cell(watched(wide), shown or eq.show(gpt2(), IDS, labels=WORDS, height=0), tmp_path, dark)

    return make


def test_a_weight_that_is_chosen_in_the_cell_is_read_in_python(cell):
    made = cell()
    made.frame.locator(".overview .field").first.focus()
    made.frame.evaluate("equiscope.heads.open(1, 2)")
    made.until(lambda: made.shown.selection["layer"] == 1)
    field = made.frame.locator(".map .field").first
    field.wait_for()
    field.focus()
    for key in ("PageDown", "ArrowLeft", "ArrowLeft", "ArrowUp"):
        made.tab.keyboard.press(key)
    made.until(lambda: made.shown.selection["row"] == 4)
    chosen = made.shown.selection
    assert (chosen["layer"], chosen["head"]) == (1, 2)
    wanted = made.shown.weights()[chosen["row"], chosen["column"]].item()
    read = made.frame.evaluate(
        "([n, m]) => equiscope.heads.score(1, 2, n, m).then((s) => s.weight)", [chosen["row"], chosen["column"]]
    )
    assert read == pytest.approx(wanted, abs=1e-9)  # both in float64, from the same float32 queries and keys
    assert number(made.frame) == pytest.approx(wanted, rel=1e-6)  # as many digits as are shown


def test_a_click_on_a_weight_arrives_too(cell):
    made = cell(eq.show(gpt2(), IDS, labels=WORDS, height=0, selection={"layer": 0, "head": 1}))
    canvas = made.frame.locator(".map canvas").first
    canvas.wait_for()
    made.until(lambda: made.frame.evaluate("document.querySelector('.map canvas').width > 100"))
    box = made.frame.locator(".map .across").first
    box.wait_for(state="attached")
    at = canvas.evaluate("(c) => [c.clientWidth, c.clientHeight]")
    canvas.click(position={"x": at[0] * 0.5, "y": at[1] * 0.85})
    made.until(lambda: made.shown.selection["row"] is not None and made.shown.selection["column"] is not None)


def test_what_python_chooses_is_shown_and_no_step_of_going_back(cell):
    made = cell()
    before = made.tab.evaluate("history.length")
    made.choose(layer=0, head=3, row=5, column=1)
    made.frame.wait_for_selector('[data-step="weight"] b')
    state = made.frame.evaluate("equiscope.heads.state")
    assert (state["open"], state["row"], state["column"]) == ([0, 3], 5, 1)
    told = number(made.frame)
    assert told == pytest.approx(made.shown.weights()[5, 1].item(), rel=1e-6)
    made.choose(layer=None, head=None)
    made.until(lambda: made.frame.evaluate("equiscope.heads.state.open === undefined"))
    assert made.tab.evaluate("history.length") == before


def test_in_a_low_cell_the_head_that_python_chooses_comes_into_sight(cell):
    made = cell(eq.show(gpt2(), IDS, labels=WORDS, height=500))
    made.choose(layer=1, head=1)
    top = "document.querySelector('.detail').getBoundingClientRect().top"
    made.until(lambda: abs(made.frame.evaluate(top)) < 5)
    made.frame.evaluate("scrollTo(0, 0)")
    made.choose(row=3)  # the same head: where one reads, one stays
    made.tab.wait_for_timeout(300)
    assert made.frame.evaluate("scrollY") == 0


def test_what_is_much_is_asked_for_head_by_head(cell):
    shown = eq.show(gpt2(), IDS, labels=WORDS, height=0)
    shown.live_bytes = 0
    made = cell(shown)
    assert made.frame.evaluate("equiscope.heads.record.layers.every((layer) => !layer.tensors)")
    made.choose(layer=1, head=0, row=3, column=2)
    told = number(made.frame)
    assert told == pytest.approx(made.shown.weights()[3, 2].item(), rel=1e-6)


def test_the_model_runs_again_through_the_notebook(cell):
    made = cell()
    made.frame.get_by_role("button", name="Shuffle the tokens").click()
    made.frame.wait_for_selector(".rerun-result table")
    assert made.frame.evaluate("equiscope.heads.record.rerun.order.length") == 6


def test_neither_style_reaches_the_other_and_the_frame_cannot_reach_the_notebook(cell):
    made = cell()
    spacing = "getComputedStyle(document.querySelector('h1')).letterSpacing"
    assert made.tab.evaluate(spacing) == "7px"
    assert made.frame.evaluate(spacing) != "7px"
    assert made.frame.locator("p.lede").first.is_visible()
    assert made.tab.evaluate("getComputedStyle(document.querySelector('h1')).fontStyle") == "normal"
    assert made.frame.evaluate("origin") == "null"
    assert made.tab.locator("iframe").get_attribute("title") == "equiscope: a page"
    assert made.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_cell_is_as_high_as_its_page(cell):
    made = cell()
    made.until(lambda: made.tab.evaluate("document.querySelector('iframe').clientHeight") > 600)
    assert made.frame.evaluate("document.documentElement.scrollHeight <= innerHeight + 1")
    low = cell(eq.show(gpt2(), IDS, height=500))
    low.until(lambda: low.tab.evaluate("document.querySelector('iframe').clientHeight") == 500)


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_dark_where_the_notebook_is(cell, dark):
    made = cell(dark=dark)
    made.until(lambda: made.frame.evaluate(f"matchMedia('(prefers-color-scheme: dark)').matches === {str(dark).lower()}"))
    paper = made.frame.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(22, 23, 27)" if dark else "rgb(251, 250, 247)")
    made.tab.evaluate("dark => { document.body.style.color = dark ? '#000' : '#fff'; }", dark)  # as another theme would
    made.until(lambda: made.frame.evaluate(f"matchMedia('(prefers-color-scheme: dark)').matches === {str(not dark).lower()}"))


def test_a_cell_that_is_gone_listens_to_nothing(cell):
    made = cell()
    assert made.tab.evaluate("listeners()") == 2
    made.tab.evaluate("away()")
    assert made.tab.evaluate("listeners()") == 0


def test_links_of_a_page_stay_in_its_frame(cell):
    made = cell(eq.show(Choice("Love conquers all"), height=0))
    made.frame.get_by_role("link", name="Shift").click()
    made.until(lambda: made.shown.selection.get("story") == "slide")
    made.choose(story="shuffle")
    made.until(lambda: made.frame.evaluate("document.querySelector('.tabs [aria-current]').textContent.includes('Shuffle')"))
    assert made.frame.url.startswith("about:srcdoc")


def test_the_cell_has_no_barriers(cell):
    made = cell(dark=True)
    made.choose(layer=0, head=3, row=5, column=1)
    made.frame.wait_for_selector('[data-step="weight"] b')
    made.tab.evaluate(AXE.read_text(encoding="utf-8"))
    found = made.tab.evaluate(
        "axe.run({ iframes: false }).then((r) => r.violations.filter((v) => v.impact !== 'minor').map((v) => v.id))"
    )
    assert found == []


# ------------------------------------------------------------------------------------------------------- what a notebook keeps


def exported(shown, folder):
    """The page of an exported notebook that has this cell."""
    file = folder / "exported.html"
    file.write_text(f"<!doctype html><html><body>{PageCell._repr_mimebundle_(shown)['text/html']}</body></html>")
    return file.as_uri()


def test_an_exported_cell_shows_its_numbers_without_kernel_or_network(watched, tmp_path):
    shown, tab = eq.show(gpt2(), IDS, labels=WORDS, selection={"layer": 0, "head": 3, "row": 5, "column": 1}), watched()
    tab.goto(exported(shown, tmp_path))
    frame = tab.wait_for_selector("iframe").content_frame()
    told = number(frame)
    assert told == pytest.approx(shown.weights()[5, 1].item(), rel=1e-6)
    frame.locator('[aria-label="Save the map as SVG"]').wait_for()
    frame.evaluate("equiscope.heads.set({ row: 4, column: 0 })")
    assert frame.evaluate("document.documentElement.dataset.link") == "head=0.3&query=4&key=0"


def test_without_scripts_there_is_a_picture_and_a_table(watched, tmp_path):
    shown, tab = eq.show(gpt2(), IDS, labels=WORDS), watched(java_script_enabled=False)
    tab.goto(exported(shown, tmp_path))
    tab.locator("summary").click()
    assert tab.locator("tbody tr").count() == 8
    assert tab.locator("tbody tr").nth(5).locator("td").nth(5).inner_text() == f"{shown.content.layers[1].heads[1].first:.6g}"
    assert tab.locator("details img").evaluate("(i) => i.naturalWidth") == 4 * 26


# ------------------------------------------------------------------------------------------------------------ a real notebook

LAB = ("jupyterlab", "ipykernel", "nbconvert", "anywidget")
MISSING = [name for name in LAB if find_spec(name) is None]
lab = pytest.mark.skipif(bool(MISSING), reason=f"Install {' '.join(MISSING)} to run this in a real JupyterLab.")
MADE = """import torch
from transformers import GPT2Config, GPT2LMHeadModel
import equiscope as eq

torch.manual_seed(0)
sizes = dict(vocab_size=50, n_positions=24, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(GPT2Config(**sizes)).eval()
view = eq.show(model, torch.tensor([[5, 9, 14, 3, 5, 31]]), selection={"layer": 0, "head": 3, "row": 5, "column": 1})
view"""


def written(folder):
    """A notebook of two cells: one shows the page, one says what is chosen."""
    cells = [
        {"cell_type": "code", "id": f"cell-{i}", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for i, source in enumerate([MADE, "print('chosen', view.selection)"])
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    file = folder / "mine.ipynb"
    file.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    return file


@pytest.fixture
def jupyter(tmp_path):
    """Where Jupyter keeps nothing of the person who runs this, and writes no history."""
    kept = {f"JUPYTER_{name}_DIR": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    return {**os.environ, **kept, "IPYTHONDIR": str(tmp_path / "ipython"), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def running(tmp_path, jupyter):
    """A JupyterLab on this machine -> the address of the notebook in it."""
    file, token = written(tmp_path), secrets.token_hex(16)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += [f"--ServerApp.root_dir={tmp_path}", f"--IdentityProvider.token={token}", "--ServerApp.port_retries=0"]
    log = (tmp_path / "lab.log").open("w")
    process = subprocess.Popen(command, env=jupyter, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urlopen(f"{address}/api?token={token}", timeout=2).close()
                break
            except (URLError, OSError):
                assert process.poll() is None, (tmp_path / "lab.log").read_text()
                time.sleep(0.5)
        yield f"{address}/lab/tree/{file.name}?token={token}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
        log.close()


@lab
@pytest.mark.slow
def test_a_cell_of_jupyterlab_shows_the_weights_and_says_what_is_chosen(running, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    tab, asked = context.new_page(), []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(running)
    tab.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=120_000)
    tab.get_by_text("| Idle").wait_for(timeout=120_000)
    for _ in range(60):  # before the kernel is there a cell that is run is forgotten
        tab.locator(".jp-CodeCell .cm-content").first.click()
        tab.keyboard.press("Shift+Enter")
        tab.wait_for_timeout(1000)
        if tab.locator(".jp-CodeCell .jp-InputPrompt").first.inner_text() != "[ ]:":
            break
    frame = tab.wait_for_selector('.jp-OutputArea-output iframe[title^="equiscope"]', timeout=180_000).content_frame()
    told = number(frame)
    wanted = eq.show(gpt2(), IDS, selection={"layer": 0, "head": 3}).weights()[5, 1].item()
    assert told == pytest.approx(wanted, rel=1e-6)
    frame.evaluate("equiscope.heads.set({ row: 4, column: 2 })")
    tab.wait_for_timeout(500)
    tab.locator(".jp-CodeCell .cm-content").nth(1).click()
    tab.keyboard.press("Shift+Enter")
    said = tab.wait_for_selector(".jp-CodeCell:nth-of-type(2) .jp-OutputArea-output pre", timeout=60_000).inner_text()
    assert said.strip() == "chosen {'layer': 0, 'head': 3, 'row': 4, 'column': 2}"
    frame.get_by_role("button", name="Shuffle the tokens").click()
    frame.wait_for_selector(".rerun-result table", timeout=60_000)
    assert not [url for url in asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))]
    context.close()


@lab
@pytest.mark.slow
def test_a_page_in_a_notebook_that_nbconvert_exports_needs_no_network(tmp_path, jupyter, browser):
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "--ExecutePreprocessor.store_widget_state=False"]
    made = subprocess.run([*command, str(written(tmp_path))], env=jupyter, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    context, asked = browser.new_context(offline=True), []
    tab = context.new_page()
    tab.on("request", lambda request: asked.append(request.url) if request.frame != tab.main_frame else None)
    tab.goto((tmp_path / "mine.html").as_uri(), wait_until="domcontentloaded")  # nbconvert's own scripts are on a network
    frame = tab.wait_for_selector('iframe[title^="equiscope"]').content_frame()
    told = number(frame)
    wanted = eq.show(gpt2(), IDS, selection={"layer": 0, "head": 3}).weights()[5, 1].item()
    assert told == pytest.approx(wanted, rel=1e-6)
    assert asked == []
    context.close()
