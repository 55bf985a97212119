"""Every page as a figure: its parts and goals are those of docs/reference/figures.md, and it fits a phone as it fits a screen."""

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest
import torch

import equiscope as eq
from equiscope import explore
from equiscope.explore import figure
from equiscope.explore.page import write
from equiscope.explore.pages.graph import graph
from equiscope.explore.pages.image import image
from equiscope.explore.pages.masks import masks
from equiscope.explore.pages.molecule import molecule
from equiscope.explore.pages.reach import reach
from equiscope.explore.pages.tokens import tokens
from equiscope.program.lower import lowered
from equiscope.record import Comparison, report, run_report
from tests.explore.audits import planted
from tests.explore.costs import recorded
from tests.explore.molecules import handed
from tests.explore.runs import run
from tests.journeys import heads
from tests.journeys.conftest import FLAGS, browser_path
from tests.journeys.test_molecule import BLIND
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "figures.md"
ANSWER = ROOT / "recipes" / "questions" / "results" / "heads.json"
if not TABLE.exists():
    pytest.skip("docs/ is not in the source archive", allow_module_level=True)
ALWAYS = {"title", "tools", "tabs", "sentence", "footer", "notes"}  # of any page that has them


def watched():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()
    return lowered(eq.watch(layer, torch.randn(1, 3, 8, dtype=torch.float64)), arrays=False, title="an encoder layer")


STORIES = ("numbers", "shuffle", "positions", "slide", "clocks", "readouts")
PAGES = {
    **{f"sentence, story={story}": (lambda _: explore.explorable(explore.Choice()), f"story={story}") for story in STORIES},
    "drawing": (lambda _: explore.drawing(eq.models.spec_of("gpt2"), "GPT-2"), ""),
    "masks": (lambda _: masks("Love conquers all", 0), ""),
    "graph": (lambda _: graph("Love conquers all", 0), ""),
    "cost": (lambda _: recorded(), ""),
    "reach": (lambda _: reach(), ""),
    "image": (lambda _: image(), ""),
    **{f"tokens, see={kind}": (lambda _: tokens(None, None, None), f"see={kind}") for kind in ("sound", "picture", "film")},
    "molecule": (lambda folder: molecule(handed(folder / "handed.xyz")), ""),
    "heads": (lambda _: heads.words(), "head=0.0"),
    "check": (lambda _: report(planted()), ""),
    "run": (lambda _: run_report(run()), ""),
    "compare": (lambda _: msgspec.json.decode(ANSWER.read_bytes(), type=Comparison), ""),
    "program": (lambda _: watched(), ""),
}
LOOSE = """[...document.querySelectorAll('#app *')]
    .filter((e) => e.checkVisibility() && !e.closest('[data-part], .explain, .unfold'))
    .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => e.outerHTML.slice(0, 120))"""
SEEN = "[...new Set([...document.querySelectorAll('[data-part]')].flatMap((e) => e.dataset.part.split(' ')))]"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("parts"), {}

    def file(name):
        page = name.partition(",")[0]
        if page not in made:
            made[page] = write(PAGES[name][0](folder), folder / f"{page}.html")
            (folder / figure.SCRIPT).write_text(figure.script())
        return made[page]

    return file


@pytest.fixture
def shown(watched, files):
    """A document with a figure of a page: shown(name) -> the tab, the frame's page."""

    def open_document(name, wide=1280, part="", dark=False):
        page = files(name)
        made = page.parent / "document.html"
        tag = figure.tag(page.name, "A figure", PAGES[name][1], part)
        head = f'<meta name="viewport" content="width=device-width"><title>t</title><script src="{figure.SCRIPT}" defer></script>'
        made.write_text(
            f'<!doctype html><html lang="en"><head>{head}</head><body style="margin:0"><main>{tag}</main></body></html>'
        )
        tab = watched(wide, dark)
        tab.add_init_script(BLIND)
        tab.goto(made.as_uri())
        frame = tab.wait_for_selector("equiscope-figure iframe").content_frame()
        frame.wait_for_selector("main", state="attached")
        return tab, frame

    return open_document


@cache
def listed():
    """The tables of the docs: page -> names."""
    parts, goals = TABLE.read_text(encoding="utf-8").split("## Goals")
    found = [dict(re.findall(r"^\| ([^|]+?) \| ([^|]*?) \|$", text, re.MULTILINE)) for text in (parts, goals)]
    return [{name: set(re.findall(r"`([^`]+)`", names)) for name, names in table.items()} for table in found]


def parts_of(frame):
    return [part for part in frame.evaluate(SEEN) if part not in ALWAYS and not part.startswith("scheme-")]


def goals_of(frame):
    return frame.evaluate("Object.keys(equiscope.goals ?? {})")


LATER = ("positions", "slide", "clocks", "readouts", "picture", "film")  # further states of a page
IN_ORDER = sorted(PAGES, key=lambda name: name.endswith(LATER))


@pytest.mark.parametrize("name", few(IN_ORDER, len(PAGES) - len(LATER)))
def test_a_page_has_the_parts_and_goals_of_the_docs_and_fits_a_figure_on_a_phone(shown, name):
    """`python -m tests.journeys.test_figure_parts` writes the tables of the docs."""
    tab, frame = shown(name, wide=390)
    parts, goals = listed()
    at_rest(tab, frame, parts.get(name, set()))
    assert parts.get(name, set()) == set(parts_of(frame))
    assert goals.get(name.partition(",")[0], set()) == set(goals_of(frame))
    assert frame.evaluate(LOOSE) == [], "every text of the page is in a part"
    assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def at_rest(tab, frame, parts):
    """Wait until these parts are there and the figure is as high as its page: a third of a second later nothing is different."""
    before = None
    for _ in range(30):
        now = tab.locator("iframe").bounding_box(), frame.evaluate("document.documentElement.scrollHeight"), parts_of(frame)
        if now == before and parts <= set(now[2]):
            return
        before = now
        tab.wait_for_timeout(300)
    raise AssertionError(f"the figure grows with its page, or has not all of {parts}: {before}")


def write_tables():
    """The tables of the docs, from every page in the browser."""
    from tempfile import TemporaryDirectory

    from playwright.sync_api import sync_playwright

    parts, goals = {}, {}
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=FLAGS)
        for name, (make, state) in PAGES.items():
            tab = browser.new_page(reduced_motion="reduce")
            tab.add_init_script(BLIND)
            tab.goto(f"{write(make(Path(folder)), Path(folder) / 'page.html').as_uri()}#{state}")
            tab.wait_for_selector("main")
            tab.wait_for_timeout(600)
            parts[name], goals[name.partition(",")[0]] = parts_of(tab), goals_of(tab)
            tab.close()
        browser.close()
    text = TABLE.read_text(encoding="utf-8")
    for heading, found in (("parts", parts), ("goals", goals)):
        rows = [f"| {name} | {', '.join(f'`{one}`' for one in names)} |" for name, names in found.items() if names]
        table = "\n".join([f"| page | {heading} |", "| --- | --- |", *rows])
        text = re.sub(rf"\| page \| {heading} \|\n(\|.*\n?)*", table + "\n", text)
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_tables()
