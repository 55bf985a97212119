"""A real browser for the page's tests: the machine's own Chromium, a fresh profile, and no network."""

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Renderers that Chromium starts ahead for its address bar and for the next page: a test needs neither
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess",
]
HOW = "No browser was found. Install Chromium (Debian: apt install chromium), or name one in EQUISCOPE_BROWSER."


def browser_path() -> str | None:
    named = os.environ.get("EQUISCOPE_BROWSER")
    found = [named] if named else [shutil.which(name) for name in NAMES]
    return next((path for path in [*found, MAC] if path and Path(path).exists()), None)


@pytest.fixture(scope="session")
def browser():
    path = browser_path()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(HOW)
        pytest.skip(HOW)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@cache
def explored(choice):
    """The record of the page of a sentence; made once for each `Choice`."""
    from equiscope import explore

    return explore.explorable(choice)


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Exports a page once for each choice: exported(sentence="...", heads=2) -> its path."""
    from equiscope import explore

    folder, files = tmp_path_factory.mktemp("pages"), {}

    def export(**fields) -> Path:
        choice = explore.Choice(**fields)
        if choice not in files:
            files[choice] = explore.write(explored(choice), folder / f"{len(files)}.html")
        return files[choice]

    return export


@pytest.fixture
def watched(browser, unchecked):
    """watched(wide=390, dark=True, ...) -> a tab that is watched; further options are Playwright's of a context.

    Whatever a page asks of a network, logs as an error or throws fails the test. Its record is made without the checks of shapes:
    tests/explore makes the same ones with them.
    """
    contexts, troubles = [], []

    def open_tab(wide=1280, dark=False, calm=True, **options):
        context = browser.new_context(
            viewport={"width": wide, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True,
            reduced_motion="reduce" if calm else "no-preference", **options,
        )  # fmt: skip
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        tab.on("console", lambda line: troubles.append(f"console: {line.text}") if line.type == "error" else None)
        tab.on("request", lambda request: troubles.append(request.url) if not local(request.url) else None)
        return tab

    yield open_tab
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def visit(watched, exported):
    """Opens a page: visit("story=shuffle", wide=390, sentence="...") -> the tab."""

    def open_page(fragment="", wide=1280, dark=False, touch=False, calm=True, bypass_csp=False, **choice):
        tab = watched(wide, dark, calm, has_touch=touch, bypass_csp=bypass_csp)
        tab.goto(f"{exported(**choice).as_uri()}#{fragment}")
        tab.wait_for_selector("main h2")
        return tab

    return open_page


def local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))
