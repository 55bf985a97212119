"""Make the pictures of the docs from the page itself: `python docs/pictures.py`; with names, only those.

The page is exported, opened in Chromium, put into a state by its own link, and cut out. Chromium is the one named in
EQUISCOPE_BROWSER, or the first usual name on PATH. Run `python3 run.py setup` first: it builds the page.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from playwright.sync_api import Browser, Page, sync_playwright
from torch import nn

import equiscope
from equiscope import explore, trained
from equiscope.cli.heads import ModelInput, _prepare, page_of, routes
from equiscope.explore.page import html
from equiscope.explore.pages.attribution import attribution
from equiscope.explore.pages.cost import cost
from equiscope.explore.pages.graph import graph
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.image import image
from equiscope.explore.pages.masks import masks
from equiscope.explore.pages.molecule import molecule
from equiscope.explore.pages.run import POLICY
from equiscope.explore.pages.tokens import tokens
from equiscope.explore.server import server
from equiscope.record import Comparison, read_run, report, run_report
from equiscope.tokens.elements import SYMBOLS
from equiscope.training import Recipe, fit, load_run, load_task, open_task, read_recipe

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from contract.golden import drawn  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
LARGEST = 150_000  # bytes of one picture
FIRST = (  # of any page
    "figure.matrix, table.rows, .compared table, .plot, .desk canvas, "
    ".candidates, .stack, .architecture, .edge, .photo, .mask-panel, .stage"
)
MARGIN = 8  # pixels around what is cut out

Shot = tuple[str, dict, Callable[[Page], dict | None]]  # the link's fragment, the screen, what to do and where to cut


def around(*selectors: str, only: str = "*") -> Callable[[Page], dict]:
    """Cut out what these elements cover, without the bar at the bottom; of many cards, only some."""

    def cut(page: Page) -> dict:
        page.add_style_tag(content=f".explain, .card:not({only}) {{ display: none }}")
        boxes = [page.locator(s).first.bounding_box() for s in selectors]
        found = [box for box in boxes if box]
        if len(found) < len(selectors):
            sys.exit(f"The page no longer shows one of: {', '.join(selectors)}. Change docs/pictures.py with it.")
        left, top = (max(0, min(b[side] for b in found) - MARGIN) for side in ("x", "y"))
        right = max(b["x"] + b["width"] for b in found) + MARGIN
        bottom = max(b["y"] + b["height"] for b in found) + MARGIN
        return {"x": left, "y": top, "width": right - left, "height": bottom - top}

    return cut


def pointing(value: str, row: int, column: int) -> Callable[[Page], None]:
    """Point at one number, and take the whole screen: the bar at the bottom says where the number comes from."""

    def point(page: Page) -> None:
        cell = page.locator(f'figure[data-id$="{value}"] [data-r="{row}"][data-c="{column}"]').first
        box = cell.bounding_box()
        if not box or box["y"] > page.viewport_size["height"] - 100:  # else the bar at the bottom would hide it
            cell.evaluate("cell => cell.scrollIntoView({ block: 'center' })")
            box = cell.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(200)

    return point


def inside(module: str, value: str, row: int, column: int) -> Callable[[Page], None]:
    """Open the steps of a module, and point at one number in them."""

    def open_and_point(page: Page) -> None:
        page.locator(f'details[data-module="{module}"] summary').first.click()
        page.wait_for_timeout(300)
        pointing(value, row, column)(page)

    return open_and_point


def asked(page: Page) -> dict | None:
    """Both pictures of a molecule and what is measured, when the models have answered."""
    page.locator(".model-card[data-holds=true]").wait_for()
    page.locator(".model-card[data-holds=false]").wait_for()
    page.wait_for_timeout(1500)  # until it is drawn finely
    return around(".two")(page)


def changed_model(page: Page) -> dict | None:
    """The answer of a changed model and the actions beside it, when the model has answered."""
    page.locator(".model-answer .summary", has_text="Forward passes: 1").wait_for()
    page.locator(".model-actions .summary", has_text="→").wait_for()
    page.add_style_tag(content=".desk { grid-template-columns: 360px 660px !important }")
    return around(".model-answer", ".detail .heading", ".model-actions")(page)


WIDE = {"viewport": {"width": 1200, "height": 900}}
LOW = {"viewport": {"width": 880, "height": 540}}
SHOTS: dict[str, Shot] = {
    "numbers": ("", {"viewport": {"width": 1200, "height": 1080}}, pointing("attention.matmul~2", 0, 0)),
    "drawing": ("box=blocks.0.cross", WIDE, around(".architecture")),
    "parity": ("", {"viewport": {"width": 900, "height": 900}}, around(".compared .layer")),
    "report": ("", WIDE, around("#app header", ".card:has(.trail)", only=":has(.trail)")),
    "run": ("", WIDE, around(".heading", ".readout", ".curves h2")),
    "watched": ("", {"viewport": {"width": 1200, "height": 740}}, inside("self_attn", "self_attn._safe_softmax", 1, 0)),
    "looking": ("head=2.1", WIDE, around(".samples-part")),
    "heads": ("", WIDE, around(".desk")),
    "interventions": ("head=1.1&query=9&key=8&change=zero_output_1.1&second=The+boss+is+dead%2C+long+live", WIDE, changed_model),
    "attribution": ("token=39", WIDE, around(".fields", ".scores")),
    "comparison": ("", WIDE, around("#app h1", ".candidates")),
    "cost": ("", WIDE, around(".where h2", ".stack")),
    "image": ("", {"viewport": {"width": 320, "height": 900}}, around(".photo")),
    "graph": ("graph=chain&word=2", WIDE, around(".sides .picture", ".edges")),
    "sound": ("token=59", WIDE, around(".summary", ".stack")),
    "molecule": ("rotation=0.125,-0.313,-0.94,0.05&labels=off", LOW, asked),
    "masks": ("mask=causal.window-3&cell=4.3", WIDE, around(".part h2", ".mask-panel")),
    "patches": ("see=picture&token=108&number=99", WIDE, around(".summary", ".beside")),
}  # fmt: skip
MADE = {
    "drawing": "drawing",
    "parity": "parity",
    "report": "report",
    "run": "run",
    "looking": "run",
    "watched": "watched",
    "heads": "heads",
    "interventions": "interventions",
    "attribution": "attribution",
    "comparison": "comparison",
    "cost": "cost",
    "image": "image",
    "graph": "graph",
    "sound": "tokens",
    "patches": "tokens",
    "masks": "masks",
    "molecule": "molecule",
}
RECIPE = Path(__file__).parents[1] / "recipes" / "shakespeare-char-cpu.toml"  # trained on the sample beside it, for a minute
CHANGES = ["budget.steps=600", "evaluation.every=50"]
ANSWER = RECIPE.parent / "questions" / "results" / "heads.json"
PARITY = Path(__file__).parent / "howto" / "parity.md"  # as below
HOWTO = Path(__file__).parent / "howto" / "report.md"  # whose code is checked for the picture beside it


def browser_path() -> str | None:
    """The browser to use; None leaves the choice to Playwright."""
    named = os.environ.get("EQUISCOPE_BROWSER")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def take(browser: Browser, page_file: Path | str, name: str) -> Path:
    """One picture, of a file or of an address. Exits with a sentence where the page failed or the picture is too large."""
    link, screen, act = SHOTS[name]
    page = browser.new_page(device_scale_factor=1, reduced_motion="reduce", **screen)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(f"{page_file if isinstance(page_file, str) else page_file.as_uri()}#{link}")
    page.locator(FIRST).filter(visible=True).first.wait_for()
    page.wait_for_timeout(400)  # tables of measurements are filled a moment later
    clip = act(page)
    target = FOLDER / f"{name}.png"
    page.screenshot(path=target, full_page=clip is not None, **({"clip": clip} if clip else {}))
    page.close()
    if failures:
        sys.exit(f"The page failed while {name} was taken: {failures[0]}")
    if target.stat().st_size > LARGEST:
        sys.exit(f"{target.name} has {target.stat().st_size} bytes, more than {LARGEST}. Cut out less.")
    return target


def _first_block(page: Path) -> dict[str, Any]:
    """What the first Python block of a how-to defines."""
    made: dict[str, Any] = {"__name__": page.stem}
    exec(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[0], made)
    return made


def report_file(folder: Path) -> Path:
    """The report of the check that the how-to makes."""
    return explore.write(report(_first_block(HOWTO)["audit"]), folder / "report.html")


def parity_file(folder: Path) -> Path:
    """The comparison that the how-to makes."""
    return explore.write(_first_block(PARITY)["parity"], folder / "parity.html")


def drawing_file(folder: Path) -> Path:
    """An encoder and a decoder."""
    return explore.write(explore.drawing(drawn()["t5"], "T5"), folder / "drawing.html")


def heads_file(folder: Path) -> Path:
    """All heads of the model of that run."""
    run_file(folder)
    _, task = load_task(folder / "run")
    model = load_run(folder / "run").eval()
    inputs = task.model_inputs(model, "To be, or not to be: that is the question")
    looked = HeadsPage(model, inputs.args, inputs.kwargs, inputs.sequences, "A small model of letters", "run")
    return explore.write(looked.file(), folder / "heads.html")


def attribution_file(folder: Path) -> Path:
    """What decides that the example of the trained classifier is an ankle boot."""
    ready = _prepare("clothes", ModelInput(image=trained.examples("clothes")[0]), 0)
    content = attribution(ready.model, ready.args, ready.kwargs, ready.sequences, ready.reader, "ankle-boot.png", "clothes")
    return explore.write(content, folder / "attribution.html")


def intervention_page(folder: Path) -> str:
    """The served page of the trained character model; its server ends with this process."""
    shown = page_of("characters", ModelInput(text="The king is dead, long live"))
    answers, runs, frames = routes(shown)
    return server(html(shown.content, policy=POLICY), 8765, answers, runs, frames=frames).url


def comparison_file(folder: Path) -> Path:
    """The recorded answer to a question."""
    return explore.write(msgspec.json.decode(ANSWER.read_bytes(), type=Comparison), folder / "comparison.html")


def cost_file(folder: Path) -> Path:
    """Formulas alone: times would be of the machine that makes the picture."""
    return explore.write(cost(), folder / "cost.html")


def graph_file(folder: Path) -> Path:
    """A sentence as a graph."""
    return explore.write(graph("only who can prevent forest fires", 0), folder / "graph.html")


def image_file(folder: Path) -> Path:
    """The photograph that comes along."""
    return explore.write(image(), folder / "image.html")


def watched_file(folder: Path) -> Path:
    """The layer of the page on any module."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()
    program = equiscope.watch(layer, torch.randn(1, 3, 8, dtype=torch.float64))
    return equiscope.export(program, folder / "watched.html", title="an encoder layer")


def tokens_file(folder: Path) -> Path:
    """A sound, a picture and a film that are made."""
    return explore.write(tokens(None, None, None), folder / "tokens.html")


def masks_file(folder: Path) -> Path:
    """Six words."""
    return explore.write(masks("the dog is on the lawn", 0), folder / "masks.html")


def molecule_file(folder: Path) -> Path:
    """Aspirin, the first frame of rMD17's sample."""
    found = np.load(RECIPE.parent / "samples" / "aspirin.npz")
    symbols = [SYMBOLS[n - 1] for n in found["nuclear_charges"]]
    rows = [f"{symbol} {x} {y} {z}" for symbol, (x, y, z) in zip(symbols, found["coords"][0].tolist(), strict=True)]
    path = folder / "aspirin.xyz"
    path.write_text("\n".join([str(len(rows)), "", *rows]), encoding="utf-8")
    return explore.write(molecule(path), folder / "molecule.html")


def run_file(folder: Path) -> Path:
    """The page of a short run; trained when a picture of it is asked for."""
    page = folder / "run.html"
    if not page.exists():
        recipe = read_recipe(RECIPE, CHANGES, small=True)
        explore.write(run_report(read_run(_trained(recipe, folder / "run"))), page)
    return page


def _trained(recipe: Recipe, folder: Path) -> Path:
    fit(recipe, open_task(recipe, RECIPE.parent), folder, recipe_folder=RECIPE.parent)
    return folder


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in SHOTS]
    if unknown:
        sys.exit(f"There is no picture called {unknown[0]!r}. Known: {', '.join(SHOTS)}.")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = explore.write(explore.explorable(explore.Choice()), Path(folder) / "page.html")
        make = {
            "drawing": drawing_file, "report": report_file, "run": run_file, "heads": heads_file, "comparison": comparison_file,
            "cost": cost_file, "graph": graph_file, "image": image_file, "tokens": tokens_file,
            "attribution": attribution_file, "interventions": intervention_page, "masks": masks_file,
            "watched": watched_file, "molecule": molecule_file, "parity": parity_file,
        }  # fmt: skip
        browser = playwright.chromium.launch(executable_path=browser_path(), args=list(QUIET))
        for name in names or SHOTS:
            file = make[MADE[name]](Path(folder)) if name in MADE else page_file  # others are of stories
            target = take(browser, file, name)
            print(f"{target.name:18} {target.stat().st_size / 1000:4.0f} kB")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
